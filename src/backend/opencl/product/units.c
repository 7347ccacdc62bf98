/* Matrix units: products of 16-bit operands by the instructions that GPUs have for them
 * (cl/product/unit_gemm.cl).
 *
 * A unit is tried if the device's vendor, extensions or name suggest it. It is used only for some
 * classes of products (storage, transposes, the type of C, whether it is images): their kernels
 * must compile here, and their results must be near those of double precision, on values near 1 and
 * near the least normal number, in sizes that fill no tile. The first class is tried when the
 * device is opened. Others are tried when their first product is prepared, or when an op asks what
 * type to store its factors in. Reading ahead is tried after that and left out if it fails, which
 * changes no bit. A class that is refused is left to the plain kernel; if it is the first, the
 * device says why. So a product's numeric class depends on the device, its driver and the product's
 * class, never on timing.
 *
 * ACCRUE_PRODUCTS=UNIT asks for a unit by its name; if the device does not have it, it is emulated,
 * slowly. ACCRUE_PRODUCTS=widened asks for none. */
#include "backend/opencl/product/gemm.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/half.h"
#include "core/integers.h"

/* ---- the list -------------------------------------------------------------------------------- */

/* Large tiles are 128 x 128, small ones 64 x 64. */
static const ac_cl_unit units[] = {
    /* What compilers call inline assembly is not the same for all. */
    {"mma",
     "mma.sync",
     "-DUNIT_MMA",
     {"-DASM=__asm__", "-DASM=asm"},
     32,
     16,
     8,
     {2, 4, 4, 4, 2},
     {2, 2, 2, 4, 3}},
    {"dpas", "DPAS", "-DUNIT_DPAS", {""}, 8, 8, 8, {4, 8, 4, 2, 0}, {2, 4, 4, 2, 0}},
    {"wmma", "WMMA", "-DUNIT_WMMA", {""}, 32, 16, 16, {2, 4, 4, 2, 0}, {2, 2, 2, 2, 0}},
    {"mfma", "MFMA", "-DUNIT_MFMA", {""}, 64, 16, 16, {2, 2, 4, 4, 0}, {2, 2, 2, 2, 0}},
};
enum { UNITS = sizeof units / sizeof *units };

const ac_cl_unit *ac_cl_unit_at(int index) {
  return index < UNITS ? &units[index] : NULL;
}

/* ---- what the device suggests ---------------------------------------------------------------- */

/* True for compute capability 8.0 or later. */
static bool suggests_mma(cl_device_id device) {
  enum { COMPUTE_CAPABILITY_MAJOR = 0x4000 }; /* cl_nv_device_attribute_query */
  cl_uint major = 0;
  return ac_cl_has_extension(device, "cl_nv_device_attribute_query") &&
         clGetDeviceInfo(device, COMPUTE_CAPABILITY_MAJOR, sizeof major, &major, NULL) ==
             CL_SUCCESS &&
         major >= 8;
}

/* AMD's names are those of the instruction set: "gfx1100", "gfx90a:sramecc+:xnack-". */
static bool is_called(cl_device_id device, const char *beginning) {
  char name[128] = "";
  const size_t size = sizeof name - 1;
  return clGetDeviceInfo(device, CL_DEVICE_NAME, size, name, NULL) == CL_SUCCESS &&
         !strncmp(name, beginning, strlen(beginning));
}

static bool suggests(const ac_cl_unit *unit, cl_device_id device) {
  if (!strcmp(unit->name, "mma")) return suggests_mma(device);
  if (!strcmp(unit->name, "dpas"))
    return ac_cl_has_extension(device, "cl_intel_subgroup_matrix_multiply_accumulate");
  if (!strcmp(unit->name, "wmma")) return is_called(device, "gfx11");
  return is_called(device, "gfx90a") || is_called(device, "gfx94");
}

static const ac_cl_unit *named(const char *name) {
  for (int i = 0; i < UNITS; i++)
    if (!strcmp(units[i].name, name)) return &units[i];
  return NULL;
}

/* The unit to look for; NULL: none. */
static const ac_cl_unit *wanted(cl_device_id device) {
  const char *name = getenv("ACCRUE_PRODUCTS");
  if (name && *name) return named(name);
  for (int i = 0; i < UNITS; i++)
    if (suggests(&units[i], device)) return &units[i];
  return NULL;
}

bool ac_cl_unit_wanted(cl_device_id device) {
  return wanted(device) != NULL;
}

/* ---- a trial --------------------------------------------------------------------------------- */

