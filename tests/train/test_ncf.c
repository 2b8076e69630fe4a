/* SPDX-License-Identifier: Apache-2.0 */
/* The network of examples/ncf against PyTorch (make_ncf_trajectory.py), replicas against one device, its size against
 * the published one; ratings, planted and read. Argument: drivers. */
#include "../../examples/ncf/model.h"
#include "../../examples/ncf/ratings.h"
#include "tests/room.h"
#include "trajectory.h"

static const ncf_config small = {
    .num_users = 11, .num_items = 14, .factors = 3, .num_layers = 3, .layers = { 8, 6, 4 }
};

/* ---- training ---- */

static void *create(rf_strategy *strategy)
{
    rf_model *model;
    OK(ncf_create(strategy, &small, &model));
    return model;
}

static rf_tensor losses_of(rf_trace *t, void *model, const rf_tensor *in)
{
    rf_tensor logits;
    (void)rf_model_apply(t, model, in, 2, RF_TRAINING, &logits, 1);
    return rf_binary_crossentropy(t, in[2], logits, RF_LOGITS);
}

static const trajectory_network network = { .create = create, .losses = losses_of };

static void size(rf_strategy *strategy)
{
    rf_model *model;
    OK(ncf_create(strategy, &ncf_movielens_1m, &model));
    assert_int_equal(rf_model_num_params(model), 392601);
    rf_model_destroy(&model);
}
TEST_ON_ONE(size)

/* ---- ratings ---- */

enum { USERS = 60, ITEMS = 50, PER_USER = 9 };

TEST(test_planted)
{
    ratings r, again;
    double taken = 0, others = 0;
    assert_int_equal(ratings_plant(5, USERS, ITEMS, PER_USER, &r), 0);
    assert_int_equal(ratings_plant(5, USERS, ITEMS, PER_USER, &again), 0);
    assert_memory_equal(r.items, again.items, sizeof(int32_t) * USERS * PER_USER);
    assert_memory_equal(r.held_out, again.held_out, sizeof(int32_t) * USERS);
    ratings_free(&again);
    for (uint32_t user = 0; user < USERS; user++) {
        uint32_t owned = 0;
        assert_int_equal(r.first[user + 1] - r.first[user], PER_USER);
        for (int32_t item = 0; item < ITEMS; item++) {
            const bool has = ratings_has(&r, user, item);
            owned += has;
            *(has ? &taken : &others) += ratings_true_score(&r, user, item);
        }
        assert_int_equal(owned, PER_USER + 1);
    }
    /* Users take what they like. */
    assert_true(taken / (USERS * (PER_USER + 1)) > 1 + others / (USERS * (ITEMS - PER_USER - 1)));
    ratings_free(&r);
}

/* The tests have what is held out, then what the user does not have; the truth ranks better than chance, and what ranks
 * by it reaches its ceiling. */
TEST(test_tests)
{
    enum { NEGATIVES = 30, TAKEN = 10 };
    ratings r;
    rf_dataset *data;
    rf_iterator *it;
    const rf_element *element;
    double hit_rate, ndcg, hits = 0, rows = 0;
    assert_int_equal(ratings_plant(6, USERS, ITEMS, PER_USER, &r), 0);
    OK(ratings_tests(&r, NEGATIVES, 7, UINT32_MAX, &data));
    OK(rf_iterator_create(data, 0, &it));
    while (rf_iterator_next(it, &element) == RF_OK) {
        const int32_t *users = element->component[0].data, *items = element->component[1].data;
        const uint32_t user = (uint32_t)users[0];
        int rank = 1;
        assert_int_equal(items[0], r.held_out[user]);
        for (int i = 1; i <= NEGATIVES; i++) {
            assert_int_equal(users[i], users[0]);
            assert_false(ratings_has(&r, user, items[i]));
            rank += ratings_true_score(&r, user, items[i]) >= ratings_true_score(&r, user, items[0]);
        }
        hits += rank <= TAKEN;
        rows++;
    }
    ratings_ceiling(&r, NEGATIVES, 7, UINT32_MAX, &hit_rate, &ndcg);
    assert_near(hits / rows, hit_rate, 1e-12, 0, "hit rate");
    assert_true(rows == USERS && hit_rate > 0.6 && ndcg > 0.3 && ndcg < hit_rate);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&data);
    ratings_free(&r);
}

