/* SPDX-License-Identifier: Apache-2.0 */
/* Built-in modules as they are stored: each comes back whole, and a damaged one is an error. */
#include <stdlib.h>
#include <string.h>

#include "../support/expect.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/module_words.h"
#include "base/shader.h"
#include "base/spirv.h"
#include "rf_shaders.h"
#include "tests/room.h"

#define ENTRY(name) &rf_shader_##name,
static const rf_shader *const shaders[] = { RF_ALL_SHADERS(ENTRY) };
enum { NUM_SHADERS = sizeof(shaders) / sizeof(shaders[0]) };

/* pack_module compares every module with what comes back of it. Here the library's own reader meets them, and what it
 * returns are whole instructions. */
TEST(test_library)
{
    uint64_t packed = 0, unpacked = 0;
    for (uint32_t i = 0; i < NUM_SHADERS; i++) {
        uint32_t *words, at = SPIRV_HEADER_WORDS;
        assert_null(shaders[i]->words);
        CHECK(rf_shader_read(shaders[i], &words));
        assert_int_equal(words[0], SPIRV_MAGIC);
        while (at < shaders[i]->num_words && words[at] >> 16 > 0) at += words[at] >> 16;
        assert_int_equal(at, shaders[i]->num_words);
        packed += shaders[i]->num_packed;
        unpacked += shaders[i]->num_words * sizeof(*words);
        rf_free(words);
    }
    assert_true(packed * 6 < unpacked);
}

/* A program's own module is copied. */
TEST(test_words)
{
    const uint32_t own[] = { SPIRV_MAGIC, 1, 2, 3 };
    const rf_shader shader = { .name = "own", .words = own, .num_words = 4 };
    uint32_t *words;
    CHECK(rf_shader_read(&shader, &words));
    assert_memory_equal(words, own, sizeof(own));
    rf_free(words);
}

/* Bytes that are changed or missing, and a wrong length: an error that names the shader, or other words, but nothing is
 * read or written beyond the arrays. */
TEST(test_damaged)
{
    const rf_shader *const from = &rf_shader_fill;
    uint32_t random = 1, failed = 0, *words;
    for (uint32_t round = 0; round < 2000; round++) {
        random = random * 1664525 + 1013904223;
        const uint32_t length = round % 2 == 0 ? from->num_packed : (random >> 8) % from->num_packed;
        uint8_t *bytes = malloc(length + 1);
        assert_non_null(bytes);
        memcpy(bytes, from->packed, length);
        if (length > 0) bytes[(random >> 12) % length] ^= (uint8_t)(1 + round % 255);
        rf_shader damaged = *from;
        damaged.packed = bytes;
        damaged.num_packed = length;
        const rf_result r = rf_shader_read(&damaged, &words);
        if (r != RF_OK) {
            assert_int_equal(r, RF_ERROR_INTERNAL);
            assert_non_null(strstr(rf_error_message(), "shader 'fill': the library's copy of it is damaged"));
            assert_null(words);
            failed++;
        }
        rf_free(words);
        free(bytes);
    }
    assert_true(failed > 1500);
    rf_shader other = *from;
    other.num_words--;
    assert_int_equal(rf_shader_read(&other, &words), RF_ERROR_INTERNAL);
    other.num_words += 2;
    assert_int_equal(rf_shader_read(&other, &words), RF_ERROR_INTERNAL);
}

/* The form beneath the compression, whatever its bytes are. */
TEST(test_form)
{
    enum { COUNT = 9 };
    /* OpNop, OpName 5 "", OpName 7 "". */
    const uint8_t form[] = { 1, 2, 3, 4, 4, 5, 3, 5, 3, 10, 0, 4, 0 };
    const uint32_t expected[] = { SPIRV_MAGIC, 1, 2, 3, 4, 3 << 16 | 5, 5, 0, 3 << 16 | 5, 7, 0 };
    uint32_t *words = malloc(sizeof(expected));
    assert_non_null(words);
    assert_true(rf_module_words(form, sizeof(form), words, 11));
    assert_memory_equal(words, expected, sizeof(expected));
    assert_false(rf_module_words(form, sizeof(form), words, 8));
    assert_false(rf_module_words(form, sizeof(form) - 1, words, 11));
    assert_false(rf_module_words(form, sizeof(form), words, 4));
    uint32_t random = 7;
    for (uint32_t round = 0; round < 100000; round++) {
        const uint32_t length = round % (sizeof(form) + 1);
        uint8_t *bytes = malloc(length + 1);
        assert_non_null(bytes);
        memcpy(bytes, form, length);
        for (uint32_t k = 0; length > 0 && k < 1 + round % 3; k++) {
            random = random * 1664525 + 1013904223;
            bytes[(random >> 8) % length] = (uint8_t)(random >> 20);
        }
        rf_module_words(bytes, length, words, COUNT + round % 3);
        free(bytes);
    }
    free(words);
}

TEST_PROGRAM(shader_read)
{
    (void)argc, (void)argv;
    return room_tests_run(own_tests, NULL, NULL);
}
