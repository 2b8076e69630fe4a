/* SPDX-License-Identifier: Apache-2.0 */
#include "ps_cluster.h"
#include "../../tools/ports.h"
#include "../support/clock.h"
#include "../support/noise.h"
#include "custom_op/swish.h"
#include "step/step.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { IN = NUM_INPUTS, HIDDEN = 24, CLASSES = 4, NUM_EXAMPLES = 4096 };

uint32_t server_task(const cluster *c, uint32_t index)
{
    return 1 + c->params.num_workers + index;
}

static uint32_t num_tasks(const cluster *c)
{
    return 1 + c->params.num_workers + c->params.num_servers;
}

void pause_seconds(double seconds)
{
    const struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
    nanosleep(&t, NULL);
}

/* ---- data and model ---- */

typedef struct source {
    cluster *cluster;
    uint32_t worker;
    float inputs[512 * IN];
    int32_t labels[512];
} source;

/* Noise with a bright spot that tells the class. */
static void make_examples(source *s, uint64_t first, uint64_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t state = (uint32_t)((first + i) % NUM_EXAMPLES) * 2654435761u + 1;
        s->labels[i] = (int32_t)(mix(&state) % CLASSES);
        for (uint32_t k = 0; k < IN; k++) s->inputs[i * IN + k] = (float)mix(&state) / 16777216.0f;
        s->inputs[i * IN + (uint32_t)s->labels[i]] += 1.0f;
    }
}

void input_means(const cluster_params *params, uint32_t step_number, double means[NUM_INPUTS])
{
    source *s = calloc(1, sizeof(*s));
    make_examples(s, (uint64_t)step_number * params->batch, params->batch);
    for (uint32_t k = 0; k < IN; k++) {
        means[k] = 0;
        for (uint32_t i = 0; i < params->batch; i++) means[k] += (double)s->inputs[i * IN + k] / params->batch;
    }
    free(s);
}

static rf_result make_batch(void *user, uint64_t first, uint64_t count, rf_element *out)
{
    source *s = user;
    const cluster_params *p = &s->cluster->params;
    if (p->failing_first && first == p->failing_first) return p->failing_code;
    make_examples(s, first, count);
    *out = (rf_element){
        2, { { RF_F32, RF_SHAPE((int64_t)count, IN), s->inputs }, { RF_I32, RF_SHAPE((int64_t)count), s->labels } }
    };
    __atomic_fetch_add(&s->cluster->shared->batches, 1, __ATOMIC_SEQ_CST);
    pause_seconds(p->slow_worker == s->worker + 1 ? 0.03 : 0.001);
    return RF_OK;
}

static rf_result own_example(void *user, uint64_t index, rf_element *out)
{
    source *s = user;
    make_examples(s, index, 1);
    memcpy(out->component[0].data, s->inputs, IN * sizeof(float));
    memcpy(out->component[1].data, s->labels, sizeof(int32_t));
    return RF_OK;
}

static rf_result create_model(const cluster_params *p, rf_strategy *strategy, uint32_t hidden, rf_model **model)
{
    static swish_ops ops; /* of this process, to its end */
    rf_layer *layers[5];
    uint32_t n = 0;
    const rf_shape shape = RF_SHAPE(IN);
    rf_strategy_set_seed(strategy, 11);
    GO(rf_layer_dense(&(rf_dense_params){ .units = (int32_t)hidden, .activation = RF_ACTIVATION_TANH }, &layers[n++]));
    if (p->normalizes) GO(rf_layer_batch_norm(NULL, &layers[n++]));
    if (p->drops) GO(rf_layer_dropout(0.25f, 0, &layers[n++]));
    if (p->swishes && !ops.forward) GO(swish_create(&ops));
    if (p->swishes) GO(swish_layer(&ops, NULL, &layers[n++]));
    GO(rf_layer_dense(&(rf_dense_params){ .units = CLASSES }, &layers[n++]));
    return rf_model_create_sequential(strategy, layers, n, &shape, model);
}

