/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire run: starts the workers of a job, on this host or several, and restarts them when one is lost. */
#include "run/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "json_output.h"
#include "options.h"

enum {
    OPTION_NNODES = 1000,
    OPTION_MAX_RESTARTS,
    OPTION_MASTER_PORT,
    OPTION_BIND,
    OPTION_INSECURE,
    OPTION_ENCRYPT,
    OPTION_SSH,
    OPTION_GRACE,
    OPTION_START_TIMEOUT,
    OPTION_HOSTFILE,
    OPTION_NO_PREFIX,
    OPTION_AGENT
};

static const struct argp_option options[] = {
    { "workers", 'n', "N", 0, "Number of workers (default: all slots of the hosts; 1 without hosts)", 0 },
    { "hosts", 'H', "HOST[:SLOTS],...", 0, "Hosts and how many workers each may have (1)", 0 },
    { "hostfile", OPTION_HOSTFILE, "FILE", 0, "The same from lines 'host slots=N'", 0 },
    { "nnodes", OPTION_NNODES, "MIN[:MAX]", 0,
      "Use at most MAX of the hosts; continue with fewer after a loss, down to MIN", 0 },
    { "max-restarts", OPTION_MAX_RESTARTS, "R", 0, "Start the job again after a failure, up to R times (0)", 0 },
    { "bind", OPTION_BIND, "ADDR", 0, "Address of this host on which its workers listen", 1 },
    { "master-port", OPTION_MASTER_PORT, "P", 0, "Port of rank 0 (default: a free one)", 1 },
    { "insecure", OPTION_INSECURE, NULL, 0, "No job key: anyone who reaches the ports may join", 1 },
    { "encrypt", OPTION_ENCRYPT, NULL, 0, "Encrypt the data between workers", 1 },
    { "ssh", OPTION_SSH, "PROGRAM", 0,
      "Program that reaches other hosts, called with a host and a command (ssh -T -o BatchMode=yes)", 2 },
    { "export", 'x', "NAME[=VALUE]", 0, "Variable to set on other hosts as well; RINGFIRE_* always are", 2 },
    { "start-timeout", OPTION_START_TIMEOUT, "SECONDS", 0, "How long a host may take to answer (60)", 2 },
    { "grace", OPTION_GRACE, "SECONDS", 0,
      "Time between SIGTERM and SIGKILL for the remaining workers when one has failed (5)", 2 },
    { "no-prefix", OPTION_NO_PREFIX, NULL, 0, "Pass output on as it comes, without [rank] in front of lines", 2 },
    { "json", 'j', "FILE", OPTION_ARG_OPTIONAL,
      "Print how the workers ended as JSON, or write it to FILE; printed, the workers' output goes to standard error",
      3 },
    { "agent", OPTION_AGENT, NULL, OPTION_HIDDEN, NULL, 0 },
    { 0 },
};

typedef struct parsed {
    run_options o;
    bool agent;
} parsed;

static void nodes_option(struct argp_state *state, run_options *o, const char *text)
{
    char low[32];
    const size_t length = strcspn(text, ":");
    snprintf(low, sizeof(low), "%.*s", (int)(length < 31 ? length : 31), text);
    o->min_hosts = (uint32_t)option_number(state, "--nnodes", low, 1, MAX_WORKERS);
    o->max_hosts =
        text[length] ? (uint32_t)option_number(state, "--nnodes", text + length + 1, 1, MAX_WORKERS) : o->min_hosts;
    if (o->max_hosts < o->min_hosts) argp_error(state, "--nnodes %s: the second number is below the first", text);
}

static void export_option(struct argp_state *state, run_options *o, char *text)
{
    if (!text[0] || text[0] == '=') argp_error(state, "--export '%s' names no variable", text);
    char **grown = realloc(o->exports, (o->num_exports + 1) * sizeof(*grown));
    if (!grown)
        argp_failure(state, CODE_FAILED, 0, "out of memory");
    else {
        o->exports = grown;
        o->exports[o->num_exports++] = text;
    }
}

