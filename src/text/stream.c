/* SPDX-License-Identifier: Apache-2.0 */
/* Text of tokens that come one by one. A tokenizer's text of some tokens may depend on those before them, and a
 * character may be in several: so what the latest tokens add to the text of those before them is what is new, once it
 * ends in a whole character. */
#include <string.h>

#include "base/memory.h"
#include "base/params.h"
#include "base/utf8.h"
#include "text/bytes.h"
#include "text/tokenizer.h"

enum { MOST_STOP_BYTES = 4096 };

typedef struct stop_string {
    char *bytes;
    size_t size;
} stop_string;

struct rf_text_stream {
    const rf_tokenizer *tokenizer;
    stop_string *stops;
    uint32_t num_stops;
    struct {
        int32_t *items;
        uint32_t count, capacity;
    } tokens;          /* from those on that the next ones are decoded with */
    uint32_t shown;    /* of them, whose text has been taken */
    rf_text_bytes out; /* taken and not given out: a stop string may begin in it */
    size_t given;      /* of `out`, by the latest call */
    bool ended;
};

/* ---- characters ---- */

/* Whether a text ends within a character, or with what stands for a part of one. */
static bool ends_open(const char *text, size_t size)
{
    size_t tail = 0;
    uint32_t code;
    while (tail < 3 && tail < size && ((uint8_t)text[size - 1 - tail] & 0xc0) == 0x80) tail++;
    if (tail == size) return size > 0;
    const uint8_t first = (uint8_t)text[size - 1 - tail];
    const size_t needed = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
    if (needed > tail + 1) return true;
    return rf_utf8_decode(text + size - 1 - tail, tail + 1, &code) == tail + 1 && code == 0xfffd;
}

static rf_result decode_first(const rf_text_stream *s, uint32_t count, char **text, size_t *size)
{
    return rf_tokenizer_decode(s->tokenizer, s->tokens.items, count, text, size);
}

/* Appends what the tokens add that are not shown yet; with `all` whatever it ends in. */
static rf_result take_text(rf_text_stream *s, bool all)
{
    char *before = NULL, *after = NULL;
    size_t old_size = 0, size = 0;
    rf_result r = decode_first(s, s->shown, &before, &old_size);
    if (r >= 0) r = decode_first(s, s->tokens.count, &after, &size);
    if (r >= 0 && size > old_size && (all || !ends_open(after, size))) {
        r = rf_text_bytes_append(&s->out, after + old_size, size - old_size);
        memmove(s->tokens.items, s->tokens.items + s->shown, (s->tokens.count - s->shown) * sizeof(int32_t));
        s->tokens.count -= s->shown;
        s->shown = s->tokens.count;
    }
    rf_string_free(before);
    rf_string_free(after);
    return r;
}

/* ---- stop strings ---- */

/* The first place where one begins; the size of `out` where none does. */
static size_t find_stop(const rf_text_stream *s)
{
    size_t first = s->out.size;
    for (uint32_t i = 0; s->out.size > 0 && i < s->num_stops; i++) {
        const char *at = memmem(s->out.bytes, s->out.size, s->stops[i].bytes, s->stops[i].size);
        if (at && (size_t)(at - s->out.bytes) < first) first = (size_t)(at - s->out.bytes);
    }
    return first;
}

/* From here on the text may be the beginning of a stop string. */
static size_t find_possible_stop(const rf_text_stream *s)
{
    for (size_t at = s->out.size > MOST_STOP_BYTES ? s->out.size - MOST_STOP_BYTES : 0; at < s->out.size; at++)
        for (uint32_t i = 0; i < s->num_stops; i++)
            if (s->stops[i].size > s->out.size - at &&
                memcmp(s->stops[i].bytes, s->out.bytes + at, s->out.size - at) == 0)
                return at;
    return s->out.size;
}

/* ---- the stream ---- */

