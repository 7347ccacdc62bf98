/* Resized images. A plane of the result is A x B^T (ops/convolution/resize2d.h): first the rows of
 * x that a row of the result is made of are added up, element by element, then the elements of that
 * sum which each of its columns is made of are gathered. The gradient A^T dy B is the same with the
 * transposed matrices: their rows are what a pixel of the image feeds. So sums have a fixed order,
 * and no two threads write to one pixel.
 *
 * Matrices are bands: the nonzero elements of a row are neighbours. They are made anew for each
 * run, at the beginning of the workspace, in double precision where each product is exact, so that
 * all instruction sets have the same. After them each thread has room for three rows of floats:
 * one of x, the sum, and one of the result. */
#include "backend/cpu/shared/convert.h"
#include "ops/convolution/resize2d.h"

#include <math.h>
#include <string.h>

/* ---- bands ----------------------------------------------------------------------------------- */

typedef struct band {
  int64_t rows, most; /* elements of a row at most */
  int32_t *first, *count;
  int32_t *index; /* [most][rows]: where they are; beyond the count, the first again */
  float *weight;  /* [most][rows]: then 0 */
} band;

/* Along an axis of this op. */
typedef struct axis {
  const ac_resize2d_attributes *a;
  double scale;
  int64_t image, result; /* pixels */
} axis;

static axis axis_of(const ac_op_args *args, const ac_operand *x, const ac_operand *y, int which) {
  const ac_resize2d_attributes *a = args->attributes;
  return (axis){a, (double)a->scale[which], x->dim[2 + which], y->dim[2 + which]};
}

/* Keys' kernel, at this distance. */
static double cubic(double d) {
  const double a = -0.75;
  if (d >= 2) return 0;
  return d <= 1 ? ((a + 2) * d - (a + 3)) * d * d + 1 : ((a * d - 5 * a) * d + 8 * a) * d - 4 * a;
}

/* The pixels that element i of the result is made of: the first one and their number. Their weights
 * are added up where they are the same pixel, at an edge. */
static int taps(const axis *x, int64_t i, int32_t *first, double weight[4]) {
  const int kind = x->a->kind, reach = kind == AC_RESIZE_BICUBIC;
  const double centre =
      x->a->align_corners ? x->scale * (double)i : x->scale * ((double)i + 0.5) - 0.5;
  const double s = kind == AC_RESIZE_NEAREST    ? (double)((float)x->scale * (float)i)
                   : kind == AC_RESIZE_BILINEAR ? fmax(centre, 0)
                                                : centre;
  const int64_t floor_of_s = ac_smaller((int64_t)floor(s), x->image - 1);
  const double t = fmin(s - (double)floor_of_s, 1);
  const int64_t from = ac_larger(0, ac_smaller(floor_of_s - reach, x->image - 1));
  int count = 0;
  for (int k = 0; k < ac_resize_taps(kind); k++) {
    const int64_t at = ac_larger(0, ac_smaller(floor_of_s - reach + k, x->image - 1));
    if (at - from >= count) weight[count++] = 0;
    weight[at - from] += kind == AC_RESIZE_NEAREST    ? 1
                         : kind == AC_RESIZE_BILINEAR ? (k ? t : 1 - t)
                                                      : cubic(fabs(t + 1 - k));
  }
  *first = (int32_t)from;
  return count;
}

/* The first pixel that element i of the result is made of, and the last one. */
static int64_t first_of(const axis *x, int64_t i) {
  double weight[4];
  int32_t first;
  taps(x, i, &first, weight);
  return first;
}
static int64_t last_of(const axis *x, int64_t i) {
  double weight[4];
  int32_t first;
  const int count = taps(x, i, &first, weight);
  return first + count - 1;
}

/* The results that a pixel feeds are neighbours, because positions grow with the result's. Returns
 * their number, with the first one, which is not before *first. */
static int64_t fed(const axis *x, int64_t pixel, int64_t *first) {
  while (*first < x->result && last_of(x, *first) < pixel) (*first)++;
  int64_t end = *first;
  while (end < x->result && first_of(x, end) <= pixel) end++;
  return end - *first;
}

static int64_t most_of(const axis *x, bool transposed) {
  int64_t most = 1, first = 0;
  if (!transposed) return ac_resize_taps(x->a->kind);
  for (int64_t pixel = 0; pixel < x->image; pixel++) most = ac_larger(most, fed(x, pixel, &first));
  return most;
}

