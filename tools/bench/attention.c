/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench attention: the fused form beside the composed one, in turns, each in a process of its own, whose peak
 * of memory is then the form's. */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ringfire/ops.h>
#include <ringfire/strategy.h>

#include "bench/commands.h"
#include "bench/report.h"
#include "clock.h"
#include "net.h"
#include "options.h"

enum { MOST_ROUNDS = 99, FORMS = 2, LARGEST_LENGTH = 1 << 16 };
static const uint32_t default_lengths[] = { 128, 512, 1024, 2048 };

typedef struct attention_options {
    const char *device, *json_path;
    double seconds;
    uint32_t length, heads, width, rounds; /* length 0: the default ones */
    bool full;
} attention_options;

/* A process measures seconds of a forward pass, of one with its gradients, and its memory. */
typedef struct attention_result {
    char device[256];
    double forward, training, peak_bytes;
} attention_result;

/* ---- measuring, in the child ---- */

/* Queries, keys and values are variables: what is fed to a step would be copied to the device in each of them. */
typedef struct attention_case {
    rf_attention_params params;
    rf_variable *operand[3];
} attention_case;

static rf_result forward_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)in;
    const attention_case *c = user;
    rf_tensor x[3];
    for (int i = 0; i < 3; i++) x[i] = rf_variable_tensor(t, c->operand[i]);
    const rf_tensor y = rf_attention(t, x[0], x[1], x[2], &c->params);
    out[0] = rf_reduce_sum(t, rf_square(t, y), NULL, 0, RF_DROP_DIMS);
    return rf_trace_status(t);
}

/* Gradients are read through sums of squares, which is little beside what they take. */
static rf_result training_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const attention_case *c = user;
    rf_tensor gradients[3], x[3], loss;
    TRY(forward_step(t, in, &loss, user));
    for (int i = 0; i < 3; i++) x[i] = rf_variable_tensor(t, c->operand[i]);
    TRY(rf_gradients(t, loss, x, 3, gradients));
    out[0] = loss;
    for (int i = 0; i < 3; i++)
        out[0] = rf_add(t, out[0], rf_reduce_sum(t, rf_square(t, gradients[i]), NULL, 0, RF_DROP_DIMS));
    return rf_trace_status(t);
}

static rf_result time_step(rf_strategy *strategy, rf_step_fn step, attention_case *c, double seconds, double *out)
{
    rf_function *function;
    float unused = 0;
    const rf_element batch = { .num_components = 1, .component = { { RF_F32, RF_SHAPE(1, 1), &unused } } };
    rf_per_replica *results[1];
    float value;
    TRY(rf_function_create(
        strategy, &(rf_function_params){ .step = step, .user = c, .num_outputs = 1, .training = true }, &function));
    rf_result r = RF_OK;
    double start = 0;
    uint32_t steps = 0;
    for (int warm = 0; r >= 0 && warm < 2; warm++) {
        start = clock_seconds();
        steps = 0;
        do {
            r = rf_strategy_run(strategy, function, &batch, results);
            steps++;
        } while (r >= 0 && warm && clock_seconds() - start < seconds);
        if (r >= 0) r = rf_strategy_reduce(strategy, RF_REDUCE_SUM, results[0], &value);
    }
    *out = (clock_seconds() - start) / steps;
    rf_function_destroy(&function);
    return r;
}

