/* SPDX-License-Identifier: Apache-2.0 */
/* Files made to harm, with right checksums: refused in under a second, in memory no larger than the file and 64 MiB. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <msgpack.h>
#include <zstd.h>

#include "../support/clock.h"
#include "memory_files.h"
#include "peak_memory.h"
#include "persist/archive/format.h"
#include "persist/archive/reader.h"
#include "persist/archive/writer.h"
#include "persist/archive/xxh64.h"
#include "tests/room.h"
#include "wrapped.h"

typedef struct forged {
    const void *data; /* frames */
    uint64_t size;
    const void *header;
    uint64_t header_size;
} forged;

static uint8_t *assemble(const forged *f, uint64_t *size)
{
    *size = RF_ARCHIVE_PREAMBLE + f->size + f->header_size + RF_ARCHIVE_TRAILER;
    uint8_t *file = malloc(*size);
    assert_non_null(file);
    const rf_archive_layout layout = { *size, RF_ARCHIVE_PREAMBLE + f->size, f->header_size,
                                       rf_xxh64(f->header, f->header_size) };
    rf_archive_layout_encode(&layout, RF_ARCHIVE_VERSION, file, file + *size - RF_ARCHIVE_TRAILER);
    if (f->size) memcpy(file + RF_ARCHIVE_PREAMBLE, f->data, f->size);
    if (f->header_size) memcpy(file + layout.header_offset, f->header, f->header_size);
    return file;
}

enum { MOST_SECONDS = SANITIZED ? 10 : 1 };    /* sanitizers make everything several times slower */
static const uint64_t most_memory = 64u << 20; /* besides the file's size */
#define FILE_NAME "hostile.rfck"

static rf_result open_and_verify(const rf_file_ops *ops)
{
    rf_archive *a;
    rf_result r = rf_archive_open_with(ops, FILE_NAME, &a);
    if (r == RF_OK) r = rf_archive_verify(a);
    rf_archive_close(&a);
    return r;
}

/* Whatever `read` makes of the file, it does so fast and in little memory: by the library's own count and by the
 * system's. */
static rf_result check_with(const void *file, uint64_t size, rf_result (*read)(const rf_file_ops *ops))
{
    memory_files files = { 0 };
    const rf_file_ops ops = memory_file_ops(&files);
    memory_files_put(&files, FILE_NAME, file, size);
    peak_memory peak;
    const double start = processor_seconds();
    wrapped_reset(0);
    peak_memory_begin(&peak);
    const rf_result r = read(&ops);
    const uint64_t resident = peak_memory_end(&peak), counted = wrapped_peak();
    const double seconds = processor_seconds() - start;
    if (counted > size + most_memory || resident > size + most_memory || seconds >= MOST_SECONDS * slowness())
        fail_msg("a file of %llu bytes took %.2f s, %llu bytes (%llu resident)", (unsigned long long)size, seconds,
                 (unsigned long long)counted, (unsigned long long)resident);
    memory_files_free(&files);
    return r;
}

static rf_result check(const void *file, uint64_t size)
{
    return check_with(file, size, open_and_verify);
}

static rf_result check_forged(const forged *f)
{
    uint64_t size;
    uint8_t *file = assemble(f, &size);
    const rf_result r = check(file, size);
    free(file);
    return r;
}

/* JSON as msgpack. Texts with '#' stand for what JSON cannot say. */
static void pack(msgpack_packer *p, json_t *j, const forged *f)
{
    const char *text = json_string_value(j), *key;
    const uint8_t *data = f->data;
    json_t *value;
    size_t i;
    switch (json_typeof(j)) {
    case JSON_OBJECT:
        msgpack_pack_map(p, json_object_size(j));
        json_object_foreach(j, key, value)
        {
            msgpack_pack_str(p, strlen(key));
            msgpack_pack_str_body(p, key, strlen(key));
            pack(p, value, f);
        }
        return;
    case JSON_ARRAY:
        msgpack_pack_array(p, json_array_size(j));
        json_array_foreach(j, i, value) pack(p, value, f);
        return;
    case JSON_INTEGER: msgpack_pack_int64(p, json_integer_value(j)); return;
    case JSON_REAL: msgpack_pack_double(p, json_real_value(j)); return;
    case JSON_TRUE: msgpack_pack_true(p); return;
    case JSON_FALSE: msgpack_pack_false(p); return;
    case JSON_NULL: msgpack_pack_nil(p); return;
    case JSON_STRING: break;
    }
    if (strcmp(text, "#hash") == 0) {
        msgpack_pack_uint64(p, rf_xxh64(data, f->size));
    } else if (strncmp(text, "#hash", 5) == 0) { /* of the n-th eight bytes */
        msgpack_pack_uint64(p, rf_xxh64(data + 8 * atoi(text + 5), 8));
    } else if (strcmp(text, "#most") == 0) {
        msgpack_pack_uint64(p, UINT64_MAX);
    } else if (strcmp(text, "#float") == 0) {
        msgpack_pack_float(p, 1);
    } else if (strcmp(text, "#extension") == 0) {
        msgpack_pack_ext(p, 4, 1);
        msgpack_pack_ext_body(p, "abcd", 4);
    } else if (strcmp(text, "#noutf8") == 0) {
        msgpack_pack_str(p, 1);
        msgpack_pack_str_body(p, "\xff", 1);
    } else {
        msgpack_pack_str(p, strlen(text));
        msgpack_pack_str_body(p, text, strlen(text));
    }
}

