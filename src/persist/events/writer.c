/* SPDX-License-Identifier: Apache-2.0 */
/* Event files: buffering, framing, and the values that need no more than a tensor. */
#include <ringfire/events.h>

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/params.h"
#include "base/platform.h"
#include "base/record.h"
#include "base/utf8.h"
#include "persist/events/internal.h"

#define BUFFER_SIZE 65536u
#define DEFAULT_FLUSH_SECONDS 10.0
#define NUM_BUCKETS 30u
#define MAX_RECORD (1u << 30)

struct rf_event_writer {
    pthread_mutex_t lock;
    int fd;
    char *path;
    unsigned char *buffer; /* whole records that wait */
    size_t used, capacity;
    uint64_t flush_ns, flushed_ns;
    bool hparams; /* written; their session is to be ended */
    bool failed;
    rf_error_record failure;
};

/* ---- the file ---- */

static double wall_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Under the lock, like all below. Incomplete writes go on where they stopped. */
static rf_result event_writer_flush(rf_event_writer *w)
{
    size_t done = 0;
    w->flushed_ns = rf_now_ns();
    while (done < w->used) {
        const ssize_t n = write(w->fd, w->buffer + done, w->used - done);
        if (n > 0) done += (size_t)n;
        if (n >= 0 || errno == EINTR) continue;
        const rf_result r = RF_FAIL_ERRNO(RF_ERROR_IO, "event file '%s': writing failed; is the disk full?", w->path);
        rf_error_save(&w->failure);
        w->failed = true;
        return r;
    }
    w->used = 0;
    return RF_OK;
}

static rf_result event_writer_reserve(rf_event_writer *w, size_t size)
{
    if (w->used > 0 && w->used + size > BUFFER_SIZE) RF_TRY(event_writer_flush(w));
    if (w->used + size <= w->capacity) return RF_OK;
    unsigned char *grown = rf_calloc(1, w->used + size);
    if (!grown) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(grown, w->buffer, w->used);
    rf_free(w->buffer);
    w->buffer = grown;
    w->capacity = w->used + size;
    return RF_OK;
}

static rf_result event_append(rf_event_writer *w, const RfPb__Event *event)
{
    if (w->failed) return rf_error_restore(&w->failure);
    const size_t size = rf_pb__event__get_packed_size(event);
    RF_REQUIRE(size <= MAX_RECORD, "event file '%s': an event of %zu bytes is too large", w->path, size);
    RF_TRY(event_writer_reserve(w, RF_RECORD_HEAD + size + RF_RECORD_TAIL));
    unsigned char *at = w->buffer + w->used;
    rf_record_put(at, size, 8);
    rf_record_put(at + 8, rf_record_checksum(at, 8), 4);
    rf_pb__event__pack(event, at + RF_RECORD_HEAD);
    rf_record_put(at + RF_RECORD_HEAD + size, rf_record_checksum(at + RF_RECORD_HEAD, size), 4);
    w->used += RF_RECORD_HEAD + size + RF_RECORD_TAIL;
    return rf_now_ns() - w->flushed_ns > w->flush_ns ? event_writer_flush(w) : RF_OK;
}

rf_result rf_event_writer_append(rf_event_writer *w, RfPb__Event *event)
{
    event->wall_time = wall_time();
    pthread_mutex_lock(&w->lock);
    const rf_result r = event_append(w, event);
    pthread_mutex_unlock(&w->lock);
    return r;
}

/* ---- life ---- */

