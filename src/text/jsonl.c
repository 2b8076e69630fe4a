/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of JSON Lines. Files are read once when the dataset is made, to know where lines are; an object is parsed
 * when its element is needed, each time anew. Plain files are fetched by number; where one is compressed, all are read
 * in order.
 */
#include "text/jsonl.h"

#include <string.h>

#include "base/numbers.h"
#include "data/formats/line_index.h"
#include "data/pipeline.h"
#include "data/sources/files.h"

enum { DEFAULT_BYTES = 1 << 20, MOST_BYTES = 1 << 30 };

typedef struct jsonl_source {
    const rf_jsonl_format *format;
    void *plan;
    size_t max_bytes;
    char **paths;
    rf_line_index *indexes;
    uint32_t count;
    bool in_order; /* a file is compressed */
    atomic_uint_least64_t cut;
} jsonl_source;

static void free_jsonl(rf_dataset *dataset)
{
    jsonl_source *source = dataset->data;
    if (!source) return;
    source->format->free_plan(source->plan);
    for (uint32_t i = 0; i < source->count; i++) {
        rf_free(source->paths[i]);
        rf_line_index_free(&source->indexes[i]);
    }
    rf_free(source->paths);
    rf_free(source->indexes);
    rf_free(source);
}

/* ---- reading ---- */

typedef struct jsonl_cursor {
    uint64_t *starts; /* [num_files + 1] */
    uint32_t file;    /* number of the source that `lines` is of */
    rf_line_cursor lines;
    uint8_t *line; /* [max_bytes] */
} jsonl_cursor;

static uint64_t jsonl_examples(const rf_dataset *dataset, uint32_t file)
{
    return ((const jsonl_source *)dataset->data)->indexes[rf_files_number(dataset, file)].count;
}

static rf_result open_jsonl(rf_stage *stage)
{
    const rf_dataset *d = stage->dataset;
    const jsonl_source *source = d->data;
    jsonl_cursor *c = stage->data = RF_NEW(jsonl_cursor);
    if (!c) return RF_ERROR_OUT_OF_HOST_MEMORY;
    c->starts = rf_files_starts(d);
    c->line = rf_calloc(source->max_bytes, 1);
    if (!c->starts || !c->line) return RF_ERROR_OUT_OF_HOST_MEMORY;
    stage->indexed = !source->in_order;
    stage->count = c->starts[d->num_files];
    return rf_stage_allocate_element(stage, &d->spec);
}

static void close_jsonl(rf_stage *stage)
{
    jsonl_cursor *c = stage->data;
    if (!c) return;
    rf_line_reader_close(&c->lines.reader);
    rf_free(c->starts);
    rf_free(c->line);
    rf_free(c);
}

/* A number is a real whatever it looks like: integers of any size are no damage where nobody asks for them. */
static rf_result parse_line(const char *text, size_t size, json_t **out)
{
    json_error_t error;
    RF_WITH_C_NUMBERS(*out = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL,
                                        &error));
    if (!*out && json_error_code(&error) == json_error_out_of_memory)
        return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for an object of %zu bytes", size);
    if (!*out) {
        rf_error_one_line(error.text);
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "byte %d: %s", error.position, error.text);
    }
    if (json_is_object(*out)) return RF_OK;
    json_decref(*out);
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "it is no JSON object");
}

static rf_result decode_line(jsonl_source *source, const char *text, size_t size, rf_element *out)
{
    json_t *object;
    bool cut = false;
    RF_TRY(parse_line(text, size, &object));
    const rf_result r = source->format->decode(source->plan, object, text, size, out, &cut);
    json_decref(object);
    if (r == RF_OK && cut) atomic_fetch_add(&source->cut, 1);
    return r;
}

static uint64_t count_cut(const rf_dataset *dataset)
{
    return atomic_load(&((jsonl_source *)dataset->data)->cut);
}

