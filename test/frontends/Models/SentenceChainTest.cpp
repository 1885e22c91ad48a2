//===- SentenceChainTest.cpp - importing sentence-transformers chains -----===//

#include "frontends/Models/ModelSpec.h"
#include "test/support/ModelFolder.h"

#include <gtest/gtest.h>

using namespace encast;
using encast::test::BertFolder;
using encast::test::safeTensorsBytes;
using encast::test::TemporaryFolder;

namespace {

using Modes = std::vector<PoolingMode>;
using Kind = SentenceModule::Kind;

class SentenceChain : public ::testing::Test {
protected:
  BertFolder model;
  ImportOptions options;
  ModelSpec spec;
  std::vector<std::string> notes;
  std::string error;

  /// Sets modules.json to a Transformer and these (type, path) pairs.
  void
  setModules(const std::vector<std::pair<std::string, std::string>> &modules,
             const std::string &transformerPath = "") {
    std::string json = "[{\"idx\": 0, \"name\": \"0\", \"path\": \"" +
                       transformerPath +
                       "\", \"type\": "
                       "\"sentence_transformers.models.Transformer\"}";
    for (const auto &[type, path] : modules)
      json += ",{\"idx\": 1, \"name\": \"1\", \"path\": \"" + path +
              "\", \"type\": \"" + type + "\"}";
    model.files["modules.json"] = json + "]";
  }
  void setPooling(const std::string &config) {
    setModules({{"sentence_transformers.models.Pooling", "1_Pooling"}});
    model.files["1_Pooling/config.json"] = config;
  }
  /// Pooling by mean, then a Dense of 8 to 4 with this config and tensors.
  void setDense(const std::string &config, const test::StoredTensors &tensors) {
    setPooling("{}");
    setModules({{"sentence_transformers.models.Pooling", "1_Pooling"},
                {"sentence_transformers.models.Dense", "2_Dense"},
                {"sentence_transformers.models.Normalize", "3_Normalize"}});
    model.files["2_Dense/config.json"] = config;
    model.files["2_Dense/model.safetensors"] = safeTensorsBytes(tensors);
  }
  /// A projection of every token from 8 to 4, as PyLate writes it.
  void setTokenChain() {
    setModules({{"pylate.models.Dense.Dense", "1_Dense"}});
    model.files["1_Dense/config.json"] =
        R"({"in_features": 8, "out_features": 4, "bias": false,
            "activation_function": "torch.nn.modules.linear.Identity"})";
    model.files["1_Dense/model.safetensors"] =
        safeTensorsBytes({{"linear.weight", {"F32", {4, 8}, ""}}});
  }
  bool import() {
    TemporaryFolder folder;
    model.write(folder);
    notes.clear();
    error.clear();
    return importHuggingFace(folder.path(), options, spec, notes, error);
  }
  Modes modes(const std::string &config) {
    setPooling(config);
    EXPECT_TRUE(import()) << error;
    return spec.sentence.empty() ? Modes() : spec.sentence[0].pooling;
  }
  bool refuses(const std::string &text) {
    return !import() && error.find(text) != std::string::npos;
  }

  const test::StoredTensors linear = {{"linear.weight", {"F32", {4, 8}, ""}},
                                      {"linear.bias", {"F32", {4}, ""}}};
};

TEST_F(SentenceChain, ReadsTheOldFlagsOfPooling) {
  EXPECT_EQ(modes(R"({"word_embedding_dimension": 8,
    "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true,
    "pooling_mode_max_tokens": false,
    "pooling_mode_mean_sqrt_len_tokens": false})"),
            Modes{PoolingMode::Mean});
  for (const auto &[flag, mode] :
       std::vector<std::pair<std::string, PoolingMode>>{
           {"cls_token", PoolingMode::Cls},
           {"max_tokens", PoolingMode::Max},
           {"mean_tokens", PoolingMode::Mean},
           {"mean_sqrt_len_tokens", PoolingMode::MeanSqrtLength},
           {"weightedmean_tokens", PoolingMode::WeightedMean},
           {"lasttoken", PoolingMode::LastToken}})
    EXPECT_EQ(modes("{\"pooling_mode_" + flag + "\": true}"), Modes{mode});
}

