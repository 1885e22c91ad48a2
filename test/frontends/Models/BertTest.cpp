//===- BertTest.cpp - importing BERT folders ------------------------------===//

#include "test/frontends/Models/ImportFolder.h"

using namespace encast;
using namespace encast::test;

namespace {

TEST(Bert, FillsTheSpecOfABaseModel) {
  Import result = import(BertFolder("bert."));
  ASSERT_TRUE(result.ok) << result.error;
  const ModelSpec &spec = result.spec;
  EXPECT_EQ(spec.family, "bert");
  EXPECT_EQ(spec.hidden, 8);
  EXPECT_EQ(spec.layers, 2);
  EXPECT_EQ(spec.heads, 2);
  EXPECT_EQ(spec.keyValueHeads, 2);
  EXPECT_EQ(spec.headSize, 4);
  EXPECT_EQ(spec.feedForward, 12);
  EXPECT_EQ(spec.vocabulary, 11);
  EXPECT_EQ(spec.maxTokens, 16);
  EXPECT_EQ(spec.tokenTypes, 2);
  EXPECT_EQ(spec.padId, 0);
  EXPECT_EQ(spec.activation, "gelu");
  EXPECT_EQ(spec.embedding.words.name,
            "bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(spec.embedding.words.type, "f32");
  EXPECT_EQ(spec.embedding.norm.epsilon, 1e-12);
  ASSERT_EQ(spec.blocks.size(), 2u);
  const LinearSpec &down = spec.blocks[1].feedForward.down;
  EXPECT_EQ(down.name, "encoder.layer.1.output.dense");
  EXPECT_EQ(down.weight.name, "bert.encoder.layer.1.output.dense.weight");
  EXPECT_EQ(down.weight.shape, (std::vector<int64_t>{8, 12}));
  EXPECT_EQ(down.weight.file, "model.safetensors");
  EXPECT_EQ(down.bias.shape, (std::vector<int64_t>{8}));
  EXPECT_EQ(spec.pooler.weight.name, "bert.pooler.dense.weight");
  EXPECT_EQ(result.outputs(), (Names{"last_hidden_state", "pooler_output"}));
  EXPECT_EQ(result.defaultOutput(), "last_hidden_state");
  ASSERT_EQ(spec.sources.size(), 1u);
  EXPECT_EQ(spec.sources[0].first, "model.safetensors");
  EXPECT_EQ(spec.sources[0].second.size(), 64u);
  EXPECT_TRUE(result.notes.empty()) << result.notes[0];
}

TEST(Bert, TakesTensorsWithoutPrefix) {
  Import result = import(BertFolder(""));
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.blocks[0].attention.query.weight.name,
            "encoder.layer.0.attention.self.query.weight");
}

TEST(Bert, RefusesTwoModelsInOneCheckpoint) {
  BertFolder model("bert.");
  model.add("embeddings.word_embeddings.weight", 11, 8);
  EXPECT_TRUE(import(model).errorHas("the checkpoint has both "));
}

TEST(Bert, OffersNoPoolerOutputWithoutPooler) {
  BertFolder model;
  model.tensors.erase("pooler.dense.weight");
  model.tensors.erase("pooler.dense.bias");
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.outputs(), (Names{"last_hidden_state"}));
  EXPECT_FALSE(result.spec.pooler.weight.present());
}

TEST(Bert, ReadsShardsAndNamesOnlyTheFilesThatAreUsed) {
  BertFolder model;
  model.shards = 3;
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.sources.size(), 3u);
  EXPECT_EQ(result.spec.sources[1].first, "shard-1.safetensors");
}

TEST(Bert, KeepsTheStoredTypeOfEachTensor) {
  BertFolder model;
  model.add("embeddings.word_embeddings.weight", 11, 8, "F16");
  model.add("encoder.layer.0.output.dense.weight", 8, 12, "BF16");
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.embedding.words.type, "f16");
  EXPECT_EQ(result.spec.blocks[0].feedForward.down.weight.type, "bf16");
}

