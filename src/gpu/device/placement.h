/* SPDX-License-Identifier: Apache-2.0 */
/* Where a driver's threads run. lavapipe divides every dispatch into equal parts, one for each processor, and wakes a
 * thread for each. The system often puts two of them on one processor, where the second waits for the first while
 * another processor is idle; bound to a processor each they begin at once. */
#ifndef RF_GPU_PLACEMENT_H
#define RF_GPU_PLACEMENT_H

#include "base/threads.h"

/* Pure. Which threads, of those that came while lavapipe opened a device, compute what is dispatched: it starts as many
 * that draw, called llvmpipe-0, llvmpipe-1 and so on, and right after them these, which keep the name of the thread
 * that opened the device, `opener`. Returns the first of `num_cpus` in `after`, in a row. NULL where the threads that
 * came are others, or not one for each of `num_cpus` processors: somebody limited them, and has the process placed. */
const rf_thread *rf_gpu_find_workers(const rf_thread_list *before, const rf_thread_list *after, int64_t opener,
                                     uint32_t num_cpus);

/* Pure. Whether the threads that came have the names that they keep: those that draw name themselves, on a busy machine
 * only after the device is open, and until then look like those that compute. */
bool rf_gpu_workers_settled(const rf_thread_list *before, const rf_thread_list *after, int64_t opener);

/* RINGFIRE_PIN_THREADS says it; where it is not set, unless others compute on the same processors: among several that
 * do the system is free to give each what another leaves. */
bool rf_gpu_placement_wanted(bool shares_cpus);
/* Around the opening of a device of lavapipe, by one thread: the threads that there are before, and what binds those
 * that compute to a processor each. Where the above finds none nothing changes; never a failure. */
void rf_gpu_placement_begin(rf_thread_list *before);
void rf_gpu_placement_end(rf_thread_list *before, const char *device_name);

#endif