typedef struct step_state {
    bool drops;
    rf_model *model;
    rf_optimizer *optimizer; /* NULL: only the loss */
    rf_variable *counter;    /* that the step assigns; NULL: none */
    rf_variable *means;
    rf_variable **state; /* what servers hold besides the model's variables */
    uint32_t num_state;
} step_state;

static rf_tensor add_noise(rf_trace *t, rf_tensor x)
{
    static const int32_t swap[] = { 1, 0 };
    const rf_tensor turned = rf_transpose(t, x, swap);
    const rf_tensor noise = rf_multiply(t, rf_random_normal(t, turned, 0), rf_constant(t, 0.2f));
    return rf_transpose(t, rf_add(t, turned, noise), swap);
}

static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    static const rf_loss loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_NONE };
    const step_state *s = user;
    const rf_tensor x = s->drops && rf_trace_training(t) ? add_noise(t, in[0]) : in[0];
    const rf_tensor logits = rf_model_call(t, s->model, x, RF_TRAINING);
    out[0] = rf_compute_average_loss(t, rf_loss_call(t, &loss, in[1], logits), NULL);
    if (s->optimizer) rf_optimizer_minimize(t, s->optimizer, out[0], rf_model_variables(s->model));
    if (!s->counter) return rf_trace_status(t);
    rf_variable_update(t, s->counter, rf_add(t, rf_variable_tensor(t, s->counter), rf_constant(t, 1)),
                       RF_AGGREGATE_FIRST_REPLICA);
    const rf_tensor old = rf_multiply(t, rf_variable_tensor(t, s->means), rf_constant(t, 0.9375f));
    const rf_tensor now = rf_reduce_mean(t, in[0], (const int32_t[]){ 0 }, 1, RF_DROP_DIMS);
    rf_variable_update(t, s->means, rf_add(t, old, rf_multiply(t, now, rf_constant(t, 0.0625f))), RF_AGGREGATE_MEAN);
    return rf_trace_status(t);
}

/* Model, what steps assign, and a list of what no optimizer updates. */
static rf_result create_step(const cluster_params *p, rf_strategy *strategy, uint32_t hidden, step_state *s)
{
    s->drops = p->drops;
    GO(create_model(p, strategy, hidden, &s->model));
    const rf_variable_list own = rf_model_state_variables(s->model);
    s->state = calloc(own.count + 2, sizeof(rf_variable *));
    for (uint32_t i = 0; i < own.count; i++) s->state[s->num_state++] = own.items[i];
    if (!p->counts) return RF_OK;
    const rf_variable_params counter = { .name = "counter",
                                         .initializer = { .kind = RF_INIT_ZEROS },
                                         .not_trainable = true };
    rf_variable_params means = counter;
    means.name = "means";
    means.shape = RF_SHAPE(IN);
    GO(rf_variable_create(strategy, &counter, &s->counter));
    GO(rf_variable_create(strategy, &means, &s->means));
    s->state[s->num_state++] = s->counter;
    s->state[s->num_state++] = s->means;
    return RF_OK;
}

static rf_variable_list state_of(const cluster_params *p, const step_state *s)
{
    return (rf_variable_list){ s->state, p->hides ? 0 : s->num_state };
}

static void destroy_step(step_state *s)
{
    rf_variable_destroy(&s->counter);
    rf_variable_destroy(&s->means);
    rf_optimizer_destroy(&s->optimizer);
    rf_model_destroy(&s->model);
    free(s->state);
}

static rf_result store_values(const step_state *s, shared_state *out)
{
    const rf_variable_list trained = rf_model_variables(s->model);
    out->num_values = 0;
    for (uint32_t i = 0; i < trained.count + s->num_state; i++) {
        rf_variable *v = i < trained.count ? trained.items[i] : s->state[i - trained.count];
        const uint32_t count = (uint32_t)rf_shape_count(rf_variable_shape(v));
        if (out->num_values + count > MAX_VALUES) return RF_ERROR_INTERNAL;
        GO(rf_variable_read(v, out->values + out->num_values));
        out->num_values += count;
    }
    return RF_OK;
}

