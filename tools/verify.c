/* `accrue verify`: whether training as planned (accumulated, recomputed) is the same as training on
 * whole batches. A few updates are made both ways from the same weights on the same samples; the
 * gradients of each window and the weights after the last are compared, parameter by parameter.
 *
 * Rounding is what may differ. A float gradient summed in another order is off by some 1e-7 of the
 * terms' magnitude per op; over a deep network 1e-4 of a gradient's own norm is far above that and
 * far below what a wrong division, a dropped sample or a statistic of the wrong batch does. A
 * gradient that is itself zero but for rounding (the bias of attention's keys: softmax does not see
 * a shift) is held against the norm of all gradients instead. Adam turns such noise into steps, so
 * weights are held against the norm of all weights. */
#include "commands.h"
#include "message.h"
#include "setup.h"
#include "text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16 };
static const double gradient_tolerance = 1e-4, noise_tolerance = 1e-6, weight_tolerance = 1e-5;

static struct { int64_t updates; } flags;

static void more_flags(options *o) {
  const option rows[] = {{"updates", "N", OPTION_INTEGER, &flags.updates,
                          .help = "to make each way", .least = 1, .most = 1000}};
  OPTIONS_ADD(o, "Verification", rows);
}

/* One way of training: what it left behind, all parameters one after another. */
typedef struct way {
  ac_plan *plan;
  ac_trainer *trainer; /* freed as soon as its results are on the host: only one at a time */
  float **gradients;   /* by parameter: the sum of the last window; NULL: not trained */
  float **weights;
  double loss;
} way;

static int64_t parameter_elements(const ac_trainer *trainer, int index, const char **name) {
  ac_tensor_info info;
  if (ac_trainer_parameter_info(trainer, index, &info) != AC_OK) return 0;
  int64_t count = 1;
  for (int i = 0; i < info.rank; i++) count *= info.shape[i];
  if (name) *name = info.name;
  return count;
}

static ac_status fetch(way *w, int index, bool gradient, float **to) {
  int64_t count = parameter_elements(w->trainer, index, NULL);
  if (!*to && !(*to = malloc((size_t)count * sizeof **to))) return AC_ERROR_MEMORY;
  for (int64_t first = 0; first < count; first += PIECE) {
    int64_t piece = count - first < PIECE ? count - first : PIECE;
    ac_status status = gradient
                           ? ac_trainer_get_gradient(w->trainer, index, first, piece, *to + first)
                           : ac_trainer_get_parameter(w->trainer, index, first, piece, *to + first);
    if (status != AC_OK) return status;
  }
  return AC_OK;
}

/* A frozen parameter, or one that the loss does not depend on, has no gradient: AC_ERROR_ARGUMENT.
 */
static ac_status fetch_gradients(way *w) {
  for (int i = 0; i < ac_trainer_parameter_count(w->trainer); i++) {
    ac_status status = fetch(w, i, true, &w->gradients[i]);
    if (status == AC_OK) continue;
    if (status != AC_ERROR_ARGUMENT) return status;
    free(w->gradients[i]);
    w->gradients[i] = NULL;
  }
  return AC_OK;
}

/* Samples [first, first + batch) of the shuffled first epochs, all fields one after another in
 * `block`. */
static ac_status read_window(const setup *s, ac_dataset *dataset, int64_t first, void **blocks) {
  int64_t count = ac_dataset_count(dataset);
  void *fields[AC_MAX_FIELDS];
  for (int64_t i = 0; i < s->flags.batch; i++) {
    ac_sample_key key = {.epoch = (first + i) / count, .seed = (uint64_t)s->flags.seed};
    key.index = ac_shuffle(key.seed, key.epoch, (first + i) % count, count);
    for (int f = 0; f < ac_dataset_field_count(dataset); f++) {
      const ac_field *field = ac_dataset_field(dataset, f);
      size_t bytes = (size_t)field->elements * ac_dtype_bytes(field->dtype);
      fields[f] = (char *)blocks[f] + (size_t)i * bytes;
    }
    ac_status status = ac_dataset_read(dataset, &key, fields);
    if (status != AC_OK) return status;
  }
  return AC_OK;
}

