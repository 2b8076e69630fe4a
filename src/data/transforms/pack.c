/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pack: elements of unequal length, several in a row of one length. A few rows are open at a time; an element goes
 * into the fullest one that has room for it (best fit), and where none has, the fullest row is the next element. The
 * order depends on the elements alone.
 */
#include <string.h>

#include "base/params.h"
#include "base/philox.h"
#include "data/pipeline.h"
#include "data/transforms/padding.h"

enum { DEFAULT_OPEN = 16, MOST_OPEN = 1024 };

typedef struct pack_step {
    rf_pad_number padding[RF_MAX_COMPONENTS]; /* of the input's components */
    uint32_t length, num_open, segments;
} pack_step;

typedef struct packed_row {
    rf_element element;
    void *memory;
    uint32_t filled, segments;
} packed_row;

typedef struct row_set {
    packed_row *rows; /* [num_open]; those before `count` hold something, in order of their beginnings */
    packed_row given; /* is out as an element until the next call */
    uint32_t count;
} row_set;

/* Component 0, positions, perhaps segments, and the rest of the input's components. */
static uint32_t place_of(const pack_step *step, uint32_t component)
{
    return component == 0 ? 0 : component + 1 + step->segments;
}

static void close_rows(rf_stage *stage)
{
    const pack_step *step = stage->dataset->data;
    row_set *set = stage->data;
    if (!set) return;
    for (uint32_t i = 0; set->rows && i < step->num_open; i++) rf_free(set->rows[i].memory);
    rf_free(set->given.memory);
    rf_free(set->rows);
    rf_free(set);
}

static rf_result allocate_row(const rf_dataset *d, packed_row *row)
{
    row->memory = rf_aligned_calloc(rf_element_bytes(&d->spec));
    if (!row->memory) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "pack");
    rf_element_place(&row->element, &d->spec, row->memory);
    return RF_OK;
}

static rf_result open_rows(rf_stage *stage)
{
    const rf_dataset *d = stage->dataset;
    const pack_step *step = d->data;
    row_set *set = stage->data = RF_NEW(row_set);
    if (!set) return RF_ERROR_OUT_OF_HOST_MEMORY;
    set->rows = RF_NEW_ARRAY(packed_row, step->num_open);
    if (!set->rows) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < step->num_open; i++) RF_TRY(allocate_row(d, &set->rows[i]));
    return allocate_row(d, &set->given);
}

/* The one length that all of its components have. */
static rf_result element_length(const rf_dataset *d, const rf_element *in, uint32_t *length)
{
    const rf_element_spec *spec = &d->input->spec;
    const int64_t first = in->component[0].shape.rank > 0 ? in->component[0].shape.dim[0] : -1;
    for (uint32_t c = 0; c < spec->num_components; c++) {
        rf_shape wanted = spec->shape[c];
        char is[128], most[128];
        wanted.dim[0] = first;
        if (first < 0 || first > spec->shape[c].dim[0] || !rf_shape_equal(in->component[c].shape, wanted))
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                           "pack: component %u of an element is %s; it is to be as long as component 0, %lld, and fit "
                           "into %s",
                           c, rf_shape_format(in->component[c].shape, is, sizeof(is)), (long long)first,
                           rf_shape_format(spec->shape[c], most, sizeof(most)));
    }
    *length = (uint32_t)first;
    return RF_OK;
}

static void append_element(const rf_dataset *d, packed_row *row, const rf_element *in, uint32_t length)
{
    const pack_step *step = d->data;
    for (uint32_t c = 0; c < in->num_components; c++) {
        const rf_array *from = &in->component[c];
        const size_t bytes = rf_component_bytes(&d->input->spec, c) / (size_t)d->input->spec.shape[c].dim[0];
        memcpy((char *)row->element.component[place_of(step, c)].data + row->filled * bytes, from->data,
               length * bytes);
    }
    row->segments++;
    for (uint32_t i = 0; i < length; i++) {
        ((int32_t *)row->element.component[1].data)[row->filled + i] = (int32_t)i;
        if (step->segments) ((int32_t *)row->element.component[2].data)[row->filled + i] = (int32_t)row->segments;
    }
    row->filled += length;
}

/* Fills the end of a row, behind its last element. */
static void pad_row(const rf_dataset *d, packed_row *row)
{
    const pack_step *step = d->data;
    const size_t rest = step->length - row->filled;
    for (uint32_t c = 0; c < d->input->spec.num_components; c++) {
        const size_t bytes = rf_component_bytes(&d->input->spec, c) / (size_t)d->input->spec.shape[c].dim[0];
        char *data = row->element.component[place_of(step, c)].data;
        rf_pad_number_fill(&step->padding[c], d->input->spec.dtype[c], data + row->filled * bytes, rest * bytes);
    }
    for (uint32_t c = 1; c <= 1 + step->segments; c++)
        memset((int32_t *)row->element.component[c].data + row->filled, 0, rest * sizeof(int32_t));
}

