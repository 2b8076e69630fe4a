/* SPDX-License-Identifier: Apache-2.0 */
#include "train/generate/sample.h"

#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/params.h"
#include "base/philox.h"

rf_result rf_sampling_check(const rf_sampling_params *p, const char *function)
{
    RF_REQUIRE(p->temperature >= 0.0f && isfinite(p->temperature), "%s: temperature %g must be positive and finite",
               function, (double)p->temperature);
    RF_REFUSE_ZERO(p->temperature, "temperature", "0 chooses the likeliest token");
    RF_REQUIRE(p->top_p >= 0.0f && p->top_p <= 1.0f, "%s: top_p %g is not a probability", function, (double)p->top_p);
    RF_REFUSE_ZERO(p->top_p, "top_p", "it must be positive; 0 leaves all tokens");
    RF_REQUIRE(p->min_p >= 0.0f && p->min_p <= 1.0f, "%s: min_p %g is not a part of a probability", function,
               (double)p->min_p);
    RF_REFUSE_ZERO(p->min_p, "min_p", "it must be positive; 0 leaves all tokens");
    RF_REQUIRE(p->repetition_penalty >= 0.0f && isfinite(p->repetition_penalty),
               "%s: repetition_penalty %g must be positive and finite", function, (double)p->repetition_penalty);
    RF_REFUSE_ZERO(p->repetition_penalty, "repetition_penalty", "it must be positive; 0 leaves logits as they are");
    return RF_OK;
}

double rf_sampling_uniform(uint64_t seed, uint32_t prompt, uint32_t place)
{
    const rf_philox4 bits = rf_philox(seed, place, prompt);
    return (double)(((uint64_t)bits.v[0] << 21) ^ (bits.v[1] >> 11)) * 0x1p-53;
}

static float penalize_logit(float logit, float penalty)
{
    return logit > 0.0f ? logit / penalty : logit * penalty;
}

/* The largest logit, of equal ones the first token's. */
static rf_candidate find_best(const rf_candidate *candidates, uint32_t count)
{
    rf_candidate best = candidates[0];
    for (uint32_t i = 1; i < count; i++)
        if (candidates[i].logit > best.logit) best = candidates[i];
    return best;
}

static int compare_candidates(const void *a, const void *b)
{
    const rf_candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

/* Not normalised: that of the largest logit is 1. */
static double weigh_candidate(const rf_sampling_params *p, const rf_candidate *c, float largest)
{
    return exp(((double)c->logit - (double)largest) / (double)p->temperature);
}

/* How many of the sorted candidates together have the probability. */
static uint32_t count_nucleus(const rf_sampling_params *p, const rf_candidate *candidates, uint32_t count)
{
    double sum = 0.0, part = 0.0;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) sum += weigh_candidate(p, &candidates[i], candidates[0].logit);
    while (kept < count && (kept == 0 || part < (double)p->top_p * sum))
        part += weigh_candidate(p, &candidates[kept++], candidates[0].logit);
    return kept;
}

static int32_t draw_token(const rf_sampling_params *p, const rf_candidate *candidates, uint32_t count, float largest,
                          double uniform)
{
    double sum = 0.0, part = 0.0;
    int32_t token = candidates[0].token;
    for (uint32_t i = 0; i < count; i++) {
        const double weight = weigh_candidate(p, &candidates[i], largest);
        if (weight >= (double)p->min_p) sum += weight;
    }
    for (uint32_t i = 0; i < count; i++) {
        const double weight = weigh_candidate(p, &candidates[i], largest);
        if (weight < (double)p->min_p || weight == 0.0) continue;
        token = candidates[i].token;
        part += weight;
        if (part > uniform * sum) break;
    }
    return token;
}

rf_result rf_sample_token(const rf_sampling_params *p, const float *logits, uint32_t vocabulary, const int32_t *text,
                          uint32_t length, double uniform, rf_candidate *candidates, int32_t *token)
{
    for (uint32_t i = 0; i < vocabulary; i++) {
        if (isnan(logits[i])) return RF_FAIL(RF_ERROR_NOT_FINITE, "the logit of token %u is NaN", i);
        candidates[i] = (rf_candidate){ logits[i], (int32_t)i };
    }
    for (uint32_t i = 0; p->repetition_penalty != 0.0f && i < length; i++)
        candidates[text[i]].logit = penalize_logit(logits[text[i]], p->repetition_penalty);
    const rf_candidate best = find_best(candidates, vocabulary);
    if (!isfinite(best.logit)) return RF_FAIL(RF_ERROR_NOT_FINITE, "the largest logit is %g", (double)best.logit);
    *token = best.token;
    if (p->temperature == 0.0f) return RF_OK;
    uint32_t count = vocabulary;
    if (p->top_k != 0 || p->top_p != 0.0f) qsort(candidates, count, sizeof(*candidates), compare_candidates);
    if (p->top_k != 0 && p->top_k < count) count = p->top_k;
    if (p->top_p != 0.0f) count = count_nucleus(p, candidates, count);
    *token = draw_token(p, candidates, count, best.logit, uniform);
    return RF_OK;
}
