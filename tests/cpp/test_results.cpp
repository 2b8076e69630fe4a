/* SPDX-License-Identifier: Apache-2.0 */
/* <ringfire/ringfire.hpp> with RINGFIRE_RESULTS, and without exceptions in the compiler. */
#define RINGFIRE_RESULTS
#include <ringfire/ringfire.hpp>

#include <cstdio>

namespace rf = ringfire;

static int check(bool right, const char *what)
{
    if (!right) std::fprintf(stderr, "not so: %s\n", what);
    return right ? 0 : 1;
}

int main()
{
    int failures = 0;
    const auto none = rf::strategy::mirrored(rf::mirrored_params().devices("no such device"));
    failures += check(!none && none.code() == RF_ERROR_NOT_FOUND, "the code of a failure");
    failures += check(none.message().find("no such device") != std::string::npos, "its message");
    auto strategy = rf::strategy::one_device();
    if (!strategy) {
        std::fprintf(stderr, "%s\n", strategy.message().c_str());
        return 1;
    }
    auto step = rf::function::create(*strategy, [](const rf::inputs &in) { return reduce_sum(in[0] * 2, {}); });
    float values[3] = { 1, 2, 3 };
    rf_element batch = {};
    batch.num_components = 1;
    batch.component[0] = { RF_F32, rf::shape(3), values };
    auto results = strategy->run(*step, batch);
    failures += check(static_cast<bool>(results), "a run");
    auto sum = strategy->reduce(RF_REDUCE_SUM, (*results)[0]);
    failures += check(sum && *sum == 12, "its result");

    rf_element_spec spec = {};
    spec.num_components = 1;
    spec.dtype[0] = RF_F32;
    spec.shape[0] = rf::shape(1);
    auto data = rf::dataset::from_generator(spec, [](uint64_t index, rf_element &) { return index < 3; });
    rf::pass pass = data->pass();
    int count = 0;
    for (const rf_element &element : pass) count += element.num_components == 1;
    failures += check(count == 3 && pass.status() == RF_END, "a loop and its end");
    auto variable = rf::variable::create(*strategy, rf::variable_params().shape(rf::shape(2)));
    failures += check(variable->assign({ 1 }).code() == RF_ERROR_INVALID_ARGUMENT, "a refusal");
    return failures > 0;
}
