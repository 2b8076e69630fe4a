/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tokenizers in files: a JSON object with the vocabulary, or the merges of byte pairs, and a CRC-32C of all its other
 * members, written compactly and in order of their names. A token is a string, or a list of bytes where it is not
 * UTF-8.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/crc32c.h"
#include "base/memory.h"
#include "base/numbers.h"
#include "base/platform.h"
#include "base/utf8.h"
#include "persist/arrays/gguf.h"
#include "text/gguf_tokenizer.h"
#include "text/pipeline/pipeline.h"
#include "text/tokenizer.h"

enum { FILE_VERSION = 1, MAX_SPECIAL_TOKENS = 4096 };
static const char file_format[] = "ringfire tokenizer";

static const char *const kind_names[RF_TOKENIZER_KINDS] = {
    [RF_TOKENIZER_CHARACTERS] = "characters",
    [RF_TOKENIZER_WORDS] = "words",
    [RF_TOKENIZER_WORD_PIECE] = "word_piece",
    [RF_TOKENIZER_BYTE_PAIR] = "byte_pair",
};

static rf_result out_of_memory(void)
{
    return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for a tokenizer's description");
}

/* ---- writing ---- */

static json_t *token_to_json(const char *bytes, size_t size)
{
    if (rf_utf8_valid(bytes, size) && !memchr(bytes, '\0', size)) return json_stringn(bytes, size);
    json_t *list = json_array();
    for (size_t i = 0; i < size; i++)
        if (json_array_append_new(list, json_integer((uint8_t)bytes[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

/* Takes the item's reference. */
static rf_result append_json(json_t *list, json_t *item)
{
    return json_array_append_new(list, item) == 0 ? RF_OK : out_of_memory();
}

static rf_result append_special(const rf_tokenizer *t, json_t *list)
{
    uint32_t num_own;
    const char *const *own = rf_tokenizer_own_tokens(t->kind, &num_own);
    for (uint32_t i = 0; i < t->tokens.count; i++) {
        bool is_own = false;
        if (!t->special[i]) continue;
        for (uint32_t k = 0; k < num_own; k++) is_own |= strcmp(own[k], rf_string_table_text(&t->tokens, i)) == 0;
        if (!is_own)
            RF_TRY(append_json(list, token_to_json(rf_string_table_text(&t->tokens, i), t->tokens.items[i].size)));
    }
    return RF_OK;
}

static rf_result append_tokens(const rf_tokenizer *t, json_t *list)
{
    for (uint32_t i = 0; i < t->tokens.count; i++)
        RF_TRY(append_json(list, token_to_json(rf_string_table_text(&t->tokens, i), t->tokens.items[i].size)));
    return RF_OK;
}

static rf_result append_merges(const rf_tokenizer *t, json_t *list)
{
    for (uint32_t i = 0; i < t->merge_list.count; i++) {
        const uint64_t key = t->merge_list.items[i];
        RF_TRY(append_json(list, json_pack("[I,I]", (json_int_t)(key >> 32), (json_int_t)(key & UINT32_MAX))));
    }
    return RF_OK;
}

/* As it is written, and as its checksum is taken. */
static char *dump_json(const json_t *root)
{
    char *text;
    RF_WITH_C_NUMBERS(text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS));
    return text;
}

static rf_result describe_tokenizer(const rf_tokenizer *t, json_t *root)
{
    json_t *special = json_array(), *list = json_array();
    const bool pairs = t->kind == RF_TOKENIZER_BYTE_PAIR;
    rf_result r = special && list ? append_special(t, special) : out_of_memory();
    if (r == RF_OK) r = pairs ? append_merges(t, list) : append_tokens(t, list);
    if (r == RF_OK && (json_object_set_new(root, "format", json_string(file_format)) < 0 ||
                       json_object_set_new(root, "version", json_integer(FILE_VERSION)) < 0 ||
                       json_object_set_new(root, "kind", json_string(kind_names[t->kind])) < 0 ||
                       json_object_set_new(root, "keep_case", json_boolean(t->keep_case)) < 0 ||
                       json_object_set_new(root, "keep_punctuation", json_boolean(t->keep_punctuation)) < 0 ||
                       json_object_set(root, "special_tokens", special) < 0 ||
                       json_object_set(root, pairs ? "merges" : "tokens", list) < 0))
        r = out_of_memory();
    json_decref(special);
    json_decref(list);
    return r;
}

static rf_result add_checksum(json_t *root)
{
    char *body = dump_json(root);
    if (!body) return out_of_memory();
    const uint32_t crc = rf_crc32c(0, body, strlen(body));
    free(body);
    return json_object_set_new(root, "crc32c", json_integer(crc)) == 0 ? RF_OK : out_of_memory();
}

rf_result rf_tokenizer_text(const rf_tokenizer *t, char **text)
{
    if (t->kind == RF_TOKENIZER_PIPELINE) {
        *text = rf_strdup(t->pipeline->source);
        return *text ? RF_OK : out_of_memory();
    }
    *text = NULL;
    json_t *root = json_object();
    rf_result r = root ? describe_tokenizer(t, root) : out_of_memory();
    if (r == RF_OK) r = add_checksum(root);
    char *dump = r == RF_OK ? dump_json(root) : NULL;
    if (r == RF_OK) {
        *text = dump ? rf_strdup(dump) : NULL;
        if (!*text) r = out_of_memory();
    }
    free(dump);
    json_decref(root);
    return r;
}

rf_result rf_tokenizer_save(const rf_tokenizer *tokenizer, const char *path)
{
    RF_REQUIRE(tokenizer && path, "rf_tokenizer_save: %s is NULL", tokenizer ? "path" : "tokenizer");
    char *text;
    RF_TRY(rf_tokenizer_text(tokenizer, &text));
    const rf_result r = rf_file_write_atomic(path, text, strlen(text));
    rf_free(text);
    return r;
}

/* ---- reading ---- */

static rf_result fail_corrupt(const char *name, const char *wanted)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' is not %s; the file is damaged, copy it again", name, wanted);
}

static rf_result read_flag(const json_t *root, const char *name, bool *out)
{
    const json_t *value = json_object_get(root, name);
    if (!json_is_boolean(value)) return fail_corrupt(name, "true or false");
    *out = json_is_true(value);
    return RF_OK;
}

static rf_result read_list(const json_t *root, const char *name, const json_t **out)
{
    *out = json_object_get(root, name);
    return json_is_array(*out) ? RF_OK : fail_corrupt(name, "a list");
}

static rf_result read_head(const json_t *root, rf_tokenizer_params *p)
{
    const char *format = json_string_value(json_object_get(root, "format"));
    const char *kind = json_string_value(json_object_get(root, "kind"));
    const json_t *version = json_object_get(root, "version");
    if (!format || strcmp(format, file_format) != 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "is no file of a tokenizer ('format' is not \"%s\")", file_format);
    if (!json_is_integer(version) || json_integer_value(version) < 1)
        return fail_corrupt("version", "a number above 0");
    if (json_integer_value(version) > FILE_VERSION)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "is of version %lld; this library reads versions up to %d, update it",
                       (long long)json_integer_value(version), FILE_VERSION);
    uint32_t number = 0;
    while (number < RF_TOKENIZER_KINDS && (!kind || strcmp(kind, kind_names[number]) != 0)) number++;
    if (number == RF_TOKENIZER_KINDS) return fail_corrupt("kind", "a known kind of tokens");
    p->kind = (rf_tokenizer_kind)number;
    RF_TRY(read_flag(root, "keep_case", &p->keep_case));
    return read_flag(root, "keep_punctuation", &p->keep_punctuation);
}

/* The texts stay the JSON's. */
static rf_result read_special(const json_t *root, rf_tokenizer_params *p)
{
    const json_t *list;
    RF_TRY(read_list(root, "special_tokens", &list));
    const size_t count = json_array_size(list);
    if (count > MAX_SPECIAL_TOKENS) return fail_corrupt("special_tokens", "a list of at most 4096 texts");
    const char **texts = RF_NEW_ARRAY(const char *, count);
    if (!texts) return RF_ERROR_OUT_OF_HOST_MEMORY;
    p->special_tokens = texts;
    p->num_special_tokens = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        texts[i] = json_string_value(json_array_get(list, i));
        if (!texts[i] || !texts[i][0]) return fail_corrupt("special_tokens", "a list of texts that are not empty");
        for (size_t k = 0; k < i; k++)
            if (strcmp(texts[k], texts[i]) == 0) return fail_corrupt("special_tokens", "a list of different texts");
    }
    return RF_OK;
}

static rf_result read_byte_list(const json_t *list, char *bytes)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *byte = json_array_get(list, i);
        const json_int_t value = json_integer_value(byte);
        if (!json_is_integer(byte) || value < 0 || value > 255)
            return fail_corrupt("tokens", "a list of texts and of bytes");
        bytes[i] = (char)value;
    }
    return RF_OK;
}

