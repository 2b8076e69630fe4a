/* SPDX-License-Identifier: Apache-2.0 */
/* PMIx is opened, not linked: a program that no PMIx launcher started needs neither it nor what it depends on. */
#include <dlfcn.h>

#include "base/error.h"
#include "transport/job/pmix_library.h"

#define LIBRARY_NAME "libpmix.so.2" /* of PMIx 3, 4 and 5, which understand each other's structures */

#define DO_WITHOUT "or set RINGFIRE_MASTER, RINGFIRE_RANK and RINGFIRE_WORLD_SIZE to do without it"

rf_result rf_pmix_open(rf_pmix_library *out)
{
    void *library = dlopen(LIBRARY_NAME, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *why = dlerror();
        return RF_FAIL(RF_ERROR_UNSUPPORTED,
                       "PMIX_RANK is set but PMIx is not there: %s; install libpmix2 (openpmix), " DO_WITHOUT,
                       why ? why : LIBRARY_NAME);
    }
    const char *missing = NULL;
#define FIND(member)                                                                                                   \
    *(void **)&out->member = dlsym(library, "PMIx_" #member);                                                          \
    if (!out->member) missing = "PMIx_" #member;
    FIND(Init)
    FIND(Finalize)
    FIND(Get)
    FIND(Put)
    FIND(Commit)
    FIND(Fence_nb)
    FIND(Error_string)
#undef FIND
    if (!missing) return RF_OK;
    dlclose(library);
    return RF_FAIL(RF_ERROR_UNSUPPORTED, LIBRARY_NAME " has no %s; reinstall libpmix2 (openpmix), " DO_WITHOUT,
                   missing);
}
