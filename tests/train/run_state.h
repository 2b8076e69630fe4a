/* SPDX-License-Identifier: Apache-2.0 */
/* A small training program for tests of checkpoints: a net with dropout, Adam or SGD, shuffled batches, a step of its
 * own. */
#ifndef RF_TESTS_TRAIN_RUN_STATE_H
#define RF_TESTS_TRAIN_RUN_STATE_H

#include <ringfire/checkpoint.h>

#include "../support/folder.h"
#include "../support/strategies.h"

enum { RUN_EXAMPLES = 44, RUN_FEATURES = 8, RUN_CLASSES = 4, RUN_BATCH = 6, RUN_BATCHES = 8 };

typedef struct run_state {
    rf_strategy *strategy;
    rf_model *model;
    rf_optimizer *optimizer;
    rf_metric *accuracy;
    rf_function *step, *evaluate;
    rf_dataset *data;
    rf_iterator *iterator;
    uint64_t epoch, batch;
    rf_checkpoint *checkpoint; /* of all of it */
} run_state;

static inline rf_result run_train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    static const rf_loss loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_NONE };
    const run_state *run = user;
    const rf_tensor logits = rf_model_call(t, run->model, in[0], RF_TRAINING);
    out[0] = rf_compute_average_loss(t, rf_loss_call(t, &loss, in[1], logits), NULL);
    (void)rf_optimizer_minimize(t, run->optimizer, out[0], rf_model_variables(run->model));
    (void)rf_metric_update(t, run->accuracy, in[1], logits, (rf_tensor){ 0 });
    return rf_trace_status(t);
}

static inline rf_result run_evaluate_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    static const rf_loss loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_NONE };
    const run_state *run = user;
    const rf_tensor logits = rf_model_call(t, run->model, in[0], RF_INFERENCE);
    out[0] = rf_compute_average_loss(t, rf_loss_call(t, &loss, in[1], logits), NULL);
    return rf_trace_status(t);
}

static inline rf_dataset *run_dataset(uint32_t batch)
{
    static float features[RUN_EXAMPLES * RUN_FEATURES];
    static int32_t labels[RUN_EXAMPLES];
    fill_noise(features, RUN_EXAMPLES * RUN_FEATURES, 5);
    for (int i = 0; i < RUN_EXAMPLES; i++) labels[i] = i % RUN_CLASSES;
    const rf_array arrays[] = { array_f32(RF_SHAPE(RUN_EXAMPLES, RUN_FEATURES), features),
                                array_i32(RF_SHAPE(RUN_EXAMPLES), labels) };
    rf_dataset *raw, *shuffled, *out;
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &raw));
    OK(rf_dataset_shuffle(raw, RUN_EXAMPLES, 11, RF_SHUFFLE_EACH_PASS, &shuffled));
    OK(rf_dataset_batch(shuffled, batch, RF_REMAINDER_KEEP, &out));
    rf_dataset_destroy(&raw);
    rf_dataset_destroy(&shuffled);
    return out;
}

static inline rf_model *run_model(rf_strategy *strategy, int32_t units)
{
    rf_layer *layers[3];
    rf_model *model;
    const rf_shape input = RF_SHAPE(RUN_FEATURES);
    OK(rf_layer_dense(&(rf_dense_params){ .units = units, .activation = RF_ACTIVATION_RELU }, &layers[0]));
    OK(rf_layer_dropout(0.3f, 0, &layers[1]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = RUN_CLASSES }, &layers[2]));
    OK(rf_model_create_sequential(strategy, layers, 3, &input, &model));
    return model;
}

