/* SPDX-License-Identifier: Apache-2.0 */
/* Every setting of a floating-point type whose 0 means a default (tests/project/check_zero.py reads them from the
 * headers): RF_ZERO there is the number zero, or is refused where zero makes no sense. */
#include "../support/strategies.h"
#include "base/memory.h"
#include "test_folder.h"
#include "tests/room.h"
#include "train/callbacks/callback.h"
#include "train/generate/sample.h"
#include "train/metrics/logs.h"
#include "train/metrics/loss.h"
#include "train/optimizer/config_json.h"
#include "train/optimizer/optimizer.h"
#include "train/optimizer/schedule.h"

/* ---- settings of optimizers: the numbers of an update ---- */

typedef struct optimizer_setting {
    const char *name;
    rf_optimizer_kind kind;
    size_t offset;     /* in rf_optimizer_params */
    int number;        /* of the update, which the setting decides */
    double by_default; /* that number */
} optimizer_setting;
#define SETTING(kind, field, number, by_default)                                                                       \
    {                                                                                                                  \
        "rf_optimizer_params." #field, RF_OPTIMIZER_##kind, offsetof(rf_optimizer_params, field), number, by_default   \
    }

static const optimizer_setting optimizer_settings[] = {
    SETTING(SGD, learning_rate, RF_HYPER_RATE, 0.01),
    SETTING(MUON, momentum, RF_HYPER_MOMENTUM, 0.95),
    SETTING(ADAM, beta_1, RF_HYPER_BETA_1, 0.9),
    SETTING(ADAM, beta_2, RF_HYPER_BETA_2, 0.999),
    SETTING(LION, beta_2, RF_HYPER_BETA_2, 0.99),
    SETTING(RMSPROP, rho, RF_HYPER_RHO, 0.9),
    SETTING(ADAM, epsilon, RF_HYPER_EPSILON, 1e-7),
    SETTING(ADAMW, weight_decay, RF_HYPER_WEIGHT_DECAY, 0.004 * 0.001),
    SETTING(MUON, weight_decay, RF_HYPER_WEIGHT_DECAY, 0.004 * 0.001),
    SETTING(ADAGRAD, initial_accumulator_value, RF_HYPER_EPSILON, 0.1 + 1e-7),
    SETTING(SGD, ema_momentum, RF_HYPER_AVERAGE, 0.99),
};

static float number_of_update(const optimizer_setting *s, double value)
{
    rf_optimizer_params params = { .kind = s->kind, .use_ema = s->number == RF_HYPER_AVERAGE };
    rf_optimizer_config config;
    float numbers[RF_HYPER_COUNT];
    memcpy((char *)&params + s->offset, &value, sizeof(value));
    OK(rf_optimizer_configure(&params, &config));
    /* Parameter servers and files configure the result once more. */
    char *text;
    rf_optimizer_params again;
    rf_schedule rates;
    OK(rf_optimizer_text(&config, &text));
    OK(rf_optimizer_parse(text, strlen(text), &again, &rates));
    rf_free(text);
    OK(rf_optimizer_configure(&again, &config));
    rf_optimizer_hyper(&config, 1, 0, 0, numbers);
    return numbers[s->number];
}

static void optimizers_take_zero(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(optimizer_settings) / sizeof(optimizer_settings[0]); i++) {
        const optimizer_setting *s = &optimizer_settings[i];
        /* An epsilon is the smallest f32; Adagrad's is in the same number. */
        const float zero = s->number != RF_HYPER_EPSILON ? 0 : s->kind == RF_OPTIMIZER_ADAGRAD ? 1e-7f : RF_ZERO;
        assert_near((double)number_of_update(s, 0), s->by_default, 1e-6, 0, s->name);
        if (number_of_update(s, (double)RF_ZERO) != zero) fail_msg("%s is not zero", s->name);
    }
    /* Where 0 is the number zero, both are. */
    rf_optimizer_config config;
    const rf_optimizer_params plain = { .momentum = (double)RF_ZERO };
    OK(rf_optimizer_configure(&plain, &config));
    assert_int_equal(rf_optimizer_config_slots(&config), 0);
}

