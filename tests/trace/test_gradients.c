/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients by what the step names: each handle is a target of its own. Powers and their slopes. Losses of models that
 * are sure of the wrong class. */
#include <float.h>

#include "../support/strategies.h"
#include "tests/room.h"

enum { COUNT = 5, MOST = 6 };

typedef struct run {
    rf_variable *x;
    rf_result (*body)(rf_trace *t, rf_tensor x, rf_tensor *out);
} run;

static rf_result step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)in;
    const run *r = user;
    const rf_result result = r->body(t, rf_variable_tensor(t, r->x), out);
    return result < 0 ? result : rf_trace_status(t);
}

/* Runs the body on x = 1, 2, ..; values[i] are the elements of out[i]. */
static void run_body(rf_strategy *strategy, rf_result (*body)(rf_trace *t, rf_tensor x, rf_tensor *out),
                     uint32_t num_outputs, float values[][COUNT])
{
    float x[COUNT], nothing[2] = { 0 };
    for (int i = 0; i < COUNT; i++) x[i] = (float)(i + 1);
    run r = { .body = body };
    const rf_variable_params params = { .name = "x", .shape = RF_SHAPE(COUNT), .value = x };
    OK(rf_variable_create(strategy, &params, &r.x));
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = step, .user = &r, .num_outputs = num_outputs },
                          &function));
    const rf_element batch = { 1, { array_f32(RF_SHAPE(2), nothing) } };
    rf_per_replica *results[RF_MAX_COMPONENTS];
    OK(rf_strategy_run(strategy, function, &batch, results));
    for (uint32_t i = 0; i < num_outputs; i++) {
        rf_array local;
        OK(rf_per_replica_local(results[i], 0, &local));
        assert_int_equal(rf_shape_count(local.shape), COUNT);
        memcpy(values[i], local.data, sizeof(values[i]));
    }
    rf_function_destroy(&function);
    rf_variable_destroy(&r.x);
}

static rf_tensor total(rf_trace *t, rf_tensor x)
{
    return rf_reduce_sum(t, x, NULL, 0, RF_DROP_DIMS);
}

/* f = sum(p q), p and q both x^2. */
static rf_result equal_expressions(rf_trace *t, rf_tensor x, rf_tensor *out)
{
    const rf_tensor p = rf_multiply(t, x, x), q = rf_multiply(t, x, x);
    const rf_tensor targets[] = { p, q, x };
    return rf_gradients(t, total(t, rf_multiply(t, p, q)), targets, 3, out);
}

/* f = sum(c d x), c and d both the constant 3. */
static rf_result equal_constants(rf_trace *t, rf_tensor x, rf_tensor *out)
{
    float threes[COUNT] = { 3, 3, 3, 3, 3 };
    const rf_array array = array_f32(RF_SHAPE(COUNT), threes);
    const rf_tensor c = rf_constant_array(t, &array), d = rf_constant_array(t, &array), targets[] = { c, d };
    return rf_gradients(t, total(t, rf_multiply(t, rf_multiply(t, c, d), x)), targets, 2, out);
}

/* f = sum(p q), where p and q come from x and nothing is computed. */
static rf_result nothing_computed(rf_trace *t, rf_tensor x, rf_tensor *out)
{
    const rf_tensor p[] = { rf_activate(t, x, RF_ACTIVATION_LINEAR), rf_dropout(t, x, 0.5f, 1), rf_cast(t, x, RF_F32),
                            x };
    rf_tensor product = x;
    for (int i = 0; i < 3; i++) product = rf_multiply(t, product, p[i]);
    return rf_gradients(t, total(t, product), p, 4, out);
}

