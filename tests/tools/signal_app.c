/* SPDX-License-Identifier: Apache-2.0 */
/* An application that links the library. `signal_app job`: takes part in a job, and its signals are handled as before.
 * `signal_app ready`: uses the library in one process, says so, and waits to be ended. `signal_app abort`: calls
 * abort(). */
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ringfire/ringfire.h>

static const int signals[] = { SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGFPE };
enum { NUM_SIGNALS = sizeof(signals) / sizeof(signals[0]) };

static void on_interrupt(int number)
{
    (void)number;
}

static int check_unhandled(const char *when)
{
    for (int i = 0; i < NUM_SIGNALS; i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL) continue;
        Dl_info owner = { 0 };
        void *handler;
        memcpy(&handler, &now.sa_handler, sizeof(handler));
        dladdr(handler, &owner);
        fprintf(stderr, "%s: signal %d is handled by %s\n", when, signals[i], owner.dli_fname ? owner.dli_fname : "?");
        return -1;
    }
    return 0;
}

static int take_part_in_job(void)
{
    if (check_unhandled("at start") < 0) return EXIT_FAILURE;
    signal(SIGINT, on_interrupt); /* the application's own stays, too */
    rf_comm *comm = NULL;
    float sum = 1;
    rf_result r = rf_comm_create(NULL, &comm);
    if (r == RF_OK) r = rf_comm_all_reduce(comm, &sum, &sum, 1, RF_F32, RF_COMM_SUM, NULL);
    if (r < 0) {
        fprintf(stderr, "signal_app: %s\n", rf_error_message());
        return EXIT_FAILURE;
    }
    rf_comm_destroy(&comm);
    struct sigaction now;
    sigaction(SIGINT, NULL, &now);
    if (now.sa_handler != on_interrupt) {
        fprintf(stderr, "SIGINT is no longer the application's\n");
        return EXIT_FAILURE;
    }
    signal(SIGINT, SIG_DFL);
    if (check_unhandled("after the job") < 0) return EXIT_FAILURE;
    printf("sum %g\n", (double)sum);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "job") == 0) return take_part_in_job();
    rf_comm *comm = NULL;
    if (rf_comm_create(&(rf_comm_params){ .world_size = 1 }, &comm) < 0) {
        fprintf(stderr, "signal_app: %s\n", rf_error_message());
        return EXIT_FAILURE;
    }
    if (strcmp(what, "abort") == 0) abort();
    printf("ready\n");
    fflush(stdout);
    for (;;) pause();
}
