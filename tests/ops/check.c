/* The checks every case of the table goes through. */
#include "driver.h"
#include "generator.h"
#include "kept.h"
#include "vector.h"

#include "ops/description.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- comparing ------------------------------------------------------------------------------- */

static void compare_value(const char *where, int output, int64_t e, double got, double want,
                          double bound) {
  bool good = isnan(want) ? isnan(got) : isinf(want) ? got == want : fabs(got - want) <= bound;
  OP_EXPECT(where, good, "output %d, element %lld: %.9g, not %.9g (off by %.2g, allowed %.2g)",
            output, (long long)e, got, want, fabs(got - want), bound);
}

/* Blocks of 8 bits: scales as floats, and codes that are the same or, where a value lies between
 * two, sometimes neighbours. */
static void compare_blocks(const char *where, int output, const ac_operand *x, const double *got,
                           op_tolerance tolerance) {
  const double *want = op_reals(x);
  int64_t neighbours = 0;
  for (int64_t at = 0; at < x->count; at += 260) {
    const double scale[] = {(double)op_block_scale(got + at), (double)op_block_scale(want + at)};
    compare_value(where, output, at + 256, scale[0], scale[1],
                  (tolerance.relative * fabs(scale[1]) + tolerance.absolute) * (double)FLT_EPSILON);
    for (int64_t e = at; e < at + 256; e++) {
      compare_value(where, output, e, got[e], want[e], 1);
      neighbours += got[e] != want[e];
    }
  }
  OP_EXPECT(where, neighbours <= 2 + x->count / 500, "output %d: %lld of %lld codes are neighbours",
            output, (long long)neighbours, (long long)x->count);
}

/* What any value within the bound is rounded to. */
static void compare_rounded(const char *where, const op_instance *instance, int output,
                            const double *got, op_tolerance t, bool add) {
  const ac_op_args *args = &instance->args;
  const ac_operand *x = &args->out[output];
  const bool sum = args->op == AC_OP_rounded_sum;
  const uint32_t sample = sum ? args->run->sample : 0,
                 stream = sum ? instance->attributes.rounded_sum.stream : 1;
  for (int64_t e = 0; e < x->count; e++) {
    const double chance =
        op_chance(args->run->seed ^ args->name_hash, sample, args->run->update, stream, e);
    const double want = op_reals(x)[e] + (add ? instance->initial[output][e] : 0),
                 bound = (t.relative * fabs(want) + t.absolute) * (double)FLT_EPSILON;
    const double low = op_round_by_chance(want - bound, chance),
                 high = op_round_by_chance(want + bound, chance);
    OP_EXPECT(where, got[e] >= low && got[e] <= high,
              "output %d, element %lld: %.9g, not %.9g to %.9g", output, (long long)e, got[e], low,
              high);
  }
}

static bool rounds_factors;

double op_factor_error(const ac_operand *other) {
  return rounds_factors && other->dtype == AC_BF16 ? 0x1p-8 / (double)FLT_EPSILON : 0;
}

void op_compare(const char *where, const op_instance *instance, const op_variant *variant,
                const op_result *result, double factor) {
  const op_reference *reference = op_reference_of(instance->args.op);
  rounds_factors = result->rounds_factors;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    if (!result->out[j]) continue;
    const ac_operand *x = &instance->args.out[j];
    op_tolerance t = reference->tolerance(&instance->args, j);
    if (x->dtype == AC_U8) {
      compare_blocks(where, j, x, result->out[j], t);
      continue;
    }
    bool add = variant && (variant->add >> j & 1), pairs = instance->out_fill[j] == OP_LOSS_SUMS;
    /* Two devices may be on two sides of where a value begins to be rounded up. */
    if (ac_op_output_kind_of(instance->args.op, instance->args.attributes, j) == 'p' &&
        x->dtype == AC_BF16 && factor == 1) {
      compare_rounded(where, instance, j, result->out[j], t, add);
      continue;
    }
    for (int64_t e = 0; e < (pairs ? 6 : x->count); e += pairs ? 2 : 1) {
      double want = op_reals(x)[e], got = result->out[j][e];
      double bound = t.relative * fabs(want) + t.absolute;
      if (pairs) want += op_reals(x)[e + 1], got += result->out[j][e + 1];
      if (add) {
        want += instance->initial[j][e];
        /* A pair of floats adds without error that counts here. */
        bound += pairs ? 0 : fabs(want);
      }
      /* Denormals may be flushed. */
      bound = bound * (double)FLT_EPSILON + (double)FLT_MIN;
      bound = factor * (bound + op_storage_error(x->dtype, fabs(want) + bound));
      compare_value(where, j, e, got, want, bound);
    }
  }
}

