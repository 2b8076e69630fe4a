/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of tensors: kernels of convolutions, heads that begin anew, and configurations that architectures refuse. */
#include <ringfire/interchange.h>

#include "hub_directory.h"
#include "tests/room.h"
#include "train/model/model.h"

/* ---- kernels ---- */

static const rf_pretrained_tensor kernel_tensors[] = {
    { .tensor = "conv.weight", .variable = "conv/kernel", .layout = RF_PRETRAINED_TRANSPOSED },
    { .tensor = "each.weight", .variable = "each/kernel", .layout = RF_PRETRAINED_TRANSPOSED },
    { .tensor = "large.weight", .variable = "large/kernel", .layout = RF_PRETRAINED_TRANSPOSED },
    { .tensor = "large.bias", .variable = "large/bias" },
};
/* The third one has more numbers than are read at once, and the last one ones before what it holds. */
static const rf_shape kernel_shapes[] = {
    { .rank = 4, .dim = { 4, 2, 2, 3 } },
    { .rank = 4, .dim = { 8, 1, 2, 1 } },
    { .rank = 4, .dim = { 1025, 2048, 1, 2 } },
    { .rank = 3, .dim = { 1, 1, 1025 } },
};
enum { KERNELS = 4, MOST_NUMBERS = 1025 * 2048 * 2 };

static rf_symbol add_kernel(rf_model_builder *b, rf_symbol x, int32_t filters, int32_t height, int32_t width,
                            const char *name)
{
    rf_layer *layer;
    const rf_conv2d_layer_params params = {
        .filters = filters, .kernel_size = { height, width }, .no_bias = filters < 9, .name = name
    };
    OK(rf_layer_conv2d(&params, &layer));
    return rf_model_builder_call(b, layer, x);
}

static rf_result build_kernels(rf_pretrained_config *config, rf_model_builder *b, rf_pretrained_outputs *outputs,
                               void *user)
{
    rf_layer *each;
    const int32_t height = rf_pretrained_config_size(config, "height", 2);
    const rf_symbol x = rf_model_builder_input(b, RF_F32, RF_SHAPE(4, 4, 2), "x");
    const rf_symbol y = rf_model_builder_input(b, RF_F32, RF_SHAPE(1, 2, 2048), "y");
    const rf_depthwise_conv2d_params params = {
        .kernel_size = { 2, 1 }, .depth_multiplier = 2, .no_bias = true, .name = "each"
    };
    (void)user;
    OK(rf_layer_depthwise_conv2d(&params, &each));
    outputs->count = 2;
    outputs->symbol[0] = rf_model_builder_call(b, each, add_kernel(b, x, 4, height, 5 - height, "conv"));
    outputs->symbol[1] = add_kernel(b, y, 1025, 1, 2, "large");
    outputs->name[0] = "image";
    outputs->name[1] = "other";
    return RF_OK;
}

/* The numbers of a kernel [h, w, in, out] that a tensor [out, in, h, w] of the numbers 0, 1, 2, ... holds. */
static void check_kernel(rf_variable *variable, rf_shape tensor, float *values)
{
    const rf_shape shape = rf_variable_shape(variable);
    const int64_t in = shape.dim[2], out = shape.dim[3], places = shape.dim[0] * shape.dim[1];
    OK(rf_variable_read(variable, values));
    for (int64_t p = 0; p < places; p++)
        for (int64_t i = 0; i < in; i++)
            for (int64_t o = 0; o < out; o++) {
                /* Each channel by itself: they are the tensor's outputs, with those of one input together. */
                const int64_t row = tensor.dim[1] == 1 ? i * out + o : o * in + i;
                if (values[(p * in + i) * out + o] != (float)(row * places + p))
                    fail_msg("%s: place %d, channel %d, output %d", rf_variable_name(variable), (int)p, (int)i, (int)o);
            }
}

/* ---- the scale of images ---- */

