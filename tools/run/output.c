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
    *o = (output_lines){ .fd = fd, .raw = raw, .terminal = isatty(fd) };
    if (o->terminal && !getenv("NO_COLOR"))
        snprintf(o->prefix, sizeof(o->prefix), "\033[%um[%.250s]\033[0m ", 31 + number % 6, label);
    else
        snprintf(o->prefix, sizeof(o->prefix), "[%.250s] ", label);
}

/* Whether the cursor of the terminal stands in front of a line that the next one replaces. */
static bool is_replaceable;

static bool put_parts(output_lines *o, struct iovec *parts, int count)
{
    ssize_t written = writev(o->fd, parts, count);
    size_t done = written > 0 ? (size_t)written : 0;
    for (int i = 0; i < count; i++) {
        if (done >= parts[i].iov_len) {
            done -= parts[i].iov_len;
            continue;
        }
        if (!write_all(o->fd, (const char *)parts[i].iov_base + done, parts[i].iov_len - done)) return false;
        done = 0;
    }
    return true;
}

/* The line goes out in one write as far as the system allows: workers are served one by one, so nothing comes between.
 */
static bool put_line(output_lines *o, const char *text, size_t length, char end)
{
    size_t n = length;
    while (n > 0 && (text[n - 1] == '\r' || text[n - 1] == ' ')) n--;
    if (n > 0) {
        if (n >= sizeof(o->last)) n = sizeof(o->last) - 1;
        memcpy(o->last, text, n);
        o->last[n] = '\0';
    }
    if (o->raw) return true;
    static char clear[] = "\033[K";
    if (!o->terminal) end = '\n';
    struct iovec parts[] = { { clear, o->terminal && is_replaceable ? strlen(clear) : 0 },
                             { o->prefix, strlen(o->prefix) },
                             { (char *)text, length },
                             { &end, 1 } };
    if (o->terminal) is_replaceable = end == '\r';
    return put_parts(o, parts, 4);
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

/* CR LF is one end of a line. */
static bool end_line(output_lines *o, char end)
{
    const bool shown = end == '\n' && o->used == 0 && o->begun == LINE_AFTER_TEXT;
    bool ok = true;
    if (shown && o->terminal && !o->raw) {
        ok = write_all(o->fd, "\n", 1);
        is_replaceable = false;
    } else if (!shown && (end == '\n' || o->used > 0)) {
        ok = put_line(o, o->used ? o->line : "", o->used, end);
    }
    if (end == '\n')
        o->begun = LINE_PLAIN;
    else if (o->used > 0 || o->begun == LINE_PLAIN)
        o->begun = o->used > 0 ? LINE_AFTER_TEXT : LINE_AFTER_NOTHING;
    o->used = 0;
    return ok;
}

bool output_feed(output_lines *o, const char *data, size_t length)
{
    bool ok = !o->raw || write_all(o->fd, data, length);
    while (length > 0 && ok) {
        size_t part = 0;
        while (part < length && data[part] != '\n' && data[part] != '\r') part++;
        const bool ends = part < length;
        ok = keep_bytes(o, data, part);
        if (ok && part > 0 && o->begun == LINE_AFTER_TEXT) o->begun = LINE_AFTER_NOTHING;
        if (ok && !ends && o->used >= LONGEST_LINE) {
            ok = put_line(o, o->line, o->used, '\n');
            o->used = 0;
            o->begun = LINE_PLAIN;
        }
        if (ok && ends) ok = end_line(o, data[part]);
        data += part + ends;
        length -= part + ends;
    }
    /* A bar that is drawn from the left again is to be seen before it is drawn the next time. */
    if (ok && o->terminal && !o->raw && o->begun != LINE_PLAIN && o->used > 0) ok = put_line(o, o->line, o->used, '\r');
    return ok;
}

bool output_finish(output_lines *o)
{
    bool ok = true;
    if (o->used > 0)
        ok = end_line(o, '\n');
    else if (o->terminal && !o->raw && o->begun != LINE_PLAIN && is_replaceable)
        ok = end_line(o, '\n');
    o->used = 0;
    o->begun = LINE_PLAIN;
    return ok;
}

void output_free(output_lines *o)
{
    free(o->line);
    *o = (output_lines){ .fd = -1 };
}
