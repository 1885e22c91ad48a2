"""Compiles damaged prints of every stage: each must succeed or be refused.

usage: compile_mutants.py MODEL COUNT SEED [OPTION]...

Makes COUNT mutants of the stages of the folder MODEL, printed with these options
(--target=x86-64-v3 if there are none), the same ones for the same SEED: cut off, with lines missing, doubled or exchanged, with other numbers,
symbols, words or characters. Fails if `encast` ends by a signal, takes over a
minute, refuses without saying why, or leaves a file when it refuses.
"""

import pathlib
import random
import re
import subprocess
import sys
import tempfile

STAGES = ("encoder", "kernel", "plan", "llvm")
TOKENS = {
    "number": re.compile(r"(?<![\w.@%-])-?\d+(?![\w.])"),
    "symbol": re.compile(r'@(?:"[^"]*"|[\w.-]+)'),
    "value": re.compile(r"%[\w.-]+"),
    "type": re.compile(r"(?:tensor|memref|vector)<[^<>]*(?:<\w+>)?>"),
    "word": re.compile(r"(?<![\w.@%#])[a-z_]{3,}(?![\w.])"),
}
NUMBERS = ("0", "1", "-1", "2", "3", "7", "64", "65537", "-9223372036854775808",
           "4294967296", "9223372036854775807", "1000000000000")


def replace_token(text, kind, choose):
    match = choose.choice(list(TOKENS[kind].finditer(text)) or [None])
    if not match:
        return text
    others = NUMBERS if kind == "number" else TOKENS[kind].findall(text)
    return text[:match.start()] + choose.choice(others) + text[match.end():]


def change_lines(text, choose):
    lines = text.splitlines(keepends=True)
    one, two = (choose.randrange(len(lines)) for _ in range(2))
    kind = choose.randrange(3)
    if kind == 0:
        del lines[one]
    elif kind == 1:
        lines.insert(two, lines[one])
    else:
        lines[one], lines[two] = lines[two], lines[one]
    return "".join(lines)


def change_characters(text, choose):
    place = choose.randrange(len(text))
    kind = choose.randrange(3)
    if kind == 0:
        return text[:place]
    if kind == 1:
        return text[:place] + text[place + choose.randint(1, 20):]
    return text[:place] + chr(choose.randrange(32, 127)) + text[place + 1:]


def mutant(text, choose):
    for _ in range(choose.choice((1, 1, 1, 2, 3))):
        way = choose.random()
        if way < 0.15:
            text = change_characters(text, choose)
        elif way < 0.3:
            text = change_lines(text, choose)
        else:
            text = replace_token(text, choose.choice(list(TOKENS)), choose)
        if not text.strip():
            break
    return text


def fault(stage, output, model):
    """What is wrong with how `encast` treats the stage, or None."""
    try:
        done = subprocess.run(
            ["encast", "compile", stage, "-o", output,
             f"--weights-root={model}"], stdin=subprocess.DEVNULL,
            capture_output=True, timeout=60)
    except subprocess.TimeoutExpired:
        return "takes over a minute"
    written = sorted(path.name for path in output.parent.iterdir())
    if done.returncode not in (0, 1):
        return f"exit status {done.returncode}"
    if done.returncode == 0:
        return None if written == [output.name] else f"left {written}"
    if not done.stderr.startswith(b"encast: error: "):
        return f"no reason: {done.stderr[:200]}"
    return f"left {written}" if written else None


def main():
    model, count = sys.argv[1], int(sys.argv[2])
    choose = random.Random(int(sys.argv[3]))
    options = sys.argv[4:] or ["--target=x86-64-v3"]
    faults = compiled = 0
    with tempfile.TemporaryDirectory() as name:
        work = pathlib.Path(name)
        output = work / "out" / "m.so"
        output.parent.mkdir()
        texts = [subprocess.run(
            ["encast", "compile", model, f"--emit={stage}", *options],
            check=True, capture_output=True, text=True).stdout
            for stage in STAGES]
        for number in range(count):
            stage = work / f"{number}.mlir"
            stage.write_text(mutant(texts[number % len(texts)], choose))
            reason = fault(stage, output, model)
            compiled += output.exists()
            for path in output.parent.iterdir():
                path.unlink()
            if reason:
                faults += 1
                kept = pathlib.Path(f"mutant-{number}.mlir").absolute()
                kept.write_text(stage.read_text())
                print(f"{kept}: {reason}")
            stage.unlink()
    print(f"{count} mutants, {compiled} compiled, {faults} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
