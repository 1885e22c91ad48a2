"""The tiny BERT folders that make_models.py writes: one Case each.

Together they cover every head, stored type, layout of tensors and files,
activation, pooling and sentence-transformers module that Encast imports, and
sizes that are multiples of nothing.
"""

import dataclasses
import json
import shutil
import zlib

import numpy
import safetensors.torch
import torch
import transformers
from sentence_transformers.base.modules import Dense, Normalize
from sentence_transformers.sentence_transformer.modules import (LayerNorm,
                                                                Pooling)

SEED = 20240611

LONG_LENGTHS = [*range(1, 21), 31, 32, 33, 63, 64, 65, 127, 128, 129,
                255, 256, 257, 511, 512]
SHORT_LENGTHS = [*range(1, 10), 16, 17, 31, 32, 33, 63, 64, 65]

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@dataclasses.dataclass
class Case:
    name: str
    head: str = "BertModel"  # class in Transformers
    config: dict = dataclasses.field(default_factory=dict)
    stored: str = "f32"
    shards: int = 1
    prefix: bool = True  # keep "bert." before the base model's names
    pooler: bool = True
    old_norm_names: bool = False  # LayerNorm.gamma and .beta
    # Pairs of a module and how its folder is written, see write_module().
    chain: list = None
    subfolder: str = ""  # of the transformer, in a chain
    lengths: list = dataclasses.field(default_factory=lambda: SHORT_LENGTHS)
    token_types: bool = False  # lines of ids carry token_type_ids
    arguments: list = dataclasses.field(default_factory=list)


def small(**changes):
    """A config with odd sizes, too short for the long lengths."""
    return {"hidden_size": 24, "num_attention_heads": 2,
            "num_hidden_layers": 2, "intermediate_size": 37, "vocab_size": 97,
            "max_position_embeddings": 70, "type_vocab_size": 2, **changes}


def tiny(**changes):
    return small(hidden_size=16, intermediate_size=27, vocab_size=61, **changes)


def head_cases():
    labels = {"id2label": {i: f"label {i}" for i in range(5)}}
    yield Case("masked-lm", "BertForMaskedLM", small())
    yield Case("masked-lm-untied", "BertForMaskedLM",
               small(tie_word_embeddings=False, vocab_size=131,
                     hidden_act="relu"))
    yield Case("pretraining", "BertForPreTraining", small(), stored="f16",
               token_types=True)
    yield Case("next-sentence", "BertForNextSentencePrediction", small(),
               token_types=True)
    yield Case("reranker", "BertForSequenceClassification",
               small(num_labels=1), token_types=True)
    yield Case("sequence-classification", "BertForSequenceClassification",
               small(**labels), stored="bf16")
    yield Case("token-classification", "BertForTokenClassification",
               small(num_labels=9), shards=2)
    yield Case("question-answering", "BertForQuestionAnswering", small())
    yield Case("multiple-choice", "BertForMultipleChoice", small())


def layout_cases():
    yield Case("long-32x4", config=small(
        hidden_size=32, num_attention_heads=4, intermediate_size=77,
        max_position_embeddings=600), lengths=LONG_LENGTHS, prefix=False)
    yield Case("long-48x3", config=small(
        hidden_size=48, num_attention_heads=3, num_hidden_layers=3,
        intermediate_size=85, vocab_size=500, max_position_embeddings=600),
        stored="f16", lengths=LONG_LENGTHS, token_types=True,
        chain=[(Pooling(48, "mean"), "old"), (Normalize(), "old")],
        prefix=False)
    yield Case("long-40x5", config=small(
        hidden_size=40, num_attention_heads=5, intermediate_size=111,
        vocab_size=300, max_position_embeddings=600), shards=3, pooler=False,
        lengths=LONG_LENGTHS)
    yield Case("long-72x3", config=small(
        hidden_size=72, num_attention_heads=3, intermediate_size=131,
        max_position_embeddings=600, layer_norm_eps=1e-5), stored="bf16",
        lengths=LONG_LENGTHS)
    yield Case("odd-sizes", config=small(
        hidden_size=26, intermediate_size=33, vocab_size=101,
        type_vocab_size=3), token_types=True)
    yield Case("one-head", config=tiny(num_attention_heads=1,
                                       num_hidden_layers=1))
    yield Case("head-size-4", config=tiny(num_attention_heads=4))
    yield Case("old-norm-names", "BertForSequenceClassification",
               tiny(num_labels=3), old_norm_names=True)
    yield Case("unused-heads", "BertForPreTraining", tiny(),
               arguments=["--task=feature-extraction"])


def activation_cases():
    for name in ["gelu_python", "gelu_new", "gelu_pytorch_tanh",
                 "gelu_python_tanh", "gelu_accurate", "gelu_fast",
                 "quick_gelu", "relu", "silu", "swish", "tanh", "sigmoid",
                 "linear"]:
        yield Case("activation-" + name.replace("_", "-"),
                   config=tiny(hidden_act=name, max_position_embeddings=40),
                   stored="f16", pooler=False,
                   lengths=[1, 2, 3, 5, 8, 17, 33, 40])


