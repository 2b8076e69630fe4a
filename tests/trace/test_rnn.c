/* SPDX-License-Identifier: Apache-2.0 */
/* rf_rnn() against the same layer written out step by step, with gradients by everything, and what it refuses. */
#include "../support/strategies.h"
#include "tests/room.h"

enum { N = 4, STEPS = 3, UNITS = 5, LEAVES = 5, OUTPUTS = 3 + LEAVES };

typedef struct form {
    rf_rnn_params params;
    bool written_out;
    rf_variable *leaf[LEAVES]; /* x (added to the input), recurrent, bias, h, c */
} form;

static int32_t gates_of(rf_rnn_kind kind)
{
    return kind == RF_RNN_GRU ? 3 : kind == RF_RNN_LSTM ? 4 : 1;
}

static rf_tensor columns(rf_trace *t, rf_tensor x, int32_t gate, int32_t count)
{
    const int64_t begin[2] = { 0, (int64_t)gate * UNITS }, end[2] = { INT64_MAX, (int64_t)(gate + count) * UNITS };
    return rf_slice(t, x, begin, end, (int64_t[2]){ 1, 1 }, 2);
}

static rf_tensor gate(rf_trace *t, rf_tensor a, rf_tensor b, int32_t number, rf_activation activation)
{
    return rf_activate(t, rf_add(t, columns(t, a, number, 1), columns(t, b, number, 1)), activation);
}

/* One step: h and c become the next. `recurrent` is cut before the candidate where a GRU resets first. */
static void step_once(rf_trace *t, const rf_rnn_params *p, rf_tensor x, rf_tensor recurrent, rf_tensor bias,
                      rf_tensor *h, rf_tensor *c)
{
    const rf_tensor product = rf_bias_add(t, rf_matmul(t, *h, recurrent, RF_TRANSPOSE_NONE), bias);
    if (p->kind == RF_RNN_SIMPLE) {
        *h = gate(t, x, product, 0, RF_ACTIVATION_TANH);
        return;
    }
    const rf_tensor first = gate(t, x, product, 0, RF_ACTIVATION_SIGMOID);
    const rf_tensor second = gate(t, x, product, 1, RF_ACTIVATION_SIGMOID);
    if (p->kind == RF_RNN_LSTM) {
        *c = rf_add(t, rf_multiply(t, second, *c), rf_multiply(t, first, gate(t, x, product, 2, RF_ACTIVATION_TANH)));
        *h = rf_multiply(t, gate(t, x, product, 3, RF_ACTIVATION_SIGMOID), rf_activate(t, *c, RF_ACTIVATION_TANH));
        return;
    }
    rf_tensor inner = rf_multiply(t, second, columns(t, product, 2, 1));
    if (p->reset_before) {
        const int64_t begin[1] = { 2 * UNITS };
        const int64_t end[1] = { INT64_MAX };
        inner = rf_matmul(t, rf_multiply(t, second, *h), columns(t, recurrent, 2, 1), RF_TRANSPOSE_NONE);
        inner = rf_bias_add(t, inner, rf_slice(t, bias, begin, end, NULL, 1));
    }
    const rf_tensor candidate = rf_activate(t, rf_add(t, columns(t, x, 2, 1), inner), RF_ACTIVATION_TANH);
    *h = rf_add(t, candidate, rf_multiply(t, first, rf_subtract(t, *h, candidate)));
}

static void write_out(rf_trace *t, const rf_rnn_params *p, rf_tensor x, const rf_tensor *leaf, rf_tensor mask,
                      rf_tensor *sequence, rf_tensor final[2])
{
    rf_tensor h = leaf[3], c = leaf[4], all[STEPS];
    for (int64_t i = 0; i < STEPS; i++) {
        const int64_t place = p->backwards ? STEPS - 1 - i : i;
        const int64_t begin[2] = { 0, place }, end[2] = { INT64_MAX, place + 1 };
        const rf_tensor h_before = h, c_before = c, kept = rf_slice(t, mask, begin, end, NULL, 2);
        step_once(t, p, rf_squeeze(t, rf_slice(t, x, begin, end, (int64_t[2]){ 1, 1 }, 2), 1), leaf[1], leaf[2], &h,
                  &c);
        h = rf_where(t, kept, h, h_before);
        c = rf_where(t, kept, c, c_before);
        all[place] = h;
    }
    *sequence = rf_stack(t, all, STEPS, 1);
    final[0] = h;
    final[1] = c;
}

static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const form *f = user;
    rf_rnn_params p = f->params;
    rf_tensor leaf[LEAVES], final[2], targets[LEAVES];
    for (int i = 0; i < LEAVES; i++) targets[i] = leaf[i] = rf_variable_tensor(t, f->leaf[i]);
    const rf_tensor x = rf_add(t, in[0], leaf[0]);
    /* the states of all examples are the one row of the variable */
    leaf[3] = rf_add(
        t,
        columns(t, rf_squeeze(t, rf_slice(t, in[0], (int64_t[2]){ 0, 0 }, (int64_t[2]){ INT64_MAX, 1 }, NULL, 2), 1), 0,
                1),
        leaf[3]);
    leaf[4] = rf_add(t, leaf[3], leaf[4]);
    p.mask = in[1];
    if (f->written_out)
        write_out(t, &p, x, leaf, in[1], &out[0], final);
    else
        (void)rf_rnn(t, x, leaf[1], leaf[2],
                     (rf_tensor[2]){ leaf[3], p.kind == RF_RNN_LSTM ? leaf[4] : (rf_tensor){ 0 } }, &p, &out[0], final);
    out[1] = final[0];
    out[2] = p.kind == RF_RNN_LSTM ? final[1] : final[0];
    const rf_tensor last = rf_add(t, out[1], rf_multiply(t, out[2], out[2]));
    const rf_tensor loss = rf_add(t, rf_reduce_sum(t, rf_multiply(t, out[0], out[0]), NULL, 0, RF_DROP_DIMS),
                                  rf_reduce_sum(t, last, NULL, 0, RF_DROP_DIMS));
    (void)rf_gradients(t, loss, targets, LEAVES, &out[3]);
    return rf_trace_status(t);
}

