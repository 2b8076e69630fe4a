/* SPDX-License-Identifier: Apache-2.0 */
/* SKIP("why") ends a CMocka test that cannot be held here; tests/run names it and the reason at its end. Include after
 * cmocka.h. */
#ifndef RF_TESTS_SKIP_H
#define RF_TESTS_SKIP_H

#define SKIP(...)                                                                                                      \
    do {                                                                                                               \
        print_message("skipped: " __VA_ARGS__);                                                                        \
        print_message("\n");                                                                                           \
        skip();                                                                                                        \
    } while (0)

#endif
