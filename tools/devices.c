/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "json_output.h"
#include "options.h"
#include "text.h"

static const struct argp_option options[] = {
    JSON_OPTION,
    { 0 },
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    if (key == 'j') {
        *(const char **)state->input = text ? text : "-";
        return 0;
    }
    if (key == ARGP_KEY_ARG) argp_error(state, "'%s' is not expected", text);
    return ARGP_ERR_UNKNOWN;
}

static void format_version(uint32_t v, char *text, size_t size)
{
    snprintf(text, size, "%u.%u.%u", v >> 22 & 0x7f, v >> 12 & 0x3ff, v & 0xfff);
}

static void format_uuid(const rf_device_info *d, char text[33])
{
    for (int i = 0; i < 16; i++) snprintf(text + 2 * i, 3, "%02x", d->uuid[i]);
}

/* Null where there is none. */
static json_t *shape_json(const uint32_t shape[3])
{
    return shape[0] == 0 ? json_null() : json_pack("[iii]", (int)shape[0], (int)shape[1], (int)shape[2]);
}

static json_t *device_json(const rf_device_info *d)
{
    char api[32], uuid[33], left_out[256];
    format_version(d->api_version, api, sizeof(api));
    format_uuid(d, uuid);
    rf_device_left_out(d, left_out, sizeof(left_out));
    return json_pack(
        "{s:i,s:s,s:s,s:s,s:s,s:i,s:i,s:s,s:i,s:s,s:s,s:I,s:i,s:i,s:i,s:i,s:I,s:I,s:b,s:b,s:b,s:b,s:o,s:o,s:b,s:b,s:s,"
        "s:s?,s:b,s:s}",
        "index", (int)d->index, "name", d->name, "vendor", d->vendor_name, "driver", d->driver_name, "driver_info",
        d->driver_info, "vendor_id", (int)d->vendor_id, "device_id", (int)d->device_id, "vulkan", api, "driver_version",
        (int)d->driver_version, "uuid", uuid, "type", rf_device_type_name(d->type), "memory_bytes",
        (json_int_t)d->memory_size, "subgroup_size", (int)d->subgroup_size, "max_workgroup_invocations",
        (int)d->max_workgroup_invocations, "max_shared_memory", (int)d->max_shared_memory, "max_push_constants",
        (int)d->max_push_constants, "max_storage_buffer_range", (json_int_t)d->max_storage_buffer_range,
        "max_texel_buffer_elements", (json_int_t)d->max_texel_buffer_elements, "fp16", d->has_fp16, "bf16", d->has_bf16,
        "int8", d->has_int8, "cooperative_matrix", d->has_cooperative_matrix, "matrix_f16", shape_json(d->matrix_f16),
        "matrix_bf16", shape_json(d->matrix_bf16), "external_memory_host", d->has_external_memory_host, "usable",
        d->usable, "unusable_reason", d->unusable_reason, "pci_address", d->pci_address[0] ? d->pci_address : NULL,
        "by_default", d->by_default == RF_DEVICE_DEFAULT_USED, "left_out", left_out);
}

static int write_json(const char *path, const rf_device_info *infos, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) json_array_append_new(list, device_json(&infos[i]));
    return json_write(path, list) ? CODE_OK : CODE_FAILED;
}

static int name_width(const rf_device_info *infos, uint32_t count, int columns)
{
    int width = 0;
    for (uint32_t i = 0; i < count; i++)
        if (text_width(infos[i].name) > width) width = text_width(infos[i].name);
    return width < columns ? width : columns;
}

/* Its driver. Vendors pack version numbers differently; what they write out goes before. */
static void print_driver(const rf_device_info *d, int indent, int columns)
{
    char version[32], api[32], text[1200];
    format_version(d->api_version, api, sizeof(api));
    format_version(d->driver_version, version, sizeof(version));
    snprintf(text, sizeof(text), "Vulkan %s, vendor %s, driver %s, %s", api, d->vendor_name, d->driver_name,
             d->driver_info[0] ? d->driver_info : version);
    printf("%*s", indent, "");
    print_cut(stdout, text, columns - indent);
    putchar('\n');
}

/* Adds to what it can do the matrices that kernels use. */
static void add_matrices(char *text, size_t size, const char *type, const uint32_t shape[3])
{
    const size_t at = strlen(text);
    if (shape[0] > 0) snprintf(text + at, size - at, ", %s matrices %ux%ux%u", type, shape[0], shape[1], shape[2]);
}

