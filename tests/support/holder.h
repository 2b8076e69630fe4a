/* SPDX-License-Identifier: Apache-2.0 */
/* Another process that holds what the test wants, until it is killed. Include after <cmocka.h>. */
#ifndef RF_TESTS_SUPPORT_HOLDER_H
#define RF_TESTS_SUPPORT_HOLDER_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs `hold` in a child. It writes a byte to `ready` when it holds the thing, and does not return unless it fails; the
 * parent waits for the byte. */
static inline pid_t start_holder(void (*hold)(int ready, const char *what), const char *what)
{
    int ends[2];
    char said;
    assert_int_equal(pipe(ends), 0);
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* also where the test fails */
        close(ends[0]);
        hold(ends[1], what);
        _exit(1);
    }
    close(ends[1]);
    const ssize_t n = read(ends[0], &said, 1);
    close(ends[0]);
    assert_int_equal(n, 1);
    return process;
}

static inline void kill_holder(pid_t process)
{
    assert_int_equal(kill(process, SIGKILL), 0);
    assert_int_equal(waitpid(process, NULL, 0), process);
}

#endif
