/* SPDX-License-Identifier: Apache-2.0 */
/* Chat templates: what a model learns of a chat, the files of a directory, errors, and templates that never end. That
 * texts are right is compared with Jinja itself (check_templates.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringfire/text.h>

#include "../support/expect.h"
#include "../support/folder.h"
#include "../support/try.h"
#include "tests/room.h"

static char folder[SCRATCH_PATH], path[64];

static const char *in(const char *name)
{
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void set_up(void)
{
    scratch(folder);
}

static void tear_down(void)
{
    scratch_remove(folder);
}

/* Each character is a token, and so are "<s>", "</s>" and "<|>". */
static rf_tokenizer *characters(void)
{
    static const char *const special[] = { "<s>", "</s>", "<|>" };
    char text[8192];
    size_t at = 0;
    rf_tokenizer *t;
#define PUT(...) at += (size_t)snprintf(text + at, sizeof(text) - at, __VA_ARGS__)
    PUT("{\"version\":\"1.0\",\"added_tokens\":[");
    for (int i = 0; i < 3; i++)
        PUT("%s{\"id\":%d,\"content\":\"%s\",\"special\":true}", i ? "," : "", 96 + i, special[i]);
    PUT("],\"model\":{\"type\":\"BPE\",\"vocab\":{\"\\n\":0");
    for (int c = ' '; c <= '~'; c++) PUT(",\"%s%c\":%d", c == '"' || c == '\\' ? "\\" : "", c, c - ' ' + 1);
    PUT("},\"merges\":[]}}");
#undef PUT
    scratch_write(in("tokenizer.json"), text);
    OK(rf_tokenizer_load(in("tokenizer.json"), &t));
    return t;
}

static rf_chat_template *make(const char *text, const rf_tokenizer *tokenizer)
{
    rf_chat_template *t;
    const rf_chat_template_params params = { .text = text,
                                             .size = strlen(text),
                                             .tokenizer = tokenizer,
                                             .variables = "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}" };
    OK(rf_chat_template_create(&params, &t));
    return t;
}

/* ---- what is learned ---- */

/* The text of an element's tokens; what is learned stands in brackets. */
static void show(const rf_tokenizer *tokenizer, const rf_element *e, char *out, size_t room)
{
    const int32_t *tokens = e->component[0].data, *labels = e->component[1].data;
    const int64_t count = e->component[0].shape.dim[0];
    size_t at = 0;
    bool before = false;
    for (int64_t i = 0; i < count; i++) {
        const bool learned = i > 0 && labels[i - 1] != RF_IGNORED_LABEL;
        if (learned) assert_int_equal(labels[i - 1], tokens[i]);
        at += (size_t)snprintf(out + at, room - at, "%s%s%s", before && !learned ? "]" : "",
                               learned && !before ? "[" : "", rf_tokenizer_token(tokenizer, tokens[i], NULL));
        before = learned;
    }
    snprintf(out + at, room - at, "%s", before ? "]" : "");
}

static rf_result learn(rf_chat_template *t, const rf_tokenizer *tokenizer, const char *line, uint32_t most, char *out,
                       size_t room)
{
    rf_dataset *d;
    rf_iterator *it;
    const rf_element *e;
    scratch_write(in("chats.jsonl"), line);
    const char *file = in("chats.jsonl");
    OK(rf_dataset_from_chats(
        &(rf_chats_params){
            .paths = &file, .num_paths = 1, .render = rf_chat_template_render, .user = t, .max_tokens = most },
        &d));
    OK(rf_iterator_create(d, 0, &it));
    const rf_result r = rf_iterator_next(it, &e);
    if (r == RF_OK) show(tokenizer, e, out, room);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    return r;
}

#define TURN(role, content) "{\"role\": \"" role "\", \"content\": \"" content "\"}"
#define CHAT(turns) "{\"messages\": [" turns "]}\n"
#define FOUR CHAT(TURN("user", "u") ", " TURN("assistant", " a ") ", " TURN("user", "v") ", " TURN("assistant", "b"))

static const char chat_ml[] = "{% for m in messages %}{{ '<|>' + m.role + ':' + m.content + '</s>' }}{% endfor %}"
                              "{% if add_generation_prompt %}<|>assistant:{% endif %}";

