/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that serves the control mesh. */
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/platform.h"
#include "transport/mesh/internal.h"

#define FRAMES_PER_TURN 64 /* read from one peer before the others get their turn */
/* A writable socket takes a frame at once; this bounds the case that it does not. */
#define SEND_NS UINT64_C(50000000)
/* Last frames have so long to leave. */
#define FLUSH_NS UINT64_C(500000000)
#define LINGER_NS UINT64_C(100000000)

/* Rank 0 that passes on gives heartbeats this long to gather: it looks at all connections in each turn. */
#define GATHER_NS UINT64_C(5000000)
/* A witness gets a heartbeat with every so many answers to rank 0. */
#define WITNESS_BEATS 16
#define NO_MEMORY "no memory for a control message"

typedef struct loop {
    rf_mesh *mesh;
    uint32_t rank, world;
    uint32_t *links, num_links; /* ranks that this one is connected to */
    struct pollfd *fds;         /* [num_links + 1]: theirs, then wake_fd */
    uint32_t *late;             /* [world] */
    uint8_t *beat;              /* room for a heartbeat */
    uint64_t next_beat, probe_at, flush_at;
    uint32_t answers; /* to rank 0 since witnesses were last sent a heartbeat */
    bool leaving, stop;
    bool relays;                      /* rank 0 that passes on */
    bool calm;                        /* nothing but heartbeats came in the last turn */
    const rf_liveness_page *liveness; /* NULL: none */
    uint64_t write_at;                /* this rank's line of it */
    int doze_fd;                      /* an epoll of what `fds` has, -1: none */
} loop;

static bool is_writable(const loop *l, uint32_t rank)
{
    struct pollfd fd = { .fd = rf_channel_fd(l->mesh->assembly.channels[rank]), .events = POLLOUT };
    return poll(&fd, 1, 0) > 0 && fd.revents & POLLOUT;
}

/* ---- the end ---- */

/* The reason goes out before anybody in this process learns that it is over and perhaps ends the process. Who does not
 * take it at once is told by and by. */
static void end_epoch(loop *l, const rf_mesh_failure *failure)
{
    uint8_t data[RF_MESH_FAILURE_MAX];
    const rf_bytes part = { data, rf_mesh_encode_failure(failure, data) };
    for (uint32_t i = 0; i < l->num_links && !l->mesh->ended; i++) {
        const uint32_t r = l->links[i];
        rf_mesh_peer *peer = &l->mesh->peers[r];
        if (peer->send_dead) continue;
        if (!is_writable(l, r)) continue;
        /* Sent or broken: there is nothing to send after this. */
        (void)!rf_channel_send(l->mesh->assembly.channels[r], RF_MESH_ABORT, &part, 1, SEND_NS);
        peer->send_dead = true;
    }
    rf_mesh_shut_down(l->mesh, failure);
}

static void lose_peer(loop *l, uint32_t rank, rf_result result, const char *why)
{
    rf_mesh *mesh = l->mesh;
    rf_mesh_failure failure = { .culprit = rank, .result = result };
    char *const text = failure.reason;
    const size_t size = sizeof(failure.reason);
    uint64_t begun, finished;
    rf_mesh_peer_operations(mesh, rank, &begun, &finished);
    const int used =
        snprintf(text, size, "rank %u (%s) was lost: %s", rank, mesh->assembly.table.members[rank].address, why);
    if ((begun || finished) && used > 0 && (size_t)used < size)
        snprintf(text + used, size - (size_t)used, ", last finished operation %llu", (unsigned long long)finished);
    end_epoch(l, &failure);
}

static void beat_all(loop *l, bool answer)
{
    for (uint32_t i = 0; i < l->num_links; i++) {
        rf_mesh_peer *peer = &l->mesh->peers[l->links[i]];
        peer->beat_due = true;
        peer->beat_answer |= answer;
    }
}

/* ---- the liveness page ---- */

/* All ranks of a host write at the same moments, so that it wakes once and what they need is in its caches; rank 0 half
 * an interval later, a little less, so that it is seen at once when it has left out one of three in a timeout. */
