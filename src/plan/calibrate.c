/* Times every op at three sizes and fits seconds = launch + flops x per_flop + bytes x per_byte.
 *
 * The table below says which operands an op has and how they depend on the size. Operands and
 * workspace lie in one chunk, allocated once for the largest of them (below 40 MiB). The first size
 * is so small that it shows what it costs to begin; the other two are those of activations that
 * have left the inner caches, where a training step finds them. In between there would be sizes
 * that repeated runs find in a cache and a step does not.
 *
 * Other programs may use the machine at the same time, so an op's time is the least of several, and
 * the ops are gone through several times, so that a burst of foreign work does not meet all the
 * runs of one. Short runs are queued several at once, as a step does, so that a device's latency is
 * not taken for its throughput. A CPU is busy with all ops for about half a second.
 *
 * A device that compiles its kernels first, in `prepare` or, as PoCL does, within a first run,
 * takes that much longer; so the sizes of an op ask for the same kernels where they can, and only
 * the ops that a plan wants are timed. All the rest is bounded: a size is only run where what it
 * takes at most, by the smaller size's time and the work of both, is left of the seconds given. An
 * op whose larger sizes were left out is not fitted but estimated: it takes the guess, scaled by
 * what the ops that are known, of any storage type, take of theirs. */
#include "plan/cost.h"

#include "core/error.h"
#include "ops/attention.h"
#include "ops/batch_norm.h"
#include "ops/concat.h"
#include "ops/conv2d.h"
#include "ops/dropout.h"
#include "ops/gelu.h"
#include "ops/group_norm.h"
#include "ops/layer_norm.h"
#include "ops/leaky_relu.h"
#include "ops/linear.h"
#include "ops/linear_cross_entropy.h"
#include "ops/matmul.h"
#include "ops/optimizer.h"
#include "ops/pool2d.h"
#include "ops/rms_norm.h"
#include "ops/scale.h"
#include "ops/transpose.h"
#include "ops/upsample_nearest2d.h"
#include "ops/weight_standardisation.h"
#include "plan/timing.h"

#include <math.h>
#include <stdio.h>

/* ---- what is timed ----------------------------------------------------------------------------
 */

enum { SIZES = AC_COST_SIZES };

/* A shape is a word: each letter is a dimension of three sizes, a digit is itself. The middle size
 * of products and of attention does little arithmetic for the bytes it moves, so that the two can
 * be told apart. */
static int64_t dimension(char letter, int size) {
  static const struct {
    char letter;
    int64_t size[SIZES];
  } dimensions[] = {
      {'n', {64, 1 << 19, 1 << 20}}, /* elements */
      {'p', {64, 1 << 20, 1 << 21}}, /* of a parameter: an update finds none in a cache */
      {'R', {16, 1024, 2048}},       /* rows and */
      {'C', {64, 512, 512}},         /* channels */
      {'m', {2, 8, 16}},             /* samples, */
      {'c', {8, 64, 64}},            /* channels and */
      {'P', {4, 1024, 1024}},        /* positions of images */
      {'v', {4, 512, 2048}},         /* rows and */
      {'V', {128, 1024, 1024}},      /* classes, or entries of a table */
      {'r', {4, 64, 512}},           /* rows, */
      {'i', {128, 768, 768}},        /* inputs and */
      {'o', {128, 3072, 768}},       /* outputs of a linear layer */
      {'b', {1, 64, 8}},             /* a batch of products */
      {'B', {1, 64, 4}},             /* samples, */
      {'T', {16, 64, 512}},          /* positions, */
      {'D', {128, 128, 128}},        /* channels, */
      {'Q', {384, 384, 384}},        /* three times as many, */
      {'H', {4, 4, 4}},              /* and heads of attention */
      {'k', {16, 16, 64}},           /* channels of images, */
      {'K', {32, 32, 128}},          /* twice as many, */
      {'S', {2, 56, 28}},            /* their height or width, */
      {'s', {1, 28, 14}},            /* and half of it */
  };
  for (size_t i = 0; i < sizeof dimensions / sizeof *dimensions; i++)
    if (dimensions[i].letter == letter) return dimensions[i].size[size];
  return letter - '0';
}

/* Shapes of operands; one that begins with # holds ids below V. */
typedef struct timed_op {
  const char *in[AC_MAX_INPUTS], *out[AC_MAX_OUTPUTS];
  const void *attributes;
} timed_op;

