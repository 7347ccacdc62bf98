/* Sizes are multiples of a step. Memory grows with the size, so the largest that fits is found by
 * doubling, and then by halving what lies between the largest that fits and the least that does
 * not. Each size that is tried costs a plan. */
#include "program/plan_largest.h"

#include "common/json_text.h"
#include "common/message.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef enum largest_of { LARGEST_RESOLUTION, LARGEST_CONTEXT } largest_of;

static int largest; /* largest_of */

void plan_largest_flags(options *o) {
  const option rows[] = {FLAG("largest", OPTION_CHOICE, &largest, .fallback = "one plan")};
  OPTIONS_ADD(o, rows);
}

bool plan_largest_is_asked(const options *o) {
  return options_given(o, "largest");
}

/* ---- the search ------------------------------------------------------------------------------ */

enum { MOST_SIZES = 32, SHOWN_SIZES = 8 };

typedef struct sized_plan {
  int64_t size;
  bool fits;
  ac_plan_info info; /* if it fits */
} sized_plan;

typedef struct search {
  setup *setup;
  void (*change)(ac_plan_desc *desc);
  model_growth growth;
  sized_plan rows[MOST_SIZES]; /* from small to large; the last one may be too large */
  int count;
  char beyond[512]; /* what the library says of the last one that does not fit */
} search;

static int try_size(search *r, int64_t size, sized_plan *row) {
  setup *s = r->setup;
  ac_plan *plan = NULL;
  s->kind->grow(s->model, size);
  *row = (sized_plan){.size = size};
  const ac_status status = setup_try_plan(s, r->change, &plan);
  if (status == AC_OK) {
    row->fits = true;
    row->info = *ac_plan_get_info(plan);
    ac_plan_free(plan);
    return STATUS_CONTINUE;
  }
  /* Unsupported: a tensor has more elements than an op can count. */
  if (status != AC_ERROR_BUDGET && status != AC_ERROR_UNSUPPORTED) return fail_setup(status);
  snprintf(r->beyond, sizeof r->beyond, "%s", ac_last_error());
  return STATUS_CONTINUE;
}

/* Doubles the size until it does not fit, or is the most that there can be. */
static int double_sizes(search *r) {
  const model_growth *g = &r->growth;
  const int64_t most = g->most / g->step;
  int status = STATUS_CONTINUE;
  for (int64_t at = 1; status == STATUS_CONTINUE; at = at > most / 2 ? most : 2 * at) {
    sized_plan *row = &r->rows[r->count];
    status = try_size(r, at * g->step, row);
    if (status == STATUS_CONTINUE) r->count++;
    if (!row->fits || at == most) break;
  }
  return status;
}

/* Between the last row, which does not fit, and the one before it. */
static int halve(search *r) {
  const int64_t step = r->growth.step;
  sized_plan *fits = &r->rows[r->count - 2], *beyond = &r->rows[r->count - 1];
  int64_t low = fits->size / step, high = beyond->size / step;
  sized_plan best = *fits, next = *beyond, tried;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    const int status = try_size(r, middle * step, &tried);
    if (status != STATUS_CONTINUE) return status;
    if (tried.fits) low = middle, best = tried;
    else high = middle, next = tried;
  }
  r->count--;
  if (best.size != fits->size) r->rows[r->count++] = best;
  r->rows[r->count++] = next;
  return STATUS_CONTINUE;
}

static const sized_plan *found(const search *r) {
  const sized_plan *last = &r->rows[r->count - 1];
  return last->fits ? last : last - 1;
}

/* "2,048 x 2,048 pixels", "4,096 tokens" */
static const char *words_of(int64_t size, bool unit, char text[96]) {
  const char *count = text_count(size).text;
  if (largest == LARGEST_CONTEXT) snprintf(text, 96, "%s%s", count, unit ? " tokens" : "");
  else snprintf(text, 96, "%s x %s%s", count, count, unit ? " pixels" : "");
  return text;
}

static int look(search *r) {
  char words[96];
  int status = double_sizes(r);
  if (status != STATUS_CONTINUE) return status;
  if (!r->rows[0].fits)
    return fail("%s are too many: %s", words_of(r->rows[0].size, true, words), r->beyond);
  return r->rows[r->count - 1].fits ? STATUS_CONTINUE : halve(r);
}

