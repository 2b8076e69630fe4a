/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that communicate as trainers do, and a fault in each at a random time: every survivor must name the right rank
 * in time, no rank may hang or leave anything behind, and what is no fault must raise no alarm. See usage() for the
 * options.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../support/port.h"
#include "base/platform.h"
#include "faults.h"
#include "ranks.h"
#include "tests/room.h"

#define HANG_MS 12000.0
#define TOLD_MS 1000.0                                /* after a death all ranks know within this time */
#define SILENT_MS (1000 * FAULTS_PEER_TIMEOUT + 1000) /* after silence */

typedef enum fault {
    KILL_JOINING,
    KILL_TRAINING,
    KILL_SAVING,
    KILL_LEAVING,
    FREEZE,
    HOLE_PATH,
    HOLE_ONE_WAY,
    HOLE_MUTE,
    HOLE_DEAF,
    HOLE_CABLE,
    PAUSE,
    LOAD,
    FAULT_COUNT
} fault;
static const char *const fault_names[FAULT_COUNT] = {
    "kill -9 while joining",
    "kill -9 in training",
    "kill -9 while saving",
    "kill -9 while leaving",
    "SIGSTOP",
    "path cut both ways",
    "path cut one way",
    "rank cut: is not heard",
    "rank cut: hears nobody",
    "cable pulled out",
    "pause below the limit",
    "busy machine",
};

typedef struct tally {
    unsigned rounds, wrong, reports;
    double worst_ms, sum_ms;
} tally;

typedef struct round_plan {
    fault what;
    uint32_t victim, other;
    bool own_network;
    uint32_t absent; /* a rank that never joins, so that the others wait for it; 0: none */
    uint64_t at;     /* when it happened */
} round_plan;

static tally tallies[FAULT_COUNT];
static uint64_t random_state;

static uint32_t random_below(uint32_t n) /* xorshift64* */
{
    random_state ^= random_state >> 12;
    random_state ^= random_state << 25;
    random_state ^= random_state >> 27;
    return (uint32_t)((random_state * UINT64_C(0x2545F4914F6CDD1D)) >> 33) % n;
}

static void sleep_us(uint32_t us)
{
    struct timespec t = { us / 1000000, (long)(us % 1000000) * 1000 };
    while (nanosleep(&t, &t) != 0 && errno == EINTR) {}
}

/* ---- jobs ---- */

static training_job *job_start(uint32_t world, uint32_t absent, bool own_network)
{
    training_job *job = mmap(NULL, sizeof(*job), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (job == MAP_FAILED) abort();
    job->world = world;
    job->absent = absent;
    job->port = free_port();
    job->floats = 600000 + random_below(1200000);
    snprintf(job->folder, sizeof(job->folder), "/tmp/ringfire-faults-%d", (int)getpid());
    mkdir(job->folder, 0700);
    for (uint32_t r = 0; r < world; r++)
        snprintf(job->address[r], sizeof(job->address[r]), "%s", own_network ? net_address(r) : "127.0.0.1");
    fflush(NULL);
    for (uint32_t r = 0; r < world; r++) {
        const pid_t pid = fork();
        if (pid < 0) abort();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (own_network) net_enter(r);
            trainee_run(job, r);
            exit(0);
        }
        job->pids[r] = pid;
    }
    return job;
}

/* Waits until all but `but` (a rank, or the world size) have come so far; returns the first that has not within the
 * time, or the world size. */
static uint32_t job_await(const training_job *job, phase wanted, uint32_t but, double ms)
{
    const uint64_t end = rf_now_ns() + (uint64_t)(ms * 1e6);
    for (uint32_t r = 0; r < job->world; r++) {
        if (r == but) continue;
        while (atomic_load(&job->ranks[r].phase) < (int)wanted) {
            if (rf_now_ns() > end) return r;
            sleep_us(1000);
        }
    }
    return job->world;
}

static void job_end(training_job *job)
{
    char path[128];
    for (uint32_t r = 0; r < job->world; r++) {
        kill(job->pids[r], SIGKILL);
        waitpid(job->pids[r], NULL, 0);
        snprintf(path, sizeof(path), "%s/rank-%u", job->folder, r);
        unlink(path);
    }
    rmdir(job->folder);
    munmap(job, sizeof(*job));
}

/* ---- verdicts ---- */

static void complain(const training_job *job, round_plan *p, uint32_t rank, const char *what)
{
    const trainee *t = &job->ranks[rank];
    tallies[p->what].wrong++;
    printf("WRONG %s: victim %u (other %u) of %u, rank %u: %s; phase %d, step %u, result %s, lost %d after %.0f ms: %s "
           "%s %s\n",
           fault_names[p->what], p->victim, p->other, job->world, rank, what, t->phase, t->steps,
           rf_result_name(t->result), t->lost, (double)(int64_t)(t->seen - p->at) * 1e-6, t->message, t->leaked,
           t->late);
    fflush(stdout);
}