TEST(Bert, RefusesWeightsOfOtherTypes) {
  BertFolder model;
  model.add("embeddings.LayerNorm.weight", 8, 0, "F64");
  EXPECT_TRUE(import(model).errorHas(
      "embeddings.LayerNorm.weight: expected dtype F32, F16 or BF16, but got "
      "F64"));
}

TEST(Bert, TakesTheOldNamesOfLayerNormsAndOnlyOfThem) {
  BertFolder model;
  for (const std::string norm :
       {"embeddings.LayerNorm", "encoder.layer.0.output.LayerNorm"}) {
    model.tensors.erase(norm + ".weight");
    model.tensors.erase(norm + ".bias");
    model.add(norm + ".gamma", 8);
    model.add(norm + ".beta", 8);
  }
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.embedding.norm.weight.name,
            "embeddings.LayerNorm.gamma");
  EXPECT_EQ(result.spec.blocks[0].feedForwardNorm.bias.name,
            "encoder.layer.0.output.LayerNorm.beta");

  model.add("embeddings.LayerNorm.weight", 8);
  EXPECT_TRUE(import(model).errorHas("and its old name "
                                     "embeddings.LayerNorm.gamma are present"));

  BertFolder linear;
  linear.tensors["encoder.layer.0.output.dense.beta"] =
      linear.tensors["encoder.layer.0.output.dense.bias"];
  linear.tensors.erase("encoder.layer.0.output.dense.bias");
  EXPECT_TRUE(import(linear).errorHas("missing tensors: "
                                      "encoder.layer.0.output.dense.bias"));
}

TEST(Bert, ReadsEveryActivationName) {
  for (const auto &[name, activation] :
       std::vector<std::pair<std::string, std::string>>{
           {"gelu", "gelu"},
           {"gelu_python", "gelu"},
           {"gelu_new", "gelu_tanh"},
           {"gelu_pytorch_tanh", "gelu_tanh"},
           {"gelu_python_tanh", "gelu_tanh"},
           {"gelu_accurate", "gelu_tanh"},
           {"gelu_fast", "gelu_tanh"},
           {"quick_gelu", "quick_gelu"},
           {"relu", "relu"},
           {"silu", "silu"},
           {"swish", "silu"},
           {"tanh", "tanh"},
           {"sigmoid", "sigmoid"},
           {"linear", "none"}}) {
    BertFolder model;
    model.config["hidden_act"] = "\"" + name + "\"";
    Import result = import(model);
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(result.spec.activation, activation);
  }
}

TEST(Bert, RefusesConfigFieldsThatAreAbsurd) {
  for (const auto &[field, value] :
       std::vector<std::pair<std::string, std::string>>{
           {"vocab_size", "0"},
           {"vocab_size", "-1"},
           {"vocab_size", "99999999999"},
           {"vocab_size", "11.0"},
           {"vocab_size", "null"},
           {"hidden_size", "0"},
           {"hidden_size", "\"8\""},
           {"hidden_size", "1000000"},
           {"num_hidden_layers", "0"},
           {"num_hidden_layers", "100000"},
           {"num_attention_heads", "0"},
           {"num_attention_heads", "3"},
           {"num_attention_heads", "-2"},
           {"intermediate_size", "0"},
           {"intermediate_size", "[12]"},
           {"max_position_embeddings", "0"},
           {"type_vocab_size", "0"},
           {"layer_norm_eps", "0"},
           {"layer_norm_eps", "-1e-5"},
           {"layer_norm_eps", "1"},
           {"layer_norm_eps", "\"1e-12\""},
           {"hidden_act", "\"gelu_10\""},
           {"hidden_act", "\"relu2\""},
           {"hidden_act", "3"},
           {"position_embedding_type", "\"relative_key\""},
           {"position_embedding_type", "\"relative_key_query\""},
           {"position_embedding_type", "\"alibi\""},
           {"is_decoder", "true"},
           {"is_decoder", "1"},
           {"add_cross_attention", "true"},
           {"tie_word_embeddings", "\"no\""},
           {"pad_token_id", "-2"},
           {"architectures", "\"BertModel\""},
           {"architectures", "[\"BertLMHeadModel\"]"},
           {"architectures", "[\"BertForRuleMatching\"]"},
           {"architectures", "[3]"},
           {"auto_map", "{\"AutoModel\": \"x--modeling.Model\"}"},
           {"auto_map", "[\"x\"]"},
           {"quantization_config", "{\"bits\": 4}"},
           {"pruned_heads", "{\"0\": [1]}"},
           {"model_type", "\"roberta\""},
           {"model_type", "7"}}) {
    BertFolder model;
    model.config[field] = value;
    Import result = import(model);
    EXPECT_TRUE(
        result.errorHas(result.folder + "/config.json: " + field + ": "))
        << field << " " << value << ": " << result.error;
  }
}

