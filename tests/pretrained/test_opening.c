/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of the hub that a test writes: what their files must be, mistakes in them, which the messages name, and
 * an architecture of the caller. That architectures of the library are right is check_pretrained.py's to say. */
#include <unistd.h>

#include "../support/try.h"
#include "hub_directory.h"
#include "tests/room.h"
#include "train/model/model.h"

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
    add_tensor(&d, "h.0.attn.bias", RF_SHAPE(1, 1, 8, 8)); /* the mask of old files */
    write_weights(&d);
    OK(rf_pretrained_open(strategy, d.path, &(rf_pretrained_params){ .packed = true }, &p));
    assert_string_equal(rf_pretrained_weight_report(p)->summary, "tensor 'h.0.attn.bias' is not used\n");
    assert_int_equal(rf_model_num_inputs(rf_pretrained_model(p)), 2);
    assert_string_equal(rf_model_input_name(rf_pretrained_model(p), 1), "position_ids");
    rf_pretrained_destroy(&p);
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

/* The guide's program. */
static rf_result read_gguf(rf_strategy *strategy, const char *file, const char *directory)
{
    rf_pretrained *pretrained;
    TRY(rf_pretrained_open(strategy, file, NULL, &pretrained));
    TRY(rf_pretrained_save(pretrained, directory));
    rf_pretrained_destroy(&pretrained);
    return RF_OK;
}

/* The guide's program. */
static rf_result write_gguf(rf_pretrained *pretrained, const char *directory, const char *file, const char *adapter,
                            const char *adapter_file)
{
    const rf_pretrained_gguf_params form = { .type = RF_GGUF_Q8_0, .name = "tuned" };
    TRY(rf_pretrained_save_gguf(pretrained, file, &form));
    TRY(rf_gguf_from_adapter(adapter, directory, adapter_file, NULL));
    return RF_OK;
}

/* Names and shapes; numbers are test_gguf.py's to compare. */
static void gguf_files(rf_strategy *strategy)
{
    static const char tokenizer[] = "{\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false},"
                                    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}";
    hub_directory d;
    rf_pretrained *p;
    rf_gguf *file;
    rf_gguf_value value;
    rf_gguf_tensor tensor;
    char path[160], adapter_path[160];
    make_gpt2(&d);
    const rf_named_array factors[] = {
        { "base_model.model.transformer.h.0.mlp.c_fc.lora_A.weight", { RF_F32, RF_SHAPE(2, WIDTH), d.values } },
        { "base_model.model.transformer.h.0.mlp.c_fc.lora_B.weight", { RF_F32, RF_SHAPE(4 * WIDTH, 2), d.values } },
    };
    scratch_write(in(&d, "tokenizer.json"), tokenizer);
    scratch_write(in(&d, "adapter_config.json"), "{\"r\":2,\"lora_alpha\":4}");
    OK(rf_safetensors_write(in(&d, "adapter_model.safetensors"), factors, 2));
    OK(rf_pretrained_open(strategy, d.path, NULL, &p));
    snprintf(path, sizeof(path), "%s", in(&d, "model.gguf"));
    snprintf(adapter_path, sizeof(adapter_path), "%s", in(&d, "adapter.gguf"));
    OK(write_gguf(p, d.path, path, d.path, adapter_path));
    OK(rf_gguf_open(path, &file));
    assert_int_equal(rf_gguf_num_tensors(file), d.count);
    OK(rf_gguf_find_value(file, "general.name", &value));
    assert_string_equal(*(const char *const *)value.data, "tuned");
    OK(rf_gguf_find_tensor(file, "blk.0.ffn_up.weight", &tensor));
    assert_true(rf_shape_equal(tensor.shape, RF_SHAPE(4 * WIDTH, WIDTH)) && tensor.type == RF_GGUF_F16);
    rf_gguf_close(&file);
    OK(rf_gguf_open(adapter_path, &file));
    OK(rf_gguf_find_tensor(file, "blk.0.ffn_up.weight.lora_b", &tensor));
    assert_true(rf_shape_equal(tensor.shape, RF_SHAPE(4 * WIDTH, 2)));
    rf_gguf_close(&file);
    char directory[160];
    rf_array_set set;
    snprintf(directory, sizeof(directory), "%s", in(&d, "made"));
    OK(rf_pretrained_save_gguf(p, path, NULL));
    OK(read_gguf(strategy, path, directory));
    OK(rf_safetensors_read(in(&d, "made/model.safetensors"), &set));
    assert_int_equal(set.count, d.count);
    for (uint32_t i = 0; i < set.count; i++) {
        assert_memory_equal(set.items[i].name, "transformer.", 12);
        const rf_array *is = &set.items[i].array, *was = find_tensor(&d, set.items[i].name + 12);
        assert_true(rf_shape_equal(is->shape, was->shape));
        assert_memory_equal(is->data, was->data, (size_t)rf_shape_count(is->shape) * sizeof(float));
    }
    rf_array_set_free(&set);
    FAILS(rf_pretrained_save_gguf(p, path, &(rf_pretrained_gguf_params){ .type = RF_GGUF_Q4_K }),
          RF_ERROR_INVALID_ARGUMENT, "F32, F16, BF16 and Q8_0 are written");
    scratch_write(in(&d, "config.json"),
                  "{\"model_type\":\"gpt2\",\"vocab_size\":2000000000,\"n_embd\":4,\"n_layer\":1}");
    FAILS(rf_pretrained_save_gguf(p, path, NULL), RF_ERROR_INVALID_ARGUMENT, "'wte.weight' is [7,4]");
    rf_pretrained_destroy(&p);
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
    FAILS(rf_pretrained_image_scale(p, &(rf_augment_params){ .pad = 0 }), RF_ERROR_INVALID_ARGUMENT, "takes no images");
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