/* A tile of the least and some more; k is more than one step deep. Rows are UNALIGNED or ALIGNED
 * elements apart, which they do not fill. Where C is images, its columns begin within the first and
 * fill the last. */
enum { M = 70, N = 75, K = 71, UNALIGNED = 77, ALIGNED = 80, PIXELS = 16, PLACE = ALIGNED - N };

typedef struct trial {
  ac_opencl *cl;
  ac_cl_product product;
  ac_dtype type_c;
  uint16_t a[ALIGNED * ALIGNED], b[ALIGNED * ALIGNED];
  float c[M * ALIGNED];
  cl_mem buffer[3];
  ac_status status; /* not AC_OK: nothing could be found out */
  const char *why;  /* it is refused */
} trial;

static const char does_not_run[] = "its kernel does not compile or run here";

static bool fail(trial *t, cl_int error) {
  t->status = ac_cl_fail(t->cl, error, "trying a matrix unit");
  return false;
}

/* A kernel that does not compile or run is a reason against the unit, unless nothing runs after it.
 */
static bool refuse(trial *t) {
  const cl_int error = clFinish(t->cl->queue);
  t->why = does_not_run;
  return error == CL_SUCCESS ? false : fail(t, error);
}

/* A number of any sign and mantissa, with a stored exponent from `least` to least + 7. */
static uint16_t draw(uint32_t *seed, ac_dtype storage, uint32_t least) {
  *seed = *seed * 1664525u + 1013904223u;
  const uint32_t bits = *seed >> 8, exponent = least + (bits >> 16 & 7);
  const int mantissa = storage == AC_F16 ? 10 : 7;
  return (uint16_t)((bits & 0x8000) | exponent << mantissa | (bits & ((1u << mantissa) - 1)));
}

static bool fill(trial *t, uint32_t least) {
  uint32_t seed = least + 1;
  for (int i = 0; i < ALIGNED * ALIGNED; i++) {
    t->a[i] = draw(&seed, t->cl->storage, least);
    t->b[i] = draw(&seed, t->cl->storage, least);
  }
  memset(t->c, 0xff, sizeof t->c); /* NaN */
  const void *host[] = {t->a, t->b, t->c};
  const size_t bytes[] = {sizeof t->a, sizeof t->b, sizeof t->c};
  for (int i = 0; i < 3; i++) {
    const cl_int error = clEnqueueWriteBuffer(t->cl->queue, t->buffer[i], CL_TRUE, 0, bytes[i],
                                              host[i], 0, NULL, NULL);
    if (error != CL_SUCCESS) return fail(t, error);
  }
  return true;
}

static int64_t place_in_c(const ac_cl_product *p, int i, int j) {
  if (!p->images) return i * N + j;
  return (PLACE + j) / PIXELS * (M * PIXELS) + i * PIXELS + (PLACE + j) % PIXELS;
}

/* Sums in f32 of exact products may be rounded or cut off at each addition, in any order. Then they
 * differ from the exact sum by at most K 2^-22 times the sum of magnitudes, and one step of C's
 * type. Products of bf16 may be subnormal, and each of these may have become zero. */
static bool is_near(const trial *t, int i, int j) {
  const ac_cl_product *p = &t->product;
  const ac_dtype storage = t->cl->storage;
  double sum = 0, size = 0;
  for (int l = 0; l < K; l++) {
    const int64_t at_a = p->transpose_a ? l * p->pitch_a + i : i * p->pitch_a + l;
    const int64_t at_b = p->transpose_b ? j * p->pitch_b + l : l * p->pitch_b + j;
    const double x =
        (double)ac_float_read(storage, t->a, at_a) * (double)ac_float_read(storage, t->b, at_b);
    sum += x;
    size += fabs(x);
  }
  double error = K * (0x1p-22 * size + (storage == AC_BF16 ? 0x1p-126 : 0));
  if (t->type_c == AC_BF16) error += 0x1p-8 * (fabs(sum) + error) + 0x1p-126;
  if (t->type_c == AC_F16) error += 0x1p-11 * (fabs(sum) + error) + 0x1p-24;
  return fabs((double)ac_float_read(t->type_c, t->c, place_in_c(p, i, j)) - sum) <= error;
}

