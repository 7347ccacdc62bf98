/* Which matrix product runs where.
 *
 * CLBlast takes single f32 products. Its batched routines allocate memory of their own, and its
 * half routines add up in half. So batches and 16-bit storage go to our own kernels. So does
 * everything if CLBlast is absent, and on CPUs, where it is slower; ACCRUE_CLBLAST=1 uses it also
 * on CPUs, ACCRUE_CLBLAST=0 nowhere. It is called column-major with the operands swapped, C' =
 * op(B)' op(A)', so that it writes a row-major result without a copy.
 *
 * Of our own kernels, cl/product/unit_gemm.cl multiplies what a matrix unit of the device takes
 * (units.c), and cl/product/gemm.cl the rest. */
#include "backend/opencl/product/gemm.h"

#include <stdio.h>

#include "core/error.h"

#ifdef AC_HAVE_CLBLAST
#include <clblast_c.h>

/* ---- CLBlast --------------------------------------------------------------------------------- */

static bool clblast_takes(const ac_opencl *cl, const ac_cl_product *p) {
  return cl->clblast && cl->storage == AC_F32 && !p->batched;
}

static CLBlastTranspose flag(bool transpose) {
  return transpose ? CLBlastTransposeYes : CLBlastTransposeNo;
}

static size_t stored_columns(bool transpose, int64_t rows, int64_t columns) {
  return (size_t)(transpose ? rows : columns);
}

static size_t temporary_bytes(const ac_opencl *cl, const ac_cl_product *p, int64_t m, int64_t n,
                              int64_t k) {
  cl_command_queue queue = cl->queue;
  size_t bytes = 0;
  CLBlastStatusCode status = CLBlastSGemmTempBufferSize(
      CLBlastLayoutColMajor, flag(p->transpose_b), flag(p->transpose_a), (size_t)n, (size_t)m,
      (size_t)k, (size_t)p->first_b, stored_columns(p->transpose_b, k, n), (size_t)p->first_a,
      stored_columns(p->transpose_a, m, k), (size_t)p->first_c, (size_t)n, &queue, &bytes);
  return status == CLBlastSuccess ? bytes : 0;
}

/* CLBlast pads to its tiles those matrices that do not fit them, and multiplies small ones without
 * any padding. So an aligned size may need less than the size below it. For each dimension that may
 * shrink, the padded sizes of the smaller ones are at most those of d or d - 1, whichever is not
 * aligned; the largest of the eight combinations thus covers all smaller products. */
static uint64_t clblast_workspace(const ac_opencl *cl, const ac_cl_product *p) {
  uint64_t most = 0;
  for (int less = 0; less < 8; less++) {
    int64_t m = p->m - (less & 1), n = p->n - (less >> 1 & 1), k = p->k - (less >> 2);
    if (m < 1 || n < 1 || k < 1) continue;
    uint64_t bytes = temporary_bytes(cl, p, m, n, k);
    if (bytes > most) most = bytes;
  }
  return most;
}

static ac_status clblast_gemm(ac_opencl *cl, const ac_cl_product *p, void *workspace) {
  CLBlastStatusCode status = CLBlastSgemmWithTempBuffer(
      CLBlastLayoutColMajor, flag(p->transpose_b), flag(p->transpose_a), (size_t)p->n, (size_t)p->m,
      (size_t)p->k, 1.0f, (cl_mem)p->b, (size_t)p->first_b,
      stored_columns(p->transpose_b, p->k, p->n), (cl_mem)p->a, (size_t)p->first_a,
      stored_columns(p->transpose_a, p->m, p->k), p->add ? 1.0f : 0.0f, (cl_mem)p->c,
      (size_t)p->first_c, (size_t)p->n, &cl->queue, NULL, workspace);
  if (status != CLBlastSuccess) {
    const char *name = ac_cl_error_name((cl_int)status);
    ac_cl_note_error(cl, (cl_int)status);
    return ac_fail(AC_ERROR_DEVICE,
                   "opencl: %s: CLBlast's sgemm of %lld x %lld x %lld failed (%d%s%s)", cl->op,
                   (long long)p->m, (long long)p->n, (long long)p->k, (int)status, name ? ", " : "",
                   name ? name : "");
  }
  if (!p->bias) return AC_OK;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"add", "add", NULL}), ac_cl_elements(cl, p->m * p->n),
                      AC_CL_BUFFER(p->c), AC_CL_BUFFER(p->bias), AC_CL_BUFFER(p->c),
                      AC_CL_LONG(p->m * p->n), AC_CL_LONG(p->n));
}

