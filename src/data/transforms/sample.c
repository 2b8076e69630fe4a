/* SPDX-License-Identifier: Apache-2.0 */
/* sample: for each element one of several inputs is drawn, by weight. */
#include <math.h>

#include "base/params.h"
#include "base/philox.h"
#include "data/transforms/inputs.h"

enum { MOST_INPUTS = 65535, NUMBER_BITS = 48 };

typedef struct sample_step {
    bool stop_on_empty;
    double weights[]; /* [inputs] */
} sample_step;

/* The draws of a pass: which inputs have ended, and how many numbers have been drawn. */
typedef struct sample_draws {
    rf_random_key key; /* its index is that of the next draw */
    bool *ended;       /* [inputs] */
    uint32_t count;
} sample_draws;

typedef struct sample_pass {
    rf_input_set inputs;
    sample_draws draws;
    bool drawn; /* in order: `current` is to give the next element */
    uint32_t current;
    uint64_t *places; /* indexed: the input and, in the lower bits, the number of each element */
} sample_pass;

/* The next input by weight, of those that have not ended. False: there is none with a weight. */
static bool draw_input(const sample_step *step, sample_draws *draws, uint32_t *out)
{
    double sum = 0;
    for (uint32_t i = 0; i < draws->count; i++)
        if (!draws->ended[i]) sum += step->weights[i];
    if (sum <= 0) return false;
    const uint64_t bits = rf_random_key_below(draws->key, 0, UINT64_C(1) << 53);
    double left = (double)bits * 0x1p-53 * sum;
    draws->key.index++;
    for (uint32_t i = 0; i < draws->count; i++) {
        if (draws->ended[i] || step->weights[i] <= 0) continue;
        *out = i; /* the last of them where rounding leaves something */
        left -= step->weights[i];
        if (left < 0) break;
    }
    return true;
}

/* After the input drawn had no element. False: the pass ends. */
static bool go_on_without(const sample_step *step, sample_draws *draws, uint32_t input)
{
    draws->ended[input] = true;
    return !step->stop_on_empty;
}

/* ---- fetched by number: all draws are made when the pass begins ---- */

static rf_result draw_places(rf_stage *stage, const sample_step *step)
{
    sample_pass *pass = stage->data;
    uint64_t most = 0;
    for (uint32_t i = 0; i < pass->inputs.count; i++) most += pass->inputs.stages[i]->count;
    uint64_t *used = RF_NEW_ARRAY(uint64_t, pass->inputs.count);
    pass->places = RF_NEW_ARRAY(uint64_t, most);
    rf_result r = used && pass->places ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t i;
    while (r == RF_OK && draw_input(step, &pass->draws, &i)) {
        if (used[i] < pass->inputs.stages[i]->count)
            pass->places[stage->count++] = (uint64_t)i << NUMBER_BITS | used[i]++;
        else if (!go_on_without(step, &pass->draws, i))
            break;
    }
    rf_free(used);
    return r;
}

static rf_result get_sampled(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const sample_pass *pass = stage->data;
    const uint64_t place = pass->places[index];
    rf_stage *input = pass->inputs.stages[place >> NUMBER_BITS];
    return input->dataset->kind->get(input, place & ((UINT64_C(1) << NUMBER_BITS) - 1), out);
}

/* ---- read in order ---- */

/* `out` NULL: the element is passed over. An input that fails stays drawn, for the next call. */
static rf_result next_sampled(rf_stage *stage, const rf_element **out)
{
    const sample_step *step = stage->dataset->data;
    sample_pass *pass = stage->data;
    for (;;) {
        if (!pass->drawn && !draw_input(step, &pass->draws, &pass->current)) return RF_END;
        pass->drawn = true;
        rf_stage *input = pass->inputs.stages[pass->current];
        const rf_result r = out ? rf_stage_next(input, out) : rf_stage_pass_over(input);
        if (r < 0) return r;
        if (r == RF_END && !go_on_without(step, &pass->draws, pass->current))
            return RF_END; /* and again: it is drawn */
        pass->drawn = false;
        if (r == RF_OK) return r;
    }
}

static rf_result pass_over_sampled(rf_stage *stage)
{
    return next_sampled(stage, NULL);
}

static rf_result drop_sampled(rf_stage *stage)
{
    sample_pass *pass = stage->data;
    RF_TRY(rf_stage_drop(pass->inputs.stages[pass->current]));
    pass->drawn = false;
    return RF_OK;
}

