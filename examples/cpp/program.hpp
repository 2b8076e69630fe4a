/* SPDX-License-Identifier: Apache-2.0 */
/* How a trainer in C++ begins and ends, as ../common/common.h has it for C. */
#ifndef EXAMPLE_PROGRAM_HPP
#define EXAMPLE_PROGRAM_HPP

#include <ringfire/ringfire.hpp>

extern "C" {
#include "../common/loop.h"
}

/* A failure that has been told. */
struct told {
};

/* For functions of ../common, which return -1 after saying what failed. */
inline int check(int result)
{
    if (result < 0) throw told{};
    return result;
}

/* Does `work(strategy)` on the devices that were chosen, then `after(chief)` without them where it has ended with 0.
 * Returns the program's exit status. */
template <class F, class G = void (*)(bool)>
int run_program(
    const example_options &options, F work, G after = [](bool) {})
{
    rf_strategy *strategy = nullptr;
    int status = -1;
    try {
        status = example_create_strategy(&options, &strategy);
        if (status == 0) status = work(strategy);
        const bool chief = rf_strategy_is_chief(strategy);
        example_destroy_strategy(&strategy);
        if (status == 0) after(chief);
    } catch (const ringfire::error &) {
        example_report_failure();
        status = -1;
    } catch (const told &) {
        status = -1;
    }
    example_destroy_strategy(&strategy);
    return example_exit_status(status);
}

#endif
