/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/zoo_nets.h"

#include "../../examples/bert/model.h"
#include "../../examples/densenet/model.h"
#include "../../examples/gpt/model.h"
#include "../../examples/lstm/model.h"
#include "../../examples/ncf/model.h"
#include "../../examples/nmt/model.h"
#include "../../examples/resnet/model.h"
#include "../../examples/vae/model.h"

enum { GPT_BLOCK = 64, GPT_VOCABULARY = 96, NMT_LENGTH = 16, GRU_VOCABULARY = 2000, TRANSFORMER_VOCABULARY = 4000 };

/* ---- data ---- */

/* Any numbers from `least` on, below `bound`. */
static rf_result make_numbers(zoo_net *n, uint32_t component, rf_shape shape, int32_t least, int32_t bound)
{
    const size_t total = (size_t)rf_shape_count(shape);
    int32_t *numbers = n->owned[component] = malloc(total * sizeof(*numbers));
    if (!numbers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    uint32_t noise = component + 1;
    for (size_t i = 0; i < total; i++) {
        noise = noise * 1664525u + 1013904223u;
        numbers[i] = least + (int32_t)((noise >> 8) % (uint32_t)(bound - least));
    }
    n->net.batch.component[component] = (rf_array){ RF_I32, shape, numbers };
    n->net.batch.num_components = component + 1;
    return RF_OK;
}

/* Zeros and ones, or ones alone. */
static rf_result make_floats(zoo_net *n, uint32_t component, rf_shape shape, bool ones)
{
    const size_t total = (size_t)rf_shape_count(shape);
    float *numbers = n->owned[component] = malloc(total * sizeof(*numbers));
    if (!numbers) return RF_ERROR_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; i < total; i++) numbers[i] = ones ? 1.0f : (float)(i % 2);
    n->net.batch.component[component] = (rf_array){ RF_F32, shape, numbers };
    n->net.batch.num_components = component + 1;
    return RF_OK;
}

/* Labels of two classes. */
static rf_result make_labels(zoo_net *n, uint32_t component, uint32_t count)
{
    return make_floats(n, component, RF_SHAPE(count, 1), false);
}

/* ---- steps ---- */

static rf_result losses_minimize(rf_trace *t, const zoo_net *n, rf_tensor losses, rf_tensor *out)
{
    out[0] = rf_compute_average_loss(t, losses, NULL);
    (void)rf_optimizer_minimize(t, n->net.optimizer, out[0], rf_model_variables(n->net.model));
    return rf_trace_status(t);
}

/* Inputs of the model, then labels of two classes. */
static rf_result binary_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const zoo_net *n = user;
    const uint32_t inputs = rf_model_num_inputs(n->net.model);
    rf_tensor logits;
    (void)rf_model_apply(t, n->net.model, in, inputs, RF_TRAINING, &logits, 1);
    return losses_minimize(t, n, rf_binary_crossentropy(t, in[inputs], logits, RF_LOGITS), out);
}

static rf_result nmt_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const zoo_net *n = user;
    const rf_tensor logits = nmt_call(t, n->network, in[0], in[1], RF_TRAINING, NULL);
    return losses_minimize(t, n, nmt_loss(t, in[2], logits), out);
}

/* Tokens, segments, masked places; the words there, their weights, whether the second segment follows. */
static rf_result bert_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const zoo_net *n = user;
    rf_tensor logits[2];
    (void)rf_model_apply(t, n->net.model, in, 3, RF_TRAINING, logits, 2);
    out[0] = bert_pretraining_loss(t, logits, in[3], in[4], in[5], false);
    (void)rf_optimizer_minimize(t, n->net.optimizer, out[0], rf_model_variables(n->net.model));
    return rf_trace_status(t);
}

static rf_result vae_step(rf_trace *t, const rf_tensor *in, rf_tensor *out, void *user)
{
    const zoo_net *n = user;
    const vae_losses losses = vae_call(t, n->network, in[0], (rf_tensor){ 0 }, RF_TRAINING);
    return losses_minimize(t, n, rf_add(t, losses.reconstruction, losses.divergence), out);
}

rf_result zoo_create_step(zoo_net *n, const zoo_entry *entry)
{
    if (!entry->step) return bench_net_create_step(&n->net);
    const rf_function_params params = {
        .step = entry->step, .user = n, .num_outputs = 1, .training = true, .name = "train_step"
    };
    return rf_function_create(n->net.strategy, &params, &n->net.step);
}

/* ---- images ---- */

static const rf_shape image = { 3, { BENCH_SIDE, BENCH_SIDE, 1 } };

static rf_result make_images(zoo_net *n, uint32_t count)
{
    return bench_net_make_batch(&n->net, count, RF_SHAPE(-1, BENCH_SIDE, BENCH_SIDE, 1), BENCH_CLASSES);
}

