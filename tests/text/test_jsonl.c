/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Lines as datasets: members as components, chats as tokens and labels, mistakes in lines, positions, workers. */
#include <stdio.h>
#include <zlib.h>

#include <ringfire/text.h>

#include "../data/combined.h"
#include "../support/folder.h"
#include "../support/try.h"
#include "tests/room.h"

static char folder[SCRATCH_PATH];

static const char *write_text(const char *name, const char *text, bool gzipped)
{
    static char path[4][SCRATCH_PATH + 32];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof(path[0]), "%s/%s", folder, name);
    gzFile f = gzopen(p, gzipped ? "wb" : "wbT");
    assert_non_null(f);
    assert_int_equal(gzwrite(f, text, (unsigned)strlen(text)), (int)strlen(text));
    assert_int_equal(gzclose(f), Z_OK);
    return p;
}

static rf_dataset *open_fields(const char *const *paths, uint32_t num_paths, const rf_jsonl_field *fields,
                               uint32_t count)
{
    rf_dataset *d;
    OK(rf_dataset_from_jsonl(
        &(rf_jsonl_params){ .paths = paths, .num_paths = num_paths, .fields = fields, .num_fields = count }, &d));
    return d;
}

static rf_iterator *begin(const rf_dataset *d)
{
    rf_iterator *it;
    OK(rf_iterator_create(d, 0, &it));
    return it;
}

static const int32_t *integers(const rf_element *e, uint32_t component)
{
    assert_int_equal(e->component[component].dtype, RF_I32);
    return e->component[component].data;
}

TEST(test_fields)
{
    const char *path = write_text("fields",
                                  "{\"id\": 7, \"text\": \"sch\\u00f6n\", \"x\": [[1, 2.5], [true, -1e2]]}\r\n"
                                  "\n{\"x\": [[0, 0]], \"text\": \"\", \"id\": -3, \"more\": 1e17}",
                                  false);
    const rf_jsonl_field fields[] = {
        { .name = "id", .dtype = RF_I32 },
        { .name = "text", .dtype = RF_U8, .shape = RF_SHAPE(8), .variable = true },
        { .name = "x", .dtype = RF_F32, .shape = RF_SHAPE(3, 2), .variable = true },
    };
    rf_dataset *d = open_fields(&path, 1, fields, 3);
    assert_int_equal(rf_dataset_cardinality(d), 2);
    rf_iterator *it = begin(d);
    const rf_element *e;
    OK(rf_iterator_next(it, &e));
    assert_int_equal(integers(e, 0)[0], 7);
    assert_int_equal(e->component[1].shape.dim[0], 6);
    assert_memory_equal(e->component[1].data, "sch\xc3\xb6n", 6);
    assert_int_equal(e->component[2].shape.dim[0], 2);
    const float x[] = { 1, 2.5f, 1, -100 };
    assert_memory_equal(e->component[2].data, x, sizeof(x));
    OK(rf_iterator_next(it, &e));
    assert_int_equal(integers(e, 0)[0], -3);
    assert_int_equal(e->component[1].shape.dim[0], 0);
    assert_int_equal(e->component[2].shape.dim[0], 1);
    assert_int_equal(rf_iterator_next(it, &e), RF_END);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

/* A cut never goes through a character. */
TEST(test_truncated)
{
    const char *path = write_text("long", "{\"t\": \"a\\u00e4\\u00e4\", \"n\": [1, 2, 3]}\n", false);
    const rf_jsonl_field fields[] = {
        { .name = "t", .dtype = RF_U8, .shape = RF_SHAPE(4), .variable = true, .truncate = true },
        { .name = "n", .dtype = RF_I32, .shape = RF_SHAPE(2), .truncate = true },
    };
    rf_dataset *d = open_fields(&path, 1, fields, 2);
    rf_iterator *it = begin(d);
    const rf_element *e;
    OK(rf_iterator_next(it, &e));
    assert_int_equal(e->component[0].shape.dim[0], 3);
    assert_memory_equal(e->component[0].data, "a\xc3\xa4", 3);
    assert_int_equal(integers(e, 1)[1], 2);
    assert_int_equal(rf_dataset_cut_elements(d), 1);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

TEST(test_damaged_lines)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        { "{\"n\": [1, 2]", ":3: byte" },
        { "[1, 2]", ":3: it is no JSON object" },
        { "{\"m\": [1, 2]}", ":3: 'n' is missing" },
        { "{\"n\": \"12\"}", ":3: 'n' has lists of another depth than its shape" },
        { "{\"n\": [1, null]}", ":3: 'n' has a value that is no number" },
        { "{\"n\": [1, 0.5]}", ":3: 'n' has a number that i32 cannot hold" },
        { "{\"n\": [1, 3000000000]}", ":3: 'n' has a number that i32 cannot hold" },
        { "{\"n\": [1]}", ":3: 'n' has 1 values, but [2] takes 2" },
        { "{\"n\": [1, 2, 3]}", ":3: 'n' has 3 values" },
        { "{\"n\": [1, 2], \"n\": 1}", ":3: byte" },
        { "{\"n\": [1, 2], \"\x01\": 1}", ":3: byte" },
    };
    const rf_jsonl_field field = { .name = "n", .dtype = RF_I32, .shape = RF_SHAPE(2) };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[256];
        const rf_element *e;
        snprintf(text, sizeof(text), "{\"n\": [1, 2]}\n\n%s\n{\"n\": [3, 4]}\n", cases[i].line);
        const char *path = write_text("damaged", text, i % 2);
        rf_dataset *d = open_fields(&path, 1, &field, 1), *good;
        rf_iterator *it = begin(d);
        OK(rf_iterator_next(it, &e));
        for (int again = 0; again < 2; again++) {
            assert_int_equal(rf_iterator_next(it, &e), RF_ERROR_CORRUPT_DATA);
            assert_non_null(strstr(rf_error_message(), cases[i].message));
            assert_non_null(strstr(rf_error_message(), path));
        }
        rf_iterator_destroy(&it);
        OK(rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &good));
        it = begin(good);
        OK(rf_iterator_next(it, &e));
        OK(rf_iterator_next(it, &e));
        assert_int_equal(integers(e, 0)[0], 3);
        assert_int_equal(rf_iterator_next(it, &e), RF_END);
        assert_int_equal(rf_dataset_ignored_errors(good), 1);
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&good);
        rf_dataset_destroy(&d);
    }
}

