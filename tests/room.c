/* SPDX-License-Identifier: Apache-2.0 */
/* The main function of a room's tests: ROOM PROGRAM [ARGUMENT...]. */
#include "room.h"

#include <stdio.h>
#include <string.h>

static test_program *programs; /* by name */

void test_program_add(test_program *program)
{
    test_program **place = &programs;
    while (*place && strcmp((*place)->name, program->name) < 0) place = &(*place)->next;
    program->next = *place;
    *place = program;
}

void room_test_add(room_test **tests, room_test *added)
{
    while (*tests) tests = &(*tests)->next;
    *tests = added;
}

int room_tests_run(const room_test *first, int (*begin)(void **state), int (*end)(void **state))
{
    struct CMUnitTest tests[256] = { 0 };
    size_t count = 0;
    for (const room_test *test = first; test; test = test->next) {
        if (count == sizeof(tests) / sizeof(tests[0])) return -1;
        tests[count++] = (struct CMUnitTest){ .name = test->name, .test_func = test->run };
    }
    return _cmocka_run_group_tests("tests", tests, count, begin, end);
}

int main(int argc, char **argv)
{
    for (const test_program *p = programs; p && argc > 1; p = p->next)
        if (strcmp(p->name, argv[1]) == 0) return p->main(argc - 1, argv + 1);
    fprintf(stderr, "Usage: %s PROGRAM [ARGUMENT...], where PROGRAM is one of\n", argv[0]);
    for (const test_program *p = programs; p; p = p->next) fprintf(stderr, "  %s\n", p->name);
    return 2;
}
