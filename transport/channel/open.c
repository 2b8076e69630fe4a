/* SPDX-License-Identifier: Apache-2.0 */
/* The listener of a process that its job's description names. */
#include <errno.h>
#include <string.h>

#include "base/platform.h"
#include "transport/channel/channel.h"

/* A way out of a failure to listen, for the user. */
static const char *find_advice(void)
{
    rf_error_info info;
    rf_error_get(&info);
    if (info.native_code == EADDRINUSE) return " (another program listens on that port; choose another one)";
    if (info.native_code == EADDRNOTAVAIL || info.result == RF_ERROR_NOT_FOUND)
        return " (RINGFIRE_BIND names an address of this host)";
    return "";
}

rf_result rf_listener_open(const rf_job *job, const char *told, uint16_t port, const rf_hello *mine, const char *who,
                           rf_listener **out, rf_listen_plan *plan)
{
    char only[RF_JOB_TEXT];
    rf_job_only_address(told, only);
    rf_job_plan_listen(job, told, only, plan);
    rf_result r = rf_listener_create(job, plan->address, port, mine, out);
    if (r < 0 && plan->instead[0]) {
        rf_error_record record;
        rf_error_save(&record);
        r = rf_listener_create(job, plan->instead, port, mine, out);
        if (r < 0) rf_error_restore(&record);
        if (r == RF_OK) memcpy(plan->address, plan->instead, sizeof(plan->address));
    }
    if (r < 0) return rf_error_context(r, "%s cannot listen for the others at %s:%u%s", who, told, port, find_advice());
    rf_log_message(plan->exposed ? RF_LOG_WARN : RF_LOG_INFO, "%s listens for the others at %s port %u%s", who,
                   rf_listen_text(plan->address), port,
                   plan->exposed ? ": without a job key, whoever reaches it may join; RINGFIRE_BIND names one address"
                                 : "");
    return RF_OK;
}
