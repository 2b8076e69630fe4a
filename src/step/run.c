/* SPDX-License-Identifier: Apache-2.0 */
/* One step on all replicas. */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/params.h"
#include "base/profiler.h"
#include "replica/internal.h"
#include "replica/store/copying.h"
#include "replica/update/update.h"
#include "step/function.h"
#include "step/signature.h"

/* All replicas of a run share this. */
typedef struct run {
    rf_strategy *strategy;
    rf_function *function;
    rf_signature *signature;
    const rf_element *batch;
    const uint32_t *examples; /* of this worker's replicas */
    uint64_t total;           /* examples of all */
    uint64_t origin;          /* row of the global batch that the batch here begins with */
    uint32_t active;          /* replicas that have some */
    rf_per_replica **results; /* out; or NULL */
} run;

/* The batch is one worker's share of a global one. */
static bool is_slice(const rf_element *batch)
{
    return batch->global_rows > 0;
}

/* ---- the batch ---- */

static rf_result check_component(const rf_element *batch, uint32_t i)
{
    const rf_array *array = &batch->component[i];
    char shape[96];
    RF_REQUIRE(rf_dtype_size(array->dtype) > 0, "component %u of the batch has no valid type", i);
    RF_REQUIRE(array->shape.rank >= 1, "component %u of the batch is a scalar; dimension 0 must be the batch", i);
    const bool empty = is_slice(batch) && array->shape.dim[0] == 0;
    rf_shape rows = array->shape;
    if (empty) rows.dim[0] = 1;
    RF_REQUIRE(rf_shape_count(rows) > 0, "component %u of the batch has shape %s; each dimension must be at least 1", i,
               rf_shape_format(array->shape, shape, sizeof(shape)));
    RF_REQUIRE(array->data || empty, "component %u of the batch has no data", i);
    RF_REQUIRE(array->shape.dim[0] == batch->component[0].shape.dim[0],
               "components 0 and %u of the batch have %lld and %lld examples", i,
               (long long)batch->component[0].shape.dim[0], (long long)array->shape.dim[0]);
    RF_REQUIRE(array->shape.dim[0] <= INT32_MAX, "the batch has %lld examples; at most %d",
               (long long)array->shape.dim[0], INT32_MAX);
    return RF_OK;
}

static rf_result check_batch(const rf_element *batch)
{
    RF_REQUIRE(batch, "the batch is NULL");
    RF_REQUIRE(batch->num_components >= 1 && batch->num_components <= RF_MAX_COMPONENTS,
               "the batch has %u components; give 1 to %d", batch->num_components, RF_MAX_COMPONENTS);
    for (uint32_t i = 0; i < batch->num_components; i++) RF_TRY(check_component(batch, i));
    const uint64_t rows = (uint64_t)batch->component[0].shape.dim[0];
    RF_REQUIRE(!is_slice(batch) || batch->first_row + rows <= batch->global_rows,
               "the batch has rows %u to %llu of a global batch of %u", batch->first_row,
               (unsigned long long)(batch->first_row + rows), batch->global_rows);
    return RF_OK;
}

static rf_result fail_index(const run *x, uint32_t component, int64_t at)
{
    const rf_array *array = &x->batch->component[component];
    const rf_lookup *lookup = &x->signature->lookups[component];
    const rf_value_info *table = &x->signature->graph->values.items[lookup->table];
    char place[96], shape[96];
    rf_shape position = array->shape;
    int64_t rest = at;
    for (int32_t d = array->shape.rank - 1; d >= 0; d--) {
        position.dim[d] = rest % array->shape.dim[d];
        rest /= array->shape.dim[d];
    }
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                   "component %u of the batch has %" PRId32 " at %s; %s of %s%s%s%s takes 0 to %" PRId64, component,
                   ((const int32_t *)array->data)[at], rf_shape_format(position, place, sizeof(place)),
                   lookup->op->name, table->name ? "'" : "", table->name ? table->name : "", table->name ? "' " : "",
                   rf_shape_format(table->desc.shape, shape, sizeof(shape)), lookup->choices - 1);
}

