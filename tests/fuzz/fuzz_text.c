/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of any bytes: it is cut into lines, tokenizers learn from these, and the lines are encoded and decoded. The
 * first byte says of which kind the tokenizer is, and how.
 */
#include <string.h>

#include "base/utf8.h"
#include "fuzz.h"
#include "text/lines.h"
#include "text/tokenizer.h"

/* With its line feeds it is the text again, but for carriage returns before them and a byte order mark. */
static void check_lines(const rf_text_lines *lines, const char *text, size_t size)
{
    const size_t mark = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    const char *at = text + mark, *end = text + size;
    for (uint64_t i = 0; i < rf_text_lines_count(lines); i++) {
        const char *line = rf_text_lines_texts(lines)[i];
        const size_t length = rf_text_lines_sizes(lines)[i];
        PROMISE(length <= (size_t)(end - at) && memcmp(line, at, length) == 0 && line[length] == '\0');
        PROMISE(!memchr(line, '\n', length));
        at += length;
        if (end - at >= 2 && at[0] == '\r' && at[1] == '\n') at++;
        PROMISE(at == end || *at == '\n');
        at += at < end;
    }
    PROMISE(at == end);
}

static void check_line(const rf_tokenizer *t, const char *line, size_t size)
{
    rf_array tokens;
    char *back;
    size_t back_size;
    PROMISE(rf_tokenizer_encode(t, line, size, &tokens) == RF_OK);
    PROMISE(tokens.shape.dim[0] <= (int64_t)size);
    PROMISE(rf_tokenizer_decode(t, tokens.data, (uint64_t)tokens.shape.dim[0], &back, &back_size) == RF_OK);
    switch (rf_tokenizer_get_kind(t)) {
    case RF_TOKENIZER_BYTE_PAIR: PROMISE(back_size == size && memcmp(back, line, size) == 0); break;
    case RF_TOKENIZER_WORD_PIECE: PROMISE(rf_utf8_valid(back, back_size)); break;
    default: PROMISE(back_size <= size + 5 * (size_t)tokens.shape.dim[0]);
    }
    rf_string_free(back);
    rf_array_free(&tokens);
}

/* With room for all characters, these come back, too. */
static void check_characters(const rf_text_lines *lines)
{
    rf_tokenizer *t;
    PROMISE(rf_tokenizer_train(NULL, rf_text_lines_texts(lines), rf_text_lines_sizes(lines), rf_text_lines_count(lines),
                               &t) == RF_OK);
    for (uint64_t i = 0; i < rf_text_lines_count(lines); i++) {
        const size_t size = rf_text_lines_sizes(lines)[i];
        rf_array tokens;
        char *back;
        size_t back_size;
        PROMISE(rf_tokenizer_encode(t, rf_text_lines_texts(lines)[i], size, &tokens) == RF_OK);
        PROMISE(rf_tokenizer_decode(t, tokens.data, (uint64_t)tokens.shape.dim[0], &back, &back_size) == RF_OK);
        PROMISE(back_size == size && memcmp(back, rf_text_lines_texts(lines)[i], size) == 0);
        rf_string_free(back);
        rf_array_free(&tokens);
    }
    rf_tokenizer_destroy(&t);
}

static void check_tokenizer(const rf_text_lines *lines, uint8_t how)
{
    static const char *const special[] = { "[START]" };
    const rf_tokenizer_params params = { .kind = (rf_tokenizer_kind)(how % RF_TOKENIZER_KINDS),
                                         .keep_case = how & 4,
                                         .keep_punctuation = how & 8,
                                         .max_tokens = how & 16 ? 262 : 0,
                                         .min_count = how & 32 ? 1 : 0,
                                         .special_tokens = special,
                                         .num_special_tokens = how & 64 ? 1 : 0 };
    rf_tokenizer *t;
    PROMISE(rf_tokenizer_train(&params, rf_text_lines_texts(lines), rf_text_lines_sizes(lines),
                               rf_text_lines_count(lines), &t) == RF_OK);
    if (params.max_tokens) PROMISE(rf_tokenizer_vocabulary_size(t) <= params.max_tokens);
    for (uint64_t i = 0; i < rf_text_lines_count(lines); i++)
        check_line(t, rf_text_lines_texts(lines)[i], rf_text_lines_sizes(lines)[i]);
    rf_tokenizer_destroy(&t);
}

FUZZ_TARGET(text)
{
    rf_text_lines *lines;
    if (size == 0) return 0;
    PROMISE(rf_text_lines_new(&lines) == RF_OK);
    const rf_result r = rf_text_lines_append(lines, (const char *)data + 1, size - 1);
    if (r < 0) {
        PROMISE(r == RF_ERROR_UNSUPPORTED); /* UTF-16 */
        rf_text_lines_destroy(&lines);
        return 0;
    }
    check_lines(lines, (const char *)data + 1, size - 1);
    check_tokenizer(lines, data[0]);
    if (data[0] % RF_TOKENIZER_KINDS == RF_TOKENIZER_CHARACTERS) check_characters(lines);
    rf_text_lines_destroy(&lines);
    return 0;
}
