/* SPDX-License-Identifier: Apache-2.0 */
/* Event files: what is written comes back; damage is noticed; a file that grows is followed; threads do not mix. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <ringfire/events.h>

#include "../support/clock.h"
#include "../support/folder.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/record.h"
#include "tests/room.h"

static char folder[SCRATCH_PATH];

static rf_event_writer *create(void)
{
    rf_event_writer *w = NULL;
    assert_int_equal(rf_event_writer_create(&(rf_event_writer_params){ .directory = folder }, &w), RF_OK);
    return w;
}

static rf_event_reader *open_file(const char *path)
{
    rf_event_reader *r = NULL;
    assert_int_equal(rf_event_reader_open(path, &r), RF_OK);
    return r;
}

static void expect(rf_event_reader *r, rf_event_kind kind, const char *tag, int64_t step, rf_event *out)
{
    assert_int_equal(rf_event_reader_next(r, out), RF_OK);
    assert_int_equal(out->kind, kind);
    assert_string_equal(out->tag, tag);
    assert_int_equal(out->step, step);
}

TEST(test_round_trip)
{
    rf_event_writer *w = create();
    char *path = strdup(rf_event_writer_path(w));
    float values[] = { 1, 2, 3, 4 };
    unsigned char pixels[2 * 2 * 2 * 4] = { 1 };
    const rf_event_node node = { .name = "n", .op = "Const" };
    assert_int_equal(rf_event_writer_scalar(w, "a", 5, 0.25), RF_OK);
    assert_int_equal(rf_event_writer_histogram(w, "b", 6, values, 4), RF_OK);
    assert_int_equal(rf_event_writer_text(w, "c", 7, "text"), RF_OK);
    assert_int_equal(rf_event_writer_image(w, "d", 8, &(rf_array){ RF_U8, RF_SHAPE(2, 2, 2, 4), pixels }), RF_OK);
    assert_int_equal(rf_event_writer_graph(w, &node, 1), RF_OK);
    rf_event_writer_destroy(&w);
    assert_null(w);
    rf_event_reader *r = open_file(path);
    rf_event e;
    expect(r, RF_EVENT_VERSION, "", 0, &e);
    assert_string_equal(e.text, "brain.Event:2");
    expect(r, RF_EVENT_SCALAR, "a", 5, &e);
    assert_true(e.scalar == 0.25);
    expect(r, RF_EVENT_HISTOGRAM, "b", 6, &e);
    assert_int_equal(e.num_buckets, 30);
    assert_true(e.buckets[0] == 1 && e.buckets[2] == 1 && e.buckets[3 * 29 + 1] == 4 && e.buckets[3 * 29 + 2] == 1);
    expect(r, RF_EVENT_TEXT, "c", 7, &e);
    assert_string_equal(e.text, "text");
    for (int i = 0; i < 2; i++) {
        expect(r, RF_EVENT_IMAGE, "d", 8, &e);
        assert_true(e.size > 8 && memcmp(e.bytes, "\x89PNG", 4) == 0);
    }
    expect(r, RF_EVENT_GRAPH, "", 0, &e);
    assert_true(e.size > 0);
    assert_int_equal(rf_event_reader_next(r, &e), RF_END);
    assert_int_equal(rf_event_reader_next(r, &e), RF_END);
    rf_event_reader_close(&r);
    free(path);
}

/* A reader follows a file that grows, also when it sees half a record. */
TEST(test_growing)
{
    rf_event_writer *w = create();
    rf_event_reader *r = open_file(rf_event_writer_path(w));
    rf_event e;
    expect(r, RF_EVENT_VERSION, "", 0, &e);
    assert_int_equal(rf_event_reader_next(r, &e), RF_END);
    assert_int_equal(rf_event_writer_scalar(w, "a", 1, 1), RF_OK);
    assert_int_equal(rf_event_reader_next(r, &e), RF_END);
    assert_int_equal(rf_event_writer_flush(w), RF_OK);
    expect(r, RF_EVENT_SCALAR, "a", 1, &e);
    rf_event_reader_close(&r);
    void *data;
    size_t size;
    assert_int_equal(rf_file_read(rf_event_writer_path(w), 0, &data, &size), RF_OK);
    char path[64];
    snprintf(path, sizeof(path), "%s/part", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    r = open_file(path);
    uint32_t found = 0;
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(write(fd, (char *)data + i, 1), 1);
        const rf_result result = rf_event_reader_next(r, &e);
        assert_true(result == RF_OK || result == RF_END);
        found += result == RF_OK;
    }
    assert_int_equal(found, 2);
    close(fd);
    rf_free(data);
    rf_event_reader_close(&r);
    rf_event_writer_destroy(&w);
}

