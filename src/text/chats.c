/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Lines that language models learn from: chats, prompts with their completions, texts. */
#include <string.h>

#include "base/memory.h"
#include "base/numbers.h"
#include "base/params.h"
#include "base/philox.h"
#include "text/chats.h"
#include "text/jsonl.h"

enum { DEFAULT_TOKENS = 1024, MOST_TOKENS = 1 << 28, MOST_MESSAGES = 65536 };

typedef struct chats_plan {
    rf_chat_render_fn render;
    void *user;
    const rf_tokenizer *tokenizer;
    int32_t end; /* token; -1: none */
} chats_plan;

rf_result rf_chat_json_parse(const char *text, size_t size, const char *what, json_t **out)
{
    json_error_t error;
    json_t *root;
    *out = NULL;
    RF_WITH_C_NUMBERS(root = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error));
    if (!root) rf_error_one_line(error.text);
    const bool is = json_is_object(root);
    if (is) *out = root;
    if (root && !is) json_decref(root);
    if (is) return RF_OK;
    return root ? RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s is no JSON object", what)
                : RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: byte %d: %s", what, error.position, error.text);
}

/* ---- tokens ---- */

/* Labels lag one behind: that of a token is the one that follows it. */
struct rf_chat_tokens {
    int32_t *tokens, *labels;
    uint64_t count, room;
};

rf_result rf_chat_tokens_append(rf_chat_tokens *out, const int32_t *tokens, uint64_t count, bool trained)
{
    RF_REQUIRE(out, "rf_chat_tokens_append: out is NULL");
    RF_REQUIRE(tokens || count == 0, "rf_chat_tokens_append: tokens is NULL");
    for (uint64_t i = 0; i < count; i++) {
        RF_REQUIRE(tokens[i] >= 0, "rf_chat_tokens_append: token %llu is %d", (unsigned long long)i, tokens[i]);
        if (out->count > 0 && out->count <= out->room)
            out->labels[out->count - 1] = trained ? tokens[i] : RF_IGNORED_LABEL;
        if (out->count < out->room) out->tokens[out->count] = tokens[i];
        if (out->count > out->room) break; /* nothing more is kept */
        out->count++;
    }
    return RF_OK;
}

bool rf_chat_tokens_full(const rf_chat_tokens *out)
{
    return out->count > out->room;
}

static rf_result append_text(const chats_plan *p, const json_t *text, bool continues, bool trained, rf_chat_tokens *to)
{
    rf_array tokens = { 0 };
    rf_result r = rf_jsonl_encode(p->tokenizer, text, continues, &tokens);
    if (r == RF_OK) r = rf_chat_tokens_append(to, tokens.data, (uint64_t)tokens.shape.dim[0], trained);
    rf_array_free(&tokens);
    return r;
}

/* ---- messages ---- */

/* A content may be in parts, as of models that see images: those of text are joined. */
static rf_result join_parts(rf_arena *arena, const json_t *parts, rf_chat_message *out)
{
    size_t at = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!type || strcmp(type, "text") != 0 || !json_is_string(text))
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "part %zu of its content is no text", i);
        out->content_size += json_string_length(text);
    }
    char *joined = rf_arena_alloc(arena, out->content_size + 1);
    if (!joined) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *text = json_object_get(json_array_get(parts, i), "text");
        memcpy(joined + at, json_string_value(text), json_string_length(text));
        at += json_string_length(text);
    }
    out->content = joined;
    return RF_OK;
}

static rf_result read_message(rf_arena *arena, const json_t *message, rf_chat_message *out)
{
    const json_t *content = json_object_get(message, "content");
    out->role = json_string_value(json_object_get(message, "role"));
    if (!out->role) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "it is no object with a \"role\"");
    if (json_is_array(content)) return join_parts(arena, content, out);
    if (content && !json_is_null(content) && !json_is_string(content))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "its \"content\" is no text");
    out->content = json_is_string(content) ? json_string_value(content) : "";
    out->content_size = json_is_string(content) ? json_string_length(content) : 0;
    return RF_OK;
}

static rf_result render_chat(const chats_plan *p, const json_t *messages, rf_chat *chat, rf_chat_tokens *to)
{
    rf_arena arena = { 0 };
    const size_t count = json_array_size(messages);
    if (count == 0 || count > MOST_MESSAGES)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'messages' is no list of 1 to %d messages", (int)MOST_MESSAGES);
    rf_chat_message *list;
    rf_result r = RF_ARENA_ARRAY(&arena, list, count);
    for (size_t i = 0; r == RF_OK && i < count; i++)
        r = rf_error_context(read_message(&arena, json_array_get(messages, i), &list[i]), "message %zu", i);
    chat->messages = list;
    chat->num_messages = (uint32_t)count;
    if (r == RF_OK) {
        const uint64_t before = rf_error_count();
        r = rf_error_of_user(p->render(p->user, chat, to), before, "the function of chats");
    }
    rf_arena_free(&arena);
    return r;
}