TEST_F(SentenceChain, ConcatenatesOldFlagsInAFixedOrder) {
  EXPECT_EQ(modes(R"({"pooling_mode_lasttoken": true,
    "pooling_mode_weightedmean_tokens": true,
    "pooling_mode_mean_sqrt_len_tokens": true,
    "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true,
    "pooling_mode_cls_token": true})"),
            (Modes{PoolingMode::Cls, PoolingMode::Max, PoolingMode::Mean,
                   PoolingMode::MeanSqrtLength, PoolingMode::WeightedMean,
                   PoolingMode::LastToken}));
}

TEST_F(SentenceChain, PoolsByMeanWhenNothingIsSaid) {
  EXPECT_EQ(modes("{}"), Modes{PoolingMode::Mean});
  EXPECT_EQ(modes(R"({"pooling_mode_mean_tokens": false})"),
            Modes{PoolingMode::Mean});
}

TEST_F(SentenceChain, ReadsTheNewPoolingMode) {
  for (const auto &[name, mode] :
       std::vector<std::pair<std::string, PoolingMode>>{
           {"cls", PoolingMode::Cls},
           {"max", PoolingMode::Max},
           {"mean", PoolingMode::Mean},
           {"mean_sqrt_len_tokens", PoolingMode::MeanSqrtLength},
           {"weightedmean", PoolingMode::WeightedMean},
           {"lasttoken", PoolingMode::LastToken}})
    EXPECT_EQ(modes("{\"embedding_dimension\": 8, \"pooling_mode\": \"" + name +
                    "\"}"),
              Modes{mode});
  // The list's own order, and the new key wins over old flags.
  EXPECT_EQ(modes(R"({"pooling_mode": ["mean", "cls"],
                      "pooling_mode_max_tokens": true})"),
            (Modes{PoolingMode::Mean, PoolingMode::Cls}));
}

TEST_F(SentenceChain, RefusesBadPoolingConfigs) {
  for (const auto &[config, field] :
       std::vector<std::pair<std::string, std::string>>{
           {R"({"pooling_mode": "median"})", "pooling_mode"},
           {R"({"pooling_mode": []})", "pooling_mode"},
           {R"({"pooling_mode": ["cls", 1]})", "pooling_mode"},
           {R"({"pooling_mode": true})", "pooling_mode"},
           {R"({"pooling_mode_cls_token": 1})", "pooling_mode_cls_token"},
           {R"({"word_embedding_dimension": 9})", "word_embedding_dimension"},
           {R"({"embedding_dimension": "8"})", "embedding_dimension"},
           {R"({"include_prompt": "no"})", "include_prompt"}}) {
    setPooling(config);
    EXPECT_TRUE(refuses("/1_Pooling/config.json: " + field + ": "))
        << config << ": " << error;
  }
  model.files.erase("1_Pooling/config.json");
  EXPECT_TRUE(refuses("1_Pooling/config.json: cannot open"));
}

TEST_F(SentenceChain, SaysThatPromptsCannotBeExcluded) {
  setPooling(R"({"include_prompt": false})");
  ASSERT_TRUE(import()) << error;
  ASSERT_FALSE(notes.empty());
  EXPECT_NE(notes[0].find("include_prompt: is false"), std::string::npos);
}

TEST_F(SentenceChain, OffersTheEmbeddingFirst) {
  setPooling("{}");
  ASSERT_TRUE(import()) << error;
  ASSERT_EQ(spec.outputs.size(), 3u);
  EXPECT_EQ(spec.outputs[2].name, "sentence_embedding");
  EXPECT_EQ(spec.outputs[2].kind, OutputSpec::Kind::SentenceEmbedding);
  EXPECT_EQ(spec.defaultOutput, 2);
  options.outputs = {"last_hidden_state"};
  ASSERT_TRUE(import()) << error;
  EXPECT_TRUE(spec.sentence.empty());
}

TEST_F(SentenceChain, ReadsModulesInTheOrderOfTheFile) {
  setDense(R"({"in_features": 8, "out_features": 4, "bias": true})", linear);
  ASSERT_TRUE(import()) << error;
  ASSERT_EQ(spec.sentence.size(), 3u);
  EXPECT_EQ(spec.sentence[0].kind, Kind::Pooling);
  EXPECT_EQ(spec.sentence[1].kind, Kind::Dense);
  EXPECT_EQ(spec.sentence[2].kind, Kind::Normalize);
  EXPECT_EQ(spec.sentence[1].dense.name, "2_Dense.linear");
  EXPECT_EQ(spec.sentence[1].dense.weight.file, "2_Dense/model.safetensors");
  EXPECT_EQ(spec.sentence[1].dense.weight.name, "linear.weight");
  EXPECT_TRUE(spec.sentence[1].dense.bias.present());
  ASSERT_EQ(spec.sources.size(), 2u);
  EXPECT_EQ(spec.sources[0].first, "2_Dense/model.safetensors");

  setModules({{"sentence_transformers.models.Pooling", "1_Pooling"},
              {"sentence_transformers.models.Normalize", "3_Normalize"},
              {"sentence_transformers.models.Dropout", "4_Dropout"},
              {"sentence_transformers.models.Dense", "2_Dense"}});
  ASSERT_TRUE(import()) << error;
  ASSERT_EQ(spec.sentence.size(), 3u);
  EXPECT_EQ(spec.sentence[1].kind, Kind::Normalize);
  EXPECT_EQ(spec.sentence[2].kind, Kind::Dense);
}

