// Fused attention up to the last step before a GPU: cuDNN's plans for GPUs that it only has a description of,
// their compiled code, and what an op would start.
#include "engine/backend/cuda/attention/flash.h"
#include "engine/backend/cuda/attention/flash_graph.h"
#include "test/catch.h"
#include "test/engine/ops/op_test.h"
#include "test/fake_cuda/cudnn/executions.h"
#include "test/fake_cuda/driver_code.h"
#include "test/fake_cuda/kernels.h"
#include "test/fake_cuda/settings.h"

using namespace mbench;
using namespace mbench::test;
using namespace mbench::cuda;
using Catch::Contains;

namespace {

void be(int capability) {
  fake_cuda::changeable_settings().capability = capability;
}

enum class Mask { none, causal, padded };
constexpr Mask kMasks[] = {Mask::none, Mask::causal, Mask::padded};

// As the engine's tensors lie: q, k and v in one [seq, batch, heads, 3 d], out in [seq, batch, heads * d].
FlashShape shape_of(std::int64_t batch, std::int64_t heads, std::int64_t seq, std::int64_t d, Mask mask, DType type,
                    bool gradient) {
  FlashShape s;
  s.type = type, s.batch = batch, s.heads = heads, s.seq = seq, s.head_dim = d, s.scale = 0.125f;
  s.key_heads = heads, s.v_dim = d;
  s.causal = mask == Mask::causal, s.padded = mask == Mask::padded, s.gradient = gradient;
  const FlashView packed{batch * heads * 3 * d, 3 * d, heads * 3 * d}, whole{batch * heads * d, d, heads * d};
  s.q = s.k = s.v = s.dq = s.dk = s.dv = packed;
  s.out = s.dout = whole;
  return s;
}

std::string label(const FlashShape& s, int capability) {
  return fmt::format("{}: {} x {} x {} x {} {}{}{}{}", capability, s.batch, s.heads, s.seq, s.head_dim, name_of(s.type),
                     s.causal ? " causal" : "", s.padded ? " padded" : "", s.gradient ? " gradient" : "");
}

// What a plan may want besides: cuDNN 9.19 asks for 256 bytes.
constexpr std::int64_t kSlack = 4096;

// Bytes of the score gradients that a deterministic plan keeps, in 16 bits and whole tiles of 64 x 64.
std::int64_t score_bytes(const FlashShape& s) {
  const std::int64_t side = (s.seq + 63) / 64 * 64;
  return s.batch * s.heads * side * side * 2;
}

}  // namespace

TEST_CASE("cuDNN has plans for every head size, length and mask, compiled for their GPU") {
  constexpr std::int64_t lengths[] = {512, 1000, 2048, 4096};
  std::size_t turn = 0;
  for (const int capability : {90, 80}) {
    be(capability);
    for (const std::int64_t d : {64, 80, 96, 128})
      for (const Mask mask : kMasks)
        for (const bool gradient : {false, true}) {
          const std::int64_t seq = lengths[turn / 2 % 4];
          const FlashShape s = shape_of(2, 4, seq, d, mask, turn / 2 % 3 == 0 ? DType::f16 : DType::bf16, gradient);
          ++turn;
          INFO(label(s, capability));
          fake_cuda::loaded_kernels().clear();
          const auto plan = plan_flash(s, nullptr, fake_cuda::device_for_cudnn());
          REQUIRE(!fake_cuda::loaded_kernels().empty());
          for (const fake_cuda::LoadedKernel& kernel : fake_cuda::loaded_kernels()) {
            CHECK(kernel.capability == capability);
            CHECK_THAT(kernel.name, Contains(fmt::format("sm{}_flash_{}prop", capability, gradient ? "b" : "f")));
          }
          const std::int64_t bytes = workspace_of(*plan), kept = gradient ? s.row_sum_bytes() + score_bytes(s) : 0;
          CHECK(bytes >= kept);
          CHECK(bytes <= kept + kSlack);
        }
  }
}

