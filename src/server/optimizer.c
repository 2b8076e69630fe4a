/* SPDX-License-Identifier: Apache-2.0 */
/* Eight bytes for each number, in the order of the tables: real ones as their bits. */
#include "server/optimizer.h"

#include <string.h>

#include "transport/channel/wire.h"

#define MAGIC 0x52464f5031u /* "RFOP1" */

typedef enum kind { REAL, WORD, LONG, FLAG } kind;
typedef struct item {
    kind kind;
    size_t at;
} item;

#define REAL_OF(type, name)                                                                                            \
    {                                                                                                                  \
        REAL, offsetof(type, name)                                                                                     \
    }

static const item optimizer_items[] = {
    REAL_OF(rf_optimizer_params, learning_rate),
    REAL_OF(rf_optimizer_params, momentum),
    { FLAG, offsetof(rf_optimizer_params, nesterov) },
    REAL_OF(rf_optimizer_params, beta_1),
    REAL_OF(rf_optimizer_params, beta_2),
    REAL_OF(rf_optimizer_params, epsilon),
    REAL_OF(rf_optimizer_params, rho),
    REAL_OF(rf_optimizer_params, weight_decay),
    REAL_OF(rf_optimizer_params, clip_value),
    { WORD, offsetof(rf_optimizer_params, accumulation_steps) },
    { WORD, offsetof(rf_optimizer_params, epsilon_form) },
};
static const item schedule_items[] = {
    REAL_OF(rf_schedule, initial),
    REAL_OF(rf_schedule, rate),
    REAL_OF(rf_schedule, alpha),
    REAL_OF(rf_schedule, end),
    REAL_OF(rf_schedule, power),
    { LONG, offsetof(rf_schedule, decay_steps) },
    { LONG, offsetof(rf_schedule, warmup_steps) },
    { FLAG, offsetof(rf_schedule, staircase) },
    { WORD, offsetof(rf_schedule, num_boundaries) },
};
_Static_assert(sizeof(rf_epsilon_form) == sizeof(uint32_t), "a word holds it");
enum {
    NUM_OPTIMIZER = sizeof(optimizer_items) / sizeof(optimizer_items[0]),
    NUM_SCHEDULE = sizeof(schedule_items) / sizeof(schedule_items[0]),
    MAX_BOUNDARIES = sizeof(((rf_schedule *)0)->boundaries) / sizeof(uint64_t),
    SHORT_COUNT = 3 + NUM_OPTIMIZER, /* magic, kind, whether there is a schedule */
    LONG_COUNT = SHORT_COUNT + 1 + NUM_SCHEDULE + 2 * MAX_BOUNDARIES + 1
};
_Static_assert(LONG_COUNT * 8 <= RF_PS_OPTIMIZER_BYTES, "room for all numbers");

static uint64_t get(const void *object, item i)
{
    const char *at = (const char *)object + i.at;
    uint64_t value = 0;
    uint32_t word;
    bool flag;
    switch (i.kind) {
    case REAL:
    case LONG: memcpy(&value, at, sizeof(value)); return value;
    case WORD: memcpy(&word, at, sizeof(word)); return word;
    case FLAG: memcpy(&flag, at, sizeof(flag)); return flag;
    }
    return 0;
}

static void set(void *object, item i, uint64_t value)
{
    char *at = (char *)object + i.at;
    const uint32_t word = value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
    const bool flag = value != 0;
    switch (i.kind) {
    case REAL:
    case LONG: memcpy(at, &value, sizeof(value)); return;
    case WORD: memcpy(at, &word, sizeof(word)); return;
    case FLAG: memcpy(at, &flag, sizeof(flag)); return;
    }
}

static uint64_t bits(double x)
{
    uint64_t value;
    memcpy(&value, &x, sizeof(value));
    return value;
}

static double real(uint64_t value)
{
    double x;
    memcpy(&x, &value, sizeof(x));
    return x;
}

void rf_ps_optimizer_encode(const rf_optimizer_params *params, uint8_t bytes[RF_PS_OPTIMIZER_BYTES], size_t *size)
{
    uint64_t words[LONG_COUNT] = { MAGIC, (uint64_t)params->kind, params->schedule != NULL };
    const rf_schedule *s = params->schedule;
    uint32_t n = 3;
    for (uint32_t i = 0; i < NUM_OPTIMIZER; i++) words[n++] = get(params, optimizer_items[i]);
    if (s) {
        words[n++] = (uint64_t)s->kind;
        for (uint32_t i = 0; i < NUM_SCHEDULE; i++) words[n++] = get(s, schedule_items[i]);
        for (uint32_t i = 0; i < MAX_BOUNDARIES; i++) words[n++] = s->boundaries[i];
        for (uint32_t i = 0; i <= MAX_BOUNDARIES; i++) words[n++] = bits(s->values[i]);
    }
    for (uint32_t i = 0; i < n; i++) rf_put_u64(bytes + 8 * (size_t)i, words[i]);
    *size = 8 * (size_t)n;
}

static rf_result decode_schedule(const uint64_t *words, rf_schedule *s)
{
    if (words[0] > RF_SCHEDULE_INVERSE_TIME_DECAY)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a learning-rate schedule of unknown kind %llu",
                       (unsigned long long)words[0]);
    s->kind = (rf_schedule_kind)words[0];
    uint32_t n = 1;
    for (uint32_t i = 0; i < NUM_SCHEDULE; i++) set(s, schedule_items[i], words[n++]);
    for (uint32_t i = 0; i < MAX_BOUNDARIES; i++) s->boundaries[i] = words[n++];
    for (uint32_t i = 0; i <= MAX_BOUNDARIES; i++) s->values[i] = real(words[n++]);
    if (s->num_boundaries > MAX_BOUNDARIES)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a learning-rate schedule with %u boundaries", s->num_boundaries);
    return RF_OK;
}

rf_result rf_ps_optimizer_decode(const void *bytes, size_t size, rf_optimizer_params *params, rf_schedule *schedule)
{
    *params = (rf_optimizer_params){ 0 };
    *schedule = (rf_schedule){ 0 };
    uint64_t words[LONG_COUNT];
    if (size != 8 * (size_t)SHORT_COUNT && size != 8 * (size_t)LONG_COUNT)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "an optimizer of %zu bytes", size);
    for (uint32_t i = 0; i < size / 8; i++) words[i] = rf_get_u64((const uint8_t *)bytes + 8 * (size_t)i);
    if (words[0] != MAGIC || words[1] > RF_OPTIMIZER_RMSPROP || words[2] != (size == 8 * (size_t)LONG_COUNT))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "an optimizer of unknown kind %llu", (unsigned long long)words[1]);
    params->kind = (rf_optimizer_kind)words[1];
    for (uint32_t i = 0; i < NUM_OPTIMIZER; i++) set(params, optimizer_items[i], words[3 + i]);
    if ((uint32_t)params->epsilon_form > RF_EPSILON_UNCORRECTED)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "an optimizer whose epsilon has an unknown form");
    if (!words[2]) return RF_OK;
    params->schedule = schedule;
    return decode_schedule(words + SHORT_COUNT, schedule);
}