def chain_cases():
    def case(name, *chain, **more):
        return Case("sentence-" + name, config=tiny(), prefix=False,
                    pooler=False, stored="f16", chain=list(chain), **more)

    modes = list(Pooling.POOLING_MODES)
    for mode in modes:
        yield case(mode.replace("_", "-"), (Pooling(16, mode), "old"))
    yield case("all-flags", (Pooling(16, modes), "old"))
    yield case("mode-list", (Pooling(16, ["mean", "cls"]), "new"),
               (Normalize(), "new"))
    yield case("subfolder", (Pooling(16, "cls"), "new"), (Normalize(), "old"),
               subfolder="0_Transformer")
    mean = (Pooling(16, "mean"), "old")
    yield case("dense-default", mean, (Dense(16, 11), "no activation key"),
               (Normalize(), "old"))
    for name in ["Identity", "ReLU", "GELU", "SiLU", "Sigmoid"]:
        activation = getattr(torch.nn, name)()
        yield case("dense-" + name.lower(), mean,
                   (Dense(16, 23, bias=name != "Identity",
                          activation_function=activation), "new"))
    yield case("dense-residual", mean, (Dense(16, 16, use_residual=True),
                                        "new"))
    yield case("dense-residual-projected", mean,
               (Dense(16, 9, use_residual=True), "new"))
    yield case("normalize-first", mean, (Normalize(), "old"),
               (Dense(16, 20), "old"))
    yield case("layer-norm", (Pooling(16, ["max", "mean"]), "old"),
               (LayerNorm(32), "old"))


def all_cases():
    return [*layout_cases(), *head_cases(), *activation_cases(),
            *chain_cases()]


def values(case, name, shape):
    """Values of a tensor: large enough that attention and activations are far
    from trivial, and the same for a name wherever it stands."""
    random = numpy.random.default_rng(
        [SEED, zlib.crc32(case.name.encode()), zlib.crc32(name.encode())])
    drawn = random.standard_normal(shape)
    if "LayerNorm.weight" in name or name == "norm.weight":
        drawn = 1 + 0.2 * drawn
    elif name.endswith("bias"):
        drawn = 0.2 * drawn
    elif "embeddings" not in name:
        drawn = 1.3 * drawn / numpy.sqrt(shape[-1])
    return torch.from_numpy(drawn.astype(numpy.float32))


def fill(case, module):
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(values(case, name, tuple(parameter.shape)))


def base_tensors(case, config):
    """The tensors to store, by name."""
    model = getattr(transformers, case.head)(config).eval()
    fill(case, model)
    tensors = {}
    for name, tensor in model.state_dict().items():
        tied = config.tie_word_embeddings and "predictions.decoder" in name
        if tied or (not case.pooler and "pooler" in name):
            continue
        if case.prefix and case.head == "BertModel":
            name = "bert." + name
        if case.old_norm_names:
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            name = name.replace("LayerNorm.bias", "LayerNorm.beta")
        tensors[name] = tensor.to(TYPES[case.stored]).contiguous()
    return tensors


def write_checkpoint(folder, tensors, shards):
    folder.mkdir(parents=True, exist_ok=True)
    metadata = {"format": "pt"}
    if shards == 1:
        safetensors.torch.save_file(tensors, folder / "model.safetensors",
                                    metadata)
        return
    weight_map = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        part = dict(list(tensors.items())[shard::shards])
        safetensors.torch.save_file(part, folder / name, metadata)
        weight_map.update(dict.fromkeys(part, name))
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    write_json(folder / "model.safetensors.index.json",
               {"metadata": {"total_size": size},
                "weight_map": dict(sorted(weight_map.items()))})


def write_json(path, value):
    path.write_text(json.dumps(value, indent=2) + "\n")


def write_module(case, folder, module, style):
    """Writes a module's folder as a release of sentence-transformers before
    (style "old") or after ("new") its modules were renamed does."""
    folder.mkdir()
    if list(module.parameters()):
        fill(case, module)
    if style == "new" or isinstance(module, (Dense, LayerNorm)):
        module.save(str(folder))
        if style == "no activation key":
            config = json.loads((folder / "config.json").read_text())
            del config["activation_function"]
            write_json(folder / "config.json", config)
    elif isinstance(module, Pooling):
        modes = module.pooling_mode
        modes = [modes] if isinstance(modes, str) else modes
        flags = {"cls_token": "cls", "mean_tokens": "mean",
                 "max_tokens": "max",
                 "mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
                 "weightedmean_tokens": "weightedmean",
                 "lasttoken": "lasttoken"}
        write_json(folder / "config.json",
                   {"word_embedding_dimension": module.embedding_dimension,
                    **{"pooling_mode_" + flag: mode in modes
                       for flag, mode in flags.items()}})
    else:
        folder.rmdir()  # Normalize had no files


def module_type(module, style):
    kind = type(module)
    if style == "new":
        return f"{kind.__module__}.{kind.__name__}"
    return f"sentence_transformers.models.{kind.__name__}"


def write_chain(case, folder):
    modules = [{"idx": 0, "name": "0", "path": case.subfolder,
                "type": "sentence_transformers.models.Transformer"}]
    for index, (module, style) in enumerate(case.chain, 1):
        path = f"{index}_{type(module).__name__}"
        write_module(case, folder / path, module, style)
        modules.append({"idx": index, "name": str(index), "path": path,
                        "type": module_type(module, style)})
    write_json(folder / "modules.json", modules)
    write_json(folder / case.subfolder / "sentence_bert_config.json",
               {"max_seq_length": 64, "do_lower_case": False})
    write_json(folder / "config_sentence_transformers.json",
               {"prompts": {"query": "query: ", "document": ""},
                "default_prompt_name": None, "similarity_fn_name": "cosine"})


def write_folder(case, folder):
    """Writes the model folder of a case."""
    if folder.exists():
        shutil.rmtree(folder)
    config = transformers.BertConfig(**case.config)
    fields = config.to_diff_dict()
    fields.pop("transformers_version", None)
    transformer = folder / case.subfolder
    write_checkpoint(transformer, base_tensors(case, config), case.shards)
    write_json(transformer / "config.json",
               {"architectures": [case.head], **fields})
    if case.chain:
        write_chain(case, folder)