static bool gives_products(trial *t, ac_cl_unit_tile tile, uint32_t least) {
  const size_t bytes = M * (t->product.images ? ALIGNED : N) * ac_dtype_bytes(t->type_c);
  if (!fill(t, least)) return false;
  if (ac_cl_unit_gemm(t->cl, &t->product, tile) != AC_OK ||
      clEnqueueReadBuffer(t->cl->queue, t->buffer[2], CL_TRUE, 0, bytes, t->c, 0, NULL, NULL) !=
          CL_SUCCESS)
    return refuse(t);
  if (t->cl->distort && !t->cl->distort(NULL, t->c, bytes)) return refuse(t);
  t->why = "its sums are wrong here";
  for (int i = 0; i < M; i++)
    for (int j = 0; j < N; j++)
      if (!is_near(t, i, j)) return false;
  return true;
}

/* Exponents of factors: products near 1 (of f16, within its range), and near the least normal
 * number or, for f16, of factors that are subnormal. */
static bool tile_is_right(trial *t, ac_cl_unit_tile tile) {
  const bool f16 = t->cl->storage == AC_F16;
  return gives_products(t, tile, f16 ? 12 : 124) && gives_products(t, tile, f16 ? 0 : 60);
}

static bool tiles_are_right(trial *t, int64_t pitch, bool ahead) {
  ac_cl_unit_tile small = t->cl->unit->small, large = t->cl->unit->large;
  t->product.pitch_a = t->product.pitch_b = pitch;
  if (!ahead) small.ahead = large.ahead = 0;
  return tile_is_right(t, small) && (t->cl->unit_emulated || tile_is_right(t, large));
}

static bool make_buffers(trial *t) {
  const size_t bytes[] = {sizeof t->a, sizeof t->b, sizeof t->c};
  cl_int error;
  for (int i = 0; i < 3; i++) {
    t->buffer[i] = clCreateBuffer(t->cl->context, CL_MEM_READ_WRITE, bytes[i], NULL, &error);
    if (error != CL_SUCCESS) return fail(t, error);
    t->cl->objects++;
  }
  t->product.a = t->buffer[0], t->product.b = t->buffer[1], t->product.c = t->buffer[2];
  return true;
}

/* AC_CL_UNIT_..., of no meaning where t->status is not AC_OK. */
static uint8_t find_class(trial *t) {
  if (!make_buffers(t) || !tiles_are_right(t, UNALIGNED, false) ||
      !tiles_are_right(t, ALIGNED, false))
    return AC_CL_UNIT_LEAVES;
  return !t->cl->unit->small.ahead || tiles_are_right(t, ALIGNED, true)
             ? AC_CL_UNIT_TAKES
             : AC_CL_UNIT_TAKES_NOT_AHEAD;
}

/* Fails if that cannot be found out: there is no memory, or the device is lost. So a class does not
 * depend on how much memory there is. */
static ac_status try_class(ac_opencl *cl, const ac_cl_product *class, uint8_t *found) {
  trial *t = calloc(1, sizeof *t);
  if (!t) return ac_fail(AC_ERROR_MEMORY, "opencl: no memory for trying a matrix unit");
  *t = (trial){.cl = cl,
               .product = {.transpose_a = class->transpose_a,
                           .transpose_b = class->transpose_b,
                           .float_c = class->float_c,
                           .images = class->images,
                           .place = PLACE,
                           .pixels = PIXELS,
                           .image = M * PIXELS,
                           .m = M,
                           .n = N,
                           .k = K,
                           .batch = 1},
               .type_c = class->float_c ? AC_F32 : cl->storage};
  *found = find_class(t);
  if (*found == AC_CL_UNIT_LEAVES) cl->unit_refusal = t->why;
  const ac_status status = t->status;
  for (int i = 0; i < 3; i++)
    if (t->buffer[i]) clReleaseMemObject(t->buffer[i]);
  free(t);
  return status;
}

/* A kernel that does not compile or run is a reason against the unit, not the caller's error. */
static ac_status try_quietly(ac_opencl *cl, const ac_cl_product *class, uint8_t *found) {
  const bool preparing = cl->preparing, mark_flushed = cl->mark_flushed;
  const ac_kept_error kept = ac_error_keep();
  cl->preparing = cl->mark_flushed = false;
  ac_status status = try_class(cl, class, found);
  cl->preparing = preparing;
  cl->mark_flushed = mark_flushed;
  if (status == AC_OK) ac_error_restore(&kept);
  return status;
}

/* ---- the choice ------------------------------------------------------------------------------ */

static int class_index(const ac_cl_product *p) {
  return p->transpose_a + 2 * p->transpose_b + 4 * p->float_c + 8 * p->images;
}

