"""Prints FileCheck directives for the code blocks of a section of a page.

usage: page_checks.py PAGE.md SECTION

Each line of a block must be in the output, in order. `...` stands for anything,
what follows ` // ` is a comment. A line that is indented deeper than the one
before it goes on with it, unless that one opened a body.
"""

import pathlib
import re
import sys


def blocks_of(page, section):
    """The lines of all blocks of IR or assembly behind `## section`."""
    text = re.split(r"(?m)^## ", page)
    [chosen] = [part for part in text if part.startswith(section + "\n")]
    for block in re.findall(r"(?ms)^```(?:mlir|asm)\n(.*?)^```$", chosen):
        yield block.splitlines()


def directives(lines):
    start, opened = 0, True
    for line in lines:
        line = line.split(" // ")[0].rstrip()
        indent = len(line) - len(line.lstrip())
        goes_on = indent > start and not opened
        if not goes_on:
            start = indent
        opened = line.endswith(("{", ":"))
        pattern = re.sub(r"\.\.\.", "{{.*}}", line.strip())
        yield ("CHECK-SAME: " if goes_on else "CHECK: ") + pattern


def main(path, section):
    page = pathlib.Path(path).read_text(encoding="utf-8")
    for lines in blocks_of(page, section):
        print("\n".join(directives(lines)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    main(sys.argv[1], sys.argv[2])
