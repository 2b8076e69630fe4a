/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hugging Face's tokenizer.json as data. A text passes through these: added tokens are cut out of it, normalizers
 * change the rest, pre-tokenizers cut it into pieces, the model turns a piece into tokens, and a template puts special
 * tokens around them. Tables name each component as the file does ("type"), with its fields and its function.
 */
#ifndef RF_TEXT_PIPELINE_PIPELINE_H
#define RF_TEXT_PIPELINE_PIPELINE_H

#include <jansson.h>

#include "base/memory.h"
#include "text/bytes.h"
#include "text/pairs.h"
#include "text/pipeline/regex.h"
#include "text/tokenizer.h"
#include "text/trie.h"

typedef struct rf_flow rf_flow;

/* ---- fields of a component's JSON object ---- */

/* In the memory of the pipeline's arena, followed by a zero byte. */
typedef struct rf_slice_text {
    const char *bytes; /* NULL: not there */
    size_t size;
} rf_slice_text;
/* A regular expression, or a text that is not empty. */
typedef struct rf_pattern {
    rf_regex *regex;
    rf_slice_text text;
} rf_pattern;

typedef enum rf_field_kind {
    RF_FIELD_FLAG,      /* bool */
    RF_FIELD_TEXT,      /* rf_slice_text */
    RF_FIELD_CHARACTER, /* rf_slice_text of one character */
    RF_FIELD_COUNT,     /* uint32_t, up to INT32_MAX */
    RF_FIELD_CHOICE,    /* uint32_t: the place in `choices` */
    RF_FIELD_PATTERN,   /* rf_pattern */
    RF_FIELD_OTHER      /* the component reads it itself, or it changes no tokens (offsets) */
} rf_field_kind;
typedef struct rf_field {
    const char *name;
    rf_field_kind kind;
    bool needed; /* else what the struct has stays where the field is missing or null */
    size_t offset;
    const char *const *choices; /* ends with NULL */
} rf_field;
/* Reads all members but "type"; one that is not in `fields`, which end with a row without a name, is an error. */
rf_result rf_fields_read(rf_arena *arena, const json_t *object, const rf_field *fields, void *into);
rf_result rf_text_copy(rf_arena *arena, const char *bytes, size_t size, rf_slice_text *out);
/* The value of "type"; NULL where there is none. */
const char *rf_type_of(const json_t *object);
rf_result rf_type_unknown(const json_t *object);

/* ---- normalizers, pre-tokenizers, decoders ---- */

typedef enum rf_split_behavior {
    RF_SPLIT_REMOVED,
    RF_SPLIT_ISOLATED,
    RF_SPLIT_MERGED_WITH_PREVIOUS,
    RF_SPLIT_MERGED_WITH_NEXT,
    RF_SPLIT_CONTIGUOUS
} rf_split_behavior;
typedef enum rf_prepend_scheme { RF_PREPEND_ALWAYS, RF_PREPEND_FIRST, RF_PREPEND_NEVER } rf_prepend_scheme;
extern const char *const rf_prepend_schemes[];

typedef struct rf_step_type rf_step_type;
typedef struct rf_step {
    const rf_step_type *type;
    rf_pattern pattern;
    rf_slice_text text;      /* content, prefix, suffix, replacement character */
    uint32_t behavior;       /* rf_split_behavior */
    uint32_t prepend_scheme; /* rf_prepend_scheme */
    uint32_t start, stop;
    bool left, right;                         /* strip_left, strip_right */
    bool clean_text, chinese, accents, lower; /* BertNormalizer */
    bool prefix_space, use_regex, invert, split, individual, cleanup;
    struct rf_charsmap *charsmap; /* Precompiled */
} rf_step;
typedef struct rf_steps {
    rf_step *items;
    uint32_t count, capacity;
} rf_steps;

/* A piece of text on its way to the model. */
typedef struct rf_piece {
    const char *bytes;
    size_t size;
    bool first; /* the text begins with it */
} rf_piece;
/* The tokens' texts on their way to become one; token i is at [ends[i - 1], ends[i]). */
typedef struct rf_parts {
    rf_text_bytes text;
    struct {
        size_t *items;
        uint32_t count, capacity;
    } ends;
} rf_parts;
rf_result rf_parts_end(rf_parts *parts); /* the text's last bytes, that belong to no part yet, are one */

