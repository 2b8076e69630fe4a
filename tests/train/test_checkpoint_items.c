/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of the chief's messages about the items of a checkpoint, and what a worker takes of them. */
#include <stdlib.h>
#include <string.h>

#include "tests/room.h"
#include "train/checkpoint/checkpoint.h"

static char name[] = "model/dense/kernel";

static void expect(rf_result want, const rf_item *item, rf_item_header header)
{
    rf_item_value value;
    assert_int_equal(rf_item_header_take(item, &header, &value), want);
    assert_null(value.data);
    assert_int_equal(value.present, want == RF_OK && header.present);
    if (want < 0) assert_non_null(strstr(rf_error_message(), name));
}

TEST(tensors)
{
    const rf_item_kind kind = { .form = RF_ITEM_TENSOR, .dtype = RF_F32 };
    const rf_item item = { .kind = &kind, .name = name, .shape = RF_SHAPE(3, 5) };
    const rf_item_value mine = { .present = true, .size = 60, .shape = RF_SHAPE(3, 5) };
    rf_item_value value;
    rf_item_header s = rf_item_header_of(&mine);
    assert_int_equal(rf_item_header_take(&item, &s, &value), RF_OK);
    assert_true(value.present && value.size == 60 && value.shape.rank == 2 && value.shape.dim[0] == 3);
    expect(RF_OK, &item, (rf_item_header){ .present = 0, .size = UINT64_MAX, .shape_rank = 99 });
    static const uint64_t ranks[] = { 0, 1, 3, 7, UINT32_MAX, (UINT64_C(1) << 32) + 2 };
    for (int i = 0; i < 6; i++) {
        s.shape_rank = ranks[i];
        expect(RF_ERROR_CORRUPT_DATA, &item, s);
    }
    s = rf_item_header_of(&mine);
    static const uint64_t sizes[] = { 0, 59, 61, UINT64_MAX };
    for (int i = 0; i < 4; i++) {
        s.size = sizes[i];
        expect(RF_ERROR_CORRUPT_DATA, &item, s);
    }
    expect(RF_ERROR_CORRUPT_DATA, &item, (rf_item_header){ 1, 60, 0, 2, { 5, 3 } });
}

TEST(free_rows)
{
    const rf_item_kind kind = { .form = RF_ITEM_TENSOR, .dtype = RF_F32, .free_rows = true };
    const rf_item item = { .kind = &kind, .name = name, .shape = RF_SHAPE(3, 5) };
    expect(RF_OK, &item, (rf_item_header){ 1, 140, 0, 2, { 7, 5 } });
    expect(RF_OK, &item, (rf_item_header){ 1, 0, 0, 2, { 0, 5 } });
    expect(RF_ERROR_CORRUPT_DATA, &item, (rf_item_header){ 1, 140, 0, 2, { 7, 6 } });
    expect(RF_ERROR_CORRUPT_DATA, &item, (rf_item_header){ 1, UINT64_MAX - 19, 0, 2, { -1, 5 } });
    /* Rows whose bytes go around the end of the numbers. */
    const int64_t rows = INT64_C(922337203685477581);
    expect(RF_ERROR_CORRUPT_DATA, &item, (rf_item_header){ 1, (uint64_t)rows * 20, 0, 2, { rows, 5 } });
}

TEST(values)
{
    static const rf_item_kind bytes = { .form = RF_ITEM_BYTES }, number = { .form = RF_ITEM_NUMBER };
    const rf_item some = { .kind = &bytes, .name = name }, one = { .kind = &number, .name = name };
    rf_item_value value;
    const rf_item_header eleven = { 1, 0, 11, 0, { 0 } };
    assert_int_equal(rf_item_header_take(&one, &eleven, &value), RF_OK);
    assert_int_equal(value.number, 11);
    expect(RF_ERROR_CORRUPT_DATA, &one, (rf_item_header){ .present = 1, .size = 8 });
    expect(RF_OK, &some, (rf_item_header){ .present = 1, .size = 8 });
    expect(RF_ERROR_CORRUPT_DATA, &some, (rf_item_header){ .present = 1, .size = UINT64_MAX });
}

TEST(part_ids)
{
    rf_part_id id = { "0a1b2c3d-4711-65f0c0de0001e240" };
    assert_true(rf_part_id_is_valid(&id));
    static const char *const bad[] = { "", "/../../x", "a.b", "a/b", "A", "a b", "a\n" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        memset(&id, 0, sizeof(id));
        memcpy(id.text, bad[i], strlen(bad[i]));
        assert_false(rf_part_id_is_valid(&id));
    }
    memset(id.text, 'a', sizeof(id.text)); /* without an end */
    assert_false(rf_part_id_is_valid(&id));
}

TESTS(checkpoint_items, NULL, NULL)
