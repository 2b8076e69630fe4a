/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The communicator: checks arguments, numbers the calls, and runs them: blocking calls in the caller's thread, started
 * ones in order in a thread of its own. A blocking call waits for started ones first, so that one thread at a time uses
 * the engine.
 */
#include <ringfire/comm.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/params.h"
#include "base/platform.h"
#include "base/profiler.h"
#include "transport/collective/comm_engine.h"
#include "transport/collective/comm_internal.h"
#include "transport/collective/reduce.h"

struct rf_comm_request {
    rf_comm *comm;
    rf_comm_request *next;
    rf_call call;
    char *name;
    bool done;
    rf_result result;
    rf_error_record error;
};

struct rf_comm {
    int64_t process; /* that made it */
    rf_job job;
    rf_mesh *mesh; /* NULL: a world of one */
    rf_engine *engine;
    uint32_t *hosts;
    uint32_t local_rank, local_size, per_host; /* rf_collective_per_host() */
    uint64_t serial;
    atomic_bool aborted;          /* in a world of one */
    bool left;                    /* the job; there is no mesh and no engine any more */
    atomic_uint_fast64_t busy_ns; /* in collectives so far */

    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread, stop, running; /* running: the thread is in the engine */
    rf_comm_request *first, *last;
};

/* ---- life ---- */

static void on_abort(void *user)
{
    rf_engine_wake(user);
}

static void find_locals(rf_comm *comm)
{
    comm->local_rank = 0;
    comm->local_size = 0;
    for (uint32_t i = 0; i < comm->job.world_size; i++) {
        comm->hosts[i] = comm->mesh ? rf_mesh_host(comm->mesh, i) : 0;
    }
    for (uint32_t i = 0; i < comm->job.world_size; i++) {
        if (comm->hosts[i] != comm->hosts[comm->job.rank]) continue;
        if (i < comm->job.rank) comm->local_rank++;
        comm->local_size++;
    }
    comm->per_host = rf_collective_per_host(comm->hosts, comm->job.world_size);
}

