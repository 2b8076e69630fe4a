/* SPDX-License-Identifier: Apache-2.0 */
/* The status of a job: its text, and who may read it. */
#include <ringfire/status.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "../support/expect.h"
#include "../support/folder.h"
#include "../support/port.h"
#include "base/platform.h"
#include "channel_support.h"
#include "tests/room.h"
#include "transport/status/board.h"
#include "transport/status/place.h"

/* ---- pure ---- */

TEST(test_pace)
{
    uint64_t before[2] = { 100, 50 }, after[2] = { 400, 150 };
    double shares[2];
    rf_status_pace pace = { .shares = shares };
    const rf_status_sample from = { 10, 5, before }, to = { 12, 25, after };
    rf_status_pace_between(&from, &to, 2, &pace);
    assert_true(pace.steps_per_second == 10 && pace.examples_per_second == 200);
    assert_true(shares[0] == 0.75 && shares[1] == 0.25);
    /* Nothing happened, and no time has passed. */
    rf_status_pace_between(&to, &to, 2, &pace);
    assert_true(pace.steps_per_second == 0 && pace.examples_per_second == 0);
    assert_true(shares[0] == 400 / 550.0 && shares[1] == 150 / 550.0);
    /* Nor ever. */
    memset(after, 0, sizeof(after));
    rf_status_pace_between(&to, &to, 2, &pace);
    assert_true(shares[0] == 0 && shares[1] == 0);
}

TEST(test_remaining)
{
    rf_status_progress p = { .known = true, .epoch = 1, .num_epochs = 3, .batch = 10, .batches_per_epoch = 40 };
    assert_true(rf_status_remaining(&p, 2) == 35);
    assert_true(rf_status_remaining(&p, 0) < 0);
    p.batch = 1000; /* more than were announced */
    p.epoch = 2;
    assert_true(rf_status_remaining(&p, 2) == 0);
    p.batches_per_epoch = 0;
    assert_true(rf_status_remaining(&p, 2) < 0);
}

