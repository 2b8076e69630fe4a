/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every op, once. The declarations in ops.h, the registry, and with them the tests, the benchmarks and what files may
 * name come from this list, in its order. The three sections are the rooms of src/ops.
 */
#ifndef RF_OPS_OP_LIST_H
#define RF_OPS_OP_LIST_H

#define RF_POINTWISE_OPS(OP)                                                                                           \
    OP(elementwise)    /* inputs f32, of comparisons i32, broadcast together by NumPy's rules; output f32 */           \
    OP(sum_to_like)    /* x, like (shape only): sums over the axes that broadcasting added */                          \
    OP(normalize)      /* x [..., c], mean [c], scale[, shift], variance[, gamma] -> (x - mean) * scale + shift */     \
    OP(fill_like)      /* like (shape only) */                                                                         \
    OP(broadcast_like) /* x, like (shape only) */                                                                      \
    OP(reshape)                                                                                                        \
    OP(reshape_like) /* x, like (shape only) */                                                                        \
    OP(regroup)      /* x, others (shape only) */                                                                      \
    OP(transpose)                                                                                                      \
    OP(slice)                                                                                                          \
    OP(slice_grad) /* dy, x (shape only) -> dx */                                                                      \
    OP(pad)                                                                                                            \
    OP(concat)                                                                                                         \
    OP(concat_grad) /* dy, x... (shape only) -> dx... */                                                               \
    OP(split)       /* x -> parts */                                                                                   \
    OP(expand_dims)                                                                                                    \
    OP(squeeze)                                                                                                        \
    OP(gather)      /* x, indices i32 */                                                                               \
    OP(gather_grad) /* dy, indices, x (shape only) -> dx */                                                            \
    OP(upsample2d)                                                                                                     \
    OP(upsample2d_grad) /* dy, x (shape only) -> dx */                                                                 \
    OP(all_replica_sum)                                                                                                \
    OP(stop_gradient)                                                                                                  \
    OP(dropout)        /* x, random */                                                                                 \
    OP(random_uniform) /* x (shape only), random */                                                                    \
    OP(dropout_grad)   /* dy, random */                                                                                \
    OP(cast)                                                                                                           \
    /* Updates mutate param and slots, all of one length. Inputs: param, grad, slots..., hyper. */                     \
    OP(sgd_update)      /* no slot */                                                                                  \
    OP(momentum_update) /* 1 slot */                                                                                   \
    OP(adam_update)     /* 2 slots: m, v */                                                                            \
    OP(rmsprop_update)  /* 2 slots: mean square, momentum */                                                           \
    OP(adagrad_update)  /* 1 slot: sum of squares */                                                                   \
    OP(lion_update)     /* 1 slot: m */                                                                                \
    OP(nadam_update)    /* 2 slots: m, v */                                                                            \
    OP(lamb_moments)    /* m (mutated), grad, v (mutated), hyper */                                                    \
    OP(lamb_update)     /* param (mutated), m, v, hyper */                                                             \
    OP(muon_momentum)   /* direction (mutated), grad, m (mutated), hyper */                                            \
    OP(muon_update)     /* param (mutated), direction, hyper */                                                        \
    OP(average_update)  /* average (mutated), param, hyper */                                                          \
    OP(overwrite)       /* param (mutated), average, hyper */                                                          \
    /* Slots are words (base/state_form.h), whole blocks; what stands before these is left alone. */                   \
    OP(momentum_packed) /* 1 slot */                                                                                   \
    OP(adam_packed)     /* 2 slots: m, v */                                                                            \
    OP(lion_packed)     /* 1 slot: m */                                                                                \
    OP(accumulate)      /* total (mutated) += x, of one shape */                                                       \
    OP(assign)          /* target (mutated) = x, of one shape */                                                       \
    OP(unscale)         /* gradients (mutated), tally (mutated) */                                                     \
    OP(overflow_check)  /* gradients, tally (mutated) */                                                               \
    OP(loss_scale)      /* scale (mutated), tally (mutated), found elsewhere -> whether the step is skipped, and steps \
                           skipped */                                                                                  \
    OP(update_numbers)  /* rows of hyper, what loss_scale gave -> hyper */

