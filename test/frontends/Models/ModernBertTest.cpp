//===- ModernBertTest.cpp - importing ModernBERT folders ------------------===//

#include "test/frontends/Models/ImportFolder.h"

using namespace encast;
using namespace encast::test;

namespace {

using Kind = OutputSpec::Kind;

TEST(ModernBert, FillsTheSpecOfABaseModel) {
  Import result = import(ModernBertFolder("model."));
  ASSERT_TRUE(result.ok) << result.error;
  const ModelSpec &spec = result.spec;
  EXPECT_EQ(spec.family, "modernbert");
  EXPECT_EQ(spec.hidden, 8);
  EXPECT_EQ(spec.layers, 4);
  EXPECT_EQ(spec.heads, 2);
  EXPECT_EQ(spec.keyValueHeads, 2);
  EXPECT_EQ(spec.headSize, 4);
  EXPECT_EQ(spec.feedForward, 12);
  EXPECT_EQ(spec.vocabulary, 11);
  EXPECT_EQ(spec.maxTokens, 64);
  EXPECT_EQ(spec.tokenTypes, 0);
  EXPECT_EQ(spec.padId, 3);
  EXPECT_EQ(spec.activation, "gelu");
  EXPECT_TRUE(spec.preNorm);
  EXPECT_FALSE(spec.attendedLength);
  EXPECT_EQ(spec.embedding.words.name,
            "model.embeddings.tok_embeddings.weight");
  EXPECT_FALSE(spec.embedding.positions.present());
  EXPECT_FALSE(spec.embedding.types.present());
  EXPECT_TRUE(spec.embedding.norm.present());
  EXPECT_EQ(spec.embedding.norm.kind, NormSpec::Kind::Layer);
  EXPECT_EQ(spec.embedding.norm.epsilon, 1e-5);
  EXPECT_FALSE(spec.embedding.norm.bias.present());
  EXPECT_EQ(spec.finalNorm.weight.name, "model.final_norm.weight");
  EXPECT_FALSE(spec.pooler.present());
  EXPECT_EQ(result.outputs(), (Names{"last_hidden_state"}));
  EXPECT_TRUE(result.notes.empty()) << result.notes[0];
}

TEST(ModernBert, PadsWithTheFamilysIdWhereTheVocabularyHasIt) {
  ModernBertFolder model;
  model.config.erase("pad_token_id");
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.padId, -1);
  model.config["vocab_size"] = "50284";
  model.add("embeddings.tok_embeddings.weight", 50284,
            ModernBertFolder::hidden);
  result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.padId, 50283);
}

TEST(ModernBert, SplitsTheFusedMatricesByRows) {
  Import result = import(ModernBertFolder());
  ASSERT_TRUE(result.ok) << result.error;
  ASSERT_EQ(result.spec.blocks.size(), 4u);
  const BlockSpec &block = result.spec.blocks[1];
  EXPECT_EQ(block.mixer, BlockSpec::Mixer::Attention);
  int64_t row = 0;
  for (const LinearSpec *part :
       {&block.attention.query, &block.attention.key, &block.attention.value}) {
    EXPECT_EQ(part->weight.name, "layers.1.attn.Wqkv.weight");
    EXPECT_EQ(part->weight.shape, (std::vector<int64_t>{24, 8}));
    EXPECT_EQ(part->weight.firstRow, row);
    EXPECT_EQ(part->weight.rows, 8);
    EXPECT_FALSE(part->bias.present());
    row += 8;
  }
  EXPECT_EQ(block.attention.query.name, "layers.1.attn.query");
  EXPECT_EQ(block.attention.output.weight.rows, -1);
  EXPECT_FALSE(block.attention.queryNorm.present());
  // The first half of Wi is the one that the activation works on.
  EXPECT_EQ(block.feedForward.gate.weight.firstRow, 0);
  EXPECT_EQ(block.feedForward.up.weight.firstRow, 12);
  EXPECT_EQ(block.feedForward.up.weight.rows, 12);
  EXPECT_EQ(block.feedForward.up.weight.name, "layers.1.mlp.Wi.weight");
}

TEST(ModernBert, OnlyTheFirstLayerHasNoNormInFrontOfAttention) {
  ModernBertFolder model;
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_FALSE(result.spec.blocks[0].mixerNorm.present());
  EXPECT_TRUE(result.spec.blocks[0].feedForwardNorm.present());
  EXPECT_TRUE(result.spec.blocks[1].mixerNorm.present());
  model.add("layers.0.attn_norm.weight", 8);
  EXPECT_TRUE(import(model).errorHas("layers.0.attn_norm.weight"));
  model = ModernBertFolder();
  model.tensors.erase("layers.1.attn_norm.weight");
  EXPECT_TRUE(
      import(model).errorHas("missing tensors: layers.1.attn_norm.weight"));
}

