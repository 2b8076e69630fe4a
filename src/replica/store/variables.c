/* SPDX-License-Identifier: Apache-2.0 */
#include "replica/store/variables.h"

#include <inttypes.h>
#include <string.h>

#include "base/initializer.h"
#include "base/params.h"
#include "base/philox.h"
#include "base/quantized_weight.h"
#include "replica/internal.h"
#include "replica/store/flat.h"

#define SMALLEST_STORE 16384    /* elements; small models never move */
#define MOVED_AT_ONCE (1 << 22) /* elements on their way through the host */

/* ---- places in the store ---- */

/* Arrays that must move do so with what is in them. */
static rf_result set_capacity(rf_strategy *s, rf_store *store, uint64_t capacity)
{
    RF_TRY(rf_strategy_wait(s));
    /* The gradients first: if the second step fails, gradients with too much room do no harm, while values with more
     * room than gradients would. */
    if (store == &s->store.trainable && s->store.trains)
        RF_TRY(rf_flat_grow(s, &s->store.gradients, capacity, store->used));
    s->store.generation++;
    return rf_flat_grow(s, &store->values, capacity, store->used);
}

/* Makes room for `count` more elements. */
static rf_result variables_reserve(rf_strategy *s, rf_store *store, uint64_t count)
{
    const uint64_t need = store->used + count;
    if (need <= store->values.capacity) return RF_OK;
    uint64_t capacity = store->values.capacity + store->values.capacity / 2;
    if (capacity < SMALLEST_STORE) capacity = SMALLEST_STORE;
    if (capacity < need) capacity = need;
    return set_capacity(s, store, rf_align_up(capacity, s->store.alignment));
}

rf_result rf_strategy_begin_training(rf_strategy *s)
{
    const rf_store *store = &s->store.trainable;
    if (s->store.trains) return RF_OK;
    if (store->values.capacity > 0) {
        RF_TRY(rf_strategy_wait(s));
        RF_TRY(rf_flat_grow(s, &s->store.gradients, store->values.capacity, 0));
        RF_TRY(rf_flat_clear(s, &s->store.gradients, 0, store->used));
    }
    s->store.trains = true;
    return RF_OK;
}

static rf_result reserve_more(rf_strategy *s, rf_store *store, uint64_t count)
{
    if (store->used + count <= store->values.capacity) return RF_OK;
    return set_capacity(s, store, rf_align_up(store->used + count, s->store.alignment));
}

rf_result rf_strategy_reserve_variables(rf_strategy *s, const rf_variable_room *room)
{
    RF_TRY(reserve_more(s, &s->store.trainable, room->elements + room->variables * s->store.alignment));
    return room->words == 0 ? RF_OK
                            : reserve_more(s, &s->store.fixed, room->words + room->matrices * s->store.alignment);
}

void rf_strategy_set_variable_source(rf_strategy *strategy, const rf_variable_source *source)
{
    strategy->store.source = source;
}

static rf_result write_from(const rf_variable *v, uint64_t first, const float *values, uint64_t count)
{
    rf_store *store = rf_variable_store(v);
    if (store == &v->strategy->store.trainable) v->strategy->store.weight_copies.stale = true;
    return rf_flat_write_same(v->strategy, &store->values, v->offset + first, count, values);
}

/* The first hole that variables which are gone have left and that is long enough, else the end; *index is its place in
 * the list. */
static uint64_t find_place(const rf_store *store, uint64_t count, uint32_t *index)
{
    uint64_t at = 0;
    for (*index = 0; *index < store->variables.count; ++*index) {
        const rf_range span = rf_variable_span(store->variables.items[*index]);
        if (span.begin - at >= count) break;
        at = span.end;
    }
    return at;
}

/* `values` has the length of the span: what follows the variable's own elements is zero, also where an older variable
 * was. NULL: the variable's own are set later. */
static rf_result place_variable(rf_variable *v, const float *values)
{
    rf_strategy *s = v->strategy;
    rf_store *store = rf_variable_store(v);
    const uint64_t padded = rf_align_up(v->count, s->store.alignment);
    uint32_t index;
    v->offset = find_place(store, padded, &index);
    if (v->offset + padded > store->used) RF_TRY(variables_reserve(s, store, v->offset + padded - store->used));
    RF_TRY(RF_VEC_GROW(&store->variables));
    RF_TRY(rf_strategy_wait(s));
    if (values)
        RF_TRY(write_from(v, 0, values, padded));
    else
        RF_TRY(rf_flat_clear(s, &store->values, v->offset + v->count, padded - v->count));
    if (store == &s->store.trainable) {
        if (s->store.trains) RF_TRY(rf_flat_clear(s, &s->store.gradients, v->offset, padded));
        rf_exchange_forget(&s->exchange.between, rf_variable_span(v));
    }
    if (store->used < v->offset + padded) store->used = v->offset + padded;
    rf_variable **place = &store->variables.items[index];
    memmove(place + 1, place, (store->variables.count++ - index) * sizeof(*place));
    *place = v;
    return RF_OK;
}

