/* SPDX-License-Identifier: Apache-2.0 */
/* All test programs of a room are one: `tests/train/train_tests fit` runs the one that test_fit.c defines. */
#ifndef RF_TESTS_ROOM_H
#define RF_TESTS_ROOM_H

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

#endif
