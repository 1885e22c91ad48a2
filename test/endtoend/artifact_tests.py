"""What an artifact is as a file, and what happens to damaged ones."""

import json
import os
import re
import shutil
import subprocess

import numpy

import random_bert
from harness import require, require_refused

IDS = "[5, 17, 210]\n[1]\n"


def read_elf(*arguments):
    return subprocess.run(["readelf", "--wide", *map(str, arguments)],
                          check=True, stdout=subprocess.PIPE).stdout.decode()


def embed(context, artifact):
    """The bytes that encast-run writes for IDS."""
    work = context.folder("embed")
    (work / "ids.jsonl").write_text(IDS)
    context.succeed("encast-run", artifact, "--ids", work / "ids.jsonl",
                    "--out", work / "out.npy")
    return (work / "out.npy").read_bytes()


def check_self_contained(context, artifact):
    """No other library, no symbol from outside, one symbol for outside."""
    require("NEEDED" not in read_elf("-d", artifact), "needs a library")
    dynamic = read_elf("--dyn-syms", artifact).splitlines()
    symbols = [line.split() for line in dynamic if re.match(r"\s+\d+:", line)]
    undefined = [words[-1] for words in symbols[1:] if words[6] == "UND"]
    exported = [words[-1] for words in symbols[1:]
                if words[6] != "UND" and words[4] == "GLOBAL"]
    require(not undefined, f"undefined symbols: {undefined}")
    require(len(exported) == 1, f"exported symbols: {exported}")
    segments = read_elf("-l", artifact)
    require(not re.search(r"LOAD.* RWE ", segments),
            "a segment is writable and executable")
    require(re.search(r"GNU_STACK.* RW ", segments), "the stack is executable")


def check_kernels_are_named(context, artifact):
    """Tools can name each kernel: FUNC symbols with their size."""
    functions = [line.split() for line in read_elf("-s", artifact).splitlines()
                 if " FUNC " in line]
    require(len(functions) > 3, f"only {len(functions)} functions")
    empty = [words[-1] for words in functions if words[2] == "0"]
    require(not empty, f"functions without size: {empty}")
    kernels = [words[-1] for words in functions if "_f32_" in words[-1]]
    require(kernels, "no kernel among "
            + " ".join(words[-1] for words in functions))


def check_copies_and_stripped(context, artifact):
    """cp and GNU strip keep an artifact whole; losing the weights is said."""
    expected = embed(context, artifact)
    work = context.folder("copies")
    copied = shutil.copy(artifact, work / "copied.so")
    require(embed(context, copied) == expected, "a copy gives other bits")
    stripped = work / "stripped.so"
    subprocess.run(["strip", "-o", stripped, artifact], check=True)
    require(embed(context, stripped) == expected, "strip changed the bits")
    bare = work / "bare.so"
    subprocess.run(["/usr/lib/llvm-22/bin/llvm-strip", "--strip-all", "-o",
                    bare, artifact], check=True)
    require_refused(context.run("encast-inspect", bare),
                    r"encast\.weights|weights")


def check_weights_beside(context, folder):
    """--weights=file puts them in a file that is found beside the artifact,
    and whose absence or change is reported."""
    expected = embed(context, context.compile(folder))
    work = context.folder("beside")
    artifact = work / "model.so"
    context.succeed("encast", "compile", folder, "-o", artifact,
                    "--weights=file")
    beside = [path for path in work.iterdir() if path != artifact]
    require([path.name for path in beside] == ["model.so.weights"],
            f"beside the artifact: {beside}")
    require(artifact.stat().st_size < beside[0].stat().st_size,
            "the artifact is larger than its weights")
    require(embed(context, artifact) == expected, "other bits")
    moved = context.folder("moved")
    for path in (artifact, beside[0]):
        shutil.move(path, moved / path.name)
    require(embed(context, moved / "model.so") == expected,
            "other bits after moving both")
    weights = moved / beside[0].name
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 1
    weights.write_bytes(data)
    require_refused(context.run("encast-inspect", moved / "model.so",
                                "--verify"), re.escape(weights.name))
    weights.write_bytes(data[:-1])
    require_refused(context.run("encast-inspect", moved / "model.so"),
                    re.escape(weights.name))
    weights.unlink()
    require_refused(context.run("encast-inspect", moved / "model.so"),
                    re.escape(weights.name))