static void remove_variable(rf_store *store, const rf_variable *v)
{
    for (uint32_t i = 0; i < store->variables.count; i++) {
        if (store->variables.items[i] != v) continue;
        store->variables.count--;
        memmove(&store->variables.items[i], &store->variables.items[i + 1],
                (store->variables.count - i) * sizeof(store->variables.items[0]));
        break;
    }
    const uint32_t left = store->variables.count;
    store->used = left > 0 ? rf_variable_span(store->variables.items[left - 1]).end : 0;
}

/* ---- variables that change their store ---- */

/* Each replica's own values, from where they were in the other store. */
static rf_result take_values(const rf_variable *v, const rf_flat *from, uint64_t at)
{
    const rf_flat *to = &rf_variable_store(v)->values;
    const uint64_t most = v->count < MOVED_AT_ONCE ? v->count : MOVED_AT_ONCE;
    float *values = RF_NEW_ARRAY(float, most);
    rf_result r = values ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < v->strategy->members.num_local; i++)
        for (uint64_t done = 0; r >= 0 && done < v->count; done += most) {
            const uint64_t count = v->count - done < most ? v->count - done : most;
            r = rf_flat_read(from, i, at + done, count, values);
            if (r >= 0) r = rf_flat_write(to, i, v->offset + done, count, values);
        }
    rf_free(values);
    return r;
}

/* Nothing is in flight. After a failure it is where it was. */
static rf_result change_store(rf_variable *v, bool aside)
{
    rf_store *from = rf_variable_store(v);
    const uint64_t at = v->offset;
    v->aside = aside;
    rf_result r = place_variable(v, NULL);
    const bool placed = r >= 0;
    if (placed) r = take_values(v, &from->values, at);
    if (r >= 0) {
        remove_variable(from, v);
        v->strategy->store.generation++;
        v->strategy->store.weight_copies.stale = true;
        return RF_OK;
    }
    if (placed) remove_variable(rf_variable_store(v), v);
    v->aside = !aside;
    v->offset = at;
    return rf_error_context(r, "variable '%s'", v->name);
}

rf_result rf_variable_bring_back(rf_variable *v)
{
    rf_strategy *s = v->strategy;
    if (!v->aside) return RF_OK;
    RF_TRY(rf_strategy_wait(s));
    RF_TRY(change_store(v, false));
    if (s->store.aside.used == 0) rf_flat_free(s, &s->store.aside.values);
    return RF_OK;
}

/* Gives memory back. Values that have less room than gradients do no harm. */
static rf_result shrink_trainable(rf_strategy *s)
{
    rf_store *store = &s->store.trainable;
    const uint64_t used = store->used < SMALLEST_STORE ? SMALLEST_STORE : store->used;
    const uint64_t capacity = rf_align_up(used, s->store.alignment);
    if (capacity >= store->values.capacity) return RF_OK;
    s->store.generation++;
    RF_TRY(rf_flat_grow(s, &store->values, capacity, store->used));
    return s->store.trains ? rf_flat_grow(s, &s->store.gradients, capacity, store->used) : RF_OK;
}

static bool can_set_aside(const rf_variable *v)
{
    return v->trainable && !v->aside && v->updaters == 0 && !v->served;
}

rf_result rf_variables_set_aside(rf_strategy *s, rf_variable *const *variables, uint32_t count)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++)
        if (can_set_aside(variables[i])) total += rf_align_up(variables[i]->count, s->store.alignment);
    if (total == 0) return RF_OK;
    RF_TRY(rf_strategy_wait(s));
    rf_store *aside = &s->store.aside;
    if (aside->used + total > aside->values.capacity) RF_TRY(set_capacity(s, aside, aside->used + total));
    for (uint32_t i = 0; i < count; i++)
        if (can_set_aside(variables[i])) RF_TRY(change_store(variables[i], true));
    return shrink_trainable(s);
}

/* ---- lifetime ---- */

rf_variable *rf_variable_retain(rf_variable *variable)
{
    variable->references++;
    return variable;
}

void rf_variable_release(rf_variable *v)
{
    if (!v || --v->references > 0) return;
    remove_variable(rf_variable_store(v), v);
    rf_strategy_release(v->strategy);
    rf_free(v->matrix);
    rf_free(v->name);
    rf_free(v);
}

