/* The list of ops. Names, dispatch tables, tests and bench are made from it: an op is in no other
 * list.
 *
 * A family is one file in a folder of src/ops, src/backend/cpu, src/backend/opencl, cl and
 * tests/ops; F gets the name of the folder, which is the same in all of these, and of the family. X
 * gets an op and two words with a letter for each input and each output. A letter says how an
 * operand is stored, which is the policy of mixed precision; arithmetic is in float, except for
 * factors of Muon (ops/update/muon.h):
 *   - s: as the plan's precision says: activations, their gradients, weights of products
 *   - f: f32: biases, norms' parameters and statistics, loss sums, parameter gradients, masters
 *   - i: i32: ids and counts
 *   - m: as s, or i32: what ops move as it is; all operands of this kind are alike
 *   - a: any float type
 *   - e: any type of elements
 *   - b: f32, or 8 bits in blocks (core/eight_bit.h) of bytes [blocks, 260]: what optimizers keep
 *   - p: f32, or bf16 rounded by chance (core/random.h): parameters that are stepped, gradients
 *   - c: as the node says: its attributes begin with a letter for each input and each output
 * All operands of kind s have the same dtype, the op's storage type.
 *
 * The comment after an op names its operands. `?` may be absent (count 0), `+` is added to when
 * `add` is set for that output and overwritten otherwise, `[n]` is the leading dimensions' product,
 * and sums is [AC_LOSS_SUMS]. An op that yields sums (graph.h) and also a result that other ops
 * read must be able to leave the sums out, because it may run again. */
#ifndef AC_OPS_LIST_H
#define AC_OPS_LIST_H

