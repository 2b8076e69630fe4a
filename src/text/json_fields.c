/* SPDX-License-Identifier: Apache-2.0 */
/* JSON Lines whose members are components: texts as bytes or tokens, numbers, lists of numbers. */
#include <math.h>
#include <string.h>

#include "base/memory.h"
#include "base/params.h"
#include "base/philox.h"
#include "text/jsonl.h"

typedef struct fields_plan {
    rf_jsonl_field fields[RF_MAX_COMPONENTS]; /* names are copies */
    uint32_t count;
} fields_plan;

static void free_fields(void *plan)
{
    fields_plan *p = plan;
    for (uint32_t i = 0; p && i < p->count; i++) rf_free((void *)(uintptr_t)p->fields[i].name);
    rf_free(p);
}

/* ---- an object ---- */

/* The rows that `count` values make of a component. */
static rf_result set_rows(const rf_jsonl_field *f, uint64_t count, rf_array *out)
{
    const uint64_t most = (uint64_t)rf_shape_count(out->shape);
    const uint64_t rows = f->variable ? (uint64_t)out->shape.dim[0] : 1, row = most / rows;
    char shape[128];
    if (count <= most && (f->variable ? row > 0 && count % row == 0 : count == most)) {
        if (f->variable) out->shape.dim[0] = (int64_t)(count / row);
        return RF_OK;
    }
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' has %llu values, but %s takes %s%llu", f->name,
                   (unsigned long long)count, rf_shape_format(out->shape, shape, sizeof(shape)),
                   f->variable ? "up to " : "", (unsigned long long)most);
}

/* Bytes or tokens of a text, cut where that is wanted. */
static rf_result put_values(const rf_jsonl_field *f, const void *values, uint64_t count, rf_array *out, bool *cut)
{
    uint64_t most = (uint64_t)rf_shape_count(out->shape);
    if (f->truncate && count > most) {
        count = most;
        *cut = true;
        /* A character of several bytes is cut as a whole. */
        const unsigned char *bytes = values;
        while (f->dtype == RF_U8 && f->variable && count > 0 && (bytes[count] & 0xc0) == 0x80) count--;
    }
    RF_TRY(set_rows(f, count, out));
    if (count > 0) memcpy(out->data, values, count * rf_dtype_size(out->dtype));
    return RF_OK;
}

static rf_result put_text(const rf_jsonl_field *f, const json_t *value, rf_array *out, bool *cut)
{
    if (!json_is_string(value)) return rf_jsonl_fail(f->name, "is no text");
    if (!f->tokenizer) return put_values(f, json_string_value(value), json_string_length(value), out, cut);
    rf_array tokens = { 0 };
    rf_result r = rf_jsonl_encode(f->tokenizer, value, false, &tokens);
    if (r == RF_OK) r = put_values(f, tokens.data, (uint64_t)tokens.shape.dim[0], out, cut);
    rf_array_free(&tokens);
    return r;
}

static rf_result put_number(const rf_jsonl_field *f, const json_t *value, uint64_t place, rf_array *out)
{
    if (!json_is_real(value) && !json_is_boolean(value)) return rf_jsonl_fail(f->name, "has a value that is no number");
    const double number = json_is_real(value) ? json_real_value(value) : json_is_true(value);
    if (f->dtype == RF_F32) {
        if (!isfinite((float)number)) return rf_jsonl_fail(f->name, "has a number that f32 cannot hold");
        ((float *)out->data)[place] = (float)number;
        return RF_OK;
    }
    if (number < INT32_MIN || number > INT32_MAX || number != floor(number))
        return rf_jsonl_fail(f->name, "has a number that i32 cannot hold");
    ((int32_t *)out->data)[place] = (int32_t)number;
    return RF_OK;
}

/* Numbers of lists inside of lists, in order; `*count` of them are there, of which those that fit are kept. */
static rf_result put_numbers(const rf_jsonl_field *f, const json_t *value, int32_t depth, uint64_t *count,
                             rf_array *out)
{
    if (!json_is_array(value)) {
        if (depth != 0) return rf_jsonl_fail(f->name, "has lists of another depth than its shape");
        if (*count < (uint64_t)rf_shape_count(f->shape)) RF_TRY(put_number(f, value, *count, out));
        ++*count;
        return RF_OK;
    }
    if (depth == 0) return rf_jsonl_fail(f->name, "has lists of another depth than its shape");
    const size_t size = json_array_size(value);
    const int64_t wanted = f->shape.dim[f->shape.rank - depth];
    if (depth < f->shape.rank && (int64_t)size != wanted)
        return rf_jsonl_fail(f->name, "has inner lists of another length than its shape");
    for (size_t i = 0; i < size; i++) RF_TRY(put_numbers(f, json_array_get(value, i), depth - 1, count, out));
    return RF_OK;
}

