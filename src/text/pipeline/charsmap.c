/* SPDX-License-Identifier: Apache-2.0 */
#include "text/pipeline/charsmap.h"

#include <string.h>
#include <utf8proc.h>

#include "base/utf8.h"

enum { MOST_GRAPHEME_BYTES = 5 };

/* The units of a double array are those of the library darts-clone. */
struct rf_charsmap {
    uint32_t *units, num_units;
    const char *texts; /* each ends with a zero byte, the last one too */
    size_t texts_size;
};

/* ---- base64 ---- */

static int sextet_of(char c)
{
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static rf_result decode_base64(rf_arena *arena, const char *text, size_t size, uint8_t **out, size_t *out_size)
{
    uint32_t bits = 0, held = 0;
    *out_size = 0;
    RF_TRY(RF_ARENA_ARRAY(arena, *out, size / 4 * 3 + 4));
    while (size > 0 && text[size - 1] == '=') size--;
    for (size_t i = 0; i < size; i++) {
        const int sextet = sextet_of(text[i]);
        if (sextet < 0) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "byte %zu is not base64", i);
        bits = bits << 6 | (uint32_t)sextet;
        held += 6;
        if (held < 8) continue;
        held -= 8;
        (*out)[(*out_size)++] = (uint8_t)(bits >> held);
    }
    return RF_OK;
}

static uint32_t read_u32(const uint8_t *bytes)
{
    return bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

rf_result rf_charsmap_read(rf_arena *arena, const char *text, size_t size, rf_charsmap **out)
{
    uint8_t *bytes;
    size_t count;
    RF_TRY(decode_base64(arena, text, size, &bytes, &count));
    const size_t trie = count >= 4 ? read_u32(bytes) : 0;
    if (trie == 0 || trie % 4 != 0 || trie > count - 4)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "is no map of characters: its table has %zu of %zu bytes", trie, count);
    rf_charsmap *map = rf_arena_alloc(arena, sizeof(*map));
    if (!map) return RF_ERROR_OUT_OF_HOST_MEMORY;
    map->num_units = (uint32_t)(trie / 4);
    RF_TRY(RF_ARENA_ARRAY(arena, map->units, map->num_units));
    for (uint32_t i = 0; i < map->num_units; i++) map->units[i] = read_u32(bytes + 4 + (size_t)i * 4);
    map->texts = (const char *)bytes + 4 + trie;
    map->texts_size = count - 4 - trie;
    bytes[count] = 0; /* there is room */
    *out = map;
    return RF_OK;
}

/* ---- applying ---- */

static uint32_t offset_of(uint32_t unit)
{
    return (unit >> 10) << ((unit & 0x200) >> 6);
}

/* The text for the first entry that the text begins with; NULL where there is none. */
static const char *find_entry(const rf_charsmap *map, const char *text, size_t size)
{
    uint32_t node = offset_of(map->units[0]);
    for (size_t i = 0; i < size && text[i]; i++) {
        node ^= (uint8_t)text[i];
        if (node >= map->num_units) return NULL;
        const uint32_t unit = map->units[node];
        if ((unit & 0x800000ffu) != (uint8_t)text[i]) return NULL;
        node ^= offset_of(unit);
        if (node >= map->num_units) return NULL;
        if (!(unit & 0x100)) continue;
        const uint32_t at = map->units[node] & 0x7fffffffu;
        return at < map->texts_size ? map->texts + at : NULL;
    }
    return NULL;
}

static rf_result apply_grapheme(const rf_charsmap *map, const char *text, size_t size, rf_text_bytes *out)
{
    const char *entry = size <= MOST_GRAPHEME_BYTES ? find_entry(map, text, size) : NULL;
    if (entry) return rf_text_bytes_append(out, entry, strlen(entry));
    for (size_t i = 0; i < size;) {
        uint32_t code;
        const uint32_t length = rf_utf8_decode(text + i, size - i, &code);
        entry = find_entry(map, text + i, length);
        RF_TRY(entry ? rf_text_bytes_append(out, entry, strlen(entry)) : rf_text_bytes_append(out, text + i, length));
        i += length;
    }
    return RF_OK;
}

rf_result rf_charsmap_apply(const rf_charsmap *map, const char *text, size_t size, rf_text_bytes *out)
{
    utf8proc_int32_t state = 0;
    for (size_t begin = 0; begin < size;) {
        uint32_t code, next;
        size_t end = begin + rf_utf8_decode(text + begin, size - begin, &code);
        while (end < size) {
            const uint32_t length = rf_utf8_decode(text + end, size - end, &next);
            if (utf8proc_grapheme_break_stateful((utf8proc_int32_t)code, (utf8proc_int32_t)next, &state)) break;
            code = next;
            end += length;
        }
        RF_TRY(apply_grapheme(map, text + begin, end - begin, out));
        begin = end;
    }
    return RF_OK;
}