/* clang-format off */
#define AC_OP_FAMILIES(F, X)                                                                                           \
  F(linear, linear) X(linear, "ssfss", "s")           /* x[n,in] W b? u[n,r]? B[out,r]? -> y[n,out]: x W + b + u B^T */  \
    X(linear_input_gradient, "ss", "s")               /* dy W -> dx+ */                                                \
    X(linear_weight_gradient, "ss", "ff")             /* x dy -> dW?+ db?+ */                                          \
  F(linear, row_norms) X(row_norms, "sss", "ff")      /* W A[r,in] B[out,r] -> ratio[out] inverse[out] of rows, no gradient */ \
  F(linear, matmul) X(matmul, "ss", "s")              /* a b -> c+, over leading dimensions */                         \
  F(pointwise, pointwise) X(pointwise, "ssssssss", "ssss") /* a b ... -> y+ ..., operands repeated */                  \
  F(movement, gather) X(gather, "mi", "m")            /* x ids -> y, along an axis */                                  \
    X(scatter_add, "is", "f")                         /* ids x -> y+, along an axis */                                 \
  F(norm, layer_norm) X(layer_norm, "sff", "sf")      /* x gamma? beta? -> y statistics[n,2]: mean, 1/std */           \
    X(layer_norm_input_gradient, "ssff", "s")         /* dy x statistics gamma? -> dx+ */                              \
    X(layer_norm_parameter_gradient, "ssf", "ff")     /* dy x statistics -> dgamma?+ dbeta?+ */                        \
  F(norm, rms_norm) X(rms_norm, "sf", "sf")           /* x gamma? -> y statistics[n,1]: 1/rms */                       \
    X(rms_norm_input_gradient, "ssff", "s")           /* dy x statistics gamma? -> dx+ */                              \
    X(rms_norm_parameter_gradient, "ssf", "f")        /* dy x statistics -> dgamma+ */                                 \
  F(norm, group_norm) X(group_norm, "sff", "sf")      /* x[B,C,...] gamma? beta? -> y statistics[B,G,2]: mean, 1/std */\
    X(group_norm_gradient, "ssff", "sff")             /* dy x statistics gamma? -> dx?+ dgamma?+ dbeta?+ */            \
  F(norm, batch_norm) X(batch_norm, "sffff", "sff")   /* x[B,C,...] gamma? beta? mean[C] variance[C]                   \
                                        -> y statistics[C,2] variance[C]?: mean, 1/std */                              \
    X(batch_norm_gradient, "ssff", "sff")             /* dy x? statistics gamma? -> dx?+ dgamma?+ dbeta?+ */           \
    X(batch_norm_pool, "ff", "f")                     /* statistics[C,2] variance[C]                                   \
                          -> pooled[C,3]: n, mean, sum of squares, joined to what is there if `add` is set */          \
    X(batch_norm_update, "f", "ff")                   /* pooled -> mean variance */                                    \
    X(batch_norm_moments, "s", "f")                   /* x[B,C,...] -> pooled[C,3], joined as above */                   \
    X(batch_norm_statistics, "fff", "f")              /* pooled mean[C] variance[C] -> statistics[C,2] */              \
    X(batch_norm_apply, "sfff", "s")                  /* x gamma? beta? statistics -> y */                             \
    X(batch_norm_sums, "ssf", "f")                    /* dy x statistics -> sums[C,2]+: of dy, of dy h */              \
    X(batch_norm_input_gradient, "ssffff", "s")       /* dy x statistics gamma? sums pooled -> dx+ */                  \
    X(batch_norm_parameter_gradient, "f", "ff")       /* sums -> dgamma?+ dbeta?+ */                                   \
  F(norm, weight_standardisation) X(weight_standardisation, "f", "sf") /* w[O,...] -> y statistics[O,2]: mean, 1/std */\
    X(weight_standardisation_gradient, "sff", "f")    /* dy w statistics -> dw+ */                                     \
  F(reduction, reduce) X(reduce, "a", "ff")           /* x -> y+ kept?, over axes */                                   \
    X(reduce_gradient, "faff", "s")                   /* dy x? y? kept? -> dx+ */                                      \
  F(reduction, argmax) X(argmax, "a", "i")            /* x -> ids, over an axis */                                     \
  F(reduction, top_k) X(top_k, "s", "si")             /* x[n,C] -> y[n,k] ids[n,k] */                                  \
    X(top_k_gradient, "si", "s")                      /* dy ids -> dx+ */                                              \
  F(reduction, cumulative_sum) X(cumulative_sum, "s", "s") /* x -> y, along an axis; its gradient, the other way */    \
  F(attention, softmax) X(softmax, "s", "s")          /* x -> y, over an axis */                                       \
    X(softmax_gradient, "ss", "s")                    /* dy y -> dx */                                                 \
  F(attention, attention) X(attention, "sssfiii", "sf") /* q k? v? bias? lengths[B]? segments[B,Tq]? of keys[B,Tk]?    \
                                          -> y lse[B,H,Tq]: ops/attention/attention.h */                               \
    X(attention_gradient, "sssssffiii", "sssf")       /* dy q k? v? y lse bias? lengths? segments? of keys?            \
                                                         -> dq? dk? dv? dbias?+ */                                     \
  F(attention, rope) X(rope, "si", "s")               /* x[B,T,H,D] positions[B,T]? -> y, and its own gradient */     \
  F(pointwise, dropout) X(dropout, "s", "s")          /* x -> y, and its own gradient */                               \
  F(recurrent, recurrent) X(recurrent, "ssffi", "sfss") /* gates[B,T,G*H] W[G*H,H] b? state[B,N,H]? lengths[B]?         \
                               -> y[B,T,H] state[B,N,H] gates, activated, and kept[B,T,H]: none of a plain cell */   \
    X(recurrent_gradient, "sfssssfi", "sfff")         /* dy? dstate? activated? y kept? W state? lengths?              \
                                                         -> dgates? dstate? dW?+ db?+ */                               \
  F(movement, permute) X(permute, "m", "m")           /* x -> y, axes in another order; its gradient, back */          \
  F(loss, cross_entropy) X(cross_entropy, "sif", "ff") /* logits[n,V] targets[n] weights[n]? -> sums?+ lse[n] */       \
    X(cross_entropy_gradient, "siff", "s")            /* logits targets weights? lse -> dlogits */                     \
  F(loss, linear_cross_entropy) X(linear_cross_entropy, "ssif", "f") /* x[n,C] W targets[n] weights[n]? -> sums+ */    \
    X(linear_cross_entropy_gradient, "ssif", "sff")   /* x W targets weights? -> dx?+ dW?+ sums+ */                    \
  F(loss, linear_log_probability) X(linear_log_probability, "ssiff", "f") /* x[n,C] W targets[n] weights[n]? less[n]? -> y[n] */ \
    X(linear_log_probability_gradient, "ssif", "sf")  /* x W targets dy[n] -> dx?+ dW?+ */                             \
  F(loss, mean_squared_error) X(mean_squared_error, "sff", "f") /* prediction[B,m] target weights[B]? -> sums+ */      \
    X(mean_squared_error_gradient, "sff", "s")        /* prediction target weights? -> dprediction */                  \
  F(loss, binary_cross_entropy) X(binary_cross_entropy, "sff", "f") /* logits[B,m] targets weights[B]? -> sums+ */     \
    X(binary_cross_entropy_gradient, "sff", "s")      /* logits targets weights? -> dlogits */                         \
  F(loss, row_loss) X(row_loss, "sf", "f")            /* losses[n] weights[m]?, m divides n -> sums+ */                \
    X(row_loss_gradient, "f", "s")                    /* weights? -> dlosses */                                        \
  F(loss, class_hits) X(class_hits, "sif", "f")       /* logits[n,V] targets[n] weights[n]? -> sums+ */                \
  F(loss, ctc_loss) X(ctc_loss, "siiif", "ff") /* logits[B,T,V] targets[B,S] lengths[B]? of targets[B]? weights[B]?    \
                               -> sums?+ extents[B,T,2] */                                                             \
    X(ctc_loss_gradient, "siiiff", "s")               /* the same, extents -> dlogits */                               \
  F(convolution, conv2d) X(conv2d, "ssf", "s")        /* x[B,Ci,H,W] W[Co,Ci/groups,kh,kw] b? -> y[B,Co,Ho,Wo]+ */     \
    X(conv_transpose2d, "ssf", "s")                   /* x[B,Ci,H,W] W[Ci,Co/groups,kh,kw] b? -> y[B,Co,Ho,Wo]+,       \
                                                         or dy W -> dx+ of conv2d */                                   \
    X(conv2d_weight_gradient, "ss", "ff")             /* x dy -> dW?+ db?+ */                                          \
  F(convolution, pool2d) X(max_pool2d, "s", "s")      /* x[B,C,H,W] -> y[B,C,Ho,Wo] */                                 \
    X(max_pool2d_gradient, "ss", "s")                 /* dy x -> dx+ */                                                \
    X(average_pool2d, "s", "s")                       /* x[B,C,H,W] -> y[B,C,Ho,Wo] */                                 \
    X(average_pool2d_gradient, "s", "s")              /* dy -> dx+ */                                                  \
  F(movement, concat) X(concat, "mmmmmmmm", "m")      /* x ... -> y, up to 8 side by side, and zeros after them */     \
    X(concat_more, "mmmmmmmm", "m")                   /* y x ... -> y, in place: up to 7 more */                       \
  F(movement, slice) X(slice, "m", "m")               /* x -> y+, every so many-th of each axis, also beyond its ends */ \
    X(slice_gradient, "s", "s")                       /* dy -> dx+ */                                                  \
  F(convolution, resize2d) X(resize2d, "s", "s")      /* x[B,C,H,W] -> y[B,C,Ho,Wo] */                                 \
    X(resize2d_gradient, "s", "s")                    /* dy -> dx+ */                                                  \
  F(movement, cache) X(cache, "si", "s")            /* rows[B,n,...] ends[B] -> y[B,N,...], in place */              \
  F(movement, cast) X(cast, "e", "e")                 /* x -> y+, to the dtype of y */                                 \
  F(movement, length_mask) X(length_mask, "i", "f")   /* lengths[n] -> y[n,T]: ones, then zeros */                     \
    X(one_hot, "i", "f")                              /* ids[n] -> y[n,C]: a one, else zeros */                        \
  F(custom, custom) X(custom, "cccccccc", "cccc")     /* an op of the caller's own, or its gradient */                  \
  F(update, rounded_sum) X(rounded_sum, "a", "p")     /* x -> y+, rounded by chance if y is bf16 */                    \
  F(update, numerics) X(numerics, "s", "i")           /* x -> counts[2]+: overflowed, flushed */                       \
  F(update, fold) X(fold, "f", "ff")                  /* g -> m v?, in place: part of what is kept */                  \
  F(update, clip) X(clip, "ff", "f")                  /* g p -> y, which may be g */                                   \
  F(update, optimizer) X(gradient_statistics, "p", "f") /* g -> [2] */                                                 \
    X(adamw, "p", "pbbs")                             /* g -> p m v w?, in place; w is p in 16 bits */                 \
    X(sgd, "p", "pbs")                                /* g -> p momentum? w?, in place */                              \
  F(update, lion) X(lion, "p", "pbs")                 /* g -> p momentum w?, in place */                               \
  F(update, adafactor) X(adafactor, "p", "pffs")      /* g -> p, r[R] and c[C] or v and none, w?, in place */          \
  F(update, muon) X(muon, "p", "pfs")                 /* g -> p momentum w?, in place */                               \
  F(update, adam_mini) X(adam_mini, "p", "pffs")      /* g -> p m v[blocks] w?, in place */
/* clang-format on */

#define AC_OP_SKIP_FAMILY(folder, name)
#define AC_OP_SKIP_OP(name, in, out)
#define AC_OP_LIST(X) AC_OP_FAMILIES(AC_OP_SKIP_FAMILY, X)
#define AC_OP_FAMILY_LIST(F) AC_OP_FAMILIES(F, AC_OP_SKIP_OP)

typedef enum ac_op {
#define AC_OP_ENUM(name, in, out) AC_OP_##name,
  AC_OP_LIST(AC_OP_ENUM)
#undef AC_OP_ENUM
      AC_OP_COUNT
} ac_op;

#endif
