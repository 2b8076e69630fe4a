/* SPDX-License-Identifier: Apache-2.0 */
/* Transformations that process one element (or one batch) at a time: map, take / skip / shard, batch, repeat. */
#include <string.h>

#include "base/params.h"
#include "data/pipeline.h"

/* An indexed input makes an indexed stage; `get` serves both ways of reading. */
static rf_result input_element(rf_stage *stage, uint64_t index, const rf_element **out)
{
    return stage->input->dataset->kind->get(stage->input, index, out);
}

/* ---- map ---- */

typedef struct map_step {
    rf_map_fn fn;
    void *user;
    uint32_t component, depth; /* of the built-in functions */
} map_step;

static rf_result open_map(rf_stage *stage)
{
    stage->indexed = stage->input->indexed;
    stage->count = stage->input->count;
    return rf_stage_allocate_element(stage, &stage->dataset->spec);
}

static rf_result map_apply(rf_stage *stage, uint64_t index, const rf_element *in, const rf_element **out)
{
    const map_step *step = stage->dataset->data;
    rf_element_place(&stage->element, &stage->dataset->spec,
                     stage->element_memory); /* whatever the last call made of it */
    const uint64_t before = rf_error_count();
    const rf_result r = rf_error_of_user(step->fn(step->user, in, &stage->element), before, "the function");
    if (r < 0) return rf_error_context(r, "map, element %llu", (unsigned long long)index);
    RF_TRY(RF_PARAMS_CHECK(rf_element, &stage->element));
    stage->element.first_row = in->first_row;
    stage->element.global_rows = in->global_rows;
    *out = &stage->element;
    return r;
}

static rf_result get_mapped(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_element *in;
    RF_TRY(input_element(stage, index, &in));
    return map_apply(stage, index, in, out);
}

static rf_result next_mapped(rf_stage *stage, const rf_element **out)
{
    const rf_element *in;
    rf_result r = rf_stage_peek_input(stage, &in);
    if (r == RF_OK) r = map_apply(stage, stage->position, in, out);
    if (r == RF_OK) rf_stage_take_input(stage);
    return r;
}

const rf_dataset_kind rf_dataset_kind_map = {
    .name = "map",
    .open = open_map,
    .get = get_mapped,
    .next = next_mapped,
    .pass_over = rf_stage_pass_over_input,
    .free_dataset = rf_dataset_free_data,
};

static rf_result make_map(const rf_dataset *in, map_step step, const rf_element_spec *spec, rf_dataset **out)
{
    RF_TRY(rf_dataset_derive_with(in, &rf_dataset_kind_map, sizeof(map_step), out));
    map_step *copy = (*out)->data;
    *copy = step;
    if (!copy->user) copy->user = copy; /* the built-in functions read their numbers from here */
    (*out)->spec = *spec;
    return RF_OK;
}

