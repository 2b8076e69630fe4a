/* SPDX-License-Identifier: Apache-2.0 */
/* One attempt of `ringfire run`: an agent on each host, the workers' output by line, and who failed first. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ringfire/ringfire.h>

#include "commands.h"
#include "json_output.h"
#include "printable.h"
#include "run/link.h"
#include "run/output.h"
#include "run/run.h"
#include "run/wire.h"

/* Others may say first that they lost a peer: so long the peer's own end is waited for. */
#define CAUSE_SECONDS 2.0
/* An agent that says nothing for so long after the grace is taken for lost. */
#define AGENT_SECONDS 5.0
/* One that has not begun has nothing to end. */
#define UNSTARTED_SECONDS 1.0

typedef struct worker {
    uint32_t link;
    bool ended, told; /* told: its agent has said how */
    int status;       /* as wait() gives it */
    output_lines out, err;
} worker;

typedef struct attempt {
    const run_options *o;
    const placement *places;
    agent_link *links;
    worker *workers;
    uint32_t num_links, num_workers;
    uint64_t epoch;
    bool launched, stopping, called_off;
    int passed_on;                     /* SIGINT, SIGTERM or SIGHUP that the user sent */
    int asked;                         /* SIGUSR1 or SIGUSR2 that the user sent: programs may stop for it */
    bool answered;                     /* a worker did */
    double begun, stop_at, give_up_at; /* 0: not set */
    bool has_cause, has_restartable;   /* a worker that failed by itself; one that asks for a restart */
    bool all_ok;
    attempt_result *result;
} attempt;

static host *host_of(const attempt *t, const agent_link *l)
{
    return &t->o->hosts->items[l->place->host];
}

static void tell_all(attempt *t, uint32_t type, const char *text)
{
    for (uint32_t i = 0; i < t->num_links; i++)
        if (!t->links[i].gone && t->links[i].in >= 0) wire_send(t->links[i].in, type, 0, text, strlen(text));
}

/* Before workers run, closing an agent's input is enough to end it. */
static void stop_agents(attempt *t)
{
    if (t->stopping) return;
    t->stopping = true;
    t->give_up_at = run_now() + (t->launched ? t->o->grace + AGENT_SECONDS : UNSTARTED_SECONDS);
    if (t->launched) {
        tell_all(t, WIRE_STOP, "");
        return;
    }
    for (uint32_t i = 0; i < t->num_links; i++) link_close_input(&t->links[i]);
}

static void set_cause(attempt *t, int status, const char *format, ...) RF_PRINTF(3, 4);
static void set_cause(attempt *t, int status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    vsnprintf(t->result->cause, sizeof(t->result->cause), format, list);
    va_end(list);
    /* Hosts and workers have had a say in it. */
    char *shown = printable(t->result->cause);
    snprintf(t->result->cause, sizeof(t->result->cause), "%s", shown ? shown : "out of memory");
    free(shown);
    t->result->status = status;
}

static void describe_end(attempt *t, uint32_t rank, int status)
{
    const worker *w = &t->workers[rank];
    const char *last = w->err.last;
    char how[96];
    if (WIFSIGNALED(status))
        snprintf(how, sizeof(how), "was killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) == RF_EXIT_RESTARTABLE)
        snprintf(how, sizeof(how), "asked to be restarted (exit status %d)", RF_EXIT_RESTARTABLE);
    else
        snprintf(how, sizeof(how), "failed with exit status %d", WEXITSTATUS(status));
    set_cause(t, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status), "rank %u on %s %s%s%s", rank,
              host_of(t, &t->links[w->link])->name, how, last[0] ? "; its last line on stderr: " : "", last);
}

/* Ends that the user's own signal explains: by it, or because a peer ended by it. */
static bool is_answer_to_signal(const attempt *t, int status)
{
    if (!t->passed_on) return t->asked && WIFEXITED(status) && WEXITSTATUS(status) == RF_EXIT_RESTARTABLE;
    if (WIFSIGNALED(status)) return WTERMSIG(status) == t->passed_on;
    return WEXITSTATUS(status) == 128 + t->passed_on || WEXITSTATUS(status) == RF_EXIT_RESTARTABLE;
}