// Each group is a sample with one head of keys: its queries, key and value lie side by side.
TEST_CASE("cuDNN has plans for heads that share keys and values") {
  for (const int capability : {90, 80}) {
    be(capability);
    for (const std::int64_t group : {4, 8})
      for (const bool gradient : {false, true}) {
        const std::int64_t groups = 4, n = 1024, d = 128, width = (group + 2) * d;
        FlashShape s = shape_of(groups, group, n, d, Mask::causal, DType::bf16, gradient);
        s.key_heads = 1;
        const FlashView packed{groups * width, d, width}, whole{groups * group * d, d, group * d};
        s.q = s.k = s.v = s.dq = s.dk = s.dv = packed;
        s.out = s.dout = whole;
        INFO(label(s, capability) << ", groups of " << group);
        fake_cuda::loaded_kernels().clear();
        const auto plan = plan_flash(s, nullptr, fake_cuda::device_for_cudnn());
        CHECK(!fake_cuda::loaded_kernels().empty());
        CHECK(workspace_of(*plan) >= (gradient ? s.row_sum_bytes() : 0));
      }
  }
}

TEST_CASE("the workspace of a gradient is what the comment in flash_graph.cpp says") {
  be(90);
  const FlashShape s = shape_of(8, 16, 2048, 128, Mask::causal, DType::bf16, true);
  CHECK(workspace_of(*plan_flash(s, nullptr, fake_cuda::device_for_cudnn())) >> 20 == 1025);
}

TEST_CASE("a plan's tensors lie where the op's do") {
  be(90);
  const std::int64_t b = 2, a = 4, n = 512, d = 64;
  for (const bool gradient : {false, true}) {
    const FlashShape s = shape_of(b, a, n, d, Mask::padded, DType::bf16, gradient);
    const auto plan = plan_flash(s, nullptr, fake_cuda::device_for_cudnn());
    using Sizes = std::vector<std::int64_t>;
    const auto check = [&](FlashTensor name, const Sizes& dims, const Sizes& strides) {
      cudnn_frontend::graph::Tensor_attributes t;
      INFO("tensor " << name << ", gradient " << gradient);
      REQUIRE(plan->query_tensor_attributes_of_uid(name, t).is_good());
      // Plans write K, and the gradient's V, as their transposes.
      if (t.get_dim().size() == 4 && t.get_dim()[2] == d && t.get_dim()[3] == n) {
        Sizes turned = t.get_dim(), turned_strides = t.get_stride();
        std::swap(turned[2], turned[3]), std::swap(turned_strides[2], turned_strides[3]);
        t.set_dim(turned).set_stride(turned_strides);
      }
      CHECK(t.get_dim() == dims);
      CHECK(t.get_stride() == strides);
    };
    const Sizes dims{b, a, n, d}, packed{a * 3 * d, 3 * d, b * a * 3 * d, 1}, whole{a * d, d, b * a * d, 1};
    for (const FlashTensor name : {kFlashQ, kFlashK, kFlashV}) check(name, dims, packed);
    check(kFlashOut, dims, whole);
    check(kFlashLse, {b, a, n, 1}, {a * n, n, 1, 1});
    check(kFlashKeyLengths, {b, 1, 1, 1}, {1, 1, 1, 1});
    if (!gradient) continue;
    check(kFlashDOut, dims, whole);
    for (const FlashTensor name : {kFlashDQ, kFlashDK, kFlashDV}) check(name, dims, packed);
  }
}

TEST_CASE("what cuDNN has no kernel for is unsupported, in its words") {
  be(80);
  const FlashShape s = shape_of(1, 4, 512, 320, Mask::causal, DType::bf16, true);
  try {
    plan_flash(s, nullptr, fake_cuda::device_for_cudnn());
    FAIL("there is a plan");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::unsupported);
    CHECK_THAT(std::string(e.what()),
               Contains("[attention_grad] cuDNN has no fused kernel for 1 samples x 4 heads x seq "
                        "512 x head_dim 320, bf16, causal, got at \"validate\"") &&
                   Contains("head_dim") && Contains("attention \"core\""));
  }
}

