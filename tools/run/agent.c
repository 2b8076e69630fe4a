/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of `ringfire run` that lives on each host: starts the host's workers, reports what they write and how they
 * end, and ends them on request or when its launcher is gone. Speaks the frames of wire.h on stdin and stdout.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ringfire/ringfire.h>

#include "commands.h"
#include "folder.h"
#include "ports.h"
#include "run/hosts.h"
#include "run/order.h"
#include "run/run.h"
#include "run/wire.h"

typedef struct worker {
    pid_t pid;
    int pipes[2]; /* what it writes to stdout and stderr; -1 at their end */
    bool ended, reported;
    int status;
    double ended_at;
} worker;

typedef struct agent {
    wire_reader reader;
    start_order order;
    char key_folder[FOLDER_SIZE], key_path[FOLDER_SIZE + 16];
    worker *workers;
    bool stopping, orphaned;
    double kill_at;
} agent;

static volatile sig_atomic_t child_ended, asked_to_end;

static void on_signal(int signal_number)
{
    if (signal_number == SIGCHLD)
        child_ended = 1;
    else
        asked_to_end = 1;
}

double run_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void remove_key(agent *a)
{
    if (a->key_path[0]) unlink(a->key_path);
    if (a->key_folder[0]) rmdir(a->key_folder);
    a->key_path[0] = a->key_folder[0] = '\0';
}

static bool write_key_file(agent *a)
{
    snprintf(a->key_path, sizeof(a->key_path), "%s/job.key", a->key_folder);
    const int fd = open(a->key_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const bool ok = fd >= 0 && write_all(fd, a->order.key, strlen(a->order.key)) && write_all(fd, "\n", 1);
    const int code = errno;
    if (fd >= 0) close(fd);
    if (!ok) remove_key(a);
    errno = code;
    return ok;
}

/* The job key in a file of its own, so that it appears in no arguments and no environment. */
static bool write_key(agent *a)
{
    unsigned place = 0;
    int code = 0;
    while (folder_make(a->key_folder, &place)) {
        if (write_key_file(a)) return true;
        code = errno; /* a full disk: another place may do */
    }
    if (code) errno = code;
    return false;
}

static void set_number(const char *name, uint32_t value)
{
    char text[16];
    snprintf(text, sizeof(text), "%u", value);
    setenv(name, text, 1);
}

_Noreturn static void agent_become(const agent *a, uint32_t index, const int ends[2])
{
    const int nothing = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(ends[0], 1) < 0 || dup2(ends[1], 2) < 0) _exit(126);
    if (nothing > 2) close(nothing);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    for (uint32_t i = 0; i < a->order.num_unset; i++) unsetenv(a->order.unset[i]);
    for (uint32_t i = 0; i < a->order.num_set; i++) putenv(a->order.set[i]);
    set_number("RINGFIRE_RANK", a->order.first_rank + index);
    set_number("RINGFIRE_LOCAL_RANK", index);
    set_number("RINGFIRE_LOCAL_SIZE", a->order.count);
    if (a->order.key) setenv("RINGFIRE_KEY_FILE", a->key_path, 1);
    if (chdir(a->order.directory) != 0) {
        fprintf(stderr, "ringfire: cannot enter %s: %s\n", a->order.directory, strerror(errno));
        _exit(126);
    }
    execvp(a->order.arguments[0], a->order.arguments);
    const int code = errno == ENOENT ? 127 : 126;
    fprintf(stderr, "ringfire: cannot start %s: %s\n", a->order.arguments[0], strerror(errno));
    _exit(code);
}

static bool start_worker(agent *a, uint32_t index)
{
    worker *w = &a->workers[index];
    int out[2], err[2];
    if (pipe2(out, O_CLOEXEC) != 0) return false;
    if (pipe2(err, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return false;
    }
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) agent_become(a, index, (int[2]){ out[1], err[1] });
    if (pid > 0) setpgid(pid, pid); /* here too: a signal may be due before the child has come so far */
    close(out[1]);
    close(err[1]);
    if (pid < 0) {
        close(out[0]);
        close(err[0]);
        return false;
    }
    *w = (worker){ .pid = pid, .pipes = { out[0], err[0] } };
    return true;
}

