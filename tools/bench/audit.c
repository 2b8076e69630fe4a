/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench audit: what each kernel gains the networks of the examples on one device, by leaving it out. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "bench/audit_verdict.h"
#include "bench/commands.h"
#include "bench/report.h"
#include "bench/zoo.h"
#include "clock.h"
#include "ops/ops.h"
#include "options.h"
#include "text.h"

typedef struct audit_options {
    zoo_options zoo;
    rf_bench_choices_params choices;
} audit_options;

/* The state of a terminal's progress line. */
typedef struct audit_progress {
    const char *network;
    uint32_t index, count;
    double began;
} audit_progress;

/* ---- measuring ---- */

static void show_progress(void *user, uint32_t done, uint32_t count)
{
    audit_progress *p = user;
    if (done == 0) p->began = clock_seconds();
    fprintf(stderr, "\r\033[K%s (%u of %u): %u of %u calls", p->network, p->index + 1, p->count, done, count);
    if (done > 0) fprintf(stderr, ", %.0f s left", (clock_seconds() - p->began) / done * (count - done));
}

static rf_result add_usable_kernels(zoo_net *n, uint32_t batch, audit_table *t)
{
    rf_bench_kernel_name *names;
    uint32_t count;
    bool room = true;
    TRY(rf_bench_usable_kernels(n->net.step, batch, &names, &count));
    for (uint32_t i = 0; i < count; i++) room &= audit_add_kernel(t, names[i].op, names[i].kernel);
    rf_free(names);
    return room ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result measure_net(zoo_net *n, const zoo_entry *e, const audit_options *o, audit_table *t)
{
    double step;
    rf_bench_choice *rows;
    uint32_t count;
    const uint32_t batch = o->zoo.batch ? o->zoo.batch : e->batch;
    TRY(zoo_net_create(n, e, &o->zoo));
    TRY(zoo_run_steps(n, 0, &step));
    if (t->num_networks == 0 && !o->choices.pattern) TRY(add_usable_kernels(n, batch, t));
    TRY(rf_bench_choices(n->net.step, batch, &o->choices, &rows, &count));
    const bool room = audit_add_network(t, e->name, o->choices.pattern, rows, count);
    rf_free(rows);
    return room ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static bool audit_entry(const zoo_entry *e, const audit_options *o, audit_table *t, char *device, size_t size)
{
    zoo_net n = { 0 };
    const rf_result r = measure_net(&n, e, o, t);
    if (o->choices.progress) fprintf(stderr, "\r\033[K");
    if (r < 0) fprintf(stderr, "ringfire-bench: %s: %s\n", e->name, rf_error_message());
    if (r >= 0) snprintf(device, size, "Device: %s", rf_strategy_device_name(n.net.strategy, 0));
    zoo_net_destroy(&n, e);
    return r >= 0;
}

/* ---- what comes of it ---- */

static void names_of_users(const audit_table *t, const audit_variant *v, char *text, size_t size)
{
    text[0] = '\0';
    for (uint32_t n = 0; n < t->num_networks; n++) {
        const size_t used = strlen(text);
        if (v->use[n].nodes) snprintf(text + used, size - used, "%s%s", used ? ", " : "", t->network[n]);
    }
}

static json_t *uses_of(const audit_table *t, const audit_variant *v)
{
    json_t *uses = json_array();
    for (uint32_t n = 0; n < t->num_networks; n++) {
        const audit_use *use = &v->use[n];
        if (use->nodes == 0) continue;
        json_array_append_new(uses, json_pack("{s:s,s:i,s:f,s:f,s:f}", "network", t->network[n], "nodes",
                                              (int)use->nodes, "seconds", use->seconds, "without_seconds", use->without,
                                              "gain", audit_gain(t, v, n)));
    }
    return uses;
}

/* Kernels without users are no rows of the table, but of the list. */
static bool add_variant(const audit_table *t, const audit_variant *v, table *rows, json_t *list)
{
    char users[200], gain[2][48] = { "-", "-" };
    uint32_t best[2];
    const audit_verdict verdict = audit_decide(t, v);
    names_of_users(t, v, users, sizeof(users));
    audit_best_two(t, v, best);
    for (int i = 0; i < 2 && (verdict == AUDIT_GOES || verdict == AUDIT_STAYS); i++)
        if (best[i] < t->num_networks)
            snprintf(gain[i], sizeof(gain[i]), "%s %5.1f %%", t->network[best[i]], 100 * audit_gain(t, v, best[i]));
    json_array_append_new(list,
                          json_pack("{s:s,s:s,s:s,s:s,s:o}", "op", v->op, "kernel", v->kernel, "instead", v->instead,
                                    "verdict", audit_verdict_name(verdict), "networks", uses_of(t, v)));
    return verdict == AUDIT_UNUSED || table_row(rows, (const char *[]){ v->op, v->kernel, v->instead, users, gain[0],
                                                                        gain[1], audit_verdict_name(verdict) });
}

/* A line for each op with kernels that the device can run and no network uses. */
static void print_unused(const audit_table *t)
{
    char line[1000] = "";
    size_t used = 0;
    printf("Used by none of these networks:\n");
    for (uint32_t i = 0; i < t->num_variants; i++) {
        const audit_variant *v = &t->variants[i];
        const bool same = i > 0 && strcmp(v->op, t->variants[i - 1].op) == 0;
        if (!same && used > 0) print_wrapped(stdout, line, 2, text_columns(stdout));
        if (!same) used = 0;
        if (audit_decide(t, v) != AUDIT_UNUSED || used >= sizeof(line)) continue;
        used += (size_t)snprintf(line + used, sizeof(line) - used, used ? ", %s" : "%s: %s", used ? v->kernel : v->op,
                                 v->kernel);
    }
    if (used > 0) print_wrapped(stdout, line, 2, text_columns(stdout));
}

static int report_table(const audit_options *o, const audit_table *t, const char *about, bool ok)
{
    static const char *const headings[] = { "Op", "Kernel", "Instead", "Networks", ">Best gain", ">Second", "Verdict" };
    table rows;
    json_t *networks = json_array(), *variants = json_array();
    ok &= table_begin(&rows, headings, 7);
    for (uint32_t n = 0; n < t->num_networks; n++)
        json_array_append_new(networks, json_pack("{s:s,s:f}", "network", t->network[n], "seconds", t->seconds[n]));
    for (uint32_t i = 0; i < t->num_variants; i++) ok &= add_variant(t, &t->variants[i], &rows, variants);
    const int code = bench_report(o->zoo.json_path, about[0] ? about : NULL, &rows,
                                  json_pack("{s:o,s:o}", "networks", networks, "variants", variants), ok);
    if (!o->choices.pattern && !json_replaces_text(o->zoo.json_path)) print_unused(t);
    return code;
}

static int audit_all(audit_options *o, audit_table *t)
{
    char about[300] = "";
    bool ok = true;
    audit_progress progress = { .count = o->zoo.model ? 1 : zoo_num_entries };
    if (isatty(STDERR_FILENO)) {
        o->choices.progress = show_progress;
        o->choices.user = &progress;
    }
    for (size_t i = 0; i < zoo_num_entries; i++) {
        if (o->zoo.model && &zoo_entries[i] != zoo_entry_find(o->zoo.model)) continue;
        progress.network = zoo_entries[i].name;
        ok &= audit_entry(&zoo_entries[i], o, t, about, sizeof(about));
        progress.index++;
    }
    o->choices.progress = NULL;
    o->choices.user = NULL;
    return report_table(o, t, about, ok);
}

/* ---- command ---- */

static const struct argp_option argp_options[] = {
    { "device", 'd', "NAME", 0, "Device: index or part of a name (default: the first usable one, GPUs before software)",
      0 },
    { "network", 'n', "NAME", 0, "Only this network of zoo (default: all)", 0 },
    { "kernel", 'k', "OP/NAME", 0,
      "Leave only this kernel out, or all kernels at once that a pattern like 'conv2d*/few_*' matches (default: each "
      "one "
      "that a network uses)",
      0 },
    { "batch", 'b', "N", 0, "Examples per step (default: that of each network)", 0 },
    { "turns", 't', "N", 0, "How often a kernel and the one in its place are measured, in turns (default: 5)", 0 },
    { "clock", 'c', "CLOCK", 0,
      "Whose clock to measure by: device, host, or processor, which counts what all threads of the process compute "
      "(default: processor for software drivers)",
      0 },
    JSON_OPTION,
    { 0 },
};

static void check_pattern(struct argp_state *state, const char *pattern)
{
    uint32_t count, matching = 0;
    const rf_op *const *ops = rf_ops_all(&count);
    for (uint32_t o = 0; o < count; o++)
        for (uint32_t k = 0; k < rf_op_num_kernels(ops[o]); k++)
            matching += rf_bench_kernel_matches(pattern, ops[o], rf_op_kernel(ops[o], k));
    if (matching == 0) argp_error(state, "--kernel is '%s', and no kernel is called so (OP/NAME)", pattern);
}

static rf_clock read_clock(struct argp_state *state, const char *text)
{
    static const char *const names[] = {
        [RF_CLOCK_HOST] = "host", [RF_CLOCK_DEVICE] = "device", [RF_CLOCK_PROCESSOR] = "processor"
    };
    for (int clock = RF_CLOCK_HOST; clock <= RF_CLOCK_PROCESSOR; clock++)
        if (strcmp(text, names[clock]) == 0) return (rf_clock)clock;
    argp_error(state, "--clock %s: possible are device, host and processor", text);
    return RF_CLOCK_CHOOSE;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    audit_options *o = state->input;
    switch (key) {
    case 'd': o->zoo.device = text; return 0;
    case 'n':
        zoo_check_name(state, text);
        o->zoo.model = text;
        return 0;
    case 'k':
        check_pattern(state, text);
        o->choices.pattern = text;
        return 0;
    case 'b': o->zoo.batch = (uint32_t)option_number(state, "--batch", text, 1, 1u << 16); return 0;
    case 't': o->choices.turns = (uint32_t)option_number(state, "--turns", text, 1, 1000); return 0;
    case 'c': o->choices.clock = read_clock(state, text); return 0;
    case 'j': o->zoo.json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not expected", text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

int command_bench_audit(int argc, char **argv)
{
    audit_options o = { 0 };
    const struct argp parser = {
        argp_options,
        parse_option,
        NULL,
        "Measures what each kernel gains the networks of the examples on one device: for each kernel that one of them "
        "uses, how much longer the nodes of its step take in all when the kernel is left out. Only the nodes that "
        "would run another kernel then are measured twice, alone, in turns with that; the rest of the sum stays.",
        NULL,
        NULL,
        NULL
    };
    command_parse(&parser, argc, argv, 0, &o);
    if (!json_can_write(o.zoo.json_path)) return CODE_FAILED;
    audit_table *t = calloc(1, sizeof(*t));
    if (!t) {
        fprintf(stderr, "ringfire-bench: no memory\n");
        return CODE_FAILED;
    }
    const int code = audit_all(&o, t);
    free(t);
    return code;
}
