/* SPDX-License-Identifier: Apache-2.0 */
/* Every optimizer against a double-precision implementation on a linear regression, on one and on two devices. */
#include "../support/orthogonal.h"
#include "../support/strategies.h"
#include "tests/room.h"

enum { IN = 5, OUT = 3, WEIGHTS = IN * OUT, PARAMS = WEIGHTS + OUT, EXAMPLES = 10, STEPS = 20 };

/* ---- the oracle ---- */

typedef struct oracle {
    double w[PARAMS], slot[2][PARAMS], sum[PARAMS]; /* kernel [IN, OUT], then bias */
    uint64_t iteration;
    uint32_t accumulated;
    double product; /* of Nadam's momenta */
    double average[PARAMS];
} oracle;

static void data_of_step(uint32_t step, float *x, float *y)
{
    fill_noise(x, EXAMPLES * IN, 77 + step);
    fill_noise(y, EXAMPLES * OUT, 177 + step);
}

/* Gradient of the mean over examples of the mean over outputs of the squared error; returns that loss. */
static double oracle_gradient(const oracle *o, const float *x, const float *y, double *gradient)
{
    double loss = 0.0;
    memset(gradient, 0, PARAMS * sizeof(*gradient));
    for (int n = 0; n < EXAMPLES; n++) {
        for (int j = 0; j < OUT; j++) {
            double p = o->w[WEIGHTS + j];
            for (int i = 0; i < IN; i++) p += (double)x[n * IN + i] * o->w[i * OUT + j];
            const double d = p - (double)y[n * OUT + j], slope = 2.0 * d / OUT / EXAMPLES;
            loss += d * d / OUT / EXAMPLES;
            for (int i = 0; i < IN; i++) gradient[i * OUT + j] += slope * (double)x[n * IN + i];
            gradient[WEIGHTS + j] += slope;
        }
    }
    return loss;
}

static double norm_of(const double *g, int begin, int end)
{
    double sum = 0.0;
    for (int i = begin; i < end; i++) sum += g[i] * g[i];
    return sqrt(sum);
}

static void scale_to(double *g, int begin, int end, double norm, double limit)
{
    for (int i = begin; i < end && norm > limit; i++) g[i] *= limit / norm;
}

static void oracle_clip(const rf_optimizer_params *p, double *g)
{
    if (p->clip_norm > 0.0) {
        scale_to(g, 0, WEIGHTS, norm_of(g, 0, WEIGHTS), p->clip_norm);
        scale_to(g, WEIGHTS, PARAMS, norm_of(g, WEIGHTS, PARAMS), p->clip_norm);
    }
    if (p->global_clip_norm > 0.0) scale_to(g, 0, PARAMS, norm_of(g, 0, PARAMS), p->global_clip_norm);
    for (int i = 0; i < PARAMS && p->clip_value > 0.0; i++) {
        g[i] = g[i] > p->clip_value ? p->clip_value : g[i] < -p->clip_value ? -p->clip_value : g[i];
    }
}

static double pick(double value, double fallback)
{
    return value == 0.0 ? fallback : value;
}

/* LAMB's step of one variable, whose direction and rates are known. */
static void oracle_lamb(double *w, const double *direction, const double *rate, int begin, int end)
{
    const double weights = norm_of(w, begin, end), steps = norm_of(direction, begin, end);
    const double ratio = weights > 0 && steps > 0 ? weights / steps : 1;
    for (int i = begin; i < end; i++) w[i] -= rate[i] * ratio * direction[i];
}

/* The kernel's step of Muon; the bias is AdamW's. */
static void oracle_muon(oracle *o, const rf_optimizer_params *p, const double *g, double rate, double decay)
{
    static const rf_muon_params none = { 0 };
    const rf_muon_params *muon = p->num_groups > 1 && p->groups[1].muon ? p->groups[1].muon : &none;
    const double momentum = pick(p->momentum, 0.95);
    double direction[WEIGHTS];
    for (int i = 0; i < WEIGHTS; i++) {
        double *m = &o->slot[0][i];
        *m = momentum * *m + g[i];
        direction[i] = muon->plain_momentum ? *m : g[i] + momentum * *m;
    }
    orthogonalize_doubles(direction, IN, OUT, muon->steps ? (int)muon->steps : 5);
    const double scale =
        muon->scale == RF_MUON_SCALE_SHAPE ? sqrt((double)IN / OUT) : pick(muon->rms_rate, 0.2) * sqrt(IN);
    for (int i = 0; i < WEIGHTS; i++) o->w[i] -= rate * decay * o->w[i] + rate * scale * direction[i];
}