/// Windows and bases of the rotary embedding of all layers.
std::pair<std::vector<int64_t>, std::vector<double>>
layersOf(const ModernBertFolder &model) {
  Import result = import(model);
  EXPECT_TRUE(result.ok) << result.error;
  std::vector<int64_t> windows;
  std::vector<double> thetas;
  for (const BlockSpec &block : result.spec.blocks) {
    windows.push_back(block.attention.window);
    thetas.push_back(block.attention.rope.theta);
  }
  return {windows, thetas};
}

using Windows = std::vector<int64_t>;
using Thetas = std::vector<double>;

TEST(ModernBert, EveryThirdLayerIsGlobalUnlessSaid) {
  ModernBertFolder model;
  EXPECT_EQ(layersOf(model).first, (Windows{-1, 64, 64, -1}));
  model.config["global_attn_every_n_layers"] = "2";
  model.config["local_attention"] = "7";
  EXPECT_EQ(layersOf(model).first, (Windows{-1, 3, -1, 3}));
  model.config["global_attn_every_n_layers"] = "1";
  EXPECT_EQ(layersOf(model).first, (Windows{-1, -1, -1, -1}));
  // The list wins over the period.
  model.config["layer_types"] =
      R"(["sliding_attention", "full_attention", "full_attention",
          "sliding_attention"])";
  EXPECT_EQ(layersOf(model).first, (Windows{3, -1, -1, 3}));
  model.config["local_attention"] = "1";
  EXPECT_EQ(layersOf(model).first, (Windows{0, -1, -1, 0}));
}

TEST(ModernBert, ReadsTheRotaryBasesOfBothKindsOfLayers) {
  ModernBertFolder model;
  auto thetas = [&] {
    Thetas all = layersOf(model).second;
    return Thetas{all[0], all[1]};
  };
  EXPECT_EQ(thetas(), (Thetas{160000, 10000}));
  model.config["global_rope_theta"] = "80000.0";
  EXPECT_EQ(thetas(), (Thetas{80000, 10000}));
  model.config["local_rope_theta"] = "500";
  EXPECT_EQ(thetas(), (Thetas{80000, 500}));
  model.config["local_rope_theta"] = "null";
  EXPECT_EQ(thetas(), (Thetas{80000, 80000}));
  // The newer form wins, type by type.
  model.config["rope_parameters"] =
      R"({"full_attention": {"rope_theta": 1000.5, "rope_type": "default"},
          "sliding_attention": null})";
  EXPECT_EQ(thetas(), (Thetas{1000.5, 1000.5}));
  model.config["local_rope_theta"] = "70";
  EXPECT_EQ(thetas(), (Thetas{1000.5, 70}));
  model.config["rope_parameters"] =
      R"({"sliding_attention": {"rope_theta": 20}})";
  EXPECT_EQ(thetas(), (Thetas{80000, 20}));
  model.config["rope_parameters"] =
      R"({"rope_theta": 3000, "rope_type": "default"})";
  EXPECT_EQ(thetas(), (Thetas{3000, 3000}));
  model.config["rope_parameters"] = R"({"rope_type": "default"})";
  EXPECT_EQ(thetas(), (Thetas{80000, 70}));
  model.config["rope_parameters"] = "null";
  model.config["rope_scaling"] = R"({"type": "default"})";
  EXPECT_EQ(thetas(), (Thetas{80000, 70}));
  model.config["rope_scaling"] = R"({"type": "default", "rope_theta": 50})";
  EXPECT_EQ(thetas(), (Thetas{50, 50}));
  model.config["rope_parameters"] = R"({"rope_theta": 3000})";
  EXPECT_TRUE(import(model).errorHas("config.json: rope_scaling: stands beside "
                                     "rope_parameters, expected one of them"));
  model.config["rope_scaling"] = "{}";
  EXPECT_EQ(thetas(), (Thetas{3000, 3000}));
}

// Transformers before 5 ignores the field, later it is half of local_attention.
TEST(ModernBert, RefusesAnotherWindowThanLocalAttention) {
  ModernBertFolder model;
  model.config["local_attention"] = "9";
  model.config["sliding_window"] = "4";
  EXPECT_TRUE(import(model).ok) << import(model).error;
  model.config["sliding_window"] = "9";
  EXPECT_TRUE(import(model).errorHas("config.json: sliding_window: expected 4, "
                                     "half of local_attention, but got 9"));
}

