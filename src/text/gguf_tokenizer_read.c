/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer of a GGUF file as the tokenizer.json that says the same. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/memory.h"
#include "persist/arrays/gguf.h"
#include "text/gguf_tokenizer.h"

/* Looking for the merges of a piece takes a time in proportion to the square of its size. */
enum { MOST_TOKEN_BYTES = 1024, MOST_PIECE_BYTES = 256, MOST_TOKENS = 1 << 20 };
#define TOKENS "tokenizer.ggml.tokens"
#define SPACE "\xe2\x96\x81" /* SentencePiece's mark of a space */

typedef struct reading {
    const rf_gguf *file;
    const rf_gguf_rules *rules; /* of bytes; NULL: SentencePiece's pieces */
    bool pieces, add_space;
    bool add_bos, add_eos;
    rf_gguf_value tokens;
    const int32_t *types;    /* NULL: all are normal */
    uint32_t count;          /* of tokens, without those at the end that nothing uses */
    json_t *vocab, *added;   /* borrowed from `root` */
    json_t *root, *settings; /* tokenizer.json; tokenizer_config.json */
} reading;

static rf_result out_of_memory(void)
{
    return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for the tokenizer of a GGUF file");
}

static rf_result set_new(json_t *object, const char *name, json_t *value)
{
    return json_object_set_new(object, name, value) == 0 ? RF_OK : out_of_memory();
}

/* ---- keys ---- */

static bool ends_with(const char *text, const char *end)
{
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

/* Keys that are read, or that change no token of a text. */
static bool is_known(const char *key)
{
    static const char *const known[] = {
        "tokenizer.chat_template",
        "tokenizer.chat_templates",
        "tokenizer.ggml.add_bos_token",
        "tokenizer.ggml.add_eos_token",
        "tokenizer.ggml.add_sep_token",
        "tokenizer.ggml.add_space_prefix",
        "tokenizer.ggml.merges",
        "tokenizer.ggml.model",
        "tokenizer.ggml.pre",
        "tokenizer.ggml.remove_extra_whitespaces",
        "tokenizer.ggml.scores",
        "tokenizer.ggml.token_type",
        "tokenizer.ggml.token_type_count",
        TOKENS,
        "tokenizer.huggingface.json",
    };
    if (strncmp(key, "tokenizer.chat_template.", 24) == 0 || ends_with(key, "_token_id") ||
        ends_with(key, "_token_ids"))
        return true;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i], key) == 0) return true;
    return false;
}

static rf_result check_keys(const rf_gguf *file)
{
    static const char *const refused[] = { "tokenizer.ggml.add_sep_token", "tokenizer.ggml.remove_extra_whitespaces" };
    for (uint64_t i = 0; i < rf_gguf_num_values(file); i++) {
        rf_gguf_value v;
        RF_TRY(rf_gguf_value_at(file, i, &v));
        if (strncmp(v.key, "tokenizer.", 10) == 0 && !is_known(v.key))
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "value '%.200s' is not known here", v.key);
    }
    for (int i = 0; i < 2; i++) {
        bool asked = false;
        RF_TRY(rf_gguf_if_there(rf_gguf_get_bool(file, refused[i], &asked)));
        if (asked) return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' is true, which is not known here", refused[i]);
    }
    return RF_OK;
}

/* ---- what it is ---- */

static rf_result find_rules(reading *r)
{
    const char *pre = NULL;
    RF_TRY(rf_gguf_get_text(r->file, "tokenizer.ggml.pre", &pre));
    for (int i = 0; i < RF_GGUF_RULES && !r->rules; i++)
        for (int k = 0; k < 4 && rf_gguf_rules_known[i].names[k]; k++)
            if (strcmp(rf_gguf_rules_known[i].names[k], pre) == 0) r->rules = &rf_gguf_rules_known[i];
    if (r->rules) return RF_OK;
    char shown[32];
    return RF_FAIL(RF_ERROR_UNSUPPORTED,
                   "'tokenizer.ggml.pre' is \"%s\"; the rules of gpt-2, llama-bpe, qwen2 and smollm are known here",
                   rf_error_show(pre, shown, sizeof(shown)));
}