/* The gradients of sum(z + y) by z and by y are equal, but each is a value of its own: f = sum(g h^2 x). */
static rf_result equal_gradients(rf_trace *t, rf_tensor x, rf_tensor *out)
{
    const rf_tensor y = rf_add(t, x, x), z = rf_stop_gradient(t, x), zs[] = { z, y };
    rf_tensor gh[2], same[2];
    rf_result r = rf_gradients(t, total(t, rf_add(t, z, y)), zs, 2, gh);
    if (r < 0) return r;
    const rf_tensor f = total(t, rf_multiply(t, rf_multiply(t, gh[0], rf_square(t, gh[1])), x));
    r = rf_gradients(t, f, gh, 2, same);
    if (r < 0) return r;
    out[0] = gh[0];
    out[1] = gh[1];
    out[2] = same[0];
    out[3] = same[1];
    return RF_OK;
}

static void expect(const float values[COUNT], double factor, int power, const char *what)
{
    for (int i = 0; i < COUNT; i++) assert_near(values[i], factor * pow(i + 1, power), 1e-6, 0, what);
}

static void every_handle_is_a_target(rf_strategy *strategy)
{
    float v[MOST][COUNT];
    run_body(strategy, equal_expressions, 3, v);
    expect(v[0], 1, 2, "by p");
    expect(v[1], 1, 2, "by q");
    expect(v[2], 4, 3, "by x");
    run_body(strategy, equal_constants, 2, v);
    expect(v[0], 3, 1, "by c");
    expect(v[1], 3, 1, "by d");
    run_body(strategy, nothing_computed, 4, v);
    expect(v[0], 1, 3, "by the linear activation");
    expect(v[1], 1, 3, "by the dropout");
    expect(v[2], 1, 3, "by the cast");
    expect(v[3], 4, 3, "by x");
    run_body(strategy, equal_gradients, 4, v);
    expect(v[0], 1, 0, "g");
    expect(v[1], 1, 0, "h");
    expect(v[2], 1, 1, "by g");
    expect(v[3], 2, 1, "by h");
}
TEST_ON_LISTS(every_handle_is_a_target, _on_each, 0, 2, 2)

/* ---- pow ---- */

typedef struct power {
    float a, b;
} power;

static const power powers[] = {
    /* x^0 is 1 for every x, and does not depend on it */
    { 0, 0 },
    { -0.0f, 0 },
    { 0, -0.0f },
    { 3, 0 },
    { -3, 0 },
    { INFINITY, 0 },
    { -INFINITY, 0 },
    { NAN, 0 },
    { 0x1p-140f, 0 },
    /* 1^x is 1 for every x */
    { 1, INFINITY },
    { 1, -INFINITY },
    { 1, NAN },
    { 1, 1e30f },
    { -1, INFINITY },
    { -1, -INFINITY },
    /* zeros */
    { 0, 1 },
    { 0, 2 },
    { 0, 0.5f },
    { -0.0f, 3 },
    { -0.0f, 0.5f },
    { 0, -1 },
    { -0.0f, -1 },
    { -0.0f, -2 },
    { 0, INFINITY },
    { 0, -INFINITY },
    /* infinities, NaN */
    { INFINITY, 2 },
    { INFINITY, -2 },
    { -INFINITY, 3 },
    { -INFINITY, 2 },
    { -INFINITY, -3 },
    { -INFINITY, 0.5f },
    { 2, INFINITY },
    { 2, -INFINITY },
    { 0.5f, INFINITY },
    { 0.5f, -INFINITY },
    { -2, INFINITY },
    { -0.5f, -INFINITY },
    { INFINITY, INFINITY },
    { INFINITY, -INFINITY },
    { NAN, 2 },
    { 2, NAN },
    { NAN, NAN },
    { 0, NAN },
    { NAN, -1 },
    /* negative bases: whole exponents, and others */
    { -2, 3 },
    { -2, 2 },
    { -2, -3 },
    { -1.5f, 1 },
    { -1, 16777215 },
    { -1, 16777216 },
    { -1, 3e9f },
    { -2, 0.5f },
    { -2, 1.5f },
    { -0.25f, 1e-3f },
    /* small bases, down to denormal ones, and large ones */
    { 1e-37f, 0.5f },
    { 1e-38f, 0.5f },
    { -1e-38f, 1 },
    { 2e-38f, 1 },
    { 1e-38f, -0.5f },
    { 0x1p-140f, 0.5f },
    { 0x1p-149f, 0.25f },
    { 0x1p-149f, -0.25f },
    { 3e38f, 0.5f },
    { 3e38f, 2 },
    { -3e38f, 3 },
    { 10, 38 },
    { 10, 39 },
    { 10, -37 },
    { 10, -60 },
    { 1.5f, 2.5f },
    { 0.999999f, 1000 },
};
enum { NUM_POWERS = sizeof(powers) / sizeof(powers[0]) };

