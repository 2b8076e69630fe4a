/* SPDX-License-Identifier: Apache-2.0 */
#include "pretrained/files.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "persist/file_ops.h"
#include "persist/json.h"

enum { MOST_INDEX = 16 << 20, MOST_FILES = 1024 };

char *rf_path_in(const char *directory, const char *name)
{
    return rf_asprintf("%s/%s", directory, name);
}

rf_result rf_text_file_read(const char *path, uint64_t most, char **text, size_t *size)
{
    const rf_file_ops *ops = &rf_system_file_ops;
    int fd;
    uint64_t bytes;
    *text = NULL;
    RF_TRY(rf_file_open_sized(ops, path, &fd, &bytes));
    rf_result r = bytes <= most ? RF_OK
                                : RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' has %llu bytes, more than the %llu that it may",
                                          path, (unsigned long long)bytes, (unsigned long long)most);
    if (r >= 0 && !(*text = rf_calloc((size_t)bytes + 1, 1))) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = rf_file_read_at(ops, fd, path, *text, bytes, 0);
    ops->close(ops->user, fd);
    *size = (size_t)bytes;
    if (r >= 0) return RF_OK;
    rf_free(*text);
    *text = NULL;
    return r;
}

/* ---- the index of shards ---- */

/* A file beside the index, and no other place: no path leads on, and no name hides or leads upwards. */
static bool is_plain_name(const char *name)
{
    const char *c = name;
    while (*c > ' ' && *c <= '~' && *c != '/' && *c != '\\') c++;
    return name[0] != '\0' && name[0] != '.' && !*c && c - name < 256;
}

static rf_result add_file(rf_shard_index *index, const char *path, const char *name, uint32_t *file)
{
    for (*file = 0; *file < index->num_files; ++*file)
        if (strcmp(index->files[*file], name) == 0) return RF_OK;
    if (!is_plain_name(name))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': weight_map names a file that is not one of its directory", path);
    if (index->num_files == MOST_FILES)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' names more than %d files", path, MOST_FILES);
    index->files[index->num_files] = rf_strdup(name);
    return index->files[index->num_files++] ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static int compare_places(const void *x, const void *y)
{
    const struct rf_shard_place *a = x, *b = y;
    return strcmp(a->tensor, b->tensor);
}

static rf_result read_map(rf_shard_index *index, const char *path, const json_t *map)
{
    const size_t count = json_object_size(map);
    const char *tensor;
    json_t *file;
    if (!json_is_object(map) || count == 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' has no object weight_map that names files", path);
    index->files = RF_NEW_ARRAY(char *, count < MOST_FILES ? count : MOST_FILES);
    index->places = rf_calloc(count, sizeof(*index->places));
    if (!index->files || !index->places) return RF_ERROR_OUT_OF_HOST_MEMORY;
    json_object_foreach((json_t *)map, tensor, file)
    {
        struct rf_shard_place *place = &index->places[index->num_places];
        if (!json_is_string(file))
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': weight_map has something that is no name of a file", path);
        RF_TRY(add_file(index, path, json_string_value(file), &place->file));
        if (!(place->tensor = rf_strdup(tensor))) return RF_ERROR_OUT_OF_HOST_MEMORY;
        index->num_places++;
    }
    qsort(index->places, index->num_places, sizeof(*index->places), compare_places);
    return RF_OK;
}

rf_result rf_shard_index_parse(rf_shard_index *index, const char *path, const char *text, size_t size)
{
    json_t *root;
    *index = (rf_shard_index){ 0 };
    char *what = rf_asprintf("'%s'", path);
    rf_result r = what ? rf_json_parse(text, size, what, &root) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(what);
    if (r < 0) return r;
    r = read_map(index, path, json_object_get(root, "weight_map"));
    json_decref(root);
    return r;
}

void rf_shard_index_clear(rf_shard_index *index)
{
    for (uint32_t i = 0; i < index->num_files; i++) rf_free(index->files[i]);
    for (uint32_t i = 0; i < index->num_places; i++) rf_free(index->places[i].tensor);
    rf_free(index->files);
    rf_free(index->places);
    *index = (rf_shard_index){ 0 };
}

/* ---- the files ---- */

static rf_result open_files(rf_tensor_files *files, const char *const *names, uint32_t count)
{
    files->files = rf_calloc(count, sizeof(*files->files));
    if (!files->files) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        struct rf_tensor_file *f = &files->files[files->num_files++];
        f->name = rf_strdup(names[i]);
        char *path = rf_path_in(files->directory, names[i]);
        const rf_result r =
            f->name && path ? rf_safetensors_open(path, &f->file) : (rf_result)RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_free(path);
        RF_TRY(r);
    }
    return RF_OK;
}

static int compare_entries(const void *x, const void *y)
{
    const rf_tensor_entry *a = x, *b = y;
    return strcmp(a->is.name, b->is.name);
}

static rf_result list_entries(rf_tensor_files *files)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < files->num_files; i++) count += rf_safetensors_num_tensors(files->files[i].file);
    files->entries = RF_NEW_ARRAY(rf_tensor_entry, count);
    if (!files->entries) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < files->num_files; i++)
        for (uint64_t k = 0; k < rf_safetensors_num_tensors(files->files[i].file); k++) {
            rf_tensor_entry *e = &files->entries[files->num_entries++];
            e->file = i;
            RF_TRY(rf_safetensors_entry_at(files->files[i].file, k, &e->is));
        }
    if (count > 0) qsort(files->entries, count, sizeof(*files->entries), compare_entries);
    for (uint32_t i = 1; i < files->num_entries; i++)
        if (compare_entries(&files->entries[i - 1], &files->entries[i]) == 0)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': two files have a tensor '%.200s'", files->directory,
                           files->entries[i].is.name);
    return RF_OK;
}

