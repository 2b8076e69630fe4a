/* SPDX-License-Identifier: Apache-2.0 */
/* Every public struct that callers fill. A row lists the structs of this table inside it; tests/project/check_params.py
 * compares all of it with the headers. */
#include "base/params.h"

#include <stddef.h>

#include <ringfire/ringfire.h>

#include "base/error.h"

/* Structs that contain others come after these. */
#define MEMBER(outer, field, type)                                                                                     \
    {                                                                                                                  \
        &type##_layout, offsetof(outer, field), false                                                                  \
    }
#define POINTER(outer, field, type)                                                                                    \
    {                                                                                                                  \
        &type##_layout, offsetof(outer, field), true                                                                   \
    }
#define ARRAY(outer, field, type, count)                                                                               \
    {                                                                                                                  \
        &type##_layout, offsetof(outer, field), true, offsetof(outer, count)                                           \
    }
#define LAYOUT(type, ...)                                                                                              \
    const rf_params_layout type##_layout = {                                                                           \
        .name = #type,                                                                                                 \
        .size = sizeof(type),                                                                                          \
        .reserved = offsetof(type, reserved),                                                                          \
        .words = sizeof(((type *)NULL)->reserved) / sizeof(uint64_t),                                                  \
        .nested = { __VA_ARGS__ },                                                                                     \
    }

LAYOUT(rf_device_options, { 0 });
LAYOUT(rf_save_params, { 0 });
LAYOUT(rf_archive_tensor, { 0 });
LAYOUT(rf_restore_params, { 0 });
LAYOUT(rf_checkpoint_manager_params, MEMBER(rf_checkpoint_manager_params, save, rf_save_params));
LAYOUT(rf_backup_params, MEMBER(rf_backup_params, save, rf_save_params));
LAYOUT(rf_model_checkpoint_params, MEMBER(rf_model_checkpoint_params, save, rf_save_params));
LAYOUT(rf_inference_params, { 0 });
LAYOUT(rf_comm_params, { 0 });
LAYOUT(rf_collective_params, { 0 });
LAYOUT(rf_element_spec, { 0 });
LAYOUT(rf_element, { 0 });
LAYOUT(rf_dataset_arrays_params, { 0 });
LAYOUT(rf_split_params, { 0 });
LAYOUT(rf_dataset_generator_params, MEMBER(rf_dataset_generator_params, spec, rf_element_spec));
LAYOUT(rf_event_writer_params, { 0 });
LAYOUT(rf_hparam, { 0 });
LAYOUT(rf_event_node, { 0 });
LAYOUT(rf_conv2d_params, { 0 });
LAYOUT(rf_pool2d_params, { 0 });
LAYOUT(rf_attention_params, { 0 });
LAYOUT(rf_rnn_params, { 0 });
LAYOUT(rf_one_device_params, MEMBER(rf_one_device_params, options, rf_device_options));
LAYOUT(rf_parameter_server_params, MEMBER(rf_parameter_server_params, comm, rf_comm_params),
       MEMBER(rf_parameter_server_params, device, rf_one_device_params));
LAYOUT(rf_worker_function, { 0 });
LAYOUT(rf_worker_params, MEMBER(rf_worker_params, comm, rf_comm_params),
       ARRAY(rf_worker_params, functions, rf_worker_function, num_functions));
LAYOUT(rf_augment_params, { 0 });
LAYOUT(rf_padded_batch_params, { 0 });
LAYOUT(rf_interleave_params, { 0 });
LAYOUT(rf_csv_component, { 0 });
LAYOUT(rf_csv_params, ARRAY(rf_csv_params, components, rf_csv_component, num_components));
LAYOUT(rf_text_lines_params, { 0 });
LAYOUT(rf_gettext_params, { 0 });
LAYOUT(rf_negatives_params, { 0 });
LAYOUT(rf_tfrecord_feature, { 0 });
LAYOUT(rf_tfrecord_params, ARRAY(rf_tfrecord_params, features, rf_tfrecord_feature, num_features));
LAYOUT(rf_image_directory_params, { 0 });
LAYOUT(rf_schedule, { 0 });
LAYOUT(rf_muon_params, { 0 });
LAYOUT(rf_parameter_group, POINTER(rf_parameter_group, muon, rf_muon_params));
LAYOUT(rf_optimizer_slot, { 0 });
LAYOUT(rf_hyperparameter, { 0 });
LAYOUT(rf_custom_optimizer, ARRAY(rf_custom_optimizer, slots, rf_optimizer_slot, num_slots),
       ARRAY(rf_custom_optimizer, hyperparameters, rf_hyperparameter, num_hyperparameters));