static void signal_all(const agent *a, int number)
{
    for (uint32_t i = 0; i < a->order.count && a->workers; i++)
        if (a->workers[i].pid > 0 && !a->workers[i].ended) kill(-a->workers[i].pid, number);
}

static void stop_workers(agent *a)
{
    if (a->stopping) return;
    a->stopping = true;
    a->kill_at = run_now() + a->order.grace;
    signal_all(a, SIGTERM);
}

static void end_orphaned(agent *a)
{
    a->orphaned = true;
    stop_workers(a);
}

static void send_frame(agent *a, uint32_t type, uint32_t rank, const void *data, size_t length)
{
    if (!a->orphaned && !wire_send(STDOUT_FILENO, type, rank, data, length)) end_orphaned(a);
}

static void read_commands(agent *a)
{
    wire_frame f;
    if (wire_read(&a->reader, STDIN_FILENO) <= 0) {
        end_orphaned(a);
        return;
    }
    int got;
    uint32_t number;
    while ((got = wire_next(&a->reader, &f)) > 0) {
        if (f.type == WIRE_SIGNAL && wire_number(&f, SIGRTMAX, &number)) signal_all(a, (int)number);
        if (f.type == WIRE_STOP) stop_workers(a);
    }
    if (got < 0) end_orphaned(a);
}

/* Processes that a worker leaves behind in its group end with it. */
static void reap_workers(agent *a)
{
    for (uint32_t i = 0; i < a->order.count; i++) {
        worker *w = &a->workers[i];
        siginfo_t info = { 0 };
        if (w->ended || w->pid <= 0 || waitid(P_PID, (id_t)w->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
            info.si_pid == 0)
            continue;
        kill(-w->pid, SIGKILL); /* before the wait that gives its number away */
        while (waitpid(w->pid, &w->status, 0) < 0 && errno == EINTR) continue;
        w->ended = true;
        w->ended_at = run_now();
    }
}

static void read_worker(agent *a, uint32_t index, int stream)
{
    char buffer[16384];
    worker *w = &a->workers[index];
    ssize_t n;
    do {
        n = read(w->pipes[stream], buffer, sizeof(buffer));
    } while (n < 0 && errno == EINTR);
    if (n > 0) {
        send_frame(a, stream == 0 ? WIRE_STDOUT : WIRE_STDERR, a->order.first_rank + index, buffer, (size_t)n);
        return;
    }
    close(w->pipes[stream]);
    w->pipes[stream] = -1;
}

/* Says how workers ended once all they wrote is passed on; who left its process group may hold the pipes open: not for
 * long. Returns how many are still to be heard of. */
static uint32_t report_ends(agent *a)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < a->order.count; i++) {
        worker *w = &a->workers[i];
        if (w->reported) continue;
        const bool silent = (w->pipes[0] < 0 && w->pipes[1] < 0) || run_now() > w->ended_at + 1;
        if (!w->ended || !silent) {
            left++;
            continue;
        }
        for (int s = 0; s < 2; s++)
            if (w->pipes[s] >= 0) close(w->pipes[s]);
        w->pipes[0] = w->pipes[1] = -1;
        char text[16];
        send_frame(a, WIRE_EXIT, a->order.first_rank + i, text, (size_t)snprintf(text, sizeof(text), "%d", w->status));
        w->reported = true;
    }
    return left;
}

