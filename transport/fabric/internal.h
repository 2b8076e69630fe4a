/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RF_TRANSPORT_FABRIC_INTERNAL_H
#define RF_TRANSPORT_FABRIC_INTERNAL_H

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include "transport/fabric/fabric.h"
#include "transport/fabric/message.h"

/* libfabric's functions with symbols of their own; all others are calls through its tables. Set by rf_libfabric_open().
 */
typedef struct rf_libfabric {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags, const struct fi_info *hints,
                   struct fi_info **info);
    struct fi_info *(*dupinfo)(const struct fi_info *info); /* of NULL: an empty one */
    void (*freeinfo)(struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attributes, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int error);
} rf_libfabric;
extern rf_libfabric rf_fi;
/* Opens the library once for the process; signal handlers stay as they are. RF_ERROR_UNSUPPORTED: not installed. From
 * any thread. */
rf_result rf_libfabric_open(void);

typedef enum rf_link_state {
    RF_LINK_NONE,
    RF_LINK_WANTED,
    RF_LINK_CONNECTING,
    RF_LINK_UP,
    RF_LINK_CLOSED
} rf_link_state;

/* A pair has a connection for each direction. */
typedef enum rf_direction { RF_DIRECTION_OUT, RF_DIRECTION_IN, RF_DIRECTION_COUNT } rf_direction;

typedef struct rf_link {
    struct fid_ep *endpoint;
    rf_link_state state;
    uint64_t retry_at;
} rf_link;

struct rf_fabric {
    const rf_job *job; /* during creation */
    rf_mesh *mesh;
    uint32_t rank, world_size, depth;
    bool register_memory;
    rf_shared *shared;
    struct pollfd *sleepers;                /* room for what rf_fabric_wait() waits for */
    char provider[RF_FABRIC_PROVIDER_NAME]; /* "": none is open */
    char means[RF_FABRIC_PROVIDER_NAME + 16];
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_eq *events;
    struct fid_cq *completions;
    struct fid_pep *listener;
    int wait_fd, wake_fd;
    uint64_t next_key;
    rf_link *links[RF_DIRECTION_COUNT]; /* [world_size] each */
    rf_fabric_card *cards;              /* [world_size] */
};

/* The provider that all ranks have, the first in rank 0's order of preference, into fabric->info. */
rf_result rf_fabric_choose(rf_fabric *fabric);
/* The token that rank `from` shows to rank `to`, one of which is this one. */
void rf_fabric_make_token(const rf_fabric *fabric, uint32_t from, uint32_t to, rf_fabric_token *out);
/* The rank that may connect with these bytes, or UINT32_MAX: none that is expected. */
uint32_t rf_fabric_check_token(const rf_fabric *fabric, const void *data, size_t size);
/* Connects with every link that is WANTED. */
rf_result rf_fabric_connect(rf_fabric *fabric, uint64_t deadline);

#define RF_FAIL_FABRIC(result, code, ...) RF_FAIL_NATIVE(result, "libfabric", code, __VA_ARGS__)

#endif
