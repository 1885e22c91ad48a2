"""`encast compile`: the same bytes again and from every stage; refusals."""

import json
import os
import re
import resource
import shutil
import subprocess

import numpy

import invariance_tests
import random_bert
from harness import (ROOT, Failure, require, require_avx512,
                     require_refused)

MODELS = ROOT / "test" / "endtoend" / "models"

STAGES = ["encoder", "kernel", "plan", "llvm"]
ALL_STAGES = STAGES + ["asm"]
TARGETS = ["x86-64-v3", "x86-64-v4", "x86-64-v3,x86-64-v4"]


def require_same_bytes(a, b, what):
    first, second = a.read_bytes(), b.read_bytes()
    if first != second:
        at = next((i for i, (x, y) in enumerate(zip(first, second))
                   if x != y), min(len(first), len(second)))
        raise Failure(f"{what}: {a} and {b} differ at byte {at} "
                      f"({len(first)} and {len(second)} bytes)")


def check_reproducible(context, folder, target):
    """Neither the time, the working folder nor the model's place matters."""
    first = context.compile(folder, f"--target={target}")
    work = context.folder("again")
    copy = shutil.copytree(folder, work / "copied-model")
    context.succeed("encast", "compile", copy, "-o", "again.so",
                    f"--target={target}", cwd=work)
    require_same_bytes(first, work / "again.so", "compiled twice")


def check_resume(context, folder, target, stage):
    """Printing a stage and finishing from the print gives the same artifact,
    and nothing but the stage is printed."""
    whole = context.compile(folder, f"--target={target}")
    work = context.folder("resume")
    printed = context.succeed("encast", "compile", folder,
                              f"--target={target}", f"--emit={stage}")
    (work / "stage.mlir").write_bytes(printed.stdout)
    context.succeed("encast", "compile", folder, f"--target={target}",
                    f"--emit={stage}", "-o", work / "written.mlir")
    require_same_bytes(work / "stage.mlir", work / "written.mlir",
                       "--emit to stdout and to -o")
    context.succeed("encast", "compile", work / "stage.mlir", "-o",
                    work / "resumed.so", f"--weights-root={folder}")
    require_same_bytes(whole, work / "resumed.so", f"resumed from {stage}")


def stored_in_f32(stage):
    """The kernel stage with all weights that are stored in bf16 for f32
    products stored in f32."""
    def widen(weight):
        text = weight.group()
        packed = re.search(r"kernel\.pack.* : tensor<\d+x(\d+)xbf16> -> "
                           r"(tensor<(\d+)x\d+x32xbf16>)", text)
        if not packed:
            return text
        k, stored, panels = packed.groups()
        return text.replace(stored, f"tensor<{panels}x{k}x16xf32>")

    stage = re.sub(r"encoder\.weight .*?\n  }\n", widen, stage,
                   flags=re.DOTALL)
    return re.sub(r"\bbf16_weights, ", "", stage)


def check_bf16_weights(context, folder, target):
    """Weights that are exactly bf16 take half the bytes, and give the bits
    that they give in f32."""
    work = context.folder("bf16-weights")
    printed = context.succeed("encast", "compile", folder, "--emit=kernel",
                              f"--target={target}").stdout.decode()
    require("{bf16_weights, " in printed, "no weight is stored in bf16")
    (work / "f32.mlir").write_text(stored_in_f32(printed))
    context.succeed("encast", "compile", work / "f32.mlir", "-o",
                    work / "f32.so", f"--weights-root={folder}")
    halves = context.compile(folder, f"--target={target}")
    weights = [context.sizes(artifact)["weights"]
               for artifact in (halves, work / "f32.so")]
    require(weights[0] < weights[1], f"{weights[0]} bytes of weights, "
            f"{weights[1]} in f32")
    lengths = [*range(1, 20), 33, 64]
    pools = [invariance_tests.Pool(context, artifact, lengths)
             for artifact in (halves, work / "f32.so")]
    for i, results in enumerate(pools[1].alone):
        pools[0].compare([i], results, "stored in f32")


def check_listing(context, folder):
    listing = context.succeed("encast", "compile", folder,
                              "--target=x86-64-v3", "--emit=asm").stdout
    for expected in (b"vfmadd", b"ymm"):
        require(expected in listing, f"no {expected.decode()} in the listing")
    require(b"zmm" not in listing, "zmm in the listing for x86-64-v3")


