#include "engine/base/names.h"

#include "test/catch.h"

using namespace mbench;
using Catch::Contains;

namespace {

using Names = std::vector<std::string>;
const Names kMachines = {"A100-PCIe-80GB", "A100-SXM4-40GB",  "A100-SXM4-80GB",    "A100-SXM4-80GB-RoCE", "B200-180GB",
                         "GB200-NVL72",    "H200-SXM5-141GB", "H200-SXM5-141GB-4", "V100-SXM2-16GB"};
const Names kModels = {"llama-2-7b",  "llama-3-8b",  "llama-3-70b",      "mixtral-8x7b",
                       "deepseek-v3", "deepseek-v2", "deepseek-v2-lite", "qwen3-30b-a3b"};

}  // namespace

TEST_CASE("names: a machine by how its name begins, and its words by theirs") {
  CHECK(names_with("v100", kMachines) == Names{"V100-SXM2-16GB"});
  CHECK(names_with("A100-80GB", kMachines) == Names{"A100-PCIe-80GB", "A100-SXM4-80GB", "A100-SXM4-80GB-RoCE"});
  CHECK(names_with("A100 sxm 80", kMachines) == Names{"A100-SXM4-80GB"});
  CHECK(names_with("a100-40gb", kMachines) == Names{"A100-SXM4-40GB"});
  CHECK(names_with("H200", kMachines) == Names{"H200-SXM5-141GB"});
  CHECK(names_with("B200", kMachines) == Names{"B200-180GB"});
  CHECK(names_with("80GB", kMachines).empty());
  for (const char* other : {"H20", "A10", "B20", "V10", "A100-4"}) {  // others than those whose names begin so
    INFO(other);
    CHECK(names_with(other, kMachines).empty());
  }
  CHECK(names_with("L40", {"L40S"}).empty());
  CHECK(names_with("A100-SXM", kMachines).size() == 3);
  CHECK(names_with("A800-80GB", kMachines).empty());
  CHECK(names_with("", kMachines).empty());
}

TEST_CASE("names: who makes a device, and the line it is sold in, may be left out or said") {
  const Names machines = {"H100-NVL-94GB", "H100-SXM5-80GB", "L4",       "L40S",      "MI300X",
                          "MI325X",        "RTX-3090",       "RTX-4090", "RTX-A6000", "TITAN-RTX"};
  for (const char* name : {"4090", "rtx-4090", "rtx 4090", "GeForce RTX 4090", "NVIDIA GeForce RTX 4090"}) {
    INFO(name);
    CHECK(names_with(name, machines) == Names{"RTX-4090"});
  }
  CHECK(names_with("A6000", machines) == Names{"RTX-A6000"});
  CHECK(names_with("AMD Instinct MI300X", machines) == Names{"MI300X"});
  CHECK(names_with("l4", machines) == Names{"L4"});
  CHECK(names_with("titan-rtx", machines) == Names{"TITAN-RTX"});
  CHECK(names_with("h100", machines) == Names{"H100-NVL-94GB", "H100-SXM5-80GB"});
  for (const char* none : {"rtx", "nvidia", "409", "MI300", "6000"}) {
    INFO(none);
    CHECK(names_with(none, machines).empty());
  }
  CHECK_THAT(nearest_name("rtx", machines), Contains("did you mean \"RTX-3090\" or \"RTX-4090\" or \"RTX-A6000\"?"));
}

TEST_CASE("names: a model by its name on Hugging Face, where nothing of it is left") {
  CHECK(name_within("meta-llama/Llama-2-7b-hf", kModels) == "llama-2-7b");
  CHECK(name_within("meta-llama/Meta-Llama-3-8B-Instruct", kModels) == "llama-3-8b");
  CHECK(name_within("mistralai/Mixtral-8x7B-v0.1", kModels) == "mixtral-8x7b");
  CHECK(name_within("deepseek-ai/DeepSeek-V2-Lite", kModels) == "deepseek-v2-lite");
  CHECK(name_within("Qwen/Qwen3-30B-A3B", kModels) == "qwen3-30b-a3b");
  CHECK(name_within("Qwen/Qwen2.5-7B", kModels) == "");
  CHECK(name_within("org/llama-3-8b-262k", kModels) == "");  // another model
  CHECK(name_within("", kModels) == "");
}

TEST_CASE("names: a suggestion is of the same kind before it is of the same letters") {
  CHECK_THAT(nearest_name("V100-60GB", kMachines), Contains("did you mean \"V100-SXM2-16GB\"?"));
  CHECK_THAT(nearest_name("V10O-SXM2-16GB", kMachines), Contains("did you mean \"V100-SXM2-16GB\"?"));
}