/* Every item of a user, with others beside it that are drawn anew in each pass. */
TEST(test_training)
{
    enum { NEGATIVES = 2, ROWS = USERS * PER_USER * (1 + NEGATIVES) };
    ratings r;
    rf_dataset *data;
    static int32_t drawn[2][ROWS];
    assert_int_equal(ratings_plant(8, USERS, ITEMS, PER_USER, &r), 0);
    OK(ratings_training(&r, NEGATIVES, 9, &data));
    assert_int_equal(rf_dataset_cardinality(data), ROWS);
    for (uint64_t pass = 0; pass < 2; pass++) {
        rf_iterator *it;
        const rf_element *element;
        uint32_t row = 0;
        OK(rf_iterator_create(data, pass, &it));
        for (; rf_iterator_next(it, &element) == RF_OK; row++) {
            const int32_t user = *(const int32_t *)element->component[0].data;
            const int32_t item = *(const int32_t *)element->component[1].data;
            const bool positive = row % (1 + NEGATIVES) == 0;
            assert_true(*(const float *)element->component[2].data == (positive ? 1.0f : 0.0f));
            assert_true(ratings_has(&r, (uint32_t)user, item) == positive);
            drawn[pass][row] = item;
        }
        assert_int_equal(row, ROWS);
        rf_iterator_destroy(&it);
    }
    int moved = 0;
    for (uint32_t row = 0; row < ROWS; row++) {
        moved += drawn[0][row] != drawn[1][row];
        if (row % (1 + NEGATIVES) == 0) assert_int_equal(drawn[0][row], drawn[1][row]);
    }
    assert_true(moved > ROWS / 2);
    rf_dataset_destroy(&data);
    ratings_free(&r);
}

TEST(test_parse)
{
    static const char text[] =
        "user,item,rating,time\n30,7,5,100\n10,8,1,2\n10,7,4,3\n10,9,3,1\r\n\n30,5,5,99\n20,6,1,1\n10,8,2,0\n"
        "40,4,1,1\n40,3,1,1\n";
    ratings r;
    uint64_t line;
    assert_null(ratings_parse(text, sizeof(text) - 1, &r, &line));
    assert_int_equal(r.num_users, 4);
    assert_int_equal(r.num_items, 7); /* 3 to 9 are 0 to 6 */
    /* User 10: 8, 9 and 7, the latest; user 20: one item, no test; user 40 has no order but that of the lines. */
    assert_int_equal(r.first[1], 2);
    assert_int_equal(r.items[0], 5);
    assert_int_equal(r.items[1], 6);
    assert_int_equal(r.held_out[0], 4);
    assert_int_equal(r.held_out[1], -1);
    assert_int_equal(r.held_out[2], 4);
    assert_int_equal(r.held_out[3], 0);
    ratings_free(&r);
    static const struct {
        const char *text, *problem;
        uint64_t line;
    } wrong[] = {
        { "", "no ratings", 0 },
        { "1,2\nx,3\n", "no user", 2 },
        { "1,2\n1\n", "no item", 2 },
        { "1,2,x\n", "no rating", 1 },
        { "1,2,3,\n", "no time", 1 },
        { "1,2,3,4,5\n", "more than a time", 1 },
        { "1::2::3::4::5\n", "more than a time", 1 },
        { "1,99999999999999999999\n", "no item", 1 },
        { "1,2\n1,2\n2,3\n3,4\n", "no user has two items", 0 },
        { "1,2\n1,3\n2,4\n", "more than half", 0 },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const char *problem = ratings_parse(wrong[i].text, strlen(wrong[i].text), &r, &line);
        if (!problem || !strstr(problem, wrong[i].problem) || line != wrong[i].line)
            fail_msg("'%s': '%s' in line %llu", wrong[i].text, problem ? problem : "", (unsigned long long)line);
    }
}

TEST_PROGRAM(ncf)
{
    return trajectory_run(FIXTURES "/ncf.traj", &network, own_tests, argc, argv);
}