static bool muon_has_kernel(const rf_optimizer_params *p)
{
    const bool adamw = p->num_groups > 1 && p->groups[1].muon && p->groups[1].muon->adamw;
    return p->kind == RF_OPTIMIZER_MUON && !adamw;
}

static void oracle_average(oracle *o, const rf_optimizer_params *p)
{
    const double keeps = o->iteration == 1 ? 0 : pick(p->ema_momentum, 0.99);
    const uint32_t every = p->ema_overwrite_frequency;
    for (int i = 0; i < PARAMS && p->use_ema; i++) {
        o->average[i] = keeps * o->average[i] + (1 - keeps) * o->w[i];
        if (every > 0 && o->iteration % every == 0) o->w[i] = o->average[i];
    }
}

static void oracle_update(oracle *o, const rf_optimizer_params *p, const double *gradient)
{
    const uint32_t every = p->accumulation_steps ? p->accumulation_steps : 1;
    for (int i = 0; i < PARAMS; i++) o->sum[i] += gradient[i];
    if (++o->accumulated < every) return;
    double g[PARAMS], direction[PARAMS], rates[PARAMS];
    for (int i = 0; i < PARAMS; i++) {
        g[i] = o->sum[i] / every;
        o->sum[i] = 0.0;
    }
    o->accumulated = 0;
    oracle_clip(p, g);
    const double common_rate = p->schedule ? rf_schedule_value(p->schedule, o->iteration)
                                           : pick(p->learning_rate, p->kind == RF_OPTIMIZER_SGD ? 0.01 : 0.001);
    const bool decays = p->kind == RF_OPTIMIZER_ADAMW || p->kind == RF_OPTIMIZER_MUON;
    const double common_decay = decays ? pick(p->weight_decay, 0.004) : p->weight_decay;
    const double b1 = pick(p->beta_1, 0.9), b2 = pick(p->beta_2, p->kind == RF_OPTIMIZER_LION ? 0.99 : 0.999),
                 eps = pick(p->epsilon, 1e-7);
    const double rho = pick(p->rho, 0.9), t = (double)++o->iteration;
    for (int i = 0; i < PARAMS; i++) {
        double *w = &o->w[i], *a = &o->slot[0][i], *b = &o->slot[1][i];
        /* The first of the tests' groups has the bias, and a second one the kernel. */
        const uint32_t group = i < WEIGHTS;
        const bool grouped = group < p->num_groups;
        const double rate = common_rate * (grouped ? pick(p->groups[group].rate_factor, 1) : 1);
        const double decay = grouped && p->groups[group].no_weight_decay ? 0 : common_decay;
        rates[i] = rate;
        if (i < WEIGHTS && muon_has_kernel(p)) {
            if (i == 0) oracle_muon(o, p, g, rate, decay);
            continue;
        }
        if (p->kind != RF_OPTIMIZER_LAMB) *w -= rate * decay * *w;
        switch (p->kind) {
        case RF_OPTIMIZER_SGD:
            *a = p->momentum * *a - rate * g[i];
            *w += p->nesterov ? p->momentum * *a - rate * g[i] : *a;
            break;
        case RF_OPTIMIZER_ADAM:
        case RF_OPTIMIZER_ADAMW:
        case RF_OPTIMIZER_MUON:
            *a = b1 * *a + (1.0 - b1) * g[i];
            *b = b2 * *b + (1.0 - b2) * g[i] * g[i];
            if (p->epsilon_form == RF_EPSILON_UNCORRECTED) /* as Keras writes it */
                *w -= rate * sqrt(1.0 - pow(b2, t)) / (1.0 - pow(b1, t)) * *a / (sqrt(*b) + eps);
            else /* as PyTorch writes it */
                *w -= rate * (*a / (1.0 - pow(b1, t))) / (sqrt(*b / (1.0 - pow(b2, t))) + eps);
            break;
        case RF_OPTIMIZER_RMSPROP:
            *a = rho * *a + (1.0 - rho) * g[i] * g[i];
            *b = p->momentum * *b + rate * g[i] / sqrt(*a + eps);
            *w -= *b;
            break;
        case RF_OPTIMIZER_ADAGRAD:
            *a += g[i] * g[i];
            *w -= rate * g[i] / sqrt(*a + pick(p->initial_accumulator_value, 0.1) + eps);
            break;
        case RF_OPTIMIZER_NADAM: {
            const double now = b1 * (1 - 0.5 * pow(0.96, t)), next = b1 * (1 - 0.5 * pow(0.96, t + 1));
            if (i == 0) o->product = (o->iteration == 1 ? 1 : o->product) * now;
            *a = b1 * *a + (1.0 - b1) * g[i];
            *b = b2 * *b + (1.0 - b2) * g[i] * g[i];
            const double m = next * *a / (1 - o->product * next) + (1 - now) * g[i] / (1 - o->product);
            *w -= rate * m / (sqrt(*b / (1 - pow(b2, t))) + eps);
            break;
        }
        case RF_OPTIMIZER_LION: {
            const double along = b1 * *a + (1 - b1) * g[i];
            *a = b2 * *a + (1 - b2) * g[i];
            *w -= rate * ((along > 0) - (along < 0));
            break;
        }
        case RF_OPTIMIZER_LAMB:
            *a = b1 * *a + (1.0 - b1) * g[i];
            *b = b2 * *b + (1.0 - b2) * g[i] * g[i];
            direction[i] = *a / (1.0 - pow(b1, t)) / (sqrt(*b / (1.0 - pow(b2, t))) + eps) + decay * *w;
            break;
        case RF_OPTIMIZER_CUSTOM: break; /* test_custom_optimizers.c */
        }
    }
    if (p->kind == RF_OPTIMIZER_LAMB) {
        oracle_lamb(o->w, direction, rates, 0, WEIGHTS);
        oracle_lamb(o->w, direction, rates, WEIGHTS, PARAMS);
    }
    oracle_average(o, p);
}

