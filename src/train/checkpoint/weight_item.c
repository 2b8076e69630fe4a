/* SPDX-License-Identifier: Apache-2.0 */
/* What the accumulated steps of an optimizer count together, and in which unit: two numbers as the bits of doubles, so
 * that a resumed run has the bits of one that went on. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "replica/strategy.h"
#include "train/checkpoint/checkpoint.h"
#include "train/optimizer/optimizer.h"

static rf_result collect_weight(const rf_item *item, rf_item_value *value)
{
    rf_updater *u = rf_optimizer_updater(item->tracked->u.optimizer);
    double numbers[2];
    uint64_t bits[2];
    if (rf_updater_accumulated(u) == 0) return RF_OK;
    RF_TRY(rf_updater_read_weight(u, &numbers[0], &numbers[1]));
    memcpy(bits, numbers, sizeof(bits));
    char *text = rf_asprintf("%016" PRIx64 " %016" PRIx64, bits[0], bits[1]);
    if (!text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    value->data = text;
    value->size = strlen(text);
    value->present = true;
    return RF_OK;
}

static bool parse_weight(const rf_item_value *value, double numbers[2])
{
    uint64_t bits[2];
    if (sscanf(value->data, "%16" SCNx64 " %16" SCNx64, &bits[0], &bits[1]) != 2) return false;
    memcpy(numbers, bits, sizeof(bits));
    return numbers[0] >= 0 && isfinite(numbers[0]) && numbers[1] >= 0 && isfinite(numbers[1]);
}

static rf_result prepare_weight(rf_item *item, const rf_item_value *value)
{
    double numbers[2];
    if (value->present && !parse_weight(value, numbers))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: '%.60s' is not what accumulated steps count", item->name,
                       (const char *)value->data);
    return RF_OK;
}

/* Files that lack it are of steps that counted 1 each, which setting their number has set. */
static rf_result apply_weight(rf_item *item, const rf_item_value *value)
{
    double numbers[2];
    if (value->present && parse_weight(value, numbers))
        rf_updater_write_weight(rf_optimizer_updater(item->tracked->u.optimizer), numbers[0], numbers[1]);
    return RF_OK;
}

const rf_item_kind rf_weight_item_kind = { .form = RF_ITEM_TEXT,
                                           .optional = true,
                                           .exchanged = true,
                                           .collect = collect_weight,
                                           .prepare = prepare_weight,
                                           .apply = apply_weight };
