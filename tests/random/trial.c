/* Trains a graph as a choice says: two windows through accumulate and update, then an evaluation.
 * Where the choice fits, the same windows once more through ac_fit, which has to leave the same
 * bits, whether it reads ahead or not. Where the plan keeps no gradients, once more with a plan
 * that does: it leaves the same bits, and the gradients to compare. Where gradients are folded, it
 * begins each window with the weights that folding has left, and yields the gradients alone. */
#include "random.h"

#include "core/error.h"
#include "core/share.h"
#include "graph/freeze.h"

#include "support/rank_threads.h"

#include <accrue/session.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ATTEMPTS = 30 };
static const double average_decay = 0.7;

typedef struct training {
  random_trial *trial;
  int habit;
  const random_graph *g;
  const ac_graph *graph; /* which may have hints */
  ac_device *device;
  ac_plan_desc policy;
  ac_trainer_desc desc;
  ac_plan *plan;
  ac_trainer *trainer;
  ac_dataset *dataset;
  char frozen[4096];
  random_names groups;
  ac_ranks *ranks;            /* NULL: one */
  bool divides;               /* gradients among them, where these may be */
  int64_t share_first, share; /* this rank's samples of a window */
  int window;                 /* in progress */
} training;

/* ---- the plan -------------------------------------------------------------------------------- */

static int64_t micro_batch_of(const random_choice *c, int64_t batch) {
  if (c->micro_batch) return c->micro_batch;
  switch (c->level[RANDOM_micro_batch]) {
  case MICRO_ONE:
    return 1;
  case MICRO_ODD: /* divides no batch but by chance */
    return batch > 3    ? (batch % 3    ? 3
                           : batch == 6 ? 4
                                        : 5) > batch
                              ? 2
                          : batch % 3 ? 3
                                      : 4
           : batch == 3 ? 2
                        : 1;
  case MICRO_WHOLE:
    return batch;
  default:
    return 0;
  }
}

/* Bytes of a plan that keeps or recomputes everything. */
static ac_status needs_of(const training *t, ac_recompute recompute, int64_t micro_batch,
                          uint64_t *bytes) {
  ac_plan_desc desc = t->policy;
  ac_plan *plan = NULL;
  desc.recompute = recompute;
  if (ac_gradient_way_of(desc.gradients)->one_micro_batch) micro_batch = desc.batch;
  desc.micro_batch = desc.micro_batch ? desc.micro_batch : micro_batch;
  AC_TRY(ac_plan_create(&plan, t->g->graph, t->device, &desc));
  *bytes = ac_problem_needs(&plan->problem, plan->info.bytes.total, plan->info.read_ahead);
  ac_plan_free(plan);
  return AC_OK;
}

static ac_status set_budget(training *t, int recompute) {
  uint64_t least, most;
  AC_TRY(needs_of(t, AC_RECOMPUTE_ALL, 1, &least));
  AC_TRY(needs_of(t, AC_RECOMPUTE_NONE, t->policy.batch, &most));
  if (most <= least) most = least + 1;
  t->policy.memory = recompute == RECOMPUTE_LOW      ? least
                     : recompute == RECOMPUTE_MIDDLE ? least + (most - least) / 2
                                                     : most - 1;
  return AC_OK;
}

/* Whether gradients are clipped by an op, which takes floats. */
static bool rewrites(const random_choice *c) {
  return c->level[RANDOM_clipping] >= (int)AC_CLIP_VALUE;
}

/* Where it computes what a buffer does. */
static bool folds(const random_choice *c) {
  const int optimizer = c->level[RANDOM_optimizer];
  return c->level[RANDOM_windows] == WINDOWS_FOLDED &&
         (optimizer == OPTIMIZER_MOMENTUM || optimizer == OPTIMIZER_MUON) &&
         c->level[RANDOM_clipping] == (int)AC_CLIP_NORM && /* which these are not clipped by */
         c->level[RANDOM_precision] != AC_PRECISION_F16;
}

static ac_gradients gradients_of(const random_choice *c) {
  const int windows = c->level[RANDOM_windows], optimizer = c->level[RANDOM_optimizer];
  const bool local =
      (optimizer != OPTIMIZER_CLIPPED || c->level[RANDOM_clipping] != (int)AC_CLIP_NORM) &&
      c->level[RANDOM_precision] != AC_PRECISION_F16;
  if (windows < WINDOWS_FUSED || windows == WINDOWS_FOLDED) return AC_GRADIENTS_AUTO;
  return windows == WINDOWS_LOCAL && local ? AC_GRADIENTS_FUSED_LOCAL : AC_GRADIENTS_FUSED;
}

