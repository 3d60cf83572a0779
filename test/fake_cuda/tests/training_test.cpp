// The whole command on fake GPUs: it trains as the CPU does, on one GPU, on several over NCCL, and on one
// that several ranks share; and allocates what the CPU and the simulator do.
#include "test/fake_cuda/tests/sweeps.h"

using namespace mbench;
using namespace mbench::test;
using Catch::Contains;

namespace {

const std::string kOneGpu = R"({"precision,graph,recompute": [
  ["f32", "fused", "none"], ["bf16", "eager", "selective"], ["fp16", "fused", "full"]]})";

// The serial run on the CPU, by precision.
std::map<Precision, PointResult> serial(Sweeps& sweeps) {
  std::map<Precision, PointResult> runs;
  for (const PointResult& p :
       sweeps.good("serial", R"({"precision": ["f32", "bf16", "fp16"]})", "cpu", "", "--launcher local"))
    runs[p.point.precision] = p;
  return runs;
}

// Points that one GPU trains, held to the CPU's losses and norms, and to its memory and the simulator's.
auto on_one_gpu(const std::string& points) {
  Sweeps sweeps;
  const auto cpu = sweeps.good("cpu", points, "cpu", "", "--launcher local");
  const auto sim = sweeps.good("sim", points, "sim:1xA100-SXM4-80GB");
  auto gpu = sweeps.good("gpu", points, "cuda", "FAKE_CUDA_SEED=3", "--launcher local");
  REQUIRE(gpu.size() == 3);
  for (std::size_t i = 0; i < gpu.size(); ++i) {
    INFO(describe(gpu[i]));
    check_same_training(gpu[i], cpu[i]);
    check_same_memory(gpu[i], cpu[i]);
    check_same_memory(gpu[i], sim[i]);
  }
  return gpu;
}

}  // namespace

TEST_CASE("one GPU: losses, gradient norms and memory are the CPU's and the simulator's") {
  for (const auto& point : on_one_gpu(kOneGpu)) {
    INFO(describe(point));
    CHECK(point.device == "fake GPU (emulated)");
    check_time_anatomy(point);
  }
}

TEST_CASE("packed documents on one GPU: losses, gradient norms and memory are the CPU's and the simulator's") {
  on_one_gpu(R"({"precision,graph,document_lengths": [
    ["f32", "fused", "7+4"], ["bf16", "megatron_core", "geometric:5"], ["f32", "eager", "1+9"]]})");
}

TEST_CASE("samples that have labels on one GPU: losses, gradient norms and memory are the CPU's and the simulator's") {
  on_one_gpu(R"({"model": [{"preset": "bert-bytes-tiny", "labels": 3}],
    "precision,graph": [["f32", "fused"], ["bf16", "eager"], ["fp16", "megatron_core"]]})");
  on_one_gpu(
      R"({"precision,graph,model.labels": [["f32", "fused", 5], ["bf16", "eager", 2], ["fp16", "megatron_core", 3]]})");
}

TEST_CASE("a soak on GPUs has NVML's clocks, power, temperature and what held clocks down in each window") {
  Sweeps sweeps;
  const Run run =
      sweeps.run("soak", R"({"precision": ["f32"]})", "cuda", "FAKE_CUDA_SEED=3", "--launcher local --soak 2s");
  INFO(run.out << run.err);
  REQUIRE(run.code == 0);
  const PointResult row = sweeps.points("soak").at(0);
  REQUIRE(row.soak);
  REQUIRE(row.soak->windows.size() >= 1);
  for (const SoakWindow& w : row.soak->windows) {  // as the fake NVML has them
    CHECK(w.clock_mhz == 1000);
    CHECK(w.power_w == 50);
    CHECK(w.hottest_c == 60);
    CHECK(w.throttle == "none");
  }
  CHECK(row.reason.find("unknown") == std::string::npos);
}

