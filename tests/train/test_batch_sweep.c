/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The batch as each dimension of each operand of each tracing function: traced with 4 examples and with 2, then 7, 1
 * and 3 of them, results and gradients are those of a trace in which the same numbers have one size for good. On the
 * host, before and after fusion, by the ops' references; with the argument "devices" as programs, on one replica and on
 * two with uneven shares. Functions and ops without a row are listed with the reason.
 */
#include "../support/strategies.h"
#include "batch_rows.h"
#include "graph/batch_dims.h"
#include "ops/ops.h"
#include "tests/room.h"
#include "trace/trace.h"

enum { TRACED = 4, MOST_OUTPUTS = 12, MOST_ELEMENTS = 1 << 14 };

/* All rows are looked at, whatever is wrong with some of them. */
static uint32_t num_problems;

static void report(const char *format, ...)
{
    char text[1200];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    print_error("%s\n", text);
    num_problems++;
}

/* ---- operands ---- */

typedef struct operand {
    char kind; /* '#', '+' or 0 */
    int32_t rank;
    char letter[RF_MAX_RANK];
} operand;

static uint32_t parse_operands(const char *text, operand *out)
{
    uint32_t count = 0;
    out[0] = (operand){ 0 };
    for (; *text; text++) {
        operand *x = &out[count];
        if (*text == ',')
            out[++count] = (operand){ 0 };
        else if (*text == '#' || *text == '+')
            x->kind = *text;
        else
            x->letter[x->rank++] = *text;
    }
    return count + 1;
}

/* As many as there are examples in the trace, too: what mixes both up is to show. */
static int64_t size_of(char letter)
{
    static const struct {
        char letter;
        int64_t size;
    } sizes[] = { { '1', 1 }, { 'a', 2 }, { 'b', 3 }, { 'c', 4 }, { 'd', 2 }, { 'e', 4 }, { 'g', 6 },
                  { 'h', 6 }, { 'i', 2 }, { 'j', 3 }, { 's', 5 }, { 't', 3 }, { 'u', 2 }, { 'v', 4 },
                  { 'w', 5 }, { 'x', 4 }, { 'y', 8 }, { 'k', 4 }, { 'p', 2 } };
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        if (sizes[i].letter == letter) return sizes[i].size;
    return 3;
}

/* A number for each place, whatever the number of examples; none twice, and none near another one's border. */
static float number_at(uint32_t index, const operand *x, const int64_t *place)
{
    uint32_t hash = 2166136261u + 977u * index;
    for (int32_t d = 0; d < x->rank; d++) hash = (hash ^ (uint32_t)(place[d] + 31 * d)) * 16777619u;
    hash ^= hash >> 15;
    hash *= 2246822519u;
    hash ^= hash >> 13;
    const float unit = (float)(hash >> 8) / 16777216.0f;
    return x->kind == '+' ? 0.1f + 0.8f * unit : 2.0f * unit - 1.0f;
}

/* The operand with `count` examples from number `first` on, which are its dimension 0 where it is `batched`. */
static void fill_operand(const operand *x, uint32_t index, char batch, int64_t first, int64_t count, bool batched,
                         rf_array *out)
{
    int32_t order[RF_MAX_RANK], rank = 0;
    for (int32_t d = 0; batched && d < x->rank; d++)
        if (x->letter[d] == batch) order[rank++] = d;
    for (int32_t d = 0; d < x->rank; d++)
        if (!batched || x->letter[d] != batch) order[rank++] = d;
    *out = (rf_array){ .dtype = x->kind == '#' ? RF_I32 : RF_F32, .shape = { .rank = rank } };
    for (int32_t d = 0; d < rank; d++)
        out->shape.dim[d] = x->letter[order[d]] == batch ? count : size_of(x->letter[order[d]]);
    const int64_t elements = rf_shape_count(out->shape);
    out->data = test_calloc((size_t)elements, sizeof(float));
    for (int64_t e = 0; e < elements; e++) {
        int64_t place[RF_MAX_RANK] = { 0 }, rest = e;
        for (int32_t d = rank - 1; d >= 0; d--) {
            place[order[d]] = rest % out->shape.dim[d] + (x->letter[order[d]] == batch ? first : 0);
            rest /= out->shape.dim[d];
        }
        const float number = number_at(index, x, place);
        if (out->dtype == RF_I32)
            ((int32_t *)out->data)[e] = number > 0;
        else
            ((float *)out->data)[e] = number;
    }
}

