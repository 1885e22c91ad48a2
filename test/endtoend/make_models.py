#!/usr/bin/env python3
"""Writes the tiny models of the end-to-end tests and their golden outputs.

usage: test/endtoend/make_models.py
       test/endtoend/make_models.py --minilm MODEL_FOLDER

The first form writes models/ and goldens/ beside this script, from the cases of
model_cases.py. The second writes minilm/: references of the real
all-MiniLM-L6-v2 for examples/texts.txt and for a ladder of lengths.

Needs torch, transformers, sentence-transformers and tokenizers, which no test
needs: what is written is committed, with the versions in manifest.json. The
same versions write the same bytes.
"""

import argparse
import json
import pathlib
import platform
import shutil

import numpy
import sentence_transformers
import tokenizers
import torch
import transformers

import model_cases
import model_folders
import references

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# The order in which Encast offers outputs, and takes its default from.
ORDER = ["last_hidden_state", "pooler_output", "sentence_embedding",
         "token_embeddings", "logits", "nsp_logits", "token_logits",
         "start_logits", "end_logits", "token_projections", "rule_projections"]
DEFAULTS = ["sentence_embedding", "logits", "token_logits",
            "last_hidden_state"]
TOKEN_OUTPUTS = set(ORDER) - {"pooler_output", "sentence_embedding", "logits",
                              "nsp_logits"}

# Error of f32 that is always allowed, and how much more than Transformers has.
FLOOR = 3e-6
FACTOR = 4

# The least cosine of --precision=bf16 where weights are as in trained models.
BF16_COSINE = 0.9999


def stored_rows(length, whole=20, spread=8):
    """Rows of a token output that goldens keep: all of a short sequence, of a
    long one the ends and some evenly between."""
    if length <= whole:
        return list(range(length))
    rows = {0, 1, 2, 3, *range(length - 4, length)}
    rows.update(i * (length - 1) // (spread + 1) for i in range(spread + 2))
    return sorted(rows)


class Recorder:
    """Collects the golden rows of one case, and the error of f32."""

    def __init__(self, folder, outputs=None, rows=stored_rows):
        self.exact = references.load(folder, torch.float64)
        self.single = references.load(folder, torch.float32)
        self.outputs, self.rows = outputs, rows
        self.lines, self.golden, self.scale, self.errors = [], {}, {}, {}

    def add(self, ids, types=None, attended=None):
        exact, scales = self.exact.run(ids, types, attended)
        single, _ = self.single.run(ids, types, attended)
        more = {"token_type_ids": types, "attended_length": attended}
        more = {key: value for key, value in more.items() if value is not None}
        self.lines.append({"ids": ids, **more} if more else ids)
        for name in self.outputs or exact:
            scale = scales[name]
            error = numpy.abs(single[name] - exact[name]).max(1) / scale
            kept = (self.rows(len(ids)) if name in TOKEN_OUTPUTS else [0])
            self.golden.setdefault(name, []).append(exact[name][kept])
            self.scale.setdefault(name, []).append(scale[kept])
            self.errors.setdefault(name, []).append(error.max())

    def write(self, folder, name, only=None):
        """Writes the files; returns the manifest's entry."""
        lengths = [len(line["ids"] if isinstance(line, dict) else line)
                   for line in self.lines]
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps(line, separators=(",", ":")) + "\n"
                    for line in self.lines))
        outputs = {}
        for output in sorted(self.golden, key=ORDER.index):
            stem = name if only else f"{name}.{output}"
            golden = numpy.concatenate(self.golden[output])
            numpy.save(folder / f"{stem}.npy", golden.astype("<f4"))
            numpy.save(folder / f"{stem}.scale.npy", numpy.concatenate(
                self.scale[output]).astype("<f4"))
            errors = numpy.array(self.errors[output])
            pooled = [errors[numpy.array(lengths) <= length].max()
                      for length in lengths]
            outputs[output] = {
                "per": "token" if output in TOKEN_OUTPUTS else "sequence",
                "columns": golden.shape[1],
                "expected": f"{stem}.npy",
                "scale": f"{stem}.scale.npy",
                "bound": [float(f"{max(FLOOR, FACTOR * error):.3e}")
                          for error in pooled],
            }
        return {"name": name, "ids": f"{name}.jsonl", "lengths": lengths,
                "outputs": outputs}