TEST_F(SentenceChain, KnowsTheModulePathsOfNewReleases) {
  setModules(
      {{"sentence_transformers.sentence_transformer.modules.pooling.Pooling",
        "1_Pooling"},
       {"sentence_transformers.base.modules.normalize.Normalize",
        "2_Normalize"}});
  model.files["1_Pooling/config.json"] =
      R"({"embedding_dimension": 8, "pooling_mode": "cls",
          "include_prompt": true})";
  model.files["2_Normalize/config.json"] =
      R"({"module_input_name": "sentence_embedding",
          "module_output_name": "sentence_embedding"})";
  ASSERT_TRUE(import()) << error;
  EXPECT_EQ(spec.sentence.size(), 2u);
}

TEST_F(SentenceChain, ReadsEveryActivationOfDense) {
  std::string sizes = "{\"in_features\": 8, \"out_features\": 4";
  setDense(sizes + "}", linear);
  ASSERT_TRUE(import()) << error;
  EXPECT_EQ(spec.sentence[1].activation, "tanh");
  for (const auto &[path, activation] :
       std::vector<std::pair<std::string, std::string>>{
           {"linear.Identity", "none"},
           {"activation.Tanh", "tanh"},
           {"activation.ReLU", "relu"},
           {"activation.GELU", "gelu"},
           {"activation.SiLU", "silu"},
           {"activation.Sigmoid", "sigmoid"}}) {
    setDense(sizes + ", \"activation_function\": \"torch.nn.modules." + path +
                 "\"}",
             linear);
    ASSERT_TRUE(import()) << error;
    EXPECT_EQ(spec.sentence[1].activation, activation);
  }
  setDense(sizes + ", \"activation_function\": \"my.module.Tanh\"}", linear);
  EXPECT_TRUE(refuses("2_Dense/config.json: activation_function: expected "
                      "one of torch.nn.modules.linear.Identity"));
}

TEST_F(SentenceChain, DenseMayLackABiasAndHaveAResidual) {
  test::StoredTensors tensors = {{"linear.weight", {"F16", {4, 8}, ""}}};
  std::string config = R"({"in_features": 8, "out_features": 4, "bias": false)";
  setDense(config + "}", tensors);
  ASSERT_TRUE(import()) << error;
  EXPECT_FALSE(spec.sentence[1].dense.bias.present());
  EXPECT_EQ(spec.sentence[1].dense.weight.type, "f16");
  EXPECT_FALSE(spec.sentence[1].useResidual);

  tensors["residual.weight"] = {"F32", {4, 8}, ""};
  setDense(config + R"(, "use_residual": true})", tensors);
  ASSERT_TRUE(import()) << error;
  EXPECT_TRUE(spec.sentence[1].useResidual);
  EXPECT_EQ(spec.sentence[1].residual.weight.name, "residual.weight");
  EXPECT_EQ(spec.sentence[1].residual.name, "2_Dense.residual");

  // Where the sizes agree the input itself is added.
  setDense(R"({"in_features": 8, "out_features": 8, "bias": false,
               "use_residual": true})",
           {{"linear.weight", {"F32", {8, 8}, ""}}});
  ASSERT_TRUE(import()) << error;
  EXPECT_TRUE(spec.sentence[1].useResidual);
  EXPECT_FALSE(spec.sentence[1].residual.weight.present());
}

