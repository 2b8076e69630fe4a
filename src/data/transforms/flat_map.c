/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flat map, interleave: a function of the caller makes a dataset of each element of the input, and the elements of
 * these datasets are handed out. Up to `cycle_length` of them are open at a time and take turns of `block_length`
 * elements; flat map is a cycle of one.
 */
#include <string.h>

#include "base/params.h"
#include "data/pipeline.h"

typedef struct flat_step {
    rf_flat_map_fn fn;
    void *user;
} flat_step;

/* A place in the cycle, and the dataset that has it. */
typedef struct cycle_place {
    rf_dataset *dataset; /* NULL: none */
    rf_stage *stage;
    uint64_t number; /* of the element that the dataset was made of */
} cycle_place;

typedef struct cycle_state {
    struct {
        cycle_place *items;
        uint32_t count, capacity;
    } places;         /* made when they are first taken: a cycle may be longer than the input */
    uint32_t current; /* place whose turn it is; `places.count`: of the next that is made */
    uint64_t taken;   /* elements of this turn */
    uint32_t open;    /* places with a dataset */
    bool input_ended;
} cycle_state;

static rf_result open_cycle(rf_stage *stage)
{
    stage->data = RF_NEW(cycle_state); /* read in order, whatever the inputs are */
    return stage->data ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static void close_place(cycle_place *place)
{
    rf_stage_close(&place->stage);
    rf_dataset_destroy(&place->dataset);
}

static void close_cycle(rf_stage *stage)
{
    cycle_state *c = stage->data;
    if (!c) return;
    for (uint32_t i = 0; i < c->places.count; i++) close_place(&c->places.items[i]);
    rf_free(c->places.items);
    rf_free(c);
}

static void begin_turn(const rf_stage *stage, cycle_state *c)
{
    const uint64_t length = c->input_ended ? c->places.count : stage->dataset->count;
    c->taken = 0;
    c->current = c->current + 1 < length ? c->current + 1 : 0;
}

/* Makes a dataset of `in` with the function, and checks it. */
static rf_result make_dataset(const rf_stage *stage, const rf_element *in, rf_dataset **out)
{
    const flat_step *step = stage->dataset->data;
    rf_dataset *made = NULL;
    const uint64_t before = rf_error_count();
    RF_TRY(rf_error_of_user(step->fn(step->user, in, &made), before, "the function"));
    RF_REQUIRE(made, "the function made no dataset");
    const rf_result r =
        rf_spec_check_same(&made->spec, "the dataset that the function made", &stage->dataset->spec, "the spec");
    if (r == RF_OK)
        *out = made;
    else
        rf_dataset_destroy(&made);
    return r;
}

/* Gives the current place to the dataset of the input's next element. A failure leaves the place free and the element
 * to the next call. RF_END: there is none. */
static rf_result take_place(rf_stage *stage, cycle_state *c)
{
    const rf_element *in;
    const rf_result r = rf_stage_peek_input(stage, &in);
    if (r != RF_OK) return r;
    cycle_place made = { .number = stage->input->position - 1 };
    rf_result opened = make_dataset(stage, in, &made.dataset);
    if (opened == RF_OK) opened = rf_stage_open(made.dataset, stage->epoch, &made.stage);
    if (opened == RF_OK && c->current == c->places.count) {
        opened = RF_VEC_GROW(&c->places);
        if (opened == RF_OK) c->places.count++;
    }
    if (opened < 0) {
        close_place(&made);
        return rf_error_context(opened, "%s, element %llu of its input", stage->dataset->kind->name,
                                (unsigned long long)made.number);
    }
    c->places.items[c->current] = made;
    c->open++;
    rf_stage_take_input(stage);
    return RF_OK;
}

/* As tf.data's interleave does it: a dataset that ends gives the turn to the next place, and its own place is taken
 * when it has its turn again. `out` NULL: the element is passed over. */
static rf_result next_of_cycle(rf_stage *stage, const rf_element **out)
{
    cycle_state *c = stage->data;
    while (!c->input_ended || c->open > 0) {
        cycle_place *place = c->current < c->places.count ? &c->places.items[c->current] : NULL;
        if (place && place->dataset) {
            const rf_result r = out ? rf_stage_next(place->stage, out) : rf_stage_pass_over(place->stage);
            if (r < 0)
                return rf_error_context(r, "%s, dataset of element %llu", stage->dataset->kind->name,
                                        (unsigned long long)place->number);
            if (r == RF_OK) {
                if (++c->taken == stage->dataset->seed) begin_turn(stage, c);
                return RF_OK;
            }
            close_place(place);
            c->open--;
            begin_turn(stage, c);
        } else if (c->input_ended) {
            begin_turn(stage, c);
        } else {
            const rf_result r = take_place(stage, c);
            if (r < 0) return r;
            c->input_ended = r == RF_END;
        }
    }
    return RF_END;
}

static rf_result pass_over_one(rf_stage *stage)
{
    return next_of_cycle(stage, NULL);
}

/* The failure is that of the dataset whose turn it is, the function, which keeps its element, or the input. */
static rf_result drop_of_cycle(rf_stage *stage)
{
    const cycle_state *c = stage->data;
    const cycle_place *place = c->current < c->places.count ? &c->places.items[c->current] : NULL;
    if (place && place->dataset) return rf_stage_drop(place->stage);
    if (!stage->pending) return rf_stage_drop(stage->input);
    rf_stage_take_input(stage);
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_flat_map = {
    .name = "flat_map",
    .open = open_cycle,
    .close = close_cycle,
    .next = next_of_cycle,
    .pass_over = pass_over_one,
    .drop = drop_of_cycle,
    .free_dataset = rf_dataset_free_data,
};

const rf_dataset_kind rf_dataset_kind_interleave = {
    .name = "interleave",
    .open = open_cycle,
    .close = close_cycle,
    .next = next_of_cycle,
    .pass_over = pass_over_one,
    .drop = drop_of_cycle,
    .free_dataset = rf_dataset_free_data,
};

/* ---- creation ---- */

static rf_result make_cycle(const rf_dataset *in, const rf_dataset_kind *kind, flat_step step,
                            const rf_element_spec *spec, uint32_t cycle_length, uint32_t block_length, rf_dataset **out)
{
    rf_dataset *probe; /* checks the spec */
    RF_TRY(rf_dataset_new(kind, spec, &probe));
    rf_dataset_destroy(&probe);
    RF_TRY(rf_dataset_derive(in, kind, out));
    rf_dataset *d = *out;
    flat_step *copy = d->data = RF_NEW(flat_step);
    if (!copy) {
        rf_dataset_destroy(out);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    *copy = step;
    d->spec = *spec;
    d->count = cycle_length;
    d->seed = block_length;
    d->batch_size = 0; /* of the datasets that the function will make, nobody knows */
    if (in->cardinality > 0) d->cardinality = RF_CARDINALITY_UNKNOWN;
    return RF_OK;
}

rf_result rf_dataset_flat_map(const rf_dataset *in, rf_flat_map_fn fn, void *user, const rf_element_spec *spec,
                              rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_flat_map: out is NULL");
    *out = NULL;
    RF_REQUIRE(in && fn && spec, "rf_dataset_flat_map: an argument is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_element_spec, spec));
    return make_cycle(in, &rf_dataset_kind_flat_map, (flat_step){ fn, user }, spec, 1, 1, out);
}

rf_result rf_dataset_interleave(const rf_dataset *in, rf_flat_map_fn fn, void *user, const rf_element_spec *spec,
                                const rf_interleave_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_interleave: out is NULL");
    *out = NULL;
    RF_REQUIRE(in && fn && spec && params, "rf_dataset_interleave: an argument is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_element_spec, spec));
    RF_TRY(RF_PARAMS_CHECK(rf_interleave_params, params));
    RF_REQUIRE(params->cycle_length > 0, "rf_dataset_interleave: cycle_length is 0; give the number of datasets that "
                                         "take turns");
    const uint32_t block_length = params->block_length ? params->block_length : 1;
    return make_cycle(in, &rf_dataset_kind_interleave, (flat_step){ fn, user }, spec, params->cycle_length,
                      block_length, out);
}