static rf_result get_jsonl(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_dataset *d = stage->dataset;
    jsonl_source *source = d->data;
    jsonl_cursor *c = stage->data;
    const uint32_t file = rf_files_find(c->starts, d->num_files, index), number = rf_files_number(d, file);
    size_t size;
    uint64_t line;
    if (c->file != number) rf_line_reader_close(&c->lines.reader);
    c->file = number;
    RF_TRY(rf_line_index_read(&source->indexes[number], source->paths[number], &c->lines, index - c->starts[file],
                              c->line, source->max_bytes, &size, &line));
    rf_element_place(&stage->element, &d->spec, stage->element_memory); /* whole shapes again */
    *out = &stage->element;
    return rf_error_context(decode_line(source, (const char *)c->line, size, &stage->element), "%s:%llu",
                            source->paths[number], (unsigned long long)line);
}

static rf_result next_jsonl(rf_stage *stage, const rf_element **out)
{
    return stage->position < stage->count ? get_jsonl(stage, stage->position, out) : RF_END;
}

/* The cursor leaves out what lies between when it is asked for a line again. */
static rf_result pass_over_jsonl(rf_stage *stage)
{
    return stage->position < stage->count ? RF_OK : RF_END;
}

static const rf_dataset_kind jsonl_kind = {
    .name = "jsonl",
    .open = open_jsonl,
    .close = close_jsonl,
    .get = get_jsonl,
    .next = next_jsonl,
    .pass_over = pass_over_jsonl,
    .free_dataset = free_jsonl,
    .select_files = rf_files_select,
    .file_examples = jsonl_examples,
    .cut = count_cut,
};

/* ---- what formats share ---- */

rf_result rf_jsonl_fail(const char *member, const char *fault)
{
    char shown[48] = "";
    strncpy(shown, member, sizeof(shown) - 1);
    rf_error_one_line(shown);
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' %s", shown, fault);
}

rf_result rf_jsonl_encode(const rf_tokenizer *tokenizer, const json_t *text, bool continues, rf_array *out)
{
    const char *bytes = json_string_value(text);
    const size_t size = json_string_length(text);
    const rf_tokenizer_encode_params inside = { .no_special_tokens = true };
    if (continues && rf_tokenizer_get_kind(tokenizer) == RF_TOKENIZER_PIPELINE)
        return rf_tokenizer_encode_with(tokenizer, bytes, size, &inside, out, NULL);
    return rf_tokenizer_encode(tokenizer, bytes, size, out);
}

/* ---- creation ---- */

static rf_result add_jsonl_files(const rf_jsonl_files *files, jsonl_source *source)
{
    const char *function = source->format->function;
    RF_REQUIRE(files->paths && files->count > 0, "%s: no files given", function);
    RF_REQUIRE(files->max_bytes <= MOST_BYTES, "%s: max_bytes is %u, at most %d", function, files->max_bytes,
               (int)MOST_BYTES);
    source->max_bytes = files->max_bytes ? files->max_bytes : DEFAULT_BYTES;
    source->paths = RF_NEW_ARRAY(char *, files->count);
    source->indexes = RF_NEW_ARRAY(rf_line_index, files->count);
    if (!source->paths || !source->indexes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < files->count; i++) {
        RF_REQUIRE(files->paths[i], "%s: path %u is NULL", function, i);
        source->paths[source->count++] = rf_strdup(files->paths[i]);
        if (!source->paths[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
        RF_TRY(rf_line_index_make(source->paths[i], &source->indexes[i]));
        source->in_order = source->in_order || source->indexes[i].packed;
    }
    return RF_OK;
}

rf_result rf_jsonl_dataset(const rf_jsonl_format *format, void *plan, const rf_element_spec *spec,
                           const rf_jsonl_files *files, uint64_t fingerprint, rf_dataset **out)
{
    jsonl_source *source = RF_NEW(jsonl_source);
    if (!source) {
        format->free_plan(plan);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    source->format = format;
    source->plan = plan;
    rf_result r = add_jsonl_files(files, source);
    if (r == RF_OK) r = rf_dataset_new(&jsonl_kind, spec, out);
    if (r < 0) {
        rf_dataset holder = { .data = source };
        free_jsonl(&holder);
        return r;
    }
    rf_dataset *d = *out;
    d->data = source;
    d->num_files = files->count;
    d->names = rf_files_hash_names(files->paths, files->count);
    d->count = fingerprint;
    d->seed = 1; /* every file */
    d->cardinality = rf_files_examples(d);
    return RF_OK;
}