static rf_result copy_stops(rf_text_stream *s, const rf_text_stream_params *params)
{
    s->stops = RF_NEW_ARRAY(stop_string, params->num_stop_strings);
    if (!s->stops) return RF_ERROR_OUT_OF_HOST_MEMORY;
    s->num_stops = params->num_stop_strings;
    for (uint32_t i = 0; i < s->num_stops; i++) {
        s->stops[i].bytes = rf_strdup(params->stop_strings[i]);
        if (!s->stops[i].bytes) return RF_ERROR_OUT_OF_HOST_MEMORY;
        s->stops[i].size = strlen(params->stop_strings[i]);
    }
    return RF_OK;
}

rf_result rf_text_stream_create(const rf_text_stream_params *params, rf_text_stream **out)
{
    RF_REQUIRE(out, "rf_text_stream_create: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_text_stream_params, params));
    RF_REQUIRE(params && params->tokenizer, "rf_text_stream_create: %s is NULL", params ? "tokenizer" : "params");
    RF_REQUIRE(params->stop_strings || params->num_stop_strings == 0, "rf_text_stream_create: stop_strings is NULL");
    for (uint32_t i = 0; i < params->num_stop_strings; i++) {
        const char *stop = params->stop_strings[i];
        RF_REQUIRE(stop && *stop && strlen(stop) <= MOST_STOP_BYTES,
                   "rf_text_stream_create: stop string %u is empty, or has more than %d bytes", i, MOST_STOP_BYTES);
    }
    rf_text_stream *s = RF_NEW(rf_text_stream);
    if (!s) return RF_ERROR_OUT_OF_HOST_MEMORY;
    s->tokenizer = params->tokenizer;
    const rf_result r = copy_stops(s, params);
    if (r < 0)
        rf_text_stream_destroy(&s);
    else
        *out = s;
    return r;
}

void rf_text_stream_destroy(rf_text_stream **stream)
{
    if (!stream || !*stream) return;
    rf_text_stream *s = *stream;
    *stream = NULL;
    for (uint32_t i = 0; i < s->num_stops; i++) rf_free(s->stops[i].bytes);
    rf_free(s->stops);
    rf_free(s->tokens.items);
    rf_text_bytes_free(&s->out);
    rf_free(s);
}

/* Forgets what the call before gave out. */
static void begin_call(rf_text_stream *s)
{
    if (s->given == 0) return;
    memmove(s->out.bytes, s->out.bytes + s->given, s->out.size - s->given);
    s->out.size -= s->given;
    s->given = 0;
}

/* Gives out the first bytes of `out`; those behind them move, as a zero byte follows. */
static rf_result give_out(rf_text_stream *s, size_t count, const char **text, size_t *size)
{
    RF_TRY(rf_text_bytes_reserve(&s->out, 1));
    char *bytes = s->out.bytes;
    memmove(bytes + count + 1, bytes + count, s->out.size - count);
    bytes[count] = '\0';
    s->out.size++;
    s->given = count + 1;
    *text = bytes;
    if (size) *size = count;
    return s->ended ? RF_END : RF_OK;
}

rf_result rf_text_stream_add(rf_text_stream *stream, int32_t token, const char **text, size_t *size)
{
    RF_REQUIRE(stream && text, "rf_text_stream_add: %s is NULL", stream ? "text" : "stream");
    *text = "";
    if (size) *size = 0;
    if (stream->ended) return RF_END;
    begin_call(stream);
    RF_TRY(RF_VEC_GROW(&stream->tokens));
    stream->tokens.items[stream->tokens.count++] = token;
    const rf_result r = take_text(stream, false);
    if (r < 0) stream->tokens.count--;
    RF_TRY(rf_error_context(r, "rf_text_stream_add: token %d", token));
    const size_t stop = find_stop(stream);
    stream->ended = stop < stream->out.size;
    return give_out(stream, stream->ended ? stop : find_possible_stop(stream), text, size);
}

rf_result rf_text_stream_finish(rf_text_stream *stream, const char **text, size_t *size)
{
    RF_REQUIRE(stream && text, "rf_text_stream_finish: %s is NULL", stream ? "text" : "stream");
    *text = "";
    if (size) *size = 0;
    if (stream->ended) return RF_END;
    begin_call(stream);
    RF_TRY(rf_error_context(take_text(stream, true), "rf_text_stream_finish"));
    stream->ended = true;
    return give_out(stream, find_stop(stream), text, size);
}
