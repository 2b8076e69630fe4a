/* SPDX-License-Identifier: Apache-2.0 */
/* Structs that programs pass in end with reserved words. Later versions turn these words into fields, so that sizes and
 * offsets never change. A word that is set may be an option of a newer header, which must not be ignored. */
#ifndef RF_BASE_PARAMS_H
#define RF_BASE_PARAMS_H

#include <stddef.h>

#include <ringfire/common.h>

#define RF_PARAMS_MAX_NESTED 8

typedef struct rf_params_layout rf_params_layout;
typedef struct rf_params_nested {
    const rf_params_layout *layout;
    size_t offset;
    bool is_pointer;     /* to one struct, or NULL; with `count`: to as many as the uint32_t at that place says */
    size_t count_offset; /* 0: none */
} rf_params_nested;
struct rf_params_layout {
    const char *name;
    size_t size, reserved, words;                  /* bytes, place of the reserved words, their number */
    rf_params_nested nested[RF_PARAMS_MAX_NESTED]; /* ended by a zeroed one */
};

extern const rf_params_layout rf_device_options_layout;
extern const rf_params_layout rf_augment_params_layout;
extern const rf_params_layout rf_save_params_layout;
extern const rf_params_layout rf_archive_tensor_layout;
extern const rf_params_layout rf_restore_params_layout;
extern const rf_params_layout rf_checkpoint_manager_params_layout;
extern const rf_params_layout rf_backup_params_layout;
extern const rf_params_layout rf_model_checkpoint_params_layout;
extern const rf_params_layout rf_inference_params_layout;
extern const rf_params_layout rf_comm_params_layout;
extern const rf_params_layout rf_collective_params_layout;
extern const rf_params_layout rf_element_spec_layout;
extern const rf_params_layout rf_element_layout;
extern const rf_params_layout rf_dataset_arrays_params_layout;
extern const rf_params_layout rf_split_params_layout;
extern const rf_params_layout rf_dataset_generator_params_layout;
extern const rf_params_layout rf_padded_batch_params_layout;
extern const rf_params_layout rf_interleave_params_layout;
extern const rf_params_layout rf_csv_component_layout;
extern const rf_params_layout rf_csv_params_layout;
extern const rf_params_layout rf_tfrecord_feature_layout;
extern const rf_params_layout rf_tfrecord_params_layout;
extern const rf_params_layout rf_text_lines_params_layout;
extern const rf_params_layout rf_gettext_params_layout;
extern const rf_params_layout rf_negatives_params_layout;
extern const rf_params_layout rf_image_directory_params_layout;
extern const rf_params_layout rf_event_writer_params_layout;
extern const rf_params_layout rf_hparam_layout;
extern const rf_params_layout rf_event_node_layout;
extern const rf_params_layout rf_conv2d_params_layout;
extern const rf_params_layout rf_pool2d_params_layout;
extern const rf_params_layout rf_attention_params_layout;
extern const rf_params_layout rf_rnn_params_layout;
extern const rf_params_layout rf_one_device_params_layout;
extern const rf_params_layout rf_parameter_server_params_layout;
extern const rf_params_layout rf_worker_function_layout;
extern const rf_params_layout rf_worker_params_layout;
extern const rf_params_layout rf_schedule_layout;
extern const rf_params_layout rf_muon_params_layout;
extern const rf_params_layout rf_parameter_group_layout;
extern const rf_params_layout rf_optimizer_slot_layout;
extern const rf_params_layout rf_hyperparameter_layout;
extern const rf_params_layout rf_custom_optimizer_layout;
extern const rf_params_layout rf_loss_scale_params_layout;
extern const rf_params_layout rf_optimizer_params_layout;
extern const rf_params_layout rf_coordinator_params_layout;
extern const rf_params_layout rf_profiler_params_layout;
extern const rf_params_layout rf_mirrored_params_layout;
extern const rf_params_layout rf_multi_worker_params_layout;
extern const rf_params_layout rf_central_storage_params_layout;
extern const rf_params_layout rf_initializer_layout;
extern const rf_params_layout rf_variable_params_layout;
extern const rf_params_layout rf_function_params_layout;
extern const rf_params_layout rf_distribute_params_layout;
extern const rf_params_layout rf_dtype_policy_layout;
extern const rf_params_layout rf_regularizer_layout;
extern const rf_params_layout rf_dense_params_layout;
extern const rf_params_layout rf_embedding_params_layout;
extern const rf_params_layout rf_conv2d_layer_params_layout;
extern const rf_params_layout rf_batch_norm_params_layout;
extern const rf_params_layout rf_layer_norm_params_layout;
extern const rf_params_layout rf_group_norm_params_layout;
extern const rf_params_layout rf_rms_norm_params_layout;
extern const rf_params_layout rf_conv1d_layer_params_layout;
extern const rf_params_layout rf_pool1d_params_layout;
extern const rf_params_layout rf_depthwise_conv2d_params_layout;
extern const rf_params_layout rf_separable_conv2d_params_layout;
extern const rf_params_layout rf_p_relu_params_layout;
extern const rf_params_layout rf_rnn_layer_params_layout;
extern const rf_params_layout rf_multi_head_attention_params_layout;
extern const rf_params_layout rf_layer_apply_params_layout;
extern const rf_params_layout rf_loss_layout;
extern const rf_params_layout rf_metric_params_layout;
extern const rf_params_layout rf_average_loss_params_layout;
extern const rf_params_layout rf_output_metric_layout;
extern const rf_params_layout rf_device_data_params_layout;
extern const rf_params_layout rf_compile_params_layout;
extern const rf_params_layout rf_model_params_layout;
extern const rf_params_layout rf_callback_fns_layout;
extern const rf_params_layout rf_early_stopping_params_layout;
extern const rf_params_layout rf_tensorboard_params_layout;
extern const rf_params_layout rf_fit_params_layout;
extern const rf_params_layout rf_tokenizer_params_layout;
extern const rf_params_layout rf_pad_params_layout;
extern const rf_params_layout rf_custom_dispatch_layout;
extern const rf_params_layout rf_custom_op_params_layout;
extern const rf_params_layout rf_custom_variable_params_layout;
extern const rf_params_layout rf_custom_layer_params_layout;
/* All of them, then NULL. */
extern const rf_params_layout *const rf_params_layouts[];

/* RF_ERROR_INVALID_ARGUMENT names the struct, or the one inside it, whose reserved words are not zero. NULL is fine. */
#define RF_PARAMS_CHECK(type, params) rf_params_check_layout(&type##_layout, 1 ? (params) : (const type *)NULL)
rf_result rf_params_check_layout(const rf_params_layout *layout, const void *params);
/* Of an array of structs. */
#define RF_PARAMS_CHECK_ALL(type, items, count)                                                                        \
    rf_params_check_array(&type##_layout, 1 ? (items) : (const type *)NULL, count)
rf_result rf_params_check_array(const rf_params_layout *layout, const void *items, uint64_t count);

#endif
