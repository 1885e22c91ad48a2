"""Full-size model folders with random weights, made from real configurations.

Speed depends on shapes alone, so no checkpoint needs to be downloaded. Weights
have a fixed seed and scales as trained models have them: linears keep the
variance of what they are given, those that add to the residual are smaller the
deeper the model is, and attention logits have a variance of about one. Some
folders hold matrices that are exactly bf16, stored as f32, as checkpoints
trained in bf16 often are.
"""

import hashlib
import json
import pathlib
import shutil

import numpy

SEED = 20240229

LFM2_230M = {
    "architectures": ["Lfm2BidirectionalForMaskedLM"],
    "model_type": "lfm2",
    "hidden_size": 1024,
    "num_hidden_layers": 14,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "layer_types": ["conv"] + ["conv", "full_attention"] * 6 + ["conv"],
    "intermediate_size": 2560,
    "block_auto_adjust_ff_dim": False,
    "block_ffn_dim_multiplier": 1.0,
    "block_multiple_of": 256,
    "conv_L_cache": 3,
    "conv_bias": False,
    "norm_eps": 1e-5,
    "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
    "vocab_size": 65536,
    "max_position_embeddings": 128000,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 7,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}

MODERNBERT_BASE = {
    "architectures": ["ModernBertModel"],
    "model_type": "modernbert",
    "hidden_size": 768,
    "num_hidden_layers": 22,
    "num_attention_heads": 12,
    "intermediate_size": 1152,
    "hidden_activation": "gelu",
    "vocab_size": 50368,
    "max_position_embeddings": 8192,
    "norm_eps": 1e-5,
    "norm_bias": False,
    "attention_bias": False,
    "mlp_bias": False,
    "local_attention": 128,
    "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0,
    "local_rope_theta": 10000.0,
    "pad_token_id": 50283,
    "bos_token_id": 50281,
    "cls_token_id": 50281,
    "eos_token_id": 50282,
    "sep_token_id": 50282,
    "tie_word_embeddings": True,
    "torch_dtype": "float32",
}

BERT_BASE = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "pad_token_id": 0,
    "torch_dtype": "float32",
}


class Weights:
    """Tensors by name, drawn in the order in which they are asked for."""

    def __init__(self, layers, exactly_bf16):
        self.generator = numpy.random.default_rng(SEED)
        self.residual_scale = (2 * layers) ** -0.5
        self.exactly_bf16 = exactly_bf16
        self.tensors = {}

    def normal(self, name, shape, deviation):
        values = self.generator.standard_normal(shape, numpy.float32)
        self.tensors[name] = values * numpy.float32(deviation)

    def matrix(self, name, rows, columns, scale=1.0):
        self.normal(name, (rows, columns), scale * columns**-0.5)
        if self.exactly_bf16:
            # A deviation of 2^-9 of the value is rounded away.
            bits = self.tensors[name].view(numpy.uint32)
            bits += 0x7FFF + ((bits >> 16) & 1)
            bits &= 0xFFFF0000

    def into_residual(self, name, rows, columns):
        self.matrix(name, rows, columns, self.residual_scale)

    def gain(self, name, size):
        self.normal(name, size, 0.1)
        self.tensors[name] += 1

    def bias(self, name, size):
        self.normal(name, size, 0.02)


def lfm2(config, weights):
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    head = hidden // config["num_attention_heads"]
    keys = config["num_key_value_heads"] * head
    prefix = "lfm2."
    weights.normal(prefix + "embed_tokens.weight",
                   (config["vocab_size"], hidden), 1.0)
    for index, kind in enumerate(config["layer_types"]):
        layer = f"{prefix}layers.{index}."
        weights.gain(layer + "operator_norm.weight", hidden)
        weights.gain(layer + "ffn_norm.weight", hidden)
        if kind == "conv":
            weights.matrix(layer + "conv.in_proj.weight", 3 * hidden, hidden)
            width = config["conv_L_cache"]
            weights.normal(layer + "conv.conv.weight", (hidden, 1, width),
                           width**-0.5)
            weights.into_residual(layer + "conv.out_proj.weight", hidden,
                                  hidden)
        else:
            attention = layer + "self_attn."
            weights.matrix(attention + "q_proj.weight", hidden, hidden)
            weights.matrix(attention + "k_proj.weight", keys, hidden)
            weights.matrix(attention + "v_proj.weight", keys, hidden)
            weights.into_residual(attention + "out_proj.weight", hidden, hidden)
            weights.gain(attention + "q_layernorm.weight", head)
            weights.gain(attention + "k_layernorm.weight", head)
        weights.matrix(layer + "feed_forward.w1.weight", ffn, hidden)
        weights.matrix(layer + "feed_forward.w3.weight", ffn, hidden)
        weights.into_residual(layer + "feed_forward.w2.weight", hidden, ffn)
    weights.gain(prefix + "embedding_norm.weight", hidden)


def modernbert(config, weights):
    hidden, ffn = config["hidden_size"], config["intermediate_size"]
    weights.normal("embeddings.tok_embeddings.weight",
                   (config["vocab_size"], hidden), 1.0)
    weights.gain("embeddings.norm.weight", hidden)
    for index in range(config["num_hidden_layers"]):
        layer = f"layers.{index}."
        if index:
            weights.gain(layer + "attn_norm.weight", hidden)
        weights.matrix(layer + "attn.Wqkv.weight", 3 * hidden, hidden)
        weights.into_residual(layer + "attn.Wo.weight", hidden, hidden)
        weights.gain(layer + "mlp_norm.weight", hidden)
        weights.matrix(layer + "mlp.Wi.weight", 2 * ffn, hidden)
        weights.into_residual(layer + "mlp.Wo.weight", hidden, ffn)
    weights.gain("final_norm.weight", hidden)


def bert(config, weights):
    hidden, ffn = config["hidden_size"], config["intermediate_size"]

    def linear(name, rows, columns, draw):
        draw(name + ".weight", rows, columns)
        weights.bias(name + ".bias", rows)

    def norm(name):
        weights.gain(name + ".weight", hidden)
        weights.bias(name + ".bias", hidden)

    for name, rows in (("word", config["vocab_size"]),
                       ("position", config["max_position_embeddings"]),
                       ("token_type", config["type_vocab_size"])):
        weights.normal(f"embeddings.{name}_embeddings.weight", (rows, hidden),
                       0.05)
    norm("embeddings.LayerNorm")
    for index in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{index}."
        for name in ("query", "key", "value"):
            linear(layer + "attention.self." + name, hidden, hidden,
                   weights.matrix)
        linear(layer + "attention.output.dense", hidden, hidden,
               weights.into_residual)
        norm(layer + "attention.output.LayerNorm")
        linear(layer + "intermediate.dense", ffn, hidden, weights.matrix)
        linear(layer + "output.dense", hidden, ffn, weights.into_residual)
        norm(layer + "output.LayerNorm")


FAMILIES = {"lfm2": lfm2, "modernbert": modernbert, "bert": bert}


def build(folder, config, exactly_bf16=False):
    """Makes the model in `folder` unless this script has made it there."""
    from safetensors.numpy import save_file

    digest = hashlib.sha256(pathlib.Path(__file__).read_bytes())
    stamp = json.dumps([config, exactly_bf16, digest.hexdigest()])
    made_for = folder / "made_for.json"
    if made_for.exists() and made_for.read_text() == stamp:
        return folder
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    weights = Weights(config["num_hidden_layers"], exactly_bf16)
    FAMILIES[config["model_type"]](config, weights)
    save_file(weights.tensors, str(folder / "model.safetensors"),
              metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    made_for.write_text(stamp)
    return folder
