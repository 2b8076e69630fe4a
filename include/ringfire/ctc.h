/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Connectionist temporal classification (Graves, Fernandez, Gomez & Schmidhuber 2006): networks
 * that read speech or writing, whose predictions have no fixed place in their input.
 *
 * A network predicts a class at each step, one of which is the blank. A sequence of classes spells
 * the labels that are left when repetitions become one and blanks are taken away. The loss is that
 * of all sequences that spell the labels together; decoders look for the labels behind predictions.
 */
#ifndef RINGFIRE_CTC_H
#define RINGFIRE_CTC_H

#include <ringfire/common.h>
#include <ringfire/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Options of rf_ctc_loss(). NULL or zeroed: the blank is class 0, and all steps count. */
typedef struct rf_ctc_params {
    int32_t blank; /**< the class that is no label */
    /**
     * Labels that no sequence of so many steps spells have loss and gradient 0, as PyTorch's option
     * says; otherwise the loss is infinite and the gradient NaN
     */
    bool zero_infinity;
    rf_tensor input_lengths; /**< i32 [n]: steps of each example. Zeroed: all */
    rf_tensor label_lengths; /**< i32 [n]: labels of each example. Zeroed: those before the first
                                  negative one */
    uint64_t reserved[4];    /**< zero: room for later fields */
} rf_ctc_params;
/**
 * In a step: labels i32 [n, s], predictions [n, steps, classes] -> losses per example [n], the
 * negative logarithm of the labels' probability. A negative label ends those of its example.
 * Logarithms of probabilities, as PyTorch's function takes them, are logits. Losses are not divided
 * by the number of labels, as PyTorch's "mean" does. `params` may be NULL.
 *
 * A label that is the blank or no class, and a length that is negative or beyond the steps, give
 * NaN. No gradient goes to labels and lengths. Probabilities of beginnings and rests of labels are
 * kept with exponents of their own, so that long sequences lose no digits.
 * @return the losses; the trace fails with RF_ERROR_INVALID_ARGUMENT for other shapes and types.
 */
RF_API rf_tensor rf_ctc_loss(rf_trace *t, rf_tensor labels, rf_tensor predictions,
                             rf_prediction_form form, const rf_ctc_params *params);

/** Options of decoders. NULL or zeroed: the blank is class 0, predictions are probabilities. */
typedef struct rf_ctc_decode_params {
    int32_t blank; /**< the class that is no label */
    rf_prediction_form form;
    const int32_t *input_lengths; /**< steps of each example; NULL: all */
    uint32_t beam_width;  /**< beginnings that a beam search keeps; 0: 100, as in TensorFlow */
    uint32_t num_paths;   /**< results of a beam search for each example, up to beam_width; 0: 1 */
    uint64_t reserved[4]; /**< zero: room for later fields */
} rf_ctc_decode_params;
/**
 * The labels that the most probable class of each step spells, on the host.
 * @param predictions f32 [n, steps, classes]
 * @param[out] labels i32 [n, longest]; -1 behind the last label of an example. Freed by the caller
 *   with rf_array_free(), as `scores`
 * @param[out] scores f32 [n]: the logarithm of the probability of these classes; NULL: not wanted
 * @return RF_ERROR_INVALID_ARGUMENT for other shapes and types, lengths and NaN.
 * Not collective; any thread may call it.
 */
RF_API RF_MUST_USE rf_result rf_ctc_greedy_decode(const rf_array *predictions,
                                                  const rf_ctc_decode_params *params,
                                                  rf_array *labels, rf_array *scores);
/**
 * The most probable labels by prefix beam search (Graves 2012; Hannun, Maas, Jurafsky & Ng 2014):
 * all sequences that spell the same labels count together. Otherwise as rf_ctc_greedy_decode().
 * @param[out] labels i32 [n, num_paths, longest], the most probable ones first
 * @param[out] scores f32 [n, num_paths]: the logarithm of the labels' probability, as far as the
 *   search has seen it; minus infinity for paths that do not exist
 */
RF_API RF_MUST_USE rf_result rf_ctc_beam_search_decode(const rf_array *predictions,
                                                       const rf_ctc_decode_params *params,
                                                       rf_array *labels, rf_array *scores);
/**
 * How many labels have to be put in, taken out or replaced (Levenshtein 1966) to make the labels of
 * decoded examples those of references: the sum over all examples, divided by the number of
 * reference labels, which is the character or word error rate.
 * @param decoded i32 [n, longest] or [n, paths, longest], of which the first path counts; a
 * negative label ends those of an example
 * @param references i32 [n, s], likewise
 * @return RF_ERROR_INVALID_ARGUMENT for other shapes and types, and references without labels.
 * Not collective; any thread may call it.
 */
RF_API RF_MUST_USE rf_result rf_edit_distance(const rf_array *decoded, const rf_array *references,
                                              double *out);

#ifdef __cplusplus
}
#endif
#endif
