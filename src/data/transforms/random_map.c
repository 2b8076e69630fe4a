/* SPDX-License-Identifier: Apache-2.0 */
/* Maps that draw random numbers, each element's from a key of its own. */
#include <string.h>

#include "base/params.h"
#include "base/philox.h"
#include "data/pipeline.h"

/* ---- keys ---- */

static uint64_t draw_bits(rf_random_key key, uint64_t draw)
{
    const rf_philox4 x = rf_philox(rf_hash64(key.seed, key.epoch), key.index, draw);
    return (uint64_t)x.v[1] << 32 | x.v[0];
}

uint64_t rf_random_key_below(rf_random_key key, uint64_t draw, uint64_t bound)
{
    rf_rng rng = { .key = draw_bits(key, draw) };
    return bound ? rf_rng_below(&rng, bound) : 0;
}

float rf_random_key_uniform(rf_random_key key, uint64_t draw)
{
    return rf_uniform_from_bits((uint32_t)(draw_bits(key, draw) >> 32));
}

double rf_random_key_normal(rf_random_key key, uint64_t draw)
{
    rf_rng rng = { .key = draw_bits(key, draw) };
    return rf_rng_normal(&rng);
}

/* ---- the step ---- */

typedef struct random_step {
    rf_random_map_fn fn;
    void *user;
} random_step;

static rf_result open_step(rf_stage *stage)
{
    stage->indexed = stage->input->indexed;
    stage->count = stage->input->count;
    return rf_stage_allocate_element(stage, &stage->dataset->spec);
}

static rf_result random_map_apply(rf_stage *stage, uint64_t index, const rf_element *in, const rf_element **out)
{
    const random_step *step = stage->dataset->data;
    const rf_random_key key = { stage->dataset->seed, stage->epoch, index };
    rf_element_place(&stage->element, &stage->dataset->spec,
                     stage->element_memory); /* whatever the last call made of it */
    const uint64_t before = rf_error_count();
    const rf_result r = rf_error_of_user(step->fn(step->user, key, in, &stage->element), before, "the function");
    if (r < 0) return rf_error_context(r, "random map, element %llu", (unsigned long long)index);
    RF_TRY(RF_PARAMS_CHECK(rf_element, &stage->element));
    stage->element.first_row = in->first_row;
    stage->element.global_rows = in->global_rows;
    *out = &stage->element;
    return RF_OK;
}

static rf_result get_mapped(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_element *in;
    RF_TRY(stage->input->dataset->kind->get(stage->input, index, &in));
    return random_map_apply(stage, index, in, out);
}

static rf_result next_mapped(rf_stage *stage, const rf_element **out)
{
    const rf_element *in;
    rf_result r = rf_stage_peek_input(stage, &in);
    if (r == RF_OK) r = random_map_apply(stage, stage->position, in, out);
    if (r == RF_OK) rf_stage_take_input(stage);
    return r;
}

const rf_dataset_kind rf_dataset_kind_random_map = {
    .name = "random map",
    .open = open_step,
    .get = get_mapped,
    .next = next_mapped,
    .pass_over = rf_stage_pass_over_input,
    .free_dataset = rf_dataset_free_data,
};

/* The step, and `size` bytes behind it. */
static rf_result make_step(const rf_dataset *in, const random_step *step, size_t size, uint64_t seed,
                           const rf_element_spec *spec, rf_dataset **out)
{
    RF_TRY(rf_dataset_derive_with(in, &rf_dataset_kind_random_map, sizeof(random_step) + size, out));
    random_step *copy = (*out)->data;
    *copy = *step;
    (*out)->seed = seed;
    (*out)->spec = *spec;
    return RF_OK;
}

rf_result rf_dataset_derive_random(const rf_dataset *in, rf_random_map_fn fn, const void *settings, size_t size,
                                   uint64_t seed, const rf_element_spec *spec, rf_dataset **out)
{
    RF_TRY(make_step(in, &(random_step){ .fn = fn }, size, seed, spec, out));
    random_step *step = (*out)->data;
    step->user = step + 1;
    memcpy(step->user, settings, size);
    return RF_OK;
}

rf_result rf_dataset_map_random(const rf_dataset *in, rf_random_map_fn fn, void *user, uint64_t seed,
                                const rf_element_spec *spec, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_map_random: out is NULL");
    *out = NULL;
    RF_REQUIRE(in && fn && spec, "rf_dataset_map_random: an argument is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_element_spec, spec));
    rf_dataset *probe; /* checks the spec */
    RF_TRY(rf_dataset_new(&rf_dataset_kind_random_map, spec, &probe));
    rf_dataset_destroy(&probe);
    return make_step(in, &(random_step){ .fn = fn, .user = user }, 0, seed, spec, out);
}
