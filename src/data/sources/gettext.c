/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A .mo file ("The Format of GNU MO Files" in gettext's manual): a header of seven 32-bit numbers in either byte order,
 * two tables of (length, place) with as many entries, and the texts, each followed by a zero.
 */
#include "data/sources/gettext.h"

#include <string.h>
#include <strings.h>

#include <ringfire/readers.h>

#include "base/params.h"
#include "base/philox.h"
#include "base/platform.h"
#include "base/utf8.h"
#include "data/pipeline.h"

enum { MAGIC = 0, REVISION = 4, NUM_ENTRIES = 8, SOURCES = 12, TRANSLATIONS = 16, HEADER_BYTES = 28, ENTRY_BYTES = 8 };
enum { DEFAULT_MOST = 4096, LARGEST_MOST = 1 << 30 };
static const uint32_t magic = 0x950412de;

/* ---- one file ---- */

typedef struct mo_file {
    const char *bytes;
    uint64_t size, text_bytes; /* text_bytes: of all texts so far */
    bool big_endian;
} mo_file;

static uint32_t number_at(const mo_file *f, uint64_t place)
{
    const uint8_t *b = (const uint8_t *)f->bytes + place;
    if (f->big_endian) return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    return (uint32_t)b[3] << 24 | (uint32_t)b[2] << 16 | (uint32_t)b[1] << 8 | b[0];
}

/* NULL: there is no such text. Entries that name the same bytes again and again would make more of a file than it is.
 */
static const char *text_at(mo_file *f, uint64_t table, uint32_t entry)
{
    const uint64_t length = number_at(f, table + (uint64_t)entry * ENTRY_BYTES);
    const uint64_t place = number_at(f, table + (uint64_t)entry * ENTRY_BYTES + 4);
    f->text_bytes += length + 1;
    if (place + length >= f->size || f->text_bytes > f->size || f->bytes[place + length] != '\0') return NULL;
    return f->bytes + place;
}

/* Reads the entry with the empty source, whose lines are like those of a mail's head. */
static bool says_utf8(const char *description)
{
    static const char *const names[] = { "UTF-8", "US-ASCII", "ASCII" };
    const char *charset = strcasestr(description, "charset=");
    if (!charset) return true;
    charset += strlen("charset=");
    const size_t length = strcspn(charset, " ;\n\r");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (length == strlen(names[i]) && strncasecmp(charset, names[i], length) == 0) return true;
    return false;
}

static rf_result read_header(mo_file *f)
{
    if (f->size < HEADER_BYTES) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "too short for a catalogue of gettext");
    f->big_endian = number_at(f, MAGIC) != magic;
    if (number_at(f, MAGIC) != magic) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "no catalogue of gettext");
    if (number_at(f, REVISION) >> 16 > 1) return RF_FAIL(RF_ERROR_CORRUPT_DATA, "a catalogue of an unknown revision");
    return RF_OK;
}

static bool table_fits(const mo_file *f, uint64_t place, uint64_t count)
{
    return place + count * ENTRY_BYTES <= f->size;
}

/* Texts that are wanted, with their sizes. */
static bool make_pair(const char *source, const char *translation, uint32_t most, rf_gettext_pair *out)
{
    const char *context_end = strchr(source, '\4');
    if (context_end) source = context_end + 1;
    const size_t sizes[2] = { strlen(source), strlen(translation) };
    if (sizes[0] == 0 || sizes[1] == 0 || sizes[0] > most || sizes[1] > most) return false;
    if (!rf_utf8_valid(source, sizes[0]) || !rf_utf8_valid(translation, sizes[1])) return false;
    *out = (rf_gettext_pair){ source, translation, (uint32_t)sizes[0], (uint32_t)sizes[1] };
    return true;
}

static rf_result read_pairs(mo_file *f, uint32_t most, rf_gettext_pair **pairs, uint32_t *kept)
{
    const uint32_t count = number_at(f, NUM_ENTRIES);
    const uint32_t sources = number_at(f, SOURCES), translations = number_at(f, TRANSLATIONS);
    if (!table_fits(f, sources, count) || !table_fits(f, translations, count))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "its tables end after the file; it is damaged");
    *pairs = RF_NEW_ARRAY(rf_gettext_pair, (size_t)count + 1);
    if (!*pairs) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const char *source = text_at(f, sources, i), *translation = text_at(f, translations, i);
        if (!source || !translation)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "an entry lies outside of the file; it is damaged");
        if (!*source && !says_utf8(translation)) return RF_FAIL(RF_ERROR_UNSUPPORTED, "it is not in UTF-8");
        *kept += make_pair(source, translation, most, *pairs + *kept);
    }
    return RF_OK;
}

