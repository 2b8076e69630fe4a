/* SPDX-License-Identifier: Apache-2.0 */
/* Reserved words that are not zero are refused by every function that takes a struct, before it looks at anything else,
 * and by the struct's name. write_calls.py writes the calls from the headers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ringfire/ringfire.h>

#include "../skip.h"
#include "base/params.h"

static void assert_refused(rf_result r, const char *type)
{
    char text[128];
    snprintf(text, sizeof(text), "%s::reserved is not zero: ", type);
    if (r != RF_ERROR_INVALID_ARGUMENT || !strstr(rf_error_message(), text))
        fail_msg("%s: %s, '%s'", type, rf_result_name(r), rf_error_message());
    assert_non_null(strstr(rf_error_message(), rf_version_string()));
}

/* Every public struct that has reserved words. */
#define PARAMS_STRUCT(type, ...) &type##_layout,
static const rf_params_layout *const layouts[] = {
#include "params_structs.h"
};
#undef PARAMS_STRUCT

static void test_table(void **state)
{
    (void)state;
    _Alignas(16) unsigned char bytes[4096];
    const size_t count = sizeof(layouts) / sizeof(layouts[0]);
    for (size_t i = 0; i < count; i++) {
        const rf_params_layout *layout = layouts[i];
        assert_true(layout->size <= sizeof(bytes));
        assert_int_equal(layout->reserved + 8 * layout->words, layout->size);
        memset(bytes, 0, sizeof(bytes));
        assert_int_equal(rf_params_check_layout(layout, bytes), RF_OK);
        assert_int_equal(rf_params_check_layout(layout, NULL), RF_OK);
        for (size_t place = layout->reserved; place < layout->size; place++) {
            bytes[place] = 1;
            assert_refused(rf_params_check_layout(layout, bytes), layout->name);
            bytes[place] = 0;
        }
        for (const rf_params_nested *n = layout->nested; n->layout; n++) {
            _Alignas(16) unsigned char inner[2048] = { 0 };
            assert_true(2 * n->layout->size <= sizeof(inner));
            if (!n->is_pointer) {
                bytes[n->offset + n->layout->reserved] = 1;
                assert_refused(rf_params_check_layout(layout, bytes), n->layout->name);
                bytes[n->offset + n->layout->reserved] = 0;
                continue;
            }
            const void *pointer = inner;
            const uint32_t two = 2;
            memcpy(bytes + n->offset, &pointer, sizeof(pointer));
            if (n->count_offset) memcpy(bytes + n->count_offset, &two, sizeof(two));
            assert_int_equal(rf_params_check_layout(layout, bytes), RF_OK);
            inner[(n->count_offset ? n->layout->size : 0) + n->layout->reserved] = 1; /* the second, if there is one */
            assert_refused(rf_params_check_layout(layout, bytes), n->layout->name);
            memset(bytes, 0, sizeof(bytes));
        }
    }
    assert_in_range(count, 40, 1000);
}

/* ---- every function that takes such a struct ---- */

/* Objects for the other arguments. Most calls need none, since the struct is looked at first. */
struct objects {
    rf_dataset *dataset;
    rf_layer *layer;
    _Alignas(64) char memory[4096];
};

typedef struct refused_call {
    const char *function;
    const rf_params_layout *layout;
    bool traced; /* the struct is refused while a step is traced */
    rf_result (*fn)(struct objects *o, rf_trace *t, rf_tensor x, const void *params);
} refused_call;

static void never_called(void)
{
    fail();
}

static rf_result as_result(double value)
{
    return isnan(value) ? RF_ERROR_INVALID_ARGUMENT : RF_OK;
}

#include "reserved_calls.h"

/* Calls with each reserved word in turn; `fn` makes the call with `user`. */
static void assert_words_refused(const refused_call *call, rf_result (*fn)(void *user, const void *params), void *user)
{
    const rf_params_layout *layout = call->layout;
    _Alignas(16) unsigned char params[4096] = { 0 };
    uint64_t *words = (uint64_t *)(void *)(params + layout->reserved);
    for (size_t w = 0; w < layout->words; w++) {
        words[w] = UINT64_C(1) << 63;
        print_message("%s: word %zu\n", call->function, w);
        assert_refused(fn(user, params), layout->name);
        words[w] = 0;
    }
}

