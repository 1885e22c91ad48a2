#!/usr/bin/env python3
"""Model folders as GGUF files, for llama.cpp.

usage: gguf_models.py f32|bf16 FOLDER FILE

Keys and tensor names are those that llama.cpp reads for the two architectures;
there is no tokenizer in the file, only the number of tokens. The precision is
that of the matrices.
"""

import json
import pathlib
import re
import sys

LFM2_NAMES = {
    "embed_tokens": "token_embd", "embedding_norm": "token_embd_norm",
    "operator_norm": "attn_norm", "ffn_norm": "ffn_norm",
    "conv.conv": "shortconv.conv", "conv.in_proj": "shortconv.in_proj",
    "conv.out_proj": "shortconv.out_proj", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.out_proj": "attn_output",
    "self_attn.q_layernorm": "attn_q_norm",
    "self_attn.k_layernorm": "attn_k_norm", "feed_forward.w1": "ffn_gate",
    "feed_forward.w3": "ffn_up", "feed_forward.w2": "ffn_down",
}
MODERNBERT_NAMES = {
    "embeddings.tok_embeddings": "token_embd",
    "embeddings.norm": "token_embd_norm", "final_norm": "output_norm",
    "attn_norm": "attn_norm", "attn.Wqkv": "attn_qkv",
    "attn.Wo": "attn_output", "mlp_norm": "ffn_norm", "mlp.Wi": "ffn_up",
    "mlp.Wo": "ffn_down",
}


def add_lfm2(writer, config):
    writer.add_head_count_kv([
        config["num_key_value_heads"] if kind == "full_attention" else 0
        for kind in config["layer_types"]])
    writer.add_layer_norm_rms_eps(config["norm_eps"])
    writer.add_rope_freq_base(config["rope_parameters"]["rope_theta"])
    writer.add_shortconv_l_cache(config["conv_L_cache"])


def add_modernbert(writer, config):
    writer.add_head_count_kv(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["norm_eps"])
    writer.add_rope_freq_base(config["global_rope_theta"])
    writer.add_rope_freq_base_swa(config["local_rope_theta"])
    writer.add_sliding_window(config["local_attention"])
    writer.add_sliding_window_pattern(config["global_attn_every_n_layers"])


FAMILIES = {"lfm2": ("lfm2", add_lfm2, LFM2_NAMES),
            "modernbert": ("modern-bert", add_modernbert, MODERNBERT_NAMES)}


def translate(name, names):
    name = re.sub(r"^lfm2[.]", "", name)
    layer, stem = re.fullmatch(r"(?:layers[.](\d+)[.])?(.*)[.]weight",
                                name).groups()
    return (f"blk.{layer}." if layer else "") + names[stem] + ".weight"


def write(precision, folder, file):
    import gguf
    from safetensors.numpy import load_file

    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    architecture, add_facts, names = FAMILIES[config["model_type"]]
    writer = gguf.GGUFWriter(file, architecture)
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_causal_attention(False)
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")
    add_facts(writer, config)
    for name, values in load_file(f"{folder}/model.safetensors").items():
        if values.ndim == 3:  # depthwise taps
            values = values.squeeze(1)
        kind = gguf.GGMLQuantizationType.F32
        if precision == "bf16" and values.ndim == 2 and "conv.conv" not in name:
            kind = gguf.GGMLQuantizationType.BF16
        writer.add_tensor(translate(name, names),
                          gguf.quants.quantize(values, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(*sys.argv[1:])
