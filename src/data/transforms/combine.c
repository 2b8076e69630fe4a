/* SPDX-License-Identifier: Apache-2.0 */
/* zip puts the elements of several inputs side by side, concatenate one after the other. */
#include "data/transforms/inputs.h"

typedef struct combined {
    rf_input_set inputs;
    const rf_element **pending; /* [inputs]; zip in order: fetched, but not used yet */
    uint32_t current;           /* concatenate in order: that is being read */
} combined;

void rf_inputs_close(rf_input_set *set)
{
    for (uint32_t i = 1; set->stages && i < set->count; i++) rf_stage_close(&set->stages[i]);
    rf_free(set->stages);
}

rf_result rf_inputs_open(rf_stage *stage, rf_input_set *set)
{
    const rf_dataset *d = stage->dataset;
    set->count = d->num_others + 1;
    set->stages = RF_NEW_ARRAY(rf_stage *, set->count);
    if (!set->stages) return RF_ERROR_OUT_OF_HOST_MEMORY;
    set->stages[0] = stage->input;
    stage->indexed = stage->input->indexed;
    for (uint32_t i = 1; i < set->count; i++) {
        RF_TRY(rf_stage_open(d->others[i - 1], stage->epoch, &set->stages[i]));
        stage->indexed = stage->indexed && set->stages[i]->indexed;
    }
    return RF_OK;
}

static void close_inputs(rf_stage *stage)
{
    combined *both = stage->data;
    if (!both) return;
    rf_inputs_close(&both->inputs);
    rf_free(both->pending);
    rf_free(both);
}

static rf_result open_inputs(rf_stage *stage)
{
    combined *both = stage->data = RF_NEW(combined);
    if (!both) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_inputs_open(stage, &both->inputs));
    both->pending = RF_NEW_ARRAY(const rf_element *, both->inputs.count);
    return both->pending ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

rf_result rf_dataset_derive_from_all(const rf_dataset *const *in, uint32_t num_in, const rf_dataset_kind *kind,
                                     rf_dataset **out)
{
    RF_TRY(rf_dataset_derive(in[0], kind, out));
    rf_dataset *d = *out;
    d->others = RF_NEW_ARRAY(rf_dataset *, num_in - 1);
    if (!d->others) {
        rf_dataset_destroy(out);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    for (uint32_t i = 1; i < num_in; i++) {
        d->others[d->num_others++] = rf_dataset_retain(in[i]);
        if (in[i]->batch_size != d->batch_size) d->batch_size = 0;
    }
    return RF_OK;
}

/* ---- zip ---- */

static rf_result open_zip(rf_stage *stage)
{
    RF_TRY(open_inputs(stage));
    const rf_input_set *set = &((const combined *)stage->data)->inputs;
    for (uint32_t i = 0; stage->indexed && i < set->count; i++)
        if (i == 0 || set->stages[i]->count < stage->count) stage->count = set->stages[i]->count;
    return RF_OK;
}

/* Appends what input `i` gave. Shares of a global batch must be the same share of all inputs. */
static rf_result add_components(rf_stage *stage, uint32_t i, const rf_element *in)
{
    rf_element *e = &stage->element;
    if (i == 0) {
        e->num_components = 0;
        e->first_row = in->first_row;
        e->global_rows = in->global_rows;
    }
    if (in->first_row != e->first_row || in->global_rows != e->global_rows)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "zip: dataset %u gives other rows of the global batch than dataset 0; zip first, then "
                       "distribute",
                       i);
    for (uint32_t c = 0; c < in->num_components; c++) e->component[e->num_components++] = in->component[c];
    return RF_OK;
}

static rf_result get_zipped(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_input_set *set = &((const combined *)stage->data)->inputs;
    for (uint32_t i = 0; i < set->count; i++) {
        const rf_element *in;
        RF_TRY(set->stages[i]->dataset->kind->get(set->stages[i], index, &in));
        RF_TRY(add_components(stage, i, in));
    }
    *out = &stage->element;
    return RF_OK;
}

/* An element that one input gave before another failed is used by the next call. */
static rf_result next_zipped(rf_stage *stage, const rf_element **out)
{
    combined *both = stage->data;
    const rf_input_set *set = &both->inputs;
    for (uint32_t i = 0; i < set->count; i++) {
        if (both->pending[i]) continue;
        const rf_result r = rf_stage_next(set->stages[i], &both->pending[i]);
        if (r != RF_OK) {
            both->pending[i] = NULL;
            return r;
        }
    }
    for (uint32_t i = 0; i < set->count; i++) RF_TRY(add_components(stage, i, both->pending[i]));
    for (uint32_t i = 0; i < set->count; i++) both->pending[i] = NULL;
    *out = &stage->element;
    return RF_OK;
}

