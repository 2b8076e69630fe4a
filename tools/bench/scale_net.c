/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/scale_net.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/scale_wire.h"

enum { OWN = -1, ROOM = 512 };

static bool net_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
static bool net_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("ringfire-bench: scale --workers ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    return false;
}

/* Runs a command of the shell in a worker's namespace, or in this process's: OWN. Its output is not shown. */
static bool command_quiet(const scale_net *net, int worker, const char *command)
{
    const pid_t pid = fork();
    if (pid == 0) {
        const int null = open("/dev/null", O_RDWR);
        if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0) _exit(1);
        if (worker != OWN && setns(net->namespaces[worker], CLONE_NEWNET) != 0) _exit(1);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(1);
    }
    int status = 1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* The same for one that has to succeed. */
static bool command_run(const scale_net *net, int worker, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static bool command_run(const scale_net *net, int worker, const char *format, ...)
{
    char command[ROOM];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof(command), format, arguments);
    va_end(arguments);
    return command_quiet(net, worker, command) || net_fail("cannot make its network: `%s` failed", command);
}

void scale_net_address(uint32_t worker, char out[16])
{
    snprintf(out, 16, "10.77.0.%u", worker % 254 + 1);
}

/* Rates in bits, as tc counts them. tbf lets a millisecond's worth go at once, and at least a packet of the largest
 * size that the stack hands down; queues are long enough that nothing is dropped. netem delays and limits the rate at
 * once. */
void scale_net_discipline(const scale_link *link, bool out, char *text, unsigned room)
{
    const double bits = link->bandwidth * 8, burst = 65536 + link->bandwidth * 1e-3;
    if (out && link->latency > 0)
        snprintf(text, room, "netem delay %.0fus rate %.0fbit limit 100000", link->latency * 1e6, bits);
    else
        snprintf(text, room, "tbf rate %.0fbit burst %.0f limit 64mb", bits, burst);
}

static bool shape_link(const scale_net *net, uint32_t worker, const scale_link *link, bool out)
{
    if (out && net->relayed) return true; /* the wire is as slow as it has to be */
    char discipline[128], command[ROOM];
    scale_net_discipline(link, out, discipline, sizeof(discipline));
    if (out)
        snprintf(command, sizeof(command), "tc qdisc add dev eth0 root %s", discipline);
    else
        snprintf(command, sizeof(command), "tc qdisc add dev port%u root %s", worker, discipline);
    return command_quiet(net, out ? (int)worker : OWN, command) ||
           net_fail("cannot make a link slow: `%s` failed; the kernel needs tbf (CONFIG_NET_SCH_TBF)", command);
}

/* A wire's end in a worker's namespace, or in this process's. */
static int open_wire_end(const scale_net *net, int worker, int own, const char *name)
{
    if (worker != OWN && setns(net->namespaces[worker], CLONE_NEWNET) != 0) return -1;
    const int device = scale_wire_open(name);
    const int why = errno;
    if (worker != OWN && setns(own, CLONE_NEWNET) != 0) return -1;
    errno = why;
    return device;
}

static bool join_wire(const scale_net *net, uint32_t worker, int own, scale_wire *wire)
{
    char port[32];
    snprintf(port, sizeof(port), "port%u", worker);
    wire->worker = open_wire_end(net, (int)worker, own, "eth0");
    wire->bridge = wire->worker < 0 ? -1 : open_wire_end(net, OWN, own, port);
    return wire->bridge >= 0 ||
           net_fail("cannot delay messages: the kernel has no netem (CONFIG_NET_SCH_NETEM), and of /dev/net/tun, which "
                    "would do instead, comes: %s; --latency 0 limits the bandwidth alone",
                    strerror(errno));
}

/* Links are measured, not what TCP makes of this host's settings: bbr guesses a bandwidth and sends as slowly, and by
 * default connections start anew after each step's computing. Where these files cannot be written, it stays so. */
static void set_tcp(const scale_net *net, uint32_t worker)
{
    (void)command_quiet(net, (int)worker,
                        "echo reno > /proc/sys/net/ipv4/tcp_congestion_control; "
                        "echo 0 > /proc/sys/net/ipv4/tcp_slow_start_after_idle");
}

/* The wire is made where the kernel does not delay. */
static bool create_worker(scale_net *net, uint32_t worker, int own, const scale_link *link, scale_wire *wire)
{
    char address[16];
    scale_net_address(worker, address);
    if (unshare(CLONE_NEWNET) != 0) return net_fail("cannot make namespace %u: %s", worker + 1, strerror(errno));
    net->namespaces[worker] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (setns(own, CLONE_NEWNET) != 0 || net->namespaces[worker] < 0)
        return net_fail("cannot open namespace %u: %s", worker + 1, strerror(errno));
    set_tcp(net, worker);
    const bool joined = net->relayed
                            ? join_wire(net, worker, own, wire)
                            : command_run(net, OWN, "ip link add port%u type veth peer name eth0 netns /proc/%d/fd/%d",
                                          worker, (int)getpid(), net->namespaces[worker]);
    return joined && command_run(net, OWN, "ip link set port%u master br0 up", worker) &&
           command_run(net, (int)worker, "ip addr add %s/24 dev eth0 && ip link set eth0 up && ip link set lo up",
                       address) &&
           shape_link(net, worker, link, true) && shape_link(net, worker, link, false);
}

static bool create_workers(scale_net *net, int own, const scale_link *link)
{
    scale_wire wires[BENCH_MOST_RANKS];
    bool ok = command_run(net, OWN, "ip link set lo up && ip link add br0 type bridge && ip link set br0 up");
    net->relayed = link->latency > 0 && ok &&
                   !command_quiet(net, OWN, "tc qdisc add dev lo root netem delay 1us && tc qdisc del dev lo root");
    for (uint32_t i = 0; i < net->workers && ok; i++) ok = create_worker(net, i, own, link, &wires[i]);
    if (!ok || !net->relayed) return ok;
    return scale_wire_start(wires, net->workers, link) ||
           net_fail("has no process to delay messages: %s", strerror(errno));
}

bool scale_net_create(scale_net *net, uint32_t workers, const scale_link *link)
{
    net->workers = workers;
    /* Where administrators' programs are, PATH of others often does not say. */
    const char *path = getenv("PATH");
    char longer[4096];
    snprintf(longer, sizeof(longer), "%s:/usr/sbin:/sbin:/usr/bin:/bin", path ? path : "");
    if (setenv("PATH", longer, 1) != 0) return net_fail("has no memory");
    if (!command_quiet(net, OWN, "command -v ip && command -v tc"))
        return net_fail("needs the programs ip and tc: install iproute2");
    if (unshare(CLONE_NEWNET) != 0)
        return net_fail(
            "makes a network of namespaces, which this process may not (%s): run it as root, or by 'unshare "
            "--user --map-root-user'",
            strerror(errno));
    const int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (own < 0) return net_fail("cannot open /proc/self/ns/net: %s", strerror(errno));
    const bool ok = create_workers(net, own, link);
    close(own);
    return ok;
}

bool scale_net_enter(const scale_net *net, uint32_t worker)
{
    return setns(net->namespaces[worker], CLONE_NEWNET) == 0 ||
           net_fail("cannot enter namespace %u: %s", worker + 1, strerror(errno));
}
