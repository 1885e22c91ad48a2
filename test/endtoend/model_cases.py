"""The tiny models that make_models.py writes: one Case each.

Together they cover every head, stored type, layout of tensors and files,
activation, pooling, sentence-transformers module, window, pattern of layers and
grouping of heads that Encast imports, and sizes that are multiples of nothing.
"""

import torch
from sentence_transformers.base.modules import Dense, Normalize
from sentence_transformers.sentence_transformer.modules import (LayerNorm,
                                                                Pooling)

from model_folders import Case

LONG_LENGTHS = [*range(1, 21), 31, 32, 33, 63, 64, 65, 127, 128, 129,
                255, 256, 257, 511, 512]
FEW_LENGTHS = [1, 2, 3, 4, 5, 8, 17, 33, 64]


def edges(window):
    """Lengths around each place where a window of this many tokens on either
    side begins or stops to matter, and around blocks of kernels."""
    near = {window - 1, window, window + 1, 2 * window, 2 * window + 1,
            2 * window + 2}
    return sorted({length for length in near if length > 0}
                  | {1, 2, 3, 4, 5, 127, 128, 129, 255, 256, 257, 511, 512})


def small(**changes):
    """A config with odd sizes, too short for the long lengths."""
    return {"hidden_size": 24, "num_attention_heads": 2,
            "num_hidden_layers": 2, "intermediate_size": 37, "vocab_size": 97,
            "max_position_embeddings": 70, "type_vocab_size": 2, **changes}


def tiny(**changes):
    return small(hidden_size=16, intermediate_size=27, vocab_size=61, **changes)


def head_cases():
    labels = {"id2label": {i: f"label {i}" for i in range(5)}}
    yield Case("masked-lm", "BertForMaskedLM", small())
    yield Case("masked-lm-untied", "BertForMaskedLM",
               small(tie_word_embeddings=False, vocab_size=131,
                     hidden_act="relu"))
    yield Case("pretraining", "BertForPreTraining", small(), stored="f16",
               token_types=True)
    yield Case("next-sentence", "BertForNextSentencePrediction", small(),
               token_types=True)
    yield Case("reranker", "BertForSequenceClassification",
               small(num_labels=1), token_types=True)
    yield Case("sequence-classification", "BertForSequenceClassification",
               small(**labels), stored="bf16")
    yield Case("token-classification", "BertForTokenClassification",
               small(num_labels=9), shards=2)
    yield Case("question-answering", "BertForQuestionAnswering", small())
    yield Case("multiple-choice", "BertForMultipleChoice", small())


def layout_cases():
    yield Case("long-32x4", config=small(
        hidden_size=32, num_attention_heads=4, intermediate_size=77,
        max_position_embeddings=600), lengths=LONG_LENGTHS, prefix="")
    yield Case("long-48x3", config=small(
        hidden_size=48, num_attention_heads=3, num_hidden_layers=3,
        intermediate_size=85, vocab_size=500, max_position_embeddings=600),
        stored="f16", lengths=LONG_LENGTHS, token_types=True,
        chain=[(Pooling(48, "mean"), "old"), (Normalize(), "old")],
        prefix="")
    yield Case("long-40x5", config=small(
        hidden_size=40, num_attention_heads=5, intermediate_size=111,
        vocab_size=300, max_position_embeddings=600), shards=3, pooler=False,
        lengths=LONG_LENGTHS)
    yield Case("long-72x3", config=small(
        hidden_size=72, num_attention_heads=3, intermediate_size=131,
        max_position_embeddings=600, layer_norm_eps=1e-5), stored="bf16",
        lengths=LONG_LENGTHS)
    yield Case("odd-sizes", config=small(
        hidden_size=26, intermediate_size=33, vocab_size=101,
        type_vocab_size=3), token_types=True)
    yield Case("one-head", config=tiny(num_attention_heads=1,
                                       num_hidden_layers=1))
    yield Case("head-size-4", config=tiny(num_attention_heads=4))
    yield Case("old-norm-names", "BertForSequenceClassification",
               tiny(num_labels=3), old_norm_names=True)
    yield Case("unused-heads", "BertForPreTraining", tiny(),
               arguments=["--task=feature-extraction"])


def activation_cases():
    for name in ["gelu_python", "gelu_new", "gelu_pytorch_tanh",
                 "gelu_python_tanh", "gelu_accurate", "gelu_fast",
                 "quick_gelu", "relu", "silu", "swish", "tanh", "sigmoid",
                 "linear"]:
        yield Case("activation-" + name.replace("_", "-"),
                   config=tiny(hidden_act=name, max_position_embeddings=40),
                   stored="f16", pooler=False,
                   lengths=[1, 2, 3, 5, 8, 17, 33, 40])