TEST(ModernBert, BiasesAreWhatTheConfigSays) {
  ModernBertFolder model;
  for (const char *field : {"norm_bias", "attention_bias", "mlp_bias"})
    model.config[field] = "true";
  EXPECT_TRUE(import(model).errorHas(
      "missing tensors: embeddings.norm.bias, layers.0.attn.Wqkv.bias, "
      "layers.0.attn.Wo.bias, layers.0.mlp.Wi.bias, layers.0.mlp.Wo.bias"));
  auto biased = model.tensors;
  for (const auto &[name, tensor] : model.tensors) {
    if (name == "embeddings.tok_embeddings.weight")
      continue;
    std::string bias = name.substr(0, name.rfind('.')) + ".bias";
    biased[bias] = {"F32", {tensor.shape[0]}, ""};
  }
  model.tensors = biased;
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  const BlockSpec &block = result.spec.blocks[2];
  EXPECT_EQ(block.attention.value.bias.name, "layers.2.attn.Wqkv.bias");
  EXPECT_EQ(block.attention.value.bias.firstRow, 16);
  EXPECT_EQ(block.attention.value.bias.rows, 8);
  EXPECT_EQ(block.feedForward.up.bias.firstRow, 12);
  EXPECT_TRUE(block.feedForward.down.bias.present());
  EXPECT_TRUE(block.mixerNorm.bias.present());
  EXPECT_TRUE(result.spec.finalNorm.bias.present());
  // Tensors that the config denies are not what it describes.
  model.config["attention_bias"] = "false";
  EXPECT_TRUE(import(model).errorHas("layers.0.attn.Wqkv.bias"));
}

TEST(ModernBert, MaskedLMTransformsAndTiesItsDecoder) {
  ModernBertFolder model("model.");
  model.config["architectures"] = "[\"ModernBertForMaskedLM\"]";
  model.config["classifier_activation"] = "\"silu\"";
  model.config["classifier_bias"] = "true";
  model.addHead();
  model.add("head.dense.bias", 8);
  model.add("decoder.bias", 11);
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.outputs(), (Names{"last_hidden_state", "token_logits"}));
  EXPECT_EQ(result.defaultOutput(), "token_logits");
  const OutputSpec &output = result.spec.outputs[1];
  EXPECT_EQ(output.kind, Kind::VocabularyLogits);
  EXPECT_EQ(output.transform.weight.name, "head.dense.weight");
  EXPECT_EQ(output.transform.bias.name, "head.dense.bias");
  EXPECT_EQ(output.transformActivation, "silu");
  EXPECT_EQ(output.transformNorm.weight.name, "head.norm.weight");
  EXPECT_EQ(output.transformNorm.epsilon, 1e-5);
  EXPECT_EQ(output.classifier.weight.name,
            "model.embeddings.tok_embeddings.weight");
  EXPECT_EQ(output.classifier.bias.name, "decoder.bias");

  model.config["decoder_bias"] = "false";
  EXPECT_FALSE(import(model).ok && import(model).notes.empty());
  model.tensors.erase("decoder.bias");
  result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_FALSE(result.spec.outputs[1].classifier.bias.present());
}

TEST(ModernBert, TheDecoderMayBeStoredOrUntied) {
  ModernBertFolder model("model.");
  model.config["architectures"] = "[\"ModernBertForMaskedLM\"]";
  model.addHead();
  model.add("decoder.bias", 11);
  const std::string words = "model.embeddings.tok_embeddings.weight";
  model.tensors["decoder.weight"] = model.tensors[words];
  EXPECT_TRUE(import(model).ok);
  model.tensors.erase(words);
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.embedding.words.name, "decoder.weight");
  model.add(words, 11, 8);
  EXPECT_TRUE(import(model).errorHas("are tied, but differ"));
  model.config["tie_word_embeddings"] = "false";
  result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.outputs[1].classifier.weight.name, "decoder.weight");
  EXPECT_EQ(result.spec.embedding.words.name, words);
  model.tensors.erase("decoder.weight");
  EXPECT_TRUE(import(model).errorHas("missing tensors: decoder.weight"));
}

