/* SPDX-License-Identifier: Apache-2.0 */
/* The IDX format of the MNIST files (http://yann.lecun.com/exdb/mnist/), plain or gzipped, and directories of them. */
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include "base/platform.h"
#include "data/pipeline.h"

/* An IDX file: 0, 0, element type, number of dimensions, then big-endian 32-bit sizes, then big-endian elements. */
typedef struct idx_header {
    uint8_t type;
    size_t element_size;
    rf_shape shape;
    size_t header_bytes, data_bytes;
} idx_header;

static rf_result parse_header(const char *path, const uint8_t *bytes, size_t size, idx_header *h)
{
    if (size < 4 || bytes[0] != 0 || bytes[1] != 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: not an IDX file (it must begin with two zero bytes)", path);
    static const struct {
        uint8_t type, size;
    } types[] = { { 8, 1 }, { 9, 1 }, { 11, 2 }, { 12, 4 }, { 13, 4 }, { 14, 8 } };
    h->type = bytes[2];
    h->element_size = 0;
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i].type == h->type) h->element_size = types[i].size;
    if (h->element_size == 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: unknown IDX element type 0x%02x", path, h->type);
    h->shape.rank = bytes[3];
    if (h->shape.rank < 1 || h->shape.rank > RF_MAX_RANK)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: %d dimensions; 1 to %d can be read", path, bytes[3], RF_MAX_RANK);
    h->header_bytes = 4 + 4 * (size_t)h->shape.rank;
    if (size < h->header_bytes)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: ends within its header; the file is truncated, copy it again", path);
    for (int32_t i = 0; i < h->shape.rank; i++) {
        const uint8_t *p = bytes + 4 + 4 * (size_t)i;
        h->shape.dim[i] = (int64_t)p[0] << 24 | (int64_t)p[1] << 16 | (int64_t)p[2] << 8 | p[3];
    }
    const int64_t count = rf_shape_count(h->shape);
    if (count < 0 || !rf_mul_size((size_t)count, h->element_size, &h->data_bytes) || h->data_bytes > SIZE_MAX / 16)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: the sizes in its header overflow", path);
    return RF_OK;
}

static rf_result fail_truncated(const char *path, size_t have, size_t want)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: %zu of %zu bytes; the file is truncated, copy it again", path, have,
                   want);
}

typedef enum inflate_state {
    INFLATE_MORE,
    INFLATE_FINISHED,
    INFLATE_CUT /* the compressed data ended early */
} inflate_state;

/* Inflates up to `capacity` bytes more. Several gzip members in a row count as one stream. *used is what came out. */
static rf_result inflate_some(const char *path, z_stream *z, uint8_t *out, size_t capacity, size_t *used,
                              inflate_state *state)
{
    *used = 0;
    *state = INFLATE_MORE;
    while (*used < capacity) {
        const size_t room = capacity - *used, most = 1u << 30;
        z->next_out = out + *used;
        z->avail_out = (uInt)(room < most ? room : most);
        const uInt before = z->avail_out;
        const int code = inflate(z, Z_NO_FLUSH);
        *used += before - z->avail_out;
        if (code == Z_STREAM_END) {
            if (z->avail_in == 0 || z->next_in[0] != 0x1f) {
                *state = INFLATE_FINISHED;
                return RF_OK;
            }
            if (inflateReset(z) != Z_OK) return RF_FAIL(RF_ERROR_INTERNAL, "%s: zlib cannot be reset", path);
        } else if (code == Z_BUF_ERROR || (code == Z_OK && z->avail_in == 0 && z->avail_out > 0)) {
            *state = INFLATE_CUT;
            return RF_OK;
        } else if (code != Z_OK) {
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: damaged gzip data (%s); copy the file again", path,
                           z->msg ? z->msg : "zlib error");
        }
    }
    return RF_OK;
}

