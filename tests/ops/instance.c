/* Ops with concrete shapes and values, on the host. Values are what the operands' types can hold,
 * in double, so that a reference starts from exactly what a device is given. */
#include "driver.h"

#include "core/hash.h"
#include "core/random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const op_reference *op_reference_of(ac_op op) {
  static const op_reference *const references[AC_OP_COUNT] = {
#define REFERENCE(name, in, out) [AC_OP_##name] = &op_reference_##name,
    AC_OP_LIST(REFERENCE)
#undef REFERENCE
  };
  return references[op];
}

int64_t op_repeated_element(const ac_operand *x, const ac_operand *y, int64_t e) {
  int64_t at = 0, step = 1;
  for (int k = 1; k <= y->rank; k++) {
    const int64_t dim = y->dim[y->rank - k], own = k <= x->rank ? x->dim[x->rank - k] : 1;
    if (own != 1) at += e % dim * step;
    step *= own;
    e /= dim;
  }
  return at;
}

double op_largest(const ac_operand *x) {
  double largest = 1;
  for (int64_t i = 0; i < x->count; i++)
    if (isfinite(op_reals(x)[i])) largest = fmax(largest, fabs(op_reals(x)[i]));
  return largest;
}

uint64_t op_seed(const char *text) {
  return ac_hash_text(text);
}

double op_random(uint64_t *state, double low, double high) {
  ac_philox_block block = ac_philox(*state, 0, 0, 0, 0);
  *state += 0x9E3779B97F4A7C15u;
  return (double)(float)(low + (high - low) * (double)ac_uniform24(block.v[0]));
}

static double draw(uint64_t *state, const op_operand_spec *spec) {
  double value = op_random(state, spec->low, spec->high);
  if (spec->dtype == AC_I32) value = floor(value);
  if (spec->fill == OP_NOT_ZERO && fabs(value) < 0.0625) value = value < 0 ? -0.0625 : 0.0625;
  if (spec->fill == OP_SOMETIMES && op_random(state, 0, 3) < 1) value = spec->special;
  return value;
}

/* Byte e of blocks of 256 codes and the float that is their scale. */
static double draw_block(uint64_t *state, const op_operand_spec *spec, int64_t e) {
  unsigned char bytes[sizeof(float)];
  if (e % 260 < 256) return floor(op_random(state, 0, 256));
  const float scale =
      (float)(spec->low + (spec->high - spec->low) * fmod((double)(e / 260 + 1) * 0.618, 1));
  memcpy(bytes, &scale, sizeof scale);
  return bytes[e % 260 - 256];
}

static double draw_output(uint64_t *state, const op_operand_spec *spec, ac_dtype dtype, int64_t e) {
  if (spec->fill == OP_BLOCKS) return draw_block(state, spec, e);
  if (spec->fill == OP_LOSS_SUMS) return e % 2 ? 0 : 1000.5;
  return op_round(dtype, draw(state, spec));
}

static void *reals(int64_t count) {
  return calloc((size_t)(count ? count : 1), sizeof(double));
}

/* The dtype of an operand of this kind, which is `given` where the kind leaves it open. */
static ac_dtype dtype_of(char kind, ac_dtype storage, ac_dtype given) {
  if (given == AC_I32) return AC_I32; /* also where it is moved like what is stored */
  return kind == 's' ? storage : kind == 'f' ? AC_F32 : given;
}

static void shape_operand(ac_operand *x, const op_operand_spec *spec, int64_t batch, char kind,
                          ac_dtype storage) {
  ac_dtype dtype = dtype_of(kind, storage, spec->dtype);
  *x = (ac_operand){.dtype = dtype, .rank = spec->rank, .count = spec->rank ? 1 : 0};
  for (int d = 0; d < spec->rank; d++) {
    x->dim[d] = spec->dim[d] < 0 ? batch * -spec->dim[d] : spec->dim[d];
    x->count *= x->dim[d];
  }
  if (x->count) x->data = reals(x->count);
}

static void begin(op_instance *instance, const char *name, ac_op op,
                  const op_attributes *attributes, ac_dtype storage) {
  memset(instance, 0, sizeof *instance);
  instance->family_case = name;
  instance->storage = storage;
  instance->attributes = *attributes;
  instance->args.op = op;
  instance->args.attributes = op_reference_of(op)->attributes ? &instance->attributes : NULL;
  instance->args.run = &instance->run;
  instance->args.name_hash = 0x9e3779b97f4a7c15u; /* of a parameter that is stepped */
}

void op_instance_blank(op_instance *instance, const op_case *c, ac_dtype storage) {
  begin(instance, c->name, c->op, &c->attributes, storage);
  instance->results = c->results ? c->results : 1;
  instance->run = (ac_run_state){.training = !c->evaluation,
                                 .seed = 0x0123456789abcdefu,
                                 .update = 7,
                                 .sample = 5,
                                 .batch = c->batch,
                                 .loss_scale = 4};
  for (int i = 0; i < AC_MAX_INPUTS; i++)
    shape_operand(&instance->args.in[i], &c->in[i], c->batch,
                  ac_op_input_kind_of(c->op, &c->attributes, i), storage);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    shape_operand(&instance->args.out[j], &c->out[j], c->batch,
                  ac_op_output_kind_of(c->op, &c->attributes, j), storage);
    instance->out_fill[j] = c->out[j].fill;
    if (instance->args.out[j].count) instance->initial[j] = reals(instance->args.out[j].count);
  }
}

