/* SPDX-License-Identifier: Apache-2.0 */
/* Event files of any program. Nothing in them is trusted: lengths are compared with the size of the file and bytes with
 * their checksums, and unpacking may allocate no more than the size of the record allows. */
#include <ringfire/events.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/budget.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/platform.h"
#include "base/record.h"
#include "persist/events/events.pb-c.h"

#define MAX_RECORD (256ull << 20)
#define MAX_BUCKETS 65536u
#define BUDGET_FACTOR 16u /* of a record's memory, unpacked, by its bytes */

struct rf_event_reader {
    char *path;
    int fd;
    uint64_t offset; /* of the next record */
    unsigned char *record;
    size_t capacity;
    rf_budget budget;
    ProtobufCAllocator allocator;
    RfPb__Event *event; /* of the latest record, NULL: none */
    uint32_t next_value;
    uint32_t next_image; /* within the value; 0: not begun */
    double *buckets;
    char *text;
};

/* ---- life ---- */

RF_API rf_result rf_event_reader_open(const char *path, rf_event_reader **out)
{
    RF_REQUIRE(out, "rf_event_reader_open: out is NULL");
    *out = NULL;
    RF_REQUIRE(path && path[0], "rf_event_reader_open: path is empty");
    rf_event_reader *r = RF_NEW(rf_event_reader);
    if (!r) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint64_t size;
    r->fd = -1;
    r->path = rf_strdup(path);
    r->allocator = (ProtobufCAllocator){ rf_budget_allocate, rf_budget_release, &r->budget };
    const rf_result result = r->path ? rf_error_context(rf_file_open_regular(path, &r->fd, &size), "event file")
                                     : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (result < 0)
        rf_event_reader_close(&r);
    else
        *out = r;
    return result;
}

static void drop_event(rf_event_reader *r)
{
    if (r->event) rf_pb__event__free_unpacked(r->event, &r->allocator);
    r->event = NULL;
    r->next_value = r->next_image = 0;
}

static void drop_extras(rf_event_reader *r)
{
    rf_free(r->buckets);
    rf_free(r->text);
    r->buckets = NULL;
    r->text = NULL;
}

RF_API void rf_event_reader_close(rf_event_reader **reader)
{
    rf_event_reader *r = reader ? *reader : NULL;
    if (!r) return;
    *reader = NULL;
    drop_event(r);
    drop_extras(r);
    if (r->fd >= 0) (void)close(r->fd);
    rf_free(r->record);
    rf_free(r->path);
    rf_free(r);
}

/* ---- records ---- */

static rf_result fail_corrupt(const rf_event_reader *r, const char *what)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "event file '%s': record at byte %llu: %s", r->path,
                   (unsigned long long)r->offset, what);
}

/* RF_END where the file ends before. */
static rf_result read_at(const rf_event_reader *r, void *data, size_t size, uint64_t offset)
{
    size_t got = 0;
    RF_TRY(rf_error_context(rf_file_read_some(r->fd, r->path, data, size, offset, &got), "event file"));
    return got == size ? RF_OK : RF_END;
}

static rf_result make_room(rf_event_reader *r, size_t size)
{
    if (size <= r->capacity) return RF_OK;
    rf_free(r->record);
    r->capacity = 0;
    r->record = rf_calloc(1, size);
    if (!r->record) return RF_ERROR_OUT_OF_HOST_MEMORY;
    r->capacity = size;
    return RF_OK;
}