TEST_F(SentenceChain, ReadsLayerNorm) {
  setPooling(R"({"pooling_mode": ["cls", "mean"]})");
  setModules({{"sentence_transformers.models.Pooling", "1_Pooling"},
              {"sentence_transformers.models.LayerNorm", "2_LayerNorm"}});
  model.files["2_LayerNorm/config.json"] = R"({"dimension": 16})";
  model.files["2_LayerNorm/model.safetensors"] = safeTensorsBytes(
      {{"norm.weight", {"F32", {16}, ""}}, {"norm.bias", {"F32", {16}, ""}}});
  ASSERT_TRUE(import()) << error;
  EXPECT_EQ(spec.sentence[1].kind, Kind::LayerNorm);
  EXPECT_EQ(spec.sentence[1].norm.epsilon, 1e-5);
  EXPECT_EQ(spec.sentence[1].norm.name, "2_LayerNorm.norm");
  model.files["2_LayerNorm/config.json"] = R"({"dimension": 8})";
  EXPECT_TRUE(refuses("2_LayerNorm/config.json: dimension: expected 16, the "
                      "size that the module before it gives, but got 8"));
}

TEST_F(SentenceChain, RefusesBadDenseFolders) {
  std::string good = R"({"in_features": 8, "out_features": 4})";
  setDense(R"({"in_features": 9, "out_features": 4})", linear);
  EXPECT_TRUE(refuses("2_Dense/config.json: in_features: expected 8"));
  setDense(R"({"in_features": 8})", linear);
  EXPECT_TRUE(refuses("2_Dense/config.json: out_features: is missing"));
  setDense(R"({"in_features": 8, "out_features": 0})", linear);
  EXPECT_TRUE(refuses("out_features: expected an integer from 1"));
  setDense(R"({"in_features": 8, "out_features": 5})", linear);
  EXPECT_TRUE(refuses("linear.weight: expected shape [out_features 5"));
  setDense(good, {{"linear.weight", {"F32", {4, 8}, ""}}});
  EXPECT_TRUE(refuses("2_Dense: missing tensors: linear.bias"));
  test::StoredTensors more = linear;
  more["extra"] = {"F32", {1}, ""};
  setDense(good, more);
  EXPECT_TRUE(refuses("(--allow-unused ignores them): extra"));
  options.allowUnused = true;
  EXPECT_TRUE(import()) << error;
  setDense(good, linear);
  model.files.erase("2_Dense/model.safetensors");
  model.files["2_Dense/pytorch_model.bin"] = "PK";
  EXPECT_TRUE(refuses("2_Dense/pytorch_model.bin: pickled"));
}

TEST_F(SentenceChain, ModulesBehindAPoolingReadItsVector) {
  setDense(R"({"in_features": 8, "out_features": 4,
               "module_input_name": "token_embeddings"})",
           linear);
  EXPECT_TRUE(refuses("module_input_name: expected \"sentence_embedding\" "
                      "behind a Pooling, but got \"token_embeddings\""));
  setDense(R"({"in_features": 8, "out_features": 4,
               "module_output_name": "other"})",
           linear);
  EXPECT_TRUE(refuses("module_output_name: expected \"sentence_embedding\""));
}

TEST_F(SentenceChain, WithoutAPoolingItGivesAVectorPerToken) {
  setTokenChain();
  ASSERT_TRUE(import()) << error;
  ASSERT_EQ(spec.outputs.size(), 3u);
  EXPECT_EQ(spec.outputs[2].name, "token_embeddings");
  EXPECT_EQ(spec.outputs[2].kind, OutputSpec::Kind::TokenEmbeddings);
  EXPECT_EQ(spec.outputs[static_cast<size_t>(spec.defaultOutput)].name,
            "last_hidden_state");
  EXPECT_TRUE(spec.attendedLength);
  ASSERT_EQ(spec.sentence.size(), 2u);
  EXPECT_EQ(spec.sentence[0].kind, Kind::Dense);
  EXPECT_EQ(spec.sentence[0].activation, "none");
  EXPECT_EQ(spec.sentence[0].dense.name, "1_Dense.linear");
  EXPECT_FALSE(spec.sentence[0].dense.bias.present());
  EXPECT_EQ(spec.sentence[1].kind, Kind::Normalize);
  options.outputs = {"last_hidden_state"};
  ASSERT_TRUE(import()) << error;
  EXPECT_TRUE(spec.sentence.empty());
  EXPECT_TRUE(spec.attendedLength);
  setPooling("{}");
  ASSERT_TRUE(import()) << error;
  EXPECT_FALSE(spec.attendedLength);
}

