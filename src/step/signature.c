/* SPDX-License-Identifier: Apache-2.0 */
/* A function for one kind of input: found or traced, and compiled for each replica. */
#include <string.h>

#include "replica/internal.h"
#include "replica/store/local_state.h"
#include "replica/store/variables.h"
#include "replica/update/update.h"
#include "replica/update/updater.h"
#include "step/function.h"
#include "step/signature.h"

/* ---- lookup ---- */

/* Types and shapes agree, dimension 0 aside. */
static bool matches_batch(const rf_element_spec *spec, const rf_element *batch)
{
    if (spec->num_components != batch->num_components) return false;
    for (uint32_t i = 0; i < spec->num_components; i++) {
        const rf_array *array = &batch->component[i];
        rf_shape shape = array->shape;
        shape.dim[0] = spec->shape[i].dim[0];
        if (spec->dtype[i] != array->dtype || !rf_shape_equal(spec->shape[i], shape)) return false;
    }
    return true;
}

/* *out is there after a failure, too. */
static rf_result signature_make(rf_function *f, const rf_element *batch, uint32_t traced_batch, rf_signature **out)
{
    rf_signature *sig = *out = RF_NEW(rf_signature);
    if (!sig) return RF_ERROR_OUT_OF_HOST_MEMORY;
    sig->alone = traced_batch == 1;
    sig->spec.num_components = batch->num_components;
    sig->unit = 1;
    for (uint32_t i = 0; i < batch->num_components; i++) {
        sig->spec.dtype[i] = batch->component[i].dtype;
        sig->spec.shape[i] = batch->component[i].shape;
        sig->spec.shape[i].dim[0] = traced_batch;
    }
    return rf_trace_run(f, sig);
}

static rf_result signature_trace(rf_function *f, const rf_element *batch, uint32_t traced_batch, rf_signature **out)
{
    rf_signature *sig;
    rf_result r = signature_make(f, batch, traced_batch, &sig);
    if (r >= 0) r = rf_graph_find_lookups(sig->graph, sig->lookups, RF_MAX_COMPONENTS);
    if (r >= 0) r = RF_VEC_GROW(&f->signatures);
    if (r < 0) {
        rf_signature_free(sig, f->strategy->members.num_local);
        return r;
    }
    f->signatures.items[f->signatures.count++] = sig;
    *out = sig;
    return RF_OK;
}

rf_result rf_signature_find(rf_function *f, const rf_element *batch, uint32_t examples, rf_signature **out)
{
    for (uint32_t i = 0; i < f->signatures.count; i++) {
        rf_signature *sig = f->signatures.items[i];
        if (!matches_batch(&sig->spec, batch) || (sig->alone && examples > 1)) continue;
        *out = sig;
        return RF_OK;
    }
    if (examples > 1) return signature_trace(f, batch, examples, out);
    /* Not with 1, which broadcasts where other sizes do not, unless there is no other way: as where a step keeps
     * tensors of so many examples from run to run. A trace that fails then names the shapes that it was given. */
    const rf_result r = signature_trace(f, batch, 2, out);
    return r < 0 ? signature_trace(f, batch, 1, out) : r;
}

rf_result rf_signature_explain(rf_function *f, const rf_element *batch, uint32_t traced_batch, uint32_t whole_batch,
                               rf_result failure)
{
    rf_error_record first;
    rf_signature *sig;
    if (failure != RF_ERROR_INVALID_ARGUMENT || traced_batch == whole_batch || whole_batch == 0) return failure;
    rf_error_save(&first);
    const rf_result r = signature_make(f, batch, whole_batch, &sig);
    rf_signature_free(sig, f->strategy->members.num_local);
    if (r == failure) return failure;
    (void)rf_error_restore(&first);
    return rf_error_context(failure, "in a step that is traced with %u examples", traced_batch);
}

/* ---- programs ---- */

static void drop_programs(rf_signature *sig, uint32_t num_local)
{
    for (uint32_t u = 0; u < sig->updates.count; u++)
        (void)rf_updater_settle(sig->updates.items[u].updater); /* frames that it waits for are of these programs */
    for (uint32_t r = 0; sig->programs && r < num_local; r++) rf_program_destroy(&sig->programs[r]);
    rf_step_schedule_free(&sig->schedule);
    for (uint32_t u = 0; u < sig->updates.count; u++) rf_update_unprepare(&sig->updates.items[u]);
    rf_step_sums_unprepare(&sig->sums);
    sig->prepared = false;
}