/* ---- finite differences ---------------------------------------------------------------------- */

/* Elements of an input at which the gradient was found by central differences. */
typedef struct differences {
  int count;
  int64_t element[32];
  double value[32];
} differences;

static double objective(op_instance *forward, const double *dy) {
  double sum = 0;
  op_instance_compute(forward);
  for (int j = 0; j < forward->results; j++)
    for (int64_t e = 0; e < forward->args.out[j].count; e++)
      sum += *dy++ * op_reals(&forward->args.out[j])[e];
  return sum;
}

/* (L(x + h) - L(x - h)) / 2h of L = sum dy y, in double. The error is about h^2 of the gradient,
 * and 1e-16 L / h. */
static void differentiate(differences *d, op_instance *forward, int input, const double *dy) {
  ac_operand *x = &forward->args.in[input];
  double largest = 0;
  for (int64_t e = 0; e < x->count; e++) largest = fmax(largest, fabs(op_reals(x)[e]));
  double h = 1e-5 * fmin(fmax(largest, 1e-3), 10);
  int most = sizeof d->element / sizeof *d->element;
  uint64_t state = op_seed(forward->family_case) + 3;
  d->count = x->count < most ? (int)x->count : most;
  for (int k = 0; k < d->count; k++) {
    int64_t e = x->count <= most ? k : (int64_t)op_random(&state, 0, (double)x->count);
    if (e >= x->count) e = x->count - 1;
    double value = op_reals(x)[e];
    op_reals(x)[e] = value + h;
    double above = objective(forward, dy);
    op_reals(x)[e] = value - h;
    double below = objective(forward, dy);
    op_reals(x)[e] = value;
    d->element[k] = e;
    d->value[k] = (above - below) / (2 * h);
  }
  op_instance_compute(forward);
}

/* On top of the kernel's own error (which also covers saved outputs being rounded to float): that
 * of the differences. */
static void compare_differences(const char *where, const op_instance *gradient, int output,
                                const differences *d) {
  op_tolerance t = op_reference_of(gradient->args.op)->tolerance(&gradient->args, output);
  const double *got = op_reals(&gradient->args.out[output]);
  double largest = 0;
  for (int k = 0; k < d->count; k++) largest = fmax(largest, fabs(d->value[k]));
  for (int k = 0; k < d->count; k++) {
    double bound = (double)FLT_EPSILON * (t.relative * fabs(d->value[k]) + t.absolute) +
                   2e-6 * fmax(largest, 1e-3);
    compare_value(where, output, d->element[k], got[d->element[k]], d->value[k], bound);
  }
}

/* ---- a gradient case, whole ------------------------------------------------------------------ */

/* 16-bit storage only changes how a kernel loads and stores, and small shapes also show that. */
static bool skipped(const op_case *c, ac_dtype storage) {
  if (!op_reduced) return false;
  int64_t largest = 0;
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    int64_t count = 1;
    for (int d = 0; d < c->in[i].rank; d++)
      count *= c->in[i].dim[d] < 0 ? c->batch * -c->in[i].dim[d] : c->in[i].dim[d];
    largest = count > largest ? count : largest;
  }
  return largest > (storage == AC_F32 ? 1000 : 300);
}

void op_check_reference(const op_family *family) {
  for (int k = 0; k < family->case_count; k++) {
    const op_case *c = &family->cases[k];
    if (c->halves) continue;
    op_instance forward, gradient;
    op_instance_forward(&forward, c, c->batch);
    double *dy = op_random_gradient(&forward);
    for (int g = 0; g < c->gradient_count; g++) {
      op_instance_gradient(&gradient, &forward, &c->gradients[g], dy);
      for (int j = 0; j < c->gradients[g].outputs; j++) {
        if (!gradient.args.out[j].count || c->gradients[g].of[j] == OP_AGAIN) continue;
        differences d;
        op_variant variant = {.name = "finite differences"};
        differentiate(&d, &forward, c->gradients[g].of[j], dy);
        compare_differences(op_where(NULL, &gradient, &variant), &gradient, j, &d);
      }
      op_instance_free(&gradient);
    }
    free(dy);
    op_instance_free(&forward);
  }
}