/* ---- a row as a step ---- */

typedef struct sweep {
    const batch_row *row;
    char batch;
    bool fixed; /* the operands are constants: of `count` examples from `first` on */
    int64_t first, count, traced;
    uint32_t num_outputs;
    rf_graph *graph; /* a copy of what was traced, where it is wanted */
    bool wants_graph;
    rf_value outputs[MOST_OUTPUTS];
} sweep;

static bool follows(const operand *x, char batch)
{
    for (int32_t d = 0; d < x->rank; d++)
        if (x->letter[d] == batch) return true;
    return false;
}

/* From [n, ...] to where the batch stands. */
static rf_tensor put_back(rf_trace *t, const operand *x, char batch, rf_tensor input)
{
    int32_t perm[RF_MAX_RANK], at = 1;
    for (int32_t d = 0; d < x->rank; d++) perm[d] = x->letter[d] == batch ? 0 : at++;
    return x->letter[0] == batch ? input : rf_transpose(t, input, perm);
}

static void make_operands(rf_trace *t, const sweep *s, const operand *x, uint32_t count, const rf_tensor *in,
                          rf_tensor *out)
{
    uint32_t component = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!s->fixed && follows(&x[i], s->batch)) {
            out[i] = put_back(t, &x[i], s->batch, in[component++]);
            continue;
        }
        rf_array array;
        fill_operand(&x[i], i, s->batch, s->first, s->count, false, &array);
        out[i] = rf_constant_array(t, &array);
        test_free(array.data);
    }
}

static rf_tensor sum_of_squares(rf_trace *t, const rf_tensor *x, uint32_t count)
{
    rf_tensor sum = rf_constant(t, 0);
    for (uint32_t i = 0; i < count; i++)
        sum = rf_add(t, sum, rf_reduce_sum(t, rf_square(t, x[i]), NULL, 0, RF_DROP_DIMS));
    return sum;
}

/* The result, its gradients, and the gradients of their squares. */
static uint32_t trace_row(rf_trace *t, const sweep *s, const rf_tensor *in, rf_tensor *out)
{
    operand x[MOST_OPERANDS];
    rf_tensor operands[MOST_OPERANDS], targets[MOST_OPERANDS];
    const uint32_t count = parse_operands(s->row->operands, x);
    uint32_t num_targets = 0, num_outputs = 1;
    make_operands(t, s, x, count, in, operands);
    for (uint32_t i = 0; i < count; i++)
        if (x[i].kind != '#') targets[num_targets++] = operands[i];
    out[0] = s->row->call(t, operands);
    for (int order = 0; order < s->row->order && rf_trace_status(t) >= 0; order++) {
        const uint32_t of = order == 0 ? 1 : num_targets;
        const rf_tensor loss = sum_of_squares(t, &out[num_outputs - of], of);
        (void)rf_gradients(t, loss, targets, num_targets, &out[num_outputs]);
        num_outputs += num_targets;
    }
    return num_outputs;
}

/* For a copy of the graph the trace is given up; a program has the first results that fit. */
static rf_result sweep_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    sweep *s = user;
    rf_tensor all[MOST_OUTPUTS];
    s->num_outputs = trace_row(t, s, in, all);
    const rf_result r = rf_trace_status(t);
    if (r < 0) return r;
    for (uint32_t i = 0; i < s->num_outputs; i++) s->outputs[i] = all[i].id;
    for (uint32_t i = 0; !s->wants_graph && i < RF_MAX_COMPONENTS; i++)
        out[i] = all[i < s->num_outputs ? i : s->num_outputs - 1];
    if (!s->wants_graph) return RF_OK;
    OK(rf_graph_clone(rf_trace_graph(t), &s->graph));
    rf_value *map = test_calloc(s->graph->values.count, sizeof(*map)); /* as when a trace is complete */
    OK(rf_graph_merge_common(s->graph, map));
    for (uint32_t i = 0; i < s->num_outputs; i++) s->outputs[i] = map[s->outputs[i]];
    test_free(map);
    OK(rf_graph_check_batches(s->graph, s->outputs, s->num_outputs));
    return RF_FAIL(RF_ERROR_CANCELLED, "the graph is known");
}

