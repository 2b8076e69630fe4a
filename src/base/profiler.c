/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each thread writes its spans to a buffer of its own, without locks; a full buffer is formatted to the file under one.
 * Threads, devices and the network belong to the process, and so does the trace with its state.
 */
#include "base/profiler.h"
#include "base/numbers.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/params.h"

enum { BUFFER_EVENTS = 512, NAME_SIZE = 48, FIRST_TRACK = 1000, TEXT_SIZE = 65536, LONGEST_ENTRY = 2048 };
#define DEFAULT_INTERVAL 64u
#define DEFAULT_MAX_BYTES (1ull << 30)

typedef struct stored_event {
    const char *category;
    char name[NAME_SIZE];
    uint64_t begin_ns, end_ns;
    uint32_t track;
    rf_span_arg args[2];
} stored_event;

typedef struct thread_buffer {
    struct thread_buffer *next;
    uint32_t number;
    char name[16];
    uint32_t trace;     /* that its events belong to; changed under the lock, by the thread itself */
    uint32_t announced; /* trace that knows the thread's name; under the lock */
    atomic_uint count;  /* events, written by the thread alone */
    uint32_t written;   /* of them, to the file; under the lock */
    stored_event events[BUFFER_EVENTS];
} thread_buffer;

typedef struct track {
    char *name;
    uint32_t announced;
} track;

atomic_uint rf_profiler_running;

static struct {
    pthread_mutex_t lock;
    int fd;
    bool open;     /* a trace runs */
    bool first;    /* nothing in the file yet */
    int error;     /* errno of the first failure, 0: none */
    bool told;     /* the failure was reported */
    pid_t process; /* that started the trace: one forked off must leave the file alone */
    char *path;
    char *text; /* TEXT_SIZE: not yet in the file */
    size_t used;
    uint64_t start_ns, bytes, max_bytes, dropped;
    uint32_t rank, traces;
    atomic_uint op_interval;
    thread_buffer *threads;
    uint32_t num_threads;
    struct {
        track *items;
        uint32_t count, capacity;
    } tracks;
    bool has_key, key_failed;
    pthread_key_t key; /* only for its destructor */
} state = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Thread_local thread_buffer *own;

/* ---- the file; under the lock ---- */

static void flush_text(void)
{
    for (size_t done = 0; done < state.used && state.error == 0;) {
        const ssize_t n = write(state.fd, state.text + done, state.used - done);
        if (n > 0) done += (size_t)n;
        if (n < 0 && errno != EINTR) state.error = errno;
    }
    state.used = 0;
}

/* Outside the lock, because whoever gets the message may record spans: says once that the file is cut. */
static void profiler_unlock(void)
{
    char path[512] = "";
    const int error = state.told ? 0 : state.error;
    if (error != 0) {
        state.told = true;
        snprintf(path, sizeof(path), "%s", state.path ? state.path : "");
    }
    pthread_mutex_unlock(&state.lock);
    if (error != 0)
        rf_log_message(RF_LOG_WARN, "trace '%s' is truncated: writing it failed (%s); later events are lost", path,
                       strerror(error));
}

static void RF_PRINTF(1, 2) profiler_put(const char *format, ...)
{
    if (state.used > TEXT_SIZE - LONGEST_ENTRY) flush_text();
    va_list args;
    va_start(args, format);
    const int n = rf_number_vprint(state.text + state.used, LONGEST_ENTRY, format, args);
    va_end(args);
    if (n < 0 || n >= LONGEST_ENTRY) return;
    state.used += (size_t)n;
    state.bytes += (uint64_t)n;
}

static void begin_entry(void)
{
    profiler_put(state.first ? "[\n" : ",\n");
    state.first = false;
}

/* Writes the inside of a JSON string. Characters that are no printable ASCII become '?': names are cut, perhaps within
 * a character. */
static const char *escape_text(const char *text, char *out, size_t size)
{
    size_t n = 0;
    for (; *text && n + 2 < size; text++) {
        if (*text == '"' || *text == '\\') out[n++] = '\\';
        out[n++] = *text >= ' ' && *text <= '~' ? *text : '?';
    }
    out[n] = '\0';
    return out;
}