/* `more`: an absolute error on top. */
static void expect_power(double got, double want, double more, const power *p, const char *what)
{
    /* Numbers below the smallest normal one may be flushed, factors that the exponent multiplies too; log2 near 1 is
     * known to 2^-21 (Vulkan), times the exponent. */
    const double exponent = fmin(fabs((double)p->b), 0x1p24), tolerance = 2e-5 + exponent * 0x1p-21;
    const bool same = isnan(want) ? isnan(got)
                      : isinf(want) || fabs(want) > FLT_MAX
                          ? isinf(got) && signbit(got) == signbit(want)
                          : fabs(got - want) <= tolerance * fabs(want) + (1 + exponent) * (double)FLT_MIN + more;
    if (!same) fail_msg("%a ^ %a: %s is %g, not %g", (double)p->a, (double)p->b, what, got, want);
}

static rf_result power_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    (void)user;
    out[0] = rf_pow(t, in[0], in[1]);
    const rf_result r = rf_gradients(t, rf_reduce_sum(t, out[0], NULL, 0, RF_DROP_DIMS), in, 2, out + 1);
    return r < 0 ? r : rf_trace_status(t);
}

static void pow_is_that_of_c(rf_strategy *strategy)
{
    float a[NUM_POWERS], b[NUM_POWERS];
    for (int i = 0; i < NUM_POWERS; i++) a[i] = powers[i].a, b[i] = powers[i].b;
    const rf_element batch = { 2, { array_f32(RF_SHAPE(NUM_POWERS), a), array_f32(RF_SHAPE(NUM_POWERS), b) } };
    rf_function *function;
    OK(rf_function_create(strategy, &(rf_function_params){ .step = power_step, .num_outputs = 3 }, &function));
    rf_per_replica *results[RF_MAX_COMPONENTS];
    OK(rf_strategy_run(strategy, function, &batch, results));
    rf_array got[3];
    for (int i = 0; i < 3; i++) OK(rf_per_replica_local(results[i], 0, &got[i]));
    for (int i = 0; i < NUM_POWERS; i++) {
        const power *p = &powers[i];
        const double x = (double)p->a, e = (double)p->b, y = pow(x, e);
        const double by_a = e == 0 ? 0 : e * pow(x, e - 1), by_b = x == 0 && e >= 0 ? 0 : y * log(x);
        expect_power(((float *)got[0].data)[i], y, 0, p, "the power");
        expect_power(((float *)got[1].data)[i], by_a, 0, p, "the slope by the base");
        expect_power(((float *)got[2].data)[i], by_b, isfinite(y) ? fabs(y) * 0x1p-21 : 0, p,
                     "the slope by the exponent");
    }
    rf_function_destroy(&function);
}
TEST_ON_LISTS(pow_is_that_of_c, _on_each, 0, 2, 2)

/* ---- crossentropies of probabilities: as those of the logits, also where the model is sure of the wrong class ---- */

typedef rf_tensor (*predict_fn)(rf_trace *t, rf_tensor z, rf_tensor (*squash)(rf_trace *t, rf_tensor x));

