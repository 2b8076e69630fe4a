/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench scale: how training grows with the number of workers. `--model` works it out for networks that are not
 * there (scale_model.h), `--workers` measures it on one that the command makes (scale_measure.c). */
#include "bench/scale.h"

#include <argp.h>
#include <string.h>

#include "bench/commands.h"
#include "bench/report.h"
#include "bench/units.h"
#include "number.h"
#include "options.h"

enum { MOST_RANKS = 1 << 20, MOST_PER_HOST = 1024 };
enum { KEY_INNER_BANDWIDTH = 256, KEY_INNER_LATENCY, KEY_SUM_RATE };

static const struct argp_option argp_options[] = {
    { "model", 'm', NULL, 0, "Work out what a network of the stated figures would do; nothing is measured", 0 },
    { "ranks", 'n', "LIST", 0, "model: numbers of workers (default: 64,1024,16384)", 0 },
    { "workers", 'w', "LIST", 0,
      "Measure so many workers, e.g. 2,4,8, each in a network namespace of its own (needs root, ip and tc)", 0 },
    { "gradients", 'g', "LIST", 0, "Sizes of a step's gradients (default: 1M,100M,1G; workers: one size, 4M)", 0 },
    { "bucket", 'k', "SIZE", 0, "Size of the buckets that are exchanged (default: the library's)", 0 },
    { "compute", 'c', "TIME", 0, "What a step computes for; workers sleep instead (default: 100ms; workers: 50ms)", 0 },
    { "bandwidth", 'b', "RATE", 0, "Of a host's link, each way (default: 100gbit; workers: 1gbit)", 0 },
    { "latency", 'l', "TIME", 0, "Of a message between hosts (default: 5us; workers: 0, none is added)", 0 },
    { "per-host", 'r', "N", 0, "model: workers of a host, which share its link (default: 8)", 0 },
    { "inner-bandwidth", KEY_INNER_BANDWIDTH, "RATE", 0, "model: between two workers of a host (default: 400gbit)", 0 },
    { "inner-latency", KEY_INNER_LATENCY, "TIME", 0, "model: of a message within a host (default: 1us)", 0 },
    { "sum-rate", KEY_SUM_RATE, "GB/S", 0, "How fast a worker adds what it receives (default: 10)", 0 },
    { "seconds", 's', "X", 0, "workers: time spent on each number of them (default: 3)", 0 },
    JSON_OPTION,
    { 0 },
};

/* ---- the command line ---- */

/* Copies the next word of a list, up to a comma, and returns what follows: NULL after the last. */
static const char *next_word(const char *list, char word[32])
{
    const size_t length = strcspn(list, ",");
    snprintf(word, 32, "%.*s", length < 31 ? (int)length : 31, list);
    return list[length] ? list + length + 1 : NULL;
}

static uint32_t parse_counts(const struct argp_state *state, const char *name, const char *text, uint32_t most,
                             uint32_t *out)
{
    uint32_t count = 0;
    char word[32];
    for (const char *rest = text; rest && count < SCALE_LIST; count++) {
        rest = next_word(rest, word);
        if (!parse_decimal(word, strlen(word), most, &out[count]) || out[count] == 0 ||
            (rest && count + 1 == SCALE_LIST))
            argp_error(state, "%s is '%s', not up to %d numbers of 1 to %u with commas between them", name, text,
                       SCALE_LIST, most);
    }
    return count;
}

static uint32_t parse_sizes(const struct argp_state *state, const char *name, const char *text, uint64_t *out)
{
    uint32_t count = 0;
    char word[32];
    for (const char *rest = text; rest && count < SCALE_LIST; count++) {
        rest = next_word(rest, word);
        if (!parse_size(word, &out[count]) || (rest && count + 1 == SCALE_LIST))
            argp_error(state,
                       "%s is '%s', not up to %d sizes of 4 bytes to 4G such as 64K or 16M with commas between them",
                       name, text, SCALE_LIST);
    }
    return count;
}

static double parse_rate_option(const struct argp_state *state, const char *name, const char *text)
{
    double rate = 0;
    if (!parse_rate(text, &rate))
        argp_error(state, "%s is '%s', not a rate of 10kbit to 100000gbit such as 1gbit", name, text);
    return rate;
}

static double parse_time_option(const struct argp_state *state, const char *name, const char *text)
{
    double seconds = 0;
    if (!parse_time(text, &seconds))
        argp_error(state, "%s is '%s', not a time up to 1000s such as 100us or 50ms", name, text);
    return seconds;
}

