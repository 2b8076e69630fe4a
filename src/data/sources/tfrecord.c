/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of TFRecord files. Plain files are indexed when the dataset is made, so that records are fetched by number;
 * where a file is compressed, all are read in order. Nothing is kept in memory but the indexes.
 */
#include <string.h>

#include "base/params.h"
#include "data/formats/example.h"
#include "data/formats/record_file.h"
#include "data/pipeline.h"
#include "data/sources/files.h"

typedef struct record_source {
    rf_example_plan plan;
    char **paths;
    rf_record_index *indexes;
    uint32_t count;
    bool in_order; /* a file is compressed */
} record_source;

static void free_source(rf_dataset *dataset)
{
    record_source *source = dataset->data;
    if (!source) return;
    rf_example_plan_free(&source->plan);
    for (uint32_t i = 0; i < source->count; i++) {
        rf_free(source->paths[i]);
        rf_record_index_free(&source->indexes[i]);
    }
    rf_free(source->paths);
    rf_free(source->indexes);
    rf_free(source);
}

/* ---- reading ---- */

enum { OPEN_FILES = 16 };

/* Files that an iterator has open: number n of the source at place n % OPEN_FILES. In order there is one at a time. */
typedef struct record_cursor {
    uint64_t *starts; /* [num_files + 1] */
    rf_record_reader *readers[OPEN_FILES];
    uint32_t files[OPEN_FILES];
} record_cursor;

static uint64_t record_examples(const rf_dataset *dataset, uint32_t file)
{
    return ((const record_source *)dataset->data)->indexes[rf_files_number(dataset, file)].count;
}

static rf_result open_records(rf_stage *stage)
{
    const rf_dataset *d = stage->dataset;
    const record_source *source = d->data;
    record_cursor *c = stage->data = RF_NEW(record_cursor);
    if (!c) return RF_ERROR_OUT_OF_HOST_MEMORY;
    c->starts = rf_files_starts(d);
    if (!c->starts) return RF_ERROR_OUT_OF_HOST_MEMORY;
    stage->indexed = !source->in_order;
    stage->count = c->starts[d->num_files];
    return rf_stage_allocate_element(stage, &d->spec);
}

static void close_records(rf_stage *stage)
{
    record_cursor *c = stage->data;
    if (!c) return;
    for (int i = 0; i < OPEN_FILES; i++) rf_record_reader_close(&c->readers[i]);
    rf_free(c->starts);
    rf_free(c);
}

static rf_result find_reader(const record_source *source, record_cursor *c, uint32_t file, rf_record_reader **out)
{
    const uint32_t place = source->in_order ? 0 : file % OPEN_FILES;
    if (!c->readers[place] || c->files[place] != file) {
        rf_record_reader_close(&c->readers[place]);
        RF_TRY(rf_record_reader_open(source->paths[file], &source->indexes[file], &c->readers[place]));
        c->files[place] = file;
    }
    *out = c->readers[place];
    return RF_OK;
}

static rf_result get_record(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_dataset *d = stage->dataset;
    const record_source *source = d->data;
    record_cursor *c = stage->data;
    const uint32_t file = rf_files_find(c->starts, d->num_files, index), number = rf_files_number(d, file);
    const uint64_t record = index - c->starts[file];
    rf_record_reader *reader;
    const uint8_t *bytes;
    size_t size;
    RF_TRY(find_reader(source, c, number, &reader));
    RF_TRY(rf_record_read(reader, record, &bytes, &size));
    rf_element_place(&stage->element, &d->spec, stage->element_memory); /* whole shapes again */
    *out = &stage->element;
    return rf_error_context(rf_example_decode(bytes, size, &source->plan, &stage->element), "%s: record %llu",
                            source->paths[number], (unsigned long long)record);
}

static rf_result next_record(rf_stage *stage, const rf_element **out)
{
    return stage->position < stage->count ? get_record(stage, stage->position, out) : RF_END;
}

/* The reader leaves out what lies between when it is asked for a record again. */
static rf_result pass_over_record(rf_stage *stage)
{
    return stage->position < stage->count ? RF_OK : RF_END;
}

const rf_dataset_kind rf_dataset_kind_tfrecord = {
    .name = "tfrecord",
    .open = open_records,
    .close = close_records,
    .get = get_record,
    .next = next_record,
    .pass_over = pass_over_record,
    .free_dataset = free_source,
    .select_files = rf_files_select,
    .file_examples = record_examples,
};

/* ---- creation ---- */

static rf_result add_files(const rf_tfrecord_params *params, record_source *source)
{
    source->paths = RF_NEW_ARRAY(char *, params->num_paths);
    source->indexes = RF_NEW_ARRAY(rf_record_index, params->num_paths);
    if (!source->paths || !source->indexes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < params->num_paths; i++) {
        RF_REQUIRE(params->paths[i], "rf_dataset_from_tfrecord: path %u is NULL", i);
        source->paths[source->count++] = rf_strdup(params->paths[i]);
        if (!source->paths[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
        RF_TRY(rf_record_index_make(source->paths[i], &source->indexes[i]));
        source->in_order = source->in_order || source->indexes[i].packed;
    }
    return RF_OK;
}

rf_result rf_dataset_from_tfrecord(const rf_tfrecord_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_from_tfrecord: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_tfrecord_params, params));
    RF_REQUIRE(params && params->paths && params->num_paths > 0, "rf_dataset_from_tfrecord: no files given");
    record_source *source = RF_NEW(record_source);
    if (!source) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = rf_example_plan_make(params, &source->plan);
    if (r == RF_OK) r = add_files(params, source);
    if (r == RF_OK) r = rf_dataset_new(&rf_dataset_kind_tfrecord, &source->plan.spec, out);
    if (r < 0) {
        rf_dataset holder = { .data = source };
        free_source(&holder);
        return r;
    }
    rf_dataset *d = *out;
    d->data = source;
    d->num_files = params->num_paths;
    d->names = rf_files_hash_names(params->paths, params->num_paths);
    d->count = rf_example_plan_hash(&source->plan);
    d->seed = 1; /* every file */
    d->cardinality = rf_files_examples(d);
    return RF_OK;
}