static void fill_batch(const sweep *s, int64_t first, int64_t count, rf_element *batch)
{
    operand x[MOST_OPERANDS];
    const uint32_t n = parse_operands(s->row->operands, x);
    *batch = (rf_element){ 0 };
    for (uint32_t i = 0; i < n && !s->fixed; i++)
        if (follows(&x[i], s->batch))
            fill_operand(&x[i], i, s->batch, first, count, true, &batch->component[batch->num_components++]);
    if (batch->num_components > 0) return;
    static float unused[TRACED];
    *batch = (rf_element){ .num_components = 1, .component = { { RF_F32, RF_SHAPE(TRACED), unused } } };
}

static void free_batch(const sweep *s, rf_element *batch)
{
    for (uint32_t i = 0; i < batch->num_components && !s->fixed; i++) test_free(batch->component[i].data);
}

/* False where the row refuses the sizes. */
static bool trace_graph(rf_strategy *strategy, sweep *s)
{
    rf_function *function;
    rf_element batch;
    s->wants_graph = true;
    s->graph = NULL;
    fill_batch(s, 0, s->traced ? s->traced : TRACED, &batch);
    OK(rf_function_create(strategy, &(rf_function_params){ .step = sweep_step, .user = s, .training = true },
                          &function));
    assert_true(rf_strategy_run(strategy, function, &batch, NULL) < 0);
    rf_function_destroy(&function);
    free_batch(s, &batch);
    return s->graph != NULL;
}

/* ---- on the host ---- */

typedef struct numbers {
    rf_graph *graph; /* whose constants are among them; NULL: somebody else's */
    rf_arena arena;
    void *at[MOST_OUTPUTS + 4];
    rf_tensor_desc desc[MOST_OUTPUTS + 4];
    uint32_t count;
} numbers;

/* A variable's own numbers; metrics begin with zeros. */
static void *fill_state(rf_arena *arena, const rf_value_info *state)
{
    const int64_t count = rf_shape_count(state->desc.shape);
    float *values = rf_arena_alloc(arena, (size_t)count * sizeof(float));
    assert_non_null(values);
    if (!state->mutated) OK(rf_variable_read((rf_variable *)(uintptr_t)state->object, values));
    return values;
}

/* Results may be views of it, which outlive the batch. */
static void *copy_input(rf_arena *arena, const rf_array *input)
{
    const size_t size = (size_t)rf_shape_count(input->shape) * rf_dtype_size(input->dtype);
    void *copy = rf_arena_alloc(arena, size);
    assert_non_null(copy);
    return memcpy(copy, input->data, size);
}

static void interpret(const sweep *s, const rf_graph *g, int64_t first, int64_t count, numbers *out)
{
    rf_element batch;
    *out = (numbers){ 0 };
    fill_batch(s, first, count, &batch);
    void **values = rf_arena_alloc(&out->arena, g->values.count * sizeof(*values));
    assert_non_null(values);
    for (rf_value v = 1; v < g->values.count; v++) {
        const rf_value_info *leaf = &g->values.items[v];
        if (leaf->kind == RF_VALUE_INPUT) values[v] = copy_input(&out->arena, &batch.component[leaf->slot]);
        if (leaf->kind == RF_VALUE_STATE) values[v] = fill_state(&out->arena, leaf);
    }
    OK(rf_graph_interpret(g, &out->arena, values));
    for (uint32_t i = 0; i < s->num_outputs; i++) {
        out->at[out->count] = values[s->outputs[i]];
        out->desc[out->count++] = *rf_graph_desc(g, s->outputs[i]);
    }
    for (rf_value v = 1; v < g->values.count && out->count < MOST_OUTPUTS + 4; v++) {
        if (g->values.items[v].kind != RF_VALUE_STATE || !g->values.items[v].mutated) continue;
        out->at[out->count] = values[v];
        out->desc[out->count++] = *rf_graph_desc(g, v);
    }
    free_batch(s, &batch);
}