/* CLBlast compiles when a routine is set up, before it looks at the sizes; it then refuses these.
 * What it cannot compile on this device is done by our own kernel. */
static ac_status clblast_prepare(ac_opencl *cl, const ac_cl_product *p) {
  if (!cl->clblast_ready) {
    CLBlastStatusCode status = CLBlastSgemmWithTempBuffer(
        CLBlastLayoutColMajor, CLBlastTransposeNo, CLBlastTransposeNo, 0, 0, 0, 1.0f, NULL, 0, 1,
        NULL, 0, 1, 0.0f, NULL, 0, 1, &cl->queue, NULL, NULL);
    cl->clblast_ready = status == CLBlastInvalidDimension;
    cl->clblast = cl->clblast_ready;
  }
  if (!p->bias) return AC_OK;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"add", "add", NULL}), ac_cl_elements(cl, 0),
                      AC_CL_LONG(0));
}
#endif

/* ---- our own --------------------------------------------------------------------------------- */

void ac_cl_tile_options(char options[AC_CL_TILE_OPTIONS], const ac_cl_tile *t) {
  snprintf(options, AC_CL_TILE_OPTIONS,
           "-DTX=%d -DTY=%d -DROWS=%d -DCOLUMNS=%d -DVECTOR=%d -DDEPTH=16", t->tx, t->ty, t->rows,
           t->columns, t->vector);
}

int64_t ac_cl_tile_count(const ac_cl_tile *t, int64_t m, int64_t n) {
  const int64_t height = t->ty * t->rows, width = t->tx * t->columns * t->vector;
  return (m + height - 1) / height * ((n + width - 1) / width);
}

ac_status ac_cl_gemm_tile(ac_opencl *cl, const ac_cl_product *p, ac_cl_tile t) {
  char tile[AC_CL_TILE_OPTIONS], options[192];
  const bool half = cl->storage != AC_F32;
  ac_cl_tile_options(tile, &t);
  snprintf(options, sizeof options, "%s -DTRANSPOSE_A=%d -DTRANSPOSE_B=%d%s%s%s", tile,
           p->transpose_a, p->transpose_b, half && p->float_a ? " -DA_F32" : "",
           half && p->float_b ? " -DB_F32" : "", half && p->float_c ? " -DC_F32" : "");
  const int64_t groups = ac_cl_tile_count(&t, p->m, p->n) * p->batch;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"gemm", "gemm", options}),
                      ac_cl_groups(groups, t.tx, t.ty), AC_CL_BUFFER(p->a), AC_CL_BUFFER(p->b),
                      AC_CL_BUFFER(p->bias), AC_CL_BUFFER(p->c), AC_CL_INT(p->m), AC_CL_INT(p->n),
                      AC_CL_INT(p->k), AC_CL_LONG(p->m * p->k), AC_CL_LONG(p->k * p->n),
                      AC_CL_LONG(p->m * p->n), AC_CL_LONG(p->first_a), AC_CL_LONG(p->first_b),
                      AC_CL_LONG(p->first_c), AC_CL_INT(p->add));
}

static int64_t pitch_of(int64_t pitch, bool transpose, int64_t rows, int64_t columns) {
  return pitch ? pitch : transpose ? rows : columns;
}

/* Where the matrices of a product lie, resolved. */
typedef struct places {
  int64_t pitch_a, pitch_b, pitch_c;
  int64_t inner, step_a[2], step_b[2], step_c[2];
} places;

static places places_of(const ac_cl_product *p) {
  places at = {.pitch_a = pitch_of(p->pitch_a, p->transpose_a, p->m, p->k),
               .pitch_b = pitch_of(p->pitch_b, p->transpose_b, p->k, p->n),
               .pitch_c = p->images    ? p->pixels
                          : p->pitch_c ? p->pitch_c
                                       : p->n,
               .inner = p->inner ? p->inner : p->batch};
  if (p->inner) {
    for (int i = 0; i < 2; i++) {
      at.step_a[i] = p->step_a[i];
      at.step_b[i] = p->step_b[i];
      at.step_c[i] = p->step_c[i];
    }
    return at;
  }
  at.step_a[0] = (p->transpose_a ? p->k : p->m) * at.pitch_a;
  at.step_b[0] = (p->transpose_b ? p->n : p->k) * at.pitch_b;
  at.step_c[0] = p->m * at.pitch_c;
  return at;
}

/* Whether each row of A and B begins at a multiple of eight elements, and so of 16 bytes. */
static bool rows_are_aligned(const ac_cl_product *p, const places *at) {
  return (at->pitch_a | at->pitch_b | at->step_a[0] | at->step_a[1] | at->step_b[0] |
          at->step_b[1] | p->first_a | p->first_b) %
             8 ==
         0;
}