/* Whether some parameter is left to train without those that are frozen. */
static bool trains_without(const random_graph *g, const char *frozen) {
  ac_graph *graph = NULL;
  bool trains =
      ac_graph_clone(&graph, g->graph) == AC_OK && ac_graph_freeze(graph, frozen) == AC_OK;
  trains = trains && ac_tensor_at(graph, graph->losses[0].tensor)->requires_gradient;
  ac_graph_free(graph);
  return trains;
}

/* Draws them by name, so that other graphs of the recipe have the same. */
static void choose_frozen(training *t, const random_choice *c) {
  const int level = c->level[RANDOM_frozen];
  const ac_graph *graph = t->g->graph;
  size_t used = 0;
  for (int p = 0; level && p < graph->parameter_count; p++) {
    const char *name = ac_tensor_at(graph, graph->parameters[p])->name;
    const uint64_t drawn = op_draw_hash(t->g->recipe.key, op_seed(name)) % 4;
    if (drawn > (uint64_t)level || used + strlen(name) + 2 > sizeof t->frozen) continue;
    t->trial->frozen[p] = true;
    used += (size_t)snprintf(t->frozen + used, sizeof t->frozen - used, used ? ",%s" : "%s", name);
  }
  if (used && trains_without(t->g, t->frozen)) t->policy.frozen = t->frozen;
  else memset(t->trial->frozen, 0, sizeof t->trial->frozen);
}

/* Windows among ranks. */
static void share_out(training *t) {
  const int64_t batch = t->g->recipe.batch;
  const int ranks = t->ranks ? ac_ranks_size(t->ranks) : 1,
            rank = t->ranks ? ac_ranks_rank(t->ranks) : 0;
  t->policy.ranks = ranks;
  t->policy.rank = rank;
  t->share_first = ac_share_begin(batch, rank, ranks);
  t->share = ac_share_of(batch, rank, ranks);
}

/* Whether batch norms are those of whole windows, which keep their gradients. */
static bool is_exact(const training *t, const random_choice *c) {
  const ac_graph *graph = t->g->graph;
  bool others = false;
  for (int n = 0; n < graph->node_count; n++) {
    const ac_node *node = ac_node_at(graph, n);
    others |= node->op != AC_OP_batch_norm && ac_op_couples_samples(node->op, node->attributes);
  }
  return c->level[RANDOM_norms] && !others && t->policy.gradients == AC_GRADIENTS_AUTO;
}

