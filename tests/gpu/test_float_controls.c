/* SPDX-License-Identifier: Apache-2.0 */
/* Modules that ask for IEEE's special numbers: written by hand, broken, and the library's own, which a validator
 * judges. Usage: test_gpu_float_controls SPIRV-VAL */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/expect.h"
#include "base/error.h"
#include "gpu/internal.h"
#include "rf_shaders.h"
#include "tests/room.h"

#define EVERY 29 /* of the library's modules */

static const char *validator;

#define ENTRY(name) &rf_shader_##name,
static const rf_shader *const shaders[] = { RF_ALL_SHADERS(ENTRY) };
enum { NUM_SHADERS = sizeof(shaders) / sizeof(shaders[0]) };

/* A capability, a memory model, two entry points called "f", an execution mode, the beginning of a function. */
static const uint32_t small[] = { 0x07230203,
                                  0x10500,
                                  0,
                                  9,
                                  0,
                                  2u << 16 | 17,
                                  1,
                                  3u << 16 | 14,
                                  0,
                                  1,
                                  4u << 16 | 15,
                                  5,
                                  7,
                                  'f',
                                  4u << 16 | 15,
                                  5,
                                  8,
                                  'f',
                                  6u << 16 | 16,
                                  7,
                                  17,
                                  1,
                                  1,
                                  1,
                                  5u << 16 | 54,
                                  1,
                                  7,
                                  0,
                                  2 };
enum { SMALL = sizeof(small) / sizeof(small[0]) };

TEST(test_small)
{
    static const uint32_t modes[] = { 4u << 16 | 16, 7, 4461, 32, 4u << 16 | 16, 8, 4461, 32 };
    static const uint32_t request[] = { 2u << 16 | 17, 4466 };
    uint32_t *out, *again, count, again_count;
    CHECK(rf_gpu_preserve_nans(small, SMALL, &out, &count));
    assert_non_null(out);
    assert_int_equal(count, SMALL + 2 + 8);
    assert_memory_equal(out, small, 7 * 4);
    assert_memory_equal(out + 7, request, sizeof(request));
    assert_memory_equal(out + 9, small + 7, 11 * 4);
    assert_memory_equal(out + 20, modes, sizeof(modes));
    assert_memory_equal(out + 28, small + 18, (SMALL - 18) * 4);
    /* One that asks already is left alone. */
    CHECK(rf_gpu_preserve_nans(out, count, &again, &again_count));
    assert_null(again);
    assert_int_equal(again_count, 0);
    rf_free(out);
    /* Before SPIR-V 1.4 it is an extension. */
    uint32_t old[SMALL];
    memcpy(old, small, sizeof(old));
    old[1] = 0x10300;
    CHECK(rf_gpu_preserve_nans(old, SMALL, &out, &count));
    assert_int_equal(count, SMALL + 2 + 7 + 8);
    assert_int_equal(out[9], 7u << 16 | 10);
    assert_string_equal((const char *)(out + 10), "SPV_KHR_float_controls");
    assert_memory_equal(out + 16, small + 7, 11 * 4);
    rf_free(out);
}

/* Whatever the words are, nothing beyond them is read (the arrays are exactly as long) and the answer is sound. */
TEST(test_broken)
{
    uint32_t changed = 0, random = 12345;
    for (uint32_t round = 0; round < 20000; round++) {
        const uint32_t length = round < SMALL ? round : SMALL;
        uint32_t *words = malloc(length > 0 ? length * 4 : 1), *out, count;
        assert_non_null(words);
        memcpy(words, small, length * 4);
        for (uint32_t k = 0; round >= SMALL && k < 1 + round % 3; k++) {
            random = random * 1664525 + 1013904223;
            const uint32_t at = (random >> 8) % length;
            random = random * 1664525 + 1013904223;
            words[at] = random & 1 ? random : (random >> 4) % 12 << 16 | (random >> 10) % 60;
        }
        CHECK(rf_gpu_preserve_nans(words, length, &out, &count));
        assert_true((out != NULL) == (count > length));
        changed += out != NULL;
        rf_free(out);
        free(words);
    }
    assert_true(changed > 1000 && changed < 19000);
}

static bool is_valid(const char *path, const uint32_t *words, uint32_t count, const char *more)
{
    char command[512];
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(words, 4, count, f), count);
    assert_int_equal(fclose(f), 0);
    snprintf(command, sizeof(command), "'%s' --target-env vulkan1.2 --scalar-block-layout %s%s", validator, path, more);
    return system(command) == 0;
}

/* Validators of 2023 do not know what these modules were made with, and judge neither form. */
static bool is_unknown(const char *path, const rf_shader *shader, const uint32_t *words)
{
    return strstr(shader->name, "_coop_") && !is_valid(path, words, shader->num_words, " >/dev/null 2>&1");
}

TEST(test_library)
{
    char path[] = "/tmp/ringfire-module-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    fclose(fdopen(file, "w"));
    for (uint32_t i = 0; i < NUM_SHADERS; i += EVERY) {
        uint32_t *words, *out, count;
        CHECK(rf_shader_read(shaders[i], &words));
        CHECK(rf_gpu_preserve_nans(words, shaders[i]->num_words, &out, &count));
        if (!out) fail_msg("%s was left alone", shaders[i]->name);
        if (!is_unknown(path, shaders[i], words) && !is_valid(path, out, count, ""))
            fail_msg("%s: not valid", shaders[i]->name);
        rf_free(words);
        rf_free(out);
    }
    remove(path);
}

TEST_PROGRAM(float_controls)
{
    if (argc < 2) return 2;
    validator = argv[1];
    return room_tests_run(own_tests, NULL, NULL);
}