static void groups_take_zero(void **state)
{
    (void)state;
    static const char *const name = "rf_parameter_group.rate_factor";
    rf_parameter_group group = { .names = "*" };
    const rf_optimizer_params params = { .groups = &group, .num_groups = 1 };
    rf_optimizer_config config;
    OK(rf_optimizer_configure(&params, &config));
    assert_near(rf_optimizer_group_rate(&config, 0, 1), 0.01, 1e-9, 0, name);
    group.rate_factor = (double)RF_ZERO;
    OK(rf_optimizer_configure(&params, &config));
    assert_true(rf_optimizer_group_rate(&config, 0, 1) == 0);
}

static void schedules_take_zero(void **state)
{
    (void)state;
    rf_schedule fall = { .kind = RF_SCHEDULE_POLYNOMIAL_DECAY, .initial = 1, .decay_steps = 4 };
    rf_schedule again = { .kind = RF_SCHEDULE_COSINE_RESTARTS, .initial = 1, .decay_steps = 4 };
    assert_near(rf_schedule_value(&fall, 1), 0.75, 1e-9, 0, "rf_schedule.power");
    assert_near(rf_schedule_value(&again, 4), 1, 1e-9, 0, "rf_schedule.m_mul");
    fall.power = (double)RF_ZERO; /* (1 - p)^0 */
    again.m_mul = (double)RF_ZERO;
    assert_true(rf_schedule_value(&fall, 1) == 1);
    assert_true(rf_schedule_value(&again, 4) == 0);
}

/* ---- initial values ---- */

static void initializers_take_zero(rf_strategy *strategy)
{
    static const struct {
        const char *name;
        rf_initializer initializer;
        float most; /* of the absolute values */
    } cases[] = {
        { "rf_initializer.b", { RF_INIT_RANDOM_NORMAL, .a = 2, .b = RF_ZERO }, 2 },
        { "rf_initializer.b", { RF_INIT_TRUNCATED_NORMAL, .b = RF_ZERO }, 0 },
        { "rf_initializer.a", { RF_INIT_RANDOM_UNIFORM, .a = RF_ZERO, .b = RF_ZERO }, 0 },
        { "rf_initializer.a", { RF_INIT_ORTHOGONAL, .a = RF_ZERO }, 0 },
        { "rf_initializer.a", { RF_INIT_CONSTANT, .a = RF_ZERO }, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_variable *v;
        float values[6], most = 0;
        OK(rf_variable_create(
            strategy, &(rf_variable_params){ .shape = RF_SHAPE(2, 3), .initializer = cases[i].initializer }, &v));
        OK(rf_variable_read(v, values));
        for (int k = 0; k < 6; k++) most = fmaxf(most, fabsf(values[k]));
        if (most != cases[i].most) fail_msg("%s: %g", cases[i].name, (double)most);
        rf_variable_destroy(&v);
    }
}

/* ---- layers and operations: one number each, of x = { 1e-4, -1e-4 } ---- */

typedef rf_tensor (*traced_fn)(rf_trace *t, rf_tensor x, float setting);
typedef struct traced_setting {
    const char *name;
    traced_fn trace;
    double by_default, zero; /* the first element of the result */
} traced_setting;

static rf_tensor trace_layer_norm(rf_trace *t, rf_tensor x, float epsilon)
{
    return rf_layer_norm(t, x, (rf_tensor){ 0 }, (rf_tensor){ 0 }, epsilon);
}

static rf_tensor trace_rms_norm(rf_trace *t, rf_tensor x, float epsilon)
{
    return rf_rms_norm(t, x, (rf_tensor){ 0 }, epsilon);
}

static rf_tensor trace_group_norm(rf_trace *t, rf_tensor x, float epsilon)
{
    return rf_group_norm(t, x, (rf_tensor){ 0 }, (rf_tensor){ 0 }, 1, -1, epsilon);
}

/* Two keys, of which the query likes one: without a scale the mean of the values. */
static rf_tensor trace_attention(rf_trace *t, rf_tensor x, float scale)
{
    const rf_tensor keys = rf_multiply(t, rf_reshape(t, x, RF_SHAPE(-1, 1, 2, 1)), rf_constant(t, 1e4f));
    const rf_tensor query = rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(1, 1, 1, 1), &(float){ 1 } });
    return rf_attention(t, query, keys, keys, &(rf_attention_params){ .scale = scale });
}