static ac_status make_plan(training *t, const random_graph *hinted, const random_choice *c) {
  static const ac_precision precisions[] = {AC_PRECISION_F32, AC_PRECISION_F16, AC_PRECISION_BF16};
  static const ac_working_copies copies[] = {AC_WORKING_COPIES_KEPT, AC_WORKING_COPIES_NONE,
                                             AC_WORKING_COPIES_AUTO};
  int recompute = c->level[RANDOM_recompute];
  choose_frozen(t, c);
  t->policy.batch = t->g->recipe.batch;
  share_out(t);
  t->policy.micro_batch = micro_batch_of(c, t->policy.batch);
  if (c->level[RANDOM_micro_batch] != MICRO_WHOLE) t->policy.batch_norm = AC_BATCH_NORM_MICRO;
  const int windows = c->level[RANDOM_windows];
  t->policy.whole_windows = windows != WINDOWS_ANY && windows != WINDOWS_FOLDED;
  if (!t->policy.micro_batch || t->policy.micro_batch == t->policy.batch)
    t->policy.gradients = gradients_of(c);
  if (folds(c)) t->policy.gradients = AC_GRADIENTS_FOLDED;
  if (is_exact(t, c)) t->policy.batch_norm = AC_BATCH_NORM_EXACT;
  else if (t->divides) t->policy.gradients = AC_GRADIENTS_SHARDED;
  t->policy.read_ahead = c->level[RANDOM_read_ahead] == AHEAD_YES;
  t->policy.debug_numerics = t->habit == HABIT_WATCHES;
  t->policy.precision = precisions[c->level[RANDOM_precision]];
  t->policy.working_copies = copies[c->level[RANDOM_copies]];
  const bool rounds = c->level[RANDOM_optimizer] <= OPTIMIZER_ADAM_MINI && !folds(c) &&
                      !rewrites(c) && t->policy.gradients != AC_GRADIENTS_SHARDED;
  if (rounds) t->policy.gradient_storage = (ac_gradient_storage)c->level[RANDOM_gradients];
  if (rounds && c->level[RANDOM_weights] && t->policy.precision == AC_PRECISION_BF16)
    t->policy.weights = AC_WEIGHTS_BF16;
  random_optimizer(c, t->g->rate, &t->policy, &t->desc);
  t->desc.optimizer.muon_no_nesterov = folds(c);
  random_groups(c, t->g, &t->groups, &t->desc);
  t->policy.average = c->level[RANDOM_average] && t->policy.weights == AC_WEIGHTS_F32;
  t->desc.average_decay = average_decay;
  if (recompute >= RECOMPUTE_LOW && recompute <= RECOMPUTE_HIGH) AC_TRY(set_budget(t, recompute));
  /* The budget has no room for it unless the plan makes some. */
  if (c->level[RANDOM_read_ahead] == AHEAD_IF_ROOM)
    t->policy.read_ahead = 2, t->policy.read_ahead_if_room = true;
  t->policy.recompute = recompute == RECOMPUTE_NONE  ? AC_RECOMPUTE_NONE
                        : recompute == RECOMPUTE_ALL ? AC_RECOMPUTE_ALL
                                                     : AC_RECOMPUTE_AUTO;
  t->graph = recompute == RECOMPUTE_HINTS || c->hinted ? hinted->graph : t->g->graph;
  AC_TRY(ac_plan_create(&t->plan, t->graph, t->device, &t->policy));
  const ac_plan_info *info = ac_plan_get_info(t->plan);
  t->trial->micro_batch = info->micro_batch;
  t->trial->normalised = info->sections ? t->policy.batch : info->micro_batch;
  t->trial->recomputed = info->recomputed_ops;
  t->trial->whole_window = t->plan->main.whole_window;
  t->trial->gradients = info->gradients;
  t->trial->rounds_anew = info->rounds_anew;
  const ac_graph *graph = t->plan->graph;
  for (int p = 0; p < graph->parameter_count; p++) {
    const int gradient = t->plan->problem.parameters[p].gradient;
    const ac_tensor *parameter = ac_tensor_at(graph, graph->parameters[p]);
    t->trial->rounded[p] = parameter->dtype == AC_BF16;
    t->trial->stepping[p] = ac_optimizer_stepping(&t->policy, parameter);
    t->trial->summed[p] = gradient >= 0 && ac_tensor_at(graph, gradient)->dtype == AC_BF16;
  }
  return AC_OK;
}

/* ---- reading and writing --------------------------------------------------------------------- */

static float **read_weights(const training *t) {
  random_trial *trial = t->trial;
  float **all = calloc((size_t)trial->parameters + 1, sizeof *all);
  for (int p = 0; p < trial->parameters; p++) {
    all[p] = calloc((size_t)trial->count[p], sizeof **all);
    if (trial->status == AC_OK)
      trial->status = ac_trainer_get_parameter(t->trainer, p, 0, trial->count[p], all[p]);
  }
  return all;
}

/* What is kept here; of what other ranks keep zeros. */
static float **read_gradients(const training *t) {
  random_trial *trial = t->trial;
  float **all = calloc((size_t)trial->parameters + 1, sizeof *all);
  for (int p = 0; p < trial->parameters; p++) {
    int64_t first = 0, count = 0;
    if (t->plan->problem.parameters[p].gradient < 0) continue;
    all[p] = calloc((size_t)trial->count[p], sizeof **all);
    if (trial->status == AC_OK)
      trial->status = ac_trainer_gradient_part(t->trainer, p, &first, &count);
    if (trial->status == AC_OK && count)
      trial->status = ac_trainer_get_gradient(t->trainer, p, first, count, all[p] + first);
  }
  return all;
}

static void free_arrays(float **all, int count) {
  for (int p = 0; all && p < count; p++) free(all[p]);
  free(all);
}

/* Of an input without the batch the one value. */
static const void *samples_of(const random_graph *g, int leaf, int64_t first) {
  const random_values *v = &g->values[leaf];
  const ac_tensor *tensor = g->draw.leaves[leaf].tensor;
  const int64_t at = tensor->shape.batched ? first * v->count : 0;
  if (v->fed) return (char *)v->fed + at * (int64_t)ac_dtype_bytes(op_fed_dtype(tensor));
  return v->integers ? (const void *)(v->integers + at) : v->reals + at;
}

/* The inputs without the batch, which no dataset feeds. */
static ac_status set_inputs(const random_graph *g, ac_trainer *trainer, ac_session *session) {
  for (int i = 0; i < g->graph->input_count; i++) {
    const ac_tensor *input = ac_tensor_at(g->graph, g->graph->inputs[i]);
    const void *value = samples_of(g, g->leaf[input->id], 0);
    if (input->shape.batched) continue;
    if (trainer) AC_TRY(ac_trainer_set_input(trainer, input->name, value));
    if (session) AC_TRY(ac_session_set_input(session, input->name, value));
  }
  return AC_OK;
}