static rf_result read_kind(reading *r)
{
    const char *model = NULL;
    RF_TRY(rf_gguf_get_text(r->file, "tokenizer.ggml.model", &model));
    r->pieces = strcmp(model, "llama") == 0;
    if (!r->pieces && strcmp(model, "gpt2") != 0) {
        char shown[32];
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'tokenizer.ggml.model' is \"%s\"; gpt2 and llama are known here",
                       rf_error_show(model, shown, sizeof(shown)));
    }
    if (!r->pieces) RF_TRY(find_rules(r));
    r->add_space = r->pieces;
    r->add_bos = r->pieces || r->rules->whole_words; /* where the file does not say */
    RF_TRY(rf_gguf_if_there(rf_gguf_get_bool(r->file, "tokenizer.ggml.add_space_prefix", &r->add_space)));
    RF_TRY(rf_gguf_if_there(rf_gguf_get_bool(r->file, "tokenizer.ggml.add_bos_token", &r->add_bos)));
    return rf_gguf_if_there(rf_gguf_get_bool(r->file, "tokenizer.ggml.add_eos_token", &r->add_eos));
}

static const char *token_text(const reading *r, uint64_t index)
{
    return ((const char *const *)r->tokens.data)[index];
}

static int32_t type_of(const reading *r, uint32_t index)
{
    return r->types ? r->types[index] : RF_GGUF_NORMAL;
}

static rf_result read_lists(reading *r)
{
    rf_gguf_value types = { 0 };
    RF_TRY(rf_gguf_get_array(r->file, TOKENS, RF_GGUF_STRING, &r->tokens));
    RF_TRY(rf_gguf_if_there(rf_gguf_get_array(r->file, "tokenizer.ggml.token_type", RF_GGUF_INT32, &types)));
    if (types.data && types.count != r->tokens.count)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'tokenizer.ggml.token_type' has not as many elements as '" TOKENS "'");
    if (r->tokens.count == 0 || r->tokens.count > MOST_TOKENS)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'" TOKENS "' has %llu elements", (unsigned long long)r->tokens.count);
    r->types = types.data;
    r->count = (uint32_t)r->tokens.count;
    while (r->count > 1 && type_of(r, r->count - 1) == RF_GGUF_UNUSED) r->count--;
    return RF_OK;
}

/* ---- tokens ---- */

static rf_result add_token(reading *r, uint32_t index)
{
    const char *text = token_text(r, index);
    const size_t size = r->tokens.sizes[index];
    const int32_t type = type_of(r, index);
    if (size == 0 || size > MOST_TOKEN_BYTES || strlen(text) != size)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'" TOKENS "': token %u is empty, or longer than %d bytes, or has zeros",
                       index, MOST_TOKEN_BYTES);
    if (type < RF_GGUF_NORMAL || type > RF_GGUF_BYTE)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'tokenizer.ggml.token_type': token %u has type %d, which is not known",
                       index, (int)type);
    const bool outside = type == RF_GGUF_CONTROL || type == RF_GGUF_USER_DEFINED;
    json_t *string = json_string(text);
    if (!string) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'" TOKENS "': token %u is not UTF-8", index);
    if (!outside && json_object_get(r->vocab, text)) {
        json_decref(string);
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'" TOKENS "': token %u is there twice", index);
    }
    rf_result done = outside ? RF_OK : set_new(r->vocab, text, json_integer(index));
    if (done >= 0 && (outside || type == RF_GGUF_UNKNOWN)) {
        json_t *token =
            json_pack("{s:i, s:O, s:b, s:b, s:b, s:b, s:b}", "id", (int)index, "content", string, "single_word", 0,
                      "lstrip", 0, "rstrip", 0, "normalized", 0, "special", type != RF_GGUF_USER_DEFINED);
        if (json_array_append_new(r->added, token) < 0) done = out_of_memory();
    }
    json_decref(string);
    return done;
}

/* The text of a special token that has a number; *text is NULL where the file names none. */
static rf_result find_special(const reading *r, const char *name, const char **text)
{
    char key[64];
    uint32_t index = UINT32_MAX;
    *text = NULL;
    snprintf(key, sizeof(key), "tokenizer.ggml.%s_token_id", name);
    const rf_result found = rf_gguf_get_size(r->file, key, &index);
    if (found == RF_ERROR_NOT_FOUND) return RF_OK;
    RF_TRY(found);
    if (index >= r->count) return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' is %u, of %u tokens", key, index, r->count);
    *text = token_text(r, index);
    return RF_OK;
}