static rf_result decode_fields(const void *plan, const json_t *object, const char *text, size_t size, rf_element *out,
                               bool *cut)
{
    (void)text, (void)size;
    const fields_plan *p = plan;
    for (uint32_t i = 0; i < p->count; i++) {
        const rf_jsonl_field *f = &p->fields[i];
        const json_t *value = json_object_get(object, f->name);
        rf_array *to = &out->component[i];
        if (!value) return rf_jsonl_fail(f->name, "is missing");
        if (f->dtype == RF_U8 || f->tokenizer) {
            RF_TRY(put_text(f, value, to, cut));
            continue;
        }
        const uint64_t most = (uint64_t)rf_shape_count(f->shape);
        uint64_t count = 0;
        RF_TRY(put_numbers(f, value, f->shape.rank, &count, to));
        if (f->truncate && count > most) {
            count = most;
            *cut = true;
        }
        RF_TRY(set_rows(f, count, to));
    }
    return RF_OK;
}

/* ---- the plan ---- */

static rf_result add_field(uint32_t number, const rf_jsonl_field *given, fields_plan *plan, rf_element_spec *spec)
{
    rf_jsonl_field f = *given;
    RF_REQUIRE(f.name, "rf_dataset_from_jsonl: field %u has no name", number);
    if (f.tokenizer && f.dtype == RF_DTYPE_INVALID) f.dtype = RF_I32;
    RF_REQUIRE(f.dtype == RF_F32 || f.dtype == RF_I32 || f.dtype == RF_U8,
               "rf_dataset_from_jsonl: field '%s' is %s, not f32, i32 or u8", f.name, rf_dtype_name(f.dtype));
    RF_REQUIRE(!f.tokenizer || f.dtype == RF_I32, "rf_dataset_from_jsonl: field '%s' is %s, but tokens are i32", f.name,
               rf_dtype_name(f.dtype));
    RF_REQUIRE(rf_shape_count(f.shape) > 0, "rf_dataset_from_jsonl: field '%s' has no valid shape", f.name);
    RF_REQUIRE((f.dtype != RF_U8 && !f.tokenizer) || f.shape.rank == 1,
               "rf_dataset_from_jsonl: field '%s' is a text, whose shape is [n]", f.name);
    RF_REQUIRE((!f.variable && !f.truncate) || f.shape.rank > 0,
               "rf_dataset_from_jsonl: field '%s' is a scalar, whose length cannot vary", f.name);
    f.name = rf_strdup(f.name);
    if (!f.name) return RF_ERROR_OUT_OF_HOST_MEMORY;
    plan->fields[plan->count++] = f;
    spec->dtype[number] = f.dtype;
    spec->shape[number] = f.shape;
    return RF_OK;
}

static uint64_t hash_fields(const fields_plan *plan)
{
    uint64_t h = plan->count;
    for (uint32_t i = 0; i < plan->count; i++) {
        const rf_jsonl_field *f = &plan->fields[i];
        const uint64_t flags =
            (uint64_t)f->variable | (uint64_t)f->truncate << 1 | (uint64_t)(f->tokenizer != NULL) << 2;
        h = rf_hash64(rf_hash_bytes(f->name, strlen(f->name), h), flags);
    }
    return h;
}

rf_result rf_dataset_from_jsonl(const rf_jsonl_params *params, rf_dataset **out)
{
    static const rf_jsonl_format format = { "rf_dataset_from_jsonl", decode_fields, free_fields };
    RF_REQUIRE(out, "rf_dataset_from_jsonl: out is NULL");
    *out = NULL;
    RF_REQUIRE(params, "rf_dataset_from_jsonl: params is NULL");
    RF_TRY(RF_PARAMS_CHECK(rf_jsonl_params, params));
    RF_REQUIRE(params->fields && params->num_fields >= 1 && params->num_fields <= RF_MAX_COMPONENTS,
               "rf_dataset_from_jsonl: %u fields; give 1 to %d", params->num_fields, RF_MAX_COMPONENTS);
    RF_TRY(RF_PARAMS_CHECK_ALL(rf_jsonl_field, params->fields, params->num_fields));
    rf_element_spec spec = { .num_components = params->num_fields };
    fields_plan *plan = RF_NEW(fields_plan);
    if (!plan) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < params->num_fields; i++) {
        const rf_result r = add_field(i, &params->fields[i], plan, &spec);
        if (r == RF_OK) continue;
        free_fields(plan);
        return r;
    }
    const rf_jsonl_files files = { params->paths, params->num_paths, params->max_bytes };
    return rf_jsonl_dataset(&format, plan, &spec, &files, hash_fields(plan), out);
}