static ac_status train(const setup *s, way *w, void **blocks) {
  ac_dataset *dataset = s->data.train;
  ac_feed feeds[AC_MAX_FIELDS];
  int fields = ac_dataset_field_count(dataset);
  for (int f = 0; f < fields; f++)
    feeds[f] = (ac_feed){ac_dataset_field(dataset, f)->name, blocks[f]};
  for (int64_t u = 0; u < flags.updates; u++) {
    ac_update update;
    ac_status status = read_window(s, dataset, u * s->flags.batch, blocks);
    bool again = true; /* while a lower loss scale may help */
    while (status == AC_OK && again) {
      status = ac_trainer_accumulate(w->trainer, s->flags.batch, feeds, fields);
      if (status == AC_OK && u == flags.updates - 1) status = fetch_gradients(w);
      if (status == AC_OK) status = ac_trainer_update(w->trainer, &update);
      again = status == AC_OK && update.skipped && !update.stuck && update.weight != 0;
    }
    if (status != AC_OK) return status;
    if (update.skipped) return AC_ERROR_NOT_FINITE;
    w->loss = update.loss;
  }
  for (int i = 0; i < ac_trainer_parameter_count(w->trainer); i++) {
    ac_status status = fetch(w, i, false, &w->weights[i]);
    if (status != AC_OK) return status;
  }
  return AC_OK;
}

static int run_way(setup *s, const ac_plan_desc *desc, const char *name, way *w, void **blocks) {
  int status = setup_plan(s, desc, &w->plan);
  if (status != STATUS_CONTINUE) return status;
  const ac_plan_info *info = ac_plan_get_info(w->plan);
  printf("%-8s %" PRId64 " x micro-batch %" PRId64 ", %" PRId64 " ops run again, %s\n", name,
         info->accumulation_steps, info->micro_batch, info->recomputed_ops,
         text_bytes(info->bytes.total).text);
  if (ac_trainer_create(&w->trainer, w->plan, &s->trainer) != AC_OK) return fail_library();
  size_t count = (size_t)ac_trainer_parameter_count(w->trainer);
  w->gradients = calloc(count + 1, sizeof *w->gradients);
  w->weights = calloc(count + 1, sizeof *w->weights);
  if (!w->gradients || !w->weights) return fail("out of memory");
  ac_status result = AC_OK;
  if (s->flags.init) result = ac_trainer_load(w->trainer, s->flags.init, s->kind->optional_prefix);
  if (result == AC_OK) result = train(s, w, blocks);
  if (result == AC_ERROR_NOT_FINITE)
    return fail(
        "the loss or a gradient of the %s run is not finite, so there is nothing to compare", name);
  return result == AC_OK ? STATUS_CONTINUE : fail_library();
}

static void release_way(way *w, int parameters) {
  for (int i = 0; i < parameters; i++) {
    if (w->gradients) free(w->gradients[i]);
    if (w->weights) free(w->weights[i]);
  }
  free(w->gradients);
  free(w->weights);
  ac_trainer_free(w->trainer);
  ac_plan_free(w->plan);
}

/* ---- comparing ------------------------------------------------------------------------------- */

typedef struct distance {
  double difference, norm; /* squares */
} distance;

static distance compare(const float *a, const float *b, int64_t count) {
  distance d = {0, !a != !b ? INFINITY : 0};
  for (int64_t i = 0; a && b && i < count; i++) {
    double difference = (double)a[i] - (double)b[i];
    d.difference += difference * difference;
    d.norm += (double)a[i] * (double)a[i];
  }
  return d;
}

static double ratio(distance d) {
  if (!isfinite(d.norm) || !isfinite(d.difference)) return INFINITY;
  return d.norm > 0 ? sqrt(d.difference / d.norm) : d.difference > 0 ? INFINITY : 0;
}

/* Layers whose result for a sample depends on the rest of its micro-batch. */
static void print_coupled(const ac_plan *plan) {
  const ac_plan_info *info = ac_plan_get_info(plan);
  int coupled = 0;
  printf("\nlayers       ");
  for (int64_t i = 0; i < info->steps; i++) {
    ac_plan_step step;
    if (ac_plan_get_step(plan, i, &step) != AC_OK || !step.couples_samples || step.backward)
      continue;
    printf("%s%s (%s)", coupled++ ? ", " : "", step.scope, step.op);
  }
  printf(coupled ? ": not equivalent under accumulation\n"
                 : "none sees more than one sample, so accumulation is equivalent\n");
}

