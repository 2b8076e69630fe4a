/* SPDX-License-Identifier: Apache-2.0 */
#include "mw_model.h"
#include "../support/noise.h"

#include <math.h>

static const rf_loss losses_of_examples = { .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                            .from_logits = true,
                                            .reduction = RF_REDUCTION_NONE };
enum { SIDE = 28, SMALL_SIDE = 6, CLASSES = 10, MAX_EXAMPLES = 128 };

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const net *n = user;
    const rf_tensor logits = rf_model_call(t, n->model, in[0], RF_TRAINING);
    out[0] = rf_compute_average_loss(t, rf_loss_call(t, &losses_of_examples, in[1], logits), NULL);
    out[1] = logits;
    rf_optimizer_minimize(t, n->optimizer, out[0], rf_model_variables(n->model));
    rf_metric_update(t, n->accuracy, in[1], logits, (rf_tensor){ 0 });
    return rf_trace_status(t);
}

static rf_result cnn_layers(rf_layer **layers, uint32_t *count)
{
    const rf_conv2d_layer_params first = { .filters = 32, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU };
    const rf_conv2d_layer_params second = { .filters = 64, .kernel_size = { 3 }, .activation = RF_ACTIVATION_RELU };
    GO(rf_layer_conv2d(&first, &layers[(*count)++]));
    GO(rf_layer_max_pool2d(NULL, &layers[(*count)++]));
    GO(rf_layer_conv2d(&second, &layers[(*count)++]));
    GO(rf_layer_max_pool2d(NULL, &layers[(*count)++]));
    GO(rf_layer_flatten(&layers[(*count)++]));
    GO(rf_layer_dense(&(rf_dense_params){ .units = 64, .activation = RF_ACTIVATION_RELU }, &layers[(*count)++]));
    return rf_layer_dense(&(rf_dense_params){ .units = CLASSES }, &layers[(*count)++]);
}

static rf_result dense_layers(rf_layer **layers, uint32_t *count)
{
    GO(rf_layer_flatten(&layers[(*count)++]));
    GO(rf_layer_dense(&(rf_dense_params){ .units = 64, .activation = RF_ACTIVATION_RELU }, &layers[(*count)++]));
    GO(rf_layer_dropout(0.25f, 0, &layers[(*count)++]));
    return rf_layer_dense(&(rf_dense_params){ .units = CLASSES }, &layers[(*count)++]);
}

rf_result net_create(worker *w, const training *t, net *n)
{
    rf_layer *layers[8];
    uint32_t count = 0;
    *n = (net){ .cnn = t->cnn, .overflow = t->overflow };
    const int64_t side = t->cnn ? SIDE : SMALL_SIDE;
    GO(t->cnn ? cnn_layers(layers, &count) : dense_layers(layers, &count));
    const rf_shape image = RF_SHAPE(side, side, 1);
    GO(rf_model_create_sequential(w->strategy, layers, count, &image, &n->model));
    GO(rf_optimizer_create(w->strategy, &t->optimizer, &n->optimizer));
    GO(rf_metric_create(w->strategy, &(rf_metric_params){ .kind = RF_METRIC_SPARSE_CATEGORICAL_ACCURACY },
                        &n->accuracy));
    const rf_function_params step = {
        .step = train_step, .user = n, .num_outputs = 2, .training = true, .name = "step"
    };
    n->images = calloc((size_t)(MAX_EXAMPLES * side * side), sizeof(float));
    n->labels = calloc(MAX_EXAMPLES, sizeof(int32_t));
    return rf_function_create(w->strategy, &step, &n->step);
}

/* Noise with a bright row that tells the class. */
static void make_examples(net *n, uint32_t first, uint32_t count)
{
    const uint32_t side = n->cnn ? SIDE : SMALL_SIDE;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t state = (first + i) * 2654435761u + 1;
        float *image = n->images + (size_t)i * side * side;
        n->labels[i] = (int32_t)(mix(&state) % CLASSES);
        for (uint32_t k = 0; k < side * side; k++) image[k] = (float)mix(&state) / 16777216.0f;
        const uint32_t row = (uint32_t)n->labels[i] * side / CLASSES;
        for (uint32_t k = 0; k < side; k++) image[row * side + k] += 0.75f;
    }
}

rf_result net_step(worker *w, net *n, uint32_t step, uint32_t batch, float *loss)
{
    const int64_t side = n->cnn ? SIDE : SMALL_SIDE;
    make_examples(n, step * batch % 4096, batch);
    if (n->overflow == step + 1) n->images[(int64_t)batch * side * side - 1] = 3e38f;
    const rf_element element = { 2,
                                 { { RF_F32, RF_SHAPE((int64_t)batch, side, side, 1), n->images },
                                   { RF_I32, RF_SHAPE((int64_t)batch), n->labels } } };
    rf_per_replica *results[2];
    GO(rf_strategy_run(w->strategy, n->step, &element, results));
    return rf_strategy_reduce(w->strategy, RF_REDUCE_SUM, results[0], loss);
}

rf_result net_hash(const net *n, uint64_t *hash)
{
    const rf_variable_list variables = rf_model_variables(n->model);
    *hash = 14695981039346656037u;
    for (uint32_t i = 0; i < variables.count; i++) {
        const size_t count = (size_t)rf_shape_count(rf_variable_shape(variables.items[i]));
        float *values = calloc(count, sizeof(float));
        const rf_result r = rf_variable_read(variables.items[i], values);
        for (size_t k = 0; k < count * sizeof(float); k++)
            *hash = (*hash ^ ((const unsigned char *)values)[k]) * 1099511628211u;
        free(values);
        GO(r);
    }
    return RF_OK;
}

rf_result train_net(worker *w)
{
    const training *t = w->user;
    net n;
    GO(net_create(w, t, &n));
    for (uint32_t i = 0; i < t->steps; i++) {
        float loss;
        GO(net_step(w, &n, i, t->batch, &loss));
        w->report->losses[i] = t->overflow == i + 1 ? -1 : loss;
        w->report->steps = i + 1;
        if (t->checks) GO(rf_strategy_check_identical(w->strategy, NULL, NULL));
    }
    GO(rf_metric_result(n.accuracy, &w->report->numbers[0]));
    if (t->overflow) EXPECT(rf_optimizer_iterations(n.optimizer) == t->steps - 1);
    return net_hash(&n, &w->report->hash);
}

void compare_jobs(const report *got, uint32_t num_workers, const report *want, double tolerance)
{
    double worst = 0;
    for (uint32_t r = 0; r < num_workers; r++) {
        assert_int_equal(got[r].steps, want->steps);
        for (uint32_t i = 0; i < want->steps; i++) {
            const double off = fabs(got[r].losses[i] - want->losses[i]) / fabs(want->losses[i]);
            if (!(off <= tolerance))
                fail_msg("rank %u, step %u: loss %.9g, not %.9g (off by %.2g)", r, i, got[r].losses[i], want->losses[i],
                         off);
            if (off > worst) worst = off;
        }
        assert_true(fabs(got[r].numbers[0] - want->numbers[0]) <= 0.02);
        assert_true(got[r].hash == got[0].hash);
    }
    print_message("%u workers, %u steps: losses within %.2g\n", num_workers, want->steps, worst);
}
