"""encast-run, encast-inspect and encast-bench on real artifacts."""

import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import time

import numpy

import random_bert
from harness import Skip, require, require_refused

LENGTHS = [3, 1, 40, 160, 17]


class Model:
    """A small model, its artifact and a file of ids."""

    def __init__(self, context):
        self.context = context
        self.folder = random_bert.make(context.folder("tools") / "bert")
        config = random_bert.config()
        self.ids, self.types = random_bert.sequences(
            numpy.random.default_rng(5), config, LENGTHS)

    @property
    def artifact(self):
        return self.context.compile(self.folder)

    def expected(self, name, types=False):
        with self.context.session(self.artifact) as session:
            return session.run(self.ids, [name],
                               self.types if types else None)[name]

    def run(self, text, *options):
        """(the finished process, the path of the output)."""
        work = self.context.folder("run")
        (work / "ids.jsonl").write_bytes(text)
        out = work / "out.npy"
        return self.context.run(
            "encast-run", self.artifact, "--ids", work / "ids.jsonl", "--out",
            out, *options), out

    def lines(self):
        return "".join(json.dumps(ids) + "\n" for ids in self.ids).encode()


def require_output(done, out, expected):
    require(done.returncode == 0, done.stderr.decode())
    require(not done.stdout, "stdout is not empty")
    header = out.read_bytes()[:8]
    require(header == b"\x93NUMPY\x01\x00", f"header {header}")
    found = numpy.load(out)
    require(found.dtype == numpy.dtype("<f4") and found.ndim == 2,
            f"{found.dtype} of {found.ndim} dimensions")
    require(numpy.array_equal(found, expected), "other values than libencast")


def check_run(model):
    """The default output is named on stderr; --output takes any other."""
    done, out = model.run(model.lines())
    require_output(done, out, model.expected("last_hidden_state"))
    require(b"last_hidden_state" in done.stderr, "does not say which output")
    done, out = model.run(model.lines(), "--output", "pooler_output",
                          "--threads", "2")
    require_output(done, out, model.expected("pooler_output"))


def check_forms_of_lines(model):
    """CRLF, a missing last newline, objects with token types; no line."""
    expected = model.expected("last_hidden_state")
    done, out = model.run(model.lines().replace(b"\n", b"\r\n"))
    require_output(done, out, expected)
    done, out = model.run(model.lines()[:-1])
    require_output(done, out, expected)
    objects = "".join(
        json.dumps({"token_type_ids": types, "ids": ids}) + "\n"
        for ids, types in zip(model.ids, model.types)).encode()
    done, out = model.run(objects)
    require_output(done, out, model.expected("last_hidden_state", types=True))
    done, out = model.run(b"")
    require_output(done, out, numpy.zeros((0, 60), numpy.float32))


def check_stdin(model):
    work = model.context.folder("stdin")
    ids = work / "ids.jsonl"
    ids.write_bytes(model.lines())
    with open(ids) as lines:
        done = model.context.run("encast-run", model.artifact, "--ids", "-",
                                 "--out", work / "out.npy", stdin=lines)
    require_output(done, work / "out.npy",
                   model.expected("last_hidden_state"))


def check_small_memory_cap(model):
    """Under a cap, lines are packed into several runs with the same bits."""
    with model.context.session(model.artifact) as session:
        session.run([model.ids[3]], ["last_hidden_state"])
        cap = session.stats().arena_bytes
    done, out = model.run(model.lines(), "--memory-cap", str(cap),
                          "--threads", "1")
    require_output(done, out, model.expected("last_hidden_state"))
    done, out = model.run(model.lines(), "--memory-cap", "4096")
    require_refused(done, "4096")
    require(not out.exists(), "something was written")