static void serve_launcher(agent *a, const sigset_t *unblocked)
{
    struct pollfd *fds = calloc(1 + 2 * (size_t)a->order.count, sizeof(*fds));
    while (fds && report_ends(a) > 0) {
        nfds_t n = 0;
        bool waiting = a->stopping;
        fds[n++] = (struct pollfd){ .fd = a->orphaned ? -1 : STDIN_FILENO, .events = POLLIN };
        for (uint32_t i = 0; i < a->order.count; i++) {
            waiting |= a->workers[i].ended && !a->workers[i].reported;
            for (int s = 0; s < 2; s++) fds[n++] = (struct pollfd){ .fd = a->workers[i].pipes[s], .events = POLLIN };
        }
        const struct timespec tick = { .tv_nsec = 50000000 };
        if (ppoll(fds, n, waiting ? &tick : NULL, unblocked) < 0 && errno != EINTR) break;
        if (asked_to_end) stop_workers(a);
        if (child_ended) {
            child_ended = 0;
            reap_workers(a);
        }
        if (fds[0].revents) read_commands(a);
        for (nfds_t k = 1; k < n; k++)
            if (fds[k].revents && a->workers[(k - 1) / 2].pipes[(k - 1) % 2] >= 0)
                read_worker(a, (uint32_t)(k - 1) / 2, (int)(k - 1) % 2);
        if (a->stopping && run_now() > a->kill_at) signal_all(a, SIGKILL);
    }
    signal_all(a, SIGKILL); /* none is left unless something failed */
    free(fds);
}

static bool agent_fail(agent *a, const char *what, int code)
{
    char text[512];
    const int n = snprintf(text, sizeof(text), "%s%s%s", what, code ? ": " : "", code ? strerror(code) : "");
    send_frame(a, WIRE_ERROR, 0, text, (size_t)(n < (int)sizeof(text) ? n : (int)sizeof(text) - 1));
    return false;
}

static bool start_all(agent *a)
{
    wire_frame f = { 0 };
    int got;
    while ((got = wire_next(&a->reader, &f)) == 0)
        if (wire_read(&a->reader, STDIN_FILENO) <= 0) return false; /* called off */
    if (got < 0 || f.type != WIRE_START) return agent_fail(a, "received no order to start workers", 0);
    const char *wrong = order_read(&a->order, f.data, f.length);
    if (wrong) return agent_fail(a, wrong, 0);
    if (a->order.key && !write_key(a))
        return agent_fail(a, "cannot write the job key to a file; name a directory with TMPDIR", errno);
    a->workers = calloc(a->order.count, sizeof(*a->workers));
    if (!a->workers) return agent_fail(a, "no memory for the workers", ENOMEM);
    for (uint32_t i = 0; i < a->order.count; i++) a->workers[i] = (worker){ .pipes = { -1, -1 }, .reported = true };
    for (uint32_t i = 0; i < a->order.count; i++)
        if (!start_worker(a, i)) {
            agent_fail(a, "cannot start a process", errno);
            a->order.grace = 0;
            stop_workers(a);
            break;
        }
    return true;
}

int run_agent(void)
{
    agent *a = calloc(1, sizeof(*a));
    if (!a) return CODE_FAILED;
    static const int signals[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP };
    sigset_t blocked, unblocked;
    sigemptyset(&blocked);
    for (int i = 0; i < 4; i++) sigaddset(&blocked, signals[i]);
    sigprocmask(SIG_BLOCK, &blocked, &unblocked);
    for (int i = 0; i < 4; i++) {
        sigdelset(&unblocked, signals[i]);
        sigaction(signals[i], &(struct sigaction){ .sa_handler = on_signal }, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
    a->order.grace = 5;

    char hello[64];
    uint16_t port;
    if (!free_ports(&port, 1)) port = 0;
    const int length = snprintf(hello, sizeof(hello), "%s%c%u", rf_version_string(), '\0', port);
    if (!write_all(STDOUT_FILENO, WIRE_MAGIC, sizeof(WIRE_MAGIC) - 1)) end_orphaned(a);
    send_frame(a, WIRE_HELLO, 0, hello, (size_t)length);
    const bool started = start_all(a);
    if (started) serve_launcher(a, &unblocked);
    remove_key(a);
    const bool ok = started && !a->orphaned;
    order_free(&a->order);
    free(a->workers);
    wire_free(&a->reader);
    free(a);
    return ok ? CODE_OK : CODE_FAILED;
}
