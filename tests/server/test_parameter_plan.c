/* SPDX-License-Identifier: Apache-2.0 */
/* Which parameter server holds what, and the messages that tasks exchange. */
#include <stdio.h>
#include <string.h>

#include "../support/expect.h"
#include "base/memory.h"
#include "server/coordinator_internal.h"
#include "server/message.h"
#include "server/plan.h"
#include "tests/room.h"
#include "train/parameter_server/worker_data.h"

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

/* Every element of every variable is in exactly one segment, every element of a server's array belongs to exactly one.
 */
static void check_plan(const rf_ps_plan *plan, const uint64_t *counts, uint32_t n, uint64_t max_elements)
{
    uint64_t from = 0;
    uint32_t i = 0;
    for (uint32_t v = 0; v < n; v++) {
        uint64_t at = 0;
        for (; i < plan->count && plan->items[i].variable == v; i++) {
            const rf_ps_segment *p = &plan->items[i];
            assert_true(p->range.begin == at && p->range.end > at);
            assert_true(p->range.end - at <= max_elements);
            assert_true(p->from == from + at);
            assert_true(p->server < plan->num_servers);
            at = p->range.end;
        }
        assert_true(at == counts[v]);
        from += counts[v];
    }
    assert_int_equal(i, plan->count);
    assert_true(plan->total == from);
    uint64_t largest_segment = 0, all = 0;
    for (uint32_t s = 0; s < plan->num_servers; s++) {
        uint64_t at = 0;
        for (uint32_t rule = 0; rule <= RF_PS_ADDED; rule++) {
            const uint64_t begin = at;
            for (uint32_t k = 0; k < plan->count; k++) {
                if (plan->items[k].server != s || plan->items[k].rule != rule) continue;
                assert_true(plan->items[k].offset == at);
                at += plan->items[k].range.end - plan->items[k].range.begin;
            }
            if (rule < RF_PS_MAX_GROUPS) assert_true(plan->layouts[s].groups[rule] == at - begin);
            if (rule < RF_PS_MAX_GROUPS) assert_true(plan->layouts[s].optimized >= at);
            if (rule == RF_PS_ADDED) assert_true(plan->layouts[s].added == at - begin);
        }
        assert_true(at == plan->server_counts[s]);
        assert_true(at == plan->layouts[s].optimized + plan->layouts[s].added);
        all += at;
    }
    assert_true(all == from);
    for (uint32_t k = 0; k < plan->count; k++) {
        const uint64_t length = plan->items[k].range.end - plan->items[k].range.begin;
        if (length > largest_segment) largest_segment = length;
    }
    /* No server has more than an equal portion and one segment. */
    for (uint32_t s = 0; s < plan->num_servers; s++)
        assert_true(plan->server_counts[s] <= from / plan->num_servers + largest_segment);
}

TEST(known_plan)
{
    const uint64_t counts[] = { 10, 3, 7, 1 };
    rf_ps_plan plan;
    assert_int_equal(rf_ps_plan_make(counts, NULL, 4, 2, 5, &plan), RF_OK);
    check_plan(&plan, counts, 4, 5);
    /* 5 5 | 3 | 4 3 | 1: longest first 5 5 4 3 3 1 -> 0 1 0 1 1 0 */
    const uint32_t servers[] = { 0, 1, 1, 0, 1, 0 };
    assert_int_equal(plan.count, 6);
    for (uint32_t i = 0; i < 6; i++) assert_int_equal(plan.items[i].server, servers[i]);
    assert_int_equal(plan.server_counts[0], 10);
    assert_int_equal(plan.server_counts[1], 11);
    rf_ps_plan_free(&plan);
}

TEST(whole_variables)
{
    const uint64_t counts[] = { 100352, 128, 1280, 10 };
    rf_ps_plan plan;
    assert_int_equal(rf_ps_plan_make(counts, NULL, 4, 3, 1u << 20, &plan), RF_OK);
    check_plan(&plan, counts, 4, 1u << 20);
    assert_int_equal(plan.count, 4);
    assert_int_equal(plan.server_counts[0], 100352);
    assert_int_equal(plan.server_counts[1], 1280);
    assert_int_equal(plan.server_counts[2], 138);
    rf_ps_plan_free(&plan);
    assert_int_equal(rf_ps_plan_make(counts, NULL, 4, 7, 1u << 20, &plan), RF_OK); /* three servers have nothing */
    check_plan(&plan, counts, 4, 1u << 20);
    assert_int_equal(plan.server_counts[6], 0);
    rf_ps_plan_free(&plan);
}

