/* SPDX-License-Identifier: Apache-2.0 */
/* ringfire-bench kernels: what the driver's compiler makes of each kernel, and what of that got worse. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/commands.h"
#include "bench/report.h"
#include "net.h"
#include "options.h"

typedef struct kernels_options {
    const char *device, *op, *json_path, *compare, *code;
    bool all_cases;
    rf_dtype type;
} kernels_options;

typedef struct kernels_report {
    const kernels_options *options;
    table rows;
    json_t *list;
    char device[256];
    uint32_t failures;
    bool progress, ok, explained;
} kernels_report;

/* ---- options ---- */

static const struct argp_option argp_options[] = {
    { "device", 'd', "NAME", 0, "Device: index or part of a name (default: the first usable one, GPUs before software)",
      0 },
    { "op", 'o', "NAME", 0, "Only operations whose name contains NAME", 0 },
    { "all-cases", 'a', NULL, 0, "The shapes of the tests as well, not only those of the benchmark", 0 },
    { "compare", 'c', "FILE", 0,
      "Print what is worse than in FILE, which --json wrote on the same device; fail if anything is", 0 },
    { "type", 't', "TYPE", 0,
      "With operands stored in f16 or bf16: of those kernels that read and write the type themselves", 0 },
    { "code", 'm', "DIR", 0, "Write the machine code of each pipeline to a file in DIR, which exists", 0 },
    JSON_OPTION,
    { 0 },
};

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    kernels_options *o = state->input;
    switch (key) {
    case 'd': o->device = text; return 0;
    case 'o': o->op = text; return 0;
    case 'a': o->all_cases = true; return 0;
    case 'c': o->compare = text; return 0;
    case 't': o->type = bench_narrow_type(state, "--type", text); return 0;
    case 'm': o->code = text; return 0;
    case 'j': o->json_path = text ? text : "-"; return 0;
    case ARGP_KEY_ARG: argp_error(state, "'%s' is not expected", text); return 0;
    default: return ARGP_ERR_UNKNOWN;
    }
}

/* ---- one pipeline ---- */

typedef struct statistic_column {
    const char *name;
    size_t offset;
} statistic_column;

static const statistic_column statistic_columns[] = {
#define COLUMN(member)                                                                                                 \
    {                                                                                                                  \
#member, offsetof(rf_kernel_statistics, member)                                                                \
    }
    COLUMN(registers), COLUMN(scalar_registers), COLUMN(spills),     COLUMN(scratch), COLUMN(shared),
    COLUMN(occupancy), COLUMN(instructions),     COLUMN(code_bytes), COLUMN(cycles),
#undef COLUMN
};
enum { NUM_STATISTICS = sizeof(statistic_columns) / sizeof(statistic_columns[0]) };

static int64_t statistic_value(const rf_kernel_statistics *s, size_t i)
{
    return *(const int64_t *)(const void *)((const char *)s + statistic_columns[i].offset);
}

enum { VECTOR_BYTES = 16 }; /* that a load from shared memory brings at its best */

static json_t *loop_json(const rf_kernel_loop *l)
{
    if (l->instructions == 0) return json_null();
    json_t *loop = json_pack("{s:i,s:i,s:i,s:i,s:i,s:i,s:i,s:i}", "instructions", (int)l->instructions, "vector",
                             (int)l->vector, "multiply_adds", (int)l->multiply_adds, "dual", (int)l->dual, "matrix",
                             (int)l->matrix, "divisions", (int)l->divisions, "shared_loads", (int)l->shared_loads,
                             "shared_load_bytes", (int)l->shared_load_bytes);
    if (l->multiply_adds > 0) {
        json_object_set_new(loop, "multiply_add_share", json_real((double)l->multiply_adds / l->vector));
        json_object_set_new(loop, "dual_share", json_real((double)l->dual / l->vector));
        json_object_set_new(loop, "shared_loads_per_64", json_real(64.0 * l->shared_loads / l->multiply_adds));
        json_object_set_new(loop, "shared_vectors_per_64",
                            json_real(64.0 / VECTOR_BYTES * l->shared_load_bytes / l->multiply_adds));
    }
    return loop;
}