static bool names(const trainee *t, uint32_t rank)
{
    char text[16];
    snprintf(text, sizeof(text), "rank %u", rank);
    const char *found = strstr(t->message, text);
    return found && (found[strlen(text)] < '0' || found[strlen(text)] > '9');
}

static bool blames(const trainee *t, uint32_t rank)
{
    return t->result == RF_ERROR_PEER_LOST && t->lost == (int32_t)rank && names(t, rank);
}

/* Who had joined when the victim, who had joined, died, hears of it from rank 0 at once. Whether those two had is known
 * only where all waited for another rank; where it is not, a rank may say when the time is over that the victim
 * has not come or, late itself, that rank 0 has gone. */
static const char *judge_joining(const round_plan *p, const trainee *t, double ms)
{
    const bool lost = t->result == RF_ERROR_PEER_LOST;
    if (lost) return !names(t, p->victim) ? "blames another" : ms > TOLD_MS ? "late" : NULL;
    if (p->absent) return "does not know of the loss";
    if (t->result >= 0 || !(names(t, p->victim) || strstr(t->message, "cannot join rank 0"))) return "does not name it";
    return ms > 1000 * FAULTS_BOOTSTRAP_TIMEOUT + 1000 ? "late" : NULL;
}

/* NULL: as promised. */
static const char *judge(const training_job *job, const round_plan *p, uint32_t rank, double ms)
{
    const trainee *t = &job->ranks[rank];
    switch (p->what) {
    case KILL_JOINING: return judge_joining(p, t, ms);
    case KILL_TRAINING:
    case KILL_SAVING: return !blames(t, p->victim) ? "blames another" : ms > TOLD_MS ? "late" : NULL;
    case KILL_LEAVING: return t->result != RF_OK && !blames(t, p->victim) ? "blames another" : NULL;
    case HOLE_PATH:
    case HOLE_ONE_WAY: /* The higher of two goes that no longer reach each other while others reach both. */
        if (job->world > 2)
            return !blames(t, p->victim > p->other ? p->victim : p->other) ? "blames another"
                   : ms > SILENT_MS                                        ? "late"
                                                                           : NULL; /* fall through */
    case HOLE_MUTE:
    case HOLE_DEAF:
    case HOLE_CABLE: /* Two alone cannot know whose fault it is. */
        if (job->world == 2)
            return t->result != RF_ERROR_PEER_LOST ? "no loss" : ms > SILENT_MS ? "late" : NULL; /* fall through */
    case FREEZE: return !blames(t, p->victim) ? "blames another" : ms > SILENT_MS ? "late" : NULL;
    default: return t->result != RF_OK ? "false alarm" : NULL;
    }
}

/* `gone`: a rank that cannot report, or the world size. */
static void check_reports(training_job *job, round_plan *p, uint32_t gone)
{
    tally *sum = &tallies[p->what];
    const bool timed = p->what != PAUSE && p->what != LOAD;
    for (uint32_t r = 0; r < job->world; r++) {
        const trainee *t = &job->ranks[r];
        if (r == gone || (p->absent && r == p->absent)) continue;
        const double ms = (double)(int64_t)(t->seen - p->at) * 1e-6, leaving = (double)(t->left - t->seen) * 1e-6;
        const char *wrong = judge(job, p, r, ms);
        if (!wrong && timed && p->what != KILL_LEAVING && leaving > 1000) wrong = "takes long to leave";
        if (!wrong && p->what == KILL_LEAVING && (double)(int64_t)(t->left - p->at) * 1e-6 > TOLD_MS) wrong = "late";
        if (!wrong && t->leaked[0]) wrong = "leaves descriptors open";
        if (!wrong && t->late[0]) wrong = "forgets";
        if (wrong) complain(job, p, r, wrong);
        if (!timed || p->what == KILL_LEAVING || (p->what == KILL_JOINING && t->result != RF_ERROR_PEER_LOST)) continue;
        sum->reports++;
        sum->sum_ms += ms;
        if (ms > sum->worst_ms) sum->worst_ms = ms;
    }
}

/* ---- faults ---- */

/* Connections to a port on loopback, counted where they were made. */
static uint32_t connections_to(uint16_t port)
{
    char line[256];
    uint32_t count = 0;
    FILE *file = fopen("/proc/net/tcp", "r");
    while (file && fgets(line, sizeof(line), file)) {
        unsigned remote, state;
        if (sscanf(line, "%*u: %*8x:%*x %*8x:%x %x", &remote, &state) == 2) count += remote == port && state == 1;
    }
    if (file) fclose(file);
    return count;
}

