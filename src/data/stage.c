/* SPDX-License-Identifier: Apache-2.0 */
/* The work of every stage of a pipeline, whatever its kind. */
#include "data/pipeline.h"

rf_result rf_stage_open_in_order(rf_stage *stage)
{
    (void)stage;
    return RF_OK;
}

rf_result rf_stage_open(const rf_dataset *dataset, uint64_t epoch, rf_stage **out)
{
    *out = NULL;
    rf_stage *stage = RF_NEW(rf_stage);
    if (!stage) return RF_ERROR_OUT_OF_HOST_MEMORY;
    stage->dataset = dataset;
    stage->epoch = epoch;
    rf_result r = RF_OK;
    if (dataset->input && !dataset->kind->opens_own_input) r = rf_stage_open(dataset->input, epoch, &stage->input);
    if (r == RF_OK) r = dataset->kind->open(stage);
    if (r < 0) {
        rf_stage_close(&stage);
        return r;
    }
    *out = stage;
    return RF_OK;
}

void rf_stage_close(rf_stage **stage)
{
    rf_stage *s = *stage;
    if (!s) return;
    if (s->dataset->kind->close) s->dataset->kind->close(s);
    rf_stage_close(&s->input);
    rf_free(s->element_memory);
    rf_free(s);
    *stage = NULL;
}

rf_result rf_stage_next(rf_stage *stage, const rf_element **out)
{
    if (stage->indexed && stage->position >= stage->count) return RF_END;
    const rf_result r = stage->indexed ? stage->dataset->kind->get(stage, stage->position, out)
                                       : stage->dataset->kind->next(stage, out);
    if (r == RF_OK) stage->position++;
    return r;
}

rf_result rf_stage_pass_over(rf_stage *stage)
{
    const rf_element *unused;
    if (stage->indexed && stage->position >= stage->count) return RF_END;
    if (!stage->indexed && !stage->dataset->kind->pass_over) return rf_stage_next(stage, &unused);
    const rf_result r = stage->indexed ? RF_OK : stage->dataset->kind->pass_over(stage);
    if (r == RF_OK) stage->position++;
    return r;
}

rf_result rf_stage_skip(rf_stage *stage, uint64_t count)
{
    if (stage->indexed) {
        const uint64_t left = stage->count - stage->position;
        stage->position += count < left ? count : left;
        return RF_OK;
    }
    for (uint64_t i = 0; i < count; i++) {
        const rf_result r = rf_stage_pass_over(stage);
        if (r != RF_OK) return r < 0 ? r : RF_OK;
    }
    return RF_OK;
}

/* The element that a step failed at, or that its input did. */
static rf_result drop_of_input(rf_stage *stage)
{
    if (!stage->pending) return stage->input ? rf_stage_drop(stage->input) : RF_OK;
    stage->pending = NULL;
    return RF_OK;
}

rf_result rf_stage_drop(rf_stage *stage)
{
    if (!stage->indexed) RF_TRY(stage->dataset->kind->drop ? stage->dataset->kind->drop(stage) : drop_of_input(stage));
    stage->position++;
    return RF_OK;
}

rf_result rf_stage_peek_input(rf_stage *stage, const rf_element **out)
{
    if (!stage->pending) {
        const rf_element *in;
        const rf_result r = rf_stage_next(stage->input, &in);
        if (r != RF_OK) return r;
        stage->pending = in;
    }
    *out = stage->pending;
    return RF_OK;
}

rf_result rf_stage_pass_over_input(rf_stage *stage)
{
    if (!stage->pending) return rf_stage_pass_over(stage->input);
    stage->pending = NULL;
    return RF_OK;
}

void rf_stage_take_input(rf_stage *stage)
{
    stage->pending = NULL;
}

rf_result rf_dataset_is_indexed(const rf_dataset *dataset, bool *indexed)
{
    rf_stage *stage;
    RF_TRY(rf_stage_open(dataset, 0, &stage));
    *indexed = stage->indexed;
    rf_stage_close(&stage);
    return RF_OK;
}
