/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* ---- files ---- */

static bool ends_with_one_of(const char *name, const char *const *suffixes)
{
    const size_t length = strlen(name);
    for (; *suffixes; suffixes++) {
        const size_t size = strlen(*suffixes);
        if (length > size && strcmp(name + length - size, *suffixes) == 0) return true;
    }
    return false;
}

/* Bytes in an order that no locale changes: the same text on every worker. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int add_file(const char *folder, const char *name, text_files *files)
{
    const size_t size = strlen(folder) + strlen(name) + 2;
    char **more = realloc(files->paths, (files->count + 1) * sizeof(*more));
    if (more) files->paths = more;
    char *path = more ? malloc(size) : NULL;
    if (!path) return report(folder, ENOMEM);
    snprintf(path, size, "%s%s%s", folder, *name ? "/" : "", name);
    files->paths[files->count++] = path;
    return 0;
}

static int add_directory(const char *path, const char *const *suffixes, text_files *files);

/* Hidden entries are left out; so are links to directories, which could lead round in a circle. */
static int add_entry(const char *folder, const struct dirent *entry, const char *const *suffixes, text_files *files)
{
    struct stat info;
    if (entry->d_name[0] == '.') return 0;
    if (add_file(folder, entry->d_name, files) < 0) return -1;
    char *path = files->paths[files->count - 1];
    const bool is_directory = lstat(path, &info) == 0 && S_ISDIR(info.st_mode);
    if (!is_directory && ends_with_one_of(entry->d_name, suffixes)) return 0;
    files->count--;
    const int result = is_directory ? add_directory(path, suffixes, files) : 0;
    free(path);
    return result;
}

static int add_directory(const char *path, const char *const *suffixes, text_files *files)
{
    struct dirent **entries;
    const int count = scandir(path, &entries, NULL, by_name);
    if (count < 0) return report(path, errno);
    int result = 0;
    for (int i = 0; i < count; i++) {
        if (result == 0) result = add_entry(path, entries[i], suffixes, files);
        free(entries[i]);
    }
    free(entries);
    return result;
}

int text_find_files(const char *const *paths, uint32_t num_paths, const char *const *suffixes, text_files *out)
{
    int result = 0;
    *out = (text_files){ 0 };
    for (uint32_t i = 0; i < num_paths && result == 0; i++) {
        struct stat info;
        if (stat(paths[i], &info) != 0)
            result = report(paths[i], errno);
        else
            result = S_ISDIR(info.st_mode) ? add_directory(paths[i], suffixes, out) : add_file(paths[i], "", out);
    }
    if (result < 0) text_free_files(out);
    return result;
}

void text_free_files(text_files *files)
{
    for (uint32_t i = 0; i < files->count; i++) free(files->paths[i]);
    free(files->paths);
    *files = (text_files){ 0 };
}

/* ---- tokens ---- */

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
        if (occurs[byte]) t->byte_of[t->vocabulary++] = (char)byte;
    }
    for (uint64_t i = 0; i < bytes->count; i++) t->tokens[i] = t->token_of[bytes->items[i]];
    return 0;
}

static int encode_pairs(const rf_tokenizer *byte_pairs, const char *bytes, size_t size, int32_t **tokens,
                        uint64_t *count)
{
    rf_array array;
    TRY(rf_tokenizer_encode(byte_pairs, bytes, size, &array));
    *count = (uint64_t)array.shape.dim[0];
    *tokens = malloc((*count + 1) * sizeof(**tokens));
    if (*tokens) memcpy(*tokens, array.data, *count * sizeof(**tokens));
    rf_array_free(&array);
    return *tokens ? 0 : report("text", ENOMEM);
}

/* Who goes on from a checkpoint reads the file, whatever the text is by then: its numbers stay what they were. */
static int pair_bytes(const byte_list *bytes, const char *file, uint32_t max_tokens, text *t)
{
    const char *const all = (const char *)bytes->items;
    const size_t size = bytes->count;
    if (access(file, F_OK) == 0) {
        TRY(rf_tokenizer_load(file, &t->byte_pairs));
        if (rf_tokenizer_get_kind(t->byte_pairs) != RF_TOKENIZER_BYTE_PAIR) {
            fprintf(stderr, "%s: %s: a tokenizer, but not of byte pairs\n", program_invocation_short_name, file);
            return -1;
        }
    } else {
        const rf_tokenizer_params params = { .kind = RF_TOKENIZER_BYTE_PAIR, .max_tokens = max_tokens };
        TRY(rf_tokenizer_train(&params, &all, &size, 1, &t->byte_pairs));
        TRY(rf_tokenizer_save(t->byte_pairs, file));
    }
    t->vocabulary = rf_tokenizer_vocabulary_size(t->byte_pairs);
    return encode_pairs(t->byte_pairs, all, size, &t->tokens, &t->length);
}

int text_load(const char *const *paths, uint32_t num_paths, const char *byte_pairs, uint32_t max_tokens, text *out)
{
    static const char *const suffixes[] = { ".md", ".txt", NULL };
    byte_list bytes = { 0 };
    text_files files;
    *out = (text){ 0 };
    if (text_find_files(paths, num_paths, suffixes, &files) < 0) return -1;
    int result = 0;
    for (uint32_t i = 0; i < files.count && result == 0; i++) result = append_file(files.paths[i], &bytes);
    text_free_files(&files);
    if (result == 0 && bytes.count == 0) {
        fprintf(stderr, "%s: %s: there is no text (of a directory, *.md and *.txt are read)\n",
                program_invocation_short_name, num_paths > 0 ? paths[0] : "no file");
        result = -1;
    }
    out->num_bytes = bytes.count;
    if (result == 0) result = byte_pairs ? pair_bytes(&bytes, byte_pairs, max_tokens, out) : number_bytes(&bytes, out);
    free(bytes.items);
    if (result < 0) text_free(out);
    return result;
}

void text_free(text *t)
{
    free(t->tokens);
    rf_tokenizer_destroy(&t->byte_pairs);
    *t = (text){ 0 };
}

int text_encode(const text *t, const char *other, int32_t **tokens, uint64_t *count)
{
    const size_t size = strlen(other);
    if (t->byte_pairs) return encode_pairs(t->byte_pairs, other, size, tokens, count);
    *count = 0;
    *tokens = malloc((size + 1) * sizeof(**tokens));
    if (!*tokens) return report("text", ENOMEM);
    for (size_t i = 0; i < size; i++) {
        const int32_t token = t->token_of[(uint8_t)other[i]];
        if (token >= 0) (*tokens)[(*count)++] = token;
    }
    return 0;
}

const char *text_of(const text *t, int32_t token, size_t *size)
{
    if (t->byte_pairs) return rf_tokenizer_token(t->byte_pairs, token, size);
    *size = 1;
    return &t->byte_of[token];
}

int text_windows(const text *t, uint64_t begin, uint64_t end, uint32_t length, uint32_t step, rf_dataset **out)
{
    const rf_array tokens = { RF_I32, RF_SHAPE((int64_t)(end - begin)), t->tokens + begin };
    TRY(rf_dataset_from_tokens(&tokens, length, step, out));
    return 0;
}
