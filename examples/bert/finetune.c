/* SPDX-License-Identifier: Apache-2.0 */
/* A network that has been pretrained learns from few labels, beside one that has not. */
#include "pairs.h"
#include "program.h"

enum { STEPS_PER_CALLBACK = 4 };

typedef struct tuning {
    rf_strategy *strategy;
    const bert_settings *settings;
    bert_config config;
    uint32_t num_train, num_test;
    uint32_t largest; /* for the test, of the class that has the most */
    rf_dataset *train_data, *test_data;
    progress bar;
    const char *name; /* of the training that goes on */
} tuning;

/* ---- data ---- */

/* `data` becomes batches of itself. */
static int batch_passages(tuning *u, uint64_t seed, bool shuffled, rf_dataset **data)
{
    const uint32_t rows = u->settings->tuning_batch * rf_strategy_num_replicas_in_sync(u->strategy);
    rf_dataset *next = NULL;
    if (shuffled) {
        const rf_result r = rf_dataset_shuffle(*data, u->num_train, seed, RF_SHUFFLE_EACH_PASS, &next);
        rf_dataset_destroy(data);
        TRY(r);
        *data = next;
    }
    const rf_result r = rf_dataset_batch(*data, rows, RF_REMAINDER_KEEP, &next);
    rf_dataset_destroy(data);
    TRY(r);
    *data = next;
    return 0;
}

/* Which document a passage comes from. */
static int prepare_documents(const example_options *options, const corpus *c, tuning *u)
{
    const uint32_t length = (uint32_t)u->config.length;
    passage_set s;
    if (passages_choose(c, u->settings->labels, options->seed, &s) < 0) return -1;
    example_print("Fine-tuning: which document does a passage come from? %u labelled ones of", s.num_train);
    for (uint32_t i = 0; i < s.num_classes; i++) example_print(" %s", c->documents[s.documents[i]]);
    example_print("\n");
    u->num_train = s.num_train;
    u->num_test = s.num_test;
    u->largest = s.largest;
    u->config.classes = (int32_t)s.num_classes;
    int result = passages_dataset(c, &s, true, length, &u->train_data);
    if (result == 0) result = passages_dataset(c, &s, false, length, &u->test_data);
    passages_free(&s);
    return result;
}

/* Whether one passage follows another. */
static int prepare_order(const example_options *options, const corpus *c, tuning *u)
{
    pair_maker train = { 0 }, test = { 0 };
    uint32_t follow;
    int result = pairs_begin(c, &u->config, false, &train);
    if (result == 0) result = pairs_begin(c, &u->config, true, &test);
    u->num_train = 2 * u->settings->labels;
    u->num_test = test.num_starts;
    u->config.classes = 2;
    if (result == 0) result = pairs_labelled(&train, u->num_train, options->seed, &follow, &u->train_data);
    if (result == 0) result = pairs_labelled(&test, u->num_test, options->seed, &follow, &u->test_data);
    if (result == 0) {
        u->largest = follow > u->num_test - follow ? follow : u->num_test - follow;
        example_print("Fine-tuning: does one passage follow the other? %u labelled pairs\n", u->num_train);
    }
    pairs_end(&train);
    pairs_end(&test);
    return result;
}

static int prepare_task(const example_options *options, const corpus *c, tuning *u)
{
    if ((u->settings->task == TASK_DOCUMENT ? prepare_documents : prepare_order)(options, c, u) < 0) return -1;
    u->config.predictions = 0;
    if (batch_passages(u, options->seed, true, &u->train_data) < 0) return -1;
    return batch_passages(u, options->seed, false, &u->test_data);
}

/* ---- training ---- */

static rf_result begin_bar(void *user, rf_fit_state *state)
{
    tuning *u = user;
    progress_begin(&u->bar, u->name, state->batches_per_epoch * state->num_epochs, rf_strategy_is_chief(u->strategy));
    return RF_OK;
}