static rf_result add_token(rf_tokenizer *t, const json_t *token)
{
    if (json_is_string(token))
        return rf_tokenizer_add(t, json_string_value(token), json_string_length(token), RF_ERROR_CORRUPT_DATA);
    if (!json_is_array(token)) return fail_corrupt("tokens", "a list of texts and of bytes");
    char *bytes = rf_calloc(json_array_size(token), 1);
    if (!bytes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = read_byte_list(token, bytes);
    if (r == RF_OK) r = rf_tokenizer_add(t, bytes, json_array_size(token), RF_ERROR_CORRUPT_DATA);
    rf_free(bytes);
    return r;
}

static rf_result read_tokens(const json_t *root, rf_tokenizer *t)
{
    const json_t *list;
    RF_TRY(read_list(root, "tokens", &list));
    for (size_t i = 0; i < json_array_size(list); i++) RF_TRY(add_token(t, json_array_get(list, i)));
    return RF_OK;
}

static bool read_token_number(const json_t *pair, size_t place, uint32_t below, uint32_t *out)
{
    const json_t *value = json_array_get(pair, place);
    const json_int_t number = json_integer_value(value);
    *out = (uint32_t)number;
    return json_is_integer(value) && number >= 0 && number < below;
}

static rf_result read_merges(const json_t *root, rf_tokenizer *t)
{
    const json_t *list;
    RF_TRY(rf_tokenizer_add_bytes(t));
    RF_TRY(read_list(root, "merges", &list));
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *pair = json_array_get(list, i);
        uint32_t left, right;
        bool taken;
        if (json_array_size(pair) != 2 || !read_token_number(pair, 0, t->tokens.count, &left) ||
            !read_token_number(pair, 1, t->tokens.count, &right))
            return fail_corrupt("merges", "a list of pairs of tokens that are there already");
        RF_TRY(rf_tokenizer_add_merged(t, left, right, &taken));
        if (!taken) return fail_corrupt("merges", "a list of pairs that become different tokens of at most 128 bytes");
    }
    return RF_OK;
}

