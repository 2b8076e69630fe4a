/* SPDX-License-Identifier: Apache-2.0 */
#include "data/sources/files.h"

#include <pthread.h>
#include <string.h>

#include "base/philox.h"
#include "data/pipeline.h"

/* ---- what all sources of files have in common ---- */

uint32_t rf_files_number(const rf_dataset *d, uint32_t file)
{
    return (uint32_t)(d->index + file * d->seed);
}

uint64_t *rf_files_starts(const rf_dataset *d)
{
    uint64_t *starts = RF_NEW_ARRAY(uint64_t, d->num_files + 1);
    for (uint32_t f = 0; starts && f < d->num_files; f++) starts[f + 1] = starts[f] + d->kind->file_examples(d, f);
    return starts;
}

uint32_t rf_files_find(const uint64_t *starts, uint32_t num_files, uint64_t index)
{
    uint32_t low = 0, high = num_files - 1;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (starts[middle + 1] > index)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int64_t rf_files_examples(const rf_dataset *d)
{
    int64_t total = 0;
    for (uint32_t f = 0; f < d->num_files; f++) total += (int64_t)d->kind->file_examples(d, f);
    return total;
}

/* The bytes of the directory that all are below, with its slash. */
static size_t shared_directory(const char *const *paths, uint32_t count)
{
    size_t length = 0;
    for (size_t i = 0; paths[0][i]; i++) {
        for (uint32_t f = 1; f < count; f++)
            if (paths[f][i] != paths[0][i]) return length;
        if (paths[0][i] == '/') length = i + 1;
    }
    return length;
}

/* The length of a name without the ending that says how the file is compressed: the content is the same. */
static size_t unpacked_length(const char *name)
{
    static const char *const endings[] = { ".gz", ".gzip", ".zlib" };
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        const size_t ending = strlen(endings[i]);
        if (length > ending && strcmp(name + length - ending, endings[i]) == 0) return length - ending;
    }
    return length;
}

uint64_t rf_files_hash_names(const char *const *paths, uint32_t count)
{
    const size_t root = shared_directory(paths, count);
    uint64_t h = count;
    for (uint32_t f = 0; f < count; f++) h = rf_hash_bytes(paths[f] + root, unpacked_length(paths[f] + root), h);
    return h ? h : 1;
}

rf_result rf_files_select(const rf_dataset *dataset, uint32_t first, uint32_t step, rf_dataset **out)
{
    RF_TRY(rf_dataset_clone_over(dataset, NULL, out));
    rf_dataset *d = *out;
    d->index = dataset->index + first * dataset->seed;
    d->seed = dataset->seed * step;
    d->num_files = first < dataset->num_files ? (dataset->num_files - first - 1) / step + 1 : 0;
    d->cardinality = rf_files_examples(d);
    return RF_OK;
}

/* ---- files that are loaded whole ---- */

typedef struct file_entry {
    uint64_t examples;
    rf_array arrays[RF_MAX_COMPONENTS]; /* data NULL: not loaded (yet) */
} file_entry;

typedef struct file_store {
    pthread_mutex_t lock;
    const rf_file_format *format;
    void *user;
    file_entry *files;
    uint32_t count;
} file_store;

static void free_file_arrays(rf_array *arrays)
{
    for (uint32_t i = 0; i < RF_MAX_COMPONENTS; i++) rf_array_free(&arrays[i]);
}

static void free_files(rf_dataset *dataset)
{
    file_store *store = dataset->data;
    if (!store) return;
    for (uint32_t i = 0; store->files && i < store->count; i++) free_file_arrays(store->files[i].arrays);
    rf_free(store->files);
    store->format->free_user(store->user);
    pthread_mutex_destroy(&store->lock);
    rf_free(store);
}

static uint64_t file_examples(const rf_dataset *dataset, uint32_t file)
{
    return ((const file_store *)dataset->data)->files[rf_files_number(dataset, file)].examples;
}

static uint64_t files_left_out(const rf_dataset *d)
{
    const file_store *store = d->data;
    uint64_t count = 0;
    for (uint32_t f = 0; store->format->left_out && f < d->num_files; f++)
        count += store->format->left_out(store->user, rf_files_number(d, f));
    return count;
}

/* Whether what was read has the spec that the dataset was made with. */
static bool is_of_spec(const rf_array *arrays, const rf_element_spec *spec, uint64_t examples)
{
    for (uint32_t i = 0; i < spec->num_components; i++) {
        rf_shape shape = spec->shape[i];
        memmove(&shape.dim[1], &shape.dim[0], (size_t)shape.rank * sizeof(shape.dim[0]));
        shape.dim[0] = (int64_t)examples;
        shape.rank++;
        if (arrays[i].dtype != spec->dtype[i] || !rf_shape_equal(arrays[i].shape, shape)) return false;
    }
    return true;
}

