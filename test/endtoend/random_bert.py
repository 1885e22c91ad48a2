"""Small random BERT folders, written without any package but numpy."""

import json
import struct

import numpy


def config(**changes):
    """A config.json of a model with odd sizes: tails in every dimension."""
    values = {
        "architectures": ["BertModel"], "model_type": "bert",
        "vocab_size": 211, "hidden_size": 60, "num_hidden_layers": 3,
        "num_attention_heads": 5, "intermediate_size": 102,
        "hidden_act": "gelu", "max_position_embeddings": 160,
        "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
    }
    values.update(changes)
    return values


def tensors(config, seed=1):
    """Name to f32 array, of a BertModel with a pooler."""
    random = numpy.random.default_rng(seed)
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    found = {}

    def linear(name, rows, columns):
        found[name + ".weight"] = random.normal(
            0, columns**-0.5, (rows, columns))
        found[name + ".bias"] = random.normal(0, 0.1, rows)

    def norm(name):
        found[name + ".weight"] = random.normal(1, 0.2, hidden)
        found[name + ".bias"] = random.normal(0, 0.1, hidden)

    for table, rows in (("word", config["vocab_size"]),
                        ("position", config["max_position_embeddings"]),
                        ("token_type", config["type_vocab_size"])):
        found[f"embeddings.{table}_embeddings.weight"] = random.normal(
            0, 0.5, (rows, hidden))
    norm("embeddings.LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        prefix = f"encoder.layer.{layer}."
        for name in ("query", "key", "value"):
            linear(f"{prefix}attention.self.{name}", hidden, hidden)
        linear(prefix + "attention.output.dense", hidden, hidden)
        norm(prefix + "attention.output.LayerNorm")
        linear(prefix + "intermediate.dense", inner, hidden)
        linear(prefix + "output.dense", hidden, inner)
        norm(prefix + "output.LayerNorm")
    linear("pooler.dense", hidden, hidden)
    return {name: value.astype(numpy.float32)
            for name, value in found.items()}


def safetensors(tensors):
    """The bytes of a safetensors file of f32 arrays."""
    header, data, end = {}, [], 0
    for name, value in tensors.items():
        begin, end = end, end + value.nbytes
        header[name] = {"dtype": "F32", "shape": list(value.shape),
                        "data_offsets": [begin, end]}
        data.append(value.tobytes())
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data)


def write(folder, config, tensors):
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(safetensors(tensors))
    return folder


def make(folder, seed=1, **changes):
    """Writes a folder and returns its path."""
    values = config(**changes)
    return write(folder, values, tensors(values, seed))


def sequences(random, config, lengths):
    """Ids and token types of the given lengths."""
    ids = [random.integers(0, config["vocab_size"], n).tolist()
           for n in lengths]
    types = [random.integers(0, config["type_vocab_size"], n).tolist()
             for n in lengths]
    return ids, types
