/* SPDX-License-Identifier: Apache-2.0 */
/* Masked words and next sentences. */
#include <math.h>

#include "../common/loop.h"
#include "../common/servers.h"
#include "pairs.h"
#include "program.h"

enum { MOST_TEST_BATCHES = 16, NUM_METRICS = 3 };
static const rf_tensor no_tensor = { 0 };

typedef struct pretraining {
    rf_strategy *strategy;
    const bert_settings *settings;
    bool served; /* by parameter servers */
    bert *bert;
    pair_maker makers[2]; /* to train on, for tests */
    rf_dataset *data, *test_data;
    rf_schedule schedule;
    rf_optimizer_params optimizer_params;
    rf_optimizer *optimizer;
    rf_function *train_function, *test_function;
    rf_metric *loss, *accuracy, *next; /* of masked words; of next sentences; in training */
    rf_metric *test_loss, *test_accuracy, *test_next;
    /* Checkpoints hold besides: */
    uint64_t reported;         /* steps when the latest report was made */
    rf_iterator *iterator;     /* NULL between passes */
    uint64_t pass;             /* over the text */
    rf_checkpoint *checkpoint; /* NULL: none are kept */
    rf_checkpoint_manager *manager;
} pretraining;

/* ---- steps ---- */

/* The loss, whose parts the metrics have. */
static rf_tensor compute_loss(rf_trace *t, const pretraining *p, const rf_tensor *in, rf_mode mode)
{
    const bool training = mode == RF_TRAINING;
    const rf_tensor inputs[] = { in[PAIR_TOKENS], in[PAIR_SEGMENTS], in[PAIR_POSITIONS] };
    rf_tensor logits[2];
    (void)rf_model_apply(t, bert_model(p->bert), inputs, 3, mode, logits, 2);
    const rf_tensor each = rf_sparse_categorical_crossentropy(t, in[PAIR_WORDS], logits[0], RF_LOGITS);
    rf_metric_update(t, training ? p->loss : p->test_loss, no_tensor, each, in[PAIR_WEIGHTS]);
    rf_metric_update(t, training ? p->accuracy : p->test_accuracy, in[PAIR_WORDS], logits[0], in[PAIR_WEIGHTS]);
    rf_metric_update(t, training ? p->next : p->test_next, in[PAIR_LABEL], logits[1], no_tensor);
    return bert_pretraining_loss(t, logits, in[PAIR_WORDS], in[PAIR_WEIGHTS], in[PAIR_LABEL], p->served);
}

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const pretraining *p = user;
    out[0] = compute_loss(t, p, in, RF_TRAINING);
    rf_optimizer_minimize(t, p->optimizer, out[0], rf_model_variables(bert_model(p->bert)));
    return rf_trace_status(t);
}

static rf_result test_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = compute_loss(t, user, in, RF_INFERENCE);
    return rf_trace_status(t);
}

/* The rate rises, then falls in a straight line that begins with the first step. */
static int create_optimizer(const example_options *options, pretraining *p)
{
    p->schedule = (rf_schedule){ .kind = RF_SCHEDULE_POLYNOMIAL_DECAY,
                                 .initial = p->settings->learning_rate,
                                 .decay_steps = p->settings->steps,
                                 .warmup_steps = p->settings->warmup };
    p->optimizer_params = bert_optimizer(&p->schedule);
    return servers_create_optimizer(options, p->strategy, &p->optimizer_params, &p->optimizer);
}

