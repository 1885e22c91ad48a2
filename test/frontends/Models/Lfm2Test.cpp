//===- Lfm2Test.cpp - importing bidirectional LFM2 folders ----------------===//

#include "test/frontends/Models/ImportFolder.h"

using namespace encast;
using namespace encast::test;

namespace {

using Kind = OutputSpec::Kind;
using Mixer = BlockSpec::Mixer;

TEST(Lfm2, FillsTheSpecOfABaseModel) {
  Import result = import(Lfm2Folder());
  ASSERT_TRUE(result.ok) << result.error;
  const ModelSpec &spec = result.spec;
  EXPECT_EQ(spec.family, "lfm2");
  EXPECT_EQ(spec.hidden, 16);
  EXPECT_EQ(spec.layers, 3);
  EXPECT_EQ(spec.heads, 4);
  EXPECT_EQ(spec.keyValueHeads, 2);
  EXPECT_EQ(spec.headSize, 4);
  EXPECT_EQ(spec.feedForward, 24);
  EXPECT_EQ(spec.vocabulary, 11);
  EXPECT_EQ(spec.maxTokens, 64);
  EXPECT_EQ(spec.tokenTypes, 0);
  EXPECT_EQ(spec.padId, 0);
  EXPECT_EQ(spec.activation, "silu");
  EXPECT_TRUE(spec.preNorm);
  EXPECT_FALSE(spec.embedding.norm.present());
  EXPECT_EQ(spec.finalNorm.weight.name, "embedding_norm.weight");
  EXPECT_EQ(spec.finalNorm.kind, NormSpec::Kind::RootMeanSquare);
  EXPECT_EQ(spec.finalNorm.epsilon, 1e-5);
  EXPECT_EQ(result.outputs(), (Names{"last_hidden_state"}));
  EXPECT_TRUE(result.notes.empty()) << result.notes[0];
}

TEST(Lfm2, FillsAttentionWithItsNormsAndSharedHeads) {
  Import result = import(Lfm2Folder("lfm2."));
  ASSERT_TRUE(result.ok) << result.error;
  const BlockSpec &block = result.spec.blocks[1];
  EXPECT_EQ(block.mixer, Mixer::Attention);
  EXPECT_EQ(block.mixerNorm.kind, NormSpec::Kind::RootMeanSquare);
  EXPECT_EQ(block.attention.query.weight.name,
            "lfm2.layers.1.self_attn.q_proj.weight");
  EXPECT_EQ(block.attention.key.weight.shape, (std::vector<int64_t>{8, 16}));
  EXPECT_EQ(block.attention.queryNorm.weight.shape, (std::vector<int64_t>{4}));
  EXPECT_EQ(block.attention.keyNorm.kind, NormSpec::Kind::RootMeanSquare);
  EXPECT_EQ(block.attention.rope.theta, 1e6);
  EXPECT_EQ(block.attention.window, -1);
  EXPECT_EQ(block.feedForward.gate.weight.name,
            "lfm2.layers.1.feed_forward.w1.weight");
  EXPECT_EQ(block.feedForward.up.weight.name,
            "lfm2.layers.1.feed_forward.w3.weight");
  EXPECT_EQ(block.feedForward.down.weight.shape,
            (std::vector<int64_t>{16, 24}));
}

TEST(Lfm2, SplitsTheConvolutionsInputInThree) {
  Import result = import(Lfm2Folder("model."));
  ASSERT_TRUE(result.ok) << result.error;
  const BlockSpec &block = result.spec.blocks[2];
  EXPECT_EQ(block.mixer, Mixer::ShortConv);
  const ShortConvSpec &conv = block.conv;
  int64_t row = 0;
  for (const LinearSpec *part : {&conv.gate, &conv.scale, &conv.input}) {
    EXPECT_EQ(part->weight.name, "model.layers.2.conv.in_proj.weight");
    EXPECT_EQ(part->weight.firstRow, row);
    EXPECT_EQ(part->weight.rows, 16);
    row += 16;
  }
  EXPECT_EQ(conv.weight.shape, (std::vector<int64_t>{16, 1, 3}));
  EXPECT_FALSE(conv.weight.exactlyBf16);
  EXPECT_FALSE(conv.bias.present());
  EXPECT_TRUE(conv.output.present());
  EXPECT_FALSE(block.attention.query.present());
}

TEST(Lfm2, ConvolutionsMayHaveBiases) {
  Lfm2Folder model;
  model.config["conv_bias"] = "true";
  EXPECT_TRUE(import(model).errorHas(
      "missing tensors: layers.0.conv.in_proj.bias, layers.0.conv.conv.bias, "
      "layers.0.conv.out_proj.bias"));
  for (const std::string layer : {"layers.0.conv.", "layers.2.conv."}) {
    model.add(layer + "in_proj.bias", 48);
    model.add(layer + "conv.bias", 16);
    model.add(layer + "out_proj.bias", 16);
  }
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  const ShortConvSpec &conv = result.spec.blocks[2].conv;
  EXPECT_EQ(conv.input.bias.firstRow, 32);
  EXPECT_EQ(conv.input.bias.rows, 16);
  EXPECT_EQ(conv.bias.name, "layers.2.conv.conv.bias");
  EXPECT_TRUE(conv.output.bias.present());
}

TEST(Lfm2, ReadsWhichLayersAttend) {
  Lfm2Folder model;
  // The list of layer types wins over the older list of indices.
  model.config["full_attn_idxs"] = "[0, 2]";
  EXPECT_TRUE(import(model).ok);
  model.config["layer_types"] = "null";
  EXPECT_TRUE(import(model).errorHas("layers.0.self_attn.q_proj.weight"));
  model.config["full_attn_idxs"] = "[1]";
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.blocks[0].mixer, Mixer::ShortConv);
  EXPECT_EQ(result.spec.blocks[1].mixer, Mixer::Attention);
  // Neither: all layers attend.
  model.config["full_attn_idxs"] = "null";
  EXPECT_TRUE(import(model).errorHas("layers.2.self_attn.q_proj.weight"));
}

