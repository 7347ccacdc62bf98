/* The output projection fused with softmax cross-entropy, a chunk of rows at a time:
 *   z = x W^T into the workspace | per row loss, z becomes dz | dW += dz^T x | dx = dz W
 * Threads share out the tiles of products and the rows between, and meet where a bar stands. dx may
 * lie in x's place, since its rows are written after dW is done with those of x. Logits are floats
 * whatever x and W are stored in. Behind the chunk in the workspace stand the row results, which
 * are added up in the order of rows (cross_entropy.h), and each thread's scratch of products. */
#include "backend/cpu/cross_entropy.h"
#include "backend/cpu/kernels.h"
#include "ops/linear_cross_entropy.h"

typedef struct problem {
  const ac_linear_cross_entropy_attributes *attributes;
  loss_rows loss;
  int64_t rows, columns, classes, chunk;
  ac_dtype storage; /* of x, weight and dx */
  const void *x, *weight;
  void *dx; /* NULL if not wanted, as dweight */
  float *dweight, *z;
  bool gradient, in_out, add_dx, add_dweight;
  row_result *results;
  const ac_run_state *run;
} problem;

static void *data_of(const ac_operand *x) {
  return x->count ? x->data : NULL;
}

static problem problem_of(const ac_op_args *args) {
  const ac_linear_cross_entropy_attributes *attributes = args->attributes;
  const ac_operand *x = &args->in[0];
  bool gradient = args->op == AC_OP_linear_cross_entropy_gradient;
  problem p = {.attributes = attributes,
               .loss = {&attributes->loss, args->in[2].data, data_of(&args->in[3]),
                        ac_cross_entropy_smoothing(&attributes->loss, args->run)},
               .rows = ac_rows(x),
               .columns = ac_columns(x),
               .classes = ac_linear_cross_entropy_classes(args),
               .chunk = ac_linear_cross_entropy_chunk(args),
               .storage = x->dtype,
               .x = x->data,
               .weight = args->in[1].data,
               .dx = gradient ? data_of(&args->out[0]) : NULL,
               .dweight = gradient ? data_of(&args->out[1]) : NULL,
               .z = args->workspace,
               .gradient = gradient,
               .in_out = attributes->layout == AC_IN_OUT,
               .add_dx = args->add[0],
               .add_dweight = args->add[1],
               .run = args->run};
  p.results = ac_element(p.z, AC_F32, p.chunk * p.classes);
  return p;
}

static ac_gemm logits_product(const problem *p, int64_t first, int64_t count) {
  return (ac_gemm){.transpose_b = !p->in_out,
                   .m = count,
                   .n = p->classes,
                   .k = p->columns,
                   .alpha = 1,
                   .a = ac_element(p->x, p->storage, first * p->columns),
                   .lda = p->columns,
                   .a_dtype = p->storage,
                   .b = p->weight,
                   .ldb = p->in_out ? p->classes : p->columns,
                   .b_dtype = p->storage,
                   .c = p->z,
                   .ldc = p->classes};
}

/* dW = dz^T x ([classes, in]) or x^T dz ([in, classes]) */
static ac_gemm weight_product(const problem *p, int64_t first, int64_t count) {
  const void *x = ac_element(p->x, p->storage, first * p->columns);
  int64_t m = p->in_out ? p->columns : p->classes, n = p->in_out ? p->classes : p->columns;
  return (ac_gemm){.transpose_a = true,
                   .m = m,
                   .n = n,
                   .k = count,
                   .alpha = 1,
                   .beta = p->add_dweight || first > 0 ? 1 : 0,
                   .a = p->in_out ? x : p->z,
                   .lda = m,
                   .a_dtype = p->in_out ? p->storage : AC_F32,
                   .b = p->in_out ? p->z : x,
                   .ldb = n,
                   .b_dtype = p->in_out ? AC_F32 : p->storage,
                   .c = p->dweight,
                   .ldc = n};
}

