/* SPDX-License-Identifier: Apache-2.0 */
#include "data/slice.h"

#include <string.h>

#include "data/pipeline.h"

/* ---- pure ---- */

uint64_t rf_slice_batches(const uint64_t *examples, const uint32_t *quota, uint32_t num_workers)
{
    uint64_t most = 0;
    for (uint32_t w = 0; w < num_workers; w++) {
        const uint64_t batches = quota[w] ? rf_div_up(examples[w], quota[w]) : 0;
        if (batches > most) most = batches;
    }
    return most;
}

rf_slice_rows rf_slice_of_files(const uint64_t *examples, const uint32_t *quota, uint32_t num_workers, uint32_t worker,
                                uint64_t batch)
{
    rf_slice_rows out = { 0 };
    for (uint32_t w = 0; w < num_workers; w++) {
        const uint64_t begin = batch * quota[w], left = examples[w] > begin ? examples[w] - begin : 0;
        const uint32_t rows = (uint32_t)(left < quota[w] ? left : quota[w]);
        if (w < worker) out.first += rows;
        if (w == worker) out.rows = rows;
        out.total += rows;
    }
    return out;
}

/* ---- the step ---- */

typedef enum slice_kind {
    SLICE_BATCH, /* takes the place of the batch step: reads only this worker's examples */
    SLICE_VIEW,  /* on top of everything: cuts whole batches */
    SLICE_FILES, /* takes the place of the batch step over this worker's files */
} slice_kind;

typedef struct slice_data {
    rf_slice_params params;
    slice_kind kind;
    uint32_t *quota;    /* SLICE_FILES: rows of a full batch, per worker */
    uint64_t *examples; /* SLICE_FILES: per worker */
} slice_data;

static void free_slice(rf_dataset *dataset)
{
    slice_data *s = dataset->data;
    if (!s) return;
    rf_free((void *)(uintptr_t)s->params.user);
    rf_free(s->quota);
    rf_free(s->examples);
    rf_free(s);
}

static rf_slice_rows rows_of_batch(const slice_data *s, uint32_t size, uint32_t *counts)
{
    rf_slice_rows out = { .total = size };
    s->params.split(s->params.user, size, counts);
    for (uint32_t w = 0; w < s->params.worker; w++) out.first += counts[w];
    out.rows = counts[s->params.worker];
    return out;
}

static rf_result open_slice(rf_stage *stage)
{
    const rf_dataset *d = stage->dataset;
    const slice_data *s = d->data;
    stage->data = RF_NEW_ARRAY(uint32_t, s->params.num_workers); /* counts of a split */
    if (!stage->data) return RF_ERROR_OUT_OF_HOST_MEMORY;
    stage->indexed = stage->input->indexed;
    switch (s->kind) {
    case SLICE_VIEW: stage->count = stage->input->count; return RF_OK;
    case SLICE_BATCH:
        stage->count = d->flag ? stage->input->count / d->count : rf_div_up(stage->input->count, d->count);
        break;
    case SLICE_FILES: stage->count = stage->indexed ? (uint64_t)d->cardinality : 0; break; /* 0: rows that are there */
    }
    return rf_stage_allocate_element(stage, &d->spec);
}

static void close_slice(rf_stage *stage)
{
    rf_free(stage->data);
}

/* Row `place` of the stage's element. */
static rf_result put_row(rf_stage *stage, uint32_t place, const rf_element *in)
{
    const rf_element_spec *spec = &stage->dataset->input->spec;
    for (uint32_t c = 0; c < spec->num_components; c++) {
        const size_t bytes = rf_component_bytes(spec, c);
        if (!rf_shape_equal(in->component[c].shape, spec->shape[c]))
            return RF_FAIL(
                RF_ERROR_INVALID_ARGUMENT,
                "batch: component %u changes its shape between elements; rf_dataset_padded_batch() pads them", c);
        memcpy((char *)stage->element.component[c].data + place * bytes, in->component[c].data, bytes);
    }
    return RF_OK;
}

static void hand_out_rows(rf_stage *stage, const rf_slice_rows *rows, const rf_element **out)
{
    for (uint32_t c = 0; c < stage->element.num_components; c++) stage->element.component[c].shape.dim[0] = rows->rows;
    stage->element.first_row = rows->first;
    stage->element.global_rows = rows->total;
    *out = &stage->element;
}