static rf_result check_json(const char *text, const void *data, uint64_t size)
{
    char *json = strdup(text);
    assert_non_null(json);
    for (char *c = json; *c; c++)
        if (*c == '\'') *c = '"';
    json_error_t error;
    json_t *j = json_loads(json, JSON_DECODE_ANY, &error);
    if (!j) fail_msg("%s: %s", text, error.text);
    msgpack_sbuffer header;
    msgpack_packer packer;
    msgpack_sbuffer_init(&header);
    msgpack_packer_init(&packer, &header, msgpack_sbuffer_write);
    forged f = { data, size, NULL, 0 };
    pack(&packer, j, &f);
    f.header = header.data;
    f.header_size = header.size;
    const rf_result r = check_forged(&f);
    msgpack_sbuffer_destroy(&header);
    json_decref(j);
    free(json);
    return r;
}

/* With one f32 tensor of two elements, as a frame of its eight bytes. */
static rf_result check_tensors(const char *tensors)
{
    char text[4096];
    snprintf(text, sizeof(text), "{'type':'t','values':{},'tensors':%s}", tensors);
    return check_json(text, "abcdefghijklmnop", strstr(text, "#hash1") ? 16 : 8);
}

static rf_result check_name(const char *name)
{
    char text[2048];
    snprintf(text, sizeof(text), "[['%s','f32',[2],56,[[false,[[8,8,false,'#hash']]]]]]", name);
    return check_tensors(text);
}

/* The message names the file and, where the caller knows it, what is wrong with which part. */
static void refuse_for(const char *what, rf_result r, const char *reason)
{
    if (r != RF_ERROR_CORRUPT_DATA) fail_msg("%s: %s", what, rf_result_name(r));
    const char *message = rf_error_message();
    if (!strstr(message, FILE_NAME) || !strstr(message, reason) || strchr(message, '\n'))
        fail_msg("%s: '%s' does not name the file and '%s'", what, message, reason);
}

static void refuse(const char *what, rf_result r)
{
    refuse_for(what, r, "");
}

TEST(test_names)
{
    static const char *const good[] = { "a", "a/b", "...", "a.b/..c", "\xc3\xbc", "a\\\\b" };
    static const char *const bad[][2] = {
        { "", "a name is empty" },
        { "/", "a name has an empty component" },
        { "/a", "a name has an empty component" },
        { "a/", "a name has an empty component" },
        { "a//b", "a name has an empty component" },
        { "..", "a name has a component '.' or '..'" },
        { "../a", "a name has a component '.' or '..'" },
        { "a/..", "a name has a component '.' or '..'" },
        { "a/../b", "a name has a component '.' or '..'" },
        { ".", "a name has a component '.' or '..'" },
        { "a/./b", "a name has a component '.' or '..'" },
        { "a\\nb", "a name has control characters" },
        { "\\u007f", "a name has control characters" },
        { "\\u0001", "a name has control characters" },
        { "#noutf8", "a name is not UTF-8" },
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) assert_int_equal(check_name(good[i]), RF_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) refuse_for(bad[i][0], check_name(bad[i][0]), bad[i][1]);
    char name[1026];
    memset(name, 'x', sizeof(name));
    name[1025] = '\0';
    refuse_for("long name", check_name(name), "a name is too long");
    name[1024] = '\0';
    assert_int_equal(check_name(name), RF_OK);
}

