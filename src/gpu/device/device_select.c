/* SPDX-License-Identifier: Apache-2.0 */
#include "gpu/device/device_select.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/memory.h"

static bool text_contains(const char *text, const char *part, size_t length)
{
    for (; *text; text++)
        if (strncasecmp(text, part, length) == 0) return true;
    return false;
}

static bool is_number(const char *text, size_t length)
{
    return length > 0 && strspn(text, "0123456789") >= length;
}

/* ---- the default ---- */

static bool parse_pci(const char *text, uint32_t address[4])
{
    int end = 0;
    if (sscanf(text, "%x:%x:%x.%x%n", &address[0], &address[1], &address[2], &address[3], &end) == 4)
        return text[end] == '\0';
    address[0] = 0;
    end = 0;
    return sscanf(text, "%x:%x.%x%n", &address[1], &address[2], &address[3], &end) == 3 && text[end] == '\0';
}

/* Two drivers may make UUIDs of their own for one GPU, one driver may give the same to two; an address is certain, but
 * parts of one GPU that its driver lists as devices share it. */
static bool is_same_hardware(const rf_device_info *a, const rf_device_info *b)
{
    static const uint8_t none[sizeof(a->uuid)];
    const bool same_uuid = memcmp(a->uuid, b->uuid, sizeof(none)) == 0 && memcmp(a->uuid, none, sizeof(none)) != 0;
    if (!a->pci_address[0] || !b->pci_address[0]) return same_uuid;
    return strcmp(a->pci_address, b->pci_address) == 0 && (same_uuid || strcmp(a->driver_name, b->driver_name) != 0);
}

/* The driver that the kernels were measured on goes before others of the same GPU, a layer above another interface
 * after them. */
static int driver_rank(const rf_device_info *info)
{
    static const struct {
        const char *part;
        int rank;
    } known[] = { { "radv", 1 }, { "NVIDIA", 1 }, { "Dozen", -1 }, { "venus", -1 } };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (text_contains(info->driver_name, known[i].part, strlen(known[i].part))) return known[i].rank;
    return text_contains(info->name, "(radv", 5) ? 1 : 0;
}

/* Compares two drivers of one device, both in one list. */
static bool is_better_driver(const rf_device_info *a, const rf_device_info *b)
{
    const int rank_a = driver_rank(a), rank_b = driver_rank(b);
    if (rank_a != rank_b) return rank_a > rank_b;
    const bool matrices_a = a->matrix_f16[0] > 0, matrices_b = b->matrix_f16[0] > 0;
    if (matrices_a != matrices_b) return matrices_a;
    return a->api_version != b->api_version ? a->api_version > b->api_version : a < b;
}

void rf_device_choose_default(rf_device_info *infos, uint32_t num_infos)
{
    bool gpu = false;
    for (uint32_t i = 0; i < num_infos; i++) gpu |= infos[i].usable && infos[i].type != RF_DEVICE_TYPE_CPU;
    for (uint32_t i = 0; i < num_infos; i++) {
        infos[i].same_as = i;
        infos[i].by_default = !infos[i].usable                             ? RF_DEVICE_DEFAULT_UNUSABLE
                              : gpu && infos[i].type == RF_DEVICE_TYPE_CPU ? RF_DEVICE_DEFAULT_SOFTWARE
                                                                           : RF_DEVICE_DEFAULT_USED;
    }
    for (uint32_t i = 0; i < num_infos; i++) {
        if (infos[i].by_default != RF_DEVICE_DEFAULT_USED) continue;
        for (uint32_t k = 0; k < num_infos; k++) {
            const bool rival =
                infos[k].by_default == RF_DEVICE_DEFAULT_USED || infos[k].by_default == RF_DEVICE_DEFAULT_DUPLICATE;
            if (rival && is_same_hardware(&infos[i], &infos[k]) &&
                is_better_driver(&infos[k], &infos[infos[i].same_as]))
                infos[i].same_as = k;
        }
        if (infos[i].same_as != i) infos[i].by_default = RF_DEVICE_DEFAULT_DUPLICATE;
    }
}

RF_API const char *rf_device_left_out(const rf_device_info *info, char *text, size_t size)
{
    if (!text || size == 0) return "";
    text[0] = '\0';
    if (!info) return text;
    switch (info->by_default) {
    case RF_DEVICE_DEFAULT_USED: break;
    case RF_DEVICE_DEFAULT_UNUSABLE: snprintf(text, size, "cannot be used: %s", info->unusable_reason); break;
    case RF_DEVICE_DEFAULT_SOFTWARE: snprintf(text, size, "a software driver, and there is a GPU"); break;
    case RF_DEVICE_DEFAULT_DUPLICATE:
        snprintf(text, size, "the same device as %u by another driver", info->same_as);
        break;
    }
    return text;
}

/* ---- entries ---- */

typedef struct selection {
    uint32_t *items;
    uint32_t count, capacity;
} selection;

