/* `accrue verify`: whether training as planned (accumulated, recomputed) is the same as training on
 * whole batches. Both ways make a few updates on the same samples, each window from the same
 * weights, so that a difference shows where it arises and is not what an earlier one has led to.
 * For the same reason the planned way steps by the gradient that whole batches gave, once its own
 * is read: what optimizers make of rounding is not a fault. Lion takes the sign of a gradient that
 * is nothing but rounding, and Muon raises its smallest directions to the size of the largest. Only
 * one way is in the device's memory at a time; what whole batches gave stays on the host. */
#include "program/commands.h"
#include "common/message.h"
#include "program/setup.h"
#include "common/text.h"
#include "program/verification.h"
#include "program/verify_json.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Runs of whole batches from weights that are changed by a few roundings. */
enum { PIECE = 1 << 16, DRAWS = 4 };

static struct {
  int64_t updates;
  bool json;
} flags;

static void more_flags(options *o) {
  const option rows[] = {FLAG("updates", OPTION_INTEGER, &flags.updates),
                         FLAG("json", OPTION_SWITCH, &flags.json)};
  OPTIONS_ADD(o, rows);
}

typedef enum way { WHOLE, PLANNED, PERTURBED } way;

/* ---- moving parameters ----------------------------------------------------------------------- */

typedef ac_status (*mover)(ac_trainer *trainer, int index, int64_t first, int64_t count,
                           float *data);

static ac_status set(ac_trainer *trainer, int index, int64_t first, int64_t count, float *data) {
  return ac_trainer_set_parameter(trainer, index, first, count, data);
}

static ac_status set_gradient(ac_trainer *trainer, int index, int64_t first, int64_t count,
                              float *data) {
  return ac_trainer_set_gradient(trainer, index, first, count, data);
}

/* Of a gradient what this rank keeps. */
static ac_status move_all(const layout *l, ac_trainer *trainer, bool gradients, mover move,
                          float *all) {
  for (int i = 0; i < l->parameters; i++) {
    int64_t begin = 0, count = l->first[i + 1] - l->first[i];
    ac_status status = AC_OK;
    if (gradients) status = ac_trainer_gradient_part(trainer, i, &begin, &count);
    for (int64_t first = begin; status == AC_OK && first < begin + count; first += PIECE) {
      int64_t piece = begin + count - first < PIECE ? begin + count - first : PIECE;
      status = move(trainer, i, first, piece, all + l->first[i] + first);
    }
    if (status != AC_OK) return status;
  }
  return AC_OK;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Samples of the u-th window of the shuffled first epochs, all fields one after another. */
static ac_status read_window(const verification *v, int64_t u) {
  const setup *s = v->setup;
  ac_dataset *dataset = s->data.train;
  const int64_t count = ac_dataset_count(dataset), first = u * s->flags.batch;
  void *fields[AC_MAX_FIELDS];
  for (int64_t i = 0; i < s->flags.batch; i++) {
    ac_sample_key key = {.epoch = (first + i) / count, .seed = (uint64_t)s->flags.seed};
    key.index = ac_shuffle(key.seed, key.epoch, (first + i) % count, count);
    for (int f = 0; f < ac_dataset_field_count(dataset); f++) {
      const ac_field *field = ac_dataset_field(dataset, f);
      size_t bytes = (size_t)field->elements * ac_dtype_bytes(field->dtype);
      fields[f] = (char *)v->blocks[f] + (size_t)i * bytes;
    }
    ac_status status = ac_dataset_read(dataset, &key, fields);
    if (status != AC_OK) return status;
  }
  return AC_OK;
}

/* Samples [first, first + count) of the window. */
static ac_status feed(const verification *v, ac_trainer *trainer, int64_t first, int64_t count) {
  const ac_dataset *dataset = v->setup->data.train;
  ac_feed feeds[AC_MAX_FIELDS];
  const int fields = ac_dataset_field_count(dataset);
  for (int f = 0; f < fields; f++) {
    const ac_field *field = ac_dataset_field(dataset, f);
    const size_t bytes = (size_t)field->elements * ac_dtype_bytes(field->dtype);
    feeds[f] = (ac_feed){field->name, (const char *)v->blocks[f] + (size_t)first * bytes};
  }
  return ac_trainer_accumulate(trainer, count, feeds, fields);
}

/* The same; their gradients then are in `gradient`. */
static ac_status accumulate(const verification *v, ac_trainer *trainer, int64_t first,
                            int64_t count, float *gradient) {
  const ac_status status = feed(v, trainer, first, count);
  if (status != AC_OK) return status;
  return move_all(&v->layout, trainer, true, ac_trainer_get_gradient, gradient);
}

static bool all_finite(const float *values, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(values[i])) return false;
  return true;
}