static int feeds_of(const random_graph *g, int64_t first, ac_feed *feeds) {
  for (int i = 0; i < g->graph->input_count; i++) {
    int leaf = g->leaf[g->graph->inputs[i]];
    feeds[i] = (ac_feed){g->draw.leaves[leaf].tensor->name, samples_of(g, leaf, first)};
  }
  return g->graph->input_count;
}

static ac_status make_dataset(training *t) {
  const random_graph *g = t->g;
  ac_field fields[AC_MAX_FIELDS];
  const void *data[AC_MAX_FIELDS];
  int count = 0;
  for (int i = 0; i < g->graph->input_count; i++) {
    int leaf = g->leaf[g->graph->inputs[i]];
    const ac_tensor *x = ac_tensor_at(g->graph, g->graph->inputs[i]);
    if (!x->shape.batched) continue;
    fields[count] = (ac_field){x->name, x->dtype, g->values[leaf].count};
    data[count++] = samples_of(g, leaf, 0);
  }
  return ac_dataset_from_memory(&t->dataset, RANDOM_WINDOWS * g->recipe.batch, count, fields, data);
}

/* ---- training -------------------------------------------------------------------------------- */

/* Of several ranks each has the sum of all then. */
static void take_gradients(void *user, ac_trainer *trainer, ac_decision *decision) {
  training *t = user;
  random_window *window = &t->trial->windows[t->window];
  (void)trainer, (void)decision;
  if (window->gradient) free_arrays(window->gradient, t->trial->parameters);
  window->gradient = read_gradients(t);
}

static ac_status make_trainer(training *t) {
  if (t->ranks) t->desc.ranks = t->ranks, t->desc.decide = take_gradients, t->desc.user = t;
  AC_TRY(ac_trainer_create(&t->trainer, t->plan, &t->desc));
  for (int p = 0; p < t->trial->parameters; p++)
    AC_TRY(ac_trainer_set_parameter(t->trainer, p, 0, t->trial->count[p],
                                    t->g->values[t->g->parameter_leaf[p]].reals));
  return set_inputs(t->g, t->trainer, NULL);
}

/* Of a window, the samples of the first of two calls; 0: there is one call. */
static int64_t split_of(const training *t) {
  bool splits = t->habit == HABIT_SPLITS && !t->trial->whole_window && !t->g->couples &&
                t->trial->gradients != AC_GRADIENTS_FOLDED; /* which come at once */
  return splits ? t->g->recipe.batch / 2 : 0;
}

/* In sections a window comes in one call, and another one is refused. */
static bool refuses_second(const training *t) {
  return t->habit == HABIT_SPLITS && ac_plan_get_info(t->plan)->sections;
}

/* Samples [first, first + batch), in one call or two. */
static ac_status accumulate(training *t, int64_t first) {
  ac_feed feeds[OP_DRAW_INPUTS];
  int64_t batch = t->share, begin = split_of(t);
  if (t->ranks) AC_TRY(ac_trainer_begin_share(t->trainer, t->share_first));
  if (!batch) return AC_OK;
  first += t->share_first;
  if (begin) AC_TRY(ac_trainer_accumulate(t->trainer, begin, feeds, feeds_of(t->g, first, feeds)));
  int count = feeds_of(t->g, first + begin, feeds);
  AC_TRY(ac_trainer_accumulate(t->trainer, batch - begin, feeds, count));
  if (refuses_second(t) && ac_trainer_accumulate(t->trainer, 1, feeds, count) != AC_ERROR_STATE)
    return ac_fail(AC_ERROR_INTERNAL, "a window in sections took a second call");
  if (t->habit != HABIT_EVALUATES || t->trial->whole_window) return AC_OK;
  return ac_trainer_evaluate(t->trainer, t->dataset, 0, &t->trial->evaluation);
}

/* Between windows: what the loss takes, of all samples of a window, which must change nothing. */
static ac_status predict(const training *t, int64_t first) {
  const ac_graph *graph = t->g->graph;
  ac_feed feeds[OP_DRAW_INPUTS];
  const int count = feeds_of(t->g, first, feeds);
  if (!graph->output_count) return AC_OK;
  const ac_shape *shape = &ac_tensor_at(graph, graph->outputs[0].tensor)->shape;
  const int64_t elements = ac_shape_count(shape) * (shape->batched ? t->g->recipe.batch : 1);
  float *data = malloc((size_t)elements * sizeof *data);
  if (!data) return ac_fail(AC_ERROR_MEMORY, "no memory for a prediction");
  const ac_status status =
      ac_trainer_predict(t->trainer, "sum", t->g->recipe.batch, feeds, count, elements, data);
  free(data);
  return status;
}