static rf_result file_load(file_store *store, const rf_element_spec *spec, uint32_t file)
{
    file_entry *f = &store->files[file];
    rf_result r = RF_OK;
    pthread_mutex_lock(&store->lock);
    if (!f->arrays[0].data) {
        r = store->format->read(store->user, file, f->arrays);
        if (r == RF_OK && !is_of_spec(f->arrays, spec, f->examples))
            r = RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: the file has changed since the dataset was made",
                        store->format->name(store->user, file));
        if (r < 0) free_file_arrays(f->arrays);
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
    c->starts = rf_files_starts(d);
    c->loaded = RF_NEW_ARRAY(bool, d->num_files);
    if (!c->starts || !c->loaded) return RF_ERROR_OUT_OF_HOST_MEMORY;
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

static rf_result get_from_files(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_dataset *d = stage->dataset;
    file_store *store = d->data;
    file_cursor *c = stage->data;
    const uint32_t file = rf_files_find(c->starts, d->num_files, index);
    const file_entry *f = &store->files[rf_files_number(d, file)];
    if (!c->loaded[file]) RF_TRY(file_load(store, &d->spec, rf_files_number(d, file)));
    c->loaded[file] = true;
    for (uint32_t i = 0; i < d->spec.num_components; i++) {
        char *bytes = f->arrays[i].data;
        stage->element.component[i] = (rf_array){ d->spec.dtype[i], d->spec.shape[i],
                                                  bytes + (index - c->starts[file]) * rf_component_bytes(&d->spec, i) };
    }
    *out = &stage->element;
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_files = {
    .name = "files",
    .open = open_files,
    .close = close_files,
    .get = get_from_files,
    .free_dataset = free_files,
    .select_files = rf_files_select,
    .file_examples = file_examples,
    .left_out = files_left_out,
};

/* ---- creation ---- */

/* The spec of an example, of which the arrays hold many. */
static void arrays_describe(const rf_array *arrays, rf_element_spec *spec)
{
    *spec = (rf_element_spec){ 0 };
    while (spec->num_components < RF_MAX_COMPONENTS && arrays[spec->num_components].dtype != RF_DTYPE_INVALID) {
        const rf_array *a = &arrays[spec->num_components];
        rf_shape *s = &spec->shape[spec->num_components];
        spec->dtype[spec->num_components++] = a->dtype;
        s->rank = a->shape.rank - 1;
        memcpy(&s->dim[0], &a->shape.dim[1], (size_t)s->rank * sizeof(s->dim[0]));
    }
}

/* Reads the file to know that it can be read and how many examples it has; keeps what was read where it is the only
 * one. The first file's spec is that of all. */
static rf_result read_spec(file_store *store, uint32_t file, rf_element_spec *spec)
{
    file_entry *f = &store->files[file];
    const char *name = store->format->name(store->user, file);
    rf_result r = store->format->read(store->user, file, f->arrays);
    f->examples = r == RF_OK ? (uint64_t)f->arrays[0].shape.dim[0] : 0;
    if (r == RF_OK && file == 0) arrays_describe(f->arrays, spec);
    if (r == RF_OK && !is_of_spec(f->arrays, spec, f->examples)) {
        rf_element_spec own;
        char is[128], wanted[128];
        arrays_describe(f->arrays, &own);
        r = RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: its examples are %s, but those of %s are %s; all files must agree",
                    name, rf_shape_format(own.shape[0], is, sizeof(is)), store->format->name(store->user, 0),
                    rf_shape_format(spec->shape[0], wanted, sizeof(wanted)));
    }
    if (r < 0 || store->count > 1) free_file_arrays(f->arrays);
    return r;
}

rf_result rf_dataset_from_files(const rf_file_format *format, void *user, uint32_t num_files, uint64_t fingerprint,
                                uint64_t names, rf_dataset **out)
{
    rf_element_spec spec = { 0 };
    *out = NULL;
    file_store *store = RF_NEW(file_store);
    if (!store) {
        format->free_user(user);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    pthread_mutex_init(&store->lock, NULL);
    store->format = format;
    store->user = user;
    store->count = num_files;
    store->files = RF_NEW_ARRAY(file_entry, num_files);
    rf_result r = store->files ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t f = 0; r == RF_OK && f < num_files; f++) r = read_spec(store, f, &spec);
    if (r == RF_OK) r = rf_dataset_new(&rf_dataset_kind_files, &spec, out);
    if (r < 0) {
        rf_dataset holder = { .data = store };
        free_files(&holder);
        return r;
    }
    rf_dataset *d = *out;
    d->data = store;
    d->num_files = num_files;
    d->count = fingerprint;
    d->names = names;
    d->seed = 1; /* every file */
    d->cardinality = rf_files_examples(d);
    return RF_OK;
}
