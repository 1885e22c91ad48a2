"""Writes the folder of a tiny model: config.json, checkpoint, and the modules
of sentence-transformers.

Weights are drawn from the names of case and tensor, so that neither depends on
its place among others.
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

SHORT_LENGTHS = [*range(1, 10), 16, 17, 31, 32, 33, 63, 64, 65]

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}

# What stands before the names of the base model in a checkpoint with a head.
PREFIXES = {"bert": "bert.", "modernbert": "model.", "lfm2": "lfm2."}


@dataclasses.dataclass
class Case:
    name: str
    head: str = "BertModel"  # architecture
    # What its class in Transformers is made from; of the other families
    # also what config.json says, as it stands.
    config: dict = dataclasses.field(default_factory=dict)
    family: str = "bert"
    stored: str = "f32"
    shards: int = 1
    prefix: str = None  # of the base model's names; None: the family's
    pooler: bool = True
    old_norm_names: bool = False  # LayerNorm.gamma and .beta
    # lfm2: linears behind the base model, name to (rows, has a bias), and
    # further tensors, name to shape.
    linears: dict = dataclasses.field(default_factory=dict)
    extra: dict = dataclasses.field(default_factory=dict)
    # Pairs of a module and how its folder is written, see write_module().
    chain: list = None
    subfolder: str = ""  # of the transformer, in a chain
    lengths: list = dataclasses.field(default_factory=lambda: SHORT_LENGTHS)
    token_types: bool = False  # lines of ids carry token_type_ids
    attended: bool = False  # and attended_length
    arguments: list = dataclasses.field(default_factory=list)


def values(case, name, shape):
    """Values of a tensor: large enough that attention and activations are far
    from trivial, and the same for a name wherever it stands. Without a norm
    behind each block, larger ones would make a few layers chaotic: rounding
    would grow as it does in no trained model."""
    random = numpy.random.default_rng(
        [SEED, zlib.crc32(case.name.encode()), zlib.crc32(name.encode())])
    drawn = random.standard_normal(shape)
    if "norm" in name.lower() and name.endswith("weight"):
        drawn = 1 + 0.2 * drawn
    elif name.endswith("bias") or not shape:
        drawn = 0.2 * drawn
    elif "embed" not in name:
        gain = 1.3 if case.family == "bert" else 0.7
        if name.startswith("head."):
            gain = 0.4  # where GELU is about linear: its norm scales it up
        drawn = gain * drawn / numpy.sqrt(shape[-1])
    if name.endswith("Wqkv.weight"):
        drawn[:2 * shape[1]] *= 2  # queries and keys
    return torch.from_numpy(numpy.asarray(drawn, numpy.float32))


def fill(case, module):
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(values(case, name, tuple(parameter.shape)))


def bert_tensors(case, config):
    model = getattr(transformers, case.head)(config).eval()
    fill(case, model)
    tensors = {}
    for name, tensor in model.state_dict().items():
        tied = config.tie_word_embeddings and "predictions.decoder" in name
        if tied or (not case.pooler and "pooler" in name):
            continue
        if case.head == "BertModel":
            name = case.prefix + name
        if case.old_norm_names:
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            name = name.replace("LayerNorm.bias", "LayerNorm.beta")
        tensors[name] = tensor
    return tensors


def modernbert_tensors(case, config):
    model = getattr(transformers, case.head)(config).eval()
    fill(case, model)
    tensors = model.state_dict()
    if config.tie_word_embeddings:
        tensors.pop("decoder.weight", None)
    if case.head == "ModernBertModel":
        tensors = {case.prefix + name: tensor
                   for name, tensor in tensors.items()}
    return tensors


def lfm2_tensors(case, config):
    model = transformers.Lfm2Model(config).eval()
    fill(case, model)
    tensors = {case.prefix + name: tensor
               for name, tensor in model.state_dict().items()}
    shapes = dict(case.extra)
    for name, (rows, has_bias) in case.linears.items():
        shapes[name + ".weight"] = (rows, config.hidden_size)
        if has_bias:
            shapes[name + ".bias"] = (rows,)
    for name, shape in shapes.items():
        tensors[name] = values(case, name, shape)
    return tensors


def base_tensors(case, config):
    """The tensors to store, by name."""
    if case.prefix is None:
        case = dataclasses.replace(case, prefix=PREFIXES[case.family])
    tensors = {"bert": bert_tensors, "modernbert": modernbert_tensors,
               "lfm2": lfm2_tensors}[case.family](case, config)
    return {name: tensor.to(TYPES[case.stored]).contiguous()
            for name, tensor in tensors.items()}


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
    (style "old") or after ("new") its modules were renamed does, or as PyLate
    ("pylate"), whose modules do not say that they work on tokens."""
    folder.mkdir()
    if list(module.parameters()):
        fill(case, module)
    if style == "new" or isinstance(module, (Dense, LayerNorm)):
        module.save(str(folder))
        config = json.loads((folder / "config.json").read_text())
        left_out = {"no activation key": ["activation_function"],
                    "pylate": ["module_input_name", "module_output_name"]}
        for key in left_out.get(style, []):
            del config[key]
        if style in left_out:
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
    if style == "pylate":
        return f"pylate.models.{kind.__name__}.{kind.__name__}"
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
    more = {"prompts": {"query": "query: ", "document": ""},
            "default_prompt_name": None, "similarity_fn_name": "cosine"}
    if any(style == "pylate" for _, style in case.chain):
        more = {"model_type": "ColBERT", "query_prefix": "[Q] ",
                "document_prefix": "[D] ", "query_length": 32,
                "document_length": 512, "do_query_expansion": True,
                "attend_to_expansion_tokens": False,
                "similarity_fn_name": "MaxSim"}
    elif not any(isinstance(module, Pooling) for module, _ in case.chain):
        more = {"model_type": "MultiVectorEncoder",
                "similarity_fn_name": "maxsim"}
    write_json(folder / "config_sentence_transformers.json", more)


def write_folder(case, folder):
    """Writes the model folder of a case."""
    if folder.exists():
        shutil.rmtree(folder)
    kinds = {"bert": transformers.BertConfig,
             "modernbert": transformers.ModernBertConfig,
             "lfm2": transformers.Lfm2Config}
    config = kinds[case.family](**case.config)
    if case.family == "bert":
        fields = config.to_diff_dict()
        fields.pop("transformers_version", None)
    else:
        fields = {"model_type": case.family, **case.config}
    transformer = folder / case.subfolder
    write_checkpoint(transformer, base_tensors(case, config), case.shards)
    write_json(transformer / "config.json",
               {"architectures": [case.head], **fields})
    if case.chain:
        write_chain(case, folder)
