/* SPDX-License-Identifier: Apache-2.0 */
#include "train/onnx/read.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "base/utf8.h"

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

typedef struct reader {
    rf_arena *arena;
    uint32_t nodes, depth;
} reader;

/* A field of a message, whose value is one of these by its wire type. */
typedef struct field {
    uint32_t number, wire;
    uint64_t value;
    rf_import_bytes bytes;
} field;

static rf_result fail_corrupt(const char *what)
{
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "%s; the file is damaged, or no ONNX model", what);
}

/* ---- wire format ---- */

static bool varint_next(rf_import_bytes *b, uint64_t *out)
{
    *out = 0;
    for (uint32_t shift = 0; shift < 64; shift += 7) {
        if (b->size == 0) return false;
        const uint8_t byte = *b->at++;
        b->size--;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return true;
    }
    return false;
}

static bool bytes_next(rf_import_bytes *b, uint64_t size, rf_import_bytes *out)
{
    if (size > b->size) return false;
    *out = (rf_import_bytes){ b->at, (size_t)size };
    b->at += size;
    b->size -= (size_t)size;
    return true;
}

static rf_result field_next(rf_import_bytes *b, field *f)
{
    uint64_t key, size = 0;
    *f = (field){ 0 };
    bool ok = varint_next(b, &key) && key >> 3 != 0 && key >> 3 <= UINT32_MAX;
    if (!ok) return fail_corrupt("a field has no number");
    f->number = (uint32_t)(key >> 3);
    f->wire = (uint32_t)(key & 7);
    switch (f->wire) {
    case WIRE_VARINT: ok = varint_next(b, &f->value); break;
    case WIRE_64: ok = bytes_next(b, 8, &f->bytes); break;
    case WIRE_32: ok = bytes_next(b, 4, &f->bytes); break;
    case WIRE_BYTES: ok = varint_next(b, &size) && bytes_next(b, size, &f->bytes); break;
    default: ok = false;
    }
    return ok ? RF_OK : fail_corrupt("a field ends behind its message");
}

/* Little endian, as the format is. */
static uint64_t word_of(const uint8_t *at, size_t size)
{
    uint64_t word = 0;
    for (size_t i = 0; i < size; i++) word |= (uint64_t)at[i] << (8 * i);
    return word;
}

