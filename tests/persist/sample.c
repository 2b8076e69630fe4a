/* SPDX-License-Identifier: Apache-2.0 */
#include "sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/philox.h"

void sample_fill(void *data, rf_dtype dtype, int64_t count, uint64_t seed, int kind)
{
    rf_rng rng = { rf_hash64(seed, 77), 0 };
    const size_t size = rf_dtype_size(dtype);
    uint8_t *bytes = data;
    float normal[512];
    for (int i = 0; i < 512; i++) normal[i] = (float)rf_rng_normal(&rng);
    for (int64_t i = 0; i < count; i++, bytes += size) {
        uint64_t word = 0;
        const uint64_t random = rf_hash64(seed, (uint64_t)i);
        const float value = normal[random % 512] * (1 + (float)(random >> 40) * 0x1p-28f);
        if (kind == 0 && dtype == RF_F32) {
            memcpy(&word, &value, sizeof(value));
        } else if (kind == 0 && dtype == RF_F16) {
            word = rf_f32_to_f16(value);
        } else if (kind == 0 && dtype == RF_BF16) {
            word = rf_f32_to_bf16(value);
        } else if (kind == 0) {
            word = (uint64_t)i;
        } else if (kind == 2) {
            word = random;
        }
        memcpy(bytes, &word, size);
    }
}

void sample_make(sample *s, uint64_t seed, int64_t floats)
{
    const rf_shape shapes[] = { RF_SHAPE(floats), RF_SCALAR_SHAPE, RF_SHAPE(0, 5), RF_SHAPE(7, 1, 3, 1, 2, 1),
                                RF_SHAPE(3, floats / 9 + 1) };
    memset(s, 0, sizeof(*s));
    uint64_t n = 0;
    for (int d = RF_DTYPE_COUNT - 1; d > RF_DTYPE_INVALID; d--) {
        for (unsigned i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
            rf_archive_tensor *t = &s->tensors[n];
            snprintf(s->names[n], sizeof(s->names[n]), "%s/%s/%u", i % 2 ? "model" : "Optimizer",
                     rf_dtype_name((rf_dtype)d), i);
            *t = (rf_archive_tensor){ s->names[n], (rf_dtype)d, shapes[i], NULL };
            const int64_t count = rf_shape_count(shapes[i]);
            void *data = malloc((size_t)count * rf_dtype_size(t->dtype) + 1);
            if (!data) abort();
            sample_fill(data, t->dtype, count, seed + n, i == 4 ? 1 + (int)(seed + n) % 2 : 0);
            t->data = data;
            n++;
        }
    }
    s->values[0] = (rf_archive_value){ .name = "step", .kind = RF_VALUE_UINT, .number = seed };
    s->values[1] = (rf_archive_value){ .name = "rate", .kind = RF_VALUE_DOUBLE, .real = 0.1 + (double)seed };
    s->values[2] =
        (rf_archive_value){ .name = "note", .kind = RF_VALUE_STRING, .bytes = "gr\xc3\xbc\xc3\x9f", .size = 6 };
    s->values[3] = (rf_archive_value){ .name = "state", .kind = RF_VALUE_BYTES, .bytes = "\0\xff\n", .size = 3 };
    s->values[4] = (rf_archive_value){ .name = "empty/text", .kind = RF_VALUE_STRING };
    s->values[5] = (rf_archive_value){ .name = "empty/bytes", .kind = RF_VALUE_BYTES };
    s->values[6] = (rf_archive_value){ .name = "most", .kind = RF_VALUE_UINT, .number = UINT64_MAX };
    s->contents = (rf_archive_contents){ "checkpoint", s->tensors, n, s->values, 7 };
}

void sample_free(sample *s)
{
    for (uint64_t i = 0; i < SAMPLE_TENSORS; i++) free((void *)(uintptr_t)s->tensors[i].data);
}

static const char *compare_tensor(const rf_archive_tensor *t, const rf_archive *archive)
{
    rf_archive_entry e;
    if (rf_archive_find(archive, t->name, &e) < 0) return rf_error_message();
    if (strcmp(e.name, t->name) != 0 || e.dtype != t->dtype || !rf_shape_equal(e.shape, t->shape))
        return "an entry differs";
    const uint64_t bytes = (uint64_t)rf_shape_count(t->shape) * rf_dtype_size(t->dtype);
    if (e.bytes != bytes) return "a size differs";
    void *data = malloc(bytes + 1);
    if (!data) abort();
    const rf_result r = rf_archive_read(archive, t->name, data, bytes);
    const bool same = r == RF_OK && memcmp(data, t->data, bytes) == 0;
    free(data);
    return r < 0 ? rf_error_message() : same ? NULL : "a tensor's data differ";
}

/* The same in extents: a few bytes, more than a block has, the end. */
static const char *compare_ranges(const rf_archive_tensor *t, const rf_archive *archive)
{
    const uint64_t bytes = (uint64_t)rf_shape_count(t->shape) * rf_dtype_size(t->dtype);
    const uint64_t begins[] = { 0, bytes / 3, bytes / 2 + 1, bytes > 7 ? bytes - 7 : 0, bytes };
    const uint64_t sizes[] = { 1, 5, (1u << 20) + 3, bytes };
    uint8_t *got = malloc(bytes + 1);
    const char *difference = got ? NULL : "no memory";
    for (size_t i = 0; i < 5 && !difference; i++) {
        for (size_t k = 0; k < 4 && !difference; k++) {
            const uint64_t at = begins[i] < bytes ? begins[i] : bytes;
            const uint64_t n = sizes[k] < bytes - at ? sizes[k] : bytes - at;
            if (rf_archive_read_range(archive, t->name, at, got, n) < 0)
                difference = rf_error_message();
            else if (n > 0 && memcmp(got, (const uint8_t *)t->data + at, n) != 0)
                difference = "a range of a tensor differs";
        }
    }
    if (!difference && rf_archive_read_range(archive, t->name, bytes, got, 1) != RF_ERROR_INVALID_ARGUMENT)
        difference = "a range beyond the end is read";
    free(got);
    return difference;
}