/* Elements begin .. begin + rows of the input, as rows of the stage's element. */
static rf_result gather_rows(rf_stage *stage, uint64_t begin, const rf_slice_rows *rows, const rf_element **out)
{
    for (uint32_t i = 0; i < rows->rows; i++) {
        const rf_element *in;
        RF_TRY(stage->input->dataset->kind->get(stage->input, begin + i, &in));
        RF_TRY(put_row(stage, i, in));
    }
    hand_out_rows(stage, rows, out);
    return RF_OK;
}

static rf_result cut_rows(rf_stage *stage, const rf_element *whole, const rf_element **out)
{
    const slice_data *s = stage->dataset->data;
    for (uint32_t c = 1; c < whole->num_components; c++)
        if (whole->component[c].shape.dim[0] != whole->component[0].shape.dim[0])
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                           "batch: component %u has %lld rows, component 0 has %lld; of datasets that end at different "
                           "places, zip the elements and batch them afterwards",
                           c, (long long)whole->component[c].shape.dim[0], (long long)whole->component[0].shape.dim[0]);
    const rf_slice_rows rows = rows_of_batch(s, (uint32_t)whole->component[0].shape.dim[0], stage->data);
    stage->element = *whole;
    for (uint32_t c = 0; c < whole->num_components; c++) {
        rf_array *a = &stage->element.component[c];
        const size_t row = (size_t)(rf_shape_count(a->shape) / a->shape.dim[0]) * rf_dtype_size(a->dtype);
        a->data = (char *)a->data + rows.first * row;
        a->shape.dim[0] = rows.rows;
    }
    stage->element.first_row = rows.first;
    stage->element.global_rows = rows.total;
    *out = &stage->element;
    return RF_OK;
}

static rf_result get_slice(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_dataset *d = stage->dataset;
    const slice_data *s = d->data;
    const rf_element *whole;
    switch (s->kind) {
    case SLICE_VIEW:
        RF_TRY(stage->input->dataset->kind->get(stage->input, index, &whole));
        return cut_rows(stage, whole, out);
    case SLICE_FILES: {
        const rf_slice_rows rows =
            rf_slice_of_files(s->examples, s->quota, s->params.num_workers, s->params.worker, index);
        return gather_rows(stage, index * s->quota[s->params.worker], &rows, out);
    }
    default: {
        const uint64_t begin = index * d->count, left = stage->input->count - begin;
        const rf_slice_rows rows = rows_of_batch(s, (uint32_t)(left < d->count ? left : d->count), stage->data);
        return gather_rows(stage, begin + rows.first, &rows, out);
    }
    }
}

/* This worker's rows of the next batch, from files that are read in order. Rows that were gathered before a failure
 * stay for the next call. `out` NULL: they are passed over, by whoever does so with all of them. */
static rf_result next_of_files(rf_stage *stage, const rf_element **out)
{
    const rf_dataset *d = stage->dataset;
    const slice_data *s = d->data;
    uint64_t *gathered = &stage->count; /* not indexed: the field is free */
    if (stage->position >= (uint64_t)d->cardinality) return RF_END;
    const rf_slice_rows rows =
        rf_slice_of_files(s->examples, s->quota, s->params.num_workers, s->params.worker, stage->position);
    while (*gathered < rows.rows) {
        const rf_element *in;
        const rf_result r = out ? rf_stage_peek_input(stage, &in) : rf_stage_pass_over_input(stage);
        if (r == RF_END)
            return RF_FAIL(RF_ERROR_INTERNAL, "batch: %llu of %u rows are missing at the end of the files",
                           (unsigned long long)(rows.rows - *gathered), rows.rows);
        RF_TRY(r);
        if (out) RF_TRY(put_row(stage, (uint32_t)*gathered, in));
        rf_stage_take_input(stage);
        ++*gathered;
    }
    *gathered = 0;
    if (out) hand_out_rows(stage, &rows, out);
    return RF_OK;
}

