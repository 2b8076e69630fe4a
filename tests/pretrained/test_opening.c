/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the hub that a test writes: what their files must be, mistakes in them, which the messages name, and
 * an architecture of the caller. That architectures of the library are right is check_pretrained.py's to say. */
#include <unistd.h>

#include <ringfire/text.h>

#include "../support/folder.h"
#include "../support/strategies.h"
#include "../support/try.h"
#include "tests/room.h"
#include "train/model/model.h"

enum { VOCABULARY = 7, WIDTH = 4, MOST_TENSORS = 32 };

/* ---- a small GPT-2 ---- */

static const char gpt2_config[] = "{\"model_type\":\"gpt2\",\"vocab_size\":7,\"n_embd\":4,\"n_head\":2,\"n_layer\":1,"
                                  "\"n_positions\":8%s}";

typedef struct hub_directory {
    char path[SCRATCH_PATH];
    rf_named_array arrays[MOST_TENSORS];
    uint32_t count;
    float values[128]; /* of all tensors, from their beginning */
} hub_directory;

static void add_tensor(hub_directory *d, const char *name, rf_shape shape)
{
    assert_true(d->count < MOST_TENSORS && rf_shape_count(shape) <= 128);
    d->arrays[d->count++] = (rf_named_array){ name, { RF_F32, shape, d->values } };
}

static rf_array *find_tensor(hub_directory *d, const char *name)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (strcmp(d->arrays[i].name, name) == 0) return &d->arrays[i].array;
    fail_msg("no tensor '%s'", name);
    return NULL;
}

static const char *in(const hub_directory *d, const char *name)
{
    static char path[160];
    snprintf(path, sizeof(path), "%s/%s", d->path, name);
    return path;
}

static void write_config(const hub_directory *d, const char *more)
{
    char text[2048];
    snprintf(text, sizeof(text), gpt2_config, more);
    scratch_write(in(d, "config.json"), text);
}

static void write_weights(const hub_directory *d)
{
    OK(rf_safetensors_write(in(d, "model.safetensors"), d->arrays, d->count));
}

static void make_gpt2(hub_directory *d)
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

static void refuse_directory(rf_strategy *strategy, const hub_directory *d, const rf_pretrained_params *params,
                             rf_result code, const char *message)
{
    rf_pretrained *p = NULL;
    FAILS(rf_pretrained_open(strategy, d->path, params, &p), code, message);
    assert_null(p);
}

static void open_directory(rf_strategy *strategy, const hub_directory *d)
{
    rf_pretrained *p;
    OK(rf_pretrained_open(strategy, d->path, NULL, &p));
    rf_pretrained_destroy(&p);
    assert_null(p);
}

/* ---- the configuration ---- */

typedef struct config_mistake {
    const char *more;
    rf_result code; /* RF_OK: none */
    const char *message;
} config_mistake;

static const config_mistake config_mistakes[] = {
    { ",\"transformers_version\":\"9\",\"id2label\":{\"0\":\"x\"},\"pruned_heads\":{},\"pad_token_id\":-1", RF_OK, "" },
    { ",\"new_attention\":null", RF_OK, "" },
    { ",\"new_attention\":\"on\"", RF_ERROR_UNSUPPORTED,
      "'new_attention' is \"on\", which is not known here; name it in rf_pretrained_params::ignored_keys" },
    { ",\"add_cross_attention\":true", RF_ERROR_UNSUPPORTED, "'add_cross_attention' is true" },
    { ",\"quantization_config\":{\"bits\":4}", RF_ERROR_UNSUPPORTED, "'quantization_config' is {\"bits\":4}" },
    { ",\"activation_function\":\"snake\"", RF_ERROR_UNSUPPORTED,
      "config.json': 'activation_function' is \"snake\", not one of relu, gelu" },
    { ",\"architectures\":[\"GPT2ForSequenceClassification\"]", RF_ERROR_UNSUPPORTED,
      "'architectures.0' is \"GPT2ForSequenceClassification\", not one of GPT2LMHeadModel, GPT2Model" },
    { ",\"layer_norm_epsilon\":\"small\"", RF_ERROR_UNSUPPORTED, "'layer_norm_epsilon' is \"small\", not a number" },
    { ",\"scale_attn_weights\":1", RF_ERROR_UNSUPPORTED, "'scale_attn_weights' is 1, not true or false" },
    { ",\"n_inner\":0", RF_ERROR_UNSUPPORTED, "'n_inner' is 0, not a size of 1 or more" },
    { ",\"n_inner\":1099511627776", RF_ERROR_UNSUPPORTED, "'n_inner' is 1099511627776, not a size" },
    { ",\"resid_pdrop\":1.0", RF_ERROR_UNSUPPORTED, "'resid_pdrop' is 1.0, not a rate from 0 to below 1" },
    { ",\"n_inner\":17", RF_ERROR_INVALID_ARGUMENT,
      "tensor 'h.0.mlp.c_fc.weight' is [4,16], which does not fit 'h/0/mlp/c_fc/kernel' [4,17]" },
    { ",\"n_inner\":2147483647", RF_ERROR_INVALID_ARGUMENT, "tensor 'h.0.mlp.c_fc.weight' is [4,16]" },
    { ",\"new\\nkey\":1", RF_ERROR_UNSUPPORTED, "'new?key' is 1" },
    { ",\"tie_word_embeddings\":false", RF_ERROR_NOT_FOUND,
      "has no tensor 'lm_head.weight', which is to be 'lm_head/kernel'" },
};