namespace {

// Flash on a fake GPU, with ops on tensors of the host.
struct FakeFlash {
  explicit FakeFlash(std::int64_t batch = 2, std::int64_t heads = 4, std::int64_t seq = 512)
      : batch(batch), heads(heads), seq(seq) {
    std::memset(keep.data(), 1, keep.bytes());  // every key is real
  }
  OpTest test;
  KernelStream kernels{nullptr, test.device.memory()};
  Flash flash{nullptr, kernels, test.device.memory(), fake_cuda::device_for_cudnn()};
  std::int64_t batch, heads, seq, d = 64;
  Tensor qkv = test.empty({seq, batch, heads, 3 * d}, DType::bf16),
         dqkv = test.empty({seq, batch, heads, 3 * d}, DType::bf16),
         out = test.empty({seq, batch, heads*d}, DType::bf16), dout = test.empty({seq, batch, heads*d}, DType::bf16),
         lse = test.empty({batch, heads, seq}), keep = test.empty({batch, seq}, DType::u8);

  ops::Matrix part(const Tensor& x, std::int64_t i) const { return {x, seq, d, batch * heads * 3 * d, i * d, 3 * d}; }
  ops::Matrix whole(const Tensor& x) const { return {x, seq, d, batch * heads * d, 0, d}; }
  ops::AttentionShape shape(Mask mask) const {
    ops::AttentionShape s;
    s.batch = batch, s.heads = heads, s.seq = seq, s.head_dim = d, s.scale = 0.125f;
    s.causal = mask == Mask::causal;
    if (mask == Mask::padded) s.keep = keep;
    return s;
  }
  ops::Attention forward(Mask mask) const {
    return {shape(mask), part(qkv, 0), part(qkv, 1), part(qkv, 2), whole(out), lse, Tensor()};
  }
  ops::AttentionGrad backward(Mask mask) const {
    return {shape(mask), whole(dout), part(qkv, 0),  part(qkv, 1),  part(qkv, 2), whole(out),
            lse,         Tensor(),    part(dqkv, 0), part(dqkv, 1), part(dqkv, 2)};
  }
};

}  // namespace

TEST_CASE("an op starts one plan on its own tensors, and makes it once") {
  be(90);
  FakeFlash p;
  const auto at = [](const Tensor& t, std::int64_t elements) {
    return static_cast<const void*>(t.data() + 2 * elements);
  };
  for (const Mask mask : kMasks) {
    fake_cuda::executions().clear();
    fake_cuda::loaded_kernels().clear();
    const std::uint64_t before = fake_cuda::launches();
    p.flash.run(p.forward(mask));
    p.flash.run(p.backward(mask));
    const bool padded = mask == Mask::padded;
    const std::size_t compiled = fake_cuda::loaded_kernels().size();
    const std::vector<fake_cuda::Execution> plans = fake_cuda::executions();
    // Padded: keys are counted before each plan, and gradients of hidden keys cleared at the end.
    REQUIRE(plans.size() == 2);
    CHECK(plans[0].launches - before == (padded ? 1 : 0));
    CHECK(plans[1].launches - before == (padded ? 2 : 0));
    CHECK(fake_cuda::launches() - before == (padded ? 3 : 0));
    for (const fake_cuda::Execution& plan : plans) {
      const auto tensor = [&](FlashTensor name) {
        const auto found = plan.tensors.find(name);
        return found == plan.tensors.end() ? nullptr : found->second;
      };
      CHECK(tensor(kFlashQ) == at(p.qkv, 0));
      CHECK(tensor(kFlashK) == at(p.qkv, p.d));
      CHECK(tensor(kFlashV) == at(p.qkv, 2 * p.d));
      CHECK(tensor(kFlashOut) == at(p.out, 0));
      CHECK(tensor(kFlashLse) == at(p.lse, 0));
      CHECK((tensor(kFlashKeyLengths) != nullptr) == padded);
      CHECK((tensor(kFlashQueryLengths) != nullptr) == padded);
      if (padded) CHECK(tensor(kFlashKeyLengths) != tensor(kFlashQueryLengths));
      const bool gradient = &plan == &plans.back();
      if (!gradient) continue;
      CHECK(reinterpret_cast<std::uintptr_t>(plan.workspace) % 256 == 0);
      CHECK(tensor(kFlashDOut) == at(p.dout, 0));
      CHECK(tensor(kFlashDQ) == at(p.dqkv, 0));
      CHECK(tensor(kFlashDK) == at(p.dqkv, p.d));
      CHECK(tensor(kFlashDV) == at(p.dqkv, 2 * p.d));
    }
    CHECK(compiled >= 2);
    p.flash.run(p.forward(mask));
    p.flash.run(p.backward(mask));
    CHECK(fake_cuda::loaded_kernels().size() == compiled);
    CHECK(fake_cuda::executions().size() == 4);
    CHECK(fake_cuda::launches() - before == (padded ? 6 : 0));
    REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  }
}

