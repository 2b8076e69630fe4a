/* SPDX-License-Identifier: Apache-2.0 */
/* Archives whose tensors lie in parts: read as if they were one file, and refused when a part or the main file is not
 * what it should be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <msgpack.h>

#include "memory_files.h"
#include "persist/archive/format.h"
#include "persist/archive/reader.h"
#include "persist/archive/xxh64.h"
#include "sample.h"
#include "tests/room.h"

#define MAIN "d/main.rfck"

TEST(whole)
{
    static const struct {
        uint32_t parts;
        uint64_t extent;
    } cuts[] = { { 1, 1000000 }, { 2, 1 }, { 3, 700 }, { 5, 100000 }, { 8, 333 } };
    for (size_t k = 0; k < sizeof(cuts) / sizeof(cuts[0]); k++) {
        memory_files files = { 0 };
        const rf_file_ops ops = memory_file_ops(&files);
        sample s;
        rf_archive *a;
        sample_make(&s, k, 9000);
        assert_int_equal(sample_write_parts(&ops, MAIN, &s.contents, cuts[k].parts, cuts[k].extent), RF_OK);
        assert_int_equal(rf_archive_open_with(&ops, MAIN, &a), RF_OK);
        assert_int_equal(rf_archive_num_parts(a), cuts[k].parts);
        assert_non_null(strstr(rf_archive_part_name(a, 0), "main.rfck.part-00000-of-"));
        assert_null(rf_archive_part_name(a, cuts[k].parts));
        assert_int_equal(rf_archive_verify(a), RF_OK);
        const char *difference = sample_compare(&s, a);
        if (!difference) difference = sample_compare_ranges(&s, a);
        if (difference) fail_msg("%u parts: %s", cuts[k].parts, difference);
        rf_archive_close(&a);
        sample_free(&s);
        memory_files_free(&files);
    }
}

/* A tensor is read from the parts that have it and from no others. */
TEST(one_part)
{
    memory_files files = { 0 };
    const rf_file_ops ops = memory_file_ops(&files);
    static float numbers[3000];
    float back[1000];
    for (int i = 0; i < 3000; i++) numbers[i] = (float)i;
    const rf_archive_tensor tensors[] = { { "long", RF_F32, RF_SHAPE(3000), numbers },
                                          { "short", RF_F32, RF_SHAPE(1000), numbers } };
    rf_archive *a;
    rf_archive_entry entry;
    assert_int_equal(sample_write_parts(&ops, MAIN, &(rf_archive_contents){ "t", tensors, 2, NULL, 0 }, 3, 1000),
                     RF_OK);
    assert_int_equal(rf_archive_open_with(&ops, MAIN, &a), RF_OK);
    assert_int_equal(rf_archive_find(a, "short", &entry), RF_OK);
    const uint64_t before = files.bytes_read;
    assert_int_equal(rf_archive_read(a, "short", back, sizeof(back)), RF_OK);
    assert_int_equal(files.bytes_read - before, entry.stored_bytes);
    assert_memory_equal(back, numbers, sizeof(back));
    rf_archive_close(&a);
    memory_files_free(&files);
}

/* ---- replaced while they are opened ---- */

/* Two saves of one number, each in one part beside its main file; another program renames main files and removes parts
 * as a reader opens a part. */
typedef struct other_writer {
    rf_file_ops ops;
    uint32_t turns, most; /* how often it does so */
    bool removes;         /* instead, once and for ever */
} other_writer;
static other_writer writer;

static void save_number(const rf_file_ops *ops, const char *main, float number)
{
    const rf_archive_tensor tensor = { "number", RF_F32, RF_SHAPE(1), &number };
    assert_int_equal(sample_write_parts(ops, main, &(rf_archive_contents){ "t", &tensor, 1, NULL, 0 }, 1, 10), RF_OK);
}

static void move(const char *from, const char *to)
{
    assert_int_equal(writer.ops.rename(writer.ops.user, from, to), 0);
}

#define PART(main) main ".part-00000-of-00001-sample"
static int open_while_replaced(void *user, const char *path)
{
    if (strstr(path, ".part-") && writer.turns < writer.most) {
        const bool odd = writer.turns++ % 2;
        move(MAIN, odd ? "d/b" : "d/a");
        if (!writer.removes) move(odd ? "d/a" : "d/b", MAIN);
        move(odd ? PART("d/b") : PART("d/a"), odd ? "d/part-b" : "d/part-a"); /* gone, for the reader */
        if (!writer.removes && writer.turns > 1) move(odd ? "d/part-a" : "d/part-b", odd ? PART("d/a") : PART("d/b"));
    }
    return writer.ops.open(user, path);
}

