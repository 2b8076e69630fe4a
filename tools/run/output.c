/* SPDX-License-Identifier: Apache-2.0 */
#include "run/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "run/wire.h"

#define LONGEST_LINE 65536

void output_init(output_lines *o, int fd, const char *label, uint32_t number, bool raw)
{
    *o = (output_lines){ .fd = fd, .raw = raw };
    if (isatty(fd) && !getenv("NO_COLOR"))
        snprintf(o->prefix, sizeof(o->prefix), "\033[%um[%.250s]\033[0m ", 31 + number % 6, label);
    else
        snprintf(o->prefix, sizeof(o->prefix), "[%.250s] ", label);
}

/* The line goes out in one write as far as the system allows: workers are served one by one, so nothing comes between.
 */
static bool put_line(output_lines *o, const char *text, size_t length)
{
    size_t n = length;
    while (n > 0 && (text[n - 1] == '\r' || text[n - 1] == ' ')) n--;
    if (n > 0) {
        if (n >= sizeof(o->last)) n = sizeof(o->last) - 1;
        memcpy(o->last, text, n);
        o->last[n] = '\0';
    }
    if (o->raw) return true;
    char end[] = "\n";
    const struct iovec parts[] = { { o->prefix, strlen(o->prefix) }, { (char *)text, length }, { end, 1 } };
    const size_t total = parts[0].iov_len + length + 1;
    const ssize_t written = writev(o->fd, parts, 3);
    if (written == (ssize_t)total) return true;
    size_t done = written > 0 ? (size_t)written : 0;
    for (int i = 0; i < 3; i++) {
        if (done >= parts[i].iov_len) {
            done -= parts[i].iov_len;
            continue;
        }
        if (!write_all(o->fd, (const char *)parts[i].iov_base + done, parts[i].iov_len - done)) return false;
        done = 0;
    }
    return true;
}

static bool keep_bytes(output_lines *o, const char *data, size_t length)
{
    if (length == 0) return true;
    if (o->used + length > o->capacity) {
        char *grown = realloc(o->line, o->used + length + 256);
        if (!grown) return false;
        o->line = grown;
        o->capacity = o->used + length + 256;
    }
    memcpy(o->line + o->used, data, length);
    o->used += length;
    return true;
}

bool output_feed(output_lines *o, const char *data, size_t length)
{
    bool ok = !o->raw || write_all(o->fd, data, length);
    while (length > 0 && ok) {
        const char *end = memchr(data, '\n', length);
        const size_t part = end ? (size_t)(end - data) : length;
        ok = keep_bytes(o, data, part);
        if (ok && (end || o->used >= LONGEST_LINE)) {
            ok = put_line(o, o->used ? o->line : "", o->used);
            o->used = 0;
        }
        data += part + (end ? 1 : 0);
        length -= part + (end ? 1 : 0);
    }
    return ok;
}

bool output_finish(output_lines *o)
{
    if (o->used == 0) return true;
    const bool ok = put_line(o, o->line, o->used);
    o->used = 0;
    return ok;
}

void output_free(output_lines *o)
{
    free(o->line);
    *o = (output_lines){ .fd = -1 };
}