static const ac_linear_attributes in_out = {AC_IN_OUT};
static const ac_matmul_attributes product = {false, false};
static const ac_scale_attributes factor = {0.5f};
static const ac_layer_norm_attributes epsilon = {1e-5f};
static const ac_rms_norm_attributes rms_norm = {1e-5f};
static const ac_group_norm_attributes group_norm = {8, 1e-5f};
static const ac_batch_norm_attributes batch_norm = {.epsilon = 1e-5f};
static const ac_batch_norm_pool_attributes batch_norm_pool = {1024};
static const ac_batch_norm_update_attributes batch_norm_update = {0.1f};
static const ac_weight_standardisation_attributes weight_standardisation = {1e-5f};
static const ac_gelu_attributes gelu = {AC_GELU_TANH};
static const ac_leaky_relu_attributes hundredth = {0.01f};
static const ac_attention_attributes heads = {4, 0.125f, 0, 0};
static const ac_dropout_attributes tenth = {0.1f, 1, 1 << 14};
static const ac_transpose_attributes swap = {0, 1};
static const ac_cross_entropy_attributes all_count = {.ignore = false};
static const ac_linear_cross_entropy_attributes head = {
    AC_OUT_IN, {.ignore = false}, AC_LINEAR_CROSS_ENTROPY_CHUNK};
static const ac_conv2d_attributes same = {{1, 1}, {1, 1}, {1, 1}, 1};
static const ac_pool2d_attributes pairs = {{2, 2}, {2, 2}, {0, 0}};
static const ac_concat_attributes channels = {1, 0};
static const ac_upsample_nearest2d_attributes twice = {2};
static const ac_gradient_statistics_attributes unscaled = {1};
static const ac_adamw_attributes adamw = {1, 1e-3f, 0.01f, 0.9f, 0.999f, 1e-8f, 0.1f, 0.03f};
static const ac_sgd_attributes sgd = {1, 1e-3f, 0.01f, 0.9f, false, false};