static rf_result open_file(rf_event_writer *w, const char *directory)
{
    char host[256] = "";
    (void)gethostname(host, sizeof(host) - 1);
    if (!host[0]) strcpy(host, "localhost");
    for (char *c = host; *c; c++)
        if (*c == '/') *c = '_';
    for (uint32_t i = 0; i < 10000; i++) {
        rf_free(w->path);
        w->path = rf_asprintf("%s/events.out.tfevents.%lld.%s.%lld.%u.v2", directory, (long long)time(NULL), host,
                              (long long)getpid(), i);
        if (!w->path) return RF_ERROR_OUT_OF_HOST_MEMORY;
        w->fd = open(w->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
        if (w->fd >= 0) return RF_OK;
        if (errno != EEXIST) break;
    }
    return RF_FAIL_ERRNO(RF_ERROR_IO, "event file: cannot create '%s'", w->path);
}

static rf_result start_writer(rf_event_writer *w, const rf_event_writer_params *params)
{
    const double seconds = rf_setting(params->flush_seconds, DEFAULT_FLUSH_SECONDS);
    w->flush_ns = seconds < 1e9 ? (uint64_t)(seconds * 1e9) : UINT64_MAX;
    w->buffer = rf_calloc(1, BUFFER_SIZE);
    if (!w->buffer) return RF_ERROR_OUT_OF_HOST_MEMORY;
    w->capacity = BUFFER_SIZE;
    RF_TRY(rf_make_directories(params->directory, 0777));
    RF_TRY(open_file(w, params->directory));
    static char version[] = "brain.Event:2";
    RfPb__Event event = RF_PB__EVENT__INIT;
    event.what_case = RF_PB__EVENT__WHAT_FILE_VERSION;
    event.file_version = version;
    RF_TRY(rf_event_writer_append(w, &event));
    return rf_event_writer_flush(w); /* from now on the run can be seen */
}

static void free_writer(rf_event_writer *w)
{
    if (w->fd >= 0) (void)close(w->fd);
    pthread_mutex_destroy(&w->lock);
    rf_free(w->buffer);
    rf_free(w->path);
    rf_free(w);
}

RF_API rf_result rf_event_writer_create(const rf_event_writer_params *params, rf_event_writer **out)
{
    RF_REQUIRE(out, "rf_event_writer_create: out is NULL");
    *out = NULL;
    RF_TRY(RF_PARAMS_CHECK(rf_event_writer_params, params));
    RF_REQUIRE(params && params->directory && params->directory[0], "rf_event_writer_create: directory is empty");
    RF_REQUIRE(!(params->flush_seconds < 0), "rf_event_writer_create: flush_seconds %g is negative",
               params->flush_seconds);
    rf_event_writer *w = RF_NEW(rf_event_writer);
    if (!w) return RF_ERROR_OUT_OF_HOST_MEMORY;
    w->fd = -1;
    pthread_mutex_init(&w->lock, NULL);
    const rf_result r = start_writer(w, params);
    if (r < 0)
        free_writer(w);
    else
        *out = w;
    return r;
}

static rf_result end_session(rf_event_writer *w);

RF_API void rf_event_writer_destroy(rf_event_writer **writer)
{
    rf_event_writer *w = writer ? *writer : NULL;
    if (!w) return;
    *writer = NULL;
    if (w->hparams) (void)end_session(w);
    if (!w->failed) (void)event_writer_flush(w);
    free_writer(w);
}

RF_API const char *rf_event_writer_path(const rf_event_writer *writer)
{
    return writer ? writer->path : "";
}

RF_API rf_result rf_event_writer_flush(rf_event_writer *writer)
{
    RF_REQUIRE(writer, "rf_event_writer_flush: writer is NULL");
    pthread_mutex_lock(&writer->lock);
    const rf_result r = writer->failed ? rf_error_restore(&writer->failure) : event_writer_flush(writer);
    pthread_mutex_unlock(&writer->lock);
    return r;
}

/* ---- values ---- */

rf_result rf_event_check_text(const char *what, const char *text)
{
    RF_REQUIRE(rf_utf8_valid(text, strlen(text)), "%s '%.200s' is not UTF-8", what, text);
    return RF_OK;
}

/* protobuf-c's structures take no const, though packing changes nothing. */
static char *text_of(const char *text)
{
    union {
        const char *in;
        char *out;
    } u = { text };
    return u.out;
}

static rf_result append_value(rf_event_writer *w, const char *plugin, RfPb__DataClass data_class,
                              const ProtobufCBinaryData *content, const char *tag, int64_t step, RfPb__Tensor *tensor)
{
    RfPb__SummaryMetadata__PluginData data = RF_PB__SUMMARY_METADATA__PLUGIN_DATA__INIT;
    RfPb__SummaryMetadata metadata = RF_PB__SUMMARY_METADATA__INIT;
    RfPb__Summary__Value value = RF_PB__SUMMARY__VALUE__INIT, *values[] = { &value };
    RfPb__Summary summary = RF_PB__SUMMARY__INIT;
    RfPb__Event event = RF_PB__EVENT__INIT;
    data.plugin_name = text_of(plugin);
    if (content) data.content = *content;
    metadata.plugin_data = &data;
    metadata.data_class = (int32_t)data_class;
    value.tag = text_of(tag);
    value.metadata = &metadata;
    value.value_case = RF_PB__SUMMARY__VALUE__VALUE_TENSOR;
    value.tensor = tensor;
    summary.n_value = 1;
    summary.value = values;
    event.step = step;
    event.what_case = RF_PB__EVENT__WHAT_SUMMARY;
    event.summary = &summary;
    return rf_event_writer_append(w, &event);
}

rf_result rf_event_writer_value(rf_event_writer *writer, const char *plugin, RfPb__DataClass data_class,
                                const char *tag, int64_t step, RfPb__Tensor *tensor)
{
    return append_value(writer, plugin, data_class, NULL, tag, step, tensor);
}

RF_API rf_result rf_event_writer_scalar(rf_event_writer *writer, const char *tag, int64_t step, double value)
{
    RF_REQUIRE(writer, "rf_event_writer_scalar: writer is NULL");
    RF_REQUIRE(tag && tag[0], "rf_event_writer_scalar: tag is empty");
    RF_TRY(rf_event_check_text("rf_event_writer_scalar: tag", tag));
    float number = (float)value;
    RfPb__TensorShape shape = RF_PB__TENSOR_SHAPE__INIT;
    RfPb__Tensor tensor = RF_PB__TENSOR__INIT;
    tensor.dtype = RF_PB__DATA_TYPE__DT_FLOAT;
    tensor.tensor_shape = &shape;
    tensor.n_float_val = 1;
    tensor.float_val = &number;
    return rf_event_writer_value(writer, "scalars", RF_PB__DATA_CLASS__DATA_CLASS_SCALAR, tag, step, &tensor);
}

/* Left end, right end and count of each bucket. Returns their number. */
static uint32_t fill_buckets(const float *values, uint64_t count, double buckets[3 * NUM_BUCKETS])
{
    double low = INFINITY, high = -INFINITY;
    uint64_t finite = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) continue;
        low = fmin(low, (double)values[i]);
        high = fmax(high, (double)values[i]);
        finite++;
    }
    if (finite == 0) return 0;
    const uint32_t n = low < high ? NUM_BUCKETS : 1;
    const double begin = n > 1 ? low : low - 0.5, width = n > 1 ? (high - low) / n : 1;
    for (uint32_t i = 0; i < n; i++) {
        buckets[3 * i] = begin + i * width;
        buckets[3 * i + 1] = i + 1 == n && n > 1 ? high : begin + (i + 1) * width;
        buckets[3 * i + 2] = 0;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!isfinite(values[i])) continue;
        const double at = ((double)values[i] - begin) / width;
        const uint32_t bucket = at < n ? (uint32_t)at : n - 1;
        buckets[3 * bucket + 2]++;
    }
    return n;
}

