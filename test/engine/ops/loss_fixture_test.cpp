// Cross entropy and Adam against PyTorch.
#include <algorithm>

#include "test/engine/ops/fixture.h"

using namespace mbench;
using fixture::Bench;
using fixture::cases;
using fixture::Json;

namespace {

// Columns [begin, end) of a [rows, n] fixture tensor.
Json columns(const Json& tensor, std::int64_t begin, std::int64_t end) {
  const std::int64_t rows = tensor.at("shape").at(0), n = tensor.at("shape").at(1);
  Json part{{"shape", {rows, end - begin}}, {"data", Json::array()}};
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t i = begin; i < end; ++i)
      part["data"].push_back(tensor.at("data").at(static_cast<std::size_t>(r * n + i)));
  return part;
}

// The ops on `shards` equal parts of the vocabulary, the reductions between them done by hand.
void check_shards(Bench& bench, const Json& c, std::int64_t shards, bool keep_exp) {
  CAPTURE(c.at("name"), shards, keep_exp);
  const std::int64_t rows = c.at("logits").at("shape").at(0), n = c.at("logits").at("shape").at(1);
  const std::int64_t width = n / shards, valid = c.at("valid");
  const Tensor targets = bench.i64(c.at("targets")), weight = bench.f32_if(c, "weight");
  const float scale = 1 / c.at("weight_sum").get<float>();
  const auto local_valid = [&](std::int64_t s) { return std::clamp<std::int64_t>(valid - s * width, 0, width); };
  const auto row_tensor = [&](const std::vector<float>& v) { return bench.f32(Json{{"shape", {rows}}, {"data", v}}); };

  std::vector<Tensor> logits;
  std::vector<float> max(static_cast<std::size_t>(rows), -INFINITY), sum(max.size(), 0), target(max.size(), 0);
  for (std::int64_t s = 0; s < shards; ++s) {
    logits.push_back(bench.f32(columns(c.at("logits"), s * width, (s + 1) * width)));
    const Tensor local = bench.filled({rows}, Bench::kJunk);
    bench.run(ops::RowMax{logits.back(), local, local_valid(s)});
    const auto values = bench.values<float>(local);
    for (std::size_t r = 0; r < max.size(); ++r) max[r] = std::max(max[r], values[r]);
  }
  const Tensor all_max = row_tensor(max);
  std::vector<Tensor> exps(logits.size());
  for (std::int64_t s = 0; s < shards; ++s) {
    const auto i = static_cast<std::size_t>(s);
    const Tensor local_sum = bench.filled({rows}, Bench::kJunk), local_target = bench.filled({rows}, Bench::kJunk);
    if (keep_exp) exps[i] = logits[i];  // in place, as the eager graph does
    bench.run(ops::ExpSum{logits[i], all_max, targets, s * width, local_valid(s), local_sum, local_target, exps[i]});
    const auto sums = bench.values<float>(local_sum), found = bench.values<float>(local_target);
    for (std::size_t r = 0; r < max.size(); ++r) sum[r] += sums[r], target[r] += found[r];
  }
  const Tensor all_sum = row_tensor(sum), loss = bench.filled({1}, Bench::kJunk);
  bench.run(ops::CrossEntropyLoss{all_sum, row_tensor(target), weight, scale, loss});
  bench.check("loss", loss, c.at("loss"));
  for (std::int64_t s = 0; s < shards; ++s) {
    const auto i = static_cast<std::size_t>(s);
    const Tensor dlogits = bench.filled({rows, width}, Bench::kJunk);
    ops::CrossEntropyGrad grad;
    if (keep_exp)
      grad.exp = exps[i];
    else
      grad.logits = logits[i];
    grad.max = all_max, grad.sum = all_sum, grad.targets = targets, grad.weight = weight;
    grad.scale = scale;
    grad.first_column = s * width;
    grad.valid = local_valid(s);
    grad.dlogits = dlogits;
    bench.run(grad);
    bench.check("dlogits", dlogits, columns(c.at("dlogits"), s * width, (s + 1) * width));
  }
}

}  // namespace

TEST_CASE("cross entropy and its gradient agree with PyTorch, whole and in shards") {
  Bench bench;
  for (const auto& c : cases("cross_entropy"))
    for (const std::int64_t shards : {1, 2})
      for (const bool keep_exp : {false, true}) check_shards(bench, c, shards, keep_exp);
}

TEST_CASE("five steps of Adam agree with PyTorch's AdamW") {
  Bench bench;
  for (const auto& c : cases("adam")) {
    const Tensor param = bench.f32(c.at("param"));
    ops::Adam op;
    op.param = param;
    op.m = bench.like(param, 0), op.v = bench.like(param, 0);
    op.lr = c.at("lr");
    op.weight_decay = c.at("weight_decay");
    op.grad_scale = c.at("grad_scale");
    REQUIRE(c.at("steps").size() == 5);
    for (const auto& s : c.at("steps")) {
      CAPTURE(c.at("name"), op.step);
      op.grad = bench.f32(s.at("grad"));
      bench.run(op);
      bench.check("param", param, s.at("param"), 1e-6);
      bench.check("m", op.m, s.at("m"), 1e-6);
      bench.check("v", op.v, s.at("v"), 1e-7);
      ++op.step;
    }
  }
}
