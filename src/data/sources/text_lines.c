/* SPDX-License-Identifier: Apache-2.0 */
/* A source of the lines of text files, read in order: nothing of them is kept but what is being read. */
#include <ringfire/readers.h>

#include "base/params.h"
#include "data/formats/line_file.h"
#include "data/pipeline.h"
#include "data/sources/files.h"

enum { DEFAULT_MOST = 4096, LARGEST_MOST = 1 << 30 };

typedef struct line_source {
    char **paths;
    uint32_t count;
    bool skip_empty;
} line_source;

static void free_lines(rf_dataset *dataset)
{
    line_source *source = dataset->data;
    if (!source) return;
    for (uint32_t i = 0; i < source->count; i++) rf_free(source->paths[i]);
    rf_free(source->paths);
    rf_free(source);
}

/* ---- reading ---- */

typedef struct line_cursor {
    uint32_t file;          /* that is being read */
    uint64_t lines;         /* that were read of it */
    rf_line_reader *reader; /* NULL: to be opened, again after another failure */
    bool too_long;          /* the latest line was, within which the reader is */
} line_cursor;

static rf_result open_lines(rf_stage *stage)
{
    stage->data = RF_NEW(line_cursor);
    return stage->data ? rf_stage_allocate_element(stage, &stage->dataset->spec) : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static void close_lines(rf_stage *stage)
{
    line_cursor *c = stage->data;
    if (!c) return;
    rf_line_reader_close(&c->reader);
    rf_free(c);
}

/* To where reading had come. */
static rf_result open_file(const line_source *source, line_cursor *c)
{
    const char *path = source->paths[c->file];
    RF_TRY(rf_line_reader_open(path, &c->reader));
    for (uint64_t i = 0; i < c->lines; i++) {
        size_t size;
        const rf_result r = rf_line_read(c->reader, NULL, SIZE_MAX, &size);
        RF_TRY(r);
        if (r == RF_END)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: the file has changed since its lines were read", path);
    }
    return RF_OK;
}

/* RF_END: of the file. */
static rf_result read_line(const line_source *source, line_cursor *c, uint8_t *to, size_t most, size_t *size)
{
    if (c->too_long) rf_line_reader_close(&c->reader); /* the line comes again */
    rf_result r = c->reader ? RF_OK : open_file(source, c);
    if (r == RF_OK) r = rf_line_read(c->reader, to, most, size);
    c->too_long = r == RF_ERROR_INVALID_ARGUMENT;
    if (r != RF_OK && !c->too_long) rf_line_reader_close(&c->reader);
    if (r == RF_OK) c->lines++;
    return r;
}

static rf_result find_line(rf_stage *stage, uint8_t *to, size_t *size)
{
    const line_source *source = stage->dataset->data;
    line_cursor *c = stage->data;
    const size_t most = (size_t)stage->dataset->spec.shape[0].dim[0];
    while (c->file < source->count) {
        const rf_result r = read_line(source, c, to, most, size);
        if (r < 0 || (r == RF_OK && (*size > 0 || !source->skip_empty))) return r;
        if (r == RF_OK) continue;
        c->file++;
        c->lines = 0;
    }
    return RF_END;
}

static rf_result next_line(rf_stage *stage, const rf_element **out)
{
    size_t size = 0;
    rf_element_place(&stage->element, &stage->dataset->spec, stage->element_memory); /* the whole shape again */
    const rf_result r = find_line(stage, stage->element.component[0].data, &size);
    if (r != RF_OK) return r;
    stage->element.component[0].shape.dim[0] = (int64_t)size;
    *out = &stage->element;
    return RF_OK;
}

static rf_result pass_over_line(rf_stage *stage)
{
    size_t size;
    return find_line(stage, NULL, &size);
}

/* A line that is too long, or all that cannot be read of a file. */
static rf_result drop_line(rf_stage *stage)
{
    line_cursor *c = stage->data;
    const bool goes_on = c->too_long && rf_line_skip_rest(c->reader) == RF_OK;
    c->too_long = false;
    if (goes_on) {
        c->lines++;
        return RF_OK;
    }
    rf_line_reader_close(&c->reader);
    c->file++;
    c->lines = 0;
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_text_lines = {
    .name = "text_lines",
    .open = open_lines,
    .close = close_lines,
    .next = next_line,
    .pass_over = pass_over_line,
    .drop = drop_line,
    .free_dataset = free_lines,
};

/* ---- creation ---- */

/* A file that cannot be read shows now, and not in the middle of a pass. */
static rf_result add_files(const rf_text_lines_params *params, line_source *source)
{
    source->paths = RF_NEW_ARRAY(char *, params->num_paths);
    if (!source->paths) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < params->num_paths; i++) {
        rf_line_reader *reader;
        RF_REQUIRE(params->paths[i], "rf_dataset_from_text_lines: path %u is NULL", i);
        source->paths[source->count++] = rf_strdup(params->paths[i]);
        if (!source->paths[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
        RF_TRY(rf_line_reader_open(source->paths[i], &reader));
        rf_line_reader_close(&reader);
    }
    return RF_OK;
}

rf_result rf_dataset_from_text_lines(const rf_text_lines_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_from_text_lines: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_text_lines_params, params));
    RF_REQUIRE(params && params->paths && params->num_paths > 0, "rf_dataset_from_text_lines: no files given");
    RF_REQUIRE(params->max_bytes <= LARGEST_MOST, "rf_dataset_from_text_lines: max_bytes is %u, at most %d",
               params->max_bytes, (int)LARGEST_MOST);
    line_source *source = RF_NEW(line_source);
    if (!source) return RF_ERROR_OUT_OF_HOST_MEMORY;
    source->skip_empty = params->skip_empty;
    const rf_element_spec spec = { .num_components = 1,
                                   .dtype = { RF_U8 },
                                   .shape = { RF_SHAPE(params->max_bytes ? params->max_bytes : DEFAULT_MOST) } };
    rf_result r = add_files(params, source);
    if (r == RF_OK) r = rf_dataset_new(&rf_dataset_kind_text_lines, &spec, out);
    if (r < 0) {
        rf_dataset holder = { .data = source };
        free_lines(&holder);
        return r;
    }
    rf_dataset *d = *out;
    d->data = source;
    d->count = source->count;
    d->names = rf_files_hash_names(params->paths, params->num_paths);
    d->flag = source->skip_empty;
    d->cardinality = RF_CARDINALITY_UNKNOWN;
    return RF_OK;
}
