// The plan of modules that exchange nothing themselves: whoever holds them brings their input and takes their output.
#pragma once
#include <memory>

#include "engine/plan/plan.h"

namespace mbench::nn {

// The first linear layer of a pair finds its input there, and the output of the second stays where its GEMM makes it.
std::unique_ptr<Plan> plan_inside(const Plan& plan);

// How that input gets there, and how that output becomes what follows the pair.
struct ExchangesOutside {
  explicit ExchangesOutside(const Plan& plan);
  Transition gather, reduce;
};

}  // namespace mbench::nn
