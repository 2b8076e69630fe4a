/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device_select.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"

typedef struct selection {
    uint32_t *items;
    uint32_t count, capacity;
} selection;

/* "0: llvmpipe ..., 1: SwiftShader ..." for messages. */
static void describe_list(const rf_device_info *infos, uint32_t num_infos, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < num_infos && used < size; i++) {
        const int n = snprintf(text + used, size - used, "%s%u: %s%s", i ? ", " : "", i, infos[i].name,
                               infos[i].usable ? "" : " (not usable)");
        if (n < 0) return;
        used += (size_t)n;
    }
    if (num_infos == 0) snprintf(text, size, "no devices");
}

static rf_result not_found(const char *entry, const rf_device_info *infos, uint32_t num_infos)
{
    char list[600];
    describe_list(infos, num_infos, list, sizeof(list));
    return RF_FAIL(RF_ERROR_NOT_FOUND, "device '%s' matches nothing; there are %s", entry, list);
}

static rf_result not_usable(const char *entry, const rf_device_info *info)
{
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "device '%s' (%s) cannot be used: %s", entry, info->name,
                   info->unusable_reason);
}

static bool text_contains(const char *text, const char *part)
{
    const size_t length = strlen(part);
    for (; *text; text++)
        if (strncasecmp(text, part, length) == 0) return true;
    return false;
}

static rf_result find_entry(const char *entry, const rf_device_info *infos, uint32_t num_infos, uint32_t *index)
{
    if (entry[strspn(entry, "0123456789")] == '\0') {
        uint64_t number = 0;
        for (const char *c = entry; *c && number <= UINT32_MAX; c++) number = number * 10 + (uint64_t)(*c - '0');
        if (number >= num_infos) return not_found(entry, infos, num_infos);
        if (!infos[number].usable) return not_usable(entry, &infos[number]);
        *index = (uint32_t)number;
        return RF_OK;
    }
    const rf_device_info *unusable = NULL;
    for (uint32_t i = 0; i < num_infos; i++) {
        if (!text_contains(infos[i].name, entry) && !text_contains(infos[i].driver_name, entry)) continue;
        if (infos[i].usable) {
            *index = i;
            return RF_OK;
        }
        if (!unusable) unusable = &infos[i];
    }
    return unusable ? not_usable(entry, unusable) : not_found(entry, infos, num_infos);
}

static rf_result selection_append(selection *chosen, uint32_t index)
{
    RF_TRY(RF_VEC_GROW(chosen));
    chosen->items[chosen->count++] = index;
    return RF_OK;
}

static rf_result append_all(selection *chosen, const rf_device_info *infos, uint32_t num_infos)
{
    bool any = false;
    for (uint32_t i = 0; i < num_infos; i++) {
        if (!infos[i].usable) continue;
        RF_TRY(selection_append(chosen, i));
        any = true;
    }
    if (any) return RF_OK;
    if (num_infos > 0) return not_usable("all", &infos[0]);
    return not_found("all", infos, num_infos);
}

static char *text_trim(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) text[--length] = '\0';
    return text;
}

static rf_result select_entries(char *text, const rf_device_info *infos, uint32_t num_infos, selection *chosen)
{
    char *next = text;
    while (next) {
        char *comma = strchr(next, ',');
        if (comma) *comma = '\0';
        const char *entry = text_trim(next);
        next = comma ? comma + 1 : NULL;
        RF_REQUIRE(*entry, "devices: an entry is empty; write for example \"0,1\", \"llvmpipe\" or \"all\"");
        if (strcasecmp(entry, "all") == 0) {
            RF_TRY(append_all(chosen, infos, num_infos));
            continue;
        }
        uint32_t index = 0;
        RF_TRY(find_entry(entry, infos, num_infos, &index));
        RF_TRY(selection_append(chosen, index));
    }
    return RF_OK;
}

rf_result rf_device_select(const char *entries, const rf_device_info *infos, uint32_t num_infos, uint32_t **indices,
                           uint32_t *count)
{
    *indices = NULL;
    *count = 0;
    char *text = rf_strdup(entries ? entries : "all");
    if (!text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    selection chosen = { 0 };
    const rf_result r = select_entries(text, infos, num_infos, &chosen);
    rf_free(text);
    if (r < 0) {
        rf_free(chosen.items);
        return r;
    }
    *indices = chosen.items;
    *count = chosen.count;
    return RF_OK;
}

static int type_preference(rf_device_type type)
{
    switch (type) {
    case RF_DEVICE_TYPE_DISCRETE_GPU: return 4;
    case RF_DEVICE_TYPE_INTEGRATED_GPU: return 3;
    case RF_DEVICE_TYPE_VIRTUAL_GPU: return 2;
    case RF_DEVICE_TYPE_OTHER: return 1;
    case RF_DEVICE_TYPE_CPU: return 0;
    }
    return 0;
}

rf_result rf_device_select_one(const char *entries, const rf_device_info *infos, uint32_t num_infos, uint32_t *index)
{
    char *text = rf_strdup(entries ? entries : "all");
    if (!text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    text[strcspn(text, ",")] = '\0';
    const char *entry = text_trim(text);
    const bool any = strcasecmp(entry, "all") == 0;
    uint32_t *indices = NULL, count = 0;
    const rf_result r = rf_device_select(entry, infos, num_infos, &indices, &count);
    rf_free(text);
    RF_TRY(r);
    *index = indices[0];
    for (uint32_t i = 1; any && i < count; i++)
        if (type_preference(infos[indices[i]].type) > type_preference(infos[*index].type)) *index = indices[i];
    rf_free(indices);
    return RF_OK;
}
