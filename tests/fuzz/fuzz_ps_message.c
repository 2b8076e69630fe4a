/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of parameter-server clusters, and the plans and layouts that two of them make. The first byte chooses the
 * type. A message that is accepted must keep the decoder's promises, and encoding it again must give what decodes to
 * the same.
 */
#include <string.h>

#include "fuzz.h"
#include "server/message.h"
#include "server/plan.h"

/* How a worker cuts its variables, of which the last one has no optimizer, as the chief says. */
static void plan(uint64_t max_elements, const uint8_t *rules, size_t num_rules)
{
    static const uint64_t counts[] = { 1, 700, 64 };
    rf_ps_plan p;
    if (rf_ps_rules_check(rules, num_rules, 2, 3) < 0) return;
    if (rf_ps_plan_make(counts, rules, 3, 2, max_elements, &p) < 0) return;
    PROMISE(p.total == 765 && p.server_counts[0] + p.server_counts[1] == p.total);
    uint64_t at = 0;
    for (uint32_t i = 0; i < p.count; i++) {
        const uint64_t length = p.items[i].range.end - p.items[i].range.begin;
        PROMISE(length > 0 && length <= max_elements && p.items[i].from == at && p.items[i].server < 2);
        const uint32_t server = p.items[i].server;
        PROMISE(p.items[i].offset + length <= p.server_counts[server]);
        PROMISE((p.items[i].offset < p.layouts[server].optimized) == (p.items[i].variable < 2));
        at += length;
    }
    PROMISE(at == p.total);
    rf_ps_plan_free(&p);
}

/* The layout that a server takes from the chief: of `count` elements each belongs to one group or to none. */
static void layout(const rf_ps_message *init)
{
    rf_ps_layout l, again;
    uint8_t bytes[RF_PS_LAYOUT_BYTES];
    if (rf_ps_layout_read(init->payload, init->payload_size, init->groups, init->count, &l) < 0) return;
    PROMISE(init->groups * 8 <= init->payload_size && l.optimized + l.added == init->count);
    const uint32_t groups = rf_ps_layout_write(&l, bytes);
    PROMISE(groups <= init->groups);
    PROMISE(rf_ps_layout_read(bytes, sizeof(bytes), groups, init->count, &again) == RF_OK);
    PROMISE(memcmp(&l, &again, sizeof(l)) == 0);
}

static void message(uint16_t type, const uint8_t *data, size_t size)
{
    rf_ps_message one, two;
    uint8_t head[RF_PS_HEAD_MAX];
    size_t head_size;
    if (rf_ps_message_decode(type, data, size, &one) < 0) return;
    PROMISE(one.type == type && strlen(one.text) < sizeof(one.text));
    PROMISE(one.payload_size <= size);
    PROMISE(rf_ps_message_encode(&one, head, &head_size) == RF_OK && head_size <= sizeof(head));
    PROMISE(rf_ps_message_decode(type, head, head_size, &two) == RF_OK);
    PROMISE(two.payload_size == 0 && strcmp(one.text, two.text) == 0 && two.id == one.id && two.version == one.version);
    PROMISE(one.result == two.result && one.groups == two.groups && one.slots == two.slots && one.slot == two.slot);
    if (type == RF_PS_WELCOME) plan(one.count, one.payload, one.payload_size);
    if (type == RF_PS_INIT) layout(&one);
}

FUZZ_TARGET(ps_message)
{
    if (size == 0) return 0;
    /* The bytes begin where nothing is aligned. */
    message(data[0] % (RF_PS_TYPE_COUNT + 1), data + 1, size - 1);
    return 0;
}
