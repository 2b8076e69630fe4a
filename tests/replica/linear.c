/* SPDX-License-Identifier: Apache-2.0 */
#include "linear.h"

#include <math.h>

#include "base/philox.h"
#include "step/step.h"

void check_failure(rf_result got, rf_result want, const char *expression, const char *const *parts)
{
    if (got != want) fail_msg("%s: %s instead of %s", expression, rf_result_name(got), rf_result_name(want));
    for (; *parts; parts++)
        if (!strstr(rf_error_message(), *parts))
            fail_msg("%s: '%s' is not in: %s", expression, *parts, rf_error_message());
}

rf_strategy *open_devices(const char *devices, const rf_mirrored_params *params)
{
    rf_mirrored_params p = params ? *params : (rf_mirrored_params){ 0 };
    p.devices = devices;
    rf_strategy *strategy;
    const rf_result r = rf_strategy_create_mirrored(&p, &strategy);
    if (r == RF_ERROR_NOT_FOUND || r == RF_ERROR_UNSUPPORTED) SKIP("%s", rf_error_message());
    CHECK(r);
    return strategy;
}

/* ---- data ---- */

static float points[MAX_BATCH][IN], targets[MAX_BATCH];

static void make_data(void)
{
    rf_rng rng = { .key = 2024 };
    for (int n = 0; n < MAX_BATCH; n++) {
        for (int i = 0; i < IN; i++) points[n][i] = 0.3f * (float)rf_rng_normal(&rng);
        targets[n] = 2 * points[n][0] - points[n][1] + 0.25f + 0.1f * (float)rf_rng_normal(&rng);
    }
}

rf_element linear_batch(uint32_t first, uint32_t count)
{
    make_data();
    return (rf_element){ 2,
                         { { RF_F32, RF_SHAPE((int64_t)count, IN), points[first] },
                           { RF_F32, RF_SHAPE((int64_t)count), &targets[first] } } };
}

void linear_initial(float *w, float *b)
{
    for (int i = 0; i < IN; i++) w[i] = 0.1f * (float)(i % 7) - 0.3f;
    *b = 0.5f;
}

double linear_predict(const double *w, double b, uint32_t n)
{
    for (int i = 0; i < IN; i++) b += points[n][i] * w[i];
    return b;
}

void linear_reference(double *w, double *b, float rate, uint32_t steps, uint32_t count, double *losses)
{
    make_data();
    for (uint32_t s = 0; s < steps; s++) {
        double dw[IN] = { 0 }, db = 0;
        losses[s] = 0;
        for (uint32_t n = 0; n < count; n++) {
            const double d = linear_predict(w, *b, n) - targets[n];
            losses[s] += d * d / count;
            db += 2 * d / count;
            for (int i = 0; i < IN; i++) dw[i] += 2 * d * points[n][i] / count;
        }
        for (int i = 0; i < IN; i++) w[i] -= (double)rate * dw[i];
        *b -= (double)rate * db;
    }
}

/* ---- updates ---- */

static rf_result emit_update(void *user, rf_graph *g, uint32_t group, rf_value param, rf_value grad,
                             const rf_value *slots, const rf_value *hyper, rf_value shadow)
{
    const linear *m = user;
    const uint32_t more = shadow != 0;
    (void)group;
    if (!m->adam)
        return rf_emit_update(g, &rf_op_sgd_update, NULL, (rf_value[]){ param, grad, hyper[0], shadow }, 3 + more);
    return rf_emit_update(g, &rf_op_adam_update, NULL,
                          (rf_value[]){ param, grad, slots[0], slots[1], hyper[0], shadow }, 5 + more);
}

static void hyper(void *user, uint64_t iteration, double norm, uint32_t group, float *values)
{
    linear *m = user;
    (void)group;
    m->last_norm = norm;
    m->num_hypers++;
    for (int i = 0; i < RF_HYPER_COUNT; i++) values[i] = 0;
    values[RF_HYPER_RATE] = m->rate;
    double scale = 1.0 / m->accumulation_steps;
    if (m->clip_norm > 0 && norm > m->clip_norm) scale *= m->clip_norm / norm;
    values[RF_HYPER_GRAD_SCALE] = (float)scale;
    values[RF_HYPER_BETA_1] = 0.9f;
    values[RF_HYPER_BETA_2] = 0.999f;
    values[RF_HYPER_CORRECTION_1] = (float)(1 / (1 - pow(0.9, (double)iteration + 1)));
    values[RF_HYPER_CORRECTION_2] = (float)(1 / (1 - pow(0.999, (double)iteration + 1)));
    values[RF_HYPER_EPSILON] = 1e-7f;
}

