/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench zoo: how fast the networks of the examples train on one device, each in a process of its own, whose
 * peak of memory is then the network's. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/commands.h"
#include "bench/report.h"
#include "bench/zoo.h"
#include "clock.h"
#include "options.h"

enum { SLICES = 5 };

/* ---- measuring ---- */

rf_result zoo_net_create(zoo_net *n, const zoo_entry *e, const zoo_options *o)
{
    n->mixed = o->mixed;
    TRY(bench_net_create_strategy(&n->net, o->device, o->mixed));
    TRY(e->create(n));
    TRY(bench_net_create_optimizer(&n->net, &e->optimizer, o->mixed));
    TRY(zoo_create_step(n, e));
    return e->make_batch(n, o->batch ? o->batch : e->batch);
}

void zoo_net_destroy(zoo_net *n, const zoo_entry *e)
{
    rf_function_destroy(&n->net.step); /* before the network, whose model it calls */
    n->net.model = NULL;
    if (n->network) e->destroy(n);
    bench_net_destroy(&n->net);
    for (int i = 0; i < RF_MAX_COMPONENTS; i++) free(n->owned[i]);
}

rf_result zoo_run_steps(zoo_net *n, double seconds, double *step)
{
    rf_per_replica *results[1];
    float loss;
    uint32_t steps = 0;
    const double start = clock_seconds();
    do {
        TRY(rf_strategy_run(n->net.strategy, n->net.step, &n->net.batch, results));
        steps++;
    } while (clock_seconds() - start < seconds);
    TRY(rf_strategy_reduce(n->net.strategy, RF_REDUCE_SUM, results[0], &loss));
    *step = (clock_seconds() - start) / steps;
    return RF_OK;
}

static rf_result zoo_net_profile(zoo_net *n, uint32_t batch, zoo_result *out)
{
    rf_bench_node *nodes;
    uint32_t count;
    TRY(rf_bench_function(n->net.step, batch, &nodes, &count));
    out->num_nodes = count < ZOO_MAX_NODES ? count : ZOO_MAX_NODES;
    for (uint32_t i = 0; i < out->num_nodes; i++) {
        zoo_node *node = &out->nodes[i];
        node->times = nodes[i];
        snprintf(node->op, sizeof(node->op), "%s", nodes[i].op);
        snprintf(node->kernel, sizeof(node->kernel), "%s", nodes[i].kernel);
    }
    rf_bench_nodes_free(nodes);
    return RF_OK;
}

static rf_result zoo_net_measure(zoo_net *n, const zoo_entry *e, const zoo_options *o, zoo_result *out)
{
    const double began = clock_seconds();
    double slices[SLICES];
    TRY(zoo_net_create(n, e, o));
    snprintf(out->device, sizeof(out->device), "%s", rf_strategy_device_name(n->net.strategy, 0));
    TRY(zoo_run_steps(n, 0, &out->step));
    out->first_step = clock_seconds() - began;
    const rf_variable_list variables = rf_model_variables(n->net.model);
    for (uint32_t i = 0; i < variables.count; i++)
        out->parameters += (uint64_t)rf_shape_count(rf_variable_shape(variables.items[i]));
    for (int i = 0; i < SLICES; i++) TRY(zoo_run_steps(n, o->seconds / SLICES, &slices[i]));
    out->step = bench_median(slices, SLICES);
    return o->profile ? zoo_net_profile(n, o->batch ? o->batch : e->batch, out) : RF_OK;
}

static int run_child(const zoo_entry *e, const zoo_options *o, zoo_result *out)
{
    zoo_net n = { 0 };
    struct rusage usage;
    const rf_result r = zoo_net_measure(&n, e, o, out);
    if (r < 0) fprintf(stderr, "ringfire-bench: %s: %s\n", e->name, rf_error_message());
    zoo_net_destroy(&n, e);
    getrusage(RUSAGE_SELF, &usage);
    out->peak_bytes = (double)usage.ru_maxrss * 1024;
    return r < 0 ? CODE_FAILED : CODE_OK;
}

bool zoo_run_entry(const zoo_entry *e, const zoo_options *o, zoo_result *out)
{
    int status = 0;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) bench_exit_child(o->first ? zoo_first_child(e, o, out) : run_child(e, o, out));
    if (pid < 0) {
        fprintf(stderr, "ringfire-bench: no process for %s: %s\n", e->name, strerror(errno));
        return false;
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return false;
    if (WIFSIGNALED(status)) fprintf(stderr, "ringfire-bench: %s: %s\n", e->name, strsignal(WTERMSIG(status)));
    return status == 0;
}

/* ---- command ---- */

static const struct argp_option argp_options[] = {
    { "device", 'd', "NAME", 0, "Device: index or part of a name (default: the first usable one, GPUs before software)",
      0 },
    { "model", 'm', "NAME", 0, "Only this network (default: all)", 0 },
    { "batch", 'b', "N", 0, "Examples per step (default: that of each network)", 0 },
    { "first-step", 'f', NULL, 0,
      "Only the first step, with empty caches and then with what that left there: time, processor, pipelines, memory",
      0 },
    { "mixed", 'x', "TYPE", 0, "Compute with f16 (and scaled losses) or bf16 where layers can", 0 },
    { "profile", 'p', NULL, 0, "Add the time of each operation of the step of the network that --model names", 0 },
    { "seconds", 's', "X", 0, "Time spent on each network after its first step (default: 5)", 0 },
    JSON_OPTION,
    { 0 },
};

