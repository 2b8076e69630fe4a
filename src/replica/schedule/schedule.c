/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of stages, and what they need on each replica. */
#include "replica/schedule/schedule.h"

const rf_stage_action rf_step_action = { .name = "step" };

/* ---- planning ---- */

rf_result rf_step_schedule_append(rf_step_schedule *s, const rf_step_stage *stage, uint32_t *number)
{
    RF_TRY(RF_VEC_GROW(&s->stages));
    if (number) *number = s->stages.count;
    s->stages.items[s->stages.count++] = *stage;
    return RF_OK;
}

rf_result rf_step_schedule_add_exchange(rf_step_schedule *s, const rf_stage_exchange *exchange, uint32_t *number)
{
    RF_TRY(RF_VEC_GROW(&s->exchanges));
    *number = s->exchanges.count++;
    s->exchanges.items[*number] = *exchange;
    s->exchanges.items[*number].number = *number;
    return RF_OK;
}

rf_step_stage *rf_step_schedule_find(const rf_step_schedule *s, const rf_stage_action *action, const void *user,
                                     uint32_t bucket)
{
    for (uint32_t i = 0; i < s->stages.count; i++) {
        rf_step_stage *stage = &s->stages.items[i];
        if (stage->action == action && stage->user == user && stage->bucket == bucket) return stage;
    }
    return NULL;
}

rf_result rf_step_schedule_append_exchange(rf_step_schedule *s, const rf_stage_exchange *exchange,
                                           const rf_step_stage *like)
{
    rf_step_stage stage = {
        .op = RF_STAGE_START, .user = like->user, .state = like->state, .when = like->when, .after = RF_AFTER_ALL
    };
    RF_TRY(rf_step_schedule_add_exchange(s, exchange, &stage.exchange));
    RF_TRY(rf_step_schedule_append(s, &stage, NULL));
    stage.op = RF_STAGE_FINISH;
    stage.after = RF_AFTER_NOTHING;
    return rf_step_schedule_append(s, &stage, NULL);
}

/* ---- programs ---- */

static rf_result emit_program(const rf_strategy *s, const rf_step_stage *stage, uint32_t index, rf_program **out)
{
    rf_range_graph g = { 0 };
    rf_result r = rf_graph_create(rf_exec_core_ops(), &g.graph);
    if (r >= 0) r = stage->action->emit(stage, index, &g);
    if (r >= 0)
        r = rf_range_graph_program(&g, s->members.replicas[index].exec, stage->action->name, stage->picks_numbers, out);
    rf_range_graph_free(&g);
    return r;
}

rf_result rf_step_schedule_make_program(const rf_step_schedule *s, const rf_step_stage *stage, uint32_t index)
{
    rf_program **program = &stage->works[index].program;
    if (*program) return RF_OK;
    return stage->action->make ? stage->action->make(stage, index, program)
                               : emit_program(s->strategy, stage, index, program);
}

/* ---- building ---- */

static rf_result build_work(const rf_step_schedule *s, const rf_step_stage *stage, uint32_t index)
{
    if (stage->op == RF_STAGE_COPY) return rf_stage_record(s->strategy, stage, index, &stage->works[index].copy);
    return stage->op == RF_STAGE_PROGRAM && !stage->late ? rf_step_schedule_make_program(s, stage, index) : RF_OK;
}

static rf_result build_stage(rf_step_schedule *s, rf_step_stage *stage)
{
    RF_TRY(RF_ARENA_ARRAY(&s->room, stage->works, s->strategy->members.num_local));
    for (uint32_t r = 0; r < s->strategy->members.num_local; r++) {
        const rf_result result = build_work(s, stage, r);
        if (result < 0)
            return rf_error_context(result, "%s on replica %u", stage->action->name, s->strategy->members.first + r);
    }
    return RF_OK;
}

static rf_result make_room(rf_step_schedule *s)
{
    const uint32_t num_local = s->strategy->members.num_local;
    RF_TRY(RF_ARENA_ARRAY(&s->room, s->from, num_local));
    RF_TRY(RF_ARENA_ARRAY(&s->room, s->to, num_local));
    RF_TRY(RF_ARENA_ARRAY(&s->room, s->part_of, s->num_parts));
    RF_TRY(RF_ARENA_ARRAY(&s->room, s->last_use, num_local * s->num_parts));
    RF_TRY(RF_ARENA_ARRAY(&s->room, s->next_part, num_local));
    RF_TRY(RF_ARENA_ARRAY(&s->room, s->known, num_local));
    RF_TRY(RF_ARENA_ARRAY(&s->room, s->filled, num_local));
    return RF_ARENA_ARRAY(&s->room, s->frames, s->stages.count);
}

static bool is_part(const rf_step_schedule *s, const rf_step_stage *stage)
{
    return s->num_parts > 0 && stage->op == RF_STAGE_STEP && stage->piece == RF_PIECE_PART;
}

rf_result rf_step_schedule_build(rf_step_schedule *s)
{
    RF_TRY(make_room(s));
    for (uint32_t i = 0; i < s->stages.count; i++) {
        rf_step_stage *stage = &s->stages.items[i];
        if (is_part(s, stage)) s->part_of[stage->part] = i;
        RF_TRY(build_stage(s, stage));
    }
    for (uint32_t i = 0; i < s->exchanges.count; i++)
        RF_TRY(rf_stage_exchange_build(s->strategy, &s->room, &s->exchanges.items[i]));
    return RF_OK;
}

void rf_step_schedule_free(rf_step_schedule *s)
{
    for (uint32_t i = 0; i < s->exchanges.count; i++) rf_stage_exchange_free(s->strategy, &s->exchanges.items[i]);
    for (uint32_t i = 0; i < s->stages.count; i++) {
        rf_step_stage *stage = &s->stages.items[i];
        for (uint32_t r = 0; stage->works && r < s->strategy->members.num_local; r++) {
            rf_program_destroy(&stage->works[r].program);
            rf_gpu_recording_destroy(&stage->works[r].copy);
        }
    }
    rf_free(s->stages.items);
    rf_free(s->exchanges.items);
    rf_arena_free(&s->room);
    *s = (rf_step_schedule){ 0 };
}

static rf_result ready_program(const rf_strategy *s, uint32_t index, rf_program *program)
{
    return program ? rf_replica_context(s, index, rf_program_ready(program, 0)) : RF_OK;
}

rf_result rf_step_schedule_ready(const rf_step_schedule *s)
{
    for (uint32_t r = 0; r < s->strategy->members.num_local; r++) {
        for (uint32_t i = 0; i < s->stages.count; i++)
            RF_TRY(ready_program(s->strategy, r, s->stages.items[i].works[r].program));
        for (uint32_t i = 0; i < s->exchanges.count; i++)
            RF_TRY(ready_program(s->strategy, r, s->exchanges.items[i].replicas[r].sum));
    }
    return RF_OK;
}
