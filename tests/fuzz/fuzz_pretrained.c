/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Directories of the Hugging Face hub. The first byte says what is read: 0 a config.json, of which every builder of the
 * library's decoders reads its keys, 1 the index of files of tensors, whose files all must be in one directory.
 */
#include <string.h>

#include "base/error.h"
#include "fuzz.h"
#include "pretrained/config.h"
#include "pretrained/decoder.h"
#include "pretrained/files.h"

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

FUZZ_TARGET(pretrained)
{
    if (size == 0) return 0;
    if (data[0] & 1)
        read_index((const char *)data + 1, size - 1);
    else
        read_config((const char *)data + 1, size - 1);
    return 0;
}
