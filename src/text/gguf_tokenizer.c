/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers in GGUF files: the two kinds of byte pairs that llama.cpp has, "gpt2" of bytes written as characters, and
 * "llama" of SentencePiece, whose merges are scores. */
#include "text/gguf_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "persist/arrays/gguf.h"

#define LETTERS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define OTHERS "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
const rf_gguf_rules rf_gguf_rules_known[RF_GGUF_RULES] = {
    { .names = { "gpt-2" } },
    { .names = { "smollm" }, .digits = true },
    { .names = { "llama-bpe", "llama3", "llama-v3" }, .pattern = LETTERS "\\p{N}{1,3}" OTHERS, .whole_words = true },
    { .names = { "qwen2" }, .pattern = LETTERS "\\p{N}" OTHERS, .composed = true },
};
const char *const rf_gguf_special_names[RF_GGUF_SPECIALS][2] = {
    { "bos", "bos" },     { "eos", "eos" },       { "unk", "unknown" },
    { "pad", "padding" }, { "sep", "seperator" }, { "mask", "mask" },
};

typedef struct vocabulary {
    const rf_tokenizer_files *files;
    rf_gguf_values *values;
    uint32_t count;
    const char **texts; /* by number; NULL: none */
    int32_t *types;
    bool pieces; /* SentencePiece's */
} vocabulary;

static bool text_is(const json_t *value, const char *text)
{
    return json_is_string(value) && strcmp(json_string_value(value), text) == 0;
}

static rf_result fail_tokenizer(const vocabulary *w, const char *what)
{
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s': %s", w->files->path, what);
}

/* Step `index` of a member that is one step or a sequence of `list`; NULL behind the last one. */
static const json_t *step_at(const json_t *member, const char *list, size_t index)
{
    if (!json_is_object(member)) return NULL;
    if (!text_is(json_object_get(member, "type"), "Sequence")) return index == 0 ? member : NULL;
    return json_array_get(json_object_get(member, list), index);
}

static const json_t *find_step(const json_t *member, const char *list, const char *type)
{
    const json_t *step;
    for (size_t i = 0; (step = step_at(member, list, i)); i++)
        if (text_is(json_object_get(step, "type"), type)) return step;
    return NULL;
}

/* ---- tokens ---- */