def versions():
    return {"script": "test/endtoend/make_models.py",
            "seed": model_folders.SEED, "python": platform.python_version(),
            "numpy": numpy.__version__, "torch": torch.__version__,
            "transformers": transformers.__version__,
            "sentence_transformers": sentence_transformers.__version__,
            "tokenizers": tokenizers.__version__}


def write_manifest(folder, cases, rows):
    lengths = sorted({length for case in cases for length in case["lengths"]})
    body = ",\n".join(json.dumps(case) for case in cases)
    kept = ", ".join(f'"{length}": {rows(length)}' for length in lengths)
    (folder / "manifest.json").write_text(
        f'{{"generator": {json.dumps(versions())},\n"rows": {{{kept}}},\n'
        f'"cases": [\n{body}\n]}}\n')


def draw_line(random, case, length):
    """Ids that may be any but the pad id at the end, which warns; and what
    lines of the case have beside them."""
    ids = random.integers(0, case.config["vocab_size"], length).tolist()
    pad = case.config.get("pad_token_id", 0)
    if ids[-1] == pad:
        ids[-1] = 0 if pad else 1
    line = [ids, None, None]
    if case.family == "bert":
        types = random.integers(0, case.config["type_vocab_size"],
                                length).tolist()
        if case.token_types:
            line[1] = types
    if case.attended:
        line[2] = int(random.integers(1, length + 1))
    return line


def make_models():
    models, goldens = HERE / "models", HERE / "goldens"
    for folder in [models, goldens]:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    entries = []
    for case in model_cases.all_cases():
        folder = models / case.name
        model_folders.write_folder(case, folder)
        random = numpy.random.default_rng([model_folders.SEED, len(entries)])
        outputs = None
        if "--task=feature-extraction" in case.arguments:
            outputs = ["last_hidden_state", "pooler_output"]
        recorder = Recorder(folder, outputs)
        for length in case.lengths:
            recorder.add(*draw_line(random, case, length))
        entry = recorder.write(goldens, case.name)
        entry["folder"] = f"../models/{case.name}"
        entry["arguments"] = case.arguments
        if case.family != "bert":
            entry["bf16_cosine"] = BF16_COSINE
        entry["default"] = next(
            name for name in DEFAULTS if name in entry["outputs"])
        entries.append(entry)
        print(case.name, {name: f"{output['bound'][-1]:.1e}"
                          for name, output in entry["outputs"].items()},
              flush=True)
    write_manifest(goldens, entries, stored_rows)


def make_minilm(folder):
    """Texts as examples/tokenize_texts.py cuts them, and a ladder of lengths
    whose sequences are windows of all texts one after the other."""
    target = HERE / "minilm"
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir()
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    texts = (ROOT / "examples/texts.txt").read_text().splitlines()
    encoded = [tokenizer.encode(text).ids for text in texts]

    def ends(length):
        return sorted({0, length // 2, length - 1})

    recorder = Recorder(folder, ["sentence_embedding"])
    for ids in encoded:
        recorder.add(ids)
    entries = [recorder.write(target, "texts", only="sentence_embedding")]

    words = [token for ids in encoded for token in ids[1:-1]]
    start, end = encoded[0][0], encoded[0][-1]
    recorder = Recorder(folder, rows=ends)
    for step, length in enumerate(model_cases.LONG_LENGTHS):
        window = [words[(17 * step + i) % len(words)] for i in range(length)]
        window[0] = start
        window[-1] = end
        recorder.add(window)
    entries.append(recorder.write(target, "ladder"))
    for entry in entries:
        entry["default"] = "sentence_embedding"
        entry["bf16_cosine"] = BF16_COSINE
        entry["arguments"] = []
    write_manifest(target, entries, ends)


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False,
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--minilm", type=pathlib.Path, metavar="MODEL_FOLDER")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    transformers.logging.set_verbosity_error()
    if arguments.minilm:
        make_minilm(arguments.minilm)
    else:
        make_models()


if __name__ == "__main__":
    main()
