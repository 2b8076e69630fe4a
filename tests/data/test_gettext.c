/* SPDX-License-Identifier: Apache-2.0 */
/* Catalogues of gettext: which pairs are taken, damaged files, and the data set of several. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ringfire/readers.h>

#include "../support/expect.h"
#include "../support/folder.h"
#include "base/memory.h"
#include "data/sources/gettext.h"
#include "tests/room.h"

typedef struct mo_text {
    const char *bytes;
    uint32_t size;
} mo_text;
#define TEXT(literal)                                                                                                  \
    {                                                                                                                  \
        literal, sizeof(literal) - 1                                                                                   \
    }

static void put(uint8_t *at, uint32_t number, bool big_endian)
{
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(number >> (big_endian ? 24 - 8 * i : 8 * i));
}

/* Sources and translations in turn. The caller frees it. */
static uint8_t *make_file(const mo_text *texts, uint32_t pairs, bool big_endian, size_t *size)
{
    uint8_t *file = calloc(4096, 1);
    assert_non_null(file);
    const uint32_t header[] = { 0x950412de, 0, pairs, 28, 28 + 8 * pairs, 0, 28 + 16 * pairs };
    for (uint32_t i = 0; i < 7; i++) put(file + 4 * i, header[i], big_endian);
    uint32_t end = 28 + 16 * pairs;
    for (uint32_t i = 0; i < 2 * pairs; i++) {
        uint8_t *entry = file + 28 + 8 * (i / 2) + 8 * pairs * (i % 2);
        put(entry, texts[i].size, big_endian);
        put(entry + 4, end, big_endian);
        memcpy(file + end, texts[i].bytes, texts[i].size);
        end += texts[i].size + 1;
    }
    *size = end;
    return file;
}

static const mo_text catalogue[] = {
    TEXT(""),
    TEXT("Language: de\nContent-Type: text/plain; charset=UTF-8\n"),
    TEXT("file"),
    TEXT("Datei"),
    TEXT("menu\4Open"),
    TEXT("\xc3\x96"
         "ffnen"),
    TEXT("%d file\0%d files"),
    TEXT("%d Datei\0%d Dateien"),
    TEXT("not translated"),
    TEXT(""),
    TEXT("old encoding"),
    TEXT("gr\xfc"
         "n"),
};

static const char *const wanted[][2] = { { "file", "Datei" },
                                         { "Open", "\xc3\x96"
                                                   "ffnen" },
                                         { "%d file", "%d Datei" } };

static void check_text(const char *text, size_t size, const char *is)
{
    assert_int_equal(size, strlen(is));
    assert_memory_equal(text, is, size);
}

TEST(test_pairs)
{
    for (int big_endian = 0; big_endian < 2; big_endian++) {
        size_t size;
        rf_gettext_pair *pairs;
        uint32_t count;
        uint8_t *file = make_file(catalogue, 6, big_endian, &size);
        OK(rf_gettext_parse(file, size, 100, &pairs, &count));
        assert_int_equal(count, 3);
        for (uint32_t i = 0; i < 3; i++) {
            check_text(pairs[i].source, pairs[i].source_size, wanted[i][0]);
            check_text(pairs[i].translation, pairs[i].translation_size, wanted[i][1]);
        }
        rf_free(pairs);
        OK(rf_gettext_parse(file, size, 6, &pairs, &count)); /* without those of which a text has 7 and 8 bytes */
        assert_int_equal(count, 1);
        check_text(pairs[0].source, pairs[0].source_size, "file");
        rf_free(pairs);
        free(file);
    }
}

/* Frees the file. */
static void refuses(uint8_t *file, size_t size, const char *part)
{
    rf_gettext_pair *pairs;
    uint32_t count;
    const rf_result r = rf_gettext_parse(file, size, 100, &pairs, &count);
    assert_true(r == RF_ERROR_CORRUPT_DATA || r == RF_ERROR_UNSUPPORTED);
    if (!strstr(rf_error_message(), part)) fail_msg("'%s' does not say '%s'", rf_error_message(), part);
    assert_null(pairs);
    assert_int_equal(count, 0);
    free(file);
}

TEST(test_damage)
{
    size_t size;
    for (size_t cut = 0;; cut++) {
        uint8_t *whole = make_file(catalogue, 6, false, &size), *part = malloc(cut + 1);
        assert_non_null(part);
        memcpy(part, whole, cut);
        free(whole);
        if (cut == size) {
            free(part);
            break;
        }
        refuses(part, cut, cut < 28 ? "too short" : "damaged");
    }
    uint8_t *file = make_file(catalogue, 6, true, &size);
    file[0] = 'x';
    refuses(file, size, "no catalogue");
    file = make_file(catalogue, 6, true, &size);
    file[5] = 2;
    refuses(file, size, "unknown revision");
    static const uint8_t places[] = { 8, 12, 16, 28, 32, 28 + 48 + 4 };
    for (size_t i = 0; i < sizeof(places); i++) {
        file = make_file(catalogue, 6, true, &size);
        file[places[i]] = 0xff;
        refuses(file, size, "damaged");
    }
    /* Entries that name the same bytes again and again. */
    file = make_file(catalogue, 6, false, &size);
    for (uint32_t i = 0; i < 12; i++) {
        put(file + 28 + 8 * i, (uint32_t)size - 1 - 124, false);
        put(file + 32 + 8 * i, 124, false);
    }
    refuses(file, size, "damaged");
    mo_text latin[2] = { TEXT(""), TEXT("Content-Type: text/plain; charset=ISO-8859-1\n") };
    file = make_file(latin, 1, false, &size);
    refuses(file, size, "not in UTF-8");
}