TEST(Bert, RefusesHeadsThatAttentionDoesNotWorkWith) {
  BertFolder model;
  model.config["hidden_size"] = "600";
  Import result = import(model);
  EXPECT_TRUE(
      result.errorHas("config.json: num_attention_heads: expected heads "
                      "of at most 256 columns, but hidden_size 600"))
      << result.error;
}

TEST(Bert, AcceptsHarmlessNullsAndEmptyFields) {
  BertFolder model;
  model.config["position_embedding_type"] = "null";
  model.config["pad_token_id"] = "null";
  model.config["pruned_heads"] = "{}";
  model.config["auto_map"] = "{\"AutoTokenizer\": [\"x\", null]}";
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.padId, -1);
}

TEST(Bert, RefusesUnknownFamiliesWithTheListOfKnownOnes) {
  BertFolder model;
  model.config["model_type"] = "\"deberta-v2\"";
  EXPECT_TRUE(import(model).errorHas(
      "model_type: expected one of bert, lfm2, modernbert, but "
      "got \"deberta-v2\""));
  model.config.erase("model_type");
  EXPECT_TRUE(
      import(model).errorHas("model_type: is missing, expected one of bert"));
}

TEST(Bert, RefusesJinaModelsThatCallThemselvesBert) {
  BertFolder model;
  model.config["auto_map"] =
      "{\"AutoConfig\": \"jinaai/jina-bert-implementation--"
      "configuration_bert.JinaBertConfig\"}";
  EXPECT_TRUE(import(model).errorHas("marks a Jina model"));
  model.config.erase("auto_map");
  model.config["_name_or_path"] = "\"jinaai/jina-bert-v2-qk-post-norm\"";
  EXPECT_TRUE(import(model).errorHas("_name_or_path: "));
  model.config.erase("_name_or_path");
  model.add("encoder.layer.0.mlp.gated_layers.weight", 24, 8);
  EXPECT_TRUE(import(model).errorHas("mlp.gated_layers.weight marks a Jina"));
}

TEST(Bert, AnAbsentFieldTakesTheFamilysDefaultAndANote) {
  BertFolder model;
  model.config.erase("type_vocab_size");
  model.config.erase("hidden_act");
  model.config.erase("layer_norm_eps");
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_TRUE(result.noteHas("has no type_vocab_size, the default 2"));
  EXPECT_EQ(result.spec.activation, "gelu");
  EXPECT_EQ(result.spec.embedding.norm.epsilon, 1e-12);

  model.config.erase("vocab_size");
  EXPECT_TRUE(import(model).errorHas(
      "expected shape [vocab_size 30522, hidden_size 8], but got [11, 8]"));
}

TEST(Bert, RefusesAConfigThatContradictsTheShapes) {
  for (const auto &[field, value, tensor] :
       std::vector<std::array<std::string, 3>>{
           {"vocab_size", "12", "embeddings.word_embeddings.weight"},
           {"hidden_size", "16", "embeddings.word_embeddings.weight"},
           {"intermediate_size", "13",
            "encoder.layer.0.intermediate.dense.weight"},
           {"max_position_embeddings", "15",
            "embeddings.position_embeddings.weight"},
           {"type_vocab_size", "1",
            "embeddings.token_type_embeddings.weight"}}) {
    BertFolder model;
    model.config[field] = value;
    Import result = import(model);
    EXPECT_TRUE(result.errorHas(tensor + ": expected shape [")) << result.error;
    EXPECT_TRUE(result.errorHas(field + " " + value)) << result.error;
  }
}

