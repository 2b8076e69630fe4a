/* SPDX-License-Identifier: Apache-2.0 */
#include "image_trainer.h"

#include <argp.h>
#include <stdio.h>
#include <unistd.h>

#include "common.h"
#include "epoch_bar.h"
#include "servers.h"

enum { MAX_CALLBACKS = 3, STEPS_PER_CALLBACK = 20 };

/* Mean and deviation of the training set's pixels, in [0, 1]. */
typedef struct image_set {
    rf_shape shape;
    uint32_t classes;
    float mean[4], deviation[4];
} image_set;
static const image_set fashion_mnist = { { 3, { 28, 28, 1 } }, 10, { 0.2860f }, { 0.3530f } };
static const image_set cifar = {
    { 3, { 32, 32, 3 } }, 10, { 125.3f / 255, 123.0f / 255, 113.9f / 255 }, { 63.0f / 255, 62.1f / 255, 66.7f / 255 }
};

typedef struct settings {
    const image_trainer *trainer;
    uint32_t epochs;
    bool full, synchronized;
} settings;

typedef struct app {
    const settings *settings;
    image_set images;
    rf_strategy *strategy;
    rf_dataset *train_data, *test_data;
    void *network;
    rf_schedule schedule;
    rf_optimizer_params optimizer_params;
    rf_optimizer *optimizer;
    uint64_t examples, batch, steps; /* in the training set; of a step; of all epochs */
    rf_callback *callbacks[MAX_CALLBACKS];
    uint32_t num_callbacks;
    epoch_bar bar;
} app;

/* ---- options ---- */

enum { OPTION_FULL = 256, OPTION_SYNCHRONIZED };

