/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that exchange gradients and values in memory that all of them have imported: the bits of an exchange by the
 * host, whatever it is that is updated, and who has no examples. */
#include "linear.h"

#include "../support/refuse_host_pointer.h"
#include "gpu/internal.h"
#include "replica/exchange/imported_memory.h"
#include "tests/room.h"

enum { STEPS = 8 };
static const char *const twin = "llvmpipe,llvmpipe", *const four = "llvmpipe,llvmpipe,llvmpipe,llvmpipe";

typedef struct setup {
    const char *devices;
    rf_mirrored_params params;
    linear_params model;
    bool central, one_staged;
} setup;

static rf_strategy *strategy_open(const setup *given)
{
    rf_strategy *s;
    rf_mirrored_params params = given->params;
    params.devices = given->devices;
    const rf_result r = given->central
                            ? rf_strategy_create_central_storage(&(rf_central_storage_params){ .mirrored = params }, &s)
                            : rf_strategy_create_mirrored(&params, &s);
    if (r == RF_ERROR_NOT_FOUND) SKIP("%s", rf_error_message());
    CHECK(r);
    for (uint32_t i = 0; i < s->members.num_local; i++) s->members.replicas[i].staged = i == 0 || !given->one_staged;
    return s;
}

typedef struct outcome {
    float losses[STEPS], w[IN], b, gradient[IN];
    uint64_t bytes;
} outcome;

/* Batches that leave some replicas without examples among them. */
static void train_linear(const setup *given, bool meet, outcome *out)
{
    static const uint32_t sizes[STEPS] = { 30, 1, 2, 31, 3, 1, 30, 29 };
    rf_strategy *s = strategy_open(given);
    s->exchange.imported.refused = !meet;
    linear m;
    linear_create(&m, s, &given->model);
    for (uint32_t i = 0; i < STEPS; i++) out->losses[i] = linear_step(&m, i, sizes[i]);
    assert_true((s->exchange.imported.memory != NULL) == meet);
    assert_true((s->exchange.trained.down.buffers != NULL) == !meet); /* nothing is staged beside it */
    CHECK(rf_strategy_check_identical(s, NULL, NULL));
    CHECK(rf_variable_read(m.w, out->w));
    CHECK(rf_variable_read(m.b, &out->b));
    CHECK(rf_variable_read_gradient(m.w, out->gradient));
    out->bytes = s->exchange.stats.bytes;
    linear_destroy(&m);
    rf_strategy_destroy(&s);
}

static void compare_exchanges(const setup *given)
{
    outcome met, copied;
    train_linear(given, true, &met);
    train_linear(given, false, &copied);
    assert_memory_equal(met.losses, copied.losses, sizeof(met.losses));
    assert_memory_equal(met.w, copied.w, sizeof(met.w));
    assert_memory_equal(&met.b, &copied.b, sizeof(met.b));
    assert_memory_equal(met.gradient, copied.gradient, sizeof(met.gradient));
    assert_int_equal(met.bytes, copied.bytes);
}

TEST(plain)
{
    compare_exchanges(&(setup){ .devices = twin });
    compare_exchanges(&(setup){ .devices = four, .model = { .adam = true } });
}
TEST(small_buckets)
{
    compare_exchanges(&(setup){ .devices = four, .params = { .bucket_bytes = 16 }, .model = { .adam = true } });
}
TEST(uneven_shares)
{
    const double shares[] = { 0, 3, 1, 1 };
    compare_exchanges(&(setup){ .devices = four, .params = { .shares = shares, .num_shares = 4 } });
}
TEST(one_owner)
{
    compare_exchanges(&(setup){ .devices = four, .model = { .adam = true }, .central = true });
}
TEST(norms_and_totals)
{
    compare_exchanges(&(setup){ .devices = twin, .model = { .norms = RF_NORMS_GLOBAL, .clip_norm = 0.5f } });
    compare_exchanges(&(setup){ .devices = twin, .model = { .norms = RF_NORMS_VARIABLE, .clip_norm = 0.5f } });
    compare_exchanges(&(setup){ .devices = four, .model = { .accumulation_steps = 4 } });
}
/* The host could reach the memory of the others, which must not be what decides. */
TEST(one_staged)
{
    compare_exchanges(&(setup){ .devices = four, .one_staged = true });
}

/* The host copies, then; the second device had imported the memory already. */
TEST(refused_by_a_driver)
{
    rf_strategy *s = strategy_open(&(setup){ .devices = twin });
    s->members.replicas[1].device->vk.GetMemoryHostPointerPropertiesEXT = refuse_host_pointer;
    linear m;
    linear_create(&m, s, &(linear_params){ 0 });
    const float first = linear_step(&m, 0, 32);
    float last = first;
    for (int i = 0; i < STEPS; i++) last = linear_step(&m, 0, 32);
    assert_true(last < first);
    assert_true(s->exchange.imported.refused && !s->exchange.imported.memory && s->exchange.trained.down.buffers);
    CHECK(rf_strategy_check_identical(s, NULL, NULL));
    linear_destroy(&m);
    rf_strategy_destroy(&s);
}

/* Variables that come later move the memory. */
TEST(grows)
{
    rf_strategy *s = strategy_open(&(setup){ .devices = twin });
    linear first, second;
    linear_create(&first, s, &(linear_params){ 0 });
    linear_step(&first, 0, 32);
    const uint64_t capacity = s->exchange.imported.arrays.capacity;
    const rf_variable_params params = { .name = "more", .shape = RF_SHAPE(1 << 16) };
    rf_variable *more;
    CHECK(rf_variable_create(s, &params, &more));
    linear_create(&second, s, &(linear_params){ 0 });
    for (int i = 0; i < 3; i++) {
        const float a = linear_step(&first, 0, 32), b = linear_step(&second, 0, 32);
        assert_true(a < b); /* it is a step ahead */
    }
    assert_true(s->exchange.imported.arrays.capacity > capacity);
    CHECK(rf_strategy_check_identical(s, NULL, NULL));
    rf_variable_release(more);
    linear_destroy(&first);
    linear_destroy(&second);
    rf_strategy_destroy(&s);
}

TEST(alignments)
{
    const rf_importing_device card = { true, 4096 }, large = { true, 65536 }, shared = { false, 4096 },
                              old = { true, 0 };
    assert_int_equal(rf_imported_memory_alignment((rf_importing_device[]){ card, card }, 2), 4096);
    assert_int_equal(rf_imported_memory_alignment((rf_importing_device[]){ card, large, shared }, 3), 65536);
    assert_int_equal(rf_imported_memory_alignment((rf_importing_device[]){ shared, card }, 2), 4096);
    assert_int_equal(rf_imported_memory_alignment((rf_importing_device[]){ shared, shared }, 2), 0);
    assert_int_equal(rf_imported_memory_alignment((rf_importing_device[]){ card, old }, 2), 0);
    assert_int_equal(rf_imported_memory_alignment(&card, 1), 0);
}

TESTS(imported_memory, NULL, NULL)
