/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/mesh/message.h"

#include <stdio.h>
#include <string.h>

/* ---- writing: the callers' buffers have room for the largest message ---- */

static uint8_t *put_number(uint8_t *p, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) *p++ = (uint8_t)(value >> (8 * i));
    return p;
}

static uint8_t *put_text(uint8_t *p, const char *text, size_t capacity)
{
    const size_t length = strnlen(text, capacity - 1);
    p = put_number(p, length, 2);
    memcpy(p, text, length);
    return p + length;
}

size_t rf_mesh_encode_join(const rf_mesh_join *join, uint8_t *data)
{
    uint8_t *p = put_number(data, join->port, 2);
    p = put_text(p, join->address, sizeof(join->address));
    p = put_text(p, join->host, sizeof(join->host));
    return (size_t)(p - data);
}

size_t rf_mesh_encode_table(const rf_mesh_table *table, uint8_t *data)
{
    memcpy(data, table->session, sizeof(table->session));
    uint8_t *p = data + sizeof(table->session);
    p = put_number(p, table->heartbeat_interval_ns, 8);
    p = put_number(p, table->peer_timeout_ns, 8);
    p = put_number(p, table->operation_timeout_ns, 8);
    p = put_number(p, table->count, 4);
    for (uint32_t i = 0; i < table->count; i++) {
        const rf_mesh_member *member = &table->members[i];
        p = put_number(p, member->incarnation, 8);
        p = put_number(p, member->host, 4);
        p = put_number(p, member->port, 2);
        p = put_text(p, member->address, sizeof(member->address));
    }
    return (size_t)(p - data);
}

size_t rf_mesh_encode_heartbeat(const rf_mesh_heartbeat *beat, const uint32_t *late, uint8_t *data)
{
    uint8_t *p = put_number(data, beat->rank, 4);
    p = put_number(p, beat->incarnation, 8);
    p = put_number(p, beat->begun, 8);
    p = put_number(p, beat->finished, 8);
    p = put_number(p, beat->answer, 1);
    p = put_number(p, beat->num_late, 4);
    for (uint32_t i = 0; i < beat->num_late; i++) p = put_number(p, late[i], 2);
    return (size_t)(p - data);
}

size_t rf_mesh_encode_failure(const rf_mesh_failure *failure, uint8_t *data)
{
    uint8_t *p = put_number(data, failure->culprit, 4);
    p = put_number(p, (uint32_t)failure->result, 4);
    p = put_text(p, failure->reason, sizeof(failure->reason));
    return (size_t)(p - data);
}

void rf_mesh_encode_goodbye(uint64_t begun, uint8_t data[RF_MESH_GOODBYE_BYTES])
{
    put_number(data, begun, RF_MESH_GOODBYE_BYTES);
}

void rf_mesh_encode_part(uint64_t serial, uint8_t head[RF_MESH_PART_HEAD])
{
    put_number(head, serial, RF_MESH_PART_HEAD);
}

void rf_mesh_encode_entry(const rf_mesh_entry *entry, uint8_t head[RF_MESH_ENTRY_HEAD])
{
    uint8_t *p = put_number(head, entry->rank, 4);
    p = put_number(p, entry->type, 2);
    put_number(p, entry->size, 4);
}

/* ---- reading ---- */

typedef struct reader {
    const uint8_t *p;
    size_t left;
    bool bad;
} reader;

static uint64_t get_number(reader *r, size_t bytes)
{
    if (r->left < bytes) {
        r->bad = true;
        r->left = 0;
        return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; i++) value |= (uint64_t)r->p[i] << (8 * i);
    r->p += bytes;
    r->left -= bytes;
    return value;
}

static void get_text(reader *r, char *text, size_t capacity)
{
    const size_t length = (size_t)get_number(r, 2);
    text[0] = '\0';
    if (length > r->left || length >= capacity) r->bad = true;
    if (r->bad) return;
    memcpy(text, r->p, length);
    text[length] = '\0';
    rf_error_one_line(text);
    r->p += length;
    r->left -= length;
}

static rf_result finish_reading(const reader *r, const char *name)
{
    if (r->bad) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s message: ends too early or a text in it is too long", name);
    if (r->left) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s message: %zu bytes too many", name, r->left);
    return RF_OK;
}

rf_result rf_mesh_decode_join(const void *data, size_t size, rf_mesh_join *out)
{
    reader r = { data, size, false };
    out->port = (uint16_t)get_number(&r, 2);
    get_text(&r, out->address, sizeof(out->address));
    get_text(&r, out->host, sizeof(out->host));
    RF_TRY(finish_reading(&r, "join"));
    if (!out->port || !out->address[0]) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "join message: no address or port");
    return RF_OK;
}

