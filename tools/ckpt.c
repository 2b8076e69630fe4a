/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire ckpt: what is in a checkpoint or model file. */
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <ringfire/interchange.h>

#include "commands.h"
#include "options.h"
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
    rf_safetensors *file;
    if (rf_safetensors_open(path, &file) < 0) return command_fail();
    int status = CODE_OK;
    printf("%s: %llu tensors\n", path, (unsigned long long)rf_safetensors_count(file));
    for (uint64_t i = 0; status == CODE_OK && i < rf_safetensors_count(file); i++) {
        rf_archive_entry e;
        if (rf_safetensors_entry_at(file, i, &e) < 0)
            status = command_fail();
        else
            print_tensor(e.name, e.dtype, e.shape, e.bytes, e.stored_bytes);
    }
    rf_safetensors_close(&file);
    return status;
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
    return CODE_OK;
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
        return CODE_FAILED;
    }
    for (int i = 0; i < count; i++) {
        good &= list_file(directory, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return good ? CODE_OK : CODE_FAILED;
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
    rf_safetensors *file;
    const rf_result r = rf_safetensors_open(path, &file);
    rf_safetensors_close(&file);
    return r;
}

static int verify(const char *path)
{
    if ((is_safetensors(path) ? verify_safetensors(path) : verify_archive(path)) < 0) return command_fail();
    printf("%s: good\n", path);
    return CODE_OK;
}

/* ---- a file of either kind ---- */

/* Tensors and values in the order of their names; read piece by piece, so that files may be larger than memory. */
typedef struct input {
    rf_archive *archive;
    rf_safetensors *file; /* or this */
    uint64_t count, num_values;
} input;

static rf_result open_input(const char *path, input *in)
{
    *in = (input){ 0 };
    const rf_result r =
        is_safetensors(path) ? rf_safetensors_open(path, &in->file) : rf_archive_open(path, &in->archive);
    in->count = in->file ? rf_safetensors_count(in->file) : rf_archive_count(in->archive);
    in->num_values = rf_archive_num_values(in->archive);
    return r;
}

static void close_input(input *in)
{
    rf_archive_close(&in->archive);
    rf_safetensors_close(&in->file);
}

/* Behind the last one: no name. */
static rf_result entry_at(const input *in, uint64_t index, rf_archive_entry *out)
{
    *out = (rf_archive_entry){ 0 };
    if (index >= in->count) return RF_OK;
    return in->file ? rf_safetensors_entry_at(in->file, index, out) : rf_archive_entry_at(in->archive, index, out);
}

static rf_result read_range(const input *in, const char *name, uint64_t offset, void *data, uint64_t size)
{
    return in->file ? rf_safetensors_read_range(in->file, name, offset, data, size)
                    : rf_archive_read_range(in->archive, name, offset, data, size);
}

/* ---- diff ---- */

static void say(const char *what, const char *name)
{
    printf("%s: ", what);
    print_printable(stdout, name, 0);
}

enum { WINDOW = 1 << 20 };

/* Two pieces of tensors of one type. */
typedef struct windows {
    unsigned char a[WINDOW], b[WINDOW];
} windows;

static void widen_difference(const windows *w, uint64_t bytes, double *largest)
{
    for (uint64_t i = 0; i < bytes; i += sizeof(float)) {
        float x, y;
        memcpy(&x, w->a + i, sizeof(x));
        memcpy(&y, w->b + i, sizeof(y));
        const double d = (double)x - (double)y;
        if (d > *largest || -d > *largest) *largest = d < 0 ? -d : d;
    }
}

static rf_result compare_bytes(const input *a, const input *b, const rf_archive_entry *e, windows *w, bool *same,
                               double *largest)
{
    *same = true;
    *largest = 0;
    for (uint64_t at = 0, n; at < e->bytes && (*same || e->dtype == RF_F32); at += n) {
        n = e->bytes - at < WINDOW ? e->bytes - at : WINDOW;
        rf_result r = read_range(a, e->name, at, w->a, n);
        if (r >= 0) r = read_range(b, e->name, at, w->b, n);
        if (r < 0) return r;
        if (memcmp(w->a, w->b, n) == 0) continue;
        *same = false;
        if (e->dtype == RF_F32) widen_difference(w, n, largest);
    }
    return RF_OK;
}

/* Says how two tensors of one name differ. */
static rf_result compare_tensor(const input *a, const input *b, const rf_archive_entry *x, const rf_archive_entry *y,
                                windows *w, bool *different)
{
    char s[128], t[128];
    bool same;
    double largest;
    if (x->dtype != y->dtype || !rf_shape_equal(x->shape, y->shape)) {
        say("other type or shape", x->name);
        printf(": %s %s, %s %s\n", rf_dtype_name(x->dtype), rf_shape_format(x->shape, s, sizeof(s)),
               rf_dtype_name(y->dtype), rf_shape_format(y->shape, t, sizeof(t)));
        *different = true;
        return RF_OK;
    }
    const rf_result r = compare_bytes(a, b, x, w, &same, &largest);
    if (r < 0 || same) return r;
    say("differs", x->name);
    if (x->dtype == RF_F32) printf(", by up to %.6g", largest);
    putchar('\n');
    *different = true;
    return RF_OK;
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

static rf_result compare_tensors(const input *a, const input *b, bool *different)
{
    windows *w = malloc(sizeof(*w));
    rf_result r = w ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint64_t i = 0, k = 0; r >= 0 && (i < a->count || k < b->count);) {
        rf_archive_entry x, y;
        r = entry_at(a, i, &x);
        if (r >= 0) r = entry_at(b, k, &y);
        if (r < 0) break;
        const int where = order(x.name, y.name);
        if (where)
            *different |= only_in(where, "", where < 0 ? x.name : y.name);
        else
            r = compare_tensor(a, b, &x, &y, w, different);
        i += where <= 0;
        k += where >= 0;
    }
    free(w);
    return r;
}

static rf_result compare_value(const input *a, const input *b, uint64_t i, uint64_t k, bool *different)
{
    char *first = NULL, *second = NULL;
    rf_result r = value_text(a->archive, i, &first);
    if (r >= 0) r = value_text(b->archive, k, &second);
    if (r >= 0) *different |= values_differ(rf_archive_value_name(a->archive, i), first, second);
    free(first);
    free(second);
    return r;
}

static rf_result compare_values(const input *a, const input *b, bool *different)
{
    rf_result r = RF_OK;
    for (uint64_t i = 0, k = 0; r >= 0 && (i < a->num_values || k < b->num_values);) {
        const char *x = rf_archive_value_name(a->archive, i), *y = rf_archive_value_name(b->archive, k);
        const int where = order(x, y);
        if (where)
            *different |= only_in(where, "value ", where < 0 ? x : y);
        else
            r = compare_value(a, b, i, k, different);
        i += where <= 0;
        k += where >= 0;
    }
    return r;
}

/* As diff(1): 0 the same, 1 different, 2 trouble. Values are compared where both files can have some. */
static int diff(const char *first, const char *second)
{
    input a, b = { 0 };
    bool different = false;
    rf_result r = open_input(first, &a);
    if (r >= 0) r = open_input(second, &b);
    if (r >= 0) r = compare_tensors(&a, &b, &different);
    if (r >= 0 && a.archive && b.archive) r = compare_values(&a, &b, &different);
    if (r < 0) (void)command_fail();
    close_input(&a);
    close_input(&b);
    return r < 0 ? 2 : different;
}

/* ---- convert ---- */

static int convert(const char *from, const char *to)
{
    input in;
    if (is_safetensors(from) == is_safetensors(to)) {
        fprintf(stderr, "ringfire: one of the files must be called *.safetensors, the other one not\n");
        return CODE_FAILED;
    }
    rf_result r = open_input(from, &in);
    if (r >= 0)
        r = in.file ? rf_archive_from_safetensors(in.file, to, NULL) : rf_safetensors_from_archive(in.archive, to);
    if (r >= 0) printf("%s: %llu tensors\n", to, (unsigned long long)in.count);
    for (uint64_t i = 0; r >= 0 && i < in.num_values; i++) {
        fputs(i ? ", " : "left out, because safetensors files hold tensors only: ", stdout);
        print_printable(stdout, rf_archive_value_name(in.archive, i), 0);
        if (i + 1 == in.num_values) putchar('\n');
    }
    const int status = r < 0 ? command_fail() : CODE_OK;
    close_input(&in);
    return status;
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
    command_parse(&parser, argc, argv, 0, &o);
    if (strcmp(o.action, "ls") == 0 && o.num_paths < 2) return list(o.num_paths ? o.paths[0] : ".");
    if (strcmp(o.action, "show") == 0 && o.num_paths == 1) return show(o.paths[0]);
    if (strcmp(o.action, "verify") == 0 && o.num_paths == 1) return verify(o.paths[0]);
    if (strcmp(o.action, "diff") == 0 && o.num_paths == 2) return diff(o.paths[0], o.paths[1]);
    if (strcmp(o.action, "convert") == 0 && o.num_paths == 2) return convert(o.paths[0], o.paths[1]);
    fprintf(stderr, "ringfire ckpt: see 'ringfire ckpt --help'\n");
    return CODE_FAILED;
}
