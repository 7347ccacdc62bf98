/* Which tile of cl/product/gemm.cl multiplies which class of products.
 *
 * A class is: the transposes, the types of A, B and C, and whether the product is large. On a GPU
 * the first product of a class that is prepared starts a short tuning run. Every tile of the list
 * multiplies a small product, and the result must have the bits of plain loops on the host. Tiles
 * that pass are timed on a product of fixed size, for a few milliseconds each; compiling them takes
 * longer than that. Classes of mixed types are only checked, the tile of the unmixed class first.
 * The result is kept on disk, under the hash of device, driver, source and class. All tiles give
 * the same bits, so another choice at another time changes only the speed.
 *
 * If no tile has these bits (because a driver contracts or reorders otherwise), the first is used
 * if its results are near enough, and that is not kept on disk; if they are not, the class cannot
 * be multiplied. A tile that cannot run is left out. If the first cannot run and no other is exact,
 * the ordinary preparation reports why.
 *
 * The scratch buffers of a tuning run live as long as the run, which is before a plan's memory is
 * allocated (run/instance.c). On CPU devices compiling costs more than tuning saves, so the first
 * tile of the list is used. ACCRUE_TUNE=1 tunes also on CPUs, ACCRUE_TUNE=0 nowhere. */
#include "backend/opencl/product/gemm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/platform/cache_file.h"
#include "core/error.h"
#include "core/half.h"
#include "core/platform/clock.h"
#include "core/random.h"

/* ---- the list -------------------------------------------------------------------------------- */

/* Work-items on a CPU are loop iterations, and the registers are vectors. On a GPU larger tiles
 * read less, smaller ones give more work-groups. */
static const ac_cl_tile cpu_large[] = {{2, 8, 6, 4, 16}, {2, 8, 8, 2, 16}, {2, 8, 4, 4, 8}},
                        cpu_small[] = {{1, 8, 6, 2, 16}, {1, 8, 6, 4, 8}},
                        gpu_large[] = {{16, 16, 8, 2, 4},
                                       {16, 16, 8, 1, 4},
                                       {16, 16, 4, 2, 4},
                                       {16, 16, 4, 1, 4}},
                        gpu_small[] = {{16, 16, 4, 1, 4}, {8, 8, 8, 2, 4}, {8, 8, 4, 1, 4}},
                        narrow_large[] = {{8, 8, 8, 2, 4}, {8, 8, 8, 1, 4}, {8, 8, 4, 1, 4}},
                        narrow_small[] = {{8, 8, 4, 1, 4}, {8, 8, 8, 1, 4}};

#define LIST(tiles_) ((ac_cl_tiles){tiles_, (int)(sizeof(tiles_) / sizeof *(tiles_))})

ac_cl_tiles ac_cl_tiles_for(const ac_opencl *cl, bool large) {
  if (cl->cpu) return large ? LIST(cpu_large) : LIST(cpu_small);
  if (cl->group == 256) return large ? LIST(gpu_large) : LIST(gpu_small);
  return large ? LIST(narrow_large) : LIST(narrow_small);
}

bool ac_cl_product_is_large(const ac_opencl *cl, const ac_cl_product *p) {
  if (cl->cpu) return p->n > 64;
  const int64_t edge = cl->group == 256 ? 128 : 64;
  const int64_t groups = (p->m + edge - 1) / edge * ((p->n + edge - 1) / edge) * p->batch;
  return p->m >= edge && p->n >= edge && groups >= cl->info.compute_units;
}

/* ---- a trial --------------------------------------------------------------------------------- */

/* The sizes of the check: no multiples of anything, and rows that are aligned. */
enum { CHECKS = 2 };
static const struct { int64_t m, n, k; } check_size[CHECKS] = {{131, 139, 37}, {144, 160, 36}};

enum { A, B, C, MATRICES };

typedef struct trial {
  ac_opencl *cl;
  ac_cl_product product; /* of the class; sizes and matrices are those of the trial */
  bool large;
  cl_mem buffer[MATRICES];
  void *host[MATRICES];       /* values of A and B, results */
  int64_t capacity[MATRICES]; /* elements */
  void *expected[CHECKS];
} trial;

static ac_dtype type_of(const trial *t, int matrix) {
  const bool is_float[MATRICES] = {t->product.float_a, t->product.float_b, t->product.float_c};
  return is_float[matrix] ? AC_F32 : t->cl->storage;
}

static void set_size(trial *t, int64_t m, int64_t n, int64_t k) {
  t->product.m = m;
  t->product.n = n;
  t->product.k = k;
}

/* On a GPU a square of tiles of 128 or 64 rows, about one for each compute unit; whole tiles of the
 * list on a CPU. */