TEST_CASE("an Xid during the measured steps is in the row, with its rank, and flags it") {
  Sweeps sweeps;
  const Run run = sweeps.run("xid", R"({"dp": [2]})", "cuda", "FAKE_CUDA_COUNT=2 FAKE_CUDA_XID=79", "--soak 1s");
  INFO(run.out << run.err);
  REQUIRE(run.code == 0);
  const PointResult row = sweeps.points("xid").at(0);
  CHECK_THAT(row.device_faults, Contains("Xid 79 on rank 0 after "));
  CHECK_THAT(row.device_faults, !Contains("rank 1"));
  CHECK_THAT(run.out, Contains("faulty: the devices reported Xid 79 on rank 0"));
  CHECK(sweeps.good("none", R"({"precision": ["f32"]})", "cuda", "", "--launcher local").at(0).device_faults.empty());
}

TEST_CASE(
    "ranks of a GPU each, over NCCL: losses and gradient norms are the serial run's, memory the "
    "simulator's") {
  const std::string layouts =
      R"({"tp,pp,dp,sequence_parallel,recompute,schedule,virtual_stages,graph,precision": [
    [2, 1, 1, false, "none", "1f1b", 1, "fused", "f32"],
    [4, 1, 1, true, "selective", "1f1b", 1, "eager", "bf16"],
    [1, 2, 1, false, "none", "gpipe", 1, "fused", "fp16"],
    [1, 4, 1, false, "none", "1f1b", 1, "eager", "f32"],
    [1, 2, 1, false, "none", "interleaved", 2, "fused", "bf16"],
    [1, 1, 2, false, "none", "1f1b", 1, "fused", "f32"],
    [2, 2, 1, true, "full", "interleaved", 2, "eager", "fp16"],
    [2, 2, 2, true, "none", "1f1b", 1, "fused", "f32"]]})";
  Sweeps sweeps;
  const auto want = serial(sweeps);
  const auto sim = sweeps.good("sim", layouts, "sim:8xA100-SXM4-80GB");
  const auto gpu = sweeps.good("gpu", layouts, "cuda", "FAKE_CUDA_COUNT=8 FAKE_CUDA_SEED=5");
  REQUIRE(gpu.size() == 8);
  for (std::size_t i = 0; i < gpu.size(); ++i) {
    INFO(describe(gpu[i]));
    CHECK(gpu[i].device == "fake GPU (emulated)");
    check_same_training(gpu[i], want.at(gpu[i].point.precision));
    check_same_memory(gpu[i], sim[i]);
    check_time_anatomy(gpu[i]);
  }
}

TEST_CASE("state sharded over NCCL: what the serial run computes, in the simulator's memory") {
  const std::string layouts = R"({"dp,tp,pp,sequence_parallel,recompute,graph,precision,zero": [
    [2, 1, 1, false, "none", "fused", "f32", 1],
    [4, 1, 1, false, "full", "eager", "fp16", 2],
    [2, 2, 1, true, "none", "fused", "bf16", 3],
    [2, 1, 2, false, "none", "fused", "f32", "fsdp"],
    [2, 1, 1, false, "selective", "eager", "bf16", "oss"],
    [4, 1, 1, false, "none", "fused", "f32", "oss+sdp"]]})";
  Sweeps sweeps;
  const auto want = serial(sweeps);
  const auto sim = sweeps.good("sim", layouts, "sim:8xA100-SXM4-80GB");
  const auto gpu = sweeps.good("gpu", layouts, "cuda", "FAKE_CUDA_COUNT=8 FAKE_CUDA_SEED=4");
  REQUIRE(gpu.size() == 6);
  for (std::size_t i = 0; i < gpu.size(); ++i) {
    INFO(describe(gpu[i]));
    check_same_training(gpu[i], want.at(gpu[i].point.precision));
    check_same_memory(gpu[i], sim[i]);
  }
}

