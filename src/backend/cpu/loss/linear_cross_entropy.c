/* The output projection fused with softmax cross-entropy, or with log-probabilities, a chunk of
 * rows at a time: z = x W^T into the workspace | per row loss, z becomes dz | dW += dz^T x | dx =
 * dz W Threads share out the tiles of products and the rows between, and wait for each other at
 * each bar. dx may lie in x's place, because its rows are written after dW is done with those of x.
 * Logits are floats whatever x and W are stored in; dz is rounded to bf16 if products are best in
 * that type (product/gemm.h); then each row is in the first half of its logits. After the chunk the
 * workspace has the row results, which are added up in the order of rows (cross_entropy.h), and
 * each thread's scratch for products. */
#include "backend/cpu/loss/cross_entropy.h"
#include "backend/cpu/loss/head.h"
#include "backend/cpu/product/layer.h"
#include "backend/cpu/shared/convert.h"
#include "core/align.h"
#include "ops/loss/linear_log_probability.h"

typedef struct problem {
  const ac_linear_cross_entropy_attributes *attributes;
  loss_rows loss;
  int64_t rows, columns, classes, chunk;
  ac_dtype storage;      /* of x and dx */
  ac_dtype weights;      /* the same, or f32 that products round */
  ac_blocks blocks;      /* of weights that products decode */
  ac_dtype factors;      /* of dz */
  void *x, *weight, *dx; /* dx and dweight are NULL if not wanted */
  float *dweight, *z;
  bool gradient, in_out, add_dx, add_dweight;
  bool rows_out; /* results are of rows, not sums of them */
  row_result *results;
  const ac_run_state *run;
  float loss_scale;
} problem;

static problem problem_of(const ac_cpu_context *context, const ac_op_args *args) {
  const ac_linear_cross_entropy_attributes *attributes = args->attributes;
  const ac_operand *x = &args->in[0];
  const bool rows_out = ac_head_has_rows(args);
  bool gradient =
      args->op == AC_OP_linear_cross_entropy_gradient || ac_head_has_row_gradients(args);
  problem p = {.attributes = attributes,
               .loss = {&attributes->loss, args->in[2].data, ac_cpu_data(&args->in[3]),
                        ac_cross_entropy_smoothing(&attributes->loss, args->run)},
               .rows = ac_rows(x),
               .columns = ac_columns(x),
               .classes = ac_linear_cross_entropy_classes(args),
               .chunk = ac_linear_cross_entropy_chunk(args),
               .storage = x->dtype,
               .weights = args->in[1].dtype,
               .blocks = args->in[1].blocks,
               .factors = ac_cpu_factor_dtype(context, x->dtype),
               .x = x->data,
               .weight = args->in[1].data,
               .dx = gradient ? ac_cpu_data(&args->out[0]) : NULL,
               .dweight = gradient ? ac_cpu_data(&args->out[1]) : NULL,
               .z = args->workspace,
               .gradient = gradient,
               .rows_out = rows_out,
               .in_out = attributes->layout == AC_IN_OUT,
               .add_dx = args->add[0],
               .add_dweight = args->add[1],
               .run = args->run,
               /* The gradient of a row's log-probability comes in place of its weight. */
               .loss_scale = rows_out ? -1 : ac_loss_scale(args)};
  p.results = ac_element(p.z, AC_F32, p.chunk * p.classes);
  return p;
}

static ac_matrix logits_of(const problem *p) {
  return (ac_matrix){.data = p->z, .dtype = AC_F32};
}

/* dz in z's place. */
static ac_matrix gradients_of(const problem *p) {
  int64_t each = (int64_t)(sizeof(float) / ac_dtype_bytes(p->factors));
  return (ac_matrix){.data = p->z, .dtype = p->factors, .distance = each * p->classes};
}

static ac_matrix weights_of(const problem *p) {
  return (ac_matrix){.data = p->weight, .dtype = p->weights, .blocks = p->blocks};
}

/* Rows [first, first + count) of the layer that yields the logits. */
static ac_layer layer_of(const problem *p, int64_t first, int64_t count, void *x, ac_matrix w,
                         ac_matrix y, bool add) {
  return (ac_layer){
      .rows = count,
      .in = p->columns,
      .out = p->classes,
      .in_out = p->in_out,
      .x = {.data = ac_element(x, p->storage, first * p->columns), .dtype = p->storage},
      .w = w,
      .y = y,
      .add = add,
      .round_w = p->weights != p->storage && !p->blocks,
      .mark = p->run->mark_flushed};
}

static ac_gemm logits_product(const problem *p, int64_t first, int64_t count) {
  ac_layer layer = layer_of(p, first, count, p->x, weights_of(p), logits_of(p), false);
  return ac_layer_output(&layer);
}

static ac_gemm weight_product(const problem *p, int64_t first, int64_t count) {
  ac_matrix dweight = {.data = p->dweight, .dtype = AC_F32};
  bool add = p->add_dweight || first > 0;
  ac_layer layer = layer_of(p, first, count, p->x, dweight, gradients_of(p), add);
  return ac_layer_weight_gradient(&layer);
}

