//===- Metadata.h - what a folder says about its model ----------*- C++ -*-===//
///
/// \file
/// Collects what has no influence on the computation but that a user of the
/// artifact wants to see: labels, prompts, length limit, licence.
//===----------------------------------------------------------------------===//

#ifndef ENCAST_FRONTENDS_MODELS_METADATA_H
#define ENCAST_FRONTENDS_MODELS_METADATA_H

#include "frontends/Models/ImportContext.h"

#include <string>

namespace encast {

/// Writes spec.metadataJson, an object of those of these keys that the folder
/// defines, in this order: model_type, architecture, task, labels (an array, in
/// the order of the logits), problem_type, prompts (an object), default_prompt,
/// similarity; of late interaction query_prefix, document_prefix, query_length,
/// document_length, do_query_expansion, attend_to_expansion_tokens; of scores
/// between spans score_formula, logit_scale, score_bias; max_seq_length,
/// do_lower_case, license; and always matrices, the number of those that
/// linears multiply by, and bf16_exact_matrices, of those the number whose
/// every value is one of bf16.
/// `folder` is the model's folder, `transformerFolder` that of its config.json.
/// False with `context.error` if a file is malformed.
bool collectMetadata(ImportContext &context, const std::string &folder,
                     const std::string &transformerFolder);

} // namespace encast

#endif // ENCAST_FRONTENDS_MODELS_METADATA_H