static int64_t lines(int64_t elements) {
  return ac_ceil_div(elements, AC_CPU_LINE) * AC_CPU_LINE;
}

/* Elements of four bytes that a band takes. */
static int64_t band_room(int64_t rows, int64_t most) {
  return lines(rows) * (2 + 2 * most);
}

static band place(int32_t *room, int64_t rows, int64_t most) {
  band b = {rows, most, room, room + lines(rows), room + 2 * lines(rows), NULL};
  b.weight = (float *)(void *)(b.index + lines(rows) * most);
  return b;
}

static void make(band *b, const axis *x) {
  for (int64_t i = 0; i < b->rows; i++) {
    double weight[4];
    b->count[i] = taps(x, i, &b->first[i], weight);
    for (int64_t k = 0; k < b->most; k++) {
      b->index[k * b->rows + i] = b->first[i] + (k < b->count[i] ? (int32_t)k : 0);
      b->weight[k * b->rows + i] = k < b->count[i] ? (float)weight[k] : 0;
    }
  }
}

static void make_transposed(band *b, const axis *x) {
  int64_t first = 0;
  for (int64_t i = 0; i < b->rows; i++) {
    b->count[i] = (int32_t)fed(x, i, &first);
    b->first[i] = (int32_t)ac_smaller(first, x->result - 1);
    for (int64_t k = 0; k < b->most; k++) {
      double weight[4];
      int32_t from;
      if (k < b->count[i]) taps(x, first + k, &from, weight);
      b->index[k * b->rows + i] = b->first[i] + (k < b->count[i] ? (int32_t)k : 0);
      b->weight[k * b->rows + i] = k < b->count[i] ? (float)weight[i - from] : 0;
    }
  }
}

/* ---- rows ------------------------------------------------------------------------------------ */

typedef struct resizing {
  band vertical, horizontal;
  float *rows; /* of all threads */
  int64_t room;
} resizing;

enum { IMAGE_ROW, SUM_ROW, RESULT_ROW, ROWS };

static bool is_gradient(const ac_op_args *args) {
  return args->op == AC_OP_resize2d_gradient;
}

/* The bands have their elements unless `memory` is NULL. Returns all that they and the rows take,
 * in bytes. */
static uint64_t lay_out(const ac_cpu_context *context, const ac_op_args *args, void *memory,
                        resizing *r) {
  const bool transposed = is_gradient(args);
  const ac_operand *from = &args->in[0], *to = &args->out[0];
  const ac_operand *x = transposed ? to : from, *y = transposed ? from : to;
  int32_t *room = memory;
  int64_t elements = 0;
  for (int i = 0; i < 2; i++) {
    const axis along = axis_of(args, x, y, i);
    const int64_t most = most_of(&along, transposed);
    if (memory) {
      band *b = i ? &r->horizontal : &r->vertical;
      *b = place(room + elements, to->dim[2 + i], most);
      (transposed ? make_transposed : make)(b, &along);
    }
    elements += band_room(to->dim[2 + i], most);
  }
  r->rows = memory ? (float *)(void *)(room + elements) : NULL;
  r->room = lines(ac_larger(from->dim[3], to->dim[3]));
  return sizeof(float) * (uint64_t)(elements + context->threads * ROWS * r->room);
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  resizing unused;
  return args->in[0].count && args->out[0].count ? lay_out(context, args, NULL, &unused) : 0;
}

static inline void add_row(float *restrict sum, const float *restrict x, float weight,
                           int64_t count, bool first) {
  if (first)
    for (int64_t j = 0; j < count; j++) sum[j] = weight * x[j];
  else
    for (int64_t j = 0; j < count; j++) sum[j] += weight * x[j];
}

static inline void add_pair(float *restrict sum, const float *restrict a, const float *restrict b,
                            float of_a, float of_b, int64_t count, bool first) {
  if (first)
    for (int64_t j = 0; j < count; j++) sum[j] = of_a * a[j] + of_b * b[j];
  else
    for (int64_t j = 0; j < count; j++) sum[j] += of_a * a[j] + of_b * b[j];
}

/* The sum of the rows of a plane that row i of the result is made of: `sum`, or the row itself if
 * it is one of floats. */
