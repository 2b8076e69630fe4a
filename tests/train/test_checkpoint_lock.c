/* SPDX-License-Identifier: Apache-2.0 */
/* Two trainings do not write checkpoints of one name into one directory; whoever is killed leaves no lock behind.
 * Usage: test_checkpoint_lock [hold DIRECTORY PREFIX], which is the other training. */
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "persist/directory_lock.h"
#include "test_folder.h"

#include "../support/holder.h"

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
    execl("/proc/self/exe", "test_checkpoint_lock", "hold", folder, prefix, (char *)NULL);
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

static void another_process(void **state)
{
    (void)state;
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
static void waited_for(void **state)
{
    (void)state;
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
static void several_of_one_process(void **state)
{
    (void)state;
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

static void fits(void **state)
{
    (void)state;
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

static void unlockable(void **state)
{
    (void)state;
    if (geteuid() != 0) SKIP("only root can become somebody who may not");
    rf_directory_lock lock = RF_DIRECTORY_LOCK_NONE;
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(seteuid(65534), 0);
    const rf_result r = rf_directory_lock_take(&lock, folder, "name");
    assert_int_equal(seteuid(0), 0);
    OK(r);
    assert_true(lock.fd < 0 && lock.unlocked);
    rf_directory_lock_release(&lock);
}

int main(int argc, char **argv)
{
    if (argc == 4 && strcmp(argv[1], "hold") == 0) return hold(argv[2], argv[3]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_process),
        cmocka_unit_test(waited_for),
        cmocka_unit_test(several_of_one_process),
        cmocka_unit_test(fits),
        cmocka_unit_test(unlockable),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
