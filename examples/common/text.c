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

/* Bytes, which become tokens when all are there. */
typedef struct byte_list {
    uint8_t *items;
    uint64_t count;
} byte_list;

static int append_file(const char *path, byte_list *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file) return report(path, errno);
    uint8_t buffer[1 << 16];
    size_t n;
    int error = 0;
    errno = 0;
    while (!error && (n = fread(buffer, 1, sizeof(buffer), file)) > 0) {
        uint8_t *more = realloc(bytes->items, bytes->count + n);
        if (!more) {
            error = ENOMEM;
            break;
        }
        memcpy(more + bytes->count, buffer, n);
        bytes->items = more;
        bytes->count += n;
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

static int append_directory(const char *path, byte_list *bytes)
{
    struct dirent **entries;
    const int count = scandir(path, &entries, is_text, by_name);
    if (count < 0) return report(path, errno);
    int result = 0;
    for (int i = 0; i < count; i++) {
        char name[4096];
        snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
        if (result == 0) result = append_file(name, bytes);
        free(entries[i]);
    }
    free(entries);
    return result;
}

static int append_path(const char *path, byte_list *bytes)
{
    struct stat info;
    if (stat(path, &info) != 0) return report(path, errno);
    return S_ISDIR(info.st_mode) ? append_directory(path, bytes) : append_file(path, bytes);
}

/* Bytes become tokens, in the order of the bytes. */
static int number_bytes(const byte_list *bytes, text *t)
{
    bool occurs[256] = { false };
    t->tokens = malloc(bytes->count * sizeof(*t->tokens));
    if (!t->tokens) return report("text", ENOMEM);
    t->length = bytes->count;
    for (uint64_t i = 0; i < bytes->count; i++) occurs[bytes->items[i]] = true;
    for (uint32_t byte = 0; byte < 256; byte++) {
        t->token_of[byte] = occurs[byte] ? (int32_t)t->vocabulary : -1;
        if (occurs[byte]) t->byte_of[t->vocabulary++] = (uint8_t)byte;
    }
    for (uint64_t i = 0; i < bytes->count; i++) t->tokens[i] = t->token_of[bytes->items[i]];
    return 0;
}

int text_load(const char *const *paths, uint32_t num_paths, text *out)
{
    byte_list bytes = { 0 };
    int result = 0;
    *out = (text){ 0 };
    for (uint32_t i = 0; i < num_paths && result == 0; i++) result = append_path(paths[i], &bytes);
    if (result == 0 && bytes.count == 0) {
        fprintf(stderr, "%s: %s: there is no text (of a directory, *.md and *.txt are read)\n",
                program_invocation_short_name, num_paths > 0 ? paths[0] : "no file");
        result = -1;
    }
    if (result == 0) result = number_bytes(&bytes, out);
    free(bytes.items);
    return result;
}

void text_free(text *t)
{
    free(t->tokens);
    *t = (text){ 0 };
}

int text_windows(const text *t, uint64_t begin, uint64_t end, uint32_t length, uint32_t step, rf_dataset **out)
{
    const rf_array tokens = { RF_I32, RF_SHAPE((int64_t)(end - begin)), t->tokens + begin };
    TRY(rf_dataset_windows(&tokens, length, step, out));
    return 0;
}
