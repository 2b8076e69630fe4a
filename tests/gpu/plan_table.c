/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_table.h"
#include "gpu_test.h"

#include <inttypes.h>
#include <string.h>

#include "base/philox.h"
#include "graph/op.h"
#include "ops/ops.h"
#include "read_snapshot.h"
#include "tests/ops/cases/case_data.h"

const char *const planned_devices[NUM_PLANNED_DEVICES] = {
    "a660", "a740", "a770",  "a830",   "b580",   "ga102",  "gfx1201",  "h100",
    "m1",   "tgl",  "tu102", "navi21", "navi31", "vega10", "lavapipe", "swiftshader",
};

static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    return rf_hash_bytes(data, size, hash);
}

static uint64_t mix_words(uint64_t hash, uint32_t count, const uint64_t *words)
{
    return mix(hash, words, count * sizeof(*words));
}

static uint64_t mix_runs(uint64_t hash, const rf_runs *runs)
{
    hash = mix_words(hash, 4, (const uint64_t[]){ runs->bytes, runs->from, runs->to, runs->rank });
    for (uint32_t i = 0; i < runs->rank; i++)
        hash = mix_words(
            hash, 3, (const uint64_t[]){ runs->count[i], (uint64_t)runs->from_step[i], (uint64_t)runs->to_step[i] });
    return hash;
}

static uint64_t mix_dispatch(uint64_t hash, const rf_dispatch *d)
{
    const char *name = d->shader ? d->shader->name : "";
    hash = mix(hash, name, strlen(name));
    hash = mix(hash, d->spec, d->n_spec * sizeof(d->spec[0]));
    hash = mix(hash, d->push, d->push_size);
    hash = mix(hash, d->grid, sizeof(d->grid));
    hash = mix(hash, d->base, sizeof(d->base));
    hash =
        mix_words(hash, 6, (const uint64_t[]){ d->n_spec, d->push_size, d->n_bind, d->loops, d->fill, d->concurrent });
    for (uint32_t i = 0; i < d->n_bind; i++) {
        const rf_binding *b = &d->bind[i];
        hash = mix_words(hash, 6, (const uint64_t[]){ b->kind, b->view, b->index, b->write, b->offset, b->size });
    }
    return d->shader ? hash : mix_runs(hash, &d->runs);
}

static uint64_t hash_plan(const rf_kernel_plan *plan)
{
    uint64_t hash = mix_words(1, 3, (const uint64_t[]){ plan->count, plan->workspace, plan->counters });
    for (uint32_t i = 0; i < plan->count; i++) hash = mix_dispatch(hash, &plan->items[i]);
    return hash;
}

typedef struct table {
    const char *device;
    rf_device_caps caps;
    FILE *rows; /* NULL: digests alone */
    uint32_t calls;
    uint64_t digest;
} table;

static void add_call(table *t, const rf_op_case *c, const rf_op_call *call)
{
    static const char *const types[] = { [RF_F32] = "f32", [RF_F16] = "f16", [RF_BF16] = "bf16" };
    const rf_kernel *kernel = rf_best_kernel(call, &t->caps);
    const char *name = kernel ? kernel->name : "-";
    const uint32_t dtype = call->in[0].dtype;
    const char *type = dtype < sizeof(types) / sizeof(types[0]) && types[dtype] ? types[dtype] : "other";
    rf_kernel_plan plan = { 0 };
    if (kernel) assert_int_equal(rf_kernel_plan_make(kernel, call, &t->caps, &plan), RF_OK);
    const uint64_t hash = hash_plan(&plan);
    t->digest = mix_words(mix(t->digest, name, strlen(name)), 1, &hash);
    t->calls++;
    if (t->rows)
        fprintf(t->rows, "%s %s %s %s %s %u %016" PRIx64 "\n", t->device, call->op->name, c->name, type, name,
                plan.count, hash);
    rf_kernel_plan_free(&plan);
}

/* The case as it is, and with its floats in 16 bits where the op takes these. */
static void add_case(table *t, const rf_op *op, const rf_op_case *c)
{
    static const rf_dtype types[] = { RF_F16, RF_BF16 };
    rf_case_data data;
    assert_int_equal(rf_case_data_describe(op, c, &data), RF_OK);
    add_call(t, c, &data.call);
    for (size_t i = 0; op->widen && i < sizeof(types) / sizeof(types[0]); i++) {
        const rf_op_case stored = rf_case_stored_in(op, c, types[i], false);
        assert_int_equal(rf_case_data_describe(op, &stored, &data), RF_OK);
        add_call(t, c, &data.call);
    }
}

void write_plan_table(const char *directory, const char *device, bool digests, FILE *out)
{
    const rf_gpu_snapshot s = read_snapshot(directory, device);
    rf_gpu_plan plan;
    uint32_t num_ops;
    const rf_op *const *ops = rf_ops_all(&num_ops);
    rf_gpu_plan_device(&s, false, &plan);
    for (uint32_t o = 0; o < num_ops; o++) {
        if (ops[o]->flags & RF_OP_VIEW) continue;
        table t = { .device = device, .caps = plan.caps, .rows = digests ? NULL : out };
        for (uint32_t c = 0; c < rf_op_cases(ops[o])->count; c++) add_case(&t, ops[o], &rf_op_cases(ops[o])->items[c]);
        if (digests) fprintf(out, "%s %s %u %016" PRIx64 "\n", device, ops[o]->name, t.calls, t.digest);
    }
}