static json_t *row_json(const rf_bench_kernel *row)
{
    json_t *driver = json_object();
    for (uint32_t i = 0; i < row->num_values; i++)
        json_object_set_new(driver, row->names[i], json_number(row->values[i]));
    json_t *entry = json_pack("{s:s,s:s,s:s,s:s,s:s,s:b,s:b,s:i,s:i,s:o,s:o,s:o}", "op", row->op, "kernel", row->kernel,
                              "shader", row->shader, "constants", row->constants, "case", row->case_name, "chosen",
                              row->chosen, "benchmark", row->benchmark, "workgroup", (int)row->workgroup, "subgroup",
                              (int)row->subgroup, "failure", row->failure ? json_text(row->failure) : json_null(),
                              "loop", loop_json(&row->loop), "driver", driver);
    for (size_t i = 0; i < NUM_STATISTICS; i++) {
        const int64_t value = statistic_value(&row->statistics, i);
        json_object_set_new(entry, statistic_columns[i].name, value < 0 ? json_null() : json_integer(value));
    }
    json_object_set_new(entry, "declared_shared",
                        row->declared_shared < 0 ? json_null() : json_integer(row->declared_shared));
    return entry;
}

static void write_cell(char *cell, size_t size, int64_t value)
{
    if (value < 0)
        snprintf(cell, size, "-");
    else
        snprintf(cell, size, "%lld", (long long)value);
}

static void write_ratio(char *cell, size_t size, double part, uint32_t whole, int digits)
{
    if (whole == 0)
        snprintf(cell, size, "-");
    else
        snprintf(cell, size, "%.*f", digits, part / whole);
}

static bool add_cells(table *rows, const rf_bench_kernel *row)
{
    enum { FIRST = 3, LAST = FIRST + 14 };
    char text[LAST][24];
    const char *cells[LAST] = { row->op, row->shader[0] ? row->shader : row->kernel, row->constants };
    const rf_kernel_statistics *s = &row->statistics;
    const rf_kernel_loop *l = &row->loop;
    const int64_t values[] = {
        s->registers, s->scalar_registers, s->spills, s->scratch, s->shared < 0 ? row->declared_shared : s->shared,
        s->occupancy, s->instructions,     s->cycles
    };
    const bool loop = l->instructions > 0;
    int at = FIRST;
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) write_cell(text[at++], sizeof(text[0]), values[i]);
    write_ratio(text[at++], sizeof(text[0]), 100.0 * l->multiply_adds, l->multiply_adds ? l->vector : 0, 0);
    write_ratio(text[at++], sizeof(text[0]), 100.0 * l->dual, l->multiply_adds ? l->vector : 0, 0);
    write_ratio(text[at++], sizeof(text[0]), 64.0 * l->shared_loads, l->multiply_adds, 1);
    write_ratio(text[at++], sizeof(text[0]), 64.0 / VECTOR_BYTES * l->shared_load_bytes, l->multiply_adds, 1);
    write_cell(text[at++], sizeof(text[0]), loop ? (int64_t)l->matrix : -1);
    write_cell(text[at++], sizeof(text[0]), loop ? (int64_t)l->divisions : -1);
    for (int i = FIRST; i < LAST; i++) cells[i] = text[i];
    return table_row(rows, cells);
}

static bool write_code(const char *directory, const rf_bench_kernel *row)
{
    char path[4096];
    if (!row->code) return true;
    snprintf(path, sizeof(path), "%s/%s-%s-%s-%s.txt", directory, row->op, row->kernel, row->shader, row->constants);
    FILE *f = fopen(path, "w");
    const bool ok = f && fputs(row->code, f) >= 0;
    if ((f && fclose(f) != 0) || !ok) {
        fprintf(stderr, "ringfire-bench: cannot write %s: %s\n", path, strerror(errno));
        return false;
    }
    return true;
}

