/* SPDX-License-Identifier: Apache-2.0 */
/* The examples' reader of gettext's catalogues. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/common/gettext.h"
#include "../support/folder.h"

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

static void test_pairs(void **state)
{
    (void)state;
    static const char *const wanted[][2] = { { "file", "Datei" },
                                             { "Open", "\xc3\x96"
                                                       "ffnen" },
                                             { "%d file", "%d Datei" } };
    for (int big_endian = 0; big_endian < 2; big_endian++) {
        size_t size;
        mo_catalogue c;
        uint8_t *file = make_file(catalogue, 6, big_endian, &size);
        assert_null(mo_parse((char *)file, size, &c));
        assert_int_equal(c.count, 3);
        for (uint32_t i = 0; i < 3; i++) {
            assert_string_equal(c.pairs[i].source, wanted[i][0]);
            assert_string_equal(c.pairs[i].translation, wanted[i][1]);
        }
        mo_free(&c);
    }
}

static void refuses(uint8_t *file, size_t size, const char *part)
{
    mo_catalogue c;
    const char *problem = mo_parse((char *)file, size, &c); /* frees it */
    if (!problem || !strstr(problem, part)) fail_msg("'%s' does not say '%s'", problem ? problem : "fine", part);
    assert_null(c.pairs);
    assert_null(c.bytes);
}

static void test_damage(void **state)
{
    (void)state;
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

static void test_files(void **state)
{
    (void)state;
    char directory[SCRATCH_PATH], path[SCRATCH_PATH + 16];
    mo_catalogue c;
    size_t size;
    snprintf(path, sizeof(path), "%s/de.mo", scratch(directory));
    assert_string_equal(mo_read(path, &c), strerror(ENOENT));
    uint8_t *file = make_file(catalogue, 6, false, &size);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(file, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    free(file);
    assert_null(mo_read(path, &c));
    assert_int_equal(c.count, 3);
    mo_free(&c);
    scratch_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