static uint64_t next_writing(const loop *l, uint64_t now)
{
    const uint64_t interval = l->mesh->assembly.table.heartbeat_interval_ns, phase = l->relays ? interval / 32 * 15 : 0;
    return now < phase ? phase : phase + ((now - phase) / interval + 1) * interval;
}

static void write_liveness(loop *l, uint64_t now)
{
    rf_liveness_write(&l->liveness->lines[l->rank], now);
    l->write_at = next_writing(l, now);
}

/* Whether this sign of life makes a heartbeat unnecessary: a rank without is not missed yet. */
static bool is_written(const loop *l, uint32_t rank, uint64_t now)
{
    return l->liveness &&
           rf_liveness_read(&l->liveness->lines[rank], now) + l->mesh->assembly.table.peer_timeout_ns / 2 >= now;
}

/* A worker sleeps with this where it can: waking up it looks at no connection, which poll() does twice. Without it
 * sleeps cost more. */
static int open_doze(const loop *l)
{
    const int fd = l->relays ? -1 : epoll_create1(EPOLL_CLOEXEC);
    for (uint32_t i = 0; fd >= 0 && i <= l->num_links; i++) {
        const int link = i < l->num_links ? rf_channel_fd(l->mesh->assembly.channels[l->links[i]]) : l->mesh->wake_fd;
        struct epoll_event event = { .events = EPOLLIN };
        if (l->fds[i].events == 0 || epoll_ctl(fd, EPOLL_CTL_ADD, link, &event) == 0) continue;
        close(fd);
        return -1;
    }
    return fd;
}

static void watch_liveness(loop *l, uint64_t now)
{
    if (!l->liveness) {
        if (!atomic_load(&l->mesh->has_liveness)) return;
        l->liveness = &l->mesh->liveness;
        l->write_at = now;
        l->doze_fd = open_doze(l);
    }
    if (now >= l->write_at) write_liveness(l, now);
    for (uint32_t i = 0; i < l->num_links; i++)
        if (rf_detector_watches(l->mesh->detector, l->links[i]))
            rf_detector_heard_at(l->mesh->detector, l->links[i],
                                 rf_liveness_read(&l->liveness->lines[l->links[i]], now));
}

/* Sends heartbeats unasked to those who expect them and do not see this rank on the liveness page. Rank 0 that passes
 * on wants answers: then the others need no clock. */
static void beat_watched(loop *l, uint64_t now)
{
    for (uint32_t i = 0; i < l->num_links; i++) {
        rf_mesh_peer *peer = &l->mesh->peers[l->links[i]];
        if (!rf_detector_watches(l->mesh->detector, l->links[i]) || is_written(l, l->links[i], now)) continue;
        peer->beat_due = true;
        peer->beat_answer |= l->relays;
    }
}

/* The connection (control or data) to a rank has ended. */
static void link_ended(loop *l, uint32_t rank, uint64_t now)
{
    if (!rf_detector_closed(l->mesh->detector, rank, now)) return;
    beat_all(l, true);
    l->probe_at = now + RF_HOLD_PROBE_NS;
}

static void take_heartbeat(loop *l, uint32_t rank, const void *body, size_t size, uint64_t now)
{
    rf_mesh *mesh = l->mesh;
    rf_mesh_peer *peer = &mesh->peers[rank];
    rf_mesh_heartbeat beat;
    if (rf_mesh_decode_heartbeat(body, size, l->world, &beat) < 0 || beat.rank != rank ||
        beat.incarnation != mesh->assembly.table.members[rank].incarnation) {
        lose_peer(l, rank, RF_ERROR_CORRUPT_DATA, "its heartbeat is not one");
        return;
    }
    atomic_store(&peer->begun, beat.begun);
    atomic_store(&peer->finished, beat.finished);
    rf_detector_clear_late(mesh->detector, rank, now);
    for (uint32_t i = 0; i < beat.num_late; i++)
        rf_detector_set_late(mesh->detector, rank, rf_mesh_late_rank(&beat, i));
    if (!beat.answer) return;
    peer->beat_due = true;
    /* Now and then, for what heartbeats say of operations. */
    if (rank == 0 && !rf_mesh_is_full(l->world) && ++l->answers == WITNESS_BEATS) {
        beat_all(l, false);
        l->answers = 0;
    }
}