/* A window that overflows in f16 runs again at the lower scale. */
static ac_status train_window(training *t, int w) {
  random_window *window = &t->trial->windows[w];
  int64_t batch = t->g->recipe.batch;
  for (int attempt = 0; attempt < MOST_ATTEMPTS; attempt++) {
    if (t->habit == HABIT_DISCARDS && !t->plan->way->folds) {
      AC_TRY(accumulate(t, (RANDOM_WINDOWS - 1 - w) * batch));
      ac_trainer_discard(t->trainer);
    }
    if (t->habit == HABIT_EVALUATES) AC_TRY(predict(t, w * batch));
    AC_TRY(accumulate(t, w * batch));
    t->window = w;
    if (!t->ranks) {
      free_arrays(window->gradient, t->trial->parameters);
      window->gradient = t->plan->way->keeps ? read_gradients(t) : NULL;
    }
    AC_TRY(t->trial->status);
    AC_TRY(ac_trainer_update(t->trainer, &window->update));
    if (!window->update.skipped || window->update.stuck) break;
  }
  window->weights = read_weights(t);
  return t->trial->status;
}

/* With the last weights, forward only. */
static ac_status evaluate_in_session(const training *t) {
  ac_plan_desc policy = {.purpose = AC_EVALUATE,
                         .batch = t->policy.batch,
                         .micro_batch = t->trial->micro_batch,
                         .precision = t->policy.precision};
  ac_plan *plan = NULL;
  ac_session *session = NULL;
  ac_status status = ac_plan_create(&plan, t->graph, t->device, &policy);
  if (status == AC_OK) status = ac_session_create(&session, plan, RANDOM_SEED);
  for (int p = 0; p < t->trial->parameters && status == AC_OK; p++)
    status = ac_session_set_parameter(
        session, ac_tensor_at(t->g->graph, t->g->graph->parameters[p])->name, 0, t->trial->count[p],
        t->trial->windows[RANDOM_WINDOWS - 1].weights[p]);
  if (status == AC_OK) status = set_inputs(t->g, NULL, session);
  if (status == AC_OK) status = ac_session_evaluate(session, t->dataset, 0, &t->trial->evaluation);
  ac_session_free(session);
  ac_plan_free(plan);
  return status;
}

/* The averages of trained parameters are those of the weights after the two updates, the first one
 * whole. */
static ac_status check_averages(const training *t, float *const *averages) {
  const random_window *w = t->trial->windows;
  for (int p = 0; p < t->trial->parameters; p++) {
    const double kept = t->plan->problem.parameters[p].gradient < 0 ? 0 : average_decay;
    for (int64_t e = 0; e < t->trial->count[p]; e++) {
      const double first = (double)w[0].weights[p][e], last = (double)w[1].weights[p][e],
                   want = kept * first + (1 - kept) * last;
      if (!(fabs((double)averages[p][e] - want) <= 0x1p-22 * (fabs(first) + fabs(last))))
        return ac_fail(AC_ERROR_STATE, "the average of parameter %d [%lld] is %.9g, not %.9g", p,
                       (long long)e, (double)averages[p][e], want);
    }
  }
  return AC_OK;
}

/* After looking at averages the weights are what they were before. */
static ac_status look_at_averages(const training *t) {
  random_trial *trial = t->trial;
  AC_TRY(ac_trainer_use_average(t->trainer, true));
  float **averages = read_weights(t);
  ac_status status = trial->status;
  if (status == AC_OK) status = check_averages(t, averages);
  if (status == AC_OK) status = ac_trainer_use_average(t->trainer, false);
  free_arrays(averages, trial->parameters);
  AC_TRY(status);
  float **weights = read_weights(t);
  bool same = true;
  for (int p = 0; same && p < trial->parameters; p++)
    same = !memcmp(weights[p], trial->windows[RANDOM_WINDOWS - 1].weights[p],
                   (size_t)trial->count[p] * sizeof(float));
  free_arrays(weights, trial->parameters);
  return same ? trial->status : ac_fail(AC_ERROR_STATE, "looking at averages changed the weights");
}

