/* SPDX-License-Identifier: Apache-2.0 */
/* Chats as text and tokens, as the template of a model writes them. */
#include "text/chat_template.h"

#include <string.h>

#include "base/memory.h"
#include "base/params.h"
#include "base/utf8.h"
#include "text/chats.h"
#include "text/jinja/jinja.h"

struct rf_chat_template {
    rf_jinja_template parsed;
    size_t size; /* of its text */
    const rf_tokenizer *tokenizer;
    json_t *variables; /* an object */
};

/* ---- lifetime ---- */

rf_result rf_chat_template_make(const char *text, size_t size, const rf_tokenizer *tokenizer, json_t *variables,
                                rf_chat_template **out)
{
    rf_chat_template *t = RF_NEW(rf_chat_template);
    if (!t) return RF_ERROR_OUT_OF_HOST_MEMORY;
    t->tokenizer = tokenizer;
    t->variables = json_incref(variables);
    t->size = size;
    const rf_result r = rf_jinja_parse(text, size, &t->parsed);
    if (r < 0)
        rf_chat_template_destroy(&t);
    else
        *out = t;
    return r;
}

rf_result rf_chat_template_create(const rf_chat_template_params *params, rf_chat_template **out)
{
    json_t *variables = NULL;
    RF_REQUIRE(out, "rf_chat_template_create: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_chat_template_params, params));
    RF_REQUIRE(params && params->text, "rf_chat_template_create: %s is NULL", params ? "text" : "params");
    RF_REQUIRE(!params->tokenizer || rf_tokenizer_get_kind(params->tokenizer) == RF_TOKENIZER_PIPELINE,
               "rf_chat_template_create: the tokenizer is no tokenizer.json");
    if (params->variables)
        RF_TRY(rf_chat_json_parse(params->variables, strlen(params->variables), "rf_chat_template_create: variables",
                                  &variables));
    const rf_result r = rf_chat_template_make(params->text, params->size, params->tokenizer, variables, out);
    json_decref(variables);
    return rf_error_context(r, "rf_chat_template_create");
}

void rf_chat_template_destroy(rf_chat_template **chat_template)
{
    if (!chat_template || !*chat_template) return;
    rf_chat_template *t = *chat_template;
    *chat_template = NULL;
    rf_jinja_clear(&t->parsed);
    json_decref(t->variables);
    rf_free(t);
}

/* ---- a chat as values ---- */

/* A chat to be written several times: up to message `count`. */
typedef struct writing {
    const rf_chat_template *t;
    const rf_chat *chat;
    json_t *root, *variables; /* rf_chat::json, and those of the call; may be NULL */
    uint32_t count;
    bool prompt; /* with what comes before an answer */
} writing;

static rf_result add_members(rf_jinja_run *run, const json_t *object, rf_jinja_dict *out)
{
    rf_jinja_value all;
    if (!object) return RF_OK;
    RF_TRY(rf_jinja_from_json(run, object, &all));
    for (uint32_t i = 0; i < all.is.dict->count; i++) {
        const rf_jinja_entry *e = &all.is.dict->entries[i];
        RF_TRY(rf_jinja_dict_set(run, out, e->name, e->size, e->value));
    }
    return RF_OK;
}

static rf_result set_member(rf_jinja_run *run, rf_jinja_dict *dict, const char *name, rf_jinja_value value)
{
    return rf_jinja_dict_set(run, dict, name, strlen(name), value);
}

/* A message with all its members; a content in parts is the text of all. */
static rf_result make_message(rf_jinja_run *run, const rf_chat_message *m, const json_t *json, rf_jinja_value *out)
{
    if (json)
        RF_TRY(rf_jinja_from_json(run, json, out));
    else
        RF_TRY(rf_jinja_dict_new(run, 2, out));
    if (!json) RF_TRY(set_member(run, out->is.dict, "role", rf_jinja_string(m->role, strlen(m->role))));
    if (json && !json_is_array(json_object_get(json, "content"))) return RF_OK;
    return set_member(run, out->is.dict, "content", rf_jinja_string(m->content, m->content_size));
}

static rf_result make_messages(rf_jinja_run *run, const writing *w, rf_jinja_value *out)
{
    const json_t *list = json_object_get(w->root, "messages");
    rf_jinja_value message;
    RF_TRY(rf_jinja_list_new(run, w->count, out));
    for (uint32_t i = 0; i < w->count; i++) {
        const json_t *json = json_array_get(list, i);
        RF_TRY(make_message(run, &w->chat->messages[i], json_is_object(json) ? json : NULL, &message));
        RF_TRY(rf_jinja_list_add(run, out->is.list, message));
    }
    return RF_OK;
}

static rf_result make_globals(rf_jinja_run *run, const writing *w, rf_jinja_dict **out)
{
    static const char *const members[] = { "tools", "documents" };
    rf_jinja_value globals, value;
    RF_TRY(rf_jinja_dict_new(run, 16, &globals));
    rf_jinja_dict *dict = *out = globals.is.dict;
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const json_t *member = json_object_get(w->root, members[i]);
        value = rf_jinja_none();
        if (member) RF_TRY(rf_jinja_from_json(run, member, &value));
        RF_TRY(set_member(run, dict, members[i], value));
    }
    RF_TRY(add_members(run, w->t->variables, dict));
    RF_TRY(add_members(run, w->variables, dict));
    RF_TRY(set_member(run, dict, "add_generation_prompt", rf_jinja_bool(w->prompt)));
    RF_TRY(make_messages(run, w, &value));
    return set_member(run, dict, "messages", value);
}