static ac_gemm input_product(const problem *p, int64_t first, int64_t count) {
  return (ac_gemm){.transpose_b = p->in_out,
                   .m = count,
                   .n = p->columns,
                   .k = p->classes,
                   .alpha = 1,
                   .beta = p->add_dx ? 1 : 0,
                   .a = p->z,
                   .lda = p->classes,
                   .b = p->weight,
                   .ldb = p->in_out ? p->classes : p->columns,
                   .b_dtype = p->storage,
                   .c = ac_element(p->dx, p->storage, first * p->columns),
                   .ldc = p->columns,
                   .c_dtype = p->storage,
                   .mark = p->run->mark_flushed};
}

/* Bytes of one thread's scratch. */
static uint64_t scratch_bytes(const ac_cpu_context *context, const problem *p) {
  ac_gemm products[] = {logits_product(p, 0, p->chunk), weight_product(p, 0, p->chunk),
                        input_product(p, 0, p->chunk)};
  uint64_t most = 0;
  for (int i = 0; i < (p->gradient ? 3 : 1); i++) {
    uint64_t bytes = ac_cpu_gemm_scratch(context->threads, &products[i]);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* Where threads' scratch begins in the workspace. */
static uint64_t scratch_offset(const problem *p) {
  uint64_t logits = (uint64_t)(p->chunk * p->classes) * sizeof(float),
           results = (uint64_t)p->rows * sizeof(row_result);
  return (logits + results + 63) / 64 * 64;
}

static void run_tile(const ac_cpu_context *context, const problem *p, const ac_gemm *gemm,
                     int thread, int team) {
  ac_gemm_tile tile = ac_gemm_split(gemm->m, gemm->n, thread, team);
  ac_gemm part = ac_gemm_part(gemm, &tile);
  uint64_t bytes = scratch_bytes(context, p);
  char *scratch = (char *)p->z + scratch_offset(p) + (uint64_t)thread * bytes;
  ac_cpu_gemm_stored(context, &part, NULL, scratch, bytes);
}

static void run_rows(const problem *p, int64_t first, int64_t count, int thread, int team) {
  int64_t begin, end;
  ac_cpu_share(count, 1, thread, team, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    float *z = p->z + i * p->classes;
    int64_t row = first + i;
    float lse = row_loss(&p->loss, row, z, p->classes, &p->results[row]);
    if (p->gradient) row_gradient(&p->loss, row, z, p->classes, lse, p->run->loss_scale, z);
  }
}

static void run_part(const ac_cpu_context *context, const ac_op_args *args, int thread, int team) {
  problem p = problem_of(args);
  for (int64_t first = 0; first < p.rows; first += p.chunk) {
    int64_t count = ac_min(p.chunk, p.rows - first);
    ac_gemm logits = logits_product(&p, first, count);
    run_tile(context, &p, &logits, thread, team);
    ac_cpu_barrier(team);
    run_rows(&p, first, count, thread, team);
    ac_cpu_barrier(team);
    if (p.dweight) {
      ac_gemm product = weight_product(&p, first, count);
      run_tile(context, &p, &product, thread, team);
      ac_cpu_barrier(team);
    }
    if (p.dx) {
      ac_gemm product = input_product(&p, first, count);
      run_tile(context, &p, &product, thread, team);
      ac_cpu_barrier(team);
    }
  }
}

static void run(const ac_cpu_context *context, const ac_op_args *args) {
  problem p = problem_of(args);
  int sums = p.gradient ? 2 : 0;
  ac_cpu_parallel(context, args, run_part);
  sum_rows(&p.loss, p.rows, p.results, args->out[sums].data, args->add[sums]);
}

static uint64_t workspace(const ac_cpu_context *context, const ac_op_args *args) {
  problem p = problem_of(args);
  return scratch_offset(&p) + (uint64_t)context->threads * scratch_bytes(context, &p);
}

const ac_cpu_kernel AC_CPU_KERNEL(linear_cross_entropy) = {run, workspace};
const ac_cpu_kernel AC_CPU_KERNEL(linear_cross_entropy_gradient) = {run, workspace};