/* ---- variants
 * ------------------------------------------------------------------------------------ */

/* Numbers that are rounded to those of an operand, up for some and down for others. */
static double *before_rounding(const ac_operand *x) {
  double *values = calloc((size_t)x->count, sizeof *values);
  for (int64_t e = 0; e < x->count; e++) {
    const double value = op_reals(x)[e], near = (float)(value * (1 + (e % 7 - 3) * 0x1p-11));
    values[e] = op_round(x->dtype, near) == value ? near : value;
  }
  return values;
}

/* An input in f32 that the device rounds itself gives the bits of one that was rounded before. */
static void check_rounded_input(ac_device *device, const op_instance *instance,
                                const op_variant *variant, int input, const op_result *expected) {
  op_instance other = *instance;
  op_result result;
  other.args.in[input].dtype = AC_F32;
  other.args.in[input].data = before_rounding(&instance->args.in[input]);
  if (op_run(device, &other, variant, &result))
    for (int j = 0; j < AC_MAX_OUTPUTS; j++)
      OP_EXPECT(op_where(device, instance, variant),
                !result.out[j] || !memcmp(result.out[j], expected->out[j],
                                          (size_t)instance->args.out[j].count * sizeof(double)),
                "output %d has other bits with input %d in f32", j, input);
  op_result_free(&result);
  free(other.args.in[input].data);
}

static void run_and_compare(ac_device *device, const op_instance *instance,
                            const op_variant *variant) {
  const ac_backend *backend = device->backend;
  op_result result;
  if (op_run(device, instance, variant, &result)) {
    op_compare(op_where(device, instance, variant), instance, variant, &result, 1);
    const uint32_t rounds =
        backend->rounds ? backend->rounds(device->state, instance->args.op, instance->storage) : 0;
    for (int i = 0; i < AC_MAX_INPUTS; i++)
      if (rounds >> i & 1) check_rounded_input(device, instance, variant, i, &result);
  }
  op_result_free(&result);
}

static unsigned present(const op_instance *instance) {
  unsigned bits = 0;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) bits |= instance->args.out[j].count ? 1u << j : 0;
  return bits;
}

/* Bits of the outputs that may be absent. */
static unsigned optional_outputs(const op_gradient *g) {
  unsigned bits = 0;
  for (int j = 0; g->optional && j < g->outputs; j++) bits |= g->of[j] == OP_AGAIN ? 0 : 1u << j;
  return bits;
}

/* Everything the op declares it can do: adding to outputs, doing without some (a forward op without
 * its sums, since it may run again), sharing memory with an input. */
static void check_variants(ac_device *device, const op_instance *instance, unsigned optional) {
  const ac_op_desc *desc = ac_op_describe(instance->args.op);
  unsigned outputs = present(instance), add = desc->can_add & outputs;
  if (instance->args.out[0].dtype == AC_I32) add = 0; /* integers are moved alone */
  op_variant plain = {0};
  run_and_compare(device, instance, &plain);
  if (add) {
    op_variant variant = {.name = "adding", .add = add, .once = true};
    run_and_compare(device, instance, &variant);
  }
  /* Alone, so that the flag of one output is not taken for another's. */
  static const char *const alone[AC_MAX_OUTPUTS] = {
      "adding to output 0 only", "adding to output 1 only", "adding to output 2 only",
      "adding to output 3 only"};
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    op_variant variant = {.name = alone[j], .add = add & 1u << j, .once = true};
    if (variant.add && variant.add != add) run_and_compare(device, instance, &variant);
  }
  for (unsigned absent = 1; absent < outputs; absent++) {
    if (absent & ~(optional & outputs)) continue;
    char name[48];
    op_variant variant = {.name = name, .absent = absent, .once = true};
    snprintf(name, sizeof name, "without outputs of bits %u", absent);
    run_and_compare(device, instance, &variant);
    snprintf(name, sizeof name, "adding without outputs of bits %u", absent);
    variant.add = add & ~absent;
    if (variant.add) run_and_compare(device, instance, &variant);
  }
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    const ac_operand *x = &instance->args.in[i], *y = &instance->args.out[0];
    if (!(desc->in_place >> i & 1) || x->count != y->count || x->dtype != y->dtype) continue;
    op_variant variant = {.name = "in place", .in_place = true, .alias = i, .once = true};
    run_and_compare(device, instance, &variant);
  }
}

