/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies: their failures, the wait for everything in flight, and what they are asked. */
#include <stdio.h>
#include <string.h>

#include "base/condition.h"
#include "base/params.h"
#include "base/platform.h"
#include "base/profiler.h"
#include "replica/internal.h"
#include "replica/store/copying.h"

rf_strategy *rf_strategy_retain(rf_strategy *strategy)
{
    strategy->references++;
    return strategy;
}

/* ---- a copy of the state that is being made ---- */

bool rf_strategy_is_copied(rf_strategy *s)
{
    pthread_mutex_lock(&s->store.copying.mutex);
    const bool under_way = s->store.copying.under_way;
    pthread_mutex_unlock(&s->store.copying.mutex);
    return under_way;
}

rf_result rf_strategy_await_copy(rf_strategy *s)
{
    rf_copying *at = &s->store.copying;
    if (!rf_strategy_is_copied(s)) return RF_OK;
    const uint64_t begin = rf_span_begin(), until = rf_now_ns() + 2 * RF_GPU_TIMEOUT_NS;
    pthread_mutex_lock(&at->mutex);
    while (at->under_way && rf_condition_wait(&at->ended, &at->mutex, until)) continue;
    const bool under_way = at->under_way;
    pthread_mutex_unlock(&at->mutex);
    rf_span_end(begin, "replica", "await copy");
    if (!under_way) return RF_OK;
    return RF_FAIL(RF_ERROR_TIMEOUT, "an asynchronous save has not copied the state after %llu s",
                   2 * RF_GPU_TIMEOUT_NS / 1000000000u);
}

rf_result rf_copying_init(rf_copying *copying)
{
    RF_TRY(rf_condition_init(&copying->ended));
    if (pthread_mutex_init(&copying->mutex, NULL) == 0) return RF_OK;
    pthread_cond_destroy(&copying->ended);
    return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "cannot create a lock");
}

void rf_copying_free(rf_copying *copying)
{
    pthread_cond_destroy(&copying->ended);
    pthread_mutex_destroy(&copying->mutex);
}

/* ---- waiting and submitting ---- */

rf_result rf_strategy_check_process(const rf_strategy *s)
{
    return rf_process_check(s->process, "the strategy");
}

bool rf_strategy_is_foreign(const rf_strategy *s)
{
    return s->process != rf_process_id();
}

rf_result rf_strategy_status(rf_strategy *s)
{
    RF_TRY(rf_strategy_check_process(s));
    if (s->health.failed) return rf_error_restore(&s->health.failure);
    return s->members.world.size > 1 ? rf_comm_status(s->members.world.comm) : RF_OK;
}

rf_result rf_strategy_fail_shared(rf_strategy *s, rf_result result)
{
    if (result < 0 && !s->health.failed) {
        s->health.failed = true;
        rf_error_save(&s->health.failure);
    }
    return result;
}

rf_result rf_strategy_fail(rf_strategy *s, rf_result result)
{
    if (result >= 0 || s->health.failed || rf_strategy_is_foreign(s)) return result;
    rf_strategy_fail_shared(s, result);
    if (s->members.world.size > 1) {
        /* Where the job has ended already, its own reason stays. */
        char reason[sizeof(s->health.failure.message) + 32];
        snprintf(reason, sizeof(reason), "rank %u failed: %s", s->members.world.rank, s->health.failure.message);
        rf_comm_abort(s->members.world.comm, reason);
    }
    return rf_error_restore(&s->health.failure);
}

rf_result rf_strategy_fail_in_job(rf_strategy *s, rf_result result)
{
    return s->members.world.size > 1 ? rf_strategy_fail(s, result) : result;
}

rf_result rf_replica_context(const rf_strategy *s, uint32_t index, rf_result result)
{
    return rf_error_context(result, "replica %u (%s)", s->members.first + index,
                            rf_gpu_info(s->members.replicas[index].device)->name);
}

rf_result rf_replica_wait(const rf_strategy *s, uint32_t index, uint64_t ticket)
{
    if (ticket == 0) return RF_OK;
    const uint64_t begin = rf_span_begin();
    const rf_result r = rf_gpu_wait(s->members.replicas[index].device, ticket, RF_GPU_TIMEOUT_NS);
    rf_span_end_with(begin, "replica", "wait", (rf_span_arg){ "replica", s->members.first + index },
                     (rf_span_arg){ NULL, 0 });
    return rf_replica_context(s, index, r);
}

rf_result rf_strategy_wait_local(rf_strategy *s, uint32_t index)
{
    RF_TRY(rf_strategy_check_process(s));
    return rf_strategy_fail(s, rf_replica_wait(s, index, s->members.replicas[index].ticket));
}

