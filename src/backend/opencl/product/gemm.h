/* Matrix products: CLBlast where it is wanted and possible, else our own kernel. */
#ifndef AC_OPENCL_PRODUCT_GEMM_H
#define AC_OPENCL_PRODUCT_GEMM_H

#include "backend/opencl/shared/opencl.h"

/* C[m,n] = op(A)[m,k] op(B)[k,n] (+ C) (+ bias[n]), row-major and dense. With `batched`, `batch`
 * such products of matrices one after another. A, B and C begin some elements into their buffers:
 * multiples of their rows' length, or of 32; for matrix units any number. They have the op's
 * storage type, or are float if float_a, float_b, float_c say so; the bias is float.
 *
 * The rest is for matrix units alone (ac_cl_unit_takes). Stored rows of A, B and C begin pitch_a,
 * pitch_b and pitch_c elements apart, and matrices of a batch one after the other. With `inner`, so
 * many matrices are step[0] elements apart, and the next so many begin step[1] elements after
 * those. With `blend`, C is alpha op(A) op(B) + beta D, and D begins at element first_d of C's
 * buffer. With `images`, C's columns are pixels of images, and its rows are channels: column j is
 * pixel (place + j) % pixels of image (place + j) / pixels; a channel of one is dense, and images
 * begin `image` elements apart. Then the bias is [batch, m]. */
typedef struct ac_cl_product {
  const void *a, *b, *bias; /* handles; bias may be NULL */
  void *c;
  bool transpose_a, transpose_b, add, batched;
  bool float_a, float_b, float_c;
  int64_t m, n, k, batch;
  int64_t first_a, first_b, first_c;
  int64_t pitch_a, pitch_b, pitch_c; /* 0: dense */
  int64_t inner, step_a[2], step_b[2], step_c[2];
  bool images;
  int64_t place, pixels, image;
  bool blend;
  float alpha, beta;
  int64_t first_d;
} ac_cl_product;

/* Bytes that this product, and any of smaller dimensions, needs. Whether it begins within a buffer
 * matters, where does not. */
uint64_t ac_cl_gemm_workspace(const ac_opencl *cl, const ac_cl_product *product);
ac_status ac_cl_gemm(ac_opencl *cl, const ac_cl_product *product, void *workspace);

/* ---- tiles of our own kernels ---------------------------------------------------------------- */

/* A work-group of tx * ty items, each with a register tile of rows x (columns vectors). */
typedef struct ac_cl_tile {
  int tx, ty, rows, columns, vector;
} ac_cl_tile;

/* The options that say so, and how many such tiles cover m x n. */
enum { AC_CL_TILE_OPTIONS = 96 };
void ac_cl_tile_options(char options[AC_CL_TILE_OPTIONS], const ac_cl_tile *tile);
int64_t ac_cl_tile_count(const ac_cl_tile *tile, int64_t m, int64_t n);

/* The tile changes no bit of the result, see cl/product/gemm.cl. */
ac_status ac_cl_gemm_tile(ac_opencl *cl, const ac_cl_product *product, ac_cl_tile tile);

/* ---- tiles.c --------------------------------------------------------------------------------- */

typedef struct ac_cl_tiles {
  const ac_cl_tile *tile;
  int count;
} ac_cl_tiles;

/* The tiles that may be best for large or for small products; the first is used without tuning. */
ac_cl_tiles ac_cl_tiles_for(const ac_opencl *cl, bool large);
bool ac_cl_product_is_large(const ac_opencl *cl, const ac_cl_product *product);

/* Which of these it is for products of this class; while preparing, a tuning run may find out, or
 * that none is right. */
ac_status ac_cl_tile_index(ac_opencl *cl, const ac_cl_product *product, bool large, int *index);

/* ---- units.c: matrix units ------------------------------------------------------------------- */

/* A work-group of groups_m x groups_n sub-groups, each with so many fragments of sums. */
typedef struct ac_cl_unit_tile {
  int groups_m, groups_n, fragments_m, fragments_n;
  int ahead; /* steps of k that are read ahead where rows are aligned */
} ac_cl_unit_tile;

typedef struct ac_cl_unit {
  const char *name, *text; /* for ACCRUE_PRODUCTS and for people */
  const char *option;
  const char *spellings[3]; /* further options; the first that compiles is used; NULL: end */
  int lanes, m, n;          /* of a sub-group, of a fragment of sums */
  ac_cl_unit_tile large, small;
} ac_cl_unit;

/* What is known of a class of products: the unit computes them, perhaps without reading ahead, or
 * leaves them to others. */
enum { AC_CL_UNIT_TAKES = 1, AC_CL_UNIT_TAKES_NOT_AHEAD, AC_CL_UNIT_LEAVES };

/* NULL after the last. */
const ac_cl_unit *ac_cl_unit_at(int index);

/* The first says whether to look for a unit on this device. The second looks for it, when the
 * device is opened, sets `unit` and says so in `info`. False: it could not find out, because there
 * was no memory or the trial left a context in which nothing runs; then there is no unit. */
bool ac_cl_unit_wanted(cl_device_id device);
bool ac_cl_unit_find(ac_opencl *cl);

/* Whether the device's unit computes products of this class, which is found out while preparing. */
ac_status ac_cl_unit_takes(ac_opencl *cl, const ac_cl_product *product, bool *takes);

/* Whether it computes all of these if they are stored in `storage`, which is found out at any time:
 * what an op stores its own factors in, and so its workspace, depends on it. */
ac_status ac_cl_unit_takes_all(ac_opencl *cl, ac_dtype storage, const ac_cl_product *products,
                               int count, bool *takes);

/* The tile for a product of a class that the unit computes, the small one where it is emulated. */
ac_cl_unit_tile ac_cl_unit_tile_for(const ac_opencl *cl, const ac_cl_product *product, bool large);

/* How many bytes of workspace an op may use to spread its operands out for the unit: twice the
 * bytes of these, but at least enough for one product of moderate size, and at most what a cache
 * holds. If the unit is emulated, which is for tests, they are so few that small operands are also
 * cut. */
int64_t ac_cl_unit_space(const ac_opencl *cl, int64_t operands);

/* The workspace of an op, given ac_cl_unit_takes_all's answer and what it needs without the unit
 * and by it: the larger of both where this could not be found out. */
uint64_t ac_cl_unit_bytes(ac_status status, bool takes, uint64_t plain, uint64_t by_unit);

/* The tile changes no bit of the result, see cl/product/unit_gemm.cl. */
ac_status ac_cl_unit_gemm(ac_opencl *cl, const ac_cl_product *product, ac_cl_unit_tile tile);

#endif
