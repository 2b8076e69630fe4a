/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of checkpoints: which file is the newest, what is removed, and what may not be passed over. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "persist/archive/xxh64.h"
#include "run_state.h"
#include "tests/room.h"
#include "train/checkpoint/checkpoint.h"

/* A checkpoint of one number: managers do not care what is in it. */
typedef struct directory {
    char folder[64];
    rf_strategy *strategy;
    rf_checkpoint *checkpoint;
    uint64_t value;
} directory;

static void open_directory(directory *d)
{
    *d = (directory){ .strategy = open_devices("llvmpipe") };
    if (!d->strategy) SKIP("not installed: llvmpipe");
    OK(rf_checkpoint_create(d->strategy, &d->checkpoint));
    OK(rf_checkpoint_add_counter(d->checkpoint, "value", &d->value));
    scratch(d->folder);
}

static void close_directory(directory *d)
{
    rf_checkpoint_destroy(&d->checkpoint);
    rf_strategy_destroy(&d->strategy);
    scratch_remove(d->folder);
}

static rf_checkpoint_manager *manager_of(const directory *d, uint32_t max_to_keep, bool async)
{
    rf_checkpoint_manager *m;
    const rf_checkpoint_manager_params params = { .directory = d->folder,
                                                  .max_to_keep = max_to_keep,
                                                  .save.async = async };
    OK(rf_checkpoint_manager_create(d->checkpoint, &params, &m));
    return m;
}

static void path_of(const directory *d, uint64_t number, char path[128])
{
    snprintf(path, 128, "%s/ckpt-%llu.rfck", d->folder, (unsigned long long)number);
}

static bool exists(const directory *d, uint64_t number)
{
    char path[128];
    path_of(d, number, path);
    return access(path, F_OK) == 0;
}

static uint32_t count_files(const directory *d)
{
    DIR *dir = opendir(d->folder);
    uint32_t count = 0;
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));) count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void save_range(directory *d, rf_checkpoint_manager *m, uint64_t first, uint64_t last)
{
    for (uint64_t i = first; i <= last; i++) {
        d->value = i;
        OK(rf_checkpoint_manager_save(m, i));
    }
}

/* Changes a byte of the data or, from the end, of the trailer, which opening checks. */
static void damage(const directory *d, uint64_t number, off_t at)
{
    char path[128];
    unsigned char byte;
    path_of(d, number, path);
    const int fd = open(path, O_RDWR);
    assert_true(fd >= 0);
    if (at < 0) at += lseek(fd, 0, SEEK_END);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 0x10;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    close(fd);
}

/* ---- which is the newest ---- */

/* A training that starts anew where an older one's files are is told so, and nothing is lost. */
TEST(started_anew)
{
    for (int async = 0; async < 2; async++) {
        directory d;
        uint64_t number;
        char *latest;
        open_directory(&d);
        rf_checkpoint_manager *m = manager_of(&d, 2, async);
        save_range(&d, m, 100, 103);
        OK(rf_checkpoint_wait(d.checkpoint));
        rf_checkpoint_manager_destroy(&m);
        m = manager_of(&d, 2, async);
        for (uint64_t i = 1; i <= 3; i++)
            FAILS(rf_checkpoint_manager_save(m, i), RF_ERROR_INVALID_ARGUMENT, "ckpt-103.rfck', of another run");
        assert_int_equal(count_files(&d), 2);
        assert_true(exists(&d, 102) && exists(&d, 103));
        /* The newest may be written once more, and the next ones. */
        save_range(&d, m, 103, 105);
        OK(rf_checkpoint_wait(d.checkpoint));
        assert_int_equal(count_files(&d), 2);
        /* Without the old files it is no question. */
        OK(rf_checkpoint_manager_clear(m));
        save_range(&d, m, 1, 3);
        OK(rf_checkpoint_wait(d.checkpoint));
        assert_true(count_files(&d) == 2 && exists(&d, 2) && exists(&d, 3));
        OK(rf_checkpoint_latest(d.folder, NULL, &latest));
        assert_non_null(strstr(latest, "ckpt-3.rfck"));
        rf_string_free(latest);
        OK(rf_checkpoint_manager_restore(m, NULL, &number));
        assert_int_equal(number, 3);
        assert_int_equal(d.value, 3);
        rf_checkpoint_manager_destroy(&m);
        close_directory(&d);
    }
}

