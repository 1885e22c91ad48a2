"""Kernels alone, by the benches of ../kernels, and what compiling, loading and
the arena of a model of 350M parameters cost."""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import checkpoints
from engine_process import say
from models import CACHE, LFM2_350M, ROOT, compile_artifact
from provenance import provenance

PART = "kernels"
BENCHES = ["bench-kernels", "bench-tiles", "bench-tile-attention"]
ROUNDS = 9
LONG, SHORT = 8192, 64  # tokens


def bench(build, name):
    """Rows of the table that a bench prints; none if this CPU cannot run it."""
    say(f"running {name}")
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "rows.json"
        done = subprocess.run(
            [str(build / "bin" / name), f"--rounds={ROUNDS}", f"--json={file}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            env=dict(os.environ, OMP_NUM_THREADS="1"))  # oneDNN's
        if done.returncode:
            say(done.stderr.strip())
            return []
        return json.loads(file.read_text())


def artifact_facts(build, threads):
    """Of LFM2.5-350M: seconds to compile, milliseconds to load and of the first
    run beyond a later one, bytes."""
    sys.path.insert(0, str(ROOT / "test" / "support"))
    import libencast

    say("compiling and loading LFM2.5-350M")
    folder = checkpoints.build(CACHE / "models" / "LFM2.5-350M", LFM2_350M)
    runtime = build / "lib" / "libencast.so"
    library = libencast.Library(runtime)
    facts = {}
    for precision in ("f32", "bf16"):
        artifact = CACHE / "made" / f"LFM2.5-350M.{precision}.so"
        start = time.monotonic()
        compile_artifact(build, folder, artifact, precision)
        compiled = time.monotonic() - start
        for _ in open(artifact, "rb"):  # into the page cache
            pass
        start = time.monotonic()
        model = libencast.Model(library, artifact)
        session = libencast.Session(model, threads)
        session.reserve(SHORT, 1, 1)
        loaded = time.monotonic() - start
        run, _ = session.prepare([[1000 + i for i in range(SHORT)]],
                                 ["last_hidden_state"])
        times = []
        for _ in range(8):
            start = time.monotonic()
            run()
            times.append(time.monotonic() - start)
        session.reserve(LONG, 1, 1)
        facts[precision] = {
            "compile_seconds": compiled, "bytes": artifact.stat().st_size,
            "load_milliseconds": 1e3 * loaded,
            "first_run_more_milliseconds":
                1e3 * (times[0] - statistics.median(times[1:])),
            "arena_8192": session.stats().arena_bytes}
        session.close()
        model.close()
        artifact.unlink()
    with tempfile.TemporaryDirectory() as folder:
        stripped = pathlib.Path(folder) / "libencast.so"
        subprocess.run(["strip", "-o", stripped, runtime.resolve()], check=True)
        facts["runtime_bytes"] = stripped.stat().st_size
    return facts


def measure(build, threads):
    return {**provenance(), "benches": {name: bench(build, name)
                                        for name in BENCHES},
            "artifact": artifact_facts(build, threads)}
