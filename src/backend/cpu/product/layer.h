/* The products of a linear layer: y = x W, dx = dy W^T and dW = x^T dy, of matrices
 *
 *   x, dx [rows, in]    W, dW [in, out], or stored as [out, in]    y, dy [rows, out]
 *
 * In a product that yields dx, dW or dy, that one is in the place of x, W or y. */
#ifndef AC_BACKEND_CPU_PRODUCT_LAYER_H
#define AC_BACKEND_CPU_PRODUCT_LAYER_H

#include "backend/cpu/product/gemm.h"

typedef struct ac_matrix {
  void *data;
  ac_dtype dtype;
  int64_t distance; /* of rows, in elements; 0: dense */
  ac_blocks blocks; /* of W alone (ac_gemm.b_blocks) */
} ac_matrix;

typedef struct ac_layer {
  int64_t rows, in, out;
  bool in_out; /* how W is stored */
  ac_matrix x, w, y;
  bool add, mark; /* to the result; the result (ac_gemm) */
  bool round_w;   /* in f32, where it is an operand (ac_gemm.round_b) */
} ac_layer;

static inline int64_t ac_row_distance(ac_matrix x, int64_t columns) {
  return x.distance ? x.distance : columns;
}

/* to [rows, n] (+)= from [rows, k] op(W) */
static inline ac_gemm ac_layer_rows(const ac_layer *l, ac_matrix from, int64_t k, ac_matrix to,
                                    int64_t n, bool transpose) {
  return (ac_gemm){.transpose_b = transpose,
                   .round_b = l->round_w,
                   .mark = l->mark,
                   .m = l->rows,
                   .n = n,
                   .k = k,
                   .alpha = 1,
                   .beta = l->add ? 1 : 0,
                   .a = from.data,
                   .lda = ac_row_distance(from, k),
                   .a_dtype = from.dtype,
                   .b = l->w.data,
                   .ldb = ac_row_distance(l->w, l->in_out ? l->out : l->in),
                   .b_dtype = l->w.dtype,
                   .b_blocks = l->w.blocks,
                   .c = to.data,
                   .ldc = ac_row_distance(to, n),
                   .c_dtype = to.dtype};
}

static inline ac_gemm ac_layer_output(const ac_layer *l) {
  return ac_layer_rows(l, l->x, l->in, l->y, l->out, !l->in_out);
}

static inline ac_gemm ac_layer_input_gradient(const ac_layer *l) {
  return ac_layer_rows(l, l->y, l->out, l->x, l->in, l->in_out);
}

/* x^T dy or, for [out, in], dy^T x */
static inline ac_gemm ac_layer_weight_gradient(const ac_layer *l) {
  ac_matrix left = l->in_out ? l->x : l->y, right = l->in_out ? l->y : l->x;
  int64_t m = l->in_out ? l->in : l->out, n = l->in_out ? l->out : l->in;
  return (ac_gemm){.transpose_a = true,
                   .mark = l->mark,
                   .m = m,
                   .n = n,
                   .k = l->rows,
                   .alpha = 1,
                   .beta = l->add ? 1 : 0,
                   .a = left.data,
                   .lda = ac_row_distance(left, m),
                   .a_dtype = left.dtype,
                   .b = right.data,
                   .ldb = ac_row_distance(right, n),
                   .b_dtype = right.dtype,
                   .c = l->w.data,
                   .ldc = ac_row_distance(l->w, n),
                   .c_dtype = l->w.dtype};
}

#endif
