/* SPDX-License-Identifier: Apache-2.0 */
/* A source of several IDX file pairs. All datasets and iterators made from it share the loaded data. */
#include <pthread.h>
#include <string.h>

#include "data/pipeline.h"

typedef struct idx_file {
    char *images_path, *labels_path;
    uint64_t examples;
    rf_array arrays[2]; /* data NULL: not loaded (yet) */
} idx_file;

typedef struct file_store {
    pthread_mutex_t lock;
    idx_file *files;
    uint32_t count;
} file_store;

static void free_files(rf_dataset *dataset)
{
    file_store *store = dataset->data;
    if (!store) return;
    for (uint32_t i = 0; i < store->count; i++) {
        idx_file *f = &store->files[i];
        rf_free(f->images_path);
        rf_free(f->labels_path);
        rf_array_free(&f->arrays[0]);
        rf_array_free(&f->arrays[1]);
    }
    rf_free(store->files);
    pthread_mutex_destroy(&store->lock);
    rf_free(store);
}

static uint32_t store_index(const rf_dataset *d, uint32_t file)
{
    return (uint32_t)(d->index + file * d->seed);
}

static uint64_t file_examples(const rf_dataset *dataset, uint32_t file)
{
    return ((const file_store *)dataset->data)->files[store_index(dataset, file)].examples;
}

static rf_result load(file_store *store, idx_file *f)
{
    rf_result r = RF_OK;
    pthread_mutex_lock(&store->lock);
    if (!f->arrays[0].data) {
        r = rf_idx_read_pair(f->images_path, f->labels_path, f->arrays);
        if (r == RF_OK && (uint64_t)f->arrays[1].shape.dim[0] != f->examples) {
            rf_array_free(&f->arrays[0]);
            rf_array_free(&f->arrays[1]);
            r = RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: the file has changed since the dataset was made", f->labels_path);
        }
    }
    pthread_mutex_unlock(&store->lock);
    return r;
}

/* Where an iterator is: files are mostly read from one place to the next. */
typedef struct file_cursor {
    uint64_t *starts; /* [num_files + 1] */
    bool *loaded;     /* as far as this iterator knows */
} file_cursor;

static rf_result open_files(rf_stage *stage)
{
    const rf_dataset *d = stage->dataset;
    file_cursor *c = stage->data = RF_NEW(file_cursor);
    if (!c) return RF_ERROR_OUT_OF_HOST_MEMORY;
    c->starts = RF_NEW_ARRAY(uint64_t, d->num_files + 1);
    c->loaded = RF_NEW_ARRAY(bool, d->num_files);
    if (!c->starts || !c->loaded) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t f = 0; f < d->num_files; f++) c->starts[f + 1] = c->starts[f] + file_examples(d, f);
    stage->indexed = true;
    stage->count = c->starts[d->num_files];
    stage->element.num_components = d->spec.num_components;
    return RF_OK;
}

static void close_files(rf_stage *stage)
{
    file_cursor *c = stage->data;
    if (!c) return;
    rf_free(c->starts);
    rf_free(c->loaded);
    rf_free(c);
}

static uint32_t file_of(const file_cursor *c, uint32_t num_files, uint64_t index)
{
    uint32_t low = 0, high = num_files - 1;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (c->starts[middle + 1] > index)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static rf_result get_from_files(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_dataset *d = stage->dataset;
    file_store *store = d->data;
    file_cursor *c = stage->data;
    const uint32_t file = file_of(c, d->num_files, index);
    idx_file *f = &store->files[store_index(d, file)];
    if (!c->loaded[file]) RF_TRY(load(store, f));
    c->loaded[file] = true;
    for (uint32_t i = 0; i < d->spec.num_components; i++) {
        char *bytes = f->arrays[i].data;
        stage->element.component[i] = (rf_array){ d->spec.dtype[i], d->spec.shape[i],
                                                  bytes + (index - c->starts[file]) * rf_component_bytes(&d->spec, i) };
    }
    *out = &stage->element;
    return RF_OK;
}

static rf_result select_files(const rf_dataset *dataset, uint32_t first, uint32_t step, rf_dataset **out)
{
    RF_TRY(rf_dataset_clone_over(dataset, NULL, out));
    rf_dataset *d = *out;
    d->index = dataset->index + first * dataset->seed;
    d->seed = dataset->seed * step;
    d->num_files = first < dataset->num_files ? (dataset->num_files - first - 1) / step + 1 : 0;
    d->cardinality = 0;
    for (uint32_t f = 0; f < d->num_files; f++) d->cardinality += (int64_t)file_examples(d, f);
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_files = {
    .name = "files",
    .open = open_files,
    .close = close_files,
    .get = get_from_files,
    .free_dataset = free_files,
    .select_files = select_files,
    .file_examples = file_examples,
};

/* Reads the pair once to know its size and that it can be read; only the first one's shape counts. */
static rf_result idx_file_check(idx_file *f, const char *images_path, const char *labels_path, rf_element_spec *spec)
{
    RF_REQUIRE(images_path && labels_path, "rf_dataset_from_idx_files: a path is NULL");
    f->images_path = rf_strdup(images_path);
    f->labels_path = rf_strdup(labels_path);
    if (!f->images_path || !f->labels_path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_array arrays[2];
    RF_TRY(rf_idx_read_pair(images_path, labels_path, arrays));
    f->examples = (uint64_t)arrays[1].shape.dim[0];
    const rf_shape images = arrays[0].shape;
    rf_array_free(&arrays[0]);
    rf_array_free(&arrays[1]);
    const rf_shape shape = RF_SHAPE(images.dim[1], images.dim[2], images.dim[3]);
    if (spec->num_components == 0) {
        spec->num_components = 2;
        spec->dtype[0] = RF_U8;
        spec->shape[0] = shape;
        spec->dtype[1] = RF_I32;
        return RF_OK;
    }
    if (!rf_shape_equal(shape, spec->shape[0]))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: images of %lld x %lld, but the other files have %lld x %lld",
                       images_path, (long long)shape.dim[0], (long long)shape.dim[1], (long long)spec->shape[0].dim[0],
                       (long long)spec->shape[0].dim[1]);
    return RF_OK;
}

rf_result rf_dataset_from_idx_files(const char *const *images_paths, const char *const *labels_paths,
                                    uint32_t num_files, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_from_idx_files: out is NULL");
    *out = NULL;
    RF_REQUIRE(images_paths && labels_paths && num_files > 0, "rf_dataset_from_idx_files: no files given");
    file_store *store = RF_NEW(file_store);
    if (!store) return RF_ERROR_OUT_OF_HOST_MEMORY;
    pthread_mutex_init(&store->lock, NULL);
    store->count = num_files;
    store->files = RF_NEW_ARRAY(idx_file, num_files);
    rf_result r = store->files ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0) store->count = 0;
    rf_element_spec spec = { 0 };
    for (uint32_t f = 0; r == RF_OK && f < num_files; f++)
        r = idx_file_check(&store->files[f], images_paths[f], labels_paths[f], &spec);
    if (r == RF_OK) r = rf_dataset_new(&rf_dataset_kind_files, &spec, out);
    if (r < 0) {
        rf_dataset holder = { .data = store };
        free_files(&holder);
        return r;
    }
    rf_dataset *d = *out;
    d->data = store;
    d->num_files = num_files;
    d->seed = 1; /* every file */
    d->cardinality = 0;
    for (uint32_t f = 0; f < num_files; f++) d->cardinality += (int64_t)file_examples(d, f);
    return RF_OK;
}