TEST(random_plans)
{
    uint64_t random = 1;
    for (int round = 0; round < 300; round++) {
        uint64_t counts[20];
        uint8_t rules[20];
        const uint32_t n = (uint32_t)(next_random(&random) % 21), servers = 1 + (uint32_t)(next_random(&random) % 9);
        for (uint32_t i = 0; i < n; i++) counts[i] = 1 + next_random(&random) % (i % 3 ? 50 : 5000);
        for (uint32_t i = 0; i < n; i++)
            rules[i] = i % 4 ? (uint8_t)(next_random(&random) % (i % 2 ? 3 : RF_PS_MAX_GROUPS)) : RF_PS_ADDED;
        const uint64_t limit = 1 + next_random(&random) % 900;
        rf_ps_plan plan, again;
        assert_int_equal(rf_ps_plan_make(counts, round % 2 ? rules : NULL, n, servers, limit, &plan), RF_OK);
        check_plan(&plan, counts, n, limit);
        assert_int_equal(rf_ps_plan_make(counts, round % 2 ? rules : NULL, n, servers, limit, &again), RF_OK);
        assert_int_equal(again.count, plan.count);
        for (uint32_t i = 0; i < plan.count; i++) assert_int_equal(plan.items[i].server, again.items[i].server);
        rf_ps_plan_free(&plan);
        rf_ps_plan_free(&again);
    }
}

/* Parameters that an optimizer updates come first, group by group; those that only have changes added to them are
 * last. */
TEST(rules_in_order)
{
    const uint64_t counts[] = { 4, 2, 3, 6, 5 };
    const uint8_t rules[] = { 2, RF_PS_ADDED, 0, 2, RF_PS_ADDED };
    rf_ps_plan plan;
    assert_int_equal(rf_ps_plan_make(counts, rules, 5, 1, 4, &plan), RF_OK);
    check_plan(&plan, counts, 5, 4);
    /* 4 | 2 | 3 | 3 3 | 3 2 */
    const uint64_t offsets[] = { 3, 13, 0, 7, 10, 15, 18 };
    assert_int_equal(plan.count, 7);
    for (uint32_t i = 0; i < 7; i++) assert_int_equal(plan.items[i].offset, offsets[i]);
    const rf_ps_layout *layout = &plan.layouts[0];
    assert_int_equal(layout->groups[0], 3);
    assert_int_equal(layout->groups[1], 0);
    assert_int_equal(layout->groups[2], 10);
    assert_int_equal(layout->optimized, 13);
    assert_int_equal(layout->added, 7);
    rf_ps_plan_free(&plan);
}

TEST(layouts_travel)
{
    uint8_t bytes[RF_PS_LAYOUT_BYTES];
    rf_ps_layout layout = { 0 }, got;
    assert_int_equal(rf_ps_layout_write(&layout, bytes), 0);
    assert_int_equal(rf_ps_layout_read(NULL, 0, 0, 12, &got), RF_OK);
    assert_true(got.optimized == 0 && got.added == 12);
    layout.groups[0] = 7;
    layout.groups[3] = 5;
    assert_int_equal(rf_ps_layout_write(&layout, bytes), 4);
    assert_int_equal(rf_ps_layout_read(bytes, 32, 4, 20, &got), RF_OK);
    assert_memory_equal(got.groups, layout.groups, sizeof(layout.groups));
    assert_true(got.optimized == 12 && got.added == 8);
    /* Groups of which a number is missing, that are too many, or have more than there is. */
    assert_int_equal(rf_ps_layout_read(bytes, 31, 4, 20, &got), RF_ERROR_CORRUPT_DATA);
    assert_int_equal(rf_ps_layout_read(bytes, 32, 4, 11, &got), RF_ERROR_CORRUPT_DATA);
    assert_int_equal(rf_ps_layout_read(bytes, SIZE_MAX, RF_PS_MAX_GROUPS + 1, 20, &got), RF_ERROR_CORRUPT_DATA);
    assert_int_equal(rf_ps_layout_read(bytes, 32, UINT64_MAX, 20, &got), RF_ERROR_CORRUPT_DATA);
    memset(bytes, 0xff, 16);
    assert_int_equal(rf_ps_layout_read(bytes, 16, 2, UINT64_MAX, &got), RF_ERROR_CORRUPT_DATA);
}

