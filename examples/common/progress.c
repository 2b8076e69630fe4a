/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { SHORTEST_BAR = 4, LONGEST_BAR = 24 };
static const double INTERVAL = 0.2;

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void progress_begin(progress *p, const char *label, int64_t total, bool visible)
{
    *p = (progress){ .label = label, .total = total, .start = seconds_now() };
    p->terminal = visible && isatty(STDOUT_FILENO) != 0;
}

bool progress_due(const progress *p)
{
    return p->terminal && seconds_now() - p->last_drawn >= INTERVAL;
}

static int columns(void)
{
    struct winsize size;
    return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

/* Whether the cursor stands behind a line. Signal handlers read it, too. */
static volatile sig_atomic_t line_is_open;

void progress_break(void)
{
    if (!line_is_open) return;
    line_is_open = 0;
    if (write(STDOUT_FILENO, "\n", 1) != 1) return; /* a signal handler may not use printf */
}

static int append(char *line, size_t size, const char *text)
{
    const size_t used = strlen(line);
    if (text[0]) snprintf(line + used, size - used, "%s%s", used > 0 ? "  " : "", text);
    return (int)strlen(line);
}

/* Parts that do not fit go, the least telling first: the bar gets shorter and vanishes, then the label, the rate and
 * the time left go. */
static void compose(char *line, size_t size, int width, const progress *p, const char *status)
{
    enum { LABEL, PERCENT, RATE, ETA, STATUS, NUM_PARTS };
    const double elapsed = seconds_now() - p->start, rate = elapsed > 0 ? (double)p->done / elapsed : 0;
    char percent[32], speed[32], eta[32] = "";
    snprintf(percent, sizeof(percent), p->total > 0 ? "%lld%%" : "%lld images",
             (long long)(p->total > 0 ? 100 * p->done / p->total : p->done));
    snprintf(speed, sizeof(speed), "%.0f images/s", rate);
    if (p->total > 0 && rate > 0) {
        const long left = (long)((double)(p->total - p->done) / rate + 0.5);
        snprintf(eta, sizeof(eta), "ETA %ld:%02ld", left / 60, left % 60);
    }
    const char *parts[NUM_PARTS] = { p->label, percent, speed, eta, status ? status : "" };
    static const int dispensable[] = { LABEL, RATE, ETA };
    int length = 0;
    for (size_t dropped = 0;; parts[dispensable[dropped++]] = "") {
        line[0] = '\0';
        for (int i = 0; i < NUM_PARTS; i++) length = append(line, size, parts[i]);
        if (length <= width || dropped == sizeof(dispensable) / sizeof(dispensable[0])) break;
    }
    const int room = width - length - 4; /* "  [" and "]" */
    if (p->total <= 0 || !parts[LABEL][0] || room < SHORTEST_BAR) return;
    const int cells = room < LONGEST_BAR ? room : LONGEST_BAR;
    const int filled = p->done < p->total ? (int)(cells * p->done / p->total) : cells;
    char bar[LONGEST_BAR + 3] = "[";
    memset(bar + 1, '-', (size_t)cells);
    memset(bar + 1, '#', (size_t)filled);
    memcpy(bar + 1 + cells, "]", 2);
    line[0] = '\0';
    for (int i = 0; i < NUM_PARTS; i++) {
        if (i == PERCENT) append(line, size, bar);
        append(line, size, parts[i]);
    }
}

void progress_update(progress *p, int64_t done, const char *status)
{
    p->done = done;
    const double now = seconds_now();
    if (!p->terminal || (now - p->last_drawn < INTERVAL && done != p->total)) return;
    p->last_drawn = now;
    char line[256];
    const int width = columns() - 1;
    compose(line, sizeof(line), width, p, status);
    printf("\r\033[K%.*s", width, line);
    fflush(stdout);
    line_is_open = 1;
}

double progress_end(progress *p)
{
    const double elapsed = seconds_now() - p->start;
    if (line_is_open) printf("\r\033[K");
    fflush(stdout);
    line_is_open = 0;
    return elapsed > 0 ? (double)p->done / elapsed : 0;
}