/* ---- the same with the library ---- */

typedef struct regression {
    rf_strategy *strategy;
    rf_variable *kernel, *bias;
    rf_optimizer *optimizer;
    rf_function *function;
    bool apply; /* gradients by rf_gradients() and rf_optimizer_apply_gradients() */
} regression;

static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    regression *r = user;
    const rf_tensor variables[] = { rf_variable_tensor(t, r->kernel), rf_variable_tensor(t, r->bias) };
    const rf_variable_list list = { (rf_variable *const[]){ r->kernel, r->bias }, 2 };
    const rf_tensor p = rf_bias_add(t, rf_matmul(t, in[0], variables[0], RF_TRANSPOSE_NONE), variables[1]);
    out[0] = rf_compute_average_loss(t, rf_mean_squared_error(t, in[1], p), NULL);
    if (r->apply) {
        rf_tensor gradients[2];
        rf_result result = rf_gradients(t, out[0], variables, 2, gradients);
        if (result == RF_OK) result = rf_optimizer_apply_gradients(t, r->optimizer, gradients, list);
        if (result < 0) return result;
    } else {
        const rf_result result = rf_optimizer_minimize(t, r->optimizer, out[0], list);
        if (result < 0) return result;
    }
    return rf_trace_status(t);
}

static void open_regression(rf_strategy *strategy, const rf_optimizer_params *params, bool apply, const float *initial,
                            regression *r)
{
    *r = (regression){ .strategy = strategy, .apply = apply };
    const rf_variable_params kernel = { .name = "kernel", .shape = RF_SHAPE(IN, OUT), .value = initial };
    const rf_variable_params bias = { .name = "bias", .shape = RF_SHAPE(OUT), .value = initial + WEIGHTS };
    OK(rf_variable_create(strategy, &kernel, &r->kernel));
    OK(rf_variable_create(strategy, &bias, &r->bias));
    OK(rf_optimizer_create(strategy, params, &r->optimizer));
    const rf_function_params function = { .step = step, .user = r, .num_outputs = 1, .training = true };
    OK(rf_function_create(strategy, &function, &r->function));
}