static void check_scales(rf_pretrained *p, hub_directory *d)
{
    static const struct {
        const char *text; /* NULL: no file */
        float mean[2], deviation[2];
        const char *message; /* of RF_ERROR_UNSUPPORTED */
    } files[] = {
        { NULL, { 0, 0 }, { 1, 1 }, NULL },
        { "{\"size\":{\"height\":9},\"image_mean\":[0.5,0.25],\"image_std\":[0.5,2]}",
          { 0.5f, 0.25f },
          { 0.5f, 2 },
          NULL },
        { "{\"do_normalize\":false,\"image_mean\":[0.5]}", { 0, 0 }, { 1, 1 }, NULL },
        { "{\"do_rescale\":false,\"image_mean\":[51],\"image_std\":[510]}", { 0.2f, 0 }, { 2, 1.0f / 255 }, NULL },
        { "{\"image_std\":[0]}", { 0 }, { 0 }, "preprocessor_config.json': 'image_std.0' is 0, which is not positive" },
        { "{\"image_mean\":[\"x\"]}", { 0 }, { 0 }, "'image_mean.0' is \"x\", not a number of f32" },
        { "{\"rescale_factor\":-1}", { 0 }, { 0 }, "'rescale_factor' is -1, which is not positive" },
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        rf_augment_params params = { .flip = true, .mean = { 7, 7, 7, 7 } };
        if (files[i].text) scratch_write(in(d, "preprocessor_config.json"), files[i].text);
        if (files[i].message) {
            FAILS(rf_pretrained_image_scale(p, &params), RF_ERROR_UNSUPPORTED, files[i].message);
            assert_true(params.mean[0] == 7);
            continue;
        }
        OK(rf_pretrained_image_scale(p, &params));
        assert_true(params.flip);
        for (int k = 0; k < 2; k++) {
            assert_float_equal(params.mean[k], files[i].mean[k], 1e-6);
            assert_float_equal(params.deviation[k], files[i].deviation[k], 1e-6);
        }
        assert_true(params.mean[2] == 0 && params.deviation[2] == 0); /* images have two channels */
    }
}

static void kernels(rf_strategy *strategy)
{
    const rf_pretrained_architecture net = {
        .model_type = "kernels", .tensors = kernel_tensors, .num_tensors = KERNELS, .build = build_kernels
    };
    const rf_pretrained_params params = { .architectures = &net, .num_architectures = 1 };
    float *numbers = test_calloc(MOST_NUMBERS, sizeof(float)), *values = test_calloc(MOST_NUMBERS, sizeof(float));
    hub_directory d = { .count = KERNELS };
    rf_pretrained *p;
    rf_array_set set;
    scratch(d.path);
    for (int32_t i = 0; i < MOST_NUMBERS; i++) numbers[i] = (float)i;
    for (int i = 0; i < KERNELS; i++)
        d.arrays[i] = (rf_named_array){ kernel_tensors[i].tensor, { RF_F32, kernel_shapes[i], numbers } };
    write_weights(&d);
    scratch_write(in(&d, "config.json"), "{\"model_type\":\"kernels\"}");
    OK(rf_pretrained_open(strategy, d.path, &params, &p));
    for (int i = 0; i < 3; i++) {
        rf_layer *layer = rf_model_find_layer(rf_pretrained_model(p), i == 0 ? "conv" : i == 1 ? "each" : "large");
        check_kernel(rf_layer_variable(layer, "kernel"), kernel_shapes[i], values);
    }
    OK(rf_pretrained_save(p, in(&d, "same")));
    check_scales(p, &d);
    rf_pretrained_destroy(&p);
    OK(rf_safetensors_read(in(&d, "same/model.safetensors"), &set));
    assert_int_equal(set.count, KERNELS);
    for (uint32_t i = 0; i < KERNELS; i++)
        assert_memory_equal(set.items[i].array.data, numbers,
                            (size_t)rf_shape_count(set.items[i].array.shape) * sizeof(float));
    rf_array_set_free(&set);
    scratch_write(in(&d, "config.json"), "{\"model_type\":\"kernels\",\"height\":3}");
    refuse_directory(strategy, &d, &params, RF_ERROR_INVALID_ARGUMENT,
                     "tensor 'conv.weight' is [4,2,2,3], which does not fit 'conv/kernel' [3,2,2,4]");
    test_free(numbers);
    test_free(values);
    scratch_remove(d.path);
}

/* ---- heads that begin anew ---- */

static const rf_pretrained_tensor head_tensors[] = {
    { .tensor = "body.weight", .variable = "body/kernel", .layout = RF_PRETRAINED_TRANSPOSED },
    { .tensor = "head.weight", .variable = "head/kernel", .layout = RF_PRETRAINED_TRANSPOSED, .head = true },
    { .tensor = "head.bias", .variable = "head/bias", .head = true },
};