/* Passes on what `rank` has sent. Lock held. */
static rf_result relay_frame(loop *l, uint32_t rank, uint16_t type, const void *body, size_t size)
{
    if (!l->relays) return RF_OK;
    const rf_mesh_entry entry = { .rank = rank, .type = type, .size = size };
    return rf_mesh_relay_add(l->mesh, &entry, &(rf_bytes){ body, size }, 1);
}

/* `from`: who brings it. */
static void take_exchange(loop *l, uint32_t from, uint32_t rank, const void *body, size_t size)
{
    rf_mesh_peer *peer = &l->mesh->peers[rank];
    rf_mesh_part part;
    if (rf_mesh_decode_part(body, size, &part) < 0) {
        lose_peer(l, from, RF_ERROR_CORRUPT_DATA, "its exchange message has an impossible size");
        return;
    }
    uint8_t *data = rf_calloc(1, part.size);
    if (!data) {
        lose_peer(l, l->rank, RF_ERROR_OUT_OF_HOST_MEMORY, NO_MEMORY);
        return;
    }
    memcpy(data, part.data, part.size);
    pthread_mutex_lock(&l->mesh->lock);
    rf_inbox_entry *entry = &peer->inbox[part.serial & 1];
    const bool fits = part.serial == peer->next_exchange && !entry->data;
    rf_result passed = RF_OK;
    if (fits) {
        *entry = (rf_inbox_entry){ data, part.size };
        peer->next_exchange++;
        passed = relay_frame(l, rank, RF_MESH_EXCHANGE, body, size);
        if (++l->mesh->arrived[part.serial & 1] == l->world - 1) pthread_cond_broadcast(&l->mesh->changed);
    }
    pthread_mutex_unlock(&l->mesh->lock);
    if (passed < 0) lose_peer(l, l->rank, passed, NO_MEMORY);
    if (fits) return;
    rf_free(data);
    lose_peer(l, from, RF_ERROR_CORRUPT_DATA, "its exchange messages are out of order");
}

static void take_goodbye(loop *l, uint32_t from, uint32_t rank, const void *body, size_t size)
{
    uint64_t begun;
    if (rf_mesh_decode_goodbye(body, size, &begun) < 0) {
        lose_peer(l, from, RF_ERROR_CORRUPT_DATA, "its goodbye is not one");
        return;
    }
    rf_detector_left(l->mesh->detector, rank);
    pthread_mutex_lock(&l->mesh->lock);
    /* A witness that leaves has overtaken what it sent through rank 0: only its connection may end now. */
    if (from == rank && !rf_detector_watches(l->mesh->detector, rank) && !l->mesh->peers[0].gone) {
        pthread_mutex_unlock(&l->mesh->lock);
        return;
    }
    atomic_store(&l->mesh->peers[rank].begun, begun);
    /* Once, whatever it sends. */
    const rf_result passed = l->mesh->peers[rank].left ? RF_OK : relay_frame(l, rank, RF_MESH_GOODBYE, body, size);
    atomic_store(&l->mesh->peers[rank].left, true);
    pthread_cond_broadcast(&l->mesh->changed);
    pthread_mutex_unlock(&l->mesh->lock);
    if (passed < 0) lose_peer(l, l->rank, passed, NO_MEMORY);
}

/* Takes what other ranks, and this one, have sent to rank 0 for all. */
static void take_relay(loop *l, uint32_t from, const uint8_t *data, size_t size)
{
    rf_mesh_entry entry;
    rf_result r = RF_ERROR_CORRUPT_DATA;
    if (from == 0 && !rf_mesh_is_full(l->world))
        while ((r = rf_mesh_decode_entry(&data, &size, l->world, &entry)) == RF_OK && !l->mesh->ended) {
            if (entry.rank == l->rank) continue;
            if (entry.type == RF_MESH_EXCHANGE)
                take_exchange(l, from, entry.rank, entry.body, entry.size);
            else
                take_goodbye(l, from, entry.rank, entry.body, entry.size);
        }
    if (r < 0) lose_peer(l, from, RF_ERROR_CORRUPT_DATA, "what it passes on cannot be read");
}