/* With the trainer's own weights, forward only. */
static ac_status evaluate_shared(const training *t) {
  ac_plan_desc policy = {.purpose = AC_EVALUATE,
                         .batch = t->policy.batch,
                         .micro_batch = t->trial->micro_batch,
                         .precision = t->policy.precision,
                         .weights = t->policy.weights,
                         .shared = "*"};
  ac_plan *plan = NULL;
  ac_session *session = NULL;
  ac_status status = ac_plan_create(&plan, t->graph, t->device, &policy);
  if (status == AC_OK) status = ac_session_create_shared(&session, plan, RANDOM_SEED, t->trainer);
  if (status == AC_OK) status = set_inputs(t->g, NULL, session);
  if (status == AC_OK) status = ac_session_evaluate(session, t->dataset, 0, &t->trial->evaluation);
  ac_session_free(session);
  ac_plan_free(plan);
  return status;
}

typedef struct fitted {
  ac_update update[RANDOM_WINDOWS];
  int count;
} fitted;

static bool note_step(void *user, const ac_fit_event *event) {
  fitted *f = user;
  if (event->kind != AC_FIT_STEP || event->replayed || f->count == RANDOM_WINDOWS) return true;
  f->update[f->count++] = event->update;
  return true;
}

static bool same_update(const ac_update *a, const ac_update *b) {
  return a->loss == b->loss && a->weight == b->weight &&
         (a->grad_norm == b->grad_norm || isnan(a->grad_norm)) && /* folded, it has none */
         a->loss_scale == b->loss_scale && a->skipped == b->skipped;
}

static ac_status fit_again(training *t) {
  fitted f = {.count = 0};
  ac_trainer_free(t->trainer);
  t->trainer = NULL;
  AC_TRY(make_trainer(t));
  AC_TRY(ac_fit(t->trainer,
                &(ac_fit_desc){.train = t->dataset,
                               .steps = RANDOM_WINDOWS,
                               .no_final_evaluation = true,
                               .no_shuffle = true,
                               .replay = true,
                               .callback = note_step,
                               .user = &f},
                NULL));
  float **weights = read_weights(t);
  bool same = f.count == RANDOM_WINDOWS;
  for (int w = 0; same && w < RANDOM_WINDOWS; w++)
    same = same_update(&f.update[w], &t->trial->windows[w].update);
  for (int p = 0; same && p < t->trial->parameters; p++)
    same = !memcmp(weights[p], t->trial->windows[RANDOM_WINDOWS - 1].weights[p],
                   (size_t)t->trial->count[p] * sizeof(float));
  free_arrays(weights, t->trial->parameters);
  if (same) return t->trial->status;
  return ac_fail(AC_ERROR_STATE, "ac_fit leaves other bits than accumulate and update");
}

/* ---- without gradients ----------------------------------------------------------------------- */

static ac_status train_windows(training *t) {
  for (int w = 0; w < RANDOM_WINDOWS; w++) AC_TRY(train_window(t, w));
  return AC_OK;
}

static bool same_window(const training *t, const random_window *a, const random_window *b) {
  bool same = same_update(&a->update, &b->update);
  for (int p = 0; same && p < t->trial->parameters; p++)
    same = !memcmp(a->weights[p], b->weights[p], (size_t)t->trial->count[p] * sizeof(float));
  return same;
}

/* `kept` becomes another training with a plan and a trainer of its own. */
static ac_status make_kept(training *kept) {
  kept->policy.gradients = AC_GRADIENTS_BUFFER;
  kept->policy.memory = 0;
  kept->policy.micro_batch = kept->trial->micro_batch;
  AC_TRY(ac_plan_create(&kept->plan, kept->graph, kept->device, &kept->policy));
  return make_trainer(kept);
}

/* Trains the windows anew, where nothing was folded, for they have to be the same. */
static ac_status train_same(training *kept, const random_window old[RANDOM_WINDOWS]) {
  bool same = true;
  AC_TRY(train_windows(kept));
  for (int w = 0; w < RANDOM_WINDOWS; w++)
    same = same && same_window(kept, &old[w], &kept->trial->windows[w]);
  return same ? AC_OK
              : ac_fail(AC_ERROR_STATE, "without a buffer for gradients it leaves other bits");
}

/* Each window from the weights that folding has left; puts these back in the place of what a buffer
 * has made of them. */
static ac_status train_anew(training *kept, const random_window folded[RANDOM_WINDOWS]) {
  random_trial *trial = kept->trial;
  for (int w = 0; w < RANDOM_WINDOWS; w++) {
    for (int p = 0; p < trial->parameters && w > 0; p++)
      AC_TRY(
          ac_trainer_set_parameter(kept->trainer, p, 0, trial->count[p], folded[w - 1].weights[p]));
    AC_TRY(train_window(kept, w));
    if (!same_update(&folded[w].update, &trial->windows[w].update))
      return ac_fail(AC_ERROR_STATE, "folding gradients changes what the window came to");
    for (int p = 0; p < trial->parameters; p++)
      memcpy(trial->windows[w].weights[p], folded[w].weights[p],
             (size_t)trial->count[p] * sizeof(float));
  }
  return AC_OK;
}