/* ---- what is printed ------------------------------------------------------------------------- */

static text predicted(double seconds) {
  return seconds < 10 ? text_duration(seconds) : text_time(seconds);
}

static void print_text(const search *r) {
  const sized_plan *best = found(r);
  const ac_plan_info *info = &best->info;
  char words[96];
  printf("%-12s %s for %" PRId64 " sample%s an update, in %s\n", "budget",
         text_bytes(info->budget_bytes).text, info->batch, info->batch == 1 ? "" : "s",
         ac_precision_name(info->precision));
  printf("%-12s %s\n\n", "largest", words_of(best->size, true, words));
  printf("%16s %12s %6s %12s %11s %12s %12s\n", largest == LARGEST_CONTEXT ? "tokens" : "pixels",
         "micro-batch", "times", "ops again", "gradients", "total", "update");
  for (int i = r->count > SHOWN_SIZES ? r->count - SHOWN_SIZES : 0; i < r->count; i++) {
    const sized_plan *row = &r->rows[i];
    printf("%16s ", words_of(row->size, false, words));
    if (!row->fits) printf("beyond the budget\n");
    else
      printf("%12" PRId64 " %6" PRId64 " %12" PRId64 " %11s %12s %12s\n", row->info.micro_batch,
             row->info.accumulation_steps, row->info.recomputed_ops,
             gradient_way_of(row->info.gradients)->name, text_bytes(row->info.bytes.total).text,
             predicted(row->info.predicted_seconds).text);
  }
  if (!r->rows[r->count - 1].fits)
    printf("\n%s: %s\n", words_of(r->rows[r->count - 1].size, false, words), r->beyond);
}

static json_t *row_object(const sized_plan *row) {
  const ac_plan_info *i = &row->info;
  if (!row->fits) return json_pack("{s:I, s:b}", "size", (json_int_t)row->size, "fits", 0);
  return json_pack("{s:I, s:b, s:I, s:I, s:I, s:s, s:I, s:f}", "size", (json_int_t)row->size,
                   "fits", 1, "micro_batch", (json_int_t)i->micro_batch, "accumulation_steps",
                   (json_int_t)i->accumulation_steps, "recomputed_ops",
                   (json_int_t)i->recomputed_ops, "gradients", gradient_way_of(i->gradients)->name,
                   "total_bytes", (json_int_t)i->bytes.total, "predicted_seconds",
                   i->predicted_seconds);
}

static int print_json(const search *r) {
  const sized_plan *best = found(r);
  json_t *list = json_array();
  for (int i = 0; i < r->count; i++) json_array_append_new(list, row_object(&r->rows[i]));
  json_t *object =
      json_pack("{s:s, s:s, s:I, s:I, s:I, s:o}", "largest",
                largest == LARGEST_CONTEXT ? "context" : "resolution", "precision",
                ac_precision_name(best->info.precision), "effective_batch",
                (json_int_t)best->info.batch, "budget_bytes", (json_int_t)best->info.budget_bytes,
                "size", (json_int_t)best->size, "sizes", list);
  const bool good = object && json_text_put(object, JSON_INDENT(2), stdout);
  json_decref(object);
  return good ? STATUS_DONE : fail("cannot write the sizes");
}

int plan_largest(setup *s, void (*change)(ac_plan_desc *desc), bool json) {
  static const char *const words[] = {
      [LARGEST_RESOLUTION] = "resolution", [LARGEST_CONTEXT] = "context"};
  static search r;
  const char *given = largest == LARGEST_CONTEXT ? "context" : "size";
  r = (search){.setup = s, .change = change};
  if (s->kind->growth) r.growth = s->kind->growth(s->model);
  if (!r.growth.of || strcmp(r.growth.of, words[largest]) != 0)
    return fail_usage("--largest %s has no meaning for %s%s%s", words[largest], s->kind->name,
                      r.growth.of ? "; give --largest " : "", r.growth.of ? r.growth.of : "");
  if (options_find(&s->options, given) && options_given_now(&s->options, given))
    return fail_usage("--largest %s and --%s contradict each other; give one of them",
                      words[largest], given);
  const int status = look(&r);
  if (status != STATUS_CONTINUE) return status;
  if (json) return print_json(&r);
  print_text(&r);
  return STATUS_DONE;
}
