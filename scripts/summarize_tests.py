#!/usr/bin/env python3
"""Sums JUnit XML files of ctest, lit and our own runners.

usage: scripts/summarize_tests.py FILE.xml...

Prints every failure, the skips by reason, and closes with the line
`N passed, M failed, K skipped`. Exit status 1 if something failed or a file
cannot be read.
"""

import collections
import re
import sys
import xml.etree.ElementTree as ElementTree

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


class Case:
    """One test case: its runner's name for it, the outcome (PASSED, FAILED or
    SKIPPED) and, unless it passed, the reason in a line."""

    def __init__(self, name, outcome, reason=""):
        self.name = name
        self.outcome = outcome
        self.reason = reason


def skip_reason(case, element):
    """ctest keeps what GTEST_SKIP() said in the test's output only."""
    output = case.findtext("system-out") or ""
    said = re.search(r": Skipped\n(.*)", output)
    if said:
        return said.group(1).strip() or "no reason given"
    message = element.get("message") or (element.text or "").strip()
    return message.splitlines()[0] if message else "no reason given"


def failure_reason(case, element):
    output = case.findtext("system-out") or ""
    said = re.search(r"([^\n]*: Failure\n(?:.+\n){1,4})", output)
    if said:
        lines = said.group(1).splitlines()
    else:
        # A crash, or a test that is no GoogleTest: its last words.
        lines = (element.get("message") or "").splitlines()
        lines += [line for line in output.splitlines() if line.strip()][-3:]
    return " | ".join(line.strip() for line in lines)


def read_cases(path):
    """Returns the cases of one file. Raises OSError or ValueError."""
    try:
        tree = ElementTree.parse(path)
    except ElementTree.ParseError as error:
        raise ValueError(f"{path}: not an XML file: {error}") from error
    cases = []
    for case in tree.iter("testcase"):
        name = case.get("name", "")
        suite = case.get("classname", "")
        if suite and suite != name:
            name = f"{suite}/{name}"
        failure = case.find("failure")
        if failure is None:
            failure = case.find("error")
        skipped = case.find("skipped")
        if failure is not None:
            reason = failure_reason(case, failure)
            cases.append(Case(name, FAILED, reason))
        elif skipped is not None:
            cases.append(Case(name, SKIPPED, skip_reason(case, skipped)))
        elif case.get("status") == "disabled":
            cases.append(Case(name, SKIPPED, "disabled"))
        elif case.get("status") == "notrun":
            cases.append(Case(name, FAILED, "did not run"))
        else:
            cases.append(Case(name, PASSED))
    return cases


def count(cases, outcome):
    return sum(case.outcome == outcome for case in cases)


def closing_line(cases):
    return (
        f"{count(cases, PASSED)} passed, {count(cases, FAILED)} failed, "
        f"{count(cases, SKIPPED)} skipped"
    )


def print_summary(cases, out=sys.stdout):
    """Prints failures, skips by reason and the closing line."""
    for case in cases:
        if case.outcome == FAILED:
            print(f"FAILED {case.name}: {case.reason}", file=out)
    reasons = collections.Counter(
        case.reason for case in cases if case.outcome == SKIPPED
    )
    for reason, times in reasons.most_common():
        print(f"skipped {times}: {reason}", file=out)
    print(closing_line(cases), file=out)


def main(paths):
    if not paths:
        sys.exit(__doc__.strip())
    cases = []
    readable = True
    for path in paths:
        try:
            cases += read_cases(path)
        except (OSError, ValueError) as error:
            print(f"summarize_tests.py: error: {error}", file=sys.stderr)
            readable = False
    print_summary(cases)
    return 1 if count(cases, FAILED) or not readable else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
