/* SPDX-License-Identifier: Apache-2.0 */
/* Weights under other names: rules, tensors that are missing, left over or of another shape, half floats, archives,
 * jobs. */
#include <ringfire/interchange.h>

#include "../replica/job.h"
#include "base/memory.h"
#include "test_folder.h"
#include "tests/room.h"
#include "train/files/weight_plan.h"

/* ---- rules ---- */

TEST(patterns)
{
    static const struct {
        const char *pattern, *name, *tensor, *want; /* NULL: it does not match */
    } cases[] = {
        { "h.*.mlp.weight", "block_*/mlp/kernel", "h.11.mlp.weight", "block_11/mlp/kernel" },
        { "h.*.mlp.weight", "x", "h.1.2.mlp.weight", NULL },
        { "h.*.mlp.weight", "x", "h..mlp.weight", NULL },
        { "*", "a/*", "w", "a/w" },
        { "*", "a", "w/x", NULL },
        { "**", "a/**", "w/x.y", "a/w/x.y" },
        { "bert.**", "**", "bert.", "" },
        { "bert.**", "**", "bertx", NULL },
        { "**.weight", "**/kernel", "a.weight.weight", "a.weight/kernel" },
        { "l*_x.*.**.w", "*-*-**", "l1_x_x.2.3.4.w", "1_x-2-3.4" },
        { "a.b", "c", "a.b", "c" },
        { "a.b", "c", "a.bc", NULL },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const rf_weight_rule rule = { .pattern = cases[i].pattern, .name = cases[i].name };
        bool matches;
        char *name;
        OK(rf_weight_rules_check(&rule, 1, "f"));
        OK(rf_weight_rule_apply(&rule, cases[i].tensor, &matches, &name));
        assert_true(matches == (cases[i].want != NULL));
        if (cases[i].want) assert_string_equal(name, cases[i].want);
        rf_free(name);
    }
    static const int32_t twice[] = { 0, 0 };
    const rf_weight_rule bad[] = { { .pattern = "a*b*", .name = "c" },
                                   { .pattern = "**/**", .name = "c" },
                                   { .pattern = "***", .name = "c" },
                                   { .pattern = "a", .name = "*" },
                                   { .name = "c" },
                                   { .pattern = "a", .name = "" },
                                   { .pattern = "a", .perm = twice },
                                   { .pattern = "a", .perm = twice, .num_perm = 2 } };
    static const char *const parts[] = { "more than one '*'", "more than one '**'", "more than one '**'",
                                         "more '*' than",     "pattern is empty",   "name is empty",
                                         "num_perm 0",        "each dimension once" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        FAILS(rf_weight_rules_check(&bad[i], 1, "f"), RF_ERROR_INVALID_ARGUMENT, parts[i]);
    FAILS(rf_weight_rules_check(NULL, 1, "f"), RF_ERROR_INVALID_ARGUMENT, "rules is NULL");
}

/* ---- models ---- */

enum { IN = 4, HIDDEN = 3, OUT = 2, KERNEL = IN * HIDDEN, NUMBERS = KERNEL + HIDDEN + HIDDEN * OUT + OUT };
static const rf_dense_params hidden = { .units = HIDDEN, .name = "hidden" };

static rf_model *make_model(rf_strategy *s, int32_t classes)
{
    rf_layer *layers[2];
    rf_model *model;
    OK(rf_layer_dense(&hidden, &layers[0]));
    OK(rf_layer_dense(&(rf_dense_params){ .units = classes, .name = "head" }, &layers[1]));
    OK(rf_model_create_sequential(s, layers, 2, &RF_SHAPE(IN), &model));
    return model;
}

static void read_all(const rf_model *model, float *out)
{
    const rf_variable_list list = rf_model_variables(model);
    for (uint32_t i = 0; i < list.count; i++) {
        OK(rf_variable_read(list.items[i], out));
        out += rf_shape_count(rf_variable_shape(list.items[i]));
    }
}

static float kernel[KERNEL], turned[KERNEL], bias[HIDDEN], head[HIDDEN * OUT], head_bias[OUT];
static uint16_t half_head[HIDDEN * OUT], brain_bias[OUT];

/* Numbers that f16 and bf16 can hold. */
static void fill_numbers(void)
{
    for (int i = 0; i < KERNEL; i++) turned[i % HIDDEN * IN + i / HIDDEN] = kernel[i] = (float)i + 0.25f;
    for (int i = 0; i < HIDDEN; i++) bias[i] = (float)-i;
    for (int i = 0; i < HIDDEN * OUT; i++) {
        half_head[i] = (uint16_t)(0x3c00 + i * 0x400); /* 1, 2, 4, ... */
        head[i] = (float)(1 << i);
    }
    for (int i = 0; i < OUT; i++) {
        brain_bias[i] = (uint16_t)(0x3f80 + i * 0x80);
        head_bias[i] = (float)(1 << i);
    }
}

/* As another program would have them: other names, [out, in], 16 bits, and something more. */
static const char *write_foreign(void)
{
    static char path[160];
    const rf_named_array arrays[] = {
        { "net.0.weight", { RF_F32, RF_SHAPE(HIDDEN, IN), turned } },
        { "net.0.bias", { RF_F32, RF_SHAPE(1, HIDDEN), bias } },
        { "net.2.weight", { RF_F16, RF_SHAPE(HIDDEN, OUT), half_head } },
        { "net.2.bias", { RF_BF16, RF_SHAPE(OUT), brain_bias } },
        { "step", { RF_F32, RF_SHAPE(1), bias } },
    };
    fill_numbers();
    snprintf(path, sizeof(path), "%s", in_folder("foreign.safetensors"));
    OK(rf_safetensors_write(path, arrays, 5));
    return path;
}

static const int32_t swap[] = { 1, 0 };
static const rf_weight_rule rules[] = {
    { .pattern = "net.0.weight", .name = "hidden/kernel", .perm = swap, .num_perm = 2 },
    { .pattern = "net.0.*", .name = "hidden/*", .reshape = true },
    { .pattern = "net.2.weight", .name = "head/kernel" },
    { .pattern = "net.2.*", .name = "head/*" },
};

static void check_note(const rf_weight_note *note, rf_weight_outcome outcome, const char *variable, const char *tensor,
                       const char *detail)
{
    assert_int_equal(note->outcome, outcome);
    assert_string_equal(note->variable, variable);
    if (tensor) assert_string_equal(note->tensor, tensor);
    if (detail) assert_string_equal(note->detail, detail);
    assert_true((note->tensor != NULL) == (tensor != NULL) && (note->detail != NULL) == (detail != NULL));
}

static rf_strategy *open_strategy(void)
{
    rf_strategy *s = NULL;
    CHECK(rf_strategy_create_mirrored(&(rf_mirrored_params){ .devices = "llvmpipe" }, &s));
    return s;
}

/* ---- jobs ---- */

/* Only the chief finds the file; all workers have its numbers, and its told. */
static rf_result load_in_job(worker *w)
{
    rf_weight_report told;
    const rf_load_weights_params p = { .rules = rules, .num_rules = 4, .report = &told };
    rf_model *model = make_model(w->strategy, OUT);
    float got[NUMBERS];
    GO(rf_model_load_weights_with(model, w->rank == 0 ? w->user : "/nowhere", &p));
    EXPECT(told.count == 5 && told.counts[RF_WEIGHT_LEFT_OVER] == 1);
    EXPECT(strcmp(told.notes[4].tensor, "step") == 0);
    rf_weight_report_free(&told);
    read_all(model, got);
    EXPECT(memcmp(got, kernel, sizeof(kernel)) == 0 && got[NUMBERS - 1] == head_bias[OUT - 1]);
    GO(rf_strategy_check_identical(w->strategy, NULL, NULL));
    EXPECT_FAILS(rf_model_load_weights_with(model, w->user, NULL), RF_ERROR_NOT_FOUND, "no tensor 'hidden/kernel'",
                 w->rank > 0 ? "rank 0: " : "");
    rf_model_destroy(&model);
    return RF_OK;
}

/* First of all, so that the process that forks has touched no driver. */
TEST(in_a_job)
{
    static report reports[MAX_WORKERS];
    const job_params job = { .num_workers = 2,
                             .devices = { "llvmpipe,llvmpipe", "llvmpipe" },
                             .user = write_foreign() };
    run_job(&job, load_in_job, reports);
    check_job(reports, 2);
}

/* ---- files ---- */

TEST(foreign_names)
{
    float want[NUMBERS], got[NUMBERS];
    const char *path = write_foreign();
    rf_strategy *s = open_strategy();
    rf_model *model = make_model(s, OUT);
    rf_weight_report told;
    FAILS(rf_model_load_weights_with(model, path, NULL), RF_ERROR_NOT_FOUND,
          "has no tensor 'hidden/kernel', and 3 others");
    rf_load_weights_params p = { .rules = rules, .num_rules = 4, .refuse_left_over = true, .report = &told };
    read_all(model, want);
    FAILS(rf_model_load_weights_with(model, path, &p), RF_ERROR_INVALID_ARGUMENT, "for the tensor 'step'");
    assert_int_equal(told.counts[RF_WEIGHT_LEFT_OVER], 1);
    rf_weight_report_free(&told);
    read_all(model, got);
    assert_memory_equal(got, want, sizeof(want)); /* nothing has changed */
    p.refuse_left_over = false;
    OK(rf_model_load_weights_with(model, path, &p));
    assert_int_equal(told.count, 5);
    assert_int_equal(told.counts[RF_WEIGHT_LOADED], 4);
    check_note(&told.notes[0], RF_WEIGHT_LOADED, "hidden/kernel", "net.0.weight", NULL);
    check_note(&told.notes[4], RF_WEIGHT_LEFT_OVER, "step", "step", NULL);
    assert_string_equal(told.summary, "tensor 'step' is not used\n");
    rf_weight_report_free(&told);
    assert_true(!told.notes && told.count == 0);
    memcpy(want, kernel, sizeof(kernel));
    memcpy(want + KERNEL, bias, sizeof(bias));
    memcpy(want + KERNEL + HIDDEN, head, sizeof(head));
    memcpy(want + NUMBERS - OUT, head_bias, sizeof(head_bias));
    read_all(model, got);
    assert_memory_equal(got, want, sizeof(want));
    const rf_weight_rule clash[] = { { .pattern = "net.*.bias", .name = "hidden/bias" } };
    FAILS(rf_model_load_weights_with(model, path, &(rf_load_weights_params){ .rules = clash, .num_rules = 1 }),
          RF_ERROR_INVALID_ARGUMENT, "two tensors are for the variable 'hidden/bias': 'net.0.bias' and 'net.2.bias'");
    FAILS(rf_model_load_weights_with(model, path, &(rf_load_weights_params){ .num_rules = 1 }),
          RF_ERROR_INVALID_ARGUMENT, "rules is NULL");
    FAILS(rf_model_load_weights_with(model, in_folder("none"), NULL), RF_ERROR_NOT_FOUND, "none");
    rf_model_destroy(&model);
    rf_strategy_destroy(&s);
}

/* A head of more classes, from a model's file and from a checkpoint. */
TEST(other_head)
{
    float before[NUMBERS], after[2 * NUMBERS];
    char path[160];
    rf_weight_report told;
    rf_strategy *s = open_strategy();
    rf_model *trained = make_model(s, OUT), *wider = make_model(s, OUT + 1);
    snprintf(path, sizeof(path), "%s", in_folder("trained.rfck"));
    OK(rf_model_save_weights(trained, path, NULL));
    FAILS(rf_model_load_weights_with(wider, path, NULL), RF_ERROR_INVALID_ARGUMENT,
          "tensor 'head/kernel' is f32 [3,2], not f32 [3,3] as the variable 'head/kernel'");
    const rf_load_weights_params skip = { .skip_mismatch = true, .report = &told };
    OK(rf_model_load_weights_with(wider, path, &skip));
    assert_int_equal(told.counts[RF_WEIGHT_LOADED], 2);
    assert_int_equal(told.counts[RF_WEIGHT_MISMATCHED], 2);
    check_note(&told.notes[3], RF_WEIGHT_MISMATCHED, "head/bias", "head/bias", "f32 [2], not f32 [3]");
    assert_string_equal(told.summary, "'head/kernel': tensor 'head/kernel' is f32 [3,2], not f32 [3,3]\n"
                                      "'head/bias': tensor 'head/bias' is f32 [2], not f32 [3]\n");
    rf_weight_report_free(&told);
    read_all(trained, before);
    read_all(wider, after);
    assert_memory_equal(after, before, (KERNEL + HIDDEN) * sizeof(float));
    const rf_weight_rule body[] = { { .pattern = "head/**" } };
    const rf_load_weights_params only_body = {
        .rules = body, .num_rules = 1, .allow_missing = true, .refuse_left_over = true, .report = &told
    };
    OK(rf_model_load_weights_with(wider, path, &only_body));
    check_note(&told.notes[2], RF_WEIGHT_MISSING, "head/kernel", NULL, NULL);
    rf_weight_report_free(&told);
    /* An archive without a model has its names as they are. */
    const int32_t numbers[HIDDEN] = { 1, 2, 3 };
    OK(rf_archive_save(path, &(rf_archive_tensor){ "hidden/bias", RF_I32, RF_SHAPE(HIDDEN), numbers }, 1, NULL));
    FAILS(rf_model_load_weights_with(wider, path, &(rf_load_weights_params){ .allow_missing = true }),
          RF_ERROR_INVALID_ARGUMENT, "'hidden/bias' is i32 [3], not f32 [3]");
    rf_model_destroy(&trained);
    rf_model_destroy(&wider);
    rf_strategy_destroy(&s);
}

TESTS(weights, make_folder, remove_folder)
