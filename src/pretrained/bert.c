/* SPDX-License-Identifier: Apache-2.0 */
/* BERT (Devlin et al. 2019) and DistilBERT (Sanh et al. 2019): encoders with norms after attention and network. */
#include "pretrained/architectures.h"
#include "pretrained/encoder.h"

/* ---- names ---- */

static const rf_pretrained_tensor bert_tensors[] = {
    RF_ENCODER_BERT_TENSORS,
    RF_ENCODER_HEAD("classifier", "classifier"),
    RF_ENCODER_HEAD("cls.predictions.transform.dense", "transform"),
    RF_ENCODER_HEAD_NORM("cls.predictions.transform.LayerNorm", "transform_norm"),
    { .tensor = "cls.predictions.bias", .variable = "predictions/bias", .optional = true, .head = true },
    { .tensor = "cls.predictions.decoder.bias", .variable = "predictions/bias", .optional = true, .head = true },
    { .tensor = "cls.predictions.decoder.weight", .variable = "word_embeddings/embeddings" },
    { .tensor = "cls.seq_relationship.weight" },
    { .tensor = "cls.seq_relationship.bias" },
};

static const rf_pretrained_tensor distilbert_tensors[] = {
    { .tensor = "embeddings.word_embeddings.weight", .variable = "word_embeddings/embeddings" },
    { .tensor = "embeddings.position_embeddings.weight", .variable = "position_embeddings/embeddings" },
    RF_ENCODER_NORM("embeddings.LayerNorm", "embeddings_norm"),
    RF_ENCODER_PRODUCT("transformer.layer.{}.attention.q_lin", "layer/{}/attention/query"),
    RF_ENCODER_PRODUCT("transformer.layer.{}.attention.k_lin", "layer/{}/attention/key"),
    RF_ENCODER_PRODUCT("transformer.layer.{}.attention.v_lin", "layer/{}/attention/value"),
    RF_ENCODER_PRODUCT("transformer.layer.{}.attention.out_lin", "layer/{}/attention/attention_output"),
    RF_ENCODER_NORM("transformer.layer.{}.sa_layer_norm", "layer/{}/attention_norm"),
    RF_ENCODER_PRODUCT("transformer.layer.{}.ffn.lin1", "layer/{}/intermediate"),
    RF_ENCODER_PRODUCT("transformer.layer.{}.ffn.lin2", "layer/{}/output"),
    RF_ENCODER_NORM("transformer.layer.{}.output_layer_norm", "layer/{}/output_norm"),
    RF_ENCODER_HEAD("pre_classifier", "pooler"),
    RF_ENCODER_HEAD("classifier", "classifier"),
    RF_ENCODER_HEAD("vocab_transform", "transform"),
    RF_ENCODER_HEAD_NORM("vocab_layer_norm", "transform_norm"),
    { .tensor = "vocab_projector.bias", .variable = "predictions/bias", .optional = true, .head = true },
    { .tensor = "vocab_projector.weight", .variable = "word_embeddings/embeddings" },
    { .tensor = "embeddings.position_ids" },
};

/* Sines and cosines are in the files, as other positions, and no class here has the other heads. */
static const char *const distilbert_ignored[] = { "sinusoidal_pos_embds", "qa_dropout", "tie_weights_" };

/* ---- builders ---- */

static rf_result build_bert(rf_pretrained_config *c, rf_model_builder *builder, rf_pretrained_outputs *outputs,
                            void *user)
{
    (void)user;
    static const char *const classes[] = { [RF_ENCODER_MASKED_LM] = "BertForMaskedLM",
                                           [RF_ENCODER_BARE] = "BertModel",
                                           [RF_ENCODER_CLASSIFIER] = "BertForSequenceClassification" };
    const rf_blocks b = { c, builder };
    const rf_encoder e = rf_encoder_read_bert(&b, classes);
    rf_encoder_build(&b, &e, "num_attention_heads", outputs);
    return RF_OK;
}

static rf_result build_distilbert(rf_pretrained_config *c, rf_model_builder *builder, rf_pretrained_outputs *outputs,
                                  void *user)
{
    (void)user;
    static const char *const classes[] = { [RF_ENCODER_MASKED_LM] = "DistilBertForMaskedLM",
                                           [RF_ENCODER_BARE] = "DistilBertModel",
                                           [RF_ENCODER_CLASSIFIER] = "DistilBertForSequenceClassification" };
    const rf_blocks b = { c, builder };
    rf_encoder e = { .kind = (rf_encoder_kind)rf_block_class(&b, classes, RF_ENCODER_KINDS) };
    e.width = rf_pretrained_config_size(c, "dim", 768);
    e.inner = rf_pretrained_config_size(c, "hidden_dim", 3072);
    e.layers = rf_pretrained_config_layers(c, "n_layers", 6);
    e.heads = rf_pretrained_config_size(c, "n_heads", 12);
    e.vocabulary = rf_pretrained_config_size(c, "vocab_size", 30522);
    e.positions = rf_pretrained_config_size(c, "max_position_embeddings", 512);
    e.epsilon = 1e-12;
    e.dropout = rf_block_rate(&b, "dropout", 0.1);
    e.attention_dropout = rf_block_rate(&b, "attention_dropout", 0.1);
    e.classifier_dropout = rf_block_rate(&b, "seq_classif_dropout", 0.2);
    e.activation = rf_pretrained_config_activation(c, "activation", RF_ACTIVATION_GELU);
    e.pooler_activation = RF_ACTIVATION_RELU;
    rf_encoder_build(&b, &e, "n_heads", outputs);
    return RF_OK;
}

const rf_pretrained_architecture rf_pretrained_bert = { .model_type = "bert",
                                                        .prefix = "bert.",
                                                        .tensors = bert_tensors,
                                                        .num_tensors = sizeof(bert_tensors) / sizeof(bert_tensors[0]),
                                                        .build = build_bert };
const rf_pretrained_architecture rf_pretrained_distilbert = {
    .model_type = "distilbert",
    .prefix = "distilbert.",
    .tensors = distilbert_tensors,
    .num_tensors = sizeof(distilbert_tensors) / sizeof(distilbert_tensors[0]),
    .ignored_keys = distilbert_ignored,
    .num_ignored_keys = sizeof(distilbert_ignored) / sizeof(distilbert_ignored[0]),
    .build = build_distilbert
};