/* The ways from logits [1, COUNT] to probabilities of that shape. */
static rf_tensor predict(rf_trace *t, rf_tensor z, rf_tensor (*squash)(rf_trace *t, rf_tensor x))
{
    return squash(t, z);
}
static rf_tensor predict_reshaped(rf_trace *t, rf_tensor z, rf_tensor (*squash)(rf_trace *t, rf_tensor x))
{
    const rf_tensor wide = rf_expand_dims(t, rf_reshape(t, z, RF_SHAPE(-1, 1, COUNT)), 1);
    return rf_flatten(t, rf_squeeze(t, squash(t, wide), 1));
}
static rf_tensor predict_transposed(rf_trace *t, rf_tensor z, rf_tensor (*squash)(rf_trace *t, rf_tensor x))
{
    const rf_tensor two[] = { z, rf_negative(t, z) };
    const rf_tensor p = squash(t, rf_reshape(t, rf_concat(t, two, 2, 0), RF_SHAPE(2, -1, COUNT)));
    const rf_tensor turned = rf_transpose(t, p, (const int32_t[]){ 1, 0, 2 });
    return rf_reshape(t, rf_slice(t, turned, (const int64_t[]){ 0, 0 }, (const int64_t[]){ INT64_MAX, 1 }, NULL, 2),
                      RF_SHAPE(-1, COUNT));
}
static rf_tensor predict_narrow(rf_trace *t, rf_tensor z, rf_tensor (*squash)(rf_trace *t, rf_tensor x))
{
    return rf_cast(t, squash(t, rf_cast(t, z, RF_F16)), RF_F32);
}
static rf_tensor predict_narrowed(rf_trace *t, rf_tensor z, rf_tensor (*squash)(rf_trace *t, rf_tensor x))
{
    return rf_cast(t, rf_cast(t, squash(t, z), RF_BF16), RF_F32);
}
static const predict_fn predictions[] = { predict, predict_reshaped, predict_transposed, predict_narrow,
                                          predict_narrowed };
enum { NUM_PREDICTIONS = sizeof(predictions) / sizeof(predictions[0]), NUM_KINDS = 3, NUM_WAYS = 3 };

static const rf_loss_kind crossentropies[NUM_KINDS] = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY,
                                                        RF_LOSS_CATEGORICAL_CROSSENTROPY, RF_LOSS_BINARY_CROSSENTROPY };

/* The crossentropy of the first class, by ops.h (way 0) or as a loss, which may say by mistake that probabilities are
 * logits (way 2). */
static rf_tensor own_crossentropy(rf_trace *t, rf_loss_kind kind, rf_tensor p, int way, bool logits)
{
    int32_t first[] = { 0 };
    float hot[COUNT] = { 1 };
    const rf_array class_array = array_i32(RF_SHAPE(1), first), hot_array = array_f32(RF_SHAPE(1, COUNT), hot);
    const bool sparse = kind == RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY;
    const rf_tensor labels = rf_constant_array(t, sparse ? &class_array : &hot_array);
    const rf_loss loss = { .kind = kind, .from_logits = logits || way == 2, .reduction = RF_REDUCTION_NONE };
    if (way > 0) return rf_loss_call(t, &loss, labels, p);
    if (sparse) return rf_sparse_categorical_crossentropy(t, labels, p, logits ? RF_LOGITS : RF_PROBABILITIES);
    return kind == RF_LOSS_CATEGORICAL_CROSSENTROPY
               ? rf_categorical_crossentropy(t, labels, p, logits ? RF_LOGITS : RF_PROBABILITIES)
               : rf_binary_crossentropy(t, labels, p, logits ? RF_LOGITS : RF_PROBABILITIES);
}

static int crossentropy_kind, crossentropy_way;
static predict_fn crossentropy_of; /* NULL: of the logits */

