"""Goldens notice small faults: a model with one thing changed must break them.

A mutation edits config.json or swaps bytes of tensors in a copy of a tiny
model, so that the artifact computes what a faulty importer or kernel would.
"""

import json
import shutil
import struct

import numpy

import golden_tests
from harness import Failure, require

GOLDENS = golden_tests.HERE / "goldens"


class Checkpoint:
    """model.safetensors whose tensors can be edited in place."""

    def __init__(self, folder):
        self.path = folder / "model.safetensors"
        data = self.path.read_bytes()
        size, = struct.unpack("<Q", data[:8])
        self.header = json.loads(data[8:8 + size])
        self.data = bytearray(data[8 + size:])

    def words(self, name):
        """The tensor as integers of its width, in its shape; writes go to the
        file at save()."""
        entry = self.header[name]
        begin, end = entry["data_offsets"]
        width = {"F32": "<u4", "F16": "<u2", "BF16": "<u2"}[entry["dtype"]]
        return numpy.frombuffer(self.data, width)[
            begin // int(width[2]):end // int(width[2])].reshape(
                entry["shape"])

    def names(self, part):
        return [name for name in self.header if part in name]

    def save(self):
        text = json.dumps(self.header).encode()
        text += b" " * (-len(text) % 8)
        self.path.write_bytes(struct.pack("<Q", len(text)) + text + self.data)


def config(**changes):
    """Each change is a value, or a function of the old one."""
    def mutate(folder):
        path = folder / "config.json"
        values = json.loads(path.read_text())
        for key, value in changes.items():
            values[key] = value(values[key]) if callable(value) else value
        path.write_text(json.dumps(values))
    return mutate


def tensors(change):
    def mutate(folder):
        checkpoint = Checkpoint(folder)
        change(checkpoint)
        checkpoint.save()
    return mutate


def shift_taps(checkpoint):
    """The convolution reads one token to the side."""
    for name in checkpoint.names("conv.conv.weight"):
        taps = checkpoint.words(name)
        taps[...] = numpy.roll(taps, 1, axis=2)
        taps[:, :, 0] = 0


def swap_halves(part):
    def change(checkpoint):
        for name in checkpoint.names(part):
            rows = checkpoint.words(name)
            rows[...] = numpy.roll(rows, len(rows) // 2, axis=0)
    return change


def swap_names(first, second):
    """Exchanges what stands under two parts of names."""
    def change(checkpoint):
        swapped = {}
        for name, entry in checkpoint.header.items():
            other = (name.replace(first, second) if first in name
                     else name.replace(second, first))
            swapped[other] = entry
        checkpoint.header = swapped
    return change


def without_gain(part):
    """A norm whose weights are 1."""
    def change(checkpoint):
        for name in checkpoint.names(part):
            one = {"F32": 0x3f800000, "F16": 0x3c00, "BF16": 0x3f80}[
                checkpoint.header[name]["dtype"]]
            checkpoint.words(name)[...] = one
    return change


def swap_layers(folder):
    """The layers 0 and 1 change places, and the mixers with them."""
    tensors(swap_names("layers.0.", "layers.1."))(folder)
    config(layer_types=lambda types: [types[1], types[0], *types[2:]])(folder)


def each_theta(factor):
    def change(parameters):
        for entry in parameters.values():
            entry["rope_theta"] *= factor
        return parameters
    return change


FULL, SLIDING = "full_attention", "sliding_attention"

# Name, model, and what is done to it.
MUTATIONS = [
    ("window_wider", "modernbert-window-8",
     config(local_attention=lambda width: width + 2)),
    ("window_narrower", "modernbert-window-8",
     config(local_attention=lambda width: width - 2)),
    ("window_64_wider", "modernbert-window-64",
     config(local_attention=lambda width: width + 2)),
    ("window_64_narrower", "modernbert-window-64",
     config(local_attention=lambda width: width - 2)),
    ("full_theta", "modernbert-window-3",
     config(global_rope_theta=lambda theta: theta * 1.01)),
    ("local_theta", "modernbert-window-3",
     config(local_rope_theta=lambda theta: theta * 1.01)),
    ("thetas_of_types", "modernbert-window-64",
     config(rope_parameters=each_theta(1.01))),
    ("pattern_of_windows", "modernbert-window-64",
     config(layer_types=[FULL, SLIDING])),
    ("period_of_windows", "modernbert-window-3",
     config(global_attn_every_n_layers=3)),
    ("epsilon", "modernbert-masked-lm-untied",
     config(norm_eps=lambda epsilon: 10 * epsilon)),
    ("default_epsilon", "modernbert-window-8", config(norm_eps=1e-4)),
    ("gate_and_up", "modernbert-window-8",
     tensors(swap_halves("mlp.Wi.weight"))),
    ("query_and_key_order", "modernbert-window-8",
     tensors(lambda checkpoint: [
         rows.__setitem__(..., numpy.roll(rows, len(rows) // 3, axis=0))
         for rows in map(checkpoint.words, checkpoint.names("Wqkv"))])),
    ("activation", "modernbert-window-8",
     config(hidden_activation="gelu_pytorch_tanh")),
    ("pooling", "modernbert-sequence-mean", config(classifier_pooling="cls")),
    ("convolution_shifted", "lfm2-pattern-350m", tensors(shift_taps)),
    ("convolution_chunks", "lfm2-pattern-350m",
     tensors(swap_halves("conv.in_proj.weight"))),
    ("theta", "lfm2-pattern-230m",
     config(rope_theta=lambda theta: theta * 1.01)),
    ("layers_swapped", "lfm2-masked-lm", swap_layers),
    ("rms_epsilon", "lfm2-biases",
     config(norm_eps=lambda epsilon: 10 * epsilon)),
    ("default_rms_epsilon", "lfm2-pattern-350m", config(norm_eps=1e-4)),
    ("gate_for_up", "lfm2-pattern-350m", tensors(swap_names(".w1.", ".w3."))),
    ("query_norm", "lfm2-attention-only",
     tensors(without_gain("q_layernorm"))),
    ("key_norm", "lfm2-attention-only", tensors(without_gain("k_layernorm"))),
    ("norms_of_query_and_key", "lfm2-attention-only",
     tensors(swap_names("q_layernorm", "k_layernorm"))),
]


def golden_case(name):
    manifest = json.loads((GOLDENS / "manifest.json").read_text())
    return manifest, next(case for case in manifest["cases"]
                          if case["name"] == name)


def check_mutation(context, model, mutate):
    manifest, case = golden_case(model)
    folder = context.folder("mutation") / model
    shutil.copytree(GOLDENS / case["folder"], folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    mutate(folder)
    require(before != {path.name: path.read_bytes()
                       for path in folder.iterdir()}, "nothing was changed")
    lines = golden_tests.Lines(GOLDENS / case["ids"])
    results = golden_tests.run(context, context.compile(folder), case, lines)
    for name, output in case["outputs"].items():
        try:
            measures = golden_tests.compare(name, output, manifest, GOLDENS,
                                            lines.lengths, results[name])
        except Failure as noticed:
            return str(noticed)
    raise Failure(f"not noticed: {measures}")


def tests(context):
    for name, model, mutate in MUTATIONS:
        yield (f"mutation/{name}",
               lambda model=model, mutate=mutate: check_mutation(
                   context, model, mutate))