static void put_name(const char *what, uint32_t tid, const char *name)
{
    char text[512];
    begin_entry();
    profiler_put("{\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"name\":\"%s\",\"args\":{\"name\":\"%s\"}}", state.rank, tid,
                 what, escape_text(name, text, sizeof(text)));
}

/* Microseconds since the trace began, with three places. */
static void format_time(uint64_t ns, char out[32])
{
    const uint64_t t = ns > state.start_ns ? ns - state.start_ns : 0;
    snprintf(out, 32, "%" PRIu64 ".%03u", t / 1000, (unsigned)(t % 1000));
}

static void put_event(const stored_event *e, uint32_t tid)
{
    char name[2 * NAME_SIZE + 2], at[32];
    const uint64_t length = e->end_ns > e->begin_ns ? e->end_ns - e->begin_ns : 0;
    format_time(e->begin_ns, at);
    begin_entry();
    profiler_put("{\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%s,\"dur\":%" PRIu64
                 ".%03u,\"cat\":\"%s\",\"name\":\"%s\"",
                 state.rank, tid, at, length / 1000, (unsigned)(length % 1000), e->category,
                 escape_text(e->name, name, sizeof(name)));
    if (e->args[0].key) {
        profiler_put(",\"args\":{\"%s\":%" PRId64, e->args[0].key, e->args[0].value);
        if (e->args[1].key) profiler_put(",\"%s\":%" PRId64, e->args[1].key, e->args[1].value);
        profiler_put("}");
    }
    profiler_put("}");
}

static void announce_track(uint32_t number)
{
    track *t = &state.tracks.items[number - FIRST_TRACK];
    if (t->announced == state.traces) return;
    t->announced = state.traces;
    put_name("thread_name", number, t->name);
}

static void announce_thread(thread_buffer *b)
{
    if (b->announced == state.traces) return;
    b->announced = state.traces;
    put_name("thread_name", b->number, b->name);
}

/* Writes what the buffer holds for the trace that runs. */
static void write_out(thread_buffer *b)
{
    const uint32_t count = atomic_load_explicit(&b->count, memory_order_acquire);
    if (!state.open || b->trace != state.traces) return;
    for (; b->written < count; b->written++) {
        const stored_event *e = &b->events[b->written];
        if (state.bytes > state.max_bytes) {
            state.dropped++;
            continue;
        }
        if (e->track == 0)
            announce_thread(b);
        else
            announce_track(e->track);
        put_event(e, e->track ? e->track : b->number);
    }
}

/* ---- threads ---- */

static void forget_thread(void *buffer)
{
    thread_buffer *b = buffer;
    pthread_mutex_lock(&state.lock);
    write_out(b);
    for (thread_buffer **at = &state.threads; *at; at = &(*at)->next) {
        if (*at != b) continue;
        *at = b->next;
        break;
    }
    pthread_mutex_unlock(&state.lock);
    free(b);
    own = NULL;
}

static thread_buffer *create_buffer(void)
{
    thread_buffer *b =
        calloc(1, sizeof(*b)); /* a span that is lost because memory is short is not a failure of its caller */
    if (!b) return NULL;
    pthread_mutex_lock(&state.lock);
    if (!state.has_key && !state.key_failed) {
        state.has_key = pthread_key_create(&state.key, forget_thread) == 0;
        state.key_failed = !state.has_key;
    }
    const bool ok = state.has_key && pthread_setspecific(state.key, b) == 0;
    if (ok) {
        b->number = ++state.num_threads;
        if (pthread_getname_np(pthread_self(), b->name, sizeof(b->name)) != 0) b->name[0] = '\0';
        b->next = state.threads;
        state.threads = b;
        own = b;
    }
    pthread_mutex_unlock(&state.lock);
    if (!ok) free(b);
    return own;
}

