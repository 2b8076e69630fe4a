/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "commands.h"
#include "options.h"
#include "table.h"

static const struct argp_option options[] = {
    { "json", 'j', NULL, 0, "Print JSON for programs", 0 },
    { 0 },
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    if (key == 'j') {
        *(bool *)state->input = true;
        return 0;
    }
    if (key == ARGP_KEY_ARG) argp_error(state, "'%s' is not expected", text);
    return ARGP_ERR_UNKNOWN;
}

static void format_version(uint32_t v, char *text, size_t size)
{
    snprintf(text, size, "%u.%u.%u", v >> 22 & 0x7f, v >> 12 & 0x3ff, v & 0xfff);
}

static json_t *device_json(const rf_device_info *d)
{
    char api[32], uuid[33];
    format_version(d->api_version, api, sizeof(api));
    for (int i = 0; i < 16; i++) snprintf(uuid + 2 * i, 3, "%02x", d->uuid[i]);
    return json_pack(
        "{s:i,s:s,s:s,s:s,s:s,s:i,s:i,s:s,s:i,s:s,s:s,s:I,s:i,s:i,s:i,s:i,s:I,s:I,s:b,s:b,s:b,s:b,s:b,s:b,s:s}",
        "index", (int)d->index, "name", d->name, "vendor", d->vendor_name, "driver", d->driver_name, "driver_info",
        d->driver_info, "vendor_id", (int)d->vendor_id, "device_id", (int)d->device_id, "vulkan", api, "driver_version",
        (int)d->driver_version, "uuid", uuid, "type", rf_device_type_name(d->type), "memory_bytes",
        (json_int_t)d->memory_size, "subgroup_size", (int)d->subgroup_size, "max_workgroup_invocations",
        (int)d->max_workgroup_invocations, "max_shared_memory", (int)d->max_shared_memory, "max_push_constants",
        (int)d->max_push_constants, "max_storage_buffer_range", (json_int_t)d->max_storage_buffer_range,
        "max_texel_buffer_elements", (json_int_t)d->max_texel_buffer_elements, "fp16", d->has_fp16, "bf16", d->has_bf16,
        "int8", d->has_int8, "cooperative_matrix", d->has_cooperative_matrix, "external_memory_host",
        d->has_external_memory_host, "usable", d->usable, "unusable_reason", d->unusable_reason);
}

static int print_json(const rf_device_info *infos, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < count; i++) json_array_append_new(list, device_json(&infos[i]));
    json_dumpf(list, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(list);
    return CODE_OK;
}

static int print_table(const rf_device_info *infos, uint32_t count)
{
    static const char *const headings[] = { ">#",        "Name",       "Vendor",  "Driver",  "Type",   ">Memory",
                                            ">Subgroup", ">Workgroup", ">Shared", ">Buffer", "Vulkan", "Extras" };
    table t;
    bool ok = table_begin(&t, headings, 12), software = false;
    for (uint32_t i = 0; ok && i < count; i++) {
        const rf_device_info *d = &infos[i];
        char index[16], version[32], driver[540], memory[32], subgroup[16], workgroup[16], shared[16], range[24],
            api[32], extras[64];
        snprintf(index, sizeof(index), "%u", d->index);
        /* Vendors pack their numbers differently; what they write out goes before. */
        format_version(d->driver_version, version, sizeof(version));
        snprintf(driver, sizeof(driver), "%s, %s", d->driver_name, d->driver_info[0] ? d->driver_info : version);
        snprintf(memory, sizeof(memory), "%.1f GiB", (double)d->memory_size / (1 << 30));
        snprintf(subgroup, sizeof(subgroup), "%u", d->subgroup_size);
        snprintf(workgroup, sizeof(workgroup), "%u", d->max_workgroup_invocations);
        snprintf(shared, sizeof(shared), "%u KiB", d->max_shared_memory / 1024);
        snprintf(range, sizeof(range), "%llu MiB", (unsigned long long)(d->max_storage_buffer_range >> 20));
        format_version(d->api_version, api, sizeof(api));
        snprintf(extras, sizeof(extras), "%s%s%s%s", d->has_fp16 ? "fp16 " : "", d->has_bf16 ? "bf16 " : "",
                 d->has_int8 ? "int8 " : "", d->has_cooperative_matrix ? "coopmat" : "");
        const char *cells[] = { index,  d->name,  d->vendor_name, driver, rf_device_type_name(d->type),
                                memory, subgroup, workgroup,      shared, range,
                                api,    extras };
        ok = table_row(&t, cells);
        software |= d->type == RF_DEVICE_TYPE_CPU;
    }
    table_print(&t, stdout);
    table_free(&t);
    for (uint32_t i = 0; i < count; i++)
        if (!infos[i].usable) printf("Device %u cannot be used: %s\n", infos[i].index, infos[i].unusable_reason);
    if (software) printf("Devices of type cpu are software drivers: they compute on the processor.\n");
    return ok ? CODE_OK : CODE_FAILED;
}

int command_devices(int argc, char **argv)
{
    bool json = false;
    const struct argp parser = { options, parse_option, NULL, "Lists the Vulkan devices that the loader finds.",
                                 NULL,    NULL,         NULL };
    command_parse(&parser, argc, argv, 0, &json);
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
    const int code = json ? print_json(infos, count) : print_table(infos, count);
    free(infos);
    return code;
}
