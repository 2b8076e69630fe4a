/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GGUF files. Every value of a file that is accepted is walked, and the first and the last number of each tensor are
 * read. Then its values, and those of its tensors that can be, are written, and are the same when they are read again.
 */
#include <string.h>

#include "base/error.h"
#include "fuzz.h"
#include "one_file.h"
#include "persist/arrays/gguf.h"

enum { MOST_WRITTEN = 8, MOST_NUMBERS = 4096 };

static uint64_t walk_strings(const rf_gguf_value *v)
{
    uint64_t size = 0;
    const char *const *texts = v->data;
    for (uint64_t i = 0; i < v->count; i++) {
        PROMISE(texts[i][v->sizes[i]] == '\0');
        size += v->sizes[i];
    }
    return size;
}

static void check_values(const rf_gguf *f, const rf_gguf *again)
{
    for (uint64_t i = 0; i < rf_gguf_num_values(f); i++) {
        rf_gguf_value v, w;
        PROMISE(rf_gguf_value_at(f, i, &v) == RF_OK);
        if (v.type == RF_GGUF_STRING) (void)walk_strings(&v);
        if (!again) continue;
        PROMISE(rf_gguf_find_value(again, v.key, &w) == RF_OK);
        PROMISE(v.type == w.type && v.array == w.array && v.count == w.count);
        const uint32_t size = rf_gguf_value_size((uint32_t)v.type);
        if (size && v.count) PROMISE(memcmp(v.data, w.data, (size_t)v.count * size) == 0);
        if (!size) PROMISE(walk_strings(&v) == walk_strings(&w));
    }
}

static void check_tensors(const rf_gguf *f)
{
    for (uint64_t i = 0; i < rf_gguf_num_tensors(f); i++) {
        float number;
        rf_gguf_tensor t;
        PROMISE(rf_gguf_tensor_at(f, i, &t) == RF_OK);
        const uint64_t count = (uint64_t)rf_shape_count(t.shape);
        if (count == 0) continue;
        const rf_result wanted = t.unsupported_type ? RF_ERROR_UNSUPPORTED : RF_OK;
        PROMISE(rf_gguf_read(f, t.name, 0, 1, &number) == wanted);
        PROMISE(rf_gguf_read(f, t.name, count - 1, 1, &number) == wanted);
    }
}

static rf_result give(void *user, const char *name, uint64_t first, uint64_t count, float *out)
{
    return rf_gguf_read(user, name, first, count, out);
}

static void write_again(rf_gguf *f)
{
    rf_gguf_value values[MOST_WRITTEN];
    rf_gguf_tensor tensors[MOST_WRITTEN];
    rf_gguf_contents c = { .values = values, .tensors = tensors, .read = give, .user = f };
    if (rf_gguf_num_values(f) > MOST_WRITTEN) return;
    for (; c.num_values < rf_gguf_num_values(f); c.num_values++)
        PROMISE(rf_gguf_value_at(f, c.num_values, &values[c.num_values]) == RF_OK);
    for (uint64_t i = 0; i < rf_gguf_num_tensors(f) && c.num_tensors < MOST_WRITTEN; i++) {
        rf_gguf_tensor *t = &tensors[c.num_tensors];
        PROMISE(rf_gguf_tensor_at(f, i, t) == RF_OK);
        const int64_t count = rf_shape_count(t->shape);
        const bool written = !t->unsupported_type && t->shape.rank >= 1 && t->shape.rank <= 4 && count > 0 &&
                             count <= MOST_NUMBERS && strlen(t->name) <= 63;
        t->type = RF_GGUF_F32;
        c.num_tensors += written;
    }
    one_file written = { 0 };
    const rf_file_ops ops = one_file_ops(&written);
    rf_gguf *again;
    PROMISE(rf_gguf_write_with(&ops, "f", &c) == RF_OK);
    PROMISE(rf_gguf_open_with(&ops, "f", &again) == RF_OK);
    PROMISE(rf_gguf_num_tensors(again) == c.num_tensors);
    check_values(f, again);
    check_tensors(again);
    rf_gguf_close(&again);
    free(written.own);
}

FUZZ_TARGET(gguf)
{
    one_file file = { .bytes = data, .size = size };
    const rf_file_ops ops = one_file_ops(&file);
    rf_gguf *f;
    const rf_result r = rf_gguf_open_with(&ops, "f", &f);
    if (r < 0) {
        PROMISE((r == RF_ERROR_CORRUPT_DATA || r == RF_ERROR_UNSUPPORTED) && rf_error_message()[0] && !f);
        return 0;
    }
    check_values(f, NULL);
    check_tensors(f);
    write_again(f);
    rf_gguf_close(&f);
    return 0;
}