static rf_result initial_values(const rf_variable *v, const rf_variable_params *p, float *values)
{
    if (p->value) {
        memcpy(values, p->value, rf_variable_elements(v) * sizeof(float));
        return RF_OK;
    }
    const uint64_t seed =
        p->initializer.seed ? p->initializer.seed : rf_hash64(v->strategy->seed, v->strategy->store.variables_created);
    return rf_initializer_fill(&p->initializer, v->shape, seed, values);
}

/* In few bits where the strategy's rules say so. */
static rf_result choose_form(rf_variable *v, rf_weight_matrix is)
{
    const rf_quantization kind = rf_strategy_quantization(v->strategy, v->name, is.table);
    if (is.rows == 0 || kind == RF_QUANTIZATION_NONE) return RF_OK;
    if (!(v->matrix = rf_variable_matrix_make(kind, v->shape, is))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    v->count = v->matrix->layout.words;
    v->trainable = false;
    return RF_OK;
}

static rf_result set_up(rf_variable *v, const rf_variable_params *p, rf_weight_matrix is)
{
    v->name = p->name ? rf_strdup(p->name) : rf_asprintf("variable_%" PRIu64, v->strategy->store.variables_created);
    if (!v->name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const int64_t count = rf_shape_count(v->shape);
    char shape[96];
    RF_REQUIRE(count > 0, "rf_variable_create: '%s' has shape %s; give %d dimensions or less, each of at least 1",
               v->name, rf_shape_format(v->shape, shape, sizeof(shape)), RF_MAX_RANK);
    v->count = (uint64_t)count;
    RF_TRY(choose_form(v, is));
    const rf_variable_source *source = v->strategy->store.source;
    const rf_result admitted = source ? source->admit(source->user, v->name, v->shape) : RF_OK;
    RF_TRY(admitted);
    if (source && admitted == RF_OK) return place_variable(v, NULL);
    float *placed = RF_NEW_ARRAY(float, rf_align_up(v->count, v->strategy->store.alignment));
    float *values = v->matrix ? RF_NEW_ARRAY(float, rf_variable_elements(v)) : placed;
    rf_result r = placed && values ? initial_values(v, p, values) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0 && v->matrix) r = rf_variable_matrix_pack(v->matrix, v->name, values, placed);
    if (r >= 0) r = place_variable(v, placed);
    if (v->matrix) rf_free(values);
    rf_free(placed);
    return r < 0 && !v->matrix ? rf_error_context(r, "variable '%s'", v->name) : r;
}

RF_API rf_result rf_variable_create(rf_strategy *strategy, const rf_variable_params *params, rf_variable **out)
{
    return rf_variable_create_weight(strategy, params, (rf_weight_matrix){ 0 }, out);
}

rf_result rf_variable_create_weight(rf_strategy *strategy, const rf_variable_params *params, rf_weight_matrix matrix,
                                    rf_variable **out)
{
    RF_REQUIRE(out, "rf_variable_create: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_variable_params, params));
    RF_REQUIRE(strategy, "rf_variable_create: strategy is NULL");
    RF_REQUIRE(params, "rf_variable_create: params is NULL; at least a shape is needed");
    RF_TRY(rf_strategy_status(strategy));
    rf_variable *v = RF_NEW(rf_variable);
    if (!v) return RF_ERROR_OUT_OF_HOST_MEMORY;
    v->references = 1;
    v->strategy = rf_strategy_retain(strategy);
    v->shape = params->shape;
    v->trainable = !params->not_trainable;
    const rf_result r = set_up(v, params, matrix);
    if (r < 0) {
        rf_strategy_release(strategy);
        rf_free(v->matrix);
        rf_free(v->name);
        rf_free(v);
        return r;
    }
    strategy->store.variables_created++;
    *out = v;
    return RF_OK;
}

RF_API void rf_variable_destroy(rf_variable **variable)
{
    if (!variable || !*variable) return;
    rf_variable_release(*variable);
    *variable = NULL;
}

/* ---- questions ---- */

RF_API const char *rf_variable_name(const rf_variable *variable)
{
    return variable ? variable->name : "";
}

RF_API rf_shape rf_variable_shape(const rf_variable *variable)
{
    return variable ? variable->shape : (rf_shape){ 0 };
}

RF_API bool rf_variable_trainable(const rf_variable *variable)
{
    return variable && variable->trainable;
}

/* ---- values ---- */

static bool is_whole(const rf_variable *v, rf_range range)
{
    return range.end - range.begin == rf_variable_elements(v);
}

/* Some elements of one in few bits, by way of all of them. */
static rf_result read_matrix(const rf_variable *v, uint32_t index, rf_range range, float *values)
{
    const bool whole = is_whole(v, range);
    float *words = RF_NEW_ARRAY(float, v->count), *all = whole ? values : RF_NEW_ARRAY(float, rf_variable_elements(v));
    rf_result r = words && all ? rf_flat_read(&v->strategy->store.fixed.values, index, v->offset, v->count, words)
                               : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = rf_variable_matrix_unpack(v->matrix, words, all);
    if (r >= 0 && !whole) memcpy(values, all + range.begin, (size_t)(range.end - range.begin) * sizeof(float));
    if (!whole) rf_free(all);
    rf_free(words);
    return r;
}

static rf_result read_local(const rf_variable *v, uint32_t index, rf_range range, float *values)
{
    RF_TRY(rf_strategy_wait_local(v->strategy, index));
    RF_TRY(rf_strategy_status(v->strategy));
    if (v->matrix) return read_matrix(v, index, range, values);
    return rf_flat_read(&rf_variable_store(v)->values, index, v->offset + range.begin, range.end - range.begin, values);
}

static rf_range all_elements(const rf_variable *v)
{
    return (rf_range){ 0, rf_variable_elements(v) };
}

RF_API rf_result rf_variable_read_replica(const rf_variable *variable, uint32_t replica, float *values)
{
    RF_REQUIRE(variable, "rf_variable_read_replica: variable is NULL");
    RF_REQUIRE(values, "rf_variable_read_replica: values is NULL");
    uint32_t index;
    RF_TRY(rf_error_context(rf_strategy_local_index(variable->strategy, "rf_variable_read_replica", replica, &index),
                            "variable '%s'", variable->name));
    return read_local(variable, index, all_elements(variable), values);
}

RF_API rf_result rf_variable_read(const rf_variable *variable, float *values)
{
    RF_REQUIRE(variable, "rf_variable_read: variable is NULL");
    RF_REQUIRE(values, "rf_variable_read: values is NULL");
    return read_local(variable, 0, all_elements(variable), values);
}

rf_result rf_variable_read_range(const rf_variable *v, rf_range range, float *values)
{
    return read_local(v, 0, range, values);
}

/* ---- values in few bits ---- */

rf_quantization rf_strategy_quantization(const rf_strategy *strategy, const char *name, bool table)
{
    return rf_quantize_rules_find(&strategy->store.quantize, name, table);
}

const rf_quantized_layout *rf_variable_quantized(const rf_variable *v, rf_quantization *kind)
{
    if (!v->matrix) return NULL;
    *kind = v->matrix->kind;
    return &v->matrix->layout;
}

bool rf_variable_was_assigned(const rf_variable *v)
{
    return !v->matrix || v->matrix->assigned;
}

rf_result rf_variable_pack(const rf_variable *v, const float *values, void *words)
{
    return rf_variable_matrix_pack(v->matrix, v->name, values, words);
}

rf_result rf_variable_write_words(rf_variable *v, const void *words)
{
    RF_TRY(rf_strategy_synchronize(v->strategy));
    v->matrix->assigned = false;
    return write_from(v, 0, words, v->count);
}

static rf_result assign_matrix(rf_variable *v, rf_range range, const float *values)
{
    const bool whole = is_whole(v, range);
    float *words = RF_NEW_ARRAY(float, v->count), *all = whole ? NULL : RF_NEW_ARRAY(float, rf_variable_elements(v));
    rf_result r = words && (whole || all) ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0 && !whole) r = read_matrix(v, 0, all_elements(v), all);
    if (r >= 0 && !whole) memcpy(all + range.begin, values, (size_t)(range.end - range.begin) * sizeof(float));
    if (r >= 0) r = rf_variable_pack(v, whole ? values : all, words);
    if (r >= 0) r = write_from(v, 0, words, v->count);
    v->matrix->assigned = true;
    rf_free(words);
    rf_free(all);
    return r;
}

rf_result rf_variable_assign_range(rf_variable *v, rf_range range, const float *values)
{
    RF_TRY(rf_strategy_synchronize(v->strategy));
    if (v->matrix) return assign_matrix(v, range, values);
    return write_from(v, range.begin, values, range.end - range.begin);
}

RF_API rf_result rf_variable_assign(rf_variable *variable, const float *values)
{
    RF_REQUIRE(variable, "rf_variable_assign: variable is NULL");
    RF_REQUIRE(values, "rf_variable_assign: values is NULL");
    return rf_variable_assign_range(variable, all_elements(variable), values);
}

void rf_variable_set_served(rf_variable *variable, bool served)
{
    variable->served = served;
}

rf_strategy *rf_variable_strategy(const rf_variable *variable)
{
    return variable->strategy;
}

/* Insertion sort: lists are usually in creation order. */
void rf_variables_sort(rf_variable **variables, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        rf_variable *v = variables[i];
        uint32_t k = i;
        for (; k > 0 && variables[k - 1]->offset > v->offset; k--) variables[k] = variables[k - 1];
        variables[k] = v;
    }
}
