#include "search/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "engine/base/error.h"
#include "engine/framework/framework.h"
#include "engine/point/abilities.h"
#include "engine/point/point_builder.h"
#include "strategies/stages.h"
#include "strategies/strategies.h"

namespace mbench::search {
namespace {

constexpr double kWorthTelling = 0.005;  // of the rate or the step's time
constexpr double kOutOfBalance = 0.03;   // how much longer than the average a stage may compute

std::int64_t up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

struct Advice {
  double gain = 0;
  std::string text;
};

// The same point with workers, or more of them, where its loader takes time.
std::optional<Point> better_loader(const Point& p) {
  if (!p.model.masks_words()) return std::nullopt;
  Point other = p;
  other.loader_workers = p.loader_workers == 0 ? 2 : 2 * p.loader_workers;
  return other;
}

std::string loader_text(const Point& p, const Point& better, double gain) {
  return fmt::format(
      "masked words are chosen {}: loader_workers {} takes {:.1f} % less time",
      p.loader_workers == 0 ? "within the step" : fmt::format("by {} workers, slower than the step", p.loader_workers),
      better.loader_workers, gain * 100);
}

class Adviser {
 public:
  Adviser(const Point& p, const sim::Simulation& now, const sim::Machine& m, const Simulate& simulate)
      : p_(p), now_(now), machine_(m), simulate_(simulate), tile_(64) {
    for (const sim::GemmTile& t : m.gemm.tiles) tile_ = std::min(tile_, static_cast<std::int64_t>(std::min(t.m, t.n)));
  }

  std::vector<std::string> all() {
    widths();
    tokens();
    vocabulary();
    batch();
    exchanges();
    stages();
    split_backward();
    nodes();
    loader();
    activations();
    graphs();
    std::stable_sort(advice_.begin(), advice_.end(), [](const Advice& a, const Advice& b) { return a.gain > b.gain; });
    std::vector<std::string> texts;
    for (Advice& t : advice_) texts.push_back(std::move(t.text));
    return texts;
  }

 private:
  // Nothing where the changed point cannot be, or does not fit.
  std::optional<sim::Simulation> tried(const Point& p) const {
    if (!strategies::can_be(p)) return std::nullopt;
    try {
      return simulate_(p);
    } catch (const Error& e) {
      if (!outcome_of(e.kind())) throw;
      return std::nullopt;
    }
  }
  double rate(const sim::Simulation& s) const { return s.result.tflops_per_device.value_or(0); }
  double ms(const sim::Simulation& s) const { return s.result.iteration_ms->mean; }

  // Of a model or a sequence of another size: by how much the rate of its FLOPs is higher.
  std::optional<double> faster_rate(const Point& other) const {
    const auto s = tried(other);
    if (!s || rate(now_) <= 0) return std::nullopt;
    return rate(*s) / rate(now_) - 1;
  }
  // Of another layout of the same step: by how much its time is less.
  std::optional<double> less_time(const Point& other) const {
    const auto s = tried(other);
    if (!s) return std::nullopt;
    return 1 - ms(*s) / ms(now_);
  }

  void resized(const std::string& what, std::int64_t local, const std::string& field, std::int64_t to,
               const Point& other) {
    const std::int64_t sixteen_bytes = p_.precision == Precision::f32 || p_.precision == Precision::tf32 ? 4 : 8;
    const auto gain = faster_rate(other);
    if (gain && *gain > kWorthTelling)
      advice_.push_back({*gain, fmt::format("{} {} is no multiple of {}, a tile of a GEMM: with {} {} the rate of "
                                            "FLOPs is {:.1f} % higher",
                                            what, local, tile_, field, to, *gain * 100)});
    else if (local % sixteen_bytes != 0)
      advice_.push_back(
          {0, fmt::format("{} {} is no multiple of {}, 16 bytes in {}, which tensor cores want (the cost model "
                          "does not count it): {} {} is",
                          what, local, sixteen_bytes, name_of(p_.precision), field, to)});
  }

