#include "engine/sim/machine/measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "engine/point/sizes.h"
#include "engine/sim/machine/axis.h"

namespace mbench::sim {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr double kMicro = 1e-6, kGiga = 1e9;
constexpr std::array kForms = {GemmForm::nn, GemmForm::nt, GemmForm::tn};
constexpr std::array kPrecisions = {Precision::f32, Precision::bf16, Precision::fp16};
constexpr std::array kTypes = {DType::f32, DType::bf16, DType::f16};

template <class T, std::size_t N>
T choice(const json& value, const std::string& where, const std::array<T, N>& from) {
  Choices<T, N> choices;
  for (std::size_t i = 0; i < N; ++i) choices[i] = {name_of(from[i]), from[i]};
  return read_choice(value, where, choices);
}

Curve read_curve(ObjectReader& object) {
  Curve c;
  c.work = read_positive_numbers(object.require("work", "bytes, or FLOPs of a GEMM"), object.path("work"), true);
  c.seconds = read_positive_numbers(object.require("us", "microseconds"), object.path("us"), false);
  if (c.work.size() != c.seconds.size())
    fail(ErrorKind::bad_input, object.path("us"), "got {} of them, need {}, one for each of work", c.seconds.size(),
         c.work.size());
  for (double& s : c.seconds) s *= kMicro;
  return c;
}

// f(item, path) of every item of an array.
template <class F>
void for_items(const json& value, const std::string& where, const F& f) {
  if (!value.is_array()) fail(ErrorKind::bad_input, where, "got {}, need an array", short_json(value));
  for (std::size_t i = 0; i < value.size(); ++i) f(value[i], fmt::format("{}[{}]", where, i));
}

RankTables read_tables(const json& value, const std::string& where) {
  ObjectReader object(value, where);
  RankTables t;
  t.ranks =
      static_cast<int>(read_int(object.require("ranks", "how many compute at once"), object.path("ranks"), 1, 65536));
  t.threads = static_cast<int>(read_int(object.require("threads", "of each"), object.path("threads"), 1, 65536));
  for_items(
      object.require("ops", "an array of curves"), object.path("ops"), [&](const json& item, const std::string& path) {
        ObjectReader op(item, path);
        const std::string name = read_string(op.require("op", "its name"), op.path("op"));
        const Precision precision = choice(op.require("precision", "of the run"), op.path("precision"), kPrecisions);
        t.ops[{name, precision}] = read_curve(op);
        op.refuse_unknown();
      });
  for_items(object.require("products", "an array of grids"), object.path("products"),
            [&](const json& item, const std::string& path) {
              ObjectReader grid(item, path);
              const auto axis = [&](const char* key) {
                return read_positive_numbers(grid.require(key, "sizes, ascending"), grid.path(key), true);
              };
              const GemmForm form = choice(grid.require("form", "nn, nt or tn"), grid.path("form"), kForms);
              const DType dtype = choice(grid.require("dtype", "of the operands"), grid.path("dtype"), kTypes);
              GemmGrid g{axis("m"), axis("n"), axis("k"), {}};
              g.rate = read_positive_numbers(grid.require("gflops", "rates of [m][n][k]"), grid.path("gflops"), false);
              if (g.rate.size() != g.m.size() * g.n.size() * g.k.size())
                fail(ErrorKind::bad_input, grid.path("gflops"), "got {} of them, need {}, one for each m, n and k",
                     g.rate.size(), g.m.size() * g.n.size() * g.k.size());
              for (double& r : g.rate) r *= kGiga;
              t.gemms[{form, dtype}] = std::move(g);
              grid.refuse_unknown();
            });
  object.refuse_unknown();
  return t;
}

// Four digits: more than a repeated measurement keeps.
std::vector<double> rounded(const std::vector<double>& values, double unit) {
  std::vector<double> out;
  for (const double v : values) out.push_back(std::stod(fmt::format("{:.4g}", v / unit)));
  return out;
}

}  // namespace

double Curve::at(double w) const {
  if (w <= work.front()) return seconds.front() * std::max(0.5, w / work.front());
  if (w >= work.back()) return seconds.back() * w / work.back();
  const AxisPoint p = place_of(work, w);
  return seconds[p.low] * std::pow(seconds[p.low + 1] / seconds[p.low], p.share);
}

double GemmGrid::at(double m_, double n_, double k_) const {
  const AxisPoint pm = place_of(m, m_), pn = place_of(n, n_), pk = place_of(k, k_);
  double sum = 0;
  for (int corner = 0; corner < 8; ++corner) {
    const std::size_t dm = corner & 1, dn = corner >> 1 & 1, dk = corner >> 2 & 1;
    const double weight =
        (dm ? pm.share : 1 - pm.share) * (dn ? pn.share : 1 - pn.share) * (dk ? pk.share : 1 - pk.share);
    if (weight > 0) sum += weight * rate[((pm.low + dm) * n.size() + pn.low + dn) * k.size() + pk.low + dk];
  }
  return sum;
}

