/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/scale_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <math.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

/* The largest frame that the stack hands down with its headers, frames that are taken from a device in a row, and the
 * bytes that are held back on one way: what is beyond them waits in the device, which drops as a full queue does. */
enum { FRAME = 65536 + 128, TURN = 64, HELD = 64 << 20 };

typedef struct wire_frame {
    struct wire_frame *next;
    double due;
    size_t bytes;
    unsigned char data[];
} wire_frame;

typedef struct wire_way {
    int from, to;
    scale_link link;
    double clear;              /* when the last frame has left */
    wire_frame *first, **last; /* in the order in which they are due */
    size_t held;
} wire_way;

int scale_wire_open(const char *name)
{
    const int device = open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (device < 0) return -1;
    /* With this header a frame of 64 KiB needs no checksum and is not cut: both ends are of the same kernel. */
    struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (ioctl(device, TUNSETIFF, &request) == 0 && ioctl(device, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4) == 0)
        return device;
    const int why = errno;
    close(device);
    errno = why;
    return -1;
}

/* Sends what is due and says when the next frame is. Frames that the other end does not take are lost, as on any
 * wire. */
static double way_send(wire_way *way, double now)
{
    while (way->first && way->first->due <= now) {
        wire_frame *frame = way->first;
        if (write(way->to, frame->data, frame->bytes) < 0 && errno == EBADFD) _exit(EXIT_FAILURE);
        way->first = frame->next;
        if (!way->first) way->last = &way->first;
        way->held -= frame->bytes;
        free(frame);
    }
    return way->first ? way->first->due : now + 1;
}

static void way_receive(wire_way *way)
{
    static unsigned char buffer[FRAME];
    for (int i = 0; i < TURN && way->held < HELD; i++) {
        const ssize_t bytes = read(way->from, buffer, sizeof(buffer));
        if (bytes < 0 && errno == EBADFD) _exit(EXIT_FAILURE);
        if (bytes <= 0) return;
        wire_frame *frame = malloc(sizeof(*frame) + (size_t)bytes);
        if (!frame) return;
        frame->next = NULL;
        frame->bytes = (size_t)bytes;
        way->clear = fmax(way->clear, clock_seconds()) + (double)bytes / way->link.bandwidth;
        frame->due = way->clear + way->link.latency;
        memcpy(frame->data, buffer, frame->bytes);
        *way->last = frame;
        way->last = &frame->next;
        way->held += frame->bytes;
    }
}

/* Until it is killed. A device is gone (EBADFD) only when its namespace is. */
static void ways_relay(wire_way *ways, struct pollfd *polls, uint32_t count)
{
    (void)prctl(PR_SET_TIMERSLACK, 1);
    (void)setpriority(PRIO_PROCESS, 0, -20); /* a wire does not wait for a processor, where root says so */
    for (;;) {
        const double now = clock_seconds();
        double next = now + 1;
        for (uint32_t i = 0; i < count; i++) {
            const double due = way_send(&ways[i], now);
            if (due < next) next = due;
            polls[i] = (struct pollfd){ .fd = ways[i].held < HELD ? ways[i].from : -1, .events = POLLIN };
        }
        const double wait = next - clock_seconds();
        const struct timespec timeout = { .tv_sec = wait >= 1,
                                          .tv_nsec = wait > 0 && wait < 1 ? (long)(wait * 1e9) : 0 };
        if (ppoll(polls, count, &timeout, NULL) <= 0) continue;
        for (uint32_t i = 0; i < count; i++)
            if (polls[i].revents) way_receive(&ways[i]);
    }
}

static void wires_run(const scale_wire *wires, uint32_t count, const scale_link *link)
{
    wire_way *ways = calloc(2 * (size_t)count, sizeof(*ways));
    struct pollfd *polls = calloc(2 * (size_t)count, sizeof(*polls));
    if (!ways || !polls) _exit(EXIT_FAILURE);
    for (uint32_t i = 0; i < 2 * count; i++) {
        const scale_wire *wire = &wires[i / 2];
        ways[i] = i % 2 == 0 ? (wire_way){ .from = wire->worker, .to = wire->bridge, .link = *link }
                             : (wire_way){ .from = wire->bridge, .to = wire->worker, .link.bandwidth = HUGE_VAL };
        ways[i].last = &ways[i].first;
    }
    ways_relay(ways, polls, 2 * count);
}

bool scale_wire_start(scale_wire *wires, uint32_t count, const scale_link *link)
{
    const pid_t parent = getpid();
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent) wires_run(wires, count, link);
        _exit(EXIT_FAILURE);
    }
    const int why = errno;
    for (uint32_t i = 0; i < count; i++) {
        close(wires[i].worker);
        close(wires[i].bridge);
    }
    errno = why;
    return pid > 0;
}
