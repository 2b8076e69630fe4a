/* SPDX-License-Identifier: Apache-2.0 */
#include "run/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <ringfire/common.h>

#include "number.h"
#include "run/hosts.h"

static bool argument_add(char **list, uint32_t *count, uint32_t most, char *value)
{
    if (*count == most) return false;
    list[(*count)++] = value;
    return true;
}

static bool parse_seconds(const char *text, double *out)
{
    char *end;
    *out = rf_number_parse(text, &end);
    return end != text && !*end && isfinite(*out) && *out >= 0;
}

/* Each string: what it is, then its value. c: directory, a: argument, s: NAME=VALUE, u: variable to leave out, r: first
 * rank, n: number of workers, k: job key, g: grace. */
static const char *take_word(start_order *o, char what, char *value)
{
    switch (what) {
    case 'a': /* one place stays for the NULL */
        return argument_add(o->arguments, &o->num_arguments, sizeof(o->arguments) / sizeof(o->arguments[0]) - 1, value)
                   ? NULL
                   : "too many arguments";
    case 's':
        if (!strchr(value, '=') || value[0] == '=') return "a variable without a value";
        return argument_add(o->set, &o->num_set, sizeof(o->set) / sizeof(o->set[0]), value) ? NULL
                                                                                            : "too many variables";
    case 'u':
        return argument_add(o->unset, &o->num_unset, sizeof(o->unset) / sizeof(o->unset[0]), value)
                   ? NULL
                   : "too many variables";
    case 'c': o->directory = value; return NULL;
    case 'k': o->key = value; return NULL;
    case 'r':
        return parse_decimal(value, strlen(value), MAX_WORKERS - 1, &o->first_rank) ? NULL : "an invalid first rank";
    case 'n':
        return parse_decimal(value, strlen(value), MAX_WORKERS, &o->count) ? NULL : "an invalid number of workers";
    case 'g': return parse_seconds(value, &o->grace) ? NULL : "an invalid grace period";
    default: return "another version of ringfire started this agent";
    }
}

const char *order_read(start_order *o, const char *data, size_t length)
{
    if (!(o->text = malloc(length + 1))) return "out of memory";
    memcpy(o->text, data, length);
    o->text[length] = '\0';
    for (char *p = o->text; p < o->text + length; p += strlen(p) + 1) {
        const char *wrong = *p ? take_word(o, p[0], p + 1) : "another version of ringfire started this agent";
        if (wrong) return wrong;
    }
    const bool whole = o->num_arguments > 0 && o->directory && o->count >= 1 && o->first_rank + o->count <= MAX_WORKERS;
    return whole ? NULL : "an incomplete order";
}

void order_free(start_order *o)
{
    if (o->key) explicit_bzero(o->key, strlen(o->key));
    free(o->text);
    o->text = o->key = NULL;
}