static void compare(const sweep *s, const char *where, int64_t count, const rf_tensor_desc *desc, const void *is,
                    const rf_tensor_desc *wanted_desc, const void *wanted, uint32_t output)
{
    char text[160], first[96], second[96];
    snprintf(text, sizeof(text), "%s %s '%s', batch '%c' of %d: output %u", s->row->function, s->row->variant, where,
             s->batch, (int)count, output);
    if (desc->dtype != wanted_desc->dtype || !rf_shape_equal(desc->shape, wanted_desc->shape)) {
        report("%s is %s, not %s", text, rf_shape_format(desc->shape, first, sizeof(first)),
               rf_shape_format(wanted_desc->shape, second, sizeof(second)));
        return;
    }
    for (int64_t e = 0; e < rf_shape_count(desc->shape); e++) {
        const bool whole = desc->dtype == RF_I32;
        const double a = whole ? ((const int32_t *)is)[e] : (double)((const float *)is)[e];
        const double b = whole ? ((const int32_t *)wanted)[e] : (double)((const float *)wanted)[e];
        if ((isnan(a) && isnan(b)) || a == b || fabs(a - b) <= 1e-4 + 2e-3 * fabs(b)) continue;
        report("%s: element %d is %.9g, not %.9g", text, (int)e, a, b);
        return;
    }
}

/* Computes with the same numbers where nothing follows a batch; false where the row refuses the size. */
static bool compute_fixed(rf_strategy *strategy, const sweep *s, int64_t first, int64_t count, numbers *out)
{
    sweep fixed = { .row = s->row, .batch = s->batch, .fixed = true, .first = first, .count = count };
    if (!trace_graph(strategy, &fixed)) return false;
    interpret(&fixed, fixed.graph, first, count, out);
    out->graph = fixed.graph;
    return true;
}

static void free_numbers(numbers *x)
{
    rf_graph_destroy(&x->graph);
    rf_arena_free(&x->arena);
}

static void note_ops(const rf_graph *g);

static void check_size(rf_strategy *strategy, const sweep *s, const rf_graph *graph, const char *where, int64_t count)
{
    numbers wanted, is;
    rf_graph *g;
    const bool refused = strchr(s->row->refused, s->batch) != NULL;
    const bool known = compute_fixed(strategy, s, 0, count, &wanted);
    /* One class is wrong for good, but not where there are as many as examples. */
    const bool one_class = !known && strstr(rf_error_message(), "one column");
    OK(rf_graph_clone(graph, &g));
    const rf_result r = rf_graph_specialize(g, count);
    if (refused || !known) {
        if (r >= 0 && !one_class)
            report("%s %s %s: batch '%c' of %d is not refused", s->row->function, s->row->variant, where, s->batch,
                   (int)count);
    } else if (r < 0) {
        report("%s %s %s: batch '%c' of %d: %s", s->row->function, s->row->variant, where, s->batch, (int)count,
               rf_error_message());
    } else {
        interpret(s, g, 0, count, &is);
        assert_int_equal(is.count, wanted.count);
        for (uint32_t i = 0; i < is.count; i++)
            compare(s, where, count, &is.desc[i], is.at[i], &wanted.desc[i], wanted.at[i], i);
        free_numbers(&is);
    }
    if (known) free_numbers(&wanted);
    rf_graph_destroy(&g);
}

/* A refusal comes with the trace, or with the first other batch, and names the call. */
static void check_refusal(const sweep *s, rf_graph *graph)
{
    if (strchr(s->row->refused, s->batch) == NULL) {
        const char *why = graph ? graph->fixed_by : rf_error_message();
        if (why) report("%s %s, batch '%c': %s", s->row->function, s->row->variant, s->batch, why);
        return;
    }
    const char *said = graph ? graph->fixed_by : rf_error_message();
    const char *name = strncmp(s->row->function, "rf_", 3) == 0 ? s->row->function + 3 : "layer";
    if (!said || !strstr(said, name))
        report("%s %s, batch '%c': refused by '%s'", s->row->function, s->row->variant, s->batch, said ? said : "");
}

static void sweep_traced(rf_strategy *strategy, const batch_row *row, char batch, int64_t traced)
{
    sweep s = { .row = row, .batch = batch, .traced = traced };
    numbers small;
    const bool known = trace_graph(strategy, &s);
    if (!known && traced != TRACED && !compute_fixed(strategy, &s, 0, traced, &small)) return; /* too few for the row */
    check_refusal(&s, s.graph);
    if (!s.graph || s.graph->fixed_by) {
        rf_graph_destroy(&s.graph);
        return;
    }
    note_ops(s.graph);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < 3; i++)
            check_size(strategy, &s, s.graph, pass == 0 ? "as traced" : "fused", (int64_t[]){ 7, 1, 3 }[i]);
        if (pass == 0) OK(rf_graph_optimize(s.graph, &(rf_graph_roots){ s.outputs, s.num_outputs }));
    }
    note_ops(s.graph);
    rf_graph_destroy(&s.graph);
}

