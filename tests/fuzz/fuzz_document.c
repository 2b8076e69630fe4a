/* SPDX-License-Identifier: Apache-2.0 */
/* Documents, as examples/bert reads them: sections are sentences in a row, and sentences are text. */
#include "fuzz.h"

#include <string.h>

#include "bert/corpus.h"

static void check_section(const corpus *c, uint32_t index)
{
    const corpus_section *section = &c->sections[index];
    const uint32_t first = index ? c->sections[index - 1].first + c->sections[index - 1].count : 0;
    PROMISE(section->first == first && section->count > 0 && section->count <= 40);
    PROMISE(section->document == 0 && first + section->count <= c->num_sentences);
    for (uint32_t i = 0; i < section->count; i++) PROMISE(c->section_of[first + i] == index);
}

static void check_sentence(const corpus *c, uint32_t index, size_t *bytes)
{
    const char *sentence = corpus_text(c, index);
    const size_t size = strlen(sentence);
    PROMISE(c->texts[index] == *bytes && size > 0 && size <= 600);
    PROMISE(sentence[0] != ' ' && sentence[size - 1] != ' ' && !strstr(sentence, "  "));
    for (size_t i = 0; i < size; i++) PROMISE((unsigned char)sentence[i] >= ' ');
    *bytes += size + 1;
}

FUZZ_TARGET(document)
{
    corpus c = { 0 };
    size_t bytes = 0;
    PROMISE(corpus_add_document(&c, "folder/name", (const char *)data, size));
    PROMISE(c.num_documents == 1 && strcmp(c.documents[0], "name") == 0);
    for (uint32_t i = 0; i < c.num_sections; i++) check_section(&c, i);
    PROMISE(!c.num_sentences || c.section_of[c.num_sentences - 1] + 1 == c.num_sections);
    for (uint32_t i = 0; i < c.num_sentences; i++) check_sentence(&c, i, &bytes);
    PROMISE(bytes == c.num_bytes);
    corpus_free(&c);
    return 0;
}