/* Restoring passes over damaged files, and saving goes on below their numbers; what was saved stays. */
TEST(goes_on_below_damaged_files)
{
    directory d;
    uint64_t number;
    open_directory(&d);
    const float weights[64] = { 1 };
    rf_variable *variable;
    OK(rf_variable_create(d.strategy, &(rf_variable_params){ .name = "v", .shape = RF_SHAPE(64) }, &variable));
    OK(rf_variable_assign(variable, weights));
    OK(rf_checkpoint_add_variable(d.checkpoint, "v", variable));
    rf_checkpoint_manager *m = manager_of(&d, 6, false);
    save_range(&d, m, 1, 6);
    damage(&d, 6, -1); /* known from the header */
    damage(&d, 5, 60); /* from the data only */
    damage(&d, 4, 60);
    rf_checkpoint_manager_destroy(&m);
    m = manager_of(&d, 2, false);
    OK(rf_checkpoint_manager_restore(m, NULL, &number));
    assert_int_equal(number, 3);
    d.value = 40;
    OK(rf_checkpoint_manager_save(m, 4)); /* over a damaged one, below two more */
    assert_true(exists(&d, 4) && exists(&d, 3) && !exists(&d, 2) && !exists(&d, 1));
    d.value = 0;
    OK(rf_checkpoint_manager_restore(m, NULL, &number));
    assert_int_equal(number, 4);
    assert_int_equal(d.value, 40);
    FAILS(rf_checkpoint_manager_save(m, 3), RF_ERROR_INVALID_ARGUMENT, "ckpt-4.rfck");
    rf_checkpoint_manager_destroy(&m);
    rf_variable_destroy(&variable);
    close_directory(&d);
}

/* Where all files are damaged nothing is taken for a first start: that would write over what may be rescued. */
TEST(all_damaged)
{
    static const off_t places[] = { 0, -1, 60 }; /* seen at once, by the header's end, when data are read */
    for (size_t k = 0; k < sizeof(places) / sizeof(places[0]); k++) {
        directory d;
        uint64_t number;
        char *latest;
        open_directory(&d);
        rf_checkpoint_manager *m = manager_of(&d, 3, false);
        FAILS(rf_checkpoint_manager_restore(m, NULL, &number), RF_ERROR_NOT_FOUND, "no complete checkpoint");
        const float weights[64] = { 1 };
        rf_variable *variable;
        OK(rf_variable_create(d.strategy, &(rf_variable_params){ .name = "v", .shape = RF_SHAPE(64) }, &variable));
        OK(rf_variable_assign(variable, weights));
        OK(rf_checkpoint_add_variable(d.checkpoint, "v", variable));
        save_range(&d, m, 7, 9);
        rf_checkpoint_manager_destroy(&m);
        for (uint64_t i = 7; i <= 9; i++) damage(&d, i, places[k]);
        m = manager_of(&d, 3, false);
        FAILS(rf_checkpoint_manager_restore(m, NULL, &number), RF_ERROR_CORRUPT_DATA, "none of the 3 checkpoints");
        assert_non_null(strstr(rf_error_message(), "ckpt-9.rfck"));
        assert_null(strstr(rf_error_message(), "ckpt-8.rfck"));
        if (places[k] != 60) { /* else the files look good from outside */
            FAILS(rf_checkpoint_latest(d.folder, NULL, &latest), RF_ERROR_CORRUPT_DATA, "ckpt-9.rfck");
            for (uint64_t i = 1; i <= 10; i += 9)
                FAILS(rf_checkpoint_manager_save(m, i), RF_ERROR_CORRUPT_DATA, "nothing was removed");
        }
        rf_checkpoint_manager_destroy(&m);
        assert_true(exists(&d, 7) && exists(&d, 8) && exists(&d, 9) && count_files(&d) == 3);
        rf_variable_destroy(&variable);
        close_directory(&d);
    }
}

TEST(keeps_as_many)
{
    for (uint32_t most = 1; most <= 3; most++) {
        for (int async = 0; async < 2; async++) {
            directory d;
            open_directory(&d);
            rf_checkpoint_manager *m = manager_of(&d, most, async);
            for (uint64_t i = 1; i <= 6; i++) {
                save_range(&d, m, i, i);
                /* While it may still be on its way, two others are there. */
                if (async && i > 2) assert_true(exists(&d, i - 1) && exists(&d, i - 2));
                OK(rf_checkpoint_wait(d.checkpoint));
                const uint64_t wanted = most > 2 ? most : 2; /* there is always another complete one */
                assert_int_equal(count_files(&d), i < wanted ? i : wanted);
                assert_true(exists(&d, i));
            }
            rf_checkpoint_manager_destroy(&m);
            close_directory(&d);
        }
    }
}

/* ---- what is not damaged but cannot be read ---- */

