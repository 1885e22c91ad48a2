//===- MetadataTest.cpp - labels, prompts and licence of a folder ---------===//

#include "frontends/Models/ModelSpec.h"
#include "test/support/ModelFolder.h"

#include <gtest/gtest.h>

using namespace encast;
using encast::test::BertFolder;
using encast::test::TemporaryFolder;

namespace {

class Metadata : public ::testing::Test {
protected:
  BertFolder model{"bert."};
  ModelSpec spec;
  std::vector<std::string> notes;
  std::string error;

  void setClassifier(int64_t rows) {
    model.config["architectures"] = "[\"BertForSequenceClassification\"]";
    model.addLinear("classifier", rows, 8);
  }
  bool import() {
    TemporaryFolder folder;
    model.write(folder);
    notes.clear();
    error.clear();
    return importHuggingFace(folder.path(), {}, spec, notes, error);
  }
  std::string json() {
    EXPECT_TRUE(import()) << error;
    return spec.metadataJson;
  }
  bool has(const std::string &text) {
    return json().find(text) != std::string::npos;
  }
  bool refuses(const std::string &text) {
    return !import() && error.find(text) != std::string::npos;
  }
};

TEST_F(Metadata, ABareModelHasTypeClassAndTask) {
  EXPECT_EQ(json(), R"({"model_type":"bert","architecture":"BertModel",)"
                    R"("task":"feature-extraction",)"
                    R"("matrices":13,"bf16_exact_matrices":13})");
}

TEST_F(Metadata, CountsMatricesOnceAndThoseThatAreExactlyBf16) {
  model.config["architectures"] = "[\"BertForMaskedLM\"]";
  model.addMaskedLM();
  // Two layers of six, the pooler, the transform, and the tied decoder.
  EXPECT_TRUE(has(R"("matrices":15,"bf16_exact_matrices":15)"));
  model.tensors["bert.encoder.layer.1.output.dense.weight"].bytes[9] = 1;
  model.tensors["bert.embeddings.word_embeddings.weight"].bytes[0] = 1;
  EXPECT_TRUE(has(R"("matrices":15,"bf16_exact_matrices":13)"));
  // A vector or a table is no matrix of a linear.
  model.tensors["bert.pooler.dense.bias"].bytes[0] = 1;
  model.tensors["bert.embeddings.position_embeddings.weight"].bytes[0] = 1;
  EXPECT_TRUE(has(R"("matrices":15,"bf16_exact_matrices":13)"));
}

TEST_F(Metadata, LabelsAreOrderedByTheirNumber) {
  setClassifier(11);
  model.config["id2label"] =
      R"({"10": "k", "0": "a", "1": "b", "2": "c", "3": "d", "4": "e",
          "5": "f", "6": "g", "7": "h", "8": "i", "9": 9})";
  model.config["problem_type"] = "\"multi_label_classification\"";
  EXPECT_TRUE(has(R"("labels":["a","b","c","d","e","f","g","h","i","9","k"],)"
                  R"("problem_type":"multi_label_classification")"));
  EXPECT_TRUE(notes.empty());
}

TEST_F(Metadata, TheClassifiersRowsWinOverLabels) {
  setClassifier(3);
  model.config["id2label"] = R"({"0": "no", "1": "yes"})";
  EXPECT_TRUE(has(R"("labels":["no","yes","LABEL_2"])"));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("id2label says 2 labels, but the classifier has 3 "
                          "rows; the rows decide"),
            std::string::npos);
  setClassifier(1);
  EXPECT_TRUE(has(R"("labels":["no"])"));
  EXPECT_EQ(notes.size(), 1u);
  // As many names as rows, but of other rows.
  setClassifier(2);
  model.config["id2label"] = R"({"0": "no", "7": "yes"})";
  EXPECT_TRUE(has(R"("labels":["no","LABEL_1"])"));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("id2label says 8 labels"), std::string::npos);
  model.config.erase("id2label");
  setClassifier(3);
  EXPECT_TRUE(has(R"("labels":["LABEL_0","LABEL_1","LABEL_2"])"));
  ASSERT_EQ(notes.size(), 1u);
  EXPECT_NE(notes[0].find("num_labels, by default, says 2 labels"),
            std::string::npos);
}

TEST_F(Metadata, TwoLabelsNeedNoNames) {
  setClassifier(2);
  EXPECT_TRUE(has(R"("labels":["LABEL_0","LABEL_1"])"));
  EXPECT_TRUE(notes.empty());
  setClassifier(1);
  model.config["num_labels"] = "1";
  EXPECT_TRUE(has(R"("labels":["LABEL_0"])"));
  EXPECT_TRUE(notes.empty());
}

TEST_F(Metadata, RefusesMalformedLabels) {
  setClassifier(2);
  for (const char *labels :
       {"[\"a\", \"b\"]", "{\"x\": \"a\"}", "{\"-1\": \"a\"}", "{\"0\": null}",
        "{\"1.0\": \"a\"}", "{\"\": \"a\"}", "3"}) {
    model.config["id2label"] = labels;
    EXPECT_TRUE(refuses("config.json: id2label: ")) << labels << error;
  }
}

TEST_F(Metadata, KeepsPromptsAndLengthOfSentenceTransformers) {
  model.files["config_sentence_transformers.json"] =
      R"({"__version__": {"pytorch": "2"}, "prompts": {"query": "query: ",
          "document": "\"doc\": "}, "default_prompt_name": "query",
          "similarity_fn_name": "dot"})";
  model.files["sentence_bert_config.json"] =
      R"({"max_seq_length": 128, "do_lower_case": false})";
  EXPECT_TRUE(has(R"("prompts":{"query":"query: ","document":"\"doc\": "},)"
                  R"("default_prompt":"query","similarity":"dot",)"
                  R"("max_seq_length":128,"do_lower_case":false,"matrices")"));
}

