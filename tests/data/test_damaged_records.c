/* SPDX-License-Identifier: Apache-2.0 */
/* TFRecord files with every kind of damage: it is noticed and named, and nothing is allocated for what is not there. */
#include "data/formats/record_file.h"
#include "records.h"
#include "tests/room.h"

/* Opens and reads all of a file: how many records come before the failure that is returned. */
static rf_result read_whole(const char *path, int *records)
{
    rf_dataset *d;
    rf_iterator *it;
    const rf_element *e;
    *records = 0;
    GO(open_path(path, &id, &d));
    OK(rf_iterator_create(d, 0, &it));
    rf_result r;
    while ((r = rf_iterator_next(it, &e)) == RF_OK) {
        assert_int_equal(*(const int32_t *)e->component[0].data, *records);
        ++*records;
    }
    rf_error_record kept;
    rf_error_save(&kept);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&d);
    return r < 0 ? rf_error_restore(&kept) : r;
}

/* Whichever byte is damaged, it is noticed: no record comes that is not one of the file's. */
TEST(test_damaged_bytes)
{
    for (int form = 0; form < FORMS; form++) {
        char name[64];
        size_t size;
        snprintf(name, sizeof(name), "part1.tfrecord%s", endings[form]);
        uint8_t *bytes = load(name, &size);
        int harmless = 0;                                    /* bits of codes that deflate has defined and not used */
        for (size_t i = form == 1 ? 10 : 0; i < size; i++) { /* gzip's header holds times and systems, unchecked */
            int32_t n;
            int records;
            rf_dataset *d;
            bytes[i] ^= 0x10;
            const char *path = store("damaged", bytes, size);
            bytes[i] ^= 0x10;
            rf_result r = open_path(path, &id, &d);
            rf_iterator *it = NULL;
            const rf_element *e;
            if (r == RF_OK) OK(rf_iterator_create(d, 0, &it));
            for (records = 0; r == RF_OK; records++) {
                r = rf_iterator_next(it, &e);
                if (r != RF_OK) break;
                n = *(const int32_t *)e->component[0].data;
                assert_int_equal(n, FIRST_PART + records);
            }
            if (form > 0 && r == RF_END && records == SECOND_PART)
                harmless++;
            else if (r != RF_ERROR_CORRUPT_DATA)
                fail_msg("%s: byte %zu: %s", name, i, r < 0 ? rf_error_message() : "nothing was noticed");
            else
                assert_non_null(strstr(rf_error_message(), "damaged: "));
            rf_iterator_destroy(&it);
            rf_dataset_destroy(&d);
        }
        assert_in_range(harmless, 0, 4);
    }
}

TEST(test_truncated_files)
{
    for (int form = 0; form < FORMS; form++) {
        char name[64];
        size_t size;
        snprintf(name, sizeof(name), "part0.tfrecord%s", endings[form]);
        const uint8_t *bytes = load(name, &size);
        size_t end = 0; /* of a record of the plain file */
        int whole = 0, records;
        for (size_t most = 0; most < size; most++) {
            const char *path = store("truncated", bytes, most);
            if (form == 0 && most == end + RF_RECORD_HEAD + RF_RECORD_TAIL + rf_record_get(bytes + end, 8)) {
                end = most;
                whole++;
            }
            if (most == 0 || (form == 0 && most == end)) { /* a file of fewer records */
                assert_int_equal(read_whole(path, &records), RF_END);
                assert_int_equal(records, whole);
                continue;
            }
            FAILS(read_whole(path, &records), RF_ERROR_CORRUPT_DATA,
                  form && most < 2 ? "truncated: record 0: the file ends within it" : "copy it again");
            assert_int_equal(records, 0); /* noticed when the dataset is made */
            char where[64];
            snprintf(where, sizeof(where), "truncated: record %d: ", whole);
            if (form == 0) assert_non_null(strstr(rf_error_message(), where));
        }
    }
}

