/* The products of a linear layer: y = x W, dx = dy W^T and dW = x^T dy, of matrices
 *
 *   x, dx [rows, in]    W, dW [in, out], or stored as [out, in]    y, dy [rows, out]
 *
 * In a product that yields dx, dW or dy, that one is in the place of x, W or y. */
#ifndef AC_OPENCL_PRODUCT_LAYER_H
#define AC_OPENCL_PRODUCT_LAYER_H

#include "backend/opencl/product/gemm.h"

typedef struct ac_cl_matrix {
  void *data;    /* handle */
  int64_t first; /* element of it that the matrix begins at */
  bool is_float; /* whatever the storage */
  int64_t pitch; /* between its rows where these are not dense, see gemm.h; 0 */
} ac_cl_matrix;

typedef struct ac_cl_layer {
  int64_t rows, in, out;
  bool out_in; /* how W is stored */
  ac_cl_matrix x, w, y;
  bool add; /* to the result */
} ac_cl_layer;

static inline ac_cl_product ac_cl_layer_product(const ac_cl_layer *l, const ac_cl_matrix *a,
                                                const ac_cl_matrix *b, const ac_cl_matrix *c) {
  return (ac_cl_product){.a = a->data,
                         .b = b->data,
                         .c = c->data,
                         .float_a = a->is_float,
                         .float_b = b->is_float,
                         .float_c = c->is_float,
                         .add = l->add,
                         .batch = 1,
                         .first_a = a->first,
                         .first_b = b->first,
                         .first_c = c->first,
                         .pitch_a = a->pitch,
                         .pitch_b = b->pitch,
                         .pitch_c = c->pitch};
}

static inline ac_cl_product ac_cl_layer_output(const ac_cl_layer *l) {
  ac_cl_product product = ac_cl_layer_product(l, &l->x, &l->w, &l->y);
  product.transpose_b = l->out_in;
  product.m = l->rows, product.n = l->out, product.k = l->in;
  return product;
}

static inline ac_cl_product ac_cl_layer_input_gradient(const ac_cl_layer *l) {
  ac_cl_product product = ac_cl_layer_product(l, &l->y, &l->w, &l->x);
  product.transpose_b = !l->out_in;
  product.m = l->rows, product.n = l->in, product.k = l->out;
  return product;
}

/* x^T dy or, for [out, in], dy^T x */
static inline ac_cl_product ac_cl_layer_weight_gradient(const ac_cl_layer *l) {
  ac_cl_product product = l->out_in ? ac_cl_layer_product(l, &l->y, &l->x, &l->w)
                                    : ac_cl_layer_product(l, &l->x, &l->y, &l->w);
  product.transpose_a = true;
  product.m = l->out_in ? l->out : l->in, product.n = l->out_in ? l->in : l->out;
  product.k = l->rows;
  return product;
}

#endif