TEST_F(SentenceChain, TokensAreNormalizedAsPyLateDoesOrAsTheFolderSays) {
  auto kinds = [&](const std::string &type) {
    setTokenChain();
    model.files["config_sentence_transformers.json"] =
        "{\"model_type\": \"" + type + "\"}";
    EXPECT_TRUE(import()) << error;
    return spec.sentence.size();
  };
  EXPECT_EQ(kinds("ColBERT"), 2u);
  EXPECT_EQ(kinds("SentenceTransformer"), 2u); // what PyLate writes by now
  EXPECT_EQ(kinds("MultiVectorEncoder"), 1u);
  model.files["modules.json"].insert(
      model.files["modules.json"].size() - 1,
      R"(,{"path": "3_Mask", "type": "sentence_transformers.models.MultiVectorMask"},
          {"path": "4_Normalize", "type": "sentence_transformers.models.Normalize"})");
  model.files["4_Normalize/config.json"] =
      R"({"module_input_name": "token_embeddings"})";
  for (const char *type : {"MultiVectorEncoder", "ColBERT"}) {
    model.files["config_sentence_transformers.json"] =
        "{\"model_type\": \"" + std::string(type) + "\"}";
    ASSERT_TRUE(import()) << error;
    EXPECT_EQ(spec.sentence.size(), 2u);
    ASSERT_FALSE(notes.empty());
    EXPECT_NE(notes[0].find("rows of tokens that scoring leaves out"),
              std::string::npos);
  }
  model.files["config_sentence_transformers.json"] = R"({"model_type": 3})";
  model.files.erase("4_Normalize/config.json");
  setTokenChain();
  EXPECT_TRUE(refuses("config_sentence_transformers.json: model_type: "));
}

TEST_F(SentenceChain, RefusesATokenChainThatReadsAnotherVector) {
  setTokenChain();
  model.files["1_Dense/config.json"] =
      R"({"in_features": 8, "out_features": 4, "bias": false,
          "module_input_name": "sentence_embedding"})";
  EXPECT_TRUE(refuses("module_input_name: expected \"token_embeddings\" in a "
                      "chain without a Pooling, but got "
                      "\"sentence_embedding\""));
  setModules({{"sentence_transformers.models.Dense", "1_Dense"},
              {"sentence_transformers.models.Pooling", "2_Pooling"}});
  EXPECT_TRUE(refuses("expected nothing that works on every token before a "
                      "Pooling"));
}

TEST_F(SentenceChain, MetadataHasWhatLateInteractionNeeds) {
  setTokenChain();
  ASSERT_TRUE(import()) << error;
  EXPECT_NE(spec.metadataJson.find(R"("similarity":"MaxSim")"),
            std::string::npos);
  model.files["config_sentence_transformers.json"] =
      R"({"query_prefix": "[Q] ", "document_prefix": "[D] ",
          "query_length": 32, "document_length": 512,
          "do_query_expansion": true, "attend_to_expansion_tokens": false,
          "similarity_fn_name": "maxsim"})";
  ASSERT_TRUE(import()) << error;
  EXPECT_NE(spec.metadataJson.find(
                R"("similarity":"maxsim","query_prefix":"[Q] ",)"
                R"("document_prefix":"[D] ","query_length":32,)"
                R"("document_length":512,"do_query_expansion":true,)"
                R"("attend_to_expansion_tokens":false,)"),
            std::string::npos)
      << spec.metadataJson;
  for (const auto &[field, value] :
       std::vector<std::pair<std::string, std::string>>{
           {"query_prefix", "3"},
           {"query_length", "0"},
           {"document_length", "\"long\""},
           {"do_query_expansion", "1"}}) {
    model.files["config_sentence_transformers.json"] =
        "{\"" + field + "\": " + value + "}";
    EXPECT_TRUE(refuses(field + ": expected ")) << error;
  }
}

TEST_F(SentenceChain, AStanfordProjectionBesideAChainIsNotMeant) {
  setTokenChain();
  model.files["artifact.metadata"] = "{}";
  EXPECT_TRUE(import()) << error;
}

TEST_F(SentenceChain, RefusesModulesOfOtherCode) {
  for (const char *type : {"my_pooling.Pooling", "Pooling", "x.pylate.Dense"}) {
    setModules({{type, "1_Pooling"}});
    EXPECT_TRUE(refuses("modules.json: module 1: type: expected a class of "
                        "sentence_transformers or pylate, but got \"" +
                        std::string(type) + "\""))
        << error;
  }
}

TEST_F(SentenceChain, RefusesUnknownWaysToPool) {
  EXPECT_EQ(modes(R"({"pooling_mode_attention": false})"),
            Modes{PoolingMode::Mean});
  setPooling(R"({"pooling_mode_attention": true})");
  EXPECT_TRUE(refuses("1_Pooling/config.json: pooling_mode_attention: is not a "
                      "known way to pool"));
}