TEST_CASE(
    "a step that is captured with NCCL's operations in it: what the serial run computes, in the simulator's memory") {
  const std::string layouts = R"({"tp,pp,dp,sequence_parallel,recompute,schedule,virtual_stages,precision,zero": [
    [1, 1, 1, false, "none", "1f1b", 1, "bf16", 0],
    [2, 1, 1, true, "selective", "1f1b", 1, "f32", 0],
    [1, 2, 2, false, "none", "1f1b", 1, "fp16", 1],
    [2, 2, 1, true, "full", "interleaved", 2, "bf16", 0],
    [1, 1, 4, false, "none", "1f1b", 1, "f32", 3]], "capture": [true]})";
  Sweeps sweeps;
  const auto want = serial(sweeps);
  const auto sim = sweeps.good("sim", layouts, "sim:4xA100-SXM4-80GB");
  const auto gpu = sweeps.good("gpu", layouts, "cuda", "FAKE_CUDA_COUNT=4 FAKE_CUDA_SEED=7");
  REQUIRE(gpu.size() == 5);
  for (std::size_t i = 0; i < gpu.size(); ++i) {
    INFO(describe(gpu[i]));
    check_same_training(gpu[i], want.at(gpu[i].point.precision));
    check_same_memory(gpu[i], sim[i]);
  }
}

TEST_CASE("captured parts with NCCL's operations in them: what the serial run computes, in the simulator's memory") {
  const std::string layouts =
      R"({"tp,pp,dp,sequence_parallel,recompute,schedule,virtual_stages,precision,zero,capture": [
    [1, 1, 1, false, "none", "1f1b", 1, "bf16", 0, "attention+mlp"],
    [2, 1, 1, true, "selective", "1f1b", 1, "f32", 0, "layer"],
    [1, 2, 2, false, "none", "1f1b", 1, "fp16", 1, "attention"],
    [2, 2, 1, true, "none", "interleaved", 2, "bf16", 0, "mlp"]]})";
  Sweeps sweeps;
  const auto want = serial(sweeps);
  const auto sim = sweeps.good("sim", layouts, "sim:4xA100-SXM4-80GB");
  const auto gpu = sweeps.good("gpu", layouts, "cuda", "FAKE_CUDA_COUNT=4 FAKE_CUDA_SEED=8");
  REQUIRE(gpu.size() == 4);
  for (std::size_t i = 0; i < gpu.size(); ++i) {
    INFO(describe(gpu[i]));
    check_same_training(gpu[i], want.at(gpu[i].point.precision));
    check_same_memory(gpu[i], sim[i]);
  }
}

TEST_CASE("mbench keeps NCCL from registering what is captured, which the arena's memory cannot be") {
  Sweeps sweeps;
  const std::string two = R"({"precision": ["f32"], "tp": [2], "capture": [true]})";
  sweeps.good("own", two, "cuda", "FAKE_CUDA_COUNT=2");
  const Run run = sweeps.run("asked", two, "cuda", "FAKE_CUDA_COUNT=2 NCCL_GRAPH_REGISTER=1");
  INFO(run.out << run.err);
  CHECK(run.code != 0);
  const PointResult p = sweeps.points("asked").at(0);
  CHECK(p.outcome == Outcome::crashed);
  CHECK_THAT(p.reason, Contains("NCCL failed, got unhandled cuda error"));
}

