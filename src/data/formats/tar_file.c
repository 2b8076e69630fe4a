/* SPDX-License-Identifier: Apache-2.0 */
/* libarchive knows the headers of all kinds of tar; examples, and places to begin at again, are ours. */
#include "data/formats/tar_file.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"

#ifdef RF_HAVE_LIBARCHIVE
#include <archive.h>
#include <archive_entry.h>

/* ---- names ---- */

/* The part of a file's name behind its first point; NULL: it is of no example, like "dir/.hidden" or "dir/README". */
static const char *name_ending(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    const char *point = strchr(name, '.');
    return point && point > name && point[1] != '\0' ? point + 1 : NULL;
}

/* The rank of an ending among those of a list with ";", from 1; 0: it is not there. */
static uint32_t find_ending(const char *endings, const char *ending)
{
    uint32_t rank = 1;
    for (const char *at = endings;; at++, rank++) {
        const size_t size = strcspn(at, ";");
        if (size == strlen(ending) && strncasecmp(at, ending, size) == 0) return rank;
        at += size;
        if (*at == '\0') return 0;
    }
}

enum { WINDOW = 1 << 16 };

struct rf_tar_reader {
    const char *path;
    const rf_tar_index *index; /* NULL: it is being made */
    int fd;
    uint64_t size, offset;      /* of the file; of what is read next */
    rf_result failure;          /* of reading; RF_OK: what libarchive says counts */
    struct archive *archive;    /* NULL: to be begun */
    struct archive_entry *file; /* the header that was read last, of an example; NULL: the archive has ended */
    uint64_t next;              /* the example of `file` */
    uint8_t window[WINDOW];
};

/* ---- the stream ---- */

static la_ssize_t read_window(struct archive *archive, void *user, const void **data)
{
    rf_tar_reader *r = user;
    size_t got = 0;
    (void)archive;
    r->failure = rf_file_read_some(r->fd, r->path, r->window, sizeof(r->window), r->offset, &got);
    r->offset += got;
    *data = r->window;
    return r->failure < 0 ? -1 : (la_ssize_t)got;
}

/* Not past the end, where nobody would notice that bytes are missing. */
static la_int64_t skip_bytes(struct archive *archive, void *user, la_int64_t wanted)
{
    rf_tar_reader *r = user;
    (void)archive;
    const uint64_t left = r->size > r->offset ? r->size - r->offset : 0;
    const uint64_t skipped = wanted > 0 && (uint64_t)wanted < left ? (uint64_t)wanted : wanted > 0 ? left : 0;
    r->offset += skipped;
    return (la_int64_t)skipped;
}

static rf_result fail_tar(const rf_tar_reader *r)
{
    char text[128] = "it cannot be read";
    if (r->failure < 0) return r->failure;
    if (archive_error_string(r->archive)) strncpy(text, archive_error_string(r->archive), sizeof(text) - 1);
    rf_error_one_line(text);
    if (archive_errno(r->archive) == ENOMEM) return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "%s: %s", r->path, text);
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: example %llu: %s", r->path, (unsigned long long)r->next, text);
}

static const char *entry_name(struct archive_entry *entry)
{
    const char *name = archive_entry_pathname(entry);
    if (!name) name = archive_entry_pathname_utf8(entry);
    return name ? name : "";
}

/* The next header of a file that belongs to an example; none: r->file becomes NULL. */
static rf_result next_file(rf_tar_reader *r)
{
    for (;;) {
        r->file = NULL;
        struct archive_entry *entry;
        const int code = archive_read_next_header(r->archive, &entry);
        if (code == ARCHIVE_EOF) return RF_OK;
        if (code != ARCHIVE_OK && code != ARCHIVE_WARN) return fail_tar(r);
        if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_hardlink(entry)) continue;
        if (!name_ending(entry_name(entry))) continue;
        r->file = entry;
        return RF_OK;
    }
}

static void end_tar(rf_tar_reader *r)
{
    if (r->archive) archive_read_free(r->archive);
    r->archive = NULL;
    r->file = NULL;
}