/* Puts windows with gradients in the place of those without. */
static ac_status find_gradients(const training *t) {
  random_window old[RANDOM_WINDOWS];
  training kept = *t;
  const ac_evaluation evaluation = t->trial->evaluation;
  kept.plan = NULL;
  kept.trainer = NULL;
  memcpy(old, t->trial->windows, sizeof old);
  memset(t->trial->windows, 0, sizeof old);
  ac_status status = make_kept(&kept);
  if (status == AC_OK)
    status = t->plan->way->folds ? train_anew(&kept, old) : train_same(&kept, old);
  for (int w = 0; w < RANDOM_WINDOWS; w++) free_arrays(old[w].weights, t->trial->parameters);
  t->trial->evaluation = evaluation;
  ac_trainer_free(kept.trainer);
  ac_plan_free(kept.plan);
  return status;
}

/* Leaves out of the choice what it came to nothing of. */
static void note_effects(training *t, random_choice *took) {
  if (!t->trial->recomputed) took->level[RANDOM_recompute] = RECOMPUTE_NONE;
  if (!ac_plan_get_info(t->plan)->sections) took->level[RANDOM_norms] = 0;
  if (!t->policy.frozen) took->level[RANDOM_frozen] = FROZEN_NONE;
  if (!t->desc.group_count) took->level[RANDOM_groups] = 0;
  if (!t->policy.average) took->level[RANDOM_average] = 0;
  bool splits = split_of(t) > 0 || refuses_second(t), evaluates = !t->trial->whole_window;
  if ((t->habit == HABIT_SPLITS && !splits) || (t->habit == HABIT_EVALUATES && !evaluates))
    took->level[RANDOM_habit] = HABIT_PLAIN;
  if (t->habit == HABIT_DISCARDS && t->plan->way->folds) took->level[RANDOM_habit] = HABIT_PLAIN;
  /* What losses weigh is counted before a window that is folded. */
  if (t->plan->way->folds && !ac_plan_get_info(t->plan)->read_ahead) took->level[RANDOM_fit] = 0;
  /* Where a split makes other micro-batches, fitting leaves other bits. */
  if (split_of(t) % t->trial->micro_batch) took->level[RANDOM_fit] = 0;
}

static ac_status train(training *t, const random_graph *hinted, const random_choice *c) {
  AC_TRY(make_plan(t, hinted, c));
  note_effects(t, &t->trial->took);
  AC_TRY(make_dataset(t));
  AC_TRY(make_trainer(t));
  t->trial->start = read_weights(t);
  AC_TRY(train_windows(t));
  AC_TRY(ac_trainer_evaluate(t->trainer, t->dataset, 0, &t->trial->evaluation));
  if (t->policy.average) AC_TRY(look_at_averages(t));
  if (t->habit == HABIT_SESSION) AC_TRY(evaluate_in_session(t));
  /* A session in 16 bits reads copies. */
  if (t->habit == HABIT_SHARES &&
      (t->plan->problem.copies || t->policy.precision == AC_PRECISION_F32))
    AC_TRY(evaluate_shared(t));
  if (!t->plan->way->keeps && !t->plan->way->shards) AC_TRY(find_gradients(t));
  return t->trial->took.level[RANDOM_fit] ? fit_again(t) : AC_OK;
}

static void try_one(training *t, const random_graph *hinted, const random_choice *choice) {
  random_trial *trial = t->trial;
  const random_graph *g = t->g;
  *trial = (random_trial){.parameters = g->graph->parameter_count, .took = *choice};
  trial->count = calloc((size_t)trial->parameters + 1, sizeof *trial->count);
  for (int p = 0; p < trial->parameters; p++)
    trial->count[p] = ac_shape_count(&ac_tensor_at(g->graph, g->graph->parameters[p])->shape);
  if (t->device && choice->level[RANDOM_precision] == AC_PRECISION_BF16 &&
      strcmp(ac_device_get_info(t->device)->bf16_products, "as floats") != 0)
    trial->factors = AC_BF16;
  ac_status status = t->device ? train(t, hinted, choice) : AC_ERROR_DEVICE;
  if (status != AC_OK) snprintf(trial->message, sizeof trial->message, "%s", ac_last_error());
  trial->status = status;
  ac_trainer_free(t->trainer);
  if (t->device && ac_device_allocated_bytes(t->device) && trial->status == AC_OK) {
    trial->status = AC_ERROR_STATE;
    snprintf(trial->message, sizeof trial->message, "the device holds memory after the trainer");
  }
  ac_plan_free(t->plan);
  ac_dataset_free(t->dataset);
}