static void close_regression(regression *r)
{
    rf_function_destroy(&r->function);
    rf_optimizer_destroy(&r->optimizer);
    rf_variable_destroy(&r->kernel);
    rf_variable_destroy(&r->bias);
}

static double train_step(regression *r, uint32_t number)
{
    float x[EXAMPLES * IN], y[EXAMPLES * OUT], loss;
    data_of_step(number, x, y);
    const rf_element batch = { 2, { array_f32(RF_SHAPE(EXAMPLES, IN), x), array_f32(RF_SHAPE(EXAMPLES, OUT), y) } };
    run_once(r->strategy, r->function, &batch, &loss, 1);
    return loss;
}

static void check_weights(const regression *r, const double *expected, double tolerance, const char *what)
{
    float w[PARAMS];
    OK(rf_variable_read(r->kernel, w));
    OK(rf_variable_read(r->bias, w + WEIGHTS));
    for (int i = 0; i < PARAMS; i++) assert_near(w[i], expected[i], tolerance, tolerance, what);
    OK(rf_strategy_check_identical(r->strategy, NULL, NULL));
}

static void compare(rf_strategy *strategy, const char *name, const rf_optimizer_params *params, bool apply)
{
    oracle o = { 0 };
    regression r;
    float initial[PARAMS];
    fill_noise(initial, PARAMS, 5);
    for (int i = 0; i < PARAMS; i++) o.w[i] = (double)initial[i];
    open_regression(strategy, params, apply, initial, &r);
    for (uint32_t i = 0; i < STEPS; i++) {
        float x[EXAMPLES * IN], y[EXAMPLES * OUT];
        double gradient[PARAMS];
        data_of_step(i, x, y);
        const double expected = oracle_gradient(&o, x, y, gradient);
        assert_near(train_step(&r, i), expected, 2e-5, 0.0, name);
        float g[PARAMS];
        if (params->accumulation_steps < 2) {
            OK(rf_variable_read_gradient(r.kernel, g));
            OK(rf_variable_read_gradient(r.bias, g + WEIGHTS));
            for (int k = 0; k < PARAMS; k++) assert_near(g[k], gradient[k], 1e-4, 1e-5, name);
        }
        oracle_update(&o, params, gradient);
    }
    assert_int_equal(rf_optimizer_iterations(r.optimizer), o.iteration);
    check_weights(&r, o.w, 1e-5, name);
    if (params->use_ema) {
        OK(rf_optimizer_swap_averages(r.optimizer));
        check_weights(&r, o.average, 1e-5, name);
        OK(rf_optimizer_swap_averages(r.optimizer));
        check_weights(&r, o.w, 1e-5, name);
    }
    close_regression(&r);
}