static void worker_ended(attempt *t, uint32_t rank, int status)
{
    worker *w = &t->workers[rank];
    if (w->ended) return;
    w->ended = w->told = true;
    w->status = status;
    output_finish(&w->out);
    output_finish(&w->err);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    t->all_ok = false;
    if (t->stopping || t->has_cause) return;
    const bool restartable = WIFEXITED(status) && WEXITSTATUS(status) == RF_EXIT_RESTARTABLE;
    const double now = run_now();
    if (is_answer_to_signal(t, status)) {
        t->answered = true;
        if (!t->stop_at) t->stop_at = now + t->o->grace;
        return;
    }
    if (!restartable || !t->has_restartable) describe_end(t, rank, status);
    t->has_cause = !restartable;
    t->has_restartable |= restartable;
    if (t->passed_on || restartable) {
        const double at = now + (t->passed_on ? t->o->grace : CAUSE_SECONDS);
        if (!t->stop_at) t->stop_at = at;
    } else {
        stop_agents(t);
    }
}

/* The agent is gone, by itself or given up. */
static void link_ended(attempt *t, agent_link *l)
{
    host *h = host_of(t, l);
    link_finish(l);
    uint32_t unfinished = 0;
    for (uint32_t i = 0; i < l->place->count; i++) {
        worker *w = &t->workers[l->place->first_rank + i];
        if (w->ended) continue;
        unfinished++;
        w->ended = true;
        output_finish(&w->out);
        output_finish(&w->err);
    }
    if (unfinished == 0 && t->launched) return;
    t->all_ok = false;
    if (t->called_off || (t->stopping && !t->launched)) return;
    if (!l->failed) h->lost = !host_is_local(h->name);
    if (t->has_cause || (t->stopping && !t->has_restartable)) return;
    t->has_cause = true;
    if (!l->failed) {
        const char *last = l->err.last;
        set_cause(t, CODE_FAILED, "host %s %s%s%s", h->name, t->launched ? "was lost" : "was not reached",
                  last[0] ? ": " : "", last);
    }
    t->result->only_unreachable = !t->launched && h->lost;
    stop_agents(t);
}

static void launch_workers(attempt *t)
{
    char error[512];
    t->launched = true;
    if (start_workers(t->o, t->links, t->num_links, t->num_workers, t->epoch, error)) return;
    t->has_cause = true;
    set_cause(t, CODE_FAILED, "%s", error);
    t->launched = false; /* agents that have not begun end with their input */
    stop_agents(t);
}

static bool take_hello(attempt *t, agent_link *l, const wire_frame *f)
{
    const char *version;
    if (!wire_hello(f, &version, &l->port)) return false;
    if (strcmp(version, rf_version_string()) != 0) {
        l->failed = true;
        t->has_cause = true;
        set_cause(t, CODE_FAILED, "host %s has ringfire %.40s, this is %s; install the same version",
                  host_of(t, l)->name, version, rf_version_string());
        stop_agents(t);
        return true;
    }
    l->ready = true;
    for (uint32_t i = 0; i < t->num_links; i++)
        if (!t->links[i].ready) return true;
    if (!t->stopping && !t->launched) launch_workers(t);
    return true;
}

/* False when the other side is no agent of this job. */
static bool take_frame(attempt *t, agent_link *l, const wire_frame *f)
{
    if (f->type == WIRE_HELLO) return take_hello(t, l, f);
    if (f->type == WIRE_ERROR) {
        l->failed = true;
        t->all_ok = false;
        if (!t->has_cause && !t->stopping) {
            t->has_cause = true;
            set_cause(t, CODE_FAILED, "host %s: %.400s", host_of(t, l)->name, f->data);
        }
        stop_agents(t);
        return true;
    }
    if (!t->launched || f->rank < l->place->first_rank || f->rank - l->place->first_rank >= l->place->count)
        return false;
    worker *w = &t->workers[f->rank];
    bool written = true;
    uint32_t status;
    if (f->type == WIRE_STDOUT)
        written = output_feed(&w->out, f->data, f->length);
    else if (f->type == WIRE_STDERR)
        written = output_feed(&w->err, f->data, f->length);
    else if (f->type == WIRE_EXIT && wire_number(f, UINT16_MAX, &status)) /* as wait() gives it */
        worker_ended(t, f->rank, (int)status);
    else
        return false;
    if (!written && !t->stopping) {
        t->has_cause = true;
        t->all_ok = false;
        set_cause(t, CODE_FAILED, "the workers' output cannot be written: %s", strerror(errno));
        stop_agents(t);
    }
    return true;
}