TEST_CASE("state in page-locked memory: what the serial run computes, in the simulator's memory, on the host too") {
  const std::string layouts = R"({"dp,tp,pp,sequence_parallel,recompute,graph,precision,zero,offload": [
    [1, 1, 1, false, "none", "fused", "f32", 0, "optimizer"],
    [1, 1, 1, false, "full", "fused", "bf16", 3, "all"],
    [2, 1, 1, false, "none", "eager", "fp16", 1, "optimizer"],
    [2, 1, 2, false, "none", "fused", "bf16", 2, "optimizer"],
    [2, 2, 1, true, "none", "fused", "f32", 3, "all"],
    [4, 1, 1, false, "selective", "fused", "fp16", "fsdp", "all"],
    [2, 1, 1, false, "none", "fused", "bf16", 1, "moments"]]})";
  Sweeps sweeps;
  const auto want = serial(sweeps);
  const auto sim = sweeps.good("sim", layouts, "sim:8xA100-SXM4-80GB");
  const auto gpu = sweeps.good("gpu", layouts, "cuda", "FAKE_CUDA_COUNT=8 FAKE_CUDA_SEED=6");
  REQUIRE(gpu.size() == 7);
  for (std::size_t i = 0; i < gpu.size(); ++i) {
    INFO(describe(gpu[i]));
    check_same_training(gpu[i], want.at(gpu[i].point.precision));
    check_same_memory(gpu[i], sim[i]);
    REQUIRE(gpu[i].host_memory_mib);
    CHECK(*gpu[i].host_memory_mib == *sim[i].host_memory_mib);
    CHECK(gpu[i].host_memory_anatomy_mib->mib == sim[i].host_memory_anatomy_mib->mib);
  }
}

TEST_CASE(
    "activations in page-locked memory: what the serial run computes, in the simulator's memory, on the host too") {
  const std::string layouts = R"({"dp,tp,pp,sequence_parallel,recompute,graph,precision,offload,offload_activations": [
    [1, 1, 1, false, "none", "fused", "f32", "none", "attn_norm+qkv_linear+core_attn+attn_proj+mlp_norm"],
    [1, 1, 1, false, "full", "fused", "bf16", "optimizer", "layers:2"],
    [2, 2, 1, true, "none", "eager", "fp16", "none", "core_attn+attn_proj"],
    [2, 1, 2, false, "norm", "fused", "bf16", "none", "attn_norm+core_attn+mlp_norm"]]})";
  Sweeps sweeps;
  const auto want = serial(sweeps);
  const auto sim = sweeps.good("sim", layouts, "sim:8xA100-SXM4-80GB");
  for (const char* seed : {"6", "11"}) {
    const auto gpu = sweeps.good(std::string("gpu") + seed, layouts, "cuda",
                                 std::string("FAKE_CUDA_COUNT=8 FAKE_CUDA_SEED=") + seed);
    REQUIRE(gpu.size() == 4);
    for (std::size_t i = 0; i < gpu.size(); ++i) {
      INFO(describe(gpu[i]) << ", seed " << seed);
      check_same_training(gpu[i], want.at(gpu[i].point.precision));
      check_same_memory(gpu[i], sim[i]);
      REQUIRE(gpu[i].host_memory_mib);
      CHECK(*gpu[i].host_memory_mib == *sim[i].host_memory_mib);
      CHECK(gpu[i].host_memory_anatomy_mib->mib == sim[i].host_memory_anatomy_mib->mib);
    }
  }
}

TEST_CASE("normed queries and keys, and latent attention: two GPUs train as the CPU alone") {
  const std::string models = R"("model": [
    {"family": "llama", "qk_norm": true, "layers": 2, "hidden": 32, "heads": 4, "kv_heads": 2, "ffn": 64, "vocab": 61,
     "positions": 16},
    {"family": "llama", "qk_norm": true, "layers": 2, "hidden": 32, "heads": 4, "kv_heads": 1, "ffn": 64, "vocab": 61,
     "positions": 16},
    {"family": "deepseek", "layers": 2, "hidden": 32, "heads": 4, "ffn": 64, "vocab": 61, "positions": 16,
     "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8},
    {"family": "deepseek", "layers": 2, "hidden": 32, "heads": 4, "ffn": 64, "vocab": 61, "positions": 16,
     "kv_lora_rank": 10, "qk_nope_head_dim": 6, "qk_rope_head_dim": 4, "v_head_dim": 5}],
    "precision": ["f32", "bf16"])";
  const std::string layout = R"(, "tp": [2], "sequence_parallel": [true])";
  Sweeps sweeps;
  const auto cpu = sweeps.good("cpu", "{" + models + "}", "cpu", "", "--launcher local");
  const auto sim = sweeps.good("sim", "{" + models + layout + "}", "sim:2xA100-SXM4-80GB");
  const auto gpu = sweeps.good("gpu", "{" + models + layout + "}", "cuda", "FAKE_CUDA_COUNT=2 FAKE_CUDA_SEED=4");
  REQUIRE(gpu.size() == 8);
  for (std::size_t i = 0; i < gpu.size(); ++i) {
    INFO(describe(gpu[i]) << ", qk_norm " << (gpu[i].point.model.parts().qk_norm != QkNorm::none));
    check_same_training(gpu[i], cpu[i]);
    check_same_memory(gpu[i], sim[i]);
  }
}