/* NULL optimizer: Adam. A strategy that could not be opened gives false. */
static inline bool run_create(run_state *run, const char *devices, uint64_t seed, const rf_optimizer_params *optimizer)
{
    static const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 };
    *run = (run_state){ .strategy = open_devices(devices) };
    if (!run->strategy) return false;
    rf_strategy_set_seed(run->strategy, seed);
    run->model = run_model(run->strategy, 16);
    OK(rf_optimizer_create(run->strategy, optimizer ? optimizer : &adam, &run->optimizer));
    OK(rf_metric_create(run->strategy,
                        &(rf_metric_params){ .kind = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY, .name = "accuracy" },
                        &run->accuracy));
    const rf_function_params step = {
        .step = run_train_step, .user = run, .num_outputs = 1, .name = "train_step", .training = true
    };
    OK(rf_function_create(run->strategy, &step, &run->step));
    const rf_function_params evaluate = { .step = run_evaluate_step, .user = run, .num_outputs = 1 };
    OK(rf_function_create(run->strategy, &evaluate, &run->evaluate));
    run->data = run_dataset(RUN_BATCH);
    OK(rf_checkpoint_create(run->strategy, &run->checkpoint));
    OK(rf_checkpoint_add_model(run->checkpoint, "model", run->model));
    OK(rf_checkpoint_add_optimizer(run->checkpoint, "optimizer", run->optimizer));
    OK(rf_checkpoint_add_metric(run->checkpoint, "accuracy", run->accuracy));
    OK(rf_checkpoint_add_function(run->checkpoint, "step", run->step));
    OK(rf_checkpoint_add_iterator(run->checkpoint, "iterator", &run->iterator, run->data));
    OK(rf_checkpoint_add_counter(run->checkpoint, "epoch", &run->epoch));
    OK(rf_checkpoint_add_counter(run->checkpoint, "batch", &run->batch));
    return true;
}

static inline void run_destroy(run_state *run)
{
    rf_checkpoint_destroy(&run->checkpoint);
    rf_iterator_destroy(&run->iterator);
    rf_dataset_destroy(&run->data);
    rf_function_destroy(&run->evaluate);
    rf_function_destroy(&run->step);
    rf_metric_destroy(&run->accuracy);
    rf_optimizer_destroy(&run->optimizer);
    rf_model_destroy(&run->model);
    rf_strategy_destroy(&run->strategy);
}

/* Trains on the next batches, epoch after epoch; losses[i] where it is given. */
static inline void run_batches(run_state *run, uint32_t count, float *losses)
{
    for (uint32_t i = 0; i < count; i++) {
        const rf_element *batch;
        if (!run->iterator) OK(rf_iterator_create(run->data, run->epoch, &run->iterator));
        rf_result r = rf_iterator_next(run->iterator, &batch);
        if (r == RF_END) {
            run->epoch++;
            run->batch = 0;
            rf_iterator_destroy(&run->iterator);
            OK(rf_metric_reset(run->accuracy));
            OK(rf_iterator_create(run->data, run->epoch, &run->iterator));
            r = rf_iterator_next(run->iterator, &batch);
        }
        OK(r);
        float loss;
        run_once(run->strategy, run->step, batch, &loss, 1);
        if (losses) losses[i] = loss;
        run->batch++;
    }
}

/* Loss over all examples, which depends on the weights alone. */
static inline float run_loss(run_state *run)
{
    rf_dataset *all = run_dataset(RUN_EXAMPLES);
    rf_iterator *iterator;
    const rf_element *batch;
    float loss;
    OK(rf_iterator_create(all, 0, &iterator));
    OK(rf_iterator_next(iterator, &batch));
    run_once(run->strategy, run->evaluate, batch, &loss, 1);
    rf_iterator_destroy(&iterator);
    rf_dataset_destroy(&all);
    return loss;
}

enum { RUN_WEIGHTS = RUN_FEATURES * 16 + 16 + 16 * RUN_CLASSES + RUN_CLASSES };
static inline void run_weights(const run_state *run, float weights[RUN_WEIGHTS])
{
    const rf_variable_list list = rf_model_variables(run->model);
    assert_int_equal(rf_model_num_params(run->model), RUN_WEIGHTS);
    for (uint32_t i = 0; i < list.count; i++) {
        OK(rf_variable_read(list.items[i], weights));
        weights += rf_shape_count(rf_variable_shape(list.items[i]));
    }
}

#endif