/* The bytes of the next record into r->record. */
static rf_result read_record(rf_event_reader *r, size_t *size)
{
    unsigned char head[RF_RECORD_HEAD];
    const rf_result got = read_at(r, head, sizeof(head), r->offset);
    if (got != RF_OK) return got;
    const uint64_t length = rf_record_get(head, 8);
    if (rf_record_get(head + 8, 4) != rf_record_checksum(head, 8))
        return fail_corrupt(r, "its length has another checksum; is this an event file?");
    if (length > MAX_RECORD) return fail_corrupt(r, "it claims to be longer than 256 MiB");
    struct stat st;
    if (fstat(r->fd, &st) != 0)
        return RF_FAIL_ERRNO(RF_ERROR_IO, "event file '%s': cannot read its attributes", r->path);
    const uint64_t end = r->offset + RF_RECORD_HEAD + length + RF_RECORD_TAIL;
    if (end > (uint64_t)st.st_size) return RF_END; /* the writer is not done with it */
    RF_TRY(make_room(r, (size_t)length + RF_RECORD_TAIL));
    const rf_result rest = read_at(r, r->record, (size_t)length + RF_RECORD_TAIL, r->offset + RF_RECORD_HEAD);
    if (rest != RF_OK) return rest;
    if (rf_record_get(r->record + length, 4) != rf_record_checksum(r->record, (size_t)length))
        return fail_corrupt(r, "its bytes have another checksum");
    *size = (size_t)length;
    return RF_OK;
}

static rf_result next_record(rf_event_reader *r)
{
    size_t size = 0;
    const rf_result got = read_record(r, &size);
    if (got != RF_OK) return got;
    r->budget = rf_budget_of_message(size, BUDGET_FACTOR);
    r->event = rf_pb__event__unpack(&r->allocator, size, r->record);
    if (!r->event && r->budget.no_memory)
        return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "event file '%s': no memory for a record of %zu bytes", r->path,
                       size);
    if (!r->event) return fail_corrupt(r, r->budget.exceeded ? "it would take too much memory" : "it is no event");
    r->offset += RF_RECORD_HEAD + size + RF_RECORD_TAIL;
    return RF_OK;
}

/* ---- values ---- */

/* Number of elements by the shape, SIZE_MAX: too many. */
static size_t count_elements(const RfPb__Tensor *tensor)
{
    size_t count = 1;
    for (size_t i = 0; tensor->tensor_shape && i < tensor->tensor_shape->n_dim; i++) {
        const int64_t size = tensor->tensor_shape->dim[i]->size;
        if (size < 0 || !rf_mul_size(count, (size_t)size, &count)) return SIZE_MAX;
    }
    return count;
}

/* Number i of a tensor of floats or doubles, wherever the writer has put it. */
static bool get_number(const RfPb__Tensor *t, size_t i, double *out)
{
    if (t->dtype == RF_PB__DATA_TYPE__DT_FLOAT) {
        float value;
        if (t->n_float_val > 0) {
            *out = (double)t->float_val[i < t->n_float_val ? i : t->n_float_val - 1];
            return true;
        }
        if (t->tensor_content.len / sizeof(value) <= i) return false;
        memcpy(&value, t->tensor_content.data + i * sizeof(value), sizeof(value));
        *out = (double)value;
        return true;
    }
    if (t->dtype != RF_PB__DATA_TYPE__DT_DOUBLE) return false;
    if (t->n_double_val > 0) {
        *out = t->double_val[i < t->n_double_val ? i : t->n_double_val - 1];
        return true;
    }
    if (t->tensor_content.len / sizeof(*out) <= i) return false;
    memcpy(out, t->tensor_content.data + i * sizeof(*out), sizeof(*out));
    return true;
}

static rf_result get_histogram(rf_event_reader *r, const RfPb__Tensor *t, rf_event *out)
{
    const size_t count = count_elements(t);
    if (count % 3 != 0 || count / 3 > MAX_BUCKETS) return RF_OK;
    r->buckets = RF_NEW_ARRAY(double, count);
    if (!r->buckets) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < count; i++)
        if (!get_number(t, i, &r->buckets[i])) return RF_OK;
    out->kind = RF_EVENT_HISTOGRAM;
    out->buckets = r->buckets;
    out->num_buckets = (uint32_t)(count / 3);
    return RF_OK;
}