static rf_result inflate_idx(const char *path, z_stream *z, size_t compressed, idx_header *h, uint8_t **data)
{
    uint8_t head[4 + 4 * RF_MAX_RANK], more;
    size_t used, rest = 0;
    inflate_state state;
    RF_TRY(inflate_some(path, z, head, 4, &used, &state));
    if (used < 4) return fail_truncated(path, used, 4);
    const size_t dims = head[3] <= RF_MAX_RANK ? 4 * (size_t)head[3] : 0;
    RF_TRY(inflate_some(path, z, head + 4, dims, &used, &state));
    RF_TRY(parse_header(path, head, 4 + used, h));
    /* Deflate cannot shrink data by more than about 1032: a header that claims more is a lie, found before allocating.
     */
    if (h->data_bytes / 1100 > compressed) return fail_truncated(path, compressed, h->data_bytes);
    *data = rf_calloc(h->data_bytes, 1);
    if (!*data) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "%s", path);
    RF_TRY(inflate_some(path, z, *data, h->data_bytes, &used, &state));
    if (used < h->data_bytes) return fail_truncated(path, h->header_bytes + used, h->header_bytes + h->data_bytes);
    /* One byte more: finds what follows the data, and makes zlib check the checksum at the end. */
    if (state == INFLATE_MORE) RF_TRY(inflate_some(path, z, &more, 1, &rest, &state));
    /* Also where the stream ends right behind that byte. */
    if (rest > 0)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: continues after the %zu bytes that its header announces", path,
                       h->header_bytes + h->data_bytes);
    if (state == INFLATE_CUT)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                       "%s: its gzip checksum is missing; the file is truncated, copy "
                       "it again",
                       path);
    return RF_OK;
}

static rf_result load_gzip(const char *path, const uint8_t *file, size_t size, idx_header *h, uint8_t **data)
{
    if (size > UINT32_MAX)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "%s: gzip files beyond 4 GiB must be unpacked first", path);
    z_stream z = { .next_in = (Bytef *)(uintptr_t)file, .avail_in = (uInt)size };
    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "%s: zlib has no memory", path);
    const rf_result r = inflate_idx(path, &z, size, h, data);
    inflateEnd(&z);
    return r;
}

static rf_result load_plain(const char *path, const uint8_t *file, size_t size, idx_header *h, uint8_t **data)
{
    RF_TRY(parse_header(path, file, size, h));
    const size_t want = h->header_bytes + h->data_bytes;
    if (size < want) return fail_truncated(path, size, want);
    if (size > want)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s: %zu bytes, but its header announces %zu", path, size, want);
    *data = rf_calloc(h->data_bytes, 1);
    if (!*data) return rf_error_context(RF_ERROR_OUT_OF_HOST_MEMORY, "%s", path);
    memcpy(*data, file + h->header_bytes, h->data_bytes);
    return RF_OK;
}

static uint64_t big_endian(const uint8_t *p, size_t size)
{
    uint64_t v = 0;
    for (size_t i = 0; i < size; i++) v = v << 8 | p[i];
    return v;
}

/* Turns file elements into u8, i32 or f32. */
static rf_result idx_convert(const idx_header *h, uint8_t *data, rf_array *out)
{
    const size_t count = (size_t)rf_shape_count(h->shape);
    out->shape = h->shape;
    if (h->type == 8) {
        out->dtype = RF_U8;
        out->data = data;
        return RF_OK;
    }
    uint32_t *words = rf_calloc(count, sizeof(uint32_t));
    if (!words) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const uint64_t bits = big_endian(data + i * h->element_size, h->element_size);
        if (h->type == 9)
            words[i] = (uint32_t)(int32_t)(int8_t)bits;
        else if (h->type == 11)
            words[i] = (uint32_t)(int32_t)(int16_t)bits;
        else
            words[i] = (uint32_t)bits;
        if (h->type == 14) {
            double d;
            memcpy(&d, &bits, sizeof(d));
            const float f = (float)d;
            memcpy(&words[i], &f, sizeof(f));
        }
    }
    rf_free(data);
    out->dtype = h->type >= 13 ? RF_F32 : RF_I32;
    out->data = words;
    return RF_OK;
}

rf_result rf_idx_decode(const char *path, const uint8_t *bytes, size_t size, rf_array *out)
{
    memset(out, 0, sizeof(*out));
    idx_header h = { 0 };
    uint8_t *data = NULL;
    const bool gzip = size >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b;
    rf_result r = gzip ? load_gzip(path, bytes, size, &h, &data) : load_plain(path, bytes, size, &h, &data);
    if (r == RF_OK) r = idx_convert(&h, data, out);
    if (r < 0) rf_free(data);
    return r;
}

rf_result rf_idx_read(const char *path, rf_array *out)
{
    RF_REQUIRE(path && out, "rf_idx_read: %s is NULL", path ? "out" : "path");
    memset(out, 0, sizeof(*out));
    void *file = NULL;
    size_t size;
    RF_TRY(rf_file_read(path, 0, &file, &size));
    const rf_result r = rf_idx_decode(path, file, size, out);
    rf_free(file);
    return r;
}

void rf_array_free(rf_array *array)
{
    if (!array) return;
    rf_free(array->data);
    memset(array, 0, sizeof(*array));
}

/* ---- image and label files ---- */