std::string_view name_of(GemmForm form) {
  constexpr std::string_view names[] = {"nn", "nt", "tn"};
  return names[static_cast<std::size_t>(form)];
}

std::string_view name_of(Call call) {
  constexpr std::string_view names[] = {"all_reduce", "start_all_reduce", "all_gather", "reduce_scatter",
                                        "all_to_all", "start_all_to_all", "broadcast",  "reduce",
                                        "shift",      "message"};
  return names[static_cast<std::size_t>(call)];
}

namespace {
constexpr std::array kCalls = {Call::all_reduce, Call::start_all_reduce, Call::all_gather, Call::reduce_scatter,
                               Call::all_to_all, Call::start_all_to_all, Call::broadcast,  Call::reduce,
                               Call::shift,      Call::message};
}

const std::vector<Call>& all_calls() {
  static const std::vector<Call> calls(kCalls.begin(), kCalls.end());
  return calls;
}

bool adds_up(Call call) {
  return call == Call::all_reduce || call == Call::start_all_reduce || call == Call::reduce_scatter ||
         call == Call::reduce;
}

std::pair<const RankTables*, double> Measured::tables(int ranks) const {
  if (by_ranks.empty()) return {nullptr, 1};
  for (const RankTables& t : by_ranks)
    if (t.ranks >= ranks) return {&t, 1};
  return {&by_ranks.back(), static_cast<double>(ranks) / by_ranks.back().ranks};
}

std::optional<double> Measured::seconds(Call call, double bytes, DType dtype, int ranks) const {
  if (!adds_up(call)) dtype = DType::f32;
  const CallCurve* best = nullptr;
  for (const CallCurve& c : calls) {
    if (c.call != call || c.dtype != dtype) continue;
    best = &c;
    if (c.ranks >= ranks) break;
  }
  if (!best) return std::nullopt;
  return best->curve.at(bytes) * std::max(1.0, static_cast<double>(ranks) / best->ranks);
}

Measured measured_from_json(const json& value, const std::string& where) {
  ObjectReader object(value, where);
  Measured m;
  read_string(object.require("source", "where and when"), object.path("source"));
  m.progress_in_calls =
      read_bool(object.require("progress_in_calls", "true or false"), object.path("progress_in_calls"));
  for_items(object.require("by_ranks", "an array of tables"), object.path("by_ranks"),
            [&](const json& item, const std::string& path) {
              m.by_ranks.push_back(read_tables(item, path));
              if (m.by_ranks.size() > 1 && m.by_ranks.back().ranks <= m.by_ranks[m.by_ranks.size() - 2].ranks)
                fail(ErrorKind::bad_input, path + ".ranks", "got {} after {}, need them ascending",
                     m.by_ranks.back().ranks, m.by_ranks[m.by_ranks.size() - 2].ranks);
            });
  for_items(object.require("calls", "an array of curves"), object.path("calls"),
            [&](const json& item, const std::string& path) {
              ObjectReader call(item, path);
              CallCurve c;
              c.call = choice(call.require("call", "its name"), call.path("call"), kCalls);
              c.dtype = choice(call.require("dtype", "of what is sent"), call.path("dtype"), kTypes);
              c.ranks = static_cast<int>(read_int(call.require("ranks", "of the group"), call.path("ranks"), 2, 65536));
              c.curve = read_curve(call);
              call.refuse_unknown();
              m.calls.push_back(std::move(c));
            });
  object.refuse_unknown();
  std::stable_sort(m.calls.begin(), m.calls.end(), [](const auto& a, const auto& b) { return a.ranks < b.ranks; });
  return m;
}

ordered_json measured_to_json(const Measured& m, const std::string& source) {
  ordered_json out = {{"source", source},
                      {"progress_in_calls", m.progress_in_calls},
                      {"by_ranks", ordered_json::array()},
                      {"calls", ordered_json::array()}};
  for (const RankTables& t : m.by_ranks) {
    ordered_json tables = {{"ranks", t.ranks},
                           {"threads", t.threads},
                           {"ops", ordered_json::array()},
                           {"products", ordered_json::array()}};
    for (const auto& [key, curve] : t.ops)
      tables["ops"].push_back({{"op", key.first},
                               {"precision", name_of(key.second)},
                               {"work", rounded(curve.work, 1)},
                               {"us", rounded(curve.seconds, kMicro)}});
    for (const auto& [key, g] : t.gemms)
      tables["products"].push_back({{"form", name_of(key.first)},
                                    {"dtype", name_of(key.second)},
                                    {"m", g.m},
                                    {"n", g.n},
                                    {"k", g.k},
                                    {"gflops", rounded(g.rate, kGiga)}});
    out["by_ranks"].push_back(std::move(tables));
  }
  for (const CallCurve& c : m.calls)
    out["calls"].push_back({{"call", name_of(c.call)},
                            {"dtype", name_of(c.dtype)},
                            {"ranks", c.ranks},
                            {"work", rounded(c.curve.work, 1)},
                            {"us", rounded(c.curve.seconds, kMicro)}});
  return out;
}

}  // namespace mbench::sim