static rf_result write_chat(const writing *w, rf_jinja_result *out)
{
    rf_jinja_run run;
    rf_jinja_dict *globals;
    size_t size = w->t->size + w->chat->json_size;
    for (uint32_t i = 0; i < w->count; i++) size += w->chat->messages[i].content_size + 64;
    *out = (rf_jinja_result){ 0 };
    rf_jinja_begin(&run, size);
    rf_result r = make_globals(&run, w, &globals);
    if (r >= 0) r = rf_jinja_render(&w->t->parsed, &run, globals, out);
    rf_jinja_end(&run);
    return rf_error_context(r, "the chat template");
}

static rf_result writing_begin(const rf_chat_template *t, const rf_chat *chat, const rf_chat_apply_params *params,
                               const char *function, writing *w)
{
    *w = (writing){ .t = t, .chat = chat };
    RF_REQUIRE(t && chat && (chat->messages || chat->num_messages == 0), "%s: %s is NULL", function,
               !t     ? "chat_template"
               : chat ? "messages"
                      : "chat");
    RF_TRY(RF_PARAMS_CHECK(rf_chat, chat));
    for (uint32_t i = 0; i < chat->num_messages; i++) {
        const rf_chat_message *m = &chat->messages[i];
        RF_REQUIRE(m->role && m->content && rf_utf8_valid(m->role, strlen(m->role)) &&
                       rf_utf8_valid(m->content, m->content_size),
                   "%s: role or content of message %u is no UTF-8", function, i);
    }
    w->count = chat->num_messages;
    w->prompt = params && params->add_generation_prompt;
    rf_result r = RF_OK;
    if (chat->json) r = rf_chat_json_parse(chat->json, chat->json_size, "json of the chat", &w->root);
    if (r >= 0 && params && params->variables)
        r = rf_chat_json_parse(params->variables, strlen(params->variables), "variables", &w->variables);
    return rf_error_context(r, "%s", function);
}

static void writing_end(writing *w)
{
    json_decref(w->root);
    json_decref(w->variables);
}

rf_result rf_chat_template_apply(const rf_chat_template *chat_template, const rf_chat *chat,
                                 const rf_chat_apply_params *params, char **text, size_t *size)
{
    writing w;
    rf_jinja_result made = { 0 };
    RF_REQUIRE(text, "rf_chat_template_apply: text is NULL");
    *text = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_chat_apply_params, params));
    rf_result r = writing_begin(chat_template, chat, params, "rf_chat_template_apply", &w);
    if (r >= 0) r = write_chat(&w, &made);
    if (r >= 0 && !(*text = rf_calloc(made.text.size + 1, 1))) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0 && made.text.size) memcpy(*text, made.text.bytes, made.text.size);
    if (r >= 0 && size) *size = made.text.size;
    rf_jinja_result_free(&made);
    writing_end(&w);
    return r;
}