static const timed_op timed_ops[AC_OP_COUNT] = {
    [AC_OP_linear] = {{"ri", "io", "o"}, {"ro"}, &in_out},
    [AC_OP_linear_input_gradient] = {{"ro", "io"}, {"ri"}, &in_out},
    [AC_OP_linear_weight_gradient] = {{"ri", "ro"}, {"io", "o"}, &in_out},
    [AC_OP_matmul] = {{"bTD", "bDT"}, {"bTT"}, &product},
    [AC_OP_add] = {{"n", "n"}, {"n"}, NULL},
    [AC_OP_sum_leading] = {{"RC"}, {"C"}, NULL},
    [AC_OP_multiply] = {{"n", "n"}, {"n"}, NULL},
    [AC_OP_scale] = {{"n"}, {"n"}, &factor},
    [AC_OP_embedding] = {{"VC", "#R"}, {"RC"}, NULL},
    [AC_OP_embedding_gradient] = {{"#R", "RC"}, {"VC"}, NULL},
    [AC_OP_layer_norm] = {{"RC", "C", "C"}, {"RC", "R2"}, &epsilon},
    [AC_OP_layer_norm_input_gradient] = {{"RC", "RC", "R2", "C"}, {"RC"}, NULL},
    [AC_OP_layer_norm_parameter_gradient] = {{"RC", "RC", "R2"}, {"C", "C"}, NULL},
    [AC_OP_rms_norm] = {{"RC", "C"}, {"RC", "R"}, &rms_norm},
    [AC_OP_rms_norm_input_gradient] = {{"RC", "RC", "R", "C"}, {"RC"}, NULL},
    [AC_OP_rms_norm_parameter_gradient] = {{"RC", "RC", "R"}, {"C"}, NULL},
    [AC_OP_group_norm] = {{"mcP", "c", "c"}, {"mcP", "m82"}, &group_norm},
    [AC_OP_group_norm_gradient] = {{"mcP", "mcP", "m82", "c"}, {"mcP", "c", "c"}, &group_norm},
    [AC_OP_batch_norm] = {{"mcP", "c", "c", "c", "c"}, {"mcP", "c2", "c"}, &batch_norm},
    [AC_OP_batch_norm_gradient] = {{"mcP", "mcP", "c2", "c"}, {"mcP", "c", "c"}, NULL},
    [AC_OP_batch_norm_pool] = {{"n2", "n"}, {"n3"}, &batch_norm_pool},
    [AC_OP_batch_norm_update] = {{"n3"}, {"n", "n"}, &batch_norm_update},
    [AC_OP_weight_standardisation] = {{"RC"}, {"RC", "R2"}, &weight_standardisation},
    [AC_OP_weight_standardisation_gradient] = {{"RC", "RC", "R2"}, {"RC"}, NULL},
    [AC_OP_gelu] = {{"n"}, {"n"}, &gelu},
    [AC_OP_gelu_gradient] = {{"n", "n"}, {"n"}, &gelu},
    [AC_OP_relu] = {{"n"}, {"n"}, NULL},
    [AC_OP_relu_gradient] = {{"n", "n"}, {"n"}, NULL},
    [AC_OP_silu] = {{"n"}, {"n"}, NULL},
    [AC_OP_silu_gradient] = {{"n", "n"}, {"n"}, NULL},
    [AC_OP_leaky_relu] = {{"n"}, {"n"}, &hundredth},
    [AC_OP_leaky_relu_gradient] = {{"n", "n"}, {"n"}, &hundredth},
    [AC_OP_sigmoid] = {{"n"}, {"n"}, NULL},
    [AC_OP_sigmoid_gradient] = {{"n", "n"}, {"n"}, NULL},
    [AC_OP_tanh] = {{"n"}, {"n"}, NULL},
    [AC_OP_tanh_gradient] = {{"n", "n"}, {"n"}, NULL},
    [AC_OP_softmax] = {{"RC"}, {"RC"}, NULL},
    [AC_OP_softmax_gradient] = {{"RC", "RC"}, {"RC"}, NULL},
    [AC_OP_attention] = {{"BTQ"}, {"BTD", "BHT"}, &heads},
    [AC_OP_attention_gradient] = {{"BTD", "BTQ", "BTD", "BHT"}, {"BTQ"}, &heads},
    [AC_OP_dropout] = {{"n"}, {"n"}, &tenth},
    [AC_OP_transpose] = {{"RC"}, {"CR"}, &swap},
    [AC_OP_cross_entropy] = {{"vV", "#v"}, {"8", "v"}, &all_count},
    [AC_OP_cross_entropy_gradient] = {{"vV", "#v", NULL, "v"}, {"vV"}, &all_count},
    [AC_OP_linear_cross_entropy] = {{"rD", "VD", "#r"}, {"8"}, &head},
    [AC_OP_linear_cross_entropy_gradient] = {{"rD", "VD", "#r"}, {"rD", "VD", "8"}, &head},
    [AC_OP_mean_squared_error] = {{"RC", "RC"}, {"8"}, NULL},
    [AC_OP_mean_squared_error_gradient] = {{"RC", "RC"}, {"RC"}, NULL},
    [AC_OP_binary_cross_entropy] = {{"RC", "RC"}, {"8"}, NULL},
    [AC_OP_binary_cross_entropy_gradient] = {{"RC", "RC"}, {"RC"}, NULL},
    [AC_OP_cast] = {{"n"}, {"n"}, NULL},
    [AC_OP_numerics] = {{"n"}, {"#2"}, NULL},
    [AC_OP_conv2d] = {{"8kSS", "kk33", "k"}, {"8kSS"}, &same},
    [AC_OP_conv2d_input_gradient] = {{"8kSS", "kk33"}, {"8kSS"}, &same},
    [AC_OP_conv2d_weight_gradient] = {{"8kSS", "8kSS"}, {"kk33", "k"}, &same},
    [AC_OP_max_pool2d] = {{"8kSS"}, {"8kss"}, &pairs},
    [AC_OP_max_pool2d_gradient] = {{"8kss", "8kSS"}, {"8kSS"}, &pairs},
    [AC_OP_average_pool2d] = {{"8kSS"}, {"8kss"}, &pairs},
    [AC_OP_average_pool2d_gradient] = {{"8kss"}, {"8kSS"}, &pairs},
    [AC_OP_concat] = {{"8kSS", "8kSS"}, {"8KSS"}, &channels},
    [AC_OP_slice] = {{"8KSS"}, {"8kSS"}, &channels},
    [AC_OP_slice_gradient] = {{"8kSS"}, {"8KSS"}, &channels},
    [AC_OP_upsample_nearest2d] = {{"8kss"}, {"8kSS"}, &twice},
    [AC_OP_upsample_nearest2d_gradient] = {{"8kSS"}, {"8kss"}, &twice},
    [AC_OP_gradient_statistics] = {{"p"}, {"2"}, &unscaled},
    [AC_OP_adamw] = {{"p"}, {"p", "p", "p"}, &adamw},
    [AC_OP_sgd] = {{"p"}, {"p", "p"}, &sgd},
};

