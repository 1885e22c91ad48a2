"""Runs named tests of compiler and runtime together, and reports as JUnit.

A module of tests has `tests(context)`, which yields pairs of a name and a
function without arguments. The function raises Failure, or Skip with a reason;
a string that it returns is printed (measured numbers).
"""

import contextlib
import json
import os
import pathlib
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "support"))

import libencast  # noqa: E402  (found through the line above)

TIMEOUT_SECONDS = 300


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def require(condition, message):
    if not condition:
        raise Failure(message)


def host_features():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("flags"):
            return set(line.split(":")[1].split())
    return set()


def missing_avx512():
    """What x86-64-v4 needs and this host lacks."""
    needed = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
    return sorted(needed - host_features())


def has_avx512():
    return not missing_avx512()


def require_avx512():
    missing = missing_avx512()
    if missing:
        raise Skip("host lacks " + "+".join(missing))


class Context:
    """The build under test, a scratch folder, and artifacts compiled once."""

    def __init__(self, build):
        self.bin = build / "bin"
        self.library = libencast.Library(build / "lib" / "libencast.so")
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="encast-test-"))
        self.artifacts = {}

    def close(self):
        shutil.rmtree(self.scratch)

    def folder(self, name):
        """A new empty folder."""
        return pathlib.Path(tempfile.mkdtemp(prefix=name + "-",
                                             dir=self.scratch))

    def run(self, tool, *arguments, **options):
        """Runs a tool of the build; never raises for its exit status."""
        return subprocess.run(
            [str(self.bin / tool), *map(str, arguments)],
            stdin=options.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=TIMEOUT_SECONDS, **options)

    def run_on_terminal(self, tool, *arguments):
        """What a tool prints on a terminal, all of it and what is left to see:
        of each line what stands behind the last return and erasure."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([str(self.bin / tool), *map(str, arguments)],
                                   stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        printed = b""
        with contextlib.suppress(OSError):  # nobody writes any more
            while part := os.read(ours, 4096):
                printed += part
        os.close(ours)
        process.wait(TIMEOUT_SECONDS)
        text = printed.decode().replace("\r\n", "\n")
        return text, re.sub(r".*\r\x1b\[K", "", text)

    def succeed(self, tool, *arguments, **options):
        """As run(), but raises Failure with the command unless it exits 0."""
        done = self.run(tool, *arguments, **options)
        require(done.returncode == 0,
                f"exit status {done.returncode} of: "
                + shlex.join([tool, *map(str, arguments)]) + "\n"
                + done.stderr.decode(errors="replace")[-2000:])
        return done

    def compile(self, model, *options):
        """The artifact of `model` with these options, compiled once."""
        key = (str(model), options)
        if key not in self.artifacts:
            path = self.scratch / f"{len(self.artifacts)}.so"
            self.succeed("encast", "compile", model, "-o", path, *options)
            self.artifacts[key] = path
        return self.artifacts[key]

    def sizes(self, artifact):
        """Bytes and counts by name, as encast-inspect says them."""
        printed = self.succeed("encast-inspect", "--json", artifact).stdout
        return json.loads(printed)["sizes"]

    def session(self, artifact, threads=1, variant=None, progress=None):
        """A context manager of a libencast.Session."""
        return libencast.opened(self.library, artifact, threads, variant,
                                progress)


def require_refused(done, pattern):
    """The rule for every error: exit status 1, nothing on stdout, and a line
    on stderr that says what is wrong."""
    errors = done.stderr.decode(errors="replace")
    require(done.returncode == 1,
            f"exit status {done.returncode} instead of 1; stderr: {errors}")
    require(not done.stdout, f"stdout is not empty: {done.stdout[:200]!r}")
    lines = [line for line in errors.splitlines() if ": error: " in line]
    require(len(lines) == 1, f"not one line of error on stderr: {errors!r}")
    require(re.search(pattern, lines[0]),
            f"the error does not match {pattern!r}: {lines[0]!r}")


def run_tests(modules, context, pattern, xml_path):
    """Runs what matches `pattern`; returns the number of failures."""
    suite = ElementTree.Element("testsuite", name="endtoend")
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for module in modules:
        for name, function in module.tests(context):
            if not re.search(pattern, name):
                continue
            case = ElementTree.SubElement(suite, "testcase", name=name)
            start = time.monotonic()
            outcome, text = run_one(function)
            taken = time.monotonic() - start
            case.set("time", f"{taken:.3f}")
            counts[outcome] += 1
            print(f"{outcome:7} {name} ({taken:.2f} s)", flush=True)
            if text:
                print("        " + text.strip().replace("\n", "\n        "),
                      flush=True)
            if outcome == "failed":
                print("        reproduce: test/endtoend/run_models.py --filter "
                      + shlex.quote(f"^{re.escape(name)}$"), flush=True)
                ElementTree.SubElement(case, "failure", message=text)
            elif outcome == "skipped":
                ElementTree.SubElement(case, "skipped", message=text)
    for outcome, count in counts.items():
        suite.set({"passed": "tests", "failed": "failures"}.get(
            outcome, outcome), str(count))
    suite.set("tests", str(sum(counts.values())))
    if xml_path:
        ElementTree.ElementTree(suite).write(xml_path, encoding="utf-8")
    print(f"{counts['passed']} passed, {counts['failed']} failed, "
          f"{counts['skipped']} skipped")
    return counts["failed"]


def run_one(function):
    """Returns the outcome and a text: numbers, or the reason."""
    try:
        return "passed", function() or ""
    except Skip as skip:
        return "skipped", str(skip)
    except Failure as failure:
        return "failed", str(failure)
    except Exception:  # a fault of the test or of the library's wrapper
        return "failed", traceback.format_exc()