static rf_result get_text(rf_event_reader *r, const ProtobufCBinaryData *bytes, rf_event *out)
{
    r->text = rf_calloc(1, bytes->len + 1);
    if (!r->text) return RF_ERROR_OUT_OF_HOST_MEMORY;
    if (bytes->len > 0) memcpy(r->text, bytes->data, bytes->len);
    out->kind = RF_EVENT_TEXT;
    out->text = r->text;
    return RF_OK;
}

/* Images come one by one; the first two entries are their size. Returns whether the value is used up. */
static bool get_image(rf_event_reader *r, const RfPb__Tensor *t, rf_event *out)
{
    if (t->n_string_val < 3) return true;
    if (r->next_image == 0) r->next_image = 2;
    out->kind = RF_EVENT_IMAGE;
    out->bytes = t->string_val[r->next_image].data;
    out->size = t->string_val[r->next_image].len;
    return ++r->next_image >= t->n_string_val;
}

static rf_result get_tensor(rf_event_reader *r, const RfPb__Summary__Value *value, rf_event *out, bool *used)
{
    const RfPb__Tensor *t = value->tensor;
    const RfPb__SummaryMetadata__PluginData *data = value->metadata ? value->metadata->plugin_data : NULL;
    const char *plugin = data ? data->plugin_name : "";
    if (strcmp(plugin, "histograms") == 0) return get_histogram(r, t, out);
    if (strcmp(plugin, "text") == 0 && t->n_string_val > 0) return get_text(r, &t->string_val[0], out);
    if (strcmp(plugin, "images") == 0) *used = get_image(r, t, out);
    /* The metadata may stand with a tag's first value only: a lone number is taken for what it most likely is. */
    const bool scalar = strcmp(plugin, "scalars") == 0 || !plugin[0];
    if (scalar && count_elements(t) == 1 && get_number(t, 0, &out->scalar)) out->kind = RF_EVENT_SCALAR;
    return RF_OK;
}

static rf_result get_value(rf_event_reader *r, rf_event *out)
{
    const RfPb__Summary__Value *value = r->event->summary->value[r->next_value];
    bool used = true;
    rf_result result = RF_OK;
    out->tag = value->tag;
    if (value->value_case == RF_PB__SUMMARY__VALUE__VALUE_SIMPLE_VALUE) {
        out->kind = RF_EVENT_SCALAR;
        out->scalar = (double)value->simple_value;
    } else if (value->value_case == RF_PB__SUMMARY__VALUE__VALUE_IMAGE) {
        out->kind = RF_EVENT_IMAGE;
        out->bytes = value->image->encoded_image_string.data;
        out->size = value->image->encoded_image_string.len;
    } else if (value->value_case == RF_PB__SUMMARY__VALUE__VALUE_TENSOR) {
        result = get_tensor(r, value, out, &used);
    }
    if (used) {
        r->next_value++;
        r->next_image = 0;
    }
    return result;
}

RF_API rf_result rf_event_reader_next(rf_event_reader *r, rf_event *out)
{
    RF_REQUIRE(r, "rf_event_reader_next: reader is NULL");
    RF_REQUIRE(out, "rf_event_reader_next: out is NULL");
    *out = (rf_event){ .tag = "" };
    drop_extras(r);
    const RfPb__Event *e = r->event;
    const bool more = e && e->what_case == RF_PB__EVENT__WHAT_SUMMARY && r->next_value < e->summary->n_value;
    if (!more) {
        drop_event(r);
        const rf_result got = next_record(r);
        if (got != RF_OK) return got;
        e = r->event;
    }
    out->wall_time = e->wall_time;
    out->step = e->step;
    if (e->what_case == RF_PB__EVENT__WHAT_SUMMARY && e->summary->n_value > 0) return get_value(r, out);
    if (e->what_case == RF_PB__EVENT__WHAT_FILE_VERSION) {
        out->kind = RF_EVENT_VERSION;
        out->text = e->file_version;
    } else if (e->what_case == RF_PB__EVENT__WHAT_GRAPH_DEF) {
        out->kind = RF_EVENT_GRAPH;
        out->bytes = e->graph_def.data;
        out->size = e->graph_def.len;
    }
    return RF_OK;
}
