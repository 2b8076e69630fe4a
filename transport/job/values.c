/* SPDX-License-Identifier: Apache-2.0 */
/* Values of variables that describe a job. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/job/sources.h"

static bool parse_number(const char *text, uint64_t max, uint64_t *out)
{
    uint64_t value = 0;
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9') return false;
        const uint64_t digit = (uint64_t)(*p - '0');
        if (value > (UINT64_MAX - digit) / 10) return false;
        value = 10 * value + digit;
    }
    *out = value;
    return text[0] != '\0' && value <= max;
}

rf_result rf_job_number(const rf_job_env *env, const char *name, uint64_t max, uint64_t *out, bool *found)
{
    const char *text = rf_job_get(env, name);
    if (found) *found = text != NULL;
    if (!text) return RF_OK;
    RF_REQUIRE(parse_number(text, max, out), "%s is '%.40s', not a number of 0 to %llu", name, text,
               (unsigned long long)max);
    return RF_OK;
}

rf_result rf_job_flag(const rf_job_env *env, const char *name, bool *out)
{
    const char *text = rf_job_get(env, name);
    if (!text) return RF_OK;
    RF_REQUIRE((text[0] == '0' || text[0] == '1') && text[1] == '\0', "%s is '%.40s'; set it to 0 or 1", name, text);
    *out = text[0] == '1';
    return RF_OK;
}

rf_result rf_job_seconds(const rf_job_env *env, const char *name, double *out)
{
    const char *text = rf_job_get(env, name);
    if (!text) return RF_OK;
    char *end = NULL;
    const double value = rf_number_parse(text, &end);
    RF_REQUIRE(*end == '\0' && isfinite(value) && value > 0, "%s is '%.40s', not a number of seconds above 0", name,
               text);
    *out = value;
    return RF_OK;
}

rf_result rf_job_copy_host(const char *what, const char *text, char host[RF_JOB_TEXT])
{
    const size_t length = strlen(text);
    RF_REQUIRE(length > 0, "%s: the host name is empty", what);
    RF_REQUIRE(length < RF_JOB_TEXT, "%s: the host name has %zu characters, more than %d", what, length,
               RF_JOB_TEXT - 1);
    for (size_t i = 0; i < length; i++)
        RF_REQUIRE((unsigned char)text[i] > ' ' && (unsigned char)text[i] < 127 && !strchr("/[],;\"'", text[i]),
                   "%s: '%.80s' is not a host name or address", what, text);
    memcpy(host, text, length + 1);
    return RF_OK;
}

rf_result rf_job_parse_address(const char *what, const char *text, char host[RF_JOB_TEXT], uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    RF_REQUIRE(colon, "%s: '%.80s' has no port; write host:port", what, text);
    const char *begin = text, *end = colon;
    if (text[0] == '[') {
        RF_REQUIRE(colon > text + 1 && colon[-1] == ']', "%s: '%.80s' is not [address]:port", what, text);
        begin++;
        end--;
    } else {
        RF_REQUIRE(!memchr(text, ':', (size_t)(colon - text)),
                   "%s: '%.80s' has several colons; write an IPv6 address as "
                   "[address]:port",
                   what, text);
    }
    uint64_t number = 0;
    RF_REQUIRE(parse_number(colon + 1, 65535, &number) && number > 0,
               "%s: the port of '%.80s' is not a number of 1 to 65535", what, text);
    char copy[RF_JOB_TEXT];
    RF_REQUIRE((size_t)(end - begin) < sizeof(copy), "%s: the host name has more than %d characters", what,
               RF_JOB_TEXT - 1);
    memcpy(copy, begin, (size_t)(end - begin));
    copy[end - begin] = '\0';
    RF_TRY(rf_job_copy_host(what, copy, host));
    *port = (uint16_t)number;
    return RF_OK;
}

rf_result rf_job_rank_and_size(const rf_job_env *env, const char *rank_name, const char *size_name, rf_job *job,
                               bool *found)
{
    uint64_t rank = 0, size = 0;
    bool has_size = false;
    RF_TRY(rf_job_number(env, rank_name, UINT32_MAX, &rank, found));
    if (!*found) return RF_OK;
    RF_TRY(rf_job_number(env, size_name, UINT32_MAX, &size, &has_size));
    RF_REQUIRE(has_size, "%s is set but %s is not; set both or neither", rank_name, size_name);
    RF_REQUIRE(size >= 1 && size <= RF_MAX_WORLD, "%s is %llu; a job has 1 to %d workers", size_name,
               (unsigned long long)size, RF_MAX_WORLD);
    RF_REQUIRE(rank < size, "%s is %llu but %s is %llu; ranks are numbered from 0 to %llu", rank_name,
               (unsigned long long)rank, size_name, (unsigned long long)size, (unsigned long long)size - 1);
    job->rank = (uint32_t)rank;
    job->world_size = (uint32_t)size;
    return RF_OK;
}

rf_result rf_job_check_local(const char *rank_name, const char *size_name, uint64_t rank, uint64_t size, rf_job *job)
{
    RF_REQUIRE(size >= 1 && size <= job->world_size, "%s is %llu in a job of %u workers", size_name,
               (unsigned long long)size, job->world_size);
    RF_REQUIRE(rank < size, "%s is %llu but %s is %llu; local ranks are numbered from 0 to %llu", rank_name,
               (unsigned long long)rank, size_name, (unsigned long long)size, (unsigned long long)size - 1);
    job->local_rank = (uint32_t)rank;
    job->local_size = (uint32_t)size;
    return RF_OK;
}

rf_result rf_job_local(const rf_job_env *env, const char *rank_name, const char *size_name, rf_job *job)
{
    uint64_t rank = 0, size = 0;
    bool has_rank = false, has_size = false;
    RF_TRY(rf_job_number(env, rank_name, UINT32_MAX, &rank, &has_rank));
    RF_TRY(rf_job_number(env, size_name, UINT32_MAX, &size, &has_size));
    return has_rank && has_size ? rf_job_check_local(rank_name, size_name, rank, size, job) : RF_OK;
}

static uint32_t hash_names(const char *name, const char *part)
{
    uint32_t hash = 2166136261u; /* FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/ */
    const char *const texts[] = { name, "/", part };
    for (int i = 0; i < 3; i++)
        for (const char *p = texts[i]; *p; p++) hash = (hash ^ (unsigned char)*p) * 16777619u;
    return hash;
}

