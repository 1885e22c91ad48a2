#!/usr/bin/env python3
"""The closing lines of scripts/demo.

usage: report_demo.py EMBEDDINGS.npy REFERENCE.npy STATS.json ARTIFACT.so
"""

import json
import pathlib
import sys

import numpy


def main(embeddings_path, reference_path, stats_path, artifact_path):
    embeddings = numpy.load(embeddings_path)
    reference = numpy.load(reference_path)
    if embeddings.shape != reference.shape:
        sys.exit(f"report_demo.py: error: {embeddings_path} is "
                 f"{embeddings.shape}, {reference_path} {reference.shape}")
    deviation = numpy.abs(embeddings - reference).max()
    stats = json.loads(pathlib.Path(stats_path).read_text())
    milliseconds = stats["nanoseconds"] / stats["sequences"] / 1e6
    megabytes = pathlib.Path(artifact_path).stat().st_size / 1e6
    print("largest deviation from Hugging Face Transformers: "
          f"{deviation:.1e} (components up to {numpy.abs(reference).max():.2f})")
    print(f"time: {milliseconds:.2f} ms per text ({stats['sequences']} texts, "
          f"{stats['tokens']} tokens, {stats['threads']} threads)")
    print(f"artifact: {artifact_path}, {megabytes:.1f} MB")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__.strip())
    main(*sys.argv[1:])