/* No option is without an effect. */
static void check_combination(const struct argp_state *state, const scale_options *o)
{
    const scale_network *n = &o->network;
    if (o->model == (o->num_workers > 0)) argp_error(state, "say --model or --workers LIST, one of them");
    if (o->model && o->seconds > 0) argp_error(state, "--seconds is for --workers");
    if (o->model) return;
    if (o->num_ranks > 0) argp_error(state, "--ranks is for --model");
    if (n->per_host > 0 || n->within.bandwidth > 0 || n->within.latency >= 0)
        argp_error(state, "--per-host, --inner-bandwidth and --inner-latency are for --model");
    if (o->num_gradients > 1) argp_error(state, "--gradients: one size is measured with --workers");
}

/* Options that were not said are 0, or below where 0 can be said. The model and measurements have figures of their
 * own. */
static void set_default(double *value, bool said, double otherwise)
{
    if (!said) *value = otherwise;
}

static void set_defaults(scale_options *o)
{
    static const uint32_t ranks[] = { 64, 1024, 16384 };
    static const uint64_t gradients[] = { 1 << 20, 100 << 20, 1 << 30 }, measured = 4 << 20;
    scale_network *n = &o->network;
    if (o->model && o->num_ranks == 0) {
        o->num_ranks = sizeof(ranks) / sizeof(ranks[0]);
        memcpy(o->ranks, ranks, sizeof(ranks));
    }
    if (o->num_gradients == 0) {
        o->num_gradients = o->model ? sizeof(gradients) / sizeof(gradients[0]) : 1;
        memcpy(o->gradients, o->model ? gradients : &measured, o->num_gradients * sizeof(gradients[0]));
    }
    set_default(&o->compute, o->compute >= 0, o->model ? 0.1 : 0.05);
    set_default(&o->seconds, o->seconds > 0, 3);
    set_default(&n->between.bandwidth, n->between.bandwidth > 0, o->model ? 12.5e9 : 125e6);
    set_default(&n->between.latency, n->between.latency >= 0, o->model ? 5e-6 : 0);
    set_default(&n->within.bandwidth, n->within.bandwidth > 0, 50e9);
    set_default(&n->within.latency, n->within.latency >= 0, 1e-6);
    set_default(&n->sum_rate, n->sum_rate > 0, 10e9);
    if (n->per_host == 0) n->per_host = 8;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    scale_options *o = state->input;
    scale_network *n = &o->network;
    switch (key) {
    case 'm': o->model = true; return 0;
    case 'n': o->num_ranks = parse_counts(state, "--ranks", text, MOST_RANKS, o->ranks); return 0;
    case 'w': o->num_workers = parse_counts(state, "--workers", text, BENCH_MOST_RANKS, o->workers); return 0;
    case 's': o->seconds = option_seconds(state, "--seconds", text, 1e-6); return 0;
    case 'g': o->num_gradients = parse_sizes(state, "--gradients", text, o->gradients); return 0;
    case 'k':
        if (!parse_size(text, &o->bucket))
            argp_error(state, "--bucket is '%s', not a size of 4 bytes to 4G such as 64K or 16M", text);
        return 0;
    case 'c': o->compute = parse_time_option(state, "--compute", text); return 0;
    case 'b': n->between.bandwidth = parse_rate_option(state, "--bandwidth", text); return 0;
    case 'l': n->between.latency = parse_time_option(state, "--latency", text); return 0;
    case 'r': n->per_host = (uint32_t)option_number(state, "--per-host", text, 1, MOST_PER_HOST); return 0;
    case KEY_INNER_BANDWIDTH: n->within.bandwidth = parse_rate_option(state, "--inner-bandwidth", text); return 0;
    case KEY_INNER_LATENCY: n->within.latency = parse_time_option(state, "--inner-latency", text); return 0;
    case KEY_SUM_RATE: n->sum_rate = 1e9 * option_real(state, "--sum-rate", text, 1e-3, 1e6); return 0;
    case 'j': o->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not expected", text); return 0;
    case ARGP_KEY_END:
        check_combination(state, o);
        set_defaults(o);
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

double scale_cut(const scale_options *o, uint64_t gradients, uint32_t *buckets)
{
    const double bytes = (double)gradients;
    *buckets = scale_buckets(bytes, o->bucket ? (double)o->bucket : scale_bucket_bytes(bytes));
    return bytes / *buckets;
}

/* ---- the model's table ---- */

/* Whole percent, because the figures that they are made of are no better. */
static double percent_of(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 100;
}

static bool add_row(const scale_options *o, uint32_t ranks, uint64_t gradients, table *t, json_t *list)
{
    uint32_t buckets;
    const double bytes = scale_cut(o, gradients, &buckets);
    double seconds[SCALE_SCHEDULES];
    char cells[11][32];
    int best = 0;
    json_t *times = json_object();
    for (int s = 0; s < SCALE_SCHEDULES; s++) {
        seconds[s] = scale_all_reduce(&o->network, (scale_schedule)s, ranks, bytes);
        if (seconds[s] < seconds[best]) best = s;
        snprintf(cells[3 + s], 32, "%.2f", seconds[s] * buckets * 1e3);
        json_object_set_new(times, scale_schedule_name((scale_schedule)s), json_real(seconds[s] * buckets));
    }
    const scale_schedule chosen = scale_select(o->network.per_host, ranks, bytes);
    const scale_step fastest = scale_step_time(o->compute, buckets, seconds[best], 0);
    const scale_step sharded = scale_sharded_step(&o->network, ranks, o->compute, buckets, bytes);
    snprintf(cells[0], 32, "%u", ranks);
    print_size(cells[1], 32, gradients);
    snprintf(cells[2], 32, "%u", buckets);
    snprintf(cells[7], 32, "%.2f", fastest.step * 1e3);
    snprintf(cells[8], 32, "%.0f", percent_of(o->compute, fastest.step));
    snprintf(cells[9], 32, "%.2f", sharded.step * 1e3);
    snprintf(cells[10], 32, "%.0f", percent_of(o->compute, sharded.step));
    json_array_append_new(list,
                          json_pack("{s:i,s:I,s:i,s:o,s:s,s:s,s:f,s:f,s:f,s:f}", "ranks", (int)ranks, "gradient_bytes",
                                    (json_int_t)gradients, "buckets", (int)buckets, "all_reduce_seconds", times, "best",
                                    scale_schedule_name((scale_schedule)best), "auto", scale_schedule_name(chosen),
                                    "step_seconds", fastest.step, "exposed_seconds", fastest.exposed,
                                    "sharded_step_seconds", sharded.step, "sharded_exposed_seconds", sharded.exposed));
    return table_row(t, (const char *[]){ cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6],
                                          scale_schedule_name((scale_schedule)best), cells[7], cells[8],
                                          scale_schedule_name(chosen), cells[9], cells[10] });
}

static int model_report(const scale_options *o)
{
    static const char *const headings[] = { ">Ranks",   ">Gradients",    ">Buckets", ">Ring", ">Doubling",
                                            ">Halving", ">Hierarchical", "Best",     ">Step", ">%",
                                            "Auto",     ">Sharded",      ">%" };
    const scale_network *n = &o->network;
    table t;
    json_t *list = json_array();
    bool ok = table_begin(&t, headings, 13);
    for (uint32_t g = 0; g < o->num_gradients; g++)
        for (uint32_t i = 0; i < o->num_ranks; i++) ok &= add_row(o, o->ranks[i], o->gradients[g], &t, list);
    char within[96] = "", about[900];
    if (n->per_host > 1)
        snprintf(within, sizeof(within), " of %u ranks each, %g Gbit/s and %g us within them", n->per_host,
                 n->within.bandwidth * 8e-9, n->within.latency * 1e6);
    snprintf(
        about, sizeof(about),
        "A model; nothing was measured. %g Gbit/s and %g us between hosts%s; %g GB/s are added; a step computes for "
        "%g ms. Times in ms: all-reduces of a step, all buckets together, by schedule; the step with the best of "
        "them and with the sharded exchange (reduce-scatter, update, all-gather), and how much of it is "
        "computing. Auto: what the library selects for an all-reduce of a bucket.",
        n->between.bandwidth * 8e-9, n->between.latency * 1e6, within, n->sum_rate * 1e-9, o->compute * 1e3);
    json_t *result = json_pack("{s:s,s:f,s:f,s:i,s:f,s:f,s:f,s:f,s:o}", "kind", "model", "bandwidth",
                               n->between.bandwidth, "latency", n->between.latency, "per_host", (int)n->per_host,
                               "inner_bandwidth", n->within.bandwidth, "inner_latency", n->within.latency, "sum_rate",
                               n->sum_rate, "compute_seconds", o->compute, "results", list);
    return bench_report(o->json_path, about, &t, result, ok);
}

int command_bench_scale(int argc, char **argv)
{
    scale_options o = { .compute = -1, .network = { .between.latency = -1, .within.latency = -1, .chunk = 512 << 10 } };
    const struct argp parser = {
        argp_options,
        parse_option,
        "",
        "Works out how training grows with the number of workers: what each schedule of an all-reduce costs, how long "
        "a "
        "step takes when buckets of gradients are exchanged during the backward pass, and how much of it is "
        "computing.\vRATE is a number with kbit, mbit or gbit, TIME one with us, ms or s, SIZE bytes or a number with "
        "K, "
        "M or G. docs/guides/scaling.md has tables, and says what is assumed.",
        NULL,
        NULL,
        NULL
    };
    command_parse(&parser, argc, argv, 0, &o);
    if (!json_can_write(o.json_path)) return CODE_FAILED;
    return o.model ? model_report(&o) : scale_measure(&o);
}