static rf_result add_kernel(void *user, const rf_bench_kernel *row)
{
    kernels_report *report = user;
    snprintf(report->device, sizeof(report->device), "%s", row->device);
    report->explained |= row->num_values > 0;
    report->ok &= add_cells(&report->rows, row);
    json_array_append_new(report->list, row_json(row));
    if (report->options->code) report->ok &= write_code(report->options->code, row);
    if (report->progress) fprintf(stderr, "\r\033[K");
    if (row->failure) {
        report->failures++;
        fprintf(stderr, "ringfire-bench: %s, %s, %s: %s\n", row->op, row->kernel, row->case_name, row->failure);
    }
    if (report->progress) fprintf(stderr, "%s %s %s", row->op, row->kernel, row->case_name);
    return RF_OK;
}

/* ---- what got worse ---- */

typedef struct worse_rule {
    const char *name, *inside; /* of the object of that name, or of the row itself */
    bool falls;                /* worse when it falls */
    double tolerance;          /* as a part of the old value */
} worse_rule;

/* Registers, shared memory and size of the code are not among them: more of these is worse where it costs occupancy or
 * cycles. */
static const worse_rule worse_rules[] = {
    { "spills", NULL, false, 0 },
    { "scratch", NULL, false, 0 },
    { "occupancy", NULL, true, 0 },
    { "cycles", NULL, false, 0.02 },
    { "multiply_add_share", "loop", true, 0.01 },
    { "shared_loads_per_64", "loop", false, 0.01 },
    { "shared_vectors_per_64", "loop", false, 0.01 },
    { "divisions", "loop", false, 0 },
    { "matrix", "loop", true, 0 },
};

static bool same_text(const json_t *a, const json_t *b, const char *name)
{
    const char *x = json_string_value(json_object_get(a, name)), *y = json_string_value(json_object_get(b, name));
    return x && y && strcmp(x, y) == 0;
}

static const json_t *find_same(const json_t *list, const json_t *row)
{
    size_t i;
    json_t *other;
    json_array_foreach(list, i, other)
    {
        if (same_text(other, row, "op") && same_text(other, row, "kernel") && same_text(other, row, "shader") &&
            same_text(other, row, "constants"))
            return other;
    }
    return NULL;
}

static bool add_worse(table *rows, const json_t *row, const char *name, const json_t *old, const json_t *new)
{
    char before[32] = "-", after[32] = "fails";
    if (old) snprintf(before, sizeof(before), "%.4g", json_number_value(old));
    if (new) snprintf(after, sizeof(after), "%.4g", json_number_value(new));
    return table_row(rows,
                     (const char *[]){ json_string_value(json_object_get(row, "op")),
                                       json_string_value(json_object_get(row, "shader")),
                                       json_string_value(json_object_get(row, "constants")), name, before, after });
}

static bool compare_row(const json_t *old, const json_t *new, table *rows)
{
    bool ok = true;
    if (json_is_string(json_object_get(new, "failure")) && !json_is_string(json_object_get(old, "failure")))
        ok &= add_worse(rows, new, "failure", NULL, NULL);
    for (size_t i = 0; i < sizeof(worse_rules) / sizeof(worse_rules[0]); i++) {
        const worse_rule *r = &worse_rules[i];
        const json_t *a = json_object_get(r->inside ? json_object_get(old, r->inside) : old, r->name);
        const json_t *b = json_object_get(r->inside ? json_object_get(new, r->inside) : new, r->name);
        if (!json_is_number(a) || !json_is_number(b)) continue;
        const double before = json_number_value(a), after = json_number_value(b);
        const bool worse = r->falls ? after < before * (1 - r->tolerance) : after > before * (1 + r->tolerance);
        if (worse) ok &= add_worse(rows, new, r->name, a, b);
    }
    return ok;
}

/* The file that --compare names is read before time is spent. NULL after a message. */
static json_t *read_old(const char *path)
{
    json_error_t error;
    json_t *document = json_load_file(path, 0, &error);
    if (document && json_is_array(json_object_get(document, "kernels")) &&
        json_is_string(json_object_get(document, "device")))
        return document;
    if (document)
        fprintf(stderr, "ringfire-bench: %s is not what `ringfire-bench kernels --json` writes\n", path);
    else
        fprintf(stderr, "ringfire-bench: %s: %s\n", path, error.text);
    json_decref(document);
    return NULL;
}

