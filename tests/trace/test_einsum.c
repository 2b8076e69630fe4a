/* SPDX-License-Identifier: Apache-2.0 */
/* Plans of Einstein sums and what they refuse; sums in steps, on two replicas and for batches of several sizes. */
#include "../support/strategies.h"
#include "base/error.h"
#include "tests/room.h"
#include "trace/einsum_plan.h"

/* ---- plans ---- */

/* A letter for each step, and what follows matrices that are taken transposed. */
static void describe(const rf_einsum_plan *plan, char *text)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        const rf_einsum_step *step = &plan->steps[i];
        *text++ = "qestrxm"[step->kind]; /* squeeze, expand, sum, transpose, reshape, multiply, matmul */
        if (step->transpose_a) *text++ = 'A';
        if (step->transpose_b) *text++ = 'B';
    }
    *text = '\0';
}

TEST(plans)
{
    const struct {
        const char *equation, *steps;
        rf_shape shapes[3];
        uint32_t n;
    } rows[] = {
        { "ij->ij", "", { RF_SHAPE(2, 3) }, 1 },
        { "ij->ji", "t", { RF_SHAPE(2, 3) }, 1 },
        { "ba", "t", { RF_SHAPE(2, 3) }, 1 },
        { "ijk->k", "s", { RF_SHAPE(2, 3, 4) }, 1 },
        { "ij->", "s", { RF_SHAPE(2, 3) }, 1 },
        { "ij,jk->ik", "m", { RF_SHAPE(2, 3), RF_SHAPE(3, 4) }, 2 },
        { "ij,jk", "m", { RF_SHAPE(2, 3), RF_SHAPE(3, 4) }, 2 },
        { "ji,kj->ik", "mAB", { RF_SHAPE(3, 2), RF_SHAPE(4, 3) }, 2 },
        { "ij,kj->ki", "mBt", { RF_SHAPE(2, 3), RF_SHAPE(4, 3) }, 2 },
        { "bij,bjk->bik", "m", { RF_SHAPE(5, 2, 3), RF_SHAPE(5, 3, 4) }, 2 },
        /* attention: heads come forward */
        { "bthd,bshd->bhts", "ttm", { RF_SHAPE(5, 2, 3, 4), RF_SHAPE(5, 6, 3, 4) }, 2 },
        /* several rows are one dimension of a matrix */
        { "bij,jk->bik", "rmr", { RF_SHAPE(5, 2, 3), RF_SHAPE(3, 4) }, 2 },
        { "...j,jk->...k", "rmr", { RF_SHAPE(5, 2, 3), RF_SHAPE(3, 4) }, 2 },
        /* nothing to sum, or nothing else: elements are multiplied */
        { "i,j->ij", "eex", { RF_SHAPE(2), RF_SHAPE(3) }, 2 },
        { "bi,bi->b", "xs", { RF_SHAPE(5, 2), RF_SHAPE(5, 2) }, 2 },
        { "b,bi->bi", "ex", { RF_SHAPE(5), RF_SHAPE(5, 2) }, 2 },
        { "bij,bj->bi", "emq", { RF_SHAPE(5, 2, 3), RF_SHAPE(5, 3) }, 2 },
        /* what only one operand has is summed before */
        { "ij,jk->i", "semq", { RF_SHAPE(2, 3), RF_SHAPE(3, 4) }, 2 },
        { "...,...->...", "qex", { RF_SHAPE(1, 3), RF_SHAPE(2, 3) }, 2 },
        { "bi,ijk,bj->bk", "rmremAq", { RF_SHAPE(5, 2), RF_SHAPE(2, 3, 4), RF_SHAPE(5, 3) }, 3 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rf_einsum_plan plan;
        char text[512];
        OK(rf_einsum_plan_make(rows[i].equation, rows[i].shapes, rows[i].n, &plan));
        describe(&plan, text);
        if (strcmp(text, rows[i].steps) != 0) fail_msg("%s: %s, not %s", rows[i].equation, text, rows[i].steps);
    }
}

/* Sizes come from the dimensions of what is reshaped, and of what was multiplied, whatever they are. */
TEST(sizes_of_dimensions)
{
    rf_einsum_plan plan;
    const rf_shape shapes[] = { RF_SHAPE(5, 2, 3), RF_SHAPE(3, 4) };
    OK(rf_einsum_plan_make("bij,jk->bik", shapes, 2, &plan));
    const rf_einsum_size *join = plan.steps[0].sizes, *split = plan.steps[2].sizes;
    assert_int_equal(2, plan.steps[0].num_sizes);
    assert_true(join[0].of == 0 && join[0].axes == 3 && join[1].of == 0 && join[1].axes == 4);
    assert_int_equal(3, plan.steps[2].num_sizes);
    assert_true(split[0].of == 0 && split[0].axes == 1 && split[1].of == 0 && split[1].axes == 2);
    assert_true(split[2].of == 1 && split[2].axes == 2);
}

TEST(refusals)
{
    const struct {
        const char *equation, *part;
        rf_shape shapes[4];
        uint32_t n;
    } rows[] = {
        { "ij,jk->ik", "'ij,jk->ik': it is of 2 operands, and there are 1", { RF_SHAPE(2, 3) }, 1 },
        { "ii->i", "operand 0 has 'i' twice; diagonals are not taken", { RF_SHAPE(3, 3) }, 1 },
        { "ij->iji", "the result has 'i' twice", { RF_SHAPE(3, 3) }, 1 },
        { "ij->ik", "a letter of the result (number 1) is in no operand", { RF_SHAPE(3, 3) }, 1 },
        { "i1->i", "'1' is no letter", { RF_SHAPE(3) }, 1 },
        { "i..->i", "'.' is no letter", { RF_SHAPE(3) }, 1 },
        { "...i...->i", "'.' is no letter, and no ellipsis that stands alone", { RF_SHAPE(3) }, 1 },
        { "i->i", "operand 0 has the shape [2,3], whose dimensions are not as many", { RF_SHAPE(2, 3) }, 1 },
        { "ijk->i", "operand 0 has the shape [2,3]", { RF_SHAPE(2, 3) }, 1 },
        { "...i->i", "the result has no ellipsis for 1 dimensions", { RF_SHAPE(2, 3) }, 1 },
        { "ij,jk->ik",
          "dimension 0 of operand 1 is 4, and that of another one with its letter 3",
          { RF_SHAPE(2, 3), RF_SHAPE(4, 5) },
          2 },
        { "abcd,efgh->abcdefgh", "more than 6 dimensions", { RF_SHAPE(2, 2, 2, 2), RF_SHAPE(2, 2, 2, 2) }, 2 },
        /* every two of them have 7 letters, all of which the others have */
        { "abcdef,abcdgh,abefgh,cdefgh->",
          "a product on the way has more than 6 dimensions, as that of operands",
          { RF_SHAPE(2, 2, 2, 2, 2, 2), RF_SHAPE(2, 2, 2, 2, 2, 2), RF_SHAPE(2, 2, 2, 2, 2, 2),
            RF_SHAPE(2, 2, 2, 2, 2, 2) },
          4 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rf_einsum_plan plan;
        FAILS(rf_einsum_plan_make(rows[i].equation, rows[i].shapes, rows[i].n, &plan), RF_ERROR_INVALID_ARGUMENT,
              rows[i].part);
    }
}

/* ---- in steps ---- */

enum { N = 5, I = 2, J = 3, K = 4 };

/* x [n, i, j] times w [j, k], as rows of matrices; the bilinear form of rows with w2 [i, j, k]; and a sum over the
 * batch, whose gradient by x is made of sums again. */
static rf_result sums_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const float *weights = user;
    const rf_array w = { RF_F32, RF_SHAPE(J, K), (void *)(uintptr_t)weights };
    const rf_array w2 = { RF_F32, RF_SHAPE(I, J, K), (void *)(uintptr_t)weights };
    const rf_tensor x = in[0], rows = rf_einsum(t, "ni...->n...", &x, 1);
    out[0] = rf_einsum(t, "nij,jk->nik", (rf_tensor[]){ x, rf_constant_array(t, &w) }, 2);
    const rf_tensor left = rf_einsum(t, "nij -> ni", &x, 1);
    out[1] = rf_einsum(t, "ni,ijk,nj->nk", (rf_tensor[]){ left, rf_constant_array(t, &w2), rows }, 3);
    out[2] = rf_einsum(t, "nij,nij->", (rf_tensor[]){ x, x }, 2);
    return rf_gradients(t, out[2], &x, 1, &out[3]);
}

static void check_sums(const float *x, const float *w, int n, const rf_array *y, double squares)
{
    for (int b = 0; b < n; b++) {
        double left[I] = { 0 }, rows[J] = { 0 };
        const float *own = x + b * I * J;
        for (int i = 0; i < I; i++)
            for (int j = 0; j < J; j++) {
                left[i] += (double)own[i * J + j];
                rows[j] += (double)own[i * J + j];
                assert_near(((const float *)y[3].data)[(b * I + i) * J + j], 2 * (double)own[i * J + j], 1e-6, 0,
                            "gradient");
            }
        for (int k = 0; k < K; k++) {
            double bilinear = 0;
            for (int i = 0; i < I; i++) {
                double product = 0;
                for (int j = 0; j < J; j++) {
                    product += (double)own[i * J + j] * (double)w[j * K + k];
                    bilinear += left[i] * (double)w[(i * J + j) * K + k] * rows[j];
                }
                assert_near(((const float *)y[0].data)[(b * I + i) * K + k], product, 1e-5, 1e-6, "rows of matrices");
            }
            assert_near(((const float *)y[1].data)[b * K + k], bilinear, 1e-5, 1e-5, "bilinear form");
        }
    }
    double sum = 0;
    for (int i = 0; i < n * I * J; i++) sum += (double)x[i] * (double)x[i];
    assert_near(squares, sum, 1e-5, 0, "sum over the batch");
}

static void sums(rf_strategy *strategy)
{
    float x[N * I * J], w[I * J * K];
    rf_function *f;
    fill_noise(x, N * I * J, 3);
    fill_noise(w, I * J * K, 4);
    OK(rf_function_create(strategy, &(rf_function_params){ .step = sums_step, .user = w, .num_outputs = 4 }, &f));
    for (int n = N; n >= 2; n -= 3) {
        rf_per_replica *results[4];
        rf_array y[4];
        double squares = 0;
        const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(n, I, J), x) } };
        OK(rf_strategy_run(strategy, f, &batch, results));
        for (int i = 0; i < 4; i++)
            if (i != 2) OK(rf_strategy_gather(strategy, results[i], &y[i]));
        for (uint32_t r = 0; r < rf_strategy_num_replicas_in_sync(strategy); r++) {
            rf_array part;
            OK(rf_per_replica_local(results[2], r, &part));
            squares += (double)((const float *)part.data)[0];
        }
        check_sums(x, w, n, y, squares);
        for (int i = 0; i < 4; i++)
            if (i != 2) rf_array_free(&y[i]);
    }
    rf_function_destroy(&f);
}
TEST_ON_ONE(sums)
TEST_ON_TWO(sums)

