/* SPDX-License-Identifier: Apache-2.0 */
#include "run/link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <ringfire/ringfire.h>

#define MAX_SSH_WORDS 64

/* In single quotes for a shell on the other side. */
static bool text_quote(char *out, size_t size, const char *text)
{
    size_t used = 0;
    out[used++] = '\'';
    for (; *text; text++) {
        const char *piece = *text == '\'' ? "'\\''" : (const char[]){ *text, '\0' };
        const size_t length = strlen(piece);
        if (used + length + 2 > size) return false;
        memcpy(out + used, piece, length);
        used += length;
    }
    out[used++] = '\'';
    out[used] = '\0';
    return true;
}

static void pause_briefly(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
}

_Noreturn static void link_become(const char *const *arguments, const int ends[3])
{
    setpgid(0, 0); /* a terminal's Ctrl-C is for the launcher alone, which passes it on */
    if (dup2(ends[0], 0) < 0 || dup2(ends[1], 1) < 0 || dup2(ends[2], 2) < 0) _exit(126);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    execvp(arguments[0], (char *const *)arguments);
    fprintf(stderr, "cannot start %s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

static bool agent_spawn(agent_link *l, const char *const *arguments, char error[512])
{
    int pipes[3][2];
    int made = 0;
    while (made < 3 && pipe2(pipes[made], O_CLOEXEC) == 0) made++;
    fflush(NULL);
    const pid_t pid = made == 3 ? fork() : -1;
    if (pid == 0) link_become(arguments, (int[3]){ pipes[0][0], pipes[1][1], pipes[2][1] });
    if (pid < 0) {
        snprintf(error, 512, "cannot start %.200s: %s", arguments[0], strerror(errno));
        for (int i = 0; i < made; i++) {
            close(pipes[i][0]);
            close(pipes[i][1]);
        }
        return false;
    }
    setpgid(pid, pid);
    close(pipes[0][0]);
    close(pipes[1][1]);
    close(pipes[2][1]);
    l->in = pipes[0][1];
    l->out = pipes[1][0];
    l->err_fd = pipes[2][0];
    l->pid = pid;
    l->gone = false;
    return true;
}

bool link_open(const run_options *o, agent_link *l, char error[512])
{
    char self[4096], quoted[4200], command[4300];
    const char *words[MAX_SSH_WORDS + 3];
    const char *name = o->hosts->items[l->place->host].name;
    const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (length <= 0 || length == sizeof(self) - 1) {
        snprintf(error, 512, "cannot find out where this program is: %s", strerror(errno));
        return false;
    }
    self[length] = '\0';
    if (host_is_local(name)) return agent_spawn(l, (const char *[]){ self, "run", "--agent", NULL }, error);
    if (!text_quote(quoted, sizeof(quoted), self)) {
        snprintf(error, 512, "the path of this program is too long for a remote command");
        return false;
    }
    snprintf(command, sizeof(command), "exec %s run --agent", quoted);
    char *ssh = strdup(o->ssh), *rest = NULL;
    if (!ssh) {
        snprintf(error, 512, "out of memory");
        return false;
    }
    int count = 0;
    for (char *word = strtok_r(ssh, " \t", &rest); word && count < MAX_SSH_WORDS; word = strtok_r(NULL, " \t", &rest))
        words[count++] = word;
    words[count++] = name;
    words[count++] = command;
    words[count] = NULL;
    const bool ok = agent_spawn(l, words, error);
    free(ssh);
    return ok;
}

void link_close_input(agent_link *l)
{
    if (l->in >= 0) close(l->in);
    l->in = -1;
}

void link_kill(agent_link *l)
{
    if (!l->gone) kill(-l->pid, SIGKILL);
}

void link_finish(agent_link *l)
{
    if (l->gone) return;
    l->gone = true;
    link_close_input(l);
    if (l->out >= 0) close(l->out);
    l->out = -1;
    int status = 0;
    for (int i = 0; waitpid(l->pid, &status, WNOHANG) == 0; i++) {
        if (i == 200) kill(-l->pid, SIGKILL);
        pause_briefly();
    }
    if (l->err_fd >= 0) {
        char buffer[4096];
        ssize_t n;
        fcntl(l->err_fd, F_SETFL, O_NONBLOCK);
        while ((n = read(l->err_fd, buffer, sizeof(buffer))) > 0) output_feed(&l->err, buffer, (size_t)n);
        close(l->err_fd);
    }
    l->err_fd = -1;
    output_finish(&l->err);
    if (!l->err.last[0] && WIFEXITED(status) && WEXITSTATUS(status) != 0)
        snprintf(l->err.last, sizeof(l->err.last), "the connection ended with status %d", WEXITSTATUS(status));
    else if (!l->err.last[0] && WIFSIGNALED(status))
        snprintf(l->err.last, sizeof(l->err.last), "the connection was ended by signal %d", WTERMSIG(status));
}

void link_free(agent_link *l)
{
    link_kill(l);
    link_finish(l);
    wire_free(&l->reader);
    output_free(&l->err);
}

/* A key for this attempt alone. */
static bool make_key(char key[65], char error[512])
{
    uint8_t bytes[32];
    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes)) {
        snprintf(error, 512, "cannot make a job key: %s", strerror(errno));
        return false;
    }
    for (size_t i = 0; i < sizeof(bytes); i++) snprintf(key + 2 * i, 3, "%02x", bytes[i]);
    explicit_bzero(bytes, sizeof(bytes));
    return true;
}

