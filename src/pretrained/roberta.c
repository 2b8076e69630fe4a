/* SPDX-License-Identifier: Apache-2.0 */
/* RoBERTa (Liu et al. 2019) and XLM-RoBERTa (Conneau et al. 2020): BERT, whose positions count tokens from the number
 * of the padding on, and whose classifier has a layer of its own. */
#include "pretrained/architectures.h"
#include "pretrained/encoder.h"

static const rf_pretrained_tensor tensors[] = {
    RF_ENCODER_BERT_TENSORS,
    { .tensor = "embeddings.token_type_embeddings.weight", .variable = "token_type_embeddings/kernel" },
    RF_ENCODER_HEAD("classifier.dense", "classifier_dense"),
    RF_ENCODER_HEAD("classifier.out_proj", "classifier"),
    RF_ENCODER_HEAD("lm_head.dense", "transform"),
    RF_ENCODER_HEAD_NORM("lm_head.layer_norm", "transform_norm"),
    { .tensor = "lm_head.bias", .variable = "predictions/bias", .optional = true, .head = true },
    { .tensor = "lm_head.decoder.bias", .variable = "predictions/bias", .optional = true, .head = true },
    { .tensor = "lm_head.decoder.weight", .variable = "word_embeddings/embeddings" },
};

static rf_result build_roberta(rf_pretrained_config *c, rf_model_builder *builder, rf_pretrained_outputs *outputs,
                               void *user)
{
    const rf_blocks b = { c, builder };
    rf_encoder e = rf_encoder_read_bert(&b, user);
    e.padded_positions = true;
    e.padding = (int32_t)rf_pretrained_config_number(c, "pad_token_id", 1);
    if (e.padding < 0 || e.padding >= e.positions - 1)
        rf_pretrained_config_refuse(c, "pad_token_id", ", after which max_position_embeddings leave no places");
    e.own_pooler = true;
    e.pooler_dropout = e.classifier_dropout;
    rf_encoder_build(&b, &e, "num_attention_heads", outputs);
    return RF_OK;
}

static const char *const roberta_classes[] = { [RF_ENCODER_MASKED_LM] = "RobertaForMaskedLM",
                                               [RF_ENCODER_BARE] = "RobertaModel",
                                               [RF_ENCODER_CLASSIFIER] = "RobertaForSequenceClassification" };
static const char *const xlm_classes[] = { [RF_ENCODER_MASKED_LM] = "XLMRobertaForMaskedLM",
                                           [RF_ENCODER_BARE] = "XLMRobertaModel",
                                           [RF_ENCODER_CLASSIFIER] = "XLMRobertaForSequenceClassification" };

#define ARCHITECTURE(TYPE, CLASSES)                                                                                    \
    {                                                                                                                  \
        .model_type = TYPE, .prefix = "roberta.", .tensors = tensors,                                                  \
        .num_tensors = sizeof(tensors) / sizeof(tensors[0]), .build = build_roberta,                                   \
        .user = (void *)(uintptr_t)CLASSES                                                                             \
    }
const rf_pretrained_architecture rf_pretrained_roberta = ARCHITECTURE("roberta", roberta_classes);
const rf_pretrained_architecture rf_pretrained_xlm_roberta = ARCHITECTURE("xlm-roberta", xlm_classes);
