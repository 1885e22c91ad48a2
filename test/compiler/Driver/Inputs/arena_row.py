"""Prints the bytes of a row of the arena of a plan stage on stdin."""

import re
import sys

print("arena row", max(int(size) + int(offset) for size, offset in re.findall(
    r"plan\.slot .* arena .*row_bytes (\d+) offset (\d+)", sys.stdin.read())))