static ac_status feed_batch(const verification *v, ac_trainer *trainer, float *gradient) {
  return accumulate(v, trainer, 0, v->setup->flags.batch, gradient);
}

/* Samples of a call of ac_trainer_accumulate. */
static int64_t piece_of(const ac_plan_info *info) {
  return info->sections ? info->batch : info->micro_batch;
}

/* A micro-batch at a time: each sum of gradients in bf16 is rounded by chance. The error depends on
 * the sum, which may be larger than what is left of it in the end. */
static ac_status feed_pieces(const verification *v, ac_trainer *trainer) {
  const int64_t batch = v->setup->flags.batch, elements = v->layout.first[v->layout.parameters],
                micro_batch = piece_of(ac_plan_get_info(v->plan));
  memset(v->squares, 0, (size_t)elements * sizeof *v->squares);
  for (int64_t first = 0; first < batch; first += micro_batch) {
    const int64_t count = batch - first < micro_batch ? batch - first : micro_batch;
    const ac_status status = accumulate(v, trainer, first, count, v->gradient);
    if (status != AC_OK) return status;
    for (int64_t i = 0; i < elements; i++) v->squares[i] += v->gradient[i] * v->gradient[i];
  }
  return AC_OK;
}

/* The gradient of whole batches replaces the planned way's, unless that one overflowed and the
 * window will be skipped. */
static ac_status feed_planned(const verification *v, ac_trainer *trainer, int64_t u) {
  const int64_t elements = v->layout.first[v->layout.parameters];
  const ac_status status =
      v->squares ? feed_pieces(v, trainer) : feed_batch(v, trainer, v->gradient);
  if (status != AC_OK || !all_finite(v->gradient, elements)) return status;
  return move_all(&v->layout, trainer, true, set_gradient, v->record.gradients[u]);
}

/* Accumulates the window, fetches its gradient and updates. Repeats it while a lower loss scale may
 * help. */
static ac_status run_window(const verification *v, ac_trainer *trainer, way how, int64_t u,
                            float *gradient, ac_update *update) {
  do {
    ac_status status =
        how == PLANNED ? feed_planned(v, trainer, u) : feed_batch(v, trainer, gradient);
    if (status == AC_OK) status = ac_trainer_update(trainer, update);
    if (status != AC_OK) return status;
  } while (update->skipped && !update->stuck && update->weight != 0);
  return update->skipped ? AC_ERROR_NOT_FINITE : AC_OK;
}

/* Gradients are those of sums of losses: the optimizer divides them by the window's weight. Scales
 * a window's gradient as if its weight were that of whole batches. */
static double same_weight(const verification *v, int64_t u, const ac_update *update) {
  const double factor = v->record.updates[u].weight / update->weight;
  const int64_t elements = v->layout.first[v->layout.parameters];
  for (int64_t i = 0; factor != 1 && i < elements; i++)
    v->gradient[i] = (float)(v->gradient[i] * factor);
  return factor;
}

/* Up or down by four roundings of floats, by a hash of place and draw. */
static void perturb(const verification *v, int64_t window, int draw) {
  const layout *l = &v->layout;
  memcpy(v->weights, v->record.weights[window],
         (size_t)l->first[l->parameters] * sizeof *v->weights);
  for (int p = 0; p < l->parameters; p++)
    for (int64_t i = l->first[p]; l->trained[p] && i < l->first[p + 1]; i++) {
      uint64_t hash = ((uint64_t)i + 1) * 0x9E3779B97F4A7C15u + (uint64_t)draw;
      hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9u;
      v->weights[i] *= hash >> 63 ? 1 + 0x1p-22f : 1 - 0x1p-22f;
    }
}