BAD_LINES = {
    "empty_array": (b"[1]\n[]\n", "2"),
    "blank_line": (b"[1]\n\n[2]\n", "2"),
    "fraction": (b"[1, 1.0]\n", "1.*1"),
    "exponent": (b"[1e1]\n", "1"),
    "negative": (b"[3]\n[3]\n[4, -1]\n", "3.*-1"),
    "out_of_vocabulary": (b"[1, 2, 211]\n", "211"),
    "over_64_bits": (b"[18446744073709551617]\n", "1"),
    "leading_zero": (b"[01]\n", "1"),
    "text": (b"hello\n", "1"),
    "string": (b'["1"]\n', "1"),
    "nested": (b"[[1]]\n", "1"),
    "deep": (b"[" * 100000 + b"\n", "1"),
    "two_values": (b"[1] [2]\n", "1"),
    "unknown_key": (b'{"ids": [1], "mask": [1]}\n', "mask"),
    "key_twice": (b'{"ids": [1], "ids": [2]}\n', "ids"),
    "no_ids": (b'{"token_type_ids": [0]}\n', "ids"),
    "lengths_differ": (b'{"ids": [1, 2], "token_type_ids": [0]}\n',
                       "token_type_ids"),
    "token_type_out_of_range": (b'{"ids": [1], "token_type_ids": [2]}\n',
                                "2"),
    "too_long": (json.dumps([1] * 161).encode() + b"\n", "160.*161|161.*160"),
    "not_utf8": (b'{"\xff": [1]}\n', "1"),
    "key_of_two_lines": (b'{"a\\nb": [1]}\n', r"a\\x0ab"),
    "long_key": (b'{"' + b"k" * 100000 + b'": [1]}\n', "k{64}[.]{3}"),
}


def check_bad_lines(model, text, expected):
    """Refused with line (and position), and nothing is written."""
    done, out = model.run(text)
    require_refused(done, rf"ids\.jsonl.*(?:{expected})")
    require(not out.exists(), "something was written")


def check_options(model):
    """Unknown outputs list the valid ones; options are checked."""
    done, out = model.run(b"[1]\n", "--output", "embedding")
    require_refused(done, "embedding.*last_hidden_state.*pooler_output")
    for options, expected in ((["--threads", "two"], "two"),
                              (["--threads", "-1"], "-1"),
                              (["--memory-cap", "1x"], "1x"),
                              (["--variant", "znver9"], "znver9"),
                              (["--speed"], "speed")):
        done, out = model.run(b"[1]\n", *options)
        require_refused(done, expected)
        require(not out.exists(), "something was written")
    require_refused(model.context.run("encast-run"), "MODEL|artifact|usage")
    missing = model.context.folder("none") / "model.so"
    require_refused(model.context.run("encast-run", missing, "--ids", "-",
                                      "--out", missing.with_suffix(".npy")),
                    re.escape(str(missing)))


def check_places(model):
    """What is not a file is not replaced; the longest name works."""
    work = model.context.folder("places")
    (work / "ids.jsonl").write_bytes(b"[1]\n")
    pipe, out = work / "pipe", work / "out.npy"
    os.mkfifo(pipe)

    def run(*options):
        return model.context.run("encast-run", model.artifact, "--ids",
                                 work / "ids.jsonl", *options)

    require_refused(run("--out", pipe), f"{pipe}.*not a regular file")
    require_refused(run("--out", out, "--stats", pipe),
                    f"{pipe}.*not a regular file")
    require_refused(run("--out", out, "--stats", out), "same file")
    before = model.artifact.read_bytes()
    for option in ("--out", "--stats"):
        for file in (work / "ids.jsonl", model.artifact):
            require_refused(run("--out", out, option, file), "same file")
    require_refused(model.context.run("encast-bench", model.artifact,
                                      "--lengths=1", "--json", model.artifact),
                    "same file")
    require(model.artifact.read_bytes() == before, "the artifact changed")
    require_refused(run("--out", out, "--stats", work / "none" / "stats"),
                    "none/stats")
    require_refused(run("--out", work), f"{work}.*not a regular file")
    require_refused(run("--out", work / "none" / "out.npy"), "none/out")
    require(sorted(os.listdir(work)) == ["ids.jsonl", "pipe"],
            f"left behind: {os.listdir(work)}")
    done = run("--out", work / ("o" * 255))
    require(done.returncode == 0, done.stderr.decode())