TEST(ModernBert, SequenceClassificationPoolsInFrontOfItsHead) {
  for (const auto &[name, mode] :
       std::vector<std::pair<std::string, PoolingMode>>{
           {"cls", PoolingMode::Cls}, {"mean", PoolingMode::Mean}}) {
    ModernBertFolder model("model.");
    model.config["architectures"] = "[\"ModernBertForSequenceClassification\"]";
    model.config["classifier_pooling"] = "\"" + name + "\"";
    model.config["id2label"] = R"({"0": "a", "1": "b", "2": "c"})";
    model.addHead();
    model.addLinear("classifier", 3, 8);
    Import result = import(model);
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(result.outputs(), (Names{"last_hidden_state", "logits"}));
    const OutputSpec &output = result.spec.outputs[1];
    EXPECT_EQ(output.kind, Kind::PooledLogits);
    EXPECT_EQ(output.pooling, mode);
    EXPECT_TRUE(output.transform.present());
    EXPECT_EQ(output.transformActivation, "gelu");
    EXPECT_EQ(output.classifier.weight.shape[0], 3);
    EXPECT_TRUE(output.classifier.bias.present());
    EXPECT_NE(result.spec.metadataJson.find(R"("labels":["a","b","c"])"),
              std::string::npos);
  }
}

TEST(ModernBert, TokenHeadsTransformEveryToken) {
  ModernBertFolder model("model.");
  model.config["architectures"] = "[\"ModernBertForTokenClassification\"]";
  model.addHead();
  model.addLinear("classifier", 2, 8);
  Import result = import(model, outputs({"token_logits"}));
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.outputs[0].kind, Kind::TokenLogits);
  EXPECT_TRUE(result.spec.outputs[0].transform.present());
  EXPECT_FALSE(result.spec.outputs[0].pooling.has_value());

  model.config["architectures"] = "[\"ModernBertForQuestionAnswering\"]";
  result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.outputs(),
            (Names{"last_hidden_state", "start_logits", "end_logits"}));
  EXPECT_EQ(result.spec.outputs[2].column, 1);
  EXPECT_TRUE(result.spec.outputs[2].transformNorm.present());
  model.addLinear("classifier", 3, 8);
  EXPECT_TRUE(import(model).errorHas("expected shape [classes 2, hidden_size"));

  model.config["architectures"] = "[\"ModernBertForMultipleChoice\"]";
  EXPECT_TRUE(import(model).errorHas("expected shape [choice 1, hidden_size"));
  model.addLinear("classifier", 1, 8);
  EXPECT_TRUE(import(model).ok);
}

TEST(ModernBert, AHeadWithoutTensorsIsAnError) {
  for (const auto &[name, tensor] :
       std::vector<std::pair<std::string, std::string>>{
           {"fill-mask", "decoder.bias"},
           {"text-classification", "classifier.weight"},
           {"multiple-choice", "classifier.weight"},
           {"token-classification", "classifier.weight"},
           {"question-answering", "classifier.weight"}}) {
    Import result = import(ModernBertFolder("model."), task(name));
    EXPECT_TRUE(result.errorHas("missing tensors: head.dense.weight, "
                                "head.norm.weight, "))
        << result.error;
    EXPECT_TRUE(result.errorHas(tensor)) << result.error;
  }
  EXPECT_TRUE(import(ModernBertFolder(), task("pretraining"))
                  .errorHas("unknown task 'pretraining', expected one of "
                            "feature-extraction, sentence-similarity, "
                            "fill-mask, text-classification, multiple-choice, "
                            "token-classification, question-answering"));
}

TEST(ModernBert, HeadsThatNobodyAskedForAreANote) {
  ModernBertFolder model("model.");
  model.addHead();
  model.add("decoder.bias", 11);
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_TRUE(result.noteHas("do not need: decoder.bias, head.dense.weight, "
                             "head.norm.weight"));
}

TEST(ModernBert, TakesAFolderOfSentenceTransformers) {
  ModernBertFolder model;
  // Left over from training; the head's tensors are gone.
  model.config["architectures"] = "[\"ModernBertForMaskedLM\"]";
  model.files["modules.json"] =
      R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
          {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"},
          {"type": "sentence_transformers.models.Normalize", "path": "2_Normalize"}])";
  model.files["1_Pooling/config.json"] =
      R"({"pooling_mode_cls_token": true, "word_embedding_dimension": 8})";
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.outputs(),
            (Names{"last_hidden_state", "sentence_embedding"}));
  EXPECT_EQ(result.defaultOutput(), "sentence_embedding");
}