/* The first of four columns between two, a quarter in front of the first one. */
static rf_tensor trace_resize(rf_trace *t, rf_tensor x, float cubic)
{
    const rf_resize2d_params params = { .size = { 1, 4 }, .method = RF_RESIZE_BICUBIC, .cubic = cubic };
    return rf_resize2d(t, rf_reshape(t, x, RF_SHAPE(-1, 1, 2, 1)), &params);
}

static const double tanh_1 = 0.76159415595576489;
static const traced_setting operations[] = {
    { "rf_layer_norm(epsilon)", trace_layer_norm, 1e-4 / 0.031622934718, 1 },
    { "rf_rms_norm(epsilon)", trace_rms_norm, 1e-4 / 0.001004987562, 1 },
    { "rf_group_norm(epsilon)", trace_group_norm, 1e-4 / 0.031622934718, 1 },
    { "rf_attention_params.scale", trace_attention, tanh_1, 0 },
    { "rf_resize2d_params.cubic", trace_resize, 1.2109375e-4, 1e-4 },
};
enum { NUM_OPERATIONS = sizeof(operations) / sizeof(operations[0]) };

static rf_result trace_operations(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    for (int i = 0; i < NUM_OPERATIONS; i++) out[i] = operations[i].trace(t, in[0], *(const float *)user);
    return rf_trace_status(t);
}

static float pair[2] = { 1e-4f, -1e-4f };

static void operations_take_zero(rf_strategy *strategy)
{
    static const float settings[] = { 0, RF_ZERO };
    for (int k = 0; k < 2; k++) {
        rf_function *function;
        rf_per_replica *results[NUM_OPERATIONS];
        const rf_function_params params = { .step = trace_operations,
                                            .user = (void *)(uintptr_t)&settings[k],
                                            .num_outputs = NUM_OPERATIONS };
        OK(rf_function_create(strategy, &params, &function));
        const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(1, 2), pair) } };
        OK(rf_strategy_run(strategy, function, &batch, results));
        for (int i = 0; i < NUM_OPERATIONS; i++) {
            rf_array y;
            OK(rf_strategy_gather(strategy, results[i], &y));
            const double expected = k == 0 ? operations[i].by_default : operations[i].zero;
            assert_near((double)*(float *)y.data, expected, 1e-4, 1e-6, operations[i].name);
            rf_array_free(&y);
        }
        rf_function_destroy(&function);
    }
}

typedef struct layer_setting {
    const char *name;
    rf_result (*make)(double value, rf_layer **out);
    bool average;            /* it is the moving variance that shows it */
    double by_default, zero; /* of { 1e-4, -1e-4 }, { -1e-4, 1e-4 } the second element of the result */
} layer_setting;

static rf_result make_momentum(double value, rf_layer **out)
{
    return rf_layer_batch_norm(&(rf_batch_norm_params){ .momentum = value }, out);
}

static rf_result make_batch_norm(double value, rf_layer **out)
{
    return rf_layer_batch_norm(&(rf_batch_norm_params){ .epsilon = value }, out);
}

static rf_result make_layer_norm(double value, rf_layer **out)
{
    return rf_layer_layer_norm(&(rf_layer_norm_params){ .epsilon = value }, out);
}

static rf_result make_rms_norm(double value, rf_layer **out)
{
    return rf_layer_rms_norm(&(rf_rms_norm_params){ .epsilon = value }, out);
}

static rf_result make_group_norm(double value, rf_layer **out)
{
    return rf_layer_group_norm(&(rf_group_norm_params){ .epsilon = value, .groups = 1 }, out);
}

