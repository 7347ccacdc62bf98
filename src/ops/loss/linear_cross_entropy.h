#ifndef AC_OPS_LINEAR_CROSS_ENTROPY_H
#define AC_OPS_LINEAR_CROSS_ENTROPY_H

#include "ops/loss/cross_entropy.h"

/* Bytes of logits that exist at once, and with weights in blocks: a model with these is short of
 * memory, and decoding the weights once more for each chunk takes a small part of the time. The
 * chunks of rows change no bits of losses and gradients of x. */
enum {
  AC_LINEAR_CROSS_ENTROPY_CHUNK = 64 << 20,
  AC_LINEAR_CROSS_ENTROPY_CHUNK_OF_BLOCKS = 12 << 20
};

typedef struct ac_linear_cross_entropy_attributes {
  ac_layout layout; /* of the weight: AC_OUT_IN [classes, in] or AC_IN_OUT [in, classes] */
  ac_cross_entropy_attributes loss;
  int64_t chunk_bytes;
  double soft_cap; /* a float; 0: none */
} ac_linear_cross_entropy_attributes;

static inline int64_t ac_linear_cross_entropy_classes(const ac_op_args *args) {
  const ac_linear_cross_entropy_attributes *attributes = args->attributes;
  return args->in[1].dim[attributes->layout == AC_OUT_IN ? 0 : 1];
}

/* Rows of logits that exist at once: what the chunk's bytes hold, but one at least; multiples of 32
 * where there are so many, which suits the tiles of products. */
static inline int64_t ac_linear_cross_entropy_chunk(const ac_op_args *args) {
  const ac_linear_cross_entropy_attributes *attributes = args->attributes;
  int64_t row = ac_linear_cross_entropy_classes(args) * (int64_t)sizeof(float);
  int64_t most = attributes->chunk_bytes / row, rows = ac_rows(&args->in[0]);
  if (most >= 32) most -= most % 32;
  if (most < 1) most = 1;
  return rows < most ? rows : most;
}

#endif