static training training_of(random_trial *trial, const random_graph *g, const random_choice *choice,
                            bool opencl, int rank) {
  return (training){.trial = trial,
                    .habit = choice->level[RANDOM_habit],
                    .g = g,
                    .desc = {.seed = RANDOM_SEED},
                    .device = random_device(choice, opencl, op_draw_hash(g->recipe.key, 11), rank)};
}

void random_try(random_trial *trial, const random_graph *g, const random_graph *hinted,
                const random_choice *choice, bool opencl) {
  training t = training_of(trial, g, choice, opencl, 0);
  try_one(&t, hinted, choice);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

typedef struct ranked_trials {
  random_trial trials[RANDOM_MOST_RANKS];
  training trainings[RANDOM_MOST_RANKS];
  const random_graph *hinted;
  const random_choice *choice;
} ranked_trials;

static void try_rank(ac_ranks *ranks, int rank, void *user) {
  ranked_trials *all = user;
  training *t = &all->trainings[rank];
  t->ranks = ranks;
  try_one(t, all->hinted, all->choice);
  if (t->trial->status != AC_OK) ac_ranks_abort(ranks, t->trial->message);
  ac_ranks_close(ranks);
}

/* Adds the parts of a window's gradients that another rank has kept. */
static void join_gradients(random_trial *first, const random_trial *other, int w) {
  float *const *to = first->windows[w].gradient, *const *from = other->windows[w].gradient;
  for (int p = 0; p < first->parameters && to && from; p++)
    for (int64_t i = 0; to[p] && from[p] && i < first->count[p]; i++) to[p][i] += from[p][i];
}

/* All ranks have to have the same; what one has failed with is what the trial has. */
static void join_trials(ranked_trials *all, int ranks) {
  random_trial *first = &all->trials[0];
  for (int r = 1; r < ranks; r++) {
    random_trial *t = &all->trials[r];
    if (t->status != AC_OK && (first->status == AC_OK || first->status == AC_ERROR_STOPPED)) {
      first->status = t->status;
      snprintf(first->message, sizeof first->message, "rank %d: %.400s", r, t->message);
    }
    for (int w = 0; w < RANDOM_WINDOWS && first->status == AC_OK; w++) {
      if (first->gradients == AC_GRADIENTS_SHARDED) join_gradients(first, t, w);
      if (same_window(&all->trainings[0], &first->windows[w], &t->windows[w])) continue;
      first->status = AC_ERROR_STATE;
      snprintf(first->message, sizeof first->message, "rank %d has other bits than rank 0", r);
    }
    random_trial_free(t);
  }
}

bool random_can_share(const random_graph *g, const random_trial *alone) {
  return alone->status == AC_OK && alone->gradients == AC_GRADIENTS_BUFFER &&
         (!g->couples || alone->took.level[RANDOM_norms]) &&
         alone->took.level[RANDOM_optimizer] != OPTIMIZER_CALLBACK;
}

void random_try_ranks(random_trial *trial, const random_graph *g, const random_graph *hinted,
                      const random_choice *choice, bool opencl, int ranks) {
  random_choice shared = *choice;
  ac_ranks *list[RANDOM_MOST_RANKS];
  static ranked_trials all;
  all = (ranked_trials){.hinted = hinted, .choice = &shared};
  shared.level[RANDOM_windows] = WINDOWS_ANY;
  shared.level[RANDOM_habit] = HABIT_PLAIN;
  for (int r = 0; r < ranks; r++) {
    all.trainings[r] = training_of(&all.trials[r], g, &shared, opencl, r);
    all.trainings[r].divides = op_draw_hash(g->recipe.key, 31) & 1;
  }
  if (ac_ranks_create_threads(list, ranks, NULL) == AC_OK) {
    run_rank_threads(list, ranks, try_rank, &all);
    join_trials(&all, ranks);
    *trial = all.trials[0];
    return;
  }
  *trial = (random_trial){.status = AC_ERROR_MEMORY};
  snprintf(trial->message, sizeof trial->message, "%s", ac_last_error());
}

void random_trial_free(random_trial *t) {
  free_arrays(t->start, t->parameters);
  for (int w = 0; w < RANDOM_WINDOWS; w++) {
    free_arrays(t->windows[w].gradient, t->parameters);
    free_arrays(t->windows[w].weights, t->parameters);
  }
  free(t->count);
  memset(t, 0, sizeof *t);
}