static ac_operand operand(const char *shape, int size, ac_dtype dtype) {
  ac_operand x = {.dtype = dtype};
  if (!shape) return x;
  if (*shape == '#') x.dtype = AC_I32, shape++;
  for (x.count = 1; *shape; shape++) x.count *= x.dim[x.rank++] = dimension(*shape, size);
  return x;
}

static const ac_run_state run_state = {.training = true, .seed = 1, .batch = 8, .loss_scale = 1};

const void *ac_cost_sample_attributes(ac_op op) {
  return timed_ops[op].attributes;
}

/* A cast goes from f32 to the storage type. */
bool ac_cost_sample(ac_op_args *args, ac_device *device, ac_dtype storage, ac_op op, int size) {
  const timed_op *timed = &timed_ops[op];
  *args = (ac_op_args){.op = op, .attributes = timed->attributes, .run = &run_state};
  if (!timed->in[0]) return false;
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    ac_dtype dtype = ac_op_input_kind(op, i) == 's' ? storage : AC_F32;
    args->in[i] = operand(timed->in[i], size, dtype);
  }
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    char kind = ac_op_output_kind(op, j);
    args->out[j] = operand(timed->out[j], size, kind == 's' || kind == 'a' ? storage : AC_F32);
  }
  args->workspace_bytes = device->backend->workspace(device->state, args);
  return device->backend->supports(device->state, args);
}

/* ---- timing -----------------------------------------------------------------------------------
 */

typedef struct bench {
  ac_device *device;
  void *chunk;
  ac_dtype storage;
  ac_timing_pattern pattern;
  const bool *wanted;
  int wanted_count;
  double limit, spent, compiling; /* seconds; what compiling took is not spent */
  double least[AC_OP_COUNT][SIZES];
} bench;

static uint64_t largest_op(ac_device *device, ac_dtype storage, const bool *wanted) {
  uint64_t largest = 0;
  ac_op_args args;
  for (int op = 0; op < AC_OP_COUNT; op++)
    for (int size = 0; size < SIZES; size++) {
      if (!wanted[op] || !ac_cost_sample(&args, device, storage, (ac_op)op, size)) continue;
      uint64_t bytes = ac_placed_bytes(device, &args);
      if (bytes > largest) largest = bytes;
    }
  return largest;
}

enum { PASSES = 3, LONGEST_QUEUE = 16 };
static const double queue_seconds = 2e-4; /* runs shorter than this are queued to fill it */
static const double long_seconds = 1e-2;  /* runs longer than this are not repeated */

/* Seconds of one of several runs, if they are the least so far. */
static ac_status time_runs(const bench *b, const ac_placed_op *placed, int runs, double *least) {
  double seconds;
  int next = 0;
  AC_TRY(ac_placed_run(b->device, placed, 1, &next, runs, &seconds));
  if (seconds / runs < *least) *least = seconds / runs;
  return AC_OK;
}

/* What the first run takes beyond the later ones is the compiler's. */
static ac_status time_placed(bench *b, const ac_placed_op *placed, double *least) {
  const ac_backend *backend = b->device->backend;
  double first = HUGE_VAL, later = HUGE_VAL, start = b->device->clock();
  AC_TRY(backend->prepare(b->device->state, &placed->args));
  AC_TRY(backend->finish(b->device->state));
  b->compiling += b->device->clock() - start;
  AC_TRY(time_runs(b, placed, 1, &first));
  int runs = 1;
  while (runs < LONGEST_QUEUE && runs * first < queue_seconds) runs *= 2;
  AC_TRY(time_runs(b, placed, runs, &later));
  b->compiling += fmax(first - later, 0);
  *least = fmin(*least, fmin(first, later));
  return AC_OK;
}

/* Whether there is time for it: growing an op's work multiplies its time at most by as much. */
static bool affordable(const bench *b, const ac_op_args *args, int size) {
  if (size == 0) return b->spent < b->limit;
  ac_op_args smaller;
  ac_cost_sample(&smaller, b->device, b->storage, args->op, size - 1);
  const ac_cost work = ac_cost_work(args), less = ac_cost_work(&smaller);
  double growth = work.bytes / less.bytes;
  if (less.flops > 0) growth = fmax(growth, work.flops / less.flops);
  const double most = fmax(growth, 1) * b->least[args->op][size - 1];
  return b->spent + 2 * most < b->limit; /* it is run twice */
}