RF_API rf_result rf_event_writer_histogram(rf_event_writer *writer, const char *tag, int64_t step, const float *values,
                                           uint64_t count)
{
    RF_REQUIRE(writer, "rf_event_writer_histogram: writer is NULL");
    RF_REQUIRE(tag && tag[0], "rf_event_writer_histogram: tag is empty");
    RF_TRY(rf_event_check_text("rf_event_writer_histogram: tag", tag));
    RF_REQUIRE(values || count == 0, "rf_event_writer_histogram: values is NULL");
    double buckets[3 * NUM_BUCKETS];
    const uint32_t n = fill_buckets(values, count, buckets);
    RfPb__TensorShape__Dim rows = RF_PB__TENSOR_SHAPE__DIM__INIT, columns = RF_PB__TENSOR_SHAPE__DIM__INIT;
    RfPb__TensorShape__Dim *dims[] = { &rows, &columns };
    RfPb__TensorShape shape = RF_PB__TENSOR_SHAPE__INIT;
    RfPb__Tensor tensor = RF_PB__TENSOR__INIT;
    rows.size = n;
    columns.size = 3;
    shape.n_dim = 2;
    shape.dim = dims;
    tensor.dtype = RF_PB__DATA_TYPE__DT_DOUBLE;
    tensor.tensor_shape = &shape;
    tensor.n_double_val = 3 * (size_t)n;
    tensor.double_val = buckets;
    return rf_event_writer_value(writer, "histograms", RF_PB__DATA_CLASS__DATA_CLASS_TENSOR, tag, step, &tensor);
}

