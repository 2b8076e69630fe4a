/* SPDX-License-Identifier: Apache-2.0 */
#include "model.h"

#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

/* ---- forward ---- */

rf_tensor nmt_project(rf_trace *t, rf_tensor x, const projection *p)
{
    const rf_tensor product = rf_matmul(t, x, rf_variable_tensor(t, p->kernel), RF_TRANSPOSE_NONE);
    return rf_bias_add(t, product, rf_variable_tensor(t, p->bias));
}

rf_tensor nmt_mask(rf_trace *t, rf_tensor tokens)
{
    static const int32_t padding = NMT_PADDING;
    return rf_compare(t, RF_NOT_EQUAL, tokens,
                      rf_constant_array(t, &(rf_array){ RF_I32, RF_SHAPE(1), (void *)(uintptr_t)&padding }));
}

rf_tensor nmt_call(rf_trace *t, const nmt *m, rf_tensor source, rf_tensor target, rf_mode mode, rf_tensor *weights)
{
    (void)mode; /* dropout knows whether it is traced for training */
    return m->config.units ? recurrent_call(t, m, source, target, weights)
                           : transformer_call(t, m, source, target, weights);
}

rf_tensor nmt_loss(rf_trace *t, rf_tensor labels, rf_tensor logits)
{
    const int32_t tokens = 1;
    const rf_tensor each = rf_sparse_categorical_crossentropy(t, labels, logits, RF_LOGITS);
    return rf_reduce_sum(t, rf_multiply(t, each, nmt_mask(t, labels)), &tokens, 1, RF_DROP_DIMS);
}

static rf_result forward(rf_trace *t, rf_model *model, const rf_tensor *in, rf_tensor *out, rf_mode mode, void *user)
{
    (void)model;
    out[0] = nmt_call(t, user, in[0], in[1], mode, NULL);
    return rf_trace_status(t);
}

/* ---- variables ---- */

rf_variable *nmt_make(maker *k, const char *name, rf_shape shape, rf_initializer_kind kind)
{
    char full[96];
    rf_variable *v = NULL;
    if (k->result < 0) return NULL;
    snprintf(full, sizeof(full), "%s%s", k->path, name);
    k->result = rf_variable_create(
        k->strategy, &(rf_variable_params){ .name = full, .shape = shape, .initializer = { .kind = kind } }, &v);
    if (v) k->m->variables[k->m->num_variables++] = v;
    return v;
}

projection nmt_make_projection(maker *k, const char *name, uint32_t from, uint32_t to)
{
    char kernel[48], bias[48];
    snprintf(kernel, sizeof(kernel), "%s/kernel", name);
    snprintf(bias, sizeof(bias), "%s/bias", name);
    const projection p = { .kernel = nmt_make(k, kernel, RF_SHAPE(from, to), RF_INIT_GLOROT_UNIFORM),
                           .bias = nmt_make(k, bias, RF_SHAPE(to), RF_INIT_ZEROS) };
    return p;
}

static rf_result create_variables(rf_strategy *strategy, nmt *m)
{
    const nmt_config *c = &m->config;
    maker k = { .strategy = strategy, .m = m };
    m->source_table =
        nmt_make(&k, "source/embeddings", RF_SHAPE(c->source_vocabulary, c->width), RF_INIT_RANDOM_UNIFORM);
    m->target_table =
        nmt_make(&k, "target/embeddings", RF_SHAPE(c->target_vocabulary, c->width), RF_INIT_RANDOM_UNIFORM);
    if (c->units)
        recurrent_make(&k);
    else
        transformer_make(&k);
    m->classifier = nmt_make_projection(&k, "classifier", c->units ? c->units : c->width, c->target_vocabulary);
    return k.result;
}

static rf_result build(rf_strategy *strategy, nmt *m)
{
    static const char *const inputs[] = { "source", "target" }, *const outputs[] = { "logits" };
    const nmt_config *c = &m->config;
    rf_result r = create_variables(strategy, m);
    if (r >= 0)
        r = rf_model_create(strategy,
                            &(rf_model_params){ .apply = forward,
                                                .user = m,
                                                .num_inputs = 2,
                                                .num_outputs = 1,
                                                .input_names = inputs,
                                                .output_names = outputs },
                            &m->model);
    if (r < 0) return r;
    const rf_element_spec spec = {
        2, { RF_I32, RF_I32 }, { RF_SHAPE(-1, c->source_length), RF_SHAPE(-1, c->target_length) }, { 0 }
    };
    return rf_model_build_inputs(m->model, &spec);
}

rf_result nmt_create(rf_strategy *strategy, const nmt_config *config, nmt **out)
{
    *out = NULL;
    if (config->layers > MAX_LAYERS || config->width % 2 != 0 || (config->layers == 0) == (config->units == 0) ||
        (config->units && config->target_length > RECURRENT_MAX_LENGTH))
        return RF_ERROR_INVALID_ARGUMENT;
    nmt *m = calloc(1, sizeof(*m));
    if (!m) return RF_ERROR_OUT_OF_HOST_MEMORY;
    m->config = *config;
    const rf_result r = transformer_begin(m) ? build(strategy, m) : RF_ERROR_OUT_OF_HOST_MEMORY;
    if (r < 0) nmt_destroy(&m);
    *out = m;
    return r;
}

rf_model *nmt_model(const nmt *m)
{
    return m->model;
}

void nmt_destroy(nmt **m)
{
    if (!*m) return;
    rf_model_destroy(&(*m)->model);
    for (uint32_t i = 0; i < (*m)->num_variables; i++) rf_variable_destroy(&(*m)->variables[i]);
    free((*m)->transformer.positions);
    free(*m);
    *m = NULL;
}