/* Two examples are the fewest that a step is traced with: where it takes some away there may be one left. */
static void sweep_on_host(rf_strategy *strategy, const batch_row *row, char batch)
{
    sweep_traced(strategy, row, batch, TRACED);
    if (!strchr(row->refused, batch)) sweep_traced(strategy, row, batch, 2);
}

static void for_each_letter(rf_strategy *strategy, void (*body)(rf_strategy *, const batch_row *, char))
{
    batch_rows_open(strategy);
    for (unsigned i = 0; i < num_batch_rows; i++)
        for (const char *c = batch_rows[i].operands; *c; c++)
            if (*c >= 'a' && *c <= 'z' &&
                memchr(batch_rows[i].operands, *c, (size_t)(c - batch_rows[i].operands)) == NULL)
                body(strategy, &batch_rows[i], *c);
    batch_rows_close();
    assert_int_equal(num_problems, 0);
}

TEST(the_batch_in_every_dimension)
{
    rf_strategy *strategy = open_devices(device_lists[0]);
    if (!strategy) SKIP("llvmpipe is not installed");
    for_each_letter(strategy, sweep_on_host);
    rf_strategy_destroy(&strategy);
}

/* ---- as programs ---- */

/* Results of each replica against the same numbers of a fixed size. Refusals are looked at on the host. */
static void run_on_replicas(rf_strategy *strategy, sweep *s, rf_function *function, const int64_t *shares,
                            uint32_t num_shares)
{
    rf_element batch;
    rf_per_replica *results[RF_MAX_COMPONENTS];
    const int64_t count = shares[0] + (num_shares > 1 ? shares[1] : 0);
    fill_batch(s, 0, count, &batch);
    s->wants_graph = false;
    const rf_result r = rf_strategy_run(strategy, function, &batch, results);
    char said[512];
    snprintf(said, sizeof(said), "%s", rf_error_message());
    bool fits = true;
    int64_t first = 0;
    for (uint32_t k = 0; k < num_shares; first += shares[k++]) {
        numbers wanted;
        if (!compute_fixed(strategy, s, first, shares[k], &wanted)) {
            fits = false;
            continue;
        }
        for (uint32_t i = 0; r >= 0 && i < s->num_outputs && i < RF_MAX_COMPONENTS; i++) {
            rf_array own;
            OK(rf_per_replica_local(results[i], k, &own));
            compare(s, num_shares > 1 ? "on two replicas" : "on a device", shares[k],
                    &(rf_tensor_desc){ own.dtype, own.shape }, own.data, &wanted.desc[i], wanted.at[i], i);
        }
        free_numbers(&wanted);
    }
    if (r < 0 && fits)
        report("%s %s: batch '%c' of %d: %s", s->row->function, s->row->variant, s->batch, (int)count, said);
    free_batch(s, &batch);
}

static void sweep_on_device(rf_strategy *strategy, const batch_row *row, char batch)
{
    sweep s = { .row = row, .batch = batch };
    rf_function *function;
    const rf_function_params params = {
        .step = sweep_step, .user = &s, .num_outputs = RF_MAX_COMPONENTS, .training = true
    };
    if (strchr(row->refused, batch)) return;
    OK(rf_function_create(strategy, &params, &function));
    if (rf_strategy_num_replicas_in_sync(strategy) == 2)
        run_on_replicas(strategy, &s, function, (int64_t[]){ 4, 2 }, 2);
    else
        for (int i = 0; i < 4; i++) run_on_replicas(strategy, &s, function, &(int64_t[]){ TRACED, 7, 1, 3 }[i], 1);
    rf_function_destroy(&function);
}

static room_test *on_devices_tests;

TEST_OF(on_devices_tests, programs_of_every_dimension)
{
    static const double shares[2] = { 2, 1 };
    for (uint32_t replicas = 1; replicas <= 2; replicas++) {
        rf_strategy *strategy = NULL;
        const rf_mirrored_params params = { .devices = replicas == 1 ? "llvmpipe" : "llvmpipe,llvmpipe",
                                            .shares = replicas == 1 ? NULL : shares,
                                            .num_shares = replicas == 1 ? 0 : 2 };
        const rf_result r = rf_strategy_create_mirrored(&params, &strategy);
        if (r == RF_ERROR_NOT_FOUND) SKIP("llvmpipe is not installed");
        OK(r);
        for_each_letter(strategy, sweep_on_device);
        rf_strategy_destroy(&strategy);
    }
}

