/* SPDX-License-Identifier: Apache-2.0 */
#include "read_snapshot.h"
#include "gpu_test.h"
#include "snapshot.h"

#include <stdlib.h>

static void read_field(rf_gpu_snapshot *s, const snapshot_field *f, const char *text)
{
    char *bytes = (char *)s + f->offset;
    if (f->size == 0) snprintf(bytes, f->count, "%.*s", (int)strcspn(text, "\n"), text);
    for (size_t i = 0; f->size > 0 && i < f->count; i++) {
        char *end;
        const uint64_t value = strtoull(text, &end, 10);
        const uint32_t word = (uint32_t)value;
        assert_ptr_not_equal(end, text);
        text = end;
        if (f->size == 1) bytes[i] = value != 0;
        if (f->size == 4) memcpy(bytes + 4 * i, &word, 4);
        if (f->size == 8) memcpy(bytes + 8 * i, &value, 8);
    }
}

static void read_matrix(rf_gpu_snapshot *s, const char *text)
{
    assert_in_range(s->num_matrices, 0, RF_GPU_MAX_MATRICES - 1);
    rf_gpu_matrix *m = &s->matrices[s->num_matrices++];
    assert_int_equal(
        sscanf(text, "%u %u %u %u %u %u %u %u", &m->m, &m->n, &m->k, &m->a, &m->b, &m->c, &m->result, &m->scope), 8);
}

static void read_line(rf_gpu_snapshot *s, const char *name, const char *text)
{
    VkPhysicalDeviceMemoryProperties *m = &s->memory;
    uint64_t numbers[3] = { 0 };
    for (size_t i = 0; i < NUM_SNAPSHOT_FIELDS; i++)
        if (strcmp(snapshot_fields[i].name, name) == 0) {
            read_field(s, &snapshot_fields[i], text);
            return;
        }
    (void)sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &numbers[0], &numbers[1], &numbers[2]);
    const uint32_t second = (uint32_t)numbers[1], third = (uint32_t)numbers[2];
    if (strcmp(name, "heap") == 0)
        m->memoryHeaps[m->memoryHeapCount++] = (VkMemoryHeap){ numbers[0], second };
    else if (strcmp(name, "type") == 0)
        m->memoryTypes[m->memoryTypeCount++] = (VkMemoryType){ (VkMemoryPropertyFlags)numbers[0], second };
    else if (strcmp(name, "family") == 0)
        s->families[s->num_families++] = (VkQueueFamilyProperties){ .queueFlags = (VkQueueFlags)numbers[0],
                                                                    .queueCount = second,
                                                                    .timestampValidBits = third };
    else if (strcmp(name, "matrix") == 0)
        read_matrix(s, text);
    else
        fail_msg("a snapshot has '%s': write them anew with ./dev fleet --snapshots", name);
}

rf_gpu_snapshot read_snapshot(const char *directory, const char *device)
{
    rf_gpu_snapshot s = { 0 };
    char path[1024], line[1024], name[128];
    uint32_t lines = 0;
    snprintf(path, sizeof(path), "%s/%s.txt", directory, device);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        assert_int_equal(sscanf(line, "%127s", name), 1);
        const char *text = line + strlen(name);
        read_line(&s, name, *text == ' ' ? text + 1 : text);
        lines++;
    }
    fclose(f);
    assert_int_equal(lines, NUM_SNAPSHOT_FIELDS + s.memory.memoryHeapCount + s.memory.memoryTypeCount + s.num_families +
                                s.num_matrices);
    return s;
}
