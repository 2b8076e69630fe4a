/* SPDX-License-Identifier: Apache-2.0 */
#include "photos.h"

#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "../common/common.h"

/* ---- classes ---- */

/* nftw() has no argument for its function. */
static uint64_t images_seen;

static int count_file(const char *path, const struct stat *status, int type, struct FTW *place)
{
    const char *name = path + place->base, *end = strrchr(name, '.');
    (void)status;
    if (type == FTW_F && name[0] != '.' && end &&
        (strcasecmp(end, ".png") == 0 || strcasecmp(end, ".jpg") == 0 || strcasecmp(end, ".jpeg") == 0))
        images_seen++;
    return 0;
}

int photos_find_classes(const char *images, photos *out)
{
    char path[4096];
    uint64_t all = 0;
    *out = (photos){ 0 };
    /* With a size, no image is read. */
    TRY(rf_dataset_from_image_directory(&(rf_image_directory_params){ .directory = images, .height = 1, .width = 1 },
                                        &out->listed));
    while (rf_dataset_class_name(out->listed, out->classes)) {
        if (out->classes == PHOTOS_MOST_CLASSES) {
            fprintf(stderr, "%s has more than %d classes\n", images, PHOTOS_MOST_CLASSES);
            return -1;
        }
        const char *name = rf_dataset_class_name(out->listed, out->classes);
        snprintf(path, sizeof(path), "%s/%s", images, name);
        images_seen = 0;
        (void)nftw(path, count_file, 16, FTW_PHYS);
        out->counts[out->classes] = images_seen;
        out->names[out->classes++] = name;
        all += images_seen;
    }
    for (uint32_t i = 0; i < out->classes; i++)
        out->weights[i] = (double)all / ((double)out->classes * (double)(out->counts[i] ? out->counts[i] : 1));
    return 0;
}

/* ---- datasets ---- */

/* Puts `next`, which was made of `data` with the result `r`, in its place. */
static rf_result replace(rf_result r, rf_dataset **data, rf_dataset *const *next)
{
    rf_dataset_destroy(data);
    *data = *next;
    return r;
}

/* Images stay in memory as bytes; those to train with are flipped, other ones in each epoch. */
static rf_result prepare(const photos_params *p, bool training, rf_dataset **data)
{
    rf_dataset *next = NULL;
    rf_augment_params augment = p->scale;
    augment.flip = training;
    rf_result r = replace(rf_dataset_cache(*data, &next), data, &next);
    if (r >= 0 && training)
        r = replace(
            rf_dataset_shuffle(*data, (uint64_t)rf_dataset_cardinality(*data), p->seed, RF_SHUFFLE_EACH_PASS, &next),
            data, &next);
    if (r >= 0) r = replace(rf_dataset_map_scale_u8(*data, 0, &next), data, &next);
    if (r >= 0) r = replace(rf_dataset_map_augment(*data, 0, p->seed, &augment, &next), data, &next);
    if (r >= 0) r = replace(rf_dataset_batch(*data, p->batch, RF_REMAINDER_KEEP, &next), data, &next);
    return r;
}

static rf_result list_images(const photos_params *p, const char *directory, rf_dataset **out)
{
    return rf_dataset_from_image_directory(&(rf_image_directory_params){ .directory = directory,
                                                                         .height = (uint32_t)p->size.dim[0],
                                                                         .width = (uint32_t)p->size.dim[1],
                                                                         .channels = (uint32_t)p->size.dim[2] },
                                           out);
}

static int check_same_classes(const photos_params *p, const rf_dataset *tests, const photos *of)
{
    for (uint32_t i = 0; i <= of->classes; i++) {
        const char *name = rf_dataset_class_name(tests, i), *wanted = i < of->classes ? of->names[i] : NULL;
        if (name && wanted && strcmp(name, wanted) == 0) continue;
        if (!name && !wanted) continue;
        fprintf(stderr, "%s has the class '%s' where %s has '%s'\n", p->tests, name ? name : "none", p->images,
                wanted ? wanted : "none");
        return -1;
    }
    return 0;
}

int photos_load(const photos_params *params, photos *p)
{
    rf_dataset *all = NULL;
    const rf_split_params split = { .fraction = 1 - params->test_part, .shuffle = true, .seed = params->seed };
    TRY(list_images(params, params->images, &all));
    rf_result r = RF_OK;
    if (params->tests) {
        p->train = all;
        TRY(list_images(params, params->tests, &p->test));
        if (check_same_classes(params, p->test, p) < 0) return -1;
    } else {
        r = rf_dataset_split(all, &split, &p->train, &p->test);
        rf_dataset_destroy(&all);
    }
    TRY(r);
    TRY(prepare(params, true, &p->train));
    TRY(prepare(params, false, &p->test));
    return 0;
}

void photos_free(photos *p)
{
    rf_dataset_destroy(&p->train);
    rf_dataset_destroy(&p->test);
    rf_dataset_destroy(&p->listed);
}
