/* SPDX-License-Identifier: Apache-2.0 */
/* Post-processors, as templates of one text and of two, and truncation. */
#include <stddef.h>
#include <string.h>

#include "text/pipeline/pipeline.h"

enum { MOST_ITEMS = 1024, MOST_DEPTH = 8 };

static rf_result add_item(rf_template *out, int32_t sequence, uint32_t type, const int32_t *ids, uint32_t num_ids)
{
    if (out->count == MOST_ITEMS) return RF_FAIL(RF_ERROR_UNSUPPORTED, "more than %d parts", MOST_ITEMS);
    for (uint32_t i = 0; i < out->count && sequence >= 0; i++)
        if (out->items[i].sequence == sequence)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "sequence \"%c\" is there twice", 'A' + sequence);
    RF_TRY(RF_VEC_GROW(out));
    out->items[out->count++] =
        (rf_template_item){ .sequence = sequence, .type = (int32_t)type, .ids = ids, .num_ids = num_ids };
    return RF_OK;
}

static rf_result read_ids(rf_tokenizer *t, const json_t *list, const int32_t **out, uint32_t *count)
{
    const size_t size = json_array_size(list);
    int32_t *ids;
    if (size == 0 || size > MOST_ITEMS) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "\"ids\" is no list of token numbers");
    RF_TRY(RF_ARENA_ARRAY(&t->pipeline->arena, ids, size));
    for (size_t i = 0; i < size; i++) {
        const json_t *value = json_array_get(list, i);
        const json_int_t id = json_integer_value(value);
        if (!json_is_integer(value) || id < 0 || (uint64_t)id >= t->tokens.count)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "number %zu of \"ids\" is no token of 0 to %u", i,
                           t->tokens.count - 1);
        ids[i] = (int32_t)id;
    }
    *out = ids;
    *count = (uint32_t)size;
    return RF_OK;
}

/* ---- TemplateProcessing ---- */

typedef struct part {
    rf_slice_text id;
    uint32_t type;
} part;
static const rf_field part_fields[] = {
    { "id", RF_FIELD_TEXT, true, offsetof(part, id), NULL },
    { "type_id", RF_FIELD_COUNT, true, offsetof(part, type), NULL },
    { 0 },
};

static rf_result read_part(rf_tokenizer *t, const json_t *special_tokens, const json_t *value, rf_template *out)
{
    const json_t *sequence = json_object_get(value, "Sequence"), *special = json_object_get(value, "SpecialToken");
    part p = { 0 };
    const int32_t *ids = NULL;
    uint32_t count = 0;
    if (json_object_size(value) != 1 || (!sequence && !special))
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "is neither a \"Sequence\" nor a \"SpecialToken\"");
    RF_TRY(rf_fields_read(&t->pipeline->arena, sequence ? sequence : special, part_fields, &p));
    if (sequence) {
        if (strcmp(p.id.bytes, "A") != 0 && strcmp(p.id.bytes, "B") != 0)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a \"Sequence\" is neither \"A\" nor \"B\"");
        return add_item(out, p.id.bytes[0] == 'B', p.type, NULL, 0);
    }
    const json_t *token = json_object_get(special_tokens, p.id.bytes);
    if (!token) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "its token is not in \"special_tokens\"");
    RF_TRY(read_ids(t, json_object_get(token, "ids"), &ids, &count));
    return add_item(out, -1, p.type, ids, count);
}

static rf_result read_template(rf_tokenizer *t, const json_t *object, const char *name, rf_template *out)
{
    const json_t *list = json_object_get(object, name);
    out->count = 0;
    if (!json_is_array(list)) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s is no list", name);
    for (size_t i = 0; i < json_array_size(list); i++)
        RF_TRY(rf_error_context(read_part(t, json_object_get(object, "special_tokens"), json_array_get(list, i), out),
                                "%s[%zu]", name, i));
    for (uint32_t i = 0; i < out->count; i++)
        if (out == &t->pipeline->templates[0] && out->items[i].sequence == 1)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "single has a sequence \"B\"");
    return RF_OK;
}

static const rf_field template_fields[] = {
    { .name = "single", .kind = RF_FIELD_OTHER },
    { .name = "pair", .kind = RF_FIELD_OTHER },
    { .name = "special_tokens", .kind = RF_FIELD_OTHER },
    { 0 },
};

static rf_result read_templates(rf_tokenizer *t, const json_t *object)
{
    RF_TRY(read_template(t, object, "single", &t->pipeline->templates[0]));
    return read_template(t, object, "pair", &t->pipeline->templates[1]);
}

/* ---- BERT's and RoBERTa's ---- */

/* ["[SEP]", 102] */
static rf_result read_token(rf_tokenizer *t, const json_t *object, const char *name, int32_t **out)
{
    const json_t *value = json_object_get(object, name), *id = json_array_get(value, 1);
    const json_int_t number = json_integer_value(id);
    if (json_array_size(value) != 2 || !json_is_integer(id) || number < 0 || (uint64_t)number >= t->tokens.count)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s is no token and its number, of 0 to %u", name, t->tokens.count - 1);
    RF_TRY(RF_ARENA_ARRAY(&t->pipeline->arena, *out, 1));
    **out = (int32_t)number;
    return RF_OK;
}

