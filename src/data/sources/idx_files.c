/* SPDX-License-Identifier: Apache-2.0 */
/* Several pairs of IDX files as one source. */
#include "base/philox.h"
#include "data/pipeline.h"
#include "data/sources/files.h"

typedef struct idx_pair {
    char *images_path, *labels_path;
} idx_pair;

typedef struct idx_list {
    idx_pair *pairs;
    uint32_t count;
} idx_list;

static void free_list(void *user)
{
    idx_list *list = user;
    for (uint32_t i = 0; i < list->count; i++) {
        rf_free(list->pairs[i].images_path);
        rf_free(list->pairs[i].labels_path);
    }
    rf_free(list->pairs);
    rf_free(list);
}

static rf_result read_pair(const void *user, uint32_t file, rf_array *arrays)
{
    const idx_pair *pair = &((const idx_list *)user)->pairs[file];
    return rf_idx_read_pair(pair->images_path, pair->labels_path, arrays);
}

static const char *name_pair(const void *user, uint32_t file)
{
    return ((const idx_list *)user)->pairs[file].images_path;
}

static const rf_file_format idx_format = { read_pair, name_pair, free_list };

rf_result rf_dataset_from_idx_files(const char *const *images_paths, const char *const *labels_paths,
                                    uint32_t num_files, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_from_idx_files: out is NULL");
    *out = NULL;
    RF_REQUIRE(images_paths && labels_paths && num_files > 0, "rf_dataset_from_idx_files: no files given");
    for (uint32_t f = 0; f < num_files; f++)
        RF_REQUIRE(images_paths[f] && labels_paths[f], "rf_dataset_from_idx_files: a path is NULL");
    idx_list *list = RF_NEW(idx_list);
    if (!list) return RF_ERROR_OUT_OF_HOST_MEMORY;
    list->pairs = RF_NEW_ARRAY(idx_pair, num_files);
    rf_result r = list->pairs ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t f = 0; r == RF_OK && f < num_files; f++) {
        idx_pair *pair = &list->pairs[list->count++];
        pair->images_path = rf_strdup(images_paths[f]);
        pair->labels_path = rf_strdup(labels_paths[f]);
        if (!pair->images_path || !pair->labels_path) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (r < 0) {
        free_list(list);
        return r;
    }
    return rf_dataset_from_files(
        &idx_format, list, num_files, 0,
        rf_hash64(rf_files_hash_names(images_paths, num_files), rf_files_hash_names(labels_paths, num_files)), out);
}