def chain_cases():
    def case(name, *chain, **more):
        return Case("sentence-" + name, config=tiny(), prefix="",
                    pooler=False, stored="f16", chain=list(chain), **more)

    modes = list(Pooling.POOLING_MODES)
    for mode in modes:
        yield case(mode.replace("_", "-"), (Pooling(16, mode), "old"))
    yield case("all-flags", (Pooling(16, modes), "old"))
    yield case("mode-list", (Pooling(16, ["mean", "cls"]), "new"),
               (Normalize(), "new"))
    yield case("subfolder", (Pooling(16, "cls"), "new"), (Normalize(), "old"),
               subfolder="0_Transformer")
    mean = (Pooling(16, "mean"), "old")
    yield case("dense-default", mean, (Dense(16, 11), "no activation key"),
               (Normalize(), "old"))
    for name in ["Identity", "ReLU", "GELU", "SiLU", "Sigmoid"]:
        activation = getattr(torch.nn, name)()
        yield case("dense-" + name.lower(), mean,
                   (Dense(16, 23, bias=name != "Identity",
                          activation_function=activation), "new"))
    yield case("dense-residual", mean, (Dense(16, 16, use_residual=True),
                                        "new"))
    yield case("dense-residual-projected", mean,
               (Dense(16, 9, use_residual=True), "new"))
    yield case("normalize-first", mean, (Normalize(), "old"),
               (Dense(16, 20), "old"))
    yield case("layer-norm", (Pooling(16, ["max", "mean"]), "old"),
               (LayerNorm(32), "old"))


def modernbert(name, head="Model", **more):
    """A case with this config over odd sizes and heads of 8; the second of two
    layers has a window."""
    fields = {"hidden_size": 16, "num_attention_heads": 2,
              "num_hidden_layers": 2, "intermediate_size": 21,
              "vocab_size": 31, "max_position_embeddings": 600,
              "local_attention": 8, "pad_token_id": 3,
              **more.pop("config", {})}
    more.setdefault("lengths", FEW_LENGTHS)
    return Case("modernbert-" + name, "ModernBert" + head, fields,
                family="modernbert", **more)


def modernbert_cases():
    full, sliding = "full_attention", "sliding_attention"
    yield modernbert("window-8", lengths=edges(8), stored="f16", config={
        "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 4,
        "intermediate_size": 37, "local_attention": 16})
    yield modernbert("window-64", lengths=edges(64), stored="bf16", prefix="",
                     config={
        "hidden_size": 32, "local_attention": 128,
        "layer_types": [sliding, full], "rope_parameters": {
            full: {"rope_theta": 80000.0, "rope_type": "default"},
            sliding: {"rope_theta": 10000.0, "rope_type": "default"}}})
    yield modernbert("window-16-head-64", stored="bf16", lengths=[
        1, 2, 3, 5, 15, 16, 17, 32, 33, 34, 129, 257], config={
        "hidden_size": 64, "num_attention_heads": 1, "num_hidden_layers": 1,
        "layer_types": [sliding], "local_attention": 32})
    yield modernbert("window-3", lengths=edges(3), stored="f16", config={
        "hidden_size": 20, "num_hidden_layers": 3, "local_attention": 7,
        "global_attn_every_n_layers": 2, "global_rope_theta": 150000.0,
        "local_rope_theta": 160000.0})
    yield modernbert("window-0", stored="f16", config={"local_attention": 1})
    yield modernbert("window-wider-than-texts", stored="f16",
                     config={"local_attention": 4096})
    yield modernbert("no-window", stored="bf16",
                     config={"global_attn_every_n_layers": 1})
    yield modernbert("8192", stored="bf16", lengths=[2, 129, 8192], config={
        "num_attention_heads": 1, "local_attention": 128,
        "max_position_embeddings": 8192})
    yield modernbert("biases", "ForMaskedLM", stored="f16", config={
        "norm_bias": True, "attention_bias": True, "mlp_bias": True,
        "classifier_bias": True, "hidden_activation": "silu"})
    yield modernbert("masked-lm", "ForMaskedLM")
    yield modernbert("masked-lm-untied", "ForMaskedLM", stored="bf16", config={
        "tie_word_embeddings": False, "decoder_bias": False,
        "classifier_activation": "silu", "norm_eps": 1e-3})
    labels = {"id2label": {str(i): f"label {i}" for i in range(5)}}
    yield modernbert("sequence-cls", "ForSequenceClassification",
                     stored="bf16", config=labels)
    yield modernbert("sequence-mean", "ForSequenceClassification",
                     stored="f16",
                     config={"classifier_pooling": "mean", **labels})
    yield modernbert("reranker", "ForSequenceClassification", stored="f16",
                     config={"classifier_pooling": "mean",
                             "id2label": {"0": "score"}})
    yield modernbert("token-classification", "ForTokenClassification",
                     shards=2, config={
                         "hidden_activation": "gelu_pytorch_tanh", **labels})
    yield modernbert("question-answering", "ForQuestionAnswering",
                     stored="f16", config={"id2label": {"0": "s", "1": "e"}})
    yield modernbert("multiple-choice", "ForMultipleChoice", stored="f16")
    yield modernbert("sentence-cls", prefix="", stored="bf16", chain=[
        (Pooling(16, "cls"), "old"), (Normalize(), "old")])
    yield modernbert("sentence-mean", prefix="", stored="f16", chain=[
        (Pooling(16, "mean"), "new")])
    yield modernbert("colbert", prefix="", stored="bf16", attended=True,
                     chain=[(token_projection(16, 7), "pylate")])