TEST(replaced)
{
    static const struct {
        uint32_t turns;
        bool removes;
        rf_result result;
        float number;
    } cases[] = { { 0, false, RF_OK, 1 },
                  { 1, false, RF_OK, 2 },
                  { 4, false, RF_OK, 1 },
                  { 1, true, RF_ERROR_NOT_FOUND, 0 },
                  { UINT32_MAX, false, RF_ERROR_TIMEOUT, 0 } };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        memory_files files = { 0 };
        rf_archive *a;
        float number = 0;
        writer = (other_writer){ memory_file_ops(&files), 0, cases[i].turns, cases[i].removes };
        save_number(&writer.ops, "d/a", 1);
        save_number(&writer.ops, "d/b", 2);
        move("d/a", MAIN);
        rf_file_ops ops = writer.ops;
        ops.open = open_while_replaced;
        assert_int_equal(rf_archive_open_with(&ops, MAIN, &a), cases[i].result);
        if (cases[i].result == RF_OK) {
            assert_int_equal(rf_archive_read(a, "number", &number, sizeof(number)), RF_OK);
            assert_true(number == cases[i].number);
        } else {
            assert_null(a);
            assert_non_null(strstr(rf_error_message(), MAIN));
        }
        rf_archive_close(&a);
        for (int k = 0; k < MEMORY_OPEN; k++) assert_int_equal(files.open[k], 0);
        memory_files_free(&files);
    }
}

/* A part that was copied over the main file holds something, but not the checkpoint. */
TEST(part_for_the_whole)
{
    memory_files files = { 0 };
    const rf_file_ops ops = memory_file_ops(&files);
    rf_archive *a;
    save_number(&ops, MAIN, 1);
    assert_int_equal(rf_archive_open_with(&ops, PART(MAIN), &a), RF_OK); /* to look into */
    rf_archive_close(&a);
    assert_int_equal(ops.rename(ops.user, PART(MAIN), MAIN), 0);
    assert_int_equal(rf_archive_open_with(&ops, MAIN, &a), RF_ERROR_CORRUPT_DATA);
    assert_non_null(strstr(rf_error_message(), MAIN ": is a part file of a checkpoint"));
    assert_null(a);
    memory_files_free(&files);
}

/* ---- forged main files ---- */

/* A part with 10 floats "a" and 5 "b", another with 10 "a". */
static void write_honest_parts(const rf_file_ops *ops, rf_archive_identity is[2])
{
    static const float numbers[10] = { 1, 2, 3 };
    const rf_archive_tensor tensors[] = { { "a", RF_F32, RF_SHAPE(10), numbers },
                                          { "b", RF_F32, RF_SHAPE(5), numbers } };
    for (int i = 0; i < 2; i++)
        assert_int_equal(rf_archive_write_split(ops, i == 0 ? "d/p0" : "d/p1",
                                                &(rf_archive_contents){ "part", tensors, 2 - (uint64_t)i, NULL, 0 },
                                                NULL, NULL, &is[i]),
                         RF_OK);
}

/* The contents of a forgery: texts of parts, then for "a" [rows, 2] and "b" [5] the extents as pairs of numbers, -1
 * ends. */
typedef struct forgery {
    const char *what, *names[3];
    int64_t shape_a; /* rows */
    int64_t a[9], b[9];
    int change; /* 1: size of part 0, 2: its hash, 3: data between preamble and header, 4: "a" is i32, 5: no "b" */
    bool good;
} forgery;

static void pack_text(msgpack_packer *p, const char *text)
{
    msgpack_pack_str(p, strlen(text));
    msgpack_pack_str_body(p, text, strlen(text));
}

static void pack_tensor(msgpack_packer *p, const char *name, const char *dtype, int64_t rows, int64_t columns,
                        const int64_t *extents)
{
    uint32_t count = 0;
    while (extents[2 * count] >= 0) count++;
    msgpack_pack_array(p, 4);
    pack_text(p, name);
    pack_text(p, dtype);
    msgpack_pack_array(p, columns ? 2 : 1);
    msgpack_pack_int64(p, rows);
    if (columns) msgpack_pack_int64(p, columns);
    msgpack_pack_array(p, count);
    for (uint32_t i = 0; i < 2 * count; i++) {
        if (i % 2 == 0) msgpack_pack_array(p, 2);
        msgpack_pack_int64(p, extents[i]);
    }
}

