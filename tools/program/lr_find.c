/* `accrue lr-find`: a range test of the learning rate. It trains for a short while in the planned
 * memory, with a copy of weights and state on the host, at rates that rise, says which one the
 * losses speak for, and writes no model. */
#include "program/commands.h"
#include "common/gnuplot.h"
#include "common/json_text.h"
#include "common/message.h"
#include "common/progress.h"
#include "program/plan_table.h"
#include "program/rate_svg.h"
#include "program/setup.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
  double least, most, divergence;
  int64_t updates;
  bool json;
  const char *svg;
} flags;

static void more_flags(options *o) {
  const option rows[] = {
      FLAG("least-lr", OPTION_REAL, &flags.least),
      FLAG("most-lr", OPTION_REAL, &flags.most),
      FLAG("updates", OPTION_INTEGER, &flags.updates),
      FLAG("divergence", OPTION_REAL, &flags.divergence),
      FLAG("json", OPTION_SWITCH, &flags.json),
      FLAG("svg", OPTION_TEXT, &flags.svg),
  };
  OPTIONS_ADD(o, rows);
}

typedef struct finder {
  setup *setup;
  ac_trainer *trainer;
  ac_rate_point *points;
  ac_rate_test test;
  progress progress;
} finder;

static bool on_event(void *user, const ac_fit_event *event) {
  progress_fit(user, event);
  return true;
}

/* ---- what comes of it ------------------------------------------------------------------------ */

static void print_text(const finder *f) {
  const ac_rate_test *t = &f->test;
  const ac_rate_point *lowest = &f->points[t->lowest];
  if (t->steepest >= 0)
    printf("suggested learning rate: %.2g, at which the smoothed loss falls fastest by the rate's "
           "logarithm\n",
           f->points[t->steepest].rate);
  else
    printf("no suggestion: the smoothed loss does not fall by more than twice the deviation of "
           "losses from it\n");
  printf("the smoothed loss is least, %.4f, at a rate of %.2g; a tenth of that is %.2g\n",
         lowest->smoothed, lowest->rate, lowest->rate / 10);
  printf("%" PRId64 " updates at rates from %.2g to %.2g%s; nothing is saved\n", t->count,
         f->points[0].rate, f->points[t->count - 1].rate,
         t->diverged ? ", where the loss diverged" : "");
}

static json_t *points_array(const finder *f) {
  json_t *list = json_array();
  for (int64_t i = 0; i < f->test.count; i++)
    json_array_append_new(list, json_pack("{s:f, s:f, s:f}", "lr", f->points[i].rate, "loss",
                                          f->points[i].loss, "smoothed", f->points[i].smoothed));
  return list;
}

static int print_json(const finder *f) {
  const ac_rate_test *t = &f->test;
  const bool found = t->steepest >= 0;
  json_t *object = json_pack("{s:o, s:s, s:f, s:b, s:o}", "suggestion",
                             found ? json_real(f->points[t->steepest].rate) : json_null(), "rule",
                             "where the smoothed loss falls fastest by the rate's logarithm",
                             "lowest", f->points[t->lowest].rate, "diverged", t->diverged ? 1 : 0,
                             "points", points_array(f));
  const bool good = object && json_text_put(object, JSON_INDENT(2), stdout);
  json_decref(object);
  return good ? STATUS_DONE : fail("cannot write the result");
}

/* ---- the test -------------------------------------------------------------------------------- */

static int make_trainer(finder *f) {
  setup *s = f->setup;
  int status = policy_check_batch(&s->policy, &s->flags);
  if (status == STATUS_CONTINUE) status = setup_plan(s, NULL, &s->plan);
  if (status == STATUS_CONTINUE)
    status = policy_check_memory(&s->policy, ac_plan_get_info(s->plan));
  if (status != STATUS_CONTINUE) return status;
  if (!s->flags.quiet) plan_table(ac_device_get_info(s->device), ac_plan_get_info(s->plan));
  s->trainer.schedule = (ac_schedule){0};
  const ac_status created = ac_trainer_create(&f->trainer, s->plan, &s->trainer);
  if (created != AC_OK) return fail_setup(created);
  status = setup_load(s, f->trainer);
  return status == STATUS_CONTINUE ? setup_load_init(s, f->trainer) : status;
}

static int test(finder *f) {
  const setup *s = f->setup;
  const int64_t tokens = s->data.tokens_per_sample;
  const ac_rate_test_desc desc = {.train = s->data.train,
                                  .least = flags.least,
                                  .most = flags.most,
                                  .updates = flags.updates,
                                  .batch = batch_flag_first(&s->flags.batches),
                                  .divergence = flags.divergence,
                                  .seed = (uint64_t)s->flags.seed,
                                  .loader_threads = (int)s->flags.loader_threads,
                                  .callback = on_event,
                                  .user = &f->progress};
  f->points = calloc((size_t)flags.updates, sizeof *f->points);
  if (!f->points) return fail("out of memory");
  progress_begin(&f->progress, flags.updates, tokens ? s->data.unit : "image", tokens ? tokens : 1,
                 s->flags.quiet);
  const ac_status status = ac_trainer_test_rates(f->trainer, &desc, f->points, &f->test);
  progress_clear(&f->progress);
  if (status != AC_OK) return fail_library();
  return f->test.count ? STATUS_CONTINUE : fail("all windows of the test have the weight 0");
}

static int find(setup *s) {
  finder f = {.setup = s};
  int status = make_trainer(&f);
  if (status == STATUS_CONTINUE) status = test(&f);
  if (status == STATUS_CONTINUE && flags.svg) status = rate_svg(f.points, &f.test, flags.svg);
  if (status == STATUS_CONTINUE && flags.json) status = print_json(&f);
  if (status == STATUS_CONTINUE) print_text(&f);
  free(f.points);
  ac_trainer_free(f.trainer);
  return status == STATUS_CONTINUE ? STATUS_DONE : status;
}

int lr_find_main(int argc, char **argv) {
  const help_form help = setup_wants_help(argc, argv);
  if (help) return setup_help("lr-find", help);
  flags.least = 1e-7;
  flags.most = 10;
  flags.divergence = 4;
  flags.updates = 100;
  setup s;
  int status = setup_open_with_data(&s, "lr-find", argc, argv, more_flags);
  if (status == STATUS_CONTINUE && !(flags.least < flags.most))
    status = fail_usage("--least-lr %g is not below --most-lr %g", flags.least, flags.most);
  if (status == STATUS_CONTINUE && flags.svg) status = gnuplot_check(flags.svg);
  if (status == STATUS_CONTINUE) status = find(&s);
  setup_close(&s);
  return status;
}
