# SPDX-License-Identifier: Apache-2.0
"""Configurations of small networks, with their options switched on and off."""

GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 37, "n_embd": 24,
        "n_head": 3, "n_layer": 2, "n_positions": 16, "embd_pdrop": 0.0, "attn_pdrop": 0.0,
        "resid_pdrop": 0.0, "n_ctx": 16, "bos_token_id": 1, "summary_type": "cls_index",
        "transformers_version": "4.40.0"}
LLAMA = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 41,
         "hidden_size": 24, "intermediate_size": 36, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32,
         "rms_norm_eps": 1e-5, "rope_theta": 500.0, "hidden_act": "silu", "torch_dtype": "float32",
         "pretraining_tp": 1, "use_cache": True}


def of(model, **changes):
    return {**model, **changes}


def family(model_type, name, **changes):
    return of(LLAMA, model_type=model_type, architectures=[name + "ForCausalLM"], **changes)


MISTRAL = family("mistral", "Mistral", sliding_window=None)
QWEN2 = family("qwen2", "Qwen2", use_sliding_window=False, sliding_window=4, max_window_layers=1)
QWEN3 = family("qwen3", "Qwen3", head_dim=8, attention_bias=False)
PHI3 = family("phi3", "Phi3", resid_pdrop=0.0, embd_pdrop=0.0, sliding_window=None,
              original_max_position_embeddings=32)
GEMMA2 = family("gemma2", "Gemma2", hidden_activation="gelu_pytorch_tanh", head_dim=8,
                query_pre_attn_scalar=12, sliding_window=5, attn_logit_softcapping=2.0,
                final_logit_softcapping=3.0, attention_bias=False,
                cache_implementation="hybrid")
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 16}

BERT = {"model_type": "bert", "architectures": ["BertModel"], "vocab_size": 31, "hidden_size": 24,
        "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40,
        "max_position_embeddings": 20, "type_vocab_size": 2, "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0, "hidden_act": "gelu", "layer_norm_eps": 1e-12,
        "position_embedding_type": "absolute", "gradient_checkpointing": False,
        "classifier_dropout": None}
DISTILBERT = {"model_type": "distilbert", "architectures": ["DistilBertModel"], "vocab_size": 31,
              "dim": 24, "hidden_dim": 40, "n_layers": 2, "n_heads": 4, "dropout": 0.0,
              "max_position_embeddings": 20, "attention_dropout": 0.0, "activation": "gelu",
              "seq_classif_dropout": 0.0, "qa_dropout": 0.1, "sinusoidal_pos_embds": False,
              "tie_weights_": True}
# Its tokens are of one type, and its places count from the padding's number on.
ROBERTA = of(BERT, model_type="roberta", architectures=["RobertaModel"], type_vocab_size=1,
             pad_token_id=1, layer_norm_eps=1e-5)
RESNET = {"model_type": "resnet", "architectures": ["ResNetForImageClassification"],
          "num_channels": 3, "embedding_size": 8, "hidden_sizes": [16, 24, 40], "depths": [2, 1, 1],
          "layer_type": "bottleneck", "hidden_act": "relu", "downsample_in_first_stage": False,
          "downsample_in_bottleneck": False, "stage_names": ["stem", "stage1", "stage2", "stage3"],
          "out_features": ["stage3"], "out_indices": [3]}
MOBILENET = {"architecture": "mobilenet_v3_large", "num_classes": 4, "dropout": 0.0,
             "width_mult": 0.3}
VIT = {"model_type": "vit", "architectures": ["ViTForImageClassification"], "hidden_size": 24,
       "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 40,
       "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
       "layer_norm_eps": 1e-12, "image_size": 32, "patch_size": 8, "num_channels": 3,
       "qkv_bias": True, "encoder_stride": 16}
LABELS = {"0": "no", "1": "yes", "2": "who knows"}