static const struct {
    const char *text, *chat;
    uint32_t most;
    const char *shown;
} learned[] = {
    { chat_ml, FOUR, 0, "<|>user:u</s><|>assistant:[ a </s>]<|>user:v</s><|>assistant:[b</s>]" },
    { chat_ml, FOUR, 30, "<|>user:u</s><|>assistant:[ a </s>]<|>user:v" },
    { chat_ml, CHAT(TURN("user", "u")), 0, "<|>user:u</s>" },
    { chat_ml, CHAT(TURN("assistant", "a")), 0, "<|>assistant:[a</s>]" },
    /* No prompt of an answer, and contents without the white space around them. */
    { "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token + 'Q ' + m.content + ' A' }}{% else %}"
      "{{ ' ' + m.content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}",
      FOUR, 0, "<s>Q u A[ a </s>]<s>Q v A[ b </s>]" },
    /* The last answer is written otherwise, as that of a model that thinks. */
    { "{% for m in messages %}<|>{{ m.role }}:{% if m.role != 'user' and loop.last %}<think></think>{% endif %}"
      "{{ m.content.strip() }}</s>{% endfor %}{% if add_generation_prompt %}<|>assistant:{% endif %}",
      FOUR, 0, "<|>user:u</s><|>assistant:[a</s>]<|>user:v</s><|>assistant:[<think></think>b</s>]" },
    /* Something stands behind all. */
    { "{% for m in messages %}{{ m.content }}{% endfor %}{% if not add_generation_prompt %}</s>{% endif %}", FOUR, 0,
      "u[ a ]v[b</s>]" },
    /* A tag marks what is learned. */
    { "{% for m in messages %}{{ m.role }}{% generation %}{{ m.content }}{% endgeneration %}{% endfor %}", FOUR, 0,
      "user[u]assistant[ a ]user[v]assistant[b]" },
};

TEST(answers)
{
    set_up();
    rf_tokenizer *tokenizer = characters();
    for (size_t i = 0; i < sizeof(learned) / sizeof(learned[0]); i++) {
        char shown[512];
        rf_chat_template *t = make(learned[i].text, tokenizer);
        OK(learn(t, tokenizer, learned[i].chat, learned[i].most, shown, sizeof(shown)));
        assert_string_equal(shown, learned[i].shown);
        rf_chat_template_destroy(&t);
    }
    char shown[512];
    rf_chat_template *t = make("{{ messages | length }}{% for m in messages %}{{ m.content }}{% endfor %}", tokenizer);
    FAILS(learn(t, tokenizer, FOUR, 0, shown, sizeof(shown)), RF_ERROR_UNSUPPORTED,
          "writes what is before message 1, an answer, otherwise once messages follow; mark with its tag 'generation'");
    rf_chat_template_destroy(&t);
    rf_tokenizer_destroy(&tokenizer);
    tear_down();
}

/* ---- texts ---- */

static const rf_chat_message hello[] = { { .role = "user", .content = "<s> hi", .content_size = 6 } };

TEST(texts)
{
    set_up();
    rf_tokenizer *tokenizer = characters();
    rf_chat_template *t = make("{{ messages[0].content }}{{ style }}", tokenizer);
    const rf_chat chat = { .messages = hello, .num_messages = 1 };
    const rf_chat_apply_params params = { .variables = "{\"style\": \"!\"}" };
    char *text;
    size_t size;
    rf_array tokens;
    OK(rf_chat_template_apply(t, &chat, &params, &text, &size));
    assert_string_equal(text, "<s> hi!");
    assert_int_equal(size, 7);
    rf_string_free(text);
    OK(rf_chat_template_encode(t, &chat, NULL, &tokens));
    assert_int_equal(tokens.shape.dim[0], 4);
    assert_int_equal(((const int32_t *)tokens.data)[0], 96);
    rf_array_free(&tokens);
    FAILS(rf_chat_template_apply(t, &chat, &(rf_chat_apply_params){ .variables = "[" }, &text, &size),
          RF_ERROR_CORRUPT_DATA, "rf_chat_template_apply: variables: byte 1");
    rf_chat_template_destroy(&t);
    t = make("", NULL);
    FAILS(rf_chat_template_encode(t, &chat, NULL, &tokens), RF_ERROR_INVALID_ARGUMENT, "the template has no tokenizer");
    rf_chat_template_destroy(&t);
    rf_tokenizer_destroy(&tokenizer);
    tear_down();
}

/* ---- the guide ---- */

