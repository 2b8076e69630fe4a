/* SPDX-License-Identifier: Apache-2.0 */
/* Documents become sections of sentences. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "corpus.h"

enum {
    MOST_SENTENCES = 40, /* of a section */
    LEAST_BYTES = 20,    /* of a sentence that ends within a line: "e.g." is none */
    MOST_BYTES = 600,    /* of a sentence */
};

/* ---- sentences ---- */

bool corpus_grow(void **items, size_t count, size_t size)
{
    if (count & (count - 1)) return true;
    void *more = realloc(*items, (count ? 2 * count : 1) * size);
    if (more) *items = more;
    return more != NULL;
}

typedef struct sentence_reader {
    corpus *c;
    char sentence[MOST_BYTES + 1];
    uint32_t length;
    bool new_section, has_letter, ok;
} sentence_reader;

static bool begin_section(sentence_reader *r)
{
    corpus *c = r->c;
    if (!corpus_grow((void **)&c->sections, c->num_sections, sizeof(*c->sections))) return false;
    c->sections[c->num_sections++] = (corpus_section){ .first = c->num_sentences, .document = c->num_documents - 1 };
    r->new_section = false;
    return true;
}

static bool keep_sentence(sentence_reader *r)
{
    corpus *c = r->c;
    if (!r->new_section && c->sections[c->num_sections - 1].count == MOST_SENTENCES) r->new_section = true;
    if (r->new_section && !begin_section(r)) return false;
    if (!corpus_grow((void **)&c->texts, c->num_sentences, sizeof(*c->texts))) return false;
    if (!corpus_grow((void **)&c->section_of, c->num_sentences, sizeof(*c->section_of))) return false;
    for (uint32_t i = 0; i <= r->length; i++) {
        if (!corpus_grow((void **)&c->bytes, c->num_bytes + i, 1)) return false;
        c->bytes[c->num_bytes + i] = i < r->length ? r->sentence[i] : '\0';
    }
    c->texts[c->num_sentences] = c->num_bytes;
    c->section_of[c->num_sentences++] = c->num_sections - 1;
    c->sections[c->num_sections - 1].count++;
    c->num_bytes += r->length + 1;
    return true;
}

static void end_sentence(sentence_reader *r)
{
    while (r->length > 0 && r->sentence[r->length - 1] == ' ') r->length--;
    if (r->ok && r->has_letter) r->ok = keep_sentence(r);
    r->length = 0;
    r->has_letter = false;
}

static void add_byte(sentence_reader *r, char byte)
{
    if (r->length == MOST_BYTES) end_sentence(r);
    const bool space = (unsigned char)byte <= ' ';
    if (space && (r->length == 0 || r->sentence[r->length - 1] == ' ')) return;
    r->sentence[r->length++] = space ? ' ' : byte;
    r->has_letter = r->has_letter || isalpha((unsigned char)byte) || (unsigned char)byte >= 0x80;
}

/* ---- lines ---- */

typedef struct text_line {
    const char *at;
    size_t size;
} text_line;

static bool begins_with(const text_line *line, const char *prefix)
{
    return line->size >= strlen(prefix) && memcmp(line->at, prefix, strlen(prefix)) == 0;
}

static void skip_bytes(text_line *line, size_t count)
{
    line->at += count;
    line->size -= count;
}

static void trim_line(text_line *line)
{
    while (line->size > 0 && (unsigned char)line->at[0] <= ' ') skip_bytes(line, 1);
    while (line->size > 0 && (unsigned char)line->at[line->size - 1] <= ' ') line->size--;
}

/* Leaves of a comment in C what it says. */
static void strip_comment(text_line *line)
{
    if (begins_with(line, " *") && !begins_with(line, " */")) skip_bytes(line, 2);
    trim_line(line);
    if (begins_with(line, "/*")) skip_bytes(line, line->size > 2 && line->at[2] == '*' ? 3 : 2);
    if (line->size >= 2 && memcmp(line->at + line->size - 2, "*/", 2) == 0) line->size -= 2;
    trim_line(line);
}

/* "## Title", or "---- title ----" in a comment; what is left is the title. */
static bool strip_heading(text_line *line)
{
    size_t level = 0;
    while (level < line->size && line->at[level] == '#') level++;
    const bool markdown = level > 0 && level < line->size && line->at[level] == ' ';
    if (!markdown && !begins_with(line, "---- ")) return false;
    skip_bytes(line, markdown ? level : 4);
    while (!markdown && line->size > 0 && line->at[line->size - 1] == '-') line->size--;
    trim_line(line);
    return true;
}

/* An entry of a list, a row of a table, a fence around code, a command of Doxygen: none goes on with a sentence. */
static bool begins_entry(const text_line *line)
{
    return begins_with(line, "* ") || begins_with(line, "- ") || begins_with(line, "|") || begins_with(line, "```") ||
           begins_with(line, "@");
}

static void read_line(sentence_reader *r, text_line line)
{
    strip_comment(&line);
    const bool heading = strip_heading(&line);
    if (heading || line.size == 0 || begins_entry(&line)) end_sentence(r);
    if (heading) r->new_section = true;
    if (begins_with(&line, "* ") || begins_with(&line, "- ")) skip_bytes(&line, 2);
    if (begins_with(&line, "```")) return;
    for (size_t i = 0; i < line.size; i++) {
        add_byte(r, line.at[i]);
        const bool last = i + 1 == line.size || (unsigned char)line.at[i + 1] <= ' ';
        if (last && line.at[i] && strchr(".!?:;", line.at[i]) && r->length >= LEAST_BYTES) end_sentence(r);
    }
    add_byte(r, ' ');
    if (heading) end_sentence(r);
}

static bool add_name(corpus *c, const char *name)
{
    if (!corpus_grow((void **)&c->documents, c->num_documents, sizeof(*c->documents))) return false;
    const char *base = strrchr(name, '/');
    char *copy = strdup(base ? base + 1 : name);
    if (copy) c->documents[c->num_documents++] = copy;
    return copy != NULL;
}

bool corpus_add_document(corpus *c, const char *name, const char *bytes, size_t size)
{
    if (!add_name(c, name)) return false;
    sentence_reader r = { .c = c, .new_section = true, .ok = true };
    for (size_t at = 0; at < size && r.ok;) {
        const char *end = memchr(bytes + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - bytes) - at : size - at;
        read_line(&r, (text_line){ bytes + at, length });
        at += length + 1;
    }
    end_sentence(&r);
    return r.ok;
}

/* ---- use ---- */

void corpus_free(corpus *c)
{
    for (uint32_t i = 0; i < c->num_documents; i++) free(c->documents[i]);
    free(c->documents);
    free(c->sections);
    free(c->bytes);
    free(c->texts);
    free(c->section_of);
    rf_tokenizer_destroy(&c->tokenizer);
    free(c->tokens);
    free(c->first_token);
    *c = (corpus){ 0 };
}

const char *corpus_text(const corpus *c, uint32_t sentence)
{
    return c->bytes + c->texts[sentence];
}