/* At the header of example `number`, which stands at `offset`. */
static rf_result begin_tar(rf_tar_reader *r, uint64_t offset, uint64_t number)
{
    end_tar(r);
    r->archive = archive_read_new();
    if (!r->archive) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "%s", r->path);
    r->offset = offset;
    r->next = number;
    r->failure = RF_OK;
    bool good = archive_read_support_format_tar(r->archive) == ARCHIVE_OK;
    /* Without a library of its own libarchive would start a program. */
    if (archive_zlib_version()) (void)archive_read_support_filter_gzip(r->archive);
    if (archive_libzstd_version()) (void)archive_read_support_filter_zstd(r->archive);
    (void)archive_read_set_option(r->archive, "tar", "hdrcharset", "BINARY"); /* names whatever the locale is */
    good = good && archive_read_open2(r->archive, r, NULL, read_window, skip_bytes, NULL) == ARCHIVE_OK;
    return good ? next_file(r) : fail_tar(r);
}

/* ---- examples ---- */

static bool continues_example(const char *example, const char *path)
{
    const char *ending = name_ending(path);
    const size_t size = (size_t)(ending - path);
    return strncmp(example, path, size) == 0 && example[size] == '\0';
}

/* "dir/name." of an example, whose first header was read. NULL: no memory. */
static char *copy_example_name(rf_tar_reader *r)
{
    char *name = rf_strdup(entry_name(r->file));
    if (name) name[name_ending(name) - name] = '\0';
    return name;
}

static rf_result make_room(const rf_tar_reader *r, rf_tar_part *part, size_t room)
{
    if (room <= part->room) return RF_OK;
    uint8_t *bytes = rf_calloc(room, 1);
    if (!bytes) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "%s", r->path);
    if (part->size > 0) memcpy(bytes, part->bytes, part->size);
    rf_free(part->bytes);
    part->bytes = bytes;
    part->room = room;
    return RF_OK;
}

/* Memory grows with what is there, not with what a header says. */
static rf_result read_bytes(rf_tar_reader *r, rf_tar_part *part, size_t most)
{
    part->size = 0;
    for (;;) {
        if (part->size == part->room) RF_TRY(make_room(r, part, part->room ? 2 * part->room : WINDOW));
        const la_ssize_t got = archive_read_data(r->archive, part->bytes + part->size, part->room - part->size);
        if (got < 0) return fail_tar(r);
        if (got == 0) return RF_OK;
        part->size += (size_t)got;
        if (part->size > most)
            return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                           "%s: example %llu: a file *.%s has more than %zu bytes; raise max_bytes", r->path,
                           (unsigned long long)r->next, part->endings, most);
    }
}

/* libarchive gives the bytes of a file once; further parts get copies. */
static rf_result take_file(rf_tar_reader *r, rf_tar_part *parts, uint32_t num_parts, size_t most)
{
    const rf_tar_part *read = NULL;
    for (uint32_t i = 0; i < num_parts; i++) {
        rf_tar_part *part = &parts[i];
        const uint32_t rank = find_ending(part->endings, name_ending(entry_name(r->file)));
        if (rank == 0 || (part->rank > 0 && part->rank <= rank)) continue;
        part->size = 0;
        RF_TRY(read ? make_room(r, part, read->size) : read_bytes(r, part, most));
        if (read && read->size > 0) memcpy(part->bytes, read->bytes, read->size);
        if (read) part->size = read->size;
        read = part;
        part->rank = rank;
    }
    return RF_OK;
}

/* All files of the example that r->file is the first one of, up to the first of the next. */
static rf_result pass_example(rf_tar_reader *r, rf_tar_part *parts, uint32_t num_parts, size_t most)
{
    char *example = copy_example_name(r);
    if (!example) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_result result = RF_OK;
    while (result == RF_OK && r->file && continues_example(example, entry_name(r->file))) {
        result = take_file(r, parts, num_parts, most);
        if (result == RF_OK) result = next_file(r);
    }
    r->next++;
    rf_free(example);
    return result;
}