/* Every flipped bit is noticed, or hides the rest as if the file ended there (a longer length does). */
TEST(test_damage)
{
    rf_event_writer *w = create();
    assert_int_equal(rf_event_writer_scalar(w, "a", 1, 1), RF_OK);
    assert_int_equal(rf_event_writer_flush(w), RF_OK);
    void *data;
    size_t size;
    assert_int_equal(rf_file_read(rf_event_writer_path(w), 0, &data, &size), RF_OK);
    char path[64];
    snprintf(path, sizeof(path), "%s/part", folder);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        ((unsigned char *)data)[bit / 8] ^= (unsigned char)(1 << bit % 8);
        const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        assert_int_equal(write(fd, data, size), (ssize_t)size);
        close(fd);
        rf_event_reader *r = open_file(path);
        rf_event e;
        rf_result result;
        while ((result = rf_event_reader_next(r, &e)) == RF_OK) continue;
        assert_int_equal(result, RF_ERROR_CORRUPT_DATA);
        assert_non_null(strstr(rf_error_message(), path));
        rf_event_reader_close(&r);
        ((unsigned char *)data)[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    rf_free(data);
    rf_event_writer_destroy(&w);
}

static rf_result read_record(const void *body, size_t size)
{
    char path[64];
    unsigned char head[RF_RECORD_HEAD], tail[4];
    snprintf(path, sizeof(path), "%s/part", folder);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    rf_record_put(head, size, 8);
    rf_record_put(head + 8, rf_record_checksum(head, 8), 4);
    rf_record_put(tail, rf_record_checksum(body, size), 4);
    assert_int_equal(write(fd, head, sizeof(head)), sizeof(head));
    assert_int_equal(write(fd, body, size), (ssize_t)size);
    assert_int_equal(write(fd, tail, 4), 4);
    close(fd);
    rf_event_reader *r = open_file(path);
    rf_event e;
    rf_result result;
    while ((result = rf_event_reader_next(r, &e)) == RF_OK) continue;
    rf_event_reader_close(&r);
    return result;
}

/* Right checksums, wrong contents. */
TEST(test_hostile)
{
    assert_int_equal(read_record("", 0), RF_END);
    assert_int_equal(read_record("\xff\xff\xff", 3), RF_ERROR_CORRUPT_DATA);
    assert_int_equal(read_record("\x2a\x7f", 2), RF_ERROR_CORRUPT_DATA); /* a summary longer than the record */
    /* A summary of a million empty values: two bytes in the file, a hundred in memory. */
    const uint32_t count = 1000000;
    unsigned char *many = calloc(1, 2 * count + 6);
    assert_non_null(many);
    many[0] = 0x2a;
    for (uint32_t i = 0, n = 2 * count; i < 4; i++, n >>= 7)
        many[1 + i] = (unsigned char)((n & 127) | (i < 3 ? 128 : 0));
    for (uint32_t i = 0; i < count; i++) many[5 + 2 * i] = 0x0a;
    assert_int_equal(read_record(many, 2 * count + 5), RF_ERROR_CORRUPT_DATA);
    assert_non_null(strstr(rf_error_message(), "memory"));
    free(many);
    /* A length that the file does not have costs nothing. */
    char path[64];
    unsigned char head[RF_RECORD_HEAD];
    snprintf(path, sizeof(path), "%s/part", folder);
    rf_record_put(head, 200u << 20, 8);
    rf_record_put(head + 8, rf_record_checksum(head, 8), 4);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(write(fd, head, sizeof(head)), sizeof(head));
    close(fd);
    rf_event_reader *r = open_file(path);
    rf_event e;
    assert_int_equal(rf_event_reader_next(r, &e), RF_END);
    rf_event_reader_close(&r);
}

static void *write_many(void *writer)
{
    char tag[32];
    snprintf(tag, sizeof(tag), "t%lx", (unsigned long)pthread_self());
    for (int i = 0; i < 2000; i++)
        if (rf_event_writer_scalar(writer, tag, i, i) != RF_OK) return writer;
    return NULL;
}

TEST(test_threads)
{
    rf_event_writer *w = create();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, write_many, w), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(rf_event_writer_flush(w), RF_OK);
    rf_event_reader *r = open_file(rf_event_writer_path(w));
    rf_event e;
    uint32_t count = 0;
    expect(r, RF_EVENT_VERSION, "", 0, &e);
    while (rf_event_reader_next(r, &e) == RF_OK) {
        assert_true(e.kind == RF_EVENT_SCALAR && e.scalar == (double)e.step);
        count++;
    }
    assert_int_equal(count, 8000);
    rf_event_reader_close(&r);
    rf_event_writer_destroy(&w);
}