/* ---- what steps hold of the traced batch ---- */

/* Scores of all pairs [n, n], and numbers that the step made for the batch of its trace. */
typedef rf_tensor (*mixture)(rf_trace *t, rf_tensor pairs, rf_tensor traced);

static rf_tensor mix_add(rf_trace *t, rf_tensor pairs, rf_tensor traced)
{
    return rf_add(t, pairs, traced);
}
static rf_tensor mix_where(rf_trace *t, rf_tensor pairs, rf_tensor traced)
{
    return rf_where(t, traced, pairs, rf_constant(t, 0));
}
static rf_tensor mix_matmul(rf_trace *t, rf_tensor pairs, rf_tensor traced)
{
    return rf_matmul(t, pairs, traced, RF_TRANSPOSE_NONE);
}
static rf_tensor mix_concat(rf_trace *t, rf_tensor pairs, rf_tensor traced)
{
    return rf_concat(t, (rf_tensor[]){ pairs, traced }, 2, 1);
}
static rf_tensor mix_loss(rf_trace *t, rf_tensor pairs, rf_tensor traced)
{
    return rf_huber(t, traced, pairs, 1);
}
static rf_tensor mix_einsum(rf_trace *t, rf_tensor pairs, rf_tensor traced)
{
    return rf_einsum(t, "ab,bc->ac", (rf_tensor[]){ pairs, traced }, 2);
}
static rf_tensor mix_attention(rf_trace *t, rf_tensor pairs, rf_tensor traced)
{
    const rf_tensor heads = rf_expand_dims(t, rf_expand_dims(t, pairs, 0), 0);
    const rf_tensor mask = rf_expand_dims(t, rf_expand_dims(t, traced, 0), 0);
    return rf_attention(t, heads, heads, heads, &(rf_attention_params){ .mask = mask });
}
static rf_tensor mix_reshape(rf_trace *t, rf_tensor pairs, rf_tensor traced)
{
    return rf_reshape(t, pairs, RF_SHAPE(rf_tensor_shape(t, traced).dim[0], 2, 2));
}
static rf_tensor mix_slice_update(rf_trace *t, rf_tensor pairs, rf_tensor traced)
{
    const int32_t zero = 0;
    const rf_tensor start = rf_constant_array(t, &(rf_array){ RF_I32, RF_SHAPE(1), (void *)(uintptr_t)&zero });
    const rf_tensor sums = rf_reduce_sum(t, pairs, (const int32_t[]){ 1 }, 1, RF_KEEP_DIMS);
    return rf_slice_update(t, traced, rf_tile(t, sums, (const int64_t[]){ 1, TRACED }, 2), start, 0);
}

static rf_result mixed_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    static float zeros[TRACED * TRACED];
    const rf_tensor traced = rf_constant_array(t, &(rf_array){ RF_F32, RF_SHAPE(TRACED, TRACED), zeros });
    out[0] = (*(const mixture *)user)(t, rf_matmul(t, in[0], in[0], RF_TRANSPOSE_B), traced);
    return rf_trace_status(t);
}

