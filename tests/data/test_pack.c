/* SPDX-License-Identifier: Apache-2.0 */
/* Packed rows: which elements come together, positions, segments, padding; saved positions, shares, refusals. */
#include "base/error.h"
#include "combined.h"
#include "data/slice.h"
#include "tests/room.h"

enum { LENGTH = 12, ELEMENTS = 60, ROW = 16 };

/* Lengths from 0 to LENGTH, the same in every pass. */
static int length_of(uint64_t index)
{
    return (int)((index * 7 + index / 5) % (LENGTH + 1));
}

/* (words i32 [length], of 100 * index + 1 ..., pairs f32 [length, 2], half of them). */
static rf_result generate(void *user, uint64_t index, rf_element *out)
{
    (void)user;
    if (index >= ELEMENTS) return RF_END;
    const int length = length_of(index);
    for (int c = 0; c < 2; c++) out->component[c].shape.dim[0] = length;
    for (int i = 0; i < length; i++) {
        ((int32_t *)out->component[0].data)[i] = (int32_t)index * 100 + i + 1;
        for (int k = 0; k < 2; k++)
            ((float *)out->component[1].data)[2 * i + k] = (float)(index * 100) + (float)i + 0.5f * (float)k;
    }
    return RF_OK;
}

static rf_dataset *sentences(void)
{
    rf_dataset *d;
    OK(rf_dataset_from_generator(
        &(rf_dataset_generator_params){
            .generate = generate,
            .spec = { 2, { RF_I32, RF_F32 }, { RF_SHAPE(LENGTH), RF_SHAPE(LENGTH, 2) } },
        },
        &d));
    return d;
}

static rf_dataset *packed(uint32_t num_open, bool segments)
{
    rf_dataset *d = sentences();
    const rf_pack_params p = { .length = ROW, .num_open = num_open, .segments = segments, .pad_value = { -7, 0.25 } };
    APPLY(d, rf_dataset_pack(d, &p, &applied_));
    return d;
}

/* The step's work, done plainly: the elements of each row in order, -1 behind them. Returns the number of rows. */
static int plan(int num_open, int rows[][ELEMENTS])
{
    int open[ELEMENTS][ELEMENTS], filled[ELEMENTS], sizes[ELEMENTS], count = 0, n = 0;
    for (int i = 0; i <= ELEMENTS; i++) {
        const int length = i < ELEMENTS ? length_of((uint64_t)i) : 0;
        if (i < ELEMENTS && length == 0) continue;
        int best = -1;
        for (int r = 0; i < ELEMENTS && r < count; r++)
            if (filled[r] + length <= ROW && (best < 0 || filled[r] > filled[best])) best = r;
        while (i == ELEMENTS ? count > 0 : best < 0 && count == num_open) { /* a row has to go */
            int full = 0;
            for (int r = 1; i < ELEMENTS && r < count; r++)
                if (filled[r] > filled[full]) full = r;
            for (int k = 0; k < ELEMENTS; k++) rows[n][k] = k < sizes[full] ? open[full][k] : -1;
            n++;
            count--;
            for (int r = full; r < count; r++) {
                memcpy(open[r], open[r + 1], sizeof(open[r]));
                filled[r] = filled[r + 1];
                sizes[r] = sizes[r + 1];
            }
        }
        if (i == ELEMENTS) break;
        if (best < 0) {
            best = count++;
            filled[best] = sizes[best] = 0;
        }
        open[best][sizes[best]++] = i;
        filled[best] += length;
        if (filled[best] < ROW) continue;
        for (int k = 0; k < ELEMENTS; k++) rows[n][k] = k < sizes[best] ? open[best][k] : -1;
        n++;
        count--;
        for (int r = best; r < count; r++) {
            memcpy(open[r], open[r + 1], sizeof(open[r]));
            filled[r] = filled[r + 1];
            sizes[r] = sizes[r + 1];
        }
    }
    return n;
}

/* Returns how many of its steps are of elements. */
static int check_row(const rf_element *e, bool segments, const int *elements)
{
    const int32_t *words = e->component[0].data, *positions = e->component[1].data;
    const int32_t *numbers = segments ? e->component[2].data : NULL;
    const float *pairs = e->component[2 + segments].data;
    int at = 0;
    for (int s = 0; elements[s] >= 0; s++)
        for (int i = 0; i < length_of((uint64_t)elements[s]); i++, at++) {
            assert_int_equal(words[at], elements[s] * 100 + i + 1);
            assert_int_equal(positions[at], i);
            if (numbers) assert_int_equal(numbers[at], s + 1);
            assert_true(pairs[2 * at + 1] == (float)(elements[s] * 100 + i) + 0.5f);
        }
    for (int i = at; i < ROW; i++) {
        assert_int_equal(words[i], -7);
        assert_int_equal(positions[i], 0);
        if (numbers) assert_int_equal(numbers[i], 0);
        assert_true(pairs[2 * i] == 0.25f && pairs[2 * i + 1] == 0.25f);
    }
    return at;
}

