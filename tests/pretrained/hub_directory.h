/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the hub that tests write. */
#ifndef TESTS_PRETRAINED_HUB_DIRECTORY_H
#define TESTS_PRETRAINED_HUB_DIRECTORY_H

#include <ringfire/pretrained.h>

#include "../support/folder.h"
#include "../support/strategies.h"

enum { VOCABULARY = 7, WIDTH = 4, MOST_TENSORS = 32 };

/* ---- a small GPT-2 ---- */

typedef struct hub_directory {
    char path[SCRATCH_PATH];
    rf_named_array arrays[MOST_TENSORS];
    uint32_t count;
    float values[128]; /* of all tensors, from their beginning */
} hub_directory;

static inline void add_tensor(hub_directory *d, const char *name, rf_shape shape)
{
    assert_true(d->count < MOST_TENSORS && rf_shape_count(shape) <= 128);
    d->arrays[d->count++] = (rf_named_array){ name, { RF_F32, shape, d->values } };
}

static inline rf_array *find_tensor(hub_directory *d, const char *name)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (strcmp(d->arrays[i].name, name) == 0) return &d->arrays[i].array;
    fail_msg("no tensor '%s'", name);
    return NULL;
}

static inline const char *in(const hub_directory *d, const char *name)
{
    static char path[160];
    snprintf(path, sizeof(path), "%s/%s", d->path, name);
    return path;
}

static inline void write_config(const hub_directory *d, const char *more)
{
    static const char config[] =
        "{\"model_type\":\"gpt2\",\"vocab_size\":7,\"n_embd\":4,\"n_head\":2,\"n_layer\":1,\"n_positions\":8%s}";
    char text[2048];
    snprintf(text, sizeof(text), config, more);
    scratch_write(in(d, "config.json"), text);
}

static inline void write_weights(const hub_directory *d)
{
    OK(rf_safetensors_write(in(d, "model.safetensors"), d->arrays, d->count));
}

static inline void make_gpt2(hub_directory *d)
{
    static const struct {
        const char *name;
        int64_t dim[2]; /* of a vector the second is 0 */
    } tensors[] = {
        { "wte.weight", { VOCABULARY, WIDTH } },
        { "wpe.weight", { 8, WIDTH } },
        { "h.0.ln_1.weight", { WIDTH } },
        { "h.0.ln_1.bias", { WIDTH } },
        { "h.0.attn.c_attn.weight", { WIDTH, 3 * WIDTH } },
        { "h.0.attn.c_attn.bias", { 3 * WIDTH } },
        { "h.0.attn.c_proj.weight", { WIDTH, WIDTH } },
        { "h.0.attn.c_proj.bias", { WIDTH } },
        { "h.0.ln_2.weight", { WIDTH } },
        { "h.0.ln_2.bias", { WIDTH } },
        { "h.0.mlp.c_fc.weight", { WIDTH, 4 * WIDTH } },
        { "h.0.mlp.c_fc.bias", { 4 * WIDTH } },
        { "h.0.mlp.c_proj.weight", { 4 * WIDTH, WIDTH } },
        { "h.0.mlp.c_proj.bias", { WIDTH } },
        { "ln_f.weight", { WIDTH } },
        { "ln_f.bias", { WIDTH } },
    };
    *d = (hub_directory){ 0 };
    scratch(d->path);
    for (int i = 0; i < 128; i++) d->values[i] = 0.01f * (float)(i % 17) - 0.05f;
    for (size_t i = 0; i < sizeof(tensors) / sizeof(tensors[0]); i++) {
        const int64_t *dim = tensors[i].dim;
        add_tensor(d, tensors[i].name, dim[1] ? RF_SHAPE(dim[0], dim[1]) : RF_SHAPE(dim[0]));
    }
    write_config(d, "");
    write_weights(d);
}

static inline void refuse_directory(rf_strategy *strategy, const hub_directory *d, const rf_pretrained_params *params,
                                    rf_result code, const char *message)
{
    rf_pretrained *p = NULL;
    FAILS(rf_pretrained_open(strategy, d->path, params, &p), code, message);
    assert_null(p);
}

static inline void open_directory(rf_strategy *strategy, const hub_directory *d)
{
    rf_pretrained *p;
    OK(rf_pretrained_open(strategy, d->path, NULL, &p));
    rf_pretrained_destroy(&p);
    assert_null(p);
}

static inline void write_index(const hub_directory *d, const char *map)
{
    char text[1024];
    snprintf(text, sizeof(text), "{\"metadata\":{\"total_size\":1},\"weight_map\":%s}", map);
    scratch_write(in(d, "model.safetensors.index.json"), text);
}

#endif