RF_API rf_result rf_event_writer_text(rf_event_writer *writer, const char *tag, int64_t step, const char *text)
{
    RF_REQUIRE(writer, "rf_event_writer_text: writer is NULL");
    RF_REQUIRE(tag && tag[0], "rf_event_writer_text: tag is empty");
    RF_TRY(rf_event_check_text("rf_event_writer_text: tag", tag));
    RF_REQUIRE(text, "rf_event_writer_text: text is NULL");
    RF_REQUIRE(rf_utf8_valid(text, strlen(text)), "rf_event_writer_text: the text of '%s' is not UTF-8", tag);
    ProtobufCBinaryData bytes = { strlen(text), (uint8_t *)text_of(text) };
    RfPb__TensorShape shape = RF_PB__TENSOR_SHAPE__INIT;
    RfPb__Tensor tensor = RF_PB__TENSOR__INIT;
    tensor.dtype = RF_PB__DATA_TYPE__DT_STRING;
    tensor.tensor_shape = &shape;
    tensor.n_string_val = 1;
    tensor.string_val = &bytes;
    return rf_event_writer_value(writer, "text", RF_PB__DATA_CLASS__DATA_CLASS_TENSOR, tag, step, &tensor);
}

/* ---- hyperparameters ---- */

/* The plugin reads its own message from the metadata; the tensor is a zero that is not read. */
static rf_result append_hparams(rf_event_writer *w, const char *tag, const RfPb__HParamsPlugin *message)
{
    const size_t size = rf_pb__hparams_plugin__get_packed_size(message);
    uint8_t *bytes = rf_calloc(1, size);
    if (!bytes) return RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_pb__hparams_plugin__pack(message, bytes);
    float zero = 0;
    RfPb__TensorShape__Dim one = RF_PB__TENSOR_SHAPE__DIM__INIT, *dims[] = { &one };
    RfPb__TensorShape shape = RF_PB__TENSOR_SHAPE__INIT;
    RfPb__Tensor tensor = RF_PB__TENSOR__INIT;
    one.size = 1;
    shape.n_dim = 1;
    shape.dim = dims;
    tensor.dtype = RF_PB__DATA_TYPE__DT_FLOAT;
    tensor.tensor_shape = &shape;
    tensor.n_float_val = 1;
    tensor.float_val = &zero;
    const rf_result r = append_value(w, "hparams", RF_PB__DATA_CLASS__DATA_CLASS_TENSOR,
                                     &(ProtobufCBinaryData){ size, bytes }, tag, 0, &tensor);
    rf_free(bytes);
    return r;
}