  void widths() {
    const auto width = [&](const char* field, std::int64_t ModelSpec::*size, std::int64_t parts) {
      const std::int64_t whole = p_.model.*size, local = whole / parts;
      if (whole == 0 || local % tile_ == 0) return;
      Point other = p_;
      other.model.*size = up(whole, tile_ * parts);
      resized(parts > 1 ? fmt::format("{} {} on each of {} ranks,", field, whole, parts) : field, local, field,
              other.model.*size, other);
    };
    width("ffn", &ModelSpec::ffn, p_.tp);
    if (p_.model.experts > 0) width("expert_ffn", &ModelSpec::expert_ffn, p_.expert_tp());
    if (const std::int64_t hidden = p_.model.hidden; hidden % tile_ != 0) {
      // As many heads of as many columns, and a feed-forward block as many times as wide.
      Point other = p_;
      const std::int64_t to = up(hidden, std::lcm(tile_, p_.model.heads));
      other.model.hidden = to;
      other.model.ffn = up(p_.model.ffn * to / hidden, tile_ * p_.tp);
      resized("hidden", hidden, "hidden", to, other);
    }
  }

  void tokens() {
    const std::int64_t local = p_.seq * p_.micro_batch / p_.cp;
    if (local % tile_ == 0) return;
    Point other = p_;
    other.seq = up(p_.seq, tile_ * p_.cp * p_.tp);
    if (other.model.positions < other.seq) other.model.positions = other.seq;
    resized("a micro batch's tokens on a rank,", local, "seq", other.seq, other);
  }

  // What is made of rows that are no words.
  void vocabulary() {
    const std::int64_t words = p_.model.vocab, rows = p_.model.padded_vocab(p_.tp, p_.vocab_multiple_used());
    const double padding = static_cast<double>(rows - words) / static_cast<double>(rows);
    if (padding < 0.01) return;
    Point other = p_;
    const std::int64_t multiple = p_.vocab_multiple_used() * p_.tp;
    other.model.vocab = words / multiple * multiple;
    std::string cost;
    if (other.model.vocab > 0)
      if (const auto s = tried(other))
        cost = fmt::format(", of {} takes {:.2f} % less time", other.model.vocab, (1 - ms(*s) / ms(now_)) * 100);
    advice_.push_back({0, fmt::format("vocab {} is padded to {}, a multiple of {} x tp {}: one of {} costs no more{}",
                                      words, rows, p_.vocab_multiple_used(), p_.tp, rows, cost)});
  }

  void batch() {
    if (p_.micro_batches() % 2 != 0) return;
    Point other = p_;
    other.micro_batch *= 2;
    const auto s = tried(other);
    if (!s) return;
    const double gain = 1 - ms(*s) / ms(now_);
    if (gain > kWorthTelling)
      advice_.push_back(
          {gain, fmt::format("micro_batch {} takes {:.1f} % less time than {}, and {:.0f} MiB on the fullest rank "
                             "instead of {:.0f}",
                             other.micro_batch, gain * 100, p_.micro_batch, s->result.peak_memory_mib.value_or(0),
                             now_.result.peak_memory_mib.value_or(0))});
  }

  // Other ways to exchange over tp, such as overlapped with the GEMMs.
  void exchanges() {
    if (p_.tp == 1 || p_.tp_comm_overlap) return;
    Point other = p_;
    other.tp_gathers = TpGathers::block;
    if (const auto gain = p_.tp_gathers == TpGathers::block ? std::nullopt : less_time(other);
        gain && *gain > kWorthTelling)
      advice_.push_back({*gain, fmt::format("tp_gathers block takes {:.1f} % less time", *gain * 100)});
    other.sequence_parallel = other.tp_comm_overlap = true;
    const auto gain = less_time(other);
    if (gain && *gain > kWorthTelling)
      advice_.push_back({*gain, fmt::format("tp_comm_overlap{} takes {:.1f} % less time",
                                            !p_.sequence_parallel               ? " with sequence_parallel"
                                            : p_.tp_gathers == TpGathers::block ? ""
                                                                                : " (tp_gathers block)",
                                            *gain * 100)});
  }

  // Of layouts that spread layers evenly, with either or both ends as a layer or the head as two.
  std::optional<Point> fastest_cut() {
    std::optional<Point> fastest;
    double most = 0;
    for (const EndsCount ends : {EndsCount{1, 1}, EndsCount{0, 1}, EndsCount{1, 2}}) {
      Point cut = p_;
      cut.first_stage_layers = cut.last_stage_layers = 0, cut.pipeline_layout = strategies::even_text(p_, ends);
      if (!has(framework_of(p_.framework)->can, "pipeline_layout", cut.pipeline_layout)) continue;
      if (const auto gain = less_time(cut); gain && *gain > most) most = *gain, fastest = cut;
    }
    return fastest;
  }

