// Runs whose outcome somebody published, but no figure.
#include <nlohmann/json.hpp>

#include "engine/point/fields.h"
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"

using namespace mbench;
using namespace mbench::sim;

TEST_CASE("LLaDA 8B, whose attention sees all positions, is out of memory on two A100 of 40 GB, as published") {
  // dllm issue 9.
  const Point p =
      point_from_json(nlohmann::json::parse(R"({"model": {"family": "llama", "layers": 32, "hidden": 4096, "heads": 32,
      "kv_heads": 32, "ffn": 12288, "vocab": 126464, "positions": 4096, "causal": false}, "seq": 1024, "micro_batch": 2,
      "global_batch": 16, "dp": 2, "zero": 2, "offload": "optimizer", "precision": "bf16", "attention": "flash", "dropout": 0})"),
                      "llada");
  const Plan plan = strategies::make_plan(p);
  CHECK(parameter_count(p.model, 1, 1) == 8015581184);
  CHECK_THROWS_AS(simulate_point(p, plan, find_machine("A100-SXM4-40GB", "test"), 2), OutOfMemory);
  CHECK_NOTHROW(simulate_point(p, plan, find_machine("A100-SXM4-80GB", "test"), 2));
}