static rf_result attention_measure(const attention_options *o, uint32_t length, rf_attention_form form,
                                   attention_result *out)
{
    const size_t count = (size_t)o->heads * length * o->width;
    attention_case c = { .params = { .causal = !o->full, .form = form } };
    rf_strategy *strategy = NULL;
    rf_result r = rf_strategy_create_one_device(&(rf_one_device_params){ .device = o->device }, &strategy);
    for (uint32_t i = 0; r >= 0 && i < 3; i++) {
        float *data = malloc(count * sizeof(float));
        if (!data) return RF_ERROR_OUT_OF_HOST_MEMORY;
        for (size_t e = 0; e < count; e++) data[e] = sinf((float)(e % 9973) * (1.1f + (float)i));
        r = rf_variable_create(strategy,
                               &(rf_variable_params){ .shape = RF_SHAPE(1, o->heads, length, o->width), .value = data },
                               &c.operand[i]);
        free(data);
    }
    if (r >= 0) {
        snprintf(out->device, sizeof(out->device), "%s", rf_strategy_device_name(strategy, 0));
        r = time_step(strategy, forward_step, &c, o->seconds, &out->forward);
    }
    if (r >= 0) r = time_step(strategy, training_step, &c, o->seconds, &out->training);
    if (r < 0) fprintf(stderr, "ringfire-bench: %s\n", rf_error_message());
    rf_strategy_destroy(&strategy);
    return r;
}

static bool run_form(const attention_options *o, uint32_t length, rf_attention_form form, attention_result *shared)
{
    int status = 0;
    struct rusage usage;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        const rf_result r = attention_measure(o, length, form, shared);
        getrusage(RUSAGE_SELF, &usage);
        shared->peak_bytes = (double)usage.ru_maxrss * 1024;
        bench_exit_child(r < 0 ? CODE_FAILED : CODE_OK);
    }
    if (pid < 0) {
        fprintf(stderr, "ringfire-bench: no process: %s\n", strerror(errno));
        return false;
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return false;
    return status == 0;
}

/* ---- the table ---- */

typedef struct attention_row {
    double forward[FORMS], training[FORMS], peak[FORMS]; /* medians; of memory the most; composed, fused */
    double forward_ratio, training_ratio;                /* medians of the rounds' ratios, composed / fused */
} attention_row;

static bool measure_row(const attention_options *o, uint32_t length, attention_result *shared, attention_row *row)
{
    double forward[FORMS][MOST_ROUNDS], training[FORMS][MOST_ROUNDS], ratios[2][MOST_ROUNDS];
    *row = (attention_row){ 0 };
    for (uint32_t k = 0; k < o->rounds; k++) {
        for (int f = 0; f < FORMS; f++) {
            if (!run_form(o, length, f ? RF_ATTENTION_FUSED : RF_ATTENTION_COMPOSED, shared)) return false;
            forward[f][k] = shared->forward;
            training[f][k] = shared->training;
            if (shared->peak_bytes > row->peak[f]) row->peak[f] = shared->peak_bytes;
        }
        ratios[0][k] = forward[0][k] / forward[1][k];
        ratios[1][k] = training[0][k] / training[1][k];
    }
    for (int f = 0; f < FORMS; f++) {
        row->forward[f] = bench_median(forward[f], o->rounds);
        row->training[f] = bench_median(training[f], o->rounds);
    }
    row->forward_ratio = bench_median(ratios[0], o->rounds);
    row->training_ratio = bench_median(ratios[1], o->rounds);
    return true;
}

static bool add_row(uint32_t length, const attention_row *row, table *rows, json_t *list)
{
    char cells[9][32];
    snprintf(cells[0], 32, "%u", length);
    for (int f = 0; f < FORMS; f++) {
        snprintf(cells[1 + f], 32, "%.2f", row->forward[f] * 1e3);
        snprintf(cells[4 + f], 32, "%.2f", row->training[f] * 1e3);
        snprintf(cells[7 + f], 32, "%.0f", row->peak[f] * 1e-6);
    }
    snprintf(cells[3], 32, "%.2f", row->forward_ratio);
    snprintf(cells[6], 32, "%.2f", row->training_ratio);
    json_array_append_new(list, json_pack("{s:i,s:f,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "length", (int)length,
                                          "composed_forward_seconds", row->forward[0], "fused_forward_seconds",
                                          row->forward[1], "forward_ratio", row->forward_ratio,
                                          "composed_training_seconds", row->training[0], "fused_training_seconds",
                                          row->training[1], "training_ratio", row->training_ratio,
                                          "composed_peak_bytes", row->peak[0], "fused_peak_bytes", row->peak[1]));
    return table_row(rows, (const char *[]){ cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6],
                                             cells[7], cells[8] });
}