#define RF_LINEAR_OPS(OP)                                                                                              \
    OP(matmul)                  /* a, b[, bias] */                                                                     \
    OP(matmul_quantized)        /* x, words i32 of a matrix in few bits */                                             \
    OP(gather_quantized)        /* words, indices i32 */                                                               \
    OP(bias_add)                /* x [..., c], bias [c] */                                                             \
    OP(conv2d)                  /* x, kernel[, bias] */                                                                \
    OP(conv2d_data_grad)        /* dy, kernel, x (shape only) -> dx */                                                 \
    OP(conv2d_transpose)        /* x, kernel */                                                                        \
    OP(conv2d_filter_grad)      /* x, dy, kernel (shape only) -> dkernel[, dbias] */                                   \
    OP(conv2d_pool_filter_grad) /* x, gradient of 2 x 2 maxima of y, kernel (shape only), y -> dkernel[, dbias] */     \
    OP(attention)      /* query, key, value[, mask] -> weighted means of values, largest score and log of sum */       \
    OP(attention_grad) /* dout, query, key, value, out, sums [.., 2][, mask] -> dquery, dkey, dvalue */                \
    OP(rnn)            /* x, recurrent, bias[, h[, c]][, mask] -> h...[, c...] */                                      \
    OP(rnn_grad)       /* dh, recurrent, x, products, states[, dc][, mask] -> dx, dstate[, dcell | dproducts] */

#define RF_REDUCTION_OPS(OP)                                                                                           \
    OP(max_pool2d)                                                                                                     \
    OP(max_pool2d_grad) /* dy, x, y -> dx */                                                                           \
    OP(avg_pool2d)                                                                                                     \
    OP(avg_pool2d_grad) /* dy, x (shape only) -> dx */                                                                 \
    OP(reduce)                                                                                                         \
    OP(block_squares)  /* x -> sums of squares of blocks */                                                            \
    OP(lamb_norms)     /* param, m, v, hyper -> the same of parameters and steps */                                    \
    OP(mean_scale)     /* dy, x (shape only) -> dy * count(dy) / count(x): the gradient of a mean */                   \
    OP(batch_moments)  /* x [..., c] -> mean [c], variance [c] over all but the channels */                            \
    OP(batch_averages) /* x, average mean, average variance[, gamma] -> mean, variance, scale, both next averages */   \
    OP(batch_sums)     /* dy, x, mean, scale, variance[, shift] -> dgamma, dshift, slope, level [c] */                 \
    OP(argmax)                                                                                                         \
    OP(top_k)  /* x -> values, indices i32 */                                                                          \
    OP(cumsum) /* along the last axis */                                                                               \
    OP(cumprod)                                                                                                        \
    OP(cumprod_grad) /* dy, x -> dx */                                                                                 \
    OP(recurrence)   /* x, factors */                                                                                  \
    OP(softmax)                                                                                                        \
    OP(softmax_grad) /* dy, y */                                                                                       \
    OP(log_softmax)                                                                                                    \
    OP(log_softmax_grad) /* dy, y */                                                                                   \
    OP(layer_norm)       /* x[, gamma][, beta] -> y, mean, 1 / deviation */                                            \
    OP(layer_norm_grad)  /* dy, x, mean, 1 / deviation[, gamma] -> dx */                                               \
    OP(one_hot)                                                                                                        \
    OP(sparse_crossentropy)      /* labels i32, predictions */                                                         \
    OP(sparse_crossentropy_grad) /* labels, predictions, dloss */                                                      \
    OP(crossentropy)             /* labels f32, predictions */                                                         \
    OP(crossentropy_grad)        /* labels, predictions, dloss */                                                      \
    OP(ctc_loss)          /* log-probabilities [n, steps, classes], labels i32 [n, s][, lengths i32 [n]] -> [n] */     \
    OP(ctc_loss_grad)     /* dloss, log-probabilities, labels[, lengths] */                                            \
    OP(accuracy)          /* labels (i32 or one-hot f32), predictions -> f32 1 or 0 per example */                     \
    OP(metric_accumulate) /* state (mutated), x[, w] */

#define RF_ALL_OPS(OP)                                                                                                 \
    RF_POINTWISE_OPS(OP)                                                                                               \
    RF_LINEAR_OPS(OP)                                                                                                  \
    RF_REDUCTION_OPS(OP)

#endif
