/* SPDX-License-Identifier: Apache-2.0 */
#include "server/message.h"

#include <string.h>

#include "transport/channel/wire.h"

#define MAX_FIELDS 9

typedef enum payload { NO_PAYLOAD, BYTES, FLOATS } payload;

typedef struct layout {
    const char *name;
    payload payload;
    bool result, text;
    size_t fields[MAX_FIELDS]; /* offsets in rf_ps_message; 0 ends the list */
} layout;

#define AT(field) offsetof(rf_ps_message, field)

static const layout layouts[RF_PS_TYPE_COUNT] = {
    [RF_PS_BEAT] = { .name = "beat" },
    [RF_PS_ABORT] = { .name = "abort", .result = true, .text = true },
    [RF_PS_END] = { .name = "end" },
    [RF_PS_FAILED] = { .name = "failed", .result = true, .text = true, .fields = { AT(id) } },
    [RF_PS_INIT] = { .name = "init",
                     .payload = BYTES,
                     .fields = { AT(count), AT(index), AT(servers), AT(synchronous), AT(version), AT(groups),
                                 AT(slots) } },
    [RF_PS_READY] = { .name = "ready" },
    [RF_PS_COMMIT] = { .name = "commit", .fields = { AT(step), AT(count) } },
    [RF_PS_COMMITTED] = { .name = "committed", .fields = { AT(version) } },
    [RF_PS_EXPEL] = { .name = "expel", .fields = { AT(rank), AT(incarnation) } },
    [RF_PS_PULL] = { .name = "pull", .fields = { AT(slot) } },
    [RF_PS_VALUES] = { .name = "values", .payload = FLOATS, .fields = { AT(version), AT(offset) } },
    [RF_PS_PUSH] = { .name = "push",
                     .payload = FLOATS,
                     .fields = { AT(version), AT(step), AT(share), AT(examples), AT(offset) } },
    [RF_PS_PUSHED] = { .name = "pushed", .fields = { AT(version), AT(staleness) } },
    [RF_PS_JOIN] = { .name = "join", .fields = { AT(count), AT(hash), AT(own), AT(limit) } },
    [RF_PS_WELCOME] = { .name = "welcome", .payload = BYTES, .fields = { AT(synchronous), AT(count) } },
    [RF_PS_WORK] = { .name = "work",
                     .text = true,
                     .fields = { AT(id), AT(step), AT(share), AT(shares), AT(offset), AT(examples), AT(number), AT(row),
                                 AT(seed) } },
    [RF_PS_DONE] = { .name = "done",
                     .payload = FLOATS,
                     .fields = { AT(id), AT(examples), AT(staleness), AT(step), AT(hash) } },
};

static uint64_t *field_at(rf_ps_message *m, size_t offset)
{
    return (uint64_t *)(void *)((char *)m + offset);
}

rf_result rf_ps_message_encode(const rf_ps_message *m, uint8_t head[RF_PS_HEAD_MAX], size_t *head_size)
{
    const layout *l = m->type < RF_PS_TYPE_COUNT ? &layouts[m->type] : NULL;
    if (!l || !l->name) return RF_FAIL(RF_ERROR_INTERNAL, "there is no message of type %u", m->type);
    uint8_t *at = head;
    for (int i = 0; i < MAX_FIELDS && l->fields[i]; i++, at += 8) {
        uint64_t value;
        memcpy(&value, (const char *)m + l->fields[i], sizeof(value));
        rf_put_u64(at, value);
    }
    if (l->result) {
        rf_put_u32(at, (uint32_t)m->result);
        at += 4;
    }
    if (l->text) {
        const size_t length = strnlen(m->text, sizeof(m->text) - 1);
        rf_put_u32(at, (uint32_t)length);
        memcpy(at + 4, m->text, length);
        at += 4 + length;
    }
    *head_size = (size_t)(at - head);
    return RF_OK;
}

/* Only results that are failures of the library are passed on. */
rf_result rf_ps_message_decode(uint16_t type, const void *body, size_t size, rf_ps_message *out)
{
    *out = (rf_ps_message){ .type = type };
    const layout *l = type < RF_PS_TYPE_COUNT ? &layouts[type] : NULL;
    if (!l || !l->name) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "message of unknown type %u", type);
    const uint8_t *at = body;
    for (int i = 0; i < MAX_FIELDS && l->fields[i]; i++, at += 8, size -= 8) {
        if (size < 8) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "message '%s' is too short", l->name);
        *field_at(out, l->fields[i]) = rf_get_u64(at);
    }
    if (l->result) {
        if (size < 4) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "message '%s' is too short", l->name);
        out->result = rf_error_code((int32_t)rf_get_u32(at));
        at += 4;
        size -= 4;
    }
    if (l->text) {
        const size_t length = size < 4 ? SIZE_MAX : rf_get_u32(at);
        if (length >= sizeof(out->text) || length > size - 4)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "message '%s' has a text that is too long", l->name);
        memcpy(out->text, at + 4, length);
        out->text[length] = '\0';
        rf_error_one_line(out->text);
        at += 4 + length;
        size -= 4 + length;
    }
    if (l->payload == NO_PAYLOAD && size > 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "message '%s' has %zu bytes too many", l->name, size);
    if (l->payload == FLOATS && size % sizeof(float) != 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "message '%s' ends within a number", l->name);
    out->payload = at;
    out->payload_size = size;
    return RF_OK;
}

bool rf_ps_message_take(const rf_ps_message *m, float *array, uint64_t count, uint64_t *have)
{
    const uint64_t length = m->payload_size / sizeof(float);
    if (m->offset != *have || length > count - *have || (length == 0 && count > 0)) return false;
    if (length > 0) memcpy(array + *have, m->payload, m->payload_size);
    *have += length;
    return true;
}
