//===- BuildEncoderTest.cpp -----------------------------------------------===//
///
/// \file
/// Specs as importers return them, and the IR that must come of each. The
/// verifier sees all of it; the tests look for what it cannot know.
//===----------------------------------------------------------------------===//

#include "frontends/BuildEncoder.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/raw_ostream.h"
#include <gtest/gtest.h>

using namespace encast;

namespace {

constexpr const char *kFile = "model.safetensors";

TensorRef tensor(const std::string &name, std::vector<int64_t> shape,
                 const std::string &type = "f32") {
  TensorRef ref;
  ref.file = kFile;
  ref.name = name;
  ref.shape = std::move(shape);
  ref.type = type;
  return ref;
}

LinearSpec linear(const std::string &name, int64_t out, int64_t in,
                  bool bias = false) {
  LinearSpec spec;
  spec.name = name;
  spec.weight = tensor(name + ".weight", {out, in});
  if (bias)
    spec.bias = tensor(name + ".bias", {out});
  return spec;
}

/// Rows [begin, begin + out) of a fused matrix of `all` rows.
LinearSpec linearRows(const std::string &name, const std::string &fused,
                      int64_t all, int64_t begin, int64_t out, int64_t in) {
  LinearSpec spec;
  spec.name = name;
  spec.weight = tensor(fused + ".weight", {all, in});
  spec.bias = tensor(fused + ".bias", {all});
  for (TensorRef *ref : {&spec.weight, &spec.bias}) {
    ref->firstRow = begin;
    ref->rows = out;
  }
  return spec;
}

NormSpec norm(const std::string &name, int64_t size,
              NormSpec::Kind kind = NormSpec::Kind::Layer) {
  NormSpec spec;
  spec.name = name;
  spec.weight = tensor(name + ".weight", {size});
  spec.epsilon = 1e-5;
  spec.kind = kind;
  return spec;
}

/// 8 columns, 2 heads of 4, no blocks, the last hidden state.
ModelSpec emptyModel() {
  ModelSpec spec;
  spec.family = "test";
  spec.hidden = 8;
  spec.heads = 2;
  spec.keyValueHeads = 2;
  spec.headSize = 4;
  spec.feedForward = 12;
  spec.vocabulary = 50;
  spec.maxTokens = 30;
  spec.activation = "silu";
  spec.metadataJson = "{}";
  spec.embedding.words = tensor("words", {50, 8});
  spec.outputs.emplace_back();
  spec.outputs.back().name = "last_hidden_state";
  return spec;
}

BlockSpec attentionBlock(const std::string &name) {
  BlockSpec block;
  block.attention.query = linear(name + ".attn.q", 8, 8);
  block.attention.key = linear(name + ".attn.k", 8, 8);
  block.attention.value = linear(name + ".attn.v", 8, 8);
  block.attention.output = linear(name + ".attn.o", 8, 8);
  block.feedForward.up = linear(name + ".up", 12, 8);
  block.feedForward.down = linear(name + ".down", 8, 12);
  return block;
}

void addBlock(ModelSpec &spec, BlockSpec block) {
  spec.blocks.push_back(std::move(block));
  spec.layers = static_cast<int64_t>(spec.blocks.size());
}

/// The verified module as text.
std::string build(const ModelSpec &spec) {
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module = buildEncoder(spec, context);
  EXPECT_TRUE(mlir::succeeded(mlir::verify(*module)));
  std::string text;
  llvm::raw_string_ostream(text) << *module;
  return text;
}

/// Each part stands in the text, behind those before it.
void expectInOrder(const std::string &text,
                   const std::vector<std::string> &parts) {
  size_t at = 0;
  for (const std::string &part : parts) {
    size_t found = text.find(part, at);
    ASSERT_NE(found, std::string::npos) << "no '" << part << "' in\n"
                                        << text.substr(at);
    at = found + part.size();
  }
}

int count(const std::string &text, const std::string &part) {
  int found = 0;
  for (size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(BuildEncoder, PostNormBlockAddsThenNormalizes) {
  ModelSpec spec = emptyModel();
  BlockSpec block = attentionBlock("l.0");
  block.mixerNorm = norm("l.0.n1", 8);
  block.feedForwardNorm = norm("l.0.n2", 8);
  addBlock(spec, block);
  expectInOrder(
      build(spec),
      {"%embeddings = encoder.embedding %ids in [@words]",
       "%attn.q = encoder.linear %embeddings, @l.0.attn.q.weight",
       "%attn.k = encoder.linear %embeddings",
       "%attn.v = encoder.linear %embeddings",
       "%attn = encoder.attention %attn.q, %attn.k, %attn.v heads 2 "
       "scale 5.000000e-01 {",
       "%attn.o = encoder.linear %attn",
       "%n1 = encoder.add %attn.o, %embeddings",
       "%n1_0 = encoder.layer_norm %n1, @l.0.n1.weight epsilon",
       "%up = encoder.linear %n1_0", "%up_1 = encoder.activation silu %up",
       "%down = encoder.linear %up_1", "%n2 = encoder.add %down, %n1_0",
       "%n2_2 = encoder.layer_norm %n2", "encoder.pick %n2_2"});
}

TEST(BuildEncoder, PreNormBlockNormalizesAndAddsWhatItWasGiven) {
  ModelSpec spec = emptyModel();
  spec.preNorm = true;
  spec.finalNorm = norm("final", 8);
  BlockSpec block = attentionBlock("l.0");
  block.mixerNorm = norm("l.0.n1", 8, NormSpec::Kind::RootMeanSquare);
  block.feedForwardNorm = norm("l.0.n2", 8, NormSpec::Kind::RootMeanSquare);
  addBlock(spec, block);
  expectInOrder(build(spec),
                {"%n1 = encoder.rms_norm %embeddings, @l.0.n1.weight epsilon",
                 "%attn.q = encoder.linear %n1", "%attn.o = encoder.linear",
                 "%attn.o_0 = encoder.add %attn.o, %embeddings",
                 "%n2 = encoder.rms_norm %attn.o_0", "encoder.linear %n2",
                 "%down_2 = encoder.add %down, %attn.o_0",
                 "%final = encoder.layer_norm %down_2", "encoder.pick %final"});
}

TEST(BuildEncoder, AbsentNormsAreLeftOut) {
  for (bool preNorm : {false, true}) {
    ModelSpec spec = emptyModel();
    spec.preNorm = preNorm;
    addBlock(spec, attentionBlock("l.0"));
    std::string text = build(spec);
    EXPECT_EQ(count(text, "norm"), 0) << text;
    expectInOrder(text, {"%attn.q = encoder.linear %embeddings",
                         "%attn.o_0 = encoder.add %attn.o, %embeddings",
                         "%up = encoder.linear %attn.o_0"});
  }
}

TEST(BuildEncoder, GroupsNormalizesAndRotatesHeads) {
  ModelSpec spec = emptyModel();
  spec.keyValueHeads = 1;
  BlockSpec block = attentionBlock("l.0");
  block.attention.key = linear("l.0.attn.k", 4, 8);
  block.attention.value = linear("l.0.attn.v", 4, 8);
  block.attention.queryNorm = norm("l.0.qn", 4, NormSpec::Kind::RootMeanSquare);
  block.attention.keyNorm = norm("l.0.kn", 4, NormSpec::Kind::RootMeanSquare);
  block.attention.rope.theta = 1e6;
  block.attention.window = 64;
  addBlock(spec, block);
  expectInOrder(
      build(spec),
      {"%positions = encoder.input positions",
       "%qn = encoder.rms_norm %attn.q, @l.0.qn.weight heads 2 epsilon",
       "%attn.q.rope = encoder.rope %qn, %positions in @rope.1000000 heads 2",
       "%kn = encoder.rms_norm %attn.k, @l.0.kn.weight heads 1 epsilon",
       "%attn.k.rope = encoder.rope %kn, %positions in @rope.1000000 heads 1",
       "encoder.attention %attn.q.rope, %attn.k.rope, %attn.v heads 2 "
       "key_heads 1 scale 5.000000e-01 window 64",
       "encoder.weight @rope.1000000 : tensor<30x4xf32>",
       "encoder.rope_table theta 1.000000e+06 : tensor<30x4xf32>"});
}

TEST(BuildEncoder, EachThetaHasOneTable) {
  ModelSpec spec = emptyModel();
  for (double theta : {160000.0, 10000.5, 160000.0, 10000.5}) {
    BlockSpec block = attentionBlock("l." + std::to_string(spec.blocks.size()));
    block.attention.rope.theta = theta;
    addBlock(spec, block);
  }
  std::string text = build(spec);
  EXPECT_EQ(count(text, "encoder.input positions"), 1);
  EXPECT_EQ(count(text, "encoder.rope_table"), 2);
  EXPECT_EQ(count(text, "in @rope.160000 "), 4);
  EXPECT_EQ(count(text, "in @rope.10000.5 "), 4);
}

TEST(BuildEncoder, ShortConvolutionGatesSumsAndScales) {
  ModelSpec spec = emptyModel();
  BlockSpec block = attentionBlock("l.0");
  block.mixer = BlockSpec::Mixer::ShortConv;
  block.conv.name = "l.0.conv";
  block.conv.gate = linear("l.0.b", 8, 8);
  block.conv.scale = linear("l.0.c", 8, 8);
  block.conv.input = linear("l.0.u", 8, 8);
  block.conv.weight = tensor("l.0.conv.weight", {8, 1, 3}, "bf16");
  block.conv.bias = tensor("l.0.conv.bias", {8}, "bf16");
  block.conv.output = linear("l.0.out", 8, 8);
  addBlock(spec, block);
  expectInOrder(
      build(spec),
      {"%b = encoder.linear %embeddings", "%u = encoder.linear %embeddings",
       "%u_0 = encoder.multiply %b, %u",
       "%conv = encoder.short_conv %u_0, @l.0.conv.weight bias "
       "@l.0.conv.bias",
       "%c = encoder.linear %embeddings", "%c_1 = encoder.multiply %c, %conv",
       "%out = encoder.linear %c_1",
       // Row programs read f32.
       "encoder.weight @l.0.conv.weight : tensor<8x1x3xf32>",
       "encoder.cast %0 : tensor<8x1x3xbf16> -> tensor<8x1x3xf32>",
       "encoder.weight @l.0.conv.bias : tensor<8xf32>"});
}

TEST(BuildEncoder, FeedForwardWithAGateActivatesTheGate) {
  ModelSpec spec = emptyModel();
  BlockSpec block = attentionBlock("l.0");
  block.feedForward.gate = linear("l.0.gate", 12, 8);
  addBlock(spec, block);
  expectInOrder(build(spec), {"%gate = encoder.linear %attn.o_0",
                              "%gate_1 = encoder.activation silu %gate",
                              "%up = encoder.linear %attn.o_0",
                              "%up_2 = encoder.multiply %gate_1, %up",
                              "%down = encoder.linear %up_2"});
}

TEST(BuildEncoder, RowsOfFusedTensorsAreWeightsOfTheirOwn) {
  ModelSpec spec = emptyModel();
  BlockSpec block = attentionBlock("l.0");
  block.attention.query = linearRows("l.0.attn.q", "l.0.qkv", 24, 0, 8, 8);
  block.attention.key = linearRows("l.0.attn.k", "l.0.qkv", 24, 8, 8, 8);
  block.attention.value = linearRows("l.0.attn.v", "l.0.qkv", 24, 16, 8, 8);
  addBlock(spec, block);
  expectInOrder(
      build(spec),
      {"encoder.linear %embeddings, @l.0.qkv.weight.rows0 bias "
       "@l.0.qkv.bias.rows0",
       "encoder.linear %embeddings, @l.0.qkv.weight.rows8 bias "
       "@l.0.qkv.bias.rows8",
       "encoder.linear %embeddings, @l.0.qkv.weight.rows16",
       "encoder.weight @l.0.qkv.weight.rows8 : tensor<8x8xf32>",
       "%0 = encoder.tensor \"l.0.qkv.weight\" in \"model.safetensors\" : "
       "tensor<24x8xf32>",
       "%1 = encoder.slice %0 from 8 : tensor<24x8xf32> -> tensor<8x8xf32>",
       "encoder.weight @l.0.qkv.bias.rows8 : tensor<8xf32>",
       "encoder.slice %0 from 8 : tensor<24xf32> -> tensor<8xf32>"});
}

TEST(BuildEncoder, MatricesThatAreExactlyBf16HaveThatType) {
  ModelSpec spec = emptyModel();
  BlockSpec block = attentionBlock("l.0");
  block.attention.query = linearRows("l.0.attn.q", "l.0.qkv", 24, 0, 8, 8);
  block.attention.query.weight.exactlyBf16 = true;
  block.attention.key.weight.type = "bf16";
  addBlock(spec, block);
  expectInOrder(
      build(spec),
      {"encoder.weight @l.0.qkv.weight.rows0 : tensor<8x8xbf16>",
       "encoder.slice %0 from 0 : tensor<24x8xf32> -> tensor<8x8xf32>",
       "encoder.cast %1 : tensor<8x8xf32> -> tensor<8x8xbf16>",
       "encoder.weight @l.0.attn.k.weight : tensor<8x8xbf16>",
       "encoder.yield %0 : tensor<8x8xbf16>",
       "encoder.weight @l.0.attn.v.weight : tensor<8x8xf32>"});
}

TEST(BuildEncoder, ATableThatALinearSharesStaysAsStored) {
  ModelSpec spec = emptyModel();
  spec.embedding.words.exactlyBf16 = true;
  spec.outputs[0].name = "token_logits";
  spec.outputs[0].kind = OutputSpec::Kind::VocabularyLogits;
  spec.outputs[0].classifier.name = "decoder";
  spec.outputs[0].classifier.weight = spec.embedding.words;
  std::string text = build(spec);
  expectInOrder(text, {"encoder.embedding %ids in [@words]",
                       "%decoder = encoder.linear %rows, @words {",
                       "encoder.weight @words : tensor<50x8xf32>"});
  EXPECT_EQ(count(text, "encoder.weight"), 1);
}

TEST(BuildEncoder, HeadsTransformTokensOrWhatTheyPool) {
  ModelSpec spec = emptyModel();
  spec.outputs.clear();
  for (auto [name, kind] :
       {std::pair("logits", OutputSpec::Kind::PooledLogits),
        std::pair("token_logits", OutputSpec::Kind::TokenLogits)}) {
    OutputSpec output;
    output.name = name;
    output.kind = kind;
    output.transform = linear("head.dense", 8, 8);
    output.transformActivation = "gelu";
    output.transformNorm = norm("head.norm", 8);
    output.classifier = linear("classifier", 3, 8, /*bias=*/true);
    if (kind == OutputSpec::Kind::PooledLogits)
      output.pooling = PoolingMode::Mean;
    spec.outputs.push_back(output);
  }
  expectInOrder(build(spec),
                {"%pooling = encoder.pool mean %embeddings",
                 "%head.dense = encoder.linear %pooling",
                 "%head.dense_0 = encoder.activation gelu %head.dense",
                 "%head.norm = encoder.layer_norm %head.dense_0",
                 "%classifier = encoder.linear %head.norm, @classifier.weight "
                 "bias @classifier.bias",
                 "encoder.output \"logits\" %classifier",
                 "%rows = encoder.pick %embeddings",
                 "encoder.linear %rows, @head.dense.weight",
                 "encoder.activation gelu", "encoder.layer_norm",
                 "encoder.output \"token_logits\""});
}

TEST(BuildEncoder, PooledLogitsWithoutPoolingReadThePooler) {
  ModelSpec spec = emptyModel();
  spec.pooler = linear("pooler", 8, 8);
  spec.outputs[0].kind = OutputSpec::Kind::PooledLogits;
  spec.outputs[0].classifier = linear("classifier", 3, 8);
  expectInOrder(build(spec), {"%pooler = encoder.first %embeddings",
                              "%pooler_0 = encoder.linear %pooler",
                              "%pooler_1 = encoder.activation tanh %pooler_0",
                              "encoder.linear %pooler_1"});
}

TEST(BuildEncoder, ColumnsOfOneHeadShareIt) {
  ModelSpec spec = emptyModel();
  spec.outputs.clear();
  for (int64_t column : {0, 1}) {
    OutputSpec output;
    output.name = column ? "end_logits" : "start_logits";
    output.kind = OutputSpec::Kind::TokenColumn;
    output.transform = linear("head", 8, 8);
    output.classifier = linear("qa", 2, 8);
    output.column = column;
    spec.outputs.push_back(output);
  }
  std::string text = build(spec);
  expectInOrder(text,
                {"%qa = encoder.linear %head", "encoder.columns %qa from 0",
                 "encoder.columns %qa from 1"});
  EXPECT_EQ(count(text, "encoder.linear"), 2);
}

TEST(BuildEncoder, AChainWithoutPoolingIsOfTokens) {
  ModelSpec spec = emptyModel();
  spec.attendedLength = true;
  spec.outputs[0].name = "token_embeddings";
  spec.outputs[0].kind = OutputSpec::Kind::TokenEmbeddings;
  SentenceModule dense, normalize;
  dense.kind = SentenceModule::Kind::Dense;
  dense.dense = linear("dense", 4, 8);
  spec.sentence = {dense, normalize};
  expectInOrder(build(spec),
                {"encoder.model = {attended_length, ",
                 "%rows = encoder.pick %embeddings",
                 "%dense = encoder.linear %rows, @dense.weight",
                 "encoder.normalize %dense {name = \"normalize\"} : "
                 "tensor<?x4xf32, #encoder.rows<picked>>",
                 "encoder.output \"token_embeddings\" %normalize"});
}

} // namespace