/* ---- merges ---- */

typedef struct piece_merge {
    uint32_t piece;
    uint32_t left; /* bytes */
    float score;
} piece_merge;
typedef struct piece_merges {
    piece_merge *items;
    uint32_t count, capacity;
} piece_merges;

/* Better pieces first; of equal ones those that stand first, and their own parts by size. */
static int compare_merges(const void *x, const void *y)
{
    const piece_merge *a = x, *b = y;
    if (a->score != b->score) return a->score > b->score ? -1 : 1;
    if (a->piece != b->piece) return a->piece < b->piece ? -1 : 1;
    return (a->left > b->left) - (a->left < b->left);
}

/* All pairs of tokens that make a piece. */
static rf_result find_splits(const reading *r, uint32_t piece, float score, piece_merges *out)
{
    char left[MOST_PIECE_BYTES + 1];
    const char *text = token_text(r, piece);
    const size_t size = r->tokens.sizes[piece];
    if (size > MOST_PIECE_BYTES)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'" TOKENS "': token %u has more than %d bytes", piece, MOST_PIECE_BYTES);
    memcpy(left, text, size + 1);
    for (size_t at = size - 1; at > 0; at--) {
        left[at] = '\0';
        if (((unsigned char)text[at] & 0xc0) == 0x80 || !json_object_get(r->vocab, text + at) ||
            !json_object_get(r->vocab, left))
            continue;
        RF_TRY(RF_VEC_GROW(out));
        out->items[out->count++] = (piece_merge){ piece, (uint32_t)at, score };
    }
    return RF_OK;
}

static rf_result list_merges(const reading *r, const piece_merges *merges, json_t *list)
{
    for (uint32_t i = 0; i < merges->count; i++) {
        const piece_merge *m = &merges->items[i];
        const char *text = token_text(r, m->piece);
        if (json_array_append_new(list, json_pack("[s%, s]", text, (size_t)m->left, text + m->left)) < 0)
            return out_of_memory();
    }
    return RF_OK;
}

/* SentencePiece joins the neighbours that make the best token: that is what merges in this order do. */
static rf_result merge_by_scores(const reading *r, json_t *list)
{
    rf_gguf_value scores;
    piece_merges merges = { 0 };
    RF_TRY(rf_gguf_get_array(r->file, "tokenizer.ggml.scores", RF_GGUF_FLOAT32, &scores));
    if (scores.count != r->tokens.count)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'tokenizer.ggml.scores' has not as many elements as '" TOKENS "'");
    rf_result done = RF_OK;
    for (uint32_t i = 0; done >= 0 && i < r->count; i++) {
        const float score = ((const float *)scores.data)[i];
        if (!isfinite(score))
            done = RF_FAIL(RF_ERROR_CORRUPT_DATA, "'tokenizer.ggml.scores': that of token %u is not finite", i);
        else if (type_of(r, i) == RF_GGUF_NORMAL)
            done = find_splits(r, i, score, &merges);
    }
    if (done >= 0 && merges.count > 0) qsort(merges.items, merges.count, sizeof(*merges.items), compare_merges);
    if (done >= 0) done = list_merges(r, &merges, list);
    rf_free(merges.items);
    return done;
}

static rf_result copy_merges(const reading *r, json_t *list)
{
    rf_gguf_value merges;
    RF_TRY(rf_gguf_get_array(r->file, "tokenizer.ggml.merges", RF_GGUF_STRING, &merges));
    for (uint64_t i = 0; i < merges.count; i++) {
        json_t *text = json_stringn(((const char *const *)merges.data)[i], merges.sizes[i]);
        if (!text)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'tokenizer.ggml.merges': %llu is not UTF-8", (unsigned long long)i);
        if (json_array_append_new(list, text) < 0) return out_of_memory();
    }
    return RF_OK;
}

/* ---- the parts of tokenizer.json ---- */