TEST(Lfm2, DerivesTheWidthOfTheFeedForward) {
  struct Case {
    std::map<std::string, std::string> config;
    int64_t width;
  };
  for (const Case &c : std::vector<Case>{
           {{{"intermediate_size", "40"},
             {"block_auto_adjust_ff_dim", "false"}},
            40},
           {{{"intermediate_size", "6656"}}, 4608},
           {{{"intermediate_size", "12288"}}, 8192},
           {{{"intermediate_size", "40"}, {"block_multiple_of", "8"}}, 32},
           {{{"intermediate_size", "40"},
             {"block_multiple_of", "8"},
             {"block_ffn_dim_multiplier", "1.5"}},
            40},
           {{{"intermediate_size", "40"}, {"block_ffn_dim_multiplier", "null"}},
            26},
           {{{"intermediate_size", "40"},
             {"block_ff_dim", "20"},
             {"block_multiple_of", "1"}},
            13}}) {
    Lfm2Folder model;
    model.config.erase("block_auto_adjust_ff_dim");
    for (const auto &[field, value] : c.config)
      model.config[field] = value;
    for (auto &[name, tensor] : model.tensors)
      for (const char *part : {"w1", "w2", "w3"})
        if (name.find(part) != std::string::npos) {
          tensor.shape[std::string(part) == "w2"] = c.width;
          tensor.bytes.clear();
        }
    Import result = import(model);
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(result.spec.feedForward, c.width);
    EXPECT_TRUE(result.notes.empty()) << result.notes[0];
  }
}

TEST(Lfm2, TheTensorsWidthWinsWithANote) {
  Lfm2Folder model;
  model.config["intermediate_size"] = "6656";
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.feedForward, 24);
  EXPECT_TRUE(result.noteHas("implies a feed-forward of 6656, but "
                             "layers.0.feed_forward.w1.weight has 24 rows"));
  // Of all layers alike.
  model.add("layers.1.feed_forward.w1.weight", 23, 16);
  EXPECT_TRUE(import(model).errorHas(
      "layers.1.feed_forward.w1.weight: expected shape [feed-forward 24"));
}

TEST(Lfm2, ReadsTheRotaryBase) {
  Lfm2Folder model;
  auto theta = [&] {
    Import result = import(model);
    EXPECT_TRUE(result.ok) << result.error;
    return result.spec.blocks[1].attention.rope.theta;
  };
  model.config["rope_theta"] = "5000";
  EXPECT_EQ(theta(), 5000);
  model.config["rope_parameters"] =
      R"({"rope_theta": 6000.5, "rope_type": "default"})";
  EXPECT_EQ(theta(), 6000.5);
  model.config["rope_parameters"] =
      R"({"full_attention": {"rope_theta": 7000}})";
  EXPECT_EQ(theta(), 7000);
  model.config["rope_parameters"] = "null";
  model.config["rope_scaling"] = R"({"rope_type": "default"})";
  EXPECT_EQ(theta(), 5000);
  model.config["rope_scaling"] =
      R"({"rope_type": "default", "rope_theta": 50})";
  EXPECT_EQ(theta(), 50);
}

