/* SPDX-License-Identifier: Apache-2.0 */
/* A residual network learns to tell the articles of Fashion-MNIST apart. */
#include <argp.h>

#include "../common/common.h"
#include "../common/epoch_bar.h"
#include "model.h"

enum { MAX_CALLBACKS = 3, STEPS_PER_CALLBACK = 20 };
/* Of the training set's pixels. */
static const float mean = 0.2860f, deviation = 0.3530f;

typedef struct settings {
    uint32_t epochs;
    bool full;
} settings;

typedef struct app {
    const settings *settings;
    rf_strategy *strategy;
    rf_dataset *train_data, *test_data;
    resnet *resnet;
    rf_optimizer *optimizer;
    rf_callback *callbacks[MAX_CALLBACKS];
    uint32_t num_callbacks;
    epoch_bar bar;
} app;

/* ---- options ---- */

enum { OPTION_FULL = 256 };

static const struct argp_option own_options[] = {
    { "epochs", 'e', "N", 0, "Passes over the training set (default: 2; with --full 137)", 1 },
    { "full", OPTION_FULL, NULL, 0,
      "The smallest network and the training of the paper: 20 layers, 64,000 steps of 128 images (default: 8 layers, "
      "batches of 64)",
      1 },
    { 0 },
};

static error_t parse_own(int key, char *value, struct argp_state *state)
{
    settings *s = state->input;
    switch (key) {
    case 'e': s->epochs = (uint32_t)example_parse_count(state, value, 1000000); return 0;
    case OPTION_FULL: s->full = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- data ---- */

/* Puts `next`, which was made of `data` with the result `r`, in its place. */
static rf_result replace(rf_result r, rf_dataset **data, rf_dataset *const *next)
{
    rf_dataset_destroy(data);
    *data = *next;
    return r;
}

/* Training images are flipped and moved by up to 4 pixels, other ones in every epoch. */
static int prepare(rf_dataset **data, const example_options *options, uint32_t batch, bool training)
{
    rf_augment_params augment = { .mean = { mean }, .deviation = { deviation } };
    rf_dataset *next = NULL;
    const uint64_t count = (uint64_t)rf_dataset_cardinality(*data);
    TRY(replace(rf_dataset_cache(*data, &next), data, &next));
    if (training) {
        augment.flip = true;
        augment.pad = 4;
        TRY(replace(rf_dataset_shuffle(*data, count, options->seed, true, &next), data, &next));
    }
    TRY(replace(rf_dataset_map_augment(*data, 0, options->seed, &augment, &next), data, &next));
    TRY(replace(rf_dataset_batch(*data, batch, false, &next), data, &next));
    return 0;
}

/* ---- training ---- */

/* A tenth from half of the training on, a hundredth from three quarters on. */
static int create_optimizer(const example_options *options, app *a, uint64_t steps)
{
    const rf_schedule schedule = { .kind = RF_SCHEDULE_PIECEWISE_CONSTANT,
                                   .num_boundaries = 2,
                                   .boundaries = { steps / 2, steps * 3 / 4 },
                                   .values = { options->learning_rate, options->learning_rate / 10,
                                               options->learning_rate / 100 } };
    TRY(rf_optimizer_create(a->strategy,
                            &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .schedule = &schedule, .momentum = 0.9 },
                            &a->optimizer));
    return 0;
}

static int create_callbacks(const example_options *options, app *a)
{
    TRY(epoch_bar_create_callback(&a->bar, &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    return example_add_callbacks(options, a->callbacks, &a->num_callbacks);
}

static int train(const example_options *options, app *a)
{
    const rf_metric_kind metrics[] = { RF_METRIC_SPARSE_CATEGORICAL_ACCURACY };
    rf_model *model = resnet_model(a->resnet);
    TRY(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = a->optimizer,
                                     .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO },
                                     .metrics = metrics,
                                     .num_metrics = 1,
                                     .steps_per_execution = STEPS_PER_CALLBACK }));
    if (create_callbacks(options, a) < 0) return -1;
    TRY(rf_model_fit(model,
                     &(rf_fit_params){ .data = a->train_data,
                                       .validation_data = a->test_data,
                                       .epochs = a->settings->epochs,
                                       .callbacks = a->callbacks,
                                       .num_callbacks = a->num_callbacks },
                     NULL));
    if (!rf_strategy_stop_agreed(a->strategy)) return 0;
    example_print("Stopped on request\n");
    return STOPPED;
}

/* ---- program ---- */

static int run(const example_options *options, app *a)
{
    if (example_create_strategy(options, &a->strategy) < 0) return -1;
    if (example_load_images(options, &a->train_data, &a->test_data) < 0) return -1;
    a->bar.visible = rf_strategy_is_chief(a->strategy);
    a->bar.total = rf_dataset_cardinality(a->train_data);
    const uint32_t batch = options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy);
    if (prepare(&a->train_data, options, batch, true) < 0) return -1;
    if (prepare(&a->test_data, options, batch, false) < 0) return -1;
    TRY(resnet_create(a->strategy, a->settings->full ? &resnet_20 : &resnet_8, RF_SHAPE(28, 28, 1), &a->resnet));
    const uint64_t steps = (uint64_t)rf_dataset_cardinality(a->train_data) * a->settings->epochs;
    if (create_optimizer(options, a, steps) < 0) return -1;
    example_print("%llu parameters, %llu steps of %u images\n",
                  (unsigned long long)rf_model_count_params(resnet_model(a->resnet)), (unsigned long long)steps, batch);
    return train(options, a);
}

static void destroy(app *a)
{
    for (uint32_t i = 0; i < a->num_callbacks; i++) rf_callback_destroy(&a->callbacks[i]);
    rf_optimizer_destroy(&a->optimizer);
    resnet_destroy(&a->resnet);
    rf_dataset_destroy(&a->train_data);
    rf_dataset_destroy(&a->test_data);
    example_destroy_strategy(&a->strategy);
}

int main(int argc, char **argv)
{
    example_options options = { .learning_rate = 0.1 };
    settings own = { 0 };
    const struct argp own_parser = { own_options, parse_own, NULL, NULL, NULL, NULL, NULL };
    example_parse_with(argc, argv, "Trains a residual network on Fashion-MNIST.", "dDbsrnlcPB", &options, &own_parser,
                       &own);
    if (!own.epochs) own.epochs = own.full ? 137 : 2;
    if (!options.batch_size) options.batch_size = own.full ? 128 : 64;
    app a = { .settings = &own };
    const int result = run(&options, &a);
    destroy(&a);
    return example_exit_status(result);
}