static void close_sampled(rf_stage *stage)
{
    sample_pass *pass = stage->data;
    if (!pass) return;
    rf_inputs_close(&pass->inputs);
    rf_free(pass->draws.ended);
    rf_free(pass->places);
    rf_free(pass);
}

static rf_result open_sampled(rf_stage *stage)
{
    sample_pass *pass = stage->data = RF_NEW(sample_pass);
    if (!pass) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_inputs_open(stage, &pass->inputs));
    pass->draws = (sample_draws){ .key = { stage->dataset->seed, stage->epoch, 0 }, .count = pass->inputs.count };
    pass->draws.ended = RF_NEW_ARRAY(bool, pass->inputs.count);
    if (!pass->draws.ended) return RF_ERROR_OUT_OF_HOST_MEMORY;
    stage->count = 0;
    return stage->indexed ? draw_places(stage, stage->dataset->data) : RF_OK;
}

const rf_dataset_kind rf_dataset_kind_sample = {
    .name = "sample",
    .open = open_sampled,
    .close = close_sampled,
    .get = get_sampled,
    .next = next_sampled,
    .pass_over = pass_over_sampled,
    .drop = drop_sampled,
    .free_dataset = rf_dataset_free_data,
};

/* ---- creation ---- */

static double weight_of(const rf_sample_params *p, uint32_t input)
{
    return p->weights ? p->weights[input] : 1;
}

static rf_result check_inputs(const rf_dataset *const *in, uint32_t num_in, const rf_sample_params *p)
{
    double sum = 0;
    RF_REQUIRE(in && num_in > 0, "rf_dataset_sample: no datasets given");
    RF_REQUIRE(num_in <= MOST_INPUTS, "rf_dataset_sample: %u datasets; give at most %d", num_in, MOST_INPUTS);
    for (uint32_t i = 0; i < num_in; i++) {
        RF_REQUIRE(in[i], "rf_dataset_sample: dataset %u is NULL", i);
        RF_TRY(rf_error_context(rf_spec_check_same(&in[0]->spec, "dataset 0", &in[i]->spec, "another one"),
                                "rf_dataset_sample"));
        RF_REQUIRE(isfinite(weight_of(p, i)) && weight_of(p, i) >= 0, "rf_dataset_sample: weight %u is %g", i,
                   weight_of(p, i));
        sum += weight_of(p, i);
    }
    RF_REQUIRE(sum > 0 && isfinite(sum), "rf_dataset_sample: the weights have the sum %g; one has to be above 0", sum);
    return RF_OK;
}

/* Inputs without a weight count for nothing. */
static int64_t sampled_cardinality(const rf_dataset *const *in, uint32_t num_in, const rf_sample_params *p)
{
    int64_t sum = 0;
    bool all_infinite = true;
    for (uint32_t i = 0; i < num_in; i++) {
        if (weight_of(p, i) <= 0) continue;
        all_infinite &= in[i]->cardinality == RF_CARDINALITY_INFINITE;
        sum = rf_cardinality_sum(sum, in[i]->cardinality);
    }
    return p->stop_on_empty && !all_infinite ? RF_CARDINALITY_UNKNOWN : sum;
}

rf_result rf_dataset_sample(const rf_dataset *const *in, uint32_t num_in, const rf_sample_params *params,
                            rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_sample: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_sample_params, params));
    const rf_sample_params p = params ? *params : (rf_sample_params){ 0 };
    RF_TRY(check_inputs(in, num_in, &p));
    RF_TRY(rf_dataset_derive_from_all(in, num_in, &rf_dataset_kind_sample, out));
    rf_dataset *d = *out;
    sample_step *step = d->data = rf_calloc(1, sizeof(sample_step) + num_in * sizeof(double));
    if (!step) {
        rf_dataset_destroy(out);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    step->stop_on_empty = p.stop_on_empty;
    for (uint32_t i = 0; i < num_in; i++) step->weights[i] = weight_of(&p, i);
    d->seed = p.seed;
    d->flag = p.stop_on_empty;
    d->count = rf_hash_bytes(step->weights, num_in * sizeof(double), num_in); /* for positions */
    d->cardinality = sampled_cardinality(in, num_in, &p);
    return RF_OK;
}