static float float_of(uint64_t word)
{
    const uint32_t bits = (uint32_t)word;
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

static double double_of(uint64_t word)
{
    double value;
    memcpy(&value, &word, sizeof(value));
    return value;
}

static rf_result string_of(reader *r, const field *f, const char **out)
{
    if (f->wire != WIRE_BYTES) return fail_corrupt("a text is none");
    if (!rf_utf8_valid((const char *)f->bytes.at, f->bytes.size) || memchr(f->bytes.at, 0, f->bytes.size))
        return fail_corrupt("a text is not UTF-8");
    char *copy = rf_arena_alloc(r->arena, f->bytes.size + 1);
    if (!copy) return RF_ERROR_OUT_OF_HOST_MEMORY;
    memcpy(copy, f->bytes.at, f->bytes.size);
    *out = copy;
    return RF_OK;
}

/* Names stand in messages of one line. */
static rf_result text_of(reader *r, const field *f, const char **out)
{
    RF_TRY(string_of(r, f, out));
    for (const char *c = *out; *c; c++)
        if ((unsigned char)*c < ' ') return fail_corrupt("a name has control characters");
    return RF_OK;
}

/* How many fields of a number a message has, which all are of one wire type or packed. */
static rf_result count_fields(rf_import_bytes message, uint32_t number, uint32_t *out)
{
    field f;
    for (*out = 0; message.size > 0;) {
        RF_TRY(field_next(&message, &f));
        if (f.number == number) ++*out;
    }
    return RF_OK;
}

/* Numbers of a repeated field, packed or one by one. */
static rf_result count_numbers(rf_import_bytes message, uint32_t number, uint32_t *out)
{
    field f;
    uint64_t value;
    for (*out = 0; message.size > 0;) {
        RF_TRY(field_next(&message, &f));
        if (f.number != number) continue;
        if (f.wire != WIRE_BYTES) ++*out;
        while (f.wire == WIRE_BYTES && f.bytes.size > 0) {
            if (!varint_next(&f.bytes, &value)) return fail_corrupt("a list of numbers ends within one");
            ++*out;
        }
    }
    return RF_OK;
}

static rf_result read_ints(reader *r, rf_import_bytes message, uint32_t number, int64_t **out, uint32_t *count)
{
    field f;
    uint64_t value;
    uint32_t n = 0;
    RF_TRY(count_numbers(message, number, count));
    RF_TRY(RF_ARENA_ARRAY(r->arena, *out, *count));
    while (message.size > 0) {
        RF_TRY(field_next(&message, &f));
        if (f.number != number) continue;
        if (f.wire == WIRE_VARINT) (*out)[n++] = (int64_t)f.value;
        while (f.wire == WIRE_BYTES && f.bytes.size > 0 && varint_next(&f.bytes, &value)) (*out)[n++] = (int64_t)value;
    }
    *count = n;
    return RF_OK;
}

static rf_result read_floats(reader *r, rf_import_bytes message, uint32_t number, float **out, uint32_t *count)
{
    field f;
    uint64_t total = 0;
    for (rf_import_bytes b = message; b.size > 0;) {
        RF_TRY(field_next(&b, &f));
        if (f.number == number) total += f.bytes.size / sizeof(float);
    }
    if (total > UINT32_MAX) return fail_corrupt("an attribute is too long");
    RF_TRY(RF_ARENA_ARRAY(r->arena, *out, total));
    *count = 0;
    while (message.size > 0) {
        RF_TRY(field_next(&message, &f));
        if (f.number != number) continue;
        for (size_t i = 0; i + 4 <= f.bytes.size; i += 4) (*out)[(*count)++] = float_of(word_of(f.bytes.at + i, 4));
    }
    return RF_OK;
}

/* ---- tensors ---- */

static rf_result read_external(reader *r, rf_import_bytes message, rf_import_tensor *t)
{
    field f;
    const char *key = "", *value = "";
    while (message.size > 0) {
        RF_TRY(field_next(&message, &f));
        if (f.number == 1) RF_TRY(text_of(r, &f, &key));
        if (f.number == 2) RF_TRY(text_of(r, &f, &value));
    }
    if (strcmp(key, "location") == 0) t->location = value;
    const bool offset = strcmp(key, "offset") == 0, length = strcmp(key, "length") == 0;
    if (!offset && !length) return RF_OK;
    uint64_t number = 0;
    for (const char *c = value; *c; c++) {
        if (*c < '0' || *c > '9' || number > UINT64_MAX / 10 - 1)
            return fail_corrupt("a place of external data is no number");
        number = 10 * number + (uint64_t)(*c - '0');
    }
    if (offset) t->offset = number;
    if (length) t->length = number;
    t->has_length |= length;
    return RF_OK;
}

static rf_result read_dims(reader *r, rf_import_bytes message, rf_import_tensor *t)
{
    int64_t *dims;
    uint32_t rank;
    RF_TRY(read_ints(r, message, 1, &dims, &rank));
    if (rank > RF_MAX_RANK)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "tensor '%s' has %u dimensions; there may be %d", t->name, rank,
                       RF_MAX_RANK);
    t->shape.rank = (int32_t)rank;
    for (uint32_t i = 0; i < rank; i++) t->shape.dim[i] = dims[i];
    if (rf_shape_count(t->shape) < 0) return fail_corrupt("a tensor has a shape that is none");
    return RF_OK;
}

/* Numbers that are not packed stand in fields of their own. */
static rf_result read_single(reader *r, rf_import_bytes message, rf_import_tensor *t)
{
    field f;
    uint32_t counts[4] = { 0 };
    static const uint32_t numbers[] = { 4, 5, 7, 10 };
    for (int i = 0; i < 4; i++) RF_TRY(count_fields(message, numbers[i], &counts[i]));
    const uint64_t most = (uint64_t)counts[0] + counts[1] + counts[2] + counts[3];
    RF_TRY(RF_ARENA_ARRAY(r->arena, t->single, most));
    while (message.size > 0) {
        RF_TRY(field_next(&message, &f));
        const bool listed = f.number == 4 || f.number == 5 || f.number == 7 || f.number == 10 || f.number == 11;
        if (!listed || f.wire == WIRE_BYTES || t->num_single == most) continue;
        double *to = &t->single[t->num_single++];
        *to = f.wire == WIRE_VARINT ? (double)(int64_t)f.value
              : f.wire == WIRE_32   ? (double)float_of(word_of(f.bytes.at, 4))
                                    : double_of(word_of(f.bytes.at, 8));
    }
    return RF_OK;
}