/* ---- the model ---- */

static rf_result forward(rf_trace *t, const linear *m, rf_value x, rf_value *w, rf_value *b, rf_value *out)
{
    *w = rf_trace_variable(t, m->w);
    *b = rf_trace_variable(t, m->b);
    RF_TRY(rf_trace_status(t));
    RF_TRY(rf_emit_binary(rf_trace_graph(t), RF_FN_MULTIPLY, 0, x, *w, out));
    RF_TRY(rf_emit_reduce(rf_trace_graph(t), RF_REDUCE_KIND_SUM, *out, (int32_t[]){ 1 }, 1, false, out));
    return rf_emit_binary(rf_trace_graph(t), RF_FN_ADD, 0, *out, *b, out);
}

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    linear *m = user;
    rf_graph *g = rf_trace_graph(t);
    rf_value w, b, y, loss, grads[2];
    RF_TRY(forward(t, m, rf_trace_value(t, in[0], "x"), &w, &b, &y));
    RF_TRY(rf_emit_binary(g, RF_FN_SUBTRACT, 0, y, rf_trace_value(t, in[1], "y"), &loss));
    RF_TRY(rf_emit_unary(g, RF_FN_SQUARE, 0, loss, &loss));
    RF_TRY(rf_emit_reduce(g, RF_REDUCE_KIND_SUM, loss, NULL, 0, false, &loss));
    RF_TRY(rf_emit_binary(g, RF_FN_DIVIDE, 0, loss, rf_trace_host(t, RF_HOST_GLOBAL_BATCH), &loss));
    RF_TRY(rf_graph_differentiate(g, loss, (rf_value[]){ w, b }, 2, grads));
    RF_TRY(rf_trace_update(t, m->updater, grads, (rf_variable_list){ (rf_variable *const[]){ m->w, m->b }, 2 }, NULL));
    out[0] = rf_trace_wrap(t, loss);
    out[1] = rf_trace_wrap(t, y);
    return rf_trace_status(t);
}

static rf_result predict_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    rf_value w, b, y;
    RF_TRY(forward(t, user, rf_trace_value(t, in[0], "x"), &w, &b, &y));
    out[0] = rf_trace_wrap(t, y);
    return rf_trace_status(t);
}

void linear_create(linear *m, rf_strategy *strategy, const linear_params *params)
{
    float w[IN], b;
    linear_initial(w, &b);
    *m = (linear){ .strategy = strategy,
                   .adam = params->adam,
                   .rate = params->adam ? 0.01f : 0.1f,
                   .clip_norm = params->clip_norm,
                   .accumulation_steps = params->accumulation_steps ? params->accumulation_steps : 1 };
    CHECK(rf_variable_create(strategy, &(rf_variable_params){ .name = "w", .shape = RF_SHAPE(IN), .value = w }, &m->w));
    CHECK(rf_variable_create(strategy, &(rf_variable_params){ .name = "b", .shape = RF_SHAPE(1), .value = &b }, &m->b));
    const rf_updater_params updater = { .user = m,
                                        .num_slots = params->adam ? 2 : 0,
                                        .accumulation_steps = m->accumulation_steps,
                                        .norms = params->norms,
                                        .emit = emit_update,
                                        .hyper_count = RF_HYPER_COUNT,
                                        .scale_hyper = RF_HYPER_GRAD_SCALE,
                                        .hyper = hyper };
    CHECK(rf_updater_create(strategy, &updater, &m->updater));
    CHECK(rf_function_create(strategy, &(rf_function_params){ train_step, m, 2, "train", true }, &m->train));
    CHECK(rf_function_create(strategy, &(rf_function_params){ predict_step, m, 1, "predict", false }, &m->predict));
}

void linear_destroy(linear *m)
{
    rf_function_destroy(&m->train);
    rf_function_destroy(&m->predict);
    rf_updater_destroy(&m->updater);
    rf_variable_destroy(&m->w);
    rf_variable_destroy(&m->b);
}

float linear_step(linear *m, uint32_t first, uint32_t count)
{
    const rf_element batch = linear_batch(first, count);
    rf_per_replica *results[2];
    float loss;
    CHECK(rf_strategy_run(m->strategy, m->train, &batch, results));
    CHECK(rf_strategy_reduce(m->strategy, RF_REDUCE_SUM, results[0], &loss));
    return loss;
}
