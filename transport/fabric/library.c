/* SPDX-License-Identifier: Apache-2.0 */
/* libfabric, opened when the first job needs it: programs without other workers neither wait for it and its
 * dependencies nor suffer what those libraries do to a process. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transport/fabric/internal.h"

#define LIBRARY_NAME "libfabric.so.1"

rf_libfabric rf_fi;

/* Libraries for Intel's and QLogic's networks, on which distributions' libfabric depends, install signal handlers when
 * they are loaded. These print a backtrace and call exit(): Ctrl-C and crashes end with status 1, and a SIGTERM that
 * comes while libfabric starts waits for ever for a lock that the interrupted thread holds. */
static bool is_foreign(const struct sigaction *action)
{
    void *handler = NULL;
    Dl_info owner;
    memcpy(&handler, &action->sa_handler, sizeof(handler)); /* ISO C has no cast from functions */
    if (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN || !dladdr(handler, &owner) || !owner.dli_fname)
        return false;
    return strstr(owner.dli_fname, "libinfinipath") || strstr(owner.dli_fname, "libpsm");
}

static const int signals[] = { SIGSEGV, SIGBUS, SIGILL, SIGABRT, SIGFPE, SIGINT, SIGTERM };
enum { NUM_SIGNALS = sizeof(signals) / sizeof(signals[0]) };

static void remember_handlers(struct sigaction before[NUM_SIGNALS])
{
    for (size_t i = 0; i < NUM_SIGNALS; i++) sigaction(signals[i], NULL, &before[i]);
}

/* Handlers that such libraries installed make way for those that were there; handlers of anybody else stay. */
static void drop_foreign_handlers(const struct sigaction before[NUM_SIGNALS])
{
    for (size_t i = 0; i < NUM_SIGNALS; i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) != 0 || !is_foreign(&now)) continue;
        /* A program that links libfabric itself had them all along. */
        if (is_foreign(&before[i]))
            signal(signals[i], SIG_DFL);
        else
            sigaction(signals[i], &before[i], NULL);
    }
}

/* Unversioned look-ups: libfabric's structures only ever grow at their end, and it allocates those that are passed in.
 * The calls through its tables have no versions either. */
static rf_result find_functions(void *library, rf_libfabric *fi)
{
    const char *missing = NULL;
#define FIND(member)                                                                                                   \
    *(void **)&fi->member = dlsym(library, "fi_" #member);                                                             \
    if (!fi->member) missing = "fi_" #member;
    FIND(getinfo)
    FIND(dupinfo)
    FIND(freeinfo)
    FIND(fabric)
    FIND(strerror)
#undef FIND
    if (missing) return RF_FAIL(RF_ERROR_UNSUPPORTED, LIBRARY_NAME " has no %s; reinstall libfabric1", missing);
    return RF_OK;
}

static rf_result open_library(void)
{
    /* libfabric's watch over malloc and munmap costs more than it saves us, and it patches functions of the process. */
    setenv("FI_MR_CACHE_MONITOR", "disabled", 0);
    struct sigaction before[NUM_SIGNALS];
    remember_handlers(before);
    void *library = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL);
    drop_foreign_handlers(before);
    if (!library) {
        const char *why = dlerror();
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "jobs of several workers need libfabric: %s; install libfabric1 (libfabric)",
                       why ? why : LIBRARY_NAME);
    }
    rf_libfabric fi = { 0 };
    const rf_result r = find_functions(library, &fi);
    if (r < 0)
        dlclose(library);
    else
        rf_fi = fi; /* stays open: it has threads and handlers at exit of its own */
    return r;
}

rf_result rf_libfabric_open(void)
{
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&mutex);
    const rf_result r = rf_fi.getinfo ? RF_OK : open_library();
    pthread_mutex_unlock(&mutex);
    return r;
}