/* Views and files: a batch whose examples are fetched by number stands on nothing that is read in order. */
static rf_result next_slice(rf_stage *stage, const rf_element **out)
{
    const rf_element *whole;
    if (((const slice_data *)stage->dataset->data)->kind == SLICE_FILES) return next_of_files(stage, out);
    const rf_result r = rf_stage_peek_input(stage, &whole);
    if (r != RF_OK) return r;
    RF_TRY(cut_rows(stage, whole, out));
    rf_stage_take_input(stage);
    return RF_OK;
}

static rf_result pass_over_slice(rf_stage *stage)
{
    const bool files = ((const slice_data *)stage->dataset->data)->kind == SLICE_FILES;
    return files ? next_of_files(stage, NULL) : rf_stage_pass_over_input(stage);
}

const char *rf_slice_stands_for(const rf_dataset *dataset)
{
    static const char *const names[] = { [SLICE_BATCH] = "batch", [SLICE_VIEW] = NULL, [SLICE_FILES] = "slice" };
    return names[((const slice_data *)dataset->data)->kind];
}

const rf_dataset_kind rf_dataset_kind_slice = {
    .name = "slice",
    .open = open_slice,
    .close = close_slice,
    .get = get_slice,
    .next = next_slice,
    .pass_over = pass_over_slice,
    .free_dataset = free_slice,
};

/* ---- rewriting a pipeline ---- */

static bool passes_batches_through(const rf_dataset *d)
{
    return d->kind == &rf_dataset_kind_prefetch || d->kind == &rf_dataset_kind_window ||
           d->kind == &rf_dataset_kind_repeat;
}

/* The batch step that the rows can be cut in, or NULL where something between it and the top looks at whole batches. */
static const rf_dataset *find_batch(const rf_dataset *d)
{
    while (d && passes_batches_through(d)) d = d->input;
    return d && d->kind == &rf_dataset_kind_batch ? d : NULL;
}