/* CODE_NO when something got worse. */
static int reports_compare(const kernels_report *report, const json_t *old)
{
    static const char *const headings[] = { "Op", "Shader", "Constants", "Worse", ">Before", ">Now" };
    const char *device = json_string_value(json_object_get(old, "device"));
    if (strcmp(device, report->device) != 0) {
        fprintf(stderr, "ringfire-bench: %s is of %s, this device is %s\n", report->options->compare, device,
                report->device);
        return CODE_FAILED;
    }
    table rows;
    bool ok = table_begin(&rows, headings, 6);
    uint32_t compared = 0;
    size_t i;
    json_t *row;
    json_array_foreach(report->list, i, row)
    {
        const json_t *before = find_same(json_object_get(old, "kernels"), row);
        if (!before) continue;
        compared++;
        ok &= compare_row(before, row, &rows);
    }
    const uint32_t worse = rows.num_rows - 1; /* besides the headings */
    FILE *out = json_replaces_text(report->options->json_path) ? stderr : stdout;
    if (worse > 0) table_print(&rows, out);
    fprintf(out, "%u of %zu pipelines are also in %s; worse: %u\n", compared, json_array_size(report->list),
            report->options->compare, worse);
    table_free(&rows);
    return ok && worse == 0 ? CODE_OK : CODE_NO;
}

/* ---- command ---- */

static int kernels_look(const kernels_options *o, const json_t *old)
{
    static const char *const headings[] = {
        "Op",       "Shader",    "Constants",   ">Registers",    ">Scalar",    ">Spills",
        ">Scratch", ">Shared",   ">Subgroups",  ">Instructions", ">Cycles",    ">Mul-add %",
        ">Dual %",  ">Loads/64", ">Vectors/64", ">Matrix",       ">Divisions",
    };
    enum { NUM_HEADINGS = sizeof(headings) / sizeof(headings[0]) };
    kernels_report report = { .options = o, .list = json_array(), .progress = isatty(STDERR_FILENO) != 0 };
    report.ok = table_begin(&report.rows, headings, NUM_HEADINGS);
    const rf_result r = rf_bench_kernels(
        &(rf_bench_kernels_params){ .device = o->device, .op = o->op, .all_cases = o->all_cases, .type = o->type },
        add_kernel, &report);
    if (report.progress) fprintf(stderr, "\r\033[K");
    if (r < 0) {
        json_decref(report.list);
        table_free(&report.rows);
        return command_fail();
    }
    char about[400];
    snprintf(about, sizeof(about), "Device: %s%s", report.device,
             report.explained
                 ? ""
                 : "\nIts driver says nothing of pipelines: there is no VK_KHR_pipeline_executable_properties.");
    json_t *result = json_pack("{s:s,s:o}", "device", report.device, "kernels", report.list);
    json_incref(report.list); /* it is still to be compared */
    const int code = bench_report(o->json_path, about, old ? NULL : &report.rows, result, report.ok);
    if (old) table_free(&report.rows);
    const int compared = old ? reports_compare(&report, old) : CODE_OK;
    json_decref(report.list);
    return report.failures > 0 ? CODE_FAILED : code == CODE_OK ? compared : code;
}

int command_bench_kernels(int argc, char **argv)
{
    kernels_options o = { 0 };
    const struct argp parser = {
        argp_options,
        parse_option,
        "",
        "Compiles every kernel of the operations and prints what the driver's compiler says of each pipeline. Runs "
        "none of "
        "them.\vRegisters are of 32 bits and one invocation's, subgroups those that fit at once, cycles the driver's "
        "estimate. The last six columns count what stands in the loop that multiplies and adds most: the share of "
        "multiply-adds among vector instructions, and of those that are issued in pairs, loads from shared memory for "
        "64 multiply-adds, how many vectors of 16 bytes these bring, instructions for matrices, integer divisions. "
        "'-': the driver does not say. Fails when a pipeline does.",
        NULL,
        NULL,
        NULL
    };
    command_parse(&parser, argc, argv, 0, &o);
    if (!json_can_write(o.json_path)) return CODE_FAILED;
    json_t *old = NULL;
    if (o.compare && !(old = read_old(o.compare))) return CODE_FAILED;
    const int code = kernels_look(&o, old);
    json_decref(old);
    return code;
}