// As Sentence Transformers 6 saves it.
TEST_F(Metadata, TakesTheLengthOfATokenizerBehindModules) {
  model.files["tokenizer_config.json"] = R"({"model_max_length": 3})";
  EXPECT_FALSE(has("max_seq_length"));
  model.files["modules.json"] =
      R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
          {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])";
  model.files["1_Pooling/config.json"] = "{}";
  EXPECT_TRUE(has(R"("max_seq_length":3,)"));
  model.files["tokenizer_config.json"] =
      R"({"model_max_length": 1000000000000000019884624838656})";
  EXPECT_FALSE(has("max_seq_length"));
  model.files["tokenizer_config.json"] = R"({"model_max_length": 2000000000})";
  EXPECT_FALSE(has(R"("max_seq_length":2000000000)"));
  EXPECT_TRUE(has("max_seq_length"));
}

TEST_F(Metadata, SimilarityIsCosineUnlessSaid) {
  model.files["modules.json"] =
      R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
          {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])";
  model.files["1_Pooling/config.json"] = "{}";
  EXPECT_TRUE(has(R"("similarity":"cosine")"));
  model.files["config_sentence_transformers.json"] =
      R"({"similarity_fn_name": null})";
  EXPECT_TRUE(has(R"("similarity":"cosine")"));
}

TEST_F(Metadata, RefusesMalformedSideFiles) {
  for (const auto &[file, text, field] :
       std::vector<std::array<std::string, 3>>{
           {"sentence_bert_config.json", R"({"max_seq_length": 0})",
            "max_seq_length: "},
           {"sentence_bert_config.json", R"({"max_seq_length": "128"})",
            "max_seq_length: "},
           {"sentence_bert_config.json", R"({"do_lower_case": 1})",
            "do_lower_case: "},
           {"sentence_bert_config.json", "[]", "expected an object"},
           {"config_sentence_transformers.json", R"({"prompts": []})",
            "prompts: "},
           {"config_sentence_transformers.json", R"({"prompts": {"q": 1}})",
            "prompts: "},
           {"config_sentence_transformers.json",
            R"({"default_prompt_name": "q"})", "default_prompt_name: "},
           {"config_sentence_transformers.json", R"({"similarity_fn_name": 1})",
            "similarity_fn_name: "},
           {"config_sentence_transformers.json", "{", "line 1, position 1"}}) {
    model.files = {{file, text}};
    EXPECT_TRUE(refuses("/" + file + ": " + field)) << text << ": " << error;
  }
}

TEST_F(Metadata, OtherModulesReadTheLastHiddenStateOfTheModelThatStandsThere) {
  model.files["modules.json"] =
      R"([{"type": "sentence_transformers.models.Transformer", "path": ""},
          {"type": "sentence_transformers.models.Pooling", "path": "1_Pooling"}])";
  model.files["1_Pooling/config.json"] = "{}";
  for (const auto &[text, expected] :
       std::vector<std::pair<std::string, std::string>>{
           {R"({"transformer_task": "fill-mask"})",
            "transformer_task: expected \"feature-extraction\""},
           {R"({"module_output_name": "sentence_embedding"})",
            "module_output_name: expected \"token_embeddings\""},
           {R"({"modality_config": {"text": {"method": "forward",
                "method_output_name": ["hidden_states", 1]}}})",
            "modality_config: expected \"last_hidden_state\""},
           {R"({"modality_config": {"image": {}}})",
            "modality_config: expected \"forward\""},
           {R"({"config_args": {"num_hidden_layers": 1}})",
            "config_args: num_hidden_layers: "},
           {R"({"config_kwargs": {"hidden_act": "relu"}})",
            "config_kwargs: hidden_act: "},
           {R"({"model_args": {"hidden_act": "relu"}})",
            "model_args: hidden_act: "}}) {
    model.files["sentence_bert_config.json"] = text;
    EXPECT_TRUE(refuses("sentence_bert_config.json: " + expected)) << error;
  }
  model.files["sentence_bert_config.json"] =
      R"({"transformer_task": "feature-extraction",
          "module_output_name": "token_embeddings",
          "modality_config": {"text": {"method": "forward",
                              "method_output_name": "last_hidden_state"}},
          "config_args": {"trust_remote_code": true},
          "model_kwargs": {"torch_dtype": "bfloat16"}})";
  EXPECT_TRUE(has(R"("similarity":"cosine")"));
}

TEST_F(Metadata, ReadsTheLicenceOfTheModelCard) {
  for (const auto &[card, licence] :
       std::vector<std::pair<std::string, std::string>>{
           {"---\nlanguage: en\nlicense: apache-2.0\n---\n# x\n", "apache-2.0"},
           {"---\r\nlicense: 'mit'  \r\n---\r\n", "mit"},
           {"---\nlicense: \"cc-by-4.0\"", "cc-by-4.0"},
           {"---\nlicense:\n- mit\n---\n", ""},
           {"---\nlicense: [mit, x]\n---\n", ""},
           {"---\na: 1\n---\nlicense: mit\n", ""},
           {"# x\nlicense: mit\n", ""},
           {"", ""}}) {
    model.files["README.md"] = card;
    if (licence.empty())
      EXPECT_EQ(json().find("license"), std::string::npos) << card;
    else
      EXPECT_TRUE(has("\"license\":\"" + licence + "\"")) << card;
  }
}

} // namespace
