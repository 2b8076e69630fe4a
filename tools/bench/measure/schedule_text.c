/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules in words. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench/measure/measure.h"
#include "replica/schedule/schedule.h"
#include "step/function.h"

static void print_segments(FILE *f, const rf_segment *segments, uint32_t count)
{
    uint64_t elements = 0;
    for (uint32_t i = 0; i < count; i++) elements += segments[i].range.end - segments[i].range.begin;
    fprintf(f, "%" PRIu64 " elements in %" PRIu32 " %s", elements, count, count == 1 ? "range" : "ranges");
}

static void print_copy(FILE *f, const rf_step_stage *stage)
{
    fprintf(f, ": %s to %s, ", stage->copy.from ? stage->copy.from->name : "zeros", stage->copy.to->name);
    print_segments(f, stage->copy.segments, stage->copy.num_segments);
}

static void print_exchange(FILE *f, const rf_strategy *s, const rf_stage_exchange *x)
{
    static const char *const verbs[] = { "summed into %s of their owners", "summed into %s of all",
                                         "from their owners to %s of the others" }; /* by rf_exchange_verb */
    static const char *const on[] = { "", ", of replicas with examples", ", of replicas without examples",
                                      ", of the first replica with examples" };
    const bool all = x->verb == RF_EXCHANGE_SUM && x->segments[0].owner == RF_OWNER_ALL;
    bool staged = false;
    for (uint32_t r = 0; !x->imported && r < s->members.num_local; r++)
        staged = staged || s->members.replicas[r].staged;
    fprintf(f, ": %s%s, ", x->from.flat->name, x->verb == RF_EXCHANGE_GATHER ? "" : on[x->on]);
    print_segments(f, x->segments, x->num_segments);
    fputs(", ", f);
    fprintf(f, verbs[all ? RF_EXCHANGE_SUM_TO_ALL : x->verb], x->to.flat->name);
    fputs(x->imported ? ", in imported memory" : x->background ? ", in the background" : ", on the host", f);
    if (staged) fputs(", through staging", f);
}

static void print_conditions(FILE *f, const rf_step_stage *stage)
{
    static const char *const words[] = { "in the first of several steps", "in later ones of several steps",
                                         "in steps that update", "unless gradients are dropped",
                                         "where squares overflowed" }; /* by bit of rf_step_stage::when */
    static const char *const on[] = { NULL, "with examples", "without examples", "the first with examples" };
    if (on[stage->on]) fprintf(f, "; replicas: %s", on[stage->on]);
    for (uint32_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (stage->when & 1u << i) fprintf(f, "; %s", words[i]);
    if (stage->changes) fputs("; not while a checkpoint copies", f);
    if (stage->clear) fputs("; once no part uses its variables", f);
    if (stage->early) fputs("; or sooner", f);
    if (stage->after == RF_AFTER_ALL)
        fputs("; waits for all that was submitted", f);
    else if (stage->after != RF_AFTER_NOTHING)
        fprintf(f, "; waits for %" PRIu32, stage->after - 1);
}

static void print_stage(FILE *f, const rf_step_schedule *s, uint32_t number)
{
    static const char *const ops[] = { "step", "program", "copy", "start", "finish", "poll", "host" };
    static const char *const pieces[] = { "", " up to sums", " part" }; /* by rf_stage_piece */
    const rf_step_stage *stage = &s->stages.items[number];
    const bool exchanges = stage->op == RF_STAGE_START || stage->op == RF_STAGE_FINISH;
    fprintf(f, "%3" PRIu32 " %c %s", number, stage->joins ? '+' : ' ', ops[stage->op]);
    if (exchanges) fprintf(f, " %s", s->exchanges.items[stage->exchange].name);
    if (stage->action && stage->op != RF_STAGE_STEP) fprintf(f, " %s", stage->action->name);
    if (stage->op == RF_STAGE_STEP) fputs(pieces[stage->piece], f);
    if (stage->op == RF_STAGE_STEP && stage->piece != RF_PIECE_WHOLE) fprintf(f, " %" PRIu32, stage->part);
    if (s->num_parts > 0 && stage->state) fprintf(f, " of bucket %" PRIu32, stage->bucket);
    if (stage->pass > 0) fprintf(f, ", pass %" PRIu32, stage->pass);
    if (stage->op == RF_STAGE_COPY) print_copy(f, stage);
    if (stage->op == RF_STAGE_START) print_exchange(f, s->strategy, &s->exchanges.items[stage->exchange]);
    if (stage->departs) fprintf(f, "; then to %s", s->exchanges.items[stage->departs - 1].name);
    print_conditions(f, stage);
    fputc('\n', f);
}

char *rf_bench_schedule_text(const rf_step_schedule *s)
{
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f) return NULL;
    for (uint32_t i = 0; i < s->stages.count; i++) print_stage(f, s, i);
    const bool written = fclose(f) == 0;
    char *out = written ? rf_strdup(text) : NULL;
    free(text);
    return out;
}

char *rf_bench_function_schedule(const rf_function *function)
{
    const uint32_t count = function->signatures.count;
    const rf_signature *latest = count > 0 ? function->signatures.items[count - 1] : NULL;
    return latest && latest->prepared ? rf_bench_schedule_text(&latest->schedule) : NULL;
}