static rf_result add_token(vocabulary *w, const char *text, const json_t *number, int32_t type)
{
    const json_int_t id = json_integer_value(number);
    if (!text || !json_is_integer(number) || id < 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': a token has no text or no number", w->files->path);
    if ((uint64_t)id >= w->count)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "'%s': token %lld, of which the model of config.json has %u",
                       w->files->path, (long long)id, w->count);
    if (w->texts[id] && strcmp(w->texts[id], text) != 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': two tokens have the number %lld", w->files->path, (long long)id);
    w->texts[id] = text;
    w->types[id] = type;
    return RF_OK;
}

/* "<0x0A>" */
static bool is_byte(const char *text)
{
    char *end;
    if (strncmp(text, "<0x", 3) != 0 || strlen(text) != 6 || text[5] != '>') return false;
    (void)strtoul(text + 3, &end, 16);
    return end == text + 5;
}

static rf_result add_tokens(vocabulary *w)
{
    const json_t *model = json_object_get(w->files->tokenizer, "model");
    const json_t *unknown = json_object_get(model, "unk_token"), *added;
    const char *text;
    json_t *number;
    size_t i;
    json_object_foreach((json_t *)json_object_get(model, "vocab"), text, number)
    {
        const bool is_unknown = w->pieces && text_is(unknown, text), byte = w->pieces && is_byte(text);
        RF_TRY(add_token(w, text, number, is_unknown ? RF_GGUF_UNKNOWN : byte ? RF_GGUF_BYTE : RF_GGUF_NORMAL));
    }
    json_array_foreach((json_t *)json_object_get(w->files->tokenizer, "added_tokens"), i, added)
    {
        const char *content = json_string_value(json_object_get(added, "content"));
        const bool special = json_is_true(json_object_get(added, "special"));
        const bool is_unknown = w->pieces && content && text_is(unknown, content);
        RF_TRY(add_token(w, content, json_object_get(added, "id"),
                         is_unknown ? RF_GGUF_UNKNOWN
                         : special  ? RF_GGUF_CONTROL
                                    : RF_GGUF_USER_DEFINED));
    }
    return RF_OK;
}

static void put_array(vocabulary *w, const char *key, rf_gguf_value_type type, uint64_t count, const void *data)
{
    rf_gguf_put(w->values, &(rf_gguf_value){ .key = key, .type = type, .array = true, .count = count, .data = data });
}

/* Numbers of the model that no token has get a text that no other has. */
static rf_result put_tokens(vocabulary *w)
{
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->texts[i]) continue;
        char text[32];
        snprintf(text, sizeof(text), "[PAD%u]", i);
        w->texts[i] = rf_arena_strdup(&w->values->arena, text);
        w->types[i] = RF_GGUF_UNUSED;
        if (!w->texts[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    put_array(w, "tokenizer.ggml.tokens", RF_GGUF_STRING, w->count, w->texts);
    put_array(w, "tokenizer.ggml.token_type", RF_GGUF_INT32, w->count, w->types);
    return w->values->status;
}

/* ---- merges ---- */

/* Both sides of a merge: a pair of texts, or one text with a space between them. */
static rf_result split_merge(const vocabulary *w, const json_t *merge, const char **left, size_t *size,
                             const char **right)
{
    if (json_is_array(merge)) {
        *left = json_string_value(json_array_get(merge, 0));
        *right = json_string_value(json_array_get(merge, 1));
        *size = *left ? strlen(*left) : 0;
    } else {
        *left = json_string_value(merge);
        *size = *left ? strcspn(*left, " ") : 0;
        *right = *left && (*left)[*size] ? *left + *size + 1 : NULL;
    }
    if (*left && *right && *size > 0 && **right && !memchr(*left, ' ', *size) && !strchr(*right, ' ')) return RF_OK;
    return fail_tokenizer(w, "a merge is no pair of texts without spaces");
}

/* "left right", or joined; in the arena. */
static const char *join_merge(vocabulary *w, const char *left, size_t size, const char *right, const char *between)
{
    const size_t room = size + strlen(right) + 2;
    char *out = rf_arena_alloc(&w->values->arena, room);
    if (out) snprintf(out, room, "%.*s%s%s", (int)size, left, between, right);
    return out;
}

static rf_result put_merges(vocabulary *w, const json_t *merges)
{
    const size_t count = json_array_size(merges);
    const char **texts;
    RF_TRY(RF_ARENA_ARRAY(&w->values->arena, texts, count + 1));
    for (size_t i = 0, size; i < count; i++) {
        const char *left, *right;
        RF_TRY(split_merge(w, json_array_get(merges, i), &left, &size, &right));
        if (!(texts[i] = join_merge(w, left, size, right, " "))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    put_array(w, "tokenizer.ggml.merges", RF_GGUF_STRING, count, texts);
    return w->values->status;
}

/* The earlier a merge, the better is the token that it makes. Single characters are made by none. */
static rf_result put_scores(vocabulary *w, const json_t *merges)
{
    const json_t *vocab = json_object_get(json_object_get(w->files->tokenizer, "model"), "vocab");
    const size_t count = json_array_size(merges);
    float *scores;
    RF_TRY(RF_ARENA_ARRAY(&w->values->arena, scores, w->count));
    for (uint32_t i = 0; i < w->count; i++) scores[i] = w->types[i] == RF_GGUF_NORMAL ? -(float)count : 0.0f;
    for (size_t i = count, size; i-- > 0;) {
        const char *left, *right;
        RF_TRY(split_merge(w, json_array_get(merges, i), &left, &size, &right));
        const char *joined = join_merge(w, left, size, right, "");
        if (!joined) return RF_ERROR_OUT_OF_HOST_MEMORY;
        const json_t *number = json_object_get(vocab, joined);
        if (!json_is_integer(number)) return fail_tokenizer(w, "a merge makes something that is no token");
        scores[json_integer_value(number)] = -(float)i;
    }
    put_array(w, "tokenizer.ggml.scores", RF_GGUF_FLOAT32, w->count, scores);
    return w->values->status;
}

/* ---- special tokens ---- */

/* The text of "bos_token" and its like; NULL: the files name none. */
static const char *special_text(const vocabulary *w, const char *name)
{
    char key[32];
    snprintf(key, sizeof(key), "%s_token", name);
    const json_t *value = json_object_get(w->files->tokenizer_config, key);
    return json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);
}

/* The number of a special token; -1: there is none. The configuration of the model may have a list. */
static int64_t special_number(const vocabulary *w, const char *name)
{
    char key[32];
    const char *text = special_text(w, name);
    for (uint32_t i = 0; text && i < w->count; i++)
        if (w->texts[i] && strcmp(w->texts[i], text) == 0) return i;
    snprintf(key, sizeof(key), "%s_token_id", name);
    const json_t *value = json_object_get(w->files->config, key);
    if (json_is_array(value)) value = json_array_get(value, 0);
    const json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    return number >= 0 && (uint64_t)number < w->count ? number : -1;
}

/* Whether the tokenizer puts a special token at one end of a text. */
static bool adds_token(const vocabulary *w, const char *name, bool first)
{
    char key[32];
    const json_t *after = json_object_get(w->files->tokenizer, "post_processor");
    const json_t *step = find_step(after, "processors", "TemplateProcessing");
    snprintf(key, sizeof(key), "add_%s_token", name);
    if (!json_is_object(after)) return json_is_true(json_object_get(w->files->tokenizer_config, key));
    const json_t *single = json_object_get(step, "single"), *token;
    const size_t count = json_array_size(single);
    if (count < 2) return false;
    token = json_object_get(json_object_get(json_array_get(single, first ? 0 : count - 1), "SpecialToken"), "id");
    const int64_t number = special_number(w, name);
    return json_is_string(token) && number >= 0 && w->texts[number] && text_is(token, w->texts[number]);
}

static void put_specials(vocabulary *w)
{
    char key[64];
    for (int i = 0; i < RF_GGUF_SPECIALS; i++) {
        const int64_t number = special_number(w, rf_gguf_special_names[i][0]);
        snprintf(key, sizeof(key), "tokenizer.ggml.%s_token_id", rf_gguf_special_names[i][1]);
        if (number >= 0) rf_gguf_put_u32(w->values, key, (uint32_t)number);
    }
    rf_gguf_put_bool(w->values, "tokenizer.ggml.add_bos_token", adds_token(w, "bos", true));
    rf_gguf_put_bool(w->values, "tokenizer.ggml.add_eos_token", adds_token(w, "eos", false));
}

static void put_template(vocabulary *w)
{
    const json_t *value = json_object_get(w->files->tokenizer_config, "chat_template"), *one;
    const char *text = w->files->chat_template;
    size_t i;
    if (json_is_string(value)) text = json_string_value(value);
    json_array_foreach((json_t *)value, i, one)
    {
        const json_t *named = json_object_get(one, "template");
        if (text_is(json_object_get(one, "name"), "default") && json_is_string(named)) text = json_string_value(named);
    }
    if (text) rf_gguf_put_text(w->values, "tokenizer.chat_template", text);
}

/* ---- kinds ---- */

/* llama.cpp's name for the rules that cut text into words; NULL: none is known for these. */
static const char *find_rules(const json_t *before)
{
    const json_t *bytes = find_step(before, "pretokenizers", "ByteLevel");
    const json_t *split = find_step(before, "pretokenizers", "Split");
    const json_t *digits = find_step(before, "pretokenizers", "Digits");
    const json_t *pattern = json_object_get(json_object_get(split, "pattern"), "Regex");
    const bool words = !json_is_false(json_object_get(bytes, "use_regex"));
    size_t steps = 0;
    while (step_at(before, "pretokenizers", steps)) steps++;
    if (!bytes || json_is_true(json_object_get(bytes, "add_prefix_space"))) return NULL;
    for (int i = 0; i < RF_GGUF_RULES; i++) {
        const rf_gguf_rules *r = &rf_gguf_rules_known[i];
        const bool step = r->digits ? json_is_true(json_object_get(digits, "individual_digits"))
                                    : !r->pattern || text_is(pattern, r->pattern);
        if (step && words == !r->pattern && steps == (r->digits || r->pattern ? 2U : 1U)) return r->names[0];
    }
    return NULL;
}

/* Whether a space is put before the text. */
static bool adds_space(const json_t *tokenizer)
{
    const json_t *prepend = find_step(json_object_get(tokenizer, "normalizer"), "normalizers", "Prepend");
    const json_t *meta = find_step(json_object_get(tokenizer, "pre_tokenizer"), "pretokenizers", "Metaspace");
    if (prepend) return true;
    const json_t *scheme = json_object_get(meta, "prepend_scheme");
    return meta && (scheme ? !text_is(scheme, "never") : !json_is_false(json_object_get(meta, "add_prefix_space")));
}

/* Text reaches the merges as it is in llama.cpp, but for what SentencePiece does with spaces; where a model composes
 * characters (NFC), other programs leave that to their users. */
static rf_result check_normalizers(const vocabulary *w)
{
    const json_t *normalizer = json_object_get(w->files->tokenizer, "normalizer"), *step;
    for (size_t i = 0; (step = step_at(normalizer, "normalizers", i)); i++) {
        const json_t *type = json_object_get(step, "type");
        if (w->pieces ? text_is(type, "Prepend") || text_is(type, "Replace") : text_is(type, "NFC")) continue;
        return fail_tokenizer(w, "the normalizer has a step that GGUF files do not have");
    }
    return RF_OK;
}

static rf_result put_kind(vocabulary *w, const char *pre)
{
    const json_t *tokenizer = w->files->tokenizer;
    const json_t *model = json_object_get(tokenizer, "model"), *type = json_object_get(model, "type");
    const json_t *before = json_object_get(tokenizer, "pre_tokenizer");
    if (!json_is_object(json_object_get(model, "vocab")) || (type && !text_is(type, "BPE")))
        return fail_tokenizer(w, "GGUF files are made of tokenizers of type BPE");
    w->pieces = json_is_true(json_object_get(model, "byte_fallback"));
    RF_TRY(check_normalizers(w));
    rf_gguf_put_text(w->values, "tokenizer.ggml.model", w->pieces ? "llama" : "gpt2");
    if (!pre) pre = w->pieces ? "default" : find_rules(before);
    if (!pre)
        return fail_tokenizer(w, "llama.cpp has no name that is known here for this pre_tokenizer; give one in "
                                 "rf_pretrained_gguf_params::pre_tokenizer");
    rf_gguf_put_text(w->values, "tokenizer.ggml.pre", pre);
    if (w->pieces) rf_gguf_put_bool(w->values, "tokenizer.ggml.add_space_prefix", adds_space(tokenizer));
    return w->values->status;
}

rf_result rf_gguf_describe_tokenizer(const rf_tokenizer_files *files, uint32_t count, const char *pre,
                                     rf_gguf_values *v)
{
    vocabulary w = { .files = files, .values = v, .count = count };
    const json_t *merges = json_object_get(json_object_get(files->tokenizer, "model"), "merges");
    RF_TRY(put_kind(&w, pre));
    RF_TRY(RF_ARENA_ARRAY(&v->arena, w.texts, count));
    RF_TRY(RF_ARENA_ARRAY(&v->arena, w.types, count));
    RF_TRY(add_tokens(&w));
    RF_TRY(put_tokens(&w));
    RF_TRY(w.pieces ? put_scores(&w, merges) : put_merges(&w, merges));
    put_specials(&w);
    put_template(&w);
    return v->status;
}