/* One sample less, in the workspace of the whole. */
static void check_smaller(ac_device *device, const op_instance *whole, const op_instance *less) {
  ac_op_args args = whole->args;
  for (int i = 0; i < AC_MAX_INPUTS; i++) args.in[i].data = NULL;
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) args.out[j].data = NULL;
  op_variant variant = {.name = "smaller batch", .once = true};
  variant.workspace = device->backend->workspace(device->state, &args);
  run_and_compare(device, less, &variant);
}

static void check_case(const op_case *c, ac_device *device, ac_dtype storage) {
  bool batched = false;
  for (int i = 0; i < AC_MAX_INPUTS; i++) batched |= c->in[i].rank && c->in[i].dim[0] < 0;
  bool smaller = batched && c->batch > 1 && !op_reduced;
  op_instance forward, less, gradient, less_gradient;
  op_instance_stored(&forward, c, c->batch, storage);
  check_variants(device, &forward, ac_op_describe(c->op)->sums);
  if (smaller) {
    op_instance_stored(&less, c, c->batch - 1, storage);
    check_smaller(device, &forward, &less);
  }
  double *dy = op_random_gradient(&forward);
  for (int g = 0; g < c->gradient_count; g++) {
    op_instance_gradient(&gradient, &forward, &c->gradients[g], dy);
    check_variants(device, &gradient, optional_outputs(&c->gradients[g]));
    if (smaller) {
      op_instance_gradient(&less_gradient, &less, &c->gradients[g], dy);
      check_smaller(device, &gradient, &less_gradient);
      op_instance_free(&less_gradient);
    }
    op_instance_free(&gradient);
  }
  free(dy);
  if (smaller) op_instance_free(&less);
  op_instance_free(&forward);
}

/* The families with kernels that address memory otherwise in 16 bits; one with kernels that load
 * and store single elements as all others do; and the one that alone writes copies in 16 bits. */
static const char *const addressed_otherwise[] = {
    "linear", "matmul", "linear_cross_entropy", "conv2d", "attention", "pointwise", "optimizer"};

/* What is left of 16 bits where only accesses to memory are looked at: one type, and where matrix
 * units multiply, bf16 alone, which is multiplied by them in every op that has them. */
static bool is_reduced_to(const op_family *family, const ac_device *device, ac_dtype storage) {
  if (!device->backend->is_host && strcmp(device->info.bf16_products, "as floats") != 0)
    return storage == AC_BF16;
  const int count = sizeof addressed_otherwise / sizeof *addressed_otherwise;
  bool otherwise = false;
  for (int i = 0; i < count; i++) otherwise |= !strcmp(family->name, addressed_otherwise[i]);
  return storage == AC_F32 || (storage == AC_F16 && otherwise);
}

/* Whether the case is run with operands of kind s stored so. */
static bool stored_so(const op_family *family, const ac_device *device, const op_case *c,
                      ac_dtype storage) {
  if (op_reduced && !is_reduced_to(family, device, storage)) return false;
  return storage == AC_F32 ? !c->halves : op_has_storage(c);
}

static const ac_dtype storages[] = {AC_F32, AC_F16, AC_BF16};
enum { STORAGES = sizeof storages / sizeof *storages };

void op_check_cases(const op_family *family, ac_device *device) {
  int checked = 0;
  for (int k = 0; k < family->case_count; k++)
    for (int s = 0; s < STORAGES; s++) {
      const op_case *c = &family->cases[k];
      if (skipped(c, storages[s]) || !stored_so(family, device, c, storages[s])) continue;
      check_case(c, device, storages[s]);
      checked++;
    }
  OP_EXPECT(family->name, checked || !family->case_count, "no case was left to check");
}

