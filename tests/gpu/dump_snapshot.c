/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what the first Vulkan device reports of itself, in the form of snapshot.h. */
#include "snapshot.h"

#include "gpu/internal.h"

static void print_field(const rf_gpu_snapshot *s, const snapshot_field *f)
{
    const char *bytes = (const char *)s + f->offset;
    printf("%s", f->name);
    if (f->size == 0) printf(" %s", bytes);
    for (size_t i = 0; f->size > 0 && i < f->count; i++) {
        uint64_t value = 0;
        uint32_t word = 0;
        if (f->size == 1) value = (unsigned char)bytes[i];
        if (f->size == 4) {
            memcpy(&word, bytes + 4 * i, 4);
            value = word;
        }
        if (f->size == 8) memcpy(&value, bytes + 8 * i, 8);
        printf(" %" PRIu64, value);
    }
    printf("\n");
}

int main(void)
{
    rf_gpu *gpu;
    static rf_gpu_snapshot s;
    if (rf_gpu_create(NULL, &gpu) < 0) {
        fprintf(stderr, "dump_snapshot: %s\n", rf_error_message());
        return 1;
    }
    if (gpu->num_physical_devices == 0) {
        fprintf(stderr, "dump_snapshot: there is no Vulkan device\n");
        return 1;
    }
    rf_gpu_take_snapshot(gpu, gpu->physical_devices[0], &s);
    for (size_t i = 0; i < NUM_SNAPSHOT_FIELDS; i++) print_field(&s, &snapshot_fields[i]);
    for (uint32_t i = 0; i < s.memory.memoryHeapCount; i++)
        printf("heap %" PRIu64 " %u\n", (uint64_t)s.memory.memoryHeaps[i].size, s.memory.memoryHeaps[i].flags);
    for (uint32_t i = 0; i < s.memory.memoryTypeCount; i++)
        printf("type %u %u\n", s.memory.memoryTypes[i].propertyFlags, s.memory.memoryTypes[i].heapIndex);
    for (uint32_t i = 0; i < s.num_families; i++)
        printf("family %u %u %u\n", s.families[i].queueFlags, s.families[i].queueCount,
               s.families[i].timestampValidBits);
    for (uint32_t i = 0; i < s.num_matrices; i++) {
        const rf_gpu_matrix *m = &s.matrices[i];
        printf("matrix %u %u %u %u %u %u %u %u\n", m->m, m->n, m->k, m->a, m->b, m->c, m->result, m->scope);
    }
    rf_gpu_destroy(&gpu);
    return 0;
}
