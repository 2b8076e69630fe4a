/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common.h"

static int report(const char *path, int error)
{
    fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, path, strerror(error));
    return -1;
}

static int append_file(const char *path, text *t)
{
    FILE *file = fopen(path, "rb");
    if (!file) return report(path, errno);
    uint8_t buffer[1 << 16];
    size_t n;
    int error = 0;
    errno = 0;
    while (!error && (n = fread(buffer, 1, sizeof(buffer), file)) > 0) {
        uint8_t *more = realloc(t->tokens, t->length + n);
        if (!more) {
            error = ENOMEM;
            break;
        }
        memcpy(more + t->length, buffer, n);
        t->tokens = more;
        t->length += n;
    }
    if (ferror(file) && !error) error = errno ? errno : EIO;
    fclose(file);
    return error ? report(path, error) : 0;
}

static int is_text(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && dot != entry->d_name && (strcmp(dot, ".md") == 0 || strcmp(dot, ".txt") == 0);
}

/* Bytes in an order that no locale changes: the same text on every worker. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int append_directory(const char *path, text *t)
{
    struct dirent **entries;
    const int count = scandir(path, &entries, is_text, by_name);
    if (count < 0) return report(path, errno);
    int result = 0;
    for (int i = 0; i < count; i++) {
        char name[4096];
        snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
        if (result == 0) result = append_file(name, t);
        free(entries[i]);
    }
    free(entries);
    return result;
}

static int append_path(const char *path, text *t)
{
    struct stat info;
    if (stat(path, &info) != 0) return report(path, errno);
    return S_ISDIR(info.st_mode) ? append_directory(path, t) : append_file(path, t);
}

/* Bytes become tokens, in the order of the bytes. */
static void number_bytes(text *t)
{
    bool occurs[256] = { false };
    for (uint64_t i = 0; i < t->length; i++) occurs[t->tokens[i]] = true;
    for (uint32_t byte = 0; byte < 256; byte++) {
        t->token_of[byte] = occurs[byte] ? (int32_t)t->vocabulary : -1;
        if (occurs[byte]) t->byte_of[t->vocabulary++] = (uint8_t)byte;
    }
    for (uint64_t i = 0; i < t->length; i++) t->tokens[i] = (uint8_t)t->token_of[t->tokens[i]];
}

int text_load(const char *const *paths, uint32_t num_paths, text *out)
{
    *out = (text){ 0 };
    for (uint32_t i = 0; i < num_paths; i++) {
        if (append_path(paths[i], out) == 0) continue;
        text_free(out);
        return -1;
    }
    if (out->length == 0) {
        fprintf(stderr, "%s: %s: there is no text (of a directory, *.md and *.txt are read)\n",
                program_invocation_short_name, num_paths > 0 ? paths[0] : "no file");
        return -1;
    }
    number_bytes(out);
    return 0;
}

void text_free(text *t)
{
    free(t->tokens);
    *t = (text){ 0 };
}

/* in: where the window begins. */
static rf_result read_window(void *user, const rf_element *in, rf_element *out)
{
    const text *t = user;
    const uint8_t *from = t->tokens + *(const int32_t *)in->component[0].data;
    int32_t *tokens = out->component[0].data, *next = out->component[1].data;
    for (int64_t i = 0; i < out->component[0].shape.dim[0]; i++) {
        tokens[i] = from[i];
        next[i] = from[i + 1];
    }
    return RF_OK;
}

int text_windows(const text *t, uint64_t begin, uint64_t end, uint32_t length, uint32_t step, rf_dataset **out)
{
    *out = NULL;
    if (end < begin + length + 1 || end > INT32_MAX) {
        fprintf(stderr, "%s: %llu bytes of text are %s windows of %u tokens\n", program_invocation_short_name,
                (unsigned long long)(end - begin), end > INT32_MAX ? "too many for" : "too few for", length);
        return -1;
    }
    const int64_t count = (int64_t)((end - begin - length - 1) / step + 1);
    int32_t *starts = malloc((size_t)count * sizeof(*starts));
    if (!starts) return report("windows", ENOMEM);
    for (int64_t i = 0; i < count; i++) starts[i] = (int32_t)(begin + (uint64_t)i * step);
    const rf_array array = { RF_I32, RF_SHAPE(count), starts };
    rf_dataset *places;
    rf_result r = rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &array, .num_arrays = 1 }, &places);
    free(starts);
    TRY(r);
    const rf_element_spec spec = { 2, { RF_I32, RF_I32 }, { RF_SHAPE(length), RF_SHAPE(length) }, { 0 } };
    /* The dataset only reads the text. */
    r = rf_dataset_map(places, read_window, (void *)(uintptr_t)t, &spec, out);
    rf_dataset_destroy(&places);
    TRY(r);
    return 0;
}