def check_limits(model):
    """Limits of file size and memory, and closed streams, end in an error."""
    def limited(kind, limit):
        return lambda: resource.setrlimit(kind, (limit, limit))

    def run(name, lines, preexec):
        work = model.context.folder(name)
        (work / "ids.jsonl").write_bytes(lines)
        done = model.context.run(
            "encast-run", model.artifact, "--ids", work / "ids.jsonl", "--out",
            work / "out.npy", "--stats", work / "stats.json",
            preexec_fn=preexec)
        return done, work

    size = 128 + 60 * 4 * sum(LENGTHS)  # of a header and rows
    # Too small at once, and for what is written last.
    for limit in (512, size - 1):
        done, work = run("size", model.lines(),
                         limited(resource.RLIMIT_FSIZE, limit))
        require_refused(done, "out.npy: cannot write the file: File too large")
        require(os.listdir(work) == ["ids.jsonl"], "something was written")
    line = b"[" + b"1, " * 159 + b"1]\n"
    done, work = run("memory", line * 200000,
                     limited(resource.RLIMIT_AS, 1 << 28))
    require_refused(done, "memory")
    require(os.listdir(work) == ["ids.jsonl"], "something was written")

    def close_streams():
        os.closerange(0, 3)

    # Each line warns of a pad id while out.npy is not written yet.
    done, work = run("closed", b"[1, 0]\n", close_streams)
    require(done.returncode == 0, f"exit status {done.returncode}")
    require(numpy.load(work / "out.npy").shape == (2, 60), "wrong shape")


def unnamed_files(process):
    """Of those that a process has open."""
    links = pathlib.Path(f"/proc/{process.pid}/fd")
    try:
        return [link for link in links.iterdir()
                if os.readlink(link).endswith("(deleted)")]
    except FileNotFoundError:  # closed meanwhile, or the process has ended
        return []


def check_killed(model):
    """A process that is ended in the middle leaves nothing."""
    work = model.context.folder("killed")
    ids = json.dumps(model.ids[3]).encode() + b"\n"
    (work / "ids.jsonl").write_bytes(ids * 20000)
    process = subprocess.Popen(
        [model.context.bin / "encast-run", model.artifact, "--ids",
         work / "ids.jsonl", "--out", work / "out.npy"],
        stderr=subprocess.PIPE)
    try:
        while process.poll() is None and not unnamed_files(process):
            if os.listdir(work) != ["ids.jsonl"]:
                raise Skip("the file system has no files without names")
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        process.wait()
    finally:
        process.kill()
        process.communicate()
    require(process.returncode == -signal.SIGTERM,
            f"exit status {process.returncode}")
    require(os.listdir(work) == ["ids.jsonl"],
            f"left behind: {os.listdir(work)}")


def check_environment(model):
    """ENCAST_LOG and ENCAST_THREADS choose what is not chosen otherwise."""
    def run(*options, **environment):
        work = model.context.folder("environment")
        (work / "ids.jsonl").write_bytes(b"[1]\n")
        return model.context.succeed(
            "encast-run", model.artifact, "--ids", work / "ids.jsonl", "--out",
            work / "out.npy", "--stats", work / "stats.json", *options,
            env={**os.environ, **environment}), work / "stats.json"

    for log, threads, expected in ((None, "many", "ENCAST_THREADS is 'many'"),
                                   ("warning", "many", "ENCAST_THREADS"),
                                   ("info", "1", "loaded, variant"),
                                   ("error", "many", None),
                                   ("", "many", "ENCAST_THREADS"),
                                   ("warn", "many", "ENCAST_THREADS")):
        given = {"ENCAST_THREADS": threads}
        if log is not None:
            given["ENCAST_LOG"] = log
        lines = run(**given)[0].stderr.decode().splitlines()
        require(len(lines) == (2 if expected else 1)
                and (expected or "") in lines[0], f"{given}: {lines}")
    for options, threads in ((["--threads", "1"], 1), ([], 3)):
        stats = run(*options, ENCAST_THREADS="3", POSIXLY_CORRECT="1")[1]
        require(json.loads(stats.read_text())["threads"] == threads,
                f"{options}: not {threads} threads")


