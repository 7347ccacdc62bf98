#include "report/story.h"

#include "common/text.h"
#include "report/curves.h"
#include "report/html.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const char *word(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

/* ---- the plan -------------------------------------------------------------------------------- */

static int64_t amount(const json_t *value) {
  return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value) : -1;
}

int64_t story_plan(const history *h, const char *key) {
  const int64_t found = amount(json_object_get(h->plan, key));
  return found >= 0 ? found : amount(json_object_get(json_object_get(h->record, "plan"), key));
}

int64_t story_bytes(const history *h, const char *class) {
  return amount(json_object_get(json_object_get(h->plan, "planned_bytes"), class));
}

static void put_device(FILE *page, const history *h) {
  const json_t *device = json_object_get(h->record, "device");
  const int64_t threads = amount(json_object_get(device, "threads"));
  html_name(page, *word(h->record, "model") ? word(h->record, "model") : "A model");
  fputs(" on ", page);
  html_name(page, *word(device, "id") ? word(device, "id") : "an unknown device");
  if (*word(device, "name")) {
    fputs(" (", page);
    html_name(page, word(device, "name"));
    if (threads > 0) fprintf(page, ", %" PRId64 " thread%s", threads, threads == 1 ? "" : "s");
    fputs(")", page);
  }
}

static void put_batch(FILE *page, const history *h) {
  const int64_t batch = story_plan(h, "effective_batch"), micro = story_plan(h, "micro_batch");
  if (batch < 1 || micro < 1) return;
  const int64_t pieces = batch / micro + (batch % micro != 0);
  fprintf(page, "; batches of %s", text_count(batch).text);
  if (pieces == 1) fputs(" at once", page);
  else
    fprintf(page, ", accumulated over %s micro-batches of %s%s", text_count(pieces).text,
            batch % micro ? "at most " : "", text_count(micro).text);
}

static void put_recomputation(FILE *page, const history *h) {
  const int64_t ops = story_plan(h, "recomputed_ops");
  if (ops == 0) fputs("; no op runs again", page);
  if (ops > 0)
    fprintf(page, "; %s op%s again in the backward pass", text_count(ops).text,
            ops == 1 ? " runs" : "s run");
}

static void put_bytes(FILE *page, const history *h) {
  int64_t total = story_bytes(h, "total"), budget = story_plan(h, "budget_bytes");
  if (total < 0) total = story_plan(h, "planned_bytes");
  if (total < 0) return;
  fprintf(page, "; %s planned", text_bytes((uint64_t)total).text);
  if (budget > 0) fprintf(page, " within %s", text_bytes((uint64_t)budget).text);
}

static void put_plan(FILE *page, const history *h) {
  const int64_t parameters = story_plan(h, "parameter_count");
  const char *precision = word(h->plan, "precision");
  if (!*precision) precision = word(json_object_get(h->record, "plan"), "precision");
  fputs("<p>", page);
  put_device(page, h);
  if (parameters >= 0) fprintf(page, "; %s parameters", text_count(parameters).text);
  put_batch(page, h);
  if (*precision) {
    fputs("; activations in ", page);
    html_name(page, precision);
  }
  put_recomputation(page, h);
  put_bytes(page, h);
  fputs(".</p>\n", page);
}

/* ---- how it went ----------------------------------------------------------------------------- */

static void put_time(FILE *page, const char *time) {
  if (!*time) return;
  fputs(" at ", page);
  html_name(page, time);
}

static void put_start(FILE *page, const history *h) {
  const json_t *resumed = json_object_get(h->record, "resumed");
  const size_t times = json_array_size(resumed);
  const char *last = times ? json_string_value(json_array_get(resumed, times - 1)) : NULL;
  fputs("Began", page);
  put_time(page, word(h->record, "started"));
  if (*word(h->record, "host")) {
    fputs(" on ", page);
    html_name(page, word(h->record, "host"));
  }
  if (times)
    fprintf(page, ", went on from a state %zu time%s, the last", times, times == 1 ? "" : "s");
  if (last) put_time(page, last);
  fputs(". ", page);
}

static void put_outcome(FILE *page, const history *h) {
  const char *outcome = word(h->record, "outcome");
  const bool early = json_is_true(json_object_get(h->end, "ended_early"));
  const char *done = early ? "Ended early, out of patience" : "Ended as planned";
  if (!*outcome) {
    fputs("It has no end yet: it runs, or was killed", page);
  } else {
    fputs(!strcmp(outcome, "done")      ? done
          : !strcmp(outcome, "stopped") ? "Was stopped"
          : !strcmp(outcome, "failed")  ? "Failed"
                                        : "Ended otherwise",
          page);
    put_time(page, word(h->record, "ended"));
  }
  if (h->steps.count)
    fprintf(page, ", after step %s", text_number(h->steps.points[h->steps.count - 1].step).text);
  fputs(".", page);
}

/* What the gradients' noise says about the batch. */
static void put_noise(FILE *page, const history *h) {
  const json_t *scale = json_object_get(h->end, "noise_scale"),
               *deviation = json_object_get(h->end, "noise_scale_deviation");
  const double batch = json_number_value(scale), about = json_number_value(deviation);
  if (!json_is_number(deviation) || !(batch > 0 && batch < 1e15 && about >= 0 && about < batch))
    return;
  fprintf(page, " Critical batch, by the gradients' noise: about %s ± %s samples.",
          text_number(ceil(batch)).text, text_number(ceil(about)).text);
}

/* How batches have grown, as a value of --batch. */
static void put_growth(FILE *page, const history *h) {
  const char *batches = json_string_value(json_object_get(h->end, "batches"));
  if (!batches) return;
  fputs(strchr(batches, ',') ? " Batches have grown by the gradients' noise: "
                             : " Batches have not grown by the gradients' noise: ",
        page);
  html_name(page, batches);
  fputs(".", page);
}

static void put_notes(FILE *page, const history *h) {
  if (h->lacking[0]) {
    fputs("<p class=\"note\">There are no curves of this run: ", page);
    html_name(page, h->lacking);
    fputs(".</p>\n", page);
  }
  if (!h->damaged) return;
  fputs("<p class=\"note\">In ", page);
  html_name(page, h->metrics);
  fprintf(page, " line %zu is damaged and left out", h->first_damaged);
  if (h->damaged > 1) fprintf(page, ", as are %zu later ones", h->damaged - 1);
  fputs(".</p>\n", page);
}

void story_write(FILE *page, const history *runs, size_t count, size_t run) {
  const history *h = &runs[run];
  fputs("<section class=\"run\"><h3>", page);
  if (count > 1) curves_key(page, run);
  html_name(page, h->name);
  fputs("</h3>\n", page);
  put_plan(page, h);
  fputs("<p>", page);
  put_start(page, h);
  put_outcome(page, h);
  put_noise(page, h);
  put_growth(page, h);
  spikes_put(page, &h->spikes);
  fputs("</p>\n", page);
  put_notes(page, h);
  fputs("</section>\n", page);
}