def token_projection(columns, rows):
    return Dense(columns, rows, bias=False,
                 activation_function=torch.nn.Identity(),
                 module_input_name="token_embeddings")


def lfm2(name, head="BidirectionalModel", layers="cf", **more):
    """A case with this config over odd sizes; `layers` has a letter each, c for
    convolution and f for full attention."""
    types = {"c": "conv", "f": "full_attention"}
    fields = {"hidden_size": 16, "num_attention_heads": 4,
              "num_key_value_heads": 2, "num_hidden_layers": len(layers),
              "layer_types": [types[letter] for letter in layers],
              "intermediate_size": 27, "block_auto_adjust_ff_dim": False,
              "vocab_size": 31, "max_position_embeddings": 600,
              **more.pop("config", {})}
    more.setdefault("lengths", FEW_LENGTHS)
    return Case("lfm2-" + name, "Lfm2" + head, fields, family="lfm2", **more)


def lfm2_cases():
    yield lfm2("pattern-350m", layers="ccfccfcf", stored="bf16",
               lengths=edges(16), prefix="", config={
                   "rope_parameters": {"rope_theta": 1000000.0,
                                       "rope_type": "default"}})
    yield lfm2("pattern-230m", layers="ccfcf", stored="f16",
               lengths=edges(1), config={"rope_theta": 10000.0})
    yield lfm2("head-64", layers="cfc", stored="bf16", lengths=[
        *FEW_LENGTHS, 127, 128, 129, 257, 512], config={
            "num_attention_heads": 2, "num_key_value_heads": 1,
            "head_dim": 64})
    yield lfm2("8192", stored="bf16", lengths=[2, 129, 8192],
               config={"num_attention_heads": 2, "num_key_value_heads": 1,
                       "max_position_embeddings": 128000})
    yield lfm2("attention-only", stored="f16", layers="ff", config={
        "layer_types": None, "num_key_value_heads": 4})
    yield lfm2("attention-by-index", stored="f16", layers="fc", config={
        "layer_types": None, "full_attn_idxs": [0],
        "num_attention_heads": 6, "head_dim": 10})
    yield lfm2("convolution-only", stored="f16", layers="ccc")
    yield lfm2("one-key-head", stored="f16", layers="f",
               config={"num_key_value_heads": 1})
    yield lfm2("biases", stored="f16", config={"conv_bias": True,
                                               "norm_eps": 1e-3})
    yield lfm2("masked-lm", "BidirectionalForMaskedLM", config={
        "intermediate_size": 50, "block_multiple_of": 8,
        "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": True})
    yield lfm2("masked-lm-untied", "BidirectionalForMaskedLM", stored="bf16",
               config={"tie_embedding": False},
               linears={"lm_head": (31, False)})
    yield lfm2("pii-detector", "BidirP2ForTokenClassification", shards=2,
               linears={"classifier": (9, True)},
               extra={"class_weights": (9,)}, config={
                   "id2label": {str(i): f"label {i}" for i in range(9)}})
    projections = {"tok_proj": (12, True), "rule_proj": (12, True)}
    yield lfm2("prompt-router", "BidirForSequenceRouting",
               linears=projections, stored="f16",
               extra={"logit_scale": (), "score_bias": ()},
               config={"rule_proj_dim": 12})
    yield lfm2("policy-linter", "BidirForRuleMatching", linears=projections,
               stored="bf16", extra={"score_bias": ()})
    yield lfm2("embedding", stored="bf16", prefix="", chain=[
        (Pooling(16, "cls"), "old")], config={
            "tie_embedding": True, "block_ff_dim": 40,
            "block_auto_adjust_ff_dim": True, "block_multiple_of": 16})
    yield lfm2("colbert", stored="bf16", prefix="", attended=True,
               lengths=[*FEW_LENGTHS, 32, 65], layers="cfcf",
               chain=[(token_projection(16, 7), "pylate")])


def token_chain_cases():
    """ColBERT in another family and in both layouts."""
    def case(name, **more):
        return Case("tokens-" + name, config=tiny(num_hidden_layers=1),
                    prefix="", pooler=False, stored="f16", attended=True,
                    lengths=FEW_LENGTHS, **more)

    yield case("pylate", chain=[(token_projection(16, 7), "pylate")])
    yield case("normalized", chain=[
        (token_projection(16, 5), "new"),
        (Normalize("token_embeddings"), "new")])


def all_cases():
    return [*layout_cases(), *head_cases(), *activation_cases(),
            *chain_cases(), *modernbert_cases(), *lfm2_cases(),
            *token_chain_cases()]