static int create_objects(const example_options *options, pretraining *p)
{
    const rf_function_params train = {
        .step = train_step, .user = p, .num_outputs = 1, .name = "train_step", .training = true
    };
    const rf_function_params test = { .step = test_step, .user = p, .num_outputs = 1, .name = "test_step" };
    const rf_metric_kind accuracy = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY;
    if (create_optimizer(options, p) < 0) return -1;
    TRY(rf_metric_create(p->strategy, &(rf_metric_params){ .kind = RF_METRIC_MEAN, .name = "loss" }, &p->loss));
    TRY(rf_metric_create(p->strategy, &(rf_metric_params){ .kind = accuracy, .name = "accuracy" }, &p->accuracy));
    TRY(rf_metric_create(p->strategy, &(rf_metric_params){ .kind = accuracy, .name = "next_sentence" }, &p->next));
    TRY(rf_metric_create(p->strategy, &(rf_metric_params){ .kind = RF_METRIC_MEAN, .name = "test_loss" },
                         &p->test_loss));
    TRY(rf_metric_create(p->strategy, &(rf_metric_params){ .kind = accuracy, .name = "test_accuracy" },
                         &p->test_accuracy));
    TRY(rf_metric_create(p->strategy, &(rf_metric_params){ .kind = accuracy, .name = "test_next_sentence" },
                         &p->test_next));
    TRY(rf_function_create(p->strategy, &train, &p->train_function));
    TRY(rf_function_create(p->strategy, &test, &p->test_function));
    return 0;
}

/* ---- data ---- */

/* `data` becomes what this worker reads of batches of it, the first `most` of them; 0: all. */
static int batch_data(pretraining *p, uint32_t rows, uint64_t most, rf_dataset **data)
{
    rf_dataset *batched = NULL, *taken = NULL;
    rf_result r = rf_dataset_batch(*data, rows, RF_REMAINDER_KEEP, &batched);
    rf_dataset_destroy(data);
    if (r >= 0 && most) {
        r = rf_dataset_take(batched, most, &taken);
        rf_dataset_destroy(&batched);
        batched = taken;
    }
    TRY(r);
    *data = batched;
    return example_distribute(p->strategy, data);
}

static int prepare_data(const example_options *options, const corpus *c, const bert_config *config, pretraining *p)
{
    const uint32_t rows = options->batch_size * rf_strategy_num_replicas_in_sync(p->strategy);
    if (pairs_begin(c, config, false, &p->makers[0]) < 0 || pairs_begin(c, config, true, &p->makers[1]) < 0) return -1;
    if (pairs_dataset(&p->makers[0], options->seed, true, &p->data) < 0) return -1;
    if (pairs_dataset(&p->makers[1], options->seed, false, &p->test_data) < 0) return -1;
    if (batch_data(p, rows, 0, &p->data) < 0) return -1;
    return batch_data(p, rows, MOST_TEST_BATCHES, &p->test_data);
}

/* ---- checkpoints ---- */

/* Everything that a restarted program needs; goes on from the latest checkpoint where there is one. */
static int open_checkpoints(const example_options *options, pretraining *p)
{
    if (!options->checkpoint_dir) return 0;
    TRY(rf_checkpoint_create(p->strategy, &p->checkpoint));
    TRY(rf_checkpoint_add_model(p->checkpoint, "model", bert_model(p->bert)));
    TRY(rf_checkpoint_add_optimizer(p->checkpoint, "optimizer", p->optimizer));
    TRY(rf_checkpoint_add_function(p->checkpoint, "train_step", p->train_function));
    TRY(rf_checkpoint_add_metric(p->checkpoint, "loss", p->loss));
    TRY(rf_checkpoint_add_metric(p->checkpoint, "accuracy", p->accuracy));
    TRY(rf_checkpoint_add_metric(p->checkpoint, "next_sentence", p->next));
    TRY(rf_checkpoint_add_iterator(p->checkpoint, "iterator", &p->iterator, p->data));
    TRY(rf_checkpoint_add_counter(p->checkpoint, "pass", &p->pass));
    TRY(rf_checkpoint_add_counter(p->checkpoint, "reported", &p->reported));
    const int restored = example_open_manager(options, p->checkpoint, &p->manager);
    if (restored > 0) example_print("Continuing after step %u\n", (unsigned)rf_optimizer_iterations(p->optimizer));
    return restored < 0 ? -1 : 0;
}

/* ---- training ---- */

static int take_metrics(rf_metric *const metrics[NUM_METRICS], double values[NUM_METRICS])
{
    for (int i = 0; i < NUM_METRICS; i++) {
        TRY(rf_metric_result(metrics[i], &values[i]));
        TRY(rf_metric_reset(metrics[i]));
    }
    return 0;
}

