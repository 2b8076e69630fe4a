/* SPDX-License-Identifier: Apache-2.0 */
/* A pretrained network of images learns the classes of a folder: its head is replaced, and trained alone or with all of
 * it. */
#include "../common/common.h"
#include "../common/epoch_bar.h"
#include "photos.h"

enum { MAX_CALLBACKS = 3 };

typedef struct settings {
    const char *network, *images, *tests, *save;
    double test_part;
    bool full, unweighted;
} settings;

typedef struct app {
    const settings *settings;
    rf_strategy *strategy;
    rf_pretrained *pretrained;
    rf_model *model; /* of `pretrained` */
    photos data;
    rf_optimizer *optimizer;
    rf_callback *callbacks[MAX_CALLBACKS];
    uint32_t num_callbacks;
    epoch_bar bar;
} app;

/* ---- options ---- */

enum { OPTION_TESTS = 256, OPTION_PART, OPTION_FULL, OPTION_UNWEIGHTED, OPTION_SAVE };

static const struct argp_option own_options[] = {
    { "network", 'w', "DIR", 0, "A directory of the hub with a ViT, a ResNet or a MobileNetV3", 1 },
    { "images", 'i', "DIR", 0, "Images, in a directory for each class", 1 },
    { "test-images", OPTION_TESTS, "DIR", 0, "Images to test with (default: a part of the others)", 1 },
    { "test-part", OPTION_PART, "X", 0, "This part of the images is for the test (default: 0.2)", 1 },
    { "full", OPTION_FULL, NULL, 0, "Train all of the network (default: the new head alone)", 1 },
    { "unweighted", OPTION_UNWEIGHTED, NULL, 0,
      "Each image counts the same (default: each class does, however many images it has)", 1 },
    { "save", OPTION_SAVE, "DIR", 0, "Where to write the trained network, as a directory of the hub", 1 },
    { 0 },
};