static rf_result read_tensor(reader *r, rf_import_bytes message, rf_import_tensor *t)
{
    field f;
    bool single = false;
    *t = (rf_import_tensor){ .name = "" };
    for (rf_import_bytes b = message; b.size > 0;) {
        RF_TRY(field_next(&b, &f));
        const bool packed = f.wire == WIRE_BYTES;
        switch (f.number) {
        case 2: t->type = f.value <= INT32_MAX ? (int32_t)f.value : 0; break;
        case 4:
            if (packed) t->floats = f.bytes;
            single |= !packed;
            break;
        case 5:
        case 7:
        case 11:
            if (packed) t->varints = f.bytes;
            single |= !packed;
            break;
        case 10:
            if (packed) t->doubles = f.bytes;
            single |= !packed;
            break;
        case 8: RF_TRY(text_of(r, &f, &t->name)); break;
        case 9: t->raw = f.bytes; break;
        case 13:
            if (packed) RF_TRY(read_external(r, f.bytes, t));
            break;
        case 14: t->external = f.value == 1; break;
        default: break; /* strings, descriptions, segments */
        }
    }
    RF_TRY(read_dims(r, message, t));
    if (t->external && (!t->location || !*t->location))
        return RF_FAIL(RF_ERROR_CORRUPT_DATA, "tensor '%s' has its data in a file without a name", t->name);
    return single ? read_single(r, message, t) : RF_OK;
}

size_t rf_import_type_size(int32_t type)
{
    static const uint8_t sizes[] = { 0, 4, 1, 1, 2, 2, 4, 8, 0, 1, 2, 8, 4, 8, 0, 0, 2 };
    return type >= 0 && type < (int32_t)sizeof(sizes) ? sizes[type] : 0;
}

bool rf_import_type_is_float(int32_t type)
{
    return type == RF_IMPORT_TYPE_FLOAT || type == RF_IMPORT_TYPE_FLOAT16 || type == RF_IMPORT_TYPE_DOUBLE ||
           type == RF_IMPORT_TYPE_BFLOAT16;
}

static double raw_number(int32_t type, const uint8_t *at)
{
    const uint64_t word = word_of(at, rf_import_type_size(type));
    switch (type) {
    case RF_IMPORT_TYPE_FLOAT: return float_of(word);
    case RF_IMPORT_TYPE_DOUBLE: return double_of(word);
    case RF_IMPORT_TYPE_FLOAT16: return rf_f16_to_f32((uint16_t)word);
    default: return rf_bf16_to_f32((uint16_t)word);
    }
}

static int64_t raw_whole(int32_t type, const uint8_t *at)
{
    const uint64_t word = word_of(at, rf_import_type_size(type));
    switch (type) {
    case RF_IMPORT_TYPE_INT8: return (int8_t)word;
    case RF_IMPORT_TYPE_INT16: return (int16_t)word;
    case RF_IMPORT_TYPE_INT32: return (int32_t)word;
    default: return (int64_t)word;
    }
}

static rf_result fail_length(const rf_import_tensor *t)
{
    char text[96];
    return RF_FAIL(RF_ERROR_CORRUPT_DATA, "tensor '%s' of shape %s has other numbers than that", t->name,
                   rf_shape_format(t->shape, text, sizeof(text)));
}