rf_result rf_strategy_wait(rf_strategy *s)
{
    RF_TRY(rf_strategy_check_process(s));
    rf_error_record record;
    rf_result first = rf_strategy_await_copy(s);
    if (first < 0) rf_error_save(&record);
    for (uint32_t r = 0; r < s->members.num_local; r++) {
        const rf_result result = rf_strategy_wait_local(s, r);
        if (result >= 0 || first < 0) continue;
        first = result;
        rf_error_save(&record);
    }
    return first < 0 ? rf_error_restore(&record) : RF_OK;
}

RF_API rf_result rf_strategy_synchronize(rf_strategy *strategy)
{
    RF_REQUIRE(strategy, "rf_strategy_synchronize: strategy is NULL");
    RF_TRY(rf_strategy_wait(strategy));
    return rf_strategy_status(strategy);
}

rf_result rf_replica_submit_frames(rf_replica *replica, rf_frame *const *frames, uint32_t count)
{
    return count > 0 ? rf_frames_submit(replica->exec, frames, count, &replica->ticket) : RF_OK;
}

rf_result rf_replica_submit_one(rf_replica *replica, rf_gpu_recording *rec)
{
    return rec ? rf_gpu_submit(replica->device, &rec, 1, &replica->ticket) : RF_OK;
}

/* ---- what workers agree on ---- */

rf_result rf_strategy_any(rf_strategy *s, bool mine, bool *any)
{
    *any = mine;
    RF_TRY(rf_strategy_status(s));
    if (s->members.world.size == 1) return RF_OK;
    const uint8_t byte = mine;
    uint8_t *all = RF_NEW_ARRAY(uint8_t, s->members.world.size);
    if (!all) return rf_strategy_fail(s, RF_ERROR_OUT_OF_HOST_MEMORY);
    const rf_result r = rf_world_gather(&s->members.world, "flag", &byte, all, 1);
    for (uint32_t k = 0; r >= 0 && k < s->members.world.size; k++) *any |= all[k] != 0;
    rf_free(all);
    return r;
}

RF_API void rf_strategy_request_stop(rf_strategy *strategy)
{
    if (strategy) atomic_store(&strategy->health.stop_requested, true);
}

RF_API bool rf_strategy_stop_agreed(const rf_strategy *strategy)
{
    return strategy && strategy->health.stop_agreed;
}

/* ---- questions ---- */

RF_API uint32_t rf_strategy_num_replicas_in_sync(const rf_strategy *strategy)
{
    return strategy ? strategy->members.num_replicas : 0;
}

RF_API uint32_t rf_strategy_num_local_replicas(const rf_strategy *strategy)
{
    return strategy ? strategy->members.num_local : 0;
}

RF_API uint32_t rf_strategy_first_local_replica(const rf_strategy *strategy)
{
    return strategy ? strategy->members.first : 0;
}

RF_API uint32_t rf_strategy_rank(const rf_strategy *strategy)
{
    return strategy ? strategy->members.world.rank : 0;
}

const rf_device_caps *rf_strategy_caps(const rf_strategy *strategy, uint32_t replica)
{
    return rf_gpu_caps(strategy->members.replicas[replica].device);
}

uint64_t rf_strategy_seed(const rf_strategy *strategy)
{
    return strategy->seed;
}

bool rf_strategy_warned_of_shares(rf_strategy *strategy)
{
    const bool before = strategy->warned_of_shares;
    strategy->warned_of_shares = true;
    return before;
}

void rf_strategy_set_remote(rf_strategy *strategy, bool remote)
{
    strategy->remote = remote;
}

uint32_t rf_strategy_first_replica(const rf_strategy *strategy, uint32_t rank)
{
    return strategy->members.world.first[rank];
}

RF_API uint32_t rf_strategy_world_size(const rf_strategy *strategy)
{
    return strategy ? strategy->members.world.size : 0;
}

RF_API bool rf_strategy_is_chief(const rf_strategy *strategy)
{
    return strategy && strategy->members.world.rank == 0;
}

RF_API rf_comm *rf_strategy_comm(const rf_strategy *strategy)
{
    return strategy ? strategy->members.world.comm : NULL;
}

RF_API uint32_t rf_strategy_replica_rank(const rf_strategy *strategy, uint32_t replica)
{
    return strategy ? rf_world_rank_of(&strategy->members.world, replica) : 0;
}

