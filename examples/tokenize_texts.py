#!/usr/bin/env python3
"""Turns lines of text into lines of ids, which encast-run reads.

usage: examples/tokenize_texts.py MODEL_FOLDER TEXTS.txt > IDS.jsonl

MODEL_FOLDER is a Hugging Face folder with tokenizer.json. A text longer than
the folder's limit for sentences is cut there, as Sentence Transformers does, and
a note says so. Needs the Python package `tokenizers`.
"""

import json
import pathlib
import sys

import tokenizers


def longest_sequence(folder):
    """In tokens, or None if the folder does not say."""
    for name, field in (("sentence_bert_config.json", "max_seq_length"),
                        ("tokenizer_config.json", "model_max_length")):
        config = folder / name
        if config.exists():
            limit = json.loads(config.read_text()).get(field)
            if limit:
                return limit
    return None


def main(folder, texts_path):
    folder = pathlib.Path(folder)
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()  # Encast takes ragged batches
    tokenizer.no_truncation()
    limit = longest_sequence(folder)
    texts = pathlib.Path(texts_path).read_text(encoding="utf-8").splitlines()
    for number, text in enumerate(texts, 1):
        ids = tokenizer.encode(text).ids
        if limit is not None and len(ids) > limit:
            print(f"tokenize_texts.py: note: line {number} has {len(ids)} "
                  f"tokens, cut to {limit}", file=sys.stderr)
            tokenizer.enable_truncation(limit)
            ids = tokenizer.encode(text).ids
            tokenizer.no_truncation()
        print(json.dumps(ids))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    main(sys.argv[1], sys.argv[2])