/* Steps [begin, end) without a cluster. */
static rf_result train_locally(cluster *c, rf_strategy *strategy, step_state *s, uint32_t begin, uint32_t end)
{
    rf_function *function;
    rf_per_replica *results[1];
    rf_element batch;
    rf_result r = RF_OK;
    source *examples = calloc(1, sizeof(*examples));
    examples->cluster = c;
    GO(rf_function_create(strategy, &(rf_function_params){ step, s, 1, "train", true }, &function));
    rf_function_set_step(function, begin);
    for (uint32_t i = begin; i < end && r >= 0; i++) {
        r = make_batch(examples, (uint64_t)i * c->params.batch, c->params.batch, &batch);
        if (r >= 0) r = rf_strategy_run(strategy, function, &batch, results);
        if (r >= 0) r = rf_strategy_reduce(strategy, RF_REDUCE_SUM, results[0], &c->shared->losses[i]);
    }
    rf_function_destroy(&function);
    free(examples);
    return r;
}

static uint64_t hash_variables(const rf_model *model)
{
    uint64_t hash = 14695981039346656037u;
    const rf_variable_list list = rf_model_variables(model);
    for (uint32_t i = 0; i < list.count; i++) {
        const size_t count = (size_t)rf_shape_count(rf_variable_shape(list.items[i]));
        unsigned char *bytes = calloc(count, sizeof(float));
        if (rf_variable_read(list.items[i], (float *)(void *)bytes) < 0) hash = 0;
        for (size_t k = 0; k < count * sizeof(float); k++) hash = (hash ^ bytes[k]) * 1099511628211u;
        free(bytes);
    }
    return hash;
}

/* ---- tasks ---- */

static rf_comm_params comm_of(const cluster_params *p)
{
    return (rf_comm_params){ .insecure = !p->key_file,
                             .key_file = p->key_file,
                             .encrypt = p->key_file != NULL,
                             .bootstrap_timeout = p->bootstrap_timeout > 0 ? p->bootstrap_timeout : 20,
                             .peer_timeout = p->peer_timeout > 0 ? p->peer_timeout : 5,
                             .operation_timeout = 40 };
}

static rf_result run_server(cluster *c)
{
    const rf_parameter_server_params params = { .comm = comm_of(&c->params), .device = { .device = "llvmpipe" } };
    return rf_parameter_server_run(&params);
}

static rf_result create_own_data(source *s, rf_dataset **out)
{
    rf_dataset *examples = NULL, *part = NULL;
    const cluster_params *p = &s->cluster->params;
    const rf_dataset_generator_params params = {
        .generate = own_example,
        .user = s,
        .spec = { 2, { RF_F32, RF_I32 }, { RF_SHAPE(IN), RF_SCALAR_SHAPE } },
        .cardinality = 1500,
    };
    GO(rf_dataset_from_generator(&params, &examples));
    const uint32_t parts = p->sharded ? p->num_workers : 1;
    rf_result r = rf_dataset_shard(examples, parts, p->sharded ? s->worker : 0, &part);
    if (r == RF_OK) r = rf_dataset_batch(part, 16, RF_REMAINDER_KEEP, out);
    rf_dataset_destroy(&examples);
    rf_dataset_destroy(&part);
    return r;
}

