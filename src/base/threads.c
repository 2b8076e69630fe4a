/* SPDX-License-Identifier: Apache-2.0 */
#include "base/threads.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"

#define TASKS "/proc/self/task"

int64_t rf_thread_id(void)
{
    return gettid();
}

/* False where the thread has ended meanwhile. */
static bool read_name(rf_thread *thread)
{
    char path[sizeof(TASKS) + 32];
    snprintf(path, sizeof(path), TASKS "/%lld/comm", (long long)thread->id);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const ssize_t length = read(fd, thread->name, sizeof(thread->name) - 1);
    close(fd);
    if (length < 0) return false;
    thread->name[length] = '\0';
    thread->name[strcspn(thread->name, "\n")] = '\0';
    return true;
}

static int by_id(const void *a, const void *b)
{
    const int64_t x = ((const rf_thread *)a)->id, y = ((const rf_thread *)b)->id;
    return (x > y) - (x < y);
}

rf_result rf_threads_list(rf_thread_list *list)
{
    *list = (rf_thread_list){ 0 };
    DIR *tasks = opendir(TASKS);
    if (!tasks) return RF_OK;
    rf_result r = RF_OK;
    for (const struct dirent *entry; r >= 0 && (entry = readdir(tasks));) {
        rf_thread thread = { .id = strtoll(entry->d_name, NULL, 10) };
        if (thread.id <= 0 || !read_name(&thread)) continue;
        r = RF_VEC_GROW(list);
        if (r >= 0) list->items[list->count++] = thread;
    }
    closedir(tasks);
    if (list->count > 0) qsort(list->items, list->count, sizeof(*list->items), by_id);
    return r;
}

uint32_t rf_thread_cpus(uint32_t *cpus, uint32_t capacity)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) != 0) return 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &set)) continue;
        if (count < capacity) cpus[count] = i;
        count++;
    }
    return count;
}

bool rf_thread_pin(int64_t id, uint32_t cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu >= CPU_SETSIZE) return false;
    CPU_SET(cpu, &set);
    return sched_setaffinity((pid_t)id, sizeof(set), &set) == 0;
}

void rf_thread_lower_priority(void)
{
    enum { NICE = 10 };                                    /* a tenth of the others' share */
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE); /* of the thread alone, on Linux */
}

uint32_t rf_cpu_count(void)
{
    const uint32_t count = rf_thread_cpus(NULL, 0);
    return count > 0 ? count : 1;
}