TEST(Lfm2, HeadsMayBeOfAnotherSizeThanTheirShare) {
  Lfm2Folder model;
  model.config["head_dim"] = "6";
  for (auto &[name, tensor] : model.tensors) {
    if (name.find("self_attn") == std::string::npos)
      continue;
    // 4 is head_dim, 8 the keys, 16 the queries or hidden_size.
    bool isOutput = name.find("out_proj") != std::string::npos;
    int64_t &size = tensor.shape[isOutput];
    size = size / 4 * 6;
    tensor.bytes.clear();
  }
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.headSize, 6);
  EXPECT_EQ(result.spec.blocks[1].attention.output.weight.shape,
            (std::vector<int64_t>{16, 24}));
}

TEST(Lfm2, RefusesCausalModels) {
  for (const char *architectures : {"[\"Lfm2ForCausalLM\"]", "[\"Lfm2Model\"]",
                                    "[]", "null", "[3]", "{}"}) {
    Lfm2Folder model;
    model.config["architectures"] = architectures;
    for (const ImportOptions &options :
         {ImportOptions(), task("feature-extraction")}) {
      Import result = import(model, options);
      EXPECT_TRUE(result.errorHas(
          "config.json: architectures: expected a class that begins with "
          "\"Lfm2Bidir\" (other models of type lfm2 are causal decoders), but "
          "got "))
          << result.error;
    }
  }
}

TEST(Lfm2, RefusesBidirectionalClassesWithUnknownHeads) {
  Lfm2Folder model;
  model.config["architectures"] = "[\"Lfm2BidirForSpelling\"]";
  EXPECT_TRUE(import(model).errorHas(
      "architectures: expected one of Lfm2BidirModel, Lfm2BidirForMaskedLM, "
      "Lfm2BidirForTokenClassification, Lfm2BidirForRuleMatching, "
      "Lfm2BidirForSequenceRouting, but got \"Lfm2BidirForSpelling\""));
  EXPECT_TRUE(import(model, task("feature-extraction")).ok);
}

TEST(Lfm2, TakesTheCodeOfItsRepositoriesAndNoOther) {
  Lfm2Folder model;
  for (const char *code : {"modeling_lfm2_bidirectional.Lfm2BidirectionalModel",
                           "LiquidAI/LFM2.5-Encoder-350M--modeling_phase2_tc."
                           "Lfm2BidirP2ForTokenClassification"}) {
    model.config["auto_map"] = std::string("{\"AutoModel\": \"") + code + "\"}";
    EXPECT_TRUE(import(model).ok) << code;
  }
  for (const char *code :
       {"\"modeling_lfm2.Lfm2Model\"", "\"Lfm2Bidir.Other\"", "[\"a\"]", "3"}) {
    model.config["auto_map"] = std::string("{\"AutoModel\": ") + code + "}";
    EXPECT_TRUE(import(model).errorHas("the model runs code of its own"))
        << code;
  }
}

TEST(Lfm2, MaskedLMIsTheWordTableAlone) {
  Lfm2Folder model("lfm2.");
  model.config["architectures"] = "[\"Lfm2BidirectionalForMaskedLM\"]";
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.outputs(), (Names{"last_hidden_state", "token_logits"}));
  const OutputSpec &output = result.spec.outputs[1];
  EXPECT_EQ(output.kind, Kind::VocabularyLogits);
  EXPECT_EQ(output.classifier.weight.name, "lfm2.embed_tokens.weight");
  EXPECT_FALSE(output.classifier.bias.present());
  EXPECT_FALSE(output.transform.present());
  EXPECT_FALSE(output.transformNorm.present());
  EXPECT_EQ(output.transformActivation, "none");
}