static rf_result check_pair(const char *images_path, const rf_array *images, const char *labels_path,
                            const rf_array *labels)
{
    if (images->dtype != RF_U8 || images->shape.rank != 3)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                       "%s: %d-dimensional %s data where images (3 dimensions of u8) are expected; is it the "
                       "label file?",
                       images_path, images->shape.rank, rf_dtype_name(images->dtype));
    if (labels->dtype != RF_U8 || labels->shape.rank != 1)
        return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                       "%s: %d-dimensional %s data where labels (1 dimension of u8) are expected; is it the "
                       "image file?",
                       labels_path, labels->shape.rank, rf_dtype_name(labels->dtype));
    if (images->shape.dim[0] != labels->shape.dim[0])
        return RF_FAIL(RF_ERROR_CORRUPT_DATA,
                       "%s: %lld labels for the %lld images of %s; the files do not belong together", labels_path,
                       (long long)labels->shape.dim[0], (long long)images->shape.dim[0], images_path);
    return RF_OK;
}

rf_result rf_idx_read_pair(const char *images_path, const char *labels_path, rf_array arrays[2])
{
    memset(arrays, 0, 2 * sizeof(arrays[0]));
    rf_result r = rf_idx_read(images_path, &arrays[0]);
    if (r == RF_OK) r = rf_idx_read(labels_path, &arrays[1]);
    if (r == RF_OK) r = check_pair(images_path, &arrays[0], labels_path, &arrays[1]);
    if (r == RF_OK) {
        const size_t count = (size_t)arrays[1].shape.dim[0];
        const uint8_t *small = arrays[1].data;
        int32_t *wide = RF_NEW_ARRAY(int32_t, count);
        for (size_t i = 0; wide && i < count; i++) wide[i] = small[i];
        rf_free(arrays[1].data);
        arrays[1].data = wide;
        arrays[1].dtype = RF_I32;
        arrays[0].shape.rank = 4;
        arrays[0].shape.dim[3] = 1;
        if (!wide) r = RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    if (r < 0) {
        rf_array_free(&arrays[0]);
        rf_array_free(&arrays[1]);
    }
    return r;
}

rf_result rf_dataset_from_idx(const char *images_path, const char *labels_path, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_from_idx: out is NULL");
    *out = NULL;
    rf_array arrays[2];
    RF_TRY(rf_idx_read_pair(images_path, labels_path, arrays));
    const rf_result r = rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, out);
    rf_array_free(&arrays[0]);
    rf_array_free(&arrays[1]);
    return r;
}

/* Where distributions put Fashion-MNIST. */
static const char *const usual_directories[] = { "/usr/share/datasets/fashion-mnist", "/usr/share/fashion-mnist" };

/* First spelling of the file's name that exists, as a new string; NULL + record otherwise. */
static char *find_file(const char *directory, const char *stem, const char *kind)
{
    static const struct {
        char separator;
        const char *ending;
    } forms[] = { { '-', "" }, { '-', ".gz" }, { '.', "" }, { '.', ".gz" } };
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        char *path = rf_asprintf("%s/%s%c%s%s", directory, stem, forms[i].separator, kind, forms[i].ending);
        if (!path || access(path, F_OK) == 0) return path;
        rf_free(path);
    }
    (void)RF_FAIL(RF_ERROR_NOT_FOUND,
                  "%s: has no file %s-%s or %s-%s.gz; name the directory that holds the four IDX files", directory,
                  stem, kind, stem, kind);
    return NULL;
}

rf_result rf_dataset_from_mnist_directory(const char *directory, rf_split split, rf_dataset **out)
{
    RF_REQUIRE(out, "rf_dataset_from_mnist_directory: out is NULL");
    *out = NULL;
    if (!directory) directory = rf_env("RINGFIRE_DATA");
    for (size_t i = 0; !directory && i < sizeof(usual_directories) / sizeof(usual_directories[0]); i++)
        if (access(usual_directories[i], F_OK) == 0) directory = usual_directories[i];
    if (!directory)
        return RF_FAIL(RF_ERROR_NOT_FOUND,
                       "Fashion-MNIST is not installed; install the package dataset-fashion-mnist, or set "
                       "RINGFIRE_DATA to a directory with the four IDX files");
    const bool train = split == RF_SPLIT_TRAIN;
    char *images_path = find_file(directory, train ? "train-images" : "t10k-images", "idx3-ubyte");
    char *labels_path = NULL;
    if (images_path) labels_path = find_file(directory, train ? "train-labels" : "t10k-labels", "idx1-ubyte");
    rf_result r;
    if (labels_path) {
        r = rf_dataset_from_idx(images_path, labels_path, out);
    } else {
        rf_error_info info;
        rf_error_get(&info);
        r = info.result;
    }
    rf_free(images_path);
    rf_free(labels_path);
    return r;
}