/* Lines of many lengths, some empty, more than one mark and one buffer of the reader apart. */
static void write_counted(char *text, int first, int count)
{
    for (int i = first; i < first + count; i++)
        text += sprintf(text, "%s{\"pad\": \"%*s\", \"n\": %d}\n", i % 7 == 0 ? "\n\n" : "", i * 37 % 3000, "", i);
}

enum { COUNTED = 100, SHARE = 60 };

static const rf_jsonl_field counted = { .name = "n", .dtype = RF_I32 };

static rf_dataset *open_counted(bool gzipped)
{
    static char text[1 << 19];
    const char *paths[2];
    write_counted(text, 0, SHARE);
    paths[0] = write_text("part0", text, gzipped);
    write_counted(text, SHARE, COUNTED - SHARE);
    paths[1] = write_text("part1", text, false);
    return open_fields(paths, 2, &counted, 1);
}

static int32_t next_number(rf_iterator *it)
{
    const rf_element *e;
    const rf_result r = rf_iterator_next(it, &e);
    if (r == RF_END) return -1;
    assert_int_equal(r, RF_OK);
    return integers(e, 0)[0];
}

TEST(test_order_and_positions)
{
    for (int gzipped = 0; gzipped < 2; gzipped++) {
        rf_dataset *d = open_counted(gzipped), *shuffled;
        assert_int_equal(rf_dataset_cardinality(d), COUNTED);
        OK(rf_dataset_shuffle(d, COUNTED, 5, RF_SHUFFLE_EACH_PASS, &shuffled));
        rf_iterator *it = begin(d), *mixed = begin(shuffled);
        bool seen[COUNTED] = { false };
        for (int i = 0; i < COUNTED; i++) {
            void *saved;
            size_t size;
            rf_iterator *restored;
            const int32_t drawn = next_number(mixed);
            assert_false(seen[drawn]);
            seen[drawn] = true;
            assert_int_equal(next_number(it), i);
            OK(rf_iterator_save(mixed, &saved, &size));
            OK(rf_iterator_restore(shuffled, saved, size, &restored));
            rf_iterator_state_free(saved);
            rf_iterator_destroy(&mixed);
            mixed = restored;
        }
        assert_int_equal(next_number(it), -1);
        assert_int_equal(next_number(mixed), -1);
        rf_iterator_destroy(&it);
        rf_iterator_destroy(&mixed);
        rf_dataset_destroy(&shuffled);
        rf_dataset_destroy(&d);
    }
}

