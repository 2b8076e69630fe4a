/* SPDX-License-Identifier: Apache-2.0 */
#include "messages.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringfire/dataset.h>
#include <ringfire/readers.h>

static int out_of_memory(void)
{
    fprintf(stderr, "%s: messages: %s\n", program_invocation_short_name, strerror(ENOMEM));
    return -1;
}

static int is_catalogue(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot && strcmp(dot, ".mo") == 0 && strncmp(entry->d_name, "iso", 3) != 0;
}

/* Bytes in an order that no locale changes. */
static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* One line with a letter in it, and not too many words. */
static bool fits(const char *text, uint32_t most_words)
{
    uint32_t words = 0;
    bool letters = false;
    for (const char *c = text; *c; c++) {
        if (*c == '\n' || *c == '\t') return false;
        letters = letters || isalpha((unsigned char)*c);
        words += *c != ' ' && (c == text || c[-1] == ' ');
    }
    return letters && words <= most_words;
}

/* FNV-1a (Fowler, Noll & Vo). */
static uint64_t hash(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *text; text++) h = (h ^ (uint8_t)*text) * 0x100000001b3u;
    return h ^ h >> 29;
}

static int by_hash(const void *a, const void *b)
{
    const message *x = a, *y = b;
    const uint64_t p = hash(x->source), q = hash(y->source);
    if (p != q) return p < q ? -1 : 1;
    const int order = strcmp(x->source, y->source);
    return order ? order : strcmp(x->translation, y->translation);
}

/* NULL: there is no memory. */
static char *copy_text(const rf_array *text)
{
    return strndup(text->data, (size_t)text->shape.dim[0]);
}

static int append(messages *m, const rf_element *pair, uint32_t most_words)
{
    message new = { copy_text(&pair->component[0]), copy_text(&pair->component[1]) };
    const bool copied = new.source &&new.translation;
    const bool wanted = copied && fits(new.source, most_words) && fits(new.translation, most_words) &&
                        strcmp(new.source, new.translation) != 0;
    message *items = wanted ? realloc(m->items, (m->count + (size_t)1) * sizeof(*items)) : NULL;
    if (items) {
        m->items = items;
        m->items[m->count++] = new;
        return 0;
    }
    free(new.source);
    free(new.translation);
    return copied && !wanted ? 0 : out_of_memory();
}

static int add(messages *m, const char *path, uint32_t most_words, bool quiet)
{
    rf_dataset *catalogue;
    rf_iterator *it;
    const rf_element *pair;
    int result = 0;
    if (rf_dataset_from_gettext(&(rf_gettext_params){ .paths = &path, .num_paths = 1 }, &catalogue) < 0) {
        if (!quiet) fprintf(stderr, "%s: left out %s\n", program_invocation_short_name, rf_error_message());
        return 0;
    }
    rf_result r = rf_iterator_create(catalogue, 0, &it);
    while (r == RF_OK && result == 0 && (r = rf_iterator_next(it, &pair)) == RF_OK)
        result = append(m, pair, most_words);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&catalogue);
    return r < 0 ? out_of_memory() : result;
}

static void free_message(message *m)
{
    free(m->source);
    free(m->translation);
}

/* Keeps the first translation of messages with one source. */
static void sort(messages *m)
{
    uint32_t kept = 0;
    if (m->count == 0) return;
    qsort(m->items, m->count, sizeof(*m->items), by_hash);
    for (uint32_t i = 0; i < m->count; i++) {
        if (i == 0 || strcmp(m->items[i].source, m->items[kept - 1].source) != 0)
            m->items[kept++] = m->items[i];
        else
            free_message(&m->items[i]);
    }
    m->count = kept;
}

int messages_read(const char *locales, const char *language, uint32_t most_words, bool quiet, messages *out)
{
    char path[4096];
    struct dirent **entries;
    int result = 0;
    *out = (messages){ 0 };
    snprintf(path, sizeof(path), "%s/%s/LC_MESSAGES", locales, language);
    const int count = scandir(path, &entries, is_catalogue, by_name);
    for (int i = 0; i < count; i++) {
        char file[4400];
        snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
        if (result == 0) result = add(out, file, most_words, quiet);
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    sort(out);
    if (result < 0) messages_free(out);
    return result;
}

void messages_free(messages *m)
{
    for (uint32_t i = 0; i < m->count; i++) free_message(&m->items[i]);
    free(m->items);
    *m = (messages){ 0 };
}