static rf_result advance_bar(void *user, rf_fit_state *state, const rf_logs *logs)
{
    tuning *u = user;
    double loss = 0;
    char status[32];
    rf_logs_get(logs, "loss", &loss);
    snprintf(status, sizeof(status), "loss %.4f", loss);
    progress_update(&u->bar, state->epoch * state->batches_per_epoch + (int64_t)state->batch + 1, status);
    return RF_OK;
}

static rf_result end_bar(void *user, rf_fit_state *state, const rf_logs *logs)
{
    tuning *u = user;
    (void)state;
    (void)logs;
    (void)progress_end(&u->bar);
    return RF_OK;
}

static rf_result compile(tuning *u, rf_model *model, rf_optimizer **optimizer)
{
    static const rf_metric_kind accuracy = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY;
    const uint64_t steps = (uint64_t)rf_dataset_cardinality(u->train_data) * u->settings->tuning_epochs;
    const rf_schedule schedule = { .kind = RF_SCHEDULE_POLYNOMIAL_DECAY,
                                   .initial = u->settings->tuning_rate,
                                   .decay_steps = steps,
                                   .warmup_steps = steps / 10 };
    const rf_optimizer_params params = bert_optimizer(&schedule);
    const rf_result r = rf_optimizer_create(u->strategy, &params, optimizer);
    if (r < 0) return r;
    return rf_model_compile(
        model, &(rf_compile_params){ .optimizer = *optimizer,
                                     .loss = { .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true },
                                     .metrics = &accuracy,
                                     .num_metrics = 1,
                                     .steps_per_execution = STEPS_PER_CALLBACK });
}

static rf_result fit(tuning *u, rf_model *model)
{
    static const rf_callback_fns fns = { .on_train_begin = begin_bar,
                                         .on_batch_end = advance_bar,
                                         .on_train_end = end_bar };
    rf_callback *bar;
    rf_result r = rf_callback_create(&fns, u, &bar);
    if (r < 0) return r;
    const rf_fit_params params = {
        .data = u->train_data, .epochs = u->settings->tuning_epochs, .callbacks = &bar, .num_callbacks = 1
    };
    r = rf_model_fit(model, &params, NULL);
    rf_callback_destroy(&bar);
    return r;
}

/* From the encoder of `pretrained`; NULL: from scratch. `accuracy` is that of the held-out passages. */
static int tune(tuning *u, const bert *pretrained, double *accuracy)
{
    rf_optimizer *optimizer = NULL;
    rf_logs logs = { 0 };
    bert *b;
    rf_result r = bert_create(u->strategy, &u->config, &b);
    if (r >= 0 && pretrained) r = bert_copy_encoder(pretrained, b);
    if (r >= 0) r = compile(u, bert_model(b), &optimizer);
    if (r >= 0) r = fit(u, bert_model(b));
    if (r >= 0 && !rf_strategy_stop_agreed(u->strategy)) r = rf_model_evaluate(bert_model(b), u->test_data, &logs);
    rf_optimizer_destroy(&optimizer);
    bert_destroy(&b);
    (void)rf_logs_get(&logs, "accuracy", accuracy);
    return r >= 0 && rf_strategy_stop_agreed(u->strategy) ? example_stopped() : example_outcome(r);
}

static int compare(tuning *u, const bert *pretrained)
{
    double with = 0, without = 0;
    u->name = "Fine-tuning";
    int result = tune(u, pretrained, &with);
    u->name = "From scratch";
    if (result == 0) result = tune(u, NULL, &without);
    if (result != 0) return result;
    example_print("Of %u held-out examples, of which the largest class has %.1f %%, right are: from the checkpoint "
                  "%.1f %%, from scratch %.1f %%\n",
                  u->num_test, 100.0 * u->largest / u->num_test, 100 * with, 100 * without);
    return 0;
}

int fine_tune(rf_strategy *strategy, const example_options *options, const bert_settings *settings, const corpus *c,
              const bert_config *config, const bert *pretrained)
{
    tuning u = { .strategy = strategy, .settings = settings, .config = *config };
    int result = prepare_task(options, c, &u);
    if (result == 0) result = compare(&u, pretrained);
    rf_dataset_destroy(&u.train_data);
    rf_dataset_destroy(&u.test_data);
    return result;
}
