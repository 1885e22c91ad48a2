#!/usr/bin/env python3
"""The models as PyTorch modules, and their export for the other engines.

usage: torch_models.py onnx|openvino FOLDER FILE

LFM2.5 is bidirectional; Transformers knows only its causal sibling, whose
convolution is replaced here, and whose masks are left out.
"""

import json
import pathlib
import sys


def model_type(folder):
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    return config["model_type"]


def centred_convolution(self, hidden_states, **_):
    """Lfm2ShortConv.forward, with as many taps after a token as before it."""
    import torch

    before, after, values = self.in_proj(hidden_states).transpose(
        -1, -2).chunk(3, dim=-2)
    mixed = torch.nn.functional.conv1d(
        before * values, self.conv.weight, self.conv.bias,
        padding=self.conv_kernel_size // 2, groups=self.conv.groups)
    return self.out_proj((after * mixed).transpose(-1, -2).contiguous())


def load(folder, dtype, attention="sdpa"):
    """A Transformers model in evaluation mode, without a head."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    options = {}
    if model_type(folder) == "bert":
        options["add_pooling_layer"] = False
    if model_type(folder) == "lfm2":
        from transformers.models.lfm2 import modeling_lfm2

        modeling_lfm2.Lfm2ShortConv.forward = centred_convolution
        options["key_mapping"] = {"^lfm2[.]": ""}
    model, info = transformers.AutoModel.from_pretrained(
        folder, attn_implementation=attention, dtype=getattr(torch, dtype),
        output_loading_info=True, **options)
    if info["missing_keys"]:
        sys.exit(f"torch_models: error: {folder}: no weights for "
                 f"{sorted(info['missing_keys'])[:3]}")
    if model_type(folder) == "lfm2":
        for layer in model.layers:
            if layer.is_attention_layer:
                layer.self_attn.is_causal = False
    return model.eval()


def last_hidden_state(model, ids, mask=None):
    """[B, longest, H]. Without `mask` all tokens of `ids` are real."""
    options = {}
    if model.config.model_type == "lfm2":
        mask = {"full_attention": None, "conv": None}
        options["use_cache"] = False
    return model(input_ids=ids, attention_mask=mask,
                 **options).last_hidden_state


def window_mask(ids, half):
    """What Transformers adds to scores in layers with a window, [1, 1, S, S];
    in operations that every exporter knows."""
    import torch

    positions = torch.arange(ids.shape[1])
    far = (positions[:, None] - positions[None, :]).abs() > half
    mask = torch.zeros(far.shape).masked_fill(far, torch.finfo(
        torch.float32).min)
    return mask[None, None]


def exportable(folder, attention):
    """A module from ids (and a mask, for models that take batches) to
    last_hidden_state, and inputs to trace it with."""
    import torch
    from transformers.integrations import sdpa_attention

    # The exporter to ONNX has no form for keys that several query heads share,
    # and OpenVINO's fused attention takes no such keys.
    sdpa_attention.use_gqa_in_sdpa = lambda *_: False

    class LastHiddenState(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = load(folder, "float32", attention)

        def forward(self, input_ids, attention_mask=None):
            if self.model.config.model_type == "modernbert":
                attention_mask = {
                    "full_attention": None,
                    "sliding_attention": window_mask(
                        input_ids, self.model.config.sliding_window)}
            return last_hidden_state(self.model, input_ids, attention_mask)

    torch.manual_seed(1)
    if model_type(folder) != "bert":
        return LastHiddenState(), (torch.randint(5, 100, (1, 200)),)
    ids = torch.randint(5, 100, (2, 24))
    mask = torch.ones_like(ids)
    mask[1, 17:] = 0
    return LastHiddenState(), (ids, mask)


def export_onnx(folder, file):
    import torch

    # ONNX Runtime's fusions know the form that the older exporter gives eager
    # attention of BERT; they know no form of the others'.
    bert = model_type(folder) == "bert"
    module, inputs = exportable(folder, "eager" if bert else "sdpa")
    names = ["input_ids", "attention_mask"][:len(inputs)]
    axes = {0: "batch", 1: "tokens"} if bert else {1: "tokens"}
    with torch.no_grad():
        torch.onnx.export(
            module, inputs, file, input_names=names,
            output_names=["last_hidden_state"], dynamo=False, opset_version=17,
            dynamic_axes={name: axes for name in names + ["last_hidden_state"]})
    if bert:
        fuse_attention(folder, file)


def fuse_attention(folder, file):
    """Writes FILE.fused too."""
    from onnxruntime.transformers import optimizer
    from onnxruntime.transformers.fusion_options import FusionOptions

    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    optimizer.optimize_model(
        file, model_type="bert", num_heads=config["num_attention_heads"],
        hidden_size=config["hidden_size"],
        optimization_options=FusionOptions("bert"), opt_level=0,
        use_gpu=False).save_model_to_file(file + ".fused")


def export_openvino(folder, file):
    import numpy
    import openvino

    # Converted from the module: its fused attention survives.
    module, inputs = exportable(folder, "sdpa")
    shape = [-1, -1] if model_type(folder) == "bert" else [1, -1]
    names = ["input_ids", "attention_mask"][:len(inputs)]
    model = openvino.convert_model(
        module, example_input=inputs,
        input=[(name, shape, numpy.int64) for name in names])
    openvino.save_model(model, file, compress_to_fp16=False)


if __name__ == "__main__":
    {"onnx": export_onnx, "openvino": export_openvino}[sys.argv[1]](
        *sys.argv[2:])