static void all_kinds(rf_strategy *strategy)
{
    static const rf_parameter_group groups[] = { { .names = "gain,b?a*", .rate_factor = 0.25, .no_weight_decay = true },
                                                 { .names = "*", .rate_factor = 2 } };
    static const rf_muon_params shape = { .scale = RF_MUON_SCALE_SHAPE, .steps = 3 },
                                slow = { .plain_momentum = true, .rms_rate = 0.1 }, adamw = { .adamw = true };
    static const rf_parameter_group shaped[] = { { .names = "bias", .rate_factor = 0.25, .no_weight_decay = true },
                                                 { .names = "*", .rate_factor = 2, .muon = &shape } },
                                    plain[] = { { .names = "bias" }, { .names = "*", .muon = &slow } },
                                    left_out[] = { { .names = "bias" }, { .names = "kernel", .muon = &adamw } };
    static const rf_schedule schedule = {
        .kind = RF_SCHEDULE_EXPONENTIAL_DECAY, .initial = 0.1, .decay_rate = 0.5, .decay_steps = 3
    };
    static const struct {
        const char *name;
        rf_optimizer_params params;
    } cases[] = {
        { "sgd", { .learning_rate = 0.1 } },
        { "sgd momentum", { .learning_rate = 0.05, .momentum = 0.9 } },
        { "sgd nesterov", { .learning_rate = 0.05, .momentum = 0.9, .nesterov = true } },
        { "sgd weight decay", { .learning_rate = 0.1, .weight_decay = 0.1 } },
        { "sgd schedule", { .schedule = &schedule } },
        { "adam", { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 } },
        { "adam betas",
          { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 0.01 } },
        { "adam keras",
          { .kind = RF_OPTIMIZER_ADAM,
            .learning_rate = 0.01,
            .epsilon = 0.01,
            .epsilon_form = RF_EPSILON_UNCORRECTED } },
        { "adamw", { .kind = RF_OPTIMIZER_ADAMW, .learning_rate = 0.01, .weight_decay = 0.1 } },
        { "adamw keras",
          { .kind = RF_OPTIMIZER_ADAMW,
            .learning_rate = 0.01,
            .weight_decay = 0.1,
            .epsilon = 0.1,
            .epsilon_form = RF_EPSILON_UNCORRECTED } },
        { "rmsprop", { .kind = RF_OPTIMIZER_RMSPROP, .learning_rate = 0.01 } },
        { "rmsprop momentum", { .kind = RF_OPTIMIZER_RMSPROP, .learning_rate = 0.01, .momentum = 0.5, .rho = 0.8 } },
        { "adagrad", { .kind = RF_OPTIMIZER_ADAGRAD, .learning_rate = 0.1 } },
        { "adagrad initial",
          { .kind = RF_OPTIMIZER_ADAGRAD, .learning_rate = 0.1, .initial_accumulator_value = 1, .weight_decay = 0.1 } },
        { "nadam", { .kind = RF_OPTIMIZER_NADAM, .learning_rate = 0.01 } },
        { "nadam betas",
          { .kind = RF_OPTIMIZER_NADAM, .learning_rate = 0.01, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 0.01 } },
        { "lion", { .kind = RF_OPTIMIZER_LION, .learning_rate = 0.01 } },
        { "lion decay", { .kind = RF_OPTIMIZER_LION, .learning_rate = 0.01, .weight_decay = 0.1, .beta_2 = 0.9 } },
        { "lamb", { .kind = RF_OPTIMIZER_LAMB, .learning_rate = 0.01 } },
        { "lamb betas",
          { .kind = RF_OPTIMIZER_LAMB, .learning_rate = 0.01, .beta_1 = 0.8, .beta_2 = 0.95, .epsilon = 0.01 } },
        { "lamb groups and clip norm",
          { .kind = RF_OPTIMIZER_LAMB,
            .learning_rate = 0.01,
            .weight_decay = 0.1,
            .clip_norm = 0.1,
            .groups = groups,
            .num_groups = 1 } },
        { "lamb global clip norm, accumulation, average",
          { .kind = RF_OPTIMIZER_LAMB,
            .schedule = &schedule,
            .weight_decay = 0.1,
            .global_clip_norm = 0.1,
            .accumulation_steps = 2,
            .use_ema = true,
            .ema_momentum = 0.9 } },
        { "muon", { .kind = RF_OPTIMIZER_MUON, .learning_rate = 0.01 } },
        { "muon groups",
          { .kind = RF_OPTIMIZER_MUON,
            .learning_rate = 0.01,
            .momentum = 0.8,
            .weight_decay = 0.1,
            .groups = shaped,
            .num_groups = 2 } },
        { "muon plain, clip norm, keras' epsilon",
          { .kind = RF_OPTIMIZER_MUON,
            .learning_rate = 0.01,
            .beta_1 = 0.8,
            .epsilon = 0.01,
            .epsilon_form = RF_EPSILON_UNCORRECTED,
            .clip_norm = 0.1,
            .groups = plain,
            .num_groups = 2 } },
        { "muon leaves the kernel to adamw, clip value",
          { .kind = RF_OPTIMIZER_MUON,
            .learning_rate = 0.01,
            .clip_value = 0.05,
            .groups = left_out,
            .num_groups = 2 } },
        { "muon, clip value", { .kind = RF_OPTIMIZER_MUON, .learning_rate = 0.01, .clip_value = 0.05 } },
        { "muon global clip norm, accumulation, average",
          { .kind = RF_OPTIMIZER_MUON,
            .schedule = &schedule,
            .global_clip_norm = 0.1,
            .accumulation_steps = 2,
            .use_ema = true,
            .ema_momentum = 0.9,
            .ema_overwrite_frequency = 4 } },
        { "average", { .learning_rate = 0.1, .use_ema = true } },
        { "average of adam overwrites",
          { .kind = RF_OPTIMIZER_ADAM,
            .learning_rate = 0.01,
            .use_ema = true,
            .ema_momentum = 0.8,
            .ema_overwrite_frequency = 6 } },
        { "groups of adamw",
          { .kind = RF_OPTIMIZER_ADAMW,
            .learning_rate = 0.01,
            .weight_decay = 0.1,
            .groups = groups,
            .num_groups = 2 } },
        { "groups and clip norm",
          { .learning_rate = 0.1, .clip_norm = 0.1, .weight_decay = 0.1, .groups = groups, .num_groups = 2 } },
        { "groups and global clip norm",
          { .learning_rate = 0.1, .momentum = 0.9, .global_clip_norm = 0.1, .groups = groups, .num_groups = 1 } },
        { "groups and accumulation",
          { .kind = RF_OPTIMIZER_LION,
            .learning_rate = 0.01,
            .weight_decay = 0.1,
            .accumulation_steps = 2,
            .groups = groups,
            .num_groups = 1 } },
        { "clip value", { .learning_rate = 0.1, .clip_value = 0.05 } },
        { "clip norm", { .learning_rate = 0.1, .clip_norm = 0.1 } },
        { "global clip norm", { .learning_rate = 0.1, .global_clip_norm = 0.1 } },
        { "accumulation", { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01, .accumulation_steps = 3 } },
        { "accumulation and clip", { .learning_rate = 0.1, .accumulation_steps = 2, .global_clip_norm = 0.1 } },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        compare(strategy, cases[i].name, &cases[i].params, i % 2 == 1);
    }
}