static rf_result make_leaky_relu(double value, rf_layer **out)
{
    return rf_layer_leaky_relu((float)value, out);
}

static const layer_setting layers[] = {
    { "rf_batch_norm_params.momentum", make_momentum, true, 0.99, 1e-8 },
    { "rf_batch_norm_params.epsilon", make_batch_norm, false, -1e-4 / 0.031622934718, -1 },
    { "rf_layer_norm_params.epsilon", make_layer_norm, false, -1e-4 / 0.031622934718, -1 },
    { "rf_rms_norm_params.epsilon", make_rms_norm, false, -1e-4 / 0.001004987562, -1 },
    { "rf_group_norm_params.epsilon", make_group_norm, false, -1e-4 / 0.031622934718, -1 },
    { "rf_layer_leaky_relu(negative_slope)", make_leaky_relu, false, -3e-5, 0 },
};

/* Saved and loaded before it runs. */
static double result_of_layer(rf_strategy *strategy, const layer_setting *s, double value)
{
    float x[4] = { 1e-4f, -1e-4f, -1e-4f, 1e-4f }, variances[2];
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(2, 2), x) } };
    rf_layer *layer;
    rf_model *made, *model;
    rf_function *function;
    rf_per_replica *result;
    rf_array y;
    OK(s->make(value, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(2), &made));
    OK(rf_model_save(made, in_folder("model"), NULL));
    OK(rf_model_load(strategy, in_folder("model"), &model));
    rf_model_destroy(&made);
    const rf_function_params params = { .step = call_for_training, .user = model, .num_outputs = 1, .training = true };
    OK(rf_function_create(strategy, &params, &function));
    OK(rf_strategy_run(strategy, function, &batch, &result));
    OK(rf_strategy_gather(strategy, result, &y));
    double is = (double)((const float *)y.data)[1];
    if (s->average) {
        OK(rf_variable_read(rf_model_state_variables(model).items[1], variances));
        is = (double)variances[0];
    }
    rf_array_free(&y);
    rf_function_destroy(&function);
    rf_model_destroy(&model);
    return is;
}

static void layers_take_zero(rf_strategy *strategy)
{
    for (size_t i = 0; i < sizeof(layers) / sizeof(layers[0]); i++) {
        const layer_setting *s = &layers[i];
        assert_near(result_of_layer(strategy, s, 0), s->by_default, 1e-4, 1e-9, s->name);
        assert_near(result_of_layer(strategy, s, (double)RF_ZERO), s->zero, 1e-4, 1e-9, s->name);
    }
}

/* ---- Muon as a part of a step ---- */

typedef struct muon_step {
    rf_variable *weight, *momentum;
    rf_optimizer *optimizer;
    double setting;
} muon_step;

static rf_result apply_muon(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)out;
    const muon_step *s = user;
    const rf_tensor ones = rf_reduce_sum(t, in[0], (int32_t[]){ 0 }, 1, RF_KEEP_DIMS);
    return rf_optimizer_apply_muon(t, s->optimizer, &ones, (rf_variable_list){ &s->weight, 1 }, &s->momentum,
                                   s->setting, 0);
}

/* It has then seen two gradients of { 1, 1 }. */
static float momentum_after_two(rf_strategy *strategy, double setting)
{
    const rf_variable_params state = { .shape = RF_SHAPE(1, 2),
                                       .initializer = { RF_INIT_ZEROS },
                                       .not_trainable = true };
    muon_step s = { .setting = setting };
    float ones[2] = { 1, 1 }, is[2];
    rf_function *function;
    OK(rf_variable_create(strategy, &(rf_variable_params){ .shape = RF_SHAPE(1, 2) }, &s.weight));
    OK(rf_variable_create(strategy, &state, &s.momentum));
    OK(rf_optimizer_create(strategy, NULL, &s.optimizer));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = apply_muon, .user = &s, .training = true },
                          &function));
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(1, 2), ones) } };
    for (int i = 0; i < 2; i++) OK(rf_strategy_run(strategy, function, &batch, NULL));
    OK(rf_variable_read(s.momentum, is));
    rf_function_destroy(&function);
    rf_optimizer_destroy(&s.optimizer);
    rf_variable_destroy(&s.momentum);
    rf_variable_destroy(&s.weight);
    return is[0];
}

