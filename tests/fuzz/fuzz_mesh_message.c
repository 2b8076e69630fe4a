/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of the control mesh. The first byte chooses the message, the rest is its bytes. A message that is accepted
 * must keep the decoder's promises, and encoding it again must give a message that decodes to the same.
 */
#include <string.h>

#include "fuzz.h"
#include "transport/mesh/message.h"

#define WORLD 7

static void join(const uint8_t *data, size_t size)
{
    rf_mesh_join one = { 0 }, two = { 0 };
    uint8_t again[RF_MESH_JOIN_MAX];
    if (rf_mesh_decode_join(data, size, &one) < 0) return;
    PROMISE(one.port && strlen(one.address) > 0);
    PROMISE(rf_mesh_decode_join(again, rf_mesh_encode_join(&one, again), &two) == RF_OK);
    PROMISE(one.port == two.port && strcmp(one.address, two.address) == 0 && strcmp(one.host, two.host) == 0);
}

static void table(const uint8_t *data, size_t size)
{
    rf_mesh_member members[WORLD], more[WORLD];
    rf_mesh_table one = { .count = WORLD, .members = members }, two = { .count = WORLD, .members = more };
    uint8_t again[RF_MESH_TABLE_MAX(WORLD)];
    if (rf_mesh_decode_table(data, size, &one) < 0) return;
    PROMISE(one.heartbeat_interval_ns && one.heartbeat_interval_ns <= one.peer_timeout_ns);
    PROMISE(rf_mesh_decode_table(again, rf_mesh_encode_table(&one, again), &two) == RF_OK);
    for (uint32_t r = 0; r < WORLD; r++) {
        PROMISE(members[r].host <= r && members[r].host == more[r].host && members[r].port == more[r].port);
        PROMISE(members[r].incarnation == more[r].incarnation && strcmp(members[r].address, more[r].address) == 0);
    }
}

static void heartbeat(const uint8_t *data, size_t size)
{
    rf_mesh_heartbeat one;
    uint8_t again[RF_MESH_HEARTBEAT_MAX(WORLD)];
    uint32_t late[WORLD];
    if (rf_mesh_decode_heartbeat(data, size, WORLD, &one) < 0) return;
    PROMISE(one.num_late <= WORLD);
    for (uint32_t i = 0; i < one.num_late; i++) {
        late[i] = rf_mesh_late_rank(&one, i);
        PROMISE(late[i] < WORLD);
    }
    PROMISE(rf_mesh_encode_heartbeat(&one, late, again) == size);
}

static void failure(const uint8_t *data, size_t size)
{
    rf_mesh_failure one, two;
    uint8_t again[RF_MESH_FAILURE_MAX];
    if (rf_mesh_decode_failure(data, size, WORLD, &one) < 0) return;
    PROMISE(one.culprit < WORLD && one.result < 0 && one.result >= RF_ERROR_LOWEST);
    PROMISE(rf_mesh_decode_failure(again, rf_mesh_encode_failure(&one, again), WORLD, &two) == RF_OK);
    PROMISE(one.culprit == two.culprit && one.result == two.result && strcmp(one.reason, two.reason) == 0);
}

static void goodbye(const uint8_t *data, size_t size)
{
    uint64_t begun;
    uint8_t again[RF_MESH_GOODBYE_BYTES];
    if (rf_mesh_decode_goodbye(data, size, &begun) < 0) return;
    rf_mesh_encode_goodbye(begun, again);
    PROMISE(size == sizeof(again) && memcmp(again, data, size) == 0);
}

static void part(const uint8_t *data, size_t size)
{
    rf_mesh_part one;
    uint8_t again[RF_MESH_PART_HEAD];
    if (rf_mesh_decode_part(data, size, &one) < 0) return;
    PROMISE(one.size <= RF_MESH_EXCHANGE_MAX && one.size + sizeof(again) == size);
    rf_mesh_encode_part(one.serial, again);
    PROMISE(memcmp(again, data, sizeof(again)) == 0 && (const uint8_t *)one.data == data + sizeof(again));
}

static void relay(const uint8_t *data, size_t size)
{
    rf_mesh_entry one;
    uint8_t again[RF_MESH_ENTRY_HEAD];
    const uint8_t *const end = data + size;
    for (const uint8_t *before = data; rf_mesh_decode_entry(&data, &size, WORLD, &one) == RF_OK; before = data) {
        PROMISE(one.rank < WORLD && one.body == before + sizeof(again) && one.body + one.size == data);
        PROMISE(data + size == end);
        rf_mesh_encode_entry(&one, again);
        PROMISE(memcmp(again, before, sizeof(again)) == 0);
    }
}

FUZZ_TARGET(mesh_message)
{
    if (size == 0) return 0;
    static void (*const messages[])(const uint8_t *,
                                    size_t) = { join, table, heartbeat, failure, goodbye, part, relay };
    messages[data[0] % 7](data + 1, size - 1);
    return 0;
}