/* ---- products that would have too many dimensions from left to right ---- */

/* Each sum, and what is the same in steps that have few dimensions; all dimensions are 2. */
static rf_result orders_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    float values[32];
    (void)in, (void)user;
    fill_noise(values, 32, 5);
    const rf_array small = { RF_F32, RF_SHAPE(2, 2, 2), values }, large = { RF_F32, RF_SHAPE(2, 2, 2, 2), values + 8 };
    const rf_tensor a = rf_constant_array(t, &small), b = rf_constant_array(t, &large), c = rf_square(t, b);
    const rf_tensor first = rf_einsum(t, "abcd,aceg->bdeg", (rf_tensor[]){ b, c }, 2);
    out[0] = rf_einsum(t, "abcd,efgh,aceg->bdfh", (rf_tensor[]){ b, b, c }, 3);
    out[1] = rf_einsum(t, "bdeg,efgh->bdfh", (rf_tensor[]){ first, b }, 2);
    const rf_tensor pairs[3] = { rf_einsum(t, "abc,adg->bcdg", (rf_tensor[]){ a, a }, 2),
                                 rf_einsum(t, "def,beh->dfbh", (rf_tensor[]){ a, a }, 2),
                                 rf_einsum(t, "ghi,cfi->ghcf", (rf_tensor[]){ a, a }, 2) };
    const rf_tensor two = rf_einsum(t, "bcdg,dfbh->cgfh", pairs, 2);
    out[2] = rf_einsum(t, "abc,def,ghi,adg,beh,cfi->", (rf_tensor[]){ a, a, a, a, a, a }, 6);
    out[3] = rf_einsum(t, "cgfh,ghcf->", (rf_tensor[]){ two, pairs[2] }, 2);
    return rf_trace_status(t);
}

