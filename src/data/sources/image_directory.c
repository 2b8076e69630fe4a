/* SPDX-License-Identifier: Apache-2.0 */
/* A source of images in a directory, whose sub-directories are the classes. */
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/params.h"
#include "base/philox.h"
#include "base/platform.h"
#include "data/image/image.h"
#include "data/pipeline.h"
#include "data/sources/files.h"

/* Paths, or names, each owned by the list. */
typedef struct path_list {
    char **items;
    uint32_t count, capacity;
} path_list;

typedef struct image_folder {
    path_list classes; /* names */
    path_list files;   /* paths, by class */
    uint32_t *ends;    /* per class: the number of files of it and of those before */
    bool resize;
} image_folder;

/* ---- listing ---- */

static void free_paths(path_list *list)
{
    for (uint32_t i = 0; i < list->count; i++) rf_free(list->items[i]);
    rf_free(list->items);
}

/* Takes over `path`, also when it fails; NULL: there was no memory for it. */
static rf_result add_path(path_list *list, char *path)
{
    const rf_result r = path ? RF_VEC_GROW(list) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0)
        rf_free(path);
    else
        list->items[list->count++] = path;
    return r;
}

static int compare_paths(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory, but for those that begin with a point, in order. */
static rf_result list_names(const char *directory, path_list *names)
{
    DIR *dir = opendir(directory);
    if (!dir)
        return RF_FAIL_ERRNO(errno == ENOENT ? RF_ERROR_NOT_FOUND : RF_ERROR_IO, "%s: %s", directory, strerror(errno));
    rf_result r = RF_OK;
    while (r == RF_OK) {
        errno = 0; /* how readdir() tells a failure from the end */
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            if (errno) r = RF_FAIL_ERRNO(RF_ERROR_IO, "%s: %s", directory, strerror(errno));
            break;
        }
        if (entry->d_name[0] != '.') r = add_path(names, rf_strdup(entry->d_name));
    }
    closedir(dir);
    if (names->count > 1) qsort(names->items, names->count, sizeof(names->items[0]), compare_paths);
    return r;
}

static bool names_image(const char *name)
{
    static const char *const endings[] = { ".png", ".jpg", ".jpeg" };
    const char *point = strrchr(name, '.');
    for (size_t i = 0; point && i < sizeof(endings) / sizeof(endings[0]); i++)
        if (strcasecmp(point, endings[i]) == 0) return true;
    return false;
}

/* Takes over `path`. Links to directories are left out inside a class: they may lead back. Any other thing with the
 * name of an image is listed, so that one that cannot be read is named when its turn comes. */