/* ---- tokens ---- */

static rf_result encode_text(const rf_chat_template *t, const char *text, size_t size, rf_array *out)
{
    const rf_tokenizer_encode_params params = { .no_special_tokens = true };
    return rf_tokenizer_encode_with(t->tokenizer, size ? text : "", size, &params, out, NULL);
}

rf_result rf_chat_template_encode(const rf_chat_template *chat_template, const rf_chat *chat,
                                  const rf_chat_apply_params *params, rf_array *out)
{
    char *text = NULL;
    size_t size = 0;
    RF_REQUIRE(out, "rf_chat_template_encode: out is NULL");
    *out = (rf_array){ 0 };
    RF_REQUIRE(chat_template, "rf_chat_template_encode: chat_template is NULL");
    RF_TRY(
        rf_error_context(rf_chat_template_apply(chat_template, chat, params, &text, &size), "rf_chat_template_encode"));
    const rf_result r = chat_template->tokenizer ? encode_text(chat_template, text, size, out)
                                                 : RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                                                           "rf_chat_template_encode: the template has no tokenizer");
    rf_string_free(text);
    return r;
}

/* ---- what is learned of a chat ---- */

static size_t common_bytes(const rf_text_bytes *a, const rf_text_bytes *b)
{
    const size_t most = a->size < b->size ? a->size : b->size;
    size_t at = 0;
    while (at < most && a->bytes[at] == b->bytes[at]) at++;
    return at;
}