/* All three ways to the newest file fail alike; afterwards `number` is found again. */
static void assert_not_passed_over(directory *d, rf_result code, const char *part)
{
    uint64_t number;
    char *latest;
    rf_checkpoint_manager *m = manager_of(d, 5, false);
    d->value = 77;
    FAILS(rf_checkpoint_manager_restore(m, NULL, &number), code, part);
    FAILS(rf_checkpoint_latest(d->folder, NULL, &latest), code, part);
    FAILS(rf_checkpoint_manager_save(m, 1), code, part); /* it may be the newest */
    assert_int_equal(d->value, 77);
    rf_checkpoint_manager_destroy(&m);
}

TEST(not_permitted)
{
    if (geteuid() != 0) SKIP("only root can become a user without permission");
    directory d;
    char path[128];
    open_directory(&d);
    rf_checkpoint_manager *m = manager_of(&d, 5, false);
    save_range(&d, m, 1, 2);
    rf_checkpoint_manager_destroy(&m);
    path_of(&d, 2, path);
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(chmod(d.folder, 0777), 0);
    assert_int_equal(seteuid(65534), 0);
    assert_not_passed_over(&d, RF_ERROR_IO, "ckpt-2.rfck: cannot open");
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(path, 0644), 0);
    /* The names can be listed, but nothing about the files. */
    assert_int_equal(chmod(d.folder, 0744), 0);
    assert_int_equal(seteuid(65534), 0);
    char *latest;
    FAILS(rf_checkpoint_latest(d.folder, NULL, &latest), RF_ERROR_IO, "cannot tell the age");
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(d.folder, 0), 0);
    assert_int_equal(seteuid(65534), 0);
    FAILS(rf_checkpoint_latest(d.folder, NULL, &latest), RF_ERROR_IO, "cannot read the directory");
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(d.folder, 0700), 0);
    OK(rf_checkpoint_latest(d.folder, NULL, &latest));
    rf_string_free(latest);
    close_directory(&d);
}

/* A file of a later version of the format, as a newer library would write it. */
TEST(later_version)
{
    directory d;
    char path[128];
    unsigned char preamble[56];
    open_directory(&d);
    rf_checkpoint_manager *m = manager_of(&d, 5, false);
    save_range(&d, m, 1, 2);
    rf_checkpoint_manager_destroy(&m);
    path_of(&d, 2, path);
    const int fd = open(path, O_RDWR);
    assert_int_equal(pread(fd, preamble, sizeof(preamble), 0), sizeof(preamble));
    preamble[8] = 3;
    const uint64_t hash = rf_xxh64(preamble, 48);
    for (int i = 0; i < 8; i++) preamble[48 + i] = (unsigned char)(hash >> 8 * i);
    assert_int_equal(pwrite(fd, preamble, sizeof(preamble), 0), sizeof(preamble));
    close(fd);
    assert_not_passed_over(&d, RF_ERROR_UNSUPPORTED, "format version 3");
    close_directory(&d);
}

static int failing_code;
static int failing_open(void *user, const char *path)
{
    if (strstr(path, "ckpt-2")) {
        errno = failing_code;
        return -1;
    }
    return rf_system_file_ops.open(user, path);
}

TEST(disk_trouble)
{
    static const int codes[] = { EIO, EMFILE, EACCES, ENOMEM };
    directory d;
    open_directory(&d);
    rf_checkpoint_manager *m = manager_of(&d, 5, false);
    uint64_t number;
    save_range(&d, m, 1, 2);
    rf_file_ops ops = rf_system_file_ops;
    ops.open = failing_open;
    d.checkpoint->ops = &ops;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        failing_code = codes[i];
        FAILS(rf_checkpoint_manager_restore(m, NULL, &number), RF_ERROR_IO, "ckpt-2.rfck: cannot open");
    }
    /* One that another program removed since it was listed is not there. */
    failing_code = ENOENT;
    OK(rf_checkpoint_manager_restore(m, NULL, &number));
    assert_int_equal(number, 1);
    rf_checkpoint_manager_destroy(&m);
    close_directory(&d);
}

/* Others may read a checkpoint's directory as they may its files. */
TEST(directories_are_readable)
{
    directory d;
    char inner[96];
    struct stat status;
    open_directory(&d);
    snprintf(inner, sizeof(inner), "%s/a/b", d.folder);
    const mode_t before = umask(027);
    rf_checkpoint_manager *m;
    OK(rf_checkpoint_manager_create(d.checkpoint, &(rf_checkpoint_manager_params){ .directory = inner }, &m));
    umask(before);
    assert_int_equal(stat(inner, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0750);
    rf_checkpoint_manager_destroy(&m);
    close_directory(&d);
}

TESTS(checkpoint_manager, NULL, NULL)