  // Schedules that fill the bubble with gradients of weights, of those that the framework has.
  void split_backward() {
    if (p_.pp == 1 || splits_backward(p_.schedule)) return;
    std::optional<std::pair<double, ScheduleKind>> best;
    for (const ScheduleKind kind : {ScheduleKind::zb_h1, ScheduleKind::zbv}) {
      Point split = p_;
      split.schedule = kind, split.virtual_stages = is_v_shaped(kind) ? 2 : 1, split.micro_batch_group = 0;
      split.pipeline_layout.clear(), split.first_stage_layers = split.last_stage_layers = 0;
      if (!lacking(framework_of(p_.framework)->can, split).empty()) continue;
      if (const auto gain = less_time(split); gain && *gain > kWorthTelling && (!best || *gain > best->first))
        best = {*gain, kind};
    }
    if (best)
      advice_.push_back(
          {best->first, fmt::format("schedule {} takes {:.1f} % less time: gradients of weights fill its bubble",
                                    name_of(best->second), best->first * 100)});
  }

  void stages() {
    const std::vector<double>& busy = now_.compute_by_stage;
    if (busy.size() < 2) return;
    const auto longest = std::max_element(busy.begin(), busy.end());
    const double mean = std::accumulate(busy.begin(), busy.end(), 0.0) / static_cast<double>(busy.size());
    const double over = *longest / mean - 1;
    if (over < kOutOfBalance) return;
    std::vector<std::pair<double, std::string>> better;
    const auto try_layout = [&](const Point& other, const std::string& name) {
      if (const auto gain = less_time(other); gain && *gain > kWorthTelling)
        better.emplace_back(*gain, fmt::format("{} takes {:.1f} % less time", name, *gain * 100));
    };
    Point fewer = p_;
    fewer.pipeline_layout.clear();
    if (p_.pp % 2 == 0) {
      fewer.pp /= 2, fewer.dp *= 2;
      if (fewer.pp == 1) fewer.schedule = ScheduleKind::one_f_one_b, fewer.virtual_stages = 1;
      try_layout(fewer, fmt::format("pp {} with dp {}", fewer.pp, fewer.dp));
    }
    for (const std::int64_t chunks : {p_.virtual_stages * 2, p_.virtual_stages * 3, p_.virtual_stages * 4}) {
      Point chunked = p_;
      chunked.schedule = ScheduleKind::interleaved, chunked.virtual_stages = chunks, chunked.pipeline_layout.clear();
      try_layout(chunked, fmt::format("schedule interleaved with virtual_stages {}", chunks));
    }
    if (const auto cut = fastest_cut()) try_layout(*cut, fmt::format("pipeline_layout {}", cut->pipeline_layout));
    // The embedding and the head as a layer each.
    const std::int64_t chunks = p_.pp * p_.virtual_stages;
    if ((p_.model.layers + 2) % chunks != 0) {
      Point even = p_;
      even.model.layers = up(p_.model.layers + 2, chunks) - 2;
      if (even.model.layers > 0)
        if (const auto gain = faster_rate(even); gain && *gain > kWorthTelling)
          better.emplace_back(*gain, fmt::format("{} layers, so that embedding and head count as one each, "
                                                 "run at a {:.1f} % higher rate of FLOPs",
                                                 even.model.layers, *gain * 100));
    }
    std::stable_sort(better.begin(), better.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
    if (better.size() > 3) better.resize(3);
    std::string text = fmt::format("stage {} of {} computes {:.1f} % longer than the mean of stages",
                                   longest - busy.begin(), busy.size(), over * 100);
    for (std::size_t i = 0; i < better.size(); ++i) text += (i == 0 ? ": " : "; ") + better[i].second;
    if (better.empty())
      text +=
          ", and neither half the stages, more virtual stages, other lengths of them nor another number of layers is "
          "faster";
    advice_.push_back({better.empty() ? 0 : better.front().first, text});
  }

  void nodes() {
    const std::int64_t inside = machine_.node.devices;
    if (p_.tp <= inside) return;
    std::string best;
    double gain = 0;
    std::vector<std::string> cannot;
    for (std::int64_t Point::*axis : {&Point::dp, &Point::pp}) {
      Point other = p_;
      other.tp = inside;
      if (p_.tp % inside != 0) continue;
      other.*axis *= p_.tp / inside;
      const std::string name = fmt::format("tp {} with {} {}", inside, axis == &Point::dp ? "dp" : "pp", other.*axis);
      const auto less = less_time(other);
      if (!less)
        cannot.push_back(name);
      else if (best.empty() || *less > gain)
        gain = *less, best = name;
    }
    const int spans = static_cast<int>((p_.tp + inside - 1) / inside);
    std::string text = fmt::format("tp {} spans {} nodes of {}", p_.tp, spans, inside);
    if (!best.empty())
      text += gain > 0 ? fmt::format(": {} takes {:.1f} % less time", best, gain * 100)
                       : fmt::format(", and yet {} takes {:.1f} % more time", best, -gain * 100);
    else if (!cannot.empty())
      text += fmt::format(", but {} cannot be or does not fit", fmt::join(cannot, " or "));
    advice_.push_back({gain, text});
  }

  void loader() {
    if (const auto better = better_loader(p_)) {
      const auto gain = less_time(*better);
      if (gain && *gain > kWorthTelling) advice_.push_back({*gain, loader_text(p_, *better, *gain)});
    }
  }

  // Of what a strategy offers for `from` and the framework has: the value that takes least time, and by how much less than now.
  std::optional<std::pair<double, std::string>> fastest_of(const strategies::Strategy& strategy, const Point& from) {
    std::optional<std::pair<double, std::string>> best;
    for (const strategies::Choice& choice : strategy.choices(from, 0))
      for (const nlohmann::json& value : choice.values) {
        Point other = from;
        set_point_field(other, choice.field, value, "advice");
        if (other == from || !lacking(framework_of(p_.framework)->can, other).empty()) continue;
        if (const auto gain = less_time(other); gain && *gain > kWorthTelling && (!best || *gain > best->first))
          best = {*gain, word_of(value)};
      }
    return best;
  }

  // In host memory where a backward computes them again for want of room, and on the device where there is room.
  void activations() {
    if (!machine_.knows_host_memory()) return;
    Point kept = p_;
    kept.offload_activations = {}, kept.min_offloaded_tensor_size = 0;
    if (p_.offload_activations.any()) {
      if (const auto gain = less_time(kept); gain && *gain > kWorthTelling)
        advice_.push_back({*gain, fmt::format("without offload_activations {} there is room too, and a step takes "
                                              "{:.1f} % less time",
                                              name_of(p_.offload_activations), *gain * 100)});
      return;
    }
    if (p_.recompute == Recompute::none) return;
    kept.recompute = Recompute::none, kept.recompute_layers = 0, kept.strategy.clear();
    if (tried(kept)) return;
    const auto best = fastest_of(strategies::activation_offload(), kept);
    if (best)
      advice_.push_back({best->first, fmt::format("offload_activations {} in place of recompute {} takes {:.1f} % less "
                                                  "time",
                                                  best->second, name_of(p_.recompute), best->first * 100)});
  }

  // Of parts of layers, where the device waits for its host.
  void graphs() {
    if (p_.capture.any() || !now_.result.time_anatomy_ms) return;
    if ((*now_.result.time_anatomy_ms)[TimePart::host] < kWorthTelling * ms(now_)) return;
    const auto best = fastest_of(strategies::graph(), p_);
    if (best)
      advice_.push_back({best->first, fmt::format("capture {} takes {:.1f} % less time: the device waits for its host",
                                                  best->second, best->first * 100)});
  }

  const Point& p_;
  const sim::Simulation& now_;
  const sim::Machine& machine_;
  const Simulate& simulate_;
  std::int64_t tile_;  // the smallest side of the machine's tiles
  std::vector<Advice> advice_;
};

}  // namespace

std::optional<std::string> loader_decides(const Point& point, const sim::Simulation& now, const Simulate& simulate,
                                          double least) {
  const auto better = better_loader(point);
  if (!better || !strategies::can_be(*better)) return std::nullopt;
  const double gain = 1 - simulate(*better).result.iteration_ms->mean / now.result.iteration_ms->mean;
  if (gain < least) return std::nullopt;
  return loader_text(point, *better, gain);
}

std::vector<std::string> advise(const Point& point, const sim::Simulation& now, const sim::Machine& machine,
                                const Simulate& simulate) {
  return Adviser(point, now, machine, simulate).all();
}

}  // namespace mbench::search