void rf_signature_free(rf_signature *sig, uint32_t num_local)
{
    if (!sig) return;
    drop_programs(sig, num_local);
    for (uint32_t u = 0; u < sig->updates.count; u++) rf_update_free(&sig->updates.items[u]);
    rf_assignments_free(&sig->assignments);
    for (uint32_t i = 0; i < sig->states.count; i++) {
        rf_variable_release(sig->states.items[i].variable);
        rf_local_state_release(sig->states.items[i].local);
    }
    rf_graph_destroy(&sig->graph);
    rf_free(sig->updates.items);
    rf_free(sig->states.items);
    rf_free(sig->programs);
    rf_free(sig);
}

/* Generations only rise, so equal sums mean that nothing moved. */
static uint64_t buffer_generation(const rf_strategy *s, const rf_signature *sig)
{
    uint64_t sum = s->store.generation;
    for (uint32_t u = 0; u < sig->updates.count; u++) sum += sig->updates.items[u].updater->generation;
    return sum;
}

/* Memory in which gradients and values travel: of all devices where updates can do with that, else staging. */
static rf_result ready_exchange(rf_strategy *s, const rf_signature *sig)
{
    bool stages = false;
    RF_TRY(rf_imported_memory_ensure(s));
    for (uint32_t u = 0; u < sig->updates.count; u++) {
        const rf_update *update = &sig->updates.items[u];
        stages = stages || !rf_update_facts_of(update).imported || update->updater->params.whole_matrix;
    }
    return stages ? rf_staging_ensure(s, &s->exchange.trained, s->store.trainable.values.capacity) : RF_OK;
}

static rf_result ready_updaters(rf_strategy *s, rf_signature *sig)
{
    for (uint32_t u = 0; u < sig->updates.count; u++) {
        rf_update *update = &sig->updates.items[u];
        RF_REQUIRE(!update->updater->destroyed, "the optimizer that the function uses has been destroyed");
        RF_REQUIRE(!update->updater->suspended, "%s", update->updater->suspended);
        if (!sig->prepared) RF_TRY(rf_updater_learn(update->updater, update->variables, update->count));
        RF_TRY(rf_updater_ensure_arrays(update->updater, update->transform.graph != NULL));
    }
    RF_TRY(rf_weight_copies_ensure(s));
    if (sig->assignments.count > 0) RF_TRY(rf_assignments_ensure(s));
    if (sig->sums.elements > 0) RF_TRY(rf_step_sums_ensure(s, sig->sums.elements));
    return sig->updates.count > 0 ? ready_exchange(s, sig) : RF_OK;
}

/* ---- stages ---- */

static rf_result hand_out(const rf_step_stage *stage, const rf_step_schedule_run *run)
{
    (void)stage;
    run->results(run->user);
    return RF_OK;
}

rf_result rf_signature_append_stages(rf_signature *sig, const rf_program_sum *sums, uint32_t num_sums)
{
    static const rf_stage_action results = { .name = "results", .host = hand_out };
    rf_step_schedule *schedule = &sig->schedule;
    const rf_step_stage step = { .op = RF_STAGE_STEP,
                                 .action = &rf_step_action,
                                 .on = RF_ON_ACTIVE,
                                 .piece = sig->sums.elements > 0 ? RF_PIECE_PART : RF_PIECE_WHOLE,
                                 .after = RF_AFTER_NOTHING };
    const rf_step_stage out = { .op = RF_STAGE_HOST, .action = &results };
    RF_TRY(rf_signature_append_refresh(sig));
    if (sig->sums.elements > 0) RF_TRY(rf_step_sums_append(schedule, &sig->sums, sums, num_sums));
    if (!sig->overlaps) RF_TRY(rf_step_schedule_append(schedule, &step, NULL));
    for (uint32_t u = 0; u < sig->updates.count; u++) RF_TRY(rf_update_append_joined(schedule, &sig->updates.items[u]));
    if (!sig->overlaps) RF_TRY(rf_step_schedule_append(schedule, &out, NULL));
    for (uint32_t u = 0; u < sig->updates.count; u++) RF_TRY(rf_update_append(schedule, &sig->updates.items[u]));
    if (sig->overlaps) RF_TRY(rf_step_schedule_append(schedule, &out, NULL));
    return rf_assignments_append(schedule, &sig->assignments);
}

rf_result rf_signature_prepare_updates(rf_function *f, rf_signature *sig)
{
    const bool by_bucket =
        sig->updates.count == 1 && sig->sums.elements == 0 && rf_update_can_overlap(&sig->updates.items[0]);
    const rf_traced_states traced = { sig->graph, sig->states.items, sig->states.count };
    sig->overlaps = false;
    sig->schedule.strategy = f->strategy;
    for (uint32_t u = 0; u < sig->updates.count; u++) {
        rf_update *update = &sig->updates.items[u];
        RF_TRY(rf_update_prepare(update, &traced, by_bucket, rf_submission_batch_most(&f->group)));
        sig->overlaps = update->overlap.overlaps; /* only one that is alone does */
    }
    return RF_OK;
}

