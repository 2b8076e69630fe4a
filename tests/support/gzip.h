/* SPDX-License-Identifier: Apache-2.0 */
/* Fixtures that are gzipped. Include after <cmocka.h>. */
#ifndef RF_TESTS_SUPPORT_GZIP_H
#define RF_TESTS_SUPPORT_GZIP_H

#include <zlib.h>

static inline void read_exactly(gzFile file, void *data, size_t size)
{
    assert_int_equal(gzread(file, data, (unsigned)size), (int)size);
}

#endif
