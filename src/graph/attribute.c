/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/attribute.h"

#include <string.h>

static const unsigned char *field_element(const rf_attr_field *field, const void *attr, uint32_t index)
{
    return (const unsigned char *)attr + field->offset + (size_t)index * field->stride;
}

uint32_t rf_attr_length(const rf_attr_field *field, const void *attr)
{
    static const unsigned char zero[RF_MAX_ATTR];
    uint32_t length = field->count;
    while (length > 0 && memcmp(field_element(field, attr, length - 1), zero, field->size) == 0) length--;
    return length;
}

int64_t rf_attr_integer(const rf_attr_field *field, const void *attr, uint32_t index)
{
    const void *at = field_element(field, attr, index);
    const bool negative = field->kind == RF_ATTR_SIGNED;
    uint8_t byte;
    uint32_t word;
    int64_t wide;
    switch (field->size) {
    case 1: memcpy(&byte, at, 1); return negative ? (int8_t)byte : byte;
    case 4: memcpy(&word, at, 4); return negative ? (int32_t)word : (int64_t)word;
    default: memcpy(&wide, at, 8); return wide;
    }
}

bool rf_attr_set_integer(const rf_attr_field *field, void *attr, uint32_t index, int64_t value)
{
    void *at = (unsigned char *)attr + field->offset + (size_t)index * field->stride;
    const uint8_t byte = (uint8_t)value;
    const uint32_t word = (uint32_t)value;
    /* A zero is what an absent element is, which the op has to judge. */
    if (value != 0 && (value < field->least || value > field->most)) return false;
    switch (field->size) {
    case 1: memcpy(at, &byte, 1); return true;
    case 4: memcpy(at, &word, 4); return true;
    default: memcpy(at, &value, 8); return true;
    }
}

float rf_attr_float(const rf_attr_field *field, const void *attr, uint32_t index)
{
    float value;
    memcpy(&value, field_element(field, attr, index), sizeof(value));
    return value;
}

void rf_attr_set_float(const rf_attr_field *field, void *attr, uint32_t index, float value)
{
    memcpy((unsigned char *)attr + field->offset + (size_t)index * field->stride, &value, sizeof(value));
}

int64_t rf_attr_choice(const rf_attr_field *field, const char *name)
{
    for (int64_t i = 0; i <= field->most; i++)
        if (strcmp(field->choice((uint32_t)i), name) == 0) return i;
    return -1;
}
