/* SPDX-License-Identifier: Apache-2.0 */
#include "pretrained/gguf_import.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/half.h"
#include "base/numbers.h"
#include "persist/arrays/gguf.h"
#include "persist/file_ops.h"
#include "persist/json.h"
#include "pretrained/gguf_parts.h"
#include "text/gguf_tokenizer.h"

enum { PIECE = 16384, MOST_HEAD = 65536 };
#define CONFIG_FILE "config.json"

/* A tensor of the file under its name in the hub's files. */
typedef struct imported {
    char *name;
    const char *gguf;
    rf_dtype dtype; /* that it is read as */
    rf_shape shape; /* in the hub's files */
    rf_gguf_change change;
} imported;

struct rf_gguf_import {
    rf_gguf *file;
    char *path;
    const rf_gguf_architecture *architecture;
    json_t *config;
    imported *tensors; /* in order of their names */
    uint32_t num_tensors;
    uint32_t heads, key_heads;
    rf_made_text texts[3];
    const imported *held; /* the tensor whose numbers are in `whole` */
    float *whole, *piece;
};

/* ---- the file ---- */

typedef struct listing {
    char name[256];
    uint32_t count;
} listing;

static bool visit_name(void *argument, const char *name)
{
    listing *l = argument;
    const size_t length = strlen(name);
    if (name[0] == '.' || length < 6 || length >= sizeof(l->name) || strcmp(name + length - 5, ".gguf") != 0)
        return true;
    memcpy(l->name, name, length + 1);
    return ++l->count < 2;
}

rf_result rf_gguf_find_file(const char *path, char **out)
{
    const rf_file_ops *ops = &rf_system_file_ops;
    listing found = { .count = 0 };
    double modified;
    *out = NULL;
    if (ops->modified(ops->user, path, &modified) == 0) {
        *out = rf_strdup(path);
        return *out ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    char *config = rf_path_in(path, CONFIG_FILE);
    if (!config) return RF_ERROR_OUT_OF_HOST_MEMORY;
    const bool has_config = ops->modified(ops->user, config, &modified) == 0;
    rf_free(config);
    if (has_config || ops->list(ops->user, path, visit_name, &found) < 0 || found.count == 0) return RF_OK;
    if (found.count > 1)
        return RF_FAIL(RF_ERROR_INVALID_ARGUMENT,
                       "'%s' has no " CONFIG_FILE " and several GGUF files; give one of them", path);
    *out = rf_path_in(path, found.name);
    return *out ? RF_OK : RF_ERROR_OUT_OF_HOST_MEMORY;
}

/* ---- the configuration ---- */

static rf_result out_of_memory(void)
{
    return RF_FAIL(RF_ERROR_OUT_OF_HOST_MEMORY, "no memory for what a GGUF file says");
}

/* A setting of config.json, which must be the same where it is there already. */
static rf_result set_config(rf_gguf_import *m, const char *key, const char *gguf, json_t *value)
{
    const json_t *is = json_object_get(m->config, key);
    const bool same = !is || json_equal(is, value);
    const int set = same ? json_object_set(m->config, key, value) : 0;
    const bool whole = value && set == 0;
    json_decref(value);
    if (!same) return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' differs from what other values say of '%s'", gguf, key);
    return whole ? RF_OK : out_of_memory();
}

/* The shortest decimal number that is the same in f32, such as 1e-05. */
static double shorten_number(double number)
{
    char text[32];
    double value = number;
    for (int digits = 6; digits <= 9; digits++) {
        rf_number_print(text, sizeof(text), "%.*g", digits, number);
        value = rf_number_parse(text, NULL);
        if ((float)value == (float)number) break;
    }
    return value;
}

static rf_result read_setting(rf_gguf_import *m, const rf_gguf_setting *row)
{
    char key[96];
    uint32_t size = 0;
    double number = 0;
    snprintf(key, sizeof(key), "%s.%s", m->architecture->name, row->gguf);
    const rf_result r = row->number ? rf_gguf_get_number(m->file, key, &number) : rf_gguf_get_size(m->file, key, &size);
    if (r == RF_ERROR_NOT_FOUND && row->optional) return RF_OK;
    RF_TRY(r);
    if (!row->number && size == 0) return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' is 0, not a size of 1 or more", key);
    return set_config(m, row->hub, key, row->number ? json_real(shorten_number(number)) : json_integer(size));
}

static bool has_tensor(const rf_gguf_import *m, const char *name)
{
    rf_gguf_tensor t;
    return rf_gguf_find_tensor(m->file, name, &t) == RF_OK;
}

/* The tensors tell the vocabulary, the head and biases. */
static rf_result read_presence(rf_gguf_import *m)
{
    const rf_gguf_architecture *a = m->architecture;
    rf_gguf_tensor table;
    RF_TRY(rf_gguf_find_tensor(m->file, "token_embd.weight", &table));
    if (table.shape.rank != 2 || table.shape.dim[0] < 1 || table.shape.dim[0] > INT32_MAX)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "tensor 'token_embd.weight' is no table");
    RF_TRY(set_config(m, "vocab_size", "token_embd.weight", json_integer(table.shape.dim[0])));
    RF_TRY(set_config(m, "tie_word_embeddings", "output.weight", json_boolean(!has_tensor(m, "output.weight"))));
    if (a->attention_bias)
        RF_TRY(set_config(m, "attention_bias", "attn_q.bias", json_boolean(has_tensor(m, "blk.0.attn_q.bias"))));
    if (!a->mlp_bias) return RF_OK;
    return set_config(m, "mlp_bias", "ffn_up.bias", json_boolean(has_tensor(m, "blk.0.ffn_up.bias")));
}

