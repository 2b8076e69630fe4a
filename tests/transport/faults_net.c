/* SPDX-License-Identifier: Apache-2.0 */
/* Networks of namespaces: each rank's interface is one end of a pair, the other end is a port of a bridge. Frames
 * vanish by being addressed to a machine that does not exist. */
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults.h"

static int namespaces[FAULTS_RANKS]; /* descriptors; 0: none */
static bool dropped[FAULTS_RANKS][FAULTS_RANKS], unplugged[FAULTS_RANKS];

static bool write_file(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    const bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    if (fd >= 0) close(fd);
    return ok;
}

/* Runs a command in a rank's namespace (or our own: -1). */
static bool sh(int32_t rank, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool sh(int32_t rank, const char *format, ...)
{
    char command[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof(command), format, arguments);
    va_end(arguments);
    const pid_t pid = fork();
    if (pid == 0) {
        if (rank >= 0 && setns(namespaces[rank], CLONE_NEWNET) != 0) _exit(1);
        setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin", 1);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(1);
    }
    int status = 1;
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* Where this process may not have namespaces, one with a user namespace of its own may. */
static bool become_root(void)
{
    const unsigned uid = geteuid(), gid = getegid();
    if (uid == 0) return true;
    char map[64];
    if (unshare(CLONE_NEWUSER) != 0) return false;
    snprintf(map, sizeof(map), "0 %u 1", uid);
    if (!write_file("/proc/self/setgroups", "deny") || !write_file("/proc/self/uid_map", map)) return false;
    snprintf(map, sizeof(map), "0 %u 1", gid);
    return write_file("/proc/self/gid_map", map);
}

bool files_of_our_own(void)
{
    return become_root() && unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", "/tmp", "tmpfs", 0, NULL) == 0 && mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL) == 0;
}

bool network_of_our_own(void)
{
    const int before = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    bool ok = before >= 0 && become_root() && unshare(CLONE_NEWNET) == 0;
    if (ok && !sh(-1, "ip link set lo up")) { /* without loopback there would be no jobs at all */
        ok = false;
        if (setns(before, CLONE_NEWNET) != 0) _exit(1);
    }
    if (before >= 0) close(before);
    return ok;
}

const char *net_address(uint32_t rank)
{
    static const char *const addresses[FAULTS_RANKS] = { "10.77.0.1", "10.77.0.2", "10.77.0.3", "10.77.0.4" };
    return addresses[rank];
}

bool net_open(char *why, size_t size)
{
    const int own = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    snprintf(why, size, "no bridge");
    if (own < 0 || !sh(-1, "ip link add br0 type bridge && ip link set br0 up")) return false;
    for (uint32_t r = 0; r < FAULTS_RANKS; r++) {
        snprintf(why, size, "no namespace");
        if (unshare(CLONE_NEWNET) != 0) return false;
        namespaces[r] = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
        if (namespaces[r] < 0 || setns(own, CLONE_NEWNET) != 0) return false;
        snprintf(why, size, "no pair of interfaces");
        if (!sh(-1,
                "ip link add port%u type veth peer name eth0 netns /proc/%d/fd/%d && ip link set port%u master br0 up",
                r, (int)getpid(), namespaces[r], r) ||
            !sh((int32_t)r, "ip addr add %s/24 dev eth0 && ip link set eth0 up && ip link set lo up", net_address(r)))
            return false;
    }
    close(own);
    return true;
}

void net_enter(uint32_t rank)
{
    if (setns(namespaces[rank], CLONE_NEWNET) != 0) _exit(97);
}

static void need(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "faults: cannot %s\n", what);
    exit(1);
}

void net_drop(uint32_t from, uint32_t to)
{
    need(sh((int32_t)from, "ip neigh replace %s lladdr 02:00:00:00:00:99 nud permanent dev eth0", net_address(to)),
         "cut a path");
    dropped[from][to] = true;
}

void net_unplug(uint32_t rank, bool out)
{
    need(sh(-1, "ip link set port%u %s", rank, out ? "down" : "up"), "unplug a port");
    unplugged[rank] = out;
}

void net_heal(void)
{
    for (uint32_t r = 0; r < FAULTS_RANKS; r++) {
        if (unplugged[r]) net_unplug(r, false);
        for (uint32_t to = 0; to < FAULTS_RANKS; to++) {
            if (!dropped[r][to]) continue;
            need(sh((int32_t)r, "ip neigh del %s dev eth0", net_address(to)), "mend a path");
            dropped[r][to] = false;
        }
    }
}