static rf_result read_vocabulary(const json_t *root, const rf_tokenizer_params *p, rf_tokenizer **out)
{
    RF_TRY(rf_tokenizer_new(p, out));
    rf_tokenizer *t = *out;
    if (p->kind == RF_TOKENIZER_BYTE_PAIR) {
        RF_TRY(read_merges(root, t));
        for (uint32_t i = 0; i < p->num_special_tokens; i++)
            RF_TRY(rf_tokenizer_add(t, p->special_tokens[i], strlen(p->special_tokens[i]), RF_ERROR_CORRUPT_DATA));
    } else {
        RF_TRY(read_tokens(root, t));
    }
    return rf_tokenizer_finish(t, p, RF_ERROR_CORRUPT_DATA);
}

static rf_result check_sum(json_t *root)
{
    const json_t *stored = json_object_get(root, "crc32c");
    const json_int_t wanted = json_is_integer(stored) ? json_integer_value(stored) : -1;
    if (json_object_del(root, "crc32c") < 0 || wanted < 0) return fail_corrupt("crc32c", "a checksum");
    char *body = dump_json(root);
    if (!body) return out_of_memory();
    const uint32_t crc = rf_crc32c(0, body, strlen(body));
    free(body);
    if (crc == wanted) return RF_OK;
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "its checksum is wrong: the file was changed or damaged, copy it again");
}

static rf_result read_tokenizer(json_t *root, bool check, rf_tokenizer **out)
{
    rf_tokenizer_params p = { 0 };
    rf_result r = read_head(root, &p);
    if (r == RF_OK && check) r = check_sum(root);
    if (r == RF_OK) r = read_special(root, &p);
    if (r == RF_OK) r = read_vocabulary(root, &p, out);
    rf_free((void *)(uintptr_t)p.special_tokens);
    if (r < 0) rf_tokenizer_destroy(out);
    return r;
}

rf_result rf_tokenizer_parse(const char *text, size_t size, bool check, rf_tokenizer **out)
{
    json_error_t error;
    *out = NULL;
    json_t *root;
    RF_WITH_C_NUMBERS(root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error));
    if (!root && json_error_code(&error) == json_error_out_of_memory) return out_of_memory();
    if (!root) {
        rf_error_one_line(error.text);
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "byte %d: %s; the file is damaged, copy it again", error.position,
                       error.text);
    }
    rf_result r;
    if (rf_pipeline_matches(root))
        r = rf_pipeline_read(root, text, size, out);
    else
        r = json_is_object(root) ? read_tokenizer(root, check, out)
                                 : RF_FAIL(RF_ERROR_CORRUPT_DATA, "is no file of a tokenizer");
    json_decref(root);
    return r;
}

/* Saving such a tokenizer writes a tokenizer.json. */
static rf_result load_gguf(const char *path, rf_tokenizer **out)
{
    json_t *root, *settings;
    RF_TRY(rf_gguf_load_tokenizer(path, &root, &settings));
    char *text = dump_json(root);
    rf_result r = text ? rf_pipeline_read(root, text, strlen(text), out) : out_of_memory();
    free(text);
    json_decref(root);
    json_decref(settings);
    return rf_error_context(r, "%s", path);
}

rf_result rf_tokenizer_load(const char *path, rf_tokenizer **out)
{
    RF_REQUIRE(path && out, "rf_tokenizer_load: %s is NULL", path ? "out" : "path");
    *out = NULL;
    if (rf_gguf_matches(path)) return load_gguf(path, out);
    void *text;
    size_t size;
    RF_TRY(rf_file_read(path, 0, &text, &size));
    const rf_result r = rf_tokenizer_parse(text, size, true, out);
    rf_free(text);
    return rf_error_context(r, "%s", path);
}
