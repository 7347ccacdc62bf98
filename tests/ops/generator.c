#include "generator.h"

#include "driver.h"

#include <math.h>
#include <stdio.h>

/* ---- random numbers -------------------------------------------------------------------------- */

/* SplitMix64's finaliser. */
static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

uint64_t op_draw_hash(uint64_t a, uint64_t b) {
  return mix(mix(a + 0x9E3779B97F4A7C15u) + b);
}

double op_draw_sign(uint64_t hash) {
  return (double)(hash >> 11) * 0x1p-52 - 1;
}

double op_draw_rounded_mean(const ac_op_args *args, int64_t n, double unit, uint64_t key) {
  const double *statistics = op_reals(&args->out[1]) + 2 * n;
  return op_draw_sign(op_draw_hash(key, (uint64_t)n)) * unit * statistics[0] * statistics[1];
}

static uint64_t next(op_draw *d) {
  d->state += 0x9E3779B97F4A7C15u;
  return mix(d->state);
}

int op_draw_below(op_draw *d, int n) {
  return (int)((next(d) >> 33) % (uint64_t)n);
}

bool op_draw_one_in(op_draw *d, int n) {
  return op_draw_below(d, n) == 0;
}

int op_draw_size(op_draw *d, int most) {
  return op_draw_one_in(d, 3) ? 1 : 1 + op_draw_below(d, most);
}

double op_draw_between(op_draw *d, double low, double high) {
  return low + (high - low) * (double)(next(d) >> 11) * 0x1p-53;
}

int op_draw_divisor(op_draw *d, int64_t n) {
  int divisor;
  do divisor = 1 + op_draw_below(d, (int)n);
  while (n % divisor);
  return divisor;
}

/* ---- leaves ---------------------------------------------------------------------------------- */

static op_drawn_leaf *add_leaf(op_draw *d, ac_tensor *tensor, double low, double high) {
  if (!tensor || d->leaf_count == OP_DRAW_LEAVES) return NULL;
  d->leaves[d->leaf_count] = (op_drawn_leaf){tensor, low, high, 0, 0};
  return &d->leaves[d->leaf_count++];
}

static const char *leaf_name(op_draw *d, char text[32], char kind) {
  snprintf(text, 32, "%c%06x.%d", kind, (unsigned)(d->key & 0xffffff), d->names++);
  return text;
}

/* A parameter that is there, has the same range and as many elements. */
static ac_tensor *shared(op_draw *d, double low, double high, int64_t count) {
  ac_tensor *best = NULL;
  uint64_t highest = 0;
  for (int i = 0; i < d->leaf_count; i++) {
    const op_drawn_leaf *leaf = &d->leaves[i];
    ac_tensor *t = leaf->tensor;
    uint64_t hash = op_draw_hash(d->key, op_seed(t->name));
    if (t->role != AC_ROLE_PARAMETER || leaf->low != low || leaf->high != high ||
        ac_shape_count(&t->shape) != count || t->desc.frozen || (best && hash < highest))
      continue;
    best = t, highest = hash;
  }
  return best;
}

static ac_tensor *new_parameter(op_draw *d, double low, double high, int rank, const int64_t *dim,
                                bool frozen) {
  char name[32];
  if (d->leaf_count == OP_DRAW_LEAVES) return NULL;
  ac_parameter_desc desc = {.frozen = frozen, .no_weight_decay = op_draw_one_in(d, 4)};
  ac_tensor *p = ac_parameter(d->graph, leaf_name(d, name, 'p'), rank, dim, &desc);
  add_leaf(d, p, low, high);
  return p;
}

ac_tensor *op_draw_parameter(op_draw *d, double low, double high, int rank, const int64_t *dim) {
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= dim[i];
  ac_tensor *old = op_draw_one_in(d, 4) ? shared(d, low, high, count) : NULL;
  if (!old) return new_parameter(d, low, high, rank, dim, op_draw_one_in(d, 12));
  ac_shape shape;
  if (!ac_shape_parse(&shape, rank, dim)) return NULL;
  return op_draw_view(old, &shape);
}

ac_tensor *op_draw_weight(op_draw *d, int64_t terms, int rank, const int64_t *dim) {
  double bound = sqrt(3 / (double)terms);
  return op_draw_parameter(d, -bound, bound, rank, dim);
}

ac_tensor *op_draw_vector(op_draw *d, double low, double high, int64_t count) {
  return op_draw_parameter(d, low, high, 1, &count);
}

ac_tensor *op_draw_maybe_vector(op_draw *d, double low, double high, int64_t count) {
  return op_draw_one_in(d, 2) ? NULL : op_draw_vector(d, low, high, count);
}

ac_tensor *op_draw_frozen(op_draw *d, double low, double high, int64_t count) {
  return new_parameter(d, low, high, 1, &count, true);
}

ac_tensor *op_draw_blocks(op_draw *d, double bound, int64_t rows, int64_t columns) {
  char name[32];
  if (d->leaf_count == OP_DRAW_LEAVES) return NULL;
  const int formats = columns % 64 ? AC_BLOCKS_Q4_1 : AC_BLOCKS_NF4;
  const ac_parameter_desc desc = {
      .frozen = true, .blocks = (ac_blocks)(AC_BLOCKS_Q8_0 + op_draw_below(d, formats))};
  ac_tensor *p =
      ac_parameter(d->graph, leaf_name(d, name, 'q'), 2, (const int64_t[]){rows, columns}, &desc);
  add_leaf(d, p, -bound, bound);
  return p;
}