TEST(rules_are_checked)
{
    assert_int_equal(rf_ps_rules_check((uint8_t[]){ 0, 64, RF_PS_ADDED }, 3, 2, 3), RF_OK);
    assert_int_equal(rf_ps_rules_check((uint8_t[]){ 0, 64 }, 2, 2, 3), RF_ERROR_CORRUPT_DATA);
    assert_int_equal(rf_ps_rules_check((uint8_t[]){ 0, 65, RF_PS_ADDED }, 3, 2, 3), RF_ERROR_CORRUPT_DATA);
    assert_int_equal(rf_ps_rules_check((uint8_t[]){ 0, RF_PS_ADDED, RF_PS_ADDED }, 3, 2, 3), RF_ERROR_CORRUPT_DATA);
    assert_int_equal(rf_ps_rules_check((uint8_t[]){ 0, 1, 0 }, 3, 2, 3), RF_ERROR_CORRUPT_DATA);
}

TEST(plan_refusals)
{
    rf_ps_plan plan;
    assert_int_equal(rf_ps_plan_make((uint64_t[]){ 1 }, NULL, 1, 0, 1, &plan), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_ps_plan_make((uint64_t[]){ 1 }, NULL, 1, 1, 0, &plan), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_ps_plan_make((uint64_t[]){ 1, 0 }, NULL, 2, 1, 1, &plan), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_ps_plan_make((uint64_t[]){ 1 }, (uint8_t[]){ RF_PS_MAX_GROUPS }, 1, 1, 1, &plan),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_null(plan.items);
}

/* ---- messages ---- */

static size_t flatten(const rf_ps_message *m, uint8_t *bytes, size_t size)
{
    uint8_t head[RF_PS_HEAD_MAX];
    size_t head_size;
    assert_int_equal(rf_ps_message_encode(m, head, &head_size), RF_OK);
    assert_true(head_size + m->payload_size <= size);
    memcpy(bytes, head, head_size);
    if (m->payload_size) memcpy(bytes + head_size, m->payload, m->payload_size);
    return head_size + m->payload_size;
}

TEST(messages_travel)
{
    const float values[3] = { 1, 2, 3 };
    uint8_t bytes[4096];
    rf_ps_message m = { .type = RF_PS_PUSH,
                        .version = 7,
                        .step = 8,
                        .share = 2,
                        .examples = 32,
                        .offset = 12,
                        .payload = values,
                        .payload_size = sizeof(values) };
    size_t size = flatten(&m, bytes, sizeof(bytes));
    rf_ps_message got;
    assert_int_equal(rf_ps_message_decode(RF_PS_PUSH, bytes, size, &got), RF_OK);
    assert_int_equal(got.type, RF_PS_PUSH);
    assert_true(got.version == 7 && got.step == 8 && got.share == 2 && got.examples == 32 && got.offset == 12);
    assert_int_equal(got.payload_size, sizeof(values));
    assert_memory_equal(got.payload, values, sizeof(values));
    /* Half a float. */
    assert_int_equal(rf_ps_message_decode(RF_PS_PUSH, bytes, size - 1, &got), RF_ERROR_CORRUPT_DATA);

    m = (rf_ps_message){ .type = RF_PS_ABORT, .result = RF_ERROR_PEER_LOST };
    snprintf(m.text, sizeof(m.text), "ps 1 was lost");
    size = flatten(&m, bytes, sizeof(bytes));
    assert_int_equal(rf_ps_message_decode(RF_PS_ABORT, bytes, size, &got), RF_OK);
    assert_true(got.result == RF_ERROR_PEER_LOST);
    assert_string_equal(got.text, "ps 1 was lost");
    bytes[size] = 0;
    assert_int_equal(rf_ps_message_decode(RF_PS_ABORT, bytes, size + 1, &got), RF_ERROR_CORRUPT_DATA);
}

/* Every type at every length: no byte beyond the end is read (under AddressSanitizer), nothing is taken for a message
 * that has not all of its fields. */
TEST(garbage_is_refused)
{
    uint64_t random = 3;
    uint32_t accepted = 0;
    for (uint32_t type = 0; type < 40; type++) {
        for (size_t size = 0; size < 200; size++) {
            uint8_t *bytes = rf_calloc(1, size);
            for (size_t i = 0; i < size; i++) bytes[i] = next_random(&random) % 3 ? 0 : (uint8_t)next_random(&random);
            rf_ps_message got;
            const rf_result r = rf_ps_message_decode((uint16_t)type, bytes, size, &got);
            assert_true(r == RF_OK || r == RF_ERROR_CORRUPT_DATA);
            if (r == RF_OK) {
                accepted++;
                assert_true(strlen(got.text) < sizeof(got.text));
                assert_true(got.payload_size <= size);
            }
            rf_free(bytes);
        }
    }
    assert_true(accepted > 0);
    rf_ps_message got;
    assert_int_equal(rf_ps_message_decode(0, NULL, 0, &got), RF_ERROR_CORRUPT_DATA);
    assert_int_equal(rf_ps_message_decode(65535, NULL, 0, &got), RF_ERROR_CORRUPT_DATA);
}

/* A segment may be as long as the largest number there is: that is what a chief may say. */
TEST(longest_segments)
{
    static const uint64_t counts[] = { 1, 700, 64 }, most[] = { 700, UINT64_MAX - 1, UINT64_MAX };
    for (int i = 0; i < 3; i++) {
        rf_ps_plan plan;
        assert_int_equal(rf_ps_plan_make(counts, NULL, 3, 2, most[i], &plan), RF_OK);
        assert_int_equal(plan.count, 3);
        assert_int_equal(plan.total, 765);
        rf_ps_plan_free(&plan);
    }
}

/* An array in several messages: in order, all of it, no more. */
TEST(segments_are_taken)
{
    static const float values[] = { 1, 2, 3, 4 };
    float array[3] = { 0 };
    uint64_t have = 0;
    rf_ps_message m = { .type = RF_PS_VALUES, .payload = values, .payload_size = 2 * sizeof(float) };
    assert_true(rf_ps_message_take(&m, array, 3, &have));
    assert_false(rf_ps_message_take(&m, array, 3, &have)); /* again */
    m.offset = 3;
    assert_false(rf_ps_message_take(&m, array, 3, &have)); /* a gap */
    m.offset = UINT64_MAX;
    assert_false(rf_ps_message_take(&m, array, 3, &have));
    m.offset = 2;
    assert_false(rf_ps_message_take(&m, array, 3, &have)); /* too many */
    m.payload_size = 0;
    assert_false(rf_ps_message_take(&m, array, 3, &have)); /* none */
    m.payload = values + 2;
    m.payload_size = sizeof(float);
    assert_true(rf_ps_message_take(&m, array, 3, &have));
    assert_int_equal(have, 3);
    assert_memory_equal(array, values, sizeof(array));
    have = 0;
    const rf_ps_message none = { .type = RF_PS_VALUES };
    assert_true(rf_ps_message_take(&none, array, 0, &have)); /* a server without parameters */
}

/* ---- whose data a share is of ---- */

static void number_item(rf_coordinator *c, rf_remote_value *item, const char *function, uint64_t first, uint64_t count,
                        uint64_t want)
{
    snprintf(item->function, sizeof(item->function), "%s", function);
    item->first = first;
    item->count = count;
    OK(rf_coordinator_number(c, item));
    assert_int_equal(item->number, want);
}

TEST(items_are_numbered)
{
    rf_coordinator c = { .num_workers = 2, .updates = 7 };
    rf_remote_value item = { 0 };
    (void)state;
    number_item(&c, &item, "train", 64, 32, 7); /* ranges: the optimizer has made 7 steps before */
    number_item(&c, &item, "train", 96, 32, 8);
    number_item(&c, &item, "own", 0, 0, 0);
    number_item(&c, &item, "own", 0, 0, 1);
    number_item(&c, &item, "own", 5, 0, 5); /* a training that goes on */
    number_item(&c, &item, "own", 5, 0, 6);
    number_item(&c, &item, "train", 0, 32, 9);
    for (uint32_t i = 0; i < c.kinds.count; i++) rf_free(c.kinds.items[i].same_data);
    rf_free(c.kinds.items);
}

TEST(shares_wait_for_their_data)
{
    enum { W = 3 };
    rf_ps_seat seats[W] = { { .own_data = true }, { .own_data = true }, { .own_data = true } };
    rf_coordinator c = { .num_workers = W, .synchronous = true, .seats = seats };
    rf_work_share shares[W] = { { .hash = 4 }, { .hash = 4 }, { .hash = 9 } };
    rf_remote_value item = { .shares = shares, .num_shares = W };
    (void)state;
    for (uint32_t p = 0; p < W; p++) {
        shares[p].item = &item;
        shares[p].index = p;
    }
    number_item(&c, &item, "own", 0, 0, 0);
    seats[0].joined = seats[1].joined = seats[2].joined = true;
    for (uint32_t p = 0; p < W; p++)
        for (uint32_t w = 0; w < W; w++) assert_int_equal(rf_work_share_fits(&c, &shares[p], w), p == w);
    seats[1].joined = false;
    assert_false(rf_work_share_fits(&c, &shares[1], 0)); /* nothing is known of its data */
    rf_coordinator_compare_data(&c, &item);
    assert_true(rf_work_share_fits(&c, &shares[1], 0));
    assert_false(rf_work_share_fits(&c, &shares[1], 2));
    assert_true(rf_work_share_fits(&c, &shares[1], 1)); /* once it is back */
    seats[2].own_data = false;                          /* has the whole dataset */
    assert_true(rf_work_share_fits(&c, &shares[1], 2));
    seats[2].own_data = true;
    shares[1].count = 8; /* a range, which all can make */
    assert_true(rf_work_share_fits(&c, &shares[1], 2));
    rf_free(c.kinds.items[0].same_data);
    rf_free(c.kinds.items);
}

static rf_result count_up(void *user, uint64_t index, rf_element *out)
{
    (void)user;
    *(int32_t *)out->component[0].data = (int32_t)index;
    return RF_OK;
}

/* Batches of two numbers below `length`, shuffled anew in each pass. */
static rf_dataset *make_numbers(int64_t length, bool known)
{
    rf_dataset *numbers, *shuffled, *batched, *repeated;
    const rf_dataset_generator_params params = { .generate = count_up,
                                                 .spec = { 1, { RF_I32 }, { RF_SCALAR_SHAPE } },
                                                 .cardinality = known ? length : RF_CARDINALITY_UNKNOWN };
    OK(rf_dataset_from_generator(&params, &numbers));
    OK(rf_dataset_take(numbers, (uint64_t)length, &repeated));
    OK(rf_dataset_shuffle(repeated, 16, 3, RF_SHUFFLE_EACH_PASS, &shuffled));
    OK(rf_dataset_batch(shuffled, 2, RF_REMAINDER_DROP, &batched));
    rf_dataset_destroy(&numbers);
    rf_dataset_destroy(&shuffled);
    rf_dataset_destroy(&repeated);
    return batched;
}

TEST(batches_have_numbers)
{
    enum { BATCHES = 5, MOST = 17 };
    (void)state;
    for (int known = 0; known < 2; known++) {
        rf_dataset *data = make_numbers(2 * BATCHES, known);
        int32_t want[MOST][2];
        for (uint64_t number = 0; number < MOST;) { /* pass by pass */
            rf_iterator *all;
            const rf_element *batch;
            OK(rf_iterator_create(data, number / BATCHES, &all));
            for (int i = 0; i < BATCHES && number < MOST; i++, number++) {
                OK(rf_iterator_next(all, &batch));
                memcpy(want[number], batch->component[0].data, sizeof(want[0]));
            }
            rf_iterator_destroy(&all);
        }
        static const struct {
            uint64_t first, stride, count;
        } walks[] = { { 0, 1, MOST }, { 1, 2, 8 }, { 2, 3, 5 }, { 16, 7, 1 }, { 4, 4, 3 }, { 9, 1, 4 }, { 3, 1, 9 } };
        rf_batch_reader at = { 0 };
        for (size_t k = 0; k < sizeof(walks) / sizeof(walks[0]); k++)
            for (uint64_t i = 0; i < walks[k].count; i++) {
                const uint64_t number = walks[k].first + i * walks[k].stride;
                rf_element batch = { 0 };
                OK(rf_batch_reader_read(&at, data, number, walks[k].stride, &batch));
                assert_memory_equal(batch.component[0].data, want[number], sizeof(want[0]));
                assert_true(rf_batch_hash(&batch) != 0);
            }
        rf_batch_reader_close(&at);
        rf_dataset_destroy(&data);
    }
}

TESTS(parameter_plan, NULL, NULL)