static rf_result add_entry(char *path, path_list *files, path_list *directories)
{
    struct stat self, target;
    if (!path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (lstat(path, &self) == 0 && S_ISDIR(self.st_mode)) return add_path(directories, path);
    if (names_image(path) && (stat(path, &target) != 0 || !S_ISDIR(target.st_mode))) return add_path(files, path);
    rf_free(path);
    return RF_OK;
}

/* All images below the directory. */
static rf_result list_images(const char *directory, path_list *files)
{
    path_list directories = { 0 };
    const uint32_t first = files->count;
    rf_result r = add_path(&directories, rf_strdup(directory));
    for (uint32_t d = 0; r == RF_OK && d < directories.count; d++) {
        path_list names = { 0 };
        r = list_names(directories.items[d], &names);
        for (uint32_t i = 0; r == RF_OK && i < names.count; i++)
            r = add_entry(rf_asprintf("%s/%s", directories.items[d], names.items[i]), files, &directories);
        free_paths(&names);
    }
    free_paths(&directories);
    if (files->count > first) qsort(files->items + first, files->count - first, sizeof(files->items[0]), compare_paths);
    return r;
}

static rf_result list_class(const char *directory, const char *name, image_folder *folder)
{
    struct stat target;
    char *path = rf_asprintf("%s/%s", directory, name);
    if (!path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result r = RF_OK;
    if (stat(path, &target) == 0 && S_ISDIR(target.st_mode)) {
        r = list_images(path, &folder->files);
        if (r == RF_OK) r = add_path(&folder->classes, rf_strdup(name));
        if (r == RF_OK) folder->ends[folder->classes.count - 1] = folder->files.count;
    }
    rf_free(path);
    return r;
}

static rf_result list_classes(const char *directory, image_folder *folder)
{
    path_list names = { 0 };
    rf_result r = list_names(directory, &names);
    if (r == RF_OK) {
        folder->ends = RF_NEW_ARRAY(uint32_t, names.count);
        if (!folder->ends) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    for (uint32_t i = 0; r == RF_OK && i < names.count; i++) r = list_class(directory, names.items[i], folder);
    free_paths(&names);
    RF_TRY(r);
    if (folder->files.count > 0) return RF_OK;
    return RF_FAIL(RF_ERROR_NOT_FOUND,
                   "%s: no images; each class has to be a sub-directory with files *.png, *.jpg or *.jpeg", directory);
}

static void free_folder(rf_dataset *dataset)
{
    image_folder *folder = dataset->data;
    if (!folder) return;
    free_paths(&folder->classes);
    free_paths(&folder->files);
    rf_free(folder->ends);
    rf_free(folder);
}

/* ---- reading ---- */

static rf_result open_folder(rf_stage *stage)
{
    stage->indexed = true;
    stage->count = (uint64_t)stage->dataset->cardinality;
    return rf_stage_allocate_element(stage, &stage->dataset->spec);
}

static int32_t class_of(const image_folder *folder, uint64_t file)
{
    int32_t number = 0;
    while (file >= folder->ends[number]) number++;
    return number;
}

static rf_result get_image(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_dataset *d = stage->dataset;
    const image_folder *folder = d->data;
    const uint64_t file = d->index + index * d->seed;
    const char *path = folder->files.items[file];
    const rf_shape shape = d->spec.shape[0];
    rf_array image;
    RF_TRY(rf_image_read(path, (uint32_t)shape.dim[2], &image));
    rf_result r;
    if (folder->resize || rf_shape_equal(image.shape, shape))
        r = rf_image_resize(&image, (uint32_t)shape.dim[0], (uint32_t)shape.dim[1], stage->element.component[0].data);
    else
        r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                    "%s: %lld x %lld pixels, but the first image has %lld x %lld; give a height and a width to resize "
                    "all of them",
                    path, (long long)image.shape.dim[0], (long long)image.shape.dim[1], (long long)shape.dim[0],
                    (long long)shape.dim[1]);
    rf_array_free(&image);
    *(int32_t *)stage->element.component[1].data = class_of(folder, file);
    *out = &stage->element;
    return r;
}

static uint64_t image_examples(const rf_dataset *dataset, uint32_t file)
{
    (void)dataset;
    (void)file;
    return 1;
}

const rf_dataset_kind rf_dataset_kind_images = {
    .name = "images",
    .open = open_folder,
    .get = get_image,
    .free_dataset = free_folder,
    .select_files = rf_files_select,
    .file_examples = image_examples,
};

/* ---- creation ---- */

/* A hash of the files' names below the directory, which may be moved. */
static uint64_t hash_files(const char *directory, const image_folder *folder)
{
    const size_t root = strlen(directory);
    uint64_t h = folder->resize;
    for (uint32_t i = 0; i < folder->files.count; i++) {
        const char *name = folder->files.items[i] + root;
        h = rf_hash_bytes(name, strlen(name) + 1, h);
    }
    return h;
}

/* Finds the shape of the first image that can be read; returns the first failure where none can. */
static rf_result find_shape(const image_folder *folder, uint32_t channels, rf_shape *shape)
{
    rf_error_record first;
    for (uint32_t i = 0; i < folder->files.count; i++) {
        rf_array image;
        if (rf_image_read(folder->files.items[i], channels, &image) == RF_OK) {
            *shape = image.shape;
            rf_array_free(&image);
            return RF_OK;
        }
        if (i == 0) rf_error_save(&first);
    }
    return rf_error_context(rf_error_restore(&first), "no image can be read, of %u", folder->files.count);
}

static rf_result make_spec(const rf_image_directory_params *p, const image_folder *folder, rf_element_spec *spec)
{
    const uint32_t channels = p->channels ? p->channels : 3;
    *spec = (rf_element_spec){ .num_components = 2, .dtype = { RF_U8, RF_I32 } };
    spec->shape[0] = RF_SHAPE(p->height, p->width, channels);
    return folder->resize ? RF_OK : find_shape(folder, channels, &spec->shape[0]);
}

rf_result rf_dataset_from_image_directory(const rf_image_directory_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_from_image_directory: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_image_directory_params, params));
    RF_REQUIRE(params && params->directory, "rf_dataset_from_image_directory: no directory given");
    RF_REQUIRE(params->channels <= 4 && params->channels != 2,
               "rf_dataset_from_image_directory: %u channels; give 1, 3 or 4", params->channels);
    RF_REQUIRE((params->height > 0) == (params->width > 0),
               "rf_dataset_from_image_directory: a height of %u and a width of %u; give both or none", params->height,
               params->width);
    RF_REQUIRE((uint64_t)params->height * params->width <= RF_IMAGE_MAX_PIXELS,
               "rf_dataset_from_image_directory: %u x %u pixels are more than %d", params->height, params->width,
               RF_IMAGE_MAX_PIXELS);
    image_folder *folder = RF_NEW(image_folder);
    if (!folder) return RF_ERROR_OUT_OF_HOST_MEMORY;
    folder->resize = params->height > 0;
    rf_element_spec spec;
    rf_result r = list_classes(params->directory, folder);
    if (r == RF_OK) r = make_spec(params, folder, &spec);
    if (r == RF_OK) r = rf_dataset_new(&rf_dataset_kind_images, &spec, out);
    if (r < 0) {
        rf_dataset holder = { .data = folder };
        free_folder(&holder);
        return r;
    }
    rf_dataset *d = *out;
    d->data = folder;
    d->count = hash_files(params->directory, folder);
    d->seed = 1; /* every file */
    d->num_files = folder->files.count;
    d->cardinality = folder->files.count;
    return RF_OK;
}

const char *rf_dataset_class_name(const rf_dataset *dataset, uint32_t class_number)
{
    while (dataset && dataset->kind != &rf_dataset_kind_images) dataset = dataset->input;
    const image_folder *folder = dataset ? dataset->data : NULL;
    return folder && class_number < folder->classes.count ? folder->classes.items[class_number] : NULL;
}