const char *sample_compare_ranges(const sample *s, const rf_archive *archive)
{
    const char *difference = NULL;
    for (uint64_t i = 0; i < s->contents.num_tensors && !difference; i++)
        difference = compare_ranges(&s->contents.tensors[i], archive);
    return difference;
}

const char *sample_compare(const sample *s, const rf_archive *archive)
{
    const rf_archive_contents *c = &s->contents;
    if (strcmp(rf_archive_type(archive), c->type) != 0) return "the type differs";
    if (rf_archive_num_tensors(archive) != c->num_tensors || rf_archive_num_values(archive) != c->num_values)
        return "counts differ";
    for (uint64_t i = 0; i < c->num_values; i++) {
        rf_archive_value v;
        const rf_archive_value *w = &c->values[i];
        if (rf_archive_value_get(archive, w->name, &v) < 0) return rf_error_message();
        if (v.kind != w->kind || v.number != w->number || v.real != w->real || v.size != w->size ||
            (v.size > 0 && memcmp(v.bytes, w->bytes, v.size) != 0))
            return "a value differs";
    }
    for (uint64_t i = 0; i < c->num_tensors; i++) {
        const char *difference = compare_tensor(&c->tensors[i], archive);
        if (difference) return difference;
    }
    return NULL;
}

/* Elements of all extents of a part, one after another. */
static void cut(const rf_archive_tensor *t, uint32_t part, uint32_t num_parts, uint64_t extent, rf_archive_tensor *out)
{
    const uint64_t count = (uint64_t)rf_shape_count(t->shape), size = rf_dtype_size(t->dtype);
    uint8_t *data = malloc(count * size + 1);
    uint64_t here = 0;
    if (!data) abort();
    for (uint64_t i = part * extent; i < count; i += num_parts * extent) {
        const uint64_t n = count - i < extent ? count - i : extent;
        memcpy(data + here * size, (const uint8_t *)t->data + i * size, n * size);
        here += n;
    }
    *out = (rf_archive_tensor){ t->name, t->dtype, RF_SHAPE((int64_t)here), data };
}

static rf_result write_part(const rf_file_ops *ops, const char *path, const rf_archive_contents *c, uint32_t part,
                            uint32_t num_parts, uint64_t extent, rf_archive_identity *is)
{
    rf_archive_tensor tensors[SAMPLE_TENSORS];
    rf_archive_contents mine = { .type = RF_ARCHIVE_PART_TYPE, .tensors = tensors };
    for (uint64_t i = 0; i < c->num_tensors; i++) {
        cut(&c->tensors[i], part, num_parts, extent, &tensors[mine.num_tensors]);
        if (tensors[mine.num_tensors].shape.dim[0] > 0)
            mine.num_tensors++;
        else
            free((void *)(uintptr_t)tensors[mine.num_tensors].data);
    }
    const rf_result r = rf_archive_write_split(ops, path, &mine, NULL, NULL, is);
    for (uint64_t i = 0; i < mine.num_tensors; i++) free((void *)(uintptr_t)tensors[i].data);
    return r;
}

rf_result sample_write_parts(const rf_file_ops *ops, const char *path, const rf_archive_contents *c, uint32_t num_parts,
                             uint64_t extent)
{
    enum { MOST = 8 };
    char paths[MOST][1100];
    rf_archive_part parts[MOST];
    rf_archive_extents extents[SAMPLE_TENSORS] = { { 0 } };
    rf_result r = num_parts <= MOST ? RF_OK : RF_ERROR_INVALID_ARGUMENT;
    for (uint32_t p = 0; r >= 0 && p < num_parts; p++) {
        snprintf(paths[p], sizeof(paths[p]), "%s.part-%05u-of-%05u-sample", path, p, num_parts);
        const char *slash = strrchr(paths[p], '/');
        parts[p].name = slash ? slash + 1 : paths[p];
        r = write_part(ops, paths[p], c, p, num_parts, extent, &parts[p].is);
    }
    for (uint64_t t = 0; t < c->num_tensors; t++) {
        const uint64_t count = (uint64_t)rf_shape_count(c->tensors[t].shape);
        extents[t].items = malloc((count / extent + 1) * sizeof(rf_archive_extent));
        if (!extents[t].items) abort();
        for (uint64_t i = 0; i < count; i += extent)
            extents[t].items[extents[t].count++] =
                (rf_archive_extent){ (uint32_t)(i / extent % num_parts), count - i < extent ? count - i : extent };
    }
    if (r >= 0) r = rf_archive_write_split(ops, path, c, &(rf_archive_split){ parts, num_parts, extents }, NULL, NULL);
    for (uint64_t t = 0; t < c->num_tensors; t++) free(extents[t].items);
    return r;
}