static json_t *byte_level(bool words)
{
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0, "trim_offsets", 1, "use_regex",
                     words);
}

static json_t *pre_tokenizer(const rf_gguf_rules *rules)
{
    if (rules->pattern)
        return json_pack("{s:s, s:[{s:s, s:{s:s}, s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Split",
                         "pattern", "Regex", rules->pattern, "behavior", "Isolated", "invert", 0, byte_level(false));
    if (rules->digits)
        return json_pack("{s:s, s:[{s:s, s:b}, o]}", "type", "Sequence", "pretokenizers", "type", "Digits",
                         "individual_digits", 1, byte_level(true));
    return byte_level(true);
}

static json_t *replace_step(const char *text, const char *by)
{
    return json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace", "pattern", "String", text, "content", by);
}

static rf_result set_steps(const reading *r)
{
    if (r->rules) {
        if (r->rules->composed) RF_TRY(set_new(r->root, "normalizer", json_pack("{s:s}", "type", "NFC")));
        RF_TRY(set_new(r->root, "pre_tokenizer", pre_tokenizer(r->rules)));
        return set_new(r->root, "decoder", byte_level(false));
    }
    json_t *before = json_pack("[o]", replace_step(" ", SPACE));
    json_t *after = json_pack("[o, {s:s}, {s:s}]", replace_step(SPACE, " "), "type", "ByteFallback", "type", "Fuse");
    if (r->add_space) {
        json_array_insert_new(before, 0, json_pack("{s:s, s:s}", "type", "Prepend", "prepend", SPACE));
        json_array_append_new(
            after, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip", "content", " ", "start", 1, "stop", 0));
    }
    const rf_result set =
        set_new(r->root, "normalizer", json_pack("{s:s, s:o}", "type", "Sequence", "normalizers", before));
    const rf_result also = set_new(r->root, "decoder", json_pack("{s:s, s:o}", "type", "Sequence", "decoders", after));
    return set < 0 ? set : also;
}

static rf_result append_special(json_t *list, const char *text, int type)
{
    json_t *item = json_pack("{s:{s:s, s:i}}", "SpecialToken", "id", text, "type_id", type);
    return json_array_append_new(list, item) == 0 ? RF_OK : out_of_memory();
}

/* A text, or the second one of two, with the tokens around it. */
static rf_result append_text(json_t *list, const char *bos, const char *eos, int number)
{
    json_t *item = json_pack("{s:{s:s, s:i}}", "Sequence", "id", number ? "B" : "A", "type_id", number);
    if (bos && append_special(list, bos, number) < 0) {
        json_decref(item);
        return out_of_memory();
    }
    if (json_array_append_new(list, item) < 0) return out_of_memory();
    return eos ? append_special(list, eos, number) : RF_OK;
}

static rf_result name_special(const reading *r, json_t *tokens, const char *key, const char *text)
{
    uint32_t id = 0;
    if (!text) return RF_OK;
    RF_TRY(rf_gguf_get_size(r->file, key, &id));
    return set_new(tokens, text, json_pack("{s:s, s:[i], s:[s]}", "id", text, "ids", (int)id, "tokens", text));
}

static rf_result fill_template(const reading *r, json_t *step, const char *bos, const char *eos)
{
    RF_TRY(append_text(json_object_get(step, "single"), bos, eos, 0));
    RF_TRY(append_text(json_object_get(step, "pair"), bos, eos, 0));
    RF_TRY(append_text(json_object_get(step, "pair"), bos, eos, 1));
    RF_TRY(name_special(r, json_object_get(step, "special_tokens"), "tokenizer.ggml.bos_token_id", bos));
    return name_special(r, json_object_get(step, "special_tokens"), "tokenizer.ggml.eos_token_id", eos);
}

/* The special tokens around a text. */
static rf_result set_template(const reading *r)
{
    const char *bos, *eos;
    RF_TRY(find_special(r, "bos", &bos));
    RF_TRY(find_special(r, "eos", &eos));
    if ((r->add_bos && !bos) || (r->add_eos && !eos))
        return RF_FAIL(RF_ERROR_NOT_FOUND, "there is no value 'tokenizer.ggml.%s_token_id', which texts %s with",
                       r->add_bos && !bos ? "bos" : "eos", r->add_bos && !bos ? "begin" : "end");
    if (!r->add_bos && !r->add_eos) return RF_OK;
    json_t *step =
        json_pack("{s:s, s:[], s:[], s:{}}", "type", "TemplateProcessing", "single", "pair", "special_tokens");
    RF_TRY(set_new(r->root, "post_processor", step));
    return fill_template(r, step, r->add_bos ? bos : NULL, r->add_eos ? eos : NULL);
}

static rf_result make_tokenizer(reading *r)
{
    r->vocab = json_object();
    r->added = json_array();
    json_t *merges = json_array();
    json_t *model =
        json_pack("{s:s, s:n, s:n, s:n, s:n, s:b, s:b, s:b, s:o, s:o}", "type", "BPE", "dropout", "unk_token",
                  "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", r->pieces, "byte_fallback", r->pieces,
                  "ignore_merges", r->rules && r->rules->whole_words, "vocab", r->vocab, "merges", merges);
    r->root =
        json_pack("{s:s, s:n, s:n, s:o, s:n, s:n, s:n, s:n, s:o}", "version", "1.0", "truncation", "padding",
                  "added_tokens", r->added, "normalizer", "pre_tokenizer", "post_processor", "decoder", "model", model);
    if (!r->root) return out_of_memory();
    for (uint32_t i = 0; i < r->count; i++) RF_TRY(add_token(r, i));
    const char *unknown;
    RF_TRY(find_special(r, "unknown", &unknown));
    for (uint32_t i = 0; !unknown && i < r->count; i++)
        if (type_of(r, i) == RF_GGUF_UNKNOWN) unknown = token_text(r, i);
    if (r->pieces && unknown) RF_TRY(set_new(model, "unk_token", json_string(unknown)));
    RF_TRY(r->pieces ? merge_by_scores(r, merges) : copy_merges(r, merges));
    RF_TRY(set_steps(r));
    return set_template(r);
}

/* ---- tokenizer_config.json ---- */

static rf_result make_settings(reading *r)
{
    char name[32];
    const char *text = NULL;
    r->settings = json_pack("{s:b, s:b}", "add_bos_token", r->add_bos, "add_eos_token", r->add_eos);
    if (!r->settings) return out_of_memory();
    for (int i = 0; i < RF_GGUF_SPECIALS; i++) {
        RF_TRY(find_special(r, rf_gguf_special_names[i][1], &text));
        snprintf(name, sizeof(name), "%s_token", rf_gguf_special_names[i][0]);
        if (text && json_object_set_new(r->settings, name, json_string(text)) < 0)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'" TOKENS "': the %s is not UTF-8", name);
    }
    text = NULL;
    RF_TRY(rf_gguf_if_there(rf_gguf_get_text(r->file, "tokenizer.chat_template", &text)));
    if (text && json_object_set_new(r->settings, "chat_template", json_string(text)) < 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'tokenizer.chat_template' is not UTF-8");
    return RF_OK;
}

/* ---- all ---- */

static rf_result read_all(reading *r, bool tokenizer)
{
    RF_TRY(check_keys(r->file));
    RF_TRY(read_kind(r));
    RF_TRY(read_lists(r));
    if (tokenizer) RF_TRY(make_tokenizer(r));
    return make_settings(r);
}

rf_result rf_gguf_read_tokenizer(const rf_gguf *file, json_t **tokenizer, json_t **settings)
{
    reading r = { .file = file };
    const rf_result done = read_all(&r, tokenizer != NULL);
    if (done < 0) {
        json_decref(r.root);
        json_decref(r.settings);
        r.root = r.settings = NULL;
    }
    if (tokenizer) *tokenizer = r.root;
    *settings = r.settings;
    return done;
}

rf_result rf_gguf_load_tokenizer(const char *path, json_t **tokenizer, json_t **settings)
{
    rf_gguf *file;
    if (tokenizer) *tokenizer = NULL;
    *settings = NULL;
    RF_TRY(rf_gguf_open(path, &file));
    const rf_result r = rf_gguf_read_tokenizer(file, tokenizer, settings);
    rf_gguf_close(&file);
    return rf_error_context(r, "'%s'", path);
}
