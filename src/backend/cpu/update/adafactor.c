/* Adafactor's step (formulas in ops/update/adafactor.h) in three passes, each bound by memory:
 * squares, the size of the update, the update. The first two work on tiles of a grid that does not
 * depend on the threads. Each tile leaves its own sums in the workspace, and one thread adds them
 * up. */
#include "ops/update/adafactor.h"

#include "backend/cpu/update/update.h"

#include <math.h>

enum { TILE_ROWS = 64, TILE_COLUMNS = 4096, MOST_TILES = 16 /* in either direction */ };

typedef struct grid {
  int64_t rows, columns;           /* of the parameter */
  int64_t tile_rows, tile_columns; /* of a tile */
  int64_t down, across;            /* tiles */
} grid;

static grid grid_of(const ac_op_args *args) {
  grid g = {.rows = ac_adafactor_rows(args)};
  g.columns = args->in[0].count / g.rows;
  g.tile_rows = ac_larger(TILE_ROWS, ac_ceil_div(g.rows, MOST_TILES));
  g.tile_columns = ac_larger(TILE_COLUMNS, ac_ceil_div(g.columns, MOST_TILES));
  g.down = ac_ceil_div(g.rows, g.tile_rows);
  g.across = ac_ceil_div(g.columns, g.tile_columns);
  return g;
}

/* The workspace. */
typedef struct sums {
  double *weights, *updates; /* squares, by tile */
  float *rows, *columns;     /* squares of the gradient [across, rows] and [down, columns] */
  float *factors;            /* r_i / max(mean of r, epsilon1) */
  float *step;               /* what g' / sqrt(v) is multiplied by */
} sums;

static void lay(const grid *g, void *workspace, sums *s) {
  const int64_t tiles = g->down * g->across;
  s->weights = workspace;
  s->updates = s->weights + tiles;
  s->rows = (float *)(s->updates + tiles);
  s->columns = s->rows + g->across * g->rows;
  s->factors = s->columns + g->down * g->columns;
  s->step = s->factors + g->rows;
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  (void)context;
  const grid g = grid_of(args);
  const uint64_t tiles = (uint64_t)(g.down * g.across);
  return tiles * 2 * sizeof(double) +
         (uint64_t)(g.across * g.rows + g.down * g.columns + g.rows + 1) * sizeof(float);
}

typedef struct tile {
  int64_t down, across, row, last_row, column, last_column;
} tile;

static tile tile_at(const grid *g, int64_t index) {
  tile t = {.down = index / g->across, .across = index % g->across};
  t.row = t.down * g->tile_rows;
  t.last_row = ac_smaller(g->rows, t.row + g->tile_rows);
  t.column = t.across * g->tile_columns;
  t.last_column = ac_smaller(g->columns, t.column + g->tile_columns);
  return t;
}

/* ---- squares --------------------------------------------------------------------------------- */

/* A row's share in a tile, and its squares. */
typedef struct tile_row {
  float gradient, weight;
} tile_row;

/* Squares of elements [first, first + count), which lie in one row; adds them to the columns'. */
static void square_run(const ac_op_args *args, int64_t first, int64_t count, float *columns,
                       tile_row *sum) {
  _Alignas(64) float gradients[AC_CPU_STEPPED], weights[AC_CPU_STEPPED];
  const float factor = ((const ac_adafactor_attributes *)args->attributes)->gradient_factor;
  const float *d = stepped_read(&args->in[0], first, count, gradients),
              *p = stepped_read(&args->out[0], first, count, weights);
  float row = 0, weight = 0;
#pragma omp simd reduction(+ : row, weight)
  for (int64_t j = 0; j < count; j++) {
    float gradient = factor * d[j], square = gradient * gradient;
    columns[j] += square;
    row += square;
    weight += p[j] * p[j];
  }
  sum->gradient += row;
  sum->weight += weight;
}

static void square_range(const ac_op_args *args, int64_t first, int64_t last) {
  const grid g = grid_of(args);
  const int64_t run = stepped_run(args);
  sums s;
  lay(&g, args->workspace, &s);
  for (int64_t k = first; k < last; k++) {
    const tile t = tile_at(&g, k);
    float *columns = s.columns + t.down * g.columns;
    double weights = 0;
    for (int64_t j = t.column; j < t.last_column; j++) columns[j] = 0;
    for (int64_t i = t.row; i < t.last_row; i++) {
      tile_row row = {0, 0};
      for (int64_t j = t.column, count; j < t.last_column; j += count) {
        count = ac_smaller(t.last_column - j, run);
        square_run(args, i * g.columns + j, count, columns + j, &row);
      }
      s.rows[t.across * g.rows + i] = row.gradient;
      weights += (double)row.weight;
    }
    s.weights[k] = weights;
  }
}

/* Moves the mean of each of `count` sums, made of `parts`, into the moment; returns the moments'
 * mean. */
static double blend(float *moment, const float *part, int64_t count, int64_t parts, int64_t terms,
                    float blend) {
  double sum = 0;
  for (int64_t i = 0; i < count; i++) {
    float square = 0;
    for (int64_t k = 0; k < parts; k++) square += part[k * count + i];
    moment[i] += blend * (square / (float)terms - moment[i]);
    sum += (double)moment[i];
  }
  return sum / (double)count;
}