TEST(test_places)
{
    static const struct {
        const char *text, *host;
        uint16_t port;
    } cases[] = {
        { "7070", "127.0.0.1", 7070 }, { ":7070", "127.0.0.1", 7070 },
        { "node1:80", "node1", 80 },   { "[fd00::3]:80", "fd00::3", 80 },
        { "logs", NULL, 0 },           { "./7070", NULL, 0 },
        { "/tmp/a:80", NULL, 0 },      { "node1:99999", NULL, 0 },
        { "node1:80x", NULL, 0 },      { "0.0.0.0:7070", "0.0.0.0", 7070 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        rf_status_place place;
        assert_int_equal(rf_status_parse(cases[i].text, &place), cases[i].host != NULL);
        if (!cases[i].host) continue;
        assert_string_equal(place.host, cases[i].host);
        assert_int_equal(place.port, cases[i].port);
    }
}

/* ---- a board ---- */

typedef struct room {
    char folder[SCRATCH_PATH], key[64];
    rf_status_worker workers[2];
    rf_status_replica replicas[3];
    rf_status_members members;
} room;

static void room_begin(room *r)
{
    memset(r, 0, sizeof(*r));
    scratch(r->folder);
    snprintf(r->key, sizeof(r->key), "%s/job.key", r->folder);
    OK(rf_key_file_create(r->key));
    strcpy(r->workers[1].address, "10.0.0.2");
    strcpy(r->replicas[0].device, "card \xff"); /* no UTF-8 */
    r->replicas[2].rank = 1;
    r->members = (rf_status_members){ 2, 3, r->workers, r->replicas };
}

static json_t *read_status(const rf_status_params *from)
{
    char *text;
    OK(rf_status_read(from, &text));
    json_t *status = json_loads(text, 0, NULL);
    assert_non_null(status);
    rf_string_free(text);
    return status;
}

/* In a directory: a file that nobody else can read, which goes with the job. */
TEST(test_directory)
{
    room r;
    rf_status_board *board;
    char path[128], *text;
    struct stat file;
    room_begin(&r);
    const rf_status_params from = { .directory = r.folder };
    FAILS(rf_status_read(&from, &text), RF_ERROR_NOT_FOUND, "without RINGFIRE_STATUS=");
    OK(rf_status_board_create(r.folder, NULL, &r.members, &board));
    snprintf(path, sizeof(path), "%s/" RF_STATUS_FILE, r.folder);
    assert_int_equal(stat(path, &file), 0);
    assert_int_equal(file.st_mode & 0777, 0600);
    json_t *status = read_status(&from);
    assert_true(json_is_null(json_object_get(status, "progress")));
    assert_int_equal(json_array_size(json_object_get(status, "replicas")), 3);
    json_decref(status);
    assert_int_equal(chmod(path, 0644), 0);
    FAILS(rf_status_read(&from, &text), RF_ERROR_INVALID_ARGUMENT, "others can read");
    assert_int_equal(chmod(path, 0600), 0);
    /* A killed job leaves its file. */
    char kept[160];
    snprintf(kept, sizeof(kept), "%s/kept", r.folder);
    assert_int_equal(link(path, kept), 0);
    rf_status_board_destroy(&board);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(rename(kept, path), 0);
    FAILS(rf_status_read(&from, &text), RF_ERROR_NOT_FOUND, "has ended, or was killed");
    scratch_remove(r.folder);
}

/* Readers get what the training writes. */
TEST(test_contents)
{
    room r;
    rf_status_board *board;
    room_begin(&r);
    OK(rf_status_board_create(r.folder, NULL, &r.members, &board));
    rf_status_progress p = { .epoch = 1, .num_epochs = 4, .batches_per_epoch = 100, .num_values = 2 };
    strcpy(p.values[0].name, "val_loss");
    p.values[0].value = NAN;
    strcpy(p.values[1].name, "loss");
    p.values[1].value = 0.5;
    rf_status_board_progress(board, &p);
    for (int i = 0; i < 10; i++) rf_status_board_step(board, (const uint32_t[]){ 6, 3, 1 });
    rf_status_board_checkpoint(board, "run/ckpt-1");
    rf_log_message(RF_LOG_WARN, "mind %d", 7); /* with no sink at all */
    const rf_status_params from = { .directory = r.folder };
    json_t *status = read_status(&from);
    const char *device, *checkpoint, *warning, *address;
    double share, loss, rate;
    int steps, examples, batch, count;
    json_t *val_loss;
    assert_int_equal(json_unpack(status,
                                 "{s:i,s:i,s:F,s:[{},{s:s}],s:[{s:s,s:F},{},{}],s:{s:i,s:{s:F,s:o}},s:{s:s},"
                                 "s:{s:i,s:[s]}}",
                                 "steps", &steps, "examples", &examples, "examples_per_second", &rate, "workers",
                                 "address", &address, "replicas", "device", &device, "share", &share, "progress",
                                 "batch", &batch, "values", "loss", &loss, "val_loss", &val_loss, "checkpoint", "path",
                                 &checkpoint, "warnings", "count", &count, "latest", &warning),
                     0);
    assert_int_equal(steps, 10);
    assert_int_equal(examples, 100);
    assert_true(rate > 0);
    assert_string_equal(address, "10.0.0.2");
    assert_string_equal(device, "card ?");
    assert_true(share == 0.6);
    assert_int_equal(batch, 10); /* steps since the progress was told */
    assert_true(loss == 0.5 && json_is_null(val_loss));
    assert_string_equal(checkpoint, "run/ckpt-1");
    assert_int_equal(count, 1);
    assert_string_equal(warning, "mind 7");
    json_decref(status);
    /* Values that are not named again stay. */
    p.num_values = 0;
    rf_status_board_progress(board, &p);
    status = read_status(&from);
    assert_int_equal(json_object_size(json_object_get(json_object_get(status, "progress"), "values")), 2);
    json_decref(status);
    rf_status_board_destroy(&board);
    scratch_remove(r.folder);
}

/* An address is open to whoever has the job's key, and to nobody else. */
TEST(test_keys)
{
    room r;
    rf_status_board *board, *second;
    char place[32], other[64], *text;
    room_begin(&r);
    snprintf(place, sizeof(place), "127.0.0.1:%u", free_port());
    snprintf(other, sizeof(other), "%s/other.key", r.folder);
    OK(rf_key_file_create(other));
    const rf_comm_params job = { .key_file = r.key };
    const rf_status_params right = { .address = place, .key_file = r.key };
    FAILS(rf_status_read(&right, &text), RF_ERROR_NOT_FOUND, "no job answers at 127.0.0.1");
    OK(rf_status_board_create(place, &job, &r.members, &board));
    json_decref(read_status(&right));
    const rf_status_params wrong = { .address = place, .key_file = other };
    FAILS(rf_status_read(&wrong, &text), RF_ERROR_INVALID_ARGUMENT, "the reader needs the job's key file");
    assert_null(text);
    const rf_status_params none = { .address = place, .insecure = true };
    FAILS(rf_status_read(&none, &text), RF_ERROR_INVALID_ARGUMENT, "has a job key");
    const rf_status_params missing = { .address = place, .key_file = "/nonexistent" };
    FAILS(rf_status_read(&missing, &text), RF_ERROR_NOT_FOUND, "ringfire keygen");
    FAILS(rf_status_board_create(place, &job, &r.members, &second), RF_ERROR_IO, "RINGFIRE_STATUS '127.0.0.1");
    json_decref(read_status(&right)); /* after all of them */
    rf_status_board_destroy(&board);
    FAILS(rf_status_board_create("127.0.0.1:0", &job, &r.members, &second), RF_ERROR_INVALID_ARGUMENT, "port 0");
    scratch_remove(r.folder);
}

/* Strangers delay no reader, and not the end of the job. A worker of the job is no reader, and the other way round. */
TEST(test_strangers)
{
    enum { SILENT = 20 };
    room r;
    rf_status_board *board;
    rf_channel *channel;
    char address[32];
    int fds[SILENT];
    const uint16_t port = free_port();
    room_begin(&r);
    snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    const rf_comm_params params = { .key_file = r.key };
    OK(rf_status_board_create(address, &params, &r.members, &board));
    for (int i = 0; i < SILENT; i++) fds[i] = raw_connect(port, 1);
    json_decref(read_status(&(rf_status_params){ .address = address, .key_file = r.key, .timeout = 1 }));
    rf_job job = test_job(ENCRYPTED), reader;
    rf_hello hello = test_hello(3, 4);
    OK(rf_key_read(r.key, job.key));
    FAILS(rf_channel_connect_now(&job, "127.0.0.1", port, &hello, SECOND, &channel), RF_ERROR_INVALID_ARGUMENT,
          "rejected this worker");
    rf_listener *listener = test_listener(&job);
    reader = job;
    rf_status_settings(&reader, &hello);
    FAILS(rf_channel_connect_now(&reader, "127.0.0.1", rf_listener_port(listener), &hello, SECOND, &channel),
          RF_ERROR_INVALID_ARGUMENT, "rejected this worker");
    rf_listener_destroy(&listener);
    const uint64_t before = rf_now_ns();
    rf_status_board_destroy(&board);
    assert_true(rf_now_ns() - before < SECOND / 4);
    for (int i = 0; i < SILENT; i++) close(fds[i]);
    scratch_remove(r.folder);
}

TESTS(status, NULL, NULL)