TEST(test_tensors)
{
    static const char *const good[] = {
        "[['a','f32',[2],56,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',[2],56,[[true,[[8,8,false,'#hash']]]]]]",
        "[['a','i64',[],56,[[false,[[8,8,false,'#hash0']]]]],['b','i64',[1],64,[[false,[[8,8,false,'#hash1']]]]]]",
        "[['a','i64',[2],56,[[false,[[8,8,false,'#hash0']]],[false,[[8,8,false,'#hash1']]]]]]",
        "[['a','i64',[2],56,[[false,[[8,8,false,'#hash0'],[8,8,false,'#hash1']]]]]]",
    };
    static const char *const bad[] = {
        "[]", /* eight bytes that belong to no entry */
        "{}",
        "1",
        "null",
        "[1]",
        "[[]]",
        "[['a']]",
        "[['a','f32',[2],56,[[false,[[8,8,false,'#hash']]]],1]]",
        "[['a','f33',[2],56,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','invalid',[2],56,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a',1,[2],56,[[false,[[8,8,false,'#hash']]]]]]",
        "[[1,'f32',[2],56,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',2,56,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',[3],56,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',[1],56,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',[-2],56,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',['#most'],56,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',[4611686018427387904],56,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',[4294967296,4294967296],56,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',[1,1,1,1,1,1,2],56,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',[2.0],56,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',[2],55,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',[2],57,[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',[2],'#most',[[false,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',[2],56,[]]]",
        "[['a','f32',[1099511627776],56,[]]]",
        "[['a','f32',[2],56,[[0,[[8,8,false,'#hash']]]]]]",
        "[['a','f32',[2],56,[[false,[]]]]]",
        "[['a','f32',[2],56,[[false,[[8,8,false,'#hash']],1]]]]",
        "[['a','f32',[2],56,[[false,[[8,8,false]]]]]]",
        "[['a','f32',[2],56,[[false,[[8,8,0,'#hash']]]]]]",
        "[['a','f32',[2],56,[[false,[[8,8,false,0]]]]]]",
        "[['a','f32',[2],56,[[false,[[7,8,false,'#hash']]]]]]",
        "[['a','f32',[2],56,[[false,[[8,8,true,'#hash']]]]]]",
        "[['a','f32',[1],56,[[false,[[8,4,true,'#hash']]]]]]",
        "[['a','f32',[2],56,[[false,[[8,8,true,'#hash']]]]]]",
        "[['a','u8',[9],56,[[false,[[8,9,true,'#hash']]]]]]", /* no zstd frame */
        "[['a','u8',[5000000],56,[[false,[[8,5000000,true,'#hash']]]]]]",
        "[['a','u8',[8000000],56,[[false,[[4,4000000,true,1],[4,4000000,true,1]]]]]]",
        "[['a','u8',[8],56,[[false,[[9,9,false,'#hash']]]]]]",
        "[['a','u8',[9],56,[[false,[[9,9,false,'#hash']]]]]]",
        "[['a','u8',['#most'],56,[[false,[['#most','#most',false,'#hash']]]]]]",
        "[['a','u8',[8],56,[[false,[[1,1,false,1],[1,1,false,1],[1,1,false,1],[1,1,false,1],[1,1,false,1],[1,1,false,1]"
        ","
        "[1,1,false,1],[0,0,false,1],[1,1,false,1]]]]]]",
        "[['a','u8',[9],56,[[false,[[1,1,false,1],[1,1,false,1],[1,1,false,1],[1,1,false,1],[1,1,false,1],[1,1,false,1]"
        ","
        "[1,1,false,1],[1,1,false,1],[1,1,false,1]]]]]]",
        "[['a','f32',[2],56,[[false,[[3,3,false,1]]],[false,[[5,5,false,1]]]]]]", /* half an element */
        /* Twice the same, the same bytes twice, in the wrong order, with a gap. */
        "[['a','i64',[],56,[[false,[[8,8,false,'#hash0']]]]],['a','i64',[1],64,[[false,[[8,8,false,'#hash1']]]]]]",
        "[['a','i64',[],56,[[false,[[8,8,false,'#hash0']]]]],['b','i64',[1],56,[[false,[[8,8,false,'#hash1']]]]]]",
        "[['a','i64',[],56,[[false,[[8,8,false,'#hash0']]]]],['b','i64',[1],60,[[false,[[8,8,false,'#hash1']]]]]]",
        "[['b','i64',[],56,[[false,[[8,8,false,'#hash0']]]]],['a','i64',[1],64,[[false,[[8,8,false,'#hash1']]]]]]",
        "[['a','i64',[],64,[[false,[[8,8,false,'#hash1']]]]],['b','i64',[1],56,[[false,[[8,8,false,'#hash0']]]]]]",
        "[['a','i64',[],56,[[false,[[8,8,false,'#hash0']]]]],['b','u8',[7],65,[[false,[[7,7,false,'#hash1']]]]]]",
        "[['a','i64',[],56,[[false,[[8,8,false,'#hash0']]]]],['b','u8',[7],64,[[false,[[7,7,false,'#hash1']]]]]]",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (check_tensors(good[i]) != RF_OK) fail_msg("%s: %s", good[i], rf_error_message());
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) refuse(bad[i], check_tensors(bad[i]));
}

