/* SPDX-License-Identifier: Apache-2.0 */
/* Two trainings do not write checkpoints of one name into one directory; one that is killed leaves no lock behind.
 * Usage: test_checkpoint_lock [hold DIRECTORY PREFIX], which is the other training. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "persist/directory_lock.h"
#include "test_folder.h"
#include "train/checkpoint/checkpoint.h"

#include "../support/holder.h"
#include "tests/room.h"

typedef struct training {
    rf_strategy *strategy;
    rf_checkpoint *checkpoint;
    uint64_t value;
} training;

static bool training_begin(training *t)
{
    *t = (training){ .strategy = open_devices("llvmpipe") };
    if (!t->strategy) return false;
    OK(rf_checkpoint_create(t->strategy, &t->checkpoint));
    OK(rf_checkpoint_add_counter(t->checkpoint, "value", &t->value));
    return true;
}

static void training_end(training *t)
{
    rf_checkpoint_destroy(&t->checkpoint);
    rf_strategy_destroy(&t->strategy);
}

static rf_result open_manager(const training *t, const char *prefix, rf_checkpoint_manager **out)
{
    const rf_checkpoint_manager_params params = { .directory = folder, .prefix = prefix };
    return rf_checkpoint_manager_create(t->checkpoint, &params, out);
}

/* The other training: says so when it has the directory, and stays. */
static int hold(const char *directory, const char *prefix)
{
    training t;
    rf_checkpoint_manager *m;
    snprintf(folder, sizeof(folder), "%s", directory);
    if (!training_begin(&t)) return 1;
    OK(open_manager(&t, prefix, &m));
    if (rf_checkpoint_manager_save(m, 9) < 0) return 1;
    if (write(STDOUT_FILENO, "!", 1) != 1) return 1;
    for (;;) pause();
}

/* In a program of its own: drivers do not survive fork(). */
static void hold_elsewhere(int ready, const char *prefix)
{
    dup2(ready, STDOUT_FILENO);
    close(ready);
    execl("/proc/self/exe", "train_tests", "checkpoint_lock", "hold", folder, prefix, (char *)NULL);
}

static pid_t start_other(const char *prefix)
{
    return start_holder(hold_elsewhere, prefix);
}

static void assert_refused(rf_result r, pid_t process)
{
    char host[256] = "", who[400], year[16];
    const time_t now = time(NULL);
    (void)gethostname(host, sizeof(host) - 1);
    snprintf(who, sizeof(who), "in use by another training (process %d on %s, since ", (int)process, host);
    strftime(year, sizeof(year), "since %Y-", gmtime(&now));
    FAILS(r, RF_ERROR_INVALID_ARGUMENT, who);
    assert_non_null(strstr(rf_error_message(), year));
    assert_non_null(strstr(rf_error_message(), folder));
}

/* ---- managers ---- */

TEST(another_process)
{
    training t;
    rf_checkpoint_manager *m;
    uint64_t number;
    char *latest;
    if (!training_begin(&t)) SKIP("no device");
    const pid_t other = start_other("ckpt");
    assert_refused(open_manager(&t, NULL, &m), other);
    assert_null(m);
    /* Reading needs no lock, nor do files of another name. */
    OK(rf_checkpoint_latest(folder, NULL, &latest));
    OK(rf_checkpoint_restore(t.checkpoint, latest, NULL));
    rf_string_free(latest);
    OK(open_manager(&t, "best", &m));
    OK(rf_checkpoint_manager_save(m, 1));
    rf_checkpoint_manager_destroy(&m);
    /* The lock ends with the process, however it ends; its file may stay. */
    assert_int_equal(access(in_folder(".ckpt-.rfck.lock"), F_OK), 0);
    kill_holder(other);
    assert_int_equal(access(in_folder(".ckpt-.rfck.lock"), F_OK), 0);
    const time_t begin = time(NULL);
    OK(open_manager(&t, NULL, &m));
    assert_true(time(NULL) - begin < 3);
    OK(rf_checkpoint_manager_restore(m, NULL, &number));
    OK(rf_checkpoint_manager_save(m, 10));
    rf_checkpoint_manager_destroy(&m);
    assert_int_not_equal(access(in_folder(".ckpt-.rfck.lock"), F_OK), 0);
    training_end(&t);
}