def check_stats(model):
    work = model.context.folder("stats")
    done, _ = model.run(model.lines(), "--stats", work / "stats.json")
    require(done.returncode == 0, done.stderr.decode())
    stats = json.loads((work / "stats.json").read_text())
    require(stats["sequences"] == len(LENGTHS)
            and stats["tokens"] == sum(LENGTHS), f"counts: {stats}")
    require(stats["nanoseconds"] > 0 and stats["threads"] > 0,
            f"numbers: {stats}")


def check_progress(model):
    """A terminal shows the share that is done, and keeps what others get."""
    work = model.context.folder("progress")
    (work / "ids.jsonl").write_bytes(model.lines())
    printed, left = model.context.run_on_terminal(
        "encast-run", model.artifact, "--ids", work / "ids.jsonl", "--out",
        work / "rows.npy")
    require(re.search(r"encast: 0 of \d+ lines, \d+ %", printed),
            f"no progress: {printed!r}")
    require(re.fullmatch(r"encast: \d+ sequences, .*\n", left),
            f"left on the terminal: {left!r}")


def check_huge_page_weights(model):
    """Copies of the weights give the same bits, and inspect knows their size.
    """
    for target in ("host", "x86-64-v3,x86-64-v4"):
        artifact = model.context.compile(model.folder, f"--target={target}")
        work = model.context.folder("copies")
        (work / "ids.jsonl").write_bytes(model.lines())
        files = [work / "mapped.npy", work / "copied.npy"]
        for out, options in zip(files, ([], ["--huge-page-weights"])):
            model.context.succeed("encast-run", artifact, "--ids",
                                  work / "ids.jsonl", "--out", out, "--stats",
                                  work / "stats.json", *options)
        require(files[0].read_bytes() == files[1].read_bytes(), "other bits")
        stats = json.loads((work / "stats.json").read_text())
        variants = json.loads(model.context.succeed(
            "encast-inspect", artifact, "--json").stdout)["variants"]
        memory = [variant["memory"] for variant in variants
                  if variant["name"] == stats["variant"]][0]
        require(0 < stats["copied_weights_bytes"]
                == memory["copied_weights_bytes"], f"{stats} {memory}")


def check_inspect(model):
    """Model, outputs, variants, memory formula, kernels and source hashes."""
    artifact = model.context.compile(model.folder, "--target=x86-64-v3")
    shown = model.context.succeed("encast-inspect", artifact).stdout
    for word in (b"bert", b"last_hidden_state", b"pooler_output",
                 b"model.safetensors", b"linear_f32"):
        require(word in shown, f"no {word.decode()} in:\n{shown.decode()}")
    json.loads(model.context.succeed("encast-inspect", artifact,
                                     "--json").stdout)
    model.context.succeed("encast-inspect", artifact, "--verify")


def check_bench(model):
    work = model.context.folder("bench")
    done = model.context.succeed("encast-bench", model.artifact,
                                 "--lengths=16,160", "--threads", "2",
                                 "--steps", "--json", work / "bench.json")
    require(b"160" in done.stdout, done.stdout.decode())
    json.loads((work / "bench.json").read_text())
    require_refused(model.context.run("encast-bench", model.artifact,
                                      "--lengths=161"), "160.*161|161.*160")


def tests(context):
    model = Model(context)
    checks = {
        "run": check_run, "forms_of_lines": check_forms_of_lines,
        "stdin": check_stdin, "small_memory_cap": check_small_memory_cap,
        "options": check_options, "progress": check_progress,
        "stats": check_stats,
        "huge_page_weights": check_huge_page_weights,
        "places": check_places, "killed": check_killed,
        "limits": check_limits, "environment": check_environment,
        "inspect": check_inspect, "bench": check_bench,
    }
    for name, check in checks.items():
        yield f"tools/{name}", lambda check=check: check(model)
    for name, (text, expected) in BAD_LINES.items():
        yield (f"tools/refuses_line/{name}",
               lambda text=text, expected=expected: check_bad_lines(
                   model, text, expected))