/* Runs with the traced batch, and with no other one: not with 1 either, where sizes of 1 would broadcast. */
TEST(traced_sizes_are_refused)
{
    const struct {
        const char *function;
        mixture mix;
        int64_t first_refused; /* of 1, 3, 5 */
    } rows[] = {
        { "rf_add of [n, n] and [4, 4] fits n = 4 alone", mix_add, 1 },
        { "rf_where of", mix_where, 1 },
        { "rf_matmul of [n, n] and [4, 4] fits n = 4 alone", mix_matmul, 1 },
        { "rf_concat of [n, n] and [4, 4] fits n = 4 alone", mix_concat, 1 },
        { "rf_huber of [n, n] and [4, 4] fits n = 4 alone", mix_loss, 1 },
        { "rf_einsum of [n, n] and [4, 4] fits n = 4 alone", mix_einsum, 1 },
        { "rf_attention of", mix_attention, 1 },
        { "rf_reshape of [n, n] fits n = 4 alone", mix_reshape, 1 },
        { "rf_slice_update: the updates, traced as [4,4], do not fit into x, traced as [4,4], along axis 0: 5 examples",
          mix_slice_update, 5 },
    };
    static float x[8 * 3];
    rf_strategy *strategy = open_devices(device_lists[0]);
    if (!strategy) SKIP("llvmpipe is not installed");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rf_function *function;
        const rf_function_params params = { .step = mixed_step,
                                            .user = (void *)(uintptr_t)&rows[i].mix,
                                            .num_outputs = 1 };
        OK(rf_function_create(strategy, &params, &function));
        for (int64_t n = TRACED; n > 0; n = n == TRACED ? 1 : n == 1 ? 3 : n == 3 ? 5 : 0) {
            const rf_element batch = { .num_components = 1, .component = { { RF_F32, RF_SHAPE(n, 3), x } } };
            if (n == TRACED || n < rows[i].first_refused)
                OK(rf_strategy_run(strategy, function, &batch, NULL));
            else
                FAILS(rf_strategy_run(strategy, function, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, rows[i].function);
        }
        rf_function_destroy(&function);
    }
    rf_strategy_destroy(&strategy);
}

/* Room for one: a batch of one fits, although no step is traced with fewer than two. */
static rf_tensor mix_one(rf_trace *t, rf_tensor pairs, rf_tensor traced)
{
    const int32_t zero = 0;
    const rf_tensor start = rf_constant_array(t, &(rf_array){ RF_I32, RF_SHAPE(1), (void *)(uintptr_t)&zero });
    const rf_tensor row = rf_slice(t, traced, (const int64_t[]){ 0, 0 }, (const int64_t[]){ 1, 1 }, NULL, 2);
    return rf_slice_update(t, row, rf_reduce_sum(t, pairs, (const int32_t[]){ 1 }, 1, RF_KEEP_DIMS), start, 0);
}

TEST(one_example_fits_room_for_one)
{
    static float x[2 * 3];
    mixture mix = mix_one;
    rf_function *function;
    rf_strategy *strategy = open_devices(device_lists[0]);
    if (!strategy) SKIP("llvmpipe is not installed");
    OK(rf_function_create(strategy, &(rf_function_params){ .step = mixed_step, .user = &mix, .num_outputs = 1 },
                          &function));
    rf_element batch = { .num_components = 1, .component = { { RF_F32, RF_SHAPE(1, 3), x } } };
    OK(rf_strategy_run(strategy, function, &batch, NULL));
    batch.component[0].shape.dim[0] = 2;
    FAILS(rf_strategy_run(strategy, function, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "along axis 0: 2 examples");
    rf_function_destroy(&function);
    rf_strategy_destroy(&strategy);
}

/* A variable that is as large as the traced batch, and a gradient that follows it. */
typedef struct coincidence {
    rf_variable *variable;
    rf_optimizer *optimizer;
} coincidence;

static rf_result coincidence_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const coincidence *c = user;
    rf_variable *variable = c->variable;
    out[0] = rf_reduce_sum(t, in[0], NULL, 0, RF_DROP_DIMS);
    return rf_optimizer_apply_gradients(t, c->optimizer, in, (rf_variable_list){ &variable, 1 });
}

TEST(gradients_of_variables_follow_no_batch)
{
    coincidence c;
    rf_function *function;
    static float x[TRACED * 3];
    const rf_element batch = { .num_components = 1, .component = { { RF_F32, RF_SHAPE(TRACED, 3), x } } };
    rf_strategy *strategy = open_devices(device_lists[0]);
    if (!strategy) SKIP("llvmpipe is not installed");
    OK(rf_variable_create(strategy, &(rf_variable_params){ .name = "w", .shape = RF_SHAPE(TRACED, 3) }, &c.variable));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD, .learning_rate = 1 },
                           &c.optimizer));
    const rf_function_params params = { .step = coincidence_step, .user = &c, .num_outputs = 1, .training = true };
    OK(rf_function_create(strategy, &params, &function));
    FAILS(rf_strategy_run(strategy, function, &batch, NULL), RF_ERROR_INVALID_ARGUMENT,
          "the gradient of 'w' depends on the batch");
    rf_function_destroy(&function);
    rf_optimizer_destroy(&c.optimizer);
    rf_variable_destroy(&c.variable);
    rf_strategy_destroy(&strategy);
}

