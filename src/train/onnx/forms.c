/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes of older operation sets, and those that take a type from a tensor, as the nodes that the other passes know. */
#include <stdio.h>
#include <string.h>

#include "train/onnx/graph.h"

/* Before opset 7 the second operand broadcasts from a given axis of the first one on, and slopes from axis 1 on. */
static rf_result broadcast_from(rf_import *im, rf_import_node *n, int64_t axis)
{
    rf_import_value *a = rf_import_find(im, n->in[0]), *b = rf_import_find(im, n->in[1]), *wide;
    if (!a || !b || a->kind == RF_IMPORT_UNKNOWN || b->kind == RF_IMPORT_UNKNOWN) return RF_OK;
    const int32_t rank = rf_import_rank(b), behind = rf_import_rank(a) - rank - (int32_t)axis;
    if (axis < 0 || axis > RF_MAX_RANK || behind < 0)
        return rf_import_fail(n, RF_ERROR_CORRUPT_DATA, "it has an axis that its operand lacks");
    if (behind == 0 || rank == 0) return RF_OK;
    const size_t room = strlen(n->out[0]) + 16;
    char *name = rf_import_alloc(im, room);
    int64_t *axes = rf_import_alloc(im, (size_t)behind * sizeof(*axes));
    const char **in = rf_import_alloc(im, 4 * sizeof(*in));
    if (!name || !axes || !in) return RF_ERROR_OUT_OF_HOST_MEMORY;
    snprintf(name, room, "%s/broadcast", n->out[0]);
    if (rf_import_find(im, name)) return rf_import_fail(n, RF_ERROR_CORRUPT_DATA, "a value is named '%.100s'", name);
    for (int32_t i = 0; i < behind; i++) axes[i] = rank + i;
    rf_import_attribute attribute = { .name = "axes", .ints = axes, .num_ints = (uint32_t)behind };
    in[0] = n->in[1]; /* the operand of the new node; behind it are those of this one */
    in[1] = n->in[0];
    in[2] = in[3] = name;
    const rf_import_node widen = { .name = n->name,
                                   .op = "Unsqueeze",
                                   .domain = "",
                                   .in = in,
                                   .out = &in[3],
                                   .num_in = 1,
                                   .num_out = 1,
                                   .attributes = &attribute,
                                   .num_attributes = 1 };
    bool done = false;
    wide = rf_import_add_value(im, name);
    if (!wide) return RF_ERROR_OUT_OF_HOST_MEMORY;
    wide->uses = 1;
    RF_TRY(rf_import_fold(im, &widen, &done));
    if (!done) RF_TRY(rf_import_lower(im, &widen));
    n->in = &in[1];
    return RF_OK;
}

static rf_result renew_old(rf_import *im, rf_import_node *n)
{
    const rf_import_op *op = rf_import_find_op(n->op);
    if (strcmp(n->op, "BatchNormalization") == 0) {
        if (!rf_import_attribute_int(n, "spatial", 1))
            return rf_import_fail(n, RF_ERROR_UNSUPPORTED, "it has averages for each place");
        if (im->file.opset < 7 && !rf_import_attribute_int(n, "is_test", 0))
            return rf_import_fail(n, RF_ERROR_UNSUPPORTED, "it is in training mode");
    }
    if (im->file.opset >= 7 || !op || op->layout != RF_IMPORT_ELEMENTS || n->num_in != 2) return RF_OK;
    const bool slopes = strcmp(n->op, "PRelu") == 0;
    if (!slopes && !rf_import_find_attribute(n, "axis")) return RF_OK;
    const rf_import_constant *slope = rf_import_known(rf_import_find(im, n->in[1]));
    if (slopes && slope && rf_import_count(slope) == 1) return RF_OK;
    return broadcast_from(im, n, rf_import_attribute_int(n, "axis", 1));
}

/* The type of its second operand becomes an attribute. */
static rf_result renew_cast_like(rf_import *im, rf_import_node *n)
{
    const rf_import_value *like = n->num_in == 2 ? rf_import_find(im, n->in[1]) : NULL;
    rf_import_attribute *to = rf_import_alloc(im, sizeof(*to));
    if (!like || like->kind == RF_IMPORT_UNKNOWN)
        return rf_import_fail(n, RF_ERROR_CORRUPT_DATA, "its second operand is missing");
    if (!to) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *to = (rf_import_attribute){ .name = "to", .type = RF_IMPORT_ATTRIBUTE_INT };
    to->i = like->kind == RF_IMPORT_CONSTANT ? like->constant.type
            : like->truth                    ? RF_IMPORT_TYPE_BOOL
            : like->whole                    ? RF_IMPORT_TYPE_INT64
                                             : RF_IMPORT_TYPE_FLOAT;
    n->op = "Cast";
    n->num_in = 1;
    n->attributes = to;
    n->num_attributes = 1;
    return RF_OK;
}

rf_result rf_import_renew(rf_import *im, const rf_import_node *n, rf_import_node *out)
{
    *out = *n;
    if (strcmp(n->op, "CastLike") == 0) return renew_cast_like(im, out);
    return im->file.opset < 9 ? renew_old(im, out) : RF_OK;
}
