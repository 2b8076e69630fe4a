/* SPDX-License-Identifier: Apache-2.0 */
/* All test programs of a room are one: `tests/train/train_tests fit` runs the one that test_fit.c defines. A file's
 * tests are those that it defines with TEST(), in that order. */
#ifndef RF_TESTS_ROOM_H
#define RF_TESTS_ROOM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct test_program {
    const char *name;
    int (*main)(int argc, char **argv); /* argv[0] is the name */
    struct test_program *next;
} test_program;

void test_program_add(test_program *program);

/* Stands where a program of its own would have `int main(int argc, char **argv)`. */
#define TEST_PROGRAM(program)                                                                                          \
    static int program_##program(int argc, char **argv);                                                               \
    __attribute__((constructor)) static void add_##program(void)                                                       \
    {                                                                                                                  \
        static test_program added = { .name = #program, .main = program_##program };                                   \
        test_program_add(&added);                                                                                      \
    }                                                                                                                  \
    static int program_##program(__attribute__((unused)) int argc, __attribute__((unused)) char **argv)

/* ---- tests of one file ---- */

typedef struct room_test {
    const char *name;
    void (*run)(void **state);
    struct room_test *next;
} room_test;

void room_test_add(room_test **tests, room_test *added);
/* CMocka runs them; `begin` and `end` stand round all of them, or are NULL. The number of those that failed. */
int room_tests_run(const room_test *tests, int (*begin)(void **state), int (*end)(void **state));

static room_test *own_tests __attribute__((unused));

/* Stands where a test would have `static void name(void **state)`. */
#define TEST(test) TEST_OF(own_tests, test)
/* The same of another list, a `static room_test *` of the file: of a program whose arguments choose between lists. */
#define TEST_OF(list, test)                                                                                            \
    static void test(void **state);                                                                                    \
    __attribute__((constructor)) static void add_test_##test(void)                                                     \
    {                                                                                                                  \
        static room_test added = { .name = #test, .run = test };                                                       \
        room_test_add(&(list), &added);                                                                                \
    }                                                                                                                  \
    static void test(__attribute__((unused)) void **state)

/* The program of all tests of the file. */
#define TESTS(program, begin, end)                                                                                     \
    TEST_PROGRAM(program)                                                                                              \
    {                                                                                                                  \
        return room_tests_run(own_tests, begin, end);                                                                  \
    }

#endif