static void configurations(rf_strategy *strategy)
{
    static const char *const ignored[] = { "new_attention" };
    hub_directory d;
    make_gpt2(&d);
    open_directory(strategy, &d);
    for (size_t i = 0; i < sizeof(config_mistakes) / sizeof(config_mistakes[0]); i++) {
        const config_mistake *m = &config_mistakes[i];
        write_config(&d, m->more);
        if (m->code == RF_OK)
            open_directory(strategy, &d);
        else
            refuse_directory(strategy, &d, NULL, m->code, m->message);
    }
    write_config(&d, ",\"new_attention\":\"on\"");
    rf_pretrained *p;
    OK(rf_pretrained_open(strategy, d.path, &(rf_pretrained_params){ .ignored_keys = ignored, .num_ignored_keys = 1 },
                          &p));
    rf_pretrained_destroy(&p);
    write_config(&d, "");
    refuse_directory(strategy, &d, &(rf_pretrained_params){ .sequence_length = 9 }, RF_ERROR_INVALID_ARGUMENT,
                     "sequence_length is 9; the model of");
    scratch_write(in(&d, "config.json"), "{\"model_type\":\"gpt9\"}");
    refuse_directory(strategy, &d, NULL, RF_ERROR_UNSUPPORTED, "'model_type' is \"gpt9\", which is no architecture");
    scratch_write(in(&d, "config.json"), "{\"n_layer\":1}");
    refuse_directory(strategy, &d, NULL, RF_ERROR_NOT_FOUND, "config.json': 'model_type' is not there");
    scratch_write(in(&d, "config.json"), "{\"model_type\":");
    refuse_directory(strategy, &d, NULL, RF_ERROR_CORRUPT_DATA, "config.json'");
    /* More layers than any file has tensors for. */
    scratch_write(in(&d, "config.json"), "{\"model_type\":\"gpt2\",\"n_layer\":2147483647}");
    refuse_directory(strategy, &d, NULL, RF_ERROR_UNSUPPORTED, "'n_layer' is 2147483647, not a number of layers");
    remove(in(&d, "config.json"));
    refuse_directory(strategy, &d, NULL, RF_ERROR_NOT_FOUND, "config.json");
    scratch_remove(d.path);
}

/* ---- tensors ---- */

