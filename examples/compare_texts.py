#!/usr/bin/env python3
"""Prints which texts are alike, from their embeddings.

usage: examples/compare_texts.py TEXTS.txt EMBEDDINGS.npy

The table has the cosine of each pair of texts in hundredths (a dot: below 20),
and for each text the number of the one most like it. Needs the Python package
`numpy`.
"""

import pathlib
import sys

import numpy

TEXT_WIDTH = 32
FAINT = 0.20  # smaller cosines are shown as dots


def shorten(text, width=TEXT_WIDTH):
    return text if len(text) <= width else text[:width - 3].rstrip() + "..."


def main(texts_path, embeddings_path):
    texts = pathlib.Path(texts_path).read_text(encoding="utf-8").splitlines()
    vectors = numpy.load(embeddings_path)
    if len(texts) != len(vectors):
        sys.exit(f"compare_texts.py: error: {texts_path} has {len(texts)} "
                 f"lines, {embeddings_path} {len(vectors)} rows")
    vectors = vectors / numpy.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    best = (cosines - 2 * numpy.eye(len(texts))).argmax(axis=1)

    columns = "".join(f"{number:3}" for number in range(1, len(texts) + 1))
    print(f"{'':{TEXT_WIDTH + 4}}{columns}  most like")
    for row, text in enumerate(texts):
        cells = "".join(
            f"{round(100 * cosine):3}"
            if cosine >= FAINT and column != row else "  ."
            for column, cosine in enumerate(cosines[row]))
        print(f"{row + 1:3} {shorten(text):{TEXT_WIDTH}}{cells}  "
              f"{best[row] + 1:3} ({cosines[row, best[row]]:.2f})")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    main(sys.argv[1], sys.argv[2])