ac_status ac_cl_unit_gemm(ac_opencl *cl, const ac_cl_product *p, ac_cl_unit_tile t) {
  const ac_cl_unit *unit = cl->unit;
  const places at = places_of(p);
  char options[192], ahead[16] = "";
  if (t.ahead && rows_are_aligned(p, &at)) snprintf(ahead, sizeof ahead, " -DAHEAD=%d", t.ahead);
  snprintf(options, sizeof options,
           "%s %s -DGROUPS_M=%d -DGROUPS_N=%d -DFRAGMENTS_M=%d -DFRAGMENTS_N=%d "
           "-DTRANSPOSE_A=%d -DTRANSPOSE_B=%d%s%s%s",
           unit->option, cl->unit_options, t.groups_m, t.groups_n, t.fragments_m, t.fragments_n,
           p->transpose_a, p->transpose_b, ahead, p->float_c ? " -DC_F32" : "",
           p->images ? " -DC_IMAGES" : "");
  const int64_t height = t.groups_m * t.fragments_m * unit->m;
  const int64_t width = t.groups_n * t.fragments_n * unit->n;
  const int64_t groups = (p->m + height - 1) / height * ((p->n + width - 1) / width) * p->batch;
  return AC_CL_LAUNCH(cl, ((ac_cl_kernel){"unit_gemm", "unit_gemm", options}),
                      ac_cl_groups(groups, t.groups_m * t.groups_n * unit->lanes, 1),
                      AC_CL_BUFFER(p->a), AC_CL_BUFFER(p->b), AC_CL_BUFFER(p->bias),
                      AC_CL_BUFFER(p->c), AC_CL_INT(p->m), AC_CL_INT(p->n), AC_CL_INT(p->k),
                      AC_CL_INT(at.inner), AC_CL_LONG(at.step_a[0]), AC_CL_LONG(at.step_b[0]),
                      AC_CL_LONG(at.step_c[0]), AC_CL_LONG(at.step_a[1]), AC_CL_LONG(at.step_b[1]),
                      AC_CL_LONG(at.step_c[1]), AC_CL_LONG(p->first_a), AC_CL_LONG(p->first_b),
                      AC_CL_LONG(p->first_c), AC_CL_LONG(p->blend ? p->first_d - p->first_c : 0),
                      AC_CL_UINT(at.pitch_a), AC_CL_UINT(at.pitch_b), AC_CL_UINT(at.pitch_c),
                      AC_CL_INT(p->place), AC_CL_INT(p->images ? p->pixels : 1),
                      AC_CL_LONG(p->image), AC_CL_FLOAT(p->blend ? p->alpha : 1),
                      AC_CL_FLOAT(p->blend ? p->beta : p->add));
}

static ac_status own_gemm_sized(ac_opencl *cl, const ac_cl_product *p, bool large) {
  int index;
  bool by_unit;
  AC_TRY(ac_cl_unit_takes(cl, p, &by_unit));
  if (by_unit) return ac_cl_unit_gemm(cl, p, ac_cl_unit_tile_for(cl, p, large));
  AC_TRY(ac_cl_tile_index(cl, p, large, &index));
  return ac_cl_gemm_tile(cl, p, ac_cl_tiles_for(cl, large).tile[index]);
}

static ac_status own_gemm(ac_opencl *cl, const ac_cl_product *p) {
  const bool large = ac_cl_product_is_large(cl, p);
  /* With a smaller micro-batch the product may be small. */
  if (cl->preparing && large && !cl->cpu) AC_TRY(own_gemm_sized(cl, p, false));
  return own_gemm_sized(cl, p, large);
}

/* ---- the choice ------------------------------------------------------------------------------ */

uint64_t ac_cl_gemm_workspace(const ac_opencl *cl, const ac_cl_product *product) {
#ifdef AC_HAVE_CLBLAST
  if (clblast_takes(cl, product)) return clblast_workspace(cl, product);
#endif
  (void)cl;
  (void)product;
  return 0;
}

ac_status ac_cl_gemm(ac_opencl *cl, const ac_cl_product *product, void *workspace) {
#ifdef AC_HAVE_CLBLAST
  if (clblast_takes(cl, product)) {
    if (!cl->preparing) return clblast_gemm(cl, product, workspace);
    AC_TRY(clblast_prepare(cl, product));
    if (cl->clblast) return AC_OK;
  }
#endif
  (void)workspace;
  return own_gemm(cl, product);
}
