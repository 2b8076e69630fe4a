/* SPDX-License-Identifier: Apache-2.0 */
/* Reserved words that are not zero are refused by every function that takes a struct, before it looks at anything else,
 * and by the struct's name. check_params.py compares the list of functions with the headers. */
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

/* Each word in turn; the call names `params`. */
#define REFUSED(type, call)                                                                                            \
    do {                                                                                                               \
        type params;                                                                                                   \
        memset(&params, 0, sizeof(params));                                                                            \
        for (size_t w = 0; w < sizeof(params.reserved) / sizeof(params.reserved[0]); w++) {                            \
            params.reserved[w] = UINT64_C(1) << 63;                                                                    \
            assert_refused(call, #type);                                                                               \
            params.reserved[w] = 0;                                                                                    \
        }                                                                                                              \
    } while (0)

static void test_table(void **state)
{
    (void)state;
    _Alignas(16) unsigned char bytes[4096];
    size_t count = 0;
    for (; rf_params_layouts[count]; count++) {
        const rf_params_layout *layout = rf_params_layouts[count];
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

static void test_strategies(void **state)
{
    (void)state;
    rf_strategy *strategy;
    rf_variable *variable;
    rf_function *function;
    rf_dataset *dataset;
    REFUSED(rf_mirrored_params, rf_strategy_create_mirrored(&params, &strategy));
    REFUSED(rf_multi_worker_params, rf_strategy_create_multi_worker(&params, &strategy));
    REFUSED(rf_central_storage_params, rf_strategy_create_central_storage(&params, &strategy));
    REFUSED(rf_one_device_params, rf_strategy_create_one_device(&params, &strategy));
    REFUSED(rf_variable_params, rf_variable_create(NULL, &params, &variable));
    REFUSED(rf_function_params, rf_function_create(NULL, &params, &function));
    REFUSED(rf_element, rf_strategy_run(NULL, NULL, &params, NULL));
    REFUSED(rf_distribute_params, rf_strategy_distribute_dataset(NULL, NULL, &params, &dataset));
    REFUSED(rf_dtype_policy, rf_strategy_set_dtype_policy(NULL, &params));
    REFUSED(rf_dtype_policy, rf_layer_set_dtype_policy(NULL, &params));
    REFUSED(rf_profiler_params, rf_profiler_start(&params));
}

static void test_communication(void **state)
{
    (void)state;
    rf_comm *comm;
    rf_comm_request *request;
    rf_coordinator *coordinator;
    const uint64_t counts[1] = { 0 };
    REFUSED(rf_comm_params, rf_comm_create(&params, &comm));
    REFUSED(rf_collective_params, rf_comm_all_reduce(NULL, NULL, NULL, 0, RF_F32, RF_COMM_SUM, &params));
    REFUSED(rf_collective_params, rf_comm_reduce_scatter(NULL, NULL, NULL, counts, RF_F32, RF_COMM_SUM, &params));
    REFUSED(rf_collective_params, rf_comm_all_gather(NULL, NULL, NULL, counts, RF_F32, &params));
    REFUSED(rf_collective_params, rf_comm_broadcast(NULL, NULL, 0, RF_F32, 0, &params));
    REFUSED(rf_collective_params,
            rf_comm_start_all_reduce(NULL, NULL, NULL, 0, RF_F32, RF_COMM_SUM, &params, &request));
    REFUSED(rf_collective_params,
            rf_comm_start_reduce_scatter(NULL, NULL, NULL, counts, RF_F32, RF_COMM_SUM, &params, &request));
    REFUSED(rf_collective_params, rf_comm_start_all_gather(NULL, NULL, NULL, counts, RF_F32, &params, &request));
    REFUSED(rf_parameter_server_params, rf_parameter_server_run(&params));
    REFUSED(rf_worker_params, rf_worker_run(&params));
    REFUSED(rf_coordinator_params, rf_coordinator_create(&params, &coordinator));
}

static void test_files(void **state)
{
    (void)state;
    rf_checkpoint_manager *manager;
    rf_event_writer *writer;
    rf_inference *inference;
    uint64_t number;
    REFUSED(rf_save_params, rf_archive_save("/nonexistent/file", NULL, 0, &params));
    REFUSED(rf_save_params, rf_archive_from_safetensors(NULL, "/nonexistent/file", &params));
    REFUSED(rf_archive_tensor, rf_archive_save("/nonexistent/file", &params, 1, NULL));
    REFUSED(rf_save_params, rf_checkpoint_save(NULL, "file", &params));
    REFUSED(rf_restore_params, rf_checkpoint_restore(NULL, "file", &params));
    REFUSED(rf_checkpoint_manager_params, rf_checkpoint_manager_create(NULL, &params, &manager));
    REFUSED(rf_restore_params, rf_checkpoint_manager_restore(NULL, &params, &number));
    REFUSED(rf_save_params, rf_model_save_weights(NULL, "file", &params));
    REFUSED(rf_save_params, rf_model_save(NULL, "file", &params));
    REFUSED(rf_save_params, rf_model_export(NULL, "file", &params));
    REFUSED(rf_inference_params, rf_inference_load("file", &params, &inference));
    REFUSED(rf_event_writer_params, rf_event_writer_create(&params, &writer));
    REFUSED(rf_hparam, rf_event_writer_hparams(NULL, &params, 1));
    REFUSED(rf_event_node, rf_event_writer_graph(NULL, &params, 1));
}

/* The only one whose failure is a value. */
static rf_result as_result(double value)
{
    return isnan(value) ? RF_ERROR_INVALID_ARGUMENT : RF_OK;
}

static void test_training(void **state)
{
    (void)state;
    rf_layer *layer;
    rf_model *model;
    rf_metric *metric;
    rf_optimizer *optimizer;
    rf_device_data *device_data;
    rf_callback *callback;
    REFUSED(rf_dense_params, rf_layer_dense(&params, &layer));
    REFUSED(rf_conv2d_layer_params, rf_layer_conv2d(&params, &layer));
    REFUSED(rf_conv2d_layer_params, rf_layer_conv2d_transpose(&params, &layer));
    REFUSED(rf_embedding_params, rf_layer_embedding(&params, &layer));
    REFUSED(rf_batch_norm_params, rf_layer_batch_norm(&params, &layer));
    REFUSED(rf_layer_norm_params, rf_layer_layer_norm(&params, &layer));
    REFUSED(rf_group_norm_params, rf_layer_group_norm(&params, &layer));
    REFUSED(rf_rms_norm_params, rf_layer_rms_norm(&params, &layer));
    REFUSED(rf_conv1d_layer_params, rf_layer_conv1d(&params, &layer));
    REFUSED(rf_pool1d_params, rf_layer_max_pool1d(&params, &layer));
    REFUSED(rf_pool1d_params, rf_layer_avg_pool1d(&params, &layer));
    REFUSED(rf_depthwise_conv2d_params, rf_layer_depthwise_conv2d(&params, &layer));
    REFUSED(rf_separable_conv2d_params, rf_layer_separable_conv2d(&params, &layer));
    REFUSED(rf_p_relu_params, rf_layer_p_relu(&params, &layer));
    REFUSED(rf_rnn_layer_params, rf_layer_rnn(&params, &layer));
    REFUSED(rf_multi_head_attention_params, rf_layer_multi_head_attention(&params, &layer));
    REFUSED(rf_initializer, rf_layer_position_embedding(1, &params, NULL, &layer));
    REFUSED(rf_layer_apply_params, rf_layer_apply(NULL, NULL, NULL, &params, NULL, 0));
    REFUSED(rf_metric_params, rf_metric_create_with(NULL, &params, &metric));
    REFUSED(rf_pool2d_params, rf_layer_max_pool2d(&params, &layer));
    REFUSED(rf_pool2d_params, rf_layer_avg_pool2d(&params, &layer));
    REFUSED(rf_schedule, as_result(rf_schedule_value(&params, 0)));
    REFUSED(rf_optimizer_params, rf_optimizer_create(NULL, &params, &optimizer));
    REFUSED(rf_compile_params, rf_model_compile(NULL, &params));
    REFUSED(rf_device_data_params, rf_device_data_create(NULL, NULL, &params, &device_data));
    REFUSED(rf_model_params, rf_model_create(NULL, &params, &model));
    REFUSED(rf_element_spec, rf_model_build_inputs(NULL, &params));
    REFUSED(rf_fit_params, rf_model_fit(NULL, &params, NULL));
    REFUSED(rf_callback_fns, rf_callback_create(&params, NULL, &callback));
    REFUSED(rf_early_stopping_params, rf_callback_early_stopping(&params, &callback));
    REFUSED(rf_tensorboard_params, rf_callback_tensorboard(&params, &callback));
    REFUSED(rf_backup_params, rf_callback_backup_and_restore(&params, &callback));
    REFUSED(rf_model_checkpoint_params, rf_callback_model_checkpoint(&params, &callback));
}

static void test_text(void **state)
{
    (void)state;
    rf_tokenizer *tokenizer;
    rf_array array;
    REFUSED(rf_tokenizer_params, rf_tokenizer_train(&params, NULL, NULL, 0, &tokenizer));
    REFUSED(rf_tokenizer_params, rf_tokenizer_create(&params, NULL, NULL, 0, &tokenizer));
    REFUSED(rf_pad_params, rf_sequences_pad(NULL, 0, &params, &array));
    REFUSED(rf_pad_params, rf_tokenizer_encode_padded(NULL, NULL, NULL, 0, &params, &array));
}

static void test_custom(void **state)
{
    (void)state;
    rf_custom_op *op;
    rf_layer *layer;
    REFUSED(rf_custom_op_params, rf_custom_op_create(&params, &op));
    REFUSED(rf_custom_layer_params, rf_layer_custom(&params, &layer));
    assert_int_equal(rf_layer_flatten(&layer), RF_OK);
    REFUSED(rf_custom_variable_params, rf_custom_layer_variable(layer, &params));
    rf_layer_destroy(&layer);
}

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

static rf_result random_map(void *user, rf_random_key key, const rf_element *in, rf_element *out)
{
    (void)key;
    return map(user, in, out);
}

static rf_result make_nothing(void *user, const rf_element *in, rf_dataset **out)
{
    (void)user;
    (void)in;
    *out = NULL;
    return RF_OK;
}

static void test_data(void **state)
{
    (void)state;
    rf_dataset *source, *mapped;
    uint64_t word = 0;
    REFUSED(rf_dataset_arrays_params, rf_dataset_from_arrays(&params, &source));
    REFUSED(rf_dataset_generator_params, rf_dataset_from_generator(&params, &source));
    REFUSED(rf_csv_params, rf_dataset_from_csv(&params, &source));
    REFUSED(rf_text_lines_params, rf_dataset_from_text_lines(&params, &source));
    REFUSED(rf_gettext_params, rf_dataset_from_gettext(&params, &source));
    REFUSED(rf_negatives_params, rf_dataset_with_negatives(&params, &source));
    REFUSED(rf_tfrecord_params, rf_dataset_from_tfrecord(&params, &source));
    REFUSED(rf_image_directory_params, rf_dataset_from_image_directory(&params, &source));
    rf_dataset_generator_params p = {
        .generate = generate, .user = &word, .spec = { .num_components = 1, .dtype = { RF_F32 } }, .cardinality = 1
    };
    assert_int_equal(rf_dataset_from_generator(&p, &source), RF_OK);
    REFUSED(rf_element_spec, rf_dataset_map(source, map, &word, &params, &mapped));
    REFUSED(rf_element_spec, rf_dataset_map_random(source, random_map, &word, 1, &params, &mapped));
    REFUSED(rf_element_spec, rf_dataset_flat_map(source, make_nothing, NULL, &params, &mapped));
    const rf_interleave_params turns = { .cycle_length = 1 };
    REFUSED(rf_element_spec, rf_dataset_interleave(source, make_nothing, NULL, &params, &turns, &mapped));
    REFUSED(rf_interleave_params, rf_dataset_interleave(source, make_nothing, NULL, &p.spec, &params, &mapped));
    REFUSED(rf_augment_params, rf_dataset_map_augment(source, 0, 1, &params, &mapped));
    REFUSED(rf_split_params, rf_dataset_split(source, &params, &mapped, &mapped));
    REFUSED(rf_padded_batch_params, rf_dataset_padded_batch(source, &params, &mapped));
    /* What user functions fill. */
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

/* Operations of a step: what they refuse sticks to the trace, so that each word has a trace of its own. */
typedef rf_tensor (*traced_fn)(rf_trace *t, rf_tensor x, size_t word);

#define TRACED(name, type, call)                                                                                       \
    static rf_tensor name(rf_trace *t, rf_tensor x, size_t word)                                                       \
    {                                                                                                                  \
        type params;                                                                                                   \
        memset(&params, 0, sizeof(params));                                                                            \
        params.reserved[word] = 1;                                                                                     \
        return call;                                                                                                   \
    }
TRACED(conv2d, rf_conv2d_params, rf_conv2d(t, x, x, &params))
TRACED(conv2d_transpose, rf_conv2d_params, rf_conv2d_transpose(t, x, x, &params))
TRACED(max_pool2d, rf_pool2d_params, rf_max_pool2d(t, x, &params))
TRACED(rnn, rf_rnn_params, (rf_rnn(t, x, x, x, NULL, &params, &x, NULL), x))
TRACED(avg_pool2d, rf_pool2d_params, rf_avg_pool2d(t, x, &params))
TRACED(attention, rf_attention_params, rf_attention(t, x, x, x, &params))
TRACED(loss_call, rf_loss, rf_loss_call(t, &params, x, x))
TRACED(average_loss, rf_average_loss_params, rf_compute_average_loss(t, x, &params))

typedef struct traced {
    traced_fn fn;
    size_t word;
} traced;

static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const traced *what = user;
    out[0] = what->fn(t, in[0], what->word);
    return rf_trace_status(t);
}

static rf_result trace(rf_strategy *strategy, traced_fn fn, size_t word)
{
    float values[16] = { 0 };
    traced what = { fn, word };
    rf_function *function;
    const rf_element batch = { .num_components = 1, .component = { { RF_F32, RF_SHAPE(1, 4, 4, 1), values } } };
    assert_int_equal(
        rf_function_create(strategy, &(rf_function_params){ .step = step, .user = &what, .num_outputs = 1 }, &function),
        RF_OK);
    const rf_result r = rf_strategy_run(strategy, function, &batch, NULL);
    rf_function_destroy(&function);
    return r;
}

#define REFUSED_IN_TRACE(type, function, fn)                                                                           \
    for (size_t w = 0; w < sizeof(((type *)NULL)->reserved) / sizeof(uint64_t); w++)                                   \
        assert_refused(trace(strategy, fn, w), #type);

static void test_operations(void **state)
{
    (void)state;
    rf_strategy *strategy;
    if (rf_strategy_create_one_device(NULL, &strategy) < 0) SKIP("no Vulkan device");
    REFUSED_IN_TRACE(rf_conv2d_params, rf_conv2d, conv2d)
    REFUSED_IN_TRACE(rf_conv2d_params, rf_conv2d_transpose, conv2d_transpose)
    REFUSED_IN_TRACE(rf_pool2d_params, rf_max_pool2d, max_pool2d)
    REFUSED_IN_TRACE(rf_rnn_params, rf_rnn, rnn)
    REFUSED_IN_TRACE(rf_pool2d_params, rf_avg_pool2d, avg_pool2d)
    REFUSED_IN_TRACE(rf_attention_params, rf_attention, attention)
    REFUSED_IN_TRACE(rf_loss, rf_loss_call, loss_call)
    REFUSED_IN_TRACE(rf_average_loss_params, rf_compute_average_loss, average_loss)
    rf_strategy_destroy(&strategy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),  cmocka_unit_test(test_strategies), cmocka_unit_test(test_communication),
        cmocka_unit_test(test_files),  cmocka_unit_test(test_training),   cmocka_unit_test(test_text),
        cmocka_unit_test(test_custom), cmocka_unit_test(test_data),       cmocka_unit_test(test_operations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