rf_result rf_mesh_decode_table(const void *data, size_t size, rf_mesh_table *out)
{
    reader r = { data, size, false };
    for (size_t i = 0; i < sizeof(out->session); i++) out->session[i] = (uint8_t)get_number(&r, 1);
    out->heartbeat_interval_ns = get_number(&r, 8);
    out->peer_timeout_ns = get_number(&r, 8);
    out->operation_timeout_ns = get_number(&r, 8);
    const uint32_t count = (uint32_t)get_number(&r, 4);
    if (!r.bad && count != out->count)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "table message: %u ranks instead of %u", count, out->count);
    uint32_t hosts = 0;
    for (uint32_t i = 0; i < out->count; i++) {
        rf_mesh_member *member = &out->members[i];
        member->incarnation = get_number(&r, 8);
        member->host = (uint32_t)get_number(&r, 4);
        member->port = (uint16_t)get_number(&r, 2);
        get_text(&r, member->address, sizeof(member->address));
        if (r.bad) break;
        if (member->host > hosts || !member->address[0])
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "table message: rank %u has no address or a host out of order", i);
        hosts += member->host == hosts;
    }
    RF_TRY(finish_reading(&r, "table"));
    /* The upper bound (about 31 years) keeps sums of times far from overflow. */
    const uint64_t most = UINT64_C(1000000000) * 1000000000;
    if (!out->heartbeat_interval_ns || out->heartbeat_interval_ns > out->peer_timeout_ns ||
        out->peer_timeout_ns > most || !out->operation_timeout_ns || out->operation_timeout_ns > most)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "table message: impossible timings");
    return RF_OK;
}

rf_result rf_mesh_decode_heartbeat(const void *data, size_t size, uint32_t world, rf_mesh_heartbeat *out)
{
    reader r = { data, size, false };
    out->rank = (uint32_t)get_number(&r, 4);
    out->incarnation = get_number(&r, 8);
    out->begun = get_number(&r, 8);
    out->finished = get_number(&r, 8);
    out->answer = get_number(&r, 1) != 0;
    out->num_late = (uint32_t)get_number(&r, 4);
    if (out->num_late > world) r.bad = true;
    out->late = r.p;
    for (uint32_t i = 0; !r.bad && i < out->num_late; i++) {
        if (get_number(&r, 2) >= world) r.bad = true;
    }
    return finish_reading(&r, "heartbeat");
}

uint32_t rf_mesh_late_rank(const rf_mesh_heartbeat *beat, uint32_t index)
{
    return beat->late[2 * index] | (uint32_t)beat->late[2 * index + 1] << 8;
}

rf_result rf_mesh_decode_failure(const void *data, size_t size, uint32_t world, rf_mesh_failure *out)
{
    reader r = { data, size, false };
    out->culprit = (uint32_t)get_number(&r, 4);
    const int64_t result = (int32_t)(uint32_t)get_number(&r, 4);
    get_text(&r, out->reason, sizeof(out->reason));
    RF_TRY(finish_reading(&r, "failure"));
    if (out->culprit >= world || result >= 0 || result < RF_ERROR_LOWEST)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "failure message: rank %u, result %d", out->culprit, (int)result);
    out->result = (rf_result)result;
    return RF_OK;
}

rf_result rf_mesh_decode_goodbye(const void *data, size_t size, uint64_t *begun)
{
    reader r = { data, size, false };
    *begun = get_number(&r, RF_MESH_GOODBYE_BYTES);
    return finish_reading(&r, "goodbye");
}

rf_result rf_mesh_decode_part(const void *data, size_t size, rf_mesh_part *out)
{
    reader r = { data, size, false };
    out->serial = get_number(&r, RF_MESH_PART_HEAD);
    out->data = r.p;
    out->size = r.left;
    if (r.bad || r.left > RF_MESH_EXCHANGE_MAX)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "exchange message: %zu bytes", size);
    return RF_OK;
}

rf_result rf_mesh_decode_entry(const uint8_t **data, size_t *size, uint32_t world, rf_mesh_entry *out)
{
    if (*size == 0) return RF_END;
    reader r = { *data, *size, false };
    out->rank = (uint32_t)get_number(&r, 4);
    out->type = (uint16_t)get_number(&r, 2);
    out->size = (size_t)get_number(&r, 4);
    out->body = r.p;
    if (r.bad || out->size > r.left || out->rank >= world ||
        (out->type != RF_MESH_EXCHANGE && out->type != RF_MESH_GOODBYE))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "relay message: type %u of rank %u, %zu bytes", out->type, out->rank,
                       out->size);
    *data = out->body + out->size;
    *size = r.left - out->size;
    return RF_OK;
}

/* ---- text ---- */

void rf_mesh_missing_text(const bool *present, uint32_t world, char *text, size_t size)
{
    uint32_t missing = 0, named = 0;
    for (uint32_t r = 0; r < world; r++) missing += !present[r];
    size_t used = (size_t)snprintf(text, size, missing == 1 ? "rank" : "ranks");
    for (uint32_t r = 0; r < world && named < 16 && used < size; r++) {
        if (present[r]) continue;
        used += (size_t)snprintf(text + used, size - used, named++ ? ", %u" : " %u", r);
    }
    if (missing > named && used < size)
        used += (size_t)snprintf(text + used, size - used, " and %u more", missing - named);
    if (used < size) snprintf(text + used, size - used, " of %u", world);
}