/* ---- rotary positions ---- */

static rf_result read_linear(rf_gguf_import *m)
{
    char type_key[96], factor_key[96], old_key[96];
    const char *name = m->architecture->name, *type = "linear";
    double factor = 1;
    snprintf(type_key, sizeof(type_key), "%s.rope.scaling.type", name);
    snprintf(factor_key, sizeof(factor_key), "%s.rope.scaling.factor", name);
    snprintf(old_key, sizeof(old_key), "%s.rope.scale_linear", name);
    RF_TRY(rf_gguf_if_there(rf_gguf_get_text(m->file, type_key, &type)));
    RF_TRY(rf_gguf_if_there(rf_gguf_get_number(m->file, old_key, &factor)));
    RF_TRY(rf_gguf_if_there(rf_gguf_get_number(m->file, factor_key, &factor)));
    if (strcmp(type, "none") == 0 || (strcmp(type, "linear") == 0 && (factor == 1 || factor == 0))) return RF_OK;
    if (strcmp(type, "linear") != 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'%s' is not \"linear\" or \"none\", which are known here", type_key);
    return set_config(m, "rope_scaling", factor_key,
                      json_pack("{s:s, s:f}", "rope_type", "linear", "factor", shorten_number(factor)));
}

static rf_result read_divisors(rf_gguf_import *m)
{
    rf_gguf_tensor t;
    rf_rotary_params fit;
    if (rf_gguf_find_tensor(m->file, RF_GGUF_FREQUENCIES, &t) < 0) return RF_OK;
    const json_t *base = json_object_get(m->config, "rope_theta");
    const int64_t count = rf_shape_count(t.shape);
    if (!m->architecture->pairs || count < 1 || count > MOST_HEAD / 2)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "tensor '" RF_GGUF_FREQUENCIES "' has no place in this model");
    float *divisors = RF_NEW_ARRAY(float, count);
    rf_result r = divisors ? rf_gguf_read(m->file, RF_GGUF_FREQUENCIES, 0, (uint64_t)count, divisors) : out_of_memory();
    const bool fits =
        r >= 0 && rf_gguf_fit_divisors(divisors, base ? json_number_value(base) : 10000.0, 2 * (uint32_t)count, &fit);
    rf_free(divisors);
    RF_TRY(r);
    if (!fits)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "tensor '" RF_GGUF_FREQUENCIES "' has other divisors than Llama 3's");
    return set_config(m, "rope_scaling", RF_GGUF_FREQUENCIES,
                      json_pack("{s:s, s:f, s:f, s:f, s:i}", "rope_type", "llama3", "factor", fit.factor,
                                "low_freq_factor", fit.low_frequency_factor, "high_freq_factor",
                                fit.high_frequency_factor, "original_max_position_embeddings",
                                (int)fit.original_length));
}

/* ---- keys ---- */

/* Zero, false and nothing ask for nothing. */
static bool says_nothing(const rf_gguf_value *v)
{
    const uint32_t size = rf_gguf_value_size((uint32_t)v->type);
    const uint8_t *bytes = v->data;
    if (size == 0) return v->count == 0;
    for (uint64_t i = 0; i < v->count * size; i++)
        if (bytes[i]) return false;
    return true;
}