static rf_result read_directory(const char *directory, const char *tokenizer_path, const char *file,
                                rf_tokenizer **tokenizer_out, rf_chat_template **template_out, rf_dataset **data_out)
{
    rf_tokenizer *tokenizer;
    rf_chat_template *chat_template;
    rf_dataset *data;
    TRY(rf_tokenizer_load(tokenizer_path, &tokenizer)); /* tokenizer.json of the directory */
    TRY(rf_chat_template_load(directory, tokenizer, &chat_template));
    const rf_chats_params params = {
        .paths = &file, .num_paths = 1, .render = rf_chat_template_render, .user = chat_template
    };
    TRY(rf_dataset_from_chats(&params, &data));
    *tokenizer_out = tokenizer;
    *template_out = chat_template;
    *data_out = data;
    return RF_OK;
}

static rf_result ask(const rf_chat_template *chat_template, const char *text, rf_array *out)
{
    rf_array prompt;
    const rf_chat_message question = { .role = "user", .content = text, .content_size = strlen(text) };
    const rf_chat chat = { .messages = &question, .num_messages = 1 };
    TRY(rf_chat_template_encode(chat_template, &chat, &(rf_chat_apply_params){ .add_generation_prompt = true },
                                &prompt));
    *out = prompt;
    return RF_OK;
}

TEST(guide)
{
    set_up();
    char tokenizer_path[64], file[64];
    rf_tokenizer *tokenizer = characters();
    rf_tokenizer_destroy(&tokenizer);
    rf_chat_template *t;
    rf_dataset *d;
    rf_array prompt;
    scratch_write(in("chat_template.jinja"), chat_ml);
    scratch_write(strcpy(file, in("chats.jsonl")), FOUR FOUR);
    OK(read_directory(folder, strcpy(tokenizer_path, in("tokenizer.json")), file, &tokenizer, &t, &d));
    assert_int_equal(rf_dataset_cardinality(d), 2);
    OK(ask(t, "ab", &prompt));
    assert_int_equal(prompt.shape.dim[0], 9 + 11);
    rf_array_free(&prompt);
    rf_dataset_destroy(&d);
    rf_chat_template_destroy(&t);
    rf_tokenizer_destroy(&tokenizer);
    tear_down();
}

/* ---- directories ---- */

static void expect_loaded(const char *wanted)
{
    rf_chat_template *t;
    char *text;
    OK(rf_chat_template_load(folder, NULL, &t));
    OK(rf_chat_template_apply(t, &(rf_chat){ .messages = hello, .num_messages = 1 }, NULL, &text, NULL));
    assert_string_equal(text, wanted);
    rf_string_free(text);
    rf_chat_template_destroy(&t);
}

TEST(directories)
{
    rf_chat_template *t;
    set_up();
    FAILS(rf_chat_template_load(folder, NULL, &t), RF_ERROR_NOT_FOUND,
          "has neither chat_template.jinja nor a \"chat_template\" in tokenizer_config.json");
    scratch_write(in("tokenizer_config.json"),
                  "{\"chat_template\": \"{{ bos_token }}1{{ eos_token }}{{ pad_token }}\", "
                  "\"bos_token\": \"<b>\", \"eos_token\": {\"content\": \"<e>\"}, "
                  "\"pad_token\": null, \"add_bos_token\": true}");
    expect_loaded("<b>1<e>");
    scratch_write(in("tokenizer_config.json"), "{\"chat_template\": [{\"name\": \"tools\", \"template\": \"3\"}, "
                                               "{\"name\": \"default\", \"template\": \"2\"}]}");
    expect_loaded("2");
    scratch_write(in("chat_template.jinja"), "four\n");
    expect_loaded("four");
    scratch_write(in("chat_template.jinja"), "\n{{ 1 | pow }}");
    FAILS(rf_chat_template_load(folder, NULL, &t), RF_ERROR_UNSUPPORTED,
          "chat_template.jinja: the chat template: line 2: the filter 'pow' is not known here");
    scratch_write(in("tokenizer_config.json"), "{\"chat_template\"");
    FAILS(rf_chat_template_load(folder, NULL, &t), RF_ERROR_CORRUPT_DATA, "tokenizer_config.json: byte");
    tear_down();
}

/* ---- errors ---- */

