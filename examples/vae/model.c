/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <stdlib.h>

const vae_config vae_tutorial = { .side = 28, .filters = { 32, 64 }, .latent = 2 };

struct vae {
    vae_config config;
    rf_model *encoder, *decoder;
    rf_model *model, *sampler; /* both call the others */
};

/* ---- forward ---- */

typedef struct distribution {
    rf_tensor mean, log_variance; /* [n, latent] */
} distribution;

static distribution encode(rf_trace *t, const vae *v, rf_tensor images, rf_mode mode)
{
    rf_tensor halves[2];
    (void)rf_split_tensor(t, rf_model_call(t, v->encoder, images, mode), 1, 2, halves);
    return (distribution){ halves[0], halves[1] };
}

/* Kingma & Welling's reparameterisation: the gradient flows through mean and deviation, around the noise. */
static rf_tensor draw(rf_trace *t, distribution d, rf_tensor noise)
{
    const rf_tensor deviation = rf_exp(t, rf_multiply(t, d.log_variance, rf_constant(t, 0.5f)));
    return rf_add(t, d.mean, rf_multiply(t, deviation, noise));
}

/* In closed form: half the sum of m^2 + s^2 - log s^2 - 1. */
static rf_tensor divergence(rf_trace *t, distribution d)
{
    const rf_tensor squares = rf_add(t, rf_square(t, d.mean), rf_exp(t, d.log_variance));
    const rf_tensor excess = rf_subtract(t, rf_subtract(t, squares, d.log_variance), rf_constant(t, 1));
    const int32_t latent = 1;
    return rf_multiply(t, rf_reduce_sum(t, excess, &latent, 1, RF_DROP_DIMS), rf_constant(t, 0.5f));
}

vae_losses vae_call(rf_trace *t, const vae *v, rf_tensor images, rf_tensor noise, rf_mode mode)
{
    const rf_shape pixels = RF_SHAPE(-1, (int64_t)v->config.side * v->config.side);
    const distribution d = encode(t, v, images, mode);
    if (noise.id == 0) noise = rf_random_normal(t, d.mean, 0);
    const rf_tensor logits = rf_model_call(t, v->decoder, draw(t, d, noise), mode);
    const rf_tensor mean =
        rf_binary_crossentropy(t, rf_reshape(t, images, pixels), rf_reshape(t, logits, pixels), RF_LOGITS);
    return (vae_losses){ .reconstruction = rf_multiply(t, mean, rf_constant(t, (float)pixels.dim[1])),
                         .divergence = divergence(t, d) };
}

static rf_tensor reconstruct(rf_trace *t, rf_model *model, rf_tensor images, rf_mode mode, void *user)
{
    const vae *v = user;
    (void)model;
    return rf_sigmoid(t, rf_model_call(t, v->decoder, encode(t, v, images, mode).mean, mode));
}

static rf_tensor sample(rf_trace *t, rf_model *model, rf_tensor like, rf_mode mode, void *user)
{
    const vae *v = user;
    (void)model;
    return rf_sigmoid(t, rf_model_call(t, v->decoder, rf_random_normal(t, like, 0), mode));
}

/* ---- layers ---- */

enum { MAX_LAYERS = 5 };

/* Takes the layers over, of which making the last one gave `made`. */
static rf_result create_part(rf_strategy *strategy, rf_result made, rf_layer **layers, uint32_t count, rf_shape input,
                             rf_model **out)
{
    if (made >= 0) return rf_model_create_sequential(strategy, layers, count, &input, out);
    for (uint32_t i = 0; i < count; i++) rf_layer_destroy(&layers[i]);
    return made;
}

static rf_result make_conv(int32_t filters, const char *name, rf_layer **out)
{
    return rf_layer_conv2d(&(rf_conv2d_layer_params){ .filters = filters,
                                                      .kernel_size = { 3 },
                                                      .conv = { .stride = { 2, 2 } },
                                                      .activation = RF_ACTIVATION_RELU,
                                                      .name = name },
                           out);
}

static rf_result create_encoder(rf_strategy *strategy, vae *v)
{
    const vae_config *c = &v->config;
    rf_layer *layers[MAX_LAYERS] = { NULL };
    rf_result r = make_conv(c->filters[0], "encoder/conv_1", &layers[0]);
    if (r >= 0) r = make_conv(c->filters[1], "encoder/conv_2", &layers[1]);
    if (r >= 0) r = rf_layer_flatten(&layers[2]);
    if (r >= 0) r = rf_layer_dense(&(rf_dense_params){ .units = 2 * c->latent, .name = "encoder/dense" }, &layers[3]);
    return create_part(strategy, r, layers, 4, RF_SHAPE(c->side, c->side, 1), &v->encoder);
}

static rf_result make_transposed(int32_t filters, int32_t stride, const char *name, rf_layer **out)
{
    return rf_layer_conv2d_transpose(
        &(rf_conv2d_layer_params){ .filters = filters,
                                   .kernel_size = { 3 },
                                   .conv = { .padding = RF_PADDING_SAME, .stride = { stride, stride } },
                                   .activation = stride == 1 ? RF_ACTIVATION_LINEAR : RF_ACTIVATION_RELU,
                                   .name = name },
        out);
}

static rf_result create_decoder(rf_strategy *strategy, vae *v)
{
    const vae_config *c = &v->config;
    const int32_t quarter = c->side / 4;
    rf_layer *layers[MAX_LAYERS] = { NULL };
    rf_result r = rf_layer_dense(&(rf_dense_params){ .units = quarter * quarter * c->filters[0],
                                                     .activation = RF_ACTIVATION_RELU,
                                                     .name = "decoder/dense" },
                                 &layers[0]);
    if (r >= 0) r = rf_layer_reshape(RF_SHAPE(quarter, quarter, c->filters[0]), &layers[1]);
    if (r >= 0) r = make_transposed(c->filters[1], 2, "decoder/conv_1", &layers[2]);
    if (r >= 0) r = make_transposed(c->filters[0], 2, "decoder/conv_2", &layers[3]);
    if (r >= 0) r = make_transposed(1, 1, "decoder/conv_3", &layers[4]);
    return create_part(strategy, r, layers, 5, RF_SHAPE(c->latent), &v->decoder);
}

/* ---- model ---- */

rf_result vae_create(rf_strategy *strategy, const vae_config *config, vae **out)
{
    *out = NULL;
    vae *v = calloc(1, sizeof(*v));
    if (!v) return RF_ERROR_OUT_OF_HOST_MEMORY;
    v->config = *config;
    rf_result r = create_encoder(strategy, v);
    if (r >= 0) r = create_decoder(strategy, v);
    if (r >= 0) r = rf_model_create_custom(strategy, reconstruct, v, &v->model);
    if (r >= 0) r = rf_model_build(v->model, RF_SHAPE(config->side, config->side, 1));
    if (r >= 0) r = rf_model_create_custom(strategy, sample, v, &v->sampler);
    if (r < 0) vae_destroy(&v);
    *out = v;
    return r;
}

rf_model *vae_model(const vae *v)
{
    return v->model;
}

rf_model *vae_sampler(const vae *v)
{
    return v->sampler;
}

void vae_destroy(vae **v)
{
    if (!*v) return;
    rf_model_destroy(&(*v)->sampler);
    rf_model_destroy(&(*v)->model);
    rf_model_destroy(&(*v)->decoder);
    rf_model_destroy(&(*v)->encoder);
    free(*v);
    *v = NULL;
}