/* One that ends while another one waits for it, as a process that was killed may take its time. */
TEST(waited_for)
{
    training t;
    rf_checkpoint_manager *m;
    if (!training_begin(&t)) SKIP("no device");
    const pid_t other = start_other("waited");
    const pid_t killer = fork();
    assert_true(killer >= 0);
    if (killer == 0) {
        (void)nanosleep(&(struct timespec){ .tv_sec = 1 }, NULL);
        (void)kill(other, SIGKILL);
        _exit(0);
    }
    OK(open_manager(&t, "waited", &m));
    rf_checkpoint_manager_destroy(&m);
    assert_int_equal(waitpid(killer, NULL, 0), killer);
    assert_int_equal(waitpid(other, NULL, 0), other);
    training_end(&t);
}

/* Managers of one process take turns; the lock is held as long as one of them writes. */
TEST(several_of_one_process)
{
    training t;
    rf_checkpoint_manager *first, *second;
    if (!training_begin(&t)) SKIP("no device");
    OK(open_manager(&t, "turns", &first));
    OK(open_manager(&t, "turns", &second));
    OK(rf_checkpoint_manager_save(first, 1));
    OK(rf_checkpoint_manager_save(second, 2));
    rf_checkpoint_manager_destroy(&first);
    OK(rf_checkpoint_manager_save(second, 3));
    assert_int_equal(access(in_folder(".turns-.rfck.lock"), F_OK), 0);
    /* Where another process comes first, the one that is left is refused. */
    OK(open_manager(&t, "turns", &first));
    rf_checkpoint_manager_destroy(&second);
    const pid_t other = start_other("turns");
    assert_refused(rf_checkpoint_manager_save(first, 10), other);
    kill_holder(other);
    OK(rf_checkpoint_manager_save(first, 10));
    rf_checkpoint_manager_destroy(&first);
    training_end(&t);
}

/* ---- saves in the background ---- */

/* A disk that takes its time: the save in the background writes nothing before it is let go. */
static atomic_bool disk_answers;

static ssize_t slow_pwrite(void *user, int fd, const void *data, size_t size, uint64_t offset)
{
    (void)user;
    for (int ms = 0; ms < 60000 && !disk_answers; ms++) (void)nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    return pwrite(fd, data, size, (off_t)offset);
}

static rf_result open_background_manager(const training *t, const char *prefix, rf_checkpoint_manager **out)
{
    const rf_checkpoint_manager_params params = {
        .directory = folder, .prefix = prefix, .max_to_keep = 2, .save = { .async = true }
    };
    return rf_checkpoint_manager_create(t->checkpoint, &params, out);
}

/* Whether another process could write there now. Another file description stands for it. */
static bool is_locked(const char *lock)
{
    const int fd = open(in_folder(lock), O_RDWR | O_CLOEXEC);
    if (fd < 0) return false;
    struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    assert_int_equal(fcntl(fd, F_OFD_GETLK, &range), 0);
    close(fd);
    return range.l_type != F_UNLCK;
}

