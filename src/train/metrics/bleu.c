/* SPDX-License-Identifier: Apache-2.0 */
/* BLEU: how much sequences of tokens have in common with their references. */
#include <math.h>
#include <string.h>

#include <ringfire/metrics.h>

#include "base/error.h"
#include "base/memory.h"

enum { ORDERS = 4 };

typedef struct sequence {
    const int32_t *tokens;
    uint32_t length;
} sequence;

/* The n-grams of one sequence that find one of the other for themselves. `taken` has room for those of `b`. */
static uint64_t count_matches(sequence a, sequence b, uint32_t n, bool *taken)
{
    uint64_t matches = 0;
    if (a.length < n || b.length < n) return 0;
    memset(taken, 0, b.length * sizeof(bool));
    for (uint32_t i = 0; i + n <= a.length; i++) {
        for (uint32_t j = 0; j + n <= b.length; j++) {
            if (taken[j] || memcmp(a.tokens + i, b.tokens + j, n * sizeof(int32_t)) != 0) continue;
            taken[j] = true;
            matches++;
            break;
        }
    }
    return matches;
}

static rf_result check_sequences(const int32_t *const *sequences, const uint32_t *lengths, uint32_t count,
                                 const char *name)
{
    RF_REQUIRE(count == 0 || (sequences && lengths), "rf_bleu: %ss or %s_lengths is NULL", name, name);
    for (uint32_t i = 0; i < count; i++)
        RF_REQUIRE(sequences[i] || lengths[i] == 0, "rf_bleu: %s %u is NULL, but has %u tokens", name, i, lengths[i]);
    return RF_OK;
}

static double combine_orders(const uint64_t *matches, const uint64_t *possible, uint64_t length, uint64_t reference)
{
    double logs = 0;
    for (uint32_t n = 0; n < ORDERS; n++) {
        if (matches[n] == 0) return 0;
        logs += log((double)matches[n] / (double)possible[n]) / ORDERS;
    }
    return exp(logs + (length < reference ? 1 - (double)reference / (double)length : 0));
}

rf_result rf_bleu(const int32_t *const *candidates, const uint32_t *candidate_lengths, const int32_t *const *references,
                  const uint32_t *reference_lengths, uint32_t num_pairs, double *out)
{
    uint64_t matches[ORDERS] = { 0 }, possible[ORDERS] = { 0 }, length = 0, reference = 0;
    uint32_t longest = 1;
    RF_REQUIRE(out, "rf_bleu: out is NULL");
    *out = 0;
    RF_TRY(check_sequences(candidates, candidate_lengths, num_pairs, "candidate"));
    RF_TRY(check_sequences(references, reference_lengths, num_pairs, "reference"));
    for (uint32_t i = 0; i < num_pairs; i++)
        if (reference_lengths[i] > longest) longest = reference_lengths[i];
    bool *taken = RF_NEW_ARRAY(bool, longest);
    if (!taken) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < num_pairs; i++) {
        const sequence a = { candidates[i], candidate_lengths[i] }, b = { references[i], reference_lengths[i] };
        length += a.length;
        reference += b.length;
        for (uint32_t n = 1; n <= ORDERS; n++) {
            matches[n - 1] += count_matches(a, b, n, taken);
            possible[n - 1] += a.length < n ? 0 : a.length - n + 1;
        }
    }
    rf_free(taken);
    *out = combine_orders(matches, possible, length, reference);
    return RF_OK;
}