/* ---- what has no row ---- */

/* Functions without operands that a batch could be in, or that are swept elsewhere. */
static const char *const other_functions[] = {
    "rf_trace_status",    "rf_trace_fail",        "rf_trace_training",  "rf_trace_num_replicas",
    "rf_tensor_shape",    "rf_tensor_dtype",      "rf_variable_tensor", "rf_constant",
    "rf_constant_array",  "rf_global_batch_size", "rf_gradients", /* all rows */
    "rf_variable_update", "rf_all_replica_sum", /* refuse what follows the batch: test_assign.c, test_sums.c */
    "rf_dropout",         "rf_random_uniform",    "rf_random_normal", /* their numbers depend on the place */
};

static bool is_known_function(const char *name, size_t length)
{
    bool known = false;
    for (unsigned i = 0; i < num_batch_rows; i++)
        known |= strlen(batch_rows[i].function) == length && strncmp(batch_rows[i].function, name, length) == 0;
    for (size_t i = 0; i < sizeof(other_functions) / sizeof(other_functions[0]); i++)
        known |= strlen(other_functions[i]) == length && strncmp(other_functions[i], name, length) == 0;
    return known;
}

TEST(every_function_has_a_row)
{
    static char text[1 << 17];
    FILE *file = fopen(OPS_HEADER, "r");
    assert_non_null(file);
    const size_t size = fread(text, 1, sizeof(text) - 1, file);
    fclose(file);
    assert_true(size > 0 && size < sizeof(text) - 1);
    uint32_t found = 0;
    for (const char *at = text; (at = strstr(at, "RF_API ")) != NULL; at++) {
        const char *open = strchr(at, '('), *name = open;
        while (name && name[-1] != ' ' && name[-1] != '*') name--;
        if (!open || (strncmp(open, "(rf_trace *t", 12) != 0 && strncmp(open, "(const rf_trace *t", 18) != 0)) continue;
        if (!is_known_function(name, (size_t)(open - name)))
            fail_msg("%.*s has no row in batch_rows.c", (int)(open - name), name);
        found++;
    }
    assert_in_range(found, 100, 200);
}

static bool seen[256];

static void note_ops(const rf_graph *g)
{
    uint32_t count;
    const rf_op *const *ops = rf_ops_all(&count);
    assert_true(count <= 256);
    for (rf_node n = 0; n < g->nodes.count; n++)
        for (uint32_t i = 0; i < count && !g->nodes.items[n].dead; i++) seen[i] |= g->nodes.items[n].op == ops[i];
}

/* After the sweep. */
TEST(every_op_is_in_a_row)
{
    static const char *const others[] = {
        /* of parameters, which count no examples */
        "sgd_update",
        "momentum_update",
        "adam_update",
        "rmsprop_update",
        "adagrad_update",
        "lion_update",
        "momentum_packed",
        "adam_packed",
        "lion_packed",
        "nadam_update",
        "lamb_moments",
        "lamb_update",
        "muon_momentum",
        "muon_update",
        "average_update",
        "overwrite",
        "accumulate",
        "assign",
        "unscale",
        "overflow_check",
        "loss_scale",
        "update_numbers",
        "block_squares",
        "lamb_norms",
        /* their numbers depend on the place */
        "dropout",
        "dropout_grad",
        "random_uniform",
        /* of weights that only a strategy has in few bits: test_quantized.c has batches and halves of them */
        "matmul_quantized",
        "gather_quantized",
        /* only where there are several replicas */
        "all_replica_sum",
    };
    uint32_t count;
    const rf_op *const *ops = rf_ops_all(&count);
    for (uint32_t i = 0; i < count; i++) {
        bool known = seen[i];
        for (size_t k = 0; k < sizeof(others) / sizeof(others[0]); k++) known |= strcmp(others[k], ops[i]->name) == 0;
        if (!known) report("op '%s' is in no graph of batch_rows.c", ops[i]->name);
    }
    assert_int_equal(num_problems, 0);
}

TEST_PROGRAM(batch_sweep)
{
    if (argc > 1 && strcmp(argv[1], "devices") == 0) return room_tests_run(on_devices_tests, NULL, NULL);
    return room_tests_run(own_tests, NULL, NULL);
}