/* "0: llvmpipe ..., 1: SwiftShader ..." for messages; with what is missing where none can be used. */
static void describe_list(const rf_device_info *infos, uint32_t num_infos, bool reasons, char *text, size_t size)
{
    size_t used = 0;
    snprintf(text, size, "none");
    for (uint32_t i = 0; i < num_infos && used < size; i++) {
        const rf_device_info *d = &infos[i];
        const char *why = d->usable ? "" : reasons ? d->unusable_reason : "not usable";
        const int n =
            snprintf(text + used, size - used, "%s%u: %s%s%s%s%s%s", i ? ", " : "", i, d->name,
                     d->pci_address[0] ? " at " : "", d->pci_address, why[0] ? " (" : "", why, why[0] ? ")" : "");
        if (n < 0) return;
        used += (size_t)n;
    }
}

static rf_result none_usable(const rf_device_info *infos, uint32_t num_infos)
{
    char list[600];
    describe_list(infos, num_infos, true, list, sizeof(list));
    return RF_FAIL(num_infos > 0 ? RF_ERROR_UNSUPPORTED : RF_ERROR_NOT_FOUND,
                   "no Vulkan device can be used; there are these: %s", list);
}

static rf_result not_found(const char *entry, const rf_device_info *infos, uint32_t num_infos)
{
    char list[600];
    describe_list(infos, num_infos, false, list, sizeof(list));
    return RF_FAIL(RF_ERROR_NOT_FOUND,
                   "device '%s' matches nothing; there are these: %s (name them as `ringfire devices` does)", entry,
                   list);
}

static rf_result not_usable(const char *entry, const rf_device_info *info)
{
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "device '%s' (%s) cannot be used: %s", entry, info->name,
                   info->unusable_reason);
}

static bool parse_uuid(const char *text, uint8_t uuid[16])
{
    if (strncasecmp(text, "GPU-", 4) == 0) text += 4; /* as nvidia-smi writes them */
    uint32_t digits = 0;
    for (; *text; text++) {
        if (*text == '-') continue;
        if (!isxdigit((unsigned char)*text) || digits == 32) return false;
        const int c = tolower((unsigned char)*text), value = c <= '9' ? c - '0' : c - 'a' + 10;
        uuid[digits / 2] = (uint8_t)(uuid[digits / 2] << 4 | value);
        digits++;
    }
    return digits == 32;
}

/* The "3060" of "RTX 3060 Ti", but neither a digit of a longer number nor one of a version like "15.0.6". */
static bool name_has_number(const char *name, const char *number)
{
    const size_t length = strlen(number);
    for (const char *at = name; (at = strstr(at, number)); at++) {
        const char before = at > name ? at[-1] : ' ', after = at[length];
        if (!isdigit((unsigned char)before) && before != '.' && !isdigit((unsigned char)after) && after != '.')
            return true;
    }
    return false;
}

typedef enum entry_match {
    NO_MATCH,
    MATCHES_DRIVER,   /* a part of the driver's name */
    MATCHES_PART,     /* of the device's name */
    MATCHES_NAME,     /* the whole of it */
    MATCHES_HARDWARE, /* UUID or PCI address: this device, however often it is named */
} entry_match;

static entry_match match_entry(const char *entry, const rf_device_info *info)
{
    uint8_t uuid[16] = { 0 };
    if (parse_uuid(entry, uuid)) return memcmp(uuid, info->uuid, sizeof(uuid)) == 0 ? MATCHES_HARDWARE : NO_MATCH;
    uint32_t wanted[4], own[4];
    if (parse_pci(entry, wanted))
        return parse_pci(info->pci_address, own) && memcmp(wanted, own, sizeof(own)) == 0 ? MATCHES_HARDWARE : NO_MATCH;
    const size_t length = strlen(entry);
    if (strcasecmp(entry, info->name) == 0) return MATCHES_NAME;
    if (is_number(entry, length)) return name_has_number(info->name, entry) ? MATCHES_PART : NO_MATCH;
    if (text_contains(info->name, entry, length)) return MATCHES_PART;
    return text_contains(info->driver_name, entry, length) ? MATCHES_DRIVER : NO_MATCH;
}

/* Lower is better, of devices that an entry matches equally well: those not named yet, and of drivers of one device the
 * better one. */
static uint32_t entry_preference(const rf_device_info *info, uint32_t index, entry_match match, const selection *chosen)
{
    uint32_t times = 0;
    for (uint32_t i = 0; i < chosen->count && match != MATCHES_HARDWARE; i++) times += chosen->items[i] == index;
    return 2 * times + (info->by_default == RF_DEVICE_DEFAULT_DUPLICATE);
}