static error_t parse_hosts(int key, char *text, struct argp_state *state, run_options *o)
{
    char error[512];
    const bool ok = key == 'H' ? hosts_parse(o->hosts, text, error) : hosts_read_file(o->hosts, text, error);
    if (!ok && key == 'H') argp_error(state, "%s", error);
    if (!ok) argp_failure(state, CODE_FAILED, 0, "%s", error);
    return 0;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    parsed *p = state->input;
    run_options *o = &p->o;
    switch (key) {
    case 'n': o->workers = (uint32_t)option_number(state, "--workers", text, 1, MAX_WORKERS); return 0;
    case 'H':
    case OPTION_HOSTFILE: return parse_hosts(key, text, state, o);
    case 'j': o->json_path = text ? text : "-"; return 0;
    case 'x': export_option(state, o, text); return 0;
    case OPTION_NNODES: nodes_option(state, o, text); return 0;
    case OPTION_MAX_RESTARTS:
        o->max_restarts = (uint32_t)option_number(state, "--max-restarts", text, 0, 1000000);
        return 0;
    case OPTION_MASTER_PORT: o->master_port = (uint16_t)option_number(state, "--master-port", text, 1, 65535); return 0;
    case OPTION_BIND: o->bind = text; return 0;
    case OPTION_INSECURE: o->insecure = true; return 0;
    case OPTION_ENCRYPT: o->encrypt = true; return 0;
    case OPTION_SSH: o->ssh = text; return 0;
    case OPTION_GRACE: o->grace = option_seconds(state, "--grace", text, 0); return 0;
    case OPTION_START_TIMEOUT: o->start_timeout = option_seconds(state, "--start-timeout", text, 0); return 0;
    case OPTION_NO_PREFIX: o->no_prefix = true; return 0;
    case OPTION_AGENT: p->agent = true; return 0;
    case ARGP_KEY_ARG: /* the program; the rest is its own */
        o->program = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        if (!o->program && !p->agent)
            argp_error(state, "PROGRAM is missing; write 'ringfire run -n 2 -- PROGRAM ARGUMENT...'");
        if (o->insecure && o->encrypt) argp_error(state, "--encrypt needs the job key that --insecure does without");
        if (!o->ssh[strspn(o->ssh, " \t")]) argp_error(state, "--ssh is empty");
        if (o->bind && !o->bind[0]) argp_error(state, "--bind is empty");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* Which hosts take part and with how many workers; 0 with a line in `error`. */
static uint32_t place_workers(const run_options *o, placement *places, char error[512])
{
    uint32_t count = 0, rank = 0, slots = 0;
    const uint32_t min = o->min_hosts ? o->min_hosts : o->hosts->count,
                   max = o->max_hosts ? o->max_hosts : o->hosts->count;
    for (uint32_t i = 0; i < o->hosts->count && count < max; i++) {
        const host *h = &o->hosts->items[i];
        if (h->lost) continue;
        slots += h->slots;
        const uint32_t limit = o->workers ? o->workers : MAX_WORKERS;
        const uint32_t workers = h->slots < limit - rank ? h->slots : limit - rank;
        if (workers > 0) places[count++] = (placement){ .host = i, .first_rank = rank, .count = workers };
        rank += workers;
    }
    uint32_t left = 0;
    for (uint32_t i = 0; i < o->hosts->count; i++) left += !o->hosts->items[i].lost;
    if (left < min)
        snprintf(error, 512, "%u of %u hosts %s left, %u are needed (--nnodes)", left, o->hosts->count,
                 left == 1 ? "is" : "are", min);
    else if (!o->workers && slots > MAX_WORKERS)
        snprintf(error, 512, "the hosts have %u slots; a job has at most %d workers, say how many with -n", slots,
                 MAX_WORKERS);
    else if (o->workers > slots && o->max_hosts <= o->min_hosts)
        snprintf(error, 512, "%u workers do not fit into the %u slots of the hosts; write host:slots", o->workers,
                 slots);
    else
        return count;
    return 0;
}

static bool check_hosts(const run_options *o, char error[512])
{
    if (o->min_hosts > o->hosts->count) {
        snprintf(error, 512, "--nnodes asks for %u hosts but %u %s listed", o->min_hosts, o->hosts->count,
                 o->hosts->count == 1 ? "is" : "are");
        return false;
    }
    bool remote = false;
    for (uint32_t i = 0; i < o->hosts->count; i++) remote |= !host_is_local(o->hosts->items[i].name);
    if (remote && o->bind && host_is_loopback(o->bind)) {
        snprintf(error, 512, "other hosts cannot reach this one at '%.200s' (--bind or RINGFIRE_BIND)", o->bind);
        return false;
    }
    for (uint32_t i = 0; i < o->hosts->count; i++) {
        if (!remote || !host_is_loopback(o->hosts->items[i].name)) continue;
        snprintf(error, 512, "other hosts cannot reach '%s'; list this host by its name or address",
                 o->hosts->items[i].name);
        return false;
    }
    return true;
}

static int fail_usage(const char *text)
{
    fprintf(stderr, "ringfire: %s\n", text);
    return CODE_FAILED;
}

/* The end of the job, for --json. */
typedef struct job_end {
    uint32_t restarts;
    attempt_result last;
} job_end;

/* Ends the job for a reason before or between attempts. */
static int give_up(job_end *end, const char *error)
{
    snprintf(end->last.cause, sizeof(end->last.cause), "%s", error);
    return fail_usage(error);
}

static int run_job(run_options *o, job_end *end)
{
    char error[512];
    placement places[MAX_WORKERS];
    const char *text = getenv("RINGFIRE_EPOCH");
    uint64_t epoch = text ? strtoull(text, NULL, 10) : 0;
    if (!check_hosts(o, error)) return give_up(end, error);
    run_catch_signals();
    for (;;) {
        const uint32_t count = place_workers(o, places, error);
        if (count == 0) return give_up(end, error);
        json_decref(end->last.workers);
        run_attempt(o, places, count, epoch, &end->last);
        const attempt_result *result = &end->last;
        if (result->cause[0]) fail_usage(result->cause);
        if (result->ok || result->interrupted) return result->status;
        if (!o->min_hosts)
            for (uint32_t i = 0; i < o->hosts->count; i++) o->hosts->items[i].lost = false; /* no other can stand in */
        /* Hosts that were never reached cost no restart while enough others are left. */
        const bool free_of_charge = result->only_unreachable && o->min_hosts;
        if (!free_of_charge && end->restarts == o->max_restarts) return result->status;
        if (place_workers(o, places, error) == 0) {
            fail_usage(error);
            return result->status;
        }
        if (free_of_charge) continue;
        end->restarts++;
        epoch++;
        fprintf(stderr, "ringfire: starting again, attempt %u of %u, epoch %llu\n", end->restarts + 1,
                o->max_restarts + 1, (unsigned long long)epoch);
    }
}

static int run_and_report(run_options *o)
{
    job_end end = { 0 };
    if (!json_can_write(o->json_path)) return CODE_FAILED;
    const int code = run_job(o, &end);
    json_t *program = json_array();
    for (char **word = o->program; *word; word++) json_array_append_new(program, json_text(*word));
    json_t *document = json_pack("{s:o,s:i,s:o,s:i,s:o}", "program", program, "exit_code", code, "cause",
                                 end.last.cause[0] ? json_text(end.last.cause) : json_null(), "restarts",
                                 (int)end.restarts, "workers", end.last.workers ? end.last.workers : json_array());
    const bool written = json_write(o->json_path, document);
    return code == CODE_OK && !written ? CODE_FAILED : code;
}

int command_run(int argc, char **argv)
{
    parsed p = { .o = { .ssh = "ssh -T -o BatchMode=yes", .grace = 5, .start_timeout = 60 } };
    const struct argp parser = {
        options,
        parse_option,
        "[--] PROGRAM [ARGUMENT...]",
        "Starts a program as the workers of one job, here or on several hosts, and waits for them.\v"
        "Each worker learns its place from RINGFIRE_RANK, RINGFIRE_WORLD_SIZE, RINGFIRE_MASTER and so on. Lines of "
        "output get the "
        "worker's rank in front. When a worker fails the others are ended, and the first that failed is named and "
        "gives the exit "
        "status; 128 + N for signal N. SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 are passed on to all workers.\n"
        "Other hosts need ringfire in the same place, the program, and a login without a password.",
        NULL,
        NULL,
        NULL
    };
    p.o.hosts = calloc(1, sizeof(*p.o.hosts));
    if (!p.o.hosts) return fail_usage("out of memory");
    command_parse(&parser, argc, argv, ARGP_IN_ORDER, &p);
    int code;
    if (p.agent) {
        code = run_agent();
    } else {
        if (p.o.hosts->count == 0) {
            char error[512];
            char here[64];
            snprintf(here, sizeof(here), "localhost:%u", p.o.workers ? p.o.workers : 1);
            hosts_parse(p.o.hosts, here, error);
        }
        const char *bind = getenv("RINGFIRE_BIND");
        if (!p.o.bind && bind && bind[0]) p.o.bind = bind;
        code = run_and_report(&p.o);
    }
    free(p.o.exports);
    free(p.o.hosts);
    return code;
}