/* Numbers that the step takes for indices are some, or all that comes of them would be NaN. */
static rf_result check_indices(const run *x)
{
    for (uint32_t i = 0; i < x->batch->num_components; i++) {
        const rf_array *array = &x->batch->component[i];
        const rf_lookup *lookup = &x->signature->lookups[i];
        if (!lookup->op || array->dtype != RF_I32 || lookup->choices > INT32_MAX) continue;
        const int32_t *numbers = array->data;
        const uint32_t choices = (uint32_t)lookup->choices;
        const int64_t count = rf_shape_count(array->shape);
        for (int64_t k = 0; k < count; k++)
            if ((uint32_t)numbers[k] >= choices) return fail_index(x, i, k);
    }
    return RF_OK;
}

static uint32_t most_examples(const uint32_t *examples, uint32_t num_replicas)
{
    uint32_t largest = 1;
    for (uint32_t r = 0; r < num_replicas; r++)
        if (examples[r] > largest) largest = examples[r];
    return largest;
}

/* ---- what a replica reads ---- */

static void *host_memory(const run *x, rf_frame *frame, uint32_t which)
{
    const rf_value v = x->signature->hosts[which];
    return v ? rf_frame_host(frame, x->signature->graph->values.items[v].slot) : NULL;
}

static void fill_hosts(const run *x, rf_frame *frame, uint64_t first, uint64_t examples)
{
    int32_t *random = host_memory(x, frame, RF_HOST_RANDOM);
    if (random) {
        const uint32_t words[6] = { (uint32_t)x->strategy->seed,
                                    (uint32_t)(x->strategy->seed >> 32),
                                    (uint32_t)x->function->step,
                                    (uint32_t)(x->function->step >> 32),
                                    (uint32_t)(x->function->first_row + first),
                                    0 };
        memcpy(random, words, sizeof(words));
    }
    float *number = host_memory(x, frame, RF_HOST_GLOBAL_BATCH);
    if (number) *number = (float)x->total;
    number = host_memory(x, frame, RF_HOST_INVERSE_ACTIVE);
    if (number) *number = 1.0f / (float)x->active;
    number = host_memory(x, frame, RF_HOST_WEIGHT);
    if (number) *number = (float)((double)examples / (double)x->total);
}

static void fill_inputs(const run *x, rf_frame *frame, uint64_t first, uint64_t examples)
{
    for (uint32_t i = 0; i < x->batch->num_components; i++) {
        const rf_array *array = &x->batch->component[i];
        char *input = rf_frame_input(frame, i);
        if (!input) continue;
        const size_t row = (size_t)(rf_shape_count(array->shape) / array->shape.dim[0]) * rf_dtype_size(array->dtype);
        memcpy(input, (const char *)array->data + (first - x->origin) * row, examples * row);
    }
    fill_hosts(x, frame, first, examples);
}

/* ---- frames, which is where compilation happens ---- */

typedef struct acquisition {
    const run *run;
    uint32_t index;
    rf_result result;
    rf_error_record error;
    pthread_t thread;
    bool threaded;
} acquisition;

static rf_result run_acquire(const run *x, uint32_t index)
{
    rf_strategy *s = x->strategy;
    rf_program *program;
    rf_result r = rf_signature_program(x->function, x->signature, index, &program);
    if (r >= 0 && s->members.first + index == s->members.balancing.bounded &&
        x->examples[index] > s->members.balancing.bound)
        r = RF_FAIL(RF_ERROR_OUT_OF_DEVICE_MEMORY, "RINGFIRE_TEST_MEMORY has no room for %u examples",
                    x->examples[index]);
    if (r >= 0) r = rf_program_acquire(program, x->examples[index], &x->function->frames[index]);
    /* Rows that lie here cannot go to other workers. */
    if (r == RF_ERROR_OUT_OF_DEVICE_MEMORY && !is_slice(x->batch) && rf_balancing_refuse(s, index, x->examples[index]))
        return RF_OK;
    return rf_replica_context(s, index, r);
}

static void *acquire_in_thread(void *argument)
{
    acquisition *a = argument;
    a->result = run_acquire(a->run, a->index);
    if (a->result < 0) rf_error_save(&a->error);
    return NULL;
}