static rf_result signature_rebuild(rf_function *f, rf_signature *sig)
{
    rf_strategy *s = f->strategy;
    RF_TRY(rf_function_detach_results(f));
    drop_programs(sig, s->members.num_local);
    if (!sig->programs) sig->programs = RF_NEW_ARRAY(rf_program *, s->members.num_local);
    if (!sig->programs) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(rf_signature_prepare_updates(f, sig));
    rf_program *program;
    const rf_program_sum *sums = NULL;
    uint32_t num_sums = 0;
    if (sig->sums.elements > 0) {
        RF_TRY(rf_replica_context(s, 0, rf_signature_program(f, sig, 0, &program)));
        sums = rf_program_sums(program, &num_sums);
    }
    RF_TRY(rf_signature_append_stages(sig, sums, num_sums));
    return rf_step_schedule_build(&sig->schedule);
}

rf_result rf_signature_prepare(rf_function *f, rf_signature *sig)
{
    RF_TRY(ready_updaters(f->strategy, sig));
    const uint64_t now = buffer_generation(f->strategy, sig);
    if (!sig->prepared || sig->generation != now) {
        const rf_result r = signature_rebuild(f, sig);
        if (r < 0) {
            drop_programs(sig, f->strategy->members.num_local);
            return r;
        }
        sig->generation = now;
        sig->prepared = true;
    }
    return RF_OK;
}

static rf_location state_location(const rf_state_ref *ref, uint32_t index)
{
    if (ref->local) return (rf_location){ ref->local->values.buffers[index], 0 };
    if (ref->shadow) return rf_weight_copies_location(ref->variable->strategy, index, ref->variable->offset);
    const rf_flat *flat = &rf_variable_store(ref->variable)->values;
    return (rf_location){ flat->buffers[index], ref->variable->offset * sizeof(float) };
}

static void place_gradients(const rf_strategy *s, const rf_signature *sig, uint32_t index,
                            rf_program_placement *placements)
{
    for (uint32_t u = 0; u < sig->updates.count; u++) {
        const rf_update *update = &sig->updates.items[u];
        for (uint32_t i = 0; i < update->count; i++)
            *placements++ = (rf_program_placement){ .value = update->gradients[i],
                                                    .at = { s->store.gradients.buffers[index],
                                                            update->variables[i]->offset * sizeof(float) },
                                                    .part = update->overlap.plan.part[update->overlap.bucket_of[i]] };
    }
}

/* After the gradients: whatever is read back in parts, these are there with the last one. */
static void place_assigned(const rf_strategy *s, const rf_signature *sig, uint32_t index,
                           rf_program_placement *placements)
{
    const uint32_t last = sig->overlaps ? sig->updates.items[0].num_buckets - 1 : 0;
    for (uint32_t i = 0; i < sig->assignments.count; i++) {
        const rf_assignment *a = &sig->assignments.items[i];
        *placements++ =
            (rf_program_placement){ .value = a->value,
                                    .at = { s->store.assigned.buffers[index], a->variable->offset * sizeof(float) },
                                    .part = last };
    }
}

rf_result rf_signature_program(rf_function *f, rf_signature *sig, uint32_t index, rf_program **out)
{
    *out = sig->programs[index];
    if (*out) return RF_OK;
    const rf_strategy *s = f->strategy;
    uint32_t num_gradients = 0;
    for (uint32_t u = 0; u < sig->updates.count; u++) num_gradients += sig->updates.items[u].count;
    const uint32_t num_placements = num_gradients + sig->assignments.count;
    rf_location *states = RF_NEW_ARRAY(rf_location, sig->states.count);
    rf_program_placement *placements = RF_NEW_ARRAY(rf_program_placement, num_placements);
    rf_result r = states && placements ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        for (uint32_t i = 0; i < sig->states.count; i++) states[i] = state_location(&sig->states.items[i], index);
        place_gradients(s, sig, index, placements);
        place_assigned(s, sig, index, placements + num_gradients);
        const rf_program_sum_places sum_places = {
            { s->store.summands.buffers ? s->store.summands.buffers[index] : NULL, 0 },
            { s->store.sums.buffers ? s->store.sums.buffers[index] : NULL, 0 },
            s->store.alignment
        };
        const rf_program_params params = { .name = f->name,
                                           .graph = sig->graph,
                                           .results = sig->outputs,
                                           .num_results = f->params.num_outputs,
                                           .states = states,
                                           .placements = placements,
                                           .num_placements = num_placements,
                                           .sum_places = sig->sums.elements > 0 ? &sum_places : NULL };
        r = rf_program_create(s->members.replicas[index].exec, &params, &sig->programs[index]);
    }
    rf_free(states);
    rf_free(placements);
    *out = sig->programs[index];
    return r;
}
