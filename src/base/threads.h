/* SPDX-License-Identifier: Apache-2.0 */
/* The threads of this process, and the processors that they run on. Linux says all of this; where a system does not,
 * lists are empty and nothing is pinned. */
#ifndef RF_BASE_THREADS_H
#define RF_BASE_THREADS_H

#include <ringfire/common.h>

#define RF_THREAD_NAME_SIZE 16u /* what the system keeps of a name */

typedef struct rf_thread {
    int64_t id;
    char name[RF_THREAD_NAME_SIZE]; /* that of the thread that started it, until it gets one of its own */
} rf_thread;

typedef struct rf_thread_list {
    rf_thread *items;
    uint32_t count, capacity;
} rf_thread_list;

/* All threads of this process, in ascending order of their ids; empty where the system does not list them. The system
 * gives ids in that order until it begins again from the lowest. `items` is freed with rf_free, after a failure too. */
rf_result rf_threads_list(rf_thread_list *list);
int64_t rf_thread_id(void); /* of the calling thread */
/* The first `capacity` processors that the calling thread may run on, ascending; returns how many there are. */
uint32_t rf_thread_cpus(uint32_t *cpus, uint32_t capacity);
/* From here on that thread of this process runs on that processor only. False where it cannot. */
bool rf_thread_pin(int64_t id, uint32_t cpu);
/* From here on the calling thread, and those that it starts, leave the processor to others that want it. */
void rf_thread_lower_priority(void);
uint32_t rf_cpu_count(void); /* that the calling thread may run on, at least 1 */

#endif