LAYOUT(rf_loss_scale_params, { 0 });
LAYOUT(rf_optimizer_params, POINTER(rf_optimizer_params, schedule, rf_schedule),
       ARRAY(rf_optimizer_params, groups, rf_parameter_group, num_groups),
       POINTER(rf_optimizer_params, custom, rf_custom_optimizer),
       POINTER(rf_optimizer_params, loss_scale, rf_loss_scale_params));
LAYOUT(rf_coordinator_params, MEMBER(rf_coordinator_params, comm, rf_comm_params),
       POINTER(rf_coordinator_params, optimizer, rf_optimizer_params));
LAYOUT(rf_profiler_params, { 0 });
LAYOUT(rf_mirrored_params, MEMBER(rf_mirrored_params, device, rf_device_options));
LAYOUT(rf_multi_worker_params, MEMBER(rf_multi_worker_params, mirrored, rf_mirrored_params),
       MEMBER(rf_multi_worker_params, comm, rf_comm_params));
LAYOUT(rf_central_storage_params, MEMBER(rf_central_storage_params, mirrored, rf_mirrored_params));
LAYOUT(rf_initializer, { 0 });
LAYOUT(rf_variable_params, MEMBER(rf_variable_params, initializer, rf_initializer));
LAYOUT(rf_function_params, { 0 });
LAYOUT(rf_distribute_params, { 0 });
LAYOUT(rf_dtype_policy, { 0 });
LAYOUT(rf_regularizer, { 0 });
LAYOUT(rf_dense_params, MEMBER(rf_dense_params, kernel_initializer, rf_initializer),
       POINTER(rf_dense_params, bias_initializer, rf_initializer),
       MEMBER(rf_dense_params, kernel_regularizer, rf_regularizer));
LAYOUT(rf_embedding_params, POINTER(rf_embedding_params, initializer, rf_initializer),
       MEMBER(rf_embedding_params, regularizer, rf_regularizer));
LAYOUT(rf_conv2d_layer_params, MEMBER(rf_conv2d_layer_params, conv, rf_conv2d_params),
       MEMBER(rf_conv2d_layer_params, kernel_initializer, rf_initializer),
       POINTER(rf_conv2d_layer_params, bias_initializer, rf_initializer),
       MEMBER(rf_conv2d_layer_params, kernel_regularizer, rf_regularizer));
LAYOUT(rf_batch_norm_params, POINTER(rf_batch_norm_params, beta_initializer, rf_initializer),
       POINTER(rf_batch_norm_params, gamma_initializer, rf_initializer),
       MEMBER(rf_batch_norm_params, beta_regularizer, rf_regularizer),
       MEMBER(rf_batch_norm_params, gamma_regularizer, rf_regularizer));
LAYOUT(rf_layer_norm_params, POINTER(rf_layer_norm_params, beta_initializer, rf_initializer),
       POINTER(rf_layer_norm_params, gamma_initializer, rf_initializer));
LAYOUT(rf_group_norm_params, POINTER(rf_group_norm_params, beta_initializer, rf_initializer),
       POINTER(rf_group_norm_params, gamma_initializer, rf_initializer),
       MEMBER(rf_group_norm_params, beta_regularizer, rf_regularizer),
       MEMBER(rf_group_norm_params, gamma_regularizer, rf_regularizer));
LAYOUT(rf_rms_norm_params, POINTER(rf_rms_norm_params, gamma_initializer, rf_initializer));
LAYOUT(rf_conv1d_layer_params, MEMBER(rf_conv1d_layer_params, kernel_initializer, rf_initializer),
       POINTER(rf_conv1d_layer_params, bias_initializer, rf_initializer),
       MEMBER(rf_conv1d_layer_params, kernel_regularizer, rf_regularizer));