static error_t parse_own(int key, char *value, struct argp_state *state)
{
    settings *s = state->input;
    char *end;
    switch (key) {
    case 'w': s->network = value; return 0;
    case 'i': s->images = value; return 0;
    case OPTION_TESTS: s->tests = value; return 0;
    case OPTION_PART:
        s->test_part = rf_number_parse(value, &end);
        if (end == value || *end || !(s->test_part > 0 && s->test_part < 1))
            argp_error(state, "'%s' is not between 0 and 1", value);
        return 0;
    case OPTION_FULL: s->full = true; return 0;
    case OPTION_UNWEIGHTED: s->unweighted = true; return 0;
    case OPTION_SAVE: s->save = value; return 0;
    case ARGP_KEY_END:
        if (!s->network || !s->images) argp_error(state, "--network and --images are required");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void parse(int argc, char **argv, example_options *options, settings *own)
{
    const struct argp own_parser = { own_options, parse_own, NULL, NULL, NULL, NULL, NULL };
    example_parse_with(
        argc, argv,
        "Trains a pretrained network of images to tell the classes of a directory apart, and shows which "
        "it takes for which.",
        "debsrlcPm", options, &own_parser, own);
    if (!options->batch_size) options->batch_size = 32;
    if (options->learning_rate == 0.0) options->learning_rate = own->full ? 5e-5 : 1e-3;
}

/* ---- the network ---- */

/* Its head is for the classes of the photos; the rest is trained only where that is asked for. */
static int open_network(app *a)
{
    const settings *s = a->settings;
    /* Replicas that trained batch normalization by their own parts of a batch would depend on the split. */
    const rf_pretrained_params params = { .num_classes = a->data.classes,
                                          .class_names = a->data.names,
                                          .synchronized_batch_norm = true };
    TRY(rf_pretrained_open(a->strategy, s->network, &params, &a->pretrained));
    a->model = rf_pretrained_model(a->pretrained);
    if (rf_model_input_shape(a->model, 0).rank != 3) {
        fprintf(stderr, "%s is no classifier of images\n", s->network);
        return -1;
    }
    const uint32_t before_head = rf_model_num_layers(a->model) - 1;
    for (uint32_t i = 0; !s->full && i < before_head; i++)
        rf_layer_set_trainable(rf_model_layer_at(a->model, i), false);
    for (uint32_t i = 0; rf_pretrained_new_variable(a->pretrained, i); i++)
        example_print("New: %s\n", rf_pretrained_new_variable(a->pretrained, i));
    return 0;
}

static int load(const example_options *options, app *a)
{
    const settings *s = a->settings;
    photos_params p = { .images = s->images,
                        .tests = s->tests,
                        .test_part = s->test_part,
                        .size = rf_model_input_shape(a->model, 0),
                        .seed = options->seed,
                        .batch = options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy) };
    for (uint32_t i = 0; i < a->data.classes; i++)
        example_print("%-20s %6llu images, weight %.3f\n", a->data.names[i], (unsigned long long)a->data.counts[i],
                      s->unweighted ? 1.0 : a->data.weights[i]);
    TRY(rf_pretrained_image_scale(a->pretrained, &p.scale));
    return photos_load(&p, &a->data);
}

/* ---- training ---- */

static int compile(const example_options *options, app *a)
{
    static const rf_loss loss = { .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true };
    const rf_output_metric metrics[] = {
        { .metric = { .kind = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY } },
        { .metric = { .kind = RF_METRIC_CONFUSION_MATRIX, .num_classes = a->data.classes } },
    };
    const rf_optimizer_params adamw = { .kind = RF_OPTIMIZER_ADAMW,
                                        .learning_rate = options->learning_rate,
                                        .loss_scale = example_loss_scale(options) };
    TRY(rf_optimizer_create(a->strategy, &adamw, &a->optimizer));
    TRY(rf_model_compile(a->model, &(rf_compile_params){ .optimizer = a->optimizer,
                                                         .losses = &loss,
                                                         .num_losses = 1,
                                                         .output_metrics = metrics,
                                                         .num_output_metrics = a->data.classes > 1 ? 2 : 1 }));
    return 0;
}

static int fit(const example_options *options, app *a)
{
    a->bar.visible = rf_strategy_is_chief(a->strategy);
    a->bar.total = rf_dataset_cardinality(a->data.train);
    TRY(epoch_bar_create_callback(&a->bar, &a->callbacks[a->num_callbacks]));
    a->num_callbacks++;
    if (example_add_callbacks(options, a->callbacks, &a->num_callbacks) < 0) return -1;
    const rf_fit_params params = { .data = a->data.train,
                                   .epochs = options->epochs,
                                   .callbacks = a->callbacks,
                                   .num_callbacks = a->num_callbacks,
                                   .class_weights = a->settings->unweighted ? NULL : a->data.weights,
                                   .num_class_weights = a->settings->unweighted ? 0 : a->data.classes };
    TRY(rf_model_fit(a->model, &params, NULL));
    return rf_strategy_stop_agreed(a->strategy) ? example_stopped() : 0;
}

/* Rows are the classes of images, and columns those that the network takes them for. */
static int test(app *a)
{
    rf_logs logs;
    double accuracy = 0;
    char *table;
    const int result = example_outcome(rf_model_evaluate(a->model, a->data.test, &logs));
    if (result != 0) return result;
    (void)rf_logs_get(&logs, "accuracy", &accuracy);
    example_print("Test: %.2f %% right\n", 100 * accuracy);
    rf_metric *matrix = rf_model_metric(a->model, "val_confusion_matrix");
    if (!matrix) return 0;
    TRY(rf_metric_table(matrix, a->data.names, &table));
    example_print("%s", table);
    rf_string_free(table);
    return 0;
}

/* ---- program ---- */

static int run(const example_options *options, app *a)
{
    const int joined = example_create_strategy(options, &a->strategy);
    if (joined != 0) return joined;
    if (photos_find_classes(a->settings->images, &a->data) < 0 || open_network(a) < 0) return -1;
    if (load(options, a) < 0 || compile(options, a) < 0) return -1;
    int result = fit(options, a);
    if (result == 0) result = test(a);
    if (result != 0 || !a->settings->save) return result;
    TRY(rf_pretrained_save(a->pretrained, a->settings->save));
    example_print("%s: the network\n", a->settings->save);
    return 0;
}

int main(int argc, char **argv)
{
    example_options options = { .epochs = 5 };
    settings own = { .test_part = 0.2 };
    parse(argc, argv, &options, &own);
    app a = { .settings = &own };
    const int result = run(&options, &a);
    for (uint32_t i = 0; i < a.num_callbacks; i++) rf_callback_destroy(&a.callbacks[i]);
    rf_optimizer_destroy(&a.optimizer);
    rf_pretrained_destroy(&a.pretrained);
    photos_free(&a.data);
    example_destroy_strategy(&a.strategy);
    return example_exit_status(result);
}
