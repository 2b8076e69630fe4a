/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A .mo file ("The Format of GNU MO Files" in gettext's manual): a header of seven 32-bit numbers in either byte order,
 * two tables of (length, place) with as many entries, and the texts, each followed by a zero.
 */
#include "gettext.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAGIC = 0, REVISION = 4, NUM_ENTRIES = 8, SOURCES = 12, TRANSLATIONS = 16, HEADER_BYTES = 28, ENTRY_BYTES = 8 };
static const uint32_t magic = 0x950412de;

typedef struct mo_file {
    const char *bytes;
    uint64_t size, text_bytes; /* text_bytes: of all texts so far */
    bool big_endian;
} mo_file;

static uint32_t number_at(const mo_file *f, uint64_t place)
{
    const uint8_t *b = (const uint8_t *)f->bytes + place;
    if (f->big_endian) return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    return (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0];
}

/* NULL: there is no such text. */
static const char *text_at(mo_file *f, uint64_t table, uint32_t entry)
{
    const uint64_t length = number_at(f, table + (uint64_t)entry * ENTRY_BYTES);
    const uint64_t place = number_at(f, table + (uint64_t)entry * ENTRY_BYTES + 4);
    f->text_bytes += length + 1;
    if (place + length >= f->size || f->text_bytes > f->size || f->bytes[place + length] != '\0') return NULL;
    return f->bytes + place;
}

static bool is_utf8(const char *text)
{
    static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
    const uint8_t *b = (const uint8_t *)text;
    while (*b) {
        const uint32_t more = *b < 0x80 ? 0 : *b < 0xc0 ? 4 : *b < 0xe0 ? 1 : *b < 0xf0 ? 2 : *b < 0xf8 ? 3 : 4;
        if (more == 4) return false;
        uint32_t code = *b++ & (more == 0 ? 0x7fu : 0x3fu >> more);
        for (uint32_t i = 0; i < more; i++) {
            if ((*b & 0xc0) != 0x80) return false;
            code = code << 6 | (*b++ & 0x3fu);
        }
        if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return false;
    }
    return true;
}

/* Of the entry with the empty source, lines like those of a mail's head. */
static bool says_utf8(const char *description)
{
    const char *charset = strcasestr(description, "charset=");
    if (!charset) return true;
    charset += strlen("charset=");
    const size_t length = strcspn(charset, " ;\n\r");
    return (length == 5 && strncasecmp(charset, "UTF-8", 5) == 0) ||
           (length == 8 && strncasecmp(charset, "US-ASCII", 8) == 0) ||
           (length == 5 && strncasecmp(charset, "ASCII", 5) == 0);
}

static const char *read_header(mo_file *f)
{
    if (f->size < HEADER_BYTES) return "too short for a catalogue of gettext";
    if (number_at(f, MAGIC) != magic) {
        f->big_endian = true;
        if (number_at(f, MAGIC) != magic) return "no catalogue of gettext";
    }
    if (number_at(f, REVISION) >> 16 > 1) return "a catalogue of an unknown revision";
    return NULL;
}

static bool table_fits(const mo_file *f, uint64_t place, uint64_t count)
{
    return place + count * ENTRY_BYTES <= f->size;
}

static const char *read_pairs(mo_file *f, mo_catalogue *out)
{
    const uint32_t count = number_at(f, NUM_ENTRIES);
    const uint32_t sources = number_at(f, SOURCES), translations = number_at(f, TRANSLATIONS);
    if (!table_fits(f, sources, count) || !table_fits(f, translations, count))
        return "its tables end after the file; it is damaged";
    out->pairs = calloc(count ? count : 1, sizeof(*out->pairs));
    if (!out->pairs) return strerror(ENOMEM);
    for (uint32_t i = 0; i < count; i++) {
        const char *source = text_at(f, sources, i), *translation = text_at(f, translations, i);
        if (!source || !translation) return "an entry lies outside of the file; it is damaged";
        if (!*source && !says_utf8(translation)) return "it is not in UTF-8";
        const char *context_end = strchr(source, '\4');
        if (context_end) source = context_end + 1;
        if (!*source || !*translation || !is_utf8(source) || !is_utf8(translation)) continue;
        out->pairs[out->count++] = (mo_pair){ source, translation };
    }
    return NULL;
}

const char *mo_parse(char *bytes, size_t size, mo_catalogue *out)
{
    mo_file f = { .bytes = bytes, .size = size };
    *out = (mo_catalogue){ .bytes = bytes };
    const char *problem = read_header(&f);
    if (!problem) problem = read_pairs(&f, out);
    if (problem) mo_free(out);
    return problem;
}

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *bytes = NULL;
    size_t room = 0, n;
    *size = 0;
    if (!file) return NULL;
    do {
        if (*size == room) {
            room = room ? 2 * room : 1 << 16;
            char *more = realloc(bytes, room);
            if (!more) break;
            bytes = more;
        }
        n = fread(bytes + *size, 1, room - *size, file);
        *size += n;
    } while (n > 0);
    const bool complete = feof(file);
    const int error = errno;
    fclose(file);
    if (complete) return bytes;
    free(bytes);
    errno = error;
    return NULL;
}

const char *mo_read(const char *path, mo_catalogue *out)
{
    size_t size;
    *out = (mo_catalogue){ 0 };
    char *bytes = read_file(path, &size);
    return bytes ? mo_parse(bytes, size, out) : strerror(errno);
}

void mo_free(mo_catalogue *catalogue)
{
    free(catalogue->bytes);
    free(catalogue->pairs);
    *catalogue = (mo_catalogue){ 0 };
}