static int run_all(const attention_options *o, attention_result *shared)
{
    static const char *const headings[] = { ">Length", ">Composed ms", ">Fused",       ">Ratio", ">Training ms",
                                            ">Fused",  ">Ratio",       ">Composed MB", ">Fused" };
    table rows;
    json_t *list = json_array();
    char about[400] = "";
    bool ok = table_begin(&rows, headings, 9);
    const uint32_t count = o->length ? 1 : sizeof(default_lengths) / sizeof(default_lengths[0]);
    for (uint32_t i = 0; ok && i < count; i++) {
        const uint32_t length = o->length ? o->length : default_lengths[i];
        attention_row row;
        memset(shared, 0, sizeof(*shared));
        ok = measure_row(o, length, shared, &row) && add_row(length, &row, &rows, list);
        snprintf(about, sizeof(about), "Device: %s; %u heads of %u, %s", shared->device, o->heads, o->width,
                 o->full ? "every key" : "causal");
    }
    json_t *result = json_pack("{s:s,s:i,s:i,s:b,s:o}", "device", shared->device, "heads", (int)o->heads, "width",
                               (int)o->width, "causal", !o->full, "lengths", list);
    return bench_report(o->json_path, about[0] ? about : NULL, &rows, result, ok);
}

/* ---- command ---- */

static const struct argp_option argp_options[] = {
    { "device", 'd', "NAME", 0, "Device: index or part of a name (default: the first usable one, GPUs before software)",
      0 },
    { "length", 'l', "N", 0, "Only sequences of this length (default: 128, 512, 1024, 2048)", 0 },
    { "heads", 'n', "N", 0, "Heads, of one example (default: 8)", 0 },
    { "width", 'w', "N", 0, "Width of queries, keys and values (default: 64)", 0 },
    { "full", 'f', NULL, 0, "Every query attends to every key (default: causal)", 0 },
    { "rounds", 'r', "N", 0, "Turns of each form (default: 3)", 0 },
    { "seconds", 's', "X", 0, "Time spent on each measurement (default: 1)", 0 },
    JSON_OPTION,
    { 0 },
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    attention_options *o = state->input;
    switch (key) {
    case 'd': o->device = text; return 0;
    case 'l': o->length = (uint32_t)option_number(state, "--length", text, 1, LARGEST_LENGTH); return 0;
    case 'n': o->heads = (uint32_t)option_number(state, "--heads", text, 1, 1024); return 0;
    case 'w': o->width = (uint32_t)option_number(state, "--width", text, 1, 1024); return 0;
    case 'f': o->full = true; return 0;
    case 'r': o->rounds = (uint32_t)option_number(state, "--rounds", text, 1, MOST_ROUNDS); return 0;
    case 's': o->seconds = option_seconds(state, "--seconds", text, 1e-6); return 0;
    case 'j': o->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not expected", text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_bench_attention(int argc, char **argv)
{
    attention_options o = { .seconds = 1, .heads = 8, .width = 64, .rounds = 3 };
    const struct argp parser = { argp_options,
                                 parse_option,
                                 "",
                                 "Compares the fused form of attention with the composed one on one device: a forward "
                                 "pass, one with its gradients, and the process's peak of memory. Ratios above 1 are "
                                 "in favour of the fused form.",
                                 NULL,
                                 NULL,
                                 NULL };
    command_parse(&parser, argc, argv, 0, &o);
    if (!json_can_write(o.json_path)) return CODE_FAILED;
    attention_result *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        fprintf(stderr, "ringfire-bench: no memory: %s\n", strerror(errno));
        return CODE_FAILED;
    }
    const int code = run_all(&o, shared);
    munmap(shared, sizeof(*shared));
    return code;
}