void rf_profiler_event(const rf_span_event *event)
{
    const uint32_t trace = atomic_load_explicit(&rf_profiler_running, memory_order_relaxed);
    if (trace == 0) return;
    thread_buffer *b = own ? own : create_buffer();
    if (!b) return;
    if (b->trace != trace) { /* the first one for this trace; what is left of an older one is not wanted any more */
        pthread_mutex_lock(&state.lock);
        b->trace = trace;
        b->written = 0;
        atomic_store_explicit(&b->count, 0, memory_order_relaxed);
        pthread_mutex_unlock(&state.lock);
    }
    const uint32_t at = atomic_load_explicit(&b->count, memory_order_relaxed);
    stored_event *e = &b->events[at];
    e->category = event->category;
    snprintf(e->name, sizeof(e->name), "%s", event->name);
    e->begin_ns = event->begin_ns;
    e->end_ns = event->end_ns;
    e->track = event->track;
    memcpy(e->args, event->args, sizeof(e->args));
    atomic_store_explicit(&b->count, at + 1, memory_order_release);
    if (at + 1 < BUFFER_EVENTS) return;
    pthread_mutex_lock(&state.lock);
    write_out(b);
    b->written = 0;
    atomic_store_explicit(&b->count, 0, memory_order_relaxed);
    profiler_unlock();
}

uint32_t rf_profiler_track(const char *name)
{
    uint32_t number = 0;
    pthread_mutex_lock(&state.lock);
    if (RF_VEC_GROW(&state.tracks) >= 0) {
        track *t = &state.tracks.items[state.tracks.count];
        *t = (track){ .name = rf_strdup(name) };
        if (t->name) number = FIRST_TRACK + state.tracks.count++;
    }
    pthread_mutex_unlock(&state.lock);
    return number;
}

bool rf_profiler_times_ops(uint64_t count)
{
    const uint32_t interval = atomic_load_explicit(&state.op_interval, memory_order_relaxed);
    /* Not the very first: it is not like the others. */
    return rf_profiler_on() && interval != UINT32_MAX && count % interval == interval / 2;
}

/* ---- life ---- */

