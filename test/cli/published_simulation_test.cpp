// Simulation against what others have measured: the published tables that configs/published holds, within
// bounds; and what a simulation may take of the machine it is computed on.
#include <fmt/format.h>

#include <cmath>
#include <map>

#include "engine/point/published.h"
#include "engine/point/result_file.h"
#include "test/catch.h"
#include "test/cli/spent.h"
#include "test/support/pace.h"
#include "test/support/sanitizer.h"

using namespace mbench;
using namespace mbench::test;

namespace {

const std::string kConfigs = MBENCH_SOURCE_DIR "/configs/";

// One figure, published and simulated, of one point.
struct Pair {
  std::int64_t seq;
  double published, simulated;
  double error() const { return std::abs(simulated / published - 1); }
};

// The pairs of a metric over all rows of a spec without doubt about it, simulated on the machine that the
// spec names.
std::vector<Pair> pairs_of(const Room& room, const std::string& name, const std::string& metric) {
  const std::string spec = kConfigs + "published/" + name + ".json";
  const Published published = read_published(parse_json(read_text_file(spec), spec).at("published"), spec);
  const std::string out = room / name;
  if (!std::filesystem::exists(out)) {
    const Run run = room.shell("$M sweep " + spec + " --on " + published.machine + " --quiet --out " + name);
    INFO(run.err);
    REQUIRE(run.code == 0);
  }
  const ResultFile file = read_result_file(out + "/results.json");
  std::vector<Pair> pairs;
  for (const PublishedRow& row : published.rows) {
    for (const PublishedFigure& figure : row.figures) {
      if (figure.metric != metric || !figure.doubt.empty()) continue;
      int picked = 0;
      for (const PointResult& r : file.points) {
        if (!row.picks(point_to_json(r.point), r.point.model.name)) continue;
        INFO(row.place << ": " << r.reason);
        REQUIRE(r.outcome == Outcome::ok);
        const auto record = result_to_json(r);
        const auto& value = record.at(metric);
        pairs.push_back(
            {r.point.seq, figure.mean, value.is_object() ? value.at("mean").get<double>() : value.get<double>()});
        ++picked;
      }
      REQUIRE(picked == 1);
    }
  }
  return pairs;
}

struct Errors {
  double mean = 0, max = 0;
};

Errors errors_of(const std::vector<Pair>& pairs) {
  Errors e;
  for (const Pair& p : pairs) {
    e.mean += p.error() / static_cast<double>(pairs.size());
    e.max = std::max(e.max, p.error());
  }
  return e;
}

// Of two strategies at the same sequence length, which is the smaller.
struct Order {
  int right = 0, of = 0;
};

// Over pairs whose published figures are more than `apart` from each other.
void add_order(const std::vector<Pair>& pairs, double apart, Order& order) {
  for (std::size_t i = 0; i < pairs.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const Pair &a = pairs[i], &b = pairs[j];
      if (a.seq != b.seq || a.published == b.published) continue;
      if (std::max(a.published, b.published) / std::min(a.published, b.published) <= 1 + apart) continue;
      ++order.of;
      order.right += (a.published < b.published) == (a.simulated < b.simulated) ? 1 : 0;
    }
}

// The Megatron-LM tables of 8 x V100: two models, four layouts, four lengths, five strategies.
struct Megatron {
  std::vector<Pair> all;
  Order order;
};

Megatron megatron(const std::string& metric, double apart) {
  static const Room room;  // one sweep of each table serves every metric
  Megatron m;
  for (const char* table : {"bert-tp2-pp2", "bert-tp4-pp2", "gpt2-tp4-pp2", "gpt2-tp8-pp1"}) {
    const auto pairs = pairs_of(room, std::string("megatron-345m-") + table, metric);
    CHECK(pairs.size() == 20);
    m.all.insert(m.all.end(), pairs.begin(), pairs.end());
    add_order(pairs, apart, m.order);
  }
  return m;
}

// Under a sanitizer the program takes several times as long, and its shadow memory besides: no time or memory is held there.
bool not_timed() {
  if (kSanitized) WARN("not tried under a sanitizer, which has times and a memory of its own");
  return kSanitized;
}

}  // namespace

TEST_CASE(
    "simulated memory of Megatron-LM on 8 V100 is the published within 2 % on average, every strategy in its "
    "place") {
  const Megatron m = megatron("peak_memory_mib", 0);
  REQUIRE(m.all.size() == 80);
  const Errors e = errors_of(m.all);
  INFO("mean error " << 100 * e.mean << " %, largest " << 100 * e.max << " %");
  CHECK(e.mean <= 0.02);
  CHECK(e.max <= 0.05);
  CHECK(m.order.of == 160);
  CHECK(m.order.right == m.order.of);
}