/* The output of login scripts comes before an agent's first word; it is shown as the host's. */
static bool await_greeting(agent_link *l)
{
    size_t noise = 0;
    l->greeted = wire_skip_to_magic(&l->reader, &noise);
    if (l->greeted && noise > 0) output_feed(&l->err, l->reader.buffer, noise);
    return l->greeted || noise < 65536;
}

static void read_link(attempt *t, agent_link *l)
{
    wire_frame f;
    bool good = wire_read(&l->reader, l->out) > 0;
    if (good && !l->greeted) good = await_greeting(l);
    int got = 0;
    while (good && l->greeted && (got = wire_next(&l->reader, &f)) > 0) good = take_frame(t, l, &f);
    if (!good || got < 0) link_ended(t, l);
}

static void read_link_errors(agent_link *l)
{
    char buffer[4096];
    const ssize_t n = read(l->err_fd, buffer, sizeof(buffer));
    if (n < 0 && errno == EINTR) return;
    if (n > 0) {
        output_feed(&l->err, buffer, (size_t)n);
        return;
    }
    close(l->err_fd);
    l->err_fd = -1;
}

static void handle_signals(attempt *t)
{
    int number;
    while ((number = run_take_signal()) != 0) {
        char text[16];
        const bool ends = number == SIGINT || number == SIGTERM || number == SIGHUP;
        snprintf(text, sizeof(text), "%d", number);
        if (t->launched) tell_all(t, WIRE_SIGNAL, text);
        if (!ends) {
            if (t->launched) t->asked = number;
            continue;
        }
        if (!t->launched) t->called_off = true;
        if (t->passed_on || !t->launched)
            stop_agents(t); /* the second one does not wait for the workers' own good time */
        t->passed_on = number;
    }
}

static void check_clock(attempt *t)
{
    const double now = run_now();
    if (t->stop_at && now > t->stop_at) stop_agents(t);
    const bool slow_start = !t->launched && !t->stopping && now > t->begun + t->o->start_timeout;
    const bool give_up = t->give_up_at && now > t->give_up_at;
    for (uint32_t i = 0; i < t->num_links; i++) {
        agent_link *l = &t->links[i];
        if (l->gone || !(give_up || (slow_start && !l->ready))) continue;
        if (slow_start && !l->err.last[0])
            snprintf(l->err.last, sizeof(l->err.last), "no answer within %g s", t->o->start_timeout);
        link_kill(l);
        link_ended(t, l);
    }
}

static bool all_gone(const attempt *t)
{
    for (uint32_t i = 0; i < t->num_links; i++)
        if (!t->links[i].gone) return false;
    return true;
}

static void watch_agents(attempt *t, struct pollfd *fds)
{
    while (!all_gone(t)) {
        for (uint32_t i = 0; i < t->num_links; i++) {
            fds[2 * i] = (struct pollfd){ .fd = t->links[i].err_fd, .events = POLLIN };
            fds[2 * i + 1] = (struct pollfd){ .fd = t->links[i].gone ? -1 : t->links[i].out, .events = POLLIN };
        }
        const bool waiting = !t->launched || t->stopping || t->stop_at;
        const struct timespec tick = { .tv_nsec = 100000000 };
        if (ppoll(fds, 2 * (nfds_t)t->num_links, waiting ? &tick : NULL, run_unblocked()) < 0 && errno != EINTR) {
            set_cause(t, CODE_FAILED, "cannot wait for the workers: %s", strerror(errno));
            t->has_cause = true;
            for (uint32_t i = 0; i < t->num_links; i++) link_kill(&t->links[i]);
            return;
        }
        handle_signals(t);
        for (uint32_t i = 0; i < t->num_links; i++) {
            if (fds[2 * i].revents && t->links[i].err_fd >= 0) read_link_errors(&t->links[i]);
            if (fds[2 * i + 1].revents && !t->links[i].gone) read_link(t, &t->links[i]);
        }
        check_clock(t);
    }
}

