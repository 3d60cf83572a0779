// Attention over a sequence that is split over ranks: outputs and gradients are those of the serial core, which
// test/engine/nn/attention_core_test.cpp differences.
#include "engine/nn/attention/context_attention.h"

#include <cmath>

#include "engine/backend/cpu/cpu_device.h"
#include "engine/comm/mpi/mpi_world.h"
#include "engine/sim/run/counting.h"
#include "strategies/strategies.h"
#include "test/catch.h"

using namespace mbench;
using namespace mbench::comm;
using namespace mbench::nn;
using namespace mbench::sim;

namespace {

constexpr std::uint64_t kSite = 11;
constexpr std::int64_t kBatch = 2, kHeads = 8, kWidth = 4;  // of queries and keys; values are half as wide

struct Form {
  std::string family = "gpt";
  std::int64_t cp = 2, seq = 16, group = 1;
  CpCommunication communication = CpCommunication::ring;
  double dropout = 0;
  std::string documents = "none";
  std::int64_t window = 0;
};

Point point_of(const Form& f, std::int64_t cp) {
  Point p;
  p.model = {"small", f.family, 1, kHeads * kWidth, kHeads, 32, 50, 64};
  p.model.kv_heads = kHeads / f.group;
  p.seq = f.seq;
  p.micro_batch = p.global_batch = kBatch;
  p.dropout = f.dropout;
  p.attention = AttentionKind::flash;
  p.cp = cp;
  p.cp_communication = f.communication;
  p.document_lengths = read_document_lengths(f.documents, "test");
  return p;
}

float value(std::int64_t i) {
  return static_cast<float>(std::sin(0.37 * static_cast<double>(i % 1013) + 1e-3 * static_cast<double>(i)));
}

// One rank of attention, with its rows of tensors that are the same whatever the layout.
class Rank {
 public:
  Rank(const Form& f, std::int64_t cp, World& world)
      : form_(f),
        plan_(strategies::make_plan(point_of(f, cp))),
        groups_(device_, world, plan_.mesh),
        context_{device_, plan_, groups_, {}, 3},
        share_(context_.share()) {}

  const SequenceShare& share() const { return share_; }
  std::int64_t out_width() const { return kHeads * kWidth / 2; }
  std::int64_t in_width() const { return group_width() * kHeads / form_.group; }

  // Outputs, then gradients of Q, K and V, row by row of this rank.
  std::pair<std::vector<float>, std::vector<float>> run() {
    const auto core = make_attention_core(plan_);
    const Tensor qkv = rows(in_width(), 0), weights = rows(out_width(), 7919),
                 dqkv = context_.activation(qkv.shape(), "gradient");
    const MicroBatch batch = micro_batch();
    AttentionCore::Saved saved;
    const auto out = read(core->forward(context_, batch, kSite, sizes(), parts(qkv), saved));
    core->backward(context_, batch, kSite, sizes(), weights, parts(qkv), parts(dqkv), saved);
    CHECK(!saved.lse);
    CHECK(!saved.context);
    CHECK(!saved.exchanged);
    return {out, read(dqkv)};
  }

 private:
  std::int64_t group_width() const { return form_.group * kWidth + kWidth + kWidth / 2; }
  AttentionSizes sizes() const {
    AttentionSizes n{share_.rows(), kBatch, kHeads, kHeads, 0, kWidth, kWidth / 2, plan_.model.parts().causal,
                     form_.group};
    n.documents = plan_.training.documents, n.window = form_.window;
    return n;
  }
  AttentionParts parts(const Tensor& t) const {
    const auto part = [&](std::int64_t first, std::int64_t dim) {
      return ops::Matrix(t, share_.rows(), dim, kBatch * in_width(), first, group_width());
    };
    const std::int64_t queries = form_.group * kWidth;
    return {part(0, kWidth), part(queries, kWidth), part(queries + kWidth, kWidth / 2)};
  }
  Tensor rows(std::int64_t width, std::int64_t salt) {
    std::vector<float> values;
    for (std::int64_t row = 0; row < share_.rows(); ++row)
      for (std::int64_t i = 0; i < kBatch * width; ++i)
        values.push_back(value(salt + share_.position(row) * kBatch * width + i));
    return put({share_.rows(), kBatch, width}, DType::f32, values);
  }
  // In a model that hides keys, those of sample 1 from 9/16 of the sequence on.
  MicroBatch micro_batch() {
    MicroBatch batch;
    batch.sample0 = 4;
    if (plan_.model.parts().causal) return batch;
    const std::int64_t chunks = share_.chunks() == 1 ? 1 : share_.chunks() * share_.ranks(),
                       length = form_.seq / chunks;
    std::vector<std::uint8_t> keep;
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk)
      for (std::int64_t b = 0; b < kBatch; ++b)
        for (std::int64_t k = 0; k < length; ++k) keep.push_back(b == 0 || chunk * length + k < form_.seq * 9 / 16);
    batch.keep = put({chunks, kBatch, length}, DType::u8, keep);
    return batch;
  }
  template <class T>
  Tensor put(const Shape& shape, DType dtype, const std::vector<T>& values) {
    const Tensor t = device_.empty(shape, dtype, Category::other, "test");
    device_.write(t, std::as_bytes(std::span(values)));
    return t;
  }
  std::vector<float> read(const Tensor& t) {
    std::vector<float> values(static_cast<std::size_t>(t.numel()));
    device_.read(t, std::as_writable_bytes(std::span(values)));
    return values;
  }

