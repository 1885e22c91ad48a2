#!/usr/bin/env python3
"""One engine in a process of its own; compare_peers.py starts and commands it.

usage: engines.py ENGINE PRECISION THREADS

Reads a JSON command per line from stdin and answers with a JSON line on what
was stdout (which libraries that print cannot reach). An engine may have several
variants (ways to run the model); the best for each case is measured.
"""

import ctypes
import gc
import json
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]


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


class Torch:
    """Variants: attention by separate products, and by the fused kernel."""

    def load(self, files, threads, precision):
        import torch

        import torch_models

        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)
        dtype = {"f32": "float32", "bf16": "bfloat16"}[precision]
        self.model = torch_models.load(files["folder"], dtype)
        self.masked = torch_models.model_type(files["folder"]) == "bert"
        return torch.__version__

    def variants(self, sequences):
        import torch

        from torch_models import last_hidden_state

        ids, mask = map(torch.from_numpy, padded(sequences))
        mask = mask if self.masked else None

        def runner(attention):
            def run():
                if self.model.config._attn_implementation != attention:
                    self.model.set_attn_implementation(attention)
                with torch.inference_mode():
                    return last_hidden_state(self.model, ids, mask)
            return run

        return {name: lambda name=name: runner(name)
                for name in ("eager", "sdpa")}

    def rows(self, result, sequences):
        return unpadded(result.float().numpy(), sequences)


class OnnxRuntime:
    """Variants: as exported and, for BERT, with attention fused by ONNX
    Runtime's own optimizer for transformers."""

    def load(self, files, threads, precision):
        import onnxruntime

        onnxruntime.set_default_logger_severity(3)
        self.options = onnxruntime.SessionOptions()
        self.options.intra_op_num_threads = threads
        self.files = {name: files["onnx"] + ending
                      for name, ending in (("exported", ""),
                                           ("fused", ".fused"))
                      if os.path.exists(files["onnx"] + ending)}
        return onnxruntime.__version__

    def variants(self, sequences):
        return {name: lambda name=name: self.runner(name, sequences)
                for name in self.files}

    def runner(self, name, sequences):
        import numpy
        import onnxruntime

        session = onnxruntime.InferenceSession(
            self.files[name], self.options,
            providers=["CPUExecutionProvider"])
        ids, mask = padded(sequences)
        given = {}
        for known in session.get_inputs():
            value = ids if known.name == "input_ids" else mask
            int32 = known.type == "tensor(int32)"
            given[known.name] = value.astype(
                numpy.int32 if int32 else numpy.int64)
        return lambda: session.run(None, given)[0]

    def rows(self, result, sequences):
        return unpadded(result, sequences)


class OpenVino:
    """Variants: one model for all shapes, and one compiled for the case's."""

    def load(self, files, threads, precision):
        import openvino

        self.core = openvino.Core()
        self.options = {"PERFORMANCE_HINT": "LATENCY",
                        "INFERENCE_NUM_THREADS": threads,
                        "INFERENCE_PRECISION_HINT": precision}
        self.model = self.core.read_model(files["openvino"])
        return openvino.__version__

    def variants(self, sequences):
        inputs = list(padded(sequences))[:len(self.model.inputs)]

        def runner(model):
            request = self.core.compile_model(
                model, "CPU", self.options).create_infer_request()
            return lambda: request.infer(inputs, share_inputs=True,
                                         share_outputs=True)[0]

        def static():
            model = self.model.clone()
            model.reshape({index: list(value.shape)
                           for index, value in enumerate(inputs)})
            return runner(model)

        return {"dynamic": lambda: runner(self.model), "static": static}

    def rows(self, result, sequences):
        return unpadded(result, sequences)


