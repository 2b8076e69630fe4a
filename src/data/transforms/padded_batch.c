/* SPDX-License-Identifier: Apache-2.0 */
/*
 * padded batch: elements of unequal length in batches of few shapes. An element waits in the bucket of the smallest
 * border that it fits in; a bucket that is full is the next batch. The elements that are left at the end come in order
 * of the borders. The order depends on the elements alone.
 */
#include <string.h>

#include "base/params.h"
#include "base/philox.h"
#include "data/pipeline.h"
#include "data/transforms/padding.h"

typedef struct padded_step {
    bool padded[RF_MAX_COMPONENTS];
    rf_pad_number value[RF_MAX_COMPONENTS];
    uint32_t borders[RF_MAX_BUCKETS], num_borders;
} padded_step;

typedef struct bucket {
    rf_element_spec spec; /* of a full batch */
    rf_element element;
    void *memory;
    uint64_t filled;
} bucket;

typedef struct bucket_set {
    bucket buckets[RF_MAX_BUCKETS];
    bucket *given; /* is out as an element until the next call */
    bool ended;    /* the input did */
} bucket_set;

static void close_buckets(rf_stage *stage)
{
    bucket_set *set = stage->data;
    for (uint32_t b = 0; set && b < RF_MAX_BUCKETS; b++) rf_free(set->buckets[b].memory);
    rf_free(set);
}

static rf_result open_buckets(rf_stage *stage)
{
    const rf_dataset *d = stage->dataset;
    const padded_step *step = d->data;
    bucket_set *set = stage->data = RF_NEW(bucket_set);
    if (!set) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < step->num_borders; i++) {
        bucket *b = &set->buckets[i];
        b->spec = d->spec;
        for (uint32_t c = 0; c < d->spec.num_components; c++)
            if (step->padded[c] && d->spec.shape[c].dim[1] > step->borders[i])
                b->spec.shape[c].dim[1] = step->borders[i];
        b->memory = rf_aligned_calloc(rf_element_bytes(&b->spec));
        if (!b->memory) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "padded batch");
    }
    return RF_OK;
}

/* How long the longest of its padded components is. */
static rf_result element_measure(const rf_dataset *d, const rf_element *in, uint32_t *length)
{
    const padded_step *step = d->data;
    const rf_element_spec *spec = &d->input->spec;
    *length = 0;
    for (uint32_t c = 0; c < spec->num_components; c++) {
        const rf_shape shape = in->component[c].shape;
        rf_shape most = spec->shape[c];
        if (step->padded[c] && shape.rank > 0 && shape.dim[0] >= 0 && shape.dim[0] < most.dim[0])
            most.dim[0] = shape.dim[0];
        char is[128], wanted[128];
        if (!rf_shape_equal(shape, most))
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "padded batch: component %u of an element is %s; %s %s", c,
                           rf_shape_format(shape, is, sizeof(is)),
                           step->padded[c] ? "it is padded to at most" : "it is not padded and has to be",
                           rf_shape_format(spec->shape[c], wanted, sizeof(wanted)));
        if (step->padded[c] && shape.dim[0] > *length) *length = (uint32_t)shape.dim[0];
    }
    return RF_OK;
}

static void append_padded(const padded_step *step, const rf_element_spec *spec, bucket *b, const rf_element *in)
{
    for (uint32_t c = 0; c < spec->num_components; c++) {
        const rf_array *from = &in->component[c];
        const size_t bytes = (size_t)rf_shape_count(from->shape) * rf_dtype_size(from->dtype);
        const size_t row = rf_component_bytes(&b->spec, c) / (size_t)b->spec.shape[c].dim[0];
        char *to = (char *)b->element.component[c].data + b->filled * row;
        if (bytes > 0) memcpy(to, from->data, bytes);
        rf_pad_number_fill(&step->value[c], from->dtype, to + bytes, row - bytes);
    }
    b->filled++;
}

static rf_result take_batch(bucket_set *set, bucket *b, const rf_element **out)
{
    for (uint32_t c = 0; c < b->element.num_components; c++) b->element.component[c].shape.dim[0] = (int64_t)b->filled;
    set->given = b;
    *out = &b->element;
    return RF_OK;
}

/* Takes elements until a bucket is full (*full) or the input ends (NULL). */
static rf_result fill_buckets(rf_stage *stage, bucket **full)
{
    const rf_dataset *d = stage->dataset;
    const padded_step *step = d->data;
    bucket_set *set = stage->data;
    *full = NULL;
    while (!set->ended) {
        const rf_element *in;
        const rf_result r = rf_stage_peek_input(stage, &in);
        set->ended = r == RF_END;
        if (r != RF_OK) return r < 0 ? r : RF_OK;
        uint32_t length, i = 0;
        RF_TRY(element_measure(d, in, &length));
        while (length > step->borders[i]) i++; /* the last one holds the longest that there may be */
        bucket *b = &set->buckets[i];
        if (b->filled == 0) rf_element_place(&b->element, &b->spec, b->memory);
        append_padded(step, &d->input->spec, b, in);
        rf_stage_take_input(stage);
        if (b->filled < d->count) continue;
        *full = b;
        return RF_OK;
    }
    return RF_OK;
}