void op_instance_forward(op_instance *instance, const op_case *c, int64_t batch) {
  op_instance_stored(instance, c, batch, AC_F32);
}

void op_instance_stored(op_instance *instance, const op_case *c, int64_t batch, ac_dtype storage) {
  op_case shaped = *c;
  shaped.batch = batch;
  op_instance_blank(instance, &shaped, storage);
  uint64_t state = op_seed(c->name);
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    ac_operand *x = &instance->args.in[i];
    for (int64_t e = 0; e < x->count; e++) {
      double value = draw(&state, &c->in[i]);
      if (x->dtype == AC_I32) ((int32_t *)x->data)[e] = (int32_t)value;
      else op_reals(x)[e] = op_round(x->dtype, value);
    }
  }
  for (int j = 0; j < AC_MAX_OUTPUTS; j++)
    for (int64_t e = 0; e < instance->args.out[j].count; e++)
      instance->initial[j][e] = draw_output(&state, &c->out[j], instance->args.out[j].dtype, e);
  op_instance_compute(instance);
}

/* A copy of an operand as a device holds it in an operand of this kind. */
static void copy_operand(ac_operand *to, const ac_operand *from, const double *values, char kind,
                         ac_dtype storage) {
  *to = *from;
  to->dtype = dtype_of(kind, storage, from->dtype);
  if (!from->count) return;
  to->data = reals(from->count);
  if (from->dtype == AC_I32) {
    memcpy(to->data, from->data, (size_t)from->count * sizeof(int32_t));
    return;
  }
  for (int64_t e = 0; e < from->count; e++) op_reals(to)[e] = op_round(to->dtype, values[e]);
}

/* Elements of the results before this one. */
static int64_t before_result(const op_instance *forward, int result) {
  int64_t count = 0;
  for (int j = 0; j < result; j++) count += forward->args.out[j].count;
  return count;
}

void op_instance_gradient(op_instance *instance, const op_instance *forward,
                          const op_gradient *gradient, const double *dy) {
  begin(instance, forward->family_case, gradient->op,
        gradient->attributes ? gradient->attributes : &forward->attributes, forward->storage);
  instance->run = forward->run;
  for (int i = 0; i < AC_MAX_INPUTS; i++) {
    const op_source *source = &gradient->in[i];
    if (source->from == OP_NONE) continue;
    const ac_operand *from = source->from == OP_FROM_INPUT ? &forward->args.in[source->index]
                                                           : &forward->args.out[source->index];
    copy_operand(&instance->args.in[i], from,
                 source->from == OP_FROM_GRADIENT ? dy + before_result(forward, source->index)
                                                  : op_reals(from),
                 ac_op_input_kind_of(gradient->op, &instance->attributes, i), forward->storage);
    if (source->from == OP_FROM_OUTPUT && from->dtype == AC_I32) /* a result is in double */
      for (int64_t e = 0; e < from->count; e++)
        ((int32_t *)instance->args.in[i].data)[e] = (int32_t)op_reals(from)[e];
  }
  uint64_t state = op_seed(forward->family_case) + 1;
  for (int j = 0; j < gradient->outputs; j++) {
    bool again = gradient->of[j] == OP_AGAIN;
    const ac_operand *of = again ? &forward->args.out[0] : &forward->args.in[gradient->of[j]];
    copy_operand(&instance->args.out[j], of, op_reals(of),
                 ac_op_output_kind_of(gradient->op, &instance->attributes, j), forward->storage);
    if (of->count) instance->initial[j] = reals(of->count);
    for (int64_t e = 0; e < of->count; e++)
      instance->initial[j][e] = op_round(instance->args.out[j].dtype,
                                         again ? forward->initial[0][e] : op_random(&state, -1, 1));
    if (again) instance->out_fill[j] = forward->out_fill[0];
  }
  op_instance_compute(instance);
}

void op_instance_compute(op_instance *instance) {
  const op_reference *reference = op_reference_of(instance->args.op);
  for (int j = 0; reference->in_out && j < AC_MAX_OUTPUTS; j++) {
    ac_operand *x = &instance->args.out[j];
    if (x->count) memcpy(x->data, instance->initial[j], (size_t)x->count * sizeof(double));
  }
  reference->compute(&instance->args);
}

void op_instance_free(op_instance *instance) {
  for (int i = 0; i < AC_MAX_INPUTS; i++) free(instance->args.in[i].data);
  for (int j = 0; j < AC_MAX_OUTPUTS; j++) {
    free(instance->args.out[j].data);
    free(instance->initial[j]);
  }
}

double *op_random_gradient(const op_instance *forward) {
  int64_t count = before_result(forward, forward->results);
  double *dy = reals(count);
  uint64_t state = op_seed(forward->family_case) + 2;
  for (int64_t e = 0; e < count; e++) dy[e] = op_random(&state, -1, 1);
  /* Of a loss's sums only the first matters: the loss itself. */
  if (forward->out_fill[0] == OP_LOSS_SUMS)
    for (int64_t e = 0; e < count; e++) dy[e] = e < 2 ? (double)forward->run.loss_scale : 0;
  return dy;
}
