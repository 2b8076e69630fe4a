/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A source of tar archives. Plain ones are indexed when the dataset is made, so that examples are fetched by number;
 * where one is compressed, all are read in order. Nothing is kept in memory but the indexes.
 */
#include <math.h>
#include <string.h>

#include "base/params.h"
#include "base/philox.h"
#include "data/formats/tar_file.h"
#include "data/image/image.h"
#include "data/pipeline.h"
#include "data/sources/files.h"

enum { DEFAULT_BYTES = 64 << 20, MOST_BYTES = 1 << 30 };

typedef struct tar_source {
    rf_tar_field fields[RF_MAX_COMPONENTS]; /* endings are copies */
    uint32_t num_fields;
    size_t max_bytes;
    char **paths;
    rf_tar_index *indexes;
    uint32_t count;
    bool in_order; /* an archive is compressed */
} tar_source;

static void free_tar(rf_dataset *dataset)
{
    tar_source *source = dataset->data;
    if (!source) return;
    for (uint32_t i = 0; i < source->num_fields; i++) rf_free((void *)(uintptr_t)source->fields[i].endings);
    for (uint32_t i = 0; i < source->count; i++) {
        rf_free(source->paths[i]);
        rf_tar_index_free(&source->indexes[i]);
    }
    rf_free(source->paths);
    rf_free(source->indexes);
    rf_free(source);
}

/* ---- a file of an example ---- */

static rf_result put_bytes(const rf_tar_field *f, const rf_tar_part *part, rf_array *out)
{
    const size_t most = (size_t)rf_shape_count(out->shape), rows = (size_t)(f->variable ? out->shape.dim[0] : 1);
    const size_t row = most / rows;
    char shape[128];
    if (f->variable ? part->size > most || part->size % row != 0 : part->size != most)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "*.%s has %zu bytes, but %s takes %s%zu", f->endings, part->size,
                       rf_shape_format(out->shape, shape, sizeof(shape)), f->variable ? "up to " : "", most);
    if (f->variable) out->shape.dim[0] = (int64_t)(part->size / row);
    if (part->size > 0) memcpy(out->data, part->bytes, part->size);
    return RF_OK;
}

/* The number that the whole text is, but for white space around it. */
static rf_result put_number(const rf_tar_field *f, const rf_tar_part *part, rf_array *out)
{
    char text[64], *end = text;
    const size_t size = part->size < sizeof(text) ? part->size : 0;
    if (size > 0) memcpy(text, part->bytes, size);
    text[size] = '\0';
    const double number = rf_number_parse(text, &end);
    const bool read = end > text && strlen(text) == size;
    end += strspn(end, " \t\r\n");
    if (!read || *end != '\0') return RF_FAIL(RF_ERROR_CORRUPT_DATA, "*.%s is no number", f->endings);
    const bool fits = f->dtype == RF_F32 ? isfinite((float)number)
                                         : number >= INT32_MIN && number <= INT32_MAX && number == floor(number);
    if (!fits)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "*.%s is a number that %s cannot hold", f->endings,
                       rf_dtype_name(f->dtype));
    if (f->dtype == RF_F32)
        *(float *)out->data = (float)number;
    else
        *(int32_t *)out->data = (int32_t)number;
    return RF_OK;
}

static rf_result put_part(const rf_tar_field *f, const rf_tar_part *part, rf_array *out)
{
    if (part->rank == 0) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "it has no file *.%s", f->endings);
    if (f->image) return rf_error_context(rf_image_decode_to(part->bytes, part->size, out), "*.%s", f->endings);
    return f->dtype == RF_U8 ? put_bytes(f, part, out) : put_number(f, part, out);
}

/* ---- reading ---- */

/* The archive that an iterator has open, number `file` of the source. */
typedef struct tar_cursor {
    uint64_t *starts; /* [num_files + 1] */
    rf_tar_reader *reader;
    uint32_t file;
    rf_tar_part parts[RF_MAX_COMPONENTS];
} tar_cursor;

static uint64_t tar_examples(const rf_dataset *dataset, uint32_t file)
{
    return ((const tar_source *)dataset->data)->indexes[rf_files_number(dataset, file)].count;
}

static rf_result open_tar(rf_stage *stage)
{
    const rf_dataset *d = stage->dataset;
    const tar_source *source = d->data;
    tar_cursor *c = stage->data = RF_NEW(tar_cursor);
    if (!c) return RF_ERROR_OUT_OF_HOST_MEMORY;
    c->starts = rf_files_starts(d);
    if (!c->starts) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < source->num_fields; i++) c->parts[i].endings = source->fields[i].endings;
    stage->indexed = !source->in_order;
    stage->count = c->starts[d->num_files];
    return rf_stage_allocate_element(stage, &d->spec);
}

static void close_tar(rf_stage *stage)
{
    tar_cursor *c = stage->data;
    if (!c) return;
    rf_tar_reader_close(&c->reader);
    for (uint32_t i = 0; i < RF_MAX_COMPONENTS; i++) rf_free(c->parts[i].bytes);
    rf_free(c->starts);
    rf_free(c);
}

static rf_result get_example(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_dataset *d = stage->dataset;
    const tar_source *source = d->data;
    tar_cursor *c = stage->data;
    const uint32_t file = rf_files_find(c->starts, d->num_files, index), number = rf_files_number(d, file);
    const uint64_t example = index - c->starts[file];
    if (c->reader && c->file != number) rf_tar_reader_close(&c->reader);
    c->file = number;
    if (!c->reader) RF_TRY(rf_tar_reader_open(source->paths[number], &source->indexes[number], &c->reader));
    RF_TRY(rf_tar_read(c->reader, example, c->parts, source->num_fields, source->max_bytes));
    rf_element_place(&stage->element, &d->spec, stage->element_memory); /* whole shapes again */
    *out = &stage->element;
    rf_result r = RF_OK;
    for (uint32_t i = 0; r == RF_OK && i < source->num_fields; i++)
        r = put_part(&source->fields[i], &c->parts[i], &stage->element.component[i]);
    return rf_error_context(r, "%s: example %llu", source->paths[number], (unsigned long long)example);
}