static void take_frame(loop *l, uint32_t rank, uint16_t type, const void *body, size_t size, uint64_t now)
{
    rf_mesh *mesh = l->mesh;
    rf_detector_heard(mesh->detector, rank, now);
    l->calm = l->calm && type == RF_MESH_HEARTBEAT;
    if (mesh->ended) return;
    rf_mesh_failure failure;
    switch (type) {
    case RF_MESH_HEARTBEAT: take_heartbeat(l, rank, body, size, now); break;
    case RF_MESH_EXCHANGE:
        if (l->relays || rf_mesh_is_full(l->world))
            take_exchange(l, rank, rank, body, size);
        else
            lose_peer(l, rank, RF_ERROR_CORRUPT_DATA, "it sends what only rank 0 passes on");
        break;
    case RF_MESH_GOODBYE: take_goodbye(l, rank, rank, body, size); break;
    case RF_MESH_RELAY: take_relay(l, rank, body, size); break;
    case RF_MESH_ABORT:
        if (rf_mesh_decode_failure(body, size, l->world, &failure) == RF_OK)
            end_epoch(l, &failure); /* which also hands it on */
        else
            lose_peer(l, rank, RF_ERROR_CORRUPT_DATA, "its abort message is not one");
        break;
    default: lose_peer(l, rank, RF_ERROR_CORRUPT_DATA, "it sends messages of an unknown type");
    }
}

static void close_peer(loop *l, uint32_t rank, rf_result why, uint64_t now)
{
    rf_mesh *mesh = l->mesh;
    rf_mesh_peer *peer = &mesh->peers[rank];
    peer->closed = peer->send_dead = true;
    if (l->doze_fd >= 0) /* fails for what is not in it */
        (void)!epoll_ctl(l->doze_fd, EPOLL_CTL_DEL, rf_channel_fd(mesh->assembly.channels[rank]), NULL);
    pthread_mutex_lock(&mesh->lock);
    peer->gone = true;
    snprintf(peer->why, sizeof(peer->why), "connection closed"); /* says more than that of a data connection */
    pthread_cond_broadcast(&mesh->changed);
    pthread_mutex_unlock(&mesh->lock);
    if (why == RF_ERROR_CORRUPT_DATA)
        lose_peer(l, rank, why, "what it sends does not verify (altered on the way, or another process)");
    else
        link_ended(l, rank, now);
}

static void loop_receive(loop *l, uint32_t rank, uint64_t now)
{
    rf_mesh_peer *peer = &l->mesh->peers[rank];
    peer->more = true;
    for (int i = 0; i < FRAMES_PER_TURN; i++) {
        uint16_t type;
        const void *body;
        size_t size;
        const rf_result r = rf_channel_receive(l->mesh->assembly.channels[rank], &type, &body, &size, 0);
        if (r == RF_OK) {
            take_frame(l, rank, type, body, size, now);
            continue;
        }
        peer->more = false;
        if (r != RF_ERROR_TIMEOUT) close_peer(l, rank, r, now);
        return;
    }
}

/* ---- sending ---- */

static bool send_beat(loop *l, uint32_t rank, uint64_t now)
{
    rf_mesh *mesh = l->mesh;
    rf_mesh_peer *peer = &mesh->peers[rank];
    const rf_mesh_heartbeat beat = {
        .rank = l->rank,
        .incarnation = mesh->assembly.table.members[l->rank].incarnation,
        .begun = atomic_load(&mesh->operations.begun),
        .finished = atomic_load(&mesh->operations.finished),
        .answer = peer->beat_answer,
        .num_late = rf_detector_late(mesh->detector, now, l->late),
    };
    const rf_bytes part = { l->beat, rf_mesh_encode_heartbeat(&beat, l->late, l->beat) };
    peer->beat_due = peer->beat_answer = false;
    if (rank == 0 && !rf_mesh_is_full(l->world)) /* sooner only if rank 0 stops asking */
        l->next_beat = now + mesh->assembly.table.heartbeat_interval_ns * 3 / 2;
    return rf_channel_send(mesh->assembly.channels[rank], RF_MESH_HEARTBEAT, &part, 1, SEND_NS) == RF_OK;
}

