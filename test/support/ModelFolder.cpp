//===- ModelFolder.cpp - model folders made by tests ----------------------===//

#include "test/support/ModelFolder.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <numeric>

namespace encast::test {
namespace {

int64_t elementBytes(const std::string &type) {
  if (type == "I64" || type == "F64")
    return 8;
  return type == "F16" || type == "BF16" ? 2 : 4;
}

std::string littleEndian(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>(value >> 8 * i & 255);
  return bytes;
}

} // namespace

std::string safeTensorsBytes(const std::string &header,
                             const std::string &data) {
  return littleEndian(header.size()) + header + data;
}

std::string safeTensorsBytes(const StoredTensors &tensors) {
  std::string header = "{", data;
  for (const auto &[name, tensor] : tensors) {
    int64_t elements =
        std::accumulate(tensor.shape.begin(), tensor.shape.end(), int64_t(1),
                        [](int64_t a, int64_t b) { return a * b; });
    std::string shape;
    for (int64_t dim : tensor.shape)
      shape += (shape.empty() ? "" : ",") + std::to_string(dim);
    size_t begin = data.size();
    size_t size = static_cast<size_t>(elements * elementBytes(tensor.type));
    data += tensor.bytes.empty() ? std::string(size, '\0') : tensor.bytes;
    header += (header.size() > 1 ? "," : "") + std::string("\"") + name +
              "\":{\"dtype\":\"" + tensor.type + "\",\"shape\":[" + shape +
              "],\"data_offsets\":[" + std::to_string(begin) + "," +
              std::to_string(data.size()) + "]}";
  }
  return safeTensorsBytes(header + "}", data);
}

TemporaryFolder::TemporaryFolder() {
  std::string name =
      (std::filesystem::temp_directory_path() / "encast-test-XXXXXX").string();
  if (!mkdtemp(name.data())) {
    std::perror("mkdtemp");
    std::abort();
  }
  folder = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

void TemporaryFolder::write(const std::string &file,
                            const std::string &bytes) const {
  std::filesystem::path target = path(file);
  std::filesystem::create_directories(target.parent_path());
  // Truncating a file makes some file systems write it to the disk at once.
  std::filesystem::remove(target);
  std::ofstream stream(target, std::ios::binary | std::ios::trunc);
  stream << bytes;
}

void ModelFolder::add(const std::string &name, int64_t rows, int64_t columns,
                      const std::string &type) {
  StoredTensor tensor;
  tensor.type = type;
  tensor.shape = {rows};
  if (columns)
    tensor.shape.push_back(columns);
  size_t elements = static_cast<size_t>(rows * (columns ? columns : 1));
  if (type == "F32")
    for (size_t i = 0; i < elements; ++i) {
      float value = static_cast<float>(tensors.size()) + 0.25f * float(i % 7);
      char bytes[4];
      std::memcpy(bytes, &value, 4);
      tensor.bytes.append(bytes, 4);
    }
  tensors[name] = tensor;
}

void ModelFolder::addLinear(const std::string &name, int64_t out, int64_t in) {
  add(name + ".weight", out, in);
  add(name + ".bias", out);
}

void ModelFolder::addNorm(const std::string &name, int64_t size) {
  add(name + ".weight", size);
  add(name + ".bias", size);
}

void ModelFolder::write(const TemporaryFolder &folder) const {
  std::string json;
  for (const auto &[field, value] : config)
    json += (json.empty() ? "{" : ",\n") + std::string("\"") + field +
            "\": " + value;
  folder.write("config.json", json + "}\n");
  for (const auto &[name, bytes] : files)
    folder.write(name, bytes);
  if (shards == 1) {
    folder.write("model.safetensors", safeTensorsBytes(tensors));
    return;
  }
  std::vector<StoredTensors> parts(static_cast<size_t>(shards));
  std::string map;
  size_t next = 0;
  for (const auto &[name, tensor] : tensors) {
    size_t shard = next++ % parts.size();
    parts[shard][name] = tensor;
    map += (map.empty() ? "" : ",") + std::string("\"") + name +
           "\": \"shard-" + std::to_string(shard) + ".safetensors\"";
  }
  for (size_t i = 0; i < parts.size(); ++i)
    folder.write("shard-" + std::to_string(i) + ".safetensors",
                 safeTensorsBytes(parts[i]));
  folder.write("model.safetensors.index.json",
               "{\"metadata\": {\"total_size\": 1.0}, \"weight_map\": {" + map +
                   "}}");
}

BertFolder::BertFolder(const std::string &prefix) {
  config = {{"model_type", "\"bert\""},
            {"architectures", "[\"BertModel\"]"},
            {"vocab_size", std::to_string(vocabulary)},
            {"hidden_size", std::to_string(hidden)},
            {"num_hidden_layers", std::to_string(layers)},
            {"num_attention_heads", "2"},
            {"intermediate_size", std::to_string(feedForward)},
            {"hidden_act", "\"gelu\""},
            {"max_position_embeddings", std::to_string(positions)},
            {"type_vocab_size", std::to_string(types)},
            {"layer_norm_eps", "1e-12"},
            {"pad_token_id", "0"}};
  std::string embeddings = prefix + "embeddings.";
  add(embeddings + "word_embeddings.weight", vocabulary, hidden);
  add(embeddings + "position_embeddings.weight", positions, hidden);
  add(embeddings + "token_type_embeddings.weight", types, hidden);
  addNorm(embeddings + "LayerNorm", hidden);
  for (int64_t i = 0; i < layers; ++i) {
    std::string layer = prefix + "encoder.layer." + std::to_string(i) + ".";
    for (const char *part : {"attention.self.query", "attention.self.key",
                             "attention.self.value", "attention.output.dense"})
      addLinear(layer + part, hidden, hidden);
    addNorm(layer + "attention.output.LayerNorm", hidden);
    addLinear(layer + "intermediate.dense", feedForward, hidden);
    addLinear(layer + "output.dense", hidden, feedForward);
    addNorm(layer + "output.LayerNorm", hidden);
  }
  addLinear(prefix + "pooler.dense", hidden, hidden);
}

void BertFolder::addMaskedLM() {
  addLinear("cls.predictions.transform.dense", hidden, hidden);
  addNorm("cls.predictions.transform.LayerNorm", hidden);
  add("cls.predictions.bias", vocabulary);
}

ModernBertFolder::ModernBertFolder(const std::string &prefix) {
  config = {{"model_type", "\"modernbert\""},
            {"architectures", "[\"ModernBertModel\"]"},
            {"vocab_size", std::to_string(vocabulary)},
            {"hidden_size", std::to_string(hidden)},
            {"num_hidden_layers", std::to_string(layers)},
            {"num_attention_heads", "2"},
            {"intermediate_size", std::to_string(feedForward)},
            {"max_position_embeddings", std::to_string(positions)},
            {"pad_token_id", "3"}};
  add(prefix + "embeddings.tok_embeddings.weight", vocabulary, hidden);
  add(prefix + "embeddings.norm.weight", hidden);
  for (int64_t i = 0; i < layers; ++i) {
    std::string layer = prefix + "layers." + std::to_string(i) + ".";
    if (i > 0)
      add(layer + "attn_norm.weight", hidden);
    add(layer + "attn.Wqkv.weight", 3 * hidden, hidden);
    add(layer + "attn.Wo.weight", hidden, hidden);
    add(layer + "mlp_norm.weight", hidden);
    add(layer + "mlp.Wi.weight", 2 * feedForward, hidden);
    add(layer + "mlp.Wo.weight", hidden, feedForward);
  }
  add(prefix + "final_norm.weight", hidden);
}

void ModernBertFolder::addHead() {
  add("head.dense.weight", hidden, hidden);
  add("head.norm.weight", hidden);
}

Lfm2Folder::Lfm2Folder(const std::string &prefix) {
  config = {{"model_type", "\"lfm2\""},
            {"architectures", "[\"Lfm2BidirectionalModel\"]"},
            {"vocab_size", std::to_string(vocabulary)},
            {"hidden_size", std::to_string(hidden)},
            {"num_hidden_layers", std::to_string(layers)},
            {"num_attention_heads", std::to_string(heads)},
            {"num_key_value_heads", std::to_string(keyValueHeads)},
            {"intermediate_size", std::to_string(feedForward)},
            {"block_auto_adjust_ff_dim", "false"},
            {"layer_types", R"(["conv", "full_attention", "conv"])"},
            {"max_position_embeddings", std::to_string(positions)}};
  add(prefix + "embed_tokens.weight", vocabulary, hidden);
  for (int64_t i = 0; i < layers; ++i) {
    std::string layer = prefix + "layers." + std::to_string(i) + ".";
    add(layer + "operator_norm.weight", hidden);
    add(layer + "ffn_norm.weight", hidden);
    if (i == 1) {
      std::string attention = layer + "self_attn.";
      add(attention + "q_proj.weight", heads * headSize, hidden);
      add(attention + "k_proj.weight", keyValueHeads * headSize, hidden);
      add(attention + "v_proj.weight", keyValueHeads * headSize, hidden);
      add(attention + "out_proj.weight", hidden, heads * headSize);
      add(attention + "q_layernorm.weight", headSize);
      add(attention + "k_layernorm.weight", headSize);
    } else {
      add(layer + "conv.in_proj.weight", 3 * hidden, hidden);
      add(layer + "conv.conv.weight", hidden, 3);
      tensors[layer + "conv.conv.weight"].shape = {hidden, 1, 3};
      add(layer + "conv.out_proj.weight", hidden, hidden);
    }
    add(layer + "feed_forward.w1.weight", feedForward, hidden);
    add(layer + "feed_forward.w3.weight", feedForward, hidden);
    add(layer + "feed_forward.w2.weight", hidden, feedForward);
  }
  add(prefix + "embedding_norm.weight", hidden);
}

} // namespace encast::test