  Form form_;
  Plan plan_;
  cpu::CpuDevice device_;
  Groups groups_;
  Context context_;
  SequenceShare share_;
};

// How far this rank's rows are from those of the whole.
double apart(const SequenceShare& share, std::int64_t width, const std::vector<float>& mine,
             const std::vector<float>& all) {
  double worst = 0;
  const std::int64_t row_size = kBatch * width;
  for (std::int64_t row = 0; row < share.rows(); ++row)
    for (std::int64_t i = 0; i < row_size; ++i) {
      const double a = mine[static_cast<std::size_t>(row * row_size + i)],
                   b = all[static_cast<std::size_t>(share.position(row) * row_size + i)];
      worst = std::isfinite(a) ? std::max(worst, std::fabs(a - b)) : INFINITY;
    }
  return worst;
}

void check(const Form& form) {
  MpiWorld world(static_cast<int>(form.cp));
  double worst[2] = {0, 0};
  if (world.member()) {
    Rank rank(form, form.cp, world);
    const auto lone = lone_world(0, 1);
    const auto whole = Rank(form, 1, *lone).run(), mine = rank.run();
    worst[0] = apart(rank.share(), rank.out_width(), mine.first, whole.first);
    worst[1] = apart(rank.share(), rank.in_width(), mine.second, whole.second);
  }
  MPI_Allreduce(MPI_IN_PLACE, worst, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  INFO(form.family << " cp " << form.cp << " by " << name_of(form.communication) << ", seq " << form.seq
                   << ", groups of " << form.group << ", dropout " << form.dropout << ", documents " << form.documents
                   << ", window " << form.window);
  CHECK(worst[0] <= 2e-6);
  CHECK(worst[1] <= 4e-6);
}

}  // namespace

TEST_CASE("context parallelism: attention's outputs and gradients are the serial core's") {
  for (const CpCommunication communication :
       {CpCommunication::all_gather, CpCommunication::ring, CpCommunication::all_to_all})
    for (const std::int64_t cp : {2, 4, 8})
      for (const char* family : {"gpt", "bert", "llama"})
        for (const double dropout : {0.0, 0.25})
          for (const std::int64_t seq : {16, 48}) check({family, cp, seq, 1, communication, dropout});
}

TEST_CASE("context parallelism: heads that share keys and values, in groups that ranks may be more than") {
  for (const CpCommunication communication : {CpCommunication::all_gather, CpCommunication::ring}) {
    check({"llama", 4, 32, 4, communication, 0.25});
    check({"llama", 4, 32, 8, communication, 0});
  }
  check({"llama", 4, 32, 2, CpCommunication::all_to_all, 0.25});
}

TEST_CASE("context parallelism: documents that end within and between chunks, whole ones of a rank, windows in them") {
  for (const CpCommunication communication :
       {CpCommunication::all_gather, CpCommunication::ring, CpCommunication::all_to_all})
    for (const std::int64_t cp : {2, 4})
      for (const char* documents : {"6", "3+20", "1", "47+1", "geometric:9"})
        for (const std::int64_t window : {0, 5}) check({"llama", cp, 48, 2, communication, 0.25, documents, window});
}
