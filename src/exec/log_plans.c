/* SPDX-License-Identifier: Apache-2.0 */
/* Log messages about plans: which kernels run, operations that only a slow kernel can run, and the memory that a
 * program takes. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "base/platform.h"
#include "base/threads.h"
#include "exec/internal.h"
#include "exec/submission_split.h"
#include "exec/thread_cost.h"

/* A kernel whose score is this fraction of another's is no rival: it is there in case that the other one is not. */
#define NO_RIVAL 1e-3
/* Below this any kernel is as fast as its dispatch. */
#define NOTICED_FLOPS 1e6
/* Steps of fewer dispatches, such as updates, belong to others. */
#define LEAST_DISPATCHES 4u
#define NOTICED_SLOWDOWN 1.4
/* Small tensors are computed at half the speed, at most, that splitting of long runs assumes. */
#define SMALL_PACE 2.0
#define MOST_THREADS 32u /* that llvmpipe starts */

const char *rf_call_format(const rf_op_call *call, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "%s(", call->op->name);
    for (uint32_t i = 0; i < call->n_in && used < size; i++) {
        char shape[64];
        rf_shape_format(call->in[i].shape, shape, sizeof(shape));
        used += (size_t)snprintf(text + used, size - used, "%s%s %s", i ? ", " : "", rf_dtype_name(call->in[i].dtype),
                                 shape);
    }
    if (used < size) snprintf(text + used, size - used, ")");
    return text;
}

static bool is_fallback(const rf_exec *exec, const rf_op_call *call, const rf_kernel *kernel)
{
    if (!kernel->last_resort || !call->op->cost || call->op->cost(call).flops < NOTICED_FLOPS) return false;
    const double own = rf_kernel_score(kernel, call, &exec->caps);
    for (uint32_t i = 0; i < rf_op_num_kernels(call->op); i++) {
        const rf_kernel *other = rf_op_kernel(call->op, i);
        if (other != kernel && rf_kernel_score(other, call, &exec->caps) > own * NO_RIVAL) return false;
    }
    return true;
}

/* True the first time that it is asked for this call on this device. Without memory to remember it in: false. */
static bool is_news(rf_exec *exec, const char *text)
{
    const uint64_t hash = rf_hash_bytes(text, strlen(text), 0);
    for (uint32_t i = 0; i < exec->logged.count; i++)
        if (exec->logged.items[i] == hash) return false;
    rf_error_record before;
    rf_error_save(&before);
    const bool kept = RF_VEC_GROW(&exec->logged) >= 0;
    (void)rf_error_restore(&before); /* not a failure of the caller's */
    if (kept) exec->logged.items[exec->logged.count++] = hash;
    return kept;
}

/* Why a slow kernel runs, or how not to need it. */
static const char *find_advice(const rf_exec *exec)
{
#ifdef RF_NO_SOFTWARE_KERNELS
    if (exec->caps.is_cpu) return "the library was built without kernels for software drivers (-Dsoftware_kernels)";
#else
    (void)exec;
#endif
    return "a smaller batch may be many times faster";
}

void rf_log_kernel_choice(rf_exec *exec, const char *program, int64_t batch, const rf_op_call *call,
                          const rf_kernel *kernel)
{
    char text[512];
    const char *device = rf_gpu_info(exec->device)->name;
    if (rf_log_wants(RF_LOG_WARN) && is_fallback(exec, call, kernel) &&
        is_news(exec, rf_call_format(call, text, sizeof(text))))
        rf_log_message(RF_LOG_WARN, "%s on %s: only the slow kernel '%s' can run these shapes; %s", text, device,
                       kernel->name, find_advice(exec));
    if (rf_log_wants(RF_LOG_DEBUG))
        rf_log_message(RF_LOG_DEBUG, "%s, batch %" PRId64 ", %s: %s runs kernel '%s'", program, batch, device,
                       rf_call_format(call, text, sizeof(text)), kernel->name);
}

/* That lavapipe wakes for a dispatch. Where it is told to start none, or has one processor, it computes by itself. */
static uint32_t count_driver_threads(const rf_device_caps *caps)
{
    const char *wanted = rf_env("LP_NUM_THREADS");
    const uint32_t cpus = rf_cpu_count();
    if (caps->driver != RF_DRIVER_LAVAPIPE) return 0;
    if (!wanted) return cpus > 1 ? cpus : 0;
    const unsigned long count = strtoul(wanted, NULL, 10);
    return count < MOST_THREADS ? (uint32_t)count : MOST_THREADS;
}

/* Once in a process: the driver reads the variable when it is loaded, so that only the user can set it. */
static void advise_threads(const rf_instance *in)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    double seconds = 0;
    const uint32_t threads = count_driver_threads(&in->program->exec->caps);
    if (threads == 0 || in->num_dispatches < LEAST_DISPATCHES) return;
    for (uint32_t i = 0; i < in->num_nodes; i++) seconds += SMALL_PACE * rf_split_assumed_seconds(&in->nodes[i].cost);
    const double slowdown = rf_threads_slowdown(in->num_dispatches, seconds, threads);
    if (slowdown < NOTICED_SLOWDOWN || atomic_flag_test_and_set(&told)) return;
    rf_log_advice("%s, batch %" PRId64
                  ", %s: so small a step is about %.1f times as fast without the driver's threads: "
                  "set LP_NUM_THREADS=0, unless this process computes larger ones, too",
                  in->program->name, in->batch, rf_gpu_info(in->program->exec->device)->name, slowdown);
}

void rf_log_instance_plan(const rf_instance *in)
{
    advise_threads(in);
    if (!rf_log_wants(RF_LOG_DEBUG)) return;
    const double mib = 1.0 / (1u << 20);
    rf_log_message(RF_LOG_DEBUG,
                   "%s, batch %" PRId64 ", %s: %u kernels in %u dispatches, %u pipelines; %.2f MiB of intermediates "
                   "(%.2f MiB without reuse), %.2f MiB of inputs, %.2f MiB of results",
                   in->program->name, in->batch, rf_gpu_info(in->program->exec->device)->name, in->num_nodes,
                   in->num_dispatches, in->program->pipelines.count, (double)in->memory.slab_size * mib,
                   (double)in->memory.naive_size * mib, (double)in->input_size * mib, (double)in->result_size * mib);
}