static error_t parse_own(int key, char *value, struct argp_state *state)
{
    settings *s = state->input;
    switch (key) {
    case 'e': s->epochs = (uint32_t)example_parse_count(state, value, 1000000); return 0;
    case OPTION_FULL: s->full = true; return 0;
    case OPTION_SYNCHRONIZED: s->synchronized = true; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void parse(int argc, char **argv, const image_trainer *trainer, example_options *options, settings *own)
{
    char epochs_help[96];
    snprintf(epochs_help, sizeof(epochs_help), "Passes over the training set (default: %u; with --full %u)",
             trainer->small.epochs, trainer->full.epochs);
    const struct argp_option own_options[] = { { "epochs", 'e', "N", 0, epochs_help, 1 },
                                               { "full", OPTION_FULL, NULL, 0, trainer->full_help, 1 },
                                               { "synchronized", OPTION_SYNCHRONIZED, NULL, 0,
                                                 "Normalize by the statistics of the whole batch instead of each "
                                                 "replica's part: no split of it then changes the results",
                                                 1 },
                                               { 0 } };
    const struct argp own_parser = { own_options, parse_own, NULL, NULL, NULL, NULL, NULL };
    example_parse_with(argc, argv, trainer->purpose, "dDbsrnlcPBSm", options, &own_parser, own);
    const image_training *defaults = own->full ? &trainer->full : &trainer->small;
    if (!own->epochs) own->epochs = defaults->epochs;
    if (!options->batch_size) options->batch_size = defaults->batch_size;
}

/* Refuses what parameter servers cannot do. */
static int check_servers(const example_options *options, const settings *own)
{
    if (options->strategy != STRATEGY_PARAMETER_SERVER) return 0;
    if (own->synchronized) return example_refuse_servers("--synchronized needs workers that take their steps together");
    return options->mixed == RF_F16 ? example_refuse_servers("no server has all gradients of f16 to unscale") : 0;
}

/* ---- data ---- */

/* Puts `next`, which was made of `data` with the result `r`, in its place. */
static rf_result replace(rf_result r, rf_dataset **data, rf_dataset *const *next)
{
    rf_dataset_destroy(data);
    *data = *next;
    return r;
}

static bool holds_file(const char *directory, const char *name)
{
    char path[4096];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    return access(path, F_OK) == 0;
}

static int load(const example_options *options, app *a)
{
    rf_dataset *next = NULL;
    if (!options->data || (!holds_file(options->data, "test_batch.bin") && !holds_file(options->data, "test.bin"))) {
        a->images = fashion_mnist;
        return example_load_images(options, &a->train_data, &a->test_data);
    }
    a->images = cifar;
    TRY(rf_dataset_from_cifar_directory(options->data, RF_SPLIT_TEST, &a->images.classes, &a->test_data));
    TRY(replace(rf_dataset_map_scale_u8(a->test_data, 0, &next), &a->test_data, &next));
    TRY(rf_dataset_from_cifar_directory(options->data, RF_SPLIT_TRAIN, NULL, &a->train_data));
    if (options->limit) TRY(replace(rf_dataset_take(a->train_data, options->limit, &next), &a->train_data, &next));
    TRY(replace(rf_dataset_map_scale_u8(a->train_data, 0, &next), &a->train_data, &next));
    return 0;
}

/* Training images are flipped and moved by up to 4 pixels, other ones in every epoch. */
static int prepare(rf_dataset **data, const example_options *options, const image_set *images, uint32_t batch,
                   bool training)
{
    rf_augment_params augment = { 0 };
    rf_dataset *next = NULL;
    for (uint32_t c = 0; c < 4; c++) {
        augment.mean[c] = images->mean[c];
        augment.deviation[c] = images->deviation[c];
    }
    TRY(replace(rf_dataset_cache(*data, &next), data, &next));
    if (training) {
        augment.flip = true;
        augment.pad = 4;
        TRY(replace(rf_dataset_shuffle(*data, (uint64_t)rf_dataset_cardinality(*data), options->seed,
                                       RF_SHUFFLE_EACH_PASS, &next),
                    data, &next));
    }
    TRY(replace(rf_dataset_map_augment(*data, 0, options->seed, &augment, &next), data, &next));
    TRY(replace(rf_dataset_batch(*data, batch, RF_REMAINDER_KEEP, &next), data, &next));
    return 0;
}

/* ---- training ---- */

static int count_steps(const example_options *options, uint64_t batch, app *a)
{
    if (options->strategy == STRATEGY_PARAMETER_SERVER && servers_count_batch(options, a->strategy, &batch) < 0)
        return -1;
    a->steps = (a->examples + batch - 1) / batch * a->settings->epochs;
    a->batch = batch;
    return 0;
}

static int create_optimizer(const example_options *options, app *a)
{
    const image_trainer *trainer = a->settings->trainer;
    const double rate = options->learning_rate;
    const uint64_t first = (uint64_t)((double)a->steps * trainer->drops[0]);
    const uint64_t second = (uint64_t)((double)a->steps * trainer->drops[1]);
    a->schedule = (rf_schedule){ .kind = RF_SCHEDULE_PIECEWISE_CONSTANT,
                                 .num_boundaries = 2,
                                 /* Both parts end with the same one of one or two steps. */
                                 .boundaries = { first, second > first ? second : first + 1 },
                                 .values = { rate, rate / 10, rate / 100 } };
    a->optimizer_params = (rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD,
                                                 .schedule = &a->schedule,
                                                 .momentum = 0.9,
                                                 .nesterov = trainer->nesterov,
                                                 .loss_scale = example_loss_scale(options) };
    return servers_create_optimizer(options, a->strategy, &a->optimizer_params, &a->optimizer);
}

static int create_callbacks(const example_options *options, app *a)
{
    TRY(epoch_bar_create_callback(&a->bar, &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    return example_add_callbacks(options, a->callbacks, &a->num_callbacks);
}

static const rf_loss loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO };

static int validate_with_servers(void *user, uint32_t epoch)
{
    const app *a = user;
    rf_logs logs;
    (void)epoch;
    TRY(rf_model_evaluate(a->settings->trainer->model(a->network), a->test_data, &logs));
    example_print("Validation:");
    for (uint32_t i = 0; i < logs.count; i++) example_print("%s %s: %.4g", i ? "," : "", logs.name[i], logs.value[i]);
    example_print("\n");
    return 0;
}

static int train_with_servers(const example_options *options, app *a)
{
    return servers_train(&(server_training){ .options = options,
                                             .strategy = a->strategy,
                                             .model = a->settings->trainer->model(a->network),
                                             .optimizer = &a->optimizer_params,
                                             .loss = &loss,
                                             .minimizer = a->optimizer,
                                             .data = a->train_data,
                                             .examples = a->examples,
                                             .epochs = a->settings->epochs,
                                             .end_epoch = validate_with_servers,
                                             .user = a });
}

static int train(const example_options *options, app *a)
{
    const rf_metric_kind metrics[] = { RF_METRIC_SPARSE_CATEGORICAL_ACCURACY };
    rf_model *model = a->settings->trainer->model(a->network);
    TRY(rf_model_compile(model, &(rf_compile_params){ .optimizer = a->optimizer,
                                                      .loss = loss,
                                                      .metrics = metrics,
                                                      .num_metrics = 1,
                                                      .steps_per_execution = STEPS_PER_CALLBACK }));
    if (options->strategy == STRATEGY_PARAMETER_SERVER) return train_with_servers(options, a);
    if (create_callbacks(options, a) < 0) return -1;
    TRY(rf_model_fit(model,
                     &(rf_fit_params){ .data = a->train_data,
                                       .validation_data = a->test_data,
                                       .epochs = a->settings->epochs,
                                       .callbacks = a->callbacks,
                                       .num_callbacks = a->num_callbacks },
                     NULL));
    return rf_strategy_stop_agreed(a->strategy) ? example_stopped() : 0;
}

/* ---- program ---- */

static int run(const example_options *options, app *a)
{
    const image_trainer *trainer = a->settings->trainer;
    if (check_servers(options, a->settings) < 0) return -1;
    const int joined = example_create_strategy(options, &a->strategy);
    if (joined != 0) return joined;
    if (load(options, a) < 0) return -1;
    a->bar.visible = rf_strategy_is_chief(a->strategy);
    a->bar.total = rf_dataset_cardinality(a->train_data);
    a->examples = (uint64_t)a->bar.total;
    const uint32_t batch = options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy);
    if (prepare(&a->train_data, options, &a->images, batch, true) < 0) return -1;
    if (prepare(&a->test_data, options, &a->images, batch, false) < 0) return -1;
    const image_network wanted = { a->settings->full, a->settings->synchronized, a->images.shape,
                                   (int32_t)a->images.classes };
    TRY(trainer->create(a->strategy, &wanted, &a->network));
    if (count_steps(options, batch, a) < 0 || create_optimizer(options, a) < 0) return -1;
    example_print("%llu parameters, %llu steps of %llu images\n",
                  (unsigned long long)rf_model_num_params(trainer->model(a->network)), (unsigned long long)a->steps,
                  (unsigned long long)a->batch);
    return train(options, a);
}

static void destroy(app *a)
{
    for (uint32_t i = 0; i < a->num_callbacks; i++) rf_callback_destroy(&a->callbacks[i]);
    rf_optimizer_destroy(&a->optimizer);
    if (a->network) a->settings->trainer->destroy(a->network);
    rf_dataset_destroy(&a->train_data);
    rf_dataset_destroy(&a->test_data);
    example_destroy_strategy(&a->strategy);
}

int image_trainer_main(int argc, char **argv, const image_trainer *trainer)
{
    example_options options = { .learning_rate = trainer->learning_rate };
    settings own = { .trainer = trainer };
    parse(argc, argv, trainer, &options, &own);
    app a = { .settings = &own };
    const int result = run(&options, &a);
    destroy(&a);
    return example_exit_status(result);
}