def check_damaged(context, artifact):
    """Truncated anywhere, or altered in code or descriptor: refused, never a
    signal. Altered weights are found by --verify."""
    whole = artifact.read_bytes()
    path = context.folder("damaged") / "model.so"
    sizes = {0, 1, 63, 64, len(whole) - 1, len(whole) // 2, 4096}
    sizes.update(numpy.random.default_rng(3).integers(
        0, len(whole), 20).tolist())
    for size in sorted(sizes):
        path.write_bytes(whole[:size])
        require_refused(context.run("encast-inspect", path),
                        re.escape(str(path)))
    sections = read_elf("-S", artifact)
    for name in (".text", ".encast.weights"):
        found = re.search(
            rf" {re.escape(name)}\S* +\S+ +[0-9a-f]+ ([0-9a-f]+) ([0-9a-f]+)",
            sections)
        require(found, f"no section {name} in:\n{sections}")
        offset, size = (int(group, 16) for group in found.groups())
        altered = bytearray(whole)
        altered[offset + size // 2] ^= 0x10
        path.write_bytes(altered)
        require_refused(context.run("encast-inspect", path, "--verify"),
                        re.escape(str(path)))


def check_variants_share_weights(context, folder):
    """Two variants of f32 have one copy of the weights, and `inspect` lists
    both."""
    one = context.compile(folder, "--target=x86-64-v3").stat().st_size
    both = context.compile(folder, "--target=x86-64-v3,x86-64-v4")
    weights = sum(value.nbytes for value in random_bert.tensors(
        json.loads((folder / "config.json").read_text())).values())
    grown = both.stat().st_size - one
    require(grown < weights / 2,
            f"the second variant adds {grown} bytes; weights are {weights}")
    shown = context.succeed("encast-inspect", both).stdout.decode()
    for name in ("x86-64-v3", "x86-64-v4"):
        require(name in shown, f"inspect does not show {name}")


def check_wrong_cpu(context, folder):
    """The lacking instructions are named."""
    features = set(re.search(r"flags\s*:(.*)",
                             open("/proc/cpuinfo").read()).group(1).split())
    wanted = [("sapphirerapids", "amx_tile", "amx"),
              ("x86-64-v4", "avx512f", "avx512")]
    lacking = [row for row in wanted if row[1] not in features]
    if not lacking:
        from harness import Skip
        raise Skip("host has avx512 and amx, no target is beyond it")
    target, _, expected = lacking[0]
    artifact = context.compile(folder, f"--target={target}")
    work = context.folder("cpu")
    (work / "ids.jsonl").write_text(IDS)
    require_refused(context.run("encast-run", artifact, "--ids",
                                work / "ids.jsonl", "--out",
                                work / "out.npy"), expected)
    require(os.listdir(work) == ["ids.jsonl"], "something was written")


def tests(context):
    folder = random_bert.make(context.folder("artifact") / "bert",
                              hidden_size=128, num_attention_heads=2,
                              intermediate_size=512)
    both = "--target=x86-64-v3,x86-64-v4"
    checks = {
        "self_contained": lambda: check_self_contained(
            context, context.compile(folder, both)),
        "kernels_are_named": lambda: check_kernels_are_named(
            context, context.compile(folder, both)),
        "copies_and_stripped": lambda: check_copies_and_stripped(
            context, context.compile(folder)),
        "weights_beside": lambda: check_weights_beside(context, folder),
        "damaged": lambda: check_damaged(context, context.compile(folder)),
        "variants_share_weights": lambda: check_variants_share_weights(
            context, folder),
        "wrong_cpu": lambda: check_wrong_cpu(context, folder),
    }
    for name, check in checks.items():
        yield f"artifact/{name}", check