static void take_moments(const ac_op_args *args, const grid *g, const sums *s) {
  const ac_adafactor_attributes *a = args->attributes;
  blend(ac_adafactor_columns(args)->data, s->columns, g->columns, g->down, g->rows, a->blend);
  s->factors[0] = 1;
  if (!args->out[2].count) return;
  float *r = args->out[1].data;
  double mean = blend(r, s->rows, g->rows, g->across, g->columns, a->blend);
  for (int64_t i = 0; i < g->rows; i++) s->factors[i] = r[i] / larger(a->epsilon1, (float)mean);
}

/* ---- the update ------------------------------------------------------------------------------ */

/* g' / sqrt(v) */
static inline float direction(const ac_adafactor_attributes *a, float g, float row, float column) {
  return a->gradient_factor * g / sqrtf(larger(a->epsilon1 * a->epsilon1, row * column));
}

/* Squares of the update of elements [first, first + count), which lie in one row. */
static float size_run(const ac_op_args *args, int64_t first, int64_t count, float row,
                      const float *c) {
  _Alignas(64) float gradients[AC_CPU_STEPPED];
  const ac_adafactor_attributes *a = args->attributes;
  const float *d = stepped_read(&args->in[0], first, count, gradients);
  float square = 0;
#pragma omp simd reduction(+ : square)
  for (int64_t j = 0; j < count; j++) {
    float u = direction(a, d[j], row, c[j]);
    square += u * u;
  }
  return square;
}

static void size_range(const ac_op_args *args, int64_t first, int64_t last) {
  const float *c = ac_adafactor_columns(args)->data;
  const grid g = grid_of(args);
  const int64_t run = stepped_run(args);
  sums s;
  lay(&g, args->workspace, &s);
  for (int64_t k = first; k < last; k++) {
    const tile t = tile_at(&g, k);
    double squares = 0;
    for (int64_t i = t.row; i < t.last_row; i++) {
      float square = 0;
      for (int64_t j = t.column, count; j < t.last_column; j += count) {
        count = ac_smaller(t.last_column - j, run);
        square += size_run(args, i * g.columns + j, count, s.factors[i], c + j);
      }
      squares += (double)square;
    }
    s.updates[k] = squares;
  }
}

static double root_mean(const double *squares, int64_t tiles, int64_t count) {
  double sum = 0;
  for (int64_t k = 0; k < tiles; k++) sum += squares[k];
  return sqrt(sum / (double)count);
}

static float step_of(const ac_op_args *args, const grid *g, const sums *s) {
  const ac_adafactor_attributes *a = args->attributes;
  const int64_t tiles = g->down * g->across, count = args->in[0].count;
  const double size = root_mean(s->weights, tiles, count),
               update = root_mean(s->updates, tiles, count) / (double)a->threshold;
  return (float)(fmax((double)a->epsilon2, size) * (double)a->relative / fmax(1, update));
}

/* z - x y, rounded once if the CPU can do that. If the compiler chose, the choice of the rounded
 * product could differ between elements of a vector and of a row's rest, and so depend on where
 * blocks for working copies begin. */
static inline float minus_product(float z, float x, float y) {
#ifdef __FP_FAST_FMAF
  return __builtin_fmaf(-x, y, z);
#else
  return z - x * y;
#endif
}

static void step_floats(const ac_op_args *args, int64_t first, int64_t last) {
  const ac_adafactor_attributes *a = args->attributes;
  const float *c = ac_adafactor_columns(args)->data, *d = args->in[0].data;
  float *p = args->out[0].data;
  const grid g = grid_of(args);
  sums s;
  lay(&g, args->workspace, &s);
  const float step = *s.step, keep = 1.0f - a->rate * a->weight_decay;
  for (int64_t i = first / g.columns, at = first; at < last; i++) {
    const int64_t row = i * g.columns, end = ac_smaller(last, row + g.columns);
    const float factor = s.factors[i];
#pragma omp simd
    for (int64_t j = at; j < end; j++)
      p[j] = minus_product(p[j] * keep, step, direction(a, d[j], factor, c[j - row]));
    at = end;
  }
  ac_cpu_copy_parameters(&args->out[3], p, first, last);
}

static void step_range(const ac_op_args *args, int64_t first, int64_t last) {
  stepped_range(args, first, last, step_floats);
}

static void adafactor(const ac_cpu_context *context, const ac_op_args *args) {
  const grid g = grid_of(args);
  const int64_t tiles = g.down * g.across, weight = g.tile_rows * g.tile_columns;
  sums s;
  lay(&g, args->workspace, &s);
  ac_cpu_for(context, args, tiles, weight, square_range);
  take_moments(args, &g, &s);
  ac_cpu_for(context, args, tiles, weight, size_range);
  *s.step = step_of(args, &g, &s);
  ac_cpu_for_floats(context, args, args->in[0].count, 1, step_range);
}

const ac_cpu_kernel AC_CPU_KERNEL(adafactor) = {.run = adafactor, .workspace = workspace};