/* The first time, every device compiles its kernels: side by side, each in a thread of its own. */
static rf_result acquire_first(const run *x)
{
    const uint32_t count = x->strategy->members.num_local;
    acquisition *list = RF_NEW_ARRAY(acquisition, count);
    if (!list) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t r = 0; r < count; r++) {
        if (x->examples[r] == 0) continue;
        list[r].run = x;
        list[r].index = r;
        list[r].threaded = pthread_create(&list[r].thread, NULL, acquire_in_thread, &list[r]) == 0;
        if (!list[r].threaded) acquire_in_thread(&list[r]);
    }
    for (uint32_t r = 0; r < count; r++)
        if (list[r].threaded) pthread_join(list[r].thread, NULL);
    rf_result result = RF_OK;
    for (uint32_t r = 0; result >= 0 && r < count; r++)
        if (list[r].result < 0) result = rf_error_restore(&list[r].error);
    rf_free(list);
    return result;
}

static rf_result acquire_frames(const run *x)
{
    uint32_t to_compile = 0;
    for (uint32_t r = 0; r < x->strategy->members.num_local; r++) {
        x->function->frames[r] = NULL;
        to_compile += x->examples[r] > 0 && !x->signature->programs[r];
    }
    if (to_compile > 1) return acquire_first(x);
    for (uint32_t r = 0; r < x->strategy->members.num_local; r++)
        if (x->examples[r] > 0) RF_TRY(run_acquire(x, r));
    return RF_OK;
}

/* ---- submission ---- */

static void set_results(void *user)
{
    const run *x = user;
    rf_function *f = x->function;
    for (uint32_t i = 0; i < f->params.num_outputs; i++) {
        rf_per_replica *result = &f->results[f->parity][i];
        memcpy(result->examples, f->examples, x->strategy->members.num_replicas * sizeof(f->examples[0]));
        for (uint32_t r = 0; r < x->strategy->members.num_local; r++) {
            rf_replica_value *v = &result->values[r];
            rf_frame *frame = f->frames[r];
            rf_free(v->copy);
            *v = (rf_replica_value){ .frame = frame,
                                     .ticket = x->strategy->members.replicas[r].ticket,
                                     .desc = frame ? *rf_frame_result_desc(frame, i)
                                                   : *rf_graph_desc(x->signature->graph, x->signature->outputs[i]) };
        }
        if (x->results) x->results[i] = result;
    }
    f->parity ^= 1;
}

/* Number, among all replicas' examples, of the first of this worker's. */
static uint64_t first_row(const run *x)
{
    uint64_t first = 0;
    for (uint32_t r = 0; r < x->strategy->members.first; r++) first += x->function->examples[r];
    return first;
}

static void run_upload(void *user, uint32_t index)
{
    const run *x = user;
    const uint64_t begin = rf_span_begin();
    uint64_t first = first_row(x);
    for (uint32_t r = 0; r < index; r++) first += x->examples[r];
    fill_inputs(x, x->function->frames[index], first, x->examples[index]);
    for (uint32_t u = 0; u < x->signature->updates.count; u++)
        rf_update_fill_weight(&x->signature->updates.items[u], index, x->function->frames[index]);
    rf_span_end_with(begin, "replica", "upload", (rf_span_arg){ "replica", x->strategy->members.first + index },
                     (rf_span_arg){ "examples", x->examples[index] });
}

/* All replicas get their work before any is waited for; one computes while the inputs of the next are copied. */
static rf_result run_submit(run *x)
{
    rf_signature *sig = x->signature;
    rf_strategy *s = x->strategy;
    /* Replicas that wait for each other's sums all take as long as the slowest: no pace can be told. */
    rf_step_timing *timing = sig->updates.count > 0 && sig->sums.num_parts == 0 ? s->members.balancing.timing : NULL;
    const rf_step_schedule_run schedule_run = { .strategy = s,
                                                .schedule = &sig->schedule,
                                                .frames = x->function->frames,
                                                .examples = x->function->examples,
                                                .fill = run_upload,
                                                .results = set_results,
                                                .user = x,
                                                .paced = timing != NULL };
    RF_TRY(rf_step_schedule_carry_out(&sig->schedule, &schedule_run));
    if (timing) {
        rf_balancing_measured(s, x->function->examples, sig->unit);
        rf_step_timing_wait_for_slow(timing);
    }
    if (!x->function->params.training) return RF_OK;
    x->function->step++;
    rf_strategy_note_step(s, x->function->examples);
    return RF_OK;
}

