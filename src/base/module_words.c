/* SPDX-License-Identifier: Apache-2.0 */
#include "base/module_words.h"

#include "base/spirv.h"

typedef struct number_reader {
    const uint8_t *at, *end;
    bool failed;
} number_reader;

static uint32_t number_next(number_reader *r)
{
    uint32_t value = 0;
    for (uint32_t shift = 0; shift < 35; shift += 7) {
        if (r->at == r->end) break;
        const uint8_t byte = *r->at++;
        value |= (uint32_t)(byte & 127) << shift;
        if (byte < 128) return value;
    }
    r->failed = true;
    return 0;
}

bool rf_module_words(const uint8_t *data, size_t size, uint32_t *words, uint32_t count)
{
    uint32_t last[RF_MODULE_OPERATIONS] = { 0 };
    number_reader head = { data, data + size, false };
    if (count < SPIRV_HEADER_WORDS) return false;
    words[0] = SPIRV_MAGIC;
    for (uint32_t i = 1; i < SPIRV_HEADER_WORDS; i++) words[i] = number_next(&head);
    const uint32_t instructions = number_next(&head);
    if (head.failed || instructions > (size_t)(head.end - head.at)) return false;
    number_reader operands = { head.at + instructions, head.end, false };
    head.end = operands.at;
    for (uint32_t at = SPIRV_HEADER_WORDS; at < count;) {
        const uint32_t operation = number_next(&head), length = number_next(&head);
        if (operation >= RF_MODULE_OPERATIONS || length == 0 || length > UINT16_MAX || length > count - at)
            return false;
        words[at] = length << 16 | operation;
        for (uint32_t i = 1; i < length; i++) {
            const uint32_t step = number_next(&operands);
            words[at + i] = rf_module_expected(words, last[operation], i) + (step >> 1 ^ -(step & 1));
        }
        last[operation] = at;
        at += length;
    }
    return !head.failed && !operands.failed && head.at == head.end && operands.at == operands.end;
}