def check_stages_are_parsed(context, folder, target, stage):
    """encast-opt reads and verifies what --emit prints, and prints it back."""
    printed = context.succeed("encast", "compile", folder,
                              f"--target={target}", f"--emit={stage}").stdout
    path = context.folder("parse") / "stage.mlir"
    path.write_bytes(printed)
    back = context.succeed("encast-opt", path).stdout
    path.write_bytes(back)
    require(context.succeed("encast-opt", path).stdout == back,
            "the second print differs from the first")


def check_altered_weights(context, folder):
    """A stage names its sources by hash: another checkpoint is refused."""
    work = context.folder("altered")
    stage = work / "stage.mlir"
    context.succeed("encast", "compile", folder, "--emit=encoder", "-o", stage)
    copy = shutil.copytree(folder, work / "model")
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    out = work / "out.so"
    require_refused(context.run("encast", "compile", stage, "-o", out,
                                f"--weights-root={copy}"),
                    "model.safetensors")
    require(not out.exists(), "something was written")


class Refusal:
    """A folder that `bend` spoils (or options, or both), and the error."""

    def __init__(self, name, expected, bend=None, options=()):
        self.name, self.expected = name, expected
        self.bend, self.options = bend, options


def with_config(**changes):
    def bend(folder):
        path = folder / "config.json"
        values = json.loads(path.read_text())
        for key, value in changes.items():
            if value is None:
                del values[key]
            else:
                values[key] = value
        path.write_text(json.dumps(values))
    return bend


def with_tensors(change):
    """`change` edits the dict from name to array."""
    def bend(folder):
        config = json.loads((folder / "config.json").read_text())
        tensors = random_bert.tensors(config)
        change(tensors)
        random_bert.write(folder, config, tensors)
    return bend


def with_file(name, data):
    return lambda folder: (folder / name).write_bytes(data)


def without_file(name):
    return lambda folder: (folder / name).unlink()