/* A model that nothing else owns. */
static void destroy_model(zoo_net *n)
{
    rf_model *model = n->network;
    rf_model_destroy(&model);
}

static rf_result create_cnn(zoo_net *n)
{
    rf_layer *layers[BENCH_CNN_LAYERS];
    TRY(bench_cnn_layers(layers));
    TRY(rf_model_create_sequential(n->net.strategy, layers, BENCH_CNN_LAYERS, &image, &n->net.model));
    n->network = n->net.model;
    return RF_OK;
}

static rf_result create_resnet(zoo_net *n)
{
    resnet *r;
    TRY(resnet_create(n->net.strategy, &resnet_8, image, &r));
    n->network = r;
    n->net.model = resnet_model(r);
    return RF_OK;
}

static void destroy_resnet(zoo_net *n)
{
    resnet *r = n->network;
    resnet_destroy(&r);
}

static rf_result create_densenet(zoo_net *n)
{
    densenet *d;
    TRY(densenet_create(n->net.strategy, &densenet_bc_16_12, image, &d));
    n->network = d;
    n->net.model = densenet_model(d);
    return RF_OK;
}

static void destroy_densenet(zoo_net *n)
{
    densenet *d = n->network;
    densenet_destroy(&d);
}

static rf_result create_vae(zoo_net *n)
{
    vae *v;
    TRY(vae_create(n->net.strategy, &vae_tutorial, &v));
    n->network = v;
    n->net.model = vae_model(v);
    return RF_OK;
}

static void destroy_vae(zoo_net *n)
{
    vae *v = n->network;
    vae_destroy(&v);
}

/* Black and white, as the autoencoder's loss wants them. */
static rf_result make_pictures(zoo_net *n, uint32_t count)
{
    return make_floats(n, 0, RF_SHAPE(count, vae_tutorial.side, vae_tutorial.side, 1), false);
}

/* ---- text ---- */

static rf_result create_gpt(zoo_net *n)
{
    const gpt_config config = {
        .layers = 4, .heads = 4, .width = 128, .block = GPT_BLOCK, .vocabulary = GPT_VOCABULARY, .compute = n->mixed
    };
    gpt *g;
    TRY(gpt_create(n->net.strategy, &config, &g));
    n->network = g;
    n->net.model = gpt_model(g);
    return RF_OK;
}

static void destroy_gpt(zoo_net *n)
{
    gpt *g = n->network;
    gpt_destroy(&g);
}

/* Any tokens, and others that follow them. */
static rf_result make_tokens(zoo_net *n, uint32_t count)
{
    const rf_shape shape = RF_SHAPE((int64_t)count, GPT_BLOCK);
    TRY(make_numbers(n, 0, shape, 0, GPT_VOCABULARY));
    return make_numbers(n, 1, shape, 0, GPT_VOCABULARY);
}

static const bert_config bert_small = { .layers = 2,
                                        .heads = 2,
                                        .width = 128,
                                        .inner_width = 512,
                                        .vocabulary = 8192,
                                        .length = 64,
                                        .max_length = 64,
                                        .predictions = 10 };

static rf_result create_bert(zoo_net *n)
{
    bert *b;
    TRY(bert_create(n->net.strategy, &bert_small, &b));
    n->network = b;
    n->net.model = bert_model(b);
    return RF_OK;
}

static void destroy_bert(zoo_net *n)
{
    bert *b = n->network;
    bert_destroy(&b);
}

static rf_result make_passages(zoo_net *n, uint32_t count)
{
    const rf_shape passages = RF_SHAPE(count, bert_small.length), masked = RF_SHAPE(count, bert_small.predictions);
    TRY(make_numbers(n, 0, passages, BERT_PADDING + 1, bert_small.vocabulary));
    TRY(make_numbers(n, 1, passages, 0, BERT_SEGMENTS));
    TRY(make_numbers(n, 2, masked, 0, bert_small.length));
    TRY(make_numbers(n, 3, masked, BERT_PADDING + 1, bert_small.vocabulary));
    TRY(make_floats(n, 4, masked, true));
    return make_numbers(n, 5, RF_SHAPE(count), 0, 2);
}

static rf_result create_nmt(zoo_net *n, const nmt_config *config)
{
    nmt *m;
    TRY(nmt_create(n->net.strategy, config, &m));
    n->network = m;
    n->net.model = nmt_model(m);
    return RF_OK;
}

