/* SPDX-License-Identifier: Apache-2.0 */
/* CIFAR's binary versions: whatever the file holds, its records are read or all of it is refused. The first byte says
 * which version it is, and how many bytes of zeros follow the rest, so that short inputs reach whole records. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "data/pipeline.h"
#include "fuzz.h"

enum { MAX_BYTES = 8192 };

FUZZ_TARGET(cifar)
{
    static uint8_t file[MAX_BYTES];
    if (size == 0 || size - 1 > MAX_BYTES) return 0;
    const uint32_t classes = data[0] & 1 ? 100 : 10, record = data[0] & 1 ? 3074 : 3073;
    const size_t filled = (data[0] & 2) && size - 1 < record ? record : size - 1;
    rf_array images = { .dtype = RF_U8 }, labels = { .dtype = RF_I32 };
    memset(file, 0, sizeof(file));
    memcpy(file, data + 1, size - 1);
    for (int64_t times = 1; times <= 2; times++) {
        const rf_result r = rf_cifar_decode("cifar", file, filled, classes, &images, &labels);
        PROMISE(r == RF_OK || (r == RF_ERROR_CORRUPT_DATA && rf_error_message()[0]));
        if (r < 0) break;
        const int64_t count = times * (int64_t)(filled / record);
        PROMISE(images.shape.dim[0] == count && labels.shape.dim[0] == count);
        for (int64_t i = 0; i < count; i++) {
            const int32_t label = ((const int32_t *)labels.data)[i];
            PROMISE(label >= 0 && label < (int32_t)classes);
        }
        /* The last pixel's blue is the last byte. */
        PROMISE(((const uint8_t *)images.data)[count * 3072 - 1] == file[filled - 1]);
    }
    rf_array_free(&images);
    rf_array_free(&labels);
    return 0;
}