static rf_result run_worker(cluster *c, uint32_t index)
{
    const cluster_params *p = &c->params;
    rf_strategy *strategy = NULL;
    const rf_mirrored_params mirrored = { .devices = p->worker_devices ? p->worker_devices : "llvmpipe" };
    step_state train = { 0 }, evaluate = { 0 };
    rf_function *functions[2] = { 0 };
    rf_dataset *data = NULL;
    source *s = calloc(1, sizeof(*s));
    s->cluster = c;
    s->worker = index;
    GO(rf_strategy_create_mirrored(&mirrored, &strategy));
    GO(create_step(p, strategy, p->different_worker == index + 1 ? HIDDEN + 1 : HIDDEN, &train));
    GO(rf_optimizer_create_remote(strategy, &train.optimizer));
    evaluate.model = train.model;
    GO(rf_function_create(strategy, &(rf_function_params){ step, &train, 1, "train", true }, &functions[0]));
    GO(rf_function_create(strategy, &(rf_function_params){ step, &evaluate, 1, "loss", false }, &functions[1]));
    if (p->own_data) GO(create_own_data(s, &data));
    rf_strategy_set_seed(strategy, 100 + index); /* numbers are drawn from the chief's */
    const rf_worker_function list[] = {
        { .name = "train",
          .function = functions[0],
          .num_results = 1,
          .batch = p->own_data ? NULL : make_batch,
          .user = s,
          .data = data,
          .whole_data = p->whole_data },
        { .name = "loss",
          .function = functions[1],
          .num_results = 1,
          .no_update = true,
          .batch = make_batch,
          .user = s },
    };
    const rf_worker_params params = { .comm = comm_of(p),
                                      .strategy = strategy,
                                      .variables = rf_model_variables(train.model),
                                      .state_variables =
                                          p->hiding_worker == index + 1 ? (rf_variable_list){ 0 } : state_of(p, &train),
                                      .functions = list,
                                      .num_functions = 2,
                                      .global_clip_norm =
                                          p->worker_clip_norm * (p->clipping_worker == index + 1 ? 0.5 : 1) };
    const rf_result r = rf_worker_run(&params);
    rf_function_destroy(&functions[0]);
    rf_function_destroy(&functions[1]);
    destroy_step(&train);
    rf_strategy_destroy(&strategy);
    rf_dataset_destroy(&data);
    free(s);
    return r;
}

/* The cluster's part, after which the chief has everything. */
static rf_result coordinate(cluster *c, step_state *s)
{
    const cluster_params *p = &c->params;
    rf_coordinator *coordinator = NULL;
    const rf_coordinator_params params = { .comm = comm_of(p),
                                           .variables = rf_model_variables(s->model),
                                           .state_variables = state_of(p, s),
                                           .optimizer = s->optimizer ? NULL : &p->optimizer,
                                           .local_optimizer = s->optimizer,
                                           .synchronous = p->synchronous,
                                           .max_ahead = p->max_ahead,
                                           .max_shard_bytes = p->max_shard_bytes };
    rf_result r = rf_coordinator_create(&params, &coordinator);
    if (r == RF_OK) r = p->chief(c, coordinator, s->model);
    if (r == RF_OK && s->optimizer) r = rf_coordinator_read_optimizer(coordinator);
    snprintf(c->shared->reports[0].message, sizeof(c->shared->reports[0].message), "%s",
             r < 0 ? rf_error_message() : "");
    rf_coordinator_get_stats(coordinator, &c->shared->stats);
    rf_coordinator_destroy(&coordinator);
    return r;
}

static rf_result run_chief(cluster *c)
{
    const cluster_params *p = &c->params;
    const uint32_t mine = p->before + p->steps;
    rf_strategy *strategy = NULL;
    step_state s = { 0 };
    GO(rf_strategy_create_one_device(&(rf_one_device_params){ .device = "llvmpipe" }, &strategy));
    GO(create_step(p, strategy, HIDDEN, &s));
    if (p->before + p->after > 0) GO(rf_optimizer_create(strategy, &p->optimizer, &s.optimizer));
    GO(train_locally(c, strategy, &s, 0, p->before));
    rf_result r = coordinate(c, &s);
    if (r == RF_OK) r = train_locally(c, strategy, &s, mine, mine + p->after);
    if (r == RF_OK) r = store_values(&s, c->shared);
    destroy_step(&s);
    rf_strategy_destroy(&strategy);
    return r;
}