static bool is_known(const rf_gguf_import *m, const char *key)
{
    static const char *const known[] = { "rope.scaling.type",
                                         "rope.scaling.factor",
                                         "rope.scaling.finetuned",
                                         "rope.scaling.original_context_length",
                                         "rope.scale_linear",
                                         "tensor_data_layout",
                                         "vocab_size" };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i], key) == 0) return true;
    for (uint32_t i = 0; i < m->architecture->num_settings; i++)
        if (strcmp(m->architecture->settings[i].gguf, key) == 0) return true;
    return false;
}

/* Keys of the architecture change the model. */
static rf_result check_keys(const rf_gguf_import *m, const char *const *ignored, uint32_t num_ignored)
{
    const size_t length = strlen(m->architecture->name);
    for (uint64_t i = 0; i < rf_gguf_num_values(m->file); i++) {
        rf_gguf_value v;
        RF_TRY(rf_gguf_value_at(m->file, i, &v));
        if (strncmp(v.key, m->architecture->name, length) != 0 || v.key[length] != '.' ||
            is_known(m, v.key + length + 1) || says_nothing(&v))
            continue;
        uint32_t k = 0;
        while (k < num_ignored && strcmp(ignored[k], v.key) != 0) k++;
        if (k == num_ignored)
            return RF_FAIL(RF_ERROR_UNSUPPORTED,
                           "value '%.200s' is not known here; name it in rf_pretrained_params::ignored_keys if it "
                           "changes nothing",
                           v.key);
    }
    return RF_OK;
}

static rf_result find_architecture(rf_gguf_import *m)
{
    const char *name = NULL, *type = "model";
    uint32_t files = 1;
    RF_TRY(rf_gguf_get_text(m->file, "general.architecture", &name));
    RF_TRY(rf_gguf_if_there(rf_gguf_get_text(m->file, "general.type", &type)));
    RF_TRY(rf_gguf_if_there(rf_gguf_get_size(m->file, "split.count", &files)));
    if (strcmp(type, "model") != 0)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'general.type' is not \"model\": the file is no whole model");
    if (files > 1)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "'split.count' is %u: join the files by llama-gguf-split --merge", files);
    m->architecture = rf_gguf_find_architecture(name);
    if (m->architecture) return RF_OK;
    char shown[32];
    return RF_FAIL(RF_ERROR_UNSUPPORTED,
                   "'general.architecture' is \"%s\"; llama, qwen2, qwen3 and gpt2 are known here",
                   rf_error_show(name, shown, sizeof(shown)));
}

/* Tokens that end a text: the end of all, and that of a turn. */
static rf_result read_ends(rf_gguf_import *m)
{
    static const char *const keys[] = { "tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id" };
    uint32_t ends[2] = { UINT32_MAX, UINT32_MAX }, begin = UINT32_MAX;
    for (int i = 0; i < 2; i++) RF_TRY(rf_gguf_if_there(rf_gguf_get_size(m->file, keys[i], &ends[i])));
    RF_TRY(rf_gguf_if_there(rf_gguf_get_size(m->file, "tokenizer.ggml.bos_token_id", &begin)));
    if (begin != UINT32_MAX) RF_TRY(set_config(m, "bos_token_id", "bos", json_integer(begin)));
    if (ends[0] == UINT32_MAX) return RF_OK;
    const bool both = ends[1] != UINT32_MAX && ends[1] != ends[0];
    return set_config(m, "eos_token_id", keys[0],
                      both ? json_pack("[i, i]", (int)ends[0], (int)ends[1]) : json_integer(ends[0]));
}

static rf_result make_config(rf_gguf_import *m, const char *const *ignored, uint32_t num_ignored)
{
    RF_TRY(find_architecture(m));
    const rf_gguf_architecture *a = m->architecture;
    m->config = json_pack("{s:s, s:[s]}", "model_type", a->model_type, "architectures", a->classes[0]);
    if (!m->config) return out_of_memory();
    RF_TRY(read_presence(m));
    for (uint32_t i = 0; i < a->num_settings; i++) RF_TRY(read_setting(m, &a->settings[i]));
    RF_TRY(read_linear(m));
    RF_TRY(read_divisors(m));
    RF_TRY(read_ends(m));
    return check_keys(m, ignored, num_ignored);
}

/* ---- tensors ---- */

static int compare_imported(const void *x, const void *y)
{
    const imported *a = x, *b = y;
    return strcmp(a->name, b->name);
}

static uint64_t heads_of(const rf_gguf_import *m, rf_gguf_change change)
{
    return change == RF_GGUF_OF_QUERY ? m->heads : m->key_heads;
}

