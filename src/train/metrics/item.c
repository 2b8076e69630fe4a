/* SPDX-License-Identifier: Apache-2.0 */
/* A metric in a checkpoint: the state of every replica. */
#include "train/checkpoint/item.h"
#include "train/metrics/metric.h"

static rf_result collect_state(const rf_item *item, rf_item_value *value)
{
    RF_TRY(rf_item_value_allocate(value, item->shape));
    return rf_local_state_read(rf_metric_state(item->tracked->object), value->data);
}

static rf_result prepare_state(rf_item *item, const rf_item_value *value)
{
    if (!value->present) return RF_OK;
    RF_TRY(rf_item_prepare_numbers(item));
    rf_metric_spread(value->data, (uint32_t)value->shape.dim[0], item->numbers, (uint32_t)item->shape.dim[0],
                     (uint32_t)item->shape.dim[1]);
    return RF_OK;
}

static rf_result apply_state(rf_item *item, const rf_item_value *value)
{
    (void)value;
    return rf_local_state_write(rf_metric_state(item->tracked->object), item->numbers);
}

static rf_result append_metric(const rf_tracked *t, rf_item_list *list)
{
    static const rf_item_kind state_kind = { .form = RF_ITEM_TENSOR,
                                             .dtype = RF_F32,
                                             .free_rows = true,
                                             .collect = collect_state,
                                             .prepare = prepare_state,
                                             .apply = apply_state };
    const rf_shape shape =
        RF_SHAPE(rf_strategy_num_replicas_in_sync(t->strategy), rf_local_state_count(rf_metric_state(t->object)));
    return rf_item_append(list, rf_asprintf("%s/state", t->name),
                          (rf_item){ .kind = &state_kind, .tracked = t, .shape = shape });
}

static rf_result check_metric(const rf_tracked *t, const char *function)
{
    return rf_metric_check_alive(t->object, function);
}

static void release_metric(rf_tracked *t)
{
    rf_metric_release(t->object);
}

rf_result rf_checkpoint_add_metric(rf_checkpoint *checkpoint, const char *name, rf_metric *metric)
{
    static const rf_tracked_kind kind = { .append = append_metric,
                                          .check_alive = check_metric,
                                          .release = release_metric };
    RF_TRY(rf_checkpoint_add(
        checkpoint, "rf_checkpoint_add_metric", name,
        (rf_tracked){ .kind = &kind, .strategy = metric ? rf_metric_strategy(metric) : NULL, .object = metric }));
    rf_metric_retain(metric);
    return RF_OK;
}