/* Groups that ask for nothing: the segments are others, the bits are not. */
static void idle_groups(rf_strategy *strategy)
{
    static const rf_parameter_group groups[] = { { .names = "bias", .rate_factor = 1 }, { .names = "kern*" } };
    static const rf_optimizer_kind kinds[] = { RF_OPTIMIZER_SGD,     RF_OPTIMIZER_ADAMW, RF_OPTIMIZER_RMSPROP,
                                               RF_OPTIMIZER_ADAGRAD, RF_OPTIMIZER_NADAM, RF_OPTIMIZER_LION,
                                               RF_OPTIMIZER_LAMB,    RF_OPTIMIZER_MUON };
    float initial[PARAMS], w[2][PARAMS];
    fill_noise(initial, PARAMS, 5);
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
        rf_optimizer_params params = { .kind = kinds[k], .weight_decay = 0.01 };
        for (int grouped = 0; grouped < 2; grouped++) {
            regression r;
            params.groups = groups;
            params.num_groups = grouped ? 2 : 0;
            open_regression(strategy, &params, false, initial, &r);
            for (uint32_t i = 0; i < 3; i++) (void)train_step(&r, i);
            OK(rf_variable_read(r.kernel, w[grouped]));
            OK(rf_variable_read(r.bias, w[grouped] + WEIGHTS));
            close_regression(&r);
        }
        assert_memory_equal(w[0], w[1], sizeof(w[0]));
    }
}