TEST(Bert, RefusesAnotherNumberOfLayersThanClaimed) {
  BertFolder model;
  model.config["num_hidden_layers"] = "3";
  EXPECT_TRUE(import(model).errorHas("num_hidden_layers: is 3, but the "
                                     "checkpoint has tensors of 2 layers"));
  model.config["num_hidden_layers"] = "1";
  EXPECT_TRUE(import(model).errorHas("num_hidden_layers: is 1, but the "
                                     "checkpoint has tensors of 2 layers"));
  ImportOptions options;
  options.allowUnused = true;
  Import result = import(model, options);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.blocks.size(), 1u);
  EXPECT_TRUE(result.noteHas("unused tensors: encoder.layer.1."));
}

TEST(Bert, ListsAllMissingTensors) {
  BertFolder model;
  model.tensors.erase("embeddings.LayerNorm.bias");
  model.tensors.erase("encoder.layer.1.output.dense.weight");
  EXPECT_TRUE(import(model).errorHas("missing tensors: "
                                     "embeddings.LayerNorm.bias, "
                                     "encoder.layer.1.output.dense.weight"));
  BertFolder empty;
  empty.config["num_hidden_layers"] = "2";
  for (auto it = empty.tensors.begin(); it != empty.tensors.end();)
    it = it->first.find("layer.0.") != std::string::npos
             ? empty.tensors.erase(it)
             : std::next(it);
  EXPECT_TRUE(import(empty).errorHas(" and 8 more"));
}

TEST(Bert, RefusesUnknownTensorsUnlessAllowed) {
  BertFolder model;
  model.add("encoder.layer.0.adapter.weight", 8, 8);
  model.add("linear.weight", 4, 8);
  Import refused = import(model);
  EXPECT_TRUE(refused.errorHas("(--allow-unused ignores them): "
                               "encoder.layer.0.adapter.weight, "
                               "linear.weight"))
      << refused.error;
  ImportOptions options;
  options.allowUnused = true;
  Import result = import(model, options);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_TRUE(result.noteHas("unused tensors: encoder.layer.0.adapter"));
}

TEST(Bert, IgnoresBuffersOfAnyType) {
  BertFolder model;
  model.add("embeddings.position_ids", 1, 16, "I64");
  model.add("embeddings.token_type_ids", 1, 16, "I64");
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_TRUE(result.notes.empty());
}

TEST(Bert, KnownTensorsThatNobodyNeedsAreANote) {
  BertFolder model("bert.");
  model.addMaskedLM();
  model.addLinear("cls.seq_relationship", 2, 8);
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_TRUE(result.noteHas("tensors that these outputs do not need: "
                             "cls.predictions.bias, "));
  result = import(model, outputs({"last_hidden_state"}));
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_TRUE(result.noteHas("bert.pooler.dense.bias")) << result.notes[0];
  EXPECT_FALSE(result.spec.pooler.weight.present());
}

TEST(Bert, MaskedLMTiesItsDecoderToTheWordTable) {
  BertFolder model("bert.");
  model.config["architectures"] = "[\"BertForMaskedLM\"]";
  model.config["hidden_act"] = "\"relu\"";
  model.addMaskedLM();
  Import result = import(model, outputs({"token_logits"}));
  ASSERT_TRUE(result.ok) << result.error;
  const OutputSpec &output = result.spec.outputs[0];
  EXPECT_EQ(output.kind, OutputSpec::Kind::VocabularyLogits);
  EXPECT_EQ(output.classifier.weight.name,
            "bert.embeddings.word_embeddings.weight");
  EXPECT_EQ(output.classifier.bias.name, "cls.predictions.bias");
  EXPECT_EQ(output.transform.weight.name,
            "cls.predictions.transform.dense.weight");
  EXPECT_TRUE(output.transformNorm.bias.present());
  EXPECT_EQ(output.transformActivation, "relu");
  EXPECT_EQ(import(model).outputs(),
            (Names{"last_hidden_state", "pooler_output", "token_logits"}));
  EXPECT_EQ(import(model).defaultOutput(), "token_logits");
}

