"""Model folders computed by Transformers and sentence-transformers, eager.

Transformers rounds to f32 inside models of any type: softmax, root-mean-square
norms, rotations. In a float64 reference that would be errors, so these follow
the type of the model here; in f32 nothing changes. The angles of the rotary
embedding stay f32 products of f32 frequencies, because these are what every
user of the models gets.

LFM2 is bidirectional here: no causal mask, and a convolution centred on its
token.
"""

import json

import torch
import transformers
from safetensors.torch import load_file
from sentence_transformers.sentence_transformer import modules as st_modules
from sentence_transformers.base import modules as base_modules
from transformers.models.lfm2 import modeling_lfm2
from transformers.models.modernbert import modeling_modernbert

# Rows of a query that attention computes at once: memory for 8192 tokens.
QUERY_ROWS = 1024


def rms_norm(self, x):
    variance = x.pow(2).mean(-1, keepdim=True)
    return self.weight * (x * torch.rsqrt(variance + self.variance_epsilon))


def attend(module, query, key, value, attention_mask, scaling, **_):
    """softmax(q k' scaling) v over the keys whose mask is 0, a head and
    QUERY_ROWS rows at a time; 0 where a window has no key that is attended."""
    groups = query.shape[1] // key.shape[1]
    result = torch.empty_like(query)
    for head in range(query.shape[1]):
        keys, values = key[:, head // groups], value[:, head // groups]
        for start in range(0, query.shape[2], QUERY_ROWS):
            rows = slice(start, start + QUERY_ROWS)
            scores = query[:, head, rows] @ keys.transpose(1, 2) * scaling
            if attention_mask is not None:
                scores = scores.masked_fill(attention_mask[:, 0, rows] < 0,
                                            -torch.inf)
            result[:, head, rows] = torch.softmax(
                scores, -1).nan_to_num() @ values
    return result.transpose(1, 2).contiguous(), None


def rotate(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    half = modeling_modernbert.rotate_half
    return q * cos + half(q) * sin, k * cos + half(k) * sin


def table(frequencies, x, position_ids):
    """cos and sin [1, T, D] of f32 angles, in the type of x."""
    angles = position_ids[..., None].float() * frequencies.float()
    angles = torch.cat((angles, angles), dim=-1).to(x.dtype)
    return angles.cos(), angles.sin()


def centred_convolution(x, weight, bias=None, **_):
    return torch.nn.functional.conv1d(x, weight.unsqueeze(1), bias,
                                      padding="same", groups=x.shape[1])


def attended_mask(inputs_embeds, attention_mask, **_):
    """0 for keys that are attended, -inf for others; no causal order."""
    if attention_mask is None or bool(attention_mask.all()):
        return None
    keys = attention_mask[:, None, None, :].to(inputs_embeds.dtype)
    return keys.log().expand(-1, -1, inputs_embeds.shape[1], -1)


def patch_transformers():
    modeling_lfm2.Lfm2RMSNorm.forward = rms_norm
    modeling_lfm2.Lfm2RotaryEmbedding.forward = (
        lambda self, x, position_ids: table(self.inv_freq, x, position_ids))
    modeling_lfm2.eager_attention_forward = attend
    modeling_lfm2.create_causal_mask = attended_mask
    # Tokens that are no keys still reach their neighbours.
    modeling_lfm2.create_recurrent_attention_mask = lambda **_: None
    modeling_lfm2.causal_conv1d_fn = centred_convolution
    modeling_modernbert.ModernBertRotaryEmbedding.forward = (
        lambda self, x, position_ids, layer_type: table(
            getattr(self, layer_type + "_inv_freq"), x, position_ids))
    modeling_modernbert.eager_attention_forward = attend
    modeling_modernbert.apply_rotary_pos_emb = rotate


patch_transformers()


def last_component(path):
    return path.rsplit(".", 1)[1]


class Reference:
    """The base model, its heads and the modules of a folder. Subclasses load
    the model and add the outputs of its heads."""

    def __init__(self, folder, dtype):
        self.dtype = dtype
        chain = folder / "modules.json"
        entries = json.loads(chain.read_text()) if chain.exists() else [
            {"path": ""}]
        self.load_model(folder / entries[0]["path"])
        self.pools = any(last_component(entry["type"]) == "Pooling"
                         for entry in entries[1:])
        self.modules = [self.load_module(folder, entry)
                        for entry in entries[1:]]
        if self.modules and not self.pools and not any(
                isinstance(module, base_modules.Normalize)
                for module in self.modules):
            self.modules.append(base_modules.Normalize("token_embeddings"))

    def from_pretrained(self, kind, path):
        """The model, without which head tensors are missing."""
        model, info = kind.from_pretrained(
            path, dtype=self.dtype, attn_implementation="eager",
            output_loading_info=True)
        missing = {key for key in info["missing_keys"] if "pooler" not in key}
        assert not missing, f"{path}: {missing}"
        return model.eval(), bool(info["missing_keys"])

    def load_module(self, folder, entry):
        name = last_component(entry["type"])
        kind = getattr(st_modules, name, None) or getattr(base_modules, name)
        if name == "Normalize" and not (folder / entry["path"]).exists():
            return kind()
        module = kind.load(str(folder), subfolder=entry["path"],
                           local_files_only=True)
        if name == "Dense" and not self.pools:
            # Which PyLate's modules do not say.
            module.module_input_name = "token_embeddings"
            module.module_output_name = "token_embeddings"
        return module.to(self.dtype).eval()

    @torch.no_grad()
    def run(self, ids, types=None, attended=None):
        """Arrays [rows, columns] in float64 by output name, and the same for
        the scale [rows] of each row's error."""
        ids = torch.tensor([ids])
        mask = torch.ones_like(ids)
        if attended is not None:
            mask[0, attended:] = 0
        inputs = {"input_ids": ids, "attention_mask": mask}
        if self.has_types:
            inputs["token_type_ids"] = torch.tensor(
                [types or [0] * ids.shape[1]])
        hidden = self.base(**inputs).last_hidden_state
        found = {"last_hidden_state": hidden[0]}
        operands = {}  # of the last product of an output with one column
        if self.modules:
            features = {"token_embeddings": hidden, "attention_mask": mask}
            for module in self.modules:
                features = module(features)
            if self.pools:
                found["sentence_embedding"] = features["sentence_embedding"]
            else:
                found["token_embeddings"] = features["token_embeddings"][0]
        self.add_heads(inputs, hidden, found, operands)
        scales = {output: rows.abs().amax(1)
                  for output, rows in found.items()}
        for output, (rows, weight) in operands.items():
            scales[output] = rows.norm(dim=1) * weight.norm()
        return ({key: value.double().numpy() for key, value in found.items()},
                {key: value.double().numpy() for key, value in scales.items()})


class Bert(Reference):
    has_types = True

    def load_model(self, path):
        head = json.loads((path / "config.json").read_text())["architectures"]
        self.model, has_missing = self.from_pretrained(
            getattr(transformers, head[0]), path)
        self.base = getattr(self.model, "bert", self.model)
        self.has_pooler = self.base.pooler is not None and not has_missing

    def add_heads(self, inputs, hidden, found, operands):
        if self.has_pooler:
            found["pooler_output"] = self.base.pooler(hidden)
        name = type(self.model).__name__
        if name == "BertModel":
            return
        if name == "BertForMultipleChoice":
            inputs = {key: value[:, None] for key, value in inputs.items()}
        result = self.model(**inputs)
        if name == "BertForPreTraining":
            found["token_logits"] = result.prediction_logits[0]
            found["nsp_logits"] = result.seq_relationship_logits
        elif name in ("BertForMaskedLM", "BertForTokenClassification"):
            found["token_logits"] = result.logits[0]
        elif name == "BertForQuestionAnswering":
            weight = self.model.qa_outputs.weight
            for column, output in enumerate(["start_logits", "end_logits"]):
                found[output] = result[output][0][:, None]
                operands[output] = hidden[0], weight[column]
        else:
            found["logits"] = result.logits
            if result.logits.shape[1] == 1:
                operands["logits"] = (found["pooler_output"],
                                      self.model.classifier.weight[0])


class ModernBert(Reference):
    has_types = False

    def load_model(self, path):
        head = json.loads((path / "config.json").read_text())["architectures"]
        self.model, _ = self.from_pretrained(getattr(transformers, head[0]),
                                             path)
        self.base = getattr(self.model, "model", self.model)

    def add_heads(self, inputs, hidden, found, operands):
        name = type(self.model).__name__
        if name == "ModernBertModel":
            return
        if name == "ModernBertForMultipleChoice":
            inputs = {key: value[:, None] for key, value in inputs.items()}
        result = self.model(**inputs)
        if name in ("ModernBertForMaskedLM",
                    "ModernBertForTokenClassification"):
            found["token_logits"] = result.logits[0]
        elif name == "ModernBertForQuestionAnswering":
            transformed = self.model.head(hidden[0])
            weight = self.model.classifier.weight
            for column, output in enumerate(["start_logits", "end_logits"]):
                found[output] = result[output][0][:, None]
                operands[output] = transformed, weight[column]
        else:
            found["logits"] = result.logits
            if result.logits.shape[1] == 1:
                means = self.model.config.classifier_pooling == "mean"
                pooled = hidden.mean(1) if means else hidden[:, 0]
                operands["logits"] = (self.model.head(pooled),
                                      self.model.classifier.weight[0])


class Lfm2(Reference):
    """Heads are linears whose tensors stand beside the base model's."""

    has_types = False
    outputs = {"lm_head": "token_logits", "classifier": "token_logits",
               "tok_proj": "token_projections",
               "rule_proj": "rule_projections"}

    def load_model(self, path):
        config = transformers.Lfm2Config.from_pretrained(path)
        config._attn_implementation = "eager"
        config.use_cache = False  # which would feed states of other runs
        tensors = {name: tensor for file in sorted(path.glob("*.safetensors"))
                   for name, tensor in load_file(file).items()}
        self.base = transformers.Lfm2Model(config).eval().to(self.dtype)
        names = set(self.base.state_dict())
        base = {name.removeprefix("lfm2.").removeprefix("model."): tensor
                for name, tensor in tensors.items()}
        self.base.load_state_dict({name: base[name] for name in names})
        self.heads = {
            name: (tensors[name + ".weight"].to(self.dtype),
                   tensors[name + ".bias"].to(self.dtype)
                   if name + ".bias" in tensors else None)
            for name in self.outputs if name + ".weight" in tensors}
        architecture = json.loads(
            (path / "config.json").read_text())["architectures"][0]
        if architecture.endswith("ForMaskedLM") and config.tie_word_embeddings:
            self.heads["lm_head"] = self.base.embed_tokens.weight, None

    def add_heads(self, inputs, hidden, found, operands):
        for name, (weight, bias) in self.heads.items():
            found[self.outputs[name]] = torch.nn.functional.linear(
                hidden[0], weight, bias)


def load(folder, dtype):
    """The Reference of a folder, computed in `dtype`."""
    kinds = {"bert": Bert, "lfm2": Lfm2, "modernbert": ModernBert}
    config = folder / "config.json"
    if not config.exists():
        modules = json.loads((folder / "modules.json").read_text())
        config = folder / modules[0]["path"] / "config.json"
    return kinds[json.loads(config.read_text())["model_type"]](folder, dtype)
