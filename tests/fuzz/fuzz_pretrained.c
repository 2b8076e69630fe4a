/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of the Hugging Face hub. The first byte says what is read: 0 a config.json, of which every builder of the
 * library's decoders reads its keys, 1 the index of files of tensors, whose files all must be in one directory, 2 a
 * tokenizer.json and 3 a config.json that become values of a GGUF file, 4 a GGUF file that is a model with a tokenizer.
 */
#include <string.h>

#include "base/error.h"
#include "fuzz.h"
#include "one_file.h"
#include "persist/arrays/gguf.h"
#include "persist/json.h"
#include "pretrained/config.h"
#include "pretrained/decoder.h"
#include "pretrained/files.h"
#include "pretrained/gguf_import.h"
#include "pretrained/gguf_parts.h"
#include "text/gguf_tokenizer.h"
#include "text/tokenizer.h"

static void check_failure(rf_result r)
{
    PROMISE(r < 0 && rf_error_message()[0] && !strchr(rf_error_message(), '\n'));
}

static void read_config(const char *text, size_t size)
{
    static const char *const classes[2] = { "LlamaForCausalLM", "LlamaModel" };
    static const rf_pretrained_architecture none = { .model_type = "llama" };
    rf_pretrained_config config;
    const rf_result parsed = rf_pretrained_config_parse(&config, "config.json", text, size);
    if (parsed < 0) {
        check_failure(parsed);
        rf_pretrained_config_clear(&config);
        return;
    }
    config.num_tensors = 1000;
    const rf_blocks b = { .config = &config };
    rf_decoder d = rf_decoder_read(&b, classes);
    rf_decoder_read_windows(&b, &d);
    const rf_result r = rf_pretrained_config_check_read(&config, &none, NULL);
    if (r < 0)
        check_failure(r);
    else
        PROMISE(d.layers >= 1 && d.layers <= 1000 && d.width >= 1 && d.heads % d.key_value_heads == 0 &&
                d.epsilon == d.epsilon && d.rotary_base > 0 && d.key_dim % 2 == 0);
    rf_pretrained_config_clear(&config);
}

static void read_index(const char *text, size_t size)
{
    rf_shard_index index;
    const rf_result r = rf_shard_index_parse(&index, "index.json", text, size);
    if (r < 0)
        check_failure(r);
    else
        PROMISE(index.num_files >= 1 && index.num_places >= index.num_files);
    for (uint32_t i = 0; r >= 0 && i < index.num_files; i++)
        PROMISE(index.files[i][0] && index.files[i][0] != '.' && !strchr(index.files[i], '/'));
    for (uint32_t i = 1; r >= 0 && i < index.num_places; i++)
        PROMISE(strcmp(index.places[i - 1].tensor, index.places[i].tensor) < 0);
    rf_shard_index_clear(&index);
}

enum { MOST_TOKENS = 300 };

static const rf_gguf_value *find_value(const rf_gguf_values *v, const char *key)
{
    for (uint32_t i = 0; i < v->count; i++)
        if (strcmp(v->items[i].key, key) == 0) return &v->items[i];
    return NULL;
}

/* The tokenizer is its own configuration, and that of the model. */
static void read_tokenizer(const char *text, size_t size)
{
    json_t *root;
    rf_gguf_values values = { 0 };
    const rf_result parsed = rf_json_parse(text, size, "'tokenizer.json'", &root);
    if (parsed < 0) {
        check_failure(parsed);
        return;
    }
    const rf_tokenizer_files files = { root, root, root, "template", "tokenizer.json" };
    const rf_result r = rf_gguf_describe_tokenizer(&files, MOST_TOKENS, NULL, &values);
    const rf_gguf_value *tokens = find_value(&values, "tokenizer.ggml.tokens");
    if (r < 0)
        check_failure(r);
    else
        PROMISE(tokens && tokens->count == MOST_TOKENS && find_value(&values, "tokenizer.chat_template"));
    for (uint32_t i = 0; r >= 0 && i < MOST_TOKENS; i++) PROMISE(((const char *const *)tokens->data)[i]);
    rf_gguf_values_clear(&values);
    json_decref(root);
}

static void read_model(const char *text, size_t size)
{
    rf_pretrained_config config;
    rf_gguf_values values = { 0 };
    rf_gguf_model model = { 0 };
    rf_result r = rf_pretrained_config_parse(&config, "config.json", text, size);
    config.num_tensors = 1000;
    if (r >= 0) r = rf_gguf_describe_model(&config, &values, &model);
    if (r < 0)
        check_failure(r);
    else
        PROMISE(model.heads >= 1 && model.key_heads >= 1 && model.vocabulary >= 1 && values.count > 5);
    rf_gguf_values_clear(&values);
    rf_pretrained_config_clear(&config);
}

/* The texts that stand for a directory's, and the ends of each tensor. */
static void check_files(const rf_tensor_files *files)
{
    static const char *const names[] = { "config.json", "tokenizer_config.json", "tokenizer.json" };
    char *text = NULL;
    size_t length;
    for (int i = 0; i < 3; i++) {
        json_t *root;
        rf_free(text);
        PROMISE(rf_tensor_files_text(files, names[i], 1, &text, &length) == RF_OK);
        PROMISE(rf_json_parse(text, length, names[i], &root) == RF_OK);
        json_decref(root);
    }
    rf_tokenizer *tokenizer;
    const rf_result r = rf_tokenizer_parse(text, length, true, &tokenizer);
    if (r < 0) check_failure(r); /* such as merges of no tokens */
    rf_tokenizer_destroy(&tokenizer);
    rf_free(text);
    for (uint32_t i = 0; i < files->num_entries; i++) {
        float number;
        const rf_archive_entry *e = &files->entries[i].is;
        const uint64_t size = rf_dtype_size(e->dtype);
        PROMISE(rf_tensor_files_find(files, e->name) && e->bytes >= size);
        PROMISE(rf_tensor_files_read(files, &files->entries[i], 0, &number, size) == RF_OK);
        PROMISE(rf_tensor_files_read(files, &files->entries[i], e->bytes - size, &number, size) == RF_OK);
    }
}

static void read_file(const char *text, size_t size)
{
    one_file bytes = { .bytes = (const uint8_t *)text, .size = size };
    const rf_file_ops ops = one_file_ops(&bytes);
    rf_gguf *file;
    rf_gguf_import *import;
    rf_tensor_files files;
    rf_result r = rf_gguf_open_with(&ops, "f", &file);
    if (r >= 0) r = rf_gguf_import_create(file, "f", NULL, 0, &import);
    if (r < 0) {
        check_failure(r);
        return;
    }
    PROMISE(rf_gguf_import_files(import, &files) == RF_OK);
    check_files(&files);
    rf_tensor_files_close(&files);
    rf_gguf_import_destroy(&import);
}

FUZZ_TARGET(pretrained)
{
    if (size == 0) return 0;
    static void (*const readers[])(const char *text, size_t size) = { read_config, read_index, read_tokenizer,
                                                                      read_model };
    if (data[0] & 4)
        read_file((const char *)data + 1, size - 1);
    else
        readers[data[0] & 3]((const char *)data + 1, size - 1);
    return 0;
}