static rf_result build_headed(rf_pretrained_config *config, rf_model_builder *b, rf_pretrained_outputs *outputs,
                              void *user)
{
    rf_layer *body, *head;
    (void)user;
    OK(rf_layer_dense(&(rf_dense_params){ .units = 4, .no_bias = true, .name = "body" }, &body));
    const int32_t classes = rf_pretrained_config_classes(config, "id2label", 2);
    OK(rf_layer_dense(&(rf_dense_params){ .units = classes, .name = "head" }, &head));
    const rf_symbol x = rf_model_builder_input(b, RF_F32, RF_SHAPE(3), "x");
    outputs->count = 1;
    outputs->symbol[0] = rf_model_builder_call(b, head, rf_model_builder_call(b, body, x));
    outputs->name[0] = "logits";
    return RF_OK;
}

static const rf_pretrained_architecture headed = {
    .model_type = "headed", .prefix = "net.", .tensors = head_tensors, .num_tensors = 3, .build = build_headed
};

static void read_layer(const rf_pretrained *p, const char *layer, const char *variable, float *values)
{
    OK(rf_variable_read(rf_layer_variable(rf_model_find_layer(rf_pretrained_model(p), layer), variable), values));
}

/* Opens the directory for three classes, writes another one, and opens that as it is. */
static void give_new_head(rf_strategy *strategy, hub_directory *d, const char *summary)
{
    static const char *const names[] = { "cat", "dog", "owl" };
    const rf_pretrained_params params = {
        .architectures = &headed, .num_architectures = 1, .num_classes = 3, .class_names = names
    };
    float kernel[12], again[12], bias[3], body[12];
    rf_pretrained *p;
    OK(rf_pretrained_open(strategy, d->path, &params, &p));
    assert_string_equal(rf_pretrained_new_variable(p, 0), "head/kernel");
    assert_string_equal(rf_pretrained_new_variable(p, 1), "head/bias");
    assert_null(rf_pretrained_new_variable(p, 2));
    assert_string_equal(rf_pretrained_weight_report(p)->summary, summary);
    read_layer(p, "head", "kernel", kernel);
    read_layer(p, "head", "bias", bias);
    read_layer(p, "body", "kernel", body);
    assert_true(kernel[0] != 0 && kernel[11] != kernel[0] && bias[2] == 0 && body[1] == d->values[3]);
    OK(rf_pretrained_save(p, in(d, "new")));
    rf_pretrained_destroy(&p);
    OK(rf_pretrained_open(strategy, in(d, "new"),
                          &(rf_pretrained_params){ .architectures = &headed, .num_architectures = 1 }, &p));
    assert_null(rf_pretrained_new_variable(p, 0));
    assert_string_equal(rf_pretrained_weight_report(p)->summary, "");
    assert_int_equal(rf_pretrained_weight_report(p)->counts[RF_WEIGHT_LOADED], 3);
    assert_int_equal(rf_model_output_shape(rf_pretrained_model(p), 0).dim[0], 3);
    read_layer(p, "head", "kernel", again);
    assert_memory_equal(kernel, again, sizeof(kernel));
    rf_pretrained_destroy(&p);
}

