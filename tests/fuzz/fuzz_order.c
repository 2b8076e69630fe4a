/* SPDX-License-Identifier: Apache-2.0 */
/* The order of the agent of a host: an order that can be carried out, all of whose texts lie in it, or a line that says
 * what is wrong. */
#include <math.h>
#include <string.h>

#include "fuzz.h"
#include "run/hosts.h"
#include "run/order.h"

static void check_text(const start_order *o, const char *text, size_t size)
{
    PROMISE(text > o->text && text <= o->text + size && strlen(text) <= size);
}

static void check(const start_order *o, size_t size)
{
    PROMISE(o->num_arguments > 0 && !o->arguments[o->num_arguments]);
    PROMISE(o->count >= 1 && o->first_rank + o->count <= MAX_WORKERS && o->grace >= 0 && isfinite(o->grace));
    for (uint32_t i = 0; i < o->num_arguments; i++) check_text(o, o->arguments[i], size);
    for (uint32_t i = 0; i < o->num_unset; i++) check_text(o, o->unset[i], size);
    for (uint32_t i = 0; i < o->num_set; i++) {
        check_text(o, o->set[i], size);
        const char *equals = strchr(o->set[i], '=');
        PROMISE(equals && equals > o->set[i]);
    }
    check_text(o, o->directory, size);
    if (o->key) check_text(o, o->key, size);
}

FUZZ_TARGET(order)
{
    start_order *o = calloc(1, sizeof(*o));
    if (!o) return 0;
    o->grace = 5;
    const char *wrong = order_read(o, (const char *)data, size);
    if (wrong)
        PROMISE(wrong[0]);
    else
        check(o, size);
    order_free(o);
    PROMISE(!o->text && !o->key);
    free(o);
    return 0;
}