static rf_result check_tensor(const rf_gguf_import *m, const rf_gguf_tensor *t, rf_gguf_change change)
{
    char text[96];
    const bool heads = change == RF_GGUF_OF_QUERY || change == RF_GGUF_OF_KEY;
    const int64_t rows = t->shape.rank > 0 ? t->shape.dim[0] : 0;
    if (t->unsupported_type)
        return RF_FAIL(RF_ERROR_UNSUPPORTED, "tensor '%.200s' is stored as %s, which is not read here", t->name,
                       t->unsupported_type);
    if (rf_shape_count(t->shape) > 0 && t->shape.rank <= 2 && (change != RF_GGUF_TURNED || t->shape.rank == 2) &&
        (!heads || (uint64_t)rows % (2 * heads_of(m, change)) == 0))
        return RF_OK;
    return RF_FAIL(RF_ERROR_INVALID_ARGUMENT, "tensor '%.200s' is %s, which does not fit the file's values", t->name,
                   rf_shape_format(t->shape, text, sizeof(text)));
}

static rf_result add_tensor(rf_gguf_import *m, const rf_gguf_tensor *t)
{
    const rf_gguf_name *row;
    imported *to = &m->tensors[m->num_tensors];
    if (strcmp(t->name, RF_GGUF_FREQUENCIES) == 0) return RF_OK;
    RF_TRY(rf_gguf_find_hub_name(m->architecture, t->name, &row, &to->name));
    m->num_tensors++;
    const bool moves = row->change == RF_GGUF_OF_QUERY || row->change == RF_GGUF_OF_KEY;
    to->change = row->change == RF_GGUF_TURNED || (moves && m->architecture->pairs) ? row->change : RF_GGUF_KEPT;
    RF_TRY(check_tensor(m, t, to->change));
    to->gguf = t->name;
    to->dtype = t->type == RF_GGUF_F16 ? RF_F16 : t->type == RF_GGUF_BF16 ? RF_BF16 : RF_F32;
    to->shape = to->change == RF_GGUF_TURNED ? RF_SHAPE(t->shape.dim[1], t->shape.dim[0]) : t->shape;
    return RF_OK;
}

static uint32_t config_size(const rf_gguf_import *m, const char *key, uint32_t fallback)
{
    const json_t *value = json_object_get(m->config, key);
    return value ? (uint32_t)json_integer_value(value) : fallback;
}

static rf_result list_tensors(rf_gguf_import *m)
{
    const uint64_t count = rf_gguf_num_tensors(m->file);
    m->tensors = RF_NEW_ARRAY(imported, count);
    m->piece = RF_NEW_ARRAY(float, PIECE);
    if (!m->tensors || !m->piece) return out_of_memory();
    m->heads = config_size(m, "num_attention_heads", 1);
    m->key_heads = config_size(m, "num_key_value_heads", m->heads);
    for (uint64_t i = 0; i < count; i++) {
        rf_gguf_tensor t;
        RF_TRY(rf_gguf_tensor_at(m->file, i, &t));
        RF_TRY(add_tensor(m, &t));
    }
    if (m->num_tensors > 0) qsort(m->tensors, m->num_tensors, sizeof(*m->tensors), compare_imported);
    for (uint32_t i = 1; i < m->num_tensors; i++)
        if (strcmp(m->tensors[i - 1].name, m->tensors[i].name) == 0)
            return RF_FAIL(RF_ERROR_CORRUPT_DATA, "there are two tensors '%.200s'", m->tensors[i].gguf);
    return RF_OK;
}

/* ---- numbers ---- */

static rf_result hold_whole(rf_gguf_import *m, const imported *t)
{
    const uint64_t count = (uint64_t)rf_shape_count(t->shape);
    if (m->held == t) return RF_OK;
    rf_free(m->whole);
    m->held = NULL;
    m->whole = RF_NEW_ARRAY(float, count);
    if (!m->whole) return out_of_memory();
    RF_TRY(rf_gguf_read(m->file, t->gguf, 0, count, m->whole));
    m->held = t;
    return RF_OK;
}

/* `count` numbers of a tensor as the hub's files have them, from number `first` on. */
static rf_result read_numbers(rf_gguf_import *m, const imported *t, uint64_t first, uint64_t count, float *out)
{
    if (t->change == RF_GGUF_KEPT) return rf_gguf_read(m->file, t->gguf, first, count, out);
    const uint64_t rows = (uint64_t)t->shape.dim[0], width = t->shape.rank > 1 ? (uint64_t)t->shape.dim[1] : 1;
    if (t->change == RF_GGUF_TURNED) {
        RF_TRY(hold_whole(m, t));
        for (uint64_t i = 0; i < count; i++) out[i] = m->whole[(first + i) % width * rows + (first + i) / width];
        return RF_OK;
    }
    for (uint64_t done = 0, n; done < count; done += n) {
        const uint64_t row = (first + done) / width, column = (first + done) % width;
        n = width - column < count - done ? width - column : count - done;
        const uint64_t from = rf_gguf_row_in_file(row, rows, heads_of(m, t->change));
        RF_TRY(rf_gguf_read(m->file, t->gguf, from * width + column, n, out + done));
    }
    return RF_OK;
}