static void heads(rf_strategy *strategy)
{
    const rf_pretrained_params five = { .architectures = &headed, .num_architectures = 1, .num_classes = 5 };
    hub_directory d = { 0 };
    rf_pretrained *p;
    rf_array_set set;
    char text[512];
    scratch(d.path);
    for (int i = 0; i < 128; i++) d.values[i] = (float)i;
    add_tensor(&d, "body.weight", RF_SHAPE(4, 3));
    add_tensor(&d, "head.weight", RF_SHAPE(5, 4));
    add_tensor(&d, "head.bias", RF_SHAPE(5));
    write_weights(&d);
    scratch_write(
        in(&d, "config.json"),
        "{\"model_type\":\"headed\",\"id2label\":{\"0\":\"a\",\"1\":\"b\",\"2\":\"c\",\"3\":\"d\",\"4\":\"e\"}}");
    give_new_head(strategy, &d,
                  "'head/kernel': tensor 'head.weight' is f32 [5,4], not [4,3] transposed\n"
                  "'head/bias': tensor 'head.bias' is f32 [5], not [3]\n");
    FILE *file = fopen(in(&d, "new/config.json"), "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_non_null(strstr(text, "\"id2label\":{\"0\":\"cat\",\"1\":\"dog\",\"2\":\"owl\"}"));
    assert_non_null(strstr(text, "\"label2id\":{\"cat\":0,"));
    OK(rf_pretrained_open(strategy, d.path, &five, &p)); /* as many as there are */
    assert_null(rf_pretrained_new_variable(p, 0));
    rf_pretrained_destroy(&p);
    /* Two files without a head. */
    remove(in(&d, "model.safetensors"));
    remove(in(&d, "new/model.safetensors"));
    add_tensor(&d, "none", RF_SHAPE(1));
    OK(rf_safetensors_write(in(&d, "a.safetensors"), d.arrays, 1));
    write_index(&d, "{\"body.weight\":\"a.safetensors\"}");
    give_new_head(strategy, &d, "'head/kernel': there is no tensor\n'head/bias': there is no tensor\n");
    OK(rf_safetensors_read(in(&d, "new/a.safetensors"), &set)); /* named as in a model with a head */
    assert_int_equal(set.count, 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(strcmp(set.items[i].name, "net.body.weight") == 0 || strncmp(set.items[i].name, "head.", 5) == 0);
    rf_array_set_free(&set);
    OK(rf_safetensors_write(in(&d, "a.safetensors"), d.arrays + 1, 2));
    write_index(&d, "{\"head.weight\":\"a.safetensors\",\"head.bias\":\"a.safetensors\"}");
    refuse_directory(strategy, &d, &five, RF_ERROR_NOT_FOUND, "has no tensor 'body.weight'");
    scratch_remove(d.path);
    make_gpt2(&d);
    refuse_directory(strategy, &d, &(rf_pretrained_params){ .num_classes = 3 }, RF_ERROR_INVALID_ARGUMENT,
                     "num_classes: models of type 'gpt2' are no classifiers");
    refuse_directory(strategy, &d, &(rf_pretrained_params){ .class_names = (const char *const[]){ "a" } },
                     RF_ERROR_INVALID_ARGUMENT, "class_names are given, but no num_classes");
    scratch_remove(d.path);
}

/* ---- what other architectures refuse ---- */

static void other_configurations(rf_strategy *strategy)
{
    static const struct {
        const char *tensor, *config;
        uint32_t image_size;
        const char *message; /* of RF_ERROR_UNSUPPORTED */
    } mistakes[] = {
        { "fc.bias", "\"architecture\":\"resnet99\"", 0, "'architecture' is \"resnet99\", which is no architecture" },
        { "fc.bias", "\"architecture\":\"resnet18\",\"global_pool\":\"max\"", 0,
          "'global_pool' is \"max\", not one of avg" },
        { "fc.bias", "\"model_type\":\"resnet\",\"depths\":[1,1]", 0, "'depths' is [1,1], not at most 8 stages" },
        { "fc.bias", "\"model_type\":\"resnet\",\"depths\":[1,1,1,9]", 0, "'depths.3' is 9, not a number of layers" },
        { "fc.bias", "\"model_type\":\"resnet\",\"layer_type\":\"wide\"", 0, "'layer_type' is \"wide\", not one of" },
        { "classifier.0.bias", "\"architecture\":\"mobilenet_v3_small\",\"width_mult\":0", 0,
          "'width_mult' is 0, not above 0" },
        { "embeddings.cls_token", "\"model_type\":\"vit\",\"num_hidden_layers\":1,\"qkv_bias\":false", 0,
          "'qkv_bias' is false; queries, keys and values have biases" },
        { "embeddings.cls_token", "\"model_type\":\"vit\",\"num_hidden_layers\":1,\"patch_size\":225", 0,
          "'patch_size' is 225, of which image_size has none" },
        { "embeddings.cls_token", "\"model_type\":\"vit\",\"num_hidden_layers\":1,\"image_size\":64", 96,
          "'image_size' is 64, and its positions are for this size alone" },
        { "embeddings.position_ids", "\"model_type\":\"roberta\",\"num_hidden_layers\":1,\"pad_token_id\":511", 0,
          "'pad_token_id' is 511, after which max_position_embeddings leave no places" },
    };
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        char text[256];
        hub_directory d = { 0 };
        scratch(d.path);
        add_tensor(&d, mistakes[i].tensor, RF_SHAPE(1));
        write_weights(&d);
        snprintf(text, sizeof(text), "{%s}", mistakes[i].config);
        scratch_write(in(&d, "config.json"), text);
        refuse_directory(strategy, &d, &(rf_pretrained_params){ .image_size = mistakes[i].image_size },
                         RF_ERROR_UNSUPPORTED, mistakes[i].message);
        scratch_remove(d.path);
    }
}

TEST_ON_ONE(kernels)
TEST_ON_TWO(heads)
TEST_ON_ONE(other_configurations)

TESTS(tables, NULL, NULL)