rf_result rf_comm_create_on_mesh(const rf_job *job, rf_mesh *mesh, rf_comm **out)
{
    *out = NULL;
    rf_comm *comm = RF_NEW(rf_comm);
    uint32_t *hosts = RF_NEW_ARRAY(uint32_t, job->world_size);
    if (!comm || !hosts) {
        rf_free(comm);
        rf_free(hosts);
        rf_mesh_destroy(&mesh);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    comm->process = rf_process_id();
    comm->job = *job;
    rf_job_forget(&comm->job); /* the mesh has what it needs of the key */
    comm->mesh = mesh;
    comm->hosts = hosts;
    pthread_mutex_init(&comm->lock, NULL);
    pthread_cond_init(&comm->changed, NULL);
    find_locals(comm);
    rf_result r = RF_OK;
    if (mesh) {
        r = rf_engine_create(&comm->job, mesh, false, &comm->engine);
        if (r == RF_OK)
            rf_mesh_on_abort(mesh, on_abort, comm->engine);
        else if (rf_mesh_status(mesh) == RF_OK) {
            /* The others must not wait for a rank that cannot take part. */
            rf_error_record record;
            rf_error_context(r, "rank %u (%s)", job->rank, rf_mesh_local_address(mesh));
            rf_error_save(&record);
            rf_mesh_abort(mesh, job->rank, r, record.message);
            r = rf_error_restore(&record);
        }
    }
    if (r < 0) {
        rf_error_record record;
        rf_error_save(&record);
        rf_comm_destroy(&comm);
        return rf_error_restore(&record);
    }
    *out = comm;
    return RF_OK;
}

static void stop_thread(rf_comm *comm)
{
    if (!comm->has_thread) return;
    pthread_mutex_lock(&comm->lock);
    comm->stop = true;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
    pthread_join(comm->thread, NULL);
    comm->has_thread = false;
}

void rf_comm_leave(rf_comm *comm)
{
    if (!comm->mesh || comm->process != rf_process_id()) return; /* connections and threads are the parent's */
    stop_thread(comm);
    /* First the goodbyes, then the connections: no rank sees a connection close while it still has calls to finish. The
     * mesh may call on_abort() until it is gone. */
    rf_mesh_destroy(&comm->mesh);
    rf_engine_destroy(&comm->engine);
    comm->left = true;
}

RF_API void rf_comm_destroy(rf_comm **comm)
{
    if (!comm || !*comm) return;
    rf_comm *c = *comm;
    *comm = NULL;
    if (c->process != rf_process_id()) return;
    rf_comm_leave(c);
    stop_thread(c); /* that of a world of one */
    pthread_mutex_destroy(&c->lock);
    pthread_cond_destroy(&c->changed);
    rf_free(c->hosts);
    rf_free(c);
}

RF_API uint32_t rf_comm_rank(const rf_comm *comm)
{
    return comm ? comm->job.rank : 0;
}

RF_API uint32_t rf_comm_world_size(const rf_comm *comm)
{
    return comm ? comm->job.world_size : 0;
}

RF_API uint32_t rf_comm_local_rank(const rf_comm *comm)
{
    return comm ? comm->local_rank : 0;
}

RF_API uint32_t rf_comm_local_size(const rf_comm *comm)
{
    return comm ? comm->local_size : 0;
}

const char *rf_comm_address(const rf_comm *comm, uint32_t rank)
{
    return comm && comm->mesh ? rf_mesh_address(comm->mesh, rank) : "";
}

uint32_t rf_comm_host(const rf_comm *comm, uint32_t rank)
{
    return comm ? comm->hosts[rank] : 0;
}

RF_API const char *rf_comm_transport(const rf_comm *comm)
{
    return comm && comm->engine ? rf_engine_provider(comm->engine) : "";
}

RF_API double rf_comm_seconds(const rf_comm *comm)
{
    return comm ? 1e-9 * (double)atomic_load(&comm->busy_ns) : 0;
}

/* ---- status ---- */

RF_API rf_result rf_comm_status(rf_comm *comm)
{
    RF_REQUIRE(comm, "rf_comm_status: comm is NULL");
    RF_TRY(rf_process_check(comm->process, "the communicator"));
    if (comm->mesh) return rf_mesh_status(comm->mesh);
    if (!atomic_load(&comm->aborted)) return RF_OK;
    return RF_FAIL(RF_ERROR_PEER_LOST, "rank 0 ended the job");
}

RF_API void rf_comm_abort(rf_comm *comm, const char *reason)
{
    if (!comm || comm->left || comm->process != rf_process_id()) return;
    if (!reason || !reason[0]) reason = "no reason given";
    char text[512];
    snprintf(text, sizeof(text), "rank %u ended the job: %s", comm->job.rank, reason);
    if (comm->mesh) {
        rf_error_record record; /* the caller's own failure is what it goes on to report */
        rf_error_save(&record);
        rf_mesh_abort(comm->mesh, comm->job.rank, RF_ERROR_PEER_LOST, text);
        (void)rf_mesh_status(comm->mesh);
        rf_error_restore(&record);
    } else
        atomic_store(&comm->aborted, true);
}

RF_API int32_t rf_comm_lost_rank(const rf_comm *comm)
{
    if (!comm) return -1;
    if (comm->mesh) return rf_mesh_lost_rank(comm->mesh);
    return atomic_load(&comm->aborted) ? 0 : -1;
}

/* ---- running calls ---- */

/* A world of one: every collective is a copy. */
static void copy_alone(const rf_call *call)
{
    const uint64_t count = call->task.counts ? call->task.counts[0] : call->task.count;
    const size_t size = count * rf_dtype_size(call->dtype);
    if (call->input && call->input != call->output && size > 0) memmove(call->output, call->input, size);
}

/* "all_reduce gradients" */
static void trace_call(const rf_call *call, uint64_t begin)
{
    if (begin == 0) return;
    char name[96];
    uint64_t count = call->task.count;
    for (uint32_t i = 0; call->task.counts && i < call->task.world_size; i++) count += call->task.counts[i];
    snprintf(name, sizeof(name), "%s %s", rf_collective_name(call->task.kind), call->name);
    rf_span_end_with(begin, rf_algorithm_name(call->task.algorithm), name,
                     (rf_span_arg){ "bytes", (int64_t)(count * rf_dtype_size(call->dtype)) },
                     (rf_span_arg){ "operation", (int64_t)call->serial });
}

static rf_result run_call(rf_comm *comm, rf_call *call)
{
    if (comm->mesh) {
        const uint64_t begin = rf_span_begin(), start = rf_now_ns();
        const rf_result r = rf_engine_run(comm->engine, call);
        atomic_fetch_add(&comm->busy_ns, rf_now_ns() - start);
        RF_TRY(r);
        trace_call(call, begin);
        return RF_OK;
    }
    RF_TRY(rf_comm_status(comm));
    copy_alone(call);
    return RF_OK;
}

static void *run_thread(void *user)
{
    rf_comm *comm = user;
    pthread_mutex_lock(&comm->lock);
    for (;;) {
        while (!comm->first && !comm->stop) pthread_cond_wait(&comm->changed, &comm->lock);
        rf_comm_request *request = comm->first;
        if (!request) break;
        comm->running = true;
        pthread_mutex_unlock(&comm->lock);
        const rf_result r = run_call(comm, &request->call);
        if (r < 0) rf_error_save(&request->error);
        pthread_mutex_lock(&comm->lock);
        comm->first = request->next;
        if (!comm->first) comm->last = NULL;
        comm->running = false;
        request->result = r;
        request->done = true;
        pthread_cond_broadcast(&comm->changed);
    }
    pthread_mutex_unlock(&comm->lock);
    return NULL;
}

static rf_result run_now(rf_comm *comm, rf_call *call)
{
    if (comm->has_thread) {
        pthread_mutex_lock(&comm->lock);
        while (comm->first) pthread_cond_wait(&comm->changed, &comm->lock);
        pthread_mutex_unlock(&comm->lock);
    }
    return run_call(comm, call);
}

static rf_result start_call(rf_comm *comm, const rf_call *call, rf_comm_request **out)
{
    rf_comm_request *request = RF_NEW(rf_comm_request);
    if (!request) return RF_ERROR_OUT_OF_HOST_MEMORY;
    request->comm = comm;
    request->call = *call;
    request->name = rf_strdup(call->name);
    request->call.name = request->name;
    if (!request->name) {
        rf_free(request);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (!comm->has_thread) {
        const int error = pthread_create(&comm->thread, NULL, run_thread, comm);
        if (error != 0) {
            rf_free(request->name);
            rf_free(request);
            return RF_FAIL_NATIVE(RF_ERROR_OUT_OF_HOST_MEMORY, "errno", error, "no thread for started collectives");
        }
        comm->has_thread = true;
    }
    pthread_mutex_lock(&comm->lock);
    if (comm->last)
        comm->last->next = request;
    else
        comm->first = request;
    comm->last = request;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
    *out = request;
    return RF_OK;
}

RF_API rf_result rf_comm_wait(rf_comm_request **request)
{
    RF_REQUIRE(request && *request, "rf_comm_wait: request is NULL");
    rf_comm_request *r = *request;
    RF_TRY(rf_process_check(r->comm->process, "the communicator"));
    pthread_mutex_lock(&r->comm->lock);
    while (!r->done) pthread_cond_wait(&r->comm->changed, &r->comm->lock);
    pthread_mutex_unlock(&r->comm->lock);
    const rf_result result = r->result < 0 ? rf_error_restore(&r->error) : RF_OK;
    rf_free(r->name);
    rf_free(r);
    *request = NULL;
    return result;
}

RF_API bool rf_comm_done(const rf_comm_request *request)
{
    if (!request || request->comm->process != rf_process_id()) return true;
    pthread_mutex_lock(&request->comm->lock);
    const bool done = request->done;
    pthread_mutex_unlock(&request->comm->lock);
    return done;
}

/* ---- what callers give ---- */

static rf_result total_count(const char *caller, const rf_collective_task *task, uint64_t *total)
{
    *total = task->count;
    for (uint32_t i = 0; task->counts && i < task->world_size; i++)
        RF_REQUIRE(!__builtin_add_overflow(*total, task->counts[i], total), "%s: counts add up to more than 64 bits",
                   caller);
    return RF_OK;
}

/* Fills in what follows from the arguments. `caller` for messages. */
static rf_result check_call(const char *caller, rf_comm *comm, const rf_collective_params *params, rf_call *call)
{
    RF_TRY(RF_PARAMS_CHECK(rf_collective_params, params));
    RF_REQUIRE(comm, "%s: comm is NULL", caller);
    RF_REQUIRE(
        !comm->left,
        "%s: this worker has left the job; destroy a strategy after the last call that the workers make together",
        caller);
    rf_collective_task *task = &call->task;
    const size_t size = rf_dtype_size(call->dtype);
    uint64_t total, bytes;
    task->rank = comm->job.rank;
    task->world_size = comm->job.world_size;
    task->hosts = comm->hosts;
    RF_REQUIRE(size > 0, "%s: %d is not an element type", caller, (int)call->dtype);
    const bool reduces = task->kind == RF_COLLECTIVE_ALL_REDUCE || task->kind == RF_COLLECTIVE_REDUCE_SCATTER;
    RF_REQUIRE(!reduces || rf_reduce_find(call->dtype, call->op),
               "%s: %s cannot be reduced with op %d; types are f32, f16, "
               "bf16, i32 and i64",
               caller, rf_dtype_name(call->dtype), (int)call->op);
    RF_TRY(total_count(caller, task, &total));
    RF_REQUIRE(!__builtin_mul_overflow(total, size, &bytes), "%s: %llu elements are more than memory holds", caller,
               (unsigned long long)total);
    const bool scatter = task->kind == RF_COLLECTIVE_REDUCE_SCATTER, gather = task->kind == RF_COLLECTIVE_ALL_GATHER;
    const uint64_t in_count = gather ? task->counts[task->rank] : total,
                   out_count = scatter ? task->counts[task->rank] : total;
    RF_REQUIRE(in_count == 0 || call->input || task->kind == RF_COLLECTIVE_BROADCAST, "%s: send is NULL", caller);
    RF_REQUIRE(out_count == 0 || call->output, "%s: %s is NULL", caller,
               task->kind == RF_COLLECTIVE_BROADCAST ? "data" : "recv");
    RF_REQUIRE(task->root < task->world_size, "%s: root %u is not below the world size %u", caller, task->root,
               task->world_size);
    const rf_comm_algorithm algorithm = params ? params->algorithm : RF_COMM_AUTO;
    RF_REQUIRE((unsigned)algorithm < RF_COMM_ALGORITHM_COUNT, "%s: algorithm %d does not exist", caller,
               (int)algorithm);
    call->wire = params && params->wire != call->dtype ? params->wire : RF_DTYPE_INVALID;
    RF_REQUIRE(!call->wire || ((call->wire == RF_F16 || call->wire == RF_BF16) && call->dtype == RF_F32),
               "%s: %s cannot be sent as %s; only f32 does as f16 or bf16", caller, rf_dtype_name(call->dtype),
               rf_dtype_name(call->wire));
    task->algorithm = algorithm;
    if (algorithm == RF_COMM_AUTO)
        task->algorithm = rf_collective_schedule_select(task->kind, task->world_size, comm->per_host, bytes);
    RF_REQUIRE(task->world_size == 1 || rf_collective_schedule_possible(task),
               "%s: the algorithm '%s' does not support this with %u ranks; use RF_COMM_AUTO", caller,
               rf_algorithm_name(algorithm), task->world_size);
    call->name = params && params->name ? params->name : "";
    RF_TRY(rf_comm_status(comm));
    call->serial = ++comm->serial;
    return RF_OK;
}

static rf_call all_reduce_call(const void *send, void *recv, uint64_t count, rf_dtype dtype, rf_comm_op op)
{
    return (rf_call){ .task = { .kind = RF_COLLECTIVE_ALL_REDUCE, .count = count },
                      .dtype = dtype,
                      .op = op,
                      .input = send,
                      .output = recv };
}

static rf_call parts_call(rf_collective kind, const void *send, void *recv, const uint64_t *counts, rf_dtype dtype,
                          rf_comm_op op)
{
    return (
        rf_call){ .task = { .kind = kind, .counts = counts }, .dtype = dtype, .op = op, .input = send, .output = recv };
}

RF_API rf_result rf_comm_all_reduce(rf_comm *comm, const void *send, void *recv, uint64_t count, rf_dtype dtype,
                                    rf_comm_op op, const rf_collective_params *params)
{
    rf_call call = all_reduce_call(send, recv, count, dtype, op);
    RF_TRY(check_call("rf_comm_all_reduce", comm, params, &call));
    return run_now(comm, &call);
}

RF_API rf_result rf_comm_reduce_scatter(rf_comm *comm, const void *send, void *recv, const uint64_t *counts,
                                        rf_dtype dtype, rf_comm_op op, const rf_collective_params *params)
{
    RF_REQUIRE(counts, "rf_comm_reduce_scatter: counts is NULL");
    rf_call call = parts_call(RF_COLLECTIVE_REDUCE_SCATTER, send, recv, counts, dtype, op);
    RF_TRY(check_call("rf_comm_reduce_scatter", comm, params, &call));
    return run_now(comm, &call);
}

RF_API rf_result rf_comm_all_gather(rf_comm *comm, const void *send, void *recv, const uint64_t *counts, rf_dtype dtype,
                                    const rf_collective_params *params)
{
    RF_REQUIRE(counts, "rf_comm_all_gather: counts is NULL");
    rf_call call = parts_call(RF_COLLECTIVE_ALL_GATHER, send, recv, counts, dtype, RF_COMM_SUM);
    RF_TRY(check_call("rf_comm_all_gather", comm, params, &call));
    return run_now(comm, &call);
}

RF_API rf_result rf_comm_broadcast(rf_comm *comm, void *data, uint64_t count, rf_dtype dtype, uint32_t root,
                                   const rf_collective_params *params)
{
    rf_call call = { .task = { .kind = RF_COLLECTIVE_BROADCAST, .count = count, .root = root },
                     .dtype = dtype,
                     .output = data };
    RF_TRY(check_call("rf_comm_broadcast", comm, params, &call));
    return run_now(comm, &call);
}

RF_API rf_result rf_comm_barrier(rf_comm *comm)
{
    int32_t token = 0;
    rf_call call = { .task = { .kind = RF_COLLECTIVE_BARRIER, .count = 1 },
                     .dtype = RF_I32,
                     .op = RF_COMM_MAX,
                     .input = &token,
                     .output = &token };
    RF_TRY(check_call("rf_comm_barrier", comm, NULL, &call));
    return run_now(comm, &call);
}

RF_API rf_result rf_comm_start_all_reduce(rf_comm *comm, const void *send, void *recv, uint64_t count, rf_dtype dtype,
                                          rf_comm_op op, const rf_collective_params *params, rf_comm_request **out)
{
    RF_REQUIRE(out, "rf_comm_start_all_reduce: out is NULL");
    *out = NULL;
    rf_call call = all_reduce_call(send, recv, count, dtype, op);
    RF_TRY(check_call("rf_comm_start_all_reduce", comm, params, &call));
    return start_call(comm, &call, out);
}

RF_API rf_result rf_comm_start_reduce_scatter(rf_comm *comm, const void *send, void *recv, const uint64_t *counts,
                                              rf_dtype dtype, rf_comm_op op, const rf_collective_params *params,
                                              rf_comm_request **out)
{
    RF_REQUIRE(out, "rf_comm_start_reduce_scatter: out is NULL");
    *out = NULL;
    RF_REQUIRE(counts, "rf_comm_start_reduce_scatter: counts is NULL");
    rf_call call = parts_call(RF_COLLECTIVE_REDUCE_SCATTER, send, recv, counts, dtype, op);
    RF_TRY(check_call("rf_comm_start_reduce_scatter", comm, params, &call));
    return start_call(comm, &call, out);
}

RF_API rf_result rf_comm_start_all_gather(rf_comm *comm, const void *send, void *recv, const uint64_t *counts,
                                          rf_dtype dtype, const rf_collective_params *params, rf_comm_request **out)
{
    RF_REQUIRE(out, "rf_comm_start_all_gather: out is NULL");
    *out = NULL;
    RF_REQUIRE(counts, "rf_comm_start_all_gather: counts is NULL");
    rf_call call = parts_call(RF_COLLECTIVE_ALL_GATHER, send, recv, counts, dtype, RF_COMM_SUM);
    RF_TRY(check_call("rf_comm_start_all_gather", comm, params, &call));
    return start_call(comm, &call, out);
}