static void tensors(rf_strategy *strategy)
{
    hub_directory d;
    make_gpt2(&d);
    rf_array *bias = find_tensor(&d, "h.0.attn.c_attn.bias");
    bias->shape = RF_SHAPE(13);
    write_weights(&d);
    refuse_directory(strategy, &d, NULL, RF_ERROR_INVALID_ARGUMENT,
                     "tensor 'h.0.attn.c_attn.bias' has 13 outputs, of which the model of this config.json takes 12");
    bias->shape = RF_SHAPE(3);
    write_weights(&d);
    refuse_directory(strategy, &d, NULL, RF_ERROR_INVALID_ARGUMENT,
                     "tensor 'h.0.attn.c_attn.bias' is [3], which does not fit 'h/0/attn/query/bias' [2,2]");
    bias->shape = RF_SHAPE(12);
    bias->dtype = RF_I32;
    write_weights(&d);
    refuse_directory(strategy, &d, NULL, RF_ERROR_UNSUPPORTED,
                     "tensor 'h.0.attn.c_attn.bias' is of type i32; weights are F32, F16 or BF16");
    bias->dtype = RF_F32;
    d.count--; /* ln_f.bias */
    write_weights(&d);
    refuse_directory(strategy, &d, NULL, RF_ERROR_NOT_FOUND, "has no tensor 'ln_f.bias', which is to be 'ln_f/beta'");
    d.count++;
    add_tensor(&d, "h.1.ln_1.bias", RF_SHAPE(WIDTH));
    write_weights(&d);
    refuse_directory(strategy, &d, NULL, RF_ERROR_UNSUPPORTED,
                     "tensor 'h.1.ln_1.bias' has no place in the model of this config.json");
    d.arrays[d.count - 1].name = "score.weight";
    write_weights(&d);
    refuse_directory(strategy, &d, NULL, RF_ERROR_UNSUPPORTED,
                     "tensor 'score.weight' has no place in a model of type 'gpt2'");
    remove(in(&d, "model.safetensors"));
    refuse_directory(strategy, &d, NULL, RF_ERROR_NOT_FOUND,
                     "has neither model.safetensors nor model.safetensors.index.json");
    scratch_remove(d.path);
}

/* ---- shards ---- */

static void write_index(const hub_directory *d, const char *map)
{
    char text[1024];
    snprintf(text, sizeof(text), "{\"metadata\":{\"total_size\":1},\"weight_map\":%s}", map);
    scratch_write(in(d, "model.safetensors.index.json"), text);
}

static void shards(rf_strategy *strategy)
{
    hub_directory d;
    make_gpt2(&d);
    OK(rf_safetensors_write(in(&d, "a.safetensors"), d.arrays, 1));
    OK(rf_safetensors_write(in(&d, "b.safetensors"), d.arrays + 1, 1));
    remove(in(&d, "model.safetensors"));
    static const struct {
        const char *map, *message;
    } mistakes[] = {
        { "{\"wte.weight\":\"../a.safetensors\"}", "weight_map names a file that is not one of its directory" },
        { "{\"wte.weight\":\"/etc/passwd\"}", "weight_map names a file that is not one of its directory" },
        { "{\"wte.weight\":\".hidden\"}", "weight_map names a file that is not one of its directory" },
        { "{\"wte.weight\":\"\"}", "weight_map names a file that is not one of its directory" },
        { "{\"wte.weight\":7}", "weight_map has something that is no name of a file" },
        { "{}", "has no object weight_map that names files" },
        { "[]", "has no object weight_map that names files" },
        { "{\"wpe.weight\":\"a.safetensors\"}", "'a.safetensors' has no tensor 'wpe.weight'" },
        { "{\"wte.weight\":\"b.safetensors\",\"wpe.weight\":\"a.safetensors\"}", "has no tensor 'wpe.weight'" },
        { "{\"wte.weight\":\"a.safetensors\",\"wte.weight\":\"a.safetensors\"}", "duplicate" },
    };
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        write_index(&d, mistakes[i].map);
        refuse_directory(strategy, &d, NULL, RF_ERROR_CORRUPT_DATA, mistakes[i].message);
    }
    OK(rf_safetensors_write(in(&d, "b.safetensors"), d.arrays + 1, d.count - 1));
    write_index(&d, "{\"wte.weight\":\"a.safetensors\",\"wpe.weight\":\"b.safetensors\"}");
    refuse_directory(strategy, &d, NULL, RF_ERROR_CORRUPT_DATA, "names 2 tensors; the files have 16");
    write_index(&d, "{\"wte.weight\":\"c.safetensors\"}");
    refuse_directory(strategy, &d, NULL, RF_ERROR_NOT_FOUND, "c.safetensors");
    scratch_remove(d.path);
}

/* ---- an architecture of the caller ---- */

static const rf_pretrained_tensor net_tensors[] = {
    { .tensor = "blocks.{}.{}.weight",
      .variable = "block_{}/gate_{}/kernel",
      .layout = RF_PRETRAINED_TRANSPOSED,
      .part = 1 },
    { .tensor = "blocks.{}.{}.weight",
      .variable = "block_{}/up_{}/kernel",
      .layout = RF_PRETRAINED_TRANSPOSED,
      .part = 2 },
    { .tensor = "note" },
};

