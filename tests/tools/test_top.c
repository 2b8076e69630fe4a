/* SPDX-License-Identifier: Apache-2.0 */
/* `ringfire top`: from a status to lines. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/room.h"
#include "text.h"
#include "top/top.h"

static const char full[] =
    "{\"version\":\"1\",\"program\":\"train\",\"host\":\"node1\",\"process\":42,\"seconds\":3725.5,"
    "\"idle_seconds\":0.1,\"steps\":500,\"examples\":32000,\"steps_per_second\":12.345,"
    "\"examples_per_second\":790.08,\"workers\":[{\"rank\":0,\"address\":\"10.0.0.1\",\"host\":0},"
    "{\"rank\":1,\"address\":\"10.0.0.2\",\"host\":1}],\"replicas\":["
    "{\"replica\":0,\"rank\":0,\"device\":\"A \\u001b[31m card\",\"share\":0.75},"
    "{\"replica\":1,\"rank\":1,\"device\":\"a processor of a very long name that no terminal has room for\","
    "\"share\":0.25}],\"progress\":{\"epoch\":2,\"epochs\":10,\"batch\":25,\"batches\":100,"
    "\"remaining_seconds\":61,\"values\":{\"loss\":0.5,\"accuracy\":0.8125,\"val_loss\":null}},"
    "\"checkpoint\":{\"path\":\"run/ckpt-2.rfck\",\"age_seconds\":90061},"
    "\"warnings\":{\"count\":5,\"latest\":[\"first\",\"second\\nline\"]}}";

static char *view_of(const char *text, int columns, int rows)
{
    char *lines = NULL;
    size_t size = 0;
    json_t *status = json_loads(text, 0, NULL);
    assert_non_null(status);
    FILE *out = open_memstream(&lines, &size);
    assert_non_null(out);
    top_print(out, status, columns, rows);
    fclose(out);
    json_decref(status);
    return lines;
}

TEST(test_whole_view)
{
    char *lines = view_of(full, 100, 0);
    assert_string_equal(
        lines, "train on node1, process 42, for 1 h 2 min: 2 workers, 2 replicas\n"
               "epoch     3 of 10, batch 25 of 100  #####---------------\n"
               "left      1 min 1 s\n"
               "speed     790 examples/s, 12.35 steps/s\n"
               "values    loss 0.5  accuracy 0.8125  val_loss not finite\n"
               "\n"
               "replica  worker  address         device                                  share\n"
               "0        0       10.0.0.1        A \\x1b[31m card                        75.0 %  ###############-----\n"
               "1        1       10.0.0.2        a processor of a very long name t...   25.0 %  #####---------------\n"
               "\n"
               "checkpoint run/ckpt-2.rfck, 1 d 1 h ago\n"
               "warnings   5, the latest:\n"
               "  first\n"
               "  second\\x0aline\n");
    free(lines);
}

static int count_lines(const char *text, int columns)
{
    int count = 0;
    for (char line[256]; *text; count++) {
        const size_t length = strcspn(text, "\n");
        assert_true(length < sizeof(line));
        memcpy(line, text, length);
        line[length] = '\0';
        assert_true(text_width(line) <= columns);
        text += length + 1;
    }
    return count;
}

/* No size of a terminal makes lines that are too long, or too many of them. */
TEST(test_sizes)
{
    char many[20000] = "{\"workers\":[],\"replicas\":[";
    for (int i = 0; i < 200; i++)
        snprintf(many + strlen(many), sizeof(many) - strlen(many),
                 "%s{\"replica\":%d,\"rank\":%d,\"device\":\"card\",\"share\":0.005}", i ? "," : "", i, i / 8);
    strcat(many, "],\"warnings\":{\"count\":1,\"latest\":[\"one\"]}}");
    for (int columns = 40; columns < 150; columns++)
        for (int rows = 1; rows < 40; rows++) {
            char *lines = view_of(columns % 2 ? full : many, columns, rows);
            assert_true(count_lines(lines, columns) <= rows);
            free(lines);
        }
    char *lines = view_of(many, 80, 20);
    assert_int_equal(count_lines(lines, 80), 20);
    assert_non_null(strstr(lines, "\nand 190 more\n"));
    assert_non_null(strstr(lines, "\n  one\n"));
    free(lines);
}

/* Before the first step, and of a loop that tells nothing. */
TEST(test_beginning)
{
    char *lines = view_of("{\"program\":\"p\",\"host\":\"h\",\"workers\":[{}],\"replicas\":[{\"device\":\"d\"}],"
                          "\"steps\":0,\"progress\":null,\"checkpoint\":null,\"warnings\":{\"count\":0}}",
                          60, 0);
    assert_string_equal(lines, "p on h, process 0, for 0 s: 1 worker, 1 replica\n"
                               "step      0\n"
                               "speed     no step yet\n"
                               "\n"
                               "replica  worker  device                                share\n"
                               "0        0       d                                     0.0 %\n"
                               "\n"
                               "checkpoint none yet\n");
    free(lines);
}

TEST(test_silence)
{
    char *lines = view_of("{\"steps\":7,\"steps_per_second\":0.0,\"idle_seconds\":12.9}", 60, 0);
    assert_non_null(strstr(lines, "\nspeed     no step for 12 s\n"));
    free(lines);
}

TESTS(top, NULL, NULL)
