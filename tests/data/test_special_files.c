/* SPDX-License-Identifier: Apache-2.0 */
/* Every reader of files says at once what is no file: pipes without a writer, directories, devices, sockets; and of an
 * empty one that it is, or that it has nothing. */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "../support/expect.h"
#include "../support/folder.h"
#include "tests/room.h"
#include <ringfire/readers.h>

static char folder[SCRATCH_PATH];

static const char *in(const char *name)
{
    static char path[2][SCRATCH_PATH + 16];
    static int next;
    char *p = path[next++ % 2];
    snprintf(p, sizeof(path[0]), "%s/%s", folder, name);
    return p;
}

static const rf_csv_component column = { .dtype = RF_F32, .num_columns = 1 };
static const rf_tfrecord_feature feature = { .name = "x", .dtype = RF_F32 };

/* Opens the file with reader number `reader`. RF_END: there is no such reader. */
static rf_result open_with(int reader, const char *path, rf_dataset **d)
{
    rf_array array = { 0 };
    rf_result r;
    *d = NULL;
    switch (reader) {
    case 0: r = rf_idx_read(path, &array); break;
    case 1: r = rf_image_read(path, 0, &array); break;
    case 2: return rf_dataset_from_idx(path, path, d);
    case 3: return rf_dataset_from_idx_files(&path, &path, 1, d);
    case 4:
        return rf_dataset_from_csv(
            &(rf_csv_params){ .paths = &path, .num_paths = 1, .components = &column, .num_components = 1 }, d);
    case 5: return rf_dataset_from_text_lines(&(rf_text_lines_params){ .paths = &path, .num_paths = 1 }, d);
    case 6: return rf_dataset_from_gettext(&(rf_gettext_params){ .paths = &path, .num_paths = 1 }, d);
    case 7:
        return rf_dataset_from_tfrecord(
            &(rf_tfrecord_params){ .paths = &path, .num_paths = 1, .features = &feature, .num_features = 1 }, d);
    default: return RF_END;
    }
    rf_array_free(&array);
    return r;
}

TEST(test_readers)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", in("socket"));
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(mkfifo(in("pipe"), 0600), 0);
    assert_int_equal(mkdir(in("folder"), 0700), 0);
    assert_int_equal(symlink("pipe", in("link")), 0);
    static const char *const names[] = { "pipe", "link", "folder", "socket", "/dev/null", "/dev/zero", "/dev/tty" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *path = names[i][0] == '/' ? names[i] : in(names[i]);
        rf_dataset *d;
        for (int reader = 0;; reader++) {
            const rf_result r = open_with(reader, path, &d);
            if (r == RF_END) break;
            if (r != RF_ERROR_IO || !strstr(rf_error_message(), path) ||
                !strstr(rf_error_message(), ": is not a regular file"))
                fail_msg("%s, reader %d: %s: %s", path, reader, rf_result_name(r), rf_error_message());
        }
    }
    close(fd);
}

TEST(test_empty_files)
{
    static const rf_result expected[] = { RF_ERROR_CORRUPT_DATA,
                                          RF_ERROR_CORRUPT_DATA,
                                          RF_ERROR_CORRUPT_DATA,
                                          RF_ERROR_CORRUPT_DATA,
                                          RF_OK,
                                          RF_OK,
                                          RF_ERROR_CORRUPT_DATA,
                                          RF_OK };
    scratch_write(in("empty"), "");
    for (int reader = 0; reader < 8; reader++) {
        const char *path = in("empty");
        rf_dataset *d;
        const rf_result r = open_with(reader, path, &d);
        if (r != expected[reader] || (r < 0 && !strstr(rf_error_message(), path)))
            fail_msg("reader %d: %s: %s", reader, rf_result_name(r), rf_error_message());
        if (d) {
            rf_iterator *it;
            const rf_element *e;
            OK(rf_iterator_create(d, 0, &it));
            assert_int_equal(rf_iterator_next(it, &e), RF_END);
            rf_iterator_destroy(&it);
        }
        rf_dataset_destroy(&d);
    }
}

static int make_folder(void **state)
{
    (void)state;
    scratch(folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    scratch_remove(folder);
    return 0;
}

TESTS(special_files, make_folder, remove_folder)