/* ---- an object ---- */

static rf_result decode_text(const chats_plan *p, const json_t *object, rf_chat_tokens *to)
{
    const json_t *prompt = json_object_get(object, "prompt"), *completion = json_object_get(object, "completion");
    const json_t *text = json_object_get(object, "text");
    const bool pair = json_is_string(prompt) && json_is_string(completion);
    if (!pair && !json_is_string(text))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                       "it has neither 'messages' nor texts 'prompt' and 'completion' or 'text'");
    if (!p->tokenizer) return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "it has texts; set the tokenizer of rf_chats_params");
    if (pair) RF_TRY(append_text(p, prompt, false, false, to));
    RF_TRY(append_text(p, pair ? completion : text, pair, true, to));
    return p->end >= 0 ? rf_chat_tokens_append(to, &p->end, 1, true) : RF_OK;
}

static bool trains_any(const int32_t *labels, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (labels[i] != RF_IGNORED_LABEL) return true;
    return false;
}

static rf_result decode_chat(const void *plan, const json_t *object, const char *text, size_t size, rf_element *out,
                             bool *cut)
{
    const chats_plan *p = plan;
    rf_array *tokens = &out->component[0], *labels = &out->component[1];
    rf_chat_tokens to = { tokens->data, labels->data, 0, (uint64_t)tokens->shape.dim[0] };
    const json_t *messages = json_object_get(object, "messages");
    if (messages && !p->render)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "it has 'messages'; set the function render of rf_chats_params");
    rf_chat chat = { .json = text, .json_size = size };
    RF_TRY(messages ? render_chat(p, messages, &chat, &to) : decode_text(p, object, &to));
    if (to.count == 0) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "it makes no tokens");
    const uint64_t count = to.count < to.room ? to.count : to.room;
    *cut = to.count > to.room;
    if (*cut && !trains_any(to.labels, count))
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "nothing of its first %llu tokens is to be learned; raise max_tokens of rf_chats_params, or "
                       "leave such chats out with rf_dataset_ignore_errors()",
                       (unsigned long long)count);
    if (!*cut) to.labels[to.count - 1] = RF_IGNORED_LABEL; /* nothing follows */
    tokens->shape.dim[0] = labels->shape.dim[0] = (int64_t)count;
    return RF_OK;
}

/* ---- creation ---- */

static rf_result make_plan(const rf_chats_params *params, chats_plan *plan)
{
    RF_REQUIRE(params->render || params->tokenizer, "rf_dataset_from_chats: give a function render for chats, a "
                                                    "tokenizer for texts, or both");
    RF_REQUIRE(params->max_tokens <= MOST_TOKENS, "rf_dataset_from_chats: max_tokens is %u, at most %d",
               params->max_tokens, (int)MOST_TOKENS);
    *plan = (chats_plan){ params->render, params->user, params->tokenizer, -1 };
    if (!params->end_token) return RF_OK;
    RF_REQUIRE(params->tokenizer, "rf_dataset_from_chats: end_token is set, but no tokenizer");
    plan->end = rf_tokenizer_id(params->tokenizer, params->end_token);
    RF_REQUIRE(plan->end >= 0, "rf_dataset_from_chats: the tokenizer has no token '%s' to end texts",
               params->end_token);
    return RF_OK;
}

rf_result rf_dataset_from_chats(const rf_chats_params *params, rf_dataset **out)
{
    static const rf_jsonl_format format = { "rf_dataset_from_chats", decode_chat, rf_free };
    RF_REQUIRE(out, "rf_dataset_from_chats: out is NULL");
    *out = NULL;
    RF_REQUIRE(params, "rf_dataset_from_chats: params is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_chats_params, params));
    chats_plan made;
    RF_TRY(make_plan(params, &made));
    chats_plan *plan = RF_NEW(chats_plan);
    if (!plan) return RF_ERROR_OUT_OF_HOST_MEMORY;
    *plan = made;
    const int64_t most = params->max_tokens ? params->max_tokens : DEFAULT_TOKENS;
    const rf_element_spec spec = { .num_components = 2,
                                   .dtype = { RF_I32, RF_I32 },
                                   .shape = { RF_SHAPE(most), RF_SHAPE(most) } };
    const rf_jsonl_files files = { params->paths, params->num_paths, params->max_bytes };
    return rf_jsonl_dataset(&format, plan, &spec, &files, rf_hash64((uint64_t)made.end + 1, made.render != NULL), out);
}