/* With the shapes of two operands. */
static void name_drawn(char name[128], const op_case *c, int index) {
  int at = snprintf(name, 128, "drawn %d", index);
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < c->in[i].rank; k++) {
      const int64_t n = c->in[i].dim[k];
      at += snprintf(name + at, (size_t)(128 - at), "%s%lld",
                     k   ? "x"
                     : i ? " by "
                         : ", ",
                     (long long)(n < 0 ? -n * c->batch : n));
    }
}

void op_check_drawn(const op_family *family, ac_device *device,
                    void (*draw)(op_case *c, op_draw *d)) {
  const int count = op_reduced ? 0 : device->backend->is_host ? op_drawn : (op_drawn + 7) / 8;
  for (int k = 0; k < count; k++) {
    char name[128];
    op_case c = {.name = name};
    op_draw d = {.state = op_draw_hash(op_seed(family->name), (uint64_t)k)};
    draw(&c, &d);
    name_drawn(name, &c, k);
    for (int s = 0; s < STORAGES; s++)
      if (stored_so(family, device, &c, storages[s])) check_case(&c, device, storages[s]);
  }
}

/* ---- two devices
 * --------------------------------------------------------------------------------- */

/* `relative`: to the largest value that is expected. */
static void compare_largely(const char *where, const op_instance *instance, const op_result *result,
                            int output, double relative) {
  const ac_operand *x = &instance->args.out[output];
  double largest = 0;
  for (int64_t e = 0; e < x->count; e++) largest = fmax(largest, fabs(op_reals(x)[e]));
  for (int64_t e = 0; e < x->count; e++)
    compare_value(where, output, e, result->out[output][e], op_reals(x)[e], relative * largest);
}

static void run_largely(ac_device *device, const op_instance *instance) {
  op_variant variant = {.name = "large", .once = true};
  op_result result;
  if (op_run(device, instance, &variant, &result))
    for (int j = 0; j < AC_MAX_OUTPUTS; j++)
      if (result.out[j])
        compare_largely(op_where(device, instance, &variant), instance, &result, j, 1e-4);
  op_result_free(&result);
}

void op_check_large(ac_device *device, const op_case *c) {
  static const double scales[] = {0x1p64, 0x1p83, 0x1p118};
  for (int s = 0; s < 3; s++) {
    op_instance forward, gradient;
    op_instance_forward(&forward, c, c->batch);
    for (int64_t e = 0; e < forward.args.in[0].count; e++)
      op_reals(&forward.args.in[0])[e] *= scales[s];
    op_instance_compute(&forward);
    run_largely(device, &forward);
    double *dy = op_random_gradient(&forward);
    for (int g = 0; g < c->gradient_count; g++) {
      op_instance_gradient(&gradient, &forward, &c->gradients[g], dy);
      run_largely(device, &gradient);
      op_instance_free(&gradient);
    }
    free(dy);
    op_instance_free(&forward);
  }
}

/* Both may be off by the tolerance, in different directions. */
static void compare_devices(op_instance *instance, ac_device *one, ac_device *other) {
  op_result a, b;
  op_variant variant = {.name = "against the other device", .once = true};
  bool ran = op_run(one, instance, &variant, &a);
  ran = op_run(other, instance, &variant, &b) && ran;
  for (int j = 0; ran && j < AC_MAX_OUTPUTS; j++)
    if (a.out[j])
      memcpy(instance->args.out[j].data, a.out[j],
             (size_t)instance->args.out[j].count * sizeof(double));
  b.rounds_factors |= a.rounds_factors;
  if (ran) op_compare(op_where(other, instance, &variant), instance, &variant, &b, 2);
  op_result_free(&a);
  op_result_free(&b);
}

static void pair_case(const op_case *c, ac_device *one, ac_device *other, ac_dtype storage) {
  op_instance forward, gradient;
  op_instance_stored(&forward, c, c->batch, storage);
  double *dy = op_random_gradient(&forward);
  for (int g = 0; g < c->gradient_count; g++) {
    op_instance_gradient(&gradient, &forward, &c->gradients[g], dy);
    compare_devices(&gradient, one, other);
    op_instance_free(&gradient);
  }
  compare_devices(&forward, one, other);
  free(dy);
  op_instance_free(&forward);
}

