/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of broadcasting. */
#include <string.h>

#include "ops/pointwise/common/elementwise.h"

rf_result rf_broadcast_shape(const char *op, rf_shape a, rf_shape b, rf_shape *out)
{
    rf_shape r = { .rank = a.rank > b.rank ? a.rank : b.rank };
    for (int32_t d = 0; d < r.rank; d++) {
        const int32_t da = d - (r.rank - a.rank), db = d - (r.rank - b.rank);
        const int64_t x = da >= 0 ? a.dim[da] : 1, y = db >= 0 ? b.dim[db] : 1;
        if (x != y && x != 1 && y != 1) {
            char first[96], second[96];
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: shapes %s and %s do not broadcast together", op,
                           rf_shape_format(a, first, sizeof(first)), rf_shape_format(b, second, sizeof(second)));
        }
        r.dim[d] = x == 1 ? y : x;
    }
    *out = r;
    return RF_OK;
}

void rf_broadcast_collapse(rf_shape full, const rf_tensor_desc *in, uint32_t n_in, rf_collapsed *out)
{
    memset(out, 0, sizeof(*out));
    uint32_t last = ~0u; /* which inputs have the dimension before, as a mask */
    for (int32_t d = 0; d < full.rank; d++) {
        if (full.dim[d] == 1) continue;
        uint32_t mask = 0;
        for (uint32_t i = 0; i < n_in; i++) {
            const int32_t own = d - (full.rank - in[i].shape.rank);
            if (own >= 0 && in[i].shape.dim[own] != 1) mask |= 1u << i;
        }
        if (mask == last) {
            out->size[out->rank - 1] *= (uint64_t)full.dim[d];
            continue;
        }
        for (uint32_t i = 0; i < n_in; i++) out->present[i] |= (mask >> i & 1) << out->rank;
        out->size[out->rank++] = (uint64_t)full.dim[d];
        last = mask;
    }
}

/* `small` broadcasts to `full`. */
static bool broadcasts_to(rf_shape small, rf_shape full)
{
    if (small.rank > full.rank) return false;
    for (int32_t d = 0; d < small.rank; d++)
        if (small.dim[d] != 1 && small.dim[d] != full.dim[d + full.rank - small.rank]) return false;
    return true;
}

int64_t rf_broadcast_index(rf_shape small, rf_shape full, int64_t e)
{
    int64_t index = 0, stride = 1;
    for (int32_t d = full.rank - 1; d >= 0; d--) {
        const int64_t at = e % full.dim[d];
        e /= full.dim[d];
        const int32_t own = d - (full.rank - small.rank);
        if (own < 0 || small.dim[own] == 1) continue;
        index += at * stride;
        stride *= small.dim[own];
    }
    return index;
}

rf_result rf_broadcast_infer(rf_op_call *call, bool to_small)
{
    const rf_shape x = call->in[0].shape, like = call->in[1].shape;
    if (call->in[0].dtype != RF_F32)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: input is %s, not f32; cast it first", call->op->name,
                       rf_dtype_name(call->in[0].dtype));
    if (!(to_small ? broadcasts_to(like, x) : broadcasts_to(x, like))) {
        char first[96], second[96];
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "%s: shape %s does not broadcast to %s", call->op->name,
                       rf_shape_format(to_small ? like : x, first, sizeof(first)),
                       rf_shape_format(to_small ? x : like, second, sizeof(second)));
    }
    call->out[0] = (rf_tensor_desc){ RF_F32, like };
    return RF_OK;
}

rf_cost rf_broadcast_cost(const rf_op_call *call)
{
    return rf_cost_of(call, (double)rf_desc_count(&call->in[0]));
}
