/* SPDX-License-Identifier: Apache-2.0 */
/* The reader's side. */
#include <ringfire/status.h>

#include <string.h>

#include "base/memory.h"
#include "base/params.h"
#include "transport/status/place.h"

#define DEFAULT_TIMEOUT 5

/* Where, and with which settings; `who` names it in messages. */
static rf_result find_job(const rf_status_params *p, rf_status_place *place, rf_job *job, char **who)
{
    if (p->directory) {
        char *path = rf_status_file(p->directory);
        if (!path) return RF_ERROR_OUT_OF_HOST_MEMORY;
        rf_result r = rf_status_file_read(path, place, job->key);
        job->secure = r >= 0;
        if (r == RF_ERROR_NOT_FOUND)
            r = RF_FAIL(r,
                        "there is no '%s': no job runs there, or it was started without RINGFIRE_STATUS=%s in its "
                        "environment",
                        path, p->directory);
        *who = path;
        return r;
    }
    RF_REQUIRE(rf_status_parse(p->address, place) && place->port > 0, "'%s' is no host:port", p->address);
    *who = rf_strdup(p->address);
    if (!*who) return RF_ERROR_OUT_OF_HOST_MEMORY;
    return rf_job_resolve_key(&(rf_comm_params){ .key_file = p->key_file, .insecure = p->insecure }, NULL, NULL, job);
}

/* One try: who looks at a job does not wait for one to begin. */
static rf_result connect_reader(const rf_status_params *p, const rf_status_place *place, rf_job *job, const char *who,
                                uint64_t timeout_ns, rf_channel **out)
{
    rf_hello hello;
    rf_status_settings(job, &hello);
    const rf_result r = rf_channel_connect_now(job, place->host, place->port, &hello, timeout_ns, out);
    if (r == RF_ERROR_PEER_LOST)
        return rf_error_context(RF_FAIL(RF_ERROR_NOT_FOUND, "%s", rf_error_message()),
                                p->directory ? "the job of '%s' has ended, or was killed"
                                             : "no job answers at %s; it may have ended, or runs without "
                                               "RINGFIRE_STATUS",
                                who);
    if (r == RF_ERROR_INVALID_ARGUMENT && !p->directory)
        return rf_error_context(r,
                                "%s: the reader needs the job's key file; 'ringfire run' makes keys that nobody "
                                "else has: set RINGFIRE_STATUS to a directory there",
                                who);
    return rf_error_context(r, "%s", who);
}

static rf_result receive_text(rf_channel *channel, uint64_t timeout_ns, char **json)
{
    uint16_t type;
    const void *body;
    size_t size;
    RF_TRY(rf_channel_receive(channel, &type, &body, &size, timeout_ns));
    if (type != RF_STATUS_MESSAGE) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "message %u is no status", type);
    *json = rf_calloc(1, size + 1);
    if (!*json) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(*json, body, size);
    return RF_OK;
}

static rf_result status_read(const rf_status_params *p, rf_job *job, char **who, char **json)
{
    const uint64_t timeout_ns = (uint64_t)((p->timeout > 0 ? p->timeout : DEFAULT_TIMEOUT) * 1e9);
    rf_status_place place;
    rf_channel *channel = NULL;
    RF_TRY(find_job(p, &place, job, who));
    RF_TRY(connect_reader(p, &place, job, *who, timeout_ns, &channel));
    const rf_result r = rf_error_context(receive_text(channel, timeout_ns, json), "%s", *who);
    rf_channel_destroy(&channel);
    return r;
}

RF_API rf_result rf_status_read(const rf_status_params *params, char **json)
{
    RF_REQUIRE(json, "rf_status_read: json is NULL");
    *json = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_status_params, params));
    RF_REQUIRE(params && (params->address != NULL) != (params->directory != NULL),
               "rf_status_read: give address or directory, one of them");
    RF_REFUSE_ZERO(params->timeout, "rf_status_read: timeout", "every wait needs time; 0 stands for 5 s");
    RF_REQUIRE(params->timeout >= 0 && params->timeout <= 1e6, "rf_status_read: timeout is %g s; it may be up to 10^6",
               params->timeout);
    rf_job job = { 0 };
    char *who = NULL;
    const rf_result r = status_read(params, &job, &who, json);
    rf_job_forget(&job);
    rf_free(who);
    return r;
}