TEST_CASE("simulated step times of Megatron-LM on 8 V100 are the published within 4 % on average, and in order") {
  const Megatron m = megatron("iteration_ms", 0.03);
  REQUIRE(m.all.size() == 80);
  const Errors e = errors_of(m.all);
  INFO("mean error " << 100 * e.mean << " %, largest " << 100 * e.max << " %; " << m.order.right << " of " << m.order.of
                     << " pairs in order");
  CHECK(e.mean <= 0.04);
  CHECK(e.max <= 0.25);
  CHECK(m.order.of > 100);
  CHECK(m.order.right >= 0.97 * m.order.of);
}

TEST_CASE("simulated memory of GPT 1.3B on 4 V100 is the published within 5 % on average") {
  const Room room;
  const auto pairs = pairs_of(room, "pai-gpt-1.3b-tp-pp", "peak_memory_mib");
  REQUIRE(pairs.size() >= 3);
  const Errors e = errors_of(pairs);
  INFO("mean error " << 100 * e.mean << " %, largest " << 100 * e.max << " % of " << pairs.size() << " rows");
  CHECK(e.mean <= 0.05);
}

TEST_CASE("forty simulated points, their plots drawn, take about a second of this machine's time") {
  if (not_timed()) return;
  const Room room;
  const double seconds = idle_seconds([&] {
    const Spent spent = spend(room, {"sweep", kConfigs + "gpt345m.json", "--on", "sim:8xV100-SXM2-16GB", "--out", "o"});
    REQUIRE(spent.code == 0);
    return spent.cpu_seconds;
  });
  CHECK(read_result_file(room / "o/results.json").points.size() == 40);
  CHECK(seconds < 2);
}

TEST_CASE(
    "a step of 405 billion parameters on 1024 devices takes less than two seconds and 2 GiB of this "
    "machine") {
  if (not_timed()) return;
  const Room room;
  room.put("big.json",
           R"({"model": {"family": "gpt", "layers": 126, "hidden": 16384, "heads": 128, "ffn": 65536,
    "vocab": 128256, "positions": 4096}, "seq": 4096, "micro_batch": 1, "global_batch": 1024, "tp": 8, "pp": 16, "dp": 8,
    "sequence_parallel": true, "precision": "bf16", "attention": "flash"})");
  Spent spent;
  const double seconds = idle_seconds([&] {
    spent = spend(room, {"sweep", "big.json", "--on", "sim:1024xH200-SXM5-141GB", "--out", "o"});
    return spent.cpu_seconds;
  });
  REQUIRE(spent.code == 0);
  const ResultFile file = read_result_file(room / "o/results.json");
  REQUIRE(file.points.size() == 1);
  const PointResult& r = file.points[0];
  CHECK(r.outcome == Outcome::ok);
  CHECK(r.world == 1024);
  CHECK(r.point.micro_batches() == 128);
  CHECK(*r.parameters > 400'000'000'000);
  CHECK(*r.mfu > 0.2);
  CHECK(*r.mfu < 0.7);
  CHECK(seconds < 2);
  CHECK(spent.peak_rss_mib < 2048);
}

TEST_CASE("four times as many simulated points, written out whole, take about four times as long") {
  if (not_timed()) return;
  const Room room;
  // Plots are the same hundred however many points there are: without them only what grows is timed.
  room.put("bin/gnuplot", "#!/bin/sh\nexit 1\n");
  REQUIRE(room.shell("chmod +x bin/gnuplot").code == 0);
  const auto seconds_for = [&](int points) {
    std::string seeds;
    for (int i = 0; i < points; ++i) seeds += fmt::format("{}{}", i > 0 ? "," : "", i);
    const std::string name = std::to_string(points);
    room.put(name + ".json", R"({"model": "gpt2-345m", "sweep": {"seed": [)" + seeds + "]}}");
    const Spent spent =
        spend(room, {"sweep", name + ".json", "--on", "sim:1xH100-SXM5-80GB", "--quiet", "--out", name}, room / "bin");
    CHECK(spent.code == 0);
    CHECK(read_result_file(room / (name + "/results.json")).points.size() == static_cast<std::size_t>(points));
    return spent.cpu_seconds;
  };
  const double few = seconds_for(1000), many = seconds_for(4000);
  INFO(few << " s for 1,000 points, " << many << " s for 4,000");
  CHECK(many < 8 * few);  // 16 where each row were written as often as there are rows
}
