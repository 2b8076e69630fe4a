/* SPDX-License-Identifier: Apache-2.0 */
/* How much shared memory SPIR-V modules declare: modules written by hand, a few instructions each. */
#include "base/shader.h"
#include "tests/room.h"

#define WORDS(operation, count) ((uint32_t)(count) << 16 | (operation))
#define HEADER(bound) 0x07230203, 0x00010300, 0, (bound), 0

static bool shared(const uint32_t *words, uint32_t num_words, const uint32_t *spec, uint32_t num_spec, uint64_t *bytes)
{
    const rf_shader shader = { .name = "made up", .words = words, .num_words = num_words };
    return rf_shader_shared_bytes(&shader, spec, num_spec, bytes);
}
#define SHARED(words, spec, num_spec, bytes) shared((words), sizeof(words) / sizeof((words)[0]), spec, num_spec, bytes)

/* shared vec4 a[2 * N]; shared float b[3]; with constant_id 1 for N, 8 by default; a variable elsewhere does not count.
 */
static const uint32_t sized[] = {
    HEADER(20),
    WORDS(71, 4),
    3,
    1,
    1, /* OpDecorate %3 SpecId 1 */
    WORDS(21, 4),
    1,
    32,
    0, /* %1 = OpTypeInt 32 0 */
    WORDS(22, 3),
    2,
    32, /* %2 = OpTypeFloat 32 */
    WORDS(50, 4),
    1,
    3,
    8, /* %3 = OpSpecConstant %1 8 */
    WORDS(43, 4),
    1,
    4,
    2, /* %4 = OpConstant %1 2 */
    WORDS(52, 6),
    1,
    5,
    132,
    4,
    3, /* %5 = OpSpecConstantOp %1 IMul %4 %3 */
    WORDS(23, 4),
    6,
    2,
    4, /* %6 = OpTypeVector %2 4 */
    WORDS(28, 4),
    7,
    6,
    5, /* %7 = OpTypeArray %6 %5 */
    WORDS(32, 4),
    8,
    4,
    7, /* %8 = OpTypePointer Workgroup %7 */
    WORDS(59, 4),
    8,
    9,
    4, /* %9 = OpVariable %8 Workgroup */
    WORDS(43, 4),
    1,
    10,
    3, /* %10 = OpConstant %1 3 */
    WORDS(28, 4),
    11,
    2,
    10, /* %11 = OpTypeArray %2 %10 */
    WORDS(32, 4),
    12,
    4,
    11, /* %12 = OpTypePointer Workgroup %11 */
    WORDS(59, 4),
    12,
    13,
    4, /* %13 = OpVariable %12 Workgroup */
    WORDS(32, 4),
    14,
    6,
    11, /* %14 = OpTypePointer Private %11 */
    WORDS(59, 4),
    14,
    15,
    6, /* %15 = OpVariable %14 Private */
};

TEST(test_sizes)
{
    const uint32_t spec[] = { 256, 32 };
    uint64_t bytes;
    assert_true(SHARED(sized, NULL, 0, &bytes));
    assert_int_equal(bytes, 16 * 2 * 8 + 12);
    assert_true(SHARED(sized, spec, 2, &bytes));
    assert_int_equal(bytes, 16 * 2 * 32 + 12);
    assert_true(SHARED(sized, spec, 1, &bytes)); /* the constant keeps its default */
    assert_int_equal(bytes, 16 * 2 * 8 + 12);
    static const uint32_t none[] = { HEADER(3), WORDS(22, 3), 2, 32 };
    assert_true(SHARED(none, spec, 2, &bytes));
    assert_int_equal(bytes, 0);
}

/* A struct of a half and a boolean, and every operation that lengths are computed with, on 7 and 2. */
TEST(test_operations)
{
    static const struct {
        uint32_t operation, result;
    } rows[] = { { 128, 9 }, { 130, 5 }, { 132, 14 }, { 134, 3 },  { 135, 3 }, { 137, 1 }, { 138, 1 },
                 { 139, 1 }, { 194, 1 }, { 195, 1 },  { 196, 28 }, { 197, 7 }, { 199, 2 } };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const uint32_t words[] = {
            HEADER(12),
            WORDS(21, 4),
            1,
            32,
            0,
            WORDS(22, 3),
            2,
            16,
            WORDS(20, 2),
            3,
            WORDS(30, 4),
            4,
            2,
            3, /* struct */
            WORDS(50, 4),
            1,
            5,
            7,
            WORDS(43, 4),
            1,
            6,
            2,
            WORDS(52, 6),
            1,
            7,
            rows[i].operation,
            5,
            6,
            WORDS(28, 4),
            8,
            4,
            7,
            WORDS(32, 4),
            9,
            4,
            8,
            WORDS(59, 4),
            9,
            10,
            4,
        };
        uint64_t bytes;
        assert_true(SHARED(words, NULL, 0, &bytes));
        assert_int_equal(bytes, 6 * rows[i].result);
    }
}

TEST(test_unknown)
{
    uint64_t bytes;
    static const uint32_t operation[] = {
        HEADER(12),
        WORDS(21, 4),
        1,
        32,
        0,
        WORDS(43, 4),
        1,
        6,
        2,
        WORDS(52, 6),
        1,
        7,
        129, /* OpFAdd is not of whole numbers */
        6,
        6,
        WORDS(28, 4),
        8,
        1,
        7,
        WORDS(32, 4),
        9,
        4,
        8,
        WORDS(59, 4),
        9,
        10,
        4,
    };
    static const uint32_t divided[] = {
        HEADER(12),
        WORDS(21, 4),
        1,
        32,
        0,
        WORDS(43, 4),
        1,
        6,
        0,
        WORDS(52, 6),
        1,
        7,
        134,
        6,
        6, /* by 0 */
        WORDS(28, 4),
        8,
        1,
        7,
        WORDS(32, 4),
        9,
        4,
        8,
        WORDS(59, 4),
        9,
        10,
        4,
    };
    static const uint32_t beyond[] = { HEADER(4), WORDS(22, 3), 9, 32 }, cut[] = { HEADER(4), WORDS(22, 3), 1 };
    static const uint32_t empty[] = { HEADER(4), 0 }, header[] = { 0x07230203, 0, 0 }, huge[] = { HEADER(0xffffffff) };
    assert_false(SHARED(operation, NULL, 0, &bytes));
    assert_false(SHARED(divided, NULL, 0, &bytes));
    assert_false(SHARED(beyond, NULL, 0, &bytes));
    assert_false(SHARED(cut, NULL, 0, &bytes));
    assert_false(SHARED(empty, NULL, 0, &bytes));
    assert_false(SHARED(header, NULL, 0, &bytes));
    assert_false(SHARED(huge, NULL, 0, &bytes));
    assert_int_equal(bytes, 0);
}

TESTS(shader_shared, NULL, NULL)