TEST_CASE("documents are sequences of their own, one plan for each length, and their statistics stay in place") {
  be(90);
  FakeFlash p(2, 4, 512);
  fake_cuda::executions().clear();
  fake_cuda::loaded_kernels().clear();
  ops::Attention forward = p.forward(Mask::causal);
  ops::AttentionGrad backward = p.backward(Mask::causal);
  forward.shape.documents = backward.shape.documents =
      std::make_shared<const Documents>(std::vector<std::int64_t>{200, 400, 512});
  p.flash.run(forward);
  p.flash.run(backward);
  const std::size_t compiled = fake_cuda::loaded_kernels().size();
  const std::vector<fake_cuda::Execution> plans = fake_cuda::executions();
  REQUIRE(plans.size() == 6);
  const std::int64_t packed = 2 * 4 * 3 * p.d, whole = 2 * 4 * p.d, first[] = {0, 200, 400};
  for (std::size_t i = 0; i < plans.size(); ++i) {
    INFO("plan " << i);
    const auto at = [&](const Tensor& t, std::int64_t row, std::int64_t column) {
      return static_cast<const void*>(t.data() + 2 * (first[i % 3] * row + column));
    };
    const auto& tensors = plans[i].tensors;
    CHECK(tensors.at(kFlashQ) == at(p.qkv, packed, 0));
    CHECK(tensors.at(kFlashV) == at(p.qkv, packed, 2 * p.d));
    CHECK(tensors.at(kFlashOut) == at(p.out, whole, 0));
    CHECK(tensors.at(kFlashLse) == static_cast<const void*>(p.lse.data() + 4 * first[i % 3]));
    if (i < 3) continue;
    CHECK(tensors.at(kFlashDOut) == at(p.dout, whole, 0));
    CHECK(tensors.at(kFlashDK) == at(p.dqkv, packed, p.d));
  }
  p.flash.run(forward);
  CHECK(fake_cuda::loaded_kernels().size() == compiled);
  // The statistics of a head lie in those of the sequence.
  FlashShape s = shape_of(2, 4, 200, 64, Mask::causal, DType::bf16, true);
  s.of_seq = 512;
  cudnn_frontend::graph::Tensor_attributes t;
  const auto plan = plan_flash(s, nullptr, fake_cuda::device_for_cudnn());
  REQUIRE(plan->query_tensor_attributes_of_uid(kFlashLse, t).is_good());
  CHECK(t.get_stride() == std::vector<std::int64_t>{4 * 512, 512, 1, 1});

  forward.shape.documents = std::make_shared<const Documents>(std::vector<std::int64_t>{198, 512});
  CHECK_THROWS_WITH(p.flash.run(forward), Contains("a document that begins at token 198, need lengths divisible by 4"));
  forward.shape.documents = std::make_shared<const Documents>(std::vector<std::int64_t>{200, 1024});
  CHECK_THROWS_WITH(p.flash.run(forward), Contains("documents on blocks of a sequence"));
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
}