static void put_main(memory_files *files, const forgery *f, const rf_archive_identity is[2])
{
    msgpack_sbuffer header;
    msgpack_packer p;
    msgpack_sbuffer_init(&header);
    msgpack_packer_init(&p, &header, msgpack_sbuffer_write);
    msgpack_pack_map(&p, 4);
    pack_text(&p, "type");
    pack_text(&p, "checkpoint");
    pack_text(&p, "values");
    msgpack_pack_map(&p, 0);
    pack_text(&p, "parts");
    uint32_t parts = 0;
    while (f->names[parts]) parts++;
    msgpack_pack_array(&p, parts);
    for (uint32_t i = 0; i < parts; i++) {
        msgpack_pack_array(&p, 3);
        pack_text(&p, f->names[i]);
        msgpack_pack_uint64(&p, is[i % 2].size + (i == 0 && f->change == 1));
        msgpack_pack_uint64(&p, is[i % 2].hash ^ (i == 0 && f->change == 2));
    }
    pack_text(&p, "tensors");
    msgpack_pack_array(&p, f->change == 5 ? 1 : 2);
    pack_tensor(&p, "a", f->change == 4 ? "i32" : "f32", f->shape_a, 2, f->a);
    if (f->change != 5) pack_tensor(&p, "b", "f32", 5, 0, f->b);
    const uint64_t gap = f->change == 3 ? 8 : 0, size = RF_ARCHIVE_PREAMBLE + gap + header.size + RF_ARCHIVE_TRAILER;
    uint8_t *file = calloc(size, 1);
    assert_non_null(file);
    const rf_archive_layout layout = { size, RF_ARCHIVE_PREAMBLE + gap, header.size,
                                       rf_xxh64(header.data, header.size) };
    rf_archive_layout_encode(&layout, RF_ARCHIVE_VERSION_PARTS, file, file + size - RF_ARCHIVE_TRAILER);
    memcpy(file + layout.header_offset, header.data, header.size);
    memory_files_put(files, MAIN, file, size);
    free(file);
    msgpack_sbuffer_destroy(&header);
}

#define GOOD .names = { "p0", "p1" }, .shape_a = 10, .a = { 0, 4, 1, 10, 0, 6, -1 }, .b = { 0, 5, -1 }
static const forgery forgeries[] = {
    { "a good one", GOOD, .good = true },
    { "the size of a part", GOOD, .change = 1 },
    { "the hash of a part", GOOD, .change = 2 },
    { "data of its own", GOOD, .change = 3 },
    { "another type", GOOD, .change = 4 },
    { "a tensor that is not listed", GOOD, .change = 5 },
    { "an extent of a part file that does not exist", .names = { "p0", "p1" }, 10, { 0, 10, 2, 10, -1 }, { 0, 5, -1 } },
    { "a huge number of a part", .names = { "p0", "p1" }, 10, { 0, 10, 1ll << 32, 10, -1 }, { 0, 5, -1 } },
    { "an empty extent", .names = { "p0", "p1" }, 10, { 0, 10, 1, 10, 0, 0, -1 }, { 0, 5, -1 } },
    { "extents that are too few", .names = { "p0", "p1" }, 10, { 0, 10, 1, 9, -1 }, { 0, 5, -1 } },
    { "extents that are too many", .names = { "p0", "p1" }, 10, { 0, 10, 1, 11, -1 }, { 0, 5, -1 } },
    { "extents that overflow", .names = { "p0", "p1" }, 10, { 0, INT64_MAX, 0, INT64_MAX, 1, 22, -1 }, { 0, 5, -1 } },
    { "less than the part has", .names = { "p0", "p1" }, 9, { 0, 9, 1, 9, -1 }, { 0, 5, -1 } },
    { "more than the part has", .names = { "p0", "p1" }, 10, { 0, 11, 1, 9, -1 }, { 0, 5, -1 } },
    { "a part that does not have it", .names = { "p0", "p1" }, 10, { 0, 10, 1, 10, -1 }, { 1, 5, -1 } },
    { "a part that is left out", .names = { "p0" }, 5, { 0, 10, -1 }, { 0, 5, -1 }, .good = true },
    { "a part that is not there", .names = { "p0", "p2" }, 10, { 0, 10, 1, 10, -1 }, { 0, 5, -1 } },
    { "a part twice", .names = { "p0", "p0" }, 10, { 0, 10, 1, 10, -1 }, { 0, 5, -1 } },
    { "parts out of order", .names = { "p1", "p0" }, 10, { 0, 10, 1, 10, -1 }, { 0, 5, -1 } },
    { "a part elsewhere", .names = { "../d/p0", "p1" }, 10, { 0, 10, 1, 10, -1 }, { 0, 5, -1 } },
    { "a part below", .names = { "d/p0", "p1" }, 10, { 0, 10, 1, 10, -1 }, { 0, 5, -1 } },
    { "an absolute part", .names = { "/d/p0", "p1" }, 10, { 0, 10, 1, 10, -1 }, { 0, 5, -1 } },
    { "a directory", .names = { "..", "p1" }, 10, { 0, 10, 1, 10, -1 }, { 0, 5, -1 } },
    { "no name", .names = { "", "p1" }, 10, { 0, 10, 1, 10, -1 }, { 0, 5, -1 } },
    { "itself", .names = { "main.rfck", "p1" }, 10, { 0, 10, 1, 10, -1 }, { 0, 5, -1 } },
};

