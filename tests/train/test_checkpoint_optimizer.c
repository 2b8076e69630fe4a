/* SPDX-License-Identifier: Apache-2.0 */
/* An optimizer goes on from its own kind's state only. */
#include "run_state.h"
#include "tests/room.h"

static const rf_optimizer_params sgd = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.05 };
static const rf_optimizer_params momentum = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.05, .momentum = 0.9 };
static const rf_optimizer_params adam = { .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.01 };
static const rf_optimizer_params adamw = { .kind = RF_OPTIMIZER_ADAMW };
static const rf_optimizer_params keras_adam = { .kind = RF_OPTIMIZER_ADAM,
                                                .learning_rate = 0.01,
                                                .epsilon_form = RF_EPSILON_UNCORRECTED };
static const rf_optimizer_params other_adam = {
    .kind = RF_OPTIMIZER_ADAM, .learning_rate = 0.5, .beta_1 = 0.5, .clip_norm = 0.1
};

/* Trains with one, saves, and restores into a program with the other. The report is the caller's. */
static rf_result move(const rf_optimizer_params *from, const rf_optimizer_params *to, uint32_t steps, bool partial,
                      run_state *out, char **report)
{
    char folder[64], path[128];
    run_state a;
    if (!run_create(&a, "llvmpipe", 3, from)) SKIP("not installed: llvmpipe");
    snprintf(path, sizeof(path), "%s/x.rfck", scratch(folder));
    run_batches(&a, steps, NULL);
    OK(rf_checkpoint_save(a.checkpoint, path, NULL));
    run_destroy(&a);
    assert_true(run_create(out, "llvmpipe", 4, to));
    float before[RUN_WEIGHTS], after[RUN_WEIGHTS];
    run_weights(out, before);
    const rf_result r =
        rf_checkpoint_restore(out->checkpoint, path, &(rf_restore_params){ .partial = partial, .report = report });
    if (r < 0) {
        run_weights(out, after);
        assert_memory_equal(after, before, sizeof(after));
        assert_int_equal(rf_optimizer_iterations(out->optimizer), 0);
    }
    scratch_remove(folder);
    return r;
}

static void assert_has(const char *report, const char *line)
{
    if (!strstr(report, line)) fail_msg("'%s' does not say '%s'", report, line);
}

TEST(of_another_kind)
{
    static const struct {
        const rf_optimizer_params *from, *to;
        const char *line;
    } cases[] = {
        { &sgd, &adam, "of another shape or kind: optimizer/kind: sgd in the file, adam here\n" },
        { &adam, &adamw, "of another shape or kind: optimizer/kind: adam in the file, adamw here\n" },
        { &adam, &sgd, "of another shape or kind: optimizer/kind: adam in the file, sgd here\n" },
        { &momentum, &sgd, "unexpected: optimizer/momentum/" },
        { &sgd, &momentum, "missing: optimizer/momentum/" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        run_state run;
        char *report;
        FAILS(move(cases[i].from, cases[i].to, 5, false, &run, &report), RF_ERROR_INVALID_ARGUMENT, "optimizer/");
        assert_has(report, cases[i].line);
        rf_string_free(report);
        run_destroy(&run);
    }
    /* Taken where that is asked for. */
    run_state run;
    char *report;
    OK(move(&sgd, &adam, 5, true, &run, &report));
    assert_has(report, cases[0].line);
    assert_int_equal(rf_optimizer_iterations(run.optimizer), 5);
    rf_string_free(report);
    run_destroy(&run);
}

/* Without a step there is nothing that could be missing. */
TEST(before_the_first_step)
{
    run_state run;
    char *report;
    OK(move(&adam, &adam, 0, false, &run, &report));
    assert_string_equal(report, "");
    rf_string_free(report);
    run_destroy(&run);
    OK(move(&sgd, &momentum, 0, false, &run, &report));
    rf_string_free(report);
    run_destroy(&run);
}

/* The learning rate is restored; what else differs is the program's, which is told. */
TEST(other_settings)
{
    run_state run;
    char *report;
    OK(move(&adam, &other_adam, 5, false, &run, &report));
    assert_string_equal(report, "different, kept as it is here: optimizer/settings: beta_1 0.9 in the file, 0.5 here, "
                                "clip_norm 0 in the file, 0.1 here\n");
    assert_true(rf_optimizer_learning_rate(run.optimizer) == 0.01);
    rf_string_free(report);
    run_destroy(&run);
    /* The moments mean the same in both forms. */
    OK(move(&keras_adam, &adam, 5, false, &run, &report));
    assert_string_equal(report, "different, kept as it is here: optimizer/settings: epsilon_uncorrected 1 in the file, "
                                "0 here\n");
    rf_string_free(report);
    run_destroy(&run);
    OK(move(&keras_adam, &keras_adam, 5, false, &run, &report));
    assert_string_equal(report, "");
    rf_string_free(report);
    run_destroy(&run);
    OK(move(&adam, &adam, 5, false, &run, &report));
    assert_string_equal(report, "");
    rf_string_free(report);
    run_destroy(&run);
}

TESTS(checkpoint_optimizer, NULL, NULL)