static int print_comparison(const way *whole, const way *planned, ac_trainer *trainer) {
  int parameters = ac_trainer_parameter_count(trainer), worse = 0;
  double gradients = 0, weights = 0;
  for (int i = 0; i < parameters; i++) {
    int64_t count = parameter_elements(trainer, i, NULL);
    gradients += compare(whole->gradients[i], whole->gradients[i], count).norm;
    weights += compare(whole->weights[i], whole->weights[i], count).norm;
  }
  printf("\n%-44s %12s %12s\n", "relative difference of", "gradient", "weights");
  for (int i = 0; i < parameters; i++) {
    const char *name = "";
    int64_t count = parameter_elements(trainer, i, &name);
    distance g = compare(whole->gradients[i], planned->gradients[i], count);
    distance w = compare(whole->weights[i], planned->weights[i], count);
    bool same =
        ratio(g) <= gradient_tolerance || sqrt(g.difference) <= noise_tolerance * sqrt(gradients);
    same = same && sqrt(w.difference) <= weight_tolerance * sqrt(weights);
    worse += !same;
    printf("%-44s %12.3g %12.3g%s\n", name, ratio(g), ratio(w),
           same ? "" : "  worse than rounding");
  }
  print_coupled(planned->plan);
  printf("loss         %.9g whole, %.9g planned\n", whole->loss, planned->loss);
  if (worse) {
    printf("verdict      different: %d of %d parameters are off by more than rounding explains\n",
           worse, parameters);
    return STATUS_FAILED;
  }
  printf("verdict      the same up to rounding\n");
  return STATUS_DONE;
}

/* ---- the command ----------------------------------------------------------------------------- */

static bool allocate_blocks(const setup *s, void **blocks) {
  for (int f = 0; f < ac_dataset_field_count(s->data.train); f++) {
    const ac_field *field = ac_dataset_field(s->data.train, f);
    size_t bytes = (size_t)field->elements * ac_dtype_bytes(field->dtype);
    if (!(blocks[f] = malloc((size_t)s->flags.batch * bytes))) return false;
  }
  return true;
}

static int verify(setup *s) {
  void *blocks[AC_MAX_FIELDS] = {NULL};
  way whole = {0}, planned = {0};
  ac_plan_desc as_planned = setup_plan_desc(s), at_once = as_planned;
  at_once.micro_batch = at_once.batch;
  at_once.memory = 0;
  at_once.recompute = AC_RECOMPUTE_NONE;
  int status = allocate_blocks(s, blocks) ? STATUS_CONTINUE : fail("out of memory");
  if (status == STATUS_CONTINUE) status = run_way(s, &at_once, "whole", &whole, blocks);
  int parameters = whole.trainer ? ac_trainer_parameter_count(whole.trainer) : 0;
  ac_trainer_free(whole.trainer);
  whole.trainer = NULL;
  if (status == STATUS_CONTINUE) status = run_way(s, &as_planned, "planned", &planned, blocks);
  if (status == STATUS_CONTINUE) status = print_comparison(&whole, &planned, planned.trainer);
  release_way(&whole, parameters);
  release_way(&planned, parameters);
  for (int f = 0; f < AC_MAX_FIELDS; f++) free(blocks[f]);
  return status;
}

int verify_main(int argc, char **argv) {
  if (setup_wants_help(argc, argv))
    return setup_kinds("verify", "Compares training as planned with training on whole batches.");
  flags.updates = 3;
  setup s;
  int status = setup_open_model(&s, "verify", argc, argv, more_flags);
  if (status == STATUS_CONTINUE && !s.data.train) status = fail_usage("--data is missing");
  if (status == STATUS_CONTINUE) {
    s.trainer.schedule = (ac_schedule){.lr = s.flags.lr > 0 ? s.flags.lr : -1};
    status = verify(&s);
  }
  setup_close(&s);
  return status;
}