TEST(test_changed_file)
{
    rf_dataset *d = open_counted(false);
    rf_iterator *it = begin(d);
    const rf_element *e;
    write_text("part0", "{\"n\": 1}\n", false);
    rf_result r = RF_OK;
    for (int i = 0; i < COUNTED && r == RF_OK; i++) r = rf_iterator_next(it, &e);
    assert_int_equal(r, RF_ERROR_CORRUPT_DATA);
    assert_non_null(strstr(rf_error_message(), "part0: the file has changed since the dataset was made"));
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

/* ---- chats ---- */

/* A byte a token; a message is its role's first letter and its content, of which answers are learned. */
static rf_result render(void *user, const rf_chat *chat, rf_chat_tokens *out)
{
    assert_ptr_equal(user, folder);
    assert_int_equal(chat->json[0], '{');
    assert_int_equal(chat->json[chat->json_size - 1], '}');
    for (uint32_t i = 0; i < chat->num_messages; i++) {
        const rf_chat_message *m = &chat->messages[i];
        const int32_t role = m->role[0];
        if (role == '!') return RF_ERROR_UNSUPPORTED;
        OK(rf_chat_tokens_append(out, &role, 1, false));
        for (size_t k = 0; k < m->content_size; k++)
            OK(rf_chat_tokens_append(out, &(int32_t){ m->content[k] }, 1, role == 'a'));
    }
    return RF_OK;
}

static void expect_chat(const char *line, uint32_t most, const rf_tokenizer *tokenizer, const char *tokens,
                        const char *labels)
{
    const char *path = write_text("chats", line, false);
    rf_dataset *d;
    const rf_element *e;
    OK(rf_dataset_from_chats(&(rf_chats_params){ .paths = &path,
                                                 .num_paths = 1,
                                                 .max_tokens = most,
                                                 .render = render,
                                                 .user = folder,
                                                 .tokenizer = tokenizer,
                                                 .end_token = tokenizer ? "$" : NULL },
                             &d));
    rf_iterator *it = begin(d);
    const rf_result r = rf_iterator_next(it, &e);
    if (tokens) {
        const size_t count = strlen(tokens);
        assert_int_equal(r, RF_OK);
        assert_int_equal(e->component[0].shape.dim[0], count);
        assert_int_equal(e->component[1].shape.dim[0], count);
        for (size_t i = 0; i < count; i++) {
            assert_int_equal(integers(e, 0)[i], tokens[i]);
            assert_int_equal(integers(e, 1)[i], labels[i] == '.' ? RF_IGNORED_LABEL : labels[i]);
        }
    } else {
        assert_true(r < 0);
        if (!strstr(rf_error_message(), labels)) fail_msg("%s", rf_error_message());
    }
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

#define TWO_TURNS                                                                                                      \
    "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", \"content\": \"yo\"}, "      \
    "{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"o\"}, {\"type\": \"text\", \"text\": "        \
    "\"k\"}]}, {\"role\": \"assistant\", \"content\": \"!\"}]}"

TEST(test_chats)
{
    expect_chat(TWO_TURNS, 0, NULL, "uhiayouoka!", "...yo....!.");
    expect_chat(TWO_TURNS, 11, NULL, "uhiayouoka!", "...yo....!.");
    expect_chat(TWO_TURNS, 10, NULL, "uhiayouoka", "...yo....!"); /* the label of the last one is known */
    expect_chat(TWO_TURNS, 4, NULL, "uhia", "...y");
    expect_chat(TWO_TURNS, 3, NULL, NULL, ":1: nothing of its first 3 tokens is to be learned");
    expect_chat("{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}", 3, NULL, "uhi", "...");
    expect_chat("{\"messages\": [{\"role\": \"tool\", \"content\": null}]}", 0, NULL, "t", ".");
}

/* A chat that was cut is counted, one of which nothing is left is an error that can be left out. */
TEST(test_long_chats_are_counted)
{
    const char *path = write_text("mixed",
                                  TWO_TURNS "\n{\"messages\": [{\"role\": \"user\", \"content\": \"long\"}]}\n"
                                            "{\"messages\": [{\"role\": \"assistant\"}]}\n",
                                  false);
    rf_dataset *d;
    OK(rf_dataset_from_chats(
        &(rf_chats_params){ .paths = &path, .num_paths = 1, .render = render, .user = folder, .max_tokens = 4 }, &d));
    APPLY(d, rf_dataset_ignore_errors(d, RF_IGNORE_SILENTLY, &applied_));
    for (unsigned pass = 1; pass <= 2; pass++) {
        rf_iterator *it = begin(d);
        const rf_element *e;
        OK(rf_iterator_next(it, &e));
        assert_int_equal(e->component[0].shape.dim[0], 4);
        OK(rf_iterator_next(it, &e));
        assert_int_equal(e->component[0].shape.dim[0], 1);
        assert_int_equal(rf_iterator_next(it, &e), RF_END);
        assert_int_equal(rf_dataset_cut_elements(d), pass);
        assert_int_equal(rf_dataset_ignored_errors(d), pass);
        rf_iterator_destroy(&it);
    }
    assert_int_equal(rf_dataset_cut_elements(NULL), 0);
    rf_dataset_destroy(&d);
}

TEST(test_wrong_chats)
{
    static const char *const cases[][2] = {
        { "{\"messages\": []}", ":1: 'messages' is no list of 1 to 65536 messages" },
        { "{\"messages\": {\"role\": \"user\"}}", ":1: 'messages' is no list" },
        { "{\"messages\": [1]}", ":1: message 0: it is no object with a \"role\"" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": 1}]}", ":1: message 0: its \"content\" is no text" },
        { "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"image\"}]}]}", "part 0 of its content" },
        { "{\"messages\": [{\"role\": \"!\"}]}", ":1: the function of chats returned" },
        { "{\"chat\": 1}", ":1: it has neither 'messages'" },
        { "{\"text\": \"a\"}", ":1: it has texts; set the tokenizer of rf_chats_params" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) expect_chat(cases[i][0], 0, NULL, NULL, cases[i][1]);
}

/* Tokens are the characters' numbers plus a constant: those of a tokenizer that has them in the order of ASCII. */
static rf_tokenizer *make_characters(void)
{
    static char texts[127][2];
    const char *tokens[127];
    rf_tokenizer *t;
    for (int i = 0; i < 127; i++) {
        texts[i][0] = (char)i;
        tokens[i] = texts[i];
    }
    size_t sizes[127];
    for (int i = 0; i < 127; i++) sizes[i] = 1;
    OK(rf_tokenizer_create(&(rf_tokenizer_params){ .kind = RF_TOKENIZER_CHARACTERS }, tokens, sizes, 127, &t));
    assert_int_equal(rf_tokenizer_id(t, "$"), '$');
    return t;
}

TEST(test_prompts_and_texts)
{
    rf_tokenizer *t = make_characters();
    expect_chat("{\"prompt\": \"ab\", \"completion\": \"cd\", \"text\": \"no\"}", 0, t, "abcd$", ".cd$.");
    expect_chat("{\"text\": \"abc\"}", 0, t, "abc$", "bc$.");
    expect_chat("{\"text\": \"abc\"}", 2, t, "ab", "bc");
    expect_chat("{\"prompt\": \"ab\", \"completion\": 1}", 0, t, NULL, ":1: it has neither");
    rf_tokenizer_destroy(&t);
}

TEST(test_tokens_of_a_field)
{
    rf_tokenizer *t = make_characters();
    const char *path = write_text("tokens", "{\"q\": \"hello\"}\n", false);
    const rf_jsonl_field field = {
        .name = "q", .tokenizer = t, .shape = RF_SHAPE(3), .variable = true, .truncate = true
    };
    rf_dataset *d = open_fields(&path, 1, &field, 1);
    rf_iterator *it = begin(d);
    assert_int_equal(next_number(it), 'h');
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    rf_tokenizer_destroy(&t);
}

TEST(test_arguments)
{
    const char *path = write_text("ok", "{}\n", false), *missing = "/nonexistent/file.jsonl";
    const rf_jsonl_field good = { .name = "n", .dtype = RF_I32 };
    const struct {
        rf_jsonl_field field;
        const char *message;
    } cases[] = {
        { { .dtype = RF_I32 }, "field 0 has no name" },
        { { .name = "n", .dtype = RF_F16 }, "field 'n' is f16, not f32, i32 or u8" },
        { { .name = "n", .dtype = RF_U8 }, "field 'n' is a text, whose shape is [n]" },
        { { .name = "n", .dtype = RF_I32, .variable = true }, "field 'n' is a scalar" },
        { { .name = "n", .dtype = RF_I32, .shape = RF_SHAPE(0) }, "field 'n' has no valid shape" },
    };
    rf_dataset *d;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const rf_jsonl_params params = { .paths = &path, .num_paths = 1, .fields = &cases[i].field, .num_fields = 1 };
        assert_int_equal(rf_dataset_from_jsonl(&params, &d), RF_ERROR_INVALID_ARGUMENT);
        assert_null(d);
        if (!strstr(rf_error_message(), cases[i].message)) fail_msg("%s", rf_error_message());
    }
    const rf_jsonl_params nowhere = { .paths = &missing, .num_paths = 1, .fields = &good, .num_fields = 1 };
    assert_int_equal(rf_dataset_from_jsonl(&nowhere, &d), RF_ERROR_NOT_FOUND);
    assert_int_equal(rf_dataset_from_chats(&(rf_chats_params){ .paths = &path, .num_paths = 1 }, &d),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_dataset_from_chats(
                         &(rf_chats_params){ .paths = &path, .num_paths = 1, .render = render, .end_token = "x" }, &d),
                     RF_ERROR_INVALID_ARGUMENT);
}

/* Whole files to each worker: their rows together are all lines. */
static void expect_files_of_two_workers(const rf_dataset *d)
{
    rf_dataset *batched;
    int32_t seen = 0;
    OK(rf_dataset_batch(d, 8, RF_REMAINDER_KEEP, &batched));
    for (uint32_t w = 0; w < 2; w++) {
        const rf_slice_params params = { .worker = w, .num_workers = 2, .by_file = true, .split = halve };
        rf_dataset *part;
        const rf_element *e;
        int32_t expected = w == 0 ? 0 : SHARE;
        OK(rf_dataset_slice(batched, &params, &part));
        rf_iterator *it = begin(part);
        while (rf_iterator_next(it, &e) == RF_OK)
            for (int64_t i = 0; i < e->component[0].shape.dim[0]; i++, seen++)
                assert_int_equal(integers(e, 0)[i], expected++);
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&part);
    }
    assert_int_equal(seen, COUNTED);
    rf_dataset_destroy(&batched);
}

TEST(test_workers)
{
    for (int gzipped = 0; gzipped < 2; gzipped++) {
        rf_dataset *d = open_counted(gzipped);
        expect_files_of_two_workers(d);
        APPLY(d, rf_dataset_batch(d, 8, RF_REMAINDER_KEEP, &applied_));
        expect_rows_of_two_workers(d);
    }
}

/* ---- docs/guides/text.md, word for word (tests/project/check_pages.py) ---- */

static rf_result read_reviews(const char *const *paths, const rf_tokenizer *tokenizer, rf_dataset **out)
{
    rf_dataset *data;
    const rf_jsonl_field fields[] = {
        { .name = "review", .tokenizer = tokenizer, .shape = RF_SHAPE(256), .variable = true, .truncate = true },
        { .name = "stars", .dtype = RF_I32 },
    };
    const rf_jsonl_params reviews = { .paths = paths, .num_paths = 2, .fields = fields, .num_fields = 2 };
    TRY(rf_dataset_from_jsonl(&reviews, &data)); /* elements: (tokens i32 [up to 256], stars i32) */
    *out = data;
    return RF_OK;
}

static const int32_t line_feed = '\n';

static rf_result render_lines(void *user, const rf_chat *chat, rf_chat_tokens *out)
{
    const rf_tokenizer *tokenizer = user;
    for (uint32_t i = 0; i < chat->num_messages; i++) {
        const rf_chat_message *m = &chat->messages[i];
        rf_array tokens;
        TRY(rf_tokenizer_encode(tokenizer, m->content, m->content_size, &tokens));
        const rf_result r =
            rf_chat_tokens_append(out, tokens.data, (uint64_t)tokens.shape.dim[0], strcmp(m->role, "assistant") == 0);
        rf_array_free(&tokens);
        TRY(r);
        TRY(rf_chat_tokens_append(out, &line_feed, 1, false));
    }
    return RF_OK;
}

static rf_result read_chats(const char *const *paths, rf_tokenizer *tokenizer, rf_dataset **out)
{
    rf_dataset *data, *batches;
    const rf_chats_params chats = {
        .paths = paths, .num_paths = 1, .render = render_lines, .user = tokenizer, .max_tokens = 512
    };
    const rf_padded_batch_params padding = { .batch_size = 8,
                                             .padded = { true, true },
                                             .pad_value = { 0, RF_IGNORED_LABEL } };
    TRY(rf_dataset_from_chats(&chats, &data));
    TRY(rf_dataset_padded_batch(data, &padding, &batches));
    rf_dataset_destroy(&data);
    *out = batches;
    return RF_OK;
}

static rf_result pack_chats(const rf_dataset *data, rf_dataset **out)
{
    rf_dataset *rows, *batches;
    *out = NULL;
    const rf_pack_params packing = { .length = 1024, .pad_value = { 0, RF_IGNORED_LABEL } };
    TRY(rf_dataset_pack(data, &packing, &rows)); /* (tokens, positions, labels), i32 [1024] each */
    TRY(rf_dataset_batch(rows, 8, RF_REMAINDER_DROP, &batches));
    rf_dataset_destroy(&rows);
    *out = batches;
    return RF_OK;
}

TEST(test_guide_of_packing)
{
    const char *path = write_text("chats", TWO_TURNS, false);
    rf_dataset *d;
    OK(rf_dataset_from_chats(&(rf_chats_params){ .paths = &path, .num_paths = 1, .render = render, .user = folder },
                             &d));
    APPLY(d, rf_dataset_repeat(d, 8 * 100, &applied_));
    APPLY(d, pack_chats(d, &applied_));
    rf_iterator *it = begin(d);
    const rf_element *e;
    OK(rf_iterator_next(it, &e));
    assert_true(rf_shape_equal(e->component[2].shape, RF_SHAPE(8, 1024)));
    assert_int_equal(integers(e, 0)[11], 'u'); /* the second chat, of 11 tokens */
    assert_int_equal(integers(e, 1)[11], 0);
    assert_int_equal(integers(e, 1)[12], 1);
    assert_int_equal(integers(e, 2)[10], RF_IGNORED_LABEL);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

TEST(test_guide)
{
    rf_tokenizer *t = make_characters();
    const char *paths[] = { write_text("reviews", "{\"review\": \"good\", \"stars\": 5}\n", false),
                            write_text("more", "{\"review\": \"bad\"}\n", true) };
    const char *chats = write_text("chats", TWO_TURNS, false);
    rf_dataset *d;
    const rf_element *e;
    OK(read_reviews(paths, t, &d));
    rf_iterator *it = begin(d);
    OK(rf_iterator_next(it, &e));
    assert_int_equal(e->component[0].shape.dim[0], 4);
    assert_int_equal(integers(e, 1)[0], 5);
    assert_int_equal(rf_iterator_next(it, &e), RF_ERROR_CORRUPT_DATA);
    assert_non_null(strstr(rf_error_message(), "more:1: 'stars' is missing"));
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    OK(read_chats(&chats, t, &d));
    it = begin(d);
    OK(rf_iterator_next(it, &e));
    assert_true(rf_shape_equal(e->component[1].shape, RF_SHAPE(1, 512)));
    assert_int_equal(integers(e, 1)[2], 'y');
    assert_int_equal(integers(e, 1)[4], RF_IGNORED_LABEL);
    assert_int_equal(integers(e, 1)[511], RF_IGNORED_LABEL);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    rf_tokenizer_destroy(&t);
}

TEST_PROGRAM(jsonl)
{
    scratch(folder);
    const int failed = room_tests_run(own_tests, NULL, NULL);
    scratch_remove(folder);
    return failed;
}
