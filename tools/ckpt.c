/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire ckpt: what is in a checkpoint or model file. */
#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <ringfire/interchange.h>

#include "commands.h"
#include "printable.h"

typedef struct ckpt_options {
    const char *action, *paths[2];
    int num_paths;
} ckpt_options;

static error_t parse(int key, char *text, struct argp_state *state)
{
    ckpt_options *o = state->input;
    switch (key) {
    case ARGP_KEY_ARG:
        if (!o->action)
            o->action = text;
        else if (o->num_paths < 2)
            o->paths[o->num_paths++] = text;
        else
            argp_error(state, "'%s' is one argument too many", text);
        return 0;
    case ARGP_KEY_END:
        if (!o->action) argp_error(state, "say what to do: ls, show, verify, diff or convert");
        return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

static bool ends_with(const char *path, const char *suffix)
{
    const size_t length = strlen(path), end = strlen(suffix);
    return length > end && strcmp(path + length - end, suffix) == 0;
}

static bool is_safetensors(const char *path)
{
    return ends_with(path, ".safetensors");
}

static void print_tensor(const char *name, rf_dtype dtype, rf_shape shape, uint64_t bytes, uint64_t stored)
{
    char text[128];
    fputs("  ", stdout);
    print_printable(stdout, name, 44);
    printf(" %-4s %-20s %12llu", rf_dtype_name(dtype), rf_shape_format(shape, text, sizeof(text)),
           (unsigned long long)bytes);
    if (stored != bytes) printf("  (%llu stored)", (unsigned long long)stored);
    putchar('\n');
}

/* ---- show ---- */

static int show_safetensors(const char *path)
{
    rf_array_set set;
    if (rf_safetensors_read(path, &set) < 0) return command_fail();
    printf("%s: %u tensors\n", path, set.count);
    for (uint32_t i = 0; i < set.count; i++) {
        const rf_array *a = &set.items[i].array;
        const uint64_t bytes = (uint64_t)rf_shape_count(a->shape) * rf_dtype_size(a->dtype);
        print_tensor(set.items[i].name, a->dtype, a->shape, bytes, bytes);
    }
    rf_array_set_free(&set);
    return EXIT_SUCCESS;
}

/* All of the text, however long; free(). */
static rf_result value_text(const rf_archive *archive, uint64_t index, char **out)
{
    rf_result r = RF_OK;
    *out = NULL;
    for (size_t size = 4096; r >= 0; size *= 2) {
        char *grown = realloc(*out, size);
        if (!grown) break;
        *out = grown;
        r = rf_archive_value_text(archive, index, grown, size);
        if (r >= 0 && strlen(grown) + 1 < size) return RF_OK;
    }
    free(*out);
    *out = NULL;
    return r < 0 ? r : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static int show_archive(const rf_archive *archive, const char *path)
{
    uint64_t bytes = 0, stored = 0;
    const uint64_t tensors = rf_archive_count(archive), values = rf_archive_num_values(archive);
    printf("%s: %llu tensors, %llu values", path, (unsigned long long)tensors, (unsigned long long)values);
    if (rf_archive_num_parts(archive) > 0) printf(" in %llu parts", (unsigned long long)rf_archive_num_parts(archive));
    putchar('\n');
    for (uint64_t i = 0; i < tensors; i++) {
        rf_archive_entry e;
        if (rf_archive_entry_at(archive, i, &e) < 0) return command_fail();
        print_tensor(e.name, e.dtype, e.shape, e.bytes, e.stored_bytes);
        bytes += e.bytes;
        stored += e.stored_bytes;
    }
    for (uint64_t i = 0; i < values; i++) {
        char *text;
        if (value_text(archive, i, &text) < 0) return command_fail();
        fputs("  ", stdout);
        print_printable(stdout, rf_archive_value_name(archive, i), 44);
        putchar(' ');
        print_printable(stdout, text, 0);
        putchar('\n');
        free(text);
    }
    for (uint64_t i = 0; i < rf_archive_num_parts(archive); i++) {
        fputs("  part ", stdout);
        print_printable(stdout, rf_archive_part_name(archive, i), 0);
        putchar('\n');
    }
    printf("  %llu bytes of tensors in %llu\n", (unsigned long long)bytes, (unsigned long long)stored);
    return EXIT_SUCCESS;
}

static int show(const char *path)
{
    if (is_safetensors(path)) return show_safetensors(path);
    rf_archive *archive;
    if (rf_archive_open(path, &archive) < 0) return command_fail();
    const int status = show_archive(archive, path);
    rf_archive_close(&archive);
    return status;
}

/* ---- ls ---- */

/* A part of a checkpoint that several workers wrote: listed with its main file. */
static bool is_part(const char *name)
{
    return fnmatch("*.part-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]-*", name, 0) == 0;
}

static long long size_of_parts(const rf_archive *archive, const char *directory)
{
    long long size = 0;
    for (uint64_t i = 0; i < rf_archive_num_parts(archive); i++) {
        char path[4096];
        struct stat status;
        snprintf(path, sizeof(path), "%s/%s", directory, rf_archive_part_name(archive, i));
        if (stat(path, &status) == 0) size += (long long)status.st_size;
    }
    return size;
}

/* A line for a file that is an archive, or by its name should be one; false where that is damaged. */
static bool list_file(const char *directory, const char *name)
{
    char path[4096];
    struct stat status;
    rf_archive *archive;
    if (snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path)) return true;
    if (is_part(name) || stat(path, &status) != 0 || !S_ISREG(status.st_mode)) return true;
    const bool good = rf_archive_open(path, &archive) >= 0;
    if (!good && !ends_with(name, ".rfck")) return true;
    print_printable(stdout, name, 44);
    if (!good) {
        printf(" %12lld bytes  ", (long long)status.st_size);
        print_printable(stdout, rf_error_message(), 0);
    } else {
        const uint64_t parts = rf_archive_num_parts(archive);
        printf(" %12lld bytes  %llu tensors, %llu values",
               (long long)status.st_size + size_of_parts(archive, directory),
               (unsigned long long)rf_archive_count(archive), (unsigned long long)rf_archive_num_values(archive));
        if (parts > 0) printf(", %llu parts", (unsigned long long)parts);
        rf_archive_close(&archive);
    }
    putchar('\n');
    return good;
}

/* Files that are no archives are passed over. */
static int list(const char *directory)
{
    struct dirent **entries;
    const int count = scandir(directory, &entries, NULL, versionsort);
    bool good = true;
    if (count < 0) {
        fprintf(stderr, "ringfire: cannot read the directory '%s': %s\n", directory, strerror(errno));
        return EXIT_FAILURE;
    }
    for (int i = 0; i < count; i++) {
        good &= list_file(directory, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- verify ---- */

static rf_result verify_archive(const char *path)
{
    rf_archive *archive;
    rf_result r = rf_archive_open(path, &archive);
    if (r < 0) return r;
    r = rf_archive_verify(archive);
    rf_archive_close(&archive);
    return r;
}

/* safetensors files have no checksums: what can be checked is that the header fits the bytes. */
static rf_result verify_safetensors(const char *path)
{
    rf_array_set set;
    const rf_result r = rf_safetensors_read(path, &set);
    rf_array_set_free(&set);
    return r;
}

static int verify(const char *path)
{
    if ((is_safetensors(path) ? verify_safetensors(path) : verify_archive(path)) < 0) return command_fail();
    printf("%s: good\n", path);
    return EXIT_SUCCESS;
}

/* ---- all of a file ---- */

typedef struct named_value {
    char *name, *text;
} named_value;

/* Tensors by name; an archive's values, by name too. */
typedef struct contents {
    bool safetensors;
    rf_array_set tensors;
    named_value *values;
    uint32_t num_values;
} contents;

static rf_result read_archive_tensors(const rf_archive *archive, rf_array_set *out)
{
    out->items = calloc((size_t)rf_archive_count(archive) + 1, sizeof(*out->items));
    for (uint64_t i = 0; out->items && i < rf_archive_count(archive); i++) {
        rf_archive_entry e;
        rf_named_array *to = &out->items[i];
        rf_result r = rf_archive_entry_at(archive, i, &e);
        if (r < 0) return r;
        to->name = strdup(e.name);
        to->array = (rf_array){ e.dtype, e.shape, malloc((size_t)e.bytes + 1) };
        out->count++;
        if (!to->name || !to->array.data) return RF_ERROR_OUT_OF_HOST_MEMORY;
        r = rf_archive_read(archive, e.name, to->array.data, e.bytes);
        if (r < 0) return r;
    }
    return out->items ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static rf_result read_values(const rf_archive *archive, contents *out)
{
    out->values = calloc((size_t)rf_archive_num_values(archive) + 1, sizeof(*out->values));
    for (uint64_t i = 0; out->values && i < rf_archive_num_values(archive); i++) {
        named_value *to = &out->values[out->num_values++];
        to->name = strdup(rf_archive_value_name(archive, i));
        if (!to->name) return RF_ERROR_OUT_OF_HOST_MEMORY;
        const rf_result r = value_text(archive, i, &to->text);
        if (r < 0) return r;
    }
    return out->values ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

static int compare_names(const void *x, const void *y)
{
    const rf_named_array *a = x, *b = y;
    return strcmp(a->name, b->name);
}

static rf_result read_contents(const char *path, contents *out)
{
    *out = (contents){ .safetensors = is_safetensors(path) };
    if (out->safetensors) {
        const rf_result r = rf_safetensors_read(path, &out->tensors);
        if (out->tensors.count > 0)
            qsort(out->tensors.items, out->tensors.count, sizeof(*out->tensors.items), compare_names);
        return r;
    }
    rf_archive *archive;
    rf_result r = rf_archive_open(path, &archive);
    if (r < 0) return r;
    r = read_archive_tensors(archive, &out->tensors);
    if (r >= 0) r = read_values(archive, out);
    rf_archive_close(&archive);
    return r;
}

static void free_contents(contents *c)
{
    for (uint32_t i = 0; i < c->num_values; i++) {
        free(c->values[i].name);
        free(c->values[i].text);
    }
    free(c->values);
    if (c->safetensors) {
        rf_array_set_free(&c->tensors);
        return;
    }
    for (uint32_t i = 0; i < c->tensors.count; i++) {
        free((void *)c->tensors.items[i].name);
        free(c->tensors.items[i].array.data);
    }
    free(c->tensors.items);
}

/* ---- diff ---- */

static void say(const char *what, const char *name)
{
    printf("%s: ", what);
    print_printable(stdout, name, 0);
}

static double largest_difference(const rf_array *a, const rf_array *b)
{
    double largest = 0;
    for (int64_t i = 0; i < rf_shape_count(a->shape); i++) {
        const double d = (double)((const float *)a->data)[i] - (double)((const float *)b->data)[i];
        if (d > largest || -d > largest) largest = d < 0 ? -d : d;
    }
    return largest;
}

/* Says how two tensors of one name differ; false where they do not. */
static bool tensors_differ(const char *name, const rf_array *a, const rf_array *b)
{
    char s[128], t[128];
    if (a->dtype != b->dtype || !rf_shape_equal(a->shape, b->shape)) {
        say("other type or shape", name);
        printf(": %s %s, %s %s\n", rf_dtype_name(a->dtype), rf_shape_format(a->shape, s, sizeof(s)),
               rf_dtype_name(b->dtype), rf_shape_format(b->shape, t, sizeof(t)));
        return true;
    }
    if (memcmp(a->data, b->data, (size_t)rf_shape_count(a->shape) * rf_dtype_size(a->dtype)) == 0) return false;
    say("differs", name);
    if (a->dtype == RF_F32) printf(", by up to %.6g", largest_difference(a, b));
    putchar('\n');
    return true;
}

static bool values_differ(const char *name, const char *a, const char *b)
{
    if (strcmp(a, b) == 0) return false;
    say("other value", name);
    fputs(": ", stdout);
    print_printable(stdout, a, 0);
    fputs(" and ", stdout);
    print_printable(stdout, b, 0);
    putchar('\n');
    return true;
}

/* Where the merge of two lists in the order of names is; the end of a list comes after all names. */
static int order(const char *a, const char *b)
{
    return !a ? 1 : !b ? -1 : strcmp(a, b);
}

static bool only_in(int where, const char *kind, const char *name)
{
    char what[64];
    snprintf(what, sizeof(what), "%sonly in the %s", kind, where < 0 ? "first" : "second");
    say(what, name);
    putchar('\n');
    return true;
}

static bool compare_tensors(const rf_array_set *a, const rf_array_set *b)
{
    bool different = false;
    for (uint32_t i = 0, k = 0; i < a->count || k < b->count;) {
        const rf_named_array *x = i < a->count ? &a->items[i] : NULL, *y = k < b->count ? &b->items[k] : NULL;
        const int where = order(x ? x->name : NULL, y ? y->name : NULL);
        different |=
            where ? only_in(where, "", where < 0 ? x->name : y->name) : tensors_differ(x->name, &x->array, &y->array);
        i += where <= 0;
        k += where >= 0;
    }
    return different;
}

static bool compare_values(const contents *a, const contents *b)
{
    bool different = false;
    for (uint32_t i = 0, k = 0; i < a->num_values || k < b->num_values;) {
        const named_value *x = i < a->num_values ? &a->values[i] : NULL;
        const named_value *y = k < b->num_values ? &b->values[k] : NULL;
        const int where = order(x ? x->name : NULL, y ? y->name : NULL);
        different |=
            where ? only_in(where, "value ", where < 0 ? x->name : y->name) : values_differ(x->name, x->text, y->text);
        i += where <= 0;
        k += where >= 0;
    }
    return different;
}

/* As diff(1): 0 the same, 1 different, 2 trouble. Values are compared where both files can have some. */
static int diff(const char *first, const char *second)
{
    contents a, b = { 0 };
    rf_result r = read_contents(first, &a);
    if (r >= 0) r = read_contents(second, &b);
    int status = 2;
    if (r < 0) {
        (void)command_fail();
    } else {
        status = compare_tensors(&a.tensors, &b.tensors);
        if (!a.safetensors && !b.safetensors) status |= compare_values(&a, &b);
    }
    free_contents(&a);
    free_contents(&b);
    return status;
}

/* ---- convert ---- */

static rf_result write_tensors(const char *path, const rf_array_set *set)
{
    if (is_safetensors(path)) return rf_safetensors_write(path, set->items, set->count);
    rf_archive_tensor *tensors = calloc((size_t)set->count + 1, sizeof(*tensors));
    if (!tensors) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < set->count; i++)
        tensors[i] = (rf_archive_tensor){ .name = set->items[i].name,
                                          .dtype = set->items[i].array.dtype,
                                          .shape = set->items[i].array.shape,
                                          .data = set->items[i].array.data };
    const rf_result r = rf_archive_save(path, tensors, set->count, NULL);
    free(tensors);
    return r;
}

static int convert(const char *from, const char *to)
{
    contents c;
    if (is_safetensors(from) == is_safetensors(to)) {
        fprintf(stderr, "ringfire: one of the files must be called *.safetensors, the other one not\n");
        return EXIT_FAILURE;
    }
    rf_result r = read_contents(from, &c);
    if (r >= 0) r = write_tensors(to, &c.tensors);
    if (r >= 0) printf("%s: %u tensors\n", to, c.tensors.count);
    for (uint32_t i = 0; r >= 0 && i < c.num_values; i++) {
        fputs(i ? ", " : "left out, because safetensors files hold tensors only: ", stdout);
        print_printable(stdout, c.values[i].name, 0);
        if (i + 1 == c.num_values) putchar('\n');
    }
    free_contents(&c);
    return r < 0 ? command_fail() : EXIT_SUCCESS;
}

int command_ckpt(int argc, char **argv)
{
    static const struct argp parser = {
        NULL,
        parse,
        "ls [DIR]\nshow FILE\nverify FILE\ndiff FILE FILE\nconvert FROM TO",
        "Looks at checkpoints and model files.\v'ls' lists the files of a directory and says what is wrong with "
        "damaged "
        "ones called *.rfck (exit code 1). 'show' tells what is in a file. 'verify' reads and checks every byte. "
        "'diff' "
        "compares the tensors and values of two files (exit code 0: the same, 1: different, 2: trouble). 'convert' "
        "copies "
        "the tensors from or to a file called *.safetensors; values have no place there, and it names those it leaves "
        "out. 'show', 'verify' and 'diff' take such files, too.",
        NULL,
        NULL,
        NULL
    };
    ckpt_options o = { 0 };
    argp_parse(&parser, argc, argv, 0, NULL, &o);
    if (strcmp(o.action, "ls") == 0 && o.num_paths < 2) return list(o.num_paths ? o.paths[0] : ".");
    if (strcmp(o.action, "show") == 0 && o.num_paths == 1) return show(o.paths[0]);
    if (strcmp(o.action, "verify") == 0 && o.num_paths == 1) return verify(o.paths[0]);
    if (strcmp(o.action, "diff") == 0 && o.num_paths == 2) return diff(o.paths[0], o.paths[1]);
    if (strcmp(o.action, "convert") == 0 && o.num_paths == 2) return convert(o.paths[0], o.paths[1]);
    fprintf(stderr, "ringfire ckpt: see 'ringfire ckpt --help'\n");
    return EXIT_FAILURE;
}
