/* SPDX-License-Identifier: Apache-2.0 */
/* Text as BERT reads it: documents, which are files, have sections, and these have sentences of word pieces. */
#ifndef EXAMPLE_BERT_CORPUS_H
#define EXAMPLE_BERT_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ringfire/ringfire.h>

typedef struct corpus_section {
    uint32_t first, count; /* sentences; none is without any */
    uint32_t document;
    bool held_out; /* for tests */
} corpus_section;

typedef struct corpus {
    char **documents; /* names */
    corpus_section *sections;
    uint32_t num_documents, num_sections, num_sentences;
    char *bytes;          /* all sentences, each with a zero byte after it */
    size_t num_bytes;     /* with the zeros */
    size_t *texts;        /* where each sentence begins in `bytes` */
    uint32_t *section_of; /* of each sentence */
    rf_tokenizer *tokenizer;
    int32_t *tokens;                 /* of all sentences */
    uint64_t *first_token;           /* [num_sentences + 1] */
    int32_t cls, sep, mask, special; /* tokens; `special` of them are no words, and come first */
} corpus;

/* Reads files and directories (their *.md, *.txt and *.h, by name). A tenth of the sections is for tests. The
 * vocabulary of at most `max_tokens` word pieces is learned from the other ones, and written to `word_pieces` unless
 * that is NULL; where this file is there, it is read instead. Says what is wrong and returns -1. */
int corpus_load(const char *const *paths, uint32_t num_paths, const char *word_pieces, uint32_t max_tokens,
                corpus *out);
void corpus_free(corpus *c);

/* Adds the sections of a document in memory. A section begins at a heading of Markdown ("## ...") or of a header
 * file, and after 40 sentences. Sentences end with ".", "!", "?", ":" or ";", with a paragraph and with an entry of a
 * list; what has no letters is left out. Control characters become spaces. False: there is no memory. */
bool corpus_add_document(corpus *c, const char *name, const char *bytes, size_t size);

/* Makes room for one more in an array whose size doubles: `count` are there. False: there is no memory. */
bool corpus_grow(void **items, size_t count, size_t size);

/* A sentence, as text and as tokens. */
const char *corpus_text(const corpus *c, uint32_t sentence);
const int32_t *corpus_tokens(const corpus *c, uint32_t sentence, uint32_t *count);

/* How uncertain a word of the held-out text is to who knows how frequent each one is there: nats. */
double corpus_unigram_entropy(const corpus *c);

#endif
