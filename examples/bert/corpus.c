/* SPDX-License-Identifier: Apache-2.0 */
#include "corpus.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../common/common.h"
#include "../common/text.h"

enum { HELD_OUT_PART = 10 }; /* one section of so many */

/* ---- tokens ---- */

static int no_memory(void)
{
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, strerror(ENOMEM));
    return -1;
}

/* Who goes on from a checkpoint reads the file, whatever the text is by then: its numbers stay what they were. */
static int create_tokenizer(corpus *c, const char *file, uint32_t max_tokens)
{
    if (file && access(file, F_OK) == 0) {
        TRY(rf_tokenizer_load(file, &c->tokenizer));
        if (rf_tokenizer_get_kind(c->tokenizer) == RF_TOKENIZER_WORD_PIECE) return 0;
        fprintf(stderr, "%s: %s: a tokenizer, but not of word pieces\n", program_invocation_short_name, file);
        return -1;
    }
    const char **texts = malloc(c->num_sentences * sizeof(*texts));
    if (!texts) return no_memory();
    uint64_t count = 0;
    for (uint32_t i = 0; i < c->num_sentences; i++)
        if (!c->sections[c->section_of[i]].held_out) texts[count++] = corpus_text(c, i);
    const rf_tokenizer_params params = { .kind = RF_TOKENIZER_WORD_PIECE, .max_tokens = max_tokens };
    rf_result r = rf_tokenizer_train(&params, texts, NULL, count, &c->tokenizer);
    free(texts);
    if (r >= 0 && file) r = rf_tokenizer_save(c->tokenizer, file);
    TRY(r);
    return 0;
}

static int encode_sentences(corpus *c)
{
    uint64_t total = 0;
    c->first_token = calloc((size_t)c->num_sentences + 1, sizeof(*c->first_token));
    if (!c->first_token) return no_memory();
    for (uint32_t i = 0; i < c->num_sentences; i++) {
        rf_array array;
        TRY(rf_tokenizer_encode(c->tokenizer, corpus_text(c, i), strlen(corpus_text(c, i)), &array));
        const uint64_t count = (uint64_t)array.shape.dim[0];
        bool ok = true;
        for (uint64_t k = 0; k < count && ok; k++) {
            ok = corpus_grow((void **)&c->tokens, total, sizeof(*c->tokens));
            if (ok) c->tokens[total++] = ((const int32_t *)array.data)[k];
        }
        rf_array_free(&array);
        if (!ok) return no_memory();
        c->first_token[i + 1] = total;
    }
    return 0;
}

static int find_special_tokens(corpus *c)
{
    c->cls = rf_tokenizer_id(c->tokenizer, "[CLS]");
    c->sep = rf_tokenizer_id(c->tokenizer, "[SEP]");
    c->mask = rf_tokenizer_id(c->tokenizer, "[MASK]");
    const uint32_t size = rf_tokenizer_vocabulary_size(c->tokenizer);
    while ((uint32_t)c->special < size && rf_tokenizer_is_special(c->tokenizer, c->special)) c->special++;
    if (c->cls >= 0 && c->sep >= 0 && c->mask >= 0 && rf_tokenizer_id(c->tokenizer, "[PAD]") == 0 &&
        (uint32_t)c->special < size)
        return 0;
    fprintf(stderr, "%s: the word pieces do not begin with [PAD], [UNK], [CLS], [SEP] and [MASK]\n",
            program_invocation_short_name);
    return -1;
}

/* ---- files ---- */

static int read_document(corpus *c, const char *path)
{
    rf_text_lines *lines;
    TRY(rf_text_lines_read(&path, 1, &lines));
    const uint64_t count = rf_text_lines_count(lines);
    const size_t *sizes = rf_text_lines_sizes(lines);
    size_t size = 0, at = 0;
    for (uint64_t i = 0; i < count; i++) size += sizes[i] + 1;
    char *bytes = malloc(size + 1);
    for (uint64_t i = 0; bytes && i < count; i++) {
        memcpy(bytes + at, rf_text_lines_texts(lines)[i], sizes[i]);
        at += sizes[i];
        bytes[at++] = '\n';
    }
    const bool ok = bytes && corpus_add_document(c, path, bytes, at);
    free(bytes);
    rf_text_lines_destroy(&lines);
    return ok ? 0 : no_memory();
}

static int read_documents(corpus *c, const char *const *paths, uint32_t num_paths)
{
    static const char *const suffixes[] = { ".md", ".txt", ".h", NULL };
    text_files files;
    if (text_find_files(paths, num_paths, suffixes, &files) < 0) return -1;
    int result = 0;
    for (uint32_t i = 0; i < files.count && result == 0; i++) result = read_document(c, files.paths[i]);
    text_free_files(&files);
    if (result < 0 || c->num_sections > 1) return result;
    fprintf(stderr, "%s: %s: there are not two sections of text (of a directory, *.md, *.txt and *.h are read)\n",
            program_invocation_short_name, paths[0]);
    return -1;
}

int corpus_load(const char *const *paths, uint32_t num_paths, const char *word_pieces, uint32_t max_tokens, corpus *out)
{
    *out = (corpus){ 0 };
    int result = read_documents(out, paths, num_paths);
    for (uint32_t i = 0; result == 0 && i < out->num_sections; i++)
        out->sections[i].held_out = i % HELD_OUT_PART == HELD_OUT_PART - 1;
    if (result == 0 && out->num_sections < HELD_OUT_PART) out->sections[out->num_sections - 1].held_out = true;
    if (result == 0) result = create_tokenizer(out, word_pieces, max_tokens);
    if (result == 0) result = find_special_tokens(out);
    if (result == 0) result = encode_sentences(out);
    if (result < 0) corpus_free(out);
    return result;
}

/* ---- use ---- */

const int32_t *corpus_tokens(const corpus *c, uint32_t sentence, uint32_t *count)
{
    *count = (uint32_t)(c->first_token[sentence + 1] - c->first_token[sentence]);
    return c->tokens + c->first_token[sentence];
}

double corpus_unigram_entropy(const corpus *c)
{
    uint64_t *counts = calloc(rf_tokenizer_vocabulary_size(c->tokenizer), sizeof(*counts)), total = 0;
    double entropy = 0;
    for (uint32_t s = 0; counts && s < c->num_sentences; s++) {
        uint32_t count;
        const int32_t *tokens = corpus_tokens(c, s, &count);
        if (!c->sections[c->section_of[s]].held_out) continue;
        for (uint32_t i = 0; i < count; i++) counts[tokens[i]]++;
        total += count;
    }
    for (uint32_t i = 0; counts && i < rf_tokenizer_vocabulary_size(c->tokenizer); i++) {
        const double p = (double)counts[i] / (double)total;
        if (counts[i]) entropy -= p * log(p);
    }
    free(counts);
    return entropy;
}