static rf_result run_test(pretraining *p)
{
    const rf_element *batch;
    rf_iterator *iterator;
    rf_per_replica *results[1];
    rf_result r = rf_iterator_create(p->test_data, 0, &iterator); /* the same masks each time */
    if (r < 0) return r;
    while ((r = rf_iterator_next(iterator, &batch)) == RF_OK)
        if ((r = rf_strategy_run(p->strategy, p->test_function, batch, results)) < 0 ||
            rf_strategy_stop_agreed(p->strategy))
            break;
    rf_iterator_destroy(&iterator);
    return r;
}

/* One step; the next pass over the text begins where one ends. */
static rf_result run_step(pretraining *p, float *loss)
{
    const rf_element *batch;
    rf_per_replica *results[1];
    rf_result r = RF_END;
    while (r == RF_END) {
        if (!p->iterator && (r = rf_iterator_create(p->data, p->pass, &p->iterator)) < 0) return r;
        r = rf_iterator_next(p->iterator, &batch);
        if (r != RF_END) break;
        rf_iterator_destroy(&p->iterator);
        p->pass++;
    }
    if (r >= 0) r = rf_strategy_run(p->strategy, p->train_function, batch, results);
    return r >= 0 ? rf_strategy_reduce(p->strategy, RF_REDUCE_SUM, results[0], loss) : r;
}

/* Steps to the next report, fewer after a request to stop. */
static int run_steps(const example_options *options, pretraining *p, uint64_t last, double *rate)
{
    const uint64_t first = rf_optimizer_iterations(p->optimizer);
    const int64_t rows = (int64_t)options->batch_size * rf_strategy_num_replicas_in_sync(p->strategy);
    char label[32], status[32];
    float loss = 0;
    progress bar;
    snprintf(label, sizeof(label), "Step %u", (unsigned)last);
    progress_begin(&bar, label, (int64_t)(last - first) * rows, rf_strategy_is_chief(p->strategy));
    rf_result r = RF_OK;
    for (uint64_t s = first; s < last && r >= 0 && isfinite(loss) && !rf_strategy_stop_agreed(p->strategy); s++) {
        r = run_step(p, &loss);
        snprintf(status, sizeof(status), "loss %.4f", (double)loss);
        progress_update(&bar, (int64_t)(s + 1 - first) * rows, status);
    }
    *rate = progress_end(&bar);
    TRY(r);
    return example_check_loss((double)loss, 0, rf_optimizer_iterations(p->optimizer));
}

/* After a test. The metrics' contents are forgotten. */
static int report(pretraining *p, double rate)
{
    rf_metric *const of_training[] = { p->loss, p->accuracy, p->next };
    rf_metric *const of_test[] = { p->test_loss, p->test_accuracy, p->test_next };
    double train[NUM_METRICS], test[NUM_METRICS];
    if (take_metrics(of_training, train) < 0 || take_metrics(of_test, test) < 0) return -1;
    example_print("Step %u: masked words: loss %.4f, held out %.4f, %.1f %% right; next sentence: %.1f %% right, held "
                  "out %.1f %%  (%.0f pairs/s)\n",
                  (unsigned)rf_optimizer_iterations(p->optimizer), train[0], test[0], 100 * test[1], 100 * train[2],
                  100 * test[2], rate);
    p->reported = rf_optimizer_iterations(p->optimizer);
    return example_save(p->manager, p->optimizer);
}

static int stop(pretraining *p)
{
    example_print("Stopped on request after step %u\n", (unsigned)rf_optimizer_iterations(p->optimizer));
    if (example_save(p->manager, p->optimizer) < 0) return -1;
    if (p->checkpoint) TRY(rf_checkpoint_wait(p->checkpoint));
    return STOPPED;
}

