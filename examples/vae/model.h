/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A convolutional variational autoencoder (Kingma & Welling 2013) for black-and-white images: the encoder gives mean
 * and variance of a normal distribution over a few latent numbers, the decoder makes an image of numbers drawn from it.
 */
#ifndef EXAMPLE_VAE_MODEL_H
#define EXAMPLE_VAE_MODEL_H

#include <ringfire/ringfire.h>

typedef struct vae_config {
    int32_t side;       /* of the square images, a multiple of 4 */
    int32_t filters[2]; /* of the two convolutions, and in reverse of the transposed ones */
    int32_t latent;     /* how many numbers stand for an image */
} vae_config;

/* That of TensorFlow's tutorial, for images of 28 x 28. */
extern const vae_config vae_tutorial;

typedef struct vae vae;

/* Built models. All variables are those of vae_model(): images f32 [n, side, side, 1] -> their reconstructions, which
 * are probabilities, from the mean of the latent numbers. */
rf_result vae_create(rf_strategy *strategy, const vae_config *config, vae **out);
rf_model *vae_model(const vae *v); /* owned by `v` */
/* f32 [n, latent], whose numbers are not read -> probabilities [n, side, side, 1] of images that were never seen. */
rf_model *vae_sampler(const vae *v); /* owned by `v` */
void vae_destroy(vae **v);

/* The costs of an image, [n] each; the sum is the negative of the evidence lower bound, in nats. */
typedef struct vae_losses {
    rf_tensor reconstruction; /* binary crossentropy, summed over pixels */
    rf_tensor divergence;     /* of the latent distribution from the standard normal one */
} vae_losses;

/* Images are 0 or 1. `noise` [n, latent] is normally distributed; the invalid tensor: drawn in the step. */
vae_losses vae_call(rf_trace *t, const vae *v, rf_tensor images, rf_tensor noise, rf_mode mode);

#endif