TEST(Lfm2, TheDecoderMayBeStoredOrUntied) {
  Lfm2Folder model("lfm2.");
  model.config["architectures"] = "[\"Lfm2BidirectionalForMaskedLM\"]";
  model.tensors["lm_head.weight"] = model.tensors["lfm2.embed_tokens.weight"];
  EXPECT_TRUE(import(model).ok);
  model.tensors["lm_head.weight"].bytes[2] ^= 1;
  EXPECT_TRUE(import(model).errorHas("are tied, but differ"));
  // Two spellings; the vendor's own wins.
  model.config["tie_word_embeddings"] = "true";
  model.config["tie_embedding"] = "false";
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.outputs[1].classifier.weight.name, "lm_head.weight");
  model.config["tie_word_embeddings"] = "false";
  model.config["tie_embedding"] = "true";
  model.tensors.erase("lfm2.embed_tokens.weight");
  result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.embedding.words.name, "lm_head.weight");
}

TEST(Lfm2, TokenClassificationIgnoresTheWeightsOfTraining) {
  Lfm2Folder model("lfm2.");
  model.config["architectures"] = "[\"Lfm2BidirP2ForTokenClassification\"]";
  model.config["id2label"] = R"({"0": "O", "1": "B-NAME", "2": "S-NAME"})";
  model.addLinear("classifier", 3, 16);
  model.add("class_weights", 3);
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.outputs[1].name, "token_logits");
  EXPECT_EQ(result.spec.outputs[1].kind, Kind::TokenLogits);
  EXPECT_FALSE(result.spec.outputs[1].transform.present());
  EXPECT_TRUE(result.noteHas("do not need: class_weights"));
  EXPECT_NE(
      result.spec.metadataJson.find(R"("labels":["O","B-NAME","S-NAME"])"),
      std::string::npos);
}

/// A model with the projections of rules and tokens to 6.
Lfm2Folder scoring(const std::string &architecture, bool scales) {
  Lfm2Folder model("lfm2.");
  model.config["architectures"] = "[\"" + architecture + "\"]";
  model.config["rule_proj_dim"] = "6";
  model.addLinear("tok_proj", 6, 16);
  model.addLinear("rule_proj", 6, 16);
  std::string half("\0\0\0\x3f", 4);
  model.tensors["score_bias"] = {"F32", {}, half};
  if (scales)
    model.tensors["logit_scale"] = {"F32", {}, half};
  return model;
}

TEST(Lfm2, RoutersAndLintersGiveProjectionsOfEveryToken) {
  for (const auto &[architecture, scales, metadata] :
       std::vector<std::tuple<std::string, bool, std::string>>{
           {"Lfm2BidirForSequenceRouting", true,
            R"("score_formula":"cosine","logit_scale":0.5,"score_bias":0.5)"},
           {"Lfm2BidirForRuleMatching", false,
            R"("score_formula":"scaled_dot_product","score_bias":0.5)"}}) {
    Import result = import(scoring(architecture, scales));
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(result.outputs(), (Names{"last_hidden_state", "token_projections",
                                       "rule_projections"}));
    EXPECT_EQ(result.defaultOutput(), "last_hidden_state");
    EXPECT_EQ(result.spec.outputs[1].kind, Kind::TokenLogits);
    EXPECT_EQ(result.spec.outputs[1].classifier.weight.name, "tok_proj.weight");
    EXPECT_EQ(result.spec.outputs[2].classifier.bias.name, "rule_proj.bias");
    EXPECT_NE(result.spec.metadataJson.find(metadata), std::string::npos)
        << result.spec.metadataJson;
    EXPECT_EQ(result.spec.metadataJson.find("labels"), std::string::npos);
  }
}

TEST(Lfm2, RefusesScoresThatAreIncomplete) {
  Lfm2Folder model = scoring("Lfm2BidirForSequenceRouting", false);
  EXPECT_TRUE(import(model).errorHas("missing tensors: logit_scale"));
  model = scoring("Lfm2BidirForRuleMatching", true);
  EXPECT_TRUE(import(model).noteHas("do not need: logit_scale"));
  model.config["rule_proj_dim"] = "7";
  EXPECT_TRUE(import(model).errorHas("expected shape [rule_proj_dim 7, "));
  model.config["rule_proj_dim"] = "0";
  EXPECT_TRUE(import(model).errorHas("config.json: rule_proj_dim: expected"));
  model.config.erase("rule_proj_dim");
  model.tensors.erase("score_bias");
  EXPECT_TRUE(import(model).errorHas("missing tensors: score_bias"));
  model = scoring("Lfm2BidirForRuleMatching", false);
  model.tensors["score_bias"].bytes = std::string("\0\0\xc0\x7f", 4);
  EXPECT_TRUE(import(model).errorHas("score_bias: expected a finite number"));
}

