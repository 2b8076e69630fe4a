/* SPDX-License-Identifier: Apache-2.0 */
/* Photos in a folder for each class, as a pretrained network wants them. */
#ifndef CLASSIFY_PHOTOS_H
#define CLASSIFY_PHOTOS_H

#include <ringfire/ringfire.h>

enum { PHOTOS_MOST_CLASSES = 255 };

typedef struct photos {
    rf_dataset *listed, *train, *test;
    const char *names[PHOTOS_MOST_CLASSES]; /* of the classes; borrowed from `listed` */
    uint64_t counts[PHOTOS_MOST_CLASSES];   /* images in the folder of each */
    double weights[PHOTOS_MOST_CLASSES];    /* with which all classes count the same */
    uint32_t classes;
} photos;

typedef struct photos_params {
    const char *images, *tests; /* directories of classes; tests NULL: a part of the first */
    double test_part;           /* of the images, where there are no tests */
    rf_shape size;              /* [height, width, channels] */
    rf_augment_params scale;    /* for the network */
    uint64_t seed;
    uint32_t batch;
} photos_params;

/* The classes of a directory, and then its images. 0, or -1 after saying what failed; freed with photos_free() in any
 * case. */
int photos_find_classes(const char *images, photos *out);
int photos_load(const photos_params *params, photos *p);
void photos_free(photos *p);

#endif
