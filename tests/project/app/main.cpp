/* SPDX-License-Identifier: Apache-2.0 */
/* main.c in C++. */
#include <cmath>
#include <cstdio>

#include <ringfire/ringfire.hpp>

namespace rf = ringfire;

int main()
{
    float x[4] = { 1, 2, 3, 4 }, y[4] = { 2, 4, 6, 8 };
    const auto strategy = rf::strategy::multi_worker();
    const auto slope = rf::variable::create(strategy, rf::variable_params().shape(rf::shape(1)));
    const auto optimizer = rf::optimizer::create(strategy, rf::optimizer_params().learning_rate(0.05));
    const auto step = rf::function::create(
        strategy,
        [&](const rf::inputs &in) {
            const auto loss = compute_average_loss(mean_squared_error(in[1], in[0] * slope.in(in.trace())));
            rf_variable *trained[] = { slope };
            optimizer.minimize(loss, { trained, 1 });
        },
        rf::function_params().training(true));
    rf_element batch = {};
    batch.num_components = 2;
    batch.component[0] = { RF_F32, rf::shape(4, 1), x };
    batch.component[1] = { RF_F32, rf::shape(4, 1), y };
    for (int i = 0; i < 40; i++) strategy.run(step, batch);
    const float found = slope.read()[0];
    std::printf("ringfire %s, %u devices, slope %f\n", rf_version_string(), strategy.num_replicas_in_sync(),
                static_cast<double>(found));
    return std::fabs(found - 2) < 0.01f ? 0 : 1;
}