rf_result finish_training(cluster *c, rf_coordinator *coordinator, rf_model *model)
{
    rf_remote_value *value;
    GO(rf_coordinator_join(coordinator));
    GO(rf_coordinator_schedule(coordinator, "loss", 0, 480, &value));
    const rf_result r = rf_remote_value_fetch(value, &c->shared->final_loss, 1);
    rf_remote_value_destroy(&value);
    GO(r);
    GO(rf_coordinator_read_variables(coordinator));
    c->shared->hash = hash_variables(model);
    return RF_OK;
}

rf_result train_all(cluster *c, rf_coordinator *coordinator, rf_model *model)
{
    const cluster_params *p = &c->params;
    rf_remote_value *values[MAX_LOSSES];
    const uint64_t count = p->own_data ? 0 : p->batch;
    for (uint32_t i = 0; i < p->steps; i++)
        GO(rf_coordinator_schedule(coordinator, "train", (p->before + i) * count, count, &values[i]));
    for (uint32_t i = 0; i < p->steps; i++) {
        GO(rf_remote_value_fetch(values[i], &c->shared->losses[p->before + i], 1));
        rf_remote_value_destroy(&values[i]);
        c->shared->progress = i + 1;
    }
    return finish_training(c, coordinator, model);
}

/* ---- processes ---- */

void cluster_config(const cluster *c, uint32_t task, char text[CLUSTER_CONFIG])
{
    int at = snprintf(text, CLUSTER_CONFIG, "{\"cluster\": {\"chief\": [\"127.0.0.1:%u\"], \"worker\": [", c->ports[0]);
    for (uint32_t w = 0; w < c->params.num_workers; w++)
        at += snprintf(text + at, (size_t)CLUSTER_CONFIG - (size_t)at, "%s\"127.0.0.1:%u\"", w ? ", " : "",
                       c->ports[worker_task(w)]);
    at += snprintf(text + at, (size_t)CLUSTER_CONFIG - (size_t)at, "], \"ps\": [");
    for (uint32_t s = 0; s < c->params.num_servers; s++)
        at += snprintf(text + at, (size_t)CLUSTER_CONFIG - (size_t)at, "%s\"127.0.0.1:%u\"", s ? ", " : "",
                       c->ports[server_task(c, s)]);
    const bool worker = task >= 1 && task < server_task(c, 0);
    snprintf(text + at, (size_t)CLUSTER_CONFIG - (size_t)at, "]}, \"task\": {\"type\": \"%s\", \"index\": %u}}",
             task == 0 ? "chief"
             : worker  ? "worker"
                       : "ps",
             task == 0 ? 0
             : worker  ? task - 1
                       : task - server_task(c, 0));
}

void cluster_start_task(cluster *c, uint32_t task)
{
    task_report *mine = &c->shared->reports[task];
    mine->ended = false;
    mine->result = RF_ERROR_CANCELLED; /* stays where the process ends early */
    c->pids[task] = fork();
    assert_true(c->pids[task] >= 0);
    if (c->pids[task] > 0) return;
    alarm(150); /* a task that hangs is a failure, not a hanging test */
    char config[CLUSTER_CONFIG];
    cluster_config(c, task, config);
    setenv("TF_CONFIG", config, 1);
    const rf_result r = task == 0 ? run_chief(c) : task < server_task(c, 0) ? run_worker(c, task - 1) : run_server(c);
    mine->result = r;
    if (r < 0 && !mine->message[0]) snprintf(mine->message, sizeof(mine->message), "%s", rf_error_message());
    mine->ended_at = seconds_now();
    mine->ended = true;
    _exit(0);
}

/* Skips the test where its device is not installed, instead of waiting for a cluster that cannot begin. Looked for in a
 * process of its own: the tasks are forked from this one, which opens no driver. */