/* One frame to a socket that is writable: what is queued first, so that an abort never waits for a heartbeat. A failure
 * to send says less than what lies unread in the socket: receiving decides what has happened. */
static void send_one(loop *l, uint32_t rank, uint64_t now)
{
    rf_mesh *mesh = l->mesh;
    rf_mesh_peer *peer = &mesh->peers[rank];
    pthread_mutex_lock(&mesh->lock);
    rf_payload *payload = rf_mesh_dequeue(peer);
    pthread_mutex_unlock(&mesh->lock);
    if (payload) {
        const rf_bytes part = { payload->data, payload->size };
        if (rf_channel_send(mesh->assembly.channels[rank], payload->type, &part, payload->size ? 1 : 0, SEND_NS) !=
            RF_OK)
            peer->send_dead = true;
        pthread_mutex_lock(&mesh->lock);
        rf_payload_release(payload);
        pthread_mutex_unlock(&mesh->lock);
    } else if (peer->beat_due && !l->leaving && !mesh->ended && !send_beat(l, rank, now)) {
        peer->send_dead = true;
    }
}

/* ---- the loop ---- */

/* Fills the poll set. Returns whether anything waits to be sent. `idle`: nor is a heartbeat due, and nothing is left to
 * read. */
static bool loop_prepare(loop *l, bool *more, bool *idle)
{
    rf_mesh *mesh = l->mesh;
    bool sending = false;
    *more = false;
    *idle = !mesh->ended;
    pthread_mutex_lock(&mesh->lock);
    for (uint32_t i = 0; i < l->num_links; i++) {
        const uint32_t r = l->links[i];
        rf_mesh_peer *peer = &mesh->peers[r];
        struct pollfd *fd = &l->fds[i];
        fd->revents = 0;
        const bool queued = peer->first && !peer->send_dead;
        const bool beat = peer->beat_due && !peer->send_dead && !l->leaving && !mesh->ended;
        fd->events = (short)((peer->closed ? 0 : POLLIN) | (queued || beat ? POLLOUT : 0));
        fd->fd = fd->events ? rf_channel_fd(mesh->assembly.channels[r]) : -1;
        sending |= queued;
        *more |= peer->more && !peer->closed;
        *idle = *idle && !queued && !beat && !*more;
    }
    if (mesh->ended && !sending && !mesh->told) {
        mesh->told = true;
        pthread_cond_broadcast(&mesh->changed);
    }
    pthread_mutex_unlock(&mesh->lock);
    return sending;
}

static struct timespec time_left(uint64_t time, uint64_t now)
{
    const uint64_t left = time > now ? time - now : 0;
    return (struct timespec){ (time_t)(left / 1000000000), (long)(left % 1000000000) };
}

static void wait_until(loop *l, uint64_t time, uint64_t now)
{
    struct timespec timeout = time_left(time, now);
    if (l->relays && l->calm) { /* callers wake it nevertheless */
        const uint64_t gathered = now + GATHER_NS < time ? now + GATHER_NS : time;
        const struct timespec pause = time_left(gathered, now);
        (void)!ppoll(&l->fds[l->num_links], 1, &pause, NULL);
        timeout = time_left(time, rf_now_ns());
    }
    l->calm = true;
    if (ppoll(l->fds, l->num_links + 1, &timeout, NULL) < 0)
        for (uint32_t i = 0; i <= l->num_links; i++) l->fds[i].revents = 0;
}

/* Nothing has to be done but to write to the liveness page and to see rank 0 do so. */
static bool may_doze(const loop *l, bool idle, uint64_t now)
{
    return idle && l->doze_fd >= 0 && !l->stop && !l->leaving && !l->probe_at && is_written(l, 0, now) &&
           rf_detector_calm(l->mesh->detector);
}

/* All that a doze needs, in the thread's stack. Hundreds of processes wake at once, and none of their memory is in a
 * cache or TLB any more: what a wake takes depends on how many pages it touches. So system calls go through one
 * function of the C library, the clock's too: to read it without one takes four pages. */
