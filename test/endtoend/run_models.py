#!/usr/bin/env python3
"""The tests that use compiler and runtime together.

usage: test/endtoend/run_models.py [--build FOLDER] [--filter REGEX]
                                   [--xml FILE]

Needs numpy, which scripts/setup installs in .venv: started with another
Python, it goes on with that one.
"""

import argparse
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv" / "bin" / "python"
if PYTHON.exists() and pathlib.Path(sys.prefix) != ROOT / ".venv":
    os.execv(PYTHON, [str(PYTHON), *sys.argv])

import artifact_tests  # noqa: E402
import compile_tests  # noqa: E402
import example_tests  # noqa: E402
import golden_tests  # noqa: E402
import harness  # noqa: E402
import invariance_tests  # noqa: E402
import mutation_tests  # noqa: E402
import session_tests  # noqa: E402
import tool_tests  # noqa: E402


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False,
                                     description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--filter", default="", help="a regular expression")
    parser.add_argument("--xml", help="where the JUnit report goes")
    arguments = parser.parse_args()
    context = harness.Context(arguments.build.resolve())
    try:
        failed = harness.run_tests(
            [golden_tests, mutation_tests, invariance_tests, compile_tests,
             artifact_tests, session_tests, tool_tests, example_tests], context,
            arguments.filter, arguments.xml)
    finally:
        context.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
