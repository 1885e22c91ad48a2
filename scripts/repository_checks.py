#!/usr/bin/env python3
"""Cheap checks of the tracked files themselves.

usage: scripts/repository_checks.py

 - C++ is formatted by clang-format 22;
 - no file names a folder of somebody's machine;
 - every host in a URL is one that readers are meant to visit;
 - no file is empty, has conflict marks, trailing blanks or no last newline;
 - scripts parse.
"""

import ast
import os
import pathlib
import re
import subprocess
import sys

import summarize_tests

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP_SUFFIXES = (".cpp", ".h", ".c")
# Absolute paths below these exist on one machine only.
MACHINE_PATH = re.compile(r"(?<![\w./:$}])/(?:home|root|work|Users|mnt|srv)/\w")
URL_HOST = re.compile(r"\b(?:https?|ftp|git|ssh)://([^/\s'\"<>`)]+)")
ALLOWED_HOSTS = {
    "www.w3.org",  # the names that SVG files must carry
    "www.apache.org",
    "arxiv.org",
    "www.sbert.net",
    "github.com",
    "huggingface.co",
    "json-schema.org",
    "spdx.org",
}


def tracked_files():
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True,
                            stdout=subprocess.PIPE).stdout.decode()
    # A file may be deleted in the work tree and not yet in the index.
    return [ROOT / name for name in listed.split("\0")
            if name and (ROOT / name).is_file()]


def read_text(path):
    """The text of a file, or None if it is binary."""
    data = path.read_bytes()
    if b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def relative(path):
    return path.relative_to(ROOT)


def misformatted(paths):
    sources = [str(path) for path in paths if path.suffix in CPP_SUFFIXES]
    if not sources:
        return []
    done = subprocess.run(
        ["clang-format-22", "--dry-run", "-Werror", *sources],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    lines = done.stderr.decode().splitlines()
    files = sorted({line.split(":")[0] for line in lines
                    if "error:" in line})
    return [f"{relative(pathlib.Path(file))}: run clang-format-22 -i"
            for file in files]


def matches(texts, pattern, complaint, accept=lambda match: False):
    """`complaint` for each line of `texts` where `pattern` is found and not
    accepted."""
    found = []
    for path, text in texts:
        for number, line in enumerate(text.splitlines(), 1):
            for match in pattern.finditer(line):
                if not accept(match):
                    found.append(f"{relative(path)}:{number}: {complaint}: "
                                 f"{match.group(0).strip()}")
    return found


def badly_ended(texts):
    found = []
    for path, text in texts:
        if not text:
            found.append(f"{relative(path)}: is empty")
        elif not text.endswith("\n"):
            found.append(f"{relative(path)}: has no newline at its end")
    return found


def is_script(path, text, interpreter, suffix):
    first = text.split("\n", 1)[0]
    return path.suffix == suffix or (
        first.startswith("#!") and interpreter in first)


def unparsable(texts):
    found = []
    for path, text in texts:
        if is_script(path, text, "python", ".py"):
            try:
                ast.parse(text)
            except SyntaxError as error:
                found.append(f"{relative(path)}:{error.lineno}: {error.msg}")
        elif is_script(path, text, "bash", ".sh"):
            done = subprocess.run(["bash", "-n", str(path)],
                                  stderr=subprocess.PIPE)
            found += done.stderr.decode().splitlines()
        else:
            continue
        if text.startswith("#!") and not os.access(path, os.X_OK):
            found.append(f"{relative(path)}: is not executable")
    return found


def run():
    """Returns a case per check."""
    paths = tracked_files()
    texts = [(path, text) for path in paths
             if path.is_file() and not path.is_symlink()
             and (text := read_text(path)) is not None]
    # Test data is as its script made it.
    written = [(path, text) for path, text in texts
               if path.suffix not in (".json", ".jsonl", ".txt")
               and "corpus" not in path.parts]
    complaints = {
        "formatted": misformatted(paths),
        "no-machine-path": matches(texts, MACHINE_PATH, "path of a machine"),
        "known-hosts": matches(
            texts, URL_HOST, "unknown host",
            accept=lambda match: match.group(1) in ALLOWED_HOSTS),
        "no-conflict-mark": matches(
            written, re.compile(r"^(?:<{7}|>{7})(?: |$)"), "conflict mark"),
        "no-trailing-blank": matches(
            written, re.compile(r"[ \t]+$"), "trailing blank"),
        "files-end-in-newline": badly_ended(written),
        "scripts-parse": unparsable(texts),
    }
    cases = []
    for name, found in complaints.items():
        outcome = summarize_tests.FAILED if found else summarize_tests.PASSED
        more = f" (and {len(found) - 5} more)" if len(found) > 5 else ""
        cases.append(summarize_tests.Case(
            f"repository/{name}", outcome, "; ".join(found[:5]) + more))
    return cases


def main():
    cases = run()
    summarize_tests.print_summary(cases)
    return 1 if summarize_tests.count(cases, summarize_tests.FAILED) else 0


if __name__ == "__main__":
    sys.exit(main())