TEST(Bert, TiedTensorsStoredTwiceMustBeEqual) {
  BertFolder model("bert.");
  model.config["architectures"] = "[\"BertForMaskedLM\"]";
  model.addMaskedLM();
  model.tensors["cls.predictions.decoder.weight"] =
      model.tensors["bert.embeddings.word_embeddings.weight"];
  model.tensors["cls.predictions.decoder.bias"] =
      model.tensors["cls.predictions.bias"];
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.outputs[2].classifier.weight.name,
            "bert.embeddings.word_embeddings.weight");
  model.tensors["cls.predictions.decoder.weight"].bytes[5] ^= 1;
  EXPECT_TRUE(import(model).errorHas(
      "bert.embeddings.word_embeddings.weight and "
      "cls.predictions.decoder.weight are tied, but differ"));
  model.tensors.erase("cls.predictions.decoder.weight");
  model.tensors["cls.predictions.decoder.bias"].bytes[5] ^= 1;
  EXPECT_TRUE(import(model).errorHas(
      "cls.predictions.bias and cls.predictions.decoder.bias are tied"));
}

TEST(Bert, EitherOfTwoTiedTensorsMayBeTheStoredOne) {
  BertFolder model("bert.");
  model.config["architectures"] = "[\"BertForMaskedLM\"]";
  model.addMaskedLM();
  std::string words = "bert.embeddings.word_embeddings.weight";
  model.tensors["cls.predictions.decoder.weight"] = model.tensors[words];
  model.tensors.erase(words);
  model.tensors["cls.predictions.decoder.bias"] =
      model.tensors["cls.predictions.bias"];
  model.tensors.erase("cls.predictions.bias");
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.embedding.words.name, "cls.predictions.decoder.weight");
  EXPECT_EQ(result.spec.outputs[2].classifier.bias.name,
            "cls.predictions.decoder.bias");
}

TEST(Bert, UntiedDecoderNeedsItsOwnWeights) {
  BertFolder model("bert.");
  model.config["architectures"] = "[\"BertForMaskedLM\"]";
  model.config["tie_word_embeddings"] = "false";
  model.addMaskedLM();
  EXPECT_TRUE(import(model).errorHas(
      "missing tensors: cls.predictions.decoder.weight"));
  model.add("cls.predictions.decoder.weight", 11, 8);
  model.add("cls.predictions.decoder.bias", 11);
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.outputs[2].classifier.weight.name,
            "cls.predictions.decoder.weight");
  EXPECT_EQ(result.spec.outputs[2].classifier.bias.name,
            "cls.predictions.decoder.bias");
}

TEST(Bert, PretrainingGivesBothHeads) {
  BertFolder model("bert.");
  model.config["architectures"] = "[\"BertForPreTraining\"]";
  model.addMaskedLM();
  model.addLinear("cls.seq_relationship", 2, 8);
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.outputs(), (Names{"last_hidden_state", "pooler_output",
                                     "nsp_logits", "token_logits"}));
  EXPECT_EQ(result.spec.outputs[2].classifier.name, "cls.seq_relationship");
}

TEST(Bert, NextSentencePredictionAloneGivesLogits) {
  BertFolder model("bert.");
  model.config["architectures"] = "[\"BertForNextSentencePrediction\"]";
  model.addLinear("cls.seq_relationship", 2, 8);
  Import result = import(model, outputs({"logits"}));
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.outputs[0].kind, OutputSpec::Kind::PooledLogits);
  EXPECT_TRUE(result.spec.pooler.weight.present());
  model.addLinear("cls.seq_relationship", 3, 8);
  EXPECT_TRUE(import(model).errorHas("expected shape [classes 2, hidden_size "
                                     "8], but got [3, 8]"));
}

TEST(Bert, SequenceClassificationHasOneLogitPerRow) {
  for (int64_t rows : {1, 2, 5}) {
    BertFolder model("bert.");
    model.config["architectures"] = "[\"BertForSequenceClassification\"]";
    model.addLinear("classifier", rows, 8);
    Import result = import(model);
    ASSERT_TRUE(result.ok) << result.error;
    EXPECT_EQ(result.outputs(),
              (Names{"last_hidden_state", "pooler_output", "logits"}));
    EXPECT_EQ(result.defaultOutput(), "logits");
    EXPECT_EQ(result.spec.outputs[2].classifier.weight.shape[0], rows);
  }
}