rf_result rf_gettext_parse(const void *bytes, size_t size, uint32_t most, rf_gettext_pair **pairs, uint32_t *count)
{
    mo_file f = { .bytes = bytes, .size = size };
    *pairs = NULL;
    *count = 0;
    rf_result r = read_header(&f);
    if (r == RF_OK) r = read_pairs(&f, most, pairs, count);
    if (r == RF_OK) return RF_OK;
    rf_free(*pairs);
    *pairs = NULL;
    *count = 0;
    return r;
}

/* ---- the source ---- */

typedef struct pair_list {
    void **files; /* their bytes, which the pairs point into */
    uint32_t num_files;
    rf_gettext_pair *pairs;
    uint64_t count;
} pair_list;

static void free_list(rf_dataset *dataset)
{
    pair_list *list = dataset->data;
    if (!list) return;
    for (uint32_t i = 0; i < list->num_files; i++) rf_free(list->files[i]);
    rf_free(list->files);
    rf_free(list->pairs);
    rf_free(list);
}

static rf_result get_texts(rf_stage *stage, uint64_t index, const rf_element **out)
{
    const rf_gettext_pair *pair = &((const pair_list *)stage->dataset->data)->pairs[index];
    const char *texts[2] = { pair->source, pair->translation };
    const uint32_t sizes[2] = { pair->source_size, pair->translation_size };
    for (int i = 0; i < 2; i++)
        stage->element.component[i] = (rf_array){ RF_U8, RF_SHAPE(sizes[i]), (void *)(uintptr_t)texts[i] };
    *out = &stage->element;
    return RF_OK;
}

const rf_dataset_kind rf_dataset_kind_gettext = {
    .name = "gettext",
    .open = rf_stage_open_in_place,
    .get = get_texts,
    .free_dataset = free_list,
};

/* ---- creation ---- */

static rf_result append_pairs(pair_list *list, const rf_gettext_pair *pairs, uint32_t count)
{
    rf_gettext_pair *all = RF_NEW_ARRAY(rf_gettext_pair, (size_t)(list->count + count) + 1);
    if (!all) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (list->count > 0) memcpy(all, list->pairs, (size_t)list->count * sizeof(*all));
    if (count > 0) memcpy(all + list->count, pairs, count * sizeof(*all));
    rf_free(list->pairs);
    list->pairs = all;
    list->count += count;
    return RF_OK;
}

/* `hash`: of all files so far, which saved positions are of. */
static rf_result add_catalogue(pair_list *list, const char *path, uint32_t most, uint64_t *hash)
{
    rf_gettext_pair *pairs = NULL;
    uint32_t count = 0;
    size_t size = 0;
    void **bytes = &list->files[list->num_files];
    rf_result r = rf_file_read(path, 0, bytes, &size);
    if (r < 0) return r;
    list->num_files++;
    *hash = rf_hash_bytes(*bytes, size, *hash);
    r = rf_gettext_parse(*bytes, size, most, &pairs, &count);
    if (r == RF_OK) r = append_pairs(list, pairs, count);
    rf_free(pairs);
    return rf_error_context(r, "%s", path);
}

rf_result rf_dataset_from_gettext(const rf_gettext_params *params, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_from_gettext: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_gettext_params, params));
    RF_REQUIRE(params && params->paths && params->num_paths > 0, "rf_dataset_from_gettext: no files given");
    RF_REQUIRE(params->max_bytes <= LARGEST_MOST, "rf_dataset_from_gettext: max_bytes is %u, at most %d",
               params->max_bytes, (int)LARGEST_MOST);
    const uint32_t most = params->max_bytes ? params->max_bytes : DEFAULT_MOST;
    const rf_element_spec spec = { .num_components = 2,
                                   .dtype = { RF_U8, RF_U8 },
                                   .shape = { RF_SHAPE(most), RF_SHAPE(most) } };
    RF_TRY(rf_dataset_new(&rf_dataset_kind_gettext, &spec, out));
    rf_dataset *d = *out;
    pair_list *list = d->data = RF_NEW(pair_list);
    if (list) list->files = RF_NEW_ARRAY(void *, params->num_paths);
    rf_result r = list && list->files ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    for (uint32_t i = 0; i < params->num_paths && r == RF_OK; i++) {
        if (params->paths[i])
            r = add_catalogue(list, params->paths[i], most, &d->seed);
        else
            r = RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "rf_dataset_from_gettext: path %u is NULL", i);
    }
    if (r == RF_OK) d->cardinality = (int64_t)list->count;
    if (r < 0) rf_dataset_destroy(out);
    return r;
}