static const float *sum_rows(const band *b, int64_t i, const void *plane, ac_dtype dtype,
                             int64_t columns, float *row, float *sum) {
  const int64_t first = b->first[i], count = b->count[i];
  const float *weight = b->weight + i;
  if (dtype == AC_F32) {
    const float *x = (const float *)plane + first * columns;
    if (count == 1 && weight[0] == 1) return x;
    if (!count) memset(sum, 0, (size_t)columns * sizeof *sum);
    int64_t k = 0;
    for (; k + 1 < count; k += 2)
      add_pair(sum, x + k * columns, x + (k + 1) * columns, weight[k * b->rows],
               weight[(k + 1) * b->rows], columns, !k);
    if (k < count) add_row(sum, x + k * columns, weight[k * b->rows], columns, !k);
    return sum;
  }
  if (!count) memset(sum, 0, (size_t)columns * sizeof *sum);
  for (int64_t k = 0; k < count; k++) {
    ac_cpu_widen(dtype, ac_element(plane, dtype, (first + k) * columns), row, columns);
    add_row(sum, row, weight[k * b->rows], columns, !k);
  }
  return sum;
}

/* `most` is a constant where this is inlined for one. */
static inline __attribute__((always_inline)) void
gather(const band *b, int64_t most, const float *restrict x, float *restrict y, bool add) {
  const int32_t *index = b->index;
  const float *weight = b->weight;
  const int64_t rows = b->rows;
  for (int64_t j = 0; j < rows; j++) {
    float sum = weight[j] * x[index[j]];
    for (int64_t k = 1; k < most; k++) sum += weight[k * rows + j] * x[index[k * rows + j]];
    y[j] = add ? y[j] + sum : sum;
  }
}

static void gather_columns(const band *b, const float *x, float *y, bool add) {
  if (b->most == 1) gather(b, 1, x, y, add);
  else if (b->most == 2) gather(b, 2, x, y, add);
  else if (b->most == 4) gather(b, 4, x, y, add);
  else gather(b, b->most, x, y, add);
}

/* Rows [first, last) of all planes of the result. */
static void resize_rows(const resizing *r, const ac_op_args *args, int64_t first, int64_t last,
                        float *scratch) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  const int64_t height = y->dim[2], width = y->dim[3], columns = x->dim[3];
  const ac_dtype dtype = y->dtype;
  float *row = scratch + IMAGE_ROW * r->room, *sum = scratch + SUM_ROW * r->room;
  for (int64_t n = first; n < last; n++) {
    const int64_t plane = n / height, i = n % height;
    void *to = ac_element(y->data, dtype, n * width);
    const bool again = n > first && i && r->vertical.count[i] == 1 &&
                       r->vertical.count[i - 1] == 1 &&
                       r->vertical.first[i] == r->vertical.first[i - 1] && !is_gradient(args);
    if (again) {
      memcpy(to, ac_element(y->data, dtype, (n - 1) * width),
             (size_t)width * ac_element_bytes(dtype));
      continue;
    }
    const void *from = ac_element(x->data, dtype, plane * x->dim[2] * columns);
    const float *summed = sum_rows(&r->vertical, i, from, dtype, columns, row, sum);
    float *result = dtype == AC_F32 ? to : scratch + RESULT_ROW * r->room;
    if (dtype != AC_F32 && args->add[0]) ac_cpu_widen(dtype, to, result, width);
    gather_columns(&r->horizontal, summed, result, args->add[0]);
    if (dtype != AC_F32) ac_cpu_narrow(dtype, args->run->mark_flushed, result, to, width);
  }
}

/* The bands, once they are made; a part only reads them. */
static void part(const ac_cpu_context *context, const ac_op_args *args, int thread, int team) {
  const resizing *r = args->workspace;
  const ac_operand *y = &args->out[0];
  int64_t first, last;
  (void)context;
  ac_cpu_share(y->count / y->dim[3], 1, thread, team, &first, &last);
  resize_rows(r, args, first, last, r->rows + thread * ROWS * r->room);
}

static void run(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_operand *x = &args->in[0], *y = &args->out[0];
  resizing r;
  if (!x->count || !y->count) return;
  lay_out(context, args, args->workspace, &r);
  ac_op_args own = *args;
  own.workspace = &r;
  ac_cpu_parallel_for(context, &own, ac_larger(x->count, y->count), part);
}

const ac_cpu_kernel AC_CPU_KERNEL(resize2d) = {.run = run, .workspace = workspace};
const ac_cpu_kernel AC_CPU_KERNEL(resize2d_gradient) = {.run = run, .workspace = workspace};