static int train(const example_options *options, pretraining *p)
{
    const bert_settings *s = p->settings;
    double rate;
    while (p->reported < s->steps) {
        const uint64_t border = p->reported - p->reported % s->report + s->report;
        const uint64_t last = border < s->steps ? border : s->steps;
        if (run_steps(options, p, last, &rate) < 0) return -1; /* none where a test was interrupted */
        if (rf_strategy_stop_agreed(p->strategy)) return stop(p);
        TRY(run_test(p));
        if (rf_strategy_stop_agreed(p->strategy)) return stop(p); /* the test is made again */
        /* An iterator that has no more steps to make needs no place in the text: fine-tuning may begin with another
         * one. */
        if (last == s->steps) rf_iterator_destroy(&p->iterator);
        if (report(p, rate) < 0) return -1;
    }
    if (p->checkpoint) TRY(rf_checkpoint_wait(p->checkpoint));
    return 0;
}

static int report_with_servers(void *user, uint32_t epoch)
{
    pretraining *p = user;
    rf_metric *const of_test[] = { p->test_loss, p->test_accuracy, p->test_next };
    double test[NUM_METRICS];
    (void)epoch;
    TRY(run_test(p));
    if (take_metrics(of_test, test) < 0) return -1;
    example_print("Masked words: held out %.4f, %.1f %% right; next sentence: held out %.1f %% right\n", test[0],
                  100 * test[1], 100 * test[2]);
    return 0;
}

/* An epoch ends with a report. */
static int train_with_servers(const example_options *options, pretraining *p)
{
    const bert_settings *s = p->settings;
    const uint32_t report = s->steps < s->report ? s->steps : s->report;
    return servers_train(&(server_training){ .options = options,
                                             .strategy = p->strategy,
                                             .model = bert_model(p->bert),
                                             .optimizer = &p->optimizer_params,
                                             .step = p->train_function,
                                             .data = p->data,
                                             .steps = report,
                                             .most_steps = s->steps,
                                             .epochs = (s->steps + report - 1) / report,
                                             .end_epoch = report_with_servers,
                                             .user = p });
}

/* ---- program ---- */

static void end_pretraining(pretraining *p)
{
    rf_checkpoint_manager_destroy(&p->manager);
    rf_checkpoint_destroy(&p->checkpoint);
    rf_iterator_destroy(&p->iterator);
    rf_function_destroy(&p->train_function);
    rf_function_destroy(&p->test_function);
    rf_metric_destroy(&p->test_next);
    rf_metric_destroy(&p->test_accuracy);
    rf_metric_destroy(&p->test_loss);
    rf_metric_destroy(&p->next);
    rf_metric_destroy(&p->accuracy);
    rf_metric_destroy(&p->loss);
    rf_optimizer_destroy(&p->optimizer);
    rf_dataset_destroy(&p->data);
    rf_dataset_destroy(&p->test_data);
    pairs_end(&p->makers[0]);
    pairs_end(&p->makers[1]);
}

static int run_pretraining(const example_options *options, const corpus *c, const bert_config *config, pretraining *p)
{
    if (prepare_data(options, c, config, p) < 0) return -1;
    TRY(bert_create(p->strategy, config, &p->bert));
    if (create_objects(options, p) < 0) return -1;
    example_print("%d layers, %d wide, %llu parameters, global batch %u; %u pairs to train on, unigram entropy of what "
                  "is held out: %.4f\n",
                  (int)config->layers, (int)config->width, (unsigned long long)rf_model_num_params(bert_model(p->bert)),
                  options->batch_size * rf_strategy_num_replicas_in_sync(p->strategy), p->makers[0].num_starts,
                  corpus_unigram_entropy(c));
    if (p->served) return train_with_servers(options, p);
    return open_checkpoints(options, p) < 0 ? -1 : train(options, p);
}

int pretrain(rf_strategy *strategy, const example_options *options, const bert_settings *settings, const corpus *c,
             const bert_config *config, bert **out)
{
    pretraining p = { .strategy = strategy,
                      .settings = settings,
                      .served = options->strategy == STRATEGY_PARAMETER_SERVER };
    const int result = run_pretraining(options, c, config, &p);
    end_pretraining(&p);
    *out = p.bert;
    return result;
}