static ac_status time_op(bench *b, ac_op op, int size) {
  ac_op_args args;
  if (!ac_cost_sample(&args, b->device, b->storage, op, size) || !affordable(b, &args, size))
    return AC_OK;
  ac_placed_op placed;
  const double start = b->device->clock(), compiling = b->compiling;
  ac_status status = ac_op_place(&placed, b->device, &args, b->chunk, 0, &b->pattern);
  if (status == AC_OK) status = time_placed(b, &placed, &b->least[op][size]);
  ac_op_lift(&placed, b->device);
  b->spent += b->device->clock() - start - (b->compiling - compiling);
  return status == AC_OK ? AC_OK : ac_fail_prefix(status, "measuring %s", ac_op_name(op));
}

static ac_status time_ops(bench *b) {
  for (int op = 0; op < AC_OP_COUNT; op++)
    for (int size = 0; size < SIZES; size++) b->least[op][size] = HUGE_VAL;
  int done = 0;
  for (int pass = 0; pass < PASSES; pass++)
    for (int size = 0; size < SIZES; size++)
      for (int op = 0; op < AC_OP_COUNT; op++) {
        if (!b->wanted[op]) continue;
        if (pass == 0)
          ac_device_log(b->device, AC_LOG_INFO, "%s: measuring %s (%d of %d)...",
                        b->device->info.id, ac_op_name((ac_op)op), ++done, SIZES * b->wanted_count);
        const double least = b->least[op][size];
        if (least < long_seconds || least == HUGE_VAL) AC_TRY(time_op(b, (ac_op)op, size));
      }
  return AC_OK;
}

/* ---- the fit --------------------------------------------------------------------------------
 */

/* Least squares of the relative errors with no coefficient below zero, by coordinate descent: each
 * coefficient in turn gets its best value for the others as they are. */
static void solve(double x[3], double a[SIZES][3]) {
  enum { ROUNDS = 2000 };
  for (int round = 0; round < ROUNDS; round++)
    for (int j = 0; j < 3; j++) {
      double slope = 0, square = 0;
      for (int i = 0; i < SIZES; i++) {
        double error = 1;
        for (int k = 0; k < 3; k++)
          if (k != j) error -= a[i][k] * x[k];
        slope += error * a[i][j];
        square += a[i][j] * a[i][j];
      }
      x[j] = square > 0 && slope > 0 ? slope / square : 0;
    }
}

/* The sizes that were measured, which are two at least; the others say nothing. */
static void fit(ac_cost_model *model, const bench *b, ac_op op) {
  const double micro = 1e-6, giga = 1e9; /* keep the coefficients near 1 */
  double a[SIZES][3] = {{0}}, x[3] = {0}, longest = 0;
  ac_cost work = {0, 0};
  for (int size = 0; size < SIZES; size++) {
    const double seconds = b->least[op][size];
    ac_op_args args;
    if (!isfinite(seconds)) break;
    ac_cost_sample(&args, b->device, b->storage, op, size);
    work = ac_cost_work(&args);
    longest = seconds;
    a[size][0] = micro / seconds;
    a[size][1] = work.flops / giga / seconds;
    a[size][2] = work.bytes / giga / seconds;
  }
  solve(x, a);
  /* Where beginning an op hides its work, more work takes longer all the same. */
  double least = longest / 64;
  model->launch[op] = x[0] * micro;
  model->per_flop[op] = work.flops > 0 ? fmax(x[1] / giga, least / work.flops) : 0;
  model->per_byte[op] = fmax(x[2] / giga, least / work.bytes);
  model->known[op] = AC_COST_MEASURED;
}

/* ---- what there was no time for ---------------------------------------------------------------
 */

/* What a sample takes, by a model that knows the op, or where its smallest size alone was run. */
static bool known_seconds(double *seconds, const bench *b, const ac_cost_model *model,
                          ac_dtype storage, const ac_op_args *args, int size) {
  const bool own = storage == b->storage;
  const ac_cost_model *known = own ? model : b->device->costs[storage];
  if (known && known->known[args->op]) *seconds = ac_cost_seconds(known, args);
  else *seconds = own ? b->least[args->op][size] : HUGE_VAL;
  return isfinite(*seconds);
}

/* How much longer than by `guess` ops take, as a geometric mean over one size of those that are
 * known, of all storage types, and do, or do not, multiply matrices. False if there are none. */
