/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of components, with what "Sequence" holds in its place, and the patterns that components share. */
#include <string.h>

#include "base/utf8.h"
#include "text/pipeline/pipeline.h"

enum { MOST_STEPS = 64, MOST_DEPTH = 8 };

const char *const rf_prepend_schemes[] = { "always", "first", "never", NULL };

rf_result rf_steps_add(rf_steps *steps, const rf_step *step)
{
    if (steps->count == MOST_STEPS)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "more than %d components, one after the other", MOST_STEPS);
    RF_TRY(RF_VEC_GROW(steps));
    steps->items[steps->count++] = *step;
    return RF_OK;
}

void rf_steps_free(rf_steps *steps)
{
    for (uint32_t i = 0; i < steps->count; i++) rf_regex_free(&steps->items[i].pattern.regex);
    rf_free(steps->items);
    *steps = (rf_steps){ 0 };
}

static rf_result read_one(rf_arena *arena, const rf_step_type *types, const json_t *value, rf_steps *out)
{
    const char *name = rf_type_of(value);
    const rf_step_type *type = types;
    while (type->name && (!name || strcmp(type->name, name) != 0)) type++;
    if (!type->name) return rf_type_unknown(value);
    rf_step step = type->defaults;
    step.type = type;
    rf_result r = rf_fields_read(arena, value, type->fields, &step);
    /* The list owns an expression as soon as it has the step; a type that expands compiles its own ones. */
    if (r == RF_OK) r = type->expand ? type->expand(arena, value, &step, out) : rf_steps_add(out, &step);
    if (r < 0) rf_regex_free(&step.pattern.regex);
    return rf_error_context(r, "%s", type->name);
}

static rf_result read_steps(rf_arena *arena, const rf_role *role, const json_t *value, uint32_t depth, rf_steps *out)
{
    const char *name = rf_type_of(value);
    if (!value || json_is_null(value)) return RF_OK;
    if (!name || strcmp(name, "Sequence") != 0) return read_one(arena, role->types, value, out);
    const json_t *list = json_object_get(value, role->sequence);
    if (!json_is_array(list))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "type \"Sequence\" has no list \"%s\"", role->sequence);
    if (depth == MOST_DEPTH)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "more than %d sequences, one in the other", MOST_DEPTH);
    for (size_t i = 0; i < json_array_size(list); i++)
        RF_TRY(rf_error_context(read_steps(arena, role, json_array_get(list, i), depth + 1, out), "%s[%zu]",
                                role->sequence, i));
    return RF_OK;
}

rf_result rf_steps_read(rf_arena *arena, const rf_role *role, const json_t *value, rf_steps *out)
{
    return rf_error_context(read_steps(arena, role, value, 0, out), "%s", role->member);
}

rf_result rf_metaspace_expand(rf_arena *arena, const json_t *object, const rf_step *from, rf_steps *out)
{
    rf_step step = *from;
    (void)arena;
    if (!json_object_get(object, "prepend_scheme"))
        step.prepend_scheme = step.prefix_space ? RF_PREPEND_ALWAYS : RF_PREPEND_NEVER;
    return rf_steps_add(out, &step);
}

/* ---- patterns ---- */

rf_result rf_pattern_find(const rf_pattern *pattern, rf_matcher *m, const char *text, size_t size, size_t from,
                          size_t *begin, size_t *end)
{
    if (pattern->regex) return rf_regex_find(pattern->regex, m, text, size, from, begin, end);
    const char *found = memmem(text + from, size - from, pattern->text.bytes, pattern->text.size);
    if (!found) return RF_END;
    *begin = (size_t)(found - text);
    *end = *begin + pattern->text.size;
    return RF_OK;
}

/* An empty match right behind another one counts for nothing. */
rf_result rf_pattern_replace(const rf_step *s, rf_matcher *m, const char *text, size_t size, rf_text_bytes *out)
{
    size_t kept = 0, from = 0, begin, end;
    bool again = false;
    while (from <= size) {
        const rf_result r = rf_pattern_find(&s->pattern, m, text, size, from, &begin, &end);
        if (r == RF_END) break;
        RF_TRY(r);
        if (end > begin || !again || begin != kept) {
            RF_TRY(rf_text_bytes_append(out, text + kept, begin - kept));
            RF_TRY(rf_text_bytes_append(out, s->text.bytes, s->text.size));
            kept = end;
        }
        again = true;
        for (from = end; end == begin && from <= size;) {
            from++;
            if (from >= size || ((uint8_t)text[from] & 0xc0) != 0x80) break;
        }
    }
    return rf_text_bytes_append(out, text + kept, size - kept);
}

/* ---- GPT-2's characters for bytes ---- */

/* Printable characters of Latin-1 stand for themselves, the other bytes, in order, are from U+0100 on. */
static bool is_printable(uint32_t code)
{
    return (code >= '!' && code <= '~') || (code >= 0xa1 && code <= 0xff && code != 0xad);
}

enum { NUM_OTHERS = 68 /* bytes that are not printable */ };

uint32_t rf_byte_character(uint8_t byte)
{
    if (is_printable(byte)) return byte;
    if (byte <= ' ') return 0x100u + byte;
    return byte == 0xad ? 0x100u + NUM_OTHERS - 1 : 0x100u + 33u + (byte - 0x7fu); /* 33: those up to the space */
}

int rf_character_byte(uint32_t code)
{
    if (code < 0x100) return is_printable(code) ? (int)code : -1;
    if (code >= 0x100 + NUM_OTHERS) return -1;
    const uint32_t place = code - 0x100;
    if (place == NUM_OTHERS - 1) return 0xad;
    return place <= ' ' ? (int)place : (int)(place - 33 + 0x7f);
}