static op_drawn_leaf *add_input(op_draw *d, ac_dtype fed, const ac_shape *shape, double low,
                                double high) {
  int most = d->loss ? OP_DRAW_INPUTS : OP_DRAW_INPUTS - 2;
  int64_t dim[AC_MAX_RANK];
  char name[32];
  if (d->graph->input_count >= most || d->leaf_count == OP_DRAW_LEAVES) return NULL;
  for (int i = 0; i < shape->rank; i++)
    dim[i] = i == 0 && shape->batched ? AC_BATCH_TIMES(shape->dim[0]) : shape->dim[i];
  return add_leaf(d, ac_input(d->graph, leaf_name(d, name, 'i'), fed, shape->rank, dim), low, high);
}

op_drawn_leaf *op_draw_input(op_draw *d, ac_dtype dtype, const ac_shape *shape, double low,
                             double high) {
  const ac_dtype floats[] = {AC_F32, AC_F32, AC_F32, AC_F16, AC_BF16};
  const ac_dtype fed = dtype == AC_F32        ? floats[op_draw_below(d, 5)]
                       : op_draw_one_in(d, 3) ? AC_I64
                                              : AC_I32;
  return add_input(d, fed, shape, low, high);
}

op_drawn_leaf *op_draw_numbers(op_draw *d, const ac_shape *shape) {
  if (op_draw_one_in(d, 5)) return add_input(d, AC_U8, shape, 0, 3);
  return op_draw_input(d, AC_F32, shape, -1.5, 1.5);
}

ac_dtype op_fed_dtype(const ac_tensor *tensor) {
  const ac_tensor *storage = ac_tensor_at(tensor->graph, tensor->storage);
  return storage->fed < 0 ? storage->dtype : ac_tensor_at(tensor->graph, storage->fed)->dtype;
}

static ac_tensor *new_constant(op_draw *d, double low, double high, int rank, const int64_t *dim) {
  char name[32];
  float values[OP_DRAW_ELEMENTS];
  int64_t count = 1;
  for (int i = 0; i < rank; i++) count *= dim[i];
  if (count > OP_DRAW_ELEMENTS || d->leaf_count == OP_DRAW_LEAVES) return NULL;
  for (int64_t i = 0; i < count; i++) values[i] = (float)op_draw_between(d, low, high);
  ac_tensor *c = ac_constant(d->graph, leaf_name(d, name, 'c'), AC_F32, rank, dim, values);
  add_leaf(d, c, low, high);
  return c;
}

ac_tensor *op_draw_unbatched(op_draw *d, double low, double high, int rank, const int64_t *dim) {
  const int kind = op_draw_below(d, 5);
  ac_shape shape;
  if (kind == 0) {
    ac_tensor *constant = new_constant(d, low, high, rank, dim);
    if (constant) return constant;
  }
  if (kind == 1 && ac_shape_parse(&shape, rank, dim)) {
    const op_drawn_leaf *leaf = op_draw_input(d, AC_F32, &shape, low, high);
    if (leaf) return leaf->tensor;
  }
  return op_draw_parameter(d, low, high, rank, dim);
}

/* ---- results --------------------------------------------------------------------------------- */

ac_tensor *op_draw_view(ac_tensor *x, const ac_shape *shape) {
  int64_t dim[AC_MAX_RANK];
  if (!x || ac_shape_equal(&x->shape, shape)) return x;
  for (int i = 0; i < shape->rank; i++)
    dim[i] = i == 0 && shape->batched ? AC_BATCH_TIMES(shape->dim[0]) : shape->dim[i];
  return ac_reshape(x, shape->rank, dim);
}

ac_tensor *op_draw_result(op_draw *d, const ac_shape *shape) {
  op_drawn_result *best = NULL;
  uint64_t highest = 0;
  for (int i = 0; i < d->result_count; i++) {
    op_drawn_result *r = &d->results[i];
    const ac_shape *s = &r->tensor->shape;
    uint64_t hash = op_draw_hash(d->key + 1, r->origin);
    if (s->batched != shape->batched || ac_shape_count(s) != ac_shape_count(shape) ||
        (best && hash < highest))
      continue;
    best = r, highest = hash;
  }
  if (!best) return NULL;
  best->used = true;
  return op_draw_view(best->tensor, shape);
}

/* x's last dimensions, without the batch. */
static ac_shape suffix(op_draw *d, const ac_shape *x) {
  int most = x->rank - (x->batched ? 1 : 0);
  int rank = 1 + op_draw_below(d, most);
  ac_shape shape = {.rank = rank};
  for (int i = 0; i < rank; i++) shape.dim[i] = x->dim[x->rank - rank + i];
  return shape;
}

ac_tensor *op_draw_broadcast(op_draw *d, ac_tensor *x, double low, double high) {
  int kind = op_draw_below(d, 4);
  ac_tensor *other = NULL;
  if (kind == 0) return x;
  if (kind == 1) other = op_draw_result(d, &x->shape);
  if (other || (x->shape.batched && x->shape.rank < 2)) return other ? other : x;
  ac_shape shape = suffix(d, &x->shape);
  if (kind == 2) other = op_draw_result(d, &shape);
  return other ? other : op_draw_unbatched(d, low, high, shape.rank, shape.dim);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

bool op_takes_all(const ac_shape *x) {
  return x->rank >= 1;
}

bool op_takes_batched(const ac_shape *x) {
  return x->batched;
}

bool op_takes_rows(const ac_shape *x) {
  return x->rank >= 2;
}

bool op_takes_norm(const ac_shape *x) {
  return x->rank >= 2 && ac_shape_last(x) >= 3;
}

bool op_takes_images(const ac_shape *x) {
  return x->batched && x->rank == 4;
}