static void muon_takes_zero(rf_strategy *strategy)
{
    static const char *const name = "rf_optimizer_apply_muon(momentum)";
    assert_near((double)momentum_after_two(strategy, 0), 1.95, 1e-6, 0, name);
    assert_near((double)momentum_after_two(strategy, (double)RF_ZERO), 1, 1e-6, 0, name);
}

/* ---- metrics ---- */

static rf_result measure(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)out;
    (void)rf_metric_update(t, user, in[0], in[1], (rf_tensor){ 0 });
    return rf_trace_status(t);
}

static void thresholds_take_zero(rf_strategy *strategy)
{
    float labels[2] = { 1, 1 }, predictions[2] = { 0.1f, 0.9f };
    const rf_element batch = { .num_components = 2,
                               .component = { array_f32(RF_SHAPE(2), labels), array_f32(RF_SHAPE(2), predictions) } };
    for (int k = 0; k < 2; k++) {
        rf_metric *metric;
        double accuracy;
        rf_function *function;
        OK(rf_metric_create(
            strategy, &(rf_metric_params){ .kind = RF_METRIC_BINARY_ACCURACY, .threshold = k ? RF_ZERO : 0 }, &metric));
        OK(rf_function_create(strategy, &(rf_function_params){ .step = measure, .user = metric }, &function));
        OK(rf_strategy_run(strategy, function, &batch, NULL));
        OK(rf_metric_result(metric, &accuracy));
        assert_near(accuracy, k ? 1 : 0.5, 1e-9, 0, "rf_metric_params.threshold");
        rf_function_destroy(&function);
        rf_metric_destroy(&metric);
    }
}

/* ---- callbacks: the rate after an epoch as good as the one before it ---- */

static double rate_on_plateau(rf_optimizer *optimizer, double factor, double min_delta, double value)
{
    const rf_reduce_lr_on_plateau_params params = { .factor = factor, .min_delta = min_delta, .patience = 1 };
    rf_fit_state state = { .optimizer = optimizer };
    rf_callback *callback;
    OK(rf_optimizer_set_learning_rate(optimizer, 1));
    OK(rf_callback_reduce_lr_on_plateau(&params, &callback));
    OK(callback->fns.on_train_begin(callback->user, &state));
    for (int i = 0; i < 2; i++) {
        rf_logs logs = { 0 };
        rf_logs_add(&logs, "val_loss", i ? value : 1);
        OK(callback->fns.on_epoch_end(callback->user, &state, &logs));
    }
    rf_callback_destroy(&callback);
    return rf_optimizer_learning_rate(optimizer);
}

static void plateaus_take_zero(rf_strategy *strategy)
{
    static const char *const factor = "rf_reduce_lr_on_plateau_params.factor",
                             *const min_delta = "rf_reduce_lr_on_plateau_params.min_delta";
    const double none = (double)RF_ZERO;
    rf_optimizer *optimizer;
    OK(rf_optimizer_create(strategy, NULL, &optimizer));
    assert_near(rate_on_plateau(optimizer, 0, 0, 1), 0.1, 1e-9, 0, factor);
    assert_near(rate_on_plateau(optimizer, none, 0, 1), 0, 0, 0, factor);
    assert_near(rate_on_plateau(optimizer, 0, 0, 0.99995), 0.1, 1e-9, 0, min_delta);
    assert_near(rate_on_plateau(optimizer, 0, none, 0.99995), 1, 0, 0, min_delta);
    rf_optimizer_destroy(&optimizer);
}

/* ---- files of events ---- */