static ac_status whole_window(verification *v, ac_trainer *trainer, int64_t u) {
  record *r = &v->record;
  ac_status status = AC_OK;
  if (u == 0)
    status = move_all(&v->layout, trainer, false, ac_trainer_get_parameter, r->weights[0]);
  if (status == AC_OK) status = run_window(v, trainer, WHOLE, u, r->gradients[u], &r->updates[u]);
  if (status != AC_OK) return status;
  return move_all(&v->layout, trainer, false, ac_trainer_get_parameter, r->weights[u + 1]);
}

static ac_status set_weights(const verification *v, ac_trainer *trainer, int64_t u) {
  return move_all(&v->layout, trainer, false, set, v->record.weights[u]);
}

/* Measures it. */
static ac_status end_planned(verification *v, ac_trainer *trainer, int64_t u) {
  const ac_status status =
      move_all(&v->layout, trainer, false, ac_trainer_get_parameter, v->weights);
  if (status != AC_OK) return status;
  const double factor = same_weight(v, u, &v->planned.updates[u]);
  for (int64_t i = 0; v->squares && i < v->layout.first[v->layout.parameters]; i++)
    v->squares[i] = (float)(v->squares[i] * factor * factor);
  verify_measure(&v->layout, &v->record, u, v->gradient, v->squares, v->weights, &v->planned);
  return AC_OK;
}

static ac_status planned_window(verification *v, ac_trainer *trainer, int64_t u) {
  ac_status status = set_weights(v, trainer, u);
  if (status == AC_OK)
    status = run_window(v, trainer, PLANNED, u, v->gradient, &v->planned.updates[u]);
  return status == AC_OK ? end_planned(v, trainer, u) : status;
}

static ac_status perturbed_window(verification *v, ac_trainer *trainer, int64_t u, int draw) {
  ac_update update;
  perturb(v, u, draw);
  ac_status status = move_all(&v->layout, trainer, false, set, v->weights);
  if (status == AC_OK) status = run_window(v, trainer, PERTURBED, u, v->gradient, &update);
  if (status != AC_OK) return status;
  same_weight(v, u, &update);
  verify_spread(&v->layout, &v->record, u, v->gradient, &update, &v->spread);
  return AC_OK;
}

static ac_status run_windows(verification *v, ac_trainer *trainer, way how, int draw) {
  for (int64_t u = 0; u < flags.updates; u++) {
    ac_status status = read_window(v, u);
    if (status != AC_OK) return status;
    if (how == WHOLE) status = whole_window(v, trainer, u);
    else if (how == PLANNED) status = planned_window(v, trainer, u);
    else status = perturbed_window(v, trainer, u, draw);
    if (status != AC_OK) return status;
  }
  return AC_OK;
}

static int end_way(ac_status status, way how) {
  if (status == AC_OK) return STATUS_CONTINUE;
  if (status != AC_ERROR_NOT_FINITE) return fail_library();
  return fail("the loss or a gradient of the %s run is not finite, so there is nothing to compare",
              how == PLANNED ? "planned" : "whole");
}

static int run_way(verification *v, const ac_plan *plan, way how, int draw) {
  const setup *s = v->setup;
  ac_trainer *trainer = NULL;
  const ac_status created = ac_trainer_create(&trainer, plan, &s->trainer);
  if (created != AC_OK) return fail_setup(created);
  int status = setup_load(s, trainer);
  if (status == STATUS_CONTINUE && how == WHOLE) {
    status = verification_list(v, trainer);
    if (status == STATUS_CONTINUE && !verification_make_room(v)) status = fail("out of memory");
  }
  ac_status result = AC_OK;
  if (status == STATUS_CONTINUE) status = setup_load_init(s, trainer);
  if (status == STATUS_CONTINUE) result = run_windows(v, trainer, how, draw);
  ac_trainer_free(trainer);
  return status == STATUS_CONTINUE ? end_way(result, how) : status;
}

