/* SPDX-License-Identifier: Apache-2.0 */
/* Modules whose specialization constants are set: what is left of the library's own, which a validator judges, of
 * broken ones and of what is not understood. That results stay what they were, each test of a kernel holds. Usage:
 * test_gpu_specialize SPIRV-VAL */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/expect.h"
#include "base/error.h"
#include "base/spirv.h"
#include "gpu/internal.h"
#include "rf_shaders.h"
#include "tests/room.h"

enum { NUM_SPEC = 16, EVERY = 11 /* of the library's modules are validated */ };

static const char *validator;

#define ENTRY(name) &rf_shader_##name,
static const rf_shader *const shaders[] = { RF_ALL_SHADERS(ENTRY) };
enum { NUM_SHADERS = sizeof(shaders) / sizeof(shaders[0]) };

/* Workgroups of eight, and numbers as they come. */
static void spec_fill(uint32_t *spec, uint32_t seed)
{
    for (uint32_t i = 0; i < NUM_SPEC; i++) {
        seed = seed * 1664525 + 1013904223;
        spec[i] = seed % 3 == 0 ? seed >> 8 & 0x01010fff : seed >> 16 & 3;
    }
    spec[0] = 8;
}

static uint32_t operations_count(const uint32_t *words, uint32_t count, uint32_t operation)
{
    uint32_t found = 0;
    for (uint32_t i = SPIRV_HEADER_WORDS; i < count; i += words[i] >> 16) found += (words[i] & 0xffff) == operation;
    return found;
}

static uint32_t unrolled_count(const uint32_t *words, uint32_t count)
{
    uint32_t found = 0;
    for (uint32_t i = SPIRV_HEADER_WORDS; i < count; i += words[i] >> 16)
        found += (words[i] & 0xffff) == SPIRV_LOOP_MERGE && (words[i + 3] & SPIRV_LOOP_UNROLL);
    return found;
}

static bool is_valid(const char *path, const uint32_t *words, uint32_t count)
{
    char command[512];
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(words, 4, count, f), count);
    assert_int_equal(fclose(f), 0);
    snprintf(command, sizeof(command), "'%s' --target-env vulkan1.2 --scalar-block-layout %s", validator, path);
    return system(command) == 0;
}

/* None of the library's modules is left as it is, none grows, and what becomes of them is valid. Validators of 2023 do
 * not know cooperative matrices. */
TEST(test_library)
{
    char path[] = "/tmp/ringfire-module-XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    fclose(fdopen(file, "w"));
    for (uint32_t i = 0; i < NUM_SHADERS; i++)
        for (uint32_t seed = 0; seed < 3; seed++) {
            uint32_t spec[NUM_SPEC], *out, count;
            spec_fill(spec, i * 3 + seed);
            CHECK(rf_gpu_specialize(shaders[i], spec, NUM_SPEC, false, &out, &count));
            if (!out) fail_msg("%s was left as it is", shaders[i]->name);
            assert_true(count <= shaders[i]->num_words);
            assert_int_equal(operations_count(out, count, SPIRV_SPEC_CONSTANT), 0);
            assert_int_equal(operations_count(out, count, SPIRV_SPEC_CONSTANT_COMPOSITE), 0);
            if ((i + seed) % EVERY == 0 && !strstr(shaders[i]->name, "_coop_") && !is_valid(path, out, count))
                fail_msg("%s, seed %u: not valid", shaders[i]->name, seed);
            rf_free(out);
        }
    remove(path);
}

/* A step of an element-wise program is one of dozens of functions: the others go. */
TEST(test_functions)
{
    enum { EXP = 5, ADD = 25, EXT_INST_EXP = 27, F_ADD = 129, WIDTH = 64, BOTH = 0x11 };
    const rf_shader *shader = &rf_shader_elementwise_1_w4;
    uint32_t *out, count;
    const uint32_t sum[] = { WIDTH, BOTH, 0, ADD | 0 << 8 | 1 << 16 }, power[] = { WIDTH, BOTH, 0, EXP };
    CHECK(rf_gpu_specialize(shader, sum, 4, false, &out, &count));
    assert_non_null(out);
    assert_true(count < shader->num_words / 5);
    assert_int_equal(operations_count(out, count, F_ADD), 1);
    assert_int_equal(operations_count(out, count, SPIRV_EXT_INST), 0);
    rf_free(out);
    CHECK(rf_gpu_specialize(shader, power, 4, false, &out, &count));
    assert_non_null(out);
    assert_int_equal(operations_count(out, count, F_ADD), 0);
    assert_int_equal(operations_count(out, count, SPIRV_EXT_INST), 1);
    for (uint32_t i = SPIRV_HEADER_WORDS; i < count; i += out[i] >> 16)
        if ((out[i] & 0xffff) == SPIRV_EXT_INST) assert_int_equal(out[i + 4], EXT_INST_EXP);
    rf_free(out);
    /* Constants that are not given have their defaults: a program that copies an input which is not used. */
    CHECK(rf_gpu_specialize(shader, sum, 1, false, &out, &count));
    assert_non_null(out);
    assert_int_equal(operations_count(out, count, F_ADD), 0);
    rf_free(out);
}

