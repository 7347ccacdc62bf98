/* Initial values of parameters. All that is random comes from a counter-based generator under the
 * key (seed, name): no order, no backend and no other parameter changes it. */
#include "core/error.h"
#include "core/hash.h"
#include "core/random.h"
#include "run/instance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16 }; /* elements written at once */

/* ---- distributions --------------------------------------------------------------------------- */

/* What most initialisers come down to: uniform on [a, b), normal, or normal within limits. */
typedef struct distribution {
  enum { UNIFORM, NORMAL, TRUNCATED } kind;
  double a, b;       /* low and high, or mean and deviation */
  double low, high;  /* TRUNCATED: the limits */
  double from, part; /* and the normal distribution's value there, and how much is between them */
} distribution;

/* Of the standard normal distribution. */
static double below(double x) {
  return erfc(-x / 1.4142135623730951) / 2;
}

/* Its inverse, by Acklam's rational functions: relative error 1.2e-9. */
static double quantile(double p) {
  static const double a[] = {-3.969683028665376e+01, 2.209460984245205e+02,  -2.759285104469687e+02,
                             1.383577518672690e+02,  -3.066479806614716e+01, 2.506628277459239e+00};
  static const double b[] = {-5.447609879822406e+01, 1.615858368580409e+02,  -1.556989798598866e+02,
                             6.680131188771972e+01,  -1.328068155288572e+01, 1};
  static const double c[] = {-7.784894002430293e-03, -3.223964580411365e-01, -2.400758277161838e+00,
                             -2.549732539343734e+00, 4.374664141464968e+00,  2.938163982698783e+00};
  static const double d[] = {7.784695709041462e-03, 3.224671290700398e-01, 2.445134137142996e+00,
                             3.754408661907416e+00, 1};
  const bool tail = p < 0.02425 || p > 1 - 0.02425;
  const double q = tail ? sqrt(-2 * log(p < 0.5 ? p : 1 - p)) : p - 0.5, r = tail ? q : q * q;
  double above = 0, under = 0;
  for (int i = 0; i < 6; i++) above = above * r + (tail ? c : a)[i];
  for (int i = 0; i < (tail ? 5 : 6); i++) under = under * r + (tail ? d : b)[i];
  if (!tail) return above * q / under;
  return p < 0.5 ? above / under : -above / under;
}

/* Between limits that are both above the mean it is the mirror image, for precise numbers. */
static distribution truncated(const ac_init *init) {
  const double mean = (double)init->mean, deviation = (double)init->deviation;
  distribution d = {TRUNCATED, mean, deviation, (double)init->low, (double)init->high, 0, 0};
  if (d.low > mean) {
    d.b = -deviation;
    d.from = below((mean - d.high) / deviation);
    d.part = below((mean - d.low) / deviation) - d.from;
  } else {
    d.from = below((d.low - mean) / deviation);
    d.part = below((d.high - mean) / deviation) - d.from;
  }
  return d;
}

static distribution resolve(const ac_tensor *tensor) {
  const ac_init *init = &tensor->desc.init;
  const ac_shape *shape = &tensor->shape;
  double rest = 1;
  for (int i = 2; i < shape->rank; i++) rest *= (double)shape->dim[i];
  int in = shape->rank > 1 && !init->in_out ? 1 : 0;
  int out = shape->rank > 1 ? 1 - in : 0;
  double fan_in = (double)shape->dim[in] * rest, fan_out = (double)shape->dim[out] * rest;
  double gain = (double)init->gain, bound = 0;
  switch (init->kind) {
  case AC_INIT_CONSTANT:
    return (distribution){.a = (double)init->value, .b = (double)init->value};
  case AC_INIT_NORMAL:
    return (distribution){NORMAL, (double)init->mean, (double)init->deviation, 0, 0, 0, 0};
  case AC_INIT_UNIFORM:
    return (distribution){.a = (double)init->low, .b = (double)init->high};
  case AC_INIT_KAIMING_NORMAL:
    return (distribution){NORMAL, 0, gain / sqrt(fan_in), 0, 0, 0, 0};
  case AC_INIT_XAVIER_NORMAL:
    return (distribution){NORMAL, 0, gain * sqrt(2 / (fan_in + fan_out)), 0, 0, 0, 0};
  case AC_INIT_KAIMING_UNIFORM:
    bound = gain * sqrt(3 / fan_in);
    break;
  case AC_INIT_XAVIER_UNIFORM:
    bound = gain * sqrt(6 / (fan_in + fan_out));
    break;
  case AC_INIT_TRUNCATED_NORMAL:
    return truncated(init);
  case AC_INIT_ORTHOGONAL:
    return (distribution){NORMAL, 0, 1, 0, 0, 0, 0};
  default:
    break;
  }
  return (distribution){.a = -bound, .b = bound};
}

/* Element e comes from word e % 4 of block e / 4; normals by Box and Muller from the words (0, 1)
 * and (2, 3). */
static double draw(const distribution *d, const ac_philox_block *block, int word) {
  const double pi = 3.14159265358979323846, share = (double)block->v[word] * 0x1p-32;
  if (d->kind == UNIFORM) return d->a + (d->b - d->a) * share;
  if (d->kind == TRUNCATED) {
    const double x = d->a + d->b * quantile(d->from + d->part * (share + 0x1p-33));
    return fmin(fmax(x, d->low), d->high);
  }
  double u = ((double)block->v[word & 2] + 1) * 0x1p-32; /* in (0, 1] */
  double angle = 2 * pi * ((double)block->v[(word & 2) + 1] * 0x1p-32);
  double radius = sqrt(-2 * log(u));
  return d->a + d->b * radius * (word & 1 ? sin(angle) : cos(angle));
}