rf_result rf_strategy_local_index(const rf_strategy *s, const char *caller, uint32_t replica, uint32_t *index)
{
    *index = 0;
    RF_REQUIRE(replica < s->members.num_replicas, "%s: there is no replica %u; there are %u", caller, replica,
               s->members.num_replicas);
    RF_REQUIRE(rf_strategy_is_local(s, replica),
               "%s: replica %u is on rank %u; the replicas of this worker, rank %u, are %u to %u", caller, replica,
               rf_world_rank_of(&s->members.world, replica), s->members.world.rank, s->members.first,
               s->members.first + s->members.num_local - 1);
    *index = replica - s->members.first;
    return RF_OK;
}

RF_API const char *rf_strategy_device_name(const rf_strategy *strategy, uint32_t replica)
{
    if (!strategy || replica >= strategy->members.num_replicas) return "";
    return strategy->members.identities[replica].name;
}

RF_API uint64_t rf_strategy_num_validation_messages(const rf_strategy *strategy)
{
    return strategy ? rf_gpu_validation_messages(strategy->gpu, NULL) : 0;
}

RF_API void rf_strategy_set_seed(rf_strategy *strategy, uint64_t seed)
{
    if (strategy) strategy->seed = seed;
}

rf_dtype rf_strategy_compute(const rf_strategy *strategy)
{
    return strategy->compute == RF_DTYPE_INVALID ? RF_F32 : strategy->compute;
}

void rf_strategy_set_wide(rf_strategy *strategy, bool wide)
{
    strategy->wide = wide;
}

bool rf_strategy_is_wide(const rf_strategy *strategy)
{
    return strategy->wide;
}

rf_result rf_dtype_policy_type(const rf_dtype_policy *policy, const char *function, rf_dtype *out)
{
    RF_TRY(RF_PARAMS_CHECK(rf_dtype_policy, policy));
    *out = policy && policy->compute != RF_DTYPE_INVALID ? policy->compute : RF_F32;
    RF_REQUIRE(*out == RF_F32 || rf_dtype_is_narrow(*out), "%s: layers compute in f32, f16 or bf16, not %s", function,
               rf_dtype_name(*out));
    return RF_OK;
}

RF_API rf_result rf_strategy_set_dtype_policy(rf_strategy *strategy, const rf_dtype_policy *policy)
{
    rf_dtype type;
    RF_TRY(rf_dtype_policy_type(policy, "rf_strategy_set_dtype_policy", &type));
    RF_REQUIRE(strategy, "rf_strategy_set_dtype_policy: strategy is NULL");
    strategy->compute = type;
    return RF_OK;
}

RF_API rf_result rf_strategy_set_quantization(rf_strategy *strategy, const rf_quantize_params *params)
{
    RF_TRY(RF_PARAMS_CHECK(rf_quantize_params, params));
    RF_REQUIRE(strategy, "rf_strategy_set_quantization: strategy is NULL");
    return rf_quantize_rules_set(&strategy->store.quantize, params, "rf_strategy_set_quantization");
}

void rf_strategy_exchange_quantization(rf_strategy *strategy, rf_quantize_rules *rules)
{
    const rf_quantize_rules were = strategy->store.quantize;
    strategy->store.quantize = *rules;
    *rules = were;
}

uint32_t rf_strategy_next_serial(rf_strategy *s)
{
    if (++s->trace_serial == 0) s->trace_serial = 1;
    return s->trace_serial;
}

const char *rf_strategy_local_memory(const rf_strategy *s, uint32_t index, uint64_t *memory, uint64_t *allocation)
{
    const rf_gpu_device *device = s->members.replicas[index].device;
    *memory = rf_gpu_info(device)->memory_size;
    *allocation = rf_gpu_caps(device)->max_allocation;
    return rf_gpu_info(device)->name;
}

bool rf_strategy_memory_use(const rf_strategy *s, uint32_t index, uint32_t entry, rf_memory_use *out)
{
    uint32_t count;
    if (!s || !out || index >= rf_strategy_num_local_replicas(s)) return false;
    const rf_gpu_use *uses = rf_gpu_memory_uses(s->members.replicas[index].device, &count);
    if (entry >= count) return false;
    *out = (rf_memory_use){ .name = uses[entry].name, .bytes = uses[entry].bytes, .peak = uses[entry].peak };
    return true;
}

rf_result rf_replica_run_kernel(rf_strategy *s, uint32_t index, const rf_op_call *call, const rf_kernel *kernel,
                                void *const *in, void *const *out)
{
    rf_kernel_run run = { .call = call, .kernel = kernel, .in = in, .out = out, .guard = true };
    return rf_kernel_execute(s->members.replicas[index].exec, &run);
}
