/* SPDX-License-Identifier: Apache-2.0 */
#include "messages.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/gettext.h"

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

static int add(messages *m, const char *path, uint32_t most_words, bool quiet)
{
    mo_catalogue *catalogues = realloc(m->catalogues, (m->num_catalogues + 1) * sizeof(*catalogues));
    if (!catalogues) return out_of_memory();
    m->catalogues = catalogues;
    mo_catalogue *c = &catalogues[m->num_catalogues];
    const char *problem = mo_read(path, c);
    if (problem && !quiet) fprintf(stderr, "%s: left out %s: %s\n", program_invocation_short_name, path, problem);
    if (problem) return 0;
    m->num_catalogues++;
    if (c->count == 0) return 0;
    message *items = realloc(m->items, (m->count + (size_t)c->count) * sizeof(*items));
    if (!items) return out_of_memory();
    m->items = items;
    for (uint32_t i = 0; i < c->count; i++)
        if (fits(c->pairs[i].source, most_words) && fits(c->pairs[i].translation, most_words) &&
            strcmp(c->pairs[i].source, c->pairs[i].translation) != 0)
            items[m->count++] = (message){ c->pairs[i].source, c->pairs[i].translation };
    return 0;
}

/* Of messages with one source the first translation. */
static void sort(messages *m)
{
    uint32_t kept = 0;
    if (m->count == 0) return;
    qsort(m->items, m->count, sizeof(*m->items), by_hash);
    for (uint32_t i = 0; i < m->count; i++)
        if (i == 0 || strcmp(m->items[i].source, m->items[kept - 1].source) != 0) m->items[kept++] = m->items[i];
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
    mo_catalogue *catalogues = m->catalogues;
    for (uint32_t i = 0; i < m->num_catalogues; i++) mo_free(&catalogues[i]);
    free(catalogues);
    free(m->items);
    *m = (messages){ 0 };
}
