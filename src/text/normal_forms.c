/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unicode's normal forms. utf8proc decomposes characters and composes them; the order of marks is found here, since
 * utf8proc takes time with the square of their number.
 */
#include <string.h>
#include <utf8proc.h>

#include "base/memory.h"
#include "base/utf8.h"
#include "text/unicode.h"

enum {
    MOST_PARTS = 32, /* of a character; U+FDFA has 18 */
    FEW_MARKS = 16,  /* that are put in order by comparing all */
    NUM_ORDERS = 256,
    FIRST_COMPOSED = 0x300 /* below it all characters are in NFC, and no mark follows them */
};

typedef struct code_list {
    utf8proc_int32_t *items;
    uint32_t count, capacity;
} code_list;

static bool is_below(const char *text, size_t size, uint8_t lead)
{
    for (size_t i = 0; i < size; i++)
        if ((uint8_t)text[i] >= lead) return false;
    return true;
}

static uint32_t order_of(utf8proc_int32_t code)
{
    return rf_unicode_order((uint32_t)code);
}

static void order_few(utf8proc_int32_t *marks, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const utf8proc_int32_t mark = marks[i];
        const uint32_t order = order_of(mark);
        uint32_t at = i;
        for (; at > 0 && order_of(marks[at - 1]) > order; at--) marks[at] = marks[at - 1];
        marks[at] = mark;
    }
}

static rf_result order_many(utf8proc_int32_t *marks, uint32_t count)
{
    uint32_t places[NUM_ORDERS + 1] = { 0 };
    utf8proc_int32_t *ordered = RF_NEW_ARRAY(utf8proc_int32_t, count);
    if (!ordered) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) places[order_of(marks[i]) % NUM_ORDERS + 1]++;
    for (uint32_t i = 1; i <= NUM_ORDERS; i++) places[i] += places[i - 1];
    for (uint32_t i = 0; i < count; i++) ordered[places[order_of(marks[i]) % NUM_ORDERS]++] = marks[i];
    memcpy(marks, ordered, count * sizeof(*marks));
    rf_free(ordered);
    return RF_OK;
}

static rf_result order_marks(const code_list *codes)
{
    for (uint32_t i = 0; i < codes->count;) {
        uint32_t end = i;
        while (end < codes->count && order_of(codes->items[end]) > 0) end++;
        if (end - i > FEW_MARKS)
            RF_TRY(order_many(codes->items + i, end - i));
        else if (end - i > 1)
            order_few(codes->items + i, end - i);
        i = end > i ? end : i + 1;
    }
    return RF_OK;
}

static rf_result decompose_text(const char *text, size_t size, utf8proc_option_t options, code_list *codes)
{
    for (size_t i = 0; i < size;) {
        uint32_t code;
        int boundary = 0;
        utf8proc_int32_t parts[MOST_PARTS];
        i += rf_utf8_decode(text + i, size - i, &code);
        parts[0] = (utf8proc_int32_t)code;
        utf8proc_ssize_t count =
            code < 0x80 ? 1 : utf8proc_decompose_char((utf8proc_int32_t)code, parts, MOST_PARTS, options, &boundary);
        if (count < 1 || count > MOST_PARTS) return RF_FAIL(RF_ERROR_INTERNAL, "U+%04X has no decomposition", code);
        RF_TRY(rf_array_reserve((void **)&codes->items, &codes->capacity, codes->count + (uint32_t)count,
                                sizeof(*codes->items)));
        memcpy(codes->items + codes->count, parts, (size_t)count * sizeof(*parts));
        codes->count += (uint32_t)count;
    }
    return RF_OK;
}

static rf_result normalize_codes(const char *text, size_t size, rf_unicode_form form, code_list *codes,
                                 rf_text_bytes *out)
{
    const bool composed = form == RF_UNICODE_NFC || form == RF_UNICODE_NFKC;
    const bool compatible = form == RF_UNICODE_NFKC || form == RF_UNICODE_NFKD;
    const utf8proc_option_t options =
        UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : (utf8proc_option_t)0);
    if (size >= UINT32_MAX / 32) return RF_FAIL(RF_ERROR_UNSUPPORTED, "a text of %zu bytes; cut it", size);
    RF_TRY(decompose_text(text, size, options, codes));
    RF_TRY(order_marks(codes));
    utf8proc_ssize_t count = codes->count;
    if (composed) count = utf8proc_normalize_utf32(codes->items, count, UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    if (count < 0) return RF_FAIL(RF_ERROR_INTERNAL, "utf8proc: %s", utf8proc_errmsg(count));
    for (utf8proc_ssize_t i = 0; i < count; i++) RF_TRY(rf_text_bytes_append_code(out, (uint32_t)codes->items[i]));
    return RF_OK;
}

rf_result rf_unicode_normalize(const char *text, size_t size, rf_unicode_form form, rf_text_bytes *out)
{
    const uint8_t lead = form == RF_UNICODE_NFC ? 0xc0 | FIRST_COMPOSED >> 6 : 0x80;
    if (size == 0 || is_below(text, size, lead)) return rf_text_bytes_append(out, text, size);
    code_list codes = { 0 };
    const rf_result r = normalize_codes(text, size, form, &codes, out);
    rf_free(codes.items);
    return r;
}
