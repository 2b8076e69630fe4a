/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of a SPIR-V module, as far as it is compared with a description. The reader is not a validator: it
 * does not look at the bodies of functions. */
#ifndef RF_TRACE_SPIRV_H
#define RF_TRACE_SPIRV_H

#include <stddef.h>

#include <ringfire/common.h>

enum { RF_SPIRV_MAX_BINDINGS = 16, RF_SPIRV_MAX_CAPABILITIES = 32 };

typedef struct rf_spirv_binding {
    bool present, readonly; /* readonly: wherever the module declares it */
} rf_spirv_binding;

typedef struct rf_spirv_info {
    uint32_t version; /* 0x00MMmm00 */
    uint32_t capabilities[RF_SPIRV_MAX_CAPABILITIES], num_capabilities;
    uint32_t local_size[3]; /* where constants set it: their defaults */
    uint32_t size_ids;      /* bit k: specialization constant k is dimension k of the workgroup */
    uint32_t constant_ids;  /* bit k: there is a specialization constant k */
    rf_spirv_binding bindings[RF_SPIRV_MAX_BINDINGS];
    uint64_t push_size;   /* bytes of the push-constant block; 0: none */
    uint64_t shared_size; /* bytes of shared memory, at least; arrays of specialized length count by their default */
    bool loops;           /* somewhere a function loops */
} rf_spirv_info;

/* Reads a module of `size` bytes, aligned to 4. Messages begin with `name`. RF_ERROR_INVALID_ARGUMENT where it is no
 * module, or one that no op may have. */
rf_result rf_spirv_read(const char *name, const uint32_t *words, size_t size, rf_spirv_info *out);

#endif