/* All who are to join have connected and, a while later, said who they are. */
static bool await_connections(uint16_t port, uint32_t count)
{
    const uint64_t end = rf_now_ns() + UINT64_C(3000000000);
    while (connections_to(port) < count)
        if (rf_now_ns() > end)
            return false;
        else
            sleep_us(1000);
    sleep_us(200000 + random_below(300000));
    return true;
}

/* Waits for the moment. False: the job is not what it should be. */
static bool reach(training_job *job, round_plan *p)
{
    uint32_t late = job->world;
    if (p->what == KILL_JOINING && !p->absent) {
        sleep_us(random_below(120000));
        return true;
    }
    if (p->what == KILL_JOINING) {
        if (await_connections(job->port, job->world - 2)) return true;
        p->at = rf_now_ns();
        complain(job, p, 0, "the others do not join");
        return false;
    }
    late = job_await(job, PHASE_TRAINING, job->world, 20000);
    if (late == job->world) sleep_us(random_below(400000));
    if (p->what == KILL_LEAVING) job->stop = true;
    const int wanted = p->what == KILL_SAVING ? PHASE_SAVING : p->what == KILL_LEAVING ? PHASE_LEAVING : -1;
    const uint64_t end = rf_now_ns() + UINT64_C(20000000000);
    while (late == job->world && wanted >= 0 && atomic_load(&job->ranks[p->victim].phase) < wanted) {
        if (rf_now_ns() > end) late = p->victim;
        if (wanted == PHASE_LEAVING) sleep_us(50);
    }
    if (wanted >= 0) sleep_us(random_below(wanted == PHASE_SAVING ? 30000 : 3000));
    if (late == job->world) return true;
    p->at = rf_now_ns();
    complain(job, p, late, "does not get so far without any fault");
    return false;
}

static void inject(training_job *job, round_plan *p)
{
    const pid_t pid = job->pids[p->victim];
    for (uint32_t r = 0; r < job->world; r++) {
        if (r == p->victim) continue;
        if (p->what == HOLE_MUTE || (r == p->other && (p->what == HOLE_PATH || p->what == HOLE_ONE_WAY)))
            net_drop(p->victim, r);
        if (p->what == HOLE_DEAF || (r == p->other && p->what == HOLE_PATH)) net_drop(r, p->victim);
    }
    if (p->what == HOLE_CABLE) net_unplug(p->victim, true);
    if (p->what <= KILL_LEAVING) kill(pid, SIGKILL);
    if (p->what == FREEZE) kill(pid, SIGSTOP);
    p->at = rf_now_ns();
    if (p->what != PAUSE) return;
    kill(pid, SIGSTOP);
    sleep_us(300000 + random_below((uint32_t)(FAULTS_PEER_TIMEOUT * 500000) - 400000));
    kill(pid, SIGCONT);
    sleep_us(500000);
    job->stop = true;
}

static void one_round(fault what, bool own_network)
{
    round_plan p = { .what = what, .own_network = own_network };
    const bool while_waiting = what == KILL_JOINING && random_below(2);
    const uint32_t world = while_waiting ? 3 + random_below(FAULTS_RANKS - 2) : 2 + random_below(FAULTS_RANKS - 1);
    p.victim = random_below(world);
    while (while_waiting && (p.absent == 0 || p.absent == p.victim)) p.absent = 1 + random_below(world - 1);
    p.other = (p.victim + 1 + random_below(world - 1)) % world;
    training_job *job = job_start(world, p.absent, own_network);
    tallies[what].rounds++;
    if (reach(job, &p)) {
        inject(job, &p);
        const uint32_t gone = what <= KILL_LEAVING || what == FREEZE ? p.victim : world;
        uint32_t hangs = job_await(job, PHASE_DONE, gone, HANG_MS);
        if (hangs < world) complain(job, &p, hangs, "hangs");
        if (hangs == world) check_reports(job, &p, gone);
        if (what == FREEZE && hangs == world) { /* it wakes up in a job that went on without it */
            kill(job->pids[p.victim], SIGCONT);
            hangs = job_await(job, PHASE_DONE, world, SILENT_MS);
            if (hangs < world || job->ranks[p.victim].result != RF_ERROR_PEER_LOST)
                complain(job, &p, p.victim, "does not notice that it was left behind");
        }
    }
    if (own_network) net_heal();
    job_end(job);
}

