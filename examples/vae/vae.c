/* SPDX-License-Identifier: Apache-2.0 */
/* A variational autoencoder learns what articles of Fashion-MNIST look like, and paints some that there never were. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "../common/loop.h"
#include "../common/picture.h"
#include "../common/servers.h"
#include "model.h"

enum { COLUMNS = 16, SAMPLE_ROWS = 8, PICTURE_ROWS = 2 + SAMPLE_ROWS };
static const rf_tensor no_tensor = { 0 };

typedef struct settings {
    uint32_t epochs;
    uint64_t limit;
    double learning_rate;
    const char *picture;
    bool full;
} settings;

typedef struct app {
    const settings *settings;
    rf_strategy *strategy;
    rf_dataset *train_data, *test_data;
    rf_dataset *shown; /* test images for the picture, one batch */
    uint64_t num_train;
    vae *vae;
    rf_optimizer_params adam;
    rf_optimizer *optimizer;
    rf_function *train_function, *test_function;
    rf_metric *train_loss, *train_divergence, *test_loss;
    /* Checkpoints hold besides: */
    rf_iterator *train_iterator; /* NULL between epochs */
    uint64_t epoch;              /* of the training that goes on */
    rf_checkpoint *checkpoint;   /* NULL: none are kept */
    rf_checkpoint_manager *manager;
} app;

/* ---- options ---- */

enum { OPTION_FULL = 256, OPTION_PICTURE };

static const struct argp_option own_options[] = {
    { "epochs", 'e', "N", 0, "Passes over the training set (default: 1; with --full 10)", 1 },
    { "limit", 'n', "N", 0, "Train on the first N examples only (default: 20000; with --full all)", 1 },
    { "learning-rate", 'r', "X", 0, "Learning rate (default: 0.001; with --full 0.0001)", 1 },
    { "full", OPTION_FULL, NULL, 0, "The training of TensorFlow's tutorial: 10 epochs at a tenth of the rate", 1 },
    { "picture", OPTION_PICTURE, "FILE", 0,
      "Where to paint, as PNG: test images, below each its reconstruction, and samples (default: vae.png)", 1 },
    { 0 },
};

static error_t parse_own(int key, char *value, struct argp_state *state)
{
    settings *s = state->input;
    switch (key) {
    case 'e': s->epochs = (uint32_t)example_parse_count(state, value, 1000000); return 0;
    case 'n': s->limit = example_parse_count(state, value, UINT64_MAX); return 0;
    case 'r': s->learning_rate = example_parse_rate(state, value); return 0;
    case OPTION_FULL: s->full = true; return 0;
    case OPTION_PICTURE: s->picture = value; return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static void parse(int argc, char **argv, example_options *options, settings *own)
{
    const struct argp own_parser = { own_options, parse_own, NULL, NULL, NULL, NULL, NULL };
    example_parse_with(argc, argv, "Trains a variational autoencoder on Fashion-MNIST, and paints what it has learnt.",
                       "dDbscPBS", options, &own_parser, own);
    if (!own->epochs) own->epochs = own->full ? 10 : 1;
    if (!(own->learning_rate > 0)) own->learning_rate = own->full ? 1e-4 : 1e-3;
    if (!options->batch_size) options->batch_size = 32;
    options->limit = own->limit ? own->limit : own->full ? 0 : 20000;
}

/* ---- data ---- */

/* Black and white, and without the label. */
static rf_result binarize(void *user, const rf_element *in, rf_element *out)
{
    (void)user;
    const float *from = in->component[0].data;
    float *to = out->component[0].data;
    const int64_t count = rf_shape_count(out->component[0].shape);
    for (int64_t i = 0; i < count; i++) to[i] = from[i] > 0.5f ? 1.0f : 0.0f;
    return RF_OK;
}

/* Puts `next`, which was made of `data` with the result `r`, in its place. */
static rf_result replace(rf_result r, rf_dataset **data, rf_dataset *const *next)
{
    rf_dataset_destroy(data);
    *data = *next;
    return r;
}

static int prepare(const example_options *options, app *a, rf_dataset **data, bool training)
{
    const rf_element_spec spec = { 1, { RF_F32 }, { RF_SHAPE(vae_tutorial.side, vae_tutorial.side, 1) }, { 0 } };
    if (training) a->num_train = (uint64_t)rf_dataset_cardinality(*data);
    const uint64_t count = (uint64_t)rf_dataset_cardinality(*data);
    const uint32_t batch = options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy);
    rf_dataset *next = NULL;
    TRY(replace(rf_dataset_map(*data, binarize, NULL, &spec, &next), data, &next));
    TRY(replace(rf_dataset_cache(*data, &next), data, &next));
    if (!training) {
        TRY(rf_dataset_take(*data, COLUMNS, &a->shown));
        TRY(replace(rf_dataset_batch(a->shown, COLUMNS, RF_REMAINDER_KEEP, &next), &a->shown, &next));
    } else
        TRY(replace(rf_dataset_shuffle(*data, count, options->seed, RF_SHUFFLE_EACH_PASS, &next), data, &next));
    TRY(replace(rf_dataset_batch(*data, batch, RF_REMAINDER_KEEP, &next), data, &next));
    TRY(replace(rf_dataset_prefetch(*data, 2, &next), data, &next));
    return example_distribute(a->strategy, data);
}

/* ---- steps ---- */

static rf_tensor total_of(rf_trace *t, vae_losses losses)
{
    return rf_add(t, losses.reconstruction, losses.divergence);
}

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    const vae_losses losses = vae_call(t, a->vae, in[0], no_tensor, RF_TRAINING);
    const rf_tensor total = total_of(t, losses);
    out[0] = rf_compute_average_loss(t, total, NULL);
    rf_optimizer_minimize(t, a->optimizer, out[0], rf_model_variables(vae_model(a->vae)));
    rf_metric_update(t, a->train_loss, no_tensor, total, no_tensor);
    rf_metric_update(t, a->train_divergence, no_tensor, losses.divergence, no_tensor);
    return rf_trace_status(t);
}