TEST(test_headers)
{
    static const char *const good[] = {
        "{'type':'t','values':{},'tensors':[]}",
        "{'type':'t','values':{'a':1,'b':1.5,'c':'x','d':'','e':'#most'},'tensors':[]}",
        "{'type':'t','values':{},'tensors':[['a','f32',[0,5],56,[]],['b','f32',[4611686018427387904,0,9],56,[]]]}",
    };
    static const char *const bad[] = {
        "1",
        "[]",
        "{}",
        "'type'",
        "{'type':'t','values':{}}",
        "{'type':'t','values':{},'tensors':[],'more':1}",
        "{'values':{},'type':'t','tensors':[]}",
        "{'type':1,'values':{},'tensors':[]}",
        "{'type':'..','values':{},'tensors':[]}",
        "{'type':'t','values':[],'tensors':[]}",
        "{'type':'t','values':{'a':null},'tensors':[]}",
        "{'type':'t','values':{'a':true},'tensors':[]}",
        "{'type':'t','values':{'a':-1},'tensors':[]}",
        "{'type':'t','values':{'a':[]},'tensors':[]}",
        "{'type':'t','values':{'a':{}},'tensors':[]}",
        "{'type':'t','values':{'a':'#float'},'tensors':[]}",
        "{'type':'t','values':{'a':'#extension'},'tensors':[]}",
        "{'type':'t','values':{'a':'#noutf8'},'tensors':[]}",
        "{'type':'t','values':{'b':1,'a':2},'tensors':[]}",
        "{'type':'t','values':{'../a':1},'tensors':[]}",
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) assert_int_equal(check_json(good[i], NULL, 0), RF_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) refuse(bad[i], check_json(bad[i], NULL, 0));
}

/* Headers as bytes: counts of what is not there, nesting, cuts anywhere. */
TEST(test_counts)
{
#define TYPE "\x83\xa4type\xa1t"
#define VALUES "\xa6values"
#define TENSORS "\xa7tensors"
    static const struct {
        const char *bytes;
        size_t size;
    } heads[] = {
#define HEAD(text) { text, sizeof(text) - 1 }
        HEAD(TYPE VALUES "\xdf\xff\xff\xff\xff"),
        HEAD(TYPE VALUES "\xde\xff\xff"),
        HEAD(TYPE VALUES "\xdf"),
        HEAD(TYPE VALUES "\x81\xa1"
                         "a\xc6\xff\xff\xff\xff"),
        HEAD(TYPE VALUES "\x81\xa1"
                         "a\xdb\xff\xff\xff\xff"),
        HEAD(TYPE VALUES "\x80" TENSORS "\xdd\xff\xff\xff\xff"),
        HEAD(TYPE VALUES "\x80" TENSORS "\xdc\xff\xff"),
        HEAD(TYPE VALUES "\x80" TENSORS "\x91\x95\xdb\xff\xff\xff\xff"),
        HEAD(TYPE VALUES "\x80" TENSORS "\x91\x95\xa1"
                         "a\xa2u8\xdd\xff\xff\xff\xff"),
        HEAD(TYPE VALUES "\x80" TENSORS "\x91\x95\xa1"
                         "a\xa2u8\x91\x08\x38\xdd\xff\xff\xff\xff"),
        HEAD(TYPE VALUES "\x80" TENSORS "\x91\x95\xa1"
                         "a\xa2u8\x91\x08\x38\x91\x92\xc2\xdd\xff\xff\xff\xff"),
        HEAD("\xdd\xff\xff\xff\xff"),
        HEAD("\xdf\xff\xff\xff\xff"),
        HEAD("\xc1"),
        HEAD(""),
        HEAD(TYPE VALUES "\x81\xa1"
                         "a"),
        HEAD(TYPE "\xa6value"),
    };
    uint8_t *filler = malloc(1 << 20);
    assert_non_null(filler);
    static const uint8_t fillings[] = { 0x91, 0x81, 0x00, 0xdd, 0xff, 0xa1, 0xc0 };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        refuse("a head", check_forged(&(forged){ NULL, 0, heads[i].bytes, heads[i].size }));
        for (size_t k = 0; k < sizeof(fillings); k++) { /* 0x91: nested a million deep */
            memset(filler, fillings[k], 1 << 20);
            memcpy(filler, heads[i].bytes, heads[i].size);
            refuse("a head with more", check_forged(&(forged){ NULL, 0, filler, 1 << 20 }));
        }
    }
    free(filler);
}

