/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire ckpt ls */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt/ckpt.h"
#include "commands.h"
#include "json_output.h"
#include "printable.h"
#include "text.h"

enum { WIDEST_NAME = 44 };

typedef struct listing {
    const char *directory;
    bool text, all_good;
    int name_width;
    json_t *files;
} listing;

static bool is_part(const char *name)
{
    return fnmatch("*.part-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]-*", name, 0) == 0;
}

/* Whether a file should be readable, by its name. Files of other names are listed if they are archives. */
static bool has_known_name(const char *name)
{
    return is_part(name) || path_ends_with(name, ".rfck") || is_safetensors(name);
}

static bool join_path(const listing *l, const char *name, char path[4096])
{
    return snprintf(path, 4096, "%s/%s", l->directory, name) < 4096;
}

static long long size_with_parts(const listing *l, const input *in, long long size)
{
    for (uint64_t i = 0; i < rf_archive_num_parts(in->archive); i++) {
        char path[4096];
        struct stat status;
        if (join_path(l, rf_archive_part_name(in->archive, i), path) && stat(path, &status) == 0)
            size += (long long)status.st_size;
    }
    return size;
}

/* "part of net.rfck", or that there is no such file (any more). */
static void describe_part(const listing *l, const char *name, char *kind, size_t size)
{
    char path[4096], main_file[4096];
    struct stat status;
    const char *end = NULL;
    for (const char *at = name; (at = strstr(at, ".part-")); at++) end = at;
    snprintf(main_file, sizeof(main_file), "%.*s", (int)(end - name), name);
    const bool there = join_path(l, main_file, path) && stat(path, &status) == 0;
    snprintf(kind, size, "part of %s%s", main_file, there ? "" : ", which is not there");
}

static void print_line(const listing *l, const char *name, long long size, const char *kind, const input *in,
                       const char *problem)
{
    if (!l->text) return;
    char *shown = printable(name), *shown_kind = printable(kind);
    printf("%s%*s %12lld bytes  %s", shown ? shown : "", l->name_width - text_width(shown ? shown : ""), "", size,
           shown_kind ? shown_kind : "");
    free(shown);
    free(shown_kind);
    if (problem) {
        fputs(kind[0] ? ": " : "", stdout);
        print_printable(stdout, problem, 0);
    } else if (in) {
        const unsigned long long parts = rf_archive_num_parts(in->archive);
        printf(": %llu tensors", (unsigned long long)in->count);
        if (in->num_values > 0) printf(", %llu values", (unsigned long long)in->num_values);
        if (parts > 0) printf(", %llu parts", parts);
    }
    putchar('\n');
}

static void add_json(listing *l, const char *name, long long size, const char *kind, const input *in,
                     const char *problem)
{
    json_t *file = json_pack("{s:o,s:I,s:b}", "name", json_text(name), "bytes", (json_int_t)size, "good", !problem);
    json_object_set_new(file, "kind", problem ? json_null() : json_text(kind));
    if (problem) json_object_set_new(file, "problem", json_text(problem));
    if (in) {
        json_object_set_new(file, "tensors", json_integer((json_int_t)in->count));
        json_object_set_new(file, "values", json_integer((json_int_t)in->num_values));
        json_object_set_new(file, "parts", json_integer((json_int_t)rf_archive_num_parts(in->archive)));
    }
    json_array_append_new(l->files, file);
}

/* ONNX files are known by their name alone: what is in them is other programs' business. */
static void list_file(listing *l, const char *name)
{
    char path[4096], kind[4200] = "";
    struct stat status;
    if (!join_path(l, name, path) || stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return;
    if (path_ends_with(name, ".onnx")) {
        print_line(l, name, (long long)status.st_size, "ONNX model", NULL, NULL);
        add_json(l, name, (long long)status.st_size, "ONNX model", NULL, NULL);
        return;
    }
    input in;
    const bool good = input_open(path, &in) >= 0;
    if (!good && !has_known_name(name)) return;
    char *problem = good ? NULL : strdup(rf_error_message());
    const long long size = good ? size_with_parts(l, &in, (long long)status.st_size) : (long long)status.st_size;
    if (good && is_part(name))
        describe_part(l, name, kind, sizeof(kind));
    else if (good)
        snprintf(kind, sizeof(kind), "%s", input_kind(&in));
    print_line(l, name, size, good ? kind : "damaged", good ? &in : NULL, problem);
    add_json(l, name, size, kind, good ? &in : NULL, problem);
    l->all_good &= good;
    free(problem);
    input_close(&in);
}

/* As wide as the names of files that are surely listed. */
static void find_width(listing *l, struct dirent **entries, int count)
{
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        char *shown = has_known_name(name) || path_ends_with(name, ".onnx") ? printable(name) : NULL;
        const int width = shown ? text_width(shown) : 0;
        if (width > l->name_width) l->name_width = width;
        free(shown);
    }
    if (l->name_width > WIDEST_NAME) l->name_width = WIDEST_NAME;
}

int ckpt_list(const ckpt_options *o)
{
    listing l = { .directory = o->paths[0] ? o->paths[0] : ".",
                  .text = !json_replaces_text(o->json_path),
                  .all_good = true };
    struct dirent **entries;
    const int count = scandir(l.directory, &entries, NULL, versionsort);
    if (count < 0) {
        fprintf(stderr, "ringfire: cannot read the directory '%s': %s\n", l.directory, strerror(errno));
        return CODE_FAILED;
    }
    l.files = json_array();
    find_width(&l, entries, count);
    for (int i = 0; i < count; i++) {
        list_file(&l, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    json_t *document =
        json_pack("{s:o,s:b,s:o}", "directory", json_text(l.directory), "good", l.all_good, "files", l.files);
    const bool written = json_write(o->json_path, document);
    return !written ? CODE_FAILED : l.all_good ? CODE_OK : CODE_NO;
}