rf_result rf_dataset_map(const rf_dataset *in, rf_map_fn fn, void *user, const rf_element_spec *spec, rf_dataset **out)
{
    RF_REQUIRE(out && in && fn && spec, "rf_dataset_map: an argument is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_element_spec, spec));
    rf_dataset *probe; /* checks the spec */
    RF_TRY(rf_dataset_new(&rf_dataset_kind_map, spec, &probe));
    rf_dataset_destroy(&probe);
    RF_TRY(make_map(in, (map_step){ fn, user, 0, 0 }, spec, out));
    ((map_step *)(*out)->data)->user = user;
    return RF_OK;
}

static void copy_others(const rf_element *in, rf_element *out, uint32_t except)
{
    for (uint32_t i = 0; i < in->num_components; i++) {
        const rf_array *a = &in->component[i];
        const size_t bytes = (size_t)rf_shape_count(a->shape) * rf_dtype_size(a->dtype);
        out->component[i].shape = a->shape;
        if (i != except) memcpy(out->component[i].data, a->data, bytes);
    }
}

static rf_result scale_u8(void *user, const rf_element *in, rf_element *out)
{
    const uint32_t component = ((const map_step *)user)->component;
    copy_others(in, out, component);
    const uint8_t *from = in->component[component].data;
    float *to = out->component[component].data;
    const int64_t count = rf_shape_count(in->component[component].shape);
    for (int64_t i = 0; i < count; i++) to[i] = (float)from[i] / 255.0f;
    return RF_OK;
}

rf_result rf_dataset_map_scale_u8(const rf_dataset *in, uint32_t index, rf_dataset **out)
{
    RF_REQUIRE(out && in, "rf_dataset_map_scale_u8: an argument is NULL");
    *out = NULL;
    RF_REQUIRE(index < in->spec.num_components, "rf_dataset_map_scale_u8: index is %u, the elements have %u components",
               index, in->spec.num_components);
    RF_REQUIRE(in->spec.dtype[index] == RF_U8, "rf_dataset_map_scale_u8: component %u is %s, not u8", index,
               rf_dtype_name(in->spec.dtype[index]));
    rf_element_spec spec = in->spec;
    spec.dtype[index] = RF_F32;
    return make_map(in, (map_step){ scale_u8, NULL, index, 0 }, &spec, out);
}

static rf_result one_hot(void *user, const rf_element *in, rf_element *out)
{
    const map_step *step = user;
    copy_others(in, out, step->component);
    const int32_t class_number = *(const int32_t *)in->component[step->component].data;
    RF_REQUIRE(class_number >= 0 && (uint32_t)class_number < step->depth,
               "one-hot: class %d is outside of 0 to %u; is the depth right?", class_number, step->depth - 1);
    rf_array *target = &out->component[step->component];
    target->shape = RF_SHAPE((int64_t)step->depth);
    memset(target->data, 0, step->depth * sizeof(float));
    ((float *)target->data)[class_number] = 1;
    return RF_OK;
}

rf_result rf_dataset_map_one_hot(const rf_dataset *in, uint32_t index, uint32_t depth, rf_dataset **out)
{
    RF_REQUIRE(out && in, "rf_dataset_map_one_hot: an argument is NULL");
    *out = NULL;
    RF_REQUIRE(index < in->spec.num_components, "rf_dataset_map_one_hot: index is %u, the elements have %u components",
               index, in->spec.num_components);
    RF_REQUIRE(in->spec.dtype[index] == RF_I32 && in->spec.shape[index].rank == 0,
               "rf_dataset_map_one_hot: component %u is not an i32 scalar; apply it before batching", index);
    RF_REQUIRE(depth > 0, "rf_dataset_map_one_hot: depth is 0");
    rf_element_spec spec = in->spec;
    spec.dtype[index] = RF_F32;
    spec.shape[index] = RF_SHAPE((int64_t)depth);
    return make_map(in, (map_step){ one_hot, NULL, index, depth }, &spec, out);
}

bool rf_dataset_builtin_map(const rf_dataset *dataset, uint32_t *component, uint32_t *depth)
{
    const map_step *step = dataset->data;
    *component = step->component;
    *depth = step->depth;
    return step->fn == scale_u8 || step->fn == one_hot;
}

/* ---- take, skip, shard: elements index, index + seed, index + 2 * seed ..., at most `count` of them ---- */

static uint64_t window_count(const rf_dataset *d, uint64_t input_count)
{
    const uint64_t left = input_count > d->index ? (input_count - d->index + d->seed - 1) / d->seed : 0;
    return left < d->count ? left : d->count;
}

static rf_result open_window(rf_stage *stage)
{
    stage->indexed = stage->input->indexed;
    if (stage->indexed) stage->count = window_count(stage->dataset, stage->input->count);
    return RF_OK;
}

static rf_result get_windowed(rf_stage *stage, uint64_t index, const rf_element **out)
{
    return input_element(stage, stage->dataset->index + index * stage->dataset->seed, out);
}

/* Goes to where the next element is; RF_END: there is none. */
static rf_result find_windowed(rf_stage *stage)
{
    const rf_dataset *d = stage->dataset;
    if (stage->position >= d->count) return RF_END;
    const uint64_t wanted = d->index + stage->position * d->seed;
    return rf_stage_skip(stage->input, wanted - stage->input->position);
}

static rf_result next_windowed(rf_stage *stage, const rf_element **out)
{
    const rf_result r = find_windowed(stage);
    return r == RF_OK ? rf_stage_next(stage->input, out) : r;
}

static rf_result pass_over_windowed(rf_stage *stage)
{
    const rf_result r = find_windowed(stage);
    return r == RF_OK ? rf_stage_pass_over(stage->input) : r;
}

/* The element that failed may lie on the way to the next one, which stays the next one then. */
static rf_result drop_windowed(rf_stage *stage)
{
    const rf_dataset *d = stage->dataset;
    const bool on_the_way = stage->input->position < d->index + stage->position * d->seed;
    RF_TRY(rf_stage_drop(stage->input));
    if (on_the_way) stage->position--; /* rf_stage_drop() counts it */
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_window = {
    .name = "window",
    .open = open_window,
    .get = get_windowed,
    .next = next_windowed,
    .pass_over = pass_over_windowed,
    .drop = drop_windowed,
};

rf_result rf_dataset_window(const rf_dataset *in, uint64_t first, uint64_t stride, uint64_t count, rf_dataset **out)
{
    RF_TRY(rf_dataset_derive(in, &rf_dataset_kind_window, out));
    rf_dataset *d = *out;
    d->index = first;
    d->seed = stride;
    d->count = count;
    if (in->cardinality >= 0)
        d->cardinality = (int64_t)window_count(d, (uint64_t)in->cardinality);
    else if (in->cardinality == RF_CARDINALITY_INFINITE && count != UINT64_MAX)
        d->cardinality = (int64_t)count;
    return RF_OK;
}

/* ---- batch ---- */

static rf_result open_batch(rf_stage *stage)
{
    const rf_dataset *d = stage->dataset;
    stage->indexed = stage->input->indexed;
    if (stage->indexed)
        stage->count = d->flag ? stage->input->count / d->count : rf_div_up(stage->input->count, d->count);
    return rf_stage_allocate_element(stage, &d->spec);
}

static rf_result element_append(rf_stage *stage, const rf_element *in, uint64_t place)
{
    const rf_element_spec *spec = &stage->dataset->input->spec;
    for (uint32_t i = 0; i < spec->num_components; i++) {
        const size_t bytes = rf_component_bytes(spec, i);
        if (!rf_shape_equal(in->component[i].shape, spec->shape[i]))
            return RF_FAIL(
                RF_ERROR_INVALID_ARGUMENT,
                "batch: component %u changes its shape between elements; rf_dataset_padded_batch() pads them", i);
        memcpy((char *)stage->element.component[i].data + place * bytes, in->component[i].data, bytes);
    }
    return RF_OK;
}

static void finish_batch(rf_stage *stage, uint64_t size, const rf_element **out)
{
    for (uint32_t i = 0; i < stage->element.num_components; i++)
        stage->element.component[i].shape.dim[0] = (int64_t)size;
    *out = &stage->element;
}

static rf_result get_batch(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const uint64_t first = index * stage->dataset->count, left = stage->input->count - first;
    const uint64_t size = left < stage->dataset->count ? left : stage->dataset->count;
    for (uint64_t i = 0; i < size; i++) {
        const rf_element *in;
        RF_TRY(input_element(stage, first + i, &in));
        RF_TRY(element_append(stage, in, i));
    }
    finish_batch(stage, size, out);
    return RF_OK;
}

/* Elements that were gathered before a failure stay for the next call. */
static rf_result next_batch(rf_stage *stage, const rf_element **out)
{
    uint64_t *size = &stage->count; /* not indexed: the field is free */
    while (*size < stage->dataset->count) {
        const rf_element *in;
        const rf_result r = rf_stage_peek_input(stage, &in);
        if (r == RF_END) break;
        RF_TRY(r);
        RF_TRY(element_append(stage, in, *size));
        rf_stage_take_input(stage);
        ++*size;
    }
    if (*size == 0 || (stage->dataset->flag && *size < stage->dataset->count)) return RF_END;
    finish_batch(stage, *size, out);
    *size = 0;
    return RF_OK;
}

/* Whoever passes over a batch and fails within it passes over the rest of it, so no row that is missing is used. */
static rf_result pass_over_batch(rf_stage *stage)
{
    uint64_t *size = &stage->count;
    while (*size < stage->dataset->count) {
        const rf_result r = rf_stage_pass_over_input(stage);
        if (r == RF_END) break;
        RF_TRY(r);
        ++*size;
    }
    if (*size == 0 || (stage->dataset->flag && *size < stage->dataset->count)) return RF_END;
    *size = 0;
    return RF_OK;
}

/* All of the batch goes, as it does where batches are fetched by number. */
static rf_result drop_batch(rf_stage *stage)
{
    uint64_t *size = &stage->count;
    if (stage->pending)
        rf_stage_take_input(stage);
    else
        RF_TRY(rf_stage_drop(stage->input));
    for (++*size; *size < stage->dataset->count; ++*size) {
        const rf_result r = rf_stage_pass_over_input(stage);
        if (r == RF_END) break;
        if (r < 0) RF_TRY(rf_stage_drop(stage->input));
    }
    *size = 0;
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_batch = {
    .name = "batch",
    .open = open_batch,
    .get = get_batch,
    .next = next_batch,
    .pass_over = pass_over_batch,
    .drop = drop_batch,
};

rf_result rf_dataset_batch(const rf_dataset *in, uint32_t batch_size, rf_batch_remainder remainder, rf_dataset **out)
{
    RF_REQUIRE(out && in, "rf_dataset_batch: an argument is NULL");
    *out = NULL;
    RF_REQUIRE(batch_size > 0, "rf_dataset_batch: batch_size is 0");
    RF_REQUIRE(remainder == RF_REMAINDER_KEEP || remainder == RF_REMAINDER_DROP,
               "rf_dataset_batch: remainder %d does not exist", (int)remainder);
    for (uint32_t i = 0; i < in->spec.num_components; i++)
        RF_REQUIRE(in->spec.shape[i].rank < RF_MAX_RANK, "rf_dataset_batch: component %u has %d dimensions already", i,
                   RF_MAX_RANK);
    RF_TRY(rf_dataset_derive(in, &rf_dataset_kind_batch, out));
    rf_dataset *d = *out;
    d->count = d->batch_size = batch_size;
    d->flag = remainder == RF_REMAINDER_DROP;
    for (uint32_t i = 0; i < d->spec.num_components; i++) {
        rf_shape *s = &d->spec.shape[i];
        memmove(&s->dim[1], &s->dim[0], (size_t)s->rank * sizeof(s->dim[0]));
        s->dim[0] = batch_size;
        s->rank++;
    }
    if (in->cardinality >= 0)
        d->cardinality =
            d->flag ? in->cardinality / batch_size : (int64_t)rf_div_up((uint64_t)in->cardinality, batch_size);
    return RF_OK;
}

/* ---- repeat: each pass is an epoch of its own for the shuffles below ---- */

static uint64_t pass_epoch(const rf_stage *stage, uint64_t pass)
{
    const uint64_t passes = stage->dataset->count;
    return passes > 0 ? stage->epoch * passes + pass : (stage->epoch << 32) + pass;
}

static rf_result open_repeat(rf_stage *stage)
{
    return rf_stage_open(stage->dataset->input, pass_epoch(stage, 0), &stage->input);
}

/* `out` NULL: the element is passed over. */
static rf_result next_repeated(rf_stage *stage, const rf_element **out)
{
    uint64_t *pass = &stage->count; /* not indexed: the field is free */
    for (;;) {
        const rf_result r = out ? rf_stage_next(stage->input, out) : rf_stage_pass_over(stage->input);
        if (r != RF_END) return r;
        /* An empty input would repeat for ever without an element. */
        if (stage->input->position == 0 || (stage->dataset->count > 0 && *pass + 1 >= stage->dataset->count))
            return RF_END;
        rf_stage *next;
        RF_TRY(rf_stage_open(stage->dataset->input, pass_epoch(stage, *pass + 1), &next));
        rf_stage_close(&stage->input);
        stage->input = next;
        ++*pass;
    }
}

static rf_result pass_over_repeated(rf_stage *stage)
{
    return next_repeated(stage, NULL);
}

const rf_dataset_kind rf_dataset_kind_repeat = {
    .name = "repeat",
    .open = open_repeat,
    .next = next_repeated,
    .pass_over = pass_over_repeated,
    .opens_own_input = true,
};

rf_result rf_dataset_repeat(const rf_dataset *in, uint64_t count, rf_dataset **out)
{
    RF_TRY(rf_dataset_derive(in, &rf_dataset_kind_repeat, out));
    (*out)->count = count;
    if (in->cardinality > 0) {
        int64_t total;
        if (count == 0 || __builtin_mul_overflow(in->cardinality, (int64_t)count, &total))
            total = RF_CARDINALITY_INFINITE;
        (*out)->cardinality = total;
    } else if (count == 0 && in->cardinality == RF_CARDINALITY_UNKNOWN) {
        (*out)->cardinality = RF_CARDINALITY_INFINITE; /* as tf.data takes it, though the input may turn out empty */
    }
    return RF_OK;
}