/* Whether the run may wait for others to go with it. */
static bool run_holds(const run *x)
{
    const rf_signature *sig = x->signature;
    rf_submission_batch_facts facts = { .wanted = x->function->group.wanted,
                                        .waits = rf_step_schedule_waits(&sig->schedule),
                                        .paced = sig->updates.count > 0 && x->strategy->members.balancing.timing };
    for (uint32_t u = 0; u < sig->updates.count; u++) facts.updates = facts.updates || sig->updates.items[u].state.due;
    facts.copied = rf_strategy_is_copied(x->strategy);
    return rf_submission_batch_obstacle(&facts) == NULL;
}

static rf_result run_submit_held(run *x)
{
    rf_submission_batch *group = &x->function->group;
    for (uint32_t u = 0; u < x->signature->updates.count; u++)
        rf_update_begin(&x->signature->updates.items[u], x->total);
    x->signature->refresh.due = x->strategy->store.weight_copies.stale;
    if (x->signature->reads_weight_copies) x->strategy->store.weight_copies.stale = false;
    rf_submission_batch_hold(group, x->strategy, x->function->frames, run_holds(x));
    return rf_submission_batch_end(group, x->strategy, run_submit(x));
}

/* ---- the run ---- */

/* How much each replica gets, in multiples of `unit`. For other workers this is what they should hold; the report says
 * what they do hold. */
static rf_result run_split(run *x, uint32_t unit)
{
    rf_strategy *s = x->strategy;
    uint32_t *examples = x->function->examples;
    x->examples = examples + s->members.first;
    x->total = (uint64_t)rf_element_global_rows(x->batch);
    x->origin = x->batch->first_row;
    RF_TRY(rf_balancing_split(s, x->total, unit, examples));
    if (!is_slice(x->batch)) return RF_OK;
    const uint64_t rows = (uint64_t)x->batch->component[0].shape.dim[0];
    RF_REQUIRE(s->members.world.size > 1 || rows == x->total,
               "the batch has %llu rows of %llu, but there are no other workers with the rest",
               (unsigned long long)rows, (unsigned long long)x->total);
    rf_balancing_spread(s, s->members.world.rank, rows, unit, examples);
    return RF_OK;
}

/* Which examples stay together is known once the step is traced. */
static rf_result split_together(run *x, rf_step_intent *step)
{
    const rf_signature *sig = x->signature;
    const uint64_t first = x->origin, rows = (uint64_t)x->batch->component[0].shape.dim[0], unit = sig->unit;
    step->unit = sig->unit;
    if (unit == 1) return RF_OK;
    const bool whole = first % unit == 0 && (rows % unit == 0 || first + rows == x->total);
    RF_REQUIRE(!is_slice(x->batch) || rows == 0 || whole,
               "layer '%s' keeps %llu examples together, but this worker has rows %llu to %llu of a batch of %llu; set "
               "rf_distribute_params::keep_together to %llu, or distribute with RF_DISTRIBUTE_OFF",
               sig->unit_of, (unsigned long long)unit, (unsigned long long)first, (unsigned long long)(first + rows),
               (unsigned long long)x->total, (unsigned long long)unit);
    return run_split(x, sig->unit);
}

/* A value that a step assigns stays with this worker, which computes a share of the batch or none, but for what servers
 * hold: they take the change, of which they make a mean over the shares. */
static rf_result check_assigned(const run *x)
{
    const rf_assignments *a = &x->signature->assignments;
    for (uint32_t i = 0; x->strategy->remote && i < a->count; i++) {
        const rf_variable *v = a->items[i].variable;
        if (!v->served)
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "the step updates variable '%s', which no optimizer does, and servers do not hold it: list "
                           "it in state_variables of both rf_coordinator_params and rf_worker_params",
                           v->name);
        if (a->items[i].aggregation == RF_AGGREGATE_SUM)
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "the step updates variable '%s' with RF_AGGREGATE_SUM, but no worker of parameter servers "
                           "has the values of all replicas: use RF_AGGREGATE_MEAN, or a multi-worker strategy",
                           v->name);
    }
    return RF_OK;
}