TEST(forged)
{
    for (size_t i = 0; i < sizeof(forgeries) / sizeof(forgeries[0]); i++) {
        const forgery *f = &forgeries[i];
        memory_files files = { 0 };
        const rf_file_ops ops = memory_file_ops(&files);
        rf_archive_identity is[2];
        rf_archive *a;
        write_honest_parts(&ops, is);
        put_main(&files, f, is);
        const rf_result r = rf_archive_open_with(&ops, MAIN, &a);
        if (r != (f->good ? RF_OK : RF_ERROR_CORRUPT_DATA))
            fail_msg("%s: %s (%s)", f->what, rf_result_name(r), rf_error_message());
        if (r == RF_OK) assert_int_equal(rf_archive_verify(a), RF_OK);
        rf_archive_close(&a);
        for (int k = 0; k < MEMORY_OPEN; k++) assert_int_equal(files.open[k], 0);
        memory_files_free(&files);
    }
}

/* A part that is itself in parts, of another type or with values is none. */
TEST(no_parts)
{
    static const float numbers[20] = { 1 };
    const rf_archive_value value = { .name = "v", .kind = RF_VALUE_UINT };
    const rf_archive_tensor tensor = { "a", RF_F32, RF_SHAPE(20), numbers };
    const rf_archive_contents wrong[] = { { "part", &tensor, 1, NULL, 0 },
                                          { "checkpoint", &tensor, 1, NULL, 0 },
                                          { "part", &tensor, 1, &value, 1 } };
    for (size_t i = 0; i < 4; i++) {
        memory_files files = { 0 };
        const rf_file_ops ops = memory_file_ops(&files);
        rf_archive_part part = { .name = "x" };
        rf_archive_extent extent = { 0, 20 };
        const rf_archive_extents extents = { &extent, 1, 1 };
        rf_archive *a;
        if (i < 3)
            assert_int_equal(rf_archive_write_split(&ops, "d/x", &wrong[i], NULL, NULL, &part.is), RF_OK);
        else
            assert_int_equal(sample_write_parts(&ops, "d/x", &wrong[0], 2, 10), RF_OK);
        if (i == 3) assert_int_equal(rf_archive_identify(&ops, "d/x", &part.is), RF_OK);
        assert_int_equal(
            rf_archive_write_split(&ops, MAIN, &wrong[1], &(rf_archive_split){ &part, 1, &extents }, NULL, NULL),
            RF_OK);
        assert_int_equal(rf_archive_open_with(&ops, MAIN, &a), i == 0 ? RF_OK : RF_ERROR_CORRUPT_DATA);
        if (i > 0) assert_non_null(strstr(rf_error_message(), "not a part file of a checkpoint"));
        rf_archive_close(&a);
        memory_files_free(&files);
    }
}

/* The writer does not write what the reader would refuse. */
TEST(extents_that_are_not_all)
{
    memory_files files = { 0 };
    const rf_file_ops ops = memory_file_ops(&files);
    const rf_archive_part part = { .name = "x" };
    rf_archive_extent extent = { 0, 19 };
    const rf_archive_extents extents = { &extent, 1, 1 };
    const rf_archive_tensor tensor = { "a", RF_F32, RF_SHAPE(20), NULL };
    assert_int_equal(rf_archive_write_split(&ops, MAIN, &(rf_archive_contents){ "t", &tensor, 1, NULL, 0 },
                                            &(rf_archive_split){ &part, 1, &extents }, NULL, NULL),
                     RF_ERROR_INTERNAL);
    assert_int_equal(files.num_names, 0);
    memory_files_free(&files);
}

TESTS(archive_parts, NULL, NULL)