TEST(ModernBert, RefusesConfigFieldsThatAreAbsurd) {
  for (const auto &[field, value] :
       std::vector<std::pair<std::string, std::string>>{
           {"model_type", "\"modernbert-decoder\""},
           {"architectures", "[\"ModernBertDecoderForCausalLM\"]"},
           {"architectures", "[\"ModernBertForPreTraining\"]"},
           {"auto_map", "{\"AutoModel\": \"x--modeling.ModernBertModel\"}"},
           {"vocab_size", "0"},
           {"hidden_size", "-8"},
           {"num_hidden_layers", "4.5"},
           {"num_attention_heads", "3"},
           {"num_attention_heads", "8"}, // Heads of one element.
           {"head_dim", "8"},
           {"intermediate_size", "0"},
           {"max_position_embeddings", "99999999999"},
           {"norm_eps", "0"},
           {"hidden_activation", "\"gelu_10\""},
           {"classifier_activation", "\"softplus\""},
           {"classifier_pooling", "\"max\""},
           {"norm_bias", "0"},
           {"attention_bias", "\"yes\""},
           {"local_attention", "0"},
           {"local_attention", "-1"},
           {"local_attention", "128.0"},
           {"global_attn_every_n_layers", "0"},
           {"layer_types", "\"full_attention\""},
           {"layer_types", "[\"full_attention\"]"},
           {"layer_types", "[\"full_attention\", \"full_attention\", "
                           "\"full_attention\", \"conv\"]"},
           {"layer_types", "[\"full_attention\", \"full_attention\", "
                           "\"full_attention\", 4]"},
           {"global_rope_theta", "0"},
           {"global_rope_theta", "\"160000\""},
           {"local_rope_theta", "-1"},
           {"partial_rotary_factor", "0.5"},
           {"rope_scaling", "{\"type\": \"linear\", \"factor\": 2.0}"},
           {"rope_scaling", "{\"rope_type\": \"yarn\", \"factor\": 2.0}"},
           {"rope_scaling", "[]"},
           {"rope_scaling", "{\"rope_theta\": 0}"},
           {"rope_parameters", "3"},
           {"rope_parameters", "{\"rope_type\": \"dynamic\"}"},
           {"rope_parameters", "{\"rope_theta\": null}"},
           {"rope_parameters", "{\"full_attention\": []}"},
           {"rope_parameters", "{\"full_attention\": {\"rope_theta\": 0}}"},
           {"rope_parameters",
            "{\"sliding_attention\": {\"rope_type\": \"llama3\"}}"},
           {"rope_parameters", "{\"sliding_attention\": "
                               "{\"partial_rotary_factor\": 0.25}}"}}) {
    ModernBertFolder model;
    model.config[field] = value;
    Import result = import(model);
    EXPECT_TRUE(result.errorHas(result.folder + "/config.json: " + field))
        << field << " " << value << ": " << result.error;
  }
}

TEST(ModernBert, RefusalsOfRotaryRulesNameTheLayersAndTheRule) {
  ModernBertFolder model;
  model.config["rope_parameters"] =
      R"({"full_attention": {"rope_type": "yarn", "factor": 4.0}})";
  EXPECT_TRUE(import(model).errorHas(
      "config.json: rope_parameters: full_attention: rope_type: expected "
      "\"default\", but got \"yarn\""));
}

TEST(ModernBert, RefusesTensorsThatContradictTheConfig) {
  for (const auto &[field, value, tensor] :
       std::vector<std::array<const char *, 3>>{
           {"vocab_size", "12", "embeddings.tok_embeddings.weight"},
           {"intermediate_size", "13", "layers.0.mlp.Wi.weight"}}) {
    ModernBertFolder model;
    model.config[field] = value;
    Import result = import(model);
    EXPECT_TRUE(result.errorHas(std::string(tensor) + ": expected shape ["))
        << result.error;
  }
  ModernBertFolder model;
  model.config["num_hidden_layers"] = "5";
  EXPECT_TRUE(import(model).errorHas("num_hidden_layers: is 5, but the "
                                     "checkpoint has tensors of 4 layers"));
  model.config["num_hidden_layers"] = "3";
  EXPECT_TRUE(import(model).errorHas("num_hidden_layers: is 3"));
}

TEST(ModernBert, RefusesTwoModelsInOneCheckpoint) {
  ModernBertFolder model("model.");
  model.add("layers.0.mlp_norm.weight", 8);
  EXPECT_TRUE(import(model).errorHas("the checkpoint has both "));
}

TEST(ModernBert, AbsentSizesTakeTheFamilysDefaultAndANote) {
  ModernBertFolder model;
  model.config.erase("max_position_embeddings");
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.maxTokens, 8192);
  EXPECT_TRUE(
      result.noteHas("has no max_position_embeddings, the default 8192"));
}

} // namespace