static rf_result make_step(const rf_dataset *like, const rf_dataset *input, slice_kind kind,
                           const rf_slice_params *params, rf_dataset **out)
{
    RF_TRY(rf_dataset_new(&rf_dataset_kind_slice, &like->spec, out));
    rf_dataset *d = *out;
    d->input = rf_dataset_retain(input);
    d->cardinality = like->cardinality;
    d->batch_size = like->batch_size;
    d->count = like->count;
    d->flag = like->flag;
    if (like->stands_for) d->stands_for = rf_dataset_retain(like->stands_for);
    slice_data *s = d->data = RF_NEW(slice_data);
    if (!s) {
        rf_dataset_destroy(out);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    s->params = *params;
    s->params.user = NULL; /* belongs to the caller until all has worked */
    s->kind = kind;
    return RF_OK;
}

/* The steps from `top` down to (not including) `bottom`, over `input`. */
static rf_result slice_rebuild(const rf_dataset *top, const rf_dataset *bottom, const rf_dataset *input,
                               rf_dataset **out)
{
    if (top == bottom) {
        *out = rf_dataset_retain(input);
        return RF_OK;
    }
    rf_dataset *below;
    RF_TRY(slice_rebuild(top->input, bottom, input, &below));
    rf_result r;
    if (top->kind == &rf_dataset_kind_cache)
        r = rf_dataset_cache(below, out); /* what the other one keeps is not what this one sees */
    else
        r = rf_dataset_clone_over(top, below, out);
    if (r == RF_OK && top->kind != &rf_dataset_kind_repeat && below->cardinality != top->input->cardinality)
        (*out)->cardinality = top->kind == &rf_dataset_kind_window ? RF_CARDINALITY_UNKNOWN : below->cardinality;
    rf_dataset_destroy(&below);
    return r;
}

static rf_result slice_by_example(const rf_dataset *in, const rf_slice_params *params, rf_dataset **step,
                                  rf_dataset **out)
{
    const rf_dataset *batch = find_batch(in);
    bool indexed = false;
    if (batch) RF_TRY(rf_dataset_is_indexed(batch->input, &indexed));
    if (!indexed) {
        RF_TRY(make_step(in, in, SLICE_VIEW, params, step));
        *out = rf_dataset_retain(*step);
        return RF_OK;
    }
    RF_TRY(make_step(batch, batch->input, SLICE_BATCH, params, step));
    return slice_rebuild(in, batch, *step, out);
}

static const rf_dataset *find_files(const rf_dataset *d)
{
    while (d && !d->kind->select_files) d = d->input;
    return d;
}

static rf_result plan_files(rf_dataset *step, const rf_dataset *source, const rf_dataset *batch)
{
    slice_data *s = step->data;
    const uint32_t workers = s->params.num_workers;
    s->quota = RF_NEW_ARRAY(uint32_t, workers);
    s->examples = RF_NEW_ARRAY(uint64_t, workers);
    if (!s->quota || !s->examples) return RF_ERROR_OUT_OF_HOST_MEMORY;
    s->params.split(s->params.user, (uint32_t)batch->count, s->quota);
    for (uint32_t f = 0; f < source->num_files; f++) s->examples[f % workers] += source->kind->file_examples(source, f);
    for (uint32_t w = 0; w < workers; w++)
        RF_REQUIRE(
            s->quota[w] > 0 || s->examples[w] == 0,
            "rf_strategy_distribute_dataset: worker %u has files but no rows of a batch of %u; use larger batches", w,
            (uint32_t)batch->count);
    step->seed = workers; /* positions mean nothing among another number of workers */
    step->cardinality = (int64_t)rf_slice_batches(s->examples, s->quota, workers);
    return RF_OK;
}

/* Whether what lies between batch and source keeps the number of examples, which the plan counts on. */
static bool keeps_examples(const rf_dataset *d)
{
    return d->kind == &rf_dataset_kind_map || d->kind == &rf_dataset_kind_random_map ||
           d->kind == &rf_dataset_kind_cache || d->kind == &rf_dataset_kind_shuffle;
}

static rf_result slice_by_file(const rf_dataset *in, const rf_slice_params *params, rf_dataset **own,
                               rf_dataset **below, rf_dataset **step, rf_dataset **out)
{
    const rf_dataset *batch = find_batch(in), *source = find_files(in);
    RF_REQUIRE(source, "rf_strategy_distribute_dataset: the dataset is not made of files; use "
                       "rf_dataset_from_idx_files(), rf_dataset_from_csv(), rf_dataset_from_tfrecord(), "
                       "rf_dataset_from_tar() or rf_dataset_from_jsonl(), or distribute by example");
    RF_REQUIRE(batch, "rf_strategy_distribute_dataset: a step after rf_dataset_batch() needs whole batches; move it "
                      "before the batch, or distribute by example");
    RF_REQUIRE(source->num_files >= params->num_workers,
               "rf_strategy_distribute_dataset: %u files for %u workers; distribute by example", source->num_files,
               params->num_workers);
    for (const rf_dataset *d = batch->input; d != source; d = d->input)
        RF_REQUIRE(keeps_examples(d),
                   "rf_strategy_distribute_dataset: a '%s' step between the files and the batch changes the number of "
                   "examples; distribute by example",
                   d->kind->name);
    RF_REQUIRE(!batch->flag, "rf_strategy_distribute_dataset: dropping the remainder is not possible by file; "
                             "distribute by example");
    RF_TRY(source->kind->select_files(source, params->worker, params->num_workers, own));
    RF_TRY(slice_rebuild(batch->input, source, *own, below));
    RF_TRY(make_step(batch, *below, SLICE_FILES, params, step));
    ((slice_data *)(*step)->data)->params.user = params->user;
    const rf_result r = plan_files(*step, source, batch);
    ((slice_data *)(*step)->data)->params.user = NULL;
    RF_TRY(r);
    return slice_rebuild(in, batch, *step, out);
}

rf_result rf_dataset_slice(const rf_dataset *in, const rf_slice_params *params, rf_dataset **out)
{
    *out = NULL;
    rf_dataset *own = NULL, *below = NULL, *step = NULL;
    rf_result r;
    if (in->batch_size == 0)
        r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_strategy_distribute_dataset: the dataset is not batched; call "
                                               "rf_dataset_batch() with the global batch size first");
    else if (params->by_file)
        r = slice_by_file(in, params, &own, &below, &step, out);
    else
        r = slice_by_example(in, params, &step, out);
    if (r == RF_OK)
        ((slice_data *)step->data)->params.user = params->user;
    else
        rf_free((void *)(uintptr_t)params->user);
    rf_dataset_destroy(&own);
    rf_dataset_destroy(&below);
    rf_dataset_destroy(&step);
    return r;
}
