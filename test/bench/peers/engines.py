#!/usr/bin/env python3
"""One engine in a process of its own; compare_peers.py starts and commands it.

usage: engines.py ENGINE THREADS

Reads a JSON command per line from stdin and answers with a JSON line on what
was stdout (which libraries that print cannot reach). An engine may have several
variants (ways to run the model); the best for each case is measured.
"""

import json
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache" / "bench"


def padded(sequences):
    """Ids and attention mask [B, longest], int64."""
    import numpy

    longest = max(map(len, sequences))
    ids = numpy.zeros((len(sequences), longest), numpy.int64)
    mask = numpy.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, :len(sequence)] = sequence
        mask[row, :len(sequence)] = 1
    return ids, mask


def unpadded(hidden, sequences):
    """[B, longest, H] to the rows of real tokens, [T, H]."""
    import numpy

    return numpy.concatenate([hidden[row, :len(sequence)]
                              for row, sequence in enumerate(sequences)])


def torch_model(folder, attention):
    """The model as a module from (ids, mask) to last_hidden_state."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.manual_seed(1)

    class LastHiddenState(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.AutoModel.from_pretrained(
                folder, attn_implementation=attention,
                add_pooling_layer=False, dtype=torch.float32).eval()

        def forward(self, input_ids, attention_mask):
            return self.model(input_ids=input_ids,
                              attention_mask=attention_mask).last_hidden_state

    return LastHiddenState()


def example_inputs():
    import torch

    ids = torch.randint(5, 100, (2, 24))
    mask = torch.ones_like(ids)
    mask[1, 17:] = 0
    return ids, mask


class Torch:
    """Variants: attention by separate products, and by the fused kernel."""

    def load(self, folder, threads):
        import torch

        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)
        self.models = {name: torch_model(folder, name)
                       for name in ("eager", "sdpa")}
        return torch.__version__

    def variants(self, sequences):
        import torch

        ids, mask = map(torch.from_numpy, padded(sequences))

        def runner(model):
            def run():
                with torch.inference_mode():
                    return model(ids, mask)
            return run

        return {name: runner(model) for name, model in self.models.items()}

    def rows(self, result, sequences):
        return unpadded(result.numpy(), sequences)


class OnnxRuntime:
    """Variants: as exported, and with attention fused by ONNX Runtime's own
    optimizer for transformers, which knows the form that the older exporter
    gives eager attention."""

    def load(self, folder, threads):
        import onnxruntime
        import torch
        from onnxruntime.transformers import optimizer
        from onnxruntime.transformers.fusion_options import FusionOptions

        onnxruntime.set_default_logger_severity(3)
        name = pathlib.Path(folder).name
        exported = CACHE / f"{name}.onnx"
        fused = CACHE / f"{name}.fused.onnx"
        config = json.loads((pathlib.Path(folder) / "config.json").read_text())
        axes = {0: "batch", 1: "tokens"}
        with torch.no_grad():
            torch.onnx.export(
                torch_model(folder, "eager"), example_inputs(), str(exported),
                input_names=["input_ids", "attention_mask"],
                output_names=["last_hidden_state"], dynamo=False,
                opset_version=17, dynamic_axes={
                    "input_ids": axes, "attention_mask": axes,
                    "last_hidden_state": axes})
        optimizer.optimize_model(
            str(exported), model_type="bert",
            num_heads=config["num_attention_heads"],
            hidden_size=config["hidden_size"],
            optimization_options=FusionOptions("bert"), opt_level=0,
            use_gpu=False).save_model_to_file(str(fused))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        self.sessions = {
            variant: onnxruntime.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"])
            for variant, path in (("exported", exported), ("fused", fused))}
        return onnxruntime.__version__

    def variants(self, sequences):
        import numpy

        ids, mask = padded(sequences)

        def runner(session):
            given = {}
            for known in session.get_inputs():
                value = ids if known.name == "input_ids" else mask
                int32 = known.type == "tensor(int32)"
                given[known.name] = value.astype(
                    numpy.int32 if int32 else numpy.int64)
            return lambda: session.run(None, given)[0]

        return {name: runner(session)
                for name, session in self.sessions.items()}

    def rows(self, result, sequences):
        return unpadded(result, sequences)


class OpenVino:
    """Variants: one model for all shapes, and one compiled for the case's."""

    def load(self, folder, threads):
        import numpy
        import openvino

        self.core = openvino.Core()
        self.options = {"PERFORMANCE_HINT": "LATENCY",
                        "INFERENCE_NUM_THREADS": threads,
                        "INFERENCE_PRECISION_HINT": "f32"}
        # Converted from the module: its fused attention survives.
        self.model = openvino.convert_model(
            torch_model(folder, "sdpa"), example_input=example_inputs(),
            input=[("input_ids", [-1, -1], numpy.int64),
                   ("attention_mask", [-1, -1], numpy.int64)])
        self.dynamic = self.request(self.model)
        return openvino.__version__

    def request(self, model):
        return self.core.compile_model(model, "CPU",
                                       self.options).create_infer_request()

    def variants(self, sequences):
        ids, mask = padded(sequences)
        static = self.model.clone()
        static.reshape({0: list(ids.shape), 1: list(mask.shape)})

        def runner(request):
            return lambda: request.infer([ids, mask], share_inputs=True,
                                         share_outputs=True)[0]

        return {"dynamic": runner(self.dynamic),
                "static": runner(self.request(static))}

    def rows(self, result, sequences):
        return unpadded(result, sequences)


class Encast:
    """The artifact that compare_peers.py compiled."""

    def load(self, folder, threads):
        sys.path.insert(0, str(ROOT / "test" / "support"))
        import libencast

        library = libencast.Library(ROOT / "build" / "lib" / "libencast.so")
        artifact = CACHE / f"{pathlib.Path(folder).name}.so"
        self.model = libencast.Model(library, artifact)
        self.session = libencast.Session(self.model, threads)
        return self.model.variant

    def variants(self, sequences):
        run, results = self.session.prepare(sequences, ["last_hidden_state"])

        def call():
            run()
            return results["last_hidden_state"]

        return {self.model.variant: call}

    def rows(self, result, sequences):
        return result


ENGINES = {"torch": Torch, "onnxruntime": OnnxRuntime, "openvino": OpenVino,
           "encast": Encast}


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


class Worker:
    def __init__(self, engine, threads):
        self.engine = ENGINES[engine]()
        self.threads = threads
        self.run = None

    def load(self, folder):
        return {"version": self.engine.load(folder, self.threads)}

    def case(self, sequences, rows_file):
        """Prepares a case, picks the best variant and stores its output."""
        import numpy

        variants = self.engine.variants(sequences)
        times = {name: [] for name in variants}
        for name, run in variants.items():
            times[name].append(seconds(run))  # warms up
            once = seconds(run)
            times[name] = [once]
        for _ in range(0 if max(map(max, times.values())) > 1 else 4):
            for name, run in variants.items():
                times[name].append(seconds(run))
        best = min(times, key=lambda name: statistics.median(times[name]))
        self.run = variants[best]
        numpy.save(rows_file, self.engine.rows(self.run(), sequences))
        return {"variant": best, "seconds": statistics.median(times[best])}

    def sample(self, calls):
        """Times `calls` calls after one that warms caches and wakes threads."""
        if calls > 1:
            self.run()
        return {"seconds": [seconds(self.run) for _ in range(calls)]}


def main():
    engine, threads = sys.argv[1], int(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(engine, threads)
    for line in sys.stdin:
        command = json.loads(line)
        action = getattr(worker, command.pop("do"))
        answers.write(json.dumps(action(**command)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
