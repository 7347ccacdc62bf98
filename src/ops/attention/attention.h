/* The op attention: what backends share. Its formula is in attention.c. Operands, all row-major:
 *
 *   - q [B, Tq, H D], k [B, Tk, Hkv D], v [B, Tk, Hkv Dv], y [B, Tq, H Dv], and lse [B, H, Tq] in
 *     f32. With k and v absent q is [B, T, (H + 2 Hkv) D]: queries, keys and values of a position
 *     side by side. Then so is dq, and dk and dv are absent.
 *   - bias f32 [H or 1, Tq, Tk], or one for each row of B: [B, H or 1, Tq, Tk]. dbias is like it.
 *   - lengths i32 [B]: keys of the row, to be clamped to [0, Tk].
 *   - segments i32 [B, Tq] of the queries and [B, Tk] of the keys. Without the second the first is
 *     of both, and Tq is Tk.
 *
 * B is per_sample times the micro-batch: row b of it is row b % per_sample of sample
 * b / per_sample. Head h of the queries reads head h / (H / Hkv) of keys and values.
 *
 * A query that sees no key, or with scores that are all -infinity, has y = 0, lse =
 * AC_ATTENTION_UNSEEN and gradients of 0. Weights of what is hidden are 0 whatever lse is. */
#ifndef AC_OPS_ATTENTION_H
#define AC_OPS_ATTENTION_H

#include "core/integers.h"
#include "ops/arguments.h"

#define AC_ATTENTION_UNSEEN 0.0f

/* All of four bytes, so that no byte is unset. Dropout of attention weight (h, i, j) of row r of a
 * sample is element ((r H + h) Tq + i) Tk + j of `stream`. */
typedef struct ac_attention_attributes {
  int32_t heads;
  float scale;          /* of q k^T, resolved: never 0 */
  float dropout;        /* 0: none */
  uint32_t stream;      /* of the random numbers */
  int32_t key_heads;    /* divides heads: never 0 */
  int32_t causal;       /* a query sees no key after its position */
  int32_t at_end;       /* query i is at position i + length - Tq; else at i */
  int32_t window;       /* sees keys less than so many positions away; 0: all */
  int32_t skip_padding; /* a query sees nothing unless its position is in [0, length) */
  float soft_cap;       /* 0: none */
  int32_t per_sample;   /* rows of B for each sample: at least 1 */
} ac_attention_attributes;

/* Shapes, by operands of the forward op: q, k and bias may be absent (count 0). */
typedef struct ac_attention_shape {
  int64_t batch, queries, keys;         /* B, Tq, Tk */
  int64_t heads, key_heads;             /* H, Hkv */
  int64_t size, values;                 /* D, Dv */
  bool packed;                          /* all in q */
  int64_t q_stride, k_stride, v_stride; /* elements from one position to the next */
  int64_t bias_batch, bias_head;        /* elements from one bias to the next; 0: it is the same */
} ac_attention_shape;

static inline ac_attention_shape ac_attention_shape_of(const ac_attention_attributes *a,
                                                       const ac_operand *q, const ac_operand *k,
                                                       const ac_operand *v,
                                                       const ac_operand *bias) {
  ac_attention_shape s = {.batch = q->dim[0],
                          .queries = q->dim[1],
                          .keys = q->dim[1],
                          .heads = a->heads,
                          .key_heads = a->key_heads,
                          .packed = !k->count,
                          .q_stride = q->dim[2],
                          .k_stride = q->dim[2],
                          .v_stride = q->dim[2]};
  if (s.packed) {
    s.size = s.values = q->dim[2] / (a->heads + 2 * (int64_t)a->key_heads);
  } else {
    s.keys = k->dim[1];
    s.k_stride = k->dim[2];
    s.v_stride = v->dim[2];
    s.size = q->dim[2] / a->heads;
    s.values = v->dim[2] / a->key_heads;
  }
  if (bias->count) {
    const int64_t heads = bias->dim[bias->rank - 3], one = s.queries * s.keys;
    s.bias_head = heads > 1 ? one : 0;
    s.bias_batch = bias->rank > 3 ? heads * one : 0;
  }
  return s;
}

/* The keys [first, end) that a query sees of those that the sample has, if its segment has them. */
typedef struct ac_attention_range {
  int64_t first, end;
} ac_attention_range;

static inline ac_attention_range ac_attention_seen(const ac_attention_attributes *a,
                                                   int64_t queries, int64_t length, int64_t query) {
  const int64_t position = query + (a->at_end ? length - queries : 0);
  ac_attention_range seen = {0, length};
  if (a->causal) seen.end = ac_smaller(seen.end, position + 1);
  if (a->window) {
    seen.first = ac_larger(0, position - a->window + 1);
    if (!a->causal) seen.end = ac_smaller(seen.end, position + a->window);
  }
  if (a->skip_padding && (position < 0 || position >= length)) seen.end = 0;
  if (seen.end < seen.first) seen.end = seen.first;
  return seen;
}

#endif
