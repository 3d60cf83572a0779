// A step of GPT-2 345M in fp16.
#pragma once
#include "engine/point/point.h"

namespace mbench::test {

inline Point gpt(std::int64_t tp, std::int64_t pp, std::int64_t dp) {
  Point p;
  p.model = find_preset("gpt2-345m", "test");
  p.seq = 1024;
  p.micro_batch = 2;
  p.global_batch = 16;
  p.precision = Precision::fp16;
  p.tp = tp, p.pp = pp, p.dp = dp;
  return p;
}

}  // namespace mbench::test