/* Damage in one place is named there; the same error comes again, and what is before it is read. */
TEST(test_messages)
{
    size_t size;
    int records;
    uint8_t *bytes = load("part0.tfrecord", &size);
    const size_t second = RF_RECORD_HEAD + RF_RECORD_TAIL + (size_t)rf_record_get(bytes, 8);
    bytes[second + 20] ^= 1;
    FAILS(read_whole(store("a.tfrecord", bytes, size), &records), RF_ERROR_CORRUPT_DATA,
          "a.tfrecord: record 1: its bytes have another checksum; the file is damaged, copy it again");
    assert_int_equal(records, 1);
    /* Records that nobody asks for are not read. */
    rf_dataset *d;
    rf_iterator *it;
    const rf_element *e;
    for (int form = 0; form < 2; form++) {
        uint8_t packed[1 << 12];
        uLongf packed_size = sizeof(packed);
        assert_int_equal(compress(packed, &packed_size, bytes, size), Z_OK);
        OK(open_path(form ? store("a.zlib", packed, packed_size) : store("a.tfrecord", bytes, size), &id, &d));
        APPLY(d, rf_dataset_skip(d, 2, &applied_));
        OK(rf_iterator_create(d, 0, &it));
        OK(rf_iterator_next(it, &e));
        assert_int_equal(*(const int32_t *)e->component[0].data, 2);
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
    bytes[second + 20] ^= 1;
    bytes[second + 1] ^= 1;
    FAILS(read_whole(store("a.tfrecord", bytes, size), &records), RF_ERROR_CORRUPT_DATA,
          "a.tfrecord: record 1: its length has another checksum; the file is damaged, copy it again");
    FAILS(read_whole(store("a.txt", "What is no record at all", 24), &records), RF_ERROR_CORRUPT_DATA,
          "a.txt: record 0: its length has another checksum; is this a TFRecord file?");
    bytes[second + 1] ^= 1;
    uint8_t packed[1 << 12];
    uLongf packed_size = sizeof(packed);
    assert_int_equal(compress(packed, &packed_size, bytes, size), Z_OK);
    packed[packed_size] = 'x';
    FAILS(read_whole(store("a.zlib", packed, packed_size + 1), &records), RF_ERROR_CORRUPT_DATA,
          "a.zlib: continues after its compressed data");
}

/* Lengths that a file has no bytes for, with right checksums: nothing is allocated for them. */
TEST(test_huge_lengths)
{
    static const uint64_t lengths[] = { 100,        1u << 30,   INT32_MAX,       1ull << 31,    3ull << 30,
                                        1ull << 62, UINT64_MAX, UINT64_MAX - 15, UINT64_MAX - 3 };
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        for (int form = 0; form < 2; form++) {
            uint8_t frame[64] = { 0 }, packed[256];
            uLongf packed_size = sizeof(packed);
            int records;
            rf_record_put(frame, lengths[i], 8);
            rf_record_put(frame + 8, rf_record_checksum(frame, 8), 4);
            assert_int_equal(compress(packed, &packed_size, frame, sizeof(frame)), Z_OK);
            FAILS(read_whole(form ? store("huge", packed, packed_size) : store("huge", frame, sizeof(frame)), &records),
                  RF_ERROR_CORRUPT_DATA,
                  lengths[i] > INT32_MAX ? "huge: record 0: it claims to be longer than 2 GiB"
                                         : "huge: record 0: the file ends within it");
        }
}

TEST(test_files_that_change)
{
    for (int form = 0; form < FORMS; form++) {
        char name[64];
        size_t size;
        rf_dataset *d;
        rf_iterator *it;
        const rf_element *e;
        snprintf(name, sizeof(name), "part0.tfrecord%s", endings[form]);
        const uint8_t *bytes = load(name, &size);
        OK(open_path(store("changing", bytes, size), &id, &d));
        snprintf(name, sizeof(name), "part1.tfrecord%s", endings[form]);
        bytes = load(name, &size);
        store("changing", bytes, size);
        OK(rf_iterator_create(d, 0, &it));
        rf_result r;
        while ((r = rf_iterator_next(it, &e)) == RF_OK) {}
        assert_int_equal(r, RF_ERROR_CORRUPT_DATA);
        assert_non_null(strstr(rf_error_message(), "changing: the file has changed since the dataset was made"));
        rf_iterator_destroy(&it);
        rf_dataset_destroy(&d);
    }
    /* Now with a length that no such file can have: nothing is allocated for it. */
    uint8_t frame[16], packed[256];
    uLongf packed_size = sizeof(packed);
    size_t size;
    rf_record_index index;
    rf_record_reader *reader;
    rf_record_put(frame, INT32_MAX, 8);
    rf_record_put(frame + 8, rf_record_checksum(frame, 8), 4);
    assert_int_equal(compress(packed, &packed_size, frame, sizeof(frame)), Z_OK);
    const uint8_t *bytes = load("part0.tfrecord.zlib", &size);
    OK(rf_record_index_make(store("changing", bytes, size), &index));
    const char *path = store("changing", packed, packed_size);
    OK(rf_record_reader_open(path, &index, &reader));
    FAILS(rf_record_read(reader, 0, &bytes, &size), RF_ERROR_CORRUPT_DATA, "changing: the file has changed");
    rf_record_reader_close(&reader);
    rf_record_index_free(&index);
}

/* A reader can go back, also after a failure. */
TEST(test_readers_go_back)
{
    static const uint64_t numbers[] = { 5, 5, 2, 11, 0, 1 };
    for (int form = 0; form < FORMS; form++) {
        uint8_t first[2][256];
        char path[512];
        rf_record_index index;
        rf_record_reader *reader;
        const uint8_t *bytes;
        size_t size, sizes[2] = { 0 };
        snprintf(path, sizeof(path), "%s/part0.tfrecord%s", RECORDS, endings[form]);
        OK(rf_record_index_make(path, &index));
        assert_int_equal(index.count, FIRST_PART);
        assert_int_equal(index.packed, form > 0);
        OK(rf_record_reader_open(path, &index, &reader));
        for (uint64_t i = 0; i < 2; i++) {
            OK(rf_record_read(reader, i, &bytes, &sizes[i]));
            assert_true(sizes[i] <= sizeof(first[i]));
            memcpy(first[i], bytes, sizes[i]);
        }
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
            OK(rf_record_read(reader, numbers[i], &bytes, &size));
            if (numbers[i] < 2) {
                assert_int_equal(size, sizes[numbers[i]]);
                assert_memory_equal(bytes, first[numbers[i]], size);
            }
        }
        rf_record_reader_close(&reader);
        rf_record_index_free(&index);
    }
}

TESTS(damaged_records, open_folder, close_folder)