/* A manager that is destroyed keeps the directory until its last save has ended, and removes old files then. */
TEST(outlived_by_a_save)
{
    training t;
    rf_checkpoint_manager *m, *another;
    if (!training_begin(&t)) SKIP("no device");
    rf_file_ops slow = rf_system_file_ops;
    slow.pwrite = slow_pwrite;
    t.checkpoint->ops = &slow;
    for (int ends_with_checkpoint = 0; ends_with_checkpoint < 2; ends_with_checkpoint++) {
        disk_answers = true;
        OK(open_background_manager(&t, "late", &m));
        if (ends_with_checkpoint) OK(rf_checkpoint_manager_restore(m, NULL, NULL));
        for (uint64_t i = 1; i <= 2; i++) OK(rf_checkpoint_manager_save(m, (uint64_t)ends_with_checkpoint * 10 + i));
        OK(rf_checkpoint_wait(t.checkpoint));
        disk_answers = false;
        OK(rf_checkpoint_manager_save(m, (uint64_t)ends_with_checkpoint * 10 + 3));
        rf_checkpoint_manager_destroy(&m);
        assert_null(m);
        assert_true(is_locked(".late-.rfck.lock"));
        disk_answers = true;
        if (ends_with_checkpoint)
            rf_checkpoint_destroy(&t.checkpoint);
        else
            OK(rf_checkpoint_wait(t.checkpoint));
        assert_false(is_locked(".late-.rfck.lock"));
        assert_int_equal(access(in_folder(ends_with_checkpoint ? "late-13.rfck" : "late-3.rfck"), F_OK), 0);
        assert_int_not_equal(access(in_folder(ends_with_checkpoint ? "late-11.rfck" : "late-1.rfck"), F_OK), 0);
    }
    OK(rf_checkpoint_create(t.strategy, &t.checkpoint));
    OK(rf_checkpoint_add_counter(t.checkpoint, "value", &t.value));

    /* One that saves under the lock of another manager has it when that one goes. */
    t.checkpoint->ops = &slow;
    OK(open_manager(&t, "passed", &another));
    OK(open_background_manager(&t, "passed", &m));
    disk_answers = false;
    OK(rf_checkpoint_manager_save(m, 1));
    rf_checkpoint_manager_destroy(&another);
    assert_true(is_locked(".passed-.rfck.lock"));
    rf_checkpoint_manager_destroy(&m);
    assert_true(is_locked(".passed-.rfck.lock"));
    disk_answers = true;
    OK(rf_checkpoint_wait(t.checkpoint));
    assert_false(is_locked(".passed-.rfck.lock"));
    training_end(&t);
}

static char warned[400];

static void keep_warning(void *user, rf_log_level level, const char *message)
{
    (void)user;
    (void)level;
    snprintf(warned, sizeof(warned), "%s", message);
}

static int refuse_unlink(void *user, const char *path)
{
    (void)user;
    (void)path;
    errno = EBUSY;
    return -1;
}

/* A file that stays although it should go is named with the reason. */
TEST(cannot_remove)
{
    training t;
    rf_checkpoint_manager *m;
    if (!training_begin(&t)) SKIP("no device");
    rf_file_ops stubborn = rf_system_file_ops;
    stubborn.unlink = refuse_unlink;
    const rf_checkpoint_manager_params params = { .directory = folder, .prefix = "stay", .max_to_keep = 2 };
    OK(rf_checkpoint_manager_create(t.checkpoint, &params, &m));
    for (uint64_t i = 1; i < 3; i++) OK(rf_checkpoint_manager_save(m, i));
    t.checkpoint->ops = &stubborn;
    rf_log_set(keep_warning, NULL, RF_LOG_WARN);
    OK(rf_checkpoint_manager_save(m, 3));
    rf_log_set(NULL, NULL, RF_LOG_WARN);
    t.checkpoint->ops = NULL;
    assert_non_null(strstr(warned, "cannot remove '"));
    assert_non_null(strstr(warned, "stay-1.rfck' (Device or resource busy)"));
    rf_checkpoint_manager_destroy(&m);
    training_end(&t);
}

/* A manager whose checkpoint is gone says so. */
TEST(outlives_its_checkpoint)
{
    training t;
    rf_checkpoint_manager *m;
    if (!training_begin(&t)) SKIP("no device");
    OK(open_background_manager(&t, "orphan", &m));
    OK(rf_checkpoint_manager_save(m, 1));
    rf_checkpoint_destroy(&t.checkpoint);
    FAILS(rf_checkpoint_manager_save(m, 2), RF_ERROR_INVALID_ARGUMENT, "the checkpoint has been destroyed");
    FAILS(rf_checkpoint_manager_restore(m, NULL, NULL), RF_ERROR_INVALID_ARGUMENT, "the checkpoint has been destroyed");
    rf_checkpoint_manager_destroy(&m);
    assert_false(is_locked(".orphan-.rfck.lock"));
    assert_int_equal(access(in_folder("orphan-1.rfck"), F_OK), 0);
    training_end(&t);
}

/* ---- callbacks of fit ---- */

