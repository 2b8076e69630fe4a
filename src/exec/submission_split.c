/* SPDX-License-Identifier: Apache-2.0 */
#include "exec/submission_split.h"

#include <math.h>

#include "exec/internal.h"

/* ---- decisions ---- */

rf_split_policy rf_split_policy_of(rf_device_type type, bool on_linux)
{
    if (type == RF_DEVICE_TYPE_CPU || (type == RF_DEVICE_TYPE_DISCRETE_GPU && on_linux)) return (rf_split_policy){ 0 };
    return (rf_split_policy){ .target = 0.1, .node_limit = 0.5 };
}

double rf_split_assumed_seconds(const rf_cost *cost)
{
    const double flops_per_second = 20e9, bytes_per_second = 5e9;
    return cost->flops / flops_per_second + cost->bytes / bytes_per_second;
}

double rf_split_pace(double measured, double assumed)
{
    if (!(measured > 0) || !(assumed > 0)) return 1;
    const double pace = measured / assumed;
    return pace < 1e-4 ? 1e-4 : pace > 1e3 ? 1e3 : pace;
}

static double dispatch_work(const rf_dispatch *d)
{
    const double groups = (double)d->grid[0] * d->grid[1] * d->grid[2];
    return groups * (d->n_spec > 0 ? d->spec[0] : 1) * (double)d->loops;
}

void rf_split_node(const rf_split_policy *policy, const rf_kernel_plan *plan, double node_seconds, double *seconds,
                   uint32_t *pieces)
{
    double total = 0;
    for (uint32_t i = 0; i < plan->count; i++) total += dispatch_work(&plan->items[i]);
    const bool apart = policy->target > 0 && node_seconds > policy->node_limit;
    for (uint32_t i = 0; i < plan->count; i++) {
        seconds[i] = total > 0 ? node_seconds * dispatch_work(&plan->items[i]) / total : 0;
        const double wanted = apart ? ceil(seconds[i] / policy->target) : 1;
        pieces[i] = wanted < 1 ? 1 : wanted > 4096 ? 4096 : (uint32_t)wanted;
    }
}

uint32_t rf_split_run(const double *seconds, const bool *may_cut, uint32_t count, double target, bool *cut)
{
    uint32_t recordings = count > 0;
    double sum = 0; /* of the recording */
    for (uint32_t i = 0; i < count; i++) {
        double unit = seconds[i]; /* up to where the next cut may be */
        for (uint32_t k = i + 1; k < count && may_cut[i] && !may_cut[k]; k++) unit += seconds[k];
        cut[i] = i > 0 && may_cut[i] && sum + unit > target * (1 + 1e-9);
        if (cut[i]) {
            sum = 0;
            recordings++;
        }
        sum += seconds[i];
    }
    return recordings;
}

/* ---- instances ---- */

static double node_seconds(const rf_instance *in, uint32_t i)
{
    return rf_split_assumed_seconds(&in->nodes[i].cost) * in->pace;
}

/* Takes a plan that is whole apart where it has to be. */
static rf_result split_plan(const rf_instance *in, uint32_t i)
{
    rf_node_plan *node = &in->nodes[i];
    if (in->program->exec->caps.whole_dispatches) return RF_OK;
    double *seconds = RF_NEW_ARRAY(double, node->plan.count);
    uint32_t *pieces = RF_NEW_ARRAY(uint32_t, node->plan.count);
    rf_result r = seconds && pieces ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        rf_split_node(&in->program->exec->split_policy, &node->plan, node_seconds(in, i), seconds, pieces);
        r = rf_kernel_plan_split(&node->plan, pieces);
    }
    rf_free(seconds);
    rf_free(pieces);
    return r;
}

rf_result rf_instance_split_nodes(rf_instance *in)
{
    const rf_exec *exec = in->program->exec;
    if (exec->split_policy.target <= 0) return RF_OK;
    if (in->pace <= 0) in->pace = rf_tuning_pace(exec->tuning);
    for (uint32_t i = 0; i < in->num_nodes; i++) RF_TRY(split_plan(in, i));
    return RF_OK;
}

static void list_dispatches(const rf_instance *in, double *seconds, bool *may_cut)
{
    const rf_split_policy *policy = &in->program->exec->split_policy;
    for (uint32_t i = 0, at = 0; i < in->num_nodes; i++) {
        const rf_kernel_plan *plan = &in->nodes[i].plan;
        double total = 0;
        for (uint32_t d = 0; d < plan->count; d++) total += dispatch_work(&plan->items[d]);
        const double node = node_seconds(in, i);
        for (uint32_t d = 0; d < plan->count; d++, at++) {
            seconds[at] = total > 0 ? node * dispatch_work(&plan->items[d]) / total : 0;
            may_cut[at] = d == 0 || node > policy->node_limit;
        }
    }
}

rf_result rf_instance_split_run(const rf_instance *in, bool *cut, uint32_t *num_recs)
{
    *num_recs = 1;
    for (uint32_t i = 0; i < in->num_dispatches; i++) cut[i] = false;
    if (in->program->exec->split_policy.target <= 0 || in->num_dispatches == 0) return RF_OK;
    double *seconds = RF_NEW_ARRAY(double, in->num_dispatches);
    bool *may_cut = RF_NEW_ARRAY(bool, in->num_dispatches);
    const rf_result r = seconds && may_cut ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) {
        list_dispatches(in, seconds, may_cut);
        *num_recs = rf_split_run(seconds, may_cut, in->num_dispatches, in->program->exec->split_policy.target, cut);
    }
    rf_free(seconds);
    rf_free(may_cut);
    return r;
}

/* Plans node i again, at the present pace. */
static rf_result plan_again(rf_instance *in, uint32_t i)
{
    rf_node_plan *node = &in->nodes[i], fresh;
    rf_op_call call;
    rf_graph_call(in->graph, node->node, &call);
    rf_result r = rf_node_plan_make(in->program->exec, &call, node->kernel, &fresh);
    fresh.node = node->node;
    if (r >= 0) {
        rf_node_plan before = *node;
        *node = fresh;
        r = split_plan(in, i);
        if (r >= 0) r = rf_node_plans_compile(in->program->exec, node, 1);
        fresh = r >= 0 ? before : *node;
        if (r < 0) *node = before;
    }
    rf_node_plan_free(&fresh);
    return r;
}

/* Whether node i is, or at the present pace has to be, taken apart. */
static bool node_concerns(const rf_instance *in, uint32_t i)
{
    const rf_kernel_plan *plan = &in->nodes[i].plan;
    bool apart = false;
    for (uint32_t d = 0; d < plan->count; d++) apart = apart || plan->items[d].piece;
    return apart || node_seconds(in, i) > in->program->exec->split_policy.node_limit;
}

rf_result rf_instance_adopt_pace(rf_instance *in, double seconds)
{
    rf_exec *exec = in->program->exec;
    double assumed = 0;
    for (uint32_t i = 0; i < in->num_nodes; i++) assumed += rf_split_assumed_seconds(&in->nodes[i].cost);
    in->pace = rf_split_pace(seconds, assumed);
    in->cut_generation++;
    in->num_dispatches = 0;
    rf_result r = rf_tuning_put_pace(exec->tuning, in->pace);
    for (uint32_t i = 0; i < in->num_nodes; i++) {
        if (r >= 0 && node_concerns(in, i)) r = plan_again(in, i);
        in->num_dispatches += in->nodes[i].plan.count;
    }
    return rf_error_context(r, "%s: dividing it anew", in->program->name);
}