static void put_setting(FILE *f, char what, const char *text)
{
    fprintf(f, "%c%s%c", what, text, '\0');
}

static void put_exports(const run_options *o, FILE *f, bool is_local)
{
    for (char **v = environ; *v && !is_local; v++)
        if (strncmp(*v, "RINGFIRE_", 9) == 0 && strncmp(*v, "RINGFIRE_BIND=", 14) != 0) put_setting(f, 's', *v);
    for (uint32_t i = 0; i < o->num_exports; i++) {
        const char *value = strchr(o->exports[i], '=') ? NULL : getenv(o->exports[i]);
        if (strchr(o->exports[i], '='))
            put_setting(f, 's', o->exports[i]);
        else if (value)
            fprintf(f, "s%s=%s%c", o->exports[i], value, '\0');
    }
}

typedef struct job_text {
    char master[300], run[32], key[65];
    uint32_t num_workers;
    uint64_t epoch;
} job_text;

static void put_job(const run_options *o, FILE *f, const job_text *j, bool is_local)
{
    fprintf(f, "sRINGFIRE_WORLD_SIZE=%u%c", j->num_workers, '\0');
    fprintf(f, "sRINGFIRE_MASTER=%s%c", j->master, '\0');
    fprintf(f, "sRINGFIRE_EPOCH=%llu%c", (unsigned long long)j->epoch, '\0');
    fprintf(f, "sRINGFIRE_RUN_ID=%s%c", j->run, '\0');
    if (is_local && o->bind) fprintf(f, "sRINGFIRE_BIND=%s%c", o->bind, '\0');
    if (o->encrypt) put_setting(f, 's', "RINGFIRE_ENCRYPT=1");
    put_setting(f, o->insecure ? 's' : 'u', o->insecure ? "RINGFIRE_INSECURE=1" : "RINGFIRE_INSECURE");
    if (o->insecure)
        put_setting(f, 'u', "RINGFIRE_KEY_FILE");
    else
        put_setting(f, 'k', j->key);
}

static bool send_start(const run_options *o, const agent_link *l, const job_text *j, const char *directory)
{
    const bool is_local = host_is_local(o->hosts->items[l->place->host].name);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) return false;
    put_setting(f, 'c', directory);
    for (char **a = o->program; *a; a++) put_setting(f, 'a', *a);
    fprintf(f, "r%u%cn%u%cg%g%c", l->place->first_rank, '\0', l->place->count, '\0', o->grace, '\0');
    put_exports(o, f, is_local);
    put_job(o, f, j, is_local);
    const bool ok = fclose(f) == 0;
    /* An agent that is gone is noticed by the end of its output. */
    if (ok) wire_send(l->in, WIRE_START, 0, text, size);
    if (text) explicit_bzero(text, size);
    free(text);
    return ok;
}

static void name_master(const run_options *o, const agent_link *links, uint32_t num_links, job_text *j)
{
    const char *name = o->hosts->items[links[0].place->host].name;
    bool all_local = true;
    for (uint32_t i = 0; i < num_links; i++) all_local &= host_is_local(o->hosts->items[links[i].place->host].name);
    if (o->bind && host_is_local(name) && !host_is_any(o->bind))
        name = o->bind;
    else if (all_local)
        name = "127.0.0.1";
    snprintf(j->master, sizeof(j->master), strchr(name, ':') ? "[%s]:%u" : "%s:%u", name,
             o->master_port ? o->master_port : links[0].port);
}

bool start_workers(const run_options *o, agent_link *links, uint32_t num_links, uint32_t num_workers, uint64_t epoch,
                   char error[512])
{
    job_text j = { .num_workers = num_workers, .epoch = epoch };
    char directory[4096];
    uint64_t number = 0;
    if (!getcwd(directory, sizeof(directory))) {
        snprintf(error, 512, "the current directory: %s", strerror(errno));
        return false;
    }
    if (!o->master_port && !links[0].port) {
        snprintf(error, 512, "host %s has no free port; name one with --master-port",
                 o->hosts->items[links[0].place->host].name);
        return false;
    }
    if (!o->insecure && !make_key(j.key, error)) return false;
    if (getrandom(&number, sizeof(number), 0) != sizeof(number)) number = (uint64_t)getpid();
    snprintf(j.run, sizeof(j.run), "%016llx", (unsigned long long)number);
    name_master(o, links, num_links, &j);
    bool ok = true;
    for (uint32_t i = 0; i < num_links && ok; i++) ok = send_start(o, &links[i], &j, directory);
    explicit_bzero(j.key, sizeof(j.key));
    if (!ok) snprintf(error, 512, "out of memory");
    return ok;
}