/* Files hold the tensors that the index says, and no others. */
static rf_result check_index(const rf_tensor_files *files, const rf_shard_index *index, const char *path)
{
    for (uint32_t i = 0; i < index->num_places; i++) {
        const struct rf_shard_place *place = &index->places[i];
        const rf_tensor_entry *e = rf_tensor_files_find(files, place->tensor);
        if (!e || e->file != place->file)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s': '%s' has no tensor '%.200s'", path, index->files[place->file],
                           place->tensor);
    }
    if (files->num_entries == index->num_places) return RF_OK;
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "'%s' names %u tensors; the files have %u", path, index->num_places,
                   files->num_entries);
}

static rf_result open_shards(rf_tensor_files *files)
{
    rf_shard_index index = { 0 };
    char *text = NULL, *path = rf_path_in(files->directory, RF_PRETRAINED_INDEX);
    size_t size = 0;
    rf_result r = path ? rf_text_file_read(path, MOST_INDEX, &text, &size) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r == RF_ERROR_NOT_FOUND)
        r = RF_FAIL(r, "'%s' has neither " RF_PRETRAINED_FILE " nor " RF_PRETRAINED_INDEX, files->directory);
    if (r >= 0) r = rf_shard_index_parse(&index, path, text, size);
    if (r >= 0) r = open_files(files, (const char *const *)index.files, index.num_files);
    if (r >= 0) r = list_entries(files);
    if (r >= 0) r = check_index(files, &index, path);
    rf_shard_index_clear(&index);
    rf_free(text);
    rf_free(path);
    return r;
}

rf_result rf_tensor_files_open_one(rf_tensor_files *files, const char *directory, const char *name)
{
    *files = (rf_tensor_files){ .directory = rf_strdup(directory) };
    if (!files->directory) return RF_ERROR_OUT_OF_HOST_MEMORY;
    RF_TRY(open_files(files, &name, 1));
    return list_entries(files);
}

rf_result rf_tensor_files_open(rf_tensor_files *files, const char *directory)
{
    *files = (rf_tensor_files){ .directory = rf_strdup(directory) };
    char *path = rf_path_in(directory, RF_PRETRAINED_FILE);
    double modified;
    const bool known = files->directory && path;
    const bool whole = known && rf_system_file_ops.modified(NULL, path, &modified) == 0;
    rf_free(path);
    if (!known) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (!whole) return open_shards(files);
    rf_free(files->directory);
    return rf_tensor_files_open_one(files, directory, RF_PRETRAINED_FILE);
}

void rf_tensor_files_close(rf_tensor_files *files)
{
    for (uint32_t i = 0; i < files->num_files; i++) {
        rf_safetensors_close(&files->files[i].file);
        rf_free(files->files[i].name);
    }
    for (uint32_t i = 0; i < files->num_added; i++) rf_free(files->added[i]);
    rf_free(files->added);
    rf_free(files->files);
    rf_free(files->entries);
    rf_free(files->directory);
    *files = (rf_tensor_files){ 0 };
}

const rf_tensor_entry *rf_tensor_files_find(const rf_tensor_files *files, const char *name)
{
    if (files->num_entries == 0) return NULL;
    const rf_tensor_entry wanted = { .is.name = name };
    return bsearch(&wanted, files->entries, files->num_entries, sizeof(wanted), compare_entries);
}

rf_result rf_tensor_files_read(const rf_tensor_files *files, const rf_tensor_entry *entry, uint64_t offset, void *data,
                               uint64_t size)
{
    if (files->source.read) return files->source.read(files->source.user, entry->is.name, offset, data, size);
    return rf_safetensors_read_range(files->files[entry->file].file, entry->is.name, offset, data, size);
}

rf_result rf_tensor_files_text(const rf_tensor_files *files, const char *name, uint64_t most, char **text, size_t *size)
{
    *text = NULL;
    *size = 0;
    for (uint32_t i = 0; i < files->num_texts; i++) {
        if (strcmp(files->texts[i].name, name) != 0) continue;
        *size = strlen(files->texts[i].text);
        *text = rf_strdup(files->texts[i].text);
        return *text ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (files->texts) return RF_FAIL(RF_ERROR_NOT_FOUND, "'%s' has nothing that is %s", files->directory, name);
    char *path = rf_path_in(files->directory, name);
    const rf_result r = path ? rf_text_file_read(path, most, text, size) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(path);
    return r;
}

/* ---- tensors that come in addition ---- */

rf_result rf_tensor_files_add(rf_tensor_files *files, const char *name, rf_shape shape, rf_dtype dtype)
{
    rf_tensor_entry *entries = RF_NEW_ARRAY(rf_tensor_entry, files->num_entries + 1);
    char **added = RF_NEW_ARRAY(char *, files->num_added + 1), *own = rf_strdup(name);
    if (!entries || !added || !own) {
        rf_free(entries);
        rf_free(added);
        rf_free(own);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (files->num_entries > 0) memcpy(entries, files->entries, files->num_entries * sizeof(*entries));
    if (files->num_added > 0) memcpy(added, files->added, files->num_added * sizeof(*added));
    entries[files->num_entries] = (rf_tensor_entry){ .is = { .name = own, .dtype = dtype, .shape = shape } };
    added[files->num_added++] = own;
    qsort(entries, ++files->num_entries, sizeof(*entries), compare_entries);
    rf_free(files->entries);
    rf_free(files->added);
    files->entries = entries;
    files->added = added;
    return RF_OK;
}