/* ---- the planned way by several ranks -------------------------------------------------------- */

static ac_status read_shared(void *user, int64_t u) {
  return read_window(user, u);
}

static ac_status begin_shared(void *user, ac_trainer *trainer, int64_t u) {
  return set_weights(user, trainer, u);
}

static ac_status feed_shared(void *user, ac_trainer *trainer, int64_t first, int64_t count) {
  return feed(user, trainer, first, count);
}

/* Each rank has the sum of all, or its part of it. */
static ac_status decide_shared(void *user, ac_trainer *trainer, int64_t u, bool leads) {
  const verification *v = user;
  const bool divided = ac_plan_get_info(v->plan)->gradients == AC_GRADIENTS_SHARDED;
  ac_status status = AC_OK;
  if (leads || divided)
    status = move_all(&v->layout, trainer, true, ac_trainer_get_gradient, v->gradient);
  if (status != AC_OK) return status;
  return move_all(&v->layout, trainer, true, set_gradient, v->record.gradients[u]);
}

static ac_status end_shared(void *user, ac_trainer *trainer, int64_t u, const ac_update *update) {
  verification *v = user;
  v->planned.updates[u] = *update;
  return end_planned(v, trainer, u);
}

static int run_shared(verification *v) {
  const verify_steps steps = {.windows = flags.updates,
                              .user = v,
                              .read = read_shared,
                              .begin = begin_shared,
                              .feed = feed_shared,
                              .decide = decide_shared,
                              .end = end_shared};
  ac_status result;
  const int status = verify_ranks_run(&v->ranks, &steps, &result);
  return status == STATUS_CONTINUE ? end_way(result, PLANNED) : status;
}

/* ---- the command ----------------------------------------------------------------------------- */

/* Layers that compute a sample's result from the rest of its micro-batch as well. */
static void print_coupled(const ac_plan *plan) {
  const ac_plan_info *info = ac_plan_get_info(plan);
  int coupled = 0;
  printf("layers       ");
  for (int64_t i = 0; i < info->steps; i++) {
    ac_plan_step step;
    if (ac_plan_get_step(plan, i, &step) != AC_OK || !step.couples_samples || step.backward)
      continue;
    printf("%s%s (%s)", coupled++ ? ", " : "", step.scope, step.op);
  }
  if (!coupled && info->sections)
    printf("batch norms see the whole batch, in %" PRId64
           " sections, so accumulation is equivalent\n",
           info->sections);
  else
    printf(coupled ? ": not equivalent under accumulation\n"
                   : "none sees more than one sample, so accumulation is equivalent\n");
}

/* Gradients are compared, so they are kept, or divided among ranks that keep their parts. */
static void as_planned(ac_plan_desc *desc) {
  if (desc->gradients != AC_GRADIENTS_SHARDED) desc->gradients = AC_GRADIENTS_BUFFER;
}

static void at_once(ac_plan_desc *desc) {
  as_planned(desc);
  desc->ranks = 1;
  if (desc->batch_norm == AC_BATCH_NORM_EXACT) desc->batch_norm = AC_BATCH_NORM_WHOLE;
  desc->micro_batch = desc->batch;
  desc->memory = 0;
  desc->recompute = AC_RECOMPUTE_NONE;
}

static void print_plan(const char *name, const ac_plan *plan) {
  const ac_plan_info *info = ac_plan_get_info(plan);
  if (flags.json) return;
  printf("%-8s ", name);
  if (info->ranks > 1) printf("%d ranks x ", info->ranks);
  printf("%" PRId64 " x micro-batch %" PRId64 ", %" PRId64 " ops run again, %s\n",
         info->accumulation_steps, info->micro_batch, info->recomputed_ops,
         text_bytes(info->bytes.total).text);
}