static rf_result test_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const app *a = user;
    (void)out;
    const rf_tensor total = total_of(t, vae_call(t, a->vae, in[0], no_tensor, RF_INFERENCE));
    rf_metric_update(t, a->test_loss, no_tensor, total, no_tensor);
    return rf_trace_status(t);
}

static int create_objects(const example_options *options, app *a)
{
    TRY(vae_create(a->strategy, &vae_tutorial, &a->vae));
    a->adam = (rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM, .learning_rate = a->settings->learning_rate };
    if (servers_create_optimizer(options, a->strategy, &a->adam, &a->optimizer) < 0) return -1;
    TRY(rf_metric_create(a->strategy, &(rf_metric_params){ .kind = RF_METRIC_MEAN, .name = "train_loss" },
                         &a->train_loss));
    TRY(rf_metric_create(a->strategy, &(rf_metric_params){ .kind = RF_METRIC_MEAN, .name = "train_divergence" },
                         &a->train_divergence));
    TRY(rf_metric_create(a->strategy, &(rf_metric_params){ .kind = RF_METRIC_MEAN, .name = "test_loss" },
                         &a->test_loss));
    TRY(rf_function_create(
        a->strategy,
        &(rf_function_params){
            .step = train_step, .user = a, .num_outputs = 1, .name = "train_step", .training = true },
        &a->train_function));
    TRY(rf_function_create(a->strategy, &(rf_function_params){ .step = test_step, .user = a, .name = "test_step" },
                           &a->test_function));
    return 0;
}

/* ---- checkpoints ---- */

/* Everything that a restarted program needs, and with it the numbers that it draws; goes on from the latest checkpoint
 * where there is one. */
static int open_checkpoints(const example_options *options, app *a)
{
    if (!options->checkpoint_dir || options->strategy == STRATEGY_PARAMETER_SERVER) return 0; /* servers.c keeps them */
    TRY(rf_checkpoint_create(a->strategy, &a->checkpoint));
    TRY(rf_checkpoint_add_model(a->checkpoint, "model", vae_model(a->vae)));
    TRY(rf_checkpoint_add_optimizer(a->checkpoint, "optimizer", a->optimizer));
    TRY(rf_checkpoint_add_function(a->checkpoint, "train_step", a->train_function));
    TRY(rf_checkpoint_add_metric(a->checkpoint, "train_loss", a->train_loss));
    TRY(rf_checkpoint_add_metric(a->checkpoint, "train_divergence", a->train_divergence));
    TRY(rf_checkpoint_add_iterator(a->checkpoint, "train_iterator", &a->train_iterator, a->train_data));
    TRY(rf_checkpoint_add_counter(a->checkpoint, "epoch", &a->epoch));
    const int restored = example_open_manager(options, a->checkpoint, &a->manager);
    if (restored > 0 && a->epoch < a->settings->epochs)
        example_print("Continuing in epoch %u\n", (unsigned)a->epoch + 1);
    return restored < 0 ? -1 : 0;
}

