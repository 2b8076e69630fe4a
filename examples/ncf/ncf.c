/* SPDX-License-Identifier: Apache-2.0 */
/* A network learns from what users took which other items they would take. */
#include <stdlib.h>
#include <string.h>

#include "../common/common.h"
#include "../common/epoch_bar.h"
#include "../common/servers.h"
#include "model.h"
#include "ratings.h"

enum { MAX_CALLBACKS = 4, STEPS_PER_CALLBACK = 10, RANKED = 10, TEST_BATCH = 250 };

typedef struct settings {
    uint32_t epochs, users, items, per_user, negatives, test_negatives;
    const char *file; /* NULL: planted */
    double learning_rate;
    bool full;
} settings;

typedef struct app {
    const settings *settings;
    const example_options *options;
    ratings ratings;
    rf_strategy *strategy;
    rf_dataset *train_data, *test_data;
    rf_model *model;
    rf_optimizer_params adam;
    rf_optimizer *optimizer;
    rf_function *rank;
    rf_metric *hit_rate, *ndcg;
    rf_callback *callbacks[MAX_CALLBACKS];
    uint32_t num_callbacks;
    epoch_bar bar;
} app;

/* ---- options ---- */

enum { OPTION_FULL = 256, OPTION_USERS, OPTION_ITEMS, OPTION_PER_USER };

static const struct argp_option own_options[] = {
    { "epochs", 'e', "N", 0, "Passes over the ratings, each with other negatives (default: 6; with --full 14)", 1 },
    { "ratings", 'f', "FILE", 0,
      "Ratings to learn from instead of planted ones: lines of user,item[,rating[,time]], also with \"::\" as "
      "MovieLens "
      "has them; the latest item of each user is for the test",
      1 },
    { "users", OPTION_USERS, "N", 0, "Users to plant (default: 1000; with --full 6040)", 1 },
    { "items", OPTION_ITEMS, "N", 0, "Items to plant (default: 400; with --full 3706)", 1 },
    { "per-user", OPTION_PER_USER, "N", 0, "Items that each planted user takes (default: 40; with --full 165)", 1 },
    { "learning-rate", 'r', "X", 0, "Learning rate (default: 0.005; with --full 0.001)", 1 },
    { "full", OPTION_FULL, NULL, 0,
      "As many users, items and ratings as MovieLens-1M has, steps of 99,000 examples, and 999 other items in each "
      "test "
      "(default: steps of 1,000, and 100 other items)",
      1 },
    { 0 },
};

static error_t parse_own(int key, char *value, struct argp_state *state)
{
    settings *s = state->input;
    switch (key) {
    case 'e': s->epochs = (uint32_t)example_parse_count(state, value, 1000000); return 0;
    case 'f': s->file = value; return 0;
    case 'r': s->learning_rate = example_parse_rate(state, value); return 0;
    case OPTION_USERS: s->users = (uint32_t)example_parse_count(state, value, 10000000); return 0;
    case OPTION_ITEMS: s->items = (uint32_t)example_parse_count(state, value, 10000000); return 0;
    case OPTION_PER_USER: s->per_user = (uint32_t)example_parse_count(state, value, 100000); return 0;
    case OPTION_FULL: s->full = true; return 0;
    case ARGP_KEY_END:
        if (!s->users) s->users = s->full ? 6040 : 1000;
        if (!s->items) s->items = s->full ? 3706 : 400;
        if (!s->per_user) s->per_user = s->full ? 165 : 40;
        if (2 * (s->per_user + 1) > s->items)
            argp_error(state, "%u items for each user are more than half of %u", s->per_user, s->items);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void parse(int argc, char **argv, example_options *options, settings *own)
{
    const struct argp own_parser = { own_options, parse_own, NULL, NULL, NULL, NULL, NULL };
    example_parse_with(argc, argv,
                       "Trains NeuMF, neural collaborative filtering, to rank items for users: by default on planted "
                       "ratings, of which it is known how well they can be ranked.",
                       "dbslcPBS", options, &own_parser, own);
    if (!own->epochs) own->epochs = own->full ? 14 : 6;
    if (own->learning_rate == 0.0) own->learning_rate = own->full ? 1e-3 : 5e-3;
    if (!options->batch_size) options->batch_size = own->full ? 99000 : 1000;
    own->negatives = 4;
    own->test_negatives = own->full ? 999 : 100;
}

/* ---- data ---- */

/* Puts `next`, which was made of `data` with the result `r`, in its place. */
static int put(rf_result r, rf_dataset **data, rf_dataset **next)
{
    rf_dataset_destroy(data);
    *data = *next;
    *next = NULL;
    TRY(r);
    return 0;
}

static int prepare_data(app *a)
{
    const settings *s = a->settings;
    const uint64_t seed = a->options->seed;
    const uint32_t batch = a->options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy);
    rf_dataset *next = NULL;
    TRY(ratings_training(&a->ratings, s->negatives, seed, &a->train_data));
    a->bar.total = rf_dataset_cardinality(a->train_data);
    const uint64_t count = (uint64_t)rf_dataset_cardinality(a->train_data);
    const rf_result r = rf_dataset_shuffle(a->train_data, count, seed, RF_SHUFFLE_EACH_PASS, &next);
    if (put(r, &a->train_data, &next) < 0) return -1;
    if (put(rf_dataset_batch(a->train_data, batch, RF_REMAINDER_KEEP, &next), &a->train_data, &next) < 0) return -1;
    TRY(ratings_tests(&a->ratings, s->test_negatives, seed, UINT32_MAX, &a->test_data));
    if (put(rf_dataset_batch(a->test_data, TEST_BATCH, RF_REMAINDER_KEEP, &next), &a->test_data, &next) < 0) return -1;
    return example_distribute(a->strategy, &a->test_data);
}

/* ---- ranking ---- */

/* The true item is candidate 0 of each user. */
static rf_result rank_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    const int64_t width = 1 + (int64_t)a->settings->test_negatives;
    rf_tensor logits;
    (void)out;
    (void)rf_model_apply(t, a->model, in, 2, RF_INFERENCE, &logits, 1);
    const rf_tensor scores = rf_reshape(t, logits, RF_SHAPE(-1, width));
    const int64_t begin[] = { 0, 0 }, end[] = { INT64_MAX, 1 };
    const rf_tensor first = rf_squeeze(t, rf_slice(t, in[0], begin, end, NULL, 2), 1); /* users, one a row */
    const rf_tensor zero = rf_cast(t, rf_compare(t, RF_NOT_EQUAL, first, first), RF_I32);
    (void)rf_metric_update(t, a->hit_rate, zero, scores, (rf_tensor){ 0 });
    return rf_metric_update(t, a->ndcg, zero, scores, (rf_tensor){ 0 });
}