/* The inputs stay side by side: each loses an element, the one that failed the element that it failed at. */
static rf_result drop_zipped(rf_stage *stage)
{
    combined *both = stage->data;
    const rf_input_set *set = &both->inputs;
    bool whole = true; /* all inputs so far had given theirs */
    for (uint32_t i = 0; i < set->count; i++) {
        const bool failed = whole && !both->pending[i];
        if (!both->pending[i] && (failed || rf_stage_pass_over(set->stages[i]) < 0))
            RF_TRY(rf_stage_drop(set->stages[i]));
        whole = whole && both->pending[i];
        both->pending[i] = NULL;
    }
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_zip = {
    .name = "zip",
    .open = open_zip,
    .close = close_inputs,
    .get = get_zipped,
    .next = next_zipped,
    .drop = drop_zipped,
};

static int64_t zipped_cardinality(const rf_dataset *const *in, uint32_t num_in)
{
    int64_t least = RF_CARDINALITY_INFINITE;
    for (uint32_t i = 0; i < num_in; i++) {
        const int64_t count = in[i]->cardinality;
        if (count == RF_CARDINALITY_UNKNOWN) return count;
        if (count >= 0 && (least < 0 || count < least)) least = count;
    }
    return least;
}

rf_result rf_dataset_zip(const rf_dataset *const *in, uint32_t num_in, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_zip: out is NULL");
    *out = NULL;
    RF_REQUIRE(in && num_in > 0, "rf_dataset_zip: no datasets given");
    rf_element_spec spec = { 0 };
    for (uint32_t i = 0; i < num_in; i++) {
        RF_REQUIRE(in[i], "rf_dataset_zip: dataset %u is NULL", i);
        const rf_element_spec *more = &in[i]->spec;
        RF_REQUIRE(more->num_components <= RF_MAX_COMPONENTS - spec.num_components,
                   "rf_dataset_zip: with dataset %u the elements have more than %d components", i, RF_MAX_COMPONENTS);
        for (uint32_t c = 0; c < more->num_components; c++) {
            spec.dtype[spec.num_components] = more->dtype[c];
            spec.shape[spec.num_components++] = more->shape[c];
        }
    }
    RF_TRY(rf_dataset_derive_from_all(in, num_in, &rf_dataset_kind_zip, out));
    (*out)->spec = spec;
    (*out)->cardinality = zipped_cardinality(in, num_in);
    return RF_OK;
}

/* ---- concatenate ---- */

static rf_result open_concatenation(rf_stage *stage)
{
    RF_TRY(open_inputs(stage));
    const rf_input_set *set = &((const combined *)stage->data)->inputs;
    for (uint32_t i = 0; stage->indexed && i < set->count; i++) stage->count += set->stages[i]->count;
    return RF_OK;
}

static rf_result get_concatenated(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_input_set *set = &((const combined *)stage->data)->inputs;
    uint32_t i = 0;
    for (; index >= set->stages[i]->count; i++) index -= set->stages[i]->count;
    return set->stages[i]->dataset->kind->get(set->stages[i], index, out);
}

/* `out` NULL: the element is passed over. */
static rf_result next_concatenated(rf_stage *stage, const rf_element **out)
{
    combined *both = stage->data;
    const rf_input_set *set = &both->inputs;
    for (; both->current < set->count; both->current++) {
        rf_stage *input = set->stages[both->current];
        const rf_result r = out ? rf_stage_next(input, out) : rf_stage_pass_over(input);
        if (r != RF_END) return r;
    }
    return RF_END;
}

static rf_result pass_over_concatenated(rf_stage *stage)
{
    return next_concatenated(stage, NULL);
}

static rf_result drop_concatenated(rf_stage *stage)
{
    const combined *both = stage->data;
    return rf_stage_drop(both->inputs.stages[both->current]);
}

const rf_dataset_kind rf_dataset_kind_concatenate = {
    .name = "concatenate",
    .open = open_concatenation,
    .close = close_inputs,
    .get = get_concatenated,
    .next = next_concatenated,
    .pass_over = pass_over_concatenated,
    .drop = drop_concatenated,
};

int64_t rf_cardinality_sum(int64_t a, int64_t b)
{
    int64_t sum;
    if (a == RF_CARDINALITY_INFINITE || b == RF_CARDINALITY_INFINITE) return RF_CARDINALITY_INFINITE;
    if (a == RF_CARDINALITY_UNKNOWN || b == RF_CARDINALITY_UNKNOWN) return RF_CARDINALITY_UNKNOWN;
    return __builtin_add_overflow(a, b, &sum) ? RF_CARDINALITY_INFINITE : sum;
}

rf_result rf_dataset_concatenate(const rf_dataset *in, const rf_dataset *next, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_concatenate: out is NULL");
    *out = NULL;
    RF_REQUIRE(in && next, "rf_dataset_concatenate: %s is NULL", in ? "next" : "in");
    RF_TRY(rf_error_context(rf_spec_check_same(&in->spec, "one dataset", &next->spec, "the other"),
                            "rf_dataset_concatenate"));
    const rf_dataset *both[] = { in, next };
    RF_TRY(rf_dataset_derive_from_all(both, 2, &rf_dataset_kind_concatenate, out));
    (*out)->cardinality = rf_cardinality_sum(in->cardinality, next->cardinality);
    return RF_OK;
}