static rf_symbol dense_of(rf_model_builder *b, rf_symbol x, int32_t units, const char *name)
{
    rf_layer *layer;
    OK(rf_layer_dense(&(rf_dense_params){ .units = units, .no_bias = true, .name = name }, &layer));
    return rf_model_builder_call(b, layer, x);
}

static rf_result build_net(rf_pretrained_config *config, rf_model_builder *b, rf_pretrained_outputs *outputs,
                           void *user)
{
    rf_layer *add;
    *(int *)user += 1;
    const int32_t width = rf_pretrained_config_size(config, "sizes.width", RF_PRETRAINED_REQUIRED);
    const rf_symbol x = rf_model_builder_input(b, RF_F32, RF_SHAPE(3), "x");
    const rf_symbol parts[] = { dense_of(b, x, width, "block_0/gate_7"), dense_of(b, x, width, "block_0/up_7") };
    OK(rf_layer_add(&add));
    outputs->count = 1;
    outputs->symbol[0] = rf_model_builder_call_many(b, add, parts, 2);
    outputs->name[0] = "y";
    return RF_OK;
}

static float value_of(rf_pretrained *p, uint32_t variable, uint32_t at)
{
    float values[6];
    const rf_variable_list list = rf_model_variables(rf_pretrained_model(p));
    assert_true(list.count == 2 && rf_shape_equal(rf_variable_shape(list.items[variable]), RF_SHAPE(3, 2)));
    OK(rf_variable_read(list.items[variable], values));
    return values[at];
}

static void own_architecture(rf_strategy *strategy)
{
    int calls = 0;
    const rf_pretrained_architecture net = { .model_type = "net",
                                             .prefix = "net.",
                                             .tensors = net_tensors,
                                             .num_tensors = 3,
                                             .build = build_net,
                                             .user = &calls };
    const rf_pretrained_params params = { .architectures = &net, .num_architectures = 1 };
    hub_directory d = { 0 };
    rf_pretrained *p;
    rf_array_set set;
    scratch(d.path);
    for (int i = 0; i < 12; i++) d.values[i] = (float)i;
    add_tensor(&d, "net.blocks.0.7.weight", RF_SHAPE(4, 3));
    add_tensor(&d, "note", RF_SHAPE(2));
    d.arrays[1].array.dtype = RF_I64;
    write_weights(&d);
    scratch_write(in(&d, "config.json"), "{\"model_type\":\"net\",\"sizes\":{\"width\":2}}");
    scratch_write(in(&d, "tokenizer.json"), "{}");
    OK(rf_pretrained_open(strategy, d.path, &params, &p));
    assert_int_equal(calls, 1);
    assert_string_equal(rf_model_output_name(rf_pretrained_model(p), 0), "y");
    /* Row o of the tensor is column o of the first kernel; the second one begins two rows later. */
    assert_true(value_of(p, 0, 0) == 0 && value_of(p, 0, 1) == 3 && value_of(p, 0, 2) == 1);
    assert_true(value_of(p, 1, 0) == 6 && value_of(p, 1, 1) == 9 && value_of(p, 1, 5) == 11);
    float changed[6] = { 0, 0, 50, 0, 0, 0 };
    OK(rf_variable_assign(rf_model_variables(rf_pretrained_model(p)).items[1], changed));
    OK(rf_pretrained_save(p, d.path)); /* over its own files */
    OK(rf_pretrained_save(p, in(&d, "new/one")));
    rf_pretrained_destroy(&p);
    OK(rf_safetensors_read(in(&d, "new/one/model.safetensors"), &set));
    assert_int_equal(set.count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const rf_array *a = &set.items[i].array;
        const float *values = a->data;
        if (a->dtype == RF_I64)
            assert_memory_equal(a->data, d.values, 2 * sizeof(int64_t));
        else
            assert_true(values[1] == 1 && values[5] == 5 && values[6] == 0 && values[7] == 50 && values[11] == 0);
    }
    rf_array_set_free(&set);
    assert_int_equal(access(in(&d, "new/one/tokenizer.json"), R_OK), 0);
    scratch_write(in(&d, "config.json"), "{\"model_type\":\"net\",\"sizes\":{\"width\":2,\"depth\":1}}");
    refuse_directory(strategy, &d, &params, RF_ERROR_UNSUPPORTED, "'sizes.depth' is 1, which is not known here");
    scratch_write(in(&d, "config.json"), "{\"model_type\":\"net\"}");
    refuse_directory(strategy, &d, &params, RF_ERROR_NOT_FOUND, "'sizes.width' is not there, not a size");
    scratch_remove(d.path);
}

