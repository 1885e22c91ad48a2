"""Outputs against Transformers in float64, on the cases of the manifests.

The error of a row is max |y - y64| over the row's scale. Its bound was derived
by make_models.py: four times the error that Transformers itself has in f32, for
lengths up to the sequence's, and at least 3e-6.
"""

import json
import pathlib

import numpy

from harness import has_avx512, require
from invariance_tests import minilm_folder, same_bits

HERE = pathlib.Path(__file__).resolve().parent


def read_lines(path):
    """Ids and token types of each line of ids."""
    ids, types = [], []
    for text in path.read_text().splitlines():
        line = json.loads(text)
        if isinstance(line, list):
            line = {"ids": line}
        ids.append(line["ids"])
        types.append(line.get("token_type_ids", [0] * len(line["ids"])))
    return ids, types


def kept_rows(manifest, output, lengths):
    """For each sequence: its rows of the result that goldens keep."""
    start = 0
    for sequence, length in enumerate(lengths):
        if output["per"] == "token":
            yield [start + row for row in manifest["rows"][str(length)]]
        else:
            yield [sequence]
        start += length


def compare(name, output, manifest, folder, lengths, result):
    """Returns a line of measures; raises Failure where a bound is broken."""
    golden = numpy.load(folder / output["expected"]).astype(numpy.float64)
    scale = numpy.load(folder / output["scale"]).astype(numpy.float64)
    require(result.shape[1] == output["columns"],
            f"{name} has {result.shape[1]} columns, not {output['columns']}")
    start = 0
    absolute = relative = share = 0.0
    cosine = 1.0
    worst = 0
    for sequence, rows in enumerate(kept_rows(manifest, output, lengths)):
        expected = golden[start:start + len(rows)]
        found = result[rows].astype(numpy.float64)
        difference = numpy.abs(found - expected).max(axis=1)
        error = float((difference / scale[start:start + len(rows)]).max())
        start += len(rows)
        norms = (numpy.linalg.norm(found, axis=1)
                 * numpy.linalg.norm(expected, axis=1))
        cosine = min(cosine, float(
            ((found * expected).sum(axis=1) / norms).min()))
        absolute = max(absolute, float(difference.max()))
        relative = max(relative, error)
        # `not <=` so that a NaN is worse than everything.
        if not error / output["bound"][sequence] <= share:
            share = error / output["bound"][sequence]
            worst = sequence
    require(start == len(golden), f"{name}: {len(golden)} golden rows, "
            f"{start} compared")
    measures = (f"{name}: max abs {absolute:.1e}, max rel {relative:.1e}, "
                f"cosine {cosine:.9f}, {share:.2f} of the bound "
                f"{output['bound'][worst]:.1e} (at {lengths[worst]} tokens)")
    require(share <= 1, measures)
    return measures


def run(context, artifact, case, ids, types, variant=None):
    """Every output in one run of all lengths, by name."""
    with context.session(artifact, 2, variant) as session:
        offered = session.model.outputs
        # The manifest of a real model may name some outputs only.
        exact = "folder" in case
        require(list(offered) == list(case["outputs"]) if exact
                else set(case["outputs"]) <= set(offered),
                f"offers {list(offered)}")
        require(session.model.default_output == case["default"],
                f"the default output is {session.model.default_output}")
        for name, output in case["outputs"].items():
            require(offered[name][2] == (output["per"] == "token"),
                    f"{name} is not a row per {output['per']}")
        return session.run(ids, list(case["outputs"]), types)


def check_case(context, manifest, folder, case, model):
    """Compares the outputs for this host, whose bits the generic variants
    have to give too."""
    ids, types = read_lines(folder / case["ids"])
    lengths = [len(sequence) for sequence in ids]
    require(lengths == case["lengths"], f"{case['ids']} has other lengths")
    results = run(context, context.compile(model, *case["arguments"]), case,
                  ids, types)
    measures = "\n".join(
        compare(name, output, manifest, folder, lengths, results[name])
        for name, output in case["outputs"].items())
    both = context.compile(model, "--target=x86-64-v3,x86-64-v4",
                           *case["arguments"])
    for variant in ["x86-64-v3"] + ["x86-64-v4"] * has_avx512():
        others = run(context, both, case, ids, types, variant)
        for name, result in results.items():
            require(same_bits(others[name], result),
                    f"{name} on {variant} has other bits than on the host")
    return measures


def tests(context):
    for path in sorted(HERE.glob("*/manifest.json")):
        manifest = json.loads(path.read_text())
        for case in manifest["cases"]:
            folder = path.parent

            def check(manifest=manifest, folder=folder, case=case):
                model = (folder / case["folder"] if "folder" in case
                         else minilm_folder())
                return check_case(context, manifest, folder, case, model)

            yield f"golden/{folder.name}/{case['name']}", check