TEST_F(SentenceChain, RefusesALayerNormOfTokens) {
  setModules({{"sentence_transformers.models.LayerNorm", "1_LayerNorm"}});
  model.files["1_LayerNorm/config.json"] = R"({"dimension": 8})";
  model.files["1_LayerNorm/model.safetensors"] = safeTensorsBytes(
      {{"norm.weight", {"F32", {8}, ""}}, {"norm.bias", {"F32", {8}, ""}}});
  EXPECT_TRUE(refuses("a LayerNorm works behind a Pooling, and there is none"));
}

TEST_F(SentenceChain, RefusesAnAdapterBesideTheModel) {
  model.files["adapter_config.json"] = "{}";
  EXPECT_TRUE(refuses("adapter_config.json: marks an adapter"));
}

TEST_F(SentenceChain, RefusesUnknownOrMisplacedModules) {
  setModules({{"sentence_transformers.models.CNN", "1_CNN"}});
  EXPECT_TRUE(refuses("modules.json: module 1: type: expected Pooling, Dense, "
                      "Normalize, LayerNorm or Dropout, but got "
                      "\"sentence_transformers.models.CNN\""));
  setModules({{"sentence_transformers.models.Pooling", "1_Pooling"},
              {"sentence_transformers.models.Pooling", "1_Pooling"}});
  EXPECT_TRUE(refuses("expected one Pooling, but got a second"));
  setModules({{"sentence_transformers.models.Pooling", "../1_Pooling"}});
  EXPECT_TRUE(refuses("module 1: path: expected a path inside"));
  model.files["modules.json"] = "[]";
  EXPECT_TRUE(refuses("modules.json: expected an array of modules"));
  model.files["modules.json"] = "{\"a\": 1}";
  EXPECT_TRUE(refuses("modules.json: expected an array of modules"));
  model.files["modules.json"] = "[3]";
  EXPECT_TRUE(refuses("modules.json: module 0: expected an object"));
  model.files["modules.json"] =
      R"([{"type": "sentence_transformers.models.WordEmbeddings"}])";
  EXPECT_TRUE(refuses("expected a Transformer first"));
}

TEST_F(SentenceChain, ATransformerAloneHasNoEmbedding) {
  setModules({});
  model.config["architectures"] = "[\"BertForSequenceClassification\"]";
  model.addLinear("classifier", 1, 8);
  ASSERT_TRUE(import()) << error;
  EXPECT_EQ(spec.outputs.back().name, "logits");
}

TEST_F(SentenceChain, TakesAHeadBesideTheChainOnlyIfItIsThere) {
  setPooling("{}");
  model.config["architectures"] = "[\"BertForMaskedLM\"]";
  ASSERT_TRUE(import()) << error;
  EXPECT_EQ(spec.outputs.back().name, "sentence_embedding");
  model.addMaskedLM();
  ASSERT_TRUE(import()) << error;
  EXPECT_EQ(spec.outputs.back().name, "token_logits");
  EXPECT_EQ(spec.outputs[static_cast<size_t>(spec.defaultOutput)].name,
            "sentence_embedding");
  model.config["architectures"] = "[\"SomethingElse\"]";
  ASSERT_TRUE(import()) << error;
  EXPECT_EQ(spec.outputs.back().name, "sentence_embedding");
}

TEST_F(SentenceChain, FindsTheTransformerInASubfolder) {
  setModules({{"sentence_transformers.models.Pooling", "1_Pooling"}},
             "0_Transformer");
  TemporaryFolder folder;
  BertFolder transformer;
  std::string json;
  for (const auto &[field, value] : transformer.config)
    json += (json.empty() ? "{\"" : ",\"") + field + "\":" + value;
  folder.write("modules.json", model.files["modules.json"]);
  folder.write("1_Pooling/config.json", "{}");
  folder.write("0_Transformer/config.json", json + "}");
  folder.write("0_Transformer/sentence_bert_config.json",
               "{\"max_seq_length\": 12}");
  folder.write("0_Transformer/model.safetensors",
               safeTensorsBytes(transformer.tensors));
  ASSERT_TRUE(importHuggingFace(folder.path(), {}, spec, notes, error))
      << error;
  EXPECT_EQ(spec.embedding.words.file, "0_Transformer/model.safetensors");
  EXPECT_NE(spec.metadataJson.find("\"max_seq_length\":12"), std::string::npos);
}

} // namespace