static rf_result find_entry(const char *entry, const rf_device_info *infos, uint32_t num_infos, const selection *chosen,
                            uint32_t *index)
{
    if (is_number(entry, strlen(entry))) {
        uint64_t number = 0;
        for (const char *c = entry; *c && number <= UINT32_MAX; c++) number = number * 10 + (uint64_t)(*c - '0');
        if (number < num_infos) {
            *index = (uint32_t)number;
            return infos[number].usable ? RF_OK : not_usable(entry, &infos[number]);
        }
    }
    entry_match best = NO_MATCH;
    uint32_t found = num_infos, unusable = num_infos;
    for (uint32_t i = 0; i < num_infos; i++) {
        const entry_match match = match_entry(entry, &infos[i]);
        if (match == NO_MATCH || match < best) continue;
        if (match > best) found = unusable = num_infos;
        best = match;
        if (!infos[i].usable)
            unusable = unusable < num_infos ? unusable : i;
        else if (found == num_infos ||
                 entry_preference(&infos[i], i, match, chosen) < entry_preference(&infos[found], found, match, chosen))
            found = i;
    }
    if (best == NO_MATCH) return not_found(entry, infos, num_infos);
    if (found == num_infos) return not_usable(entry, &infos[unusable]);
    *index = found;
    return RF_OK;
}

static rf_result selection_append(selection *chosen, uint32_t index)
{
    RF_TRY(RF_VEC_GROW(chosen));
    chosen->items[chosen->count++] = index;
    return RF_OK;
}

/* The usable devices, or of these only those that are used by default. */
static rf_result append_all(selection *chosen, bool by_default, const rf_device_info *infos, uint32_t num_infos)
{
    bool any = false;
    for (uint32_t i = 0; i < num_infos; i++) {
        if (!infos[i].usable || (by_default && infos[i].by_default != RF_DEVICE_DEFAULT_USED)) continue;
        RF_TRY(selection_append(chosen, i));
        any = true;
    }
    return any ? RF_OK : none_usable(infos, num_infos);
}

static char *text_trim(char *text)
{
    while (isspace((unsigned char)*text)) text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1])) text[--length] = '\0';
    return text;
}

/* How long the first entry of a list is. Names may have commas, as in "llvmpipe (LLVM 15.0.6, 256 bits)": the longest
 * text that is part of a name counts. */
static size_t entry_length(const char *list, const rf_device_info *infos, uint32_t num_infos)
{
    const size_t space = strspn(list, " \t"), first = strcspn(list, ",");
    size_t longest = first;
    if (first <= space || is_number(list + space, first - space)) return first;
    for (size_t end = first; list[end] == ',';) {
        end += 1 + strcspn(list + end + 1, ",");
        size_t length = end - space;
        while (isspace((unsigned char)list[space + length - 1])) length--;
        for (uint32_t i = 0; i < num_infos; i++)
            if (text_contains(infos[i].name, list + space, length) ||
                text_contains(infos[i].driver_name, list + space, length))
                longest = end;
    }
    return longest;
}

static rf_result select_entries(char *text, const rf_device_info *infos, uint32_t num_infos, selection *chosen)
{
    for (char *next = text; next;) {
        char *end = next + entry_length(next, infos, num_infos);
        const bool last = *end == '\0';
        *end = '\0';
        const char *entry = text_trim(next);
        next = last ? NULL : end + 1;
        RF_REQUIRE(*entry, "devices: an entry is empty; write for example \"0,1\", \"llvmpipe\" or \"all\"");
        if (strcasecmp(entry, "all") == 0) {
            RF_TRY(append_all(chosen, false, infos, num_infos));
            continue;
        }
        uint32_t index = 0;
        RF_TRY(find_entry(entry, infos, num_infos, chosen, &index));
        RF_TRY(selection_append(chosen, index));
    }
    return RF_OK;
}

rf_result rf_device_select(const char *entries, const rf_device_info *infos, uint32_t num_infos, uint32_t **indices,
                           uint32_t *count)
{
    *indices = NULL;
    *count = 0;
    selection chosen = { 0 };
    char *text = entries ? rf_strdup(entries) : NULL;
    if (entries && !text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r =
        text ? select_entries(text, infos, num_infos, &chosen) : append_all(&chosen, true, infos, num_infos);
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
    char *text = entries ? rf_strdup(entries) : NULL;
    if (entries && !text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (text) text[entry_length(text, infos, num_infos)] = '\0';
    const char *entry = text ? text_trim(text) : NULL;
    if (entry && strcasecmp(entry, "all") == 0) entry = NULL; /* the best one is among those of the default */
    uint32_t *indices = NULL, count = 0;
    const rf_result r = rf_device_select(entry, infos, num_infos, &indices, &count);
    rf_free(text);
    RF_TRY(r);
    *index = indices[0];
    for (uint32_t i = 1; i < count; i++)
        if (type_preference(infos[indices[i]].type) > type_preference(infos[*index].type)) *index = indices[i];
    rf_free(indices);
    return RF_OK;
}

bool rf_device_is_list(const char *entries, const rf_device_info *infos, uint32_t num_infos)
{
    return entries[entry_length(entries, infos, num_infos)] == ',';
}