TEST(Bert, SequenceClassificationNeedsThePooler) {
  BertFolder model("bert.");
  model.config["architectures"] = "[\"BertForSequenceClassification\"]";
  model.addLinear("classifier", 2, 8);
  model.tensors.erase("bert.pooler.dense.weight");
  model.tensors.erase("bert.pooler.dense.bias");
  EXPECT_TRUE(import(model).errorHas("missing tensors: "
                                     "bert.pooler.dense.weight, "
                                     "bert.pooler.dense.bias"));
}

TEST(Bert, TokenClassificationReadsTheTokens) {
  BertFolder model("bert.");
  model.config["architectures"] = "[\"BertForTokenClassification\"]";
  model.addLinear("classifier", 3, 8);
  Import result = import(model, outputs({"token_logits"}));
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.spec.outputs[0].kind, OutputSpec::Kind::TokenLogits);
  EXPECT_FALSE(result.spec.pooler.weight.present());
}

TEST(Bert, QuestionAnsweringGivesTwoColumns) {
  BertFolder model("bert.");
  model.config["architectures"] = "[\"BertForQuestionAnswering\"]";
  model.addLinear("qa_outputs", 2, 8);
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.outputs(), (Names{"last_hidden_state", "pooler_output",
                                     "start_logits", "end_logits"}));
  EXPECT_EQ(result.spec.outputs[2].column, 0);
  EXPECT_EQ(result.spec.outputs[3].column, 1);
  EXPECT_EQ(result.spec.outputs[3].kind, OutputSpec::Kind::TokenColumn);
  EXPECT_EQ(result.defaultOutput(), "last_hidden_state");
  model.addLinear("qa_outputs", 3, 8);
  // Once, though two outputs need it.
  std::string error = import(model).error;
  EXPECT_EQ(error.substr(error.find(": ") + 2),
            "qa_outputs.weight: expected shape [classes 2, hidden_size 8], but "
            "got [3, 8]; qa_outputs.bias: expected shape [classes 2], but got "
            "[3]");
}

TEST(Bert, MultipleChoiceHasOneLogitPerChoice) {
  BertFolder model("bert.");
  model.config["architectures"] = "[\"BertForMultipleChoice\"]";
  model.addLinear("classifier", 1, 8);
  Import result = import(model, outputs({"logits"}));
  ASSERT_TRUE(result.ok) << result.error;
  model.addLinear("classifier", 2, 8);
  EXPECT_TRUE(import(model).errorHas("classifier.weight: expected shape "
                                     "[choice 1, hidden_size 8]"));
}

TEST(Bert, RefusesAClassifierWithoutRows) {
  BertFolder model("bert.");
  model.config["architectures"] = "[\"BertForSequenceClassification\"]";
  model.tensors["classifier.weight"] = {"F32", {0, 8}, ""};
  model.tensors["classifier.bias"] = {"F32", {0}, ""};
  EXPECT_TRUE(import(model).errorHas("classifier.weight: has no rows"));
  model.tensors["classifier.weight"] = {"F32", {8}, ""};
  EXPECT_TRUE(import(model).errorHas("classifier.weight: expected shape"));
}

TEST(Bert, AHeadWithoutTensorsIsAnErrorAndNeverRandom) {
  for (const auto &[name, tensor] :
       std::vector<std::pair<std::string, std::string>>{
           {"fill-mask", "cls.predictions.transform.dense.weight"},
           {"pretraining", "cls.seq_relationship.weight"},
           {"next-sentence-prediction", "cls.seq_relationship.weight"},
           {"text-classification", "classifier.weight"},
           {"multiple-choice", "classifier.weight"},
           {"token-classification", "classifier.weight"},
           {"question-answering", "qa_outputs.weight"}}) {
    Import result = import(BertFolder("bert."), task(name));
    EXPECT_TRUE(result.errorHas("missing tensors: ")) << result.error;
    EXPECT_TRUE(result.errorHas(tensor)) << result.error;
  }
}