static void set_timed_size(trial *t) {
  if (t->cl->cpu) {
    set_size(t, 768, t->large ? 768 : 64, 512);
    return;
  }
  int64_t edge = (int64_t)(t->large ? 128 : 64) * (int64_t)ceil(sqrt(t->cl->info.compute_units));
  edge = edge < 256 ? 256 : edge > 2048 ? 2048 : edge;
  set_size(t, edge, edge, 512);
}

static bool make_room(trial *t, int matrix, int64_t elements) {
  const size_t bytes = (size_t)elements * ac_dtype_bytes(type_of(t, matrix));
  cl_int error;
  t->capacity[matrix] = elements;
  t->host[matrix] = malloc(bytes);
  t->buffer[matrix] = clCreateBuffer(t->cl->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
  if (error != CL_SUCCESS) return false;
  t->cl->objects++;
  return t->host[matrix] != NULL;
}

/* Uniform in [-1, 1). */
static bool fill(trial *t, int matrix) {
  const ac_dtype type = type_of(t, matrix);
  const int64_t count = t->capacity[matrix];
  for (int64_t i = 0; i < count; i++) {
    const ac_philox_block block = ac_philox(1, (uint32_t)(i / 4), (uint32_t)matrix, 0, 0);
    ac_float_write(type, t->host[matrix], i, 2 * ac_uniform24(block.v[i % 4]) - 1);
  }
  return clEnqueueWriteBuffer(t->cl->queue, t->buffer[matrix], CL_TRUE, 0,
                              (size_t)count * ac_dtype_bytes(type), t->host[matrix], 0, NULL,
                              NULL) == CL_SUCCESS;
}

/* Where element (i, l) of op(A) and (l, j) of op(B) are stored. */
static int64_t place_in_a(const ac_cl_product *p, int64_t i, int64_t l) {
  return p->transpose_a ? l * p->m + i : i * p->k + l;
}
static int64_t place_in_b(const ac_cl_product *p, int64_t l, int64_t j) {
  return p->transpose_b ? j * p->k + l : l * p->n + j;
}

/* What the kernel promises. */
static void plain_product(const trial *t, void *c) {
  const ac_cl_product *p = &t->product;
  const ac_dtype type_a = type_of(t, A), type_b = type_of(t, B), type_c = type_of(t, C);
  for (int64_t i = 0; i < p->m; i++)
    for (int64_t j = 0; j < p->n; j++) {
      float sum = 0;
      for (int64_t l = 0; l < p->k; l++)
        sum = fmaf(ac_float_read(type_a, t->host[A], place_in_a(p, i, l)),
                   ac_float_read(type_b, t->host[B], place_in_b(p, l, j)), sum);
      ac_float_write(type_c, c, i * p->n + j, sum);
    }
}

static size_t result_bytes(const trial *t) {
  return (size_t)(t->product.m * t->product.n) * ac_dtype_bytes(type_of(t, C));
}

static void set_check(trial *t, int i) {
  set_size(t, check_size[i].m, check_size[i].n, check_size[i].k);
}

/* Room for the largest of the sizes, values for A and B, and what the checks should give. */
static bool begin(trial *t) {
  set_timed_size(t);
  int64_t m = t->product.m, n = t->product.n;
  for (int i = 0; i < CHECKS; i++) {
    m = check_size[i].m > m ? check_size[i].m : m;
    n = check_size[i].n > n ? check_size[i].n : n;
  }
  const int64_t k = t->product.k;
  if (!make_room(t, A, m * k) || !make_room(t, B, k * n) || !make_room(t, C, m * n)) return false;
  if (!fill(t, A) || !fill(t, B)) return false;
  t->product.a = t->buffer[A];
  t->product.b = t->buffer[B];
  t->product.c = t->buffer[C];
  for (int i = 0; i < CHECKS; i++) {
    set_check(t, i);
    t->expected[i] = malloc(result_bytes(t));
    if (!t->expected[i]) return false;
    plain_product(t, t->expected[i]);
  }
  return true;
}

static void end(trial *t) {
  for (int matrix = 0; matrix < MATRICES; matrix++) {
    if (t->buffer[matrix]) clReleaseMemObject(t->buffer[matrix]);
    free(t->host[matrix]);
  }
  for (int i = 0; i < CHECKS; i++) free(t->expected[i]);
}

/* ---- checking and timing --------------------------------------------------------------------- */

/* Whether an element of the result lies within 2^-10 |A| |B| of what is expected, and one step of
 * bf16, which is coarser than that. Anything but a wrong kernel does. */
static bool is_near(const trial *t, const void *expected, int64_t i, int64_t j) {
  const ac_cl_product *p = &t->product;
  const double want = (double)ac_float_read(type_of(t, C), expected, i * p->n + j);
  const double got = (double)ac_float_read(type_of(t, C), t->host[C], i * p->n + j);
  double size = 0;
  for (int64_t l = 0; l < p->k; l++)
    size += fabs((double)ac_float_read(type_of(t, A), t->host[A], place_in_a(p, i, l)) *
                 (double)ac_float_read(type_of(t, B), t->host[B], place_in_b(p, l, j)));
  const double step = type_of(t, C) == AC_BF16 ? 0x1p-7 * fabs(want) : 0;
  return fabs(got - want) <= 0x1p-10 * size + step;
}

static bool all_near(const trial *t, const void *expected) {
  for (int64_t i = 0; i < t->product.m; i++)
    for (int64_t j = 0; j < t->product.n; j++)
      if (!is_near(t, expected, i, j)) return false;
  return true;
}

/* FAILED: it could not be compiled or run, so that nothing is known of what it computes. */
typedef enum verdict { FAILED, WRONG, NEAR, EXACT } verdict;

static verdict check_tile(trial *t, ac_cl_tile tile) {
  verdict result = EXACT;
  for (int i = 0; i < CHECKS && result != WRONG; i++) {
    set_check(t, i);
    const size_t bytes = result_bytes(t);
    if (ac_cl_gemm_tile(t->cl, &t->product, tile) != AC_OK ||
        clEnqueueReadBuffer(t->cl->queue, t->buffer[C], CL_TRUE, 0, bytes, t->host[C], 0, NULL,
                            NULL) != CL_SUCCESS)
      return FAILED;
    if (t->cl->distort && !t->cl->distort(&tile, t->host[C], bytes)) return FAILED;
    if (memcmp(t->host[C], t->expected[i], bytes) != 0)
      result = all_near(t, t->expected[i]) ? NEAR : WRONG;
  }
  return result;
}

static bool time_runs(trial *t, ac_cl_tile tile, int runs, double *seconds) {
  const double start = ac_clock();
  for (int i = 0; i < runs; i++)
    if (ac_cl_gemm_tile(t->cl, &t->product, tile) != AC_OK) return false;
  if (clFinish(t->cl->queue) != CL_SUCCESS) return false;
  *seconds = (ac_clock() - start) / runs;
  return true;
}

/* The least time of a few passes. Each is much longer than the queue's own time. A tile that is far
 * slower at once is not measured further. */
static bool time_tile(trial *t, ac_cl_tile tile, double least, double *seconds) {
  enum { PASSES = 4, MOST_RUNS = 16 };
  static const double pass_seconds = 2e-3;
  set_timed_size(t);
  if (!time_runs(t, tile, 1, seconds) || !time_runs(t, tile, 1, seconds)) return false;
  if (*seconds > 2 * least) return true;
  const double wanted = pass_seconds / *seconds;
  const int runs = wanted < 1 ? 1 : wanted > MOST_RUNS ? MOST_RUNS : (int)wanted;
  for (int pass = 0; pass < PASSES; pass++) {
    double one;
    if (!time_runs(t, tile, runs, &one)) return false;
    if (one < *seconds) *seconds = one;
  }
  return true;
}

/* ---- the choice ------------------------------------------------------------------------------ */

static bool is_mixed(const ac_cl_product *p) {
  return p->float_a || p->float_b || p->float_c;
}

/* What distinguishes a class on a device. */
static void describe(char *text, size_t size, const ac_opencl *cl, const ac_cl_product *p,
                     bool large) {
  snprintf(text, size, "%s%s%s%s%s%s %s", ac_dtype_name(cl->storage), p->transpose_a ? " TA" : "",
           p->transpose_b ? " TB" : "", p->float_a ? " A" : "", p->float_b ? " B" : "",
           p->float_c ? " C" : "", large ? "large" : "small");
}

static bool same_tile(ac_cl_tile a, ac_cl_tile b) {
  return a.tx == b.tx && a.ty == b.ty && a.rows == b.rows && a.columns == b.columns &&
         a.vector == b.vector;
}

static ac_cache_file tile_file(const ac_opencl *cl, const char *class) {
  return ac_cache_file_of("tiles", "gemm-", ac_cl_program_key(cl, "gemm", class), ".txt");
}

enum { TILE_TEXT = 128 };
static const char tile_text[] = "accrue tile 1: %d %d %d %d %d";

/* A file that names no tile of the list counts for nothing. */
static bool read_tile(const ac_cache_file *cache, ac_cl_tiles tiles, int *index) {
  char text[TILE_TEXT] = "";
  ac_cl_tile t = {0};
  const size_t bytes = ac_cache_file_bytes(cache);
  if (bytes >= sizeof text || !ac_cache_file_read(cache, text, bytes)) return false;
  const int values = sscanf(text, tile_text, &t.tx, &t.ty, &t.rows, &t.columns, &t.vector);
  for (*index = 0; values == 5 && *index < tiles.count; (*index)++)
    if (same_tile(tiles.tile[*index], t)) return true;
  return false;
}

static void write_tile(const ac_cache_file *cache, ac_cl_tile t) {
  char text[TILE_TEXT];
  const int length =
      snprintf(text, sizeof text, tile_text, t.tx, t.ty, t.rows, t.columns, t.vector);
  ac_cache_file_write(cache, text, (size_t)length, "\n", 1);
}

/* The fastest of the tiles that are exact; -1: there is none. */
static int fastest(trial *t, ac_cl_tiles tiles) {
  double least = INFINITY;
  int best = -1;
  for (int i = 0; i < tiles.count; i++) {
    double seconds;
    if (check_tile(t, tiles.tile[i]) != EXACT || !time_tile(t, tiles.tile[i], least, &seconds))
      continue;
    if (seconds < least) least = seconds, best = i;
  }
  return best;
}

/* `first` or else the first of the list that is exact; -1: there is none. */
static int first_exact(trial *t, ac_cl_tiles tiles, int first) {
  if (check_tile(t, tiles.tile[first]) == EXACT) return first;
  for (int i = 0; i < tiles.count; i++)
    if (i != first && check_tile(t, tiles.tile[i]) == EXACT) return i;
  return -1;
}

/* How the tile of a class was found. UNCHECKED: there was no room for a trial, or the first tile
 * could not run in it; if it cannot run elsewhere either, preparing it says why. */
typedef enum outcome { UNCHECKED, FOUND, ACCEPTED, REFUSED } outcome;

/* `index` comes with the tile to try first. */
static outcome try_tiles(trial *t, ac_cl_tiles tiles, int *index) {
  if (!begin(t)) return UNCHECKED;
  const int found = is_mixed(&t->product) ? first_exact(t, tiles, *index) : fastest(t, tiles);
  *index = found < 0 ? 0 : found;
  if (found >= 0) return FOUND;
  const verdict first = check_tile(t, tiles.tile[0]);
  return first == FAILED ? UNCHECKED : first == WRONG ? REFUSED : ACCEPTED;
}

static outcome tune(ac_opencl *cl, const ac_cl_product *class, ac_cl_tiles tiles, bool large,
                    int *index) {
  trial t = {.cl = cl, .product = *class, .large = large};
  /* What goes wrong here is a reason for another tile, not the caller's error. */
  const ac_kept_error kept = ac_error_keep();
  const bool mark_flushed = cl->mark_flushed;
  cl->preparing = cl->mark_flushed = false;
  const outcome result = try_tiles(&t, tiles, index);
  end(&t);
  cl->preparing = true;
  cl->mark_flushed = mark_flushed;
  ac_error_restore(&kept);
  return result;
}

/* The tile of a class that has none yet. */
static ac_status choose_tile(ac_opencl *cl, const ac_cl_product *class, bool large, int *index) {
  const ac_cl_tiles tiles = ac_cl_tiles_for(cl, large);
  char name[64];
  describe(name, sizeof name, cl, class, large);
  const ac_cache_file cache = tile_file(cl, name);
  if (read_tile(&cache, tiles, index)) return AC_OK;
  *index = 0;
  if (is_mixed(class)) {
    ac_cl_product plain = *class;
    plain.float_a = plain.float_b = plain.float_c = false;
    AC_TRY(ac_cl_tile_index(cl, &plain, large, index));
  }
  ac_cl_announce(cl, "choosing a kernel for products", name);
  const outcome result = tune(cl, class, tiles, large, index);
  if (result == REFUSED)
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "opencl: %s: no kernel for matrix products (%s) gives right results on %s",
                   cl->op, name, cl->info.name);
  if (result == FOUND) write_tile(&cache, tiles.tile[*index]);
  return AC_OK;
}

ac_status ac_cl_tile_index(ac_opencl *cl, const ac_cl_product *p, bool large, int *index) {
  *index = 0;
  if (!cl->tune) return AC_OK;
  const bool half = cl->storage != AC_F32;
  const ac_cl_product class = {.transpose_a = p->transpose_a,
                               .transpose_b = p->transpose_b,
                               .float_a = half && p->float_a,
                               .float_b = half && p->float_b,
                               .float_c = half && p->float_c,
                               .batch = 1};
  const int number = class.transpose_a + 2 * class.transpose_b + 4 * class.float_a +
                     8 * class.float_b + 16 * class.float_c;
  uint8_t *chosen = &cl->tiles[cl->storage][number][large];
  if (!*chosen && cl->preparing) {
    AC_TRY(choose_tile(cl, &class, large, index));
    *chosen = (uint8_t)(*index + 1);
  }
  *index = *chosen ? *chosen - 1 : 0;
  return AC_OK;
}
