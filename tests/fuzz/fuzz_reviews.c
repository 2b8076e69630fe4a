/* SPDX-License-Identifier: Apache-2.0 */
/* Texts with a class, as examples/lstm reads them: each is what its line has after the tab. */
#include <string.h>

#include "fuzz.h"
#include "lstm/reviews.h"
#include "text/lines.h"

static void check_reviews(const reviews *r)
{
    const char *const *lines = rf_text_lines_texts(r->lines);
    const size_t *sizes = rf_text_lines_sizes(r->lines);
    uint32_t next = 0;
    for (uint64_t i = 0; i < rf_text_lines_count(r->lines); i++) {
        if (sizes[i] == 0) continue;
        PROMISE(next < r->count && sizes[i] > 2 && lines[i][1] == '\t');
        PROMISE(r->texts[next] == lines[i] + 2 && strlen(r->texts[next]) == sizes[i] - 2);
        PROMISE(r->labels[next] == lines[i][0] - '0' && (r->labels[next] == 0 || r->labels[next] == 1));
        next++;
    }
    PROMISE(next == r->count && next >= 2);
}

FUZZ_TARGET(reviews)
{
    rf_text_lines *lines;
    reviews r, tail;
    uint64_t line;
    PROMISE(rf_text_lines_new(&lines) == RF_OK);
    if (rf_text_lines_append(lines, (const char *)data, size) < 0) { /* UTF-16, or compressed */
        PROMISE(rf_error_message()[0]);
        rf_text_lines_destroy(&lines);
        return 0;
    }
    const uint64_t count = rf_text_lines_count(lines);
    const char *problem = reviews_take(lines, &r, &line);
    PROMISE(!problem || (problem[0] && line <= count && !r.texts && !r.labels && !r.lines && r.count == 0));
    if (problem) return 0;
    check_reviews(&r);
    const uint32_t whole = r.count;
    PROMISE(reviews_split(&r, 1, &tail) == 0 && tail.count == 1 && r.count == whole - 1);
    PROMISE(tail.texts[0] == r.texts[whole - 1]);
    reviews_free(&tail);
    reviews_free(&r);
    return 0;
}
