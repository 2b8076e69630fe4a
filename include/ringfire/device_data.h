/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Data sets in the memory of the devices. The rules of train.h for all of its functions hold here
 * as well.
 */
#ifndef RINGFIRE_DEVICE_DATA_H
#define RINGFIRE_DEVICE_DATA_H

#include <ringfire/dataset.h>
#include <ringfire/ops.h>
#include <ringfire/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Whether a data set is kept in the memory of the devices. */
typedef enum rf_device_cache {
    RF_DEVICE_CACHE_OFF,  /**< batches come from the host */
    RF_DEVICE_CACHE_AUTO, /**< where the data set qualifies; else the log (debug) says why not */
    RF_DEVICE_CACHE_ON,   /**< an error where it does not */
} rf_device_cache;
/** How rf_device_data_create() keeps a data set. */
typedef struct rf_device_data_params {
    rf_device_cache policy;
    uint64_t max_bytes;   /**< on each device; 0: a quarter of its memory */
    uint64_t reserved[6]; /**< zero: room for later fields */
} rf_device_data_params;
/**
 * A data set in the memory of the devices. Batches are then numbers of rows, 4 bytes an example,
 * from which a step takes its examples on the device.
 */
typedef struct rf_device_data rf_device_data;
/**
 * Copies the examples of a batched dataset to every device, each of which holds all of them.
 * It qualifies where its source is arrays in memory (rf_dataset_from_arrays(), IDX and CIFAR files)
 * of f32, i32 or u8, and its maps are rf_dataset_map_scale_u8() and rf_dataset_map_one_hot(). Its
 * other steps may shuffle, batch, take, skip, shard, repeat and prefetch. u8 stays u8 on the
 * device. Order, shuffles, batches and bits of the examples are those of `data`, and so are
 * positions of iterators: rf_iterator_restore() takes those of either for the other.
 *
 * Collective; blocking. All workers keep their data set or none does.
 * @param params NULL: ::RF_DEVICE_CACHE_AUTO
 * @param[out] out NULL, with the result RF_OK, where the policy is OFF, or AUTO and the data set
 * does not qualify
 * @return RF_ERROR_UNSUPPORTED where it does not qualify and the policy is ON, with a message that
 *   names the step or the memory
 */
RF_API RF_MUST_USE rf_result rf_device_data_create(rf_strategy *strategy, const rf_dataset *data,
                                                   const rf_device_data_params *params,
                                                   rf_device_data **out);
/** Destroys it. Functions whose steps take rows from it keep what they need. */
RF_API void rf_device_data_destroy(rf_device_data **data);
/**
 * The dataset of numbers of rows, batched, of elements i32 [n]: what a loop reads (after
 * rf_strategy_distribute_dataset()) and gives to rf_strategy_run(). Borrowed; NULL for NULL.
 */
RF_API const rf_dataset *rf_device_data_rows(const rf_device_data *data);
/**
 * In a step: the examples of these rows, as elements of the data set would have them.
 * @param rows i32 [n], the step's input
 * @param[out] components one for each component of the data set
 * @return the trace's status
 */
RF_API rf_result rf_device_data_take(rf_trace *t, const rf_device_data *data, rf_tensor rows,
                                     rf_tensor *components);
/** How many components the elements of the data set have; 0 for NULL. */
RF_API uint32_t rf_device_data_num_components(const rf_device_data *data);

#ifdef __cplusplus
}
#endif

#endif