static ac_gemm input_product(const problem *p, int64_t first, int64_t count) {
  ac_layer layer = layer_of(p, first, count, p->dx, weights_of(p), gradients_of(p), p->add_dx);
  return ac_layer_input_gradient(&layer);
}

/* Bytes of one thread's scratch. */
static uint64_t scratch_bytes(const ac_cpu_context *context, const problem *p) {
  ac_gemm products[] = {logits_product(p, 0, p->chunk), weight_product(p, 0, p->chunk),
                        input_product(p, 0, p->chunk)};
  uint64_t most = 0;
  for (int i = 0; i < (p->gradient ? 3 : 1); i++) {
    uint64_t bytes = ac_cpu_gemm_scratch(context, context->threads, &products[i]);
    if (bytes > most) most = bytes;
  }
  return most;
}

/* Where threads' scratch begins in the workspace. */
static uint64_t scratch_offset(const problem *p) {
  uint64_t logits = (uint64_t)(p->chunk * p->classes) * sizeof(float),
           results = (uint64_t)p->rows * sizeof(row_result);
  return ac_align(logits + results, AC_LINE_BYTES);
}

static void run_share(const ac_cpu_context *context, const problem *p, const ac_gemm *gemm,
                      int thread, int team) {
  ac_cpu_gemm_share(context, gemm, NULL, (char *)p->z + scratch_offset(p),
                    scratch_bytes(context, p), thread, team);
}

static void run_rows(const problem *p, int64_t first, int64_t count, int thread, int team) {
  int64_t begin, end;
  const float cap = (float)p->attributes->soft_cap;
  ac_cpu_share(count, 1, thread, team, &begin, &end);
  for (int64_t i = begin; i < end; i++) {
    float *z = p->z + i * p->classes;
    int64_t row = first + i;
    if (cap > 0.0f) cap_row(z, p->classes, cap);
    row_extent extent = row_loss(&p->loss, row, z, p->classes, &p->results[row]);
    if (!p->gradient) continue;
    if (cap > 0.0f) capped_row_gradient(&p->loss, row, z, p->classes, extent, p->loss_scale, cap);
    else row_gradient(&p->loss, row, z, p->classes, extent, p->loss_scale, z);
    if (p->factors != AC_F32) ac_cpu_narrow_in_place(p->factors, false, z, p->classes);
  }
}

static void run_part(const ac_cpu_context *context, const ac_op_args *args, int thread, int team) {
  problem p = problem_of(context, args);
  for (int64_t first = 0; first < p.rows; first += p.chunk) {
    int64_t count = ac_smaller(p.chunk, p.rows - first);
    ac_gemm logits = logits_product(&p, first, count);
    run_share(context, &p, &logits, thread, team);
    ac_cpu_barrier(team);
    run_rows(&p, first, count, thread, team);
    ac_cpu_barrier(team);
    if (p.dweight) {
      ac_gemm product = weight_product(&p, first, count);
      run_share(context, &p, &product, thread, team);
      ac_cpu_barrier(team);
    }
    if (p.dx) {
      ac_gemm product = input_product(&p, first, count);
      run_share(context, &p, &product, thread, team);
      ac_cpu_barrier(team);
    }
  }
}

/* y = weight log p - less. */
static void store_log_probabilities(const problem *p, const ac_op_args *args) {
  const float *less = ac_cpu_data(&args->in[4]);
  float *y = args->out[0].data;
  for (int64_t i = 0; i < p->rows; i++)
    y[i] = -row_weight(&p->loss, i) * p->results[i].loss - (less ? less[i] : 0);
}

void ac_cpu_head_run(const ac_cpu_context *context, const ac_op_args *args) {
  problem p = problem_of(context, args);
  int sums = p.gradient ? 2 : 0;
  ac_cpu_parallel(context, args, run_part);
  if (p.rows_out && !p.gradient) store_log_probabilities(&p, args);
  if (p.rows_out) return;
  sum_rows(&p.loss, p.rows, p.results, args->out[sums].data, args->add[sums]);
}

uint64_t ac_cpu_head_workspace(const ac_cpu_context *context, const ac_op_args *args) {
  problem p = problem_of(context, args);
  return scratch_offset(&p) + (uint64_t)context->threads * scratch_bytes(context, &p);
}

const ac_cpu_kernel AC_CPU_KERNEL(linear_cross_entropy) = {.run = ac_cpu_head_run,
                                                           .workspace = ac_cpu_head_workspace,
                                                           .rounds = 1u << 1,
                                                           .decodes = 1u << 1};
const ac_cpu_kernel AC_CPU_KERNEL(linear_cross_entropy_gradient) = {
    .run = ac_cpu_head_run,
    .workspace = ac_cpu_head_workspace,
    .rounds = 1u << 1,
    .decodes = 1u << 1};
