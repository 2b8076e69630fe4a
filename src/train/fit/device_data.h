/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets that lie on the devices: only numbers of rows travel to them. */
#ifndef RF_TRAIN_FIT_DEVICE_DATA_H
#define RF_TRAIN_FIT_DEVICE_DATA_H

#include <ringfire/train.h>

/* Why so many bytes are too many for the data of a device with this memory; NULL: they are not. `budget` 0: a quarter
 * of the memory. Pure. */
const char *rf_device_data_obstacle(uint64_t bytes, uint64_t budget, uint64_t memory_size, uint64_t max_allocation);

#endif
