/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A GGUF file for test_gguf.py, or what is in one.
 *   gguf_numbers read FILE NAME   the numbers of a tensor, as f32, on standard output
 *   gguf_numbers write FILE       numbers 0 to 1023 of sin(i) * i in each type that can be written, and some values
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringfire/gguf.h>

#include "tests/support/need_call.h"

static int print_numbers(const char *path, const char *name)
{
    rf_gguf *file;
    rf_gguf_tensor t;
    NEED_CALL(rf_gguf_open(path, &file));
    NEED_CALL(rf_gguf_find_tensor(file, name, &t));
    const uint64_t count = (uint64_t)rf_shape_count(t.shape);
    float *numbers = malloc(count * sizeof(*numbers) + 1);
    if (!numbers) return EXIT_FAILURE;
    NEED_CALL(rf_gguf_read(file, name, 0, count, numbers));
    const size_t written = fwrite(numbers, sizeof(*numbers), count, stdout);
    free(numbers);
    rf_gguf_close(&file);
    return written == count ? EXIT_SUCCESS : EXIT_FAILURE;
}

static rf_result give(void *user, const char *name, uint64_t first, uint64_t count, float *out)
{
    (void)user;
    (void)name;
    for (uint64_t i = 0; i < count; i++) out[i] = sinf((float)(first + i)) * (float)(first + i);
    return RF_OK;
}

static int write_sample(const char *path)
{
    const uint32_t alignment = 64;
    const double pi = 3.141592653589793;
    const int8_t small[] = { -1, 0, 127 };
    const uint8_t yes = 1;
    const char *const words[] = { "first", "\xe2\x96\x81second" };
    const char *const name[] = { "sample" };
    const rf_gguf_value values[] = { { "general.architecture", RF_GGUF_STRING, false, 1, name },
                                     { "general.alignment", RF_GGUF_UINT32, false, 1, &alignment },
                                     { "sample.pi", RF_GGUF_FLOAT64, false, 1, &pi },
                                     { "sample.small", RF_GGUF_INT8, true, 3, small },
                                     { "sample.yes", RF_GGUF_BOOL, false, 1, &yes },
                                     { "tokenizer.ggml.tokens", RF_GGUF_STRING, true, 2, words } };
    const rf_gguf_tensor tensors[] = { { "f32", RF_SHAPE(4, 256), RF_GGUF_F32 },
                                       { "f16", RF_SHAPE(1024), RF_GGUF_F16 },
                                       { "bf16", RF_SHAPE(2, 2, 256), RF_GGUF_BF16 },
                                       { "q8_0", RF_SHAPE(4, 8, 32), RF_GGUF_Q8_0 } };
    NEED_CALL(rf_gguf_write(path, &(rf_gguf_contents){ values, 6, tensors, 4, give, NULL }));
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "read") == 0) return print_numbers(argv[2], argv[3]);
    if (argc == 3 && strcmp(argv[1], "write") == 0) return write_sample(argv[2]);
    fputs("Usage: gguf_numbers read FILE NAME | write FILE\n", stderr);
    return EXIT_FAILURE;
}