static void tables(rf_strategy *strategy)
{
    static const struct {
        rf_pretrained_tensor row[2];
        const char *message;
    } mistakes[] = {
        { { { .tensor = "a.{}", .variable = "b" } }, "'a.{}' and 'b' do not have {} equally often" },
        { { { .tensor = "a", .variable = "b", .part = 2 } }, "part 2 does not follow part 1" },
        { { { .variable = "b" } }, "row 0 of the table of 'net' names no tensor" },
        { { { .tensor = "a", .variable = "b", .layout = (rf_pretrained_layout)9 } }, "layout 9 does not exist" },
        { { { .tensor = "{}{}{}{}{}", .variable = "{}{}{}{}{}" } }, "has more than 4 times {}" },
    };
    int calls = 0;
    const hub_directory d = { .path = "/nonexistent" };
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        const rf_pretrained_architecture net = {
            .model_type = "net", .tensors = mistakes[i].row, .num_tensors = 1, .build = build_net, .user = &calls
        };
        refuse_directory(strategy, &d, &(rf_pretrained_params){ .architectures = &net, .num_architectures = 1 },
                         RF_ERROR_INVALID_ARGUMENT, mistakes[i].message);
    }
    assert_int_equal(calls, 0);
}

/* ---- an ordinary model ---- */

static rf_layer *find_layer(const rf_model *model, const char *name)
{
    for (uint32_t i = 0; i < model->layers.count; i++)
        if (strcmp(model->layers.items[i]->name, name) == 0) return model->layers.items[i];
    fail_msg("no layer '%s'", name);
    return NULL;
}

/* The guide's program. */
static rf_result fine_tune(rf_strategy *strategy, const char *directory, rf_optimizer *optimizer,
                           const rf_dataset *windows, const char *tuned)
{
    rf_pretrained *pretrained;
    TRY(rf_pretrained_open(strategy, directory, NULL, &pretrained));
    rf_model *model = rf_pretrained_model(pretrained);
    const rf_loss loss = { .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true };
    TRY(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer, .loss = loss }));
    TRY(rf_model_fit(model, &(rf_fit_params){ .data = windows }, NULL));
    TRY(rf_pretrained_save(pretrained, tuned));
    rf_pretrained_destroy(&pretrained);
    return RF_OK;
}

static void fine_tuning(rf_strategy *strategy)
{
    hub_directory d;
    rf_dataset *rows, *data;
    rf_optimizer *optimizer;
    rf_array_set set;
    make_gpt2(&d);
    int32_t numbers[9] = { 1, 2, 3, 4, 5, 6, 0, 1, 2 };
    const rf_array text = array_i32(RF_SHAPE(9), numbers);
    OK(rf_dataset_from_tokens(&text, 4, 1, &rows));
    OK(rf_dataset_batch(rows, 2, RF_REMAINDER_KEEP, &data));
    const rf_optimizer_params sgd = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 1 };
    OK(rf_optimizer_create(strategy, &sgd, &optimizer));
    OK(fine_tune(strategy, d.path, optimizer, data, in(&d, "tuned")));
    OK(rf_safetensors_read(in(&d, "tuned/model.safetensors"), &set));
    assert_int_equal(set.count, d.count);
    for (uint32_t i = 0; i < set.count; i++) {
        const rf_array *is = &set.items[i].array, *was = find_tensor(&d, set.items[i].name);
        assert_true(is->dtype == RF_F32 && rf_shape_equal(is->shape, was->shape));
        const size_t bytes = (size_t)rf_shape_count(is->shape) * sizeof(float);
        if (memcmp(is->data, was->data, bytes) == 0) fail_msg("'%s' has learned nothing", set.items[i].name);
    }
    rf_array_set_free(&set);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&rows);
    scratch_remove(d.path);
}