const zoo_entry *zoo_entry_find(const char *name)
{
    for (size_t i = 0; i < zoo_num_entries; i++)
        if (strcmp(zoo_entries[i].name, name) == 0) return &zoo_entries[i];
    return NULL;
}

void zoo_check_name(struct argp_state *state, const char *name)
{
    char known[200] = "";
    if (zoo_entry_find(name)) return;
    for (size_t i = 0; i < zoo_num_entries; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof(known) - used, "%s%s", i ? ", " : "", zoo_entries[i].name);
    }
    argp_error(state, "there is no network '%s'; possible are %s", name, known);
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    zoo_options *o = state->input;
    switch (key) {
    case 'd': o->device = text; return 0;
    case 'm':
        zoo_check_name(state, text);
        o->model = text;
        return 0;
    case 'b': o->batch = (uint32_t)option_number(state, "--batch", text, 1, 1u << 16); return 0;
    case 's': o->seconds = option_seconds(state, "--seconds", text, 1e-6); return 0;
    case 'p': o->profile = true; return 0;
    case 'f': o->first = true; return 0;
    case 'x': o->mixed = bench_narrow_type(state, "--mixed", text); return 0;
    case 'j': o->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_END:
        if (o->profile && !o->model) argp_error(state, "--profile needs --model=NAME");
        if (o->profile && o->first) argp_error(state, "--profile and --first-step: say one of them");
        return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not expected", text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static bool add_row(const zoo_entry *e, const zoo_options *o, const zoo_result *m, table *rows, json_t *list)
{
    const uint32_t batch = o->batch ? o->batch : e->batch;
    const double rate = batch * e->units / m->step;
    char cells[6][32];
    snprintf(cells[0], 32, "%llu", (unsigned long long)m->parameters);
    snprintf(cells[1], 32, "%u", batch);
    snprintf(cells[2], 32, "%.0f %s", rate, e->unit);
    snprintf(cells[3], 32, "%.2f", m->step * 1e3);
    snprintf(cells[4], 32, "%.2f", m->first_step);
    snprintf(cells[5], 32, "%.0f", m->peak_bytes * 1e-6);
    json_array_append_new(list, json_pack("{s:s,s:s,s:s,s:I,s:i,s:f,s:f,s:f,s:f}", "model", e->name, "unit", e->unit,
                                          "device", m->device, "parameters", (json_int_t)m->parameters, "batch",
                                          (int)batch, "units_per_second", rate, "step_seconds", m->step,
                                          "first_step_seconds", m->first_step, "peak_bytes", m->peak_bytes));
    return table_row(rows, (const char *[]){ e->name, cells[0], cells[1], cells[2], cells[3], cells[4], cells[5] });
}

/* The table goes behind that of the networks. */
static bool make_profile(const zoo_result *m, table *rows, json_t **list)
{
    rf_bench_node *nodes = calloc(m->num_nodes + 1, sizeof(*nodes));
    for (uint32_t i = 0; nodes && i < m->num_nodes; i++) {
        nodes[i] = m->nodes[i].times;
        nodes[i].op = m->nodes[i].op;
        nodes[i].kernel = m->nodes[i].kernel;
    }
    const bool ok = bench_profile(nodes, nodes ? m->num_nodes : 0, rows, list) && nodes;
    free(nodes);
    return ok;
}

static int run_all(const zoo_options *o, zoo_result *shared)
{
    static const char *const headings[] = { "Network",  ">Parameters",   ">Batch",         ">Per second",
                                            ">Step ms", ">First step s", ">Peak memory MB" };
    table rows;
    json_t *list = json_array();
    bool ok = table_begin(&rows, headings, 7);
    char about[300] = "";
    for (size_t i = 0; i < zoo_num_entries; i++) {
        if (o->model && &zoo_entries[i] != zoo_entry_find(o->model)) continue;
        memset(shared, 0, sizeof(*shared));
        if (!zoo_run_entry(&zoo_entries[i], o, shared)) {
            ok = false;
            continue;
        }
        snprintf(about, sizeof(about), "Device: %s", shared->device);
        ok &= add_row(&zoo_entries[i], o, shared, &rows, list);
    }
    json_t *result = json_pack("{s:o}", "networks", list);
    table nodes;
    json_t *profile = NULL;
    ok &= make_profile(shared, &nodes, &profile);
    if (o->profile) json_object_set(result, "profile", profile);
    json_decref(profile);
    const int code = bench_report(o->json_path, about[0] ? about : NULL, &rows, result, ok);
    if (o->profile && !json_replaces_text(o->json_path)) table_print(&nodes, stdout);
    table_free(&nodes);
    return code;
}

int command_bench_zoo(int argc, char **argv)
{
    zoo_options o = { .seconds = 5 };
    const struct argp parser = { argp_options, parse_option,
                                 "",           "Measures how fast the networks of the examples train on one device.",
                                 NULL,         NULL,
                                 NULL };
    command_parse(&parser, argc, argv, 0, &o);
    if (!json_can_write(o.json_path)) return CODE_FAILED;
    zoo_result *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        fprintf(stderr, "ringfire-bench: no memory: %s\n", strerror(errno));
        return CODE_FAILED;
    }
    const int code = o.first ? zoo_first_steps(&o, shared) : run_all(&o, shared);
    munmap(shared, sizeof(*shared));
    return code;
}