/* RF_ERROR_CANCELLED where a stop is agreed meanwhile. */
static rf_result rank_all(app *a, double *hit_rate, double *ndcg)
{
    rf_iterator *it;
    const rf_element *batch;
    rf_result r = rf_metric_reset(a->hit_rate);
    if (r >= 0) r = rf_metric_reset(a->ndcg);
    if (r < 0 || (r = rf_iterator_create(a->test_data, 0, &it)) < 0) return r;
    while ((r = rf_iterator_next(it, &batch)) == RF_OK) {
        if ((r = rf_strategy_run(a->strategy, a->rank, batch, NULL)) < 0) break;
        if (rf_strategy_stop_agreed(a->strategy)) {
            r = RF_ERROR_CANCELLED;
            break;
        }
    }
    rf_iterator_destroy(&it);
    if (r >= 0) r = rf_metric_result(a->hit_rate, hit_rate);
    return r < 0 ? r : rf_metric_result(a->ndcg, ndcg);
}

static rf_result report_epoch(app *a, uint32_t epoch)
{
    double hit_rate, ndcg;
    const rf_result r = rank_all(a, &hit_rate, &ndcg);
    if (r < 0) return r;
    (void)progress_end(&a->bar.bar);
    example_print("Epoch %u/%u: HR@%d %.4f, NDCG@%d %.4f\n", epoch + 1, a->settings->epochs, RANKED, hit_rate, RANKED,
                  ndcg);
    return RF_OK;
}

static rf_result report_ranks(void *user, rf_fit_state *state, const rf_logs *logs)
{
    (void)logs;
    return report_epoch(user, state->epoch);
}

static int report_ranks_with_servers(void *user, uint32_t epoch)
{
    TRY(report_epoch(user, epoch));
    return 0;
}

/* ---- training ---- */

static const rf_loss loss = { .kind = RF_LOSS_BINARY_CROSSENTROPY, .from_logits = true };

static int create_objects(app *a)
{
    static const rf_output_metric metric = { .metric = { .kind = RF_METRIC_BINARY_ACCURACY, .from_logits = true } };
    ncf_config config = ncf_movielens_1m;
    config.num_users = (int32_t)a->ratings.num_users;
    config.num_items = (int32_t)a->ratings.num_items;
    TRY(ncf_create(a->strategy, &config, &a->model));
    a->adam = (rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM,
                                     .learning_rate = a->settings->learning_rate,
                                     .epsilon = 1e-8 };
    if (servers_create_optimizer(a->options, a->strategy, &a->adam, &a->optimizer) < 0) return -1;
    TRY(rf_model_compile(a->model, &(rf_compile_params){ .optimizer = a->optimizer,
                                                         .losses = &loss,
                                                         .num_losses = 1,
                                                         .output_metrics = &metric,
                                                         .num_output_metrics = 1,
                                                         .steps_per_execution = STEPS_PER_CALLBACK }));
    TRY(rf_metric_create(a->strategy, &(rf_metric_params){ .kind = RF_METRIC_HIT_RATE, .k = RANKED }, &a->hit_rate));
    TRY(rf_metric_create(a->strategy, &(rf_metric_params){ .kind = RF_METRIC_NDCG, .k = RANKED }, &a->ndcg));
    TRY(rf_function_create(a->strategy, &(rf_function_params){ .step = rank_step, .user = a, .name = "rank" },
                           &a->rank));
    return 0;
}