struct rf_step_type {
    const char *name;
    const rf_field *fields; /* NULL: none */
    /* Appends steps that do what `from` says; NULL: itself. */
    rf_result (*expand)(rf_arena *arena, const json_t *object, const rf_step *from, rf_steps *out);
    /* One of these, as the role is. */
    rf_result (*normalize)(rf_flow *f, const rf_step *s, const char *text, size_t size, rf_text_bytes *out);
    rf_result (*cut)(rf_flow *f, const rf_step *s, uint32_t stage, rf_piece piece);
    rf_result (*decode)(const rf_step *s, const rf_parts *in, rf_parts *out, rf_matcher *m);
    rf_step defaults;
};
/* A role: how its components are called, and its table, which ends with a row without a name. */
typedef struct rf_role {
    const char *member;   /* of the file */
    const char *sequence; /* member of "Sequence" that has the components */
    const rf_step_type *types;
} rf_role;
extern const rf_role rf_normalizer_role, rf_pre_tokenizer_role, rf_decoder_role;
/* The component in `value`, or none where it is null. */
rf_result rf_steps_read(rf_arena *arena, const rf_role *role, const json_t *value, rf_steps *out);
rf_result rf_steps_add(rf_steps *steps, const rf_step *step);
void rf_steps_free(rf_steps *steps);
/* Metaspace's: before there were schemes, a flag said whether a text gets a space in front. */
rf_result rf_metaspace_expand(rf_arena *arena, const json_t *object, const rf_step *from, rf_steps *out);

/* ---- the model ---- */

typedef struct rf_pipeline rf_pipeline;
typedef struct rf_lattice_node {
    double score;
    uint32_t start, token; /* RF_TABLE_NONE: nothing ends here yet; the token that is not known */
} rf_lattice_node;

typedef struct rf_token_model_type rf_token_model_type;
typedef struct rf_token_model {
    const rf_token_model_type *type;
    rf_slice_text unknown_text, prefix, suffix;
    uint32_t unknown; /* RF_TABLE_NONE: none */
    bool byte_fallback, fuse_unknown, ignore_merges;
    uint32_t max_characters;
    uint32_t longest;           /* bytes of a token */
    uint32_t bytes[256];        /* "<0x00>" and so on; RF_TABLE_NONE where one is missing */
    uint32_t characters[0x200]; /* tokens of one such character */
    rf_pair_table ranks;        /* BPE: pair to rank */
    rf_pair_table junctions;    /* BPE: characters that a merge has on its two sides */
    uint32_t *results;          /* BPE: rank to token */
    double *scores;             /* Unigram, by token */
    double unknown_score;       /* Unigram */
    rf_trie trie;               /* Unigram */
} rf_token_model;
struct rf_token_model_type {
    const char *name;
    const rf_field *fields;
    rf_token_model defaults;
    rf_result (*read)(rf_tokenizer *t, const json_t *object); /* when the vocabulary is there; may be NULL */
    rf_result (*encode)(rf_flow *f, const char *piece, size_t size);
};
/* The row that an object's "type" names, or its members where it has none. */
rf_result rf_token_model_find(const json_t *object, const rf_token_model_type **out);
/* The fields but for the vocabulary, which the tokenizer must have. */
rf_result rf_token_model_read(rf_tokenizer *t, const json_t *object);
rf_result rf_unigram_read(rf_tokenizer *t, const json_t *object);
rf_result rf_unigram_encode(rf_flow *f, const char *piece, size_t size);
void rf_token_model_free(rf_token_model *m);

/* ---- added tokens ---- */

typedef struct rf_added_token {
    uint32_t id;
    rf_slice_text content;
    bool single_word, lstrip, rstrip, normalized, special;
} rf_added_token;
typedef struct rf_added_tokens {
    rf_added_token *items;
    uint32_t count, capacity;
    rf_trie raw, normalized; /* those found before the normalizers, and after them; numbers of `items` */
} rf_added_tokens;
rf_result rf_added_tokens_read(rf_arena *arena, const json_t *list, rf_added_tokens *out);
/* When the normalizers are there. */
rf_result rf_added_tokens_finish(rf_tokenizer *t);
void rf_added_tokens_free(rf_added_tokens *added);
/* Cuts a text at the tokens of `trie`, which become tokens; `section` gets what lies between them. */
rf_result rf_added_tokens_cut(rf_flow *f, const rf_trie *trie, rf_piece text,
                              rf_result (*section)(rf_flow *f, rf_piece section));