/* Frozen layers stay as they are, and others learn. */
static void frozen_layers(rf_strategy *strategy)
{
    hub_directory d;
    rf_pretrained *p;
    rf_dataset *rows, *data;
    rf_optimizer *optimizer;
    int32_t tokens[8] = { 1, 2, 3, 4, 5, 6, 0, 1 };
    float before[VOCABULARY * WIDTH], after[VOCABULARY * WIDTH];
    make_gpt2(&d);
    write_config(&d, ",\"architectures\":[\"GPT2LMHeadModel\"],\"embd_pdrop\":0.0");
    OK(rf_pretrained_open(strategy, d.path, NULL, &p));
    rf_model *model = rf_pretrained_model(p);
    rf_layer *table = find_layer(model, "wte"), *norm = find_layer(model, "ln_f");
    rf_layer_set_trainable(table, false);
    const rf_array arrays[2] = { array_i32(RF_SHAPE(2, 4), tokens), array_i32(RF_SHAPE(2, 4), tokens) };
    OK(rf_dataset_from_arrays(&(rf_dataset_arrays_params){ .arrays = arrays, .num_arrays = 2 }, &rows));
    OK(rf_dataset_batch(rows, 2, RF_REMAINDER_KEEP, &data));
    const rf_optimizer_params sgd = { .kind = RF_OPTIMIZER_SGD, .learning_rate = 1 };
    OK(rf_optimizer_create(strategy, &sgd, &optimizer));
    const rf_loss loss = { .kind = RF_LOSS_SPARSE_CATEGORICAL_CROSSENTROPY, .from_logits = true };
    OK(rf_model_compile(model, &(rf_compile_params){ .optimizer = optimizer, .loss = loss }));
    OK(rf_variable_read(rf_layer_variable(table, "embeddings"), before));
    OK(rf_model_fit(model, &(rf_fit_params){ .data = data }, NULL));
    OK(rf_variable_read(rf_layer_variable(table, "embeddings"), after));
    assert_memory_equal(before, after, sizeof(before));
    OK(rf_variable_read(rf_layer_variable(norm, "gamma"), after));
    assert_true(memcmp(d.values, after, WIDTH * sizeof(float)) != 0);
    rf_pretrained_destroy(&p);
    rf_optimizer_destroy(&optimizer);
    rf_dataset_destroy(&data);
    rf_dataset_destroy(&rows);
    scratch_remove(d.path);
}

/* ---- generation_config.json ---- */

typedef struct generation_case {
    const char *text;
    rf_result code;
    const char *message;
    rf_sampling_params sampling;
    uint32_t max_new_tokens, num_stops;
    int32_t stops[2];
} generation_case;

static const generation_case generation_cases[] = {
    { "{}", .num_stops = 1, .stops = { 3 } },
    { "{\"eos_token_id\":null}", .num_stops = 0 },
    { "{\"eos_token_id\":[5,6],\"max_new_tokens\":9,\"num_beams\":1,\"bad_words_ids\":[],\"temperature\":0.5}",
      .max_new_tokens = 9, .num_stops = 2, .stops = { 5, 6 } },
    { "{\"do_sample\":true,\"bos_token_id\":1}", .sampling = { .temperature = 1, .top_k = 50 }, .num_stops = 1,
      .stops = { 3 } },
    { "{\"do_sample\":true,\"temperature\":0.5,\"top_k\":0,\"top_p\":0.875,\"min_p\":0.25,\"repetition_penalty\":1.5}",
      .sampling = { .temperature = 0.5f, .top_p = 0.875f, .min_p = 0.25f, .repetition_penalty = 1.5f }, .num_stops = 1,
      .stops = { 3 } },
    { "{\"num_beams\":4}", RF_ERROR_UNSUPPORTED,
      "generation_config.json': 'num_beams' is 4, which texts are not generated with here" },
    { "{\"a.b\":4}", RF_ERROR_UNSUPPORTED, "'a.b'" },
    { "{\"eos_token_id\":[1,-5]}", RF_ERROR_UNSUPPORTED, "'eos_token_id' has a value that is no token" },
    { "{\"do_sample\":true,\"temperature\":0}", RF_ERROR_UNSUPPORTED, "'temperature' is 0, not a positive number" },
    { "{\"do_sample\":true,\"top_k\":1.5}", RF_ERROR_UNSUPPORTED, "'top_k' is 1.5, not a number of tokens" },
    { "{\"max_new_tokens\":0}", RF_ERROR_UNSUPPORTED, "'max_new_tokens' is 0, not a size" },
    { "{", RF_ERROR_CORRUPT_DATA, "generation_config.json'" },
};