TEST(Bert, TheTaskOverridesTheArchitecture) {
  BertFolder model("bert.");
  model.config["architectures"] = "[\"BertForMaskedLM\"]";
  model.addMaskedLM();
  Import result = import(model, task("feature-extraction"));
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.outputs(), (Names{"last_hidden_state", "pooler_output"}));
}

TEST(Bert, AnUnknownTaskListsTheKnownOnes) {
  Import result = import(BertFolder(), task("translation"));
  EXPECT_EQ(result.error,
            "--task: unknown task 'translation', expected one of "
            "feature-extraction, sentence-similarity, fill-mask, pretraining, "
            "next-sentence-prediction, text-classification, multiple-choice, "
            "token-classification, question-answering");
  EXPECT_TRUE(import(BertFolder(), task("sentence-similarity"))
                  .errorHas("needs a modules.json"));
  EXPECT_TRUE(import(BertFolder(), task("rule-matching"))
                  .errorHas("--task: unknown task 'rule-matching'"));
}

TEST(Bert, WithoutArchitecturesNoHeadIsTaken) {
  BertFolder model;
  model.config.erase("architectures");
  model.addLinear("classifier", 2, 8);
  Import result = import(model);
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.outputs(), (Names{"last_hidden_state", "pooler_output"}));
  EXPECT_TRUE(result.noteHas("--task selects one"));
  model.config["architectures"] = "[]";
  EXPECT_TRUE(import(model).noteHas("--task selects one"));
}

TEST(Bert, OutputsAreOrderedCheckedAndTheOnlyOnesPaidFor) {
  BertFolder model("bert.");
  model.config["architectures"] = "[\"BertForPreTraining\"]";
  model.addMaskedLM();
  model.addLinear("cls.seq_relationship", 2, 8);
  Import result = import(model, outputs({"nsp_logits", "last_hidden_state"}));
  ASSERT_TRUE(result.ok) << result.error;
  EXPECT_EQ(result.outputs(), (Names{"last_hidden_state", "nsp_logits"}));
  EXPECT_EQ(result.defaultOutput(), "last_hidden_state");
  EXPECT_EQ(import(model, outputs({"pooler_output"})).defaultOutput(),
            "pooler_output");
  EXPECT_EQ(import(model, outputs({"logits"})).error,
            "--outputs: unknown output 'logits', expected some of "
            "last_hidden_state, pooler_output, nsp_logits, token_logits");
  EXPECT_TRUE(import(model, outputs({""})).errorHas("unknown output ''"));
  EXPECT_TRUE(import(model, outputs({"nsp_logits", "nsp_logits"}))
                  .errorHas("'nsp_logits' is given twice"));
}

TEST(Bert, AMissingFolderOrConfigIsNamed) {
  ModelSpec spec;
  std::vector<std::string> notes;
  std::string error;
  EXPECT_FALSE(importHuggingFace("/nowhere/x", {}, spec, notes, error));
  EXPECT_EQ(error, "/nowhere/x: does not exist");
  TemporaryFolder folder;
  folder.write("model.safetensors", "");
  std::string file = folder.path("model.safetensors");
  EXPECT_FALSE(importHuggingFace(file, {}, spec, notes, error));
  EXPECT_EQ(error, file + ": expected a folder with config.json");
  EXPECT_FALSE(importHuggingFace(folder.path(), {}, spec, notes, error));
  EXPECT_NE(error.find(folder.path("config.json") + ": cannot open"),
            std::string::npos);
  folder.write("config.json", "[]");
  EXPECT_FALSE(importHuggingFace(folder.path(), {}, spec, notes, error));
  EXPECT_NE(error.find("config.json: expected an object"), std::string::npos);
  folder.write("config.json", "{\"model_type\": \"bert\", }");
  EXPECT_FALSE(importHuggingFace(folder.path(), {}, spec, notes, error));
  EXPECT_NE(error.find("config.json: line 1, position 23: "), std::string::npos)
      << error;
}

TEST(Bert, RefusesAColBertCheckpointReadably) {
  BertFolder model;
  model.files["artifact.metadata"] = "{}";
  EXPECT_TRUE(import(model).errorHas("marks a ColBERT checkpoint"));
}

} // namespace