class LlamaCpp:
    """With flash attention; precision is that of weights and cached keys."""

    def load(self, files, threads, precision):
        import llama_cpp

        self.library = llama_cpp
        self.threads = threads
        self.precision = precision
        self.log = llama_cpp.llama_log_callback(self.keep_errors)
        llama_cpp.llama_log_set(self.log, None)
        llama_cpp.llama_backend_init()
        parameters = llama_cpp.llama_model_default_params()
        self.model = llama_cpp.llama_model_load_from_file(
            files["gguf"].encode(), parameters)
        if not self.model:
            sys.exit(f"engines: error: llama.cpp refuses {files['gguf']}")
        self.context = None
        return llama_cpp.__version__

    @staticmethod
    def keep_errors(level, text, _):
        if level == 4:  # GGML_LOG_LEVEL_ERROR
            sys.stderr.write(text.decode())

    def variants(self, sequences):
        return {"flash attention": lambda: self.runner(sequences[0])}

    def runner(self, ids):
        import numpy

        library = self.library
        if self.context:
            library.llama_free(self.context)
        parameters = library.llama_context_default_params()
        parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = len(ids)
        parameters.n_threads = parameters.n_threads_batch = self.threads
        parameters.embeddings = True
        parameters.pooling_type = library.LLAMA_POOLING_TYPE_NONE
        parameters.flash_attn_type = library.LLAMA_FLASH_ATTN_TYPE_ENABLED
        if self.precision == "f32":
            parameters.type_k = parameters.type_v = library.GGML_TYPE_F32
        self.context = library.llama_init_from_model(self.model, parameters)
        batch = library.llama_batch_init(len(ids), 0, 1)
        batch.n_tokens = len(ids)
        for index, token in enumerate(ids):
            batch.token[index] = token
            batch.pos[index] = index
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = 0
            batch.logits[index] = 1
        hidden = library.llama_model_n_embd(self.model)

        def run():
            memory = library.llama_get_memory(self.context)
            if memory:
                library.llama_memory_clear(memory, False)
            if library.llama_decode(self.context, batch):
                sys.exit("engines: error: llama_decode failed")
            return numpy.ctypeslib.as_array(
                library.llama_get_embeddings(self.context),
                (len(ids), hidden))

        return run

    def rows(self, result, sequences):
        return result


class Encast:
    """The artifact that compare_peers.py compiled."""

    def load(self, files, threads, precision):
        sys.path.insert(0, str(ROOT / "test" / "support"))
        import libencast

        library = libencast.Library(files["library"])
        self.model = libencast.Model(library, files["artifact"],
                                     huge_page_weights=True)
        self.session = libencast.Session(self.model, threads)
        return self.model.variant

    def variants(self, sequences):
        def runner():
            run, results = self.session.prepare(sequences,
                                                ["last_hidden_state"])

            def call():
                run()
                return results["last_hidden_state"]

            return call

        return {self.model.variant: runner}

    def rows(self, result, sequences):
        return result

    def last_run(self):
        return {"steps": self.session.steps(),
                "arena": self.session.stats().arena_bytes}


ENGINES = {"torch": Torch, "onnxruntime": OnnxRuntime, "openvino": OpenVino,
           "llama.cpp": LlamaCpp, "encast": Encast}


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def best_variant(prepare):
    runs = {name: build() for name, build in prepare.items()}
    times = {name: [seconds(run)] for name, run in runs.items()}
    if max(map(max, times.values())) < 1:  # else warming up changes little
        times = {name: [] for name in runs}
        for _ in range(5):
            for name, run in runs.items():
                times[name].append(seconds(run))
    return min(times, key=lambda name: statistics.median(times[name]))


class Worker:
    def __init__(self, engine, precision, threads):
        self.engine = ENGINES[engine]()
        self.precision = precision
        self.threads = threads

    def load(self, files):
        return {"version": self.engine.load(files, self.threads,
                                            self.precision)}

    def case(self, sequences, variant):
        """Prepares a case: its best variant, or the named one."""
        self.run = self.result = None
        self.sequences = sequences
        prepare = self.engine.variants(sequences)
        if len(prepare) > 1 and variant is None:
            variant = best_variant(prepare)
        variant = variant or next(iter(prepare))
        # Memory of the case before, and of other variants, is not this one's.
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        self.run = prepare[variant]()
        return {"variant": variant}

    def sample(self, calls, warm_up=False):
        """Times `calls` calls, behind one that warms caches and wakes threads
        if asked for."""
        if warm_up:
            self.run()
        taken = []
        for _ in range(calls):
            start = time.perf_counter()
            self.result = self.run()
            taken.append(time.perf_counter() - start)
        return {"seconds": statistics.median(taken)}

    def rows(self, file):
        """Stores what the last run made, [T, H]."""
        import numpy

        numpy.save(file, self.engine.rows(self.result, self.sequences))
        return {}

    def last_run(self):
        """Steps and arena of Encast's last run."""
        return self.engine.last_run()


def main():
    engine, precision, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(engine, precision, threads)
    for line in sys.stdin:
        command = json.loads(line)
        action = getattr(worker, command.pop("do"))
        answers.write(json.dumps(action(**command)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