/* As many entries as a header can hold: accepted, but in bounds. */
TEST(test_largest_header)
{
    uint8_t *header = malloc(RF_ARCHIVE_MAX_HEADER + 1);
    assert_non_null(header);
    static const char head[] = "\x83\xa4type\xa1t\xa6values\x80\xa7tensors\xdd";
    size_t at = sizeof(head) - 1 + 4;
    uint32_t count = 0;
    memcpy(header, head, sizeof(head) - 1);
    for (; at + 14 <= RF_ARCHIVE_MAX_HEADER; count++) {
        const uint8_t tensor[] = { 0x95,
                                   0xa5,
                                   '0' + (count >> 18 & 63),
                                   '0' + (count >> 12 & 63),
                                   '0' + (count >> 6 & 63),
                                   '0' + (count & 63),
                                   'x',
                                   0xa2,
                                   'u',
                                   '8',
                                   0x91,
                                   0,
                                   RF_ARCHIVE_PREAMBLE,
                                   0x90 };
        memcpy(header + at, tensor, sizeof(tensor));
        if (header[at + 2] == 0x7f) break;
        for (int i = 2; i < 6; i++)
            if (header[at + i] == '/') abort();
        at += sizeof(tensor);
    }
    for (int i = 0; i < 4; i++) header[sizeof(head) - 1 + i] = (uint8_t)(count >> (24 - 8 * i));
    const rf_result r = check_forged(&(forged){ NULL, 0, header, at });
    if (r != RF_OK) fail_msg("%s", rf_error_message());
    assert_true(count > 1000000);
    print_message("%u tensors in a header of %zu bytes: %llu bytes of memory\n", count, at,
                  (unsigned long long)wrapped_peak());
    refuse("too large a header", check_forged(&(forged){ NULL, 0, header, RF_ARCHIVE_MAX_HEADER + 1 }));
    free(header);
}