static bool attempt_prepare(attempt *t)
{
    t->links = calloc(t->num_links, sizeof(*t->links));
    for (uint32_t i = 0; i < t->num_links; i++) t->num_workers += t->places[i].count;
    t->workers = calloc(t->num_workers, sizeof(*t->workers));
    if (!t->links || !t->workers) {
        set_cause(t, CODE_FAILED, "out of memory");
        return false;
    }
    for (uint32_t i = 0; i < t->num_links; i++) {
        const placement *p = &t->places[i];
        t->links[i] = (agent_link){ .place = p, .in = -1, .out = -1, .err_fd = -1, .gone = true };
        output_init(&t->links[i].err, STDERR_FILENO, t->o->hosts->items[p->host].name, i, false);
        for (uint32_t k = 0; k < p->count; k++) {
            worker *w = &t->workers[p->first_rank + k];
            char label[16];
            snprintf(label, sizeof(label), "%u", p->first_rank + k);
            w->link = i;
            /* JSON on standard output stands alone there. */
            output_init(&w->out, json_replaces_text(t->o->json_path) ? STDERR_FILENO : STDOUT_FILENO, label,
                        p->first_rank + k, t->o->no_prefix);
            output_init(&w->err, STDERR_FILENO, label, p->first_rank + k, t->o->no_prefix);
        }
    }
    return true;
}

/* Workers that went away with their host have no exit code. */
static json_t *workers_json(const attempt *t)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < t->num_workers; i++) {
        const worker *w = &t->workers[i];
        json_t *end = json_pack("{s:i,s:o}", "rank", (int)i, "host", json_text(host_of(t, &t->links[w->link])->name));
        const bool exited = w->told && WIFEXITED(w->status), killed = w->told && WIFSIGNALED(w->status);
        json_object_set_new(end, "exit_code", exited ? json_integer(WEXITSTATUS(w->status)) : json_null());
        json_object_set_new(end, "signal", killed ? json_integer(WTERMSIG(w->status)) : json_null());
        json_array_append_new(list, end);
    }
    return list;
}

void run_attempt(const run_options *o, const placement *places, uint32_t num_places, uint64_t epoch,
                 attempt_result *result)
{
    *result = (attempt_result){ .status = CODE_FAILED };
    attempt t = { .o = o,
                  .places = places,
                  .num_links = num_places,
                  .epoch = epoch,
                  .begun = run_now(),
                  .all_ok = true,
                  .result = result };
    struct pollfd *fds = calloc(2 * (size_t)num_places, sizeof(*fds));
    bool ok = fds && attempt_prepare(&t);
    for (uint32_t i = 0; i < num_places && ok; i++) {
        char error[512];
        ok = link_open(o, &t.links[i], error);
        if (ok) continue;
        set_cause(&t, CODE_FAILED, "%s", error);
        t.has_cause = true;
        stop_agents(&t);
    }
    if (t.links && t.workers && fds) watch_agents(&t, fds);
    for (uint32_t i = 0; t.links && i < num_places; i++) link_free(&t.links[i]);
    for (uint32_t i = 0; t.workers && i < t.num_workers; i++) {
        output_free(&t.workers[i].out);
        output_free(&t.workers[i].err);
    }
    const bool stopped = t.answered && !t.passed_on && !t.has_cause;
    if (stopped)
        set_cause(&t, RF_EXIT_RESTARTABLE,
                  "the workers stopped as signal %d (%s) requested; start the job again to continue", t.asked,
                  strsignal(t.asked));
    result->interrupted = t.passed_on != 0 || stopped;
    result->ok = t.launched && t.all_ok && !t.has_cause && !t.has_restartable;
    if (result->ok)
        result->status = CODE_OK;
    else if (t.passed_on && !result->cause[0])
        result->status = 128 + t.passed_on;
    if (o->json_path && t.links && t.workers) result->workers = workers_json(&t);
    free(t.links);
    free(t.workers);
    free(fds);
}