static bool slowness(double *ratio, const bench *b, const ac_cost_model *model,
                     const ac_cost_model *guess, int size, bool products) {
  double sum = 0, seconds;
  int count = 0;
  for (int storage = 0; storage < AC_DTYPE_COUNT; storage++)
    for (int op = 0; op < AC_OP_COUNT; op++) {
      ac_op_args args;
      if (storage != (int)b->storage && !b->device->costs[storage]) continue;
      if (!ac_cost_sample(&args, b->device, (ac_dtype)storage, (ac_op)op, size) ||
          !known_seconds(&seconds, b, model, (ac_dtype)storage, &args, size) ||
          (ac_cost_work(&args).flops > 0) != products)
        continue;
      sum += log(seconds / ac_cost_seconds(guess, &args));
      count++;
    }
  *ratio = count ? exp(sum / count) : 1;
  return count > 0;
}

/* From the largest size that there is; from the other kind where there is none of this. */
static double scale_of(const bench *b, const ac_cost_model *model, const ac_cost_model *guess,
                       bool products) {
  double ratio = 1;
  for (int size = SIZES - 1; size >= 0; size--)
    if (slowness(&ratio, b, model, guess, size, products) ||
        slowness(&ratio, b, model, guess, size, !products))
      break;
  return ratio;
}

/* Ops of which one size or none was measured; returns how many. */
static int estimate_the_rest(ac_cost_model *model, const bench *b) {
  ac_cost_model guess;
  ac_cost_guess(&guess);
  double launch = 1;
  if (!slowness(&launch, b, model, &guess, 0, false)) slowness(&launch, b, model, &guess, 0, true);
  const double scale[2] = {scale_of(b, model, &guess, false), scale_of(b, model, &guess, true)};
  int count = 0;
  for (int op = 0; op < AC_OP_COUNT; op++) {
    ac_op_args args;
    if (!b->wanted[op] || isfinite(b->least[op][1]) ||
        !ac_cost_sample(&args, b->device, b->storage, (ac_op)op, 0))
      continue;
    const double factor = scale[ac_cost_work(&args).flops > 0];
    model->launch[op] = launch * guess.launch[op];
    model->per_flop[op] = factor * guess.per_flop[op];
    model->per_byte[op] = factor * guess.per_byte[op];
    model->known[op] = AC_COST_ESTIMATED;
    count++;
  }
  return count;
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static ac_status measure(bench *b, ac_cost_model *model) {
  const double start = b->device->clock();
  AC_TRY(time_ops(b));
  for (int op = 0; op < AC_OP_COUNT; op++)
    if (isfinite(b->least[op][1])) fit(model, b, (ac_op)op);
  const int estimated = estimate_the_rest(model, b);
  for (int op = 0; op < AC_OP_COUNT; op++) /* what the device does not run is of no account */
    if (b->wanted[op] && !model->known[op]) model->known[op] = AC_COST_MEASURED;
  char rest[64] = "";
  if (estimated)
    snprintf(rest, sizeof rest, "; time was up, so the speed of %d is an estimate", estimated);
  ac_device_log(
      b->device, AC_LOG_INFO, "%s: measured %d ops in %.1f s, of which compiling took %.1f s%s",
      b->device->info.id, b->wanted_count, b->device->clock() - start, b->compiling, rest);
  return AC_OK;
}

ac_status ac_cost_calibrate(ac_cost_model *model, ac_device *device, ac_dtype storage,
                            const bool wanted[AC_OP_COUNT], double seconds) {
  uint64_t bytes = largest_op(device, storage, wanted), peak = device->peak;
  bench b = {.device = device, .storage = storage, .wanted = wanted, .limit = seconds};
  for (int op = 0; op < AC_OP_COUNT; op++) b.wanted_count += wanted[op];
  ac_status status = ac_timing_pattern_create(&b.pattern);
  if (status == AC_OK) status = ac_device_allocate(device, bytes, &b.chunk);
  if (status == AC_OK) status = measure(&b, model);
  ac_device_release(device, b.chunk, bytes);
  device->peak = peak;
  device->calibrating += b.spent;
  ac_timing_pattern_free(&b.pattern);
  if (status == AC_OK) return AC_OK;
  ac_device_log(device, AC_LOG_INFO, "%s: measuring failed", device->info.id);
  return ac_fail_prefix(status, "the speed of %s could not be measured", device->info.id);
}
