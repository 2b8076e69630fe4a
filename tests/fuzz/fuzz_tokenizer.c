/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of tokenizers, without their checksum, which would stop a fuzzer at once. A file that is accepted is written
 * and read again, with the checksum, and must be the same then; it encodes a text of all bytes, and decodes its tokens.
 */
#include <string.h>

#include "base/memory.h"
#include "fuzz.h"
#include "text/tokenizer.h"

static void check_tokens(const rf_tokenizer *t)
{
    const int32_t size = (int32_t)rf_tokenizer_vocabulary_size(t);
    for (int32_t i = 0; i < size; i++) {
        size_t bytes;
        const char *token = rf_tokenizer_token(t, i, &bytes);
        PROMISE(token && token[bytes] == '\0');
        if (strlen(token) == bytes) PROMISE(rf_tokenizer_id(t, token) == i);
    }
    PROMISE(!rf_tokenizer_token(t, size, NULL));
}

/* The file's own text, and every byte. */
static void check_encoding(const rf_tokenizer *t, const uint8_t *data, size_t size)
{
    char *text = rf_calloc(size + 256, 1), *back;
    rf_array tokens;
    size_t back_size;
    PROMISE(text);
    if (size) memcpy(text, data, size);
    for (int i = 0; i < 256; i++) text[size + (size_t)i] = (char)i;
    PROMISE(rf_tokenizer_encode(t, text, size + 256, &tokens) == RF_OK);
    const int64_t count = tokens.shape.dim[0];
    PROMISE(count <= (int64_t)size + 256);
    for (int64_t i = 0; i < count; i++) {
        const int32_t token = ((const int32_t *)tokens.data)[i];
        PROMISE(!rf_tokenizer_is_special(t, token) || token == rf_tokenizer_id(t, "[UNK]"));
    }
    PROMISE(rf_tokenizer_decode(t, tokens.data, (uint64_t)count, &back, &back_size) == RF_OK);
    if (rf_tokenizer_get_kind(t) == RF_TOKENIZER_BYTE_PAIR)
        PROMISE(back_size == size + 256 && memcmp(back, text, back_size) == 0);
    rf_string_free(back);
    rf_array_free(&tokens);
    rf_free(text);
}

static void check_written(const rf_tokenizer *t)
{
    char *first, *second;
    rf_tokenizer *again;
    PROMISE(rf_tokenizer_text(t, &first) == RF_OK);
    PROMISE(rf_tokenizer_parse(first, strlen(first), true, &again) == RF_OK);
    PROMISE(rf_tokenizer_text(again, &second) == RF_OK && strcmp(first, second) == 0);
    rf_tokenizer_destroy(&again);
    rf_free(first);
    rf_free(second);
}

FUZZ_TARGET(tokenizer)
{
    rf_tokenizer *t;
    const rf_result r = rf_tokenizer_parse((const char *)data, size, false, &t);
    if (r < 0) {
        PROMISE(r == RF_ERROR_CORRUPT_DATA || r == RF_ERROR_UNSUPPORTED);
        PROMISE(!t);
        promise_message();
        return 0;
    }
    if (rf_tokenizer_get_kind(t) != RF_TOKENIZER_PIPELINE) { /* fuzz_tokenizer_json's */
        check_tokens(t);
        check_encoding(t, data, size);
        check_written(t);
    }
    rf_tokenizer_destroy(&t);
    return 0;
}