/* Prints what the device can do. */
static void print_abilities(const rf_device_info *d, int indent, int columns)
{
    char text[512];
    snprintf(text, sizeof(text), "subgroup %u, workgroup %u, shared %u KiB, buffers %llu MiB%s%s%s%s", d->subgroup_size,
             d->max_workgroup_invocations, d->max_shared_memory / 1024,
             (unsigned long long)(d->max_storage_buffer_range >> 20), d->has_fp16 ? ", fp16" : "",
             d->has_bf16 ? ", bf16" : "", d->has_int8 ? ", int8" : "", d->has_cooperative_matrix ? ", coopmat" : "");
    add_matrices(text, sizeof(text), "f16", d->matrix_f16);
    add_matrices(text, sizeof(text), "bf16", d->matrix_bf16);
    print_wrapped(stdout, text, indent, columns);
}

/* Prints the device's other names, and whether it is used by default. */
static void print_identity(const rf_device_info *d, int indent, int columns)
{
    char uuid[33], why[256], text[512];
    format_uuid(d, uuid);
    snprintf(text, sizeof(text), "UUID %s%s%s", uuid, d->pci_address[0] ? ", PCI " : "", d->pci_address);
    print_wrapped(stdout, text, indent, columns);
    const bool unusable = d->by_default == RF_DEVICE_DEFAULT_UNUSABLE;
    if (!rf_device_left_out(d, why, sizeof(why))[0]) return;
    snprintf(text, sizeof(text), "%s%s", unusable ? "" : "not used by default: ", why);
    print_wrapped(stdout, text, indent, columns);
}

/* The devices of programs that name none. */
static void print_used(int columns)
{
    enum { MOST = 256 };
    uint32_t indices[MOST], count = MOST;
    char text[2048];
    const char *named = getenv("RINGFIRE_DEVICES");
    const char *says = named && named[0] ? ", as RINGFIRE_DEVICES says" : "";
    if (rf_devices_select(NULL, indices, &count) < 0) {
        snprintf(text, sizeof(text), "Programs that name no devices find none%s: %s", says, rf_error_message());
    } else {
        int used = snprintf(text, sizeof(text), "Programs that name no devices use");
        for (uint32_t i = 0; i < count && i < MOST; i++)
            used += snprintf(text + used, sizeof(text) - (size_t)used, "%s%u", i > 0 ? ", " : " ", indices[i]);
        snprintf(text + used, sizeof(text) - (size_t)used, "%s.", says);
    }
    print_wrapped(stdout, text, 0, columns);
}

/* A line for each device, and below it what needs more room: nothing is wider than the terminal. */
static void print_list(const rf_device_info *infos, uint32_t count)
{
    enum { INDENT = 3, REST = 23 }; /* type and memory */
    const int columns = text_columns(stdout), width = name_width(infos, count, columns - INDENT - REST);
    bool software = false;
    for (uint32_t i = 0; i < count; i++) {
        const rf_device_info *d = &infos[i];
        char memory[32];
        snprintf(memory, sizeof(memory), "%.1f GiB", (double)d->memory_size / (1 << 30));
        printf("%-2u ", d->index);
        print_cut(stdout, d->name, width);
        const int left = width - text_width(d->name);
        printf("%*s  %-10s %10s\n", left > 0 ? left : 0, "", rf_device_type_name(d->type), memory);
        print_driver(d, INDENT, columns);
        print_abilities(d, INDENT, columns);
        print_identity(d, INDENT, columns);
        software |= d->type == RF_DEVICE_TYPE_CPU;
    }
    if (software)
        print_wrapped(stdout, "Devices of type cpu are software drivers: they compute on the processor.", 0, columns);
    print_used(columns);
}

int command_devices(int argc, char **argv)
{
    const char *json_path = NULL;
    const struct argp parser = {
        options,
        parse_option,
        NULL,
        "Lists the Vulkan devices that the loader finds. Long names are cut to the terminal's width; --json has all of "
        "them.",
        NULL,
        NULL,
        NULL
    };
    command_parse(&parser, argc, argv, 0, &json_path);
    if (!json_can_write(json_path)) return CODE_FAILED;
    uint32_t count = 0;
    if (rf_devices_list(NULL, &count) < 0) return command_fail();
    rf_device_info *infos = calloc(count, sizeof(*infos));
    if (!infos) return CODE_FAILED;
    uint32_t found = count;
    if (rf_devices_list(infos, &found) < 0) {
        free(infos);
        return command_fail();
    }
    if (found < count) count = found;
    if (!json_replaces_text(json_path)) print_list(infos, count);
    const int code = json_path ? write_json(json_path, infos, count) : CODE_OK;
    free(infos);
    return code;
}
