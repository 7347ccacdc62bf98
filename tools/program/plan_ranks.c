#include "program/plan_ranks.h"

#include "common/message.h"
#include "common/text.h"
#include "program/follow.h"

#include <inttypes.h>
#include <stdio.h>

static struct {
  double bandwidth, latency; /* Gbit/s, microseconds */
} flags = {.bandwidth = 10, .latency = 100};

static ac_network measured; /* no bandwidth: it was not */
static int launched = 1;    /* ranks that have measured it */

void plan_ranks_flags(options *o) {
  const option rows[] = {
      FLAG("bandwidth", OPTION_REAL, &flags.bandwidth),
      FLAG("latency", OPTION_REAL, &flags.latency),
  };
  OPTIONS_ADD(o, rows);
}

int plan_ranks_measure(int argc, char **argv) {
  ac_ranks *ranks;
  int status = ranks_open(argc, argv, &ranks);
  if (status != STATUS_CONTINUE || !ranks) return status;
  const bool leads = ranks_lead(ranks);
  if (ac_ranks_measure(ranks, &measured) != AC_OK) return ranks_close(ranks, fail_library());
  launched = ac_ranks_size(ranks);
  ranks_close(ranks, STATUS_DONE);
  return leads ? STATUS_CONTINUE : STATUS_DONE;
}

void plan_ranks_settle(setup *s) {
  if (s->flags.ranks == 1) s->flags.ranks = launched;
}

/* ---- plans ----------------------------------------------------------------------------------- */

static struct {
  void (*change)(ac_plan_desc *desc);
  int ranks;
} asked;

static void change_ranks(ac_plan_desc *desc) {
  if (asked.change) asked.change(desc);
  desc->ranks = asked.ranks;
  desc->rank = 0;
}

static int price_one(const setup *s, const ac_network *network, priced_ranks *row) {
  ac_plan *plan;
  asked.ranks = row->ranks;
  const ac_status status = setup_try_plan(s, change_ranks, &plan);
  if (status == AC_ERROR_BUDGET) return STATUS_CONTINUE;
  if (status != AC_OK) return fail_library();
  const ac_plan_info *info = ac_plan_get_info(plan);
  row->fits = true;
  row->share = info->share;
  row->bytes = info->bytes.total;
  const ac_status priced = ac_plan_price_ranks(plan, network, &row->price);
  ac_plan_free(plan);
  return priced == AC_OK ? STATUS_CONTINUE : fail_library();
}

int plan_ranks_price(const setup *s, void (*change)(ac_plan_desc *desc), ranks_report *report) {
  const int most = (int)s->flags.ranks;
  *report = (ranks_report){.network = {flags.bandwidth * 1e9 / 8, flags.latency * 1e-6}};
  report->measured = measured.bandwidth > 0;
  if (report->measured) report->network = measured;
  if (most < 2) return STATUS_CONTINUE;
  asked.change = change;
  const priced_ranks *first = NULL;
  for (int ranks = 1; ranks / 2 < most && report->count < MOST_PRICED; ranks *= 2) {
    priced_ranks *row = &report->rows[report->count++];
    *row = (priced_ranks){.ranks = ranks < most ? ranks : most};
    int status = price_one(s, &report->network, row);
    if (status != STATUS_CONTINUE) return status;
    if (!row->fits) continue;
    if (!first) first = row;
    row->efficiency =
        first->price.window_seconds * first->ranks / (row->price.window_seconds * row->ranks);
  }
  return STATUS_CONTINUE;
}

/* ---- what is printed ------------------------------------------------------------------------- */

/* The fewest ranks that are about as fast as those that were asked for. */
static const priced_ranks *enough(const ranks_report *r) {
  const priced_ranks *last = &r->rows[r->count - 1];
  for (int i = 0; i < r->count - 1; i++)
    if (r->rows[i].fits && r->rows[i].price.window_seconds <= 1.02 * last->price.window_seconds)
      return &r->rows[i];
  return NULL;
}

void plan_ranks_print(const ranks_report *r) {
  if (!r->count) return;
  const priced_ranks *last = &r->rows[r->count - 1];
  printf("%-12s %s in %" PRIu64 " messages an update, sent by rank 0\n", "exchange",
         text_bytes(last->price.bytes).text, last->price.messages);
  printf("%-12s %.3g Gbit/s, %s, %s\n", "network", r->network.bandwidth * 8e-9,
         text_duration(r->network.latency).text, r->measured ? "measured" : "assumed");
  printf("\n%6s %8s %12s %12s %12s %12s %10s\n", "ranks", "samples", "memory", "exchange",
         "exposed", "update", "efficiency");
  for (int i = 0; i < r->count; i++) {
    const priced_ranks *row = &r->rows[i];
    if (!row->fits) {
      printf("%6d %8s %12s\n", row->ranks, "", "does not fit");
      continue;
    }
    const bool alone = row->ranks == 1;
    printf("%6d %8" PRId64 " %12s %12s %12s %12s %8.0f %%\n", row->ranks, row->share,
           text_bytes(row->bytes).text,
           alone ? "-" : text_duration(row->price.exchange_seconds).text,
           alone ? "-" : text_duration(row->price.exposed_seconds).text,
           text_duration(row->price.window_seconds).text, 100 * row->efficiency);
  }
  const priced_ranks *fewer = enough(r);
  if (fewer)
    printf("\nThis batch does not need %d ranks: %d %s as fast.\n", last->ranks, fewer->ranks,
           fewer->ranks == 1 ? "is" : "are about");
}

json_t *plan_ranks_json(const ranks_report *r) {
  json_t *list = json_array();
  for (int i = 0; i < r->count; i++) {
    const priced_ranks *row = &r->rows[i];
    json_array_append_new(
        list, json_pack("{s:i, s:b, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "ranks", row->ranks,
                        "fits", row->fits ? 1 : 0, "share", (json_int_t)row->share, "total_bytes",
                        (json_int_t)row->bytes, "sent_bytes", (json_int_t)row->price.bytes,
                        "exchange_seconds", row->price.exchange_seconds, "exposed_seconds",
                        row->price.exposed_seconds, "predicted_seconds", row->price.window_seconds,
                        "efficiency", row->efficiency));
  }
  return json_pack("{s:f, s:f, s:b, s:o}", "bandwidth", r->network.bandwidth, "latency",
                   r->network.latency, "measured", r->measured ? 1 : 0, "numbers", list);
}
