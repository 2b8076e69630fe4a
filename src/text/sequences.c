/* SPDX-License-Identifier: Apache-2.0 */
/* Sequences of one length. */
#include <string.h>

#include "base/memory.h"
#include "base/params.h"
#include "text/table.h"
#include "text/tokenizer.h"

static rf_result check_end(rf_sequence_end end, const char *name)
{
    RF_REQUIRE(end == RF_SEQUENCE_PRE || end == RF_SEQUENCE_POST, "rf_sequences_pad: %s is %d, no rf_sequence_end",
               name, (int)end);
    return RF_OK;
}

static rf_result check_sequences(const rf_array *sequences, uint32_t num_sequences, uint32_t *longest)
{
    for (uint32_t i = 0; i < num_sequences; i++) {
        const rf_array *s = &sequences[i];
        RF_REQUIRE(s->dtype == RF_I32 && s->shape.rank == 1 && s->shape.dim[0] >= 0 && s->shape.dim[0] <= INT32_MAX &&
                       (s->data || s->shape.dim[0] == 0),
                   "rf_sequences_pad: sequence %u is not i32 [n] with data", i);
        if (s->shape.dim[0] > *longest) *longest = (uint32_t)s->shape.dim[0];
    }
    return RF_OK;
}

static void write_row(const rf_array *sequence, const rf_sequence_pad_params *p, int32_t *row)
{
    const uint32_t size = (uint32_t)sequence->shape.dim[0], kept = size < p->length ? size : p->length;
    const uint32_t first = p->truncating == RF_SEQUENCE_PRE ? size - kept : 0;
    const uint32_t place = p->padding == RF_SEQUENCE_PRE ? p->length - kept : 0;
    for (uint32_t i = 0; i < p->length; i++) row[i] = p->value;
    if (kept > 0) memcpy(row + place, (const int32_t *)sequence->data + first, kept * sizeof(*row));
}

rf_result rf_sequences_pad(const rf_array *sequences, uint32_t num_sequences, const rf_sequence_pad_params *params,
                           rf_array *out)
{
    RF_REQUIRE(out, "rf_sequences_pad: out is NULL");
    *out = (rf_array){ 0 };
    RF_TRY(RF_PARAMS_CHECK(rf_sequence_pad_params, params));
    RF_REQUIRE(sequences || num_sequences == 0, "rf_sequences_pad: sequences is NULL");
    rf_sequence_pad_params p = params ? *params : (rf_sequence_pad_params){ 0 };
    uint32_t longest = 0;
    RF_TRY(check_end(p.padding, "padding"));
    RF_TRY(check_end(p.truncating, "truncating"));
    RF_TRY(check_sequences(sequences, num_sequences, &longest));
    if (p.length == 0) p.length = longest;
    size_t count;
    if (!rf_mul_size(num_sequences, p.length, &count))
        return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "rf_sequences_pad: %u sequences of %u tokens are too many",
                       num_sequences, p.length);
    int32_t *rows = RF_NEW_ARRAY(int32_t, count);
    if (!rows) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < num_sequences; i++) write_row(&sequences[i], &p, rows + (size_t)i * p.length);
    *out = (rf_array){ RF_I32, { 2, { num_sequences, p.length } }, rows };
    return RF_OK;
}

rf_result rf_tokenizer_encode_padded(const rf_tokenizer *tokenizer, const char *const *texts, const size_t *sizes,
                                     uint32_t num_texts, const rf_sequence_pad_params *params, rf_array *out)
{
    RF_REQUIRE(out, "rf_tokenizer_encode_padded: out is NULL");
    *out = (rf_array){ 0 };
    RF_TRY(RF_PARAMS_CHECK(rf_sequence_pad_params, params));
    RF_REQUIRE(tokenizer, "rf_tokenizer_encode_padded: tokenizer is NULL");
    RF_REQUIRE(texts || num_texts == 0, "rf_tokenizer_encode_padded: texts is NULL");
    rf_array *sequences = RF_NEW_ARRAY(rf_array, num_texts);
    if (!sequences) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    for (uint32_t i = 0; i < num_texts && r == RF_OK; i++) {
        if (!texts[i])
            r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_tokenizer_encode_padded: text %u is NULL", i);
        else
            r = rf_tokenizer_encode(tokenizer, texts[i], sizes ? sizes[i] : strlen(texts[i]), &sequences[i]);
    }
    if (r == RF_OK) r = rf_sequences_pad(sequences, num_texts, params, out);
    for (uint32_t i = 0; i < num_texts; i++) rf_array_free(&sequences[i]);
    rf_free(sequences);
    return r;
}