/* Everything that can fail and leave the replicas as they were. */
static rf_result run_prepare(run *x, rf_step_intent *step)
{
    rf_strategy *s = x->strategy;
    RF_TRY(check_batch(x->batch));
    RF_TRY(run_split(x, 1));
    const uint32_t most = most_examples(x->function->examples, s->members.num_replicas);
    const rf_result found = rf_signature_find(x->function, x->batch, most, &x->signature);
    if (found < 0) return rf_signature_explain(x->function, x->batch, most, (uint32_t)x->total, found);
    RF_TRY(check_indices(x));
    step->signature = x->signature;
    RF_TRY(split_together(x, step));
    step->mine.seed = x->signature->hosts[RF_HOST_RANDOM] ? s->seed : 0;
    step->mine.examples = x->total;
    step->mine.first_row = x->batch->first_row;
    step->mine.rows = 0;
    for (uint32_t r = 0; !is_slice(x->batch) && r < s->members.first; r++)
        step->mine.first_row += x->function->examples[r];
    for (uint32_t r = 0; r < s->members.num_local; r++) step->mine.rows += x->examples[r];
    RF_TRY(check_assigned(x));
    RF_TRY(rf_signature_prepare(x->function, x->signature));
    const uint64_t begin = rf_span_begin();
    RF_TRY(rf_step_schedule_ready(&x->signature->schedule));
    RF_TRY(rf_submission_batch_begin(&x->function->group, s));
    RF_TRY(acquire_frames(x));
    rf_span_end(begin, "replica", "acquire"); /* waits for the run before the last; the first time compiles */
    return RF_OK;
}

static rf_result run_function(run *x)
{
    rf_strategy *s = x->strategy;
    rf_step_intent step;
    memset(&step, 0, sizeof(step)); /* padding of what is told travels, too */
    step.mine.number = x->function->step;
    step.counts = x->function->examples;
    snprintf(step.mine.function, sizeof(step.mine.function), "%s", x->function->name);
    do RF_TRY(rf_strategy_report(s, &step, run_prepare(x, &step)));
    while (step.again);
    for (uint32_t r = 0; r < s->members.num_replicas; r++) x->active += x->function->examples[r] > 0;
    if (x->signature->updates.count + x->signature->assignments.count > 0) RF_TRY(rf_strategy_check_if_due(s));
    const uint64_t before = rf_gpu_num_submissions(s->members.replicas[0].device);
    /* From here on a failure may leave some replicas a step ahead of others: such a strategy must not go on. */
    RF_TRY(rf_strategy_fail(s, run_submit_held(x)));
    x->function->num_submissions = (uint32_t)(rf_gpu_num_submissions(s->members.replicas[0].device) - before);
    return RF_OK;
}

RF_API rf_result rf_strategy_run(rf_strategy *strategy, rf_function *function, const rf_element *batch,
                                 rf_per_replica **results)
{
    RF_TRY(RF_PARAMS_CHECK(rf_element, batch));
    RF_REQUIRE(strategy, "rf_strategy_run: strategy is NULL");
    RF_REQUIRE(function, "rf_strategy_run: function is NULL");
    RF_TRY(rf_function_check_alive(function, "rf_strategy_run"));
    for (uint32_t i = 0; results && i < function->params.num_outputs; i++) results[i] = NULL;
    RF_REQUIRE(function->strategy == strategy,
               "rf_strategy_run: function '%s' was created on another strategy (%u replicas, "
               "first on %s)",
               function->name, function->strategy->members.num_replicas,
               rf_strategy_device_name(function->strategy, 0));
    RF_TRY(rf_strategy_status(strategy));
    run x = { .strategy = strategy, .function = function, .batch = batch, .results = results };
    const uint64_t begin = rf_span_begin();
    const rf_result r = run_function(&x);
    rf_span_end_with(begin, "run", function->name, (rf_span_arg){ "step", (int64_t)function->step },
                     (rf_span_arg){ "examples", (int64_t)x.total });
    return rf_error_context(r, "function '%s'", function->name);
}