static uint64_t events_of(const rf_event_writer *writer)
{
    rf_event_reader *reader;
    rf_event event;
    uint64_t count = 0;
    OK(rf_event_reader_open(rf_event_writer_path(writer), &reader));
    while (rf_event_reader_next(reader, &event) == RF_OK) count++;
    rf_event_reader_close(&reader);
    return count;
}

static void writers_take_zero(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        rf_event_writer *writer;
        const rf_event_writer_params params = { .directory = in_folder("events"),
                                                .flush_seconds = k ? (double)RF_ZERO : 0 };
        OK(rf_event_writer_create(&params, &writer));
        const uint64_t begin = events_of(writer);
        OK(rf_event_writer_scalar(writer, "x", 1, 1));
        if (events_of(writer) - begin != (uint64_t)k) fail_msg("rf_event_writer_params.flush_seconds");
        rf_event_writer_destroy(&writer);
    }
}

/* ---- where zero makes no sense ---- */

static const double zero = (double)RF_ZERO;

static rf_result configure(const rf_optimizer_params *params)
{
    rf_optimizer_config config;
    return rf_optimizer_configure(params, &config);
}

static rf_result make_comm(const rf_comm_params *params)
{
    rf_comm *comm;
    return rf_comm_create(params, &comm);
}

#define OPTIMIZER(...) configure(&(rf_optimizer_params){ __VA_ARGS__ })
#define COMM(...) make_comm(&(rf_comm_params){ .world_size = 1, __VA_ARGS__ })
#define REFUSED(name, call)                                                                                            \
    do {                                                                                                               \
        if ((call) != RF_ERROR_INVALID_ARGUMENT) fail_msg("%s takes RF_ZERO", name);                                   \
        const char *const member_ = strpbrk(name, ".(") + 1;                                                           \
        if (strncmp(member_, "a", 2) != 0 && !strstr(rf_error_message(), member_of(member_)))                          \
            fail_msg("%s: '%s'", name, rf_error_message());                                                            \
    } while (0)

static const char *member_of(const char *member)
{
    static char text[64];
    snprintf(text, sizeof(text), "%.*s", (int)strcspn(member, ")"), member);
    return text;
}

static rf_result trace_huber(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)out, (void)user;
    (void)rf_huber(t, in[0], in[0], RF_ZERO);
    return rf_trace_status(t);
}

static rf_result run_step(rf_strategy *strategy, rf_step_fn step)
{
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = step }, &function));
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(1, 2), pair) } };
    const rf_result r = rf_strategy_run(strategy, function, &batch, NULL);
    rf_function_destroy(&function);
    return r;
}

static rf_result trace_softcap(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)out, (void)user;
    const rf_tensor keys = rf_reshape(t, in[0], RF_SHAPE(-1, 1, 2, 1));
    (void)rf_attention(t, keys, keys, keys, &(rf_attention_params){ .softcap = RF_ZERO });
    return rf_trace_status(t);
}

static rf_result trace_scale(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)out, (void)user;
    const rf_tensor images = rf_reshape(t, in[0], RF_SHAPE(-1, 1, 2, 1));
    (void)rf_resize2d(t, images, &(rf_resize2d_params){ .size = { 1, 4 }, .scale = { 0, RF_ZERO } });
    return rf_trace_status(t);
}

static void optimizers_refuse_zero(void **state)
{
    (void)state;
    const rf_muon_params muon = { .rms_rate = zero };
    const rf_parameter_group group = { .names = "*", .muon = &muon };
    REFUSED("rf_optimizer_params.clip_value", OPTIMIZER(.clip_value = zero));
    REFUSED("rf_optimizer_params.clip_norm", OPTIMIZER(.clip_norm = zero));
    REFUSED("rf_optimizer_params.global_clip_norm", OPTIMIZER(.global_clip_norm = zero));
    REFUSED("rf_muon_params.rms_rate", OPTIMIZER(.kind = RF_OPTIMIZER_MUON, .groups = &group, .num_groups = 1));
    REFUSED("rf_loss_scale_params.initial", OPTIMIZER(.loss_scale = &(rf_loss_scale_params){ .initial = zero }));
    REFUSED("rf_schedule.t_mul",
            OPTIMIZER(.schedule = &(rf_schedule){
                          .kind = RF_SCHEDULE_COSINE_RESTARTS, .initial = 1, .decay_steps = 4, .t_mul = zero }));
}

