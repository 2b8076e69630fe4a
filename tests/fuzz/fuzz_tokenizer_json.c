/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hugging Face's tokenizer.json. A file that is accepted encodes its own text and every byte within its regular
 * expressions' time, alone and as a pair, to tokens that are there, and decodes them; what is written is the same file.
 */
#include <string.h>

#include "base/memory.h"
#include "fuzz.h"
#include "text/tokenizer.h"

enum { MOST_TEXT = 2048 };

static void check_tokens(const rf_tokenizer *t, const rf_array *tokens)
{
    for (int64_t i = 0; i < tokens->shape.dim[0]; i++)
        PROMISE(rf_tokenizer_token(t, ((const int32_t *)tokens->data)[i], NULL));
}

static void check_encoding(const rf_tokenizer *t, const char *text, size_t size)
{
    const rf_tokenizer_encode_params params = { .pair = text, .pair_size = size, .split_special_tokens = true };
    rf_array tokens, types;
    char *back;
    size_t back_size;
    if (rf_tokenizer_encode(t, text, size, &tokens) < 0) {
        promise_message();
        return;
    }
    check_tokens(t, &tokens);
    const rf_result r = rf_tokenizer_decode(t, tokens.data, (uint64_t)tokens.shape.dim[0], &back, &back_size);
    if (r == RF_OK)
        PROMISE(back[back_size] == '\0');
    else
        promise_message();
    if (r == RF_OK) rf_string_free(back);
    rf_array_free(&tokens);
    if (rf_tokenizer_encode_with(t, text, size, &params, &tokens, &types) < 0) {
        promise_message();
        return;
    }
    PROMISE(types.shape.dim[0] == tokens.shape.dim[0]);
    check_tokens(t, &tokens);
    rf_array_free(&tokens);
    rf_array_free(&types);
}

FUZZ_TARGET(tokenizer_json)
{
    rf_tokenizer *t;
    char *written;
    const rf_result r = rf_tokenizer_parse((const char *)data, size, true, &t);
    if (r < 0) {
        PROMISE(r == RF_ERROR_CORRUPT_DATA || r == RF_ERROR_UNSUPPORTED);
        PROMISE(!t);
        promise_message();
        return 0;
    }
    if (rf_tokenizer_get_kind(t) == RF_TOKENIZER_PIPELINE) {
        char text[MOST_TEXT + 256];
        const size_t kept = size < MOST_TEXT ? size : MOST_TEXT;
        memcpy(text, data, kept);
        for (int i = 0; i < 256; i++) text[kept + (size_t)i] = (char)i;
        check_encoding(t, text, kept + 256);
        PROMISE(rf_tokenizer_text(t, &written) == RF_OK);
        PROMISE(strlen(written) == size && memcmp(written, data, size) == 0);
        rf_free(written);
    }
    rf_tokenizer_destroy(&t);
    return 0;
}