static rf_result sure_of_the_wrong(rf_trace *t, rf_tensor x, rf_tensor *out)
{
    float offsets[COUNT] = { -1, 38, -23, -64, 95 }; /* logits 0, 40, -20, -60, 100 */
    const rf_array array = array_f32(RF_SHAPE(COUNT), offsets);
    const rf_tensor z = rf_reshape(t, rf_add(t, x, rf_constant_array(t, &array)), RF_SHAPE(-1, COUNT));
    const rf_loss_kind kind = crossentropies[crossentropy_kind];
    const bool binary = kind == RF_LOSS_BINARY_CROSSENTROPY;
    const rf_tensor p = crossentropy_of ? crossentropy_of(t, z, binary ? rf_sigmoid : rf_softmax) : z;
    const rf_tensor loss = total(t, own_crossentropy(t, kind, p, crossentropy_way, !crossentropy_of));
    const rf_result r = rf_gradients(t, loss, &x, 1, &out[0]);
    out[1] = rf_add(t, rf_multiply(t, x, rf_constant(t, 0)), loss);
    return r;
}

static void probabilities_are_traced_to_logits(rf_strategy *strategy)
{
    for (crossentropy_kind = 0; crossentropy_kind < NUM_KINDS; crossentropy_kind++) {
        float want[2][COUNT], got[2][COUNT];
        crossentropy_of = NULL;
        crossentropy_way = 0;
        run_body(strategy, sure_of_the_wrong, 2, want);
        for (int i = 0; i < NUM_PREDICTIONS * NUM_WAYS; i++) {
            char what[64];
            crossentropy_of = predictions[i / NUM_WAYS];
            crossentropy_way = i % NUM_WAYS;
            run_body(strategy, sure_of_the_wrong, 2, got);
            snprintf(what, sizeof(what), "crossentropy %d, predictions %d, way %d", crossentropy_kind, i / NUM_WAYS,
                     crossentropy_way);
            const double tolerance = crossentropy_of == predict_narrow ? 0x1p-10 : 1e-5; /* of gradients in f16 */
            for (int k = 0; k < COUNT; k++) assert_near(got[0][k], want[0][k], tolerance, 1e-6, what);
            assert_near(got[1][0], want[1][0], 1e-5, 0, what);
        }
    }
}

/* Over another axis than the loss', or with other numbers in between, they are probabilities and nothing else. */
static rf_tensor predict_other_axis(rf_trace *t, rf_tensor z, rf_tensor (*squash)(rf_trace *t, rf_tensor x))
{
    static const int32_t swap[] = { 1, 0 };
    return rf_transpose(t, squash(t, rf_transpose(t, z, swap)), swap);
}
static rf_tensor predict_scaled(rf_trace *t, rf_tensor z, rf_tensor (*squash)(rf_trace *t, rf_tensor x))
{
    return rf_multiply(t, squash(t, z), rf_constant(t, 1));
}

static void other_probabilities_are_taken_as_they_are(rf_strategy *strategy)
{
    float got[2][COUNT];
    crossentropy_kind = 1;
    crossentropy_way = 0;
    crossentropy_of = predict_other_axis; /* each row is alone: 1 everywhere */
    run_body(strategy, sure_of_the_wrong, 2, got);
    assert_near(got[1][0], log(COUNT), 1e-5, 0, "the loss of equal probabilities");
    crossentropy_of = predict_scaled;
    run_body(strategy, sure_of_the_wrong, 2, got);
    assert_near(got[1][0], -log(1e-7), 1e-5, 0, "the loss of a clipped probability");
}

/* The loss does not depend on the probabilities: a gradient of zeros would look like one. */
static rf_result by_probabilities(rf_trace *t, rf_tensor x, rf_tensor *out)
{
    const rf_tensor z = rf_reshape(t, x, RF_SHAPE(-1, COUNT)), p = rf_softmax(t, z);
    const rf_tensor loss = total(t, own_crossentropy(t, RF_LOSS_CATEGORICAL_CROSSENTROPY, p, 0, false));
    const rf_tensor other = total(t, rf_square(t, p)), targets[] = { x, p };
    rf_tensor grads[2];
    OK(rf_gradients(t, other, &p, 1, out));
    return rf_gradients(t, loss, targets, 2, grads);
}