/* ---- training ---- */

/* One pass over the training set, or what is left of it after a restart: nothing where a test was interrupted. */
static int train_epoch(app *a, double *rate)
{
    if (!a->train_iterator) TRY(rf_iterator_create(a->train_data, a->epoch, &a->train_iterator));
    char label[32];
    float loss = 0;
    progress bar;
    const int64_t batches = rf_dataset_cardinality(a->train_data);
    snprintf(label, sizeof(label), "Epoch %u", (unsigned)a->epoch + 1);
    progress_begin(&bar, label, batches > 0 ? batches * rf_dataset_batch_size(a->train_data) : -1,
                   rf_strategy_is_chief(a->strategy));
    const rf_result r = example_run_epoch(a->strategy, a->train_function, a->train_iterator, 2, &bar, &loss);
    *rate = progress_end(&bar);
    TRY(r);
    if (example_check_loss((double)loss, a->epoch + 1, rf_optimizer_iterations(a->optimizer)) < 0) return -1;
    return 0;
}

/* Over the test set, with the same noise each time. */
static int test(app *a, double *loss)
{
    rf_iterator *it;
    TRY(rf_iterator_create(a->test_data, 0, &it));
    const rf_element *batch;
    rf_result r;
    while ((r = rf_iterator_next(it, &batch)) == RF_OK)
        if ((r = rf_strategy_run(a->strategy, a->test_function, batch, NULL)) < 0 ||
            rf_strategy_stop_agreed(a->strategy))
            break;
    rf_iterator_destroy(&it);
    TRY(r);
    TRY(rf_metric_result(a->test_loss, loss));
    TRY(rf_metric_reset(a->test_loss));
    return 0;
}

static int train(app *a)
{
    double loss, divergence, test_loss, rate;
    while (a->epoch < a->settings->epochs) {
        if (train_epoch(a, &rate) < 0) return -1;
        if (rf_strategy_stop_agreed(a->strategy))
            return example_stop(a->checkpoint, a->manager, a->optimizer, a->epoch);
        if (test(a, &test_loss) < 0) return -1;
        if (rf_strategy_stop_agreed(a->strategy))
            return example_stop(a->checkpoint, a->manager, a->optimizer, a->epoch); /* the test is made again */
        rf_iterator_destroy(&a->train_iterator);
        TRY(rf_metric_result(a->train_loss, &loss));
        TRY(rf_metric_result(a->train_divergence, &divergence));
        a->epoch++;
        example_print("Epoch %u, Loss: %.3f, Divergence: %.3f, Test ELBO: %.3f  (%.0f images/s)\n", (unsigned)a->epoch,
                      loss, divergence, -test_loss, rate);
        TRY(rf_metric_reset(a->train_loss));
        TRY(rf_metric_reset(a->train_divergence));
        if (example_save(a->manager, a->optimizer) < 0) return -1;
    }
    if (a->checkpoint) TRY(rf_checkpoint_wait(a->checkpoint));
    return 0;
}

static int end_epoch_with_servers(void *user, uint32_t epoch)
{
    double test_loss;
    if (test(user, &test_loss) < 0) return -1;
    example_print("Epoch %u, Test ELBO: %.3f\n", epoch + 1, -test_loss);
    return 0;
}

static int train_with_servers(const example_options *options, app *a)
{
    return servers_train(&(server_training){ .options = options,
                                             .strategy = a->strategy,
                                             .model = vae_model(a->vae),
                                             .optimizer = &a->adam,
                                             .step = a->train_function,
                                             .data = a->train_data,
                                             .examples = a->num_train,
                                             .epochs = a->settings->epochs,
                                             .end_epoch = end_epoch_with_servers,
                                             .user = a });
}

/* ---- picture ---- */

static void put_rows(picture *p, const float *images, int64_t count, uint32_t first, uint32_t distance)
{
    for (int64_t i = 0; i < count; i++)
        picture_put(p, (uint32_t)(i % COLUMNS), first + distance * (uint32_t)(i / COLUMNS),
                    images + i * p->side * p->side);
}