/* Loops ask to be unrolled, or all stay, and nothing else of a module changes. */
TEST(test_loops)
{
    uint32_t unrolled = 0;
    for (uint32_t i = 0; i < NUM_SHADERS; i++) {
        uint32_t spec[NUM_SPEC], *asked, *kept, num_asked, num_kept;
        spec_fill(spec, i);
        CHECK(rf_gpu_specialize(shaders[i], spec, NUM_SPEC, false, &asked, &num_asked));
        CHECK(rf_gpu_specialize(shaders[i], spec, NUM_SPEC, true, &kept, &num_kept));
        assert_int_equal(num_kept, num_asked);
        assert_int_equal(unrolled_count(kept, num_kept), 0);
        uint32_t differences = 0;
        for (uint32_t k = 0; k < num_kept; k++) differences += kept[k] != asked[k];
        assert_int_equal(differences, unrolled_count(asked, num_asked));
        unrolled += differences;
        rf_free(asked);
        rf_free(kept);
    }
    assert_true(unrolled > 0);
}

/* An instruction that compute shaders are not known to have, in the middle of the function. */
TEST(test_not_understood)
{
    const rf_shader *shader = &rf_shader_fill;
    const uint32_t line[] = { 4u << 16 | 8, 1, 1, 1 };
    uint32_t *words = malloc((shader->num_words + 4) * sizeof(*words)), at = SPIRV_HEADER_WORDS, count, *out, *own;
    assert_non_null(words);
    CHECK(rf_shader_read(shader, &own));
    while ((own[at] & 0xffff) != SPIRV_LABEL) at += own[at] >> 16;
    at += own[at] >> 16;
    memcpy(words, own, at * 4);
    memcpy(words + at, line, sizeof(line));
    memcpy(words + at + 4, own + at, (shader->num_words - at) * 4);
    rf_free(own);
    const rf_shader strange = { .name = "strange", .words = words, .num_words = shader->num_words + 4 };
    CHECK(rf_gpu_specialize(&strange, NULL, 0, false, &out, &count));
    assert_null(out);
    assert_int_equal(count, 0);
    free(words);
}

/* Whatever the words are, nothing beyond them is read (the arrays are exactly as long), and it ends. */
TEST(test_broken)
{
    static const rf_shader *const some[] = { &rf_shader_fill, &rf_shader_elementwise_1_strided, &rf_shader_linear_sum };
    uint32_t random = 12345, left = 0, rounds = 600;
    for (uint32_t round = 0; round < rounds; round++) {
        const rf_shader *shader = some[round % 3];
        const uint32_t length = round % 10 == 0 ? round * 7 % shader->num_words : shader->num_words;
        uint32_t *words = malloc(length > 0 ? length * 4 : 1), *own, *out, count, spec[NUM_SPEC];
        assert_non_null(words);
        CHECK(rf_shader_read(shader, &own));
        memcpy(words, own, length * 4);
        rf_free(own);
        for (uint32_t k = 0; length > 0 && k < 1 + round % 4; k++) {
            random = random * 1664525 + 1013904223;
            const uint32_t at = (random >> 8) % length;
            random = random * 1664525 + 1013904223;
            words[at] = random & 1 ? (random >> 4) % 300 : (random >> 4) % 8 << 16 | (random >> 10) % 256;
        }
        const rf_shader broken = { .name = "broken", .words = words, .num_words = length };
        spec_fill(spec, round);
        CHECK(rf_gpu_specialize(&broken, spec, NUM_SPEC, round % 2 == 0, &out, &count));
        left += out == NULL;
        rf_free(out);
        free(words);
    }
    assert_true(left > rounds / 10 && left < rounds);
}

TEST_PROGRAM(specialize)
{
    if (argc < 2) return 2;
    validator = argv[1];
    return room_tests_run(own_tests, NULL, NULL);
}