typedef struct attempt {
    const refused_call *call;
    struct objects *objects;
    rf_strategy *strategy;
    const void *params;
} attempt;

static rf_result call_outside(void *user, const void *params)
{
    const attempt *a = user;
    return a->call->fn(a->objects, NULL, (rf_tensor){ 0 }, params);
}

static void test_functions(void **state)
{
    (void)state;
    struct objects o;
    const rf_array array = { RF_F32, RF_SHAPE(1), (float[1]){ 0 } };
    assert_int_equal(
        rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &o.dataset), RF_OK);
    assert_int_equal(rf_layer_flatten(&o.layer), RF_OK);
    for (size_t i = 0; i < sizeof(refused_calls) / sizeof(refused_calls[0]); i++) {
        if (refused_calls[i].traced) continue;
        attempt a = { &refused_calls[i], &o, NULL, NULL };
        assert_words_refused(a.call, call_outside, &a);
    }
    rf_layer_destroy(&o.layer);
    rf_dataset_destroy(&o.dataset);
}

static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const attempt *a = user;
    out[0] = in[0];
    return a->call->fn(a->objects, t, in[0], a->params);
}

/* The trace keeps what it refuses, so that each word has a trace of its own. */
static rf_result call_inside(void *user, const void *params)
{
    attempt *a = user;
    float values[16] = { 0 };
    rf_function *function;
    const rf_element batch = { .num_components = 1, .component = { { RF_F32, RF_SHAPE(1, 4, 4, 1), values } } };
    a->params = params;
    assert_int_equal(
        rf_function_create(a->strategy, &(rf_function_params){ .step = step, .user = a, .num_outputs = 1 }, &function),
        RF_OK);
    const rf_result r = rf_strategy_run(a->strategy, function, &batch, NULL);
    rf_function_destroy(&function);
    return r;
}

static void test_operations(void **state)
{
    (void)state;
    struct objects o = { 0 };
    rf_strategy *strategy;
    if (rf_strategy_create_one_device(NULL, &strategy) < 0) SKIP("no Vulkan device");
    for (size_t i = 0; i < sizeof(refused_calls) / sizeof(refused_calls[0]); i++) {
        if (!refused_calls[i].traced) continue;
        attempt a = { &refused_calls[i], &o, strategy, NULL };
        assert_words_refused(a.call, call_inside, &a);
    }
    rf_strategy_destroy(&strategy);
}

/* ---- structs that user functions fill ---- */

static rf_result generate(void *user, uint64_t index, rf_element *out)
{
    (void)index;
    memset(out->component[0].data, 0, sizeof(float));
    out->reserved[0] = *(const uint64_t *)user;
    return RF_OK;
}

static rf_result map(void *user, const rf_element *in, rf_element *out)
{
    (void)in;
    return generate(user, 0, out);
}

static rf_result first_of(const rf_dataset *dataset)
{
    rf_iterator *it;
    const rf_element *element;
    assert_int_equal(rf_iterator_create(dataset, 0, &it), RF_OK);
    const rf_result r = rf_iterator_next(it, &element);
    rf_iterator_destroy(&it);
    return r;
}

static void test_callbacks(void **state)
{
    (void)state;
    rf_dataset *source, *mapped;
    uint64_t word = 0;
    const rf_dataset_generator_params p = {
        .generate = generate, .user = &word, .spec = { .num_components = 1, .dtype = { RF_F32 } }, .cardinality = 1
    };
    assert_int_equal(rf_dataset_from_generator(&p, &source), RF_OK);
    uint64_t other = 0;
    assert_int_equal(rf_dataset_map(source, map, &other, &p.spec, &mapped), RF_OK);
    assert_int_equal(first_of(mapped), RF_OK);
    other = 1;
    assert_refused(first_of(mapped), "rf_element");
    word = 1;
    assert_refused(first_of(source), "rf_element");
    rf_dataset_destroy(&mapped);
    rf_dataset_destroy(&source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_callbacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
