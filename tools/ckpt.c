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
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static bool is_safetensors(const char *path)
{
    const size_t length = strlen(path), suffix = strlen(".safetensors");
    return length > suffix && strcmp(path + length - suffix, ".safetensors") == 0;
}

static void print_tensor(const char *name, rf_dtype dtype, rf_shape shape, uint64_t bytes, uint64_t stored)
{
    char text[128];
    printf("  %-44s %-4s %-20s %12llu", name, rf_dtype_name(dtype), rf_shape_format(shape, text, sizeof(text)),
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
        char text[4096];
        if (rf_archive_value_text(archive, i, text, sizeof(text)) < 0) return command_fail();
        printf("  %-44s %s\n", rf_archive_value_name(archive, i), text);
    }
    for (uint64_t i = 0; i < rf_archive_num_parts(archive); i++)
        printf("  part %s\n", rf_archive_part_name(archive, i));
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

/* A line for each archive of a directory; files that are none are passed over. */
static int list(const char *directory)
{
    struct dirent **entries;
    const int count = scandir(directory, &entries, NULL, versionsort);
    if (count < 0) {
        fprintf(stderr, "ringfire: cannot read the directory '%s': %s\n", directory, strerror(errno));
        return EXIT_FAILURE;
    }
    for (int i = 0; i < count; i++) {
        char path[4096];
        struct stat status;
        rf_archive *archive;
        snprintf(path, sizeof(path), "%s/%s", directory, entries[i]->d_name);
        if (!is_part(entries[i]->d_name) && stat(path, &status) == 0 && S_ISREG(status.st_mode) &&
            rf_archive_open(path, &archive) >= 0) {
            const uint64_t parts = rf_archive_num_parts(archive);
            printf("%-44s %12lld bytes  %llu tensors, %llu values", entries[i]->d_name,
                   (long long)status.st_size + size_of_parts(archive, directory),
                   (unsigned long long)rf_archive_count(archive), (unsigned long long)rf_archive_num_values(archive));
            if (parts > 0) printf(", %llu parts", (unsigned long long)parts);
            putchar('\n');
            rf_archive_close(&archive);
        }
        free(entries[i]);
    }
    free(entries);
    return EXIT_SUCCESS;
}

/* ---- verify ---- */

static int verify(const char *path)
{
    rf_archive *archive;
    if (is_safetensors(path)) return show_safetensors(path);
    if (rf_archive_open(path, &archive) < 0) return command_fail();
    const rf_result r = rf_archive_verify(archive);
    rf_archive_close(&archive);
    if (r < 0) return command_fail();
    printf("%s: good\n", path);
    return EXIT_SUCCESS;
}

/* ---- all tensors of a file ---- */

static rf_result read_archive(const rf_archive *archive, rf_array_set *out)
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

/* Free with rf_array_set_free() what rf_safetensors_read() made, else with this. */
static void free_set(rf_array_set *set, bool safetensors)
{
    if (safetensors) {
        rf_array_set_free(set);
        return;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        free((void *)set->items[i].name);
        free(set->items[i].array.data);
    }
    free(set->items);
}

static rf_result read_tensors(const char *path, rf_array_set *out)
{
    *out = (rf_array_set){ 0 };
    if (is_safetensors(path)) return rf_safetensors_read(path, out);
    rf_archive *archive;
    rf_result r = rf_archive_open(path, &archive);
    if (r < 0) return r;
    r = read_archive(archive, out);
    rf_archive_close(&archive);
    return r;
}

/* ---- diff ---- */

static const rf_named_array *find(const rf_array_set *set, const char *name)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (strcmp(set->items[i].name, name) == 0) return &set->items[i];
    return NULL;
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

/* Number of tensors that differ. */
static int compare(const rf_array_set *a, const rf_array_set *b)
{
    int different = 0;
    for (uint32_t i = 0; i < b->count; i++)
        if (!find(a, b->items[i].name)) different += printf("only in the second: %s\n", b->items[i].name) > 0;
    for (uint32_t i = 0; i < a->count; i++) {
        const rf_array *x = &a->items[i].array;
        const rf_named_array *other = find(b, a->items[i].name);
        const char *name = a->items[i].name;
        if (!other) {
            different += printf("only in the first: %s\n", name) > 0;
        } else if (x->dtype != other->array.dtype || !rf_shape_equal(x->shape, other->array.shape)) {
            char s[128], t[128];
            different += printf("other type or shape: %s: %s %s, %s %s\n", name, rf_dtype_name(x->dtype),
                                rf_shape_format(x->shape, s, sizeof(s)), rf_dtype_name(other->array.dtype),
                                rf_shape_format(other->array.shape, t, sizeof(t))) > 0;
        } else if (memcmp(x->data, other->array.data, (size_t)rf_shape_count(x->shape) * rf_dtype_size(x->dtype)) !=
                   0) {
            if (x->dtype == RF_F32)
                different += printf("differs: %s, by up to %.6g\n", name, largest_difference(x, &other->array)) > 0;
            else
                different += printf("differs: %s\n", name) > 0;
        }
    }
    return different;
}

/* As diff(1): 0 the same, 1 different, 2 trouble. */
static int diff(const char *first, const char *second)
{
    rf_array_set a, b = { 0 };
    rf_result r = read_tensors(first, &a);
    if (r >= 0) r = read_tensors(second, &b);
    int status = 2;
    if (r < 0)
        (void)command_fail();
    else
        status = compare(&a, &b) ? 1 : 0;
    free_set(&a, is_safetensors(first));
    free_set(&b, is_safetensors(second));
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
    rf_array_set set;
    if (is_safetensors(from) == is_safetensors(to)) {
        fprintf(stderr, "ringfire: one of the files must be called *.safetensors, the other one not\n");
        return EXIT_FAILURE;
    }
    rf_result r = read_tensors(from, &set);
    if (r >= 0) r = write_tensors(to, &set);
    if (r >= 0) printf("%s: %u tensors\n", to, set.count);
    free_set(&set, is_safetensors(from));
    return r < 0 ? command_fail() : EXIT_SUCCESS;
}

int command_ckpt(int argc, char **argv)
{
    static const struct argp parser = {
        NULL,
        parse,
        "ls [DIR]\nshow FILE\nverify FILE\ndiff FILE FILE\nconvert FROM TO",
        "Looks at checkpoints and model files.\v'ls' lists the files of a directory, 'show' what is in one, 'verify' "
        "reads "
        "and checks every byte, 'diff' compares the tensors of two, 'convert' copies the tensors from or to a file "
        "called *.safetensors ('show' and 'diff' take such files, too).",
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