static void gradient_by_probabilities_is_refused(rf_strategy *strategy)
{
    run own = { .body = by_probabilities };
    float nothing[2] = { 0 }, x[COUNT] = { 0 };
    const rf_element batch = { 1, { array_f32(RF_SHAPE(2), nothing) } };
    rf_function *f;
    OK(rf_variable_create(strategy, &(rf_variable_params){ .name = "x", .shape = RF_SHAPE(COUNT), .value = x },
                          &own.x));
    OK(rf_function_create(strategy, &(rf_function_params){ .step = step, .user = &own, .num_outputs = 1 }, &f));
    FAILS(rf_strategy_run(strategy, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, "differentiate by the logits");
    rf_function_destroy(&f);
    rf_variable_destroy(&own.x);
}
TEST_ON_ONE(probabilities_are_traced_to_logits)
TEST_ON_ONE(other_probabilities_are_taken_as_they_are)
TEST_ON_ONE(gradient_by_probabilities_is_refused)

/* ---- what a choice does not take ---- */

enum { CHOSEN = 7 };

/* u is -2, -1, 0, 1, 2: the first three have no root, or one without a slope. */
static rf_result choose(rf_trace *t, rf_tensor x, rf_tensor *out)
{
    const rf_tensor zero = rf_constant(t, 0), u = rf_subtract(t, x, rf_constant(t, 3));
    const rf_tensor positive = rf_compare(t, RF_GREATER, u, zero), root = rf_sqrt(t, u);
    /* the root itself; further functions of it, and another shape; masks of more elements, and of fewer */
    const rf_tensor turned = rf_reshape(t, rf_log(t, rf_divide(t, x, root)), RF_SHAPE(-1, 1));
    const rf_tensor twice[] = { positive, positive }, wide = rf_stack(t, twice, 2, 0);
    const rf_tensor norm = rf_sqrt(t, total(t, rf_square(t, rf_multiply(t, x, zero))));
    /* through many operations; used more than once; a mean */
    rf_tensor far = root;
    for (int i = 0; i < 40; i++) far = i % 2 ? rf_negative(t, far) : rf_reshape(t, rf_negative(t, far), RF_SHAPE(-1));
    const rf_tensor sum = rf_add(t, rf_multiply(t, root, root), rf_negative(t, rf_negative(t, root)));
    const rf_tensor mean = rf_reduce_mean(t, root, NULL, 0, RF_DROP_DIMS);
    const rf_tensor chosen[] = { rf_where(t, positive, root, zero),
                                 rf_where(t, rf_reshape(t, positive, RF_SHAPE(-1, 1)), turned, zero),
                                 rf_where(t, wide, rf_pow(t, u, rf_constant(t, 0.5f)), zero),
                                 rf_where(t, rf_compare(t, RF_GREATER, norm, zero), norm, x),
                                 rf_where(t, positive, far, zero),
                                 rf_where(t, positive, sum, zero),
                                 rf_where(t, rf_compare(t, RF_GREATER, norm, zero), mean, x) };
    rf_result r = RF_OK;
    for (int i = 0; i < CHOSEN && r >= 0; i++) r = rf_gradients(t, total(t, chosen[i]), &x, 1, &out[i]);
    return r;
}

static void what_is_not_taken_has_no_gradient(rf_strategy *strategy)
{
    float v[CHOSEN][COUNT];
    run_body(strategy, choose, CHOSEN, v);
    for (int i = 0; i < COUNT; i++) {
        const double x = i + 1, u = x - 3, slope = u > 0 ? 0.5 / sqrt(u) : 0;
        assert_near(v[0][i], slope, 1e-5, 0, "the root");
        assert_near(v[1][i], u > 0 ? 1 / x - 0.5 / u : 0, 1e-5, 0, "functions of it");
        assert_near(v[2][i], 2 * slope, 1e-5, 0, "under a larger mask");
        assert_near(v[3][i], 1, 0, 0, "beside a norm of 0");
        assert_near(v[4][i], slope, 1e-5, 0, "behind many operations");
        assert_near(v[5][i], u > 0 ? 1 + slope : 0, 1e-5, 0, "used twice");
        assert_near(v[6][i], 1, 0, 0, "beside a mean");
    }
}

typedef rf_tensor (*safe_fn)(rf_trace *t, rf_tensor x, rf_tensor y);

static rf_result safe_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    out[0] = (*(safe_fn *)user)(t, in[0], in[1]);
    const rf_result r = rf_gradients(t, total(t, out[0]), in, 2, out + 1);
    return r < 0 ? r : rf_trace_status(t);
}

