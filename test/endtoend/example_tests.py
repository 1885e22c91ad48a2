"""The Python scripts of examples/, on the real tokenizer and texts."""

import json
import pathlib
import subprocess
import sys

from harness import ROOT, require, require_refused
from invariance_tests import minilm_folder

EXAMPLES = ROOT / "examples"
TEXTS = EXAMPLES / "texts.txt"
REFERENCE = pathlib.Path(__file__).resolve().parent / "minilm"


def run(script, *arguments):
    return subprocess.run(
        [sys.executable, str(EXAMPLES / script), *map(str, arguments)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def check_tokenize(context):
    """The ids are those of the stored references; a long text is cut where the
    model's folder says, with a note."""
    done = run("tokenize_texts.py", minilm_folder(), TEXTS)
    require(done.returncode == 0, done.stderr.decode())
    found = [json.loads(line) for line in done.stdout.splitlines()]
    expected = [json.loads(line) for line in
                (REFERENCE / "texts.jsonl").read_text().splitlines()]
    require(found == expected, "other ids than the stored ones")
    text = context.folder("tokenize") / "long.txt"
    text.write_text("short\n" + "word " * 600 + "\n")
    done = run("tokenize_texts.py", minilm_folder(), text)
    lengths = [len(json.loads(line)) for line in done.stdout.splitlines()]
    require(lengths == [3, 256], f"lengths {lengths}")
    require(b"line 2 has 602 tokens, cut to 256" in done.stderr,
            done.stderr.decode())


def check_compare():
    """Texts about the same thing are each other's best."""
    done = run("compare_texts.py", TEXTS, REFERENCE / "texts.npy")
    require(done.returncode == 0, done.stderr.decode())
    rows = done.stdout.decode().splitlines()[1:]
    best = [int(row.rsplit("(", 1)[0].split()[-1]) for row in rows]
    require(best[:2] == [2, 1], f"best of the first two: {best[:2]}")


def check_compare_refuses():
    done = run("compare_texts.py", EXAMPLES / "compare_texts.py",
               REFERENCE / "texts.npy")
    require_refused(done, "lines.*rows")


def tests(context):
    yield "examples/tokenize_texts", lambda: check_tokenize(context)
    yield "examples/compare_texts", check_compare
    yield "examples/compare_texts_refuses", check_compare_refuses