static int make_plans(verification *v) {
  setup *s = v->setup;
  const int ranks = (int)s->flags.ranks;
  int status = setup_plan(s, at_once, &v->whole_plan);
  if (status != STATUS_CONTINUE) return status;
  print_plan("whole", v->whole_plan);
  status = ranks > 1 ? verify_ranks_open(&v->ranks, s, ranks, as_planned)
                     : setup_plan(s, as_planned, &v->alone);
  if (status != STATUS_CONTINUE) return status;
  v->plan = ranks > 1 ? v->ranks.plans[0] : v->alone;
  print_plan("planned", v->plan);
  return STATUS_CONTINUE;
}

/* What sums over ranks round of gradients in bf16 is not judged. */
static int check_ranks(const setup *s) {
  const int64_t ranks = s->flags.ranks;
  if (ranks > MOST_RANK_THREADS)
    return fail_usage("--ranks %" PRId64 " is too much: accrue verify runs at most %d in one "
                      "process",
                      ranks, MOST_RANK_THREADS);
  if (ranks > 1 && setup_plan_desc(s).gradient_storage == AC_GRADIENT_BF16)
    return fail_usage("accrue verify --ranks compares gradients that are kept in f32; leave out "
                      "--gradients bf16");
  return STATUS_CONTINUE;
}

static void print_text(const verification *v, const verify_end *end) {
  verify_print(&v->layout, &v->record, &v->planned, ac_plan_get_info(v->plan)->precision,
               end->spread);
  print_coupled(v->plan);
  verify_print_verdict(&v->layout, &end->verdict);
}

/* If the plain tolerances do not explain a difference, measures how far rounding reaches in this
 * network. */
static int judge(verification *v) {
  const ac_precision precision = ac_plan_get_info(v->plan)->precision;
  verdict verdict = verify_judge(&v->layout, &v->record, &v->planned, precision, NULL);
  const spread *spread = verdict.gradients || verdict.loss ? &v->spread : NULL;
  for (int draw = 0; spread && draw < DRAWS; draw++) {
    int status = run_way(v, v->whole_plan, PERTURBED, draw);
    if (status != STATUS_CONTINUE) return status;
  }
  if (spread) verdict = verify_judge(&v->layout, &v->record, &v->planned, precision, spread);
  const verify_end end = {.whole = v->whole_plan,
                          .planned = v->plan,
                          .layout = &v->layout,
                          .record = &v->record,
                          .distances = &v->planned,
                          .spread = spread,
                          .verdict = verdict};
  const int put = flags.json ? verify_json_put(&end) : STATUS_CONTINUE;
  if (!flags.json) print_text(v, &end);
  if (put != STATUS_CONTINUE) return put;
  return verdict_same(&verdict) ? STATUS_DONE : STATUS_FAILED;
}

static int verify(setup *s) {
  verification v = {.setup = s, .updates = flags.updates};
  int status = check_ranks(s);
  if (status == STATUS_CONTINUE && !verification_make_blocks(&v)) status = fail("out of memory");
  if (status == STATUS_CONTINUE) status = make_plans(&v);
  if (status == STATUS_CONTINUE) v.planned.spreads = ac_plan_get_info(v.plan)->sections > 0;
  if (status == STATUS_CONTINUE) status = run_way(&v, v.whole_plan, WHOLE, 0);
  if (status == STATUS_CONTINUE)
    status = v.ranks.count ? run_shared(&v) : run_way(&v, v.plan, PLANNED, 0);
  if (status == STATUS_CONTINUE) status = judge(&v);
  verification_release(&v);
  return status;
}

int verify_main(int argc, char **argv) {
  const help_form help = setup_wants_help(argc, argv);
  if (help) return setup_help("verify", help);
  flags.updates = 3;
  flags.json = false;
  setvbuf(stdout, NULL, _IOLBF, 0); /* a reader of a pipe sees each line at once */
  setup s;
  int status = setup_open_with_data(&s, "verify", argc, argv, more_flags);
  if (status == STATUS_CONTINUE) {
    s.trainer.schedule = (ac_schedule){.lr = rate_or_off(s.flags.rate.lr)};
    status = verify(&s);
  }
  setup_close(&s);
  return status;
}