static rf_result fit_with(rf_callback *callback)
{
    rf_strategy *strategy = open_devices("llvmpipe");
    rf_model *model = run_model(strategy, 4);
    rf_optimizer *optimizer;
    rf_dataset *data = run_dataset(RUN_BATCH);
    OK(rf_optimizer_create(strategy, &(rf_optimizer_params){ .kind = RF_OPTIMIZER_SGD }, &optimizer));
    OK(rf_model_compile(
        model, &(rf_compile_params){ .optimizer = optimizer,
                                     .loss = { RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, true, RF_REDUCTION_AUTO } }));
    const rf_fit_params params = { .data = data, .epochs = 1, .callbacks = &callback, .num_callbacks = 1 };
    const rf_result r = rf_model_fit(model, &params, NULL);
    rf_callback_destroy(&callback);
    rf_dataset_destroy(&data);
    rf_model_destroy(&model);
    rf_optimizer_destroy(&optimizer);
    rf_strategy_destroy(&strategy);
    return r;
}

static rf_callback *backup_callback(void)
{
    rf_callback *callback;
    OK(rf_callback_backup_and_restore(&(rf_backup_params){ .directory = folder }, &callback));
    return callback;
}

static rf_callback *model_callback(void)
{
    char path[128];
    rf_callback *callback;
    snprintf(path, sizeof(path), "%s/model_{epoch}", folder);
    OK(rf_callback_model_checkpoint(&(rf_model_checkpoint_params){ .path = path }, &callback));
    return callback;
}

TEST(fits)
{
    training t;
    if (!training_begin(&t)) SKIP("no device");
    const pid_t other = start_other("backup");
    assert_refused(fit_with(backup_callback()), other);
    kill_holder(other);
    char *latest;
    OK(rf_checkpoint_latest(folder, "backup", &latest)); /* nothing of the other's was removed */
    rf_string_free(latest);
    training_end(&t);
    /* A series of models: the other process is one that holds the lock as fit would. */
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        rf_directory_lock lock = RF_DIRECTORY_LOCK_NONE;
        if (rf_directory_lock_take(&lock, folder, "model_{epoch}.rfck") < 0) _exit(1);
        for (;;) pause();
    }
    while (access(in_folder(".model_{epoch}.rfck.lock"), F_OK) != 0)
        (void)nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    assert_refused(fit_with(model_callback()), process);
    kill_holder(process);
    OK(fit_with(model_callback()));
    assert_int_equal(access(in_folder("model_1.rfck"), F_OK), 0);
    assert_int_not_equal(access(in_folder(".model_{epoch}.rfck.lock"), F_OK), 0);
}

/* ---- the lock itself ---- */

