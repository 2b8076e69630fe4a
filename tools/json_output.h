/* SPDX-License-Identifier: Apache-2.0 */
/* --json[=FILE] of all commands: one document for programs, on standard output instead of text for people, or in a file
 * beside it. */
#ifndef RINGFIRE_JSON_OUTPUT_H
#define RINGFIRE_JSON_OUTPUT_H

#include <stdbool.h>

#include <jansson.h>

/* Its parser's key is 'j'; the value is NULL for standard output, for which the others here take "-". */
#define JSON_OPTION                                                                                                    \
    {                                                                                                                  \
        "json", 'j', "FILE", OPTION_ARG_OPTIONAL, "Print JSON instead of text, or write it to FILE beside the text", 0 \
    }

/* Whether JSON goes to standard output, and nothing else does. `path` is the option's value, or NULL without it. */
bool json_replaces_text(const char *path);
/* Looks whether results have a place, before time is spent on them. The file keeps its contents until they are there.
 * False after a message. */
bool json_can_write(const char *path);
/* Writes the document where `path` says, nowhere if it is NULL, and takes it. False after a message. */
bool json_write(const char *path, json_t *document);
/* A text that may be no UTF-8: then what printable() makes of it. */
json_t *json_text(const char *text);
/* Null where JSON has no such number: infinities, NaN. */
json_t *json_number(double value);

#endif