def truncated(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def set_value(name, index, value):
    def change(tensors):
        tensors[name].flat[index] = value
    return change


QUERY = "encoder.layer.1.attention.self.query.weight"
REFUSALS = [
    Refusal("config_missing", r"config\.json", without_file("config.json")),
    Refusal("config_not_json", r"config\.json", with_file("config.json",
                                                          b"{,}")),
    Refusal("model_type_missing", "model_type", with_config(model_type=None)),
    Refusal("model_type_unknown", "gpt2", with_config(model_type="gpt2")),
    Refusal("activation_unknown", "hidden_act.*laplace",
            with_config(hidden_act="laplace")),
    Refusal("positions_relative", "relative_key",
            with_config(position_embedding_type="relative_key")),
    Refusal("decoder", "is_decoder", with_config(is_decoder=True)),
    Refusal("heads_do_not_divide", "num_attention_heads.*7|7.*divi",
            with_config(num_attention_heads=7)),
    Refusal("hidden_size_zero", "hidden_size", with_config(hidden_size=0)),
    Refusal("hidden_size_absurd", "hidden_size",
            with_config(hidden_size=2**62)),
    Refusal("layers_negative", "num_hidden_layers.*-1",
            with_config(num_hidden_layers=-1)),
    Refusal("epsilon_not_a_number", "layer_norm_eps",
            with_config(layer_norm_eps="small")),
    Refusal("fewer_layers_than_claimed", "num_hidden_layers",
            with_config(num_hidden_layers=4)),
    Refusal("activation_of_two_lines", r"hidden_act.*a\\x0ab",
            with_config(hidden_act="a\nb")),
    Refusal("shape_against_config", "word_embeddings.*211",
            with_config(vocab_size=212)),
    Refusal("weights_missing", "safetensors",
            without_file("model.safetensors")),
    Refusal("weights_pickled", r"pytorch_model\.bin", pickled),
    Refusal("weights_truncated", r"model\.safetensors", truncated),
    Refusal("weights_header_too_long", r"model\.safetensors",
            with_file("model.safetensors", b"\xff" * 8 + b"{}")),
    Refusal("tensor_missing", QUERY.replace(".", r"\."),
            with_tensors(lambda tensors: tensors.pop(QUERY))),
    Refusal("tensor_unknown", r"encoder\.layer\.0\.adapter",
            with_tensors(lambda tensors: tensors.update(
                {"encoder.layer.0.adapter": numpy.zeros(3, "f4")}))),
    Refusal("weight_not_a_number", QUERY.replace(".", r"\.") + ".*61",
            with_tensors(set_value(QUERY, 61, numpy.nan))),
    Refusal("weight_infinite", r"embeddings\.LayerNorm\.bias.*7",
            with_tensors(set_value("embeddings.LayerNorm.bias", 7,
                                   numpy.inf))),
    Refusal("output_unknown", "embedding.*last_hidden_state",
            options=["--outputs=embedding"]),
    Refusal("output_not_in_checkpoint", "logits.*last_hidden_state",
            options=["--outputs=logits"]),
    Refusal("target_unknown", "pentium.*x86-64-v3",
            options=["--target=pentium"]),
    Refusal("target_feature_unknown", "x87", options=["--target=znver3+x87"]),
    Refusal("target_twice", "znver3", options=["--target=znver3,znver3"]),
    Refusal("target_empty", "target", options=["--target=znver3,"]),
    Refusal("precision_unknown", "f8", options=["--precision=f8"]),
    Refusal("task_unknown", "translation", options=["--task=translation"]),
    Refusal("stage_unknown", "binary.*encoder", options=["--emit=binary"]),
    Refusal("option_unknown", "fast-math", options=["--fast-math"]),
    Refusal("weights_place_unknown", "weights",
            options=["--weights=elsewhere/weights"]),
]


def check_refusal(context, refusal):
    """Refused, and nothing is left in the folder of the output."""
    folder = random_bert.make(context.folder("refusal") / "model")
    if refusal.bend:
        refusal.bend(folder)
    out = context.folder("refused")
    require_refused(context.run("encast", "compile", folder, "-o",
                                out / "model.so", *refusal.options),
                    refusal.expected)
    require(not list(out.iterdir()),
            f"left behind: {[path.name for path in out.iterdir()]}")


def check_paths(context, folder):
    """Errors that have to do with where things are."""
    work = context.folder("paths")
    missing = work / "missing"
    require_refused(context.run("encast", "compile", missing, "-o",
                                work / "m.so"), str(missing))
    require_refused(context.run("encast", "compile", folder), "-o")
    require_refused(context.run("encast", "compile", "-o", work / "m.so"),
                    "(?i)model")
    require_refused(context.run("encast", "compile", folder, "-o",
                                missing / "m.so"), str(missing))
    require_refused(context.run("encast", "compile", folder, "-o", work),
                    str(work))
    require_refused(context.run("encast", "melt", folder), "melt")
    bad = work / "bad.mlir"
    bad.write_text("module {\n  encoder.nonsense\n}\n")
    require_refused(context.run("encast", "compile", bad, "-o",
                                work / "m.so"), r"bad\.mlir:2:3")
    weights = folder / "model.safetensors"
    before = weights.read_bytes()
    for options in (["-o", weights], ["-o", folder / "m.so",
                                      "--weights=model.safetensors"]):
        require_refused(context.run("encast", "compile", folder, *options),
                        f"{weights}: is a file of the model")
    require(weights.read_bytes() == before, "the checkpoint changed")
    pipe = work / "pipe"
    os.mkfifo(pipe)
    for options in ([], ["--emit=encoder"]):
        require_refused(context.run("encast", "compile", folder, "-o", pipe,
                                    *options), f"{pipe}.*not a regular file")
    require(sorted(path.name for path in work.iterdir()) == [
        "bad.mlir", "pipe"], "something was left behind")
    # 255 bytes, the longest name.
    for options in ([], ["--emit=encoder"]):
        context.succeed("encast", "compile", folder, "-o",
                        work / ("m" * 255), *options)


def check_files_of_the_model(context, folder):
    """No file of the model is written over, whatever leads to it, and no
    stage by what is made of it; what encast made itself is replaced."""
    work = context.folder("kept")
    model = shutil.copytree(folder, work / "model")
    (model / "2_Other").mkdir()
    (model / "2_Other" / "other.bin").write_text("other")
    cache = work / "snapshot"  # as hubs lay out their cache
    cache.mkdir()
    for name in ("config.json", "model.safetensors"):
        (cache / name).symlink_to(folder / name)
    stage = work / "stage.mlir"
    context.succeed("encast", "compile", model, "--emit=kernel", "-o", stage)

    def contents():
        return {path: path.read_bytes() for path in
                [*work.rglob("*"), *folder.rglob("*")] if path.is_file()}

    before = contents()
    resumed = [stage, f"--weights-root={model}"]
    for command in (
            [model, "--emit=kernel", "-o", model / "model.safetensors"],
            [model, "-o", model / "2_Other" / "other.bin"],
            [cache, "-o", cache / "config.json"],
            [*resumed, "-o", stage], [*resumed, "-o", model / "config.json"],
            [*resumed, "-o", model / "m.so", "--weights=model.safetensors"]):
        require_refused(context.run("encast", "compile", *command),
                        ": is a file of the model")
        require(contents() == before, f"something changed: {command}")
    for _ in range(2):
        context.succeed("encast", "compile", model, "-o", model / "m.so",
                        "--weights=m.weights")
    link = work / "link.so"
    link.symlink_to(work / "target.so")
    (work / "target.so").touch()
    context.succeed("encast", "compile", model, "-o", link,
                    f"--weights={work}/w")
    require(link.is_symlink() and (work / "target.so").stat().st_size > 0
            and (work / "w").exists(), "the link was replaced")


def check_nesting(context):
    """A stage of many brackets is refused before anything follows them."""
    file = context.folder("nesting") / "deep.mlir"
    attribute = "module attributes {a = "
    for text in (attribute + "[" * 300000, attribute + "tuple<" * 999,
                 "module {" * 300000):
        file.write_text(text)
        require_refused(context.run("encast", "compile", file, "-o",
                                    file.with_suffix(".so")),
                        r"deep\.mlir: has more than 256 levels of brackets")


COMMAND_LINES = [
    ([], "command"),
    (["--fast-math"], "--fast-math"),
    (["compile"], "MODEL"),
    (["compile", "a", "b", "-o", "m.so"], "one MODEL.*2"),
    (["compile", "a", "-o"], "-o"),
    (["compile", "a"], "-o is required"),
    (["compile", "a", "-o", "m.so", "--target="], "--target="),
    (["compile", "a", "-o", "m.so", "-O3"], "'-O'"),
    (["compile", "a", "--emit=kernel", "--weights=w"], "--weights"),
    (["compile", "a", "-o", "m.so", "--allow-unused=3"], "--allow-unused=3"),
]


def check_command_lines(context):
    for arguments, expected in COMMAND_LINES:
        require_refused(context.run("encast", *arguments), expected)
    for option in ("--help", "--version"):
        done = context.succeed("encast", option)
        require(b"encast" in done.stdout and not done.stderr,
                f"{option} prints {done}")


def close_streams(*streams):
    """For a child: closes standard streams before it starts."""
    return lambda: [os.close(stream) for stream in streams]


def check_standard_streams(context, folder):
    """Output that cannot be printed is an error; notes that cannot are none,
    and never end in a file that was opened instead."""
    command = [context.bin / "encast", "compile", folder, "--emit=llvm"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE)
    done.stdout = b""
    require_refused(done, "standard output.*No space")
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    done.stdout = b""
    require_refused(done, "standard output.*pipe")
    require_refused(context.run(*command,
                                preexec_fn=close_streams(1)),
                    "standard output")

    noted = with_config(architectures=None)
    noted(folder := random_bert.make(context.folder("streams") / "model"))
    whole = context.compile(folder)
    quiet = whole.with_name("quiet.so")
    done = subprocess.run([context.bin / "encast", "compile", folder, "-o",
                           quiet], preexec_fn=close_streams(0, 1, 2))
    require(done.returncode == 0, f"exit status {done.returncode}")
    require_same_bytes(whole, quiet, "compiled without standard streams")


def check_kept_artifact(context, folder):
    """A failing compilation leaves the artifact that was there."""
    work = context.folder("kept")
    artifact = work / "model.so"
    shutil.copy(context.compile(folder), artifact)
    before = artifact.read_bytes()
    bent = random_bert.make(work / "model")
    with_tensors(set_value(QUERY, 61, numpy.nan))(bent)
    require_refused(context.run("encast", "compile", bent, "-o", artifact),
                    "query")
    require(artifact.read_bytes() == before, "the artifact changed")
    require(sorted(os.listdir(work)) == ["model", "model.so"],
            f"left behind: {os.listdir(work)}")


def check_file_limit(context, folder):
    """A file that may not grow further is an error, not a signal."""
    limit = 4096
    work = context.folder("limit")
    for options in ([], ["--emit=llvm"]):
        require_refused(
            context.run("encast", "compile", folder, "-o", work / "m", *options,
                        preexec_fn=lambda: resource.setrlimit(
                            resource.RLIMIT_FSIZE, (limit, limit))),
            "m: cannot .*: File too large")
    require(not os.listdir(work), f"left behind: {os.listdir(work)}")


def check_foreign_recipe(context, folder):
    """An operation of another dialect in a recipe of weights is named."""
    work = context.folder("recipe")
    printed = context.succeed("encast", "compile", folder, "--emit=plan",
                              "--target=x86-64-v3").stdout.decode()
    call = next(line for line in printed.splitlines() if "plan.call" in line)
    recipe = next(line for line in printed.splitlines()
                  if "= encoder.tensor" in line)
    (work / "stage.mlir").write_text(
        printed.replace(recipe, recipe + "\n" + call))
    require_refused(context.run("encast", "compile", work / "stage.mlir",
                                "-o", work / "m.so",
                                f"--weights-root={folder}"),
                    "plan.call.*recipe")


def check_progress(context, folder):
    """A terminal shows what is being done, and keeps what others get."""
    work = context.folder("progress")
    command = ["encast", "compile", folder, "--target=x86-64-v3", "-o",
               work / "model.so"]
    _, left = context.run_on_terminal(*command[:3], "--emit=encoder", "-o",
                                      work / "stage.mlir")
    require(left == "", f"a terminal keeps {left!r}")
    printed, left = context.run_on_terminal(*command)
    for what in ("reading ", "lowering for x86-64-v3",
                 "packing encoder.layer.0"):
        require(f"encast: {what}" in printed, f"no {what}: {printed!r}")
    elsewhere = context.succeed(*command).stderr.decode()

    def without_time(text):
        return re.sub(r" in [0-9.]+ s: ", " in S s: ", text)

    require(without_time(left) == without_time(elsewhere),
            f"a terminal keeps {left!r}, others get {elsewhere!r}")


def tests(context):
    folder = random_bert.make(context.folder("compile") / "bert")
    for target in TARGETS:
        yield (f"compile/reproducible/{target}",
               lambda target=target: check_reproducible(context, folder,
                                                        target))
        for stage in STAGES:
            yield (f"compile/resume/{stage}/{target}",
                   lambda target=target, stage=stage: check_resume(
                       context, folder, target, stage))
    # Every op: windows, rotations, gates, convolutions, tiles.
    for model in ("modernbert-masked-lm", "lfm2-colbert"):
        for target in ("x86-64-v3", "sapphirerapids"):
            for stage in STAGES:
                yield (f"compile/resume/{stage}/{target}/{model}",
                       lambda model=model, target=target, stage=stage:
                       check_resume(context, MODELS / model, target, stage))
    for model in (folder, MODELS / "modernbert-masked-lm",
                  MODELS / "lfm2-colbert"):
        for target in ("x86-64-v3", "sapphirerapids"):
            for stage in STAGES:
                yield (f"compile/encast-opt_reads/{stage}/{target}/"
                       f"{model.name}",
                       lambda model=model, target=target, stage=stage:
                       check_stages_are_parsed(context, model, target, stage))
    for model in ("modernbert-window-64", "lfm2-colbert", "long-72x3"):
        yield (f"compile/bf16_weights/x86-64-v3/{model}",
               lambda model=model: check_bf16_weights(
                   context, MODELS / model, "x86-64-v3"))
        yield (f"compile/bf16_weights/x86-64-v4/{model}",
               lambda model=model: (require_avx512(), check_bf16_weights(
                   context, MODELS / model, "x86-64-v4"))[1])
    yield "compile/progress", lambda: check_progress(context, folder)
    yield "compile/listing", lambda: check_listing(context, folder)
    yield "compile/altered_weights", lambda: check_altered_weights(context,
                                                                   folder)
    for refusal in REFUSALS:
        yield (f"compile/refuses/{refusal.name}",
               lambda refusal=refusal: check_refusal(context, refusal))
    yield ("compile/refuses/files_of_the_model",
           lambda: check_files_of_the_model(context, folder))
    yield "compile/refuses/nesting", lambda: check_nesting(context)
    yield "compile/refuses/command_lines", lambda: check_command_lines(context)
    yield "compile/refuses/foreign_recipe", lambda: check_foreign_recipe(
        context, folder)
    yield "compile/refuses/file_limit", lambda: check_file_limit(context,
                                                                 folder)
    yield "compile/standard_streams", lambda: check_standard_streams(context,
                                                                     folder)
    yield "compile/refuses/paths", lambda: check_paths(context, folder)
    yield "compile/failure_keeps_old_artifact", lambda: check_kept_artifact(
        context, folder)
