/* SPDX-License-Identifier: Apache-2.0 */
#include "json_output.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "atomic_file.h"
#include "printable.h"
#include "program.h"

bool json_replaces_text(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

static bool cannot_write(const char *path)
{
    fprintf(stderr, "%s: %s: cannot write (%s)\n", program_name(), json_replaces_text(path) ? "standard output" : path,
            strerror(errno));
    return false;
}

bool json_can_write(const char *path)
{
    if (!path || json_replaces_text(path)) return true;
    atomic_file file;
    if (!atomic_file_begin(&file, path)) return cannot_write(path);
    atomic_file_abandon(&file);
    return true;
}

static bool write_file(const char *path, const json_t *document)
{
    atomic_file file;
    if (!atomic_file_begin(&file, path)) return false;
    if (json_dumpf(document, file.stream, JSON_INDENT(2)) == 0 && fputc('\n', file.stream) != EOF)
        return atomic_file_commit(&file);
    const int code = errno;
    atomic_file_abandon(&file);
    errno = code;
    return false;
}

bool json_write(const char *path, json_t *document)
{
    bool ok = true;
    if (path && !document) {
        errno = ENOMEM;
        ok = cannot_write(path);
    } else if (json_replaces_text(path)) {
        ok = (json_dumpf(document, stdout, JSON_INDENT(2)) == 0 && putchar('\n') != EOF) || cannot_write(path);
    } else if (path) {
        ok = write_file(path, document) || cannot_write(path);
    }
    json_decref(document);
    return ok;
}

json_t *json_text(const char *text)
{
    json_t *result = json_string(text);
    if (result) return result;
    char *shown = printable(text);
    result = json_string(shown ? shown : "");
    free(shown);
    return result;
}

json_t *json_number(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}