# {name: (configuration, how its files are written)}
CASES = {
    "gpt2": (GPT2, {}),
    "gpt2 options": (of(GPT2, n_inner=40, activation_function="relu", scale_attn_weights=False,
                        scale_attn_by_inverse_layer_idx=True, layer_norm_epsilon=1e-3,
                        tie_word_embeddings=False), {"prefix": "transformer.", "shards": 3}),
    "gpt2 gelu, old files": (of(GPT2, activation_function="gelu", reorder_and_upcast_attn=True),
                             {"masks": True}),
    "gpt2 no head": (of(GPT2, architectures=["GPT2Model"]), {}),
    "gpt2 head twice": (GPT2, {"prefix": "transformer.", "twice": [("lm_head.weight",
                                                                    "wte.weight")]}),
    "gpt2 f16": (GPT2, {"kind": "F16"}),
    "gpt2 bf16": (GPT2, {"kind": "BF16", "shards": 2}),
    "llama": (LLAMA, {}),
    "llama no head": (of(LLAMA, architectures=["LlamaModel"], tie_word_embeddings=True), {}),
    "llama tied, biases": (of(LLAMA, tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
                              head_dim=8, hidden_act="gelu"), {"shards": 2}),
    "llama one head of keys": (of(LLAMA, num_key_value_heads=1), {"kind": "BF16"}),
    "llama all heads of keys": (of(LLAMA, num_key_value_heads=4), {"kind": "F16"}),
    "llama 3": (of(LLAMA, rope_scaling=LLAMA3, rope_theta=10000.0), {}),
    "llama linear": (of(LLAMA, rope_scaling={"type": "linear", "factor": 2.5}), {}),
    "llama dynamic": (of(LLAMA, rope_scaling={"rope_type": "dynamic", "factor": 3.0},
                         max_position_embeddings=8), {}),
    "llama parameters": (of({k: x for k, x in LLAMA.items() if k != "rope_theta"},
                            rope_parameters={"rope_type": "default", "rope_theta": 300.0}), {}),
    "mistral": (MISTRAL, {}),
    "mistral window": (of(MISTRAL, sliding_window=5, head_dim=4), {}),
    "qwen2": (QWEN2, {}),
    "qwen2 window": (of(QWEN2, use_sliding_window=True, tie_word_embeddings=True), {}),
    "qwen2 layer types": (of(QWEN2, use_sliding_window=True,
                             layer_types=["sliding_attention", "full_attention"]), {}),
    "qwen3": (QWEN3, {}),
    "qwen3 biases": (of(QWEN3, attention_bias=True, tie_word_embeddings=True), {"kind": "BF16"}),
    "gemma2": (GEMMA2, {}),
    "gemma2 no caps": (of(GEMMA2, attn_logit_softcapping=None, final_logit_softcapping=None,
                          layer_types=["full_attention", "sliding_attention"]), {}),
    "gemma2 head, biases": (of(GEMMA2, tie_word_embeddings=False, attention_bias=True),
                            {"shards": 2}),
    "gemma2 no head": (of(GEMMA2, architectures=["Gemma2Model"]), {"kind": "F16"}),
    "bert": (BERT, {}),
    # As the first models of the hub are stored.
    "bert masked": (of(BERT, architectures=["BertForMaskedLM"], hidden_act="relu"), {
        "renamed": [("LayerNorm.weight", "LayerNorm.gamma"), ("LayerNorm.bias", "LayerNorm.beta")],
        "twice": [("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
                  ("cls.predictions.decoder.bias", "cls.predictions.bias")],
        "others": {"cls.seq_relationship.weight": (2, 24), "bert.pooler.dense.weight": (24, 24)},
        "shards": 2}),
    "bert classes": (of(BERT, architectures=["BertForSequenceClassification"], id2label=LABELS,
                        label2id={"no": 0}, layer_norm_eps=1e-5), {}),
    "bert f16": (BERT, {"kind": "F16"}),
    "distilbert": (DISTILBERT, {}),
    "distilbert masked": (of(DISTILBERT, architectures=["DistilBertForMaskedLM"]), {
        "twice": [("vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight")]}),
    "distilbert classes": (of(DISTILBERT, architectures=["DistilBertForSequenceClassification"],
                              id2label=LABELS), {}),
    "roberta": (ROBERTA, {"shards": 2}),
    "roberta masked": (of(ROBERTA, architectures=["RobertaForMaskedLM"], hidden_act="gelu_new"), {
        "twice": [("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
                  ("lm_head.decoder.bias", "lm_head.bias")]}),
    "roberta classes": (of(ROBERTA, architectures=["RobertaForSequenceClassification"],
                           id2label=LABELS, pad_token_id=0, type_vocab_size=2), {}),
    "xlm-roberta classes": (of(ROBERTA, model_type="xlm-roberta", id2label=LABELS,
                               architectures=["XLMRobertaForSequenceClassification"]),
                            {"others": {"roberta.pooler.dense.weight": (24, 24)}}),
    "xlm-roberta f16": (of(ROBERTA, model_type="xlm-roberta",
                           architectures=["XLMRobertaModel"]), {"kind": "F16"}),
    "resnet": (RESNET, {"shards": 2, "counters": True}),
    "resnet basic": (of(RESNET, layer_type="basic", downsample_in_first_stage=True, num_channels=1,
                        id2label=LABELS, hidden_act="gelu"), {"counters": True}),
    "resnet early": (of(RESNET, downsample_in_bottleneck=True, depths=[1, 2, 1]), {"kind": "F16"}),
    "resnet no head": (of(RESNET, architectures=["ResNetModel"]), {}),
    "resnet torchvision": (of(RESNET, hidden_sizes=[16, 24], depths=[1, 2]),
                           {"names": "torchvision", "counters": True}),
    # Results alone: of so many inputs of ReLU one nearly always is as near to 0 as roundings are.
    # With the slope of that one changed, gradients at 96 pixels agree to 8.6e-6, else to 2.2e-3.
    "resnet18": ({"architecture": "resnet18", "num_classes": 5, "num_features": 512,
                  "pretrained_cfg": {"input_size": [3, 224, 224]}},
                 {"counters": True, "kind": "F16"}),
    "vit": (VIT, {"shards": 2}),
    "vit no head": (of(VIT, architectures=["ViTModel"], hidden_act="gelu_new", patch_size=4,
                       pooler_output_size=16, pooler_act="relu", image_size=8), {}),
    "vit grey": (of(VIT, num_channels=1, id2label=LABELS), {
        "others": {"vit.pooler.dense.weight": (24, 24), "vit.embeddings.mask_token": (1, 1, 24)},
        "kind": "BF16"}),
    "mobilenet small": (of(MOBILENET, architecture="mobilenet_v3_small"), {
        "counters": True, "side": 96}),
    "mobilenet large": (of(MOBILENET, width_mult=0.2), {"shards": 3, "side": 96}),
    "mobilenet dilated": (of(MOBILENET, dilated=True, reduced_tail=True), {"side": 64}),
    "phi3": (PHI3, {}),
    "phi3 window": (of(PHI3, sliding_window=6), {"shards": 2}),
}
# Those that a landing runs.
SAMPLE = ("gpt2 options", "llama 3", "qwen2 window", "bert masked",
          "resnet torchvision", "vit")
# Cases with weights in few bits; "+": embeddings and heads as well.
QUANTIZED = (("gpt2", "int8+"), ("llama 3", "nf4"), ("phi3", "q4_0+"))
