/* SPDX-License-Identifier: Apache-2.0 */
/* IDX and gzip reader: whatever the file holds, it is read or refused, without more memory than its size allows. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <ringfire/dataset.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    const int fd = memfd_create("idx", 0);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    rf_array array;
    if (rf_idx_read(path, &array) == RF_OK) {
        const int64_t count = rf_shape_count(array.shape);
        if (count < 0 || (count > 0 && !array.data)) abort();
        /* Touch both ends. */
        volatile unsigned char sum = 0;
        if (count > 0) {
            const unsigned char *bytes = array.data;
            sum = (unsigned char)(bytes[0] + bytes[(size_t)count * rf_dtype_size(array.dtype) - 1]);
        }
        (void)sum;
        rf_array_free(&array);
    } else if (array.data || rf_error_message()[0] == '\0') {
        abort();
    }
    close(fd);
    return 0;
}