TEST(Lfm2, AColBertFolderProjectsEveryTokenAndTakesAttendedLengths) {
  Lfm2Folder model;
  model.files["modules.json"] =
      R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
          {"type": "pylate.models.Dense.Dense", "path": "1_Dense"}])";
  model.files["1_Dense/config.json"] =
      R"({"in_features": 16, "out_features": 6, "bias": false,
          "activation_function": "torch.nn.modules.linear.Identity"})";
  model.files["1_Dense/model.safetensors"] =
      safeTensorsBytes({{"linear.weight", {"F32", {6, 16}, ""}}});
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.outputs(), (Names{"last_hidden_state", "token_embeddings"}));
  EXPECT_TRUE(result.spec.attendedLength);
  ASSERT_EQ(result.spec.sentence.size(), 2u);
  EXPECT_EQ(result.spec.sentence[1].kind, SentenceModule::Kind::Normalize);
}

TEST(Lfm2, AnEmbeddingFolderPools) {
  Lfm2Folder model;
  model.files["modules.json"] =
      R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
          {"type": "sentence_transformers.models.Pooling", "path": "1_P"}])";
  model.files["1_P/config.json"] = R"({"pooling_mode_cls_token": true})";
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.defaultOutput(), "sentence_embedding");
  EXPECT_FALSE(result.spec.attendedLength);
}

TEST(Lfm2, RefusesConfigFieldsThatAreAbsurd) {
  for (const auto &[field, value] :
       std::vector<std::pair<std::string, std::string>>{
           {"vocab_size", "0"},
           {"hidden_size", "\"16\""},
           {"num_hidden_layers", "0"},
           {"num_attention_heads", "6"},
           {"num_attention_heads", "16"}, // Heads of one element.
           {"num_key_value_heads", "3"},
           {"num_key_value_heads", "8"},
           {"head_dim", "3"},
           {"head_dim", "-4"},
           {"head_dim", "258"},
           {"intermediate_size", "0"},
           {"block_ff_dim", "99999999"},
           {"block_multiple_of", "0"},
           {"block_ffn_dim_multiplier", "-1"},
           {"block_auto_adjust_ff_dim", "1"},
           {"max_position_embeddings", "0"},
           {"norm_eps", "1"},
           {"conv_L_cache", "4"},
           {"conv_bias", "\"no\""},
           {"tie_embedding", "1"},
           {"layer_types", "[\"conv\"]"},
           {"layer_types", "[\"conv\", \"sliding_attention\", \"conv\"]"},
           {"rope_theta", "0"},
           {"rope_scaling", "{\"rope_type\": \"llama3\"}"},
           {"rope_parameters", "{\"rope_type\": \"yarn\"}"},
           {"quantization_config", "{\"bits\": 4}"}}) {
    Lfm2Folder model;
    model.config[field] = value;
    Import result = import(model);
    EXPECT_TRUE(result.errorHas(result.folder + "/config.json: " + field))
        << field << " " << value << ": " << result.error;
  }
  for (const char *indices : {"3", "[3]", "[-1]", "[\"1\"]", "{}"}) {
    Lfm2Folder model;
    model.config.erase("layer_types");
    model.config["full_attn_idxs"] = indices;
    EXPECT_TRUE(import(model).errorHas("config.json: full_attn_idxs: expected"))
        << indices;
  }
  Lfm2Folder model;
  model.config["block_auto_adjust_ff_dim"] = "true";
  model.config["block_ffn_dim_multiplier"] = "500000";
  EXPECT_TRUE(import(model).errorHas(
      "block_ffn_dim_multiplier: makes the feed-forward wider than 1048576"));
}

TEST(Lfm2, RefusesMixersThatTheCheckpointDoesNotHave) {
  Lfm2Folder model;
  model.config["layer_types"] = R"(["full_attention", "conv", "conv"])";
  Import result = import(model);
  EXPECT_TRUE(result.errorHas("missing tensors: "
                              "layers.0.self_attn.q_proj.weight"));
  EXPECT_TRUE(result.errorHas("tensors that this family does not have"));
}

TEST(Lfm2, RefusesTwoModelsInOneCheckpoint) {
  Lfm2Folder model("lfm2.");
  model.add("model.embed_tokens.weight", 11, 16);
  EXPECT_TRUE(import(model).errorHas("the checkpoint has both "));
}

} // namespace