/* Frames that hold more, or something else, than they say. */
TEST(test_bombs)
{
    const size_t raw = 64u << 20;
    uint8_t *zeros = calloc(raw, 1), *packed = malloc(ZSTD_compressBound(raw));
    assert_true(zeros && packed);
    static const size_t sizes[] = { 5 << 20, 64 << 20 };
    for (size_t i = 0; i < 2; i++) {
        const size_t n = ZSTD_compress(packed, ZSTD_compressBound(raw), zeros, sizes[i], 1);
        char text[512];
        snprintf(text, sizeof(text),
                 "{'type':'t','values':{},'tensors':[['a','u8',[4194304],56,[[false,[[%zu,4194304,true,'#hash']]]]]]}",
                 n);
        refuse_for("a bomb", check_json(text, packed, n), "'a': Destination buffer is too small");
        snprintf(text, sizeof(text),
                 "{'type':'t','values':{},'tensors':[['a','u8',[%zu],56,[[false,[[%zu,%zu,true,'#hash']]]]]]}",
                 sizes[i], n, sizes[i]);
        refuse_for("a block too large", check_json(text, packed, n), "'a': a block cannot be");
    }
    /* Less than it says, two frames, a frame and rubbish, a skippable frame. */
    size_t n = ZSTD_compress(packed, ZSTD_compressBound(raw), zeros, 1000, 1);
    char text[512];
    snprintf(text, sizeof(text),
             "{'type':'t','values':{},'tensors':[['a','u8',[1001],56,[[false,[[%zu,1001,true,'#hash']]]]]]}", n);
    refuse_for("too little", check_json(text, packed, n), "'a': a zstd frame of the wrong size");
    snprintf(text, sizeof(text),
             "{'type':'t','values':{},'tensors':[['a','u8',[1000],56,[[false,[[%zu,1000,true,'#hash']]]]]]}", n);
    assert_int_equal(check_json(text, packed, n), RF_OK);
    memcpy(packed + n, packed, n);
    snprintf(text, sizeof(text),
             "{'type':'t','values':{},'tensors':[['a','u8',[2000],56,[[false,[[%zu,2000,true,'#hash']]]]]]}", 2 * n);
    refuse_for("two frames", check_json(text, packed, 2 * n), "'a': not one zstd frame");
    snprintf(text, sizeof(text),
             "{'type':'t','values':{},'tensors':[['a','u8',[1000],56,[[false,[[%zu,1000,true,'#hash']]]]]]}", n + 3);
    refuse_for("rubbish behind", check_json(text, packed, n + 3), "'a': not one zstd frame");
    snprintf(text, sizeof(text),
             "{'type':'t','values':{},'tensors':[['a','u8',[100],56,[[false,[[16,100,true,'#hash']]]]]]}");
    refuse_for("skippable", check_json(text, "\x50\x2a\x4d\x18\x08\0\0\0abcdefgh", 16), "'a': ");
    free(zeros);
    free(packed);
}

/* ---- a hundred thousand tensors ---- */

enum { MANY = 100000, BOMB = 4 << 20 };

typedef struct many {
    uint32_t said, entries; /* tensors by the header's count; that are there */
    bool same_name, no_name, same_place;
    const uint8_t *frame; /* of every tensor */
    uint64_t stored, raw;
    bool compressed;
} many;

static rf_result check_many(const many *m, rf_result (*read)(const rf_file_ops *ops))
{
    msgpack_sbuffer header;
    msgpack_packer p;
    msgpack_sbuffer_init(&header);
    msgpack_packer_init(&p, &header, msgpack_sbuffer_write);
    static const char head[] = "\x83\xa4type\xa1t\xa6values\x80\xa7tensors";
    msgpack_sbuffer_write(&header, head, sizeof(head) - 1);
    msgpack_pack_array(&p, m->said);
    uint8_t *data = malloc(m->entries * m->stored + 1);
    assert_non_null(data);
    const uint64_t hash = rf_xxh64(m->frame, m->stored);
    for (uint32_t i = 0; i < m->entries; i++) {
        char name[16];
        snprintf(name, sizeof(name), "%s%06u", m->no_name ? "/" : "", m->same_name ? 7 : i);
        memcpy(data + i * m->stored, m->frame, m->stored);
        msgpack_pack_array(&p, 5);
        msgpack_pack_str(&p, strlen(name));
        msgpack_pack_str_body(&p, name, strlen(name));
        msgpack_pack_str(&p, 2);
        msgpack_pack_str_body(&p, "u8", 2);
        msgpack_pack_array(&p, 1);
        msgpack_pack_uint64(&p, m->raw);
        msgpack_pack_uint64(&p, RF_ARCHIVE_PREAMBLE + (m->same_place ? 0 : i * m->stored));
        msgpack_pack_array(&p, 1);
        msgpack_pack_array(&p, 2);
        msgpack_pack_false(&p);
        msgpack_pack_array(&p, 1);
        msgpack_pack_array(&p, 4);
        msgpack_pack_uint64(&p, m->stored);
        msgpack_pack_uint64(&p, m->raw);
        if (m->compressed)
            msgpack_pack_true(&p);
        else
            msgpack_pack_false(&p);
        msgpack_pack_uint64(&p, hash);
    }
    uint64_t size;
    uint8_t *file = assemble(&(forged){ data, m->entries * m->stored, header.data, header.size }, &size);
    const rf_result r = check_with(file, size, read);
    free(file);
    free(data);
    msgpack_sbuffer_destroy(&header);
    return r;
}