static void compare(rf_strategy *strategy, rf_rnn_params params)
{
    const int64_t width = (int64_t)gates_of(params.kind) * UNITS;
    float x[N * STEPS * 4 * UNITS], mask[N * STEPS], value[UNITS * 4 * UNITS];
    for (int i = 0; i < N * STEPS * 4 * UNITS; i++) x[i] = (float)((i * 37) % 101) / 80 - 0.6f;
    for (int i = 0; i < N * STEPS; i++) mask[i] = (float)(i % 4 != 1);
    for (int i = 0; i < UNITS * 4 * UNITS; i++) value[i] = (float)((i * 29) % 67) / 60 - 0.5f;
    form f = { .params = params };
    const rf_shape shapes[LEAVES] = { RF_SHAPE(width), RF_SHAPE(UNITS, width), RF_SHAPE(width), RF_SHAPE(UNITS),
                                      RF_SHAPE(UNITS) };
    for (int i = 0; i < LEAVES; i++)
        OK(rf_variable_create(strategy, &(rf_variable_params){ .shape = shapes[i], .value = value }, &f.leaf[i]));
    const rf_element batch = { 2, { array_f32(RF_SHAPE(N, STEPS, width), x), array_f32(RF_SHAPE(N, STEPS), mask) } };
    static float wanted[2][OUTPUTS][N * STEPS * 4 * UNITS];
    for (int way = 0; way < 2; way++) {
        rf_per_replica *results[RF_MAX_COMPONENTS];
        f.written_out = way == 0;
        rf_function *function;
        OK(rf_function_create(strategy, &(rf_function_params){ .step = step, .user = &f, .num_outputs = OUTPUTS },
                              &function));
        OK(rf_strategy_run(strategy, function, &batch, results));
        for (int o = 0; o < OUTPUTS; o++) {
            for (uint32_t replica = 0; replica < 2; replica++) {
                rf_array got;
                OK(rf_per_replica_local(results[o], replica, &got));
                for (int64_t i = 0; i < rf_shape_count(got.shape); i++) {
                    const float is = ((const float *)got.data)[i];
                    if (way == 0)
                        wanted[replica][o][i] = is;
                    else
                        assert_near((double)is, (double)wanted[replica][o][i], 2e-5, 2e-5, "of rf_rnn()");
                }
            }
        }
        rf_function_destroy(&function);
    }
    for (int i = 0; i < LEAVES; i++) rf_variable_destroy(&f.leaf[i]);
}

/* On two replicas of the driver that compiles the written-out form fast. */
static void as_written_out(rf_strategy *strategy)
{
    compare(strategy, (rf_rnn_params){ .kind = RF_RNN_GRU });
    compare(strategy, (rf_rnn_params){ .kind = RF_RNN_GRU, .reset_before = true, .backwards = true });
    compare(strategy, (rf_rnn_params){ .kind = RF_RNN_LSTM, .backwards = true });
    compare(strategy, (rf_rnn_params){ .kind = RF_RNN_SIMPLE });
}
TEST_ON_LISTS(as_written_out, _on_two, 3, 1, 1)

typedef struct mistake {
    rf_shape x, recurrent, bias, state;
    rf_rnn_params params;
    const char *says;
} mistake;

static rf_tensor zeros(rf_trace *t, rf_shape shape)
{
    static float none[64];
    const rf_array array = array_f32(shape, none);
    return shape.rank > 0 ? rf_constant_array(t, &array) : (rf_tensor){ 0 };
}

static rf_result wrong_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const mistake *m = user;
    (void)in;
    const rf_tensor state[2] = { zeros(t, m->state) };
    return rf_rnn(t, zeros(t, m->x), zeros(t, m->recurrent), zeros(t, m->bias), state, &m->params, &out[0], NULL);
}

static void refuse(rf_strategy *strategy, const mistake *m)
{
    float nothing[2] = { 0 };
    const rf_element batch = { 1, { array_f32(RF_SHAPE(2), nothing) } };
    rf_per_replica *result;
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = wrong_step, .user = (void *)m, .num_outputs = 1 },
                          &function));
    FAILS(rf_strategy_run(strategy, function, &batch, &result), RF_ERROR_INVALID_ARGUMENT, m->says);
    rf_function_destroy(&function);
}

static void mistakes(rf_strategy *strategy)
{
    const mistake all[] = {
        { RF_SHAPE(2, 3, 6), RF_SHAPE(2, 5), .says = "x has shape [2,3,6] and the recurrent kernel [2,5]" },
        { RF_SHAPE(2, 3, 6), RF_SHAPE(2, 6), RF_SHAPE(5), .says = "one bias for each column" },
        { RF_SHAPE(2, 3, 6), RF_SHAPE(2, 6), .state = RF_SHAPE(2, 3), .says = "an initial state for each example" },
        { RF_SHAPE(2, 3, 8), RF_SHAPE(2, 8), .state = RF_SHAPE(2, 2), .params = { .kind = RF_RNN_LSTM },
          .says = "an LSTM has two initial states or none" },
        { RF_SHAPE(2, 3, 6), RF_SHAPE(2, 6), .params = { .kind = (rf_rnn_kind)3 }, .says = "no kind of recurrent" },
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) refuse(strategy, &all[i]);
}
TEST_ON_ONE(mistakes)

TESTS(rnn, NULL, NULL)