static void put_head(void)
{
    char host[256] = "", text[512], title[600];
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    state.start_ns = rf_now_ns();
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(title, sizeof(title), "rank %u (%s, process %d)", state.rank, host, (int)getpid());
    put_name("process_name", 0, title);
    begin_entry();
    profiler_put("{\"ph\":\"M\",\"pid\":%u,\"name\":\"process_sort_index\",\"args\":{\"sort_index\":%u}}", state.rank,
                 state.rank);
    /* Merging goes by this: when the times of this file are zero. */
    begin_entry();
    profiler_put("{\"ph\":\"M\",\"pid\":%u,\"name\":\"ringfire_clock\",\"args\":{\"wall_start_ns\":%" PRId64
                 ",\"host\":\"%s\"}}",
                 state.rank, (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec, escape_text(host, text, sizeof(text)));
}

/* Under the lock. */
static rf_result start_profiler(const rf_profiler_params *p)
{
    RF_REQUIRE(!state.open, "rf_profiler_start: a trace to '%s' is running already", state.path);
    if (!state.text && !(state.text = rf_calloc(1, TEXT_SIZE))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    char *path = rf_strdup(p->path);
    if (!path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        const rf_result r = RF_FAIL_ERRNO(RF_ERROR_IO, "trace: cannot open '%s' for writing", path);
        rf_free(path);
        return r;
    }
    state.fd = fd;
    state.path = path;
    state.process = getpid();
    state.open = state.first = true;
    state.error = 0;
    state.told = false;
    state.used = 0;
    state.bytes = state.dropped = 0;
    state.max_bytes = p->max_bytes ? p->max_bytes : DEFAULT_MAX_BYTES;
    state.rank = p->rank;
    atomic_store(&state.op_interval, p->op_interval ? p->op_interval : DEFAULT_INTERVAL);
    if (++state.traces == 0) state.traces = 1;
    put_head();
    flush_text(); /* a program that is killed early leaves no empty file */
    atomic_store(&rf_profiler_running, state.traces);
    return RF_OK;
}

RF_API rf_result rf_profiler_start(const rf_profiler_params *params)
{
    RF_TRY(RF_PARAMS_CHECK(rf_profiler_params, params));
    RF_REQUIRE(params && params->path && params->path[0], "rf_profiler_start: path is empty");
    pthread_mutex_lock(&state.lock);
    const rf_result r = start_profiler(params);
    pthread_mutex_unlock(&state.lock);
    return r;
}

static void put_end(void)
{
    for (thread_buffer *b = state.threads; b; b = b->next) write_out(b);
    if (state.dropped > 0) {
        begin_entry();
        profiler_put("{\"ph\":\"M\",\"pid\":%u,\"name\":\"ringfire_dropped\",\"args\":{\"spans\":%" PRIu64 "}}",
                     state.rank, state.dropped);
    }
    profiler_put("\n]\n");
    flush_text();
}

static rf_result stop_profiler(void)
{
    atomic_store(&rf_profiler_running, 0);
    if (state.process == getpid()) put_end();
    if (close(state.fd) != 0 && state.error == 0) state.error = errno;
    state.open = false;
    rf_result r = RF_OK;
    if (state.error != 0) {
        errno = state.error;
        r = RF_FAIL_ERRNO(RF_ERROR_IO, "trace: writing '%s' failed; is the disk full?", state.path);
    }
    rf_free(state.path);
    state.path = NULL;
    return r;
}

RF_API rf_result rf_profiler_stop(void)
{
    pthread_mutex_lock(&state.lock);
    const rf_result r = state.open ? stop_profiler() : RF_OK;
    pthread_mutex_unlock(&state.lock);
    return r;
}

/* Traces that the environment asked for end with the program. Nothing may call back here once the library is gone. */
__attribute__((destructor)) static void profiler_finish(void)
{
    pthread_mutex_lock(&state.lock);
    char path[512] = "";
    snprintf(path, sizeof(path), "%s", state.path ? state.path : "");
    const rf_result r = state.open ? stop_profiler() : RF_OK;
    const bool tell = r < 0 && !state.told;
    pthread_mutex_unlock(&state.lock);
    if (tell) rf_log_message(RF_LOG_WARN, "trace '%s' is truncated: %s", path, rf_error_message());
    if (state.has_key) (void)pthread_key_delete(state.key);
    state.has_key = false;
    for (uint32_t i = 0; i < state.tracks.count; i++) rf_free(state.tracks.items[i].name);
    rf_free(state.tracks.items);
    rf_free(state.text);
    state.text = NULL;
    memset(&state.tracks, 0, sizeof(state.tracks));
}

RF_API uint64_t rf_profiler_begin(void)
{
    return rf_span_begin();
}

RF_API void rf_profiler_end(uint64_t begin, const char *name)
{
    rf_span_end(begin, "user", name ? name : "");
}

/* "dir/trace.json" -> "dir/trace.attempt2.rank3.json": what an attempt that failed has left is not written over. */
static char *path_of_process(const char *path, uint32_t rank, uint32_t world_size, uint64_t epoch)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    char attempt[40] = "", number[24] = "";
    if (epoch > 0) snprintf(attempt, sizeof(attempt), ".attempt%" PRIu64, epoch + 1);
    if (world_size > 1) snprintf(number, sizeof(number), ".rank%u", rank);
    if (!dot || dot <= (slash ? slash + 1 : path)) dot = path + strlen(path);
    return rf_asprintf("%.*s%s%s%s", (int)(dot - path), path, attempt, number, dot);
}

/* RINGFIRE_TRACE_OPS: a number of runs, or 0 for never. */
static rf_result read_interval(uint32_t *interval)
{
    const char *text = rf_env("RINGFIRE_TRACE_OPS");
    if (!text) return RF_OK;
    char *end;
    errno = 0;
    const unsigned long value = strtoul(text, &end, 10);
    RF_REQUIRE(errno == 0 && *end == '\0' && text[0] != '-' && value < UINT32_MAX,
               "RINGFIRE_TRACE_OPS is '%s', not a number of runs", text);
    *interval = value == 0 ? UINT32_MAX : (uint32_t)value;
    return RF_OK;
}

rf_result rf_profiler_join(uint32_t rank, uint32_t world_size, uint64_t epoch)
{
    const char *wanted = rf_env("RINGFIRE_TRACE");
    pthread_mutex_lock(&state.lock);
    const bool runs = state.open;
    if (runs && world_size > 1) state.rank = rank;
    pthread_mutex_unlock(&state.lock);
    if (runs || !wanted) return RF_OK;
    rf_profiler_params params = { .rank = rank };
    RF_TRY(read_interval(&params.op_interval));
    char *path = path_of_process(wanted, rank, world_size, epoch);
    if (!path) return RF_ERROR_OUT_OF_HOST_MEMORY;
    params.path = path;
    const rf_result r = rf_profiler_start(&params);
    rf_free(path);
    return rf_error_context(r, "RINGFIRE_TRACE");
}