rf_result rf_import_tensor_floats(const rf_import_tensor *t, float *out)
{
    const uint64_t count = (uint64_t)rf_shape_count(t->shape);
    const size_t size = rf_import_type_size(t->type);
    uint64_t word;
    rf_import_bytes list = t->varints;
    if (t->raw.at || count == 0) {
        if (t->raw.size != count * size) return fail_length(t);
        for (uint64_t i = 0; i < count; i++) out[i] = (float)raw_number(t->type, t->raw.at + i * size);
        return RF_OK;
    }
    if (t->num_single > 0) {
        if (t->num_single != count || size == 2) return fail_length(t);
        for (uint64_t i = 0; i < count; i++) out[i] = (float)t->single[i];
        return RF_OK;
    }
    const rf_import_bytes packed = t->type == RF_IMPORT_TYPE_DOUBLE ? t->doubles : t->floats;
    if (size > 2) {
        if (packed.size != count * size) return fail_length(t);
        for (uint64_t i = 0; i < count; i++) out[i] = (float)raw_number(t->type, packed.at + i * size);
        return RF_OK;
    }
    for (uint64_t i = 0; i < count; i++) { /* of 16 bits: as whole numbers that hold the bits */
        if (!varint_next(&list, &word)) return fail_length(t);
        const uint8_t bits[2] = { (uint8_t)word, (uint8_t)(word >> 8) };
        out[i] = (float)raw_number(t->type, bits);
    }
    return list.size == 0 ? RF_OK : fail_length(t);
}

rf_result rf_import_tensor_whole(const rf_import_tensor *t, int64_t *out)
{
    const uint64_t count = (uint64_t)rf_shape_count(t->shape);
    const size_t size = rf_import_type_size(t->type);
    uint64_t word;
    rf_import_bytes list = t->varints;
    if (t->raw.at || count == 0) {
        if (t->raw.size != count * size) return fail_length(t);
        for (uint64_t i = 0; i < count; i++) out[i] = raw_whole(t->type, t->raw.at + i * size);
        return RF_OK;
    }
    if (t->num_single > 0) {
        if (t->num_single != count) return fail_length(t);
        for (uint64_t i = 0; i < count; i++) out[i] = fabs(t->single[i]) < 9e18 ? (int64_t)t->single[i] : INT64_MAX;
        return RF_OK;
    }
    for (uint64_t i = 0; i < count; i++) {
        if (!varint_next(&list, &word)) return fail_length(t);
        out[i] = (int64_t)word;
    }
    return list.size == 0 ? RF_OK : fail_length(t);
}

/* ---- nodes ---- */

static rf_result read_graph(reader *r, rf_import_bytes message, rf_import_graph *g);

static rf_result read_attribute(reader *r, rf_import_bytes message, rf_import_attribute *a)
{
    field f;
    *a = (rf_import_attribute){ .name = "", .s = "" };
    for (rf_import_bytes b = message; b.size > 0;) {
        RF_TRY(field_next(&b, &f));
        switch (f.number) {
        case 1: RF_TRY(text_of(r, &f, &a->name)); break;
        case 2: a->f = f.wire == WIRE_32 ? float_of(word_of(f.bytes.at, 4)) : 0; break;
        case 3: a->i = (int64_t)f.value; break;
        case 4: RF_TRY(string_of(r, &f, &a->s)); break;
        case 5:
            if (f.wire != WIRE_BYTES) return fail_corrupt("a tensor of an attribute is none");
            RF_TRY(RF_ARENA_ARRAY(r->arena, a->t, 1));
            RF_TRY(read_tensor(r, f.bytes, a->t));
            break;
        case 6:
            if (f.wire != WIRE_BYTES) return fail_corrupt("a graph of an attribute is none");
            RF_TRY(RF_ARENA_ARRAY(r->arena, a->g, 1));
            RF_TRY(read_graph(r, f.bytes, a->g));
            break;
        case 20: a->type = f.value <= INT32_MAX ? (int32_t)f.value : 0; break;
        default: break; /* lists, read below; lists of tensors and graphs, descriptions */
        }
    }
    RF_TRY(read_floats(r, message, 7, &a->floats, &a->num_floats));
    RF_TRY(count_fields(message, 9, &a->num_strings));
    RF_TRY(RF_ARENA_ARRAY(r->arena, a->strings, a->num_strings));
    uint32_t strings = 0;
    for (rf_import_bytes b = message; b.size > 0;) {
        RF_TRY(field_next(&b, &f));
        if (f.number == 9) RF_TRY(string_of(r, &f, &a->strings[strings++]));
    }
    return read_ints(r, message, 8, &a->ints, &a->num_ints);
}