static void write_file(const char *path, const mo_text *texts, uint32_t pairs)
{
    size_t size;
    uint8_t *file = make_file(texts, pairs, false, &size);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(file, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    free(file);
}

TEST(test_files)
{
    static const mo_text few[] = { TEXT("yes"), TEXT("ja") };
    char directory[SCRATCH_PATH], path[2][SCRATCH_PATH + 16];
    rf_dataset *data;
    rf_iterator *it;
    const rf_element *e;
    scratch(directory);
    for (int i = 0; i < 2; i++) snprintf(path[i], sizeof(path[0]), "%s/%d.mo", directory, i);
    const char *const paths[] = { path[0], path[1] };
    rf_gettext_params params = { .paths = paths, .num_paths = 2 };
    write_file(path[0], catalogue, 6);
    FAILS(rf_dataset_from_gettext(&params, &data), RF_ERROR_NOT_FOUND, "1.mo");
    write_file(path[1], few, 1);
    OK(rf_dataset_from_gettext(&params, &data));
    assert_int_equal(rf_dataset_cardinality(data), 4);
    OK(rf_iterator_create(data, 0, &it));
    for (int i = 0; i < 4; i++) {
        OK(rf_iterator_next(it, &e));
        assert_int_equal(e->num_components, 2);
        for (int k = 0; k < 2; k++)
            check_text(e->component[k].data, (size_t)e->component[k].shape.dim[0], i < 3 ? wanted[i][k] : few[k].bytes);
    }
    assert_int_equal(rf_iterator_next(it, &e), RF_END);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&data);
    params.max_bytes = 3;
    OK(rf_dataset_from_gettext(&params, &data));
    assert_int_equal(rf_dataset_cardinality(data), 1);
    rf_dataset_destroy(&data);
    params.max_bytes = UINT32_MAX;
    FAILS(rf_dataset_from_gettext(&params, &data), RF_ERROR_INVALID_ARGUMENT, "max_bytes");
    scratch_write(path[1], "not one");
    params.max_bytes = 0;
    FAILS(rf_dataset_from_gettext(&params, &data), RF_ERROR_CORRUPT_DATA, "1.mo: too short for a catalogue");
    FAILS(rf_dataset_from_gettext(&(rf_gettext_params){ 0 }, &data), RF_ERROR_INVALID_ARGUMENT, "no files given");
    FAILS(rf_dataset_from_gettext(NULL, &data), RF_ERROR_INVALID_ARGUMENT, "no files given");
    scratch_remove(directory);
}

/* A pass that is shuffled and stopped goes on where it was, in batches whose texts are filled up. */
TEST(test_batches)
{
    enum { LONGEST = 8 };
    char directory[SCRATCH_PATH], path[SCRATCH_PATH + 16];
    const char *const paths[] = { path };
    const rf_padded_batch_params padded = { .batch_size = 2, .padded = { true, true } };
    rf_dataset *data, *shuffled, *batched;
    rf_iterator *it, *again;
    const rf_element *e;
    uint8_t last[2][LONGEST];
    void *position;
    size_t size;
    snprintf(path, sizeof(path), "%s/de.mo", scratch(directory));
    write_file(path, catalogue, 6);
    OK(rf_dataset_from_gettext(&(rf_gettext_params){ .paths = paths, .num_paths = 1, .max_bytes = LONGEST }, &data));
    OK(rf_dataset_shuffle(data, 3, 5, RF_SHUFFLE_EACH_PASS, &shuffled));
    OK(rf_dataset_padded_batch(shuffled, &padded, &batched));
    OK(rf_iterator_create(batched, 0, &it));
    OK(rf_iterator_next(it, &e));
    assert_int_equal(e->component[0].shape.dim[0], 2);
    assert_int_equal(e->component[0].shape.dim[1], LONGEST);
    OK(rf_iterator_save(it, &position, &size));
    OK(rf_iterator_next(it, &e));
    assert_int_equal(e->component[0].shape.dim[0], 1);
    for (int k = 0; k < 2; k++) memcpy(last[k], e->component[k].data, LONGEST);
    OK(rf_iterator_restore(batched, position, size, &again));
    OK(rf_iterator_next(again, &e));
    for (int k = 0; k < 2; k++) assert_memory_equal(e->component[k].data, last[k], LONGEST);
    rf_iterator_state_free(position);
    rf_iterator_destroy(&again);
    rf_iterator_destroy(&it);
    rf_dataset_destroy(&batched);
    rf_dataset_destroy(&shuffled);
    rf_dataset_destroy(&data);
    scratch_remove(directory);
}

TESTS(gettext, NULL, NULL)
