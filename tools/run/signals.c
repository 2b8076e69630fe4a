/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that `ringfire run` passes on to the workers. */
#include <signal.h>
#include <stddef.h>

#include "run/run.h"

static volatile sig_atomic_t pending[_NSIG];
static sigset_t unblocked;
static const int passed_on[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 };
enum { NUM_PASSED_ON = sizeof(passed_on) / sizeof(passed_on[0]) };

static void on_signal(int number)
{
    pending[number] = 1;
}

int run_take_signal(void)
{
    for (int i = 0; i < NUM_PASSED_ON; i++) {
        if (!pending[passed_on[i]]) continue;
        pending[passed_on[i]] = 0;
        return passed_on[i];
    }
    return 0;
}

const sigset_t *run_unblocked(void)
{
    return &unblocked;
}

void run_catch_signals(void)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    for (int i = 0; i < NUM_PASSED_ON; i++) sigaddset(&blocked, passed_on[i]);
    sigprocmask(SIG_BLOCK, &blocked, &unblocked);
    for (int i = 0; i < NUM_PASSED_ON; i++) {
        struct sigaction old;
        sigdelset(&unblocked, passed_on[i]);
        if (sigaction(passed_on[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN) continue; /* nohup */
        sigaction(passed_on[i], &(struct sigaction){ .sa_handler = on_signal }, NULL);
    }
    signal(SIGPIPE, SIG_IGN);
}