static void jobs_refuse_zero(void **state)
{
    (void)state;
    rf_strategy *strategy;
    REFUSED("rf_comm_params.bootstrap_timeout", COMM(.bootstrap_timeout = zero));
    REFUSED("rf_comm_params.heartbeat_interval", COMM(.heartbeat_interval = zero));
    REFUSED("rf_comm_params.peer_timeout", COMM(.peer_timeout = zero));
    REFUSED("rf_comm_params.operation_timeout", COMM(.operation_timeout = zero));
    char *status;
    REFUSED("rf_status_params.timeout",
            rf_status_read(&(rf_status_params){ .directory = ".", .timeout = zero }, &status));
    REFUSED("rf_multi_worker_params.top_k_share",
            rf_strategy_create_multi_worker(
                &(rf_multi_worker_params){ .compression = RF_COMPRESSION_TOP_K, .top_k_share = zero }, &strategy));
}

static void adapters_refuse_zero(rf_strategy *strategy)
{
    rf_layer *layer;
    rf_model *model;
    OK(rf_layer_dense(&(rf_dense_params){ .units = 2 }, &layer));
    OK(rf_model_create_sequential(strategy, &layer, 1, &RF_SHAPE(2), &model));
    REFUSED("rf_lora_params.alpha", rf_lora_attach(model, "a", &(rf_lora_params){ .alpha = RF_ZERO }));
    rf_model_destroy(&model);
}
TEST_ON_ONE(adapters_refuse_zero)

