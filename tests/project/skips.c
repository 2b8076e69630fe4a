/* SPDX-License-Identifier: Apache-2.0 */
/* One test that holds and two that are skipped, for check_run.py: what CMocka prints differs with its version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../skip.h"

static void holds(void **state)
{
    (void)state;
    assert_int_equal(1, 1);
}

static void has_a_reason(void **state)
{
    (void)state;
    SKIP("no %s here", "driver");
}

static void has_none(void **state)
{
    (void)state;
    skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(has_a_reason), cmocka_unit_test(holds),
                                        cmocka_unit_test(has_none) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