/* All entries are described, and one of them is read, as a restore would. */
static rf_result look_through(const rf_file_ops *ops)
{
    rf_archive *a;
    rf_archive_entry entry = { 0 };
    rf_result r = rf_archive_open_with(ops, FILE_NAME, &a);
    if (r == RF_OK && rf_archive_num_tensors(a) != MANY) r = RF_ERROR_NOT_FOUND;
    for (uint32_t i = 0; r == RF_OK && i < MANY; i++) r = rf_archive_entry_at(a, i, &entry);
    void *bytes = malloc(entry.bytes + 1);
    if (r == RF_OK) r = rf_archive_read(a, "099999", bytes, entry.bytes);
    free(bytes);
    rf_archive_close(&a);
    return r;
}

TEST(test_hundred_thousand)
{
    const many honest = { .said = MANY, .entries = MANY, .frame = (const uint8_t *)"12345678", .stored = 8, .raw = 8 };
    assert_int_equal(check_many(&honest, open_and_verify), RF_OK);
    assert_int_equal(check_many(&honest, look_through), RF_OK);
    many m = honest;
    m.entries = 10;
    refuse_for("a forged count", check_many(&m, open_and_verify), "expected an array of tensors");
    m.entries = MANY / 2; /* bytes enough for as many entries as are said */
    refuse_for("half of them", check_many(&m, open_and_verify), "expected a tensor");
    m = honest;
    m.said = MANY - 1;
    refuse_for("one too many", check_many(&m, open_and_verify), "there is more after the tensors");
    m = honest;
    m.same_place = true;
    refuse_for("overlap", check_many(&m, open_and_verify), "'000001': does not begin where the tensor before it ends");
    m = honest;
    m.same_name = true;
    refuse_for("one name", check_many(&m, open_and_verify), "'000007': this name comes twice");
    m = honest;
    m.no_name = true;
    refuse_for("no names", check_many(&m, open_and_verify), "a name has an empty component");
}

/* 400 GB of zeros in 14 MB are what they say, so they are listed and read one by one; frames that hold more than they
 * say are refused at the first one. */
TEST(test_hundred_thousand_bombs)
{
    uint8_t *zeros = calloc(BOMB + 1, 1), packed[4096];
    assert_non_null(zeros);
    many m = { .said = MANY, .entries = MANY, .frame = packed, .raw = BOMB, .compressed = true };
    m.stored = ZSTD_compress(packed, sizeof(packed), zeros, BOMB, 1);
    assert_false(ZSTD_isError(m.stored));
    assert_int_equal(check_many(&m, look_through), RF_OK);
    m.stored = ZSTD_compress(packed, sizeof(packed), zeros, BOMB + 1, 1);
    assert_false(ZSTD_isError(m.stored));
    refuse_for("bombs", check_many(&m, open_and_verify), "Destination buffer is too small");
    free(zeros);
}

TEST(test_fixed_parts)
{
    static const char header[] = "\x83\xa4type\xa1t\xa6values\x80\xa7tensors\x90";
    const uint64_t n = sizeof(header) - 1;
    uint64_t size;
    uint8_t *file = assemble(&(forged){ NULL, 0, header, n }, &size);
    assert_int_equal(check(file, size), RF_OK);
    const uint64_t hash = rf_xxh64(header, n);
    const rf_archive_layout wrong[] = {
        { size + 1, 56, n, hash },
        { size, 55, n, hash },
        { size, 57, n, hash },
        { size, UINT64_MAX - 10, n, hash },
        { size, 56, n + 1, hash },
        { size, 56, UINT64_MAX - 40, hash },
        { size, 56, n - 1, hash },
        { size, 56, n, hash ^ 1 },
        { 0, 56, n, hash },
        { size, 0, n + 56, hash },
        { size, 56 + n, 0, rf_xxh64("", 0) },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        rf_archive_layout_encode(&wrong[i], RF_ARCHIVE_VERSION, file, file + size - RF_ARCHIVE_TRAILER);
        refuse("a layout", check(file, size));
    }
    /* Another version is not corrupt. */
    rf_archive_layout_encode(&(rf_archive_layout){ size, 56, n, hash }, RF_ARCHIVE_VERSION, file,
                             file + size - RF_ARCHIVE_TRAILER);
    file[8] = 3;
    const uint64_t again = rf_xxh64(file, 48);
    memcpy(file + 48, &again, 8);
    memcpy(file + size - 16, &again, 8);
    assert_int_equal(check(file, size), RF_ERROR_UNSUPPORTED);
    for (uint64_t cut = 0; cut < 80; cut++) refuse("a stub", check(file, cut));
    free(file);
}

TESTS(archive_hostile, NULL, NULL)