/* More processes that compute than processors, now and then a pause; jobs of up to half a minute. */
static void run_busy(double seconds)
{
    const long hogs = 2 * sysconf(_SC_NPROCESSORS_ONLN);
    pid_t pids[256];
    const uint64_t end = rf_now_ns() + (uint64_t)(seconds * 1e9);
    for (long i = 0; i < hogs && i < 256; i++) {
        pids[i] = fork();
        if (pids[i] != 0) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile bool busy = true; busy;) {}
    }
    while (rf_now_ns() < end) {
        round_plan p = { .what = LOAD };
        training_job *job = job_start(FAULTS_RANKS, 0, false);
        tallies[LOAD].rounds++;
        uint64_t stop = rf_now_ns() + UINT64_C(30000000000);
        if (stop > end) stop = end;
        if (reach(job, &p)) {
            while (rf_now_ns() < stop) {
                const pid_t pid = job->pids[random_below(FAULTS_RANKS)];
                sleep_us(random_below(1500000));
                kill(pid, SIGSTOP);
                sleep_us(random_below((uint32_t)(FAULTS_PEER_TIMEOUT * 400000)));
                kill(pid, SIGCONT);
            }
            job->stop = true;
            p.at = rf_now_ns();
            const uint32_t hangs = job_await(job, PHASE_DONE, job->world, 4 * HANG_MS);
            if (hangs < job->world)
                complain(job, &p, hangs, "hangs");
            else
                check_reports(job, &p, job->world);
        }
        job_end(job);
    }
    for (long i = 0; i < hogs && i < 256; i++) {
        kill(pids[i], SIGKILL);
        waitpid(pids[i], NULL, 0);
    }
}

/* ---- all of it ---- */

/* Whether a directory that only we use has become empty again. */
static unsigned left_over(const char *path)
{
    unsigned count = 0;
    DIR *directory = opendir(path);
    for (struct dirent *e; directory && (e = readdir(directory));) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        printf("WRONG left behind: %s/%s\n", path, e->d_name);
        count++;
    }
    if (directory) closedir(directory);
    return count;
}

static unsigned summary(void)
{
    unsigned wrong = 0;
    for (int i = 0; i < FAULT_COUNT; i++) {
        const tally *t = &tallies[i];
        wrong += t->wrong;
        if (t->rounds == 0) continue;
        printf("%-23s %4u jobs, %u wrong", fault_names[i], t->rounds, t->wrong);
        if (t->reports)
            printf(", known after %.0f ms on average, %.0f ms at worst", t->sum_ms / t->reports, t->worst_ms);
        printf("\n");
    }
    return wrong;
}

static int usage(const char *program, int code)
{
    fprintf(code ? stderr : stdout,
            "Usage: %s [--full] [--kills N] [--stops N] [--holes N] [--pauses N] [--load SECONDS] [--seed N]\n"
            "--full: 200 kills, 50 stopped ranks, 50 black holes, 50 pauses, 600 seconds on a busy machine.\n",
            program);
    return code;
}

TEST_PROGRAM(faults_job)
{
    enum { KILLS, STOPS, HOLES, PAUSES, LOADS, SEED, FULL, HELP };
    static const struct option options[] = {
        { "kills", 1, NULL, KILLS },   { "stops", 1, NULL, STOPS }, { "holes", 1, NULL, HOLES },
        { "pauses", 1, NULL, PAUSES }, { "load", 1, NULL, LOADS },  { "seed", 1, NULL, SEED },
        { "full", 0, NULL, FULL },     { "help", 0, NULL, HELP },   { NULL, 0, NULL, 0 },
    };
    unsigned long counts[] = { 12, 2, 5, 2, 6, 1 };
    static const unsigned long full[] = { 200, 50, 50, 50, 600 };
    for (int o; (o = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (o == FULL)
            memcpy(counts, full, sizeof(full));
        else if (o >= KILLS && o <= SEED)
            counts[o] = strtoul(optarg, NULL, 10);
        else
            return usage(argv[0], o == HELP ? 0 : 2);
    }
    if (optind < argc) return usage(argv[0], 2);
    random_state = counts[SEED] * UINT64_C(0x9E3779B97F4A7C15) | 1;
    char why[64] = "namespaces are not allowed";
    const bool alone = files_of_our_own(), network = network_of_our_own() && net_open(why, sizeof(why));
    if (!alone) printf("not looked for: files left in /tmp and /dev/shm, which others use too\n");
    if (!network) printf("no black holes: %s\n", why);
    for (unsigned long i = 0; i < counts[KILLS]; i++) one_round((fault)(KILL_JOINING + i % 4), false);
    for (unsigned long i = 0; i < counts[STOPS]; i++) one_round(FREEZE, false);
    for (unsigned long i = 0; network && i < counts[HOLES]; i++) one_round((fault)(HOLE_PATH + i % 5), true);
    for (unsigned long i = 0; i < counts[PAUSES]; i++) one_round(PAUSE, false);
    if (counts[LOADS] > 0) run_busy((double)counts[LOADS]);
    unsigned wrong = summary();
    if (alone) wrong += left_over("/tmp") + left_over("/dev/shm");
    printf("%u wrong\n", wrong);
    return wrong ? 1 : 0;
}