/* Gives row `index` out; its place in the list closes, and its memory is the next one's. */
static rf_result give_row(rf_stage *stage, uint32_t index, const rf_element **out)
{
    row_set *set = stage->data;
    const packed_row free_row = set->given;
    set->given = set->rows[index];
    set->count--;
    memmove(&set->rows[index], &set->rows[index + 1], (set->count - index) * sizeof(packed_row));
    set->rows[set->count] = free_row;
    set->rows[set->count].filled = set->rows[set->count].segments = 0;
    pad_row(stage->dataset, &set->given);
    *out = &set->given.element;
    return RF_OK;
}

/* The fullest row that has room for so many; the count of rows: none. */
static uint32_t find_row(const row_set *set, uint32_t most)
{
    uint32_t best = set->count;
    for (uint32_t i = 0; i < set->count; i++)
        if (set->rows[i].filled <= most && (best == set->count || set->rows[i].filled > set->rows[best].filled))
            best = i;
    return best;
}

static rf_result next_packed(rf_stage *stage, const rf_element **out)
{
    const rf_dataset *d = stage->dataset;
    const pack_step *step = d->data;
    row_set *set = stage->data;
    const rf_element *in;
    rf_result r;
    while ((r = rf_stage_peek_input(stage, &in)) == RF_OK) {
        uint32_t length;
        RF_TRY(element_length(d, in, &length));
        const uint32_t i = length > 0 ? find_row(set, step->length - length) : 0;
        if (length > 0 && i == step->num_open) return give_row(stage, find_row(set, step->length), out);
        if (length > 0) {
            if (i == set->count) set->count++;
            append_element(d, &set->rows[i], in, length);
        }
        rf_stage_take_input(stage);
        if (length > 0 && set->rows[i].filled == step->length) return give_row(stage, i, out);
    }
    return r == RF_END && set->count > 0 ? give_row(stage, 0, out) : r;
}

const rf_dataset_kind rf_dataset_kind_pack = {
    .name = "pack",
    .open = open_rows,
    .close = close_rows,
    .next = next_packed,
    .free_dataset = rf_dataset_free_data,
};

/* ---- creation ---- */

static rf_result check_pack(const rf_dataset *in, const rf_pack_params *p, pack_step *step)
{
    static const char *const function = "rf_dataset_pack";
    char shape[128];
    RF_REQUIRE(p->length > 0 && p->length <= INT32_MAX, "%s: length is %u", function, p->length);
    RF_REQUIRE(p->num_open <= MOST_OPEN, "%s: num_open is %u, at most %d", function, p->num_open, (int)MOST_OPEN);
    RF_REQUIRE(in->batch_size == 0, "%s: the elements are batches; pack first, then batch", function);
    RF_REQUIRE(in->spec.num_components + 1 + (uint32_t)p->segments <= RF_MAX_COMPONENTS,
               "%s: elements of %u components would have more than %d", function, in->spec.num_components,
               RF_MAX_COMPONENTS);
    for (uint32_t c = 0; c < in->spec.num_components; c++) {
        const rf_shape s = in->spec.shape[c];
        RF_REQUIRE(s.rank > 0 && s.dim[0] > 0, "%s: component %u is %s, which has no length", function, c,
                   rf_shape_format(s, shape, sizeof(shape)));
        RF_REQUIRE(s.dim[0] <= (int64_t)p->length, "%s: length is %u, but component %u may have %lld", function,
                   p->length, c, (long long)s.dim[0]);
        RF_TRY(rf_pad_number_encode(function, c, in->spec.dtype[c], p->pad_value[c], &step->padding[c]));
    }
    step->length = p->length;
    step->num_open = p->num_open ? p->num_open : DEFAULT_OPEN;
    step->segments = p->segments;
    return RF_OK;
}

static rf_element_spec packed_spec(const rf_element_spec *in, const pack_step *step)
{
    rf_element_spec out = { .num_components = in->num_components + 1 + step->segments };
    for (uint32_t c = 1; c <= 1 + step->segments; c++) {
        out.dtype[c] = RF_I32;
        out.shape[c] = RF_SHAPE(step->length);
    }
    for (uint32_t c = 0; c < in->num_components; c++) {
        out.dtype[place_of(step, c)] = in->dtype[c];
        out.shape[place_of(step, c)] = in->shape[c];
        out.shape[place_of(step, c)].dim[0] = step->length;
    }
    return out;
}

rf_result rf_dataset_pack(const rf_dataset *in, const rf_pack_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_pack: out is NULL");
    *out = NULL;
    RF_REQUIRE(in && params, "rf_dataset_pack: %s is NULL", in ? "params" : "in");
    RF_TRY(RF_PARAMS_CHECK(rf_pack_params, params));
    pack_step step = { 0 };
    RF_TRY(check_pack(in, params, &step));
    RF_TRY(rf_dataset_derive_with(in, &rf_dataset_kind_pack, sizeof(step), out));
    rf_dataset *d = *out;
    memcpy(d->data, &step, sizeof(step));
    d->spec = packed_spec(&in->spec, &step);
    d->count = rf_hash_bytes(&step, sizeof(step), 0); /* for positions */
    if (in->cardinality > 0) d->cardinality = RF_CARDINALITY_UNKNOWN;
    return RF_OK;
}
