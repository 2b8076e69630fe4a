/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 24 };
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

void progress_update(progress *p, int64_t done, const char *status)
{
    p->done = done;
    const double now = seconds_now(), elapsed = now - p->start;
    if (!p->terminal || (now - p->last_drawn < INTERVAL && done != p->total)) return;
    p->last_drawn = now;
    const double rate = elapsed > 0 ? (double)done / elapsed : 0;
    char bar[BAR_WIDTH + 1], eta[32] = "", line[256];
    const int64_t total = p->total > 0 ? p->total : 0;
    const int filled = total ? (int)(BAR_WIDTH * done / total) : 0;
    memset(bar, '-', BAR_WIDTH);
    memset(bar, '#', (size_t)(filled > BAR_WIDTH ? BAR_WIDTH : filled));
    bar[BAR_WIDTH] = '\0';
    if (total && rate > 0) {
        const int left = (int)((double)(total - done) / rate + 0.5);
        snprintf(eta, sizeof(eta), "  ETA %d:%02d", left / 60, left % 60);
    }
    snprintf(line, sizeof(line), "%s [%s] %3d %%  %.0f images/s%s  %s", p->label, bar,
             total ? (int)(100 * done / total) : 0, rate, eta, status ? status : "");
    printf("\r\033[K%.*s", columns() - 1, line);
    fflush(stdout);
}

double progress_end(progress *p)
{
    const double elapsed = seconds_now() - p->start;
    if (p->terminal && p->last_drawn > 0) printf("\r\033[K");
    fflush(stdout);
    return elapsed > 0 ? (double)p->done / elapsed : 0;
}