uint16_t rf_job_derived_port(const char *name, const char *part)
{
    return (uint16_t)(20000 + hash_names(name, part) % 12768);
}

void rf_job_name_run(rf_job *job, const char *launcher, const char *run)
{
    char name[sizeof(job->name)];
    if (!run) return;
    /* The hash covers all of a long name, of which only the beginning is shown. */
    snprintf(name, sizeof(name), "%.27s.%.9s-%08x", job->name, launcher, hash_names(job->name, run));
    memcpy(job->name, name, sizeof(name));
}

void rf_job_loopback_master(rf_job *job, uint16_t port)
{
    snprintf(job->master_address, sizeof(job->master_address), "127.0.0.1");
    job->master_port = port;
}

rf_result rf_job_torch_master(const rf_job_env *env, rf_job *job)
{
    const char *address = rf_job_get(env, "MASTER_ADDR");
    uint64_t port = 0;
    bool has_port = false;
    RF_TRY(rf_job_number(env, "MASTER_PORT", 65535, &port, &has_port));
    RF_REQUIRE(address, "WORLD_SIZE is %u but MASTER_ADDR is not set; set it to the host of rank 0", job->world_size);
    RF_REQUIRE(has_port, "WORLD_SIZE is %u but MASTER_PORT is not set; set it to a free port of %s", job->world_size,
               address);
    RF_REQUIRE(port > 0, "MASTER_PORT is 0; set it to a free port of %s", address);
    RF_TRY(rf_job_copy_host("MASTER_ADDR", address, job->master_address));
    job->master_port = (uint16_t)port;
    return RF_OK;
}

rf_result rf_job_exported_master(const rf_job_env *env, rf_job *job)
{
    if (!rf_job_needs_master(job) || !rf_job_get(env, "MASTER_ADDR") || !rf_job_get(env, "MASTER_PORT")) return RF_OK;
    return rf_job_torch_master(env, job);
}