static rf_result next_padded(rf_stage *stage, const rf_element **out)
{
    const padded_step *step = stage->dataset->data;
    bucket_set *set = stage->data;
    if (set->given) set->given->filled = 0;
    set->given = NULL;
    bucket *full;
    RF_TRY(fill_buckets(stage, &full));
    if (full) return take_batch(set, full, out);
    for (uint32_t i = 0; i < step->num_borders && !stage->dataset->flag; i++)
        if (set->buckets[i].filled > 0) return take_batch(set, &set->buckets[i], out);
    return RF_END;
}

const rf_dataset_kind rf_dataset_kind_padded_batch = {
    .name = "padded batch",
    .open = open_buckets,
    .close = close_buckets,
    .next = next_padded,
    .free_dataset = rf_dataset_free_data,
};

/* ---- creation ---- */

static rf_result check_borders(const rf_padded_batch_params *p, int64_t longest, padded_step *step)
{
    RF_REQUIRE(p->num_borders <= RF_MAX_BUCKETS,
               "rf_dataset_padded_batch: %u borders; at most %d, for each of which "
               "a step is traced",
               p->num_borders, RF_MAX_BUCKETS);
    RF_REQUIRE(p->borders || p->num_borders == 0, "rf_dataset_padded_batch: borders is NULL");
    for (uint32_t i = 0; i < p->num_borders; i++) {
        RF_REQUIRE(p->borders[i] > (i ? p->borders[i - 1] : 0),
                   "rf_dataset_padded_batch: border %u is %u; the borders have to ascend from 1", i, p->borders[i]);
        step->borders[i] = p->borders[i];
    }
    step->num_borders = p->num_borders;
    if (p->num_borders == 0) {
        step->borders[0] = (uint32_t)longest;
        step->num_borders = 1;
    }
    const uint32_t last = step->borders[step->num_borders - 1];
    RF_REQUIRE(last >= longest,
               "rf_dataset_padded_batch: the last border is %u, but elements may have a length of %lld; add that "
               "border, or make the spec of the elements shorter",
               last, (long long)longest);
    return RF_OK;
}

static rf_result check_step(const rf_dataset *in, const rf_padded_batch_params *p, padded_step *step)
{
    int64_t longest = 0;
    RF_REQUIRE(p->batch_size > 0, "rf_dataset_padded_batch: batch_size is 0");
    for (uint32_t c = 0; c < RF_MAX_COMPONENTS; c++) {
        if (c >= in->spec.num_components) {
            RF_REQUIRE(!p->padded[c], "rf_dataset_padded_batch: the elements have no component %u", c);
            continue;
        }
        const rf_shape shape = in->spec.shape[c];
        RF_REQUIRE(shape.rank < RF_MAX_RANK, "rf_dataset_padded_batch: component %u has %d dimensions already", c,
                   RF_MAX_RANK);
        if (!p->padded[c]) continue;
        RF_REQUIRE(shape.rank > 0 && shape.dim[0] > 0 && shape.dim[0] <= UINT32_MAX,
                   "rf_dataset_padded_batch: component %u has no dimension to be padded", c);
        step->padded[c] = true;
        RF_TRY(rf_pad_number_encode("rf_dataset_padded_batch", c, in->spec.dtype[c], p->pad_value[c], &step->value[c]));
        if (shape.dim[0] > longest) longest = shape.dim[0];
    }
    RF_REQUIRE(longest > 0, "rf_dataset_padded_batch: no component is padded; set padded[] of those whose length "
                            "varies, or use rf_dataset_batch()");
    return check_borders(p, longest, step);
}

rf_result rf_dataset_padded_batch(const rf_dataset *in, const rf_padded_batch_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_padded_batch: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_padded_batch_params, params));
    RF_REQUIRE(in && params, "rf_dataset_padded_batch: %s is NULL", in ? "params" : "in");
    padded_step step = { 0 };
    RF_TRY(check_step(in, params, &step));
    RF_TRY(rf_dataset_derive(in, &rf_dataset_kind_padded_batch, out));
    rf_dataset *d = *out;
    padded_step *copy = d->data = RF_NEW(padded_step);
    if (!copy) {
        rf_dataset_destroy(out);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    *copy = step;
    d->count = d->batch_size = params->batch_size;
    d->flag = params->drop_remainder;
    d->seed = rf_hash_bytes(&step, sizeof(step), 0); /* for positions */
    for (uint32_t c = 0; c < d->spec.num_components; c++) {
        rf_shape *s = &d->spec.shape[c];
        memmove(&s->dim[1], &s->dim[0], (size_t)s->rank * sizeof(s->dim[0]));
        s->dim[0] = params->batch_size;
        s->rank++;
    }
    if (in->cardinality > 0) {
        const uint64_t count = (uint64_t)in->cardinality;
        d->cardinality = step.num_borders > 1     ? RF_CARDINALITY_UNKNOWN
                         : params->drop_remainder ? (int64_t)(count / params->batch_size)
                                                  : (int64_t)rf_div_up(count, params->batch_size);
    }
    return RF_OK;
}
