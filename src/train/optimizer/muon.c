/* SPDX-License-Identifier: Apache-2.0 */
/* Muon as a kind of optimizer: momentum whose singular values are made about 1. */
#include <math.h>

#include "trace/trace.h"
#include "train/optimizer/optimizer.h"

static const rf_muon_params *params_of(const rf_optimizer_params *p, uint32_t group)
{
    static const rf_muon_params none = { 0 };
    const uint32_t number = group % (p->num_groups + 1);
    return number > 0 && p->groups[number - 1].muon ? p->groups[number - 1].muon : &none;
}

bool rf_muon_updates(const rf_optimizer_params *p, uint32_t group, const char *name, rf_shape shape)
{
    static const rf_parameter_group tables = { .names = "*embedding*,*Embedding*" };
    const rf_muon_params *muon = params_of(p, group);
    if (muon->adamw || (!muon->embeddings && rf_parameter_group_matches(&tables, name))) return false;
    return shape.rank == 2 ||
           (shape.rank > 2 && muon->row_dimensions > 0 && (int32_t)muon->row_dimensions < shape.rank);
}

rf_result rf_muon_emit_direction(const rf_optimizer_params *p, rf_graph *g, uint32_t group, rf_value direction,
                                 rf_value grad, rf_value m, rf_value hyper)
{
    const uint32_t nesterov = !params_of(p, group)->plain_momentum;
    return rf_emit_update(g, &rf_op_muon_momentum, &nesterov, (rf_value[]){ direction, grad, m, hyper }, 4);
}

static double scale_of(const rf_muon_params *muon, double rows, double columns)
{
    if (muon->scale == RF_MUON_SCALE_SHAPE) return rows > columns ? sqrt(rows / columns) : 1.0;
    return (muon->rms_rate == 0.0 ? 0.2 : muon->rms_rate) * sqrt(rows > columns ? rows : columns);
}

rf_result rf_muon_emit_whole(const rf_optimizer_params *p, rf_graph *g, uint32_t group, rf_value direction)
{
    const rf_muon_params *muon = params_of(p, group);
    const rf_shape shape = rf_graph_desc(g, direction)->shape;
    const int32_t leading = shape.rank == 2 ? 1 : (int32_t)muon->row_dimensions;
    int64_t rows = 1, columns = 1;
    for (int32_t i = 0; i < shape.rank; i++) *(i < leading ? &rows : &columns) *= shape.dim[i];
    rf_value x = direction;
    if (shape.rank > 2) RF_TRY(rf_emit_reshape(g, x, RF_SHAPE(rows, columns), &x));
    RF_TRY(rf_emit_orthogonal(g, x, muon->steps, &x));
    RF_TRY(rf_emit_unary(g, RF_FN_MUL_IMM, (float)scale_of(muon, (double)rows, (double)columns), x, &x));
    return rf_emit_update(g, &rf_op_assign, NULL, (rf_value[]){ direction, x }, 2);
}
