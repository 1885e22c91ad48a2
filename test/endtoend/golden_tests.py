"""Outputs against Transformers in float64, on the cases of the manifests.

The error of a row is max |y - y64| over the row's scale. Its bound was derived
by make_models.py: four times the error that Transformers itself has in f32, for
lengths up to the sequence's, and at least 3e-6.
"""

import functools
import json
import pathlib

import numpy

from harness import Skip, has_avx512, host_features, require
from invariance_tests import minilm_folder, same_bits

HERE = pathlib.Path(__file__).resolve().parent

# Of fewer columns the rows of a sequence have one cosine together: some labels'
# logits all cancel to near 0 in one token, and what is left is rounding.
LEAST_COLUMNS = 16
# --precision=bf16x3 keeps two terms of each operand, off by at most 2^-18, and
# leaves out the product of the second ones, another 2^-18. Like the bound of
# f32, four times what one product may be off by.
BF16X3_BOUND = 4 * 3 * 2**-18


class Lines:
    """A file of ids: lists with an entry a line. Token types and attended
    lengths are None where no line has any."""

    def __init__(self, path):
        lines = [json.loads(text) for text in path.read_text().splitlines()]
        lines = [{"ids": line} if isinstance(line, list) else line
                 for line in lines]
        self.ids = [line["ids"] for line in lines]
        self.lengths = [len(ids) for ids in self.ids]
        self.types = self.attended = None
        if any("token_type_ids" in line for line in lines):
            self.types = [line.get("token_type_ids", [0] * length)
                          for line, length in zip(lines, self.lengths)]
        if any("attended_length" in line for line in lines):
            self.attended = [line.get("attended_length", length)
                             for line, length in zip(lines, self.lengths)]


def kept_rows(manifest, output, lengths):
    """For each sequence: its rows of the result that goldens keep."""
    start = 0
    for sequence, length in enumerate(lengths):
        if output["per"] == "token":
            yield [start + row for row in manifest["rows"][str(length)]]
        else:
            yield [sequence]
        start += length


def compare(name, output, manifest, folder, lengths, result, bounds=None,
            least_cosine=-1.0):
    """Returns a line of measures; raises Failure where a bound is broken.
    `bounds`, for each length, are the output's own if not given; cosines say
    nothing about rows of one column."""
    bounds = bounds or output["bound"]
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
        if output["columns"] < LEAST_COLUMNS:
            found, expected = found.reshape(1, -1), expected.reshape(1, -1)
        norms = (numpy.linalg.norm(found, axis=1)
                 * numpy.linalg.norm(expected, axis=1))
        cosine = min(cosine, float(
            ((found * expected).sum(axis=1) / norms).min()))
        absolute = max(absolute, float(difference.max()))
        relative = max(relative, error)
        # `not <=` so that a NaN is worse than everything.
        if not error / bounds[sequence] <= share:
            share = error / bounds[sequence]
            worst = sequence
    require(start == len(golden), f"{name}: {len(golden)} golden rows, "
            f"{start} compared")
    measures = (f"{name}: max abs {absolute:.1e}, max rel {relative:.1e}, "
                f"cosine {cosine:.9f}, {share:.2f} of the bound "
                f"{bounds[worst]:.1e} (at {lengths[worst]} tokens)")
    require(share <= 1, measures)
    require(output["columns"] == 1 or cosine >= least_cosine, measures)
    return measures


def run(context, artifact, case, lines, variant=None):
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
        return session.run(lines.ids, list(case["outputs"]), lines.types,
                           attended=lines.attended)


def check_case(context, manifest, folder, case, model):
    """Compares the outputs for this host and for the generic targets, which
    give the same bits, and the host too unless it multiplies on tiles."""
    lines = Lines(folder / case["ids"])
    require(lines.lengths == case["lengths"],
            f"{case['ids']} has other lengths")

    def measure(results):
        return "\n".join(
            compare(name, output, manifest, folder, lines.lengths,
                    results[name])
            for name, output in case["outputs"].items())

    host = run(context, context.compile(model, *case["arguments"]), case,
               lines)
    measures = measure(host)
    generic = check_generic(context, case, model, lines)
    measure(generic)
    if "amx_bf16" not in host_features():
        require_same_bits(generic, host, "the host")
    return measures


def check_precision(context, manifest, folder, case, model, precision):
    """Compares lower precisions: bf16 by its cosine, bf16x3 by its error."""
    if precision == "bf16x3" and "amx_bf16" not in host_features():
        raise Skip("host lacks amx_bf16")
    lines = Lines(folder / case["ids"])
    artifact = context.compile(model, f"--precision={precision}",
                               *case["arguments"])
    results = run(context, artifact, case, lines)
    bound = {"bf16": 1.0, "bf16x3": BF16X3_BOUND}[precision]

    def measure(results):
        return "\n".join(
            compare(name, output, manifest, folder, lines.lengths,
                    results[name], [bound] * len(lines.lengths),
                    case["bf16_cosine"])
            for name, output in case["outputs"].items())

    measures = measure(results)
    if precision == "bf16":
        measures += "\nx86-64-v3:\n" + measure(
            check_generic(context, case, model, lines, "--precision=bf16"))
    return measures


def check_generic(context, case, model, lines, *options):
    """What the generic targets compute, in the same bits from one artifact and
    the same weights."""
    options = [*case["arguments"], *options]
    alone = context.compile(model, "--target=x86-64-v3", *options)
    both = context.compile(model, "--target=x86-64-v3,x86-64-v4", *options)
    blobs = [context.sizes(artifact)["blobs"] for artifact in (alone, both)]
    require(blobs[0] == blobs[1], f"one target has {blobs[0]} weights, two "
            f"have {blobs[1]}")
    generic = run(context, both, case, lines, "x86-64-v3")
    if has_avx512():
        require_same_bits(generic, run(context, both, case, lines,
                                       "x86-64-v4"), "x86-64-v4")
    return generic


def require_same_bits(generic, results, target):
    for name, result in results.items():
        require(same_bits(generic[name], result),
                f"{name} on {target} has other bits than on x86-64-v3")


def tests(context):
    for path in sorted(HERE.glob("*/manifest.json")):
        manifest = json.loads(path.read_text())
        for case in manifest["cases"]:
            folder = path.parent

            def check(check=check_case, *more, manifest=manifest,
                      folder=folder, case=case):
                model = (folder / case["folder"] if "folder" in case
                         else minilm_folder())
                return check(context, manifest, folder, case, model, *more)

            name = f"golden/{folder.name}/{case['name']}"
            yield name, check
            if "bf16_cosine" not in case:
                continue
            for precision in ("bf16", "bf16x3"):
                yield (f"{name}/{precision}",
                       functools.partial(check, check_precision, precision))