/* Elements in their order. */
typedef struct drawing {
  distribution distribution;
  uint64_t key;
  ac_philox_block block;
} drawing;

static double draw_element(drawing *d, int64_t element) {
  const uint64_t number = (uint64_t)element;
  if (number % 4 == 0)
    d->block = ac_philox(d->key, (uint32_t)(number / 4), (uint32_t)(number / 4 >> 32), 0, 0);
  return draw(&d->distribution, &d->block, (int)(number % 4));
}

/* ---- orthogonal ------------------------------------------------------------------------------ */

/* The short side's vectors of a matrix [rows, columns], each with its elements together. */
typedef struct vectors {
  double *data;
  int64_t count, length, columns;
  bool rows; /* they are the matrix's rows */
} vectors;

static double *element_of(const vectors *v, int64_t e) {
  const int64_t row = e / v->columns, column = e % v->columns;
  return &v->data[v->rows ? e : column * v->length + row];
}

static double product(const double *a, const double *b, int64_t count) {
  double sum[8] = {0};
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (int k = 0; k < 8; k++) sum[k] += a[i + k] * b[i + k];
  for (; i < count; i++) sum[0] += a[i] * b[i];
  return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/* Gram and Schmidt, modified: the factor Q of a QR decomposition in which the diagonal of R is
 * positive, as PyTorch makes it. A vector takes what is left of it when those before it are taken
 * out. */
static void orthonormalise(const vectors *v) {
  for (int64_t j = 0; j < v->count; j++) {
    double *own = v->data + j * v->length;
    for (int64_t k = 0; k < j; k++) {
      const double *other = v->data + k * v->length, part = product(own, other, v->length);
      for (int64_t i = 0; i < v->length; i++) own[i] -= part * other[i];
    }
    const double norm = sqrt(product(own, own, v->length));
    for (int64_t i = 0; i < v->length; i++) own[i] /= norm;
  }
}

static ac_status make_orthogonal(vectors *v, const ac_tensor *tensor, drawing *d) {
  const int64_t all = ac_shape_count(&tensor->shape), rows = tensor->shape.dim[0];
  v->columns = all / rows;
  v->rows = rows < v->columns;
  v->count = v->rows ? rows : v->columns;
  v->length = v->rows ? v->columns : rows;
  v->data =
      (uint64_t)all <= PTRDIFF_MAX / sizeof *v->data ? malloc((size_t)all * sizeof *v->data) : NULL;
  if (!v->data)
    return ac_fail(AC_ERROR_MEMORY, "no memory for the orthogonal values of parameter \"%s\"",
                   tensor->name);
  for (int64_t e = 0; e < all; e++) *element_of(v, e) = draw_element(d, e);
  orthonormalise(v);
  return AC_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static float element(const ac_tensor *tensor, const vectors *v, drawing *d, int64_t e) {
  const ac_init *init = &tensor->desc.init;
  const int64_t columns = ac_shape_last(&tensor->shape);
  if (v->data) return init->gain * (float)*element_of(v, e);
  if (init->kind == AC_INIT_IDENTITY) return e / columns == e % columns ? init->gain : 0;
  return (float)draw_element(d, e);
}

static void fill(const ac_tensor *tensor, const vectors *v, drawing *d, int64_t first,
                 int64_t count, float *buffer) {
  const size_t size = sizeof *buffer;
  if (tensor->values)
    memcpy(buffer, tensor->values->data + (size_t)first * size, (size_t)count * size);
  else
    for (int64_t i = 0; i < count; i++) buffer[i] = element(tensor, v, d, first + i);
}

static ac_status initialise(ac_instance *instance, int index, uint64_t seed, float *buffer) {
  const ac_graph *graph = instance->plan->graph;
  const ac_tensor *tensor = ac_tensor_at(graph, graph->parameters[index]);
  const int64_t elements = ac_shape_count(&tensor->shape);
  drawing d = {resolve(tensor), seed ^ ac_hash_text(tensor->name), {{0}}};
  vectors v = {0};
  ac_status status = AC_OK;
  if (tensor->desc.init.kind == AC_INIT_ORTHOGONAL) status = make_orthogonal(&v, tensor, &d);
  for (int64_t first = 0; first < elements && status == AC_OK; first += PIECE) {
    const int64_t count = elements - first < PIECE ? elements - first : PIECE;
    fill(tensor, &v, &d, first, count, buffer);
    status = ac_instance_write_parameter(instance, index, first, count, buffer);
  }
  free(v.data);
  return status;
}

ac_status ac_instance_initialise(ac_instance *instance, uint64_t seed) {
  float *buffer = malloc(PIECE * sizeof *buffer);
  if (!buffer) return ac_fail(AC_ERROR_MEMORY, "no memory to initialise parameters");
  ac_status status = AC_OK;
  for (int i = 0; i < instance->plan->graph->parameter_count && status == AC_OK; i++)
    if (!ac_problem_shares(&instance->plan->problem, i))
      status = initialise(instance, i, seed, buffer);
  free(buffer);
  return status;
}