TEST(test_contents)
{
    static int rows[ELEMENTS][ELEMENTS];
    int counts[3], total = 0;
    for (uint64_t i = 0; i < ELEMENTS; i++) total += length_of(i);
    for (int segments = 0; segments < 2; segments++)
        for (int k = 0; k < 3; k++) {
            const int num_open = k == 0 ? 1 : k == 1 ? 4 : 16;
            const int n = counts[k] = plan(num_open, rows);
            rf_dataset *d = packed(k == 2 ? 0 : (uint32_t)num_open, segments);
            rf_element_spec spec;
            rf_dataset_spec(d, &spec);
            assert_int_equal(spec.num_components, 3 + segments);
            for (int c = 0; c < 2 + segments; c++) assert_true(rf_shape_equal(spec.shape[c], RF_SHAPE(ROW)));
            assert_true(rf_shape_equal(spec.shape[2 + segments], RF_SHAPE(ROW, 2)));
            assert_int_equal(rf_dataset_cardinality(d), RF_CARDINALITY_UNKNOWN);
            rf_iterator *it;
            const rf_element *e;
            int held = 0;
            OK(rf_iterator_create(d, 0, &it));
            for (int i = 0; i < n; i++) {
                OK(rf_iterator_next(it, &e));
                held += check_row(e, segments, rows[i]);
            }
            for (int again = 0; again < 2; again++) assert_int_equal(rf_iterator_next(it, &e), RF_END);
            assert_int_equal(held, total);
            rf_iterator_destroy(&it);
            rf_dataset_destroy(&d);
        }
    assert_true(counts[2] < counts[0]);
    assert_true(counts[2] <= (total + ROW - 1) / ROW + 1); /* hardly anything is padding */
}

/* (words, positions, segments), numbers that can be compared as they are. */
static rf_result drop_pairs(void *user, const rf_element *in, rf_element *out)
{
    (void)user;
    for (int c = 0; c < 3; c++) memcpy(out->component[c].data, in->component[c].data, ROW * sizeof(int32_t));
    return RF_OK;
}

static rf_dataset *whole_numbers(uint32_t num_open)
{
    rf_dataset *d = packed(num_open, true);
    const rf_element_spec spec = { 3, { RF_I32, RF_I32, RF_I32 }, { RF_SHAPE(ROW), RF_SHAPE(ROW), RF_SHAPE(ROW) } };
    APPLY(d, rf_dataset_map(d, drop_pairs, NULL, &spec, &applied_));
    return d;
}

TEST(test_resume)
{
    expect_resumes_everywhere(whole_numbers(4), whole_numbers(4));
    expect_other_pipeline(whole_numbers(4), whole_numbers(5));
}

static rf_result take_word(void *user, const rf_element *in, rf_element *out)
{
    (void)user;
    *(int32_t *)out->component[0].data = ((const int32_t *)in->component[0].data)[1];
    return RF_OK;
}

TEST(test_workers)
{
    rf_dataset *d = packed(4, false);
    APPLY(d, rf_dataset_map(d, take_word, NULL, &(rf_element_spec){ 1, { RF_I32 }, { RF_SCALAR_SHAPE } }, &applied_));
    APPLY(d, rf_dataset_batch(d, 3, RF_REMAINDER_KEEP, &applied_));
    expect_rows_of_two_workers(d);
}

static rf_result uneven(void *user, uint64_t index, rf_element *out)
{
    (void)user;
    memset(out->component[0].data, 0, LENGTH * sizeof(int32_t));
    out->component[0].shape.dim[0] = 3 + (int64_t)index;
    return index < 2 ? RF_OK : RF_END;
}

TEST(test_refusals)
{
    rf_dataset *d = sentences(), *out, *batched;
    const struct {
        rf_pack_params params;
        const char *message;
    } cases[] = {
        { { 0 }, "length is 0" },
        { { .length = 11 }, "length is 11, but component 0 may have 12" },
        { { .length = 12, .num_open = 1025 }, "num_open is 1025, at most 1024" },
        { { .length = 12, .pad_value = { 0.5 } }, "component 0 is i32, which cannot be padded with 0.5" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        FAILS(rf_dataset_pack(d, &cases[i].params, &out), RF_ERROR_INVALID_ARGUMENT, cases[i].message);
    OK(rf_dataset_padded_batch(d, &(rf_padded_batch_params){ .batch_size = 2, .padded = { true, true } }, &batched));
    FAILS(rf_dataset_pack(batched, &(rf_pack_params){ .length = 12 }, &out), RF_ERROR_INVALID_ARGUMENT,
          "pack first, then batch");
    rf_dataset_destroy(&batched);
    rf_dataset_destroy(&d);
    d = count_from(0, 3);
    FAILS(rf_dataset_pack(d, &(rf_pack_params){ .length = 12 }, &out), RF_ERROR_INVALID_ARGUMENT, "has no length");
    rf_dataset_destroy(&d);
    OK(rf_dataset_from_generator(
        &(rf_dataset_generator_params){ .generate = uneven,
                                        .spec = { 2, { RF_I32, RF_I32 }, { RF_SHAPE(LENGTH), RF_SHAPE(3) } } },
        &d));
    APPLY(d, rf_dataset_pack(d, &(rf_pack_params){ .length = 12 }, &applied_));
    rf_iterator *it;
    const rf_element *e;
    OK(rf_iterator_create(d, 0, &it));
    FAILS(rf_iterator_next(it, &e), RF_ERROR_INVALID_ARGUMENT,
          "pack: component 1 of an element is [3]; it is to be as long as component 0, 4, and fit into [3]");
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
}

TESTS(pack, NULL, NULL)