/* ---- weights in few bits ---- */

/* The guide's line. */
static rf_result open_in_4_bits(rf_strategy *strategy, const char *directory, rf_pretrained **out)
{
    rf_pretrained *pretrained;
    const rf_quantize_params nf4 = { .kind = RF_QUANTIZATION_NF4 };
    TRY(rf_pretrained_open(strategy, directory, &(rf_pretrained_params){ .quantize = &nf4 }, &pretrained));
    *out = pretrained;
    return RF_OK;
}

/* Weights that were not assigned have the bytes of the file, and one that was has the values of its bits. */
static void few_bits(rf_strategy *strategy)
{
    hub_directory d;
    rf_pretrained *p;
    rf_array_set set;
    float values[4 * WIDTH * WIDTH], rounded[4 * WIDTH * WIDTH];
    make_gpt2(&d);
    OK(open_in_4_bits(strategy, d.path, &p));
    rf_layer *first = find_layer(rf_pretrained_model(p), "h/0/mlp/c_fc");
    rf_variable *kernel = rf_layer_variable(first, "kernel");
    assert_false(rf_variable_trainable(kernel));
    assert_true(rf_variable_trainable(rf_layer_variable(first, "bias")));
    for (int i = 0; i < 4 * WIDTH * WIDTH; i++) values[i] = 0.01f * (float)(i % 7);
    OK(rf_variable_assign(kernel, values));
    OK(rf_variable_read(kernel, rounded));
    assert_true(memcmp(values, rounded, sizeof(values)) != 0);
    OK(rf_pretrained_save(p, in(&d, "saved")));
    rf_pretrained_destroy(&p);
    OK(rf_safetensors_read(in(&d, "saved/model.safetensors"), &set));
    assert_int_equal(set.count, d.count);
    for (uint32_t i = 0; i < set.count; i++) {
        const rf_array *is = &set.items[i].array, *was = find_tensor(&d, set.items[i].name);
        const bool assigned = strcmp(set.items[i].name, "h.0.mlp.c_fc.weight") == 0;
        assert_memory_equal(is->data, assigned ? (const void *)rounded : was->data,
                            (size_t)rf_shape_count(is->shape) * sizeof(float));
    }
    rf_array_set_free(&set);
    const rf_quantize_params wrong = { .kind = (rf_quantization)9 };
    refuse_directory(strategy, &d, &(rf_pretrained_params){ .quantize = &wrong }, RF_ERROR_INVALID_ARGUMENT,
                     "rf_pretrained_open: quantize: quantization 9 does not exist");
    OK(rf_pretrained_open(strategy, d.path, NULL, &p)); /* the rules ended with that call */
    assert_true(rf_variable_trainable(rf_layer_variable(find_layer(rf_pretrained_model(p), "h/0/mlp/c_fc"), "kernel")));
    rf_pretrained_destroy(&p);
    scratch_remove(d.path);
}

TEST_ON_ONE(few_bits)
TEST_ON_ONE(configurations)
TEST_ON_ONE(tensors)
TEST_ON_ONE(shards)
TEST_ON_ONE(own_architecture)
TEST_ON_ONE(tables)
TEST_ON_ONE(fine_tuning)
TEST_ON_ONE(frozen_layers)
TEST_ON_ONE(gguf_files)

TESTS(opening, NULL, NULL)