static void check_generation(rf_strategy *strategy, const hub_directory *d, const generation_case *c)
{
    rf_pretrained *p;
    rf_generate_params params = { .seed = 7 };
    OK(rf_pretrained_open(strategy, d->path, NULL, &p));
    if (c->code < 0) {
        FAILS(rf_pretrained_generate_params(p, &params), c->code, c->message);
    } else {
        OK(rf_pretrained_generate_params(p, &params));
        assert_memory_equal(&params.sampling, &c->sampling, sizeof(params.sampling));
        assert_int_equal(params.max_new_tokens, c->max_new_tokens);
        assert_int_equal(params.num_stop_tokens, c->num_stops);
        for (uint32_t i = 0; i < c->num_stops; i++) assert_int_equal(params.stop_tokens[i], c->stops[i]);
        assert_int_equal(params.seed, 7);
    }
    rf_pretrained_destroy(&p);
}

static void generation(rf_strategy *strategy)
{
    hub_directory d;
    make_gpt2(&d);
    write_config(&d, ",\"eos_token_id\":3");
    check_generation(strategy, &d, &(generation_case){ .num_stops = 1, .stops = { 3 } });
    for (size_t i = 0; i < sizeof(generation_cases) / sizeof(generation_cases[0]); i++) {
        scratch_write(in(&d, "generation_config.json"), generation_cases[i].text);
        check_generation(strategy, &d, &generation_cases[i]);
    }
    scratch_remove(d.path);
}

static bool show_token(uint32_t prompt, int32_t token, void *stream)
{
    const char *text;
    (void)prompt;
    if (rf_text_stream_add(stream, token, &text, NULL) != RF_OK) return false; /* a stop string, or a failure */
    fputs(text, stdout);
    return true;
}

static rf_result answer_prompt(rf_pretrained *pretrained, rf_array prompt, rf_text_stream *stream, rf_array *out)
{
    rf_array answer;
    rf_generate_params params = { .prompts = &prompt, .num_prompts = 1, .max_new_tokens = 64 };
    TRY(rf_pretrained_generate_params(pretrained, &params)); /* generation_config.json: sampling, stop tokens */
    params.on_token = show_token;
    params.user = stream;
    TRY(rf_model_generate(rf_pretrained_model(pretrained), &params, &answer));
    *out = answer;
    return RF_OK;
}

/* As the guide has it: text while it is written, up to a stop string. */
static void streamed_text(rf_strategy *strategy)
{
    static const char *const letters[VOCABULARY] = { "a", "b", "c", "d", "e", "f", "g" };
    int32_t tokens[] = { 1, 2 };
    const rf_array prompt = { RF_I32, RF_SHAPE(2), tokens };
    hub_directory d;
    rf_tokenizer *tokenizer;
    rf_pretrained *p;
    rf_text_stream *stream;
    rf_array whole, cut;
    make_gpt2(&d);
    scratch_write(in(&d, "generation_config.json"), "{\"max_new_tokens\":4}");
    OK(rf_tokenizer_create(&(rf_tokenizer_params){ .kind = RF_TOKENIZER_CHARACTERS }, letters, NULL, VOCABULARY,
                           &tokenizer));
    OK(rf_pretrained_open(strategy, d.path, NULL, &p));
    OK(rf_text_stream_create(&(rf_text_stream_params){ .tokenizer = tokenizer }, &stream));
    OK(answer_prompt(p, prompt, stream, &whole));
    assert_int_equal(whole.shape.dim[0], 4);
    rf_text_stream_destroy(&stream);
    const char *const stops[] = { letters[((const int32_t *)whole.data)[0]] };
    OK(rf_text_stream_create(
        &(rf_text_stream_params){ .tokenizer = tokenizer, .stop_strings = stops, .num_stop_strings = 1 }, &stream));
    OK(answer_prompt(p, prompt, stream, &cut));
    assert_int_equal(cut.shape.dim[0], 1);
    rf_text_stream_destroy(&stream);
    rf_array_free(&whole);
    rf_array_free(&cut);
    rf_pretrained_destroy(&p);
    rf_tokenizer_destroy(&tokenizer);
    scratch_remove(d.path);
}

TEST_ON_ONE(configurations)
TEST_ON_ONE(generation)
TEST_ON_ONE(streamed_text)
TEST_ON_ONE(tensors)
TEST_ON_ONE(shards)
TEST_ON_ONE(own_architecture)
TEST_ON_ONE(tables)
TEST_ON_ONE(fine_tuning)
TEST_ON_ONE(frozen_layers)

TESTS(opening, NULL, NULL)