static rf_result create_transformer(zoo_net *n)
{
    static const nmt_config config = { .layers = 2,
                                       .heads = 4,
                                       .width = 128,
                                       .key_width = 32,
                                       .inner_width = 256,
                                       .source_vocabulary = TRANSFORMER_VOCABULARY,
                                       .target_vocabulary = TRANSFORMER_VOCABULARY,
                                       .source_length = NMT_LENGTH,
                                       .target_length = NMT_LENGTH };
    return create_nmt(n, &config);
}

static rf_result create_gru(zoo_net *n)
{
    static const nmt_config config = { .units = 128,
                                       .width = 64,
                                       .source_vocabulary = GRU_VOCABULARY,
                                       .target_vocabulary = GRU_VOCABULARY,
                                       .source_length = NMT_LENGTH,
                                       .target_length = NMT_LENGTH };
    return create_nmt(n, &config);
}

static void destroy_nmt(zoo_net *n)
{
    nmt *m = n->network;
    nmt_destroy(&m);
}

/* Sources, translations and what follows each of their tokens: nothing is padding. */
static rf_result make_pairs(zoo_net *n, uint32_t count, int32_t vocabulary)
{
    const rf_shape shape = RF_SHAPE((int64_t)count, NMT_LENGTH);
    for (uint32_t i = 0; i < 3; i++) TRY(make_numbers(n, i, shape, NMT_PADDING + 1, vocabulary));
    return RF_OK;
}

static rf_result make_transformer_pairs(zoo_net *n, uint32_t count)
{
    return make_pairs(n, count, TRANSFORMER_VOCABULARY);
}

static rf_result make_gru_pairs(zoo_net *n, uint32_t count)
{
    return make_pairs(n, count, GRU_VOCABULARY);
}

static rf_result create_lstm(zoo_net *n)
{
    TRY(lstm_create(n->net.strategy, &lstm_tutorial, &n->net.model));
    n->network = n->net.model;
    return RF_OK;
}

static rf_result make_texts(zoo_net *n, uint32_t count)
{
    const rf_shape shape = RF_SHAPE((int64_t)count, lstm_tutorial.length);
    TRY(make_numbers(n, 0, shape, LSTM_PADDING + 1, lstm_tutorial.vocabulary));
    return make_labels(n, 1, count);
}

/* ---- ratings ---- */

static rf_result create_ncf(zoo_net *n)
{
    TRY(ncf_create(n->net.strategy, &ncf_movielens_1m, &n->net.model));
    n->network = n->net.model;
    return RF_OK;
}

static rf_result make_ratings(zoo_net *n, uint32_t count)
{
    TRY(make_numbers(n, 0, RF_SHAPE(count), 0, ncf_movielens_1m.num_users));
    TRY(make_numbers(n, 1, RF_SHAPE(count), 0, ncf_movielens_1m.num_items));
    return make_labels(n, 2, count);
}

/* ---- all of them ---- */

#define MOMENTUM                                                                                                       \
    {                                                                                                                  \
        .kind = RF_OPTIMIZER_SGD, .learning_rate = 0.01, .momentum = 0.9, .nesterov = true                             \
    }

#define ADAM                                                                                                           \
    {                                                                                                                  \
        .kind = RF_OPTIMIZER_ADAM                                                                                      \
    }

#define ADAMW                                                                                                          \
    {                                                                                                                  \
        .kind = RF_OPTIMIZER_ADAMW, .learning_rate = 1e-4, .weight_decay = 0.01, .global_clip_norm = 1                 \
    }

const zoo_entry zoo_entries[] = {
    { "cnn", "images", 64, 1, ADAM, create_cnn, destroy_model, make_images, NULL },
    { "resnet", "images", 64, 1, MOMENTUM, create_resnet, destroy_resnet, make_images, NULL },
    { "densenet", "images", 64, 1, MOMENTUM, create_densenet, destroy_densenet, make_images, NULL },
    { "vae", "images", 32, 1, ADAM, create_vae, destroy_vae, make_pictures, vae_step },
    { "gpt", "tokens", 12, GPT_BLOCK, ADAM, create_gpt, destroy_gpt, make_tokens, NULL },
    { "bert", "tokens", 32, 64, ADAMW, create_bert, destroy_bert, make_passages, bert_step },
    { "transformer", "tokens", 64, NMT_LENGTH, ADAM, create_transformer, destroy_nmt, make_transformer_pairs,
      nmt_step },
    { "gru", "tokens", 64, NMT_LENGTH, ADAM, create_gru, destroy_nmt, make_gru_pairs, nmt_step },
    { "lstm", "texts", 64, 1, ADAM, create_lstm, destroy_model, make_texts, binary_step },
    { "ncf", "ratings", 10000, 1, ADAM, create_ncf, destroy_model, make_ratings, binary_step },
};
const uint32_t zoo_num_entries = sizeof(zoo_entries) / sizeof(zoo_entries[0]);
