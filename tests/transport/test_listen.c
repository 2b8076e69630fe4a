/* SPDX-License-Identifier: Apache-2.0 */
/* Where the processes of a job listen, and where they are told to meet. */
#include <stdio.h>
#include <string.h>

#include "tests/room.h"
#include "transport/job/host.h"
#include "transport/job/listen.h"
#include "transport/job/sources.h"

/* Where a process listens, from what it was told, its one address here, and the job. */
TEST(test_listen)
{
    enum { INSECURE_JOB, SECURE_JOB, ONE_HOST };
    static const struct {
        int job;
        const char *bind, *told, *only, *address, *instead;
        bool exposed, told_loopback;
    } cases[] = {
        { SECURE_JOB, "", "node1", "", "::", "", false, false },
        { SECURE_JOB, "", "node1", "10.0.0.1", "::", "10.0.0.1", false, false },
        { SECURE_JOB, "", "10.0.0.1", "10.0.0.1", "::", "10.0.0.1", false, false },
        { SECURE_JOB, "", "localhost", "", "127.0.0.1", "", false, true },
        { SECURE_JOB, "", "LocalHost", "", "127.0.0.1", "", false, true },
        { SECURE_JOB, "", "ip6-localhost", "", "::1", "", false, true },
        { SECURE_JOB, "", "127.0.1.1", "", "127.0.1.1", "", false, true },
        { SECURE_JOB, "", "::1", "", "::1", "", false, true },
        { SECURE_JOB, "", "localhost", "::1", "::1", "", false, true },
        { SECURE_JOB, "", "localhost", "10.0.0.1", "127.0.0.1", "", false, true },
        { SECURE_JOB, "0.0.0.0", "node1", "10.0.0.1", "0.0.0.0", "", false, false },
        { SECURE_JOB, "10.0.0.7", "localhost", "", "10.0.0.7", "", false, false },
        { INSECURE_JOB, "", "node1", "10.0.0.1", "10.0.0.1", "", false, false },
        { INSECURE_JOB, "", "node1", "", "::", "", true, false },
        { INSECURE_JOB, "", "localhost", "", "127.0.0.1", "", false, true },
        { INSECURE_JOB, "::", "node1", "10.0.0.1", "::", "", false, false },
        { ONE_HOST, "", "127.0.0.1", "", "127.0.0.1", "", false, false },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_job job = { .world_size = 4, .secure = cases[i].job != INSECURE_JOB };
        if (cases[i].job == ONE_HOST) job.local_size = 4;
        snprintf(job.bind_address, sizeof(job.bind_address), "%s", cases[i].bind);
        rf_listen_plan plan;
        rf_job_plan_listen(&job, cases[i].told, cases[i].only, &plan);
        if (strcmp(plan.address, cases[i].address) != 0) print_error("case %zu: %s\n", i, plan.address);
        assert_string_equal(plan.address, cases[i].address);
        assert_string_equal(plan.instead, cases[i].instead);
        assert_int_equal(plan.exposed, cases[i].exposed);
        assert_int_equal(plan.told_loopback, cases[i].told_loopback);
    }
    char only[RF_JOB_TEXT];
    static const char *const not_one[] = { "127.0.0.1", "localhost", "203.0.113.9", "no.such.host.invalid", "::1" };
    for (size_t i = 0; i < sizeof(not_one) / sizeof(not_one[0]); i++) {
        rf_job_only_address(not_one[i], only);
        assert_string_equal(only, "");
    }
}

TEST(test_kinds_of_addresses)
{
    static const char *const wildcards[] = { "0.0.0.0", "::", "0", "0:0:0:0:0:0:0:0", "::0", "::ffff:0.0.0.0" };
    static const char *const loopbacks[] = { "127.0.0.1", "127.1.2.3", "::1", "0:0::1", "::ffff:127.0.0.1" };
    static const char *const others[] = { "10.0.0.1", "fd00::1", "localhost", "node1", "", "::ffff:10.0.0.1" };
    for (size_t i = 0; i < sizeof(wildcards) / sizeof(wildcards[0]); i++) assert_true(rf_is_wildcard(wildcards[i]));
    for (size_t i = 0; i < sizeof(loopbacks) / sizeof(loopbacks[0]); i++) {
        assert_true(rf_is_loopback(loopbacks[i]));
        assert_false(rf_is_wildcard(loopbacks[i]));
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        assert_false(rf_is_wildcard(others[i]) || rf_is_loopback(others[i]));
}

/* Where the workers are told to meet may be improved by what is known of this host. */
TEST(test_settle_master)
{
    static const struct {
        uint32_t local_size;
        const char *bind, *told, *expected;
    } cases[] = {
        { 0, "", "node1", "node1" },
        { 2, "", "node1", "127.0.0.1" }, /* all are here */
        { 1, "", "node1", "node1" },
        { 2, "", "127.0.0.3", "127.0.0.3" },
        { 2, "10.0.0.7", "node1", "node1" },
        { 1, "10.0.0.7", "127.0.0.1", "10.0.0.7" }, /* rank 0 was told to listen there */
        { 1, "10.0.0.7", "localhost", "10.0.0.7" },
        { 1, "0.0.0.0", "127.0.0.1", "127.0.0.1" },
        { 0, "::", "localhost", "localhost" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_job job = { .world_size = 2, .local_size = cases[i].local_size, .master_port = 5 };
        snprintf(job.bind_address, sizeof(job.bind_address), "%s", cases[i].bind);
        snprintf(job.master_address, sizeof(job.master_address), "%s", cases[i].told);
        rf_job_settle_master(&job);
        if (strcmp(job.master_address, cases[i].expected) != 0) print_error("case %zu\n", i);
        assert_string_equal(job.master_address, cases[i].expected);
        assert_int_equal(job.master_port, 5);
    }
}

TESTS(listen, NULL, NULL)