/* The names are copied; one that fits nothing is reported with the pattern. */
static void empty_group(rf_strategy *strategy)
{
    float initial[PARAMS] = { 0 }, x[EXAMPLES * IN], y[EXAMPLES * OUT];
    char names[] = "bais";
    const rf_parameter_group group = { .names = names };
    regression r;
    open_regression(strategy, &(rf_optimizer_params){ .groups = &group, .num_groups = 1 }, false, initial, &r);
    names[0] = '*';
    data_of_step(0, x, y);
    const rf_element batch = { 2, { array_f32(RF_SHAPE(EXAMPLES, IN), x), array_f32(RF_SHAPE(EXAMPLES, OUT), y) } };
    FAILS(rf_strategy_run(strategy, r.function, &batch, NULL), RF_ERROR_INVALID_ARGUMENT,
          "rf_optimizer_minimize: the optimizer's groups[0], 'bais', names none of the 2 variables, e.g. 'kernel'");
    close_regression(&r);
}

/* The mean of the gradients of two half batches is the gradient of the whole. */
static void accumulation_is_a_big_batch(rf_strategy *strategy)
{
    float initial[PARAMS], x[2 * EXAMPLES * IN], y[2 * EXAMPLES * OUT], whole[PARAMS], halves[PARAMS];
    fill_noise(initial, PARAMS, 5);
    regression big, small;
    rf_optimizer_params params = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 };
    open_regression(strategy, &params, false, initial, &big);
    params.accumulation_steps = 2;
    open_regression(strategy, &params, false, initial, &small);
    for (uint32_t i = 0; i < 6; i++) {
        data_of_step(2 * i, x, y);
        data_of_step(2 * i + 1, x + EXAMPLES * IN, y + EXAMPLES * OUT);
        const rf_element batch = {
            2, { array_f32(RF_SHAPE(2 * EXAMPLES, IN), x), array_f32(RF_SHAPE(2 * EXAMPLES, OUT), y) }
        };
        OK(rf_strategy_run(strategy, big.function, &batch, NULL));
        (void)train_step(&small, 2 * i);
        assert_int_equal(rf_optimizer_iterations(small.optimizer), i);
        (void)train_step(&small, 2 * i + 1);
    }
    OK(rf_variable_read(big.kernel, whole));
    OK(rf_variable_read(small.kernel, halves));
    for (int i = 0; i < WEIGHTS; i++) assert_near(halves[i], whole[i], 1e-5, 1e-6, "accumulated");
    close_regression(&big);
    close_regression(&small);
}

static void rate_between_steps(rf_strategy *strategy)
{
    oracle o = { 0 };
    float initial[PARAMS], x[EXAMPLES * IN], y[EXAMPLES * OUT];
    double gradient[PARAMS];
    fill_noise(initial, PARAMS, 5);
    for (int i = 0; i < PARAMS; i++) o.w[i] = (double)initial[i];
    const rf_schedule schedule = {
        .kind = RF_SCHEDULE_PIECEWISE_CONSTANT, .num_boundaries = 1, .boundaries = { 0 }, .values = { 0.1, 0.2 }
    };
    regression r;
    open_regression(strategy, &(rf_optimizer_params){ .schedule = &schedule }, false, initial, &r);
    const double rates[] = { 0.1, 0.2, 0.03, 0.0 };
    for (uint32_t i = 0; i < 4; i++) {
        if (i >= 2) OK(rf_optimizer_set_learning_rate(r.optimizer, rates[i])); /* the schedule is gone from here on */
        assert_near(rf_optimizer_learning_rate(r.optimizer), rates[i], 0.0, 0.0, "rate");
        data_of_step(i, x, y);
        (void)oracle_gradient(&o, x, y, gradient);
        for (int k = 0; k < PARAMS; k++) o.w[k] -= rates[i] * gradient[k];
        (void)train_step(&r, i);
    }
    check_weights(&r, o.w, 1e-5, "rates");
    FAILS(rf_optimizer_set_learning_rate(r.optimizer, NAN), RF_ERROR_INVALID_ARGUMENT, "rate");
    FAILS(rf_optimizer_set_learning_rate(NULL, 0.1), RF_ERROR_INVALID_ARGUMENT, "optimizer");
    close_regression(&r);
}

/* ---- contract ---- */

static rf_result vector_loss(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    regression *r = user;
    (void)out;
    const rf_tensor p = rf_matmul(t, in[0], rf_variable_tensor(t, r->kernel), RF_TRANSPOSE_NONE);
    return rf_optimizer_minimize(t, r->optimizer, rf_mean_squared_error(t, in[1], p),
                                 (rf_variable_list){ &r->kernel, 1 });
}

