"""Sessions over compiled plans: their memory and their progress."""

import pathlib

from harness import ROOT, require

MODELS = ROOT / "test" / "endtoend" / "models"
TOKENS = 8192


def resident_bytes():
    pages = pathlib.Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


def check_memory(context, artifact, threads):
    """A document of 8192 tokens takes what the formula says: the arena is that
    to the byte, and the process grows by it, the mapped weights and what the
    caller gives, but for 2 MB and 128 KB a thread."""
    ids = [[5] * TOKENS]
    with context.session(artifact, threads) as session:
        names = list(session.model.outputs)
        needed = session.memory_needed(TOKENS, 1, 0)
        before = resident_bytes()
        run, _ = session.prepare(ids, names)
        run()
        grown = resident_bytes() - before
        require(session.stats().arena_bytes == needed,
                f"arena of {session.stats().arena_bytes}, needed {needed}")
        given = sum(array.nbytes for array in run.keeps)
        allowed = (needed + given + session.model.info.weights_bytes
                   + (2 << 20) + threads * (128 << 10))
        require(grown <= allowed, f"grew by {grown}, allowed {allowed}")
    return f"arena {needed / 1e6:.1f} MB, grew by {grown / 1e6:.1f} MB"


def check_progress(context, artifact):
    """One report behind each layer, of a growing share."""
    shares = []
    with context.session(artifact, 2, progress=shares.append) as session:
        session.run([[5] * 100], list(session.model.outputs))
        layers = session.model.info.layers
    require(len(shares) == layers and shares == sorted(set(shares))
            and 0 < shares[0] and shares[-1] <= 1,
            f"{layers} layers, but the reports {shares}")


def tests(context):
    for name in ("lfm2-8192", "modernbert-8192"):
        for precision in ("f32", "bf16"):
            def artifact(name=name, precision=precision):
                return context.compile(MODELS / name,
                                       f"--precision={precision}")

            for threads in (1, 2):
                yield (f"session/memory/{name}/{precision}/{threads}",
                       lambda artifact=artifact, threads=threads: check_memory(
                           context, artifact(), threads))
            yield (f"session/progress/{name}/{precision}",
                   lambda artifact=artifact: check_progress(context,
                                                            artifact()))