/* `cls` A `sep` or `cls` A `sep` (once more) B `sep`. */
static rf_result fill_templates(rf_tokenizer *t, const json_t *object, bool twice, uint32_t second_type)
{
    int32_t *cls = NULL, *sep = NULL;
    RF_TRY(read_token(t, object, "cls", &cls));
    RF_TRY(read_token(t, object, "sep", &sep));
    for (uint32_t pair = 0; pair < 2; pair++) {
        rf_template *out = &t->pipeline->templates[pair];
        out->count = 0;
        RF_TRY(add_item(out, -1, 0, cls, 1));
        RF_TRY(add_item(out, 0, 0, NULL, 0));
        RF_TRY(add_item(out, -1, 0, sep, 1));
        if (!pair) continue;
        if (twice) RF_TRY(add_item(out, -1, 0, sep, 1));
        RF_TRY(add_item(out, 1, second_type, NULL, 0));
        RF_TRY(add_item(out, -1, second_type, sep, 1));
    }
    return RF_OK;
}

static rf_result read_bert(rf_tokenizer *t, const json_t *object)
{
    return fill_templates(t, object, false, 1);
}

static rf_result read_roberta(rf_tokenizer *t, const json_t *object)
{
    return fill_templates(t, object, true, 0);
}

static const rf_field bert_fields[] = {
    { .name = "cls", .kind = RF_FIELD_OTHER },
    { .name = "sep", .kind = RF_FIELD_OTHER },
    { 0 },
};
static const rf_field roberta_fields[] = {
    { .name = "cls", .kind = RF_FIELD_OTHER },
    { .name = "sep", .kind = RF_FIELD_OTHER },
    { .name = "trim_offsets", .kind = RF_FIELD_OTHER },
    { .name = "add_prefix_space", .kind = RF_FIELD_OTHER }, /* of the offsets, too */
    { 0 },
};

/* ---- the table ---- */

/* It changes offsets alone. */
static const rf_field byte_level_fields[] = {
    { .name = "add_prefix_space", .kind = RF_FIELD_OTHER },
    { .name = "trim_offsets", .kind = RF_FIELD_OTHER },
    { .name = "use_regex", .kind = RF_FIELD_OTHER },
    { 0 },
};

typedef struct processor {
    const char *name;
    const rf_field *fields;
    rf_result (*read)(rf_tokenizer *t, const json_t *object); /* NULL: no tokens come of it */
} processor;
static const processor processors[] = {
    { "TemplateProcessing", template_fields, read_templates },
    { "BertProcessing", bert_fields, read_bert },
    { "RobertaProcessing", roberta_fields, read_roberta },
    { "ByteLevel", byte_level_fields, NULL },
};

static rf_result read_processor(rf_tokenizer *t, const json_t *value, uint32_t depth, uint32_t *num_templates)
{
    const char *name = rf_type_of(value);
    if (!name) return rf_type_unknown(value);
    if (strcmp(name, "Sequence") == 0) {
        const json_t *list = json_object_get(value, "processors");
        if (!json_is_array(list) || depth == MOST_DEPTH)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "type \"Sequence\" has no list \"processors\", or is too deep");
        for (size_t i = 0; i < json_array_size(list); i++)
            RF_TRY(rf_error_context(read_processor(t, json_array_get(list, i), depth + 1, num_templates),
                                    "processors[%zu]", i));
        return RF_OK;
    }
    for (size_t i = 0; i < sizeof(processors) / sizeof(processors[0]); i++) {
        const processor *p = &processors[i];
        if (strcmp(p->name, name) != 0) continue;
        RF_TRY(rf_error_context(rf_fields_read(&t->pipeline->arena, value, p->fields, NULL), "%s", name));
        if (!p->read) return RF_OK;
        if ((*num_templates)++ > 0)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s is the second one that adds special tokens", name);
        return rf_error_context(p->read(t, value), "%s", p->name);
    }
    return rf_type_unknown(value);
}

rf_result rf_templates_read(rf_tokenizer *t, const json_t *value)
{
    uint32_t num_templates = 0;
    for (uint32_t pair = 0; pair < 2; pair++)
        for (uint32_t i = 0; i <= pair; i++) RF_TRY(add_item(&t->pipeline->templates[pair], (int32_t)i, i, NULL, 0));
    if (!value || json_is_null(value)) return RF_OK;
    return rf_error_context(read_processor(t, value, 0, &num_templates), "post_processor");
}

void rf_templates_free(rf_pipeline *p)
{
    for (uint32_t i = 0; i < 2; i++) rf_free(p->templates[i].items);
}

/* ---- truncation ---- */

rf_result rf_truncation_read(rf_pipeline *p, const json_t *value)
{
    static const char *const directions[] = { "Right", "Left", NULL };
    static const char *const strategies[] = { "LongestFirst", "OnlyFirst", "OnlySecond", NULL };
    static const rf_field fields[] = {
        { "max_length", RF_FIELD_COUNT, true, offsetof(rf_truncation, max_length), NULL },
        { "direction", RF_FIELD_CHOICE, false, offsetof(rf_truncation, direction), directions },
        { "strategy", RF_FIELD_CHOICE, true, offsetof(rf_truncation, strategy), strategies },
        { .name = "stride", .kind = RF_FIELD_OTHER }, /* of what is cut off, which nothing returns */
        { 0 },
    };
    if (!value || json_is_null(value)) return RF_OK;
    p->truncation.set = true;
    return rf_error_context(rf_fields_read(&p->arena, value, fields, &p->truncation), "truncation");
}