/* ---- the index ---- */

static rf_result add_example(const rf_tar_reader *r, rf_tar_index *out)
{
    if (!out->packed) {
        const uint64_t at = (uint64_t)archive_read_header_position(r->archive);
        if (out->starts.count == UINT32_MAX)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: an archive can have no more examples; divide it", r->path);
        RF_TRY(RF_VEC_GROW(&out->starts));
        out->starts.items[out->starts.count++] = at;
    }
    out->count++;
    return RF_OK;
}

static rf_result index_examples(rf_tar_reader *r, rf_tar_index *out)
{
    RF_TRY(begin_tar(r, 0, 0));
    out->packed = archive_filter_code(r->archive, 0) != ARCHIVE_FILTER_NONE;
    while (r->file) {
        RF_TRY(add_example(r, out));
        RF_TRY(pass_example(r, NULL, 0, 0));
    }
    return RF_OK;
}

rf_result rf_tar_index_make(const char *path, rf_tar_index *out)
{
    rf_tar_reader *reader;
    *out = (rf_tar_index){ 0 };
    RF_TRY(rf_tar_reader_open(path, NULL, &reader));
    const rf_result r = index_examples(reader, out);
    rf_tar_reader_close(&reader);
    return r;
}

/* ---- reading ---- */

rf_result rf_tar_reader_open(const char *path, const rf_tar_index *index, rf_tar_reader **out)
{
    *out = NULL;
    rf_tar_reader *r = RF_NEW(rf_tar_reader);
    if (!r) return RF_ERROR_OUT_OF_HOST_MEMORY;
    r->path = path;
    r->index = index;
    const rf_result result = rf_file_open_regular(path, &r->fd, &r->size);
    if (result < 0)
        rf_free(r);
    else
        *out = r;
    return result;
}

void rf_tar_reader_close(rf_tar_reader **reader)
{
    rf_tar_reader *r = *reader;
    *reader = NULL;
    if (!r) return;
    end_tar(r);
    (void)close(r->fd);
    rf_free(r);
}

static rf_result find_example(rf_tar_reader *r, uint64_t number)
{
    const bool behind = r->archive && r->next <= number;
    if (!r->index->packed && !(behind && r->next == number))
        RF_TRY(begin_tar(r, r->index->starts.items[number], number));
    else if (!behind)
        RF_TRY(begin_tar(r, 0, 0));
    while (r->file && r->next < number) RF_TRY(pass_example(r, NULL, 0, 0));
    if (r->file) return RF_OK;
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: the file has changed since the dataset was made", r->path);
}

rf_result rf_tar_read(rf_tar_reader *r, uint64_t number, rf_tar_part *parts, uint32_t num_parts, size_t most)
{
    for (uint32_t i = 0; i < num_parts; i++) parts[i].rank = 0;
    rf_result result = find_example(r, number);
    if (result == RF_OK) result = pass_example(r, parts, num_parts, most);
    if (result < 0) end_tar(r);
    return result;
}

#else

static rf_result fail_missing(const char *path)
{
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: the library was built without libarchive, which reads tar archives",
                   path);
}

rf_result rf_tar_index_make(const char *path, rf_tar_index *out)
{
    *out = (rf_tar_index){ 0 };
    return fail_missing(path);
}

rf_result rf_tar_reader_open(const char *path, const rf_tar_index *index, rf_tar_reader **out)
{
    (void)index;
    *out = NULL;
    return fail_missing(path);
}

void rf_tar_reader_close(rf_tar_reader **reader)
{
    *reader = NULL;
}

rf_result rf_tar_read(rf_tar_reader *reader, uint64_t number, rf_tar_part *parts, uint32_t num_parts, size_t most)
{
    (void)reader, (void)number, (void)parts, (void)num_parts, (void)most;
    return RF_FAIL(RF_ERROR_UNSUPPORTED, "the library was built without libarchive");
}
#endif

void rf_tar_index_free(rf_tar_index *index)
{
    rf_free(index->starts.items);
}