/* ---- templates, truncation ---- */

typedef struct rf_template_item {
    int32_t sequence; /* 0, 1; -1: the special tokens */
    int32_t type;
    const int32_t *ids;
    uint32_t num_ids;
} rf_template_item;
typedef struct rf_template {
    rf_template_item *items;
    uint32_t count, capacity;
} rf_template;
typedef struct rf_truncation {
    bool set;
    uint32_t max_length, direction, strategy, stride;
} rf_truncation;
enum { RF_TRUNCATE_RIGHT, RF_TRUNCATE_LEFT };
enum { RF_TRUNCATE_LONGEST_FIRST, RF_TRUNCATE_ONLY_FIRST, RF_TRUNCATE_ONLY_SECOND };

struct rf_pipeline {
    rf_arena arena;
    char *source; /* the file's text */
    size_t source_size;
    rf_steps normalizers, pre_tokenizers, decoders;
    rf_token_model model;
    rf_added_tokens added;
    bool *outside;            /* [tokens]: added tokens that the model does not know */
    rf_template templates[2]; /* of one text, of two */
    rf_truncation truncation;
};
rf_result rf_templates_read(rf_tokenizer *t, const json_t *value);
rf_result rf_truncation_read(rf_pipeline *p, const json_t *value);
void rf_templates_free(rf_pipeline *p);

/* `root` is a tokenizer.json, `text` its text. */
bool rf_pipeline_matches(const json_t *root);
rf_result rf_pipeline_read(const json_t *root, const char *text, size_t size, rf_tokenizer **out);
void rf_pipeline_destroy(rf_pipeline **pipeline);

/* ---- encoding ---- */

typedef struct rf_token_list {
    int32_t *items;
    uint32_t count, capacity;
} rf_token_list;
struct rf_flow {
    const rf_tokenizer *t;
    const rf_pipeline *p;
    bool split_special; /* special tokens in the text are text */
    rf_matcher matcher;
    rf_text_bytes normal[2];
    rf_text_bytes *scratch; /* [pre_tokenizers.count] */
    rf_text_bytes word;
    rf_pair_work pairs;
    struct {
        rf_lattice_node *items;
        uint32_t capacity;
    } lattice;
    rf_token_list tokens;
};
/* How large a text of `size` bytes may become on its way; no character of a normal form takes as much. */
static inline size_t rf_flow_limit(size_t size)
{
    return size < SIZE_MAX / 64 ? 65536 + 32 * size : SIZE_MAX;
}
/* Before texts that have `size` bytes together. */
rf_result rf_flow_begin(rf_flow *f, const rf_tokenizer *t, size_t size);
/* A text as the normalizers make it; it lies in `normal` or is the text itself. */
rf_result rf_flow_normalize(rf_flow *f, rf_piece text, rf_piece *out);
/* A piece for the pre-tokenizer `stage` and those behind it, or the model. */
rf_result rf_flow_piece(rf_flow *f, uint32_t stage, rf_piece piece);
rf_result rf_flow_token(rf_flow *f, uint32_t id);
void rf_flow_free(rf_flow *f);

rf_result rf_pipeline_encode(const rf_tokenizer *t, const char *text, size_t size,
                             const rf_tokenizer_encode_params *params, rf_array *out, rf_array *types);
rf_result rf_pipeline_decode(const rf_tokenizer *t, const int32_t *tokens, uint64_t count, char **text, size_t *size);

/* ---- shared by components ---- */

/* A token that the model may find in a text; RF_TABLE_NONE. */
static inline uint32_t rf_token_model_id(const rf_tokenizer *t, const char *bytes, size_t size)
{
    const uint32_t id = rf_string_table_find(&t->tokens, bytes, size);
    return id != RF_TABLE_NONE && t->pipeline->outside[id] ? RF_TABLE_NONE : id;
}

/* The next match at `from` or behind it; RF_END: there is none. */
rf_result rf_pattern_find(const rf_pattern *pattern, rf_matcher *m, const char *text, size_t size, size_t from,
                          size_t *begin, size_t *end);
/* Appends the text with `content` for every match. */
rf_result rf_pattern_replace(const rf_step *s, rf_matcher *m, const char *text, size_t size, rf_text_bytes *out);
/* GPT-2's characters for bytes. */
uint32_t rf_byte_character(uint8_t byte);
int rf_character_byte(uint32_t code); /* -1: stands for none */

#endif