static void others_refuse_zero(rf_strategy *strategy)
{
    rf_layer *layer;
    rf_dataset *arrays, *first, *second;
    rf_checkpoint *checkpoint;
    rf_checkpoint_manager *manager;
    rf_variable *variable;
    uint8_t pixels[4] = { 0 };
    const rf_array images = { RF_U8, RF_SHAPE(1, 2, 2, 1), pixels };
    const rf_dataset_arrays_params of = { .arrays = &images, .num_arrays = 1 };
    const rf_loss huber = { .kind = RF_LOSS_HUBER, .delta = RF_ZERO };
    const rf_initializer scaling = { .kind = RF_INIT_VARIANCE_SCALING, .a = RF_ZERO };
    const rf_multi_head_attention_params attention = { .num_heads = 1, .key_dim = 2, .rotary_base = RF_ZERO };
    const rf_multi_head_attention_params scaled = { .num_heads = 1, .key_dim = 2, .scale = RF_ZERO };
    const rf_multi_head_attention_params capped = { .num_heads = 1, .key_dim = 2, .softcap = RF_ZERO };
    const rf_multi_head_attention_params normed = { .num_heads = 1, .key_dim = 2, .query_key_norm = RF_ZERO };
    const rf_worker_params worker = { .strategy = strategy, .global_clip_norm = zero };
    OK(rf_dataset_from_arrays(&of, &arrays));
    OK(rf_checkpoint_create(strategy, &checkpoint));
    REFUSED("rf_worker_params.global_clip_norm", rf_worker_run(&worker));
    REFUSED("rf_layer_sine_position_encoding(max_wavelength)", rf_layer_sine_position_encoding(RF_ZERO, &layer));
    REFUSED("rf_multi_head_attention_params.rotary_base", rf_layer_multi_head_attention(&attention, &layer));
    REFUSED("rf_multi_head_attention_params.scale", rf_layer_multi_head_attention(&scaled, &layer));
#define SAMPLING(setting) rf_sampling_check(&(rf_sampling_params){ .setting = RF_ZERO }, "test")
    REFUSED("rf_sampling_params.temperature", SAMPLING(temperature));
    REFUSED("rf_sampling_params.top_p", SAMPLING(top_p));
    REFUSED("rf_sampling_params.min_p", SAMPLING(min_p));
    REFUSED("rf_sampling_params.repetition_penalty", SAMPLING(repetition_penalty));
#undef SAMPLING
    REFUSED("rf_multi_head_attention_params.softcap", rf_layer_multi_head_attention(&capped, &layer));
    REFUSED("rf_multi_head_attention_params.query_key_norm", rf_layer_multi_head_attention(&normed, &layer));
    REFUSED("rf_attention_params.softcap", run_step(strategy, trace_softcap));
    REFUSED("rf_resize2d_params.scale", run_step(strategy, trace_scale));
    REFUSED("rf_huber(delta)", run_step(strategy, trace_huber));
    REFUSED("rf_loss.delta", rf_loss_check(&huber, "a loss"));
    REFUSED(
        "rf_initializer.a",
        rf_variable_create(strategy, &(rf_variable_params){ .shape = RF_SHAPE(2), .initializer = scaling }, &variable));
    REFUSED("rf_checkpoint_manager_params.keep_every_hours",
            rf_checkpoint_manager_create(
                checkpoint,
                &(rf_checkpoint_manager_params){ .directory = in_folder("manager"), .keep_every_hours = zero },
                &manager));
    REFUSED("rf_split_params.fraction",
            rf_dataset_split(arrays, &(rf_split_params){ .fraction = zero }, &first, &second));
    REFUSED("rf_augment_params.deviation",
            rf_dataset_map_augment(arrays, 0, 1, &(rf_augment_params){ .deviation = { RF_ZERO } }, &first));
    REFUSED("rf_color_jitter_params.max_value",
            rf_dataset_map_color_jitter(arrays, 0, 1, &(rf_color_jitter_params){ .max_value = RF_ZERO }, &first));
    REFUSED("rf_affine_params.zoom",
            rf_dataset_map_affine(arrays, 0, 1, &(rf_affine_params){ .zoom = { RF_ZERO, 1 } }, &first));
    REFUSED("rf_erase_params.probability",
            rf_dataset_map_erase(arrays, 0, 1, &(rf_erase_params){ .probability = RF_ZERO }, &first));
    REFUSED("rf_erase_params.area",
            rf_dataset_map_erase(arrays, 0, 1, &(rf_erase_params){ .area = { RF_ZERO, 1 } }, &first));
    REFUSED("rf_erase_params.ratio",
            rf_dataset_map_erase(arrays, 0, 1, &(rf_erase_params){ .ratio = { RF_ZERO, 1 } }, &first));
    REFUSED("rf_mixup_params.alpha", rf_dataset_mixup(arrays, 1, &(rf_mixup_params){ .alpha = zero }, &first));
    rf_checkpoint_destroy(&checkpoint);
    rf_dataset_destroy(&arrays);
}

ON_ONE(initializers_take_zero)
ON_ONE(operations_take_zero)
ON_ONE(layers_take_zero)
ON_ONE(muon_takes_zero)
ON_ONE(thresholds_take_zero)
ON_ONE(plateaus_take_zero)
ON_ONE(others_refuse_zero)

TEST_PROGRAM(zero)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_take_zero),
        cmocka_unit_test(groups_take_zero),
        cmocka_unit_test(schedules_take_zero),
        cmocka_unit_test(initializers_take_zero_on_one),
        cmocka_unit_test(operations_take_zero_on_one),
        cmocka_unit_test_setup_teardown(layers_take_zero_on_one, make_folder, remove_folder),
        cmocka_unit_test(muon_takes_zero_on_one),
        cmocka_unit_test(thresholds_take_zero_on_one),
        cmocka_unit_test(plateaus_take_zero_on_one),
        cmocka_unit_test_setup_teardown(writers_take_zero, make_folder, remove_folder),
        cmocka_unit_test(optimizers_refuse_zero),
        cmocka_unit_test(jobs_refuse_zero),
        cmocka_unit_test_setup_teardown(others_refuse_zero_on_one, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