static rf_result no_variables(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    regression *r = user;
    (void)out;
    return rf_optimizer_minimize(t, r->optimizer, rf_reduce_sum(t, in[0], NULL, 0, RF_DROP_DIMS),
                                 (rf_variable_list){ 0 });
}

static rf_result wrong_gradient(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    regression *r = user;
    (void)out;
    return rf_optimizer_apply_gradients(t, r->optimizer, &in[0], (rf_variable_list){ &r->bias, 1 });
}

/* Variables behind an argmax cannot learn. */
static rf_result no_influence(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    regression *r = user;
    (void)out;
    const rf_tensor p = rf_matmul(t, in[0], rf_variable_tensor(t, r->kernel), RF_TRANSPOSE_NONE);
    const rf_tensor loss = rf_reduce_mean(t, rf_cast(t, rf_argmax(t, p), RF_F32), NULL, 0, RF_DROP_DIMS);
    return rf_optimizer_minimize(t, r->optimizer, loss, (rf_variable_list){ &r->kernel, 1 });
}

static void try_step(regression *r, rf_step_fn fn, const char *part)
{
    float x[EXAMPLES * IN], y[EXAMPLES * OUT];
    data_of_step(0, x, y);
    const rf_element batch = { 2, { array_f32(RF_SHAPE(EXAMPLES, IN), x), array_f32(RF_SHAPE(EXAMPLES, OUT), y) } };
    rf_function *function;
    OK(rf_function_create(r->strategy, &(rf_function_params){ .step = fn, .user = r, .training = true }, &function));
    FAILS(rf_strategy_run(r->strategy, function, &batch, NULL),
          fn == no_influence ? RF_ERROR_NO_GRADIENT : RF_ERROR_INVALID_ARGUMENT, part);
    rf_function_destroy(&function);
}

static void bad_arguments(rf_strategy *strategy)
{
    float initial[PARAMS] = { 0 };
    regression r;
    open_regression(strategy, NULL, false, initial, &r);
    try_step(&r, vector_loss, "loss");
    try_step(&r, no_variables, "variables");
    try_step(&r, no_influence, "rf_optimizer_minimize: loss: no gradient reaches");
    try_step(&r, wrong_gradient, "gradients[0]");
    rf_optimizer *optimizer;
    FAILS(rf_optimizer_create(NULL, NULL, &optimizer), RF_ERROR_INVALID_ARGUMENT, "strategy");
    FAILS(rf_optimizer_create(strategy, NULL, NULL), RF_ERROR_INVALID_ARGUMENT, "out");
    FAILS(rf_optimizer_create(strategy, &(rf_optimizer_params){ .beta_1 = 2.0 }, &optimizer), RF_ERROR_INVALID_ARGUMENT,
          "beta_1");
    assert_null(optimizer);
    FAILS(rf_optimizer_minimize(NULL, r.optimizer, (rf_tensor){ 0 }, (rf_variable_list){ 0 }),
          RF_ERROR_INVALID_ARGUMENT, "trace");
    rf_optimizer_destroy(NULL);
    close_regression(&r);

    /* An optimizer of another strategy. */
    rf_strategy *other;
    OK(rf_strategy_create_one_device(NULL, &other));
    regression mixed;
    open_regression(strategy, NULL, false, initial, &mixed);
    rf_optimizer_destroy(&mixed.optimizer);
    OK(rf_optimizer_create(other, NULL, &mixed.optimizer));
    try_step(&mixed, step, "another strategy");
    close_regression(&mixed);
    rf_strategy_destroy(&other);
}

TEST_ON_ONE(all_kinds)
TEST_ON_TWO(idle_groups)
TEST_ON_ONE(empty_group)
TEST_ON_TWO(all_kinds)
TEST_ON_ALL(accumulation_is_a_big_batch)
TEST_ON_ONE(rate_between_steps)
TEST_ON_ONE(bad_arguments)

TESTS(optimizers, NULL, NULL)