static rf_result read_node(reader *r, rf_import_bytes message, rf_import_node *n)
{
    field f;
    uint32_t in = 0, out = 0, attributes = 0;
    *n = (rf_import_node){ .name = "", .op = "", .domain = "" };
    RF_TRY(count_fields(message, 1, &n->num_in));
    RF_TRY(count_fields(message, 2, &n->num_out));
    RF_TRY(count_fields(message, 5, &n->num_attributes));
    RF_TRY(RF_ARENA_ARRAY(r->arena, n->in, n->num_in));
    RF_TRY(RF_ARENA_ARRAY(r->arena, n->out, n->num_out));
    RF_TRY(RF_ARENA_ARRAY(r->arena, n->attributes, n->num_attributes));
    while (message.size > 0) {
        RF_TRY(field_next(&message, &f));
        switch (f.number) {
        case 1: RF_TRY(text_of(r, &f, &n->in[in++])); break;
        case 2: RF_TRY(text_of(r, &f, &n->out[out++])); break;
        case 3: RF_TRY(text_of(r, &f, &n->name)); break;
        case 4: RF_TRY(text_of(r, &f, &n->op)); break;
        case 5:
            if (f.wire != WIRE_BYTES) return fail_corrupt("an attribute is none");
            RF_TRY(read_attribute(r, f.bytes, &n->attributes[attributes++]));
            break;
        case 7: RF_TRY(text_of(r, &f, &n->domain)); break;
        default: break;
        }
    }
    return RF_OK;
}

static rf_result read_shape(rf_import_bytes message, rf_import_port *p)
{
    field f, d;
    p->has_shape = true;
    while (message.size > 0) {
        RF_TRY(field_next(&message, &f));
        if (f.number != 1 || f.wire != WIRE_BYTES) continue;
        if (p->shape.rank == RF_MAX_RANK)
            return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' has more than %d dimensions", p->name, RF_MAX_RANK);
        int64_t *dim = &p->shape.dim[p->shape.rank++];
        *dim = -1;
        while (f.bytes.size > 0) {
            RF_TRY(field_next(&f.bytes, &d));
            if (d.number == 1 && d.wire == WIRE_VARINT && (int64_t)d.value > 0) *dim = (int64_t)d.value;
        }
    }
    return RF_OK;
}

static rf_result read_port(reader *r, rf_import_bytes message, rf_import_port *p)
{
    field f, type, tensor;
    *p = (rf_import_port){ .name = "" };
    while (message.size > 0) {
        RF_TRY(field_next(&message, &f));
        if (f.number == 1) RF_TRY(text_of(r, &f, &p->name));
        while (f.number == 2 && f.wire == WIRE_BYTES && f.bytes.size > 0) {
            RF_TRY(field_next(&f.bytes, &type));
            while (type.number == 1 && type.wire == WIRE_BYTES && type.bytes.size > 0) {
                RF_TRY(field_next(&type.bytes, &tensor));
                if (tensor.number == 1) p->type = tensor.value <= INT32_MAX ? (int32_t)tensor.value : 0;
                if (tensor.number == 2 && tensor.wire == WIRE_BYTES) RF_TRY(read_shape(tensor.bytes, p));
            }
        }
    }
    return RF_OK;
}

static rf_result read_members(reader *r, rf_import_bytes message, rf_import_graph *g)
{
    field f;
    uint32_t nodes = 0, initializers = 0, inputs = 0, outputs = 0;
    while (message.size > 0) {
        RF_TRY(field_next(&message, &f));
        const bool wanted = f.number == 1 || f.number == 5 || f.number == 11 || f.number == 12;
        if (wanted && f.wire != WIRE_BYTES) return fail_corrupt("a part of a graph is none");
        if (f.number == 1) RF_TRY(read_node(r, f.bytes, &g->nodes[nodes++]));
        if (f.number == 5) RF_TRY(read_tensor(r, f.bytes, &g->initializers[initializers++]));
        if (f.number == 11) RF_TRY(read_port(r, f.bytes, &g->inputs[inputs++]));
        if (f.number == 12) RF_TRY(read_port(r, f.bytes, &g->outputs[outputs++]));
        if (f.number == 15) return RF_FAIL(RF_ERROR_UNSUPPORTED, "the graph has sparse initializers");
    }
    return RF_OK;
}