typedef struct dozer {
    long (*volatile call)(long number, ...); /* volatile: else the compiler goes by way of the linker's table */
    int fd;
    const rf_liveness_line *chief;
    rf_liveness_line *own;
    uint64_t interval, patience;
} dozer;

/* rf_now_ns() */
static uint64_t doze_clock(const dozer *d)
{
    struct timespec t = { 0, 0 };
    if (sizeof(long) < sizeof(uint64_t)) return rf_now_ns(); /* there the call's times are not the library's */
    (void)d->call(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

/* Until then, or until something comes, which is left where it is. */
static bool doze_until(const dozer *d, uint64_t time, uint64_t now)
{
    const uint64_t left_ms = time > now ? (time - now + 999999) / 1000000 : 0;
    struct epoll_event event;
    return d->call(SYS_epoll_pwait, d->fd, &event, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX, NULL, _NSIG / 8) == 0;
}

/* A worker of a large job does this most of the time. Returns when something else is to be done: the time at which it
 * meant to wake at the latest. */
static uint64_t loop_doze(loop *l, uint64_t now)
{
    const rf_mesh_table *table = &l->mesh->assembly.table;
    const dozer d = { .call = syscall,
                      .fd = l->doze_fd,
                      .chief = &l->liveness->lines[0],
                      .own = &l->liveness->lines[l->rank],
                      .interval = table->heartbeat_interval_ns,
                      .patience = table->peer_timeout_ns / 2 };
    for (;;) {
        const uint64_t planned = l->write_at;
        const bool quiet = doze_until(&d, planned, now);
        now = doze_clock(&d);
        if (!quiet || now > planned + d.interval / 2 || rf_liveness_read(d.chief, now) + d.patience < now)
            return planned;
        rf_liveness_write(d.own, now);
        l->write_at = now - now % d.interval + d.interval; /* next_writing(); no worker has a phase */
    }
}

static void take_wishes(loop *l, uint64_t now)
{
    rf_mesh *mesh = l->mesh;
    uint64_t count;
    const bool woken = l->fds[l->num_links].revents != 0;
    if (woken && read(mesh->wake_fd, &count, sizeof(count)) < 0) return;
    l->calm = l->calm && !woken;
    pthread_mutex_lock(&mesh->lock);
    l->leaving = mesh->leaving;
    l->stop = mesh->stop;
    const bool reports = mesh->reports;
    mesh->reports = false;
    for (uint32_t r = 0; reports && r < l->world; r++) l->late[r] = mesh->peers[r].reported && !mesh->peers[r].left;
    pthread_mutex_unlock(&mesh->lock);
    for (uint32_t r = 0; reports && r < l->world; r++)
        if (l->late[r]) link_ended(l, r, now);
}

static void serve_events(loop *l, uint64_t now)
{
    for (uint32_t i = 0; i < l->num_links; i++) {
        rf_mesh_peer *peer = &l->mesh->peers[l->links[i]];
        if (peer->closed) continue;
        if (l->fds[i].revents & (POLLIN | POLLHUP | POLLERR) || peer->more) loop_receive(l, l->links[i], now);
    }
    for (uint32_t i = 0; i < l->num_links; i++) {
        rf_mesh_peer *peer = &l->mesh->peers[l->links[i]];
        if (peer->send_dead) continue;
        /* A heartbeat that was asked for in this turn is not worth another one. */
        if (l->fds[i].revents & POLLOUT || (peer->beat_due && is_writable(l, l->links[i])))
            send_one(l, l->links[i], now);
    }
}

static void judge_peers(loop *l, uint64_t now)
{
    rf_finding finding;
    if (!rf_detector_judge(l->mesh->detector, now, &finding)) return;
    char why[160];
    rf_finding_text(&finding, why, sizeof(why));
    if (finding.loss == RF_PEER_LOSS_CLOSED) {
        pthread_mutex_lock(&l->mesh->lock);
        snprintf(why, sizeof(why), "%s", l->mesh->peers[finding.culprit].why);
        pthread_mutex_unlock(&l->mesh->lock);
    }
    lose_peer(l, finding.culprit, RF_ERROR_PEER_LOST, why);
}

/* Who is missed is told to those who know more, and what was gathered to be passed on leaves. */
static void serve_clocks(loop *l, uint64_t now)
{
    rf_mesh *mesh = l->mesh;
    if (rf_detector_alarm(mesh->detector, now)) beat_all(l, true);
    if (l->probe_at && now >= l->probe_at) {
        l->probe_at = 0;
        beat_all(l, true);
    }
    if (now >= l->next_beat) {
        l->next_beat = l->liveness ? l->write_at : now + mesh->assembly.table.heartbeat_interval_ns;
        beat_watched(l, now);
    }
    pthread_mutex_lock(&mesh->lock);
    l->flush_at = mesh->relay.since ? mesh->relay.since + RF_RELAY_NS : 0;
    if (l->flush_at && now >= l->flush_at) {
        /* Without memory the others wait until they give up; there is nothing better to do here. */
        (void)!rf_mesh_relay_flush(mesh);
        l->flush_at = 0;
    }
    pthread_mutex_unlock(&mesh->lock);
}

static void run_loop(loop *l)
{
    rf_mesh *mesh = l->mesh;
    const uint64_t interval = mesh->assembly.table.heartbeat_interval_ns;
    uint64_t now = rf_now_ns(), flush_until = 0;
    l->next_beat = now + interval;
    for (;;) {
        bool more, idle;
        const bool sending = loop_prepare(l, &more, &idle);
        if (l->stop && !flush_until) flush_until = now + FLUSH_NS;
        if (flush_until && (!sending || now >= flush_until)) return;
        uint64_t wake = mesh->ended ? now + interval : rf_detector_next(mesh->detector, now);
        if (l->next_beat < wake) wake = l->next_beat;
        if (l->probe_at && l->probe_at < wake) wake = l->probe_at;
        if (l->flush_at && l->flush_at < wake) wake = l->flush_at;
        if (flush_until && flush_until < wake) wake = flush_until;
        if (l->liveness && l->write_at < wake) wake = l->write_at;
        if (may_doze(l, idle, now)) {
            wake = loop_doze(l, now);
            more = true; /* what has come, if anything, is looked at without waiting */
            now = rf_now_ns();
        }
        wait_until(l, more ? now : wake, now);

        now = rf_now_ns();
        rf_detector_woke(mesh->detector, now, wake);
        watch_liveness(l, now);
        take_wishes(l, now);
        serve_events(l, now);
        if (!mesh->ended && !l->stop) judge_peers(l, now);
        serve_clocks(l, now);
    }
}

void *rf_mesh_thread(void *user)
{
    rf_mesh *mesh = user;
    const uint32_t world = mesh->assembly.world;
    loop l = { .mesh = mesh, .rank = mesh->assembly.rank, .world = world, .doze_fd = -1 };
    l.relays = rf_mesh_relays(mesh);
    l.links = RF_NEW_ARRAY(uint32_t, world);
    l.fds = RF_NEW_ARRAY(struct pollfd, world);
    l.late = RF_NEW_ARRAY(uint32_t, world);
    l.beat = rf_calloc(1, RF_MESH_HEARTBEAT_MAX(world));
    for (uint32_t r = 0; l.links && r < world; r++)
        if (mesh->assembly.channels[r]) l.links[l.num_links++] = r;
    if (l.fds && l.late && l.beat && l.links) {
        l.fds[l.num_links] = (struct pollfd){ .fd = mesh->wake_fd, .events = POLLIN };
        run_loop(&l);
    } else
        lose_peer(&l, l.rank, RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for the control mesh's thread");
    /* In an orderly end everybody's last frame was read: nothing is left unread that closing could stumble over. */
    if (mesh->ended) rf_channels_linger(mesh->assembly.channels, world, LINGER_NS);
    if (l.doze_fd >= 0) close(l.doze_fd);
    rf_free(l.links);
    rf_free(l.fds);
    rf_free(l.late);
    rf_free(l.beat);
    return NULL;
}