void op_check_pair(const op_family *family, ac_device *one, ac_device *other) {
  for (int k = 0; k < family->case_count; k++)
    for (int s = 0; s < STORAGES; s++) {
      const op_case *c = &family->cases[k];
      if (stored_so(family, other, c, storages[s])) pair_case(c, one, other, storages[s]);
    }
}

/* ---- vectors
 * ------------------------------------------------------------------------------------- */

static void spec_from(op_operand_spec *spec, const op_vector *vector, const char *kind, int index) {
  char name[32];
  snprintf(name, sizeof name, "%s%d", kind, index);
  const op_vector_tensor *t = op_vector_find(vector, name);
  if (!t) return;
  spec->dtype = t->dtype;
  spec->rank = t->rank;
  memcpy(spec->dim, t->dim, sizeof spec->dim);
}

static void load(ac_operand *x, const op_vector *vector, const char *kind, int index) {
  char name[32];
  snprintf(name, sizeof name, "%s%d", kind, index);
  const op_vector_tensor *t = op_vector_find(vector, name);
  for (int64_t e = 0; t && e < x->count; e++)
    if (x->dtype == AC_I32 && !strcmp(kind, "in")) ((int32_t *)x->data)[e] = (int32_t)t->data[e];
    else op_reals(x)[e] = t->data[e];
}

/* The instance's outputs hold the reference's result; `want` replaces them with the file's. */
static void compare_with_file(ac_device *device, op_instance *instance, const op_vector *vector,
                              const char *kind, const int *index, int outputs) {
  op_result result = {.out = {NULL}};
  op_variant variant = {.name = "against PyTorch", .once = true};
  bool ran = true;
  if (device) {
    ran = op_run(device, instance, &variant, &result);
  } else {
    for (int j = 0; j < outputs; j++) {
      const ac_operand *x = &instance->args.out[j];
      if (!x->count) continue;
      result.out[j] = calloc((size_t)x->count, sizeof(double));
      for (int64_t e = 0; e < x->count; e++) result.out[j][e] = (double)(float)op_reals(x)[e];
    }
  }
  for (int j = 0; j < outputs; j++) load(&instance->args.out[j], vector, kind, index[j]);
  if (ran) op_compare(op_where(device, instance, &variant), instance, &variant, &result, 1);
  op_result_free(&result);
}

static void check_vector(const op_family *family, ac_device *device, const op_vector *vector) {
  static const int same[AC_MAX_OUTPUTS] = {0, 1, 2, 3};
  op_case c = {.name = vector->name};
  op_instance forward, gradient;
  for (int i = 0; i < AC_MAX_INPUTS; i++) spec_from(&c.in[i], vector, "in", i);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) spec_from(&c.out[j], vector, "out", j);
  c.batch = c.in[0].dim[0];
  family->from_vector(&c, vector);
  op_instance_blank(&forward, &c, AC_F32);
  forward.run.loss_scale = 1;
  for (int i = 0; i < AC_MAX_INPUTS; i++) load(&forward.args.in[i], vector, "in", i);
  op_instance_compute(&forward);
  compare_with_file(device, &forward, vector, "out", same, AC_MAX_OUTPUTS);
  const op_vector_tensor *dy = op_vector_find(vector, "dy"); /* of all results, flat if several */
  for (int g = 0; g < c.gradient_count; g++) {
    op_instance_gradient(&gradient, &forward, &c.gradients[g], dy ? dy->data : NULL);
    compare_with_file(device, &gradient, vector, "grad", c.gradients[g].of, c.gradients[g].outputs);
    op_instance_free(&gradient);
  }
  op_instance_free(&forward);
}

void op_check_vectors(const op_family *family, ac_device *device) {
  int count = 0;
  op_vector *vectors = op_vectors_read(family->name, &count);
  OP_EXPECT(family->name, vectors, "tests/vectors/%s.safetensors cannot be read", family->name);
  for (int i = 0; i < count; i++) check_vector(family, device, &vectors[i]);
  op_vectors_free(vectors, count);
}