static int fit_with_servers(app *a)
{
    return servers_train(&(server_training){ .options = a->options,
                                             .strategy = a->strategy,
                                             .model = a->model,
                                             .optimizer = &a->adam,
                                             .loss = &loss,
                                             .minimizer = a->optimizer,
                                             .data = a->train_data,
                                             .examples = (uint64_t)a->bar.total,
                                             .epochs = a->settings->epochs,
                                             .end_epoch = report_ranks_with_servers,
                                             .user = a });
}

static int train(app *a)
{
    if (a->options->strategy == STRATEGY_PARAMETER_SERVER) return fit_with_servers(a);
    /* First: a stop during the ranking leaves out what follows, and an epoch that is continued has all of it once. */
    TRY(rf_callback_create(&(rf_callback_fns){ .on_epoch_end = report_ranks }, a, &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    TRY(epoch_bar_create_callback(&a->bar, &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    if (example_add_callbacks(a->options, a->callbacks, &a->num_callbacks) < 0) return -1;
    TRY(rf_model_fit(a->model,
                     &(rf_fit_params){ .data = a->train_data,
                                       .epochs = a->settings->epochs,
                                       .callbacks = a->callbacks,
                                       .num_callbacks = a->num_callbacks },
                     NULL));
    return rf_strategy_stop_agreed(a->strategy) ? example_stopped() : 0;
}

/* Reports what the network reached, next to what the truth behind planted ratings does. */
static int report(app *a)
{
    double hit_rate = 0, ndcg = 0, best_hit_rate, best_ndcg;
    const int result = example_outcome(rank_all(a, &hit_rate, &ndcg));
    if (result != 0) return result;
    example_print("Test: HR@%d %.4f, NDCG@%d %.4f\n", RANKED, hit_rate, RANKED, ndcg);
    if (a->settings->file) return 0;
    ratings_ceiling(&a->ratings, a->settings->test_negatives, a->options->seed, UINT32_MAX, &best_hit_rate, &best_ndcg);
    example_print("Planted: HR@%d %.4f, NDCG@%d %.4f of the true ranking; reached: %.1f %%\n", RANKED, best_hit_rate,
                  RANKED, best_ndcg, 100 * hit_rate / best_hit_rate);
    return 0;
}

/* ---- program ---- */

static int load(app *a)
{
    const settings *s = a->settings;
    if (s->file) return ratings_read(s->file, &a->ratings);
    return ratings_plant(a->options->seed, s->users, s->items, s->per_user, &a->ratings);
}

static int run(app *a)
{
    if (load(a) < 0) return -1;
    const int created = example_create_strategy(a->options, &a->strategy);
    if (created != 0) return created;
    a->bar.visible = rf_strategy_is_chief(a->strategy);
    if (prepare_data(a) < 0 || create_objects(a) < 0) return -1;
    example_print("%u users, %u items, %llu ratings%s, %llu parameters, global batch %u\n", a->ratings.num_users,
                  a->ratings.num_items, (unsigned long long)a->ratings.first[a->ratings.num_users],
                  a->settings->file ? "" : " (planted)", (unsigned long long)rf_model_num_params(a->model),
                  a->options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy));
    const int result = train(a);
    return result == 0 ? report(a) : result;
}

static void destroy(app *a)
{
    for (uint32_t i = 0; i < a->num_callbacks; i++) rf_callback_destroy(&a->callbacks[i]);
    rf_function_destroy(&a->rank);
    rf_metric_destroy(&a->ndcg);
    rf_metric_destroy(&a->hit_rate);
    rf_optimizer_destroy(&a->optimizer);
    rf_model_destroy(&a->model);
    rf_dataset_destroy(&a->train_data);
    rf_dataset_destroy(&a->test_data);
    ratings_free(&a->ratings);
    example_destroy_strategy(&a->strategy);
}

int main(int argc, char **argv)
{
    example_options options = { 0 };
    settings own = { 0 };
    parse(argc, argv, &options, &own);
    app a = { .settings = &own, .options = &options };
    const int result = run(&a);
    destroy(&a);
    return example_exit_status(result);
}