/* The price that a step may pay for a value; far above what it takes, so that a busy machine does no harm. */
TEST(test_cost)
{
    rf_event_writer *w = create();
    const uint64_t begin = rf_now_ns();
    for (int i = 0; i < 100000; i++) assert_int_equal(rf_event_writer_scalar(w, "batch_loss", i, i), RF_OK);
    const double each = (double)(rf_now_ns() - begin) / 100000;
    print_message("%.0f ns for a scalar\n", each);
    assert_true(each < 20000 * slowness());
    rf_event_writer_destroy(&w);
}

static void refused(rf_result r, const char *function, const char *name)
{
    assert_int_equal(r, RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), function));
    assert_non_null(strstr(rf_error_message(), name));
    assert_non_null(strstr(rf_error_message(), "not UTF-8"));
}

TEST(test_arguments)
{
    rf_event_writer *w = NULL;
    rf_event_reader *r = NULL;
    rf_event e;
    char file[64];
    snprintf(file, sizeof(file), "%s/part", folder);
    assert_int_equal(rf_event_writer_create(NULL, &w), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_event_writer_create(&(rf_event_writer_params){ .directory = "/proc/none" }, &w), RF_ERROR_IO);
    assert_int_equal(rf_event_writer_create(&(rf_event_writer_params){ .directory = file }, &w), RF_ERROR_IO);
    assert_null(w);
    assert_int_equal(rf_event_reader_open("/nonexistent", &r), RF_ERROR_NOT_FOUND);
    assert_int_equal(rf_event_reader_open("/tmp", &r), RF_ERROR_IO);
    assert_null(r);
    assert_int_equal(rf_event_reader_next(NULL, &e), RF_ERROR_INVALID_ARGUMENT);
    w = create();
    assert_int_equal(rf_event_writer_scalar(w, "", 0, 0), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_event_writer_image(w, "x", 0, &(rf_array){ RF_I32, RF_SHAPE(1, 1, 1), file }),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_event_writer_image(w, "x", 0, &(rf_array){ RF_U8, RF_SHAPE(2, 2, 5), file }),
                     RF_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(rf_error_message(), "[2,2,5]"));
    assert_int_equal(rf_event_writer_graph(w, &(rf_event_node){ .op = "x" }, 1), RF_ERROR_INVALID_ARGUMENT);
    assert_int_equal(rf_event_writer_hparams(w, NULL, 0), RF_OK);
    assert_int_equal(rf_event_writer_hparams(w, NULL, 0), RF_ERROR_INVALID_ARGUMENT);
    rf_event_writer_destroy(&w);
    rf_event_writer_destroy(&w);
    rf_event_reader_close(&r);
}

