/* SPDX-License-Identifier: Apache-2.0 */
/* The elements that a function of the caller keeps. How many there are is known when they have been read. */
#include "data/pipeline.h"

typedef struct filter_step {
    rf_filter_fn fn;
    void *user;
} filter_step;

static rf_result next_kept(rf_stage *stage, const rf_element **out)
{
    const filter_step *step = stage->dataset->data;
    for (;;) {
        const rf_element *in;
        const rf_result r = rf_stage_peek_input(stage, &in);
        if (r != RF_OK) return r;
        bool keep = false;
        const uint64_t before = rf_error_count();
        const rf_result said = rf_error_of_user(step->fn(step->user, in, &keep), before, "the function");
        if (said < 0)
            return rf_error_context(said, "filter, element %llu of its input",
                                    (unsigned long long)stage->input->position - 1);
        rf_stage_take_input(stage);
        if (!keep) continue;
        *out = in;
        return RF_OK;
    }
}

const rf_dataset_kind rf_dataset_kind_filter = {
    .name = "filter",
    .open = rf_stage_open_in_order,
    .next = next_kept,
    .free_dataset = rf_dataset_free_data,
};

rf_result rf_dataset_filter(const rf_dataset *in, rf_filter_fn fn, void *user, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_filter: out is NULL");
    *out = NULL;
    RF_REQUIRE(in && fn, "rf_dataset_filter: an argument is NULL");
    RF_TRY(rf_dataset_derive_with(in, &rf_dataset_kind_filter, sizeof(filter_step), out));
    filter_step *step = (*out)->data;
    *step = (filter_step){ fn, user };
    (*out)->cardinality = RF_CARDINALITY_UNKNOWN;
    return RF_OK;
}