TEST_CASE("experts on several GPUs, by all-to-all: what the CPU alone computes, in the simulator's memory") {
  const std::string model =
      R"("model": [{"family": "mixtral", "layers": 2, "hidden": 32, "heads": 4, "kv_heads": 2,
    "ffn": 48, "vocab": 61, "positions": 16, "experts": 8, "active_experts": 2, "shared_experts": 1,
    "routing": {"balance_loss": 0.1, "z_loss": 0.1, "score": "sigmoid", "correction_speed": 0.01}}])";
  const std::string layouts = R"(, "router,tp,dp,ep,etp,sequence_parallel,precision,graph": [
    ["learned", 1, 1, 1, 0, false, "f32", "eager"], ["learned", 2, 1, 1, 0, true, "f32", "fused"],
    ["capacity:8", 1, 2, 2, 0, false, "f32", "fused"], ["capacity:8", 2, 2, 4, 1, true, "f32", "eager"],
    ["capacity:8", 2, 2, 2, 0, true, "f32", "fused"]])";
  // Shared experts in parts, whose exchanges over tp overlap with those of tokens.
  const std::string in_parts =
      R"(, "framework": [{"preset": "megatron-core", "host": "mbench", "shared_expert_overlap": true}],
    "router,tp,dp,ep,etp,sequence_parallel,precision": [["learned", 2, 1, 1, 0, true, "f32"],
    ["capacity:8", 2, 2, 4, 1, true, "f32"]])";
  Sweeps sweeps;
  const auto cpu = sweeps.good("cpu", "{" + model + R"(, "router": ["learned"], "precision": ["f32"]})", "cpu", "",
                               "--launcher local");
  for (const auto& [points, count] : {std::pair(layouts, 5), {in_parts, 2}}) {
    const auto sim = sweeps.good(fmt::format("sim{}", count), "{" + model + points + "}", "sim:4xA100-SXM4-80GB");
    const auto gpu = sweeps.good(fmt::format("gpu{}", count), "{" + model + points + "}", "cuda",
                                 "FAKE_CUDA_COUNT=4 FAKE_CUDA_SEED=3");
    REQUIRE(static_cast<int>(gpu.size()) == count);
    for (std::size_t i = 0; i < gpu.size(); ++i) {
      INFO(describe(gpu[i]) << ", router " << str(gpu[i].point.router) << ", ep " << gpu[i].point.ep);
      check_same_training(gpu[i], cpu[0]);
      check_same_memory(gpu[i], sim[i]);
    }
  }
}

TEST_CASE("ranks that share a GPU talk through host memory, and the row says so") {
  Sweeps sweeps;
  const auto want = serial(sweeps);
  const auto gpu = sweeps.good("gpu", R"({"tp,pp,dp,sequence_parallel,schedule,virtual_stages,precision,zero": [
    [2, 2, 1, true, "interleaved", 2, "f32", 0], [2, 1, 2, false, "1f1b", 1, "bf16", 3],
    [1, 1, 4, false, "1f1b", 1, "f32", "oss+sdp"]]})",
                               "cuda", "FAKE_CUDA_COUNT=1 FAKE_CUDA_SEED=2");
  REQUIRE(gpu.size() == 3);
  for (const PointResult& p : gpu) {
    INFO(describe(p));
    CHECK(p.device == "fake GPU (emulated) (shared by 4 ranks, messages through host memory)");
    check_same_training(p, want.at(p.point.precision));
    check_time_anatomy(p);
  }
}