LAYOUT(rf_pool1d_params, { 0 });
LAYOUT(rf_depthwise_conv2d_params, MEMBER(rf_depthwise_conv2d_params, conv, rf_conv2d_params),
       MEMBER(rf_depthwise_conv2d_params, kernel_initializer, rf_initializer),
       POINTER(rf_depthwise_conv2d_params, bias_initializer, rf_initializer),
       MEMBER(rf_depthwise_conv2d_params, kernel_regularizer, rf_regularizer));
LAYOUT(rf_separable_conv2d_params, MEMBER(rf_separable_conv2d_params, conv, rf_conv2d_params),
       MEMBER(rf_separable_conv2d_params, depthwise_initializer, rf_initializer),
       MEMBER(rf_separable_conv2d_params, pointwise_initializer, rf_initializer),
       POINTER(rf_separable_conv2d_params, bias_initializer, rf_initializer),
       MEMBER(rf_separable_conv2d_params, depthwise_regularizer, rf_regularizer),
       MEMBER(rf_separable_conv2d_params, pointwise_regularizer, rf_regularizer));
LAYOUT(rf_p_relu_params, POINTER(rf_p_relu_params, alpha_initializer, rf_initializer),
       MEMBER(rf_p_relu_params, alpha_regularizer, rf_regularizer));
LAYOUT(rf_rnn_layer_params, POINTER(rf_rnn_layer_params, kernel_initializer, rf_initializer),
       POINTER(rf_rnn_layer_params, recurrent_initializer, rf_initializer),
       MEMBER(rf_rnn_layer_params, kernel_regularizer, rf_regularizer),
       MEMBER(rf_rnn_layer_params, recurrent_regularizer, rf_regularizer));
LAYOUT(rf_multi_head_attention_params, POINTER(rf_multi_head_attention_params, kernel_initializer, rf_initializer));
LAYOUT(rf_layer_apply_params, { 0 });
LAYOUT(rf_loss, { 0 });
LAYOUT(rf_metric_params, { 0 });
LAYOUT(rf_average_loss_params, { 0 });
LAYOUT(rf_output_metric, MEMBER(rf_output_metric, metric, rf_metric_params));
LAYOUT(rf_device_data_params, { 0 });
LAYOUT(rf_compile_params, MEMBER(rf_compile_params, loss, rf_loss),
       ARRAY(rf_compile_params, losses, rf_loss, num_losses),
       ARRAY(rf_compile_params, output_metrics, rf_output_metric, num_output_metrics));
LAYOUT(rf_model_params, { 0 });
LAYOUT(rf_callback_fns, { 0 });
LAYOUT(rf_early_stopping_params, { 0 });
LAYOUT(rf_tensorboard_params, { 0 });
LAYOUT(rf_fit_params, { 0 });
LAYOUT(rf_tokenizer_params, { 0 });
LAYOUT(rf_pad_params, { 0 });
LAYOUT(rf_custom_dispatch, { 0 });
LAYOUT(rf_custom_op_params, { 0 });
LAYOUT(rf_custom_variable_params, MEMBER(rf_custom_variable_params, initializer, rf_initializer),
       MEMBER(rf_custom_variable_params, regularizer, rf_regularizer));
LAYOUT(rf_custom_layer_params, { 0 });