ac_status ac_cl_unit_takes(ac_opencl *cl, const ac_cl_product *p, bool *takes) {
  *takes = false;
  if (!cl->unit || cl->storage == AC_F32 || p->float_a || p->float_b) return AC_OK;
  uint8_t *known = &cl->unit_classes[cl->storage][class_index(p)], found;
  if (!*known && cl->preparing) {
    AC_TRY(try_quietly(cl, p, &found));
    *known = found;
  }
  *takes = *known == AC_CL_UNIT_TAKES || *known == AC_CL_UNIT_TAKES_NOT_AHEAD;
  return AC_OK;
}

ac_cl_unit_tile ac_cl_unit_tile_for(const ac_opencl *cl, const ac_cl_product *p, bool large) {
  ac_cl_unit_tile tile = large && !cl->unit_emulated ? cl->unit->large : cl->unit->small;
  if (cl->unit_classes[cl->storage][class_index(p)] == AC_CL_UNIT_TAKES_NOT_AHEAD) tile.ahead = 0;
  return tile;
}

ac_status ac_cl_unit_takes_all(ac_opencl *cl, ac_dtype storage, const ac_cl_product *products,
                               int count, bool *takes) {
  const ac_dtype own = cl->storage;
  const bool preparing = cl->preparing;
  ac_status status = AC_OK;
  cl->storage = storage;
  cl->preparing = *takes = true;
  for (int i = 0; i < count && *takes && status == AC_OK; i++)
    status = ac_cl_unit_takes(cl, &products[i], takes);
  cl->storage = own;
  cl->preparing = preparing;
  return status;
}

int64_t ac_cl_unit_space(const ac_opencl *cl, int64_t operands) {
  const int64_t least = cl->unit_emulated ? 8 << 10 : 1 << 20;
  const int64_t most = cl->unit_emulated ? 64 << 10 : 32 << 20;
  return ac_smaller(ac_larger(2 * operands, least), most);
}

uint64_t ac_cl_unit_bytes(ac_status status, bool takes, uint64_t plain, uint64_t by_unit) {
  if (status == AC_OK) return takes ? by_unit : plain;
  return by_unit > plain ? by_unit : plain;
}

static void say_refusal(ac_opencl *cl, const ac_cl_unit *unit, const char *why) {
  snprintf(cl->info.refused_unit, sizeof cl->info.refused_unit, "%s: %s", unit->text, why);
}

/* Whether it multiplies bf16, by its first class. */
static ac_status try_unit(ac_opencl *cl, const ac_cl_unit *unit, const char *options, bool emulated,
                          bool *right) {
  const ac_cl_product class = {.float_c = true};
  memset(cl->unit_classes, 0, sizeof cl->unit_classes);
  cl->unit = unit;
  cl->unit_options = options;
  cl->unit_emulated = emulated;
  cl->storage = AC_BF16;
  cl->preparing = true;
  ac_status status = ac_cl_unit_takes(cl, &class, right);
  cl->preparing = false;
  if (status != AC_OK || !*right) cl->unit = NULL;
  /* Of several spellings, the one that came furthest says why. */
  if (status == AC_OK && !*right && (!*cl->info.refused_unit || cl->unit_refusal != does_not_run))
    say_refusal(cl, unit, cl->unit_refusal);
  return status;
}

static ac_status find_unit(ac_opencl *cl, const ac_cl_unit *unit, bool *right) {
  if (suggests(unit, cl->device))
    for (const char *const *options = unit->spellings; *options && !*right; options++)
      AC_TRY(try_unit(cl, unit, *options, false, right));
  const char *name = getenv("ACCRUE_PRODUCTS");
  if (!*right && name && *name) AC_TRY(try_unit(cl, unit, "-DEMULATED", true, right));
  return AC_OK;
}

bool ac_cl_unit_find(ac_opencl *cl) {
  const ac_cl_unit *unit = cl->group == 256 ? wanted(cl->device) : NULL;
  bool right = false;
  const ac_kept_error kept = ac_error_keep();
  if (unit && find_unit(cl, unit, &right) != AC_OK) {
    say_refusal(cl, unit, "to try it failed");
    ac_error_restore(&kept);
    return false;
  }
  ac_error_restore(&kept);
  if (!right) return true;
  snprintf(cl->info.bf16_products, sizeof cl->info.bf16_products,
           cl->unit_emulated ? "emulated %s" : "matrix units (%s)", unit->text);
  cl->info.bf16_arithmetic = !cl->unit_emulated;
  return true;
}