static rf_result next_example(rf_stage *stage, const rf_element **out)
{
    return stage->position < stage->count ? get_example(stage, stage->position, out) : RF_END;
}

/* The reader leaves out what lies between when it is asked for an example again. */
static rf_result pass_over_example(rf_stage *stage)
{
    return stage->position < stage->count ? RF_OK : RF_END;
}

const rf_dataset_kind rf_dataset_kind_tar = {
    .name = "tar",
    .open = open_tar,
    .close = close_tar,
    .get = get_example,
    .next = next_example,
    .pass_over = pass_over_example,
    .free_dataset = free_tar,
    .select_files = rf_files_select,
    .file_examples = tar_examples,
};

/* ---- creation ---- */

static rf_result add_field(const rf_tar_field *given, tar_source *source, rf_element_spec *spec)
{
    static const char *const function = "rf_dataset_from_tar";
    rf_tar_field f = *given;
    const uint32_t number = source->num_fields;
    RF_REQUIRE(f.endings && *f.endings, "%s: field %u has no endings, such as \"jpg;png\"", function, number);
    RF_REQUIRE(f.dtype == RF_U8 || f.dtype == RF_I32 || f.dtype == RF_F32, "%s: field '%s' is %s, not u8, i32 or f32",
               function, f.endings, rf_dtype_name(f.dtype));
    RF_REQUIRE(rf_shape_count(f.shape) > 0, "%s: field '%s' has no valid shape", function, f.endings);
    RF_REQUIRE(f.dtype == RF_U8 || f.shape.rank == 0,
               "%s: field '%s' is a number; read bytes, and make other shapes of them with rf_dataset_map()", function,
               f.endings);
    RF_REQUIRE(!f.variable || f.shape.rank > 0, "%s: field '%s' is a scalar, whose length cannot vary", function,
               f.endings);
    if (f.image)
        RF_TRY(rf_image_check_component("rf_dataset_from_tar: field", f.endings, f.dtype, f.shape, f.variable));
    f.endings = rf_strdup(f.endings);
    if (!f.endings) return RF_ERROR_OUT_OF_HOST_MEMORY;
    source->fields[source->num_fields++] = f;
    spec->dtype[number] = f.dtype;
    spec->shape[number] = f.shape;
    return RF_OK;
}

static rf_result add_archives(const rf_tar_params *params, tar_source *source)
{
    source->max_bytes = params->max_bytes ? params->max_bytes : DEFAULT_BYTES;
    source->paths = RF_NEW_ARRAY(char *, params->num_paths);
    source->indexes = RF_NEW_ARRAY(rf_tar_index, params->num_paths);
    if (!source->paths || !source->indexes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < params->num_paths; i++) {
        RF_REQUIRE(params->paths[i], "rf_dataset_from_tar: path %u is NULL", i);
        source->paths[source->count++] = rf_strdup(params->paths[i]);
        if (!source->paths[i]) return RF_ERROR_OUT_OF_HOST_MEMORY;
        RF_TRY(rf_tar_index_make(source->paths[i], &source->indexes[i]));
        source->in_order = source->in_order || source->indexes[i].packed;
    }
    return RF_OK;
}

static uint64_t hash_fields(const tar_source *source)
{
    uint64_t h = source->num_fields;
    for (uint32_t i = 0; i < source->num_fields; i++)
        h = rf_hash64(rf_hash_bytes(source->fields[i].endings, strlen(source->fields[i].endings), h),
                      (uint64_t)source->fields[i].image << 1 | source->fields[i].variable);
    return h;
}

static rf_result make_source(const rf_tar_params *params, tar_source *source, rf_dataset **out)
{
    rf_element_spec spec = { .num_components = params->num_fields };
    for (uint32_t i = 0; i < params->num_fields; i++) RF_TRY(add_field(&params->fields[i], source, &spec));
    RF_TRY(add_archives(params, source));
    return rf_dataset_new(&rf_dataset_kind_tar, &spec, out);
}

rf_result rf_dataset_from_tar(const rf_tar_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_from_tar: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_tar_params, params));
    RF_REQUIRE(params && params->paths && params->num_paths > 0, "rf_dataset_from_tar: no files given");
    RF_REQUIRE(params->fields && params->num_fields >= 1 && params->num_fields <= RF_MAX_COMPONENTS,
               "rf_dataset_from_tar: %u fields; give 1 to %d", params->num_fields, RF_MAX_COMPONENTS);
    RF_TRY(RF_PARAMS_CHECK_ALL(rf_tar_field, params->fields, params->num_fields));
    RF_REQUIRE(params->max_bytes <= MOST_BYTES, "rf_dataset_from_tar: max_bytes is %u, at most %d", params->max_bytes,
               (int)MOST_BYTES);
    tar_source *source = RF_NEW(tar_source);
    if (!source) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const rf_result r = make_source(params, source, out);
    if (r < 0) {
        rf_dataset holder = { .data = source };
        free_tar(&holder);
        return r;
    }
    rf_dataset *d = *out;
    d->data = source;
    d->num_files = params->num_paths;
    d->names = rf_files_hash_names(params->paths, params->num_paths);
    d->count = hash_fields(source);
    d->seed = 1; /* every file */
    d->cardinality = rf_files_examples(d);
    return RF_OK;
}