TEST(unlockable)
{
    if (geteuid() != 0) SKIP("only root can become a user without permission");
    rf_directory_lock lock = RF_DIRECTORY_LOCK_NONE;
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(seteuid(65534), 0);
    OK(rf_directory_lock_take(&lock, folder, "name"));
    assert_true(lock.fd < 0);
    /* Once it may write there, it has a lock to take. */
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(chmod(folder, 01777), 0);
    assert_int_equal(seteuid(65534), 0);
    OK(rf_directory_lock_take(&lock, folder, "name"));
    assert_int_equal(seteuid(0), 0);
    assert_true(lock.fd >= 0);
    assert_true(is_locked(".name.lock"));
    rf_directory_lock_release(&lock);
    assert_int_equal(chmod(folder, 0755), 0);
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static void assert_text(const char *path, const char *text)
{
    char found[400] = "";
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    (void)!fread(found, 1, sizeof(found) - 1, f);
    fclose(f);
    assert_string_equal(found, text);
}

static rf_result take_as(uid_t user, const char *name, rf_directory_lock *lock)
{
    *lock = RF_DIRECTORY_LOCK_NONE;
    assert_int_equal(seteuid(user), 0);
    const rf_result r = rf_directory_lock_take(lock, folder, name);
    assert_int_equal(seteuid(0), 0);
    return r;
}

/* Whatever has the lock's name is left as it is, and so is what it leads to. */
TEST(is_no_lock)
{
    enum { LINK, DANGLING, PIPE, FOLDER, TEXT, NUM_KINDS };
    char path[400], precious[400];
    snprintf(path, sizeof(path), "%s", in_folder(".odd.lock"));
    snprintf(precious, sizeof(precious), "%s", in_folder("precious"));
    for (int kind = 0; kind < NUM_KINDS; kind++) {
        rf_directory_lock lock = RF_DIRECTORY_LOCK_NONE;
        write_file(precious, "weights\n");
        if (kind == LINK) assert_int_equal(symlink("precious", path), 0);
        if (kind == DANGLING) assert_int_equal(symlink("nothing", path), 0);
        if (kind == PIPE) assert_int_equal(mkfifo(path, 0666), 0);
        if (kind == FOLDER) assert_int_equal(mkdir(path, 0777), 0);
        if (kind == TEXT) write_file(path, "my notes\n");
        FAILS(rf_directory_lock_take(&lock, folder, "odd"), RF_ERROR_INVALID_ARGUMENT, ".odd.lock' is no lock");
        rf_directory_lock_release(&lock);
        assert_text(precious, "weights\n");
        if (kind == TEXT) assert_text(path, "my notes\n");
        assert_int_not_equal(access(in_folder("nothing"), F_OK), 0);
        assert_int_equal(remove(path), 0);
    }
    /* A second name of a file takes nothing from the first. */
    rf_directory_lock lock = RF_DIRECTORY_LOCK_NONE;
    write_file(precious, "");
    assert_int_equal(link(precious, path), 0);
    OK(rf_directory_lock_take(&lock, folder, "odd"));
    assert_true(lock.fd >= 0);
    assert_text(precious, "");
    rf_directory_lock_release(&lock);
    assert_int_equal(remove(precious), 0);
}

/* A training of root's, with a umask that leaves nothing to others. */
static void hold_privately(int ready, const char *name)
{
    rf_directory_lock lock = RF_DIRECTORY_LOCK_NONE;
    umask(077);
    if (rf_directory_lock_take(&lock, folder, name) < 0 || write(ready, "!", 1) != 1) _exit(1);
    for (;;) pause();
}

/* Users who share a directory exclude each other, and what one of them left does not end that. */
TEST(another_user)
{
    enum { NOBODY = 65534 };
    static const char left[] = "00000000-1 process 1 on elsewhere, since 2020\n";
    if (geteuid() != 0) SKIP("only root can become another user");
    rf_directory_lock lock;
    struct stat status;
    char path[400];
    snprintf(path, sizeof(path), "%s", in_folder(".shared.lock"));
    assert_int_equal(chmod(folder, 01777), 0);
    const pid_t other = start_holder(hold_privately, "shared");
    assert_refused(take_as(NOBODY, "shared", &lock), other);
    rf_directory_lock_release(&lock);
    kill_holder(other);
    OK(take_as(NOBODY, "shared", &lock)); /* the file of the one that was killed is still there */
    assert_true(lock.fd >= 0);
    rf_directory_lock_release(&lock);
    (void)remove(path);
    /* One that others may only read is looked at, and replaced where the directory allows. */
    for (int sticky = 0; sticky < 2; sticky++) {
        assert_int_equal(chmod(folder, sticky ? 01777 : 0777), 0);
        write_file(path, left);
        assert_int_equal(chmod(path, 0644), 0);
        const rf_result r = take_as(NOBODY, "shared", &lock);
        if (sticky) {
            FAILS(r, RF_ERROR_INVALID_ARGUMENT, "of user 0 was left behind and cannot be removed");
            assert_non_null(strstr(rf_error_message(), path));
            assert_text(path, left);
        } else {
            OK(r);
            assert_true(lock.fd >= 0);
            assert_int_equal(stat(path, &status), 0);
            assert_int_equal(status.st_uid, NOBODY);
        }
        rf_directory_lock_release(&lock);
        (void)remove(path);
    }
    assert_int_equal(chmod(folder, 0755), 0);
}

TEST_PROGRAM(checkpoint_lock)
{
    if (argc == 4 && strcmp(argv[1], "hold") == 0) return hold(argv[2], argv[3]);
    return room_tests_run(own_tests, make_folder, remove_folder);
}