static const struct {
    const char *text;
    rf_result code;
    const char *message;
} refused[] = {
    { "{% include 'x' %}", RF_ERROR_UNSUPPORTED, "line 1: the tag 'include' is not known here" },
    { "\n\n{% if x %}{% for y in z %}{% endif %}", RF_ERROR_UNSUPPORTED, "line 3: the tag 'endif'" },
    { "{% if x is red %}", RF_ERROR_UNSUPPORTED, "line 1: the test 'red' is not known here" },
    { "{{ 1 +\n }}", RF_ERROR_CORRUPT_DATA, "line 2: the end of the tag stands where a value should" },
    { "{{ 2 ** 3 }}", RF_ERROR_UNSUPPORTED, "line 1: '*' is not known here" },
    { "{{ 'a }}", RF_ERROR_CORRUPT_DATA, "line 1: a text in quotes has no end" },
    { "{# a", RF_ERROR_CORRUPT_DATA, "line 1: a comment has no end" },
    { "{% if a %}", RF_ERROR_CORRUPT_DATA, "line 1: a tag has no 'end'" },
    { "{% break %}", RF_ERROR_CORRUPT_DATA, "line 1: break and continue stand in loops" },
    { "{{ \xff }}", RF_ERROR_CORRUPT_DATA, "it is no UTF-8" },
    { "{{ 99999999999999999999 }}", RF_ERROR_UNSUPPORTED, "line 1: the number '99999999999999999999' is not known" },
};
static const struct {
    const char *text;
    rf_result code;
    const char *message;
} failing[] = {
    { "\n{{ raise_exception('No\\nsuch role') }}", RF_ERROR_INVALID_ARGUMENT,
      "the chat template: line 2: 'raise_exception': No?such role" },
    { "{{ messages[0].content.zfill(3) }}", RF_ERROR_UNSUPPORTED, "line 1: a text has no method 'zfill' here" },
    { "{{ tools + 'a' }}", RF_ERROR_INVALID_ARGUMENT, "line 1: '+' of none and a text" },
    { "{{ other.name }}", RF_ERROR_INVALID_ARGUMENT, "'name', which is not defined, of 'other', which is not defined" },
    { "{{ strftime_now('%d') }}", RF_ERROR_UNSUPPORTED, "a call of 'strftime_now', which is not defined" },
    { "{{ 1 // 0 }}", RF_ERROR_INVALID_ARGUMENT, "division by 0" },
    { "{% set x = 1 %}{% set x.y = 2 %}", RF_ERROR_INVALID_ARGUMENT, "only attributes of a namespace can be set" },
    { "{{ 'a' | tojson(ascii=true) }}", RF_ERROR_UNSUPPORTED, "'tojson' has no argument 'ascii' here" },
    { "{{ 'a'.split('a', 1, 2) }}", RF_ERROR_INVALID_ARGUMENT, "'split' takes 0 to 2 arguments" },
    /* Templates that never end, or take all memory. */
    { "{% for i in range(2000000000) %}{% endfor %}", RF_ERROR_UNSUPPORTED, "take" },
    { "{% for i in range(3000) %}{% for j in range(3000) %}{{ j }}{% endfor %}{% endfor %}", RF_ERROR_UNSUPPORTED,
      "take" },
    { "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", RF_ERROR_UNSUPPORTED, "more than 200 levels" },
    { "{% set n = namespace(x='abcdefgh') %}{% for i in range(99) %}{% set n.x = n.x + n.x %}{% endfor %}",
      RF_ERROR_UNSUPPORTED, "the values of the template take too much memory" },
    { "{{ 'ab' * 99999999999 }}", RF_ERROR_UNSUPPORTED, "too much memory" },
    { "{% set n = namespace(x=[1]) %}{% for i in range(999) %}{% set n.x = [n.x] %}{% endfor %}{{ n.x }}",
      RF_ERROR_UNSUPPORTED, "more than 200 levels" },
};

TEST(errors)
{
    const rf_chat chat = { .messages = hello, .num_messages = 1 };
    rf_chat_template *t;
    char *text;
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const rf_chat_template_params params = { .text = refused[i].text, .size = strlen(refused[i].text) };
        FAILS(rf_chat_template_create(&params, &t), refused[i].code, refused[i].message);
        assert_null(t);
    }
    for (size_t i = 0; i < sizeof(failing) / sizeof(failing[0]); i++) {
        t = make(failing[i].text, NULL);
        FAILS(rf_chat_template_apply(t, &chat, NULL, &text, NULL), failing[i].code, failing[i].message);
        rf_chat_template_destroy(&t);
    }
}

TESTS(chat_templates, NULL, NULL)
