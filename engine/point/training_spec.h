// What is trained, without the model: the part of a point that decides which numbers are computed. Each member is a field of the spec
// (fields.cpp), where its meaning stands.
#pragma once
#include <cstdint>
#include <string>

#include "engine/point/adapter.h"
#include "engine/point/choices.h"
#include "engine/point/document_lengths.h"
#include "engine/point/router.h"

namespace mbench {

struct TrainingSpec {
  std::int64_t seq = 1024;
  std::int64_t micro_batch = 1;   // samples per micro batch and data-parallel rank
  std::int64_t global_batch = 1;  // samples per optimizer step over all ranks
  std::int64_t iterations = 10;   // measured
  std::int64_t warmup = 2;        // before them, not measured
  std::uint64_t seed = 1234;
  double dropout = 0.1;
  RouterMode router;  // where the model has experts
  // Rows of the rank whose experts have most, over the mean: in simulation, where the data decide.
  double routing_imbalance = 1;
  AttentionKind attention = AttentionKind::core;
  std::string data = "synthetic";
  DocumentLengths document_lengths;  // of what is packed into a sequence; with them
  bool reset_positions = true;       // positions restart in each document
  AdapterSpec adapter;               // with one, only its weights are trained

  OptimizerKind optimizer = OptimizerKind::adamw;
  double learning_rate = 1.5e-4;
  std::int64_t lr_warmup = 0;  // steps of linear learning-rate warm-up
  double weight_decay = 0.01;
  double clip_grad = 1.0;  // 0 switches clipping off

  bool operator==(const TrainingSpec&) const = default;
};

}  // namespace mbench