TEST_CASE("two runs give the same bits, whatever algorithm is fastest and in whatever order streams run") {
  Sweeps sweeps;
  const std::string one = R"({"precision": ["bf16"], "graph": ["fused"]})";
  std::vector<std::vector<PointResult>> runs;
  for (const int seed : {1, 6, 5})
    runs.push_back(sweeps.good(fmt::format("seed{}", seed), one, "cuda",
                               fmt::format("FAKE_CUDA_COUNT=2 FAKE_CUDA_SEED={}", seed), "--set tp=2 --set dp=1"));
  for (std::size_t i = 0; i < runs[0].size(); ++i)
    for (std::size_t r = 1; r < runs.size(); ++r) {
      INFO(describe(runs[r][i]));
      CHECK(runs[r][i].losses == runs[0][i].losses);
      CHECK(runs[r][i].gradient_norms == runs[0][i].gradient_norms);
    }
}

TEST_CASE("what libraries held is that of measured steps, NCCL's buffers with it") {
  Sweeps sweeps;
  const auto library = [&](const std::string& name, int warmup, int communicator) {
    const auto run = sweeps.good(name, R"({"precision": ["f32"], "tp": [2]})", "cuda",
                                 fmt::format("FAKE_CUDA_COUNT=2 FAKE_CUDA_COMMUNICATOR_MIB={}", communicator),
                                 fmt::format("--set warmup={}", warmup));
    return run.at(0).library_memory_mib.value();
  };
  // With a warm-up step, nothing of what algorithms were compared with is left.
  const double plain = library("plain", 1, 0);
  CHECK(plain < library("first", 0, 0));
  CHECK(library("buffers", 1, 20) >= plain + 20);
}

TEST_CASE("a sweep runs on GPUs by itself where every rank gets one, else on the CPU") {
  const Room room;
  const auto device = [&](const char* gpus, const char* options) {
    const Run run = room.shell(fmt::format("FAKE_CUDA_COUNT={} $M sweep tiny.json --dry-run {}", gpus, options));
    INFO(run.out << run.err);
    CHECK(run.code == 0);
    const auto begin = run.out.find(" points on ");
    REQUIRE(begin != std::string::npos);
    return run.out.substr(begin + 11, run.out.find(' ', begin + 11) - begin - 11);
  };
  CHECK(device("2", "") == "cuda");
  CHECK(device("1", "") == "cpu");
  CHECK(device("1", "--filter tp=1") == "cuda");
  CHECK(device("0", "") == "cpu");
  CHECK(device("2", "--on cpu") == "cpu");
}

TEST_CASE("devices: the GPUs, their libraries, and the links between them") {
  const Room room;
  const Run one = room.shell("$M devices");
  CHECK(one.code == 0);
  CHECK_THAT(one.out,
             Contains("cuda      0 fake GPU (emulated), 2.00 GiB") && Contains("cuBLASLt") && Contains("NCCL"));
  CHECK_THAT(one.out, !Contains("GPU 0        X"));  // one GPU has no matrix of links
  const Run four = room.shell("FAKE_CUDA_COUNT=4 $M devices");
  INFO(four.out);
  CHECK(four.code == 0);
  CHECK_THAT(four.out, Contains("cuda      3 fake GPU (emulated)"));
  CHECK_THAT(four.out, Contains("GPU 0        X   NV4  NODE  NODE") && Contains("GPU 3     NODE  NODE   NV4     X"));
  const Run none = room.shell("FAKE_CUDA_COUNT=0 $M devices");
  CHECK(none.code == 0);
  CHECK_THAT(none.out, Contains("cuda      none: "));
}
