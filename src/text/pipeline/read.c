/* SPDX-License-Identifier: Apache-2.0 */
/* A tokenizer.json becomes a tokenizer: first the vocabulary with the added tokens, then all that refers to it. */
#include <string.h>

#include "text/pipeline/pipeline.h"

/* Looking for tokens takes a time in proportion to the longest one. */
enum { MOST_TOKEN_BYTES = 1024 };

/* A token's text by its number. */
typedef struct numbered {
    const char *bytes;
    size_t size;
    bool in_model;
} numbered;
typedef struct vocabulary {
    numbered *items;
    size_t count, room;
} vocabulary;

bool rf_pipeline_matches(const json_t *root)
{
    return json_is_object(json_object_get(root, "model")) && !json_object_get(root, "format");
}

/* ---- the vocabulary ---- */

static rf_result put_token(vocabulary *v, size_t id, const char *bytes, size_t size, bool in_model)
{
    numbered *place = id < v->room ? &v->items[id] : NULL;
    if (!place)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a token has number %zu, but there are %zu tokens at most", id, v->room);
    if (place->bytes && (place->size != size || memcmp(place->bytes, bytes, size) != 0))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "two tokens have the number %zu", id);
    place->bytes = bytes;
    place->size = size;
    place->in_model |= in_model;
    if (id >= v->count) v->count = id + 1;
    return RF_OK;
}

static rf_result put_members(vocabulary *v, const json_t *object)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        const json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || id > INT32_MAX)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a value is no number from 0 to 2147483647");
        RF_TRY(put_token(v, (size_t)id, name, strlen(name), true));
    }
    return RF_OK;
}

static rf_result put_list(vocabulary *v, const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *text = json_array_get(json_array_get(list, i), 0);
        if (!json_is_string(text)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "[%zu] is no text and a score", i);
        RF_TRY(put_token(v, i, json_string_value(text), json_string_length(text), true));
    }
    return RF_OK;
}

static rf_result put_vocabulary(vocabulary *v, const rf_pipeline *p, const json_t *list)
{
    const bool scored = p->model.type->encode == rf_unigram_encode;
    if (scored ? !json_is_array(list) : !json_is_object(list))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "is no %s", scored ? "list of texts and scores" : "object");
    return scored ? put_list(v, list) : put_members(v, list);
}

static rf_result add_tokens(rf_tokenizer *t, const vocabulary *v)
{
    rf_pipeline *p = t->pipeline;
    RF_TRY(RF_ARENA_ARRAY(&p->arena, p->outside, v->count));
    t->special = RF_NEW_ARRAY(bool, v->count);
    if (!t->special) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < v->count; i++) {
        const numbered *token = &v->items[i];
        if (!token->bytes)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "no token has the number %zu, but there are higher ones", i);
        RF_TRY(rf_tokenizer_add(t, token->bytes, token->size, RF_ERROR_CORRUPT_DATA));
        if (token->size > MOST_TOKEN_BYTES)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "token %zu has %zu bytes; the most are %d", i, token->size,
                           MOST_TOKEN_BYTES);
        if (token->size > t->longest) t->longest = (uint32_t)token->size;
        p->outside[i] = !token->in_model;
    }
    for (uint32_t i = 0; i < p->added.count; i++) t->special[p->added.items[i].id] |= p->added.items[i].special;
    return RF_OK;
}

static rf_result read_vocabulary(rf_tokenizer *t, const json_t *model)
{
    rf_pipeline *p = t->pipeline;
    const json_t *list = json_object_get(model, "vocab");
    vocabulary v = { .room = json_object_size(list) + json_array_size(list) + p->added.count };
    v.items = RF_NEW_ARRAY(numbered, v.room);
    if (!v.items) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = rf_error_context(put_vocabulary(&v, p, list), "model: vocab");
    for (uint32_t i = 0; i < p->added.count && r == RF_OK; i++) {
        const rf_added_token *token = &p->added.items[i];
        r = rf_error_context(put_token(&v, token->id, token->content.bytes, token->content.size, false),
                             "added_tokens[%u]", i);
    }
    if (r == RF_OK && v.count == 0) r = RF_FAIL(RF_ERROR_CORRUPT_DATA, "model: vocab is empty");
    if (r == RF_OK) r = add_tokens(t, &v);
    rf_free(v.items);
    return r;
}

/* ---- the file ---- */

static const rf_field file_fields[] = {
    { .name = "version", .kind = RF_FIELD_OTHER },
    { .name = "truncation", .kind = RF_FIELD_OTHER },
    { .name = "padding", .kind = RF_FIELD_OTHER }, /* callers pad: rf_tokenizer_encode_padded() */
    { .name = "added_tokens", .kind = RF_FIELD_OTHER },
    { .name = "normalizer", .kind = RF_FIELD_OTHER },
    { .name = "pre_tokenizer", .kind = RF_FIELD_OTHER },
    { .name = "post_processor", .kind = RF_FIELD_OTHER },
    { .name = "decoder", .kind = RF_FIELD_OTHER },
    { .name = "model", .kind = RF_FIELD_OTHER },
    { 0 },
};

static rf_result read_version(const json_t *root)
{
    const char *version = json_string_value(json_object_get(root, "version"));
    if (!version) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "version is no text");
    if (strcmp(version, "1.0") == 0) return RF_OK;
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "its version is not \"1.0\"");
}

static rf_result read_parts(const json_t *root, rf_tokenizer *t)
{
    rf_pipeline *p = t->pipeline;
    const json_t *model = json_object_get(root, "model");
    RF_TRY(rf_fields_read(&p->arena, root, file_fields, p));
    RF_TRY(read_version(root));
    RF_TRY(rf_error_context(rf_token_model_find(model, &p->model.type), "model"));
    RF_TRY(rf_added_tokens_read(&p->arena, json_object_get(root, "added_tokens"), &p->added));
    RF_TRY(read_vocabulary(t, model));
    RF_TRY(rf_error_context(rf_token_model_read(t, model), "model"));
    RF_TRY(rf_steps_read(&p->arena, &rf_normalizer_role, json_object_get(root, "normalizer"), &p->normalizers));
    RF_TRY(
        rf_steps_read(&p->arena, &rf_pre_tokenizer_role, json_object_get(root, "pre_tokenizer"), &p->pre_tokenizers));
    RF_TRY(rf_steps_read(&p->arena, &rf_decoder_role, json_object_get(root, "decoder"), &p->decoders));
    RF_TRY(rf_templates_read(t, json_object_get(root, "post_processor")));
    RF_TRY(rf_truncation_read(p, json_object_get(root, "truncation")));
    return rf_added_tokens_finish(t);
}

rf_result rf_pipeline_read(const json_t *root, const char *text, size_t size, rf_tokenizer **out)
{
    RF_TRY(rf_tokenizer_new(&(rf_tokenizer_params){ .kind = RF_TOKENIZER_PIPELINE }, out));
    rf_pipeline *p = (*out)->pipeline = RF_NEW(rf_pipeline);
    rf_result r = p ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r == RF_OK) r = read_parts(root, *out);
    if (r == RF_OK) {
        p->source = rf_calloc(size + 1, 1);
        r = p->source ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (r == RF_OK) {
        memcpy(p->source, text, size);
        p->source_size = size;
        (*out)->unknown = p->model.unknown == RF_TABLE_NONE ? -1 : (int32_t)p->model.unknown;
    }
    if (r < 0) rf_tokenizer_destroy(out);
    return r;
}