static rf_result end_session(rf_event_writer *w)
{
    RfPb__HParamsPlugin__SessionEnd end = RF_PB__HPARAMS_PLUGIN__SESSION_END__INIT;
    RfPb__HParamsPlugin message = RF_PB__HPARAMS_PLUGIN__INIT;
    end.status = 1;
    end.end_time_secs = wall_time();
    message.data_case = RF_PB__HPARAMS_PLUGIN__DATA_SESSION_END_INFO;
    message.session_end_info = &end;
    return append_hparams(w, "_hparams_/session_end_info", &message);
}

typedef struct hparam_slot {
    RfPb__HParamsPlugin__Entry entry;
    RfPb__HParamsPlugin__Value value;
} hparam_slot;

static rf_result check_hparams(const rf_hparam *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        RF_REQUIRE(items[i].name && items[i].name[0], "rf_event_writer_hparams: item %u has no name", i);
        RF_TRY(rf_event_check_text("rf_event_writer_hparams: name", items[i].name));
        RF_REQUIRE(!items[i].text || rf_utf8_valid(items[i].text, strlen(items[i].text)),
                   "rf_event_writer_hparams: the text of '%s' is not UTF-8", items[i].name);
    }
    return RF_OK;
}

static rf_result start_session(rf_event_writer *w, const rf_hparam *items, uint32_t count, hparam_slot *slots,
                               RfPb__HParamsPlugin__Entry **entries)
{
    for (uint32_t i = 0; i < count; i++) {
        rf_pb__hparams_plugin__entry__init(&slots[i].entry);
        rf_pb__hparams_plugin__value__init(&slots[i].value);
        slots[i].entry.key = text_of(items[i].name);
        slots[i].entry.value = &slots[i].value;
        if (items[i].text) {
            slots[i].value.kind_case = RF_PB__HPARAMS_PLUGIN__VALUE__KIND_STRING_VALUE;
            slots[i].value.string_value = text_of(items[i].text);
        } else {
            slots[i].value.kind_case = RF_PB__HPARAMS_PLUGIN__VALUE__KIND_NUMBER_VALUE;
            slots[i].value.number_value = items[i].number;
        }
        entries[i] = &slots[i].entry;
    }
    RfPb__HParamsPlugin__SessionStart begin = RF_PB__HPARAMS_PLUGIN__SESSION_START__INIT;
    RfPb__HParamsPlugin message = RF_PB__HPARAMS_PLUGIN__INIT;
    begin.n_hparams = count;
    begin.hparams = entries;
    begin.start_time_secs = wall_time();
    message.data_case = RF_PB__HPARAMS_PLUGIN__DATA_SESSION_START_INFO;
    message.session_start_info = &begin;
    return append_hparams(w, "_hparams_/session_start_info", &message);
}

RF_API rf_result rf_event_writer_hparams(rf_event_writer *writer, const rf_hparam *items, uint32_t count)
{
    RF_TRY(RF_PARAMS_CHECK_ALL(rf_hparam, items, count));
    RF_REQUIRE(writer, "rf_event_writer_hparams: writer is NULL");
    RF_REQUIRE(items || count == 0, "rf_event_writer_hparams: items is NULL");
    RF_TRY(check_hparams(items, count));
    pthread_mutex_lock(&writer->lock);
    const bool again = writer->hparams;
    writer->hparams = true;
    pthread_mutex_unlock(&writer->lock);
    RF_REQUIRE(!again, "rf_event_writer_hparams: the run has hyperparameters already");
    hparam_slot *slots = RF_NEW_ARRAY(hparam_slot, count);
    RfPb__HParamsPlugin__Entry **entries = RF_NEW_ARRAY(RfPb__HParamsPlugin__Entry *, count);
    const rf_result r =
        slots && entries ? start_session(writer, items, count, slots, entries) : RF_ERROR_OUT_OF_HOST_MEMORY;
    rf_free(slots);
    rf_free(entries);
    return r;
}