static rf_result read_graph(reader *r, rf_import_bytes message, rf_import_graph *g)
{
    if (++r->depth > RF_IMPORT_MOST_DEPTH)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "graphs lie within each other %d deep", RF_IMPORT_MOST_DEPTH + 1);
    RF_TRY(count_fields(message, 1, &g->num_nodes));
    RF_TRY(count_fields(message, 5, &g->num_initializers));
    RF_TRY(count_fields(message, 11, &g->num_inputs));
    RF_TRY(count_fields(message, 12, &g->num_outputs));
    const uint64_t parts = (uint64_t)g->num_nodes + g->num_initializers + g->num_inputs + g->num_outputs;
    if (parts > RF_IMPORT_MOST_NODES || r->nodes + parts > RF_IMPORT_MOST_NODES)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "the graph has more than %d nodes and tensors", RF_IMPORT_MOST_NODES);
    r->nodes += (uint32_t)parts;
    RF_TRY(RF_ARENA_ARRAY(r->arena, g->nodes, g->num_nodes));
    RF_TRY(RF_ARENA_ARRAY(r->arena, g->initializers, g->num_initializers));
    RF_TRY(RF_ARENA_ARRAY(r->arena, g->inputs, g->num_inputs));
    RF_TRY(RF_ARENA_ARRAY(r->arena, g->outputs, g->num_outputs));
    RF_TRY(read_members(r, message, g));
    r->depth--;
    return RF_OK;
}

/* ---- models ---- */

static rf_result read_opset(reader *r, rf_import_bytes message, rf_import_file *file)
{
    field f;
    const char *domain = "";
    int64_t version = 0;
    while (message.size > 0) {
        RF_TRY(field_next(&message, &f));
        if (f.number == 1) RF_TRY(text_of(r, &f, &domain));
        if (f.number == 2) version = (int64_t)f.value;
    }
    if (!*domain || strcmp(domain, "ai.onnx") == 0) file->opset = version;
    return RF_OK;
}

rf_result rf_import_parse(rf_import_file *file, const uint8_t *bytes, size_t size)
{
    reader r = { .arena = &file->arena };
    rf_import_bytes message = { bytes, size };
    field f;
    bool graph = false;
    while (message.size > 0) {
        RF_TRY(field_next(&message, &f));
        if (f.number == 2) RF_TRY(text_of(&r, &f, &file->producer));
        if (f.number == 7 && f.wire == WIRE_BYTES && !graph) RF_TRY(read_graph(&r, f.bytes, &file->graph));
        graph |= f.number == 7;
        if (f.number == 8 && f.wire == WIRE_BYTES) RF_TRY(read_opset(&r, f.bytes, file));
    }
    if (!graph) return fail_corrupt("there is no graph");
    if (!file->producer) file->producer = "";
    return RF_OK;
}

void rf_import_file_clear(rf_import_file *file)
{
    rf_arena_free(&file->arena);
    *file = (rf_import_file){ 0 };
}

static rf_result each_of_graph(rf_import_graph *g, rf_result (*visit)(void *user, rf_import_tensor *tensor), void *user)
{
    for (uint32_t i = 0; i < g->num_initializers; i++)
        if (g->initializers[i].external) RF_TRY(visit(user, &g->initializers[i]));
    for (uint32_t i = 0; i < g->num_nodes; i++)
        for (uint32_t k = 0; k < g->nodes[i].num_attributes; k++) {
            rf_import_attribute *a = &g->nodes[i].attributes[k];
            if (a->t && a->t->external) RF_TRY(visit(user, a->t));
            if (a->g) RF_TRY(each_of_graph(a->g, visit, user));
        }
    return RF_OK;
}

rf_result rf_import_each_external(rf_import_file *file, rf_result (*visit)(void *user, rf_import_tensor *tensor),
                                  void *user)
{
    return each_of_graph(&file->graph, visit, user);
}

const rf_import_attribute *rf_import_find_attribute(const rf_import_node *node, const char *name)
{
    for (uint32_t i = 0; i < node->num_attributes; i++)
        if (strcmp(node->attributes[i].name, name) == 0) return &node->attributes[i];
    return NULL;
}