const rf_params_layout *const rf_params_layouts[] = {
    &rf_device_options_layout,
    &rf_save_params_layout,
    &rf_archive_tensor_layout,
    &rf_restore_params_layout,
    &rf_checkpoint_manager_params_layout,
    &rf_backup_params_layout,
    &rf_model_checkpoint_params_layout,
    &rf_inference_params_layout,
    &rf_comm_params_layout,
    &rf_collective_params_layout,
    &rf_element_spec_layout,
    &rf_element_layout,
    &rf_dataset_arrays_params_layout,
    &rf_split_params_layout,
    &rf_dataset_generator_params_layout,
    &rf_padded_batch_params_layout,
    &rf_interleave_params_layout,
    &rf_csv_component_layout,
    &rf_csv_params_layout,
    &rf_text_lines_params_layout,
    &rf_gettext_params_layout,
    &rf_negatives_params_layout,
    &rf_tfrecord_feature_layout,
    &rf_tfrecord_params_layout,
    &rf_image_directory_params_layout,
    &rf_event_writer_params_layout,
    &rf_hparam_layout,
    &rf_event_node_layout,
    &rf_conv2d_params_layout,
    &rf_pool2d_params_layout,
    &rf_attention_params_layout,
    &rf_rnn_params_layout,
    &rf_one_device_params_layout,
    &rf_parameter_server_params_layout,
    &rf_worker_function_layout,
    &rf_worker_params_layout,
    &rf_schedule_layout,
    &rf_muon_params_layout,
    &rf_parameter_group_layout,
    &rf_optimizer_slot_layout,
    &rf_hyperparameter_layout,
    &rf_custom_optimizer_layout,
    &rf_loss_scale_params_layout,
    &rf_optimizer_params_layout,
    &rf_coordinator_params_layout,
    &rf_profiler_params_layout,
    &rf_mirrored_params_layout,
    &rf_multi_worker_params_layout,
    &rf_central_storage_params_layout,
    &rf_initializer_layout,
    &rf_variable_params_layout,
    &rf_function_params_layout,
    &rf_distribute_params_layout,
    &rf_dtype_policy_layout,
    &rf_regularizer_layout,
    &rf_dense_params_layout,
    &rf_embedding_params_layout,
    &rf_conv2d_layer_params_layout,
    &rf_batch_norm_params_layout,
    &rf_layer_norm_params_layout,
    &rf_group_norm_params_layout,
    &rf_rms_norm_params_layout,
    &rf_conv1d_layer_params_layout,
    &rf_pool1d_params_layout,
    &rf_depthwise_conv2d_params_layout,
    &rf_separable_conv2d_params_layout,
    &rf_p_relu_params_layout,
    &rf_rnn_layer_params_layout,
    &rf_multi_head_attention_params_layout,
    &rf_layer_apply_params_layout,
    &rf_loss_layout,
    &rf_metric_params_layout,
    &rf_average_loss_params_layout,
    &rf_output_metric_layout,
    &rf_device_data_params_layout,
    &rf_compile_params_layout,
    &rf_model_params_layout,
    &rf_callback_fns_layout,
    &rf_early_stopping_params_layout,
    &rf_tensorboard_params_layout,
    &rf_fit_params_layout,
    &rf_tokenizer_params_layout,
    &rf_pad_params_layout,
    &rf_custom_dispatch_layout,
    &rf_custom_op_params_layout,
    &rf_custom_variable_params_layout,
    &rf_custom_layer_params_layout,
    NULL,
};

rf_result rf_params_check_layout(const rf_params_layout *layout, const void *params)
{
    if (!params) return RF_OK;
    const uint8_t *bytes = params;
    const uint64_t *words = (const uint64_t *)(const void *)(bytes + layout->reserved);
    for (size_t i = 0; i < layout->words; i++)
        RF_REQUIRE(words[i] == 0,
                   "%s::reserved is not zero: this program was built against a newer header than library %s, or the "
                   "struct was not zeroed",
                   layout->name, rf_version_string());
    for (const rf_params_nested *n = layout->nested; n->layout; n++) {
        const void *inner = bytes + n->offset;
        if (n->is_pointer) inner = *(const void *const *)inner;
        const uint32_t count = n->count_offset ? *(const uint32_t *)(const void *)(bytes + n->count_offset) : 1;
        RF_TRY(rf_params_check_array(n->layout, inner, count));
    }
    return RF_OK;
}

rf_result rf_params_check_array(const rf_params_layout *layout, const void *items, uint64_t count)
{
    for (uint64_t i = 0; items && i < count; i++)
        RF_TRY(rf_params_check_layout(layout, (const uint8_t *)items + i * layout->size));
    return RF_OK;
}