/* Text that strict readers of protobuf would refuse is refused here, by its name, and leaves no trace. */
TEST(test_no_utf8)
{
    static const char *const bad[] = { "\xff", "loss/caf\xe9", "\xc0\x80", "\xed\xa0\x80", "cut \xe2\x82" };
    const char *good = "gr\xc3\xbcn \xe2\x82\xac";
    const float number = 1;
    const rf_array image = { RF_F32, RF_SHAPE(1, 1, 1), (void *)&number };
    rf_event_writer *w = create();
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *b = bad[i], *const inputs[] = { b };
        const rf_event_node nodes[] = { { .name = b, .op = "x" },
                                        { .name = "x", .op = b },
                                        { .name = "x", .op = "x", .inputs = inputs, .num_inputs = 1 } };
        refused(rf_event_writer_scalar(w, b, 0, 1), "_scalar", b);
        refused(rf_event_writer_histogram(w, b, 0, &number, 1), "_histogram", b);
        refused(rf_event_writer_image(w, b, 0, &image), "_image", b);
        refused(rf_event_writer_text(w, b, 0, "x"), "_text", b);
        refused(rf_event_writer_text(w, "note", 0, b), "_text", "note");
        refused(rf_event_writer_hparams(w, &(rf_hparam){ .name = b }, 1), "_hparams", b);
        refused(rf_event_writer_hparams(w, &(rf_hparam){ .name = "rate", .text = b }, 1), "_hparams", "rate");
        for (int k = 0; k < 3; k++) refused(rf_event_writer_graph(w, &nodes[k], 1), "_graph", b);
    }
    assert_int_equal(rf_event_writer_hparams(w, &(rf_hparam){ .name = good, .text = good }, 1),
                     RF_OK); /* once, still */
    assert_int_equal(rf_event_writer_scalar(w, good, 7, 1), RF_OK);
    assert_int_equal(rf_event_writer_flush(w), RF_OK);
    rf_event_reader *r;
    rf_event e;
    assert_int_equal(rf_event_reader_open(rf_event_writer_path(w), &r), RF_OK);
    expect(r, RF_EVENT_VERSION, "", 0, &e);
    expect(r, RF_EVENT_OTHER, "_hparams_/session_start_info", 0, &e);
    expect(r, RF_EVENT_SCALAR, good, 7, &e);
    assert_int_equal(rf_event_reader_next(r, &e), RF_END);
    rf_event_reader_close(&r);
    rf_event_writer_destroy(&w);
}

/* A full disk is told, and told again. */
TEST(test_full_disk)
{
    rf_event_writer *w = create();
    const struct rlimit small = { 4096, RLIM_INFINITY };
    struct rlimit before;
    getrlimit(RLIMIT_FSIZE, &before);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rf_result r = RF_OK;
    for (int i = 0; i < 10000 && r == RF_OK; i++) r = rf_event_writer_scalar(w, "a", i, i);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(r, RF_ERROR_IO);
    assert_non_null(strstr(rf_error_message(), "tfevents"));
    assert_int_equal(rf_event_writer_scalar(w, "a", 0, 0), RF_ERROR_IO);
    assert_int_equal(rf_event_writer_flush(w), RF_ERROR_IO);
    rf_event_writer_destroy(&w);
}

static int make_folder(void **unused)
{
    (void)unused;
    scratch(folder);
    return 0;
}

static int remove_folder(void **unused)
{
    (void)unused;
    scratch_remove(folder);
    return 0;
}

TESTS(events, make_folder, remove_folder)
