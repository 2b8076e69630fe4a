/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shuffle. Over an indexed input with a buffer that holds all of it: a permutation of numbers (Fisher & Yates 1938, in
 * Durstenfeld's form, CACM 7, 1964). Otherwise a buffer of elements: each step delivers a random one and replaces it by
 * the next element of the input. The order depends on seed and epoch alone.
 */
#include <string.h>

#include "base/philox.h"
#include "data/pipeline.h"

typedef struct shuffle_state {
    uint64_t *order;  /* indexed: the permutation */
    char *buffer;     /* not indexed: `filled` elements, and one more place for the element handed out */
    rf_shape *shapes; /* [places][components] */
    uint64_t places, filled;
    bool started, input_ended;
    bool drawn;      /* `chosen` was, by a call that then failed */
    uint64_t chosen; /* place of the element that is handed out */
    rf_rng rng;
} shuffle_state;

static rf_result shuffle_permute(shuffle_state *s, uint64_t count)
{
    s->order = RF_NEW_ARRAY(uint64_t, count);
    if (!s->order) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t i = 0; i < count; i++) s->order[i] = i;
    for (uint64_t i = count; i > 1; i--) {
        const uint64_t j = rf_rng_below(&s->rng, i), kept = s->order[i - 1];
        s->order[i - 1] = s->order[j];
        s->order[j] = kept;
    }
    return RF_OK;
}

static rf_result open_shuffle(rf_stage *stage)
{
    const rf_dataset *d = stage->dataset;
    shuffle_state *s = stage->data = RF_NEW(shuffle_state);
    if (!s) return RF_ERROR_OUT_OF_HOST_MEMORY;
    s->rng.key = rf_hash64(d->seed, d->flag ? stage->epoch + 1 : 0);
    stage->indexed = stage->input->indexed && d->count >= stage->input->count;
    if (stage->indexed) {
        stage->count = stage->input->count;
        return shuffle_permute(s, stage->count);
    }
    s->places = d->count;
    if (d->cardinality >= 0 && (uint64_t)d->cardinality < s->places) s->places = (uint64_t)d->cardinality;
    if (s->places == 0) s->places = 1;
    size_t bytes;
    if (s->places == UINT64_MAX || !rf_mul_size((size_t)s->places + 1, rf_element_bytes(&d->spec), &bytes))
        return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "shuffle: a buffer of %llu elements is too large",
                       (unsigned long long)s->places);
    s->buffer = rf_aligned_calloc(bytes);
    s->shapes = RF_NEW_ARRAY(rf_shape, (s->places + 1) * d->spec.num_components);
    return s->buffer && s->shapes ? RF_OK : rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "shuffle");
}

static void close_shuffle(rf_stage *stage)
{
    shuffle_state *s = stage->data;
    if (!s) return;
    rf_free(s->order);
    rf_free(s->buffer);
    rf_free(s->shapes);
    rf_free(s);
}

static rf_result get_shuffled(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const shuffle_state *s = stage->data;
    return stage->input->dataset->kind->get(stage->input, s->order[index], out);
}

static void put_element(rf_stage *stage, uint64_t place, const rf_element *in)
{
    shuffle_state *s = stage->data;
    const rf_element_spec *spec = &stage->dataset->spec;
    rf_element to;
    rf_element_place(&to, spec, s->buffer + place * rf_element_bytes(spec));
    for (uint32_t i = 0; i < spec->num_components; i++) {
        const rf_array *a = &in->component[i];
        memcpy(to.component[i].data, a->data, (size_t)rf_shape_count(a->shape) * rf_dtype_size(a->dtype));
        s->shapes[place * spec->num_components + i] = a->shape;
    }
}

static void move_element(rf_stage *stage, uint64_t to, uint64_t from)
{
    shuffle_state *s = stage->data;
    const size_t bytes = rf_element_bytes(&stage->dataset->spec), shapes = stage->dataset->spec.num_components;
    if (to == from) return;
    memcpy(s->buffer + to * bytes, s->buffer + from * bytes, bytes);
    memcpy(s->shapes + to * shapes, s->shapes + from * shapes, shapes * sizeof(rf_shape));
}

/* Puts the input's next element at `place`; *got says whether there was one. */
static rf_result refill_place(rf_stage *stage, uint64_t place, bool *got)
{
    shuffle_state *s = stage->data;
    *got = false;
    if (s->input_ended) return RF_OK;
    const rf_element *in;
    const rf_result r = rf_stage_next(stage->input, &in);
    if (r == RF_END) s->input_ended = true;
    if (r != RF_OK) return r < 0 ? r : RF_OK;
    put_element(stage, place, in);
    *got = true;
    return RF_OK;
}

static rf_result next_shuffled(rf_stage *stage, const rf_element **out)
{
    shuffle_state *s = stage->data;
    const rf_element_spec *spec = &stage->dataset->spec;
    for (bool got = !s->started; got && s->filled < s->places;) {
        RF_TRY(refill_place(stage, s->filled, &got));
        if (got) s->filled++;
    }
    s->started = true;
    if (s->filled == 0) return RF_END;
    if (!s->drawn) s->chosen = rf_rng_below(&s->rng, s->filled);
    s->drawn = true;                           /* the order is that of a pass without failures */
    move_element(stage, s->places, s->chosen); /* the extra place: stays valid while its old one is filled again */
    bool got;
    RF_TRY(refill_place(stage, s->chosen, &got));
    s->drawn = false;
    if (!got) move_element(stage, s->chosen, --s->filled);
    rf_element_place(&stage->element, spec, s->buffer + s->places * rf_element_bytes(spec));
    for (uint32_t i = 0; i < spec->num_components; i++)
        stage->element.component[i].shape = s->shapes[s->places * spec->num_components + i];
    *out = &stage->element;
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_shuffle = {
    .name = "shuffle",
    .open = open_shuffle,
    .close = close_shuffle,
    .get = get_shuffled,
    .next = next_shuffled,
};

rf_result rf_dataset_shuffle(const rf_dataset *in, uint64_t buffer_size, uint64_t seed, rf_shuffle_mode mode,
                             rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_shuffle: out is NULL");
    *out = NULL;
    RF_REQUIRE(buffer_size > 0, "rf_dataset_shuffle: buffer_size is 0");
    RF_REQUIRE(mode == RF_SHUFFLE_ONCE || mode == RF_SHUFFLE_EACH_PASS, "rf_dataset_shuffle: mode %d does not exist",
               (int)mode);
    RF_TRY(rf_dataset_derive(in, &rf_dataset_kind_shuffle, out));
    (*out)->count = buffer_size;
    (*out)->seed = seed;
    (*out)->flag = mode == RF_SHUFFLE_EACH_PASS;
    return RF_OK;
}