/* Predictions go to rows from `first` on. All workers make them. */
static int put_predictions(picture *p, rf_model *model, const rf_dataset *data, uint32_t first)
{
    rf_array images;
    const int result = example_outcome(rf_model_predict(model, data, &images));
    if (result != 0) return result;
    put_rows(p, images.data, images.shape.dim[0], first, 1);
    rf_array_free(&images);
    return 0;
}

static int put_originals(picture *p, const rf_dataset *data)
{
    rf_iterator *it;
    const rf_element *batch;
    TRY(rf_iterator_create(data, 0, &it));
    const rf_result r = rf_iterator_next(it, &batch);
    if (r == RF_OK) put_rows(p, batch->component[0].data, batch->component[0].shape.dim[0], 0, 1);
    rf_iterator_destroy(&it);
    TRY(r);
    return 0;
}

static int put_samples(picture *p, const vae *v)
{
    rf_array places = { RF_F32, RF_SHAPE(COLUMNS * SAMPLE_ROWS, vae_tutorial.latent), NULL };
    rf_dataset *one = NULL, *next = NULL;
    places.data = calloc((size_t)rf_shape_count(places.shape), sizeof(float));
    if (!places.data) {
        fprintf(stderr, "%s: no memory\n", program_invocation_short_name);
        return -1;
    }
    const rf_result r = rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = &places, .num_arrays = 1 }, &one);
    free(places.data);
    TRY(r);
    TRY(replace(rf_dataset_batch(one, COLUMNS * SAMPLE_ROWS, RF_REMAINDER_KEEP, &next), &one, &next));
    const int result = put_predictions(p, vae_sampler(v), one, 2);
    rf_dataset_destroy(&one);
    return result;
}

static int paint(app *a)
{
    picture p;
    if (picture_create(COLUMNS, PICTURE_ROWS, (uint32_t)vae_tutorial.side, &p) < 0) return -1;
    int result = put_originals(&p, a->shown);
    if (result == 0) result = put_predictions(&p, vae_model(a->vae), a->shown, 1);
    if (result == 0) result = put_samples(&p, a->vae);
    if (result == 0 && rf_strategy_is_chief(a->strategy)) result = picture_write(&p, a->settings->picture);
    picture_destroy(&p);
    if (result == 0) example_print("%s: images, their reconstructions, samples\n", a->settings->picture);
    return result;
}

/* ---- program ---- */

static int run(const example_options *options, app *a)
{
    const int created = example_create_strategy(options, &a->strategy);
    if (created != 0) return created;
    if (rf_strategy_is_chief(a->strategy) && picture_check_path(a->settings->picture) < 0) return -1;
    if (example_load_images(options, &a->train_data, &a->test_data) < 0) return -1;
    if (prepare(options, a, &a->train_data, true) < 0) return -1;
    if (prepare(options, a, &a->test_data, false) < 0) return -1;
    if (create_objects(options, a) < 0) return -1;
    example_print("%llu parameters, global batch %u\n", (unsigned long long)rf_model_num_params(vae_model(a->vae)),
                  options->batch_size * rf_strategy_num_replicas_in_sync(a->strategy));
    if (open_checkpoints(options, a) < 0) return -1;
    const bool servers = options->strategy == STRATEGY_PARAMETER_SERVER;
    const int result = servers ? train_with_servers(options, a) : train(a);
    return result == 0 ? paint(a) : result;
}

static void destroy(app *a)
{
    rf_checkpoint_manager_destroy(&a->manager);
    rf_checkpoint_destroy(&a->checkpoint);
    rf_iterator_destroy(&a->train_iterator);
    rf_function_destroy(&a->test_function);
    rf_function_destroy(&a->train_function);
    rf_metric_destroy(&a->test_loss);
    rf_metric_destroy(&a->train_divergence);
    rf_metric_destroy(&a->train_loss);
    rf_optimizer_destroy(&a->optimizer);
    vae_destroy(&a->vae);
    rf_dataset_destroy(&a->shown);
    rf_dataset_destroy(&a->train_data);
    rf_dataset_destroy(&a->test_data);
    example_destroy_strategy(&a->strategy);
}

int main(int argc, char **argv)
{
    example_options options = { 0 };
    settings own = { .picture = "vae.png" };
    parse(argc, argv, &options, &own);
    app a = { .settings = &own };
    const int result = run(&options, &a);
    destroy(&a);
    return example_exit_status(result);
}
