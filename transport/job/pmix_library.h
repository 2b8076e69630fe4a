/* SPDX-License-Identifier: Apache-2.0 */
/* PMIx, opened when a launcher's variables announce a server. Only pmix*.c include this: it needs PMIx's headers.
 */
#ifndef RF_TRANSPORT_JOB_PMIX_LIBRARY_H
#define RF_TRANSPORT_JOB_PMIX_LIBRARY_H

#include <pmix.h>

#include <ringfire/common.h>

/* The functions in use, by their names without "PMIx_". PMIx's macros are of no use: they call the library. */
typedef struct rf_pmix_library {
    pmix_status_t (*Init)(pmix_proc_t *me, pmix_info_t *info, size_t count);
    pmix_status_t (*Finalize)(const pmix_info_t *info, size_t count);
    pmix_status_t (*Get)(const pmix_proc_t *proc, const char *key, const pmix_info_t *info, size_t count,
                         pmix_value_t **value);
    pmix_status_t (*Put)(pmix_scope_t scope, const char *key, pmix_value_t *value); /* copies the value */
    pmix_status_t (*Commit)(void);
    pmix_status_t (*Fence_nb)(const pmix_proc_t *procs, size_t num_procs, const pmix_info_t *info, size_t count,
                              pmix_op_cbfunc_t done, void *user);
    const char *(*Error_string)(pmix_status_t status);
} rf_pmix_library;

/* Opens the library, which then stays open: it has threads of its own. RF_ERROR_UNSUPPORTED: not installed. */
rf_result rf_pmix_open(rf_pmix_library *out);

#endif