static void safe_forms(rf_strategy *strategy)
{
    enum { ROWS = 5 };
    static const struct {
        safe_fn fn;
        float x[ROWS], y[ROWS], want[ROWS], by_x[ROWS], by_y[ROWS];
    } forms[] = {
        { rf_divide_no_nan,
          { 6, 1, 0, -5, NAN },
          { 2, 0, 0, 4, 0 },
          { 3, 0, 0, -1.25f, 0 },
          { 0.5f, 0, 0, 0.25f, 0 },
          { -1.5f, 0, 0, 0.3125f, 0 } },
        { rf_multiply_no_nan,
          { 6, NAN, INFINITY, 3, -7 },
          { 2, 0, 0, 0, 1 },
          { 12, 0, 0, 0, -7 },
          { 2, 0, 0, 0, 1 },
          { 6, 0, 0, 3, -7 } },
        { rf_xlogy,
          { 2, 0, 0, 0, -1 },
          { 1, 0, -3, NAN, 0.5f },
          { 0, 0, 0, 0, 0.693147181f },
          { 0, 0, 0, 0, -0.693147181f },
          { 2, 0, 0, 0, -2 } },
        { rf_xlog1py,
          { 2, 0, 0, 0, -1 },
          { 0, -1, -3, INFINITY, -0.5f },
          { 0, 0, 0, 0, 0.693147181f },
          { 0, 0, 0, 0, -0.693147181f },
          { 2, 0, 0, 0, -2 } },
        { rf_xdivy,
          { 2, 0, 0, 0, -1 },
          { 4, 0, 5, NAN, 2 },
          { 0.5f, 0, 0, 0, -0.5f },
          { 0.25f, 0, 0, 0, 0.5f },
          { -0.125f, 0, 0, 0, 0.25f } },
    };
    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
        float x[ROWS], y[ROWS];
        memcpy(x, forms[f].x, sizeof(x));
        memcpy(y, forms[f].y, sizeof(y));
        const rf_element batch = { 2, { array_f32(RF_SHAPE(ROWS), x), array_f32(RF_SHAPE(ROWS), y) } };
        rf_function *function;
        safe_fn fn = forms[f].fn;
        OK(rf_function_create(
            strategy, &(rf_function_params){ .step = safe_step, .user = (void *)&fn, .num_outputs = 3 }, &function));
        rf_per_replica *results[RF_MAX_COMPONENTS];
        OK(rf_strategy_run(strategy, function, &batch, results));
        const float *const want[] = { forms[f].want, forms[f].by_x, forms[f].by_y };
        for (int i = 0; i < 3; i++) {
            rf_array local;
            char what[48];
            OK(rf_per_replica_local(results[i], 0, &local));
            for (int k = 0; k < ROWS; k++) {
                snprintf(what, sizeof(what), "form %d, result %d, row %d", (int)f, i, k);
                assert_near(((const float *)local.data)[k], want[i][k], 1e-6, 1e-6, what);
            }
        }
        rf_function_destroy(&function);
    }
}
TEST_ON_ONE(what_is_not_taken_has_no_gradient)
TEST_ON_ONE(safe_forms)

TESTS(gradients, NULL, NULL)