static bool is_white(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* A content without the white space around it. */
static rf_text_bytes trim_content(const rf_chat_message *m)
{
    size_t begin = 0, end = m->content_size;
    while (end > 0 && is_white(m->content[end - 1])) end--;
    while (begin < end && is_white(m->content[begin])) begin++;
    return (rf_text_bytes){ .bytes = (char *)(uintptr_t)m->content + begin, .size = end - begin };
}

/* Behind a text where it comes for the first time from `from` on, or for the last time; 0: it does not, or is empty. */
static size_t find_behind(const rf_text_bytes *in, size_t from, const rf_text_bytes *part, bool last)
{
    size_t end = 0;
    while (part->size > 0 && in->size > from) {
        const char *at = memmem(in->bytes + from, in->size - from, part->bytes, part->size);
        if (!at) break;
        end = from = (size_t)(at - in->bytes) + part->size;
        if (!last) break;
    }
    return end;
}

/* Where an answer ends in `whole` that begins at `begin`, if the template writes it there as in `alone`, in which it
 * is the last message: behind its content and what then follows in both. 0: it does not. */
static size_t find_content_end(const rf_text_bytes *whole, const rf_text_bytes *alone, size_t begin,
                               const rf_chat_message *m)
{
    const rf_text_bytes content = trim_content(m);
    const size_t end = find_behind(whole, begin, &content, false), last = find_behind(alone, 0, &content, true);
    if (end == 0 || last == 0) return 0;
    const rf_text_bytes tails[2] = { { .bytes = whole->bytes + end, .size = whole->size - end },
                                     { .bytes = alone->bytes + last, .size = alone->size - last } };
    return end + common_bytes(&tails[0], &tails[1]);
}

static rf_result fail_anew(uint32_t answer)
{
    return RF_FAIL(RF_ERROR_UNSUPPORTED,
                   "the chat template writes what is before message %u, an answer, otherwise once messages follow; "
                   "mark with its tag 'generation' what is learned",
                   answer);
}

/* The part of `whole` that message `i` is, an answer: from the end of the prompt before it on. */
static rf_result find_answer(writing *w, const rf_text_bytes *whole, uint32_t i, rf_jinja_span *out)
{
    rf_jinja_result before = { 0 }, with = { 0 };
    const rf_chat_message *m = &w->chat->messages[i];
    w->count = i;
    w->prompt = true;
    rf_result r = write_chat(w, &before);
    w->count = i + 1;
    w->prompt = false;
    if (r >= 0) r = write_chat(w, &with);
    if (r >= 0) {
        const rf_text_bytes question = i > 0 ? trim_content(m - 1) : (rf_text_bytes){ 0 };
        const size_t shared = common_bytes(&with.text, whole);
        out->begin = common_bytes(&before.text, whole);
        out->end = shared == with.text.size ? shared : find_content_end(whole, &with.text, out->begin, m);
        if (find_behind(&before.text, 0, &question, true) > out->begin || out->end <= out->begin) r = fail_anew(i);
    }
    rf_jinja_result_free(&before);
    rf_jinja_result_free(&with);
    return r;
}

/* The text of a chat and its tokens, up to those that were appended. */
typedef struct tokens_of_chat {
    const rf_chat_template *t;
    const rf_text_bytes *text;
    rf_array all;
    uint64_t appended;
    size_t reached; /* in the text */
    rf_chat_tokens *out;
} tokens_of_chat;

/* Appends the tokens up to a place of the text: those that the text up to there begins with when it is alone. */
static rf_result append_to(tokens_of_chat *c, size_t place, bool trained)
{
    rf_array before = { 0 };
    const int32_t *tokens = c->all.data;
    uint64_t end = c->appended, most;
    if (place < c->text->size) RF_TRY(encode_text(c->t, c->text->bytes, place, &before));
    const int32_t *alone = place < c->text->size ? before.data : tokens;
    most = (uint64_t)(place < c->text->size ? before.shape.dim[0] : c->all.shape.dim[0]);
    if (most > (uint64_t)c->all.shape.dim[0]) most = (uint64_t)c->all.shape.dim[0];
    for (uint64_t i = 0; i < end && i < most; i++)
        if (alone[i] != tokens[i]) most = i;
    while (end < most && alone[end] == tokens[end]) end++;
    rf_array_free(&before);
    c->reached = place;
    if (end == c->appended) return RF_OK;
    RF_TRY(rf_chat_tokens_append(c->out, tokens + c->appended, end - c->appended, trained));
    c->appended = end;
    return RF_OK;
}

static rf_result append_answer(tokens_of_chat *c, rf_jinja_span span)
{
    RF_TRY(append_to(c, span.begin, false));
    return append_to(c, span.end, true);
}

static rf_result append_chat(writing *w, const rf_jinja_result *whole, tokens_of_chat *c)
{
    rf_jinja_span span;
    const uint32_t count = w->count;
    for (uint32_t i = 0; i < whole->spans.count && !rf_chat_tokens_full(c->out); i++)
        RF_TRY(append_answer(c, whole->spans.items[i]));
    for (uint32_t i = 0; !w->t->parsed.marks && i < count && !rf_chat_tokens_full(c->out); i++) {
        if (strcmp(w->chat->messages[i].role, "assistant") != 0) continue;
        RF_TRY(find_answer(w, &whole->text, i, &span));
        if (span.begin < c->reached) return fail_anew(i);
        RF_TRY(append_answer(c, span));
    }
    return append_to(c, whole->text.size, false);
}

rf_result rf_chat_template_render(void *chat_template, const rf_chat *chat, rf_chat_tokens *out)
{
    const rf_chat_template *t = chat_template;
    writing w;
    rf_jinja_result whole = { 0 };
    RF_REQUIRE(t && out, "rf_chat_template_render: %s is NULL", t ? "out" : "chat_template");
    tokens_of_chat c = { .t = t, .text = &whole.text, .out = out };
    rf_result r = writing_begin(t, chat, NULL, "rf_chat_template_render", &w);
    if (r >= 0 && !t->tokenizer)
        r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_chat_template_render: the template has no tokenizer");
    if (r >= 0) r = write_chat(&w, &whole);
    if (r >= 0) r = encode_text(t, whole.text.bytes, whole.text.size, &c.all);
    if (r >= 0) r = append_chat(&w, &whole, &c);
    rf_array_free(&c.all);
    rf_jinja_result_free(&whole);
    writing_end(&w);
    return r;
}