static void require_device(void)
{
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        rf_device_info infos[16];
        uint32_t count = 16;
        bool found = false;
        if (rf_devices_list(infos, &count) == RF_OK)
            for (uint32_t i = 0; i < count && i < 16; i++) found |= strcmp(infos[i].driver_name, "llvmpipe") == 0;
        _exit(found ? 0 : 77);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) != 0) SKIP("not installed: llvmpipe");
}

void cluster_start(cluster *c, const cluster_params *params)
{
    require_device();
    *c = (cluster){ .params = *params };
    if (!c->params.chief) c->params.chief = train_all;
    c->shared = mmap(NULL, sizeof(*c->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(c->shared != MAP_FAILED);
    assert_true(free_ports(c->ports, num_tasks(c)));
    for (uint32_t i = 0; i < num_tasks(c); i++) cluster_start_task(c, i);
}

void cluster_signal(cluster *c, uint32_t task, int signal)
{
    assert_true(c->pids[task] > 0);
    assert_int_equal(kill(c->pids[task], signal), 0);
    int status;
    if (signal == SIGKILL) waitpid(c->pids[task], &status, 0);
    if (signal == SIGKILL) c->pids[task] = 0;
}

void cluster_wait(cluster *c)
{
    for (uint32_t i = 0; i < num_tasks(c); i++) {
        int status;
        if (c->pids[i] <= 0) continue;
        if (waitpid(c->pids[i], &status, 0) == c->pids[i] && WIFSIGNALED(status))
            fail_msg("task %u was ended by signal %d", i, WTERMSIG(status));
        c->pids[i] = 0;
    }
}

void check_ended_well(const cluster *c)
{
    for (uint32_t i = 0; i < num_tasks(c); i++)
        if (c->shared->reports[i].result != RF_OK)
            fail_msg("task %u: %s: %s", i, rf_result_name(c->shared->reports[i].result), c->shared->reports[i].message);
}

void cluster_free(cluster *c)
{
    munmap(c->shared, sizeof(*c->shared));
    c->shared = NULL;
}

/* ---- the reference ---- */

static rf_result run_alone(cluster *c)
{
    const cluster_params *p = &c->params;
    rf_strategy *strategy;
    step_state train = { 0 }, evaluate = { 0 };
    rf_function *loss;
    rf_per_replica *results[1];
    rf_element batch;
    source *s = calloc(1, sizeof(*s));
    s->cluster = c;
    if (p->alone_devices)
        GO(rf_strategy_create_mirrored(&(rf_mirrored_params){ .devices = p->alone_devices }, &strategy));
    else
        GO(rf_strategy_create_one_device(&(rf_one_device_params){ .device = "llvmpipe" }, &strategy));
    GO(create_step(p, strategy, HIDDEN, &train));
    evaluate.model = train.model;
    rf_optimizer_params clipping = p->optimizer;
    clipping.global_clip_norm = p->worker_clip_norm;
    GO(rf_optimizer_create(strategy, &clipping, &train.optimizer));
    GO(train_locally(c, strategy, &train, 0, p->before + p->steps + p->after));
    GO(store_values(&train, c->shared));
    GO(rf_function_create(strategy, &(rf_function_params){ step, &evaluate, 1, "loss", false }, &loss));
    GO(make_batch(s, 0, 480, &batch));
    GO(rf_strategy_run(strategy, loss, &batch, results));
    return rf_strategy_reduce(strategy, RF_REDUCE_SUM, results[0], &c->shared->final_loss);
}

void train_alone(const cluster_params *params, shared_state *out)
{
    require_device();
    cluster c = { .params = *params };
    c.shared = mmap(NULL, sizeof(*c.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(c.shared != MAP_FAILED);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        c.shared->reports[0].result = run_alone(&c);
        snprintf(c.shared->reports[0].message, sizeof(c.shared->reports[0].message), "%s", rf_error_message());
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    memcpy(out, c.shared, sizeof(*out));
    munmap(c.shared, sizeof(*c.shared));
    if (!WIFEXITED(status) || out->reports[0].result < 0) fail_msg("alone: %s", out->reports[0].message);
}