static void orders(rf_strategy *strategy)
{
    float unused[2] = { 0 };
    rf_function *f;
    rf_per_replica *results[4];
    rf_array y[4];
    const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(2), unused) } };
    OK(rf_function_create(strategy, &(rf_function_params){ .step = orders_step, .num_outputs = 4 }, &f));
    OK(rf_strategy_run(strategy, f, &batch, results));
    for (int i = 0; i < 4; i++) OK(rf_per_replica_local(results[i], 0, &y[i]));
    for (int i = 0; i < 4; i += 2) {
        assert_true(rf_shape_equal(y[i].shape, y[i + 1].shape));
        for (int64_t k = 0; k < rf_shape_count(y[i].shape); k++)
            assert_near((double)((const float *)y[i].data)[k], (double)((const float *)y[i + 1].data)[k], 1e-5, 1e-6,
                        "another order");
    }
    rf_function_destroy(&f);
}
TEST_ON_ONE(orders)

static rf_result null_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const int form = *(const int *)user;
    const rf_tensor whole = rf_cast(t, in[0], RF_I32);
    out[0] = form == 0   ? rf_einsum(t, NULL, in, 1)
             : form == 1 ? rf_einsum(t, "i", NULL, 1)
             : form == 2 ? rf_einsum(t, "nij", &whole, 1)
                         : rf_einsum(t, "nij", in, 9);
    return rf_trace_status(t);
}

static void refuses(rf_strategy *strategy)
{
    static const char *const parts[] = { "rf_einsum: the equation is NULL", "rf_einsum: operands is NULL",
                                         "rf_einsum: 'nij': operand 0 is i32, must be f32; cast it",
                                         "rf_einsum: there must be 1 to 8 operands" };
    for (int form = 0; form < 4; form++) {
        float x[N * I * J] = { 0 };
        rf_function *f;
        OK(rf_function_create(strategy, &(rf_function_params){ .step = null_step, .user = &form, .num_outputs = 1 },
                              &f));
        const rf_element batch = { .num_components = 1, .component = { array_f32(RF_SHAPE(N, I, J), x) } };
        FAILS(rf_strategy_run(strategy, f, &batch, NULL), RF_ERROR_INVALID_ARGUMENT, parts[form]);
        rf_function_destroy(&f);
    }
}
TEST_ON_ONE(refuses)

TESTS(einsum, NULL, NULL)
