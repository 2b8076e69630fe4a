/* SPDX-License-Identifier: Apache-2.0 */
/* Where a process of a job listens for the others, as a decision without sockets. */
#ifndef RF_TRANSPORT_JOB_LISTEN_H
#define RF_TRANSPORT_JOB_LISTEN_H

#include "transport/job/job.h"

#define RF_ALL_ADDRESSES "::" /* those of IPv4, too */

typedef struct rf_listen_plan {
    char address[RF_JOB_TEXT]; /* numeric, or what the user named; RF_ALL_ADDRESSES */
    char instead[RF_JOB_TEXT]; /* one address, where another program has the port on some of all; "": none */
    bool exposed;              /* all addresses, without a key that protects them */
    bool told_loopback;        /* other hosts may have been told otherwise: they cannot come */
} rf_listen_plan;

/*
 * `told` is what the job's description calls this process, `only` its one address on this host where that is known
 * (rf_job_only_address(), or that of a connection), else "". In this order:
 * an address that the user gave (RINGFIRE_BIND) is what counts; who was told loopback stays there; the key protects all
 * addresses of a job that has one; without a key it is the one address, or all where no single one is known to do.
 */
void rf_job_plan_listen(const rf_job *job, const char *told, const char *only, rf_listen_plan *out);

/* The numeric address that a name means, where it is one of this host's, and no other and no loopback is meant too;
 * else "". */
void rf_job_only_address(const char *name, char only[RF_JOB_TEXT]);

/* Whether a name stands for loopback on every host: localhost and the like, not a host's own name, which may mean
 * loopback in its own hosts file. */
bool rf_job_names_loopback(const char *name);

/* For messages: the address, or that it is all of them. */
const char *rf_listen_text(const char *address);

/* Whether the launcher says that all workers are on this host. */
static inline bool rf_job_is_one_host(const rf_job *job)
{
    return job->local_size > 0 && job->local_size == job->world_size;
}

#endif
