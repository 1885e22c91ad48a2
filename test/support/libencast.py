"""libencast.so called from Python, for the end-to-end tests and benches.

Not a product: it covers what those need. Names and rules are encast.h's.
"""

import contextlib
import ctypes

import numpy


class Error(Exception):
    """A call that did not return ENCAST_OK: `code` and the library's text."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class _Error(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("code", ctypes.c_int),
                ("message", ctypes.c_char * 512)]


class _ModelOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("variant", ctypes.c_char_p),
                ("lazy_weights", ctypes.c_int), ("log", ctypes.c_void_p),
                ("log_data", ctypes.c_void_p),
                ("huge_page_weights", ctypes.c_int)]


class _ModelInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [
        (name, ctypes.c_char_p)
        for name in ("family", "variant", "artifact_id", "metadata")
    ] + [(name, ctypes.c_int64)
         for name in ("vocabulary", "max_tokens", "token_types", "pad_id",
                      "hidden", "layers", "output_count", "default_output",
                      "weights_bytes", "attended_length")]


class _OutputInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p),
                ("columns", ctypes.c_int64), ("per_token", ctypes.c_int)]


_Progress = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_double)


class _SessionOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("threads", ctypes.c_int),
                ("pin", ctypes.c_int), ("numa_node", ctypes.c_int),
                ("huge_pages", ctypes.c_int), ("memory_cap", ctypes.c_int64)
                ] + [(name, ctypes.c_void_p) for name in (
                    "executor", "executor_data", "allocate", "free",
                    "allocate_data", "log", "log_data")
                ] + [("progress", _Progress),
                     ("progress_data", ctypes.c_void_p)]


class _Tensor(ctypes.Structure):
    """encast_input and encast_output, which differ in the element type."""
    _fields_ = [("size", ctypes.c_size_t), ("name", ctypes.c_char_p),
                ("data", ctypes.c_void_p), ("count", ctypes.c_int64)]


class _SessionStats(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("variant", ctypes.c_char_p),
                ("threads", ctypes.c_int)] + [
        (name, ctypes.c_int64)
        for name in ("tokens", "sequences", "arena_bytes", "nanoseconds",
                     "step_count", "runs")]


class _StepStats(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [
        (name, ctypes.c_char_p) for name in ("step", "name", "kernel")] + [
        (name, ctypes.c_int64) for name in ("layer", "nanoseconds", "flops")]


class Library:
    def __init__(self, path):
        self._library = ctypes.CDLL(str(path))

    def call(self, function, *arguments):
        error = _Error(size=ctypes.sizeof(_Error))
        status = getattr(self._library, function)(*arguments,
                                                  ctypes.byref(error))
        if status:
            raise Error(status, error.message.decode())


class Model:
    """An opened artifact. A context manager; close its sessions first."""

    def __init__(self, library, path, variant=None, huge_page_weights=False):
        self.library = library
        self.handle = ctypes.c_void_p()
        options = _ModelOptions(ctypes.sizeof(_ModelOptions),
                                variant.encode() if variant else None,
                                huge_page_weights=huge_page_weights)
        library.call("encast_model_open", str(path).encode(),
                     ctypes.byref(options), ctypes.byref(self.handle))
        info = _ModelInfo(size=ctypes.sizeof(_ModelInfo))
        library.call("encast_model_info", self.handle, ctypes.byref(info))
        self.info = info
        self.variant = info.variant.decode()
        self.outputs = {}
        for index in range(info.output_count):
            output = _OutputInfo(size=ctypes.sizeof(_OutputInfo))
            library.call("encast_model_output", self.handle,
                         ctypes.c_int64(index), ctypes.byref(output))
            self.outputs[output.name.decode()] = (
                index, output.columns, bool(output.per_token))
        self.default_output = list(self.outputs)[info.default_output]

    def close(self):
        self.library.call("encast_model_close", self.handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Session:
    """A session of `model`, whose arena grows to what its runs need.
    `progress` takes the share that is done, behind each layer."""

    def __init__(self, model, threads=0, progress=None):
        self.model = model
        self.handle = ctypes.c_void_p()
        options = _SessionOptions(ctypes.sizeof(_SessionOptions), threads, 0,
                                  -1, 1, 0)
        if progress:
            self._progress = _Progress(lambda _, done: progress(done))
            options.progress = self._progress
        model.library.call("encast_session_create", model.handle,
                           ctypes.byref(options), ctypes.byref(self.handle))
        self._reserved = (0, 0, 0)

    def close(self):
        self.model.library.call("encast_session_destroy", self.handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def memory_needed(self, tokens, sequences, mask):
        bytes_needed = ctypes.c_int64()
        self.model.library.call("encast_memory_needed", self.handle,
                                ctypes.c_int64(tokens),
                                ctypes.c_int64(sequences),
                                ctypes.c_uint64(mask),
                                ctypes.byref(bytes_needed))
        return bytes_needed.value

    def reserve(self, tokens, sequences, mask):
        self.model.library.call("encast_session_reserve", self.handle,
                                ctypes.c_int64(tokens),
                                ctypes.c_int64(sequences),
                                ctypes.c_uint64(mask))
        self._reserved = (tokens, sequences, mask)

    def prepare(self, sequences, outputs, token_types=None, rows=None,
                attended=None):
        """Returns (run, results): run() is one encast_run over `sequences`
        (lists of ids) that fills results, a dict from each name in `outputs`
        to its f32 array."""
        model = self.model
        ids = _int64([id for sequence in sequences for id in sequence])
        lengths = [len(sequence) for sequence in sequences]
        offsets = _int64(numpy.concatenate([[0], numpy.cumsum(lengths)]))
        named = {"ids": ids, "offsets": offsets}
        if token_types is not None:
            named["token_type_ids"] = _int64(
                [t for sequence in token_types for t in sequence])
        if rows is not None:
            named["rows"] = _int64(rows)
        if attended is not None:
            named["attended_length"] = _int64(attended)
        token_rows = len(ids) if rows is None else len(rows)
        mask = 0
        results = {}
        for name in outputs:
            index, columns, per_token = model.outputs[name]
            mask |= 1 << index
            results[name] = numpy.full(
                (token_rows if per_token else len(lengths), columns),
                numpy.nan, numpy.float32)
        tokens, count, reserved = self._reserved
        if (tokens < len(ids) or count < len(lengths) or mask & ~reserved):
            self.reserve(max(tokens, len(ids)), max(count, len(lengths)),
                         mask | reserved)
        given = _tensors(named)
        asked = _tensors(results)

        def run():
            model.library.call(
                "encast_run", self.handle, given, ctypes.c_int64(len(given)),
                asked, ctypes.c_int64(len(asked)))

        # The memory that it reads and writes.
        run.keeps = [*named.values(), *results.values()]
        return run, results

    def run(self, sequences, outputs, token_types=None, rows=None,
            attended=None):
        run, results = self.prepare(sequences, outputs, token_types, rows,
                                    attended)
        run()
        return results

    def stats(self):
        stats = _SessionStats(size=ctypes.sizeof(_SessionStats))
        self.model.library.call("encast_session_stats", self.handle,
                                ctypes.byref(stats))
        return stats

    def steps(self):
        """Each call of the last run as a dict of encast_step_stats."""
        calls = []
        for index in range(self.stats().step_count):
            call = _StepStats(size=ctypes.sizeof(_StepStats))
            self.model.library.call("encast_session_step", self.handle,
                                    ctypes.c_int64(index), ctypes.byref(call))
            calls.append({name: getattr(call, name).decode()
                          for name in ("step", "name", "kernel")})
            calls[-1].update({name: getattr(call, name) for name in
                              ("layer", "nanoseconds", "flops")})
        return calls


def _int64(values):
    return numpy.ascontiguousarray(values, dtype=numpy.int64)


def _tensors(arrays):
    return (_Tensor * len(arrays))(*[
        _Tensor(ctypes.sizeof(_Tensor), name.encode(), array.ctypes.data,
                array.size) for name, array in arrays.items()])


@contextlib.contextmanager
def opened(library, path, threads=0, variant=None, progress=None):
    """A session of the artifact at `path`, closed at the end."""
    with Model(library, path, variant) as model:
        with Session(model, threads, progress) as session:
            yield session