static rf_result read_tensor(void *user, const char *name, uint64_t offset, void *data, uint64_t size)
{
    rf_gguf_import *m = user;
    const imported wanted = { .name = (char *)(uintptr_t)name };
    const imported *t = bsearch(&wanted, m->tensors, m->num_tensors, sizeof(*m->tensors), compare_imported);
    if (!t) return RF_FAIL(RF_ERROR_INTERNAL, "tensor '%.200s' is not one of '%s'", name, m->path);
    const uint64_t bytes = rf_dtype_size(t->dtype), first = offset / bytes, count = size / bytes;
    for (uint64_t done = 0, n; done < count; done += n) {
        n = count - done < PIECE ? count - done : PIECE;
        RF_TRY(read_numbers(m, t, first + done, n, m->piece));
        rf_floats_narrow((unsigned char *)data + done * bytes, t->dtype, m->piece, (size_t)n);
    }
    return RF_OK;
}

/* ---- all ---- */

static rf_result make_texts(rf_gguf_import *m)
{
    json_t *roots[3] = { json_incref(m->config), NULL, NULL };
    static const char *const names[3] = { CONFIG_FILE, "tokenizer.json", "tokenizer_config.json" };
    rf_result r = rf_gguf_read_tokenizer(m->file, &roots[1], &roots[2]);
    for (int i = 0; i < 3; i++) {
        m->texts[i].name = names[i];
        if (r >= 0)
            r = rf_json_text(roots[i], &m->texts[i].text); /* takes the reference */
        else
            json_decref(roots[i]);
    }
    return r;
}

rf_result rf_gguf_import_create(rf_gguf *file, const char *path, const char *const *ignored, uint32_t num_ignored,
                                rf_gguf_import **out)
{
    rf_gguf_import *m = RF_NEW(rf_gguf_import);
    *out = m;
    if (!m) {
        rf_gguf_close(&file);
        return RF_ERROR_OUT_OF_HOST_MEMORY;
    }
    m->file = file;
    m->path = rf_strdup(path);
    rf_result r = m->path ? make_config(m, ignored, num_ignored) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r >= 0) r = list_tensors(m);
    if (r >= 0) r = make_texts(m);
    if (r < 0) rf_gguf_import_destroy(out);
    return rf_error_context(r, "'%s'", path);
}

void rf_gguf_import_destroy(rf_gguf_import **import)
{
    if (!*import) return;
    rf_gguf_import *m = *import;
    *import = NULL;
    for (uint32_t i = 0; i < m->num_tensors; i++) rf_free(m->tensors[i].name);
    for (int i = 0; i < 3; i++) rf_free(m->texts[i].text);
    json_decref(m->config);
    rf_gguf_close(&m->file);
    rf_free(m->tensors);
    rf_free(m->whole);
    rf_free(m->piece);
    rf_free(m->path);
    rf_free(m);
}

rf_result rf_gguf_import_files(rf_gguf_import *import, rf_tensor_files *files)
{
    rf_gguf_import *m = import;
    *files = (rf_tensor_files){ .directory = rf_strdup(m->path),
                                .source = { read_tensor, m },
                                .texts = m->texts,
                                .num_texts = 3,
                                .files = rf_calloc(1, sizeof(*files->files)),
                                .entries = RF_NEW_ARRAY(rf_tensor_entry, m->num_tensors) };
    if (!files->directory || !files->files || !files->entries) return RF_ERROR_OUT_OF_HOST_MEMORY;
    files->num_files = 1;
    if (!(files->files[0].name = rf_strdup(RF_PRETRAINED_FILE))) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (; files->num_entries < m->num_tensors; files->num_entries++) {
        const imported *t = &m->tensors[files->num_entries];
        const uint64_t bytes = (uint64_t)rf_shape_count(t->shape) * rf_dtype_size(t->dtype);
        files->entries[files->num_entries].is = (rf_archive_entry){
            .name = t->name, .dtype = t->dtype, .shape = t->shape, .bytes = bytes, .stored_bytes = bytes
        };
    }
    return RF_OK;
}
