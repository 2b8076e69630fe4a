/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <ringfire/text.h>

#include "../support/expect.h"
#include "../support/folder.h"
#include "tests/room.h"

static char directory[SCRATCH_PATH];

static const char *write_file(const char *name, const char *bytes, size_t size)
{
    static char paths[8][SCRATCH_PATH + 32];
    static uint32_t used;
    char *path = paths[used++ % 8];
    snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    return path;
}
#define WRITE(name, text) write_file(name, text, sizeof(text) - 1)

static void check_lines(const char *const *paths, uint32_t num_paths, const char *const *wanted, const size_t *sizes,
                        uint64_t count)
{
    rf_text_lines *lines;
    OK(rf_text_lines_read(paths, num_paths, &lines));
    assert_int_equal(rf_text_lines_count(lines), count);
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(rf_text_lines_sizes(lines)[i], sizes[i]);
        assert_memory_equal(rf_text_lines_texts(lines)[i], wanted[i], sizes[i]);
        assert_int_equal(rf_text_lines_texts(lines)[i][sizes[i]], 0);
    }
    rf_text_lines_destroy(&lines);
    assert_null(lines);
}

TEST(test_lines)
{
    const char *const paths[] = {
        WRITE("unix", "one\n\ntwo\n"),
        WRITE("windows", "three\r\n\r\nfo\rur"),
        WRITE("empty", ""),
        WRITE("mark", "\xef\xbb\xbf"
                      "five"),
        WRITE("zeros", "s\0x\n\xff\n"),
        WRITE("feed", "\n"),
        WRITE("only_mark", "\xef\xbb\xbf"),
    };
    check_lines(paths, 7, (const char *const[]){ "one", "", "two", "three", "", "fo\rur", "five", "s\0x", "\xff", "" },
                (const size_t[]){ 3, 0, 3, 5, 0, 5, 4, 3, 1, 0 }, 10);
    check_lines(&paths[2], 1, NULL, NULL, 0);
}

TEST(test_mistakes)
{
    rf_text_lines *lines;
    char none[SCRATCH_PATH + 8];
    snprintf(none, sizeof(none), "%s/none", directory);
    const char *const paths[] = { WRITE("some", "x\n"), none }, *const holes[] = { paths[0], NULL };
    FAILS(rf_text_lines_read(paths, 2, &lines), RF_ERROR_NOT_FOUND, "/none");
    assert_null(lines);
    FAILS(rf_text_lines_read(holes, 2, &lines), RF_ERROR_INVALID_ARGUMENT, "path 1 is NULL");
    FAILS(rf_text_lines_read(paths, 0, &lines), RF_ERROR_INVALID_ARGUMENT, "no files");
    FAILS(rf_text_lines_read((const char *const[]){ directory }, 1, &lines), RF_ERROR_IO, directory);
    rf_text_lines_destroy(&lines);
    rf_text_lines_destroy(NULL);
    rf_tokenizer *tokenizer;
    char path[SCRATCH_PATH + 8];
    snprintf(path, sizeof(path), "%s/pipe", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    const char *const pipes[] = { path };
    FAILS(rf_text_lines_read(pipes, 1, &lines), RF_ERROR_IO, "/pipe: is not a regular file");
    FAILS(rf_tokenizer_load(path, &tokenizer), RF_ERROR_IO, "/pipe: is not a regular file");
    assert_int_equal(rf_text_lines_count(NULL), 0);
}

TEST(test_encodings)
{
    rf_text_lines *lines;
    const char *path = WRITE("wide", "\xff\xfe"
                                     "a\0\n\0");
    FAILS(rf_text_lines_read(&path, 1, &lines), RF_ERROR_UNSUPPORTED, "/wide: is UTF-16; convert it to UTF-8");
    path = WRITE("packed", "");
    gzFile f = gzopen(path, "wb");
    assert_true(f && gzputs(f, "\xef\xbb\xbfone\ntwo") > 0);
    assert_int_equal(gzclose(f), Z_OK);
    check_lines(&path, 1, (const char *const[]){ "one", "two" }, (const size_t[]){ 3, 3 }, 2);
    assert_int_equal(truncate(path, 20), 0);
    FAILS(rf_text_lines_read(&path, 1, &lines), RF_ERROR_CORRUPT_DATA, "/packed: unpacked byte ");
}

static int make_directory(void **state)
{
    (void)state;
    scratch(directory);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    scratch_remove(directory);
    return 0;
}

TESTS(text_lines, make_directory, remove_directory)
