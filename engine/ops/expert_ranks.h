// Which ranks a token visits, where equal numbers of consecutive experts are on each rank: the rank of each chosen
// expert, once.
#pragma once
#include "engine/ops/arguments.h"

namespace mbench::ops {

struct ExpertRanks {  // ranks[token, slot] = experts[token, slot] / each; -1 where an earlier slot has the rank
  static constexpr std::string_view name = "expert_ranks";
  Tensor experts;         // [..., k] i64, none below 0
  std::int64_t each = 1;  // experts of a rank
  Tensor ranks;           // like experts
  void check() const {
    need_dtype(name, "experts", experts, DType::i64);
    need_same(name, "ranks", ranks, experts);
    mbench::check(each >= 1, name, "experts of a rank, got {}, need at least 1", each);
  }
  Cost cost() const { return {0, bytes_of(experts) + bytes_of(ranks)}; }
};

}  // namespace mbench::ops