// 128 MiB of score gradients a head at seq 8192.
TEST_CASE("a gradient whose workspace would be too large starts in pieces, which reach every head and sample once") {
  be(90);
  struct Pieces {
    std::int64_t batch, heads, seq;
    std::vector<std::pair<std::int64_t, std::int64_t>> begin;  // sample, head
  };
  for (const Pieces& z :
       {Pieces{2, 3, 8192, {{0, 0}, {0, 2}, {1, 0}, {1, 2}}}, Pieces{6, 4, 4096, {{0, 0}, {2, 0}, {4, 0}}}})
    for (const Mask mask : {Mask::causal, Mask::padded}) {
      FakeFlash p(z.batch, z.heads, z.seq);
      fake_cuda::executions().clear();
      p.test.device.memory().reset_peak();
      p.flash.run(p.forward(mask));
      REQUIRE(fake_cuda::executions().size() == 1);
      const std::size_t before = p.test.device.memory().in_use().total;
      p.flash.run(p.backward(mask));
      const auto plans = fake_cuda::executions();
      REQUIRE(plans.size() == 1 + z.begin.size());
      CHECK(p.test.device.memory().peak().total - before < (std::size_t{258} << 20));
      for (std::size_t i = 0; i < z.begin.size(); ++i) {
        const auto [b, a] = z.begin[i];
        INFO("piece " << i << ", sample " << b << ", head " << a);
        const auto& tensors = plans[1 + i].tensors;
        const auto at = [](const Tensor& t, std::int64_t elements) {
          return static_cast<const void*>(t.data() + 2 * elements);
        };
        const std::int64_t packed = (b * z.heads + a) * 3 * p.d, whole = (b * z.heads + a) * p.d;
        CHECK(tensors.at(kFlashQ) == at(p.qkv, packed));
        CHECK(tensors.at(kFlashK) == at(p.qkv, packed + p.d));
        CHECK(tensors.at(kFlashV) == at(p.qkv, packed + 2 * p.d));
        CHECK(tensors.at(kFlashOut) == at(p.out, whole));
        CHECK(tensors.at(kFlashDOut) == at(p.dout, whole));
        CHECK(tensors.at(kFlashDQ) == at(p.dqkv, packed));
        CHECK(tensors.at(kFlashDK) == at(p.dqkv, packed + p.d));
        CHECK(tensors.at(kFlashDV) == at(p.dqkv, packed + 2 * p.d));
        CHECK(tensors.at(kFlashLse) == static_cast<const void*>(p.lse.data() + 4 * (b * z.heads + a) * z.seq));
        if (mask == Mask::padded) CHECK(reinterpret_cast<std::uintptr_t>(tensors.at(kFlashKeyLengths)) % 16 == 0);
      }
      REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
    }
}

TEST_CASE("a gradient that need not be deterministic is one piece, of less memory") {
  be(90);
  FlashShape s = shape_of(8, 16, 2048, 128, Mask::causal, DType::bf16, true);
  CHECK(s.pieces() == ops::AttentionPieces{2, 16});
  s.deterministic = false;
  CHECK(s.pieces() == ops::AttentionPieces{8, 16});
  CHECK(workspace_of(*plan_flash(s, nullptr, fake_cuda::device_for_cudnn())) >> 20 == 129);
}

TEST_CASE("a cuDNN with which the frontend lays workspaces out in another way is refused") {
  be(90);
  FakeFlash p;
  fake_cuda::executions().clear();
  for (const std::size_t version : {91400, 91500}) {
    fake_cuda::cudnn_version() = version;
    CHECK_THROWS_WITH(p.flash.run(p.forward(Mask::causal)), Contains("needs cuDNN 9.15.1 or newer, got cuDNN 9."));
  }
  CHECK(fake_cuda::executions().empty());
  fake_cuda::cudnn_version() = 91501;
  p.flash.run(p.forward(Mask::causal));
  CHECK(fake_cuda::executions().size() == 1);
  fake_cuda::cudnn_version() = 0;
}

TEST_CASE("a GPU without memory for cuDNN's kernels is full, any other error is not") {
  const auto said = [](const char* text) {
    return is_full({cudnn_frontend::error_code_t::CUDNN_BACKEND_API_FAILED, text});
  };
  CHECK(said("execute failed with message: , and code: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"));
  CHECK(said("cuLibraryLoadData failed with CUDA_ERROR_OUT_OF_MEMORY"));
  CHECK_FALSE(said("execute failed with message: , and code: CUDNN_STATUS_EXECUTION_FAILED"));
}

TEST_CASE("an op that fused attention cannot do is refused before anything starts") {
  be(90);
  FakeFlash p;
  const std::uint64_t before = fake_cuda::launches();
  fake_cuda::executions().clear();
  ops::Attention op = p.forward(Mask::padded);
  op.shape.dropout.p = 0.1f;
  CHECK_THROWS_WITH(p.flash.run(op), Contains("[attention] attention \"flash\" on a GPU, got dropout 0.1"));
  CHECK(fake_cuda::executions().empty());
  CHECK(fake_cuda::launches() == before);
}
