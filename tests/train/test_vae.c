/* SPDX-License-Identifier: Apache-2.0 */
/* The network of examples/vae against PyTorch (make_vae_trajectory.py) with the noise of the file, and with noise that
 * the library draws replicas against one device; its size against the published one. Argument: drivers. */
#include "../../examples/vae/model.h"
#include "tests/room.h"
#include "trajectory.h"

typedef struct training {
    vae *vae;
    rf_optimizer *optimizer;
    rf_function *function;
    bool draws; /* instead of the noise that is the second component */
} training;

static rf_result train_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const training *tr = user;
    const vae_losses losses = vae_call(t, tr->vae, in[0], tr->draws ? (rf_tensor){ 0 } : in[1], RF_TRAINING);
    out[0] = rf_compute_average_loss(t, rf_add(t, losses.reconstruction, losses.divergence), NULL);
    (void)rf_optimizer_minimize(t, tr->optimizer, out[0], rf_model_variables(vae_model(tr->vae)));
    return rf_trace_status(t);
}

static void begin(rf_strategy *strategy, training *tr)
{
    OK(vae_create(strategy, &(vae_config){ .side = 16, .filters = { 8, 12 }, .latent = 3 }, &tr->vae));
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_ADAM }, &tr->optimizer));
    OK(rf_function_create(strategy,
                          &(rf_function_params){ .step = train_step, .user = tr, .num_outputs = 1, .training = true },
                          &tr->function));
    trajectory_assign(&trajectory_reference, vae_model(tr->vae));
}

static void end(training *tr)
{
    rf_function_destroy(&tr->function);
    rf_optimizer_destroy(&tr->optimizer);
    vae_destroy(&tr->vae);
}

/* ---- noise of the file ---- */

static void follow(rf_strategy *strategy)
{
    training tr = { 0 };
    double losses[TRAJECTORY_MAX_STEPS];
    begin(strategy, &tr);
    trajectory_follow(&trajectory_reference, strategy, vae_model(tr.vae), tr.function, TRAJECTORY_MAX_STEPS, losses);
    end(&tr);
}
ON_LISTS(follow, _on_lavapipe, 0, 1, 1)
ON_LISTS(follow, _on_swiftshader, 1, 1, 1)
ON_LISTS(follow, _on_two_drivers, 2, 1, 1)

/* ---- noise of the library ---- */

static void train(rf_strategy *strategy, double *losses)
{
    training tr = { .draws = true };
    bool same = true;
    begin(strategy, &tr);
    for (uint32_t s = 0; s < trajectory_reference.num_steps; s++) {
        float loss;
        run_once(strategy, tr.function, &trajectory_reference.batches[s], &loss, 1);
        losses[s] = (double)loss;
        same = same && fabs(losses[s] - trajectory_reference.losses[s]) < 1e-3;
    }
    assert_false(same); /* it is other noise */
    OK(rf_strategy_check_identical(strategy, NULL, NULL));
    end(&tr);
}

static void keep(rf_strategy *strategy)
{
    trajectory_keep(strategy, train);
}
ON_LISTS(keep, _on_lavapipe, 0, 1, 1)

static void compare(rf_strategy *strategy)
{
    trajectory_compare(strategy, train);
}
ON_LISTS(compare, _two_drivers, 2, 1, 1)
ON_LISTS(compare, _one_driver_twice, 3, 1, 1)

/* ---- the published network ---- */

static void size(rf_strategy *strategy)
{
    vae *v;
    OK(vae_create(strategy, &vae_tutorial, &v));
    assert_int_equal(rf_model_num_params(vae_model(v)), 69989);
    vae_destroy(&v);
}
ON_ONE(size)

/* Two samples of one call are two images; the same call makes the same ones again. */
static void samples(rf_strategy *strategy)
{
    training tr = { 0 };
    float places[2 * 3] = { 0 };
    rf_dataset *data, *batched;
    rf_array first, again;
    begin(strategy, &tr);
    OK(rf_dataset_from_arrays(
        &(rf_dataset_arrays_params){ .arrays = &(rf_array){ RF_F32, RF_SHAPE(2, 3), places }, .num_arrays = 1 },
        &data));
    OK(rf_dataset_batch(data, 2, RF_REMAINDER_KEEP, &batched));
    OK(rf_model_predict(vae_sampler(tr.vae), batched, &first));
    OK(rf_model_predict(vae_sampler(tr.vae), batched, &again));
    const size_t pixels = 16 * 16;
    const float *images = first.data;
    assert_int_equal(rf_shape_count(first.shape), 2 * pixels);
    assert_memory_equal(first.data, again.data, 2 * pixels * sizeof(float));
    double difference = 0;
    for (size_t i = 0; i < 2 * pixels; i++) assert_true(images[i] >= 0 && images[i] <= 1);
    for (size_t i = 0; i < pixels; i++) difference += fabs((double)images[i] - (double)images[pixels + i]);
    assert_true(difference > 1);
    rf_array_free(&first);
    rf_array_free(&again);
    rf_dataset_destroy(&batched);
    rf_dataset_destroy(&data);
    end(&tr);
}
ON_LISTS(samples, _on_one_driver_twice, 3, 1, 1)

TEST_PROGRAM(vae)
{
    trajectory_file = FIXTURES "/vae.traj";
    const struct CMUnitTest driver_tests[] = { cmocka_unit_test(follow_on_swiftshader),
                                               cmocka_unit_test(follow_on_two_drivers),
                                               cmocka_unit_test(keep_on_lavapipe),
                                               cmocka_unit_test(compare_two_drivers) };
    const struct CMUnitTest tests[] = { cmocka_unit_test(follow_on_lavapipe), cmocka_unit_test(keep_on_lavapipe),
                                        cmocka_unit_test(compare_one_driver_twice), cmocka_unit_test(size_on_one),
                                        cmocka_unit_test(samples_on_one_driver_twice) };
    if (argc > 1 && strcmp(argv[1], "drivers") == 0)
        return cmocka_run_group_tests(driver_tests, trajectory_open, trajectory_close);
    return cmocka_run_group_tests(tests, trajectory_open, trajectory_close);
}
