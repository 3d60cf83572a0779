// Layouts drawn from a seed, each trained for three steps on the ranks that it asks for: its losses and gradient norms are the serial
// run's, and the memory of every rank in the steady state is that of the simulated machine, under any framework, that of the forecast
// and that of the outline which a search looks at, byte for byte. How to draw more: CONTRIBUTING.md.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "engine/comm/gather.h"
#include "engine/point/fields.h"
#include "engine/point/point_builder.h"
#include "engine/point/tolerance.h"
#include "engine/sim/recording/recordings.h"
#include "engine/sim/run/counting.h"
#include "engine/sim/run/simulate.h"
#include "engine/sim/run/step_costs.h"
#include "engine/train/data.h"
#include "engine/train/trainer.h"
#include "strategies/routing.h"
#include "test/catch.h"
#include "test/engine/sim/simulated_run.h"
#include "test/graphs.h"
#include "test/mpi/drawn_fields.h"
#include "test/mpi/layout_run.h"
#include "test/mpi/random_layouts.h"
#include "test/support/machine_for.h"

using namespace mbench;
using namespace mbench::test;

namespace {

constexpr int kRanks = 8, kSteps = 3;

struct Memory {
  MemoryUse peak, host;
  std::size_t reserved = 0, host_reserved = 0;
};
bool same(const MemoryUse& a, const MemoryUse& b) {
  return a.total == b.total && a.by_category == b.by_category;
}
bool same(const Memory& a, const Memory& b) {
  return same(a.peak, b.peak) && same(a.host, b.host) && a.reserved == b.reserved && a.host_reserved == b.host_reserved;
}
std::string str(const Memory& m) {
  std::string text = fmt::format("{} of {} reserved", m.peak.total, m.reserved);
  for (int c = 0; c < kCategories; ++c)
    if (const std::size_t bytes = m.peak.by_category[static_cast<std::size_t>(c)])
      text += fmt::format(", {} {}", name_of(static_cast<Category>(c)), bytes);
  return m.host.total == 0 ? text : text + fmt::format(", host {} of {}", m.host.total, m.host_reserved);
}

// Travels between ranks as bytes.
struct Trained {
  std::array<double, kSteps> losses{}, norms{};
  int skipped = 0;
  bool grew = false;  // some rank asked for raw memory in the last step
  std::array<Memory, kRanks> memory{};
};

struct OfRank {
  Memory memory;
  bool grew = false;
};

Trained train(const Point& point, World& world) {
  const Plan plan = strategies::make_plan(point);
  const auto data = open_data(point.data, point.model.vocab, point.seq, point.seed);
  const auto device = open_device("cpu", 0);
  Trainer trainer(plan, *device, world, data.get());
  const Device* host = device->opened_host();
  const auto raw = [&] { return device->memory().raw_allocations() + (host ? host->memory().raw_allocations() : 0); };
  Trained trained;
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < kSteps; ++i) {
    before = raw();
    const StepResult step = trainer.step();
    trained.losses[i] = trainer.mean_loss();
    trained.norms[i] = step.gradient_norm;
    trained.skipped += step.skipped;
  }
  OfRank mine{{device->memory().peak(), {}, device->memory().reserved(), 0}, raw() != before};
  if (host) mine.memory.host = host->memory().peak(), mine.memory.host_reserved = host->memory().reserved();
  std::size_t rank = 0;
  for (const OfRank& of : gather_all(trainer.all_ranks(), mine)) {
    trained.memory[rank++] = of.memory;
    trained.grew = trained.grew || of.grew;
  }
  return trained;
}

Trained train_alone(const Point& point) {
  Trained trained;
  run_replicas(1, [&](World& world) { trained = train(point, world); });
  return trained;
}

// On all ranks of the job, which all get what came of it.
Trained train_together(const Point& point) {
  Trained trained;
  meet_asleep();
  {
    MpiWorld processes(static_cast<int>(processes_of(point)));
    if (processes.member()) {
      if (point.replicas == Replicas::single_process)
        run_replicas(static_cast<int>(point.world()), [&](World& threads) {
          const Trained mine = train(point, threads);
          if (threads.rank() == 0) trained = mine;
        });
      else
        trained = train(point, processes);
    }
  }
  meet_asleep();
  MPI_Bcast(&trained, sizeof trained, MPI_BYTE, 0, MPI_COMM_WORLD);
  return trained;
}

// Of each rank what a framework's simulation says, without what its libraries hold.
struct Forecast {
  std::vector<Memory> simulated, counted;  // by rank
  std::vector<bool> stands_for;            // whether they are that rank's
  std::optional<std::size_t> outlined;     // of the fullest rank
};

Forecast forecast(Point point, const Machine& machine, const std::string& framework_name) {
  Framework framework = find_framework(framework_name, "test");
  framework.memory.caching = false;  // of the allocator that the ranks have
  const Plan plan = plan_on(framework, point);
  const std::uint64_t libraries = library_memory(plan);
  sim::Recordings recordings;
  SimulateOptions options;
  options.recordings = &recordings;
  const int world = plan.mesh.world();
  const Simulation s = simulate_point(point, plan, machine, world, options);
  const MemoryForecast f = forecast_memory(plan);
  Forecast out;
  for (int rank = 0; rank < world; ++rank) {
    // Of replicas of one process each is a class of its own.
    const auto stage = static_cast<std::size_t>(plan.single_process ? rank : plan.mesh.coordinate(rank, Axis::pp));
    Memory simulated{s.peak_by_stage.at(stage), {}, s.reserved_by_stage.at(stage) - libraries, 0};
    simulated.peak.total -= libraries;
    simulated.peak.by_category[static_cast<std::size_t>(Category::workspace)] -= libraries;
    Memory counted{f.peak_by_stage.at(stage), {}, f.reserved_by_stage.at(stage), 0};
    if (point.offload != Offload::none || point.offload_activations.any()) {
      simulated.host = s.host_peak_by_stage.at(stage), simulated.host_reserved = s.host_reserved_by_stage.at(stage);
      counted.host = f.host_peak_by_stage.at(stage), counted.host_reserved = f.host_reserved_by_stage.at(stage);
    }
    out.simulated.push_back(simulated), out.counted.push_back(counted);
    // Adafactor's sums and Muon's workspace are of the matrices that a rank owns; the first rank of a stage stands for all.
    const bool own_sums = (point.optimizer == OptimizerKind::adafactor || point.optimizer == OptimizerKind::muon) &&
                          (point.zero == Zero::oss || point.zero == Zero::oss_sdp);
    out.stands_for.push_back(!own_sums || rank % (world / plan.mesh.size(Axis::pp)) == 0);
  }
  out.outlined = outline_point(point, plan, machine, world, &recordings).peak.total - libraries;
  return out;
}

// Of each precision the share of the limits of engine/point/tolerance.cpp that these small models are held to, losses and norms. Losses are
// held closer: the second and third follow from gradients. Seen of 500 layouts of two seeds: two thirds of these at most, in f32 a
// third. Norms of layers whose only norm is on a branch's output are several times as large, and training amplifies how they are rounded: the
// first step's are 6e-11 apart, the third's 1.4e-5, and so in f32 with tp alone. Norms of a step of few samples are far apart at times: 6.9e-3 in bf16 with gradients in bf16, 1.5e-2 with weights in bf16 alone and an
// embedding times 8, 5.6e-2 in FP8 of one sample.
struct Share {
  Precision precision;
  double loss, norm;
};
constexpr Share kShares[] = {{Precision::f32, 0.2, 0.1},
                             {Precision::bf16, 0.2, 1},
                             {Precision::fp16, 0.2, 0.5},
                             {Precision::fp8, 0.05, 0.3},
                             {Precision::nvfp4, 0.05, 0.3}};

Share share_of(Precision precision) {
  for (const Share& share : kShares)
    if (share.precision == precision) return share;
  return {precision, 0, 0};
}

// Worst differences, by precision.
struct Seen {
  std::array<int, kPrecisionCount> layouts{};
  std::array<double, kPrecisionCount> loss{}, norm{};
  int overflowed = 0;  // layouts whose gradients in fp16 overflowed where the serial run's did not
  void join() {
    MPI_Allreduce(MPI_IN_PLACE, layouts.data(), kPrecisionCount, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &overflowed, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, loss.data(), kPrecisionCount, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, norm.data(), kPrecisionCount, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  }
  void print(std::size_t candidates) const {
    std::printf("%zu layouts of seed %llu, from %zu candidates\n", drawn().count,
                static_cast<unsigned long long>(drawn().seed), candidates);
    for (int p = 0; p < kPrecisionCount; ++p)
      if (layouts[static_cast<std::size_t>(p)] > 0)
        std::printf("%s: %d layouts, losses %.1e and norms %.1e apart at most\n",
                    std::string(name_of(static_cast<Precision>(p))).c_str(), layouts[static_cast<std::size_t>(p)],
                    loss[static_cast<std::size_t>(p)], norm[static_cast<std::size_t>(p)]);
  }
};

// What is wrong with a layout; nothing where all is right.
std::string wrong_training(const Point& point, const Trained& serial, const Trained& mine, Seen& seen) {
  std::string wrong;
  // Blocks of 8-bit moments are other ones where tp cuts matrices, and the same ones else.
  const bool same_blocks = point.tp == 1 && point.expert_tp() == 1;
  const Precision precision = same_blocks ? point.precision : tolerance_of(point);
  const auto at = static_cast<std::size_t>(precision);
  ++seen.layouts[at];
  Share share = share_of(precision);
  if (precision == Precision::f32 && point.model.parts().norm_place == NormPlace::output) share.norm *= 5;
  // Of moments in other blocks, 8.5e-4 were seen after two updates of a layer that is normed on its outputs alone. Moments
  // in 8 bits instead of f32 move that layout's own loss by 1.4e-3 in five steps.
  if (precision == Precision::bf16 && !same_blocks && point.optimizer == OptimizerKind::adamw8bit)
    share.loss *= point.model.parts().norm_place == NormPlace::output ? 3 : 2;
  const bool made_in_fp16 = precision == Precision::fp16 &&
                            mbench::framework_of(point.framework)->keeps.weight_gradients == WeightGradients::apart;
  for (std::size_t i = 0; i < kSteps; ++i) {
    // Made in fp16 before it is added up, a weight's gradient may overflow where the serial run's, which its GEMM adds up in f32, does
    // not. That step is skipped, and from then on the two train otherwise.
    if (made_in_fp16 && !std::isfinite(mine.norms[i]) && std::isfinite(serial.norms[i])) {
      ++seen.overflowed;
      return wrong;
    }
    const double loss = relative_difference(mine.losses[i], serial.losses[i]),
                 norm = relative_difference(mine.norms[i], serial.norms[i]);
    if (!std::isfinite(mine.losses[i]) || loss > share.loss * loss_tolerance(precision, i))
      wrong += fmt::format("\n  loss of step {}: {}, serial {}, {:.1e} apart", i + 1, mine.losses[i], serial.losses[i],
                           loss);
    if (norm > share.norm * gradient_norm_tolerance(precision, i).value())
      wrong +=
          fmt::format("\n  norm of step {}: {}, serial {}, {:.1e} apart", i + 1, mine.norms[i], serial.norms[i], norm);
    seen.loss[at] = std::max(seen.loss[at], loss), seen.norm[at] = std::max(seen.norm[at], norm);
  }
  if (mine.skipped != serial.skipped)
    wrong += fmt::format("\n  {} steps skipped, serial {}", mine.skipped, serial.skipped);
  return wrong;
}

std::string wrong_memory(const Forecast& forecast, const Trained& mine) {
  std::string wrong;
  std::size_t fullest = 0;
  for (std::size_t rank = 0; rank < forecast.simulated.size(); ++rank) {
    if (!forecast.stands_for[rank]) continue;
    const Memory &real = mine.memory[rank], &simulated = forecast.simulated[rank], &counted = forecast.counted[rank];
    fullest = std::max(fullest, real.peak.total);
    if (!same(real, simulated))
      wrong += fmt::format("\n  rank {}: real {}; simulated {}", rank, str(real), str(simulated));
    if (!same(real, counted)) wrong += fmt::format("\n  rank {}: real {}; counted {}", rank, str(real), str(counted));
    if (real.peak.total == 0) wrong += fmt::format("\n  rank {}: no memory", rank);
  }
  if (forecast.outlined && *forecast.outlined != fullest)
    wrong += fmt::format("\n  fullest rank {}; outlined {}", fullest, *forecast.outlined);
  if (mine.grew) wrong += "\n  raw memory asked for after the second step";
  return wrong;
}

// Of a layout, on the rank whose turn it is.
struct Expected {
  Trained serial;
  Forecast memory;
};

std::string framework_of(std::size_t number, const Point& point) {
  static const char* const names[] = {"mbench", "megatron-core", "megatron-2022", "torchtitan", "internevo-2023"};
  const std::string name = names[number % std::size(names)];
  // The first FlashAttention, on which InternEvo runs, is no kernel of this machine's file: it is drawn where attention is op by op.
  const bool one_op =
      point.attention == AttentionKind::flash || mbench::framework_of(point.framework)->keeps.fused_attention;
  return name == "internevo-2023" && one_op ? "mbench" : name;
}

// Tensors with room for the rows of all ranks are as long whatever comes; into pages not all may fit.
bool sizes_follow_data(const Point& p) {
  const bool room_for_all = p.expert_rank_capacity >= static_cast<double>(p.ep) && p.paged_stash == 0;
  return strategies::reads_rows(p) && p.ep > 1 && !room_for_all;
}

// Ends the job where ranks wait for each other for ever, and says in which layout.
class Watch {
 public:
  explicit Watch(std::string layout) {
    text() = "[test_mpi] still not done after 300 s: " + std::move(layout) + "\n";
    std::signal(SIGALRM, [](int) {
      if (::write(STDERR_FILENO, text().data(), text().size()) >= 0) ::_exit(1);
    });
    ::alarm(300);
  }
  ~Watch() { ::alarm(0); }

 private:
  static std::string& text() {
    static std::string kept;
    return kept;
  }
};

// All ranks' texts on the first, one after the other.
std::string joined(const std::string& mine) {
  int length = static_cast<int>(mine.size()), size = 0, rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size), MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<int> lengths(static_cast<std::size_t>(size)), starts(static_cast<std::size_t>(size));
  MPI_Gather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (std::size_t i = 1; i < starts.size(); ++i) starts[i] = starts[i - 1] + lengths[i - 1];
  std::string all(rank == 0 ? static_cast<std::size_t>(starts.back() + lengths.back()) : 0, ' ');
  MPI_Gatherv(mine.data(), length, MPI_CHAR, all.data(), lengths.data(), starts.data(), MPI_CHAR, 0, MPI_COMM_WORLD);
  return all;
}

}  // namespace

TEST_CASE("layouts drawn from a seed train as the serial run does, in the memory that was forecast") {
  const Machine machine = find_machine("H100-SXM5-80GB", "test");
  std::size_t candidates = 0;
  const std::vector<Layout> layouts = random_layouts(drawn().seed, drawn().count, &candidates);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::map<std::size_t, Expected> expected;
  std::string wrong;
  const auto complain = [&](std::size_t i, const std::string& what) {
    if (!what.empty()) wrong += fmt::format("layout {} of seed {}: {}{}\n", i, drawn().seed, layouts[i].name, what);
  };
  for (std::size_t i = static_cast<std::size_t>(rank); i < layouts.size(); i += kRanks) try {
      const Point& point = layouts[i].point;
      expected[i] = {train_alone(serial_point_of(layouts[i])), {}};
      if (!sizes_follow_data(point))
        expected[i].memory = forecast(point, machine_for(point, machine), framework_of(i, point));
    } catch (const std::exception& e) {
      expected.erase(i);
      complain(i, fmt::format("\n  serial or simulated: {}", e.what()));
    }
  Seen seen;
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    const Point& point = layouts[i].point;
    Trained mine;
    try {
      const Watch watch(fmt::format("layout {} of seed {}: {}", i, drawn().seed, layouts[i].name));
      mine = train_together(point);
    } catch (const std::exception& e) {  // the other ranks wait for this one
      std::fprintf(stderr, "[test_mpi] rank %d left layout %zu of seed %llu: %s\n  %s\n", rank, i,
                   static_cast<unsigned long long>(drawn().seed), layouts[i].name.c_str(), e.what());
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    const auto found = expected.find(i);
    if (found == expected.end()) continue;
    if (decided_by_layout(point) == decided_by_layout(serial_point_of(layouts[i])))
      complain(i, wrong_training(point, found->second.serial, mine, seen));
    if (!sizes_follow_data(point)) complain(i, wrong_memory(found->second.memory, mine));
  }
  seen.join();
  if (rank == 0) seen.print(candidates);
  CHECK(seen.overflowed * 10 <= seen.layouts[static_cast<std::size_t>(Precision::fp16)]);  // 1 of 34 seen
  const std::string all = joined(wrong);
  INFO(all);
  CHECK(all.empty());
}

TEST_CASE("every field of a spec is drawn, or is named with the reason why it is not") {
  std::set<std::string> named;
  for (const std::string& key : drawn_first()) CHECK(named.insert(key).second);
  for (const DrawnField& field : drawn_fields()) CHECK(named.insert(field.key).second);
  for (const FixedField& field : fixed_fields()) {
    INFO(field.key);
    CHECK(named.insert(field.key).second);
    CHECK_FALSE(field.reason.empty());
  }
  // A framework is drawn by its parts, and its host costs by the number of the layout.
  std::set<std::string> keys(point_keys().begin(), point_keys().end());
  keys.erase("framework"), keys.insert("graph");
  for (const FrameworkOption& option : all_framework_options()) keys.insert(option.name);
  for (const PointField& former : former_point_fields())
    if (former.part_of == "precision") keys.insert(former.key);
  CHECK(named == keys);
}

TEST_CASE("every value that a field may have is drawn") {
  if (!first_rank()) return;
  std::map<std::string, std::vector<nlohmann::json>> left;
  for (const DrawnField& field : drawn_fields()) left[field.key] = field.values;
  for (const auto& model : drawn_models()) left["family"].push_back(model.at("family"));
  for (const Layout& layout : random_layouts(1, 3000)) {
    nlohmann::json fields = point_in_words(layout.point);
    fields["family"] = layout.point.model.family;
    for (auto& [key, values] : left) std::erase(values, fields.at(key));
  }
  for (const auto& [key, values] : left) {
    INFO(key << ": " << nlohmann::json(values).dump());
    CHECK(values.empty());
  }
}

namespace {

// Choices name numbers L, M and so on: "5+11" is "L+M".
std::string with_letters(const std::string& text) {
  std::string out;
  char letter = 'L';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&](std::size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (!is_digit(i)) out += text[i];
    if (is_digit(i) && !is_digit(i + 1)) out += letter++;
  }
  return out;
}

}  // namespace

TEST_CASE("every choice that a drawn field has is drawn, or is named with the reason why it is not") {
  if (!first_rank()) return;
  std::set<std::string> fixed;
  for (const FixedField& choice : fixed_choices()) CHECK(fixed.insert(choice.key).second);
  for (const DrawnField& drawn : drawn_fields()) {
    const PointField* field = find_field(drawn.key);
    if (field == nullptr) continue;  // a word of former specs, whose choices framework files have
    std::set<std::string> values;
    for (const auto& value : drawn.values) {
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find('+', begin), text.size());
        values.insert(text.substr(begin, end - begin));
        begin = end + 1;
      }
      values.insert(text.substr(0, text.find(':')));  // "capacity:F" stands for every F
      values.insert(text);
      values.insert(with_letters(text));
    }
    for (const FieldChoice& choice : field->choices) {
      INFO(drawn.key << " " << choice.name);
      const bool is_drawn =
          values.contains(choice.name) || values.contains(choice.name.substr(0, choice.name.find(':')));
      CHECK(is_drawn != fixed.contains(drawn.key + " " + choice.name));
    }
  }
}

namespace {

// The keys of a model by path, each with its values in all of these.
void gather(const nlohmann::json& value, const std::string& path,
            std::map<std::string, std::set<std::string>>& values) {
  if (!value.is_object()) {
    values[path].insert(value.dump());
    return;
  }
  for (const auto& [key, inner] : value.items()) gather(inner, path.empty() ? key : path + "." + key, values);
}

}  // namespace

TEST_CASE("every size and part of a model is drawn, or is named with the reason why it is not") {
  if (!first_rank()) return;
  std::set<std::string> fixed;
  for (const FixedField& key : fixed_model_keys()) CHECK(fixed.insert(key.key).second);
  std::map<std::string, std::set<std::string>> values;
  const auto with_parts = [](const nlohmann::json& fields) {
    ModelSpec model = read_model(fields, "drawn");
    model.own_parts = model.parts();
    return nlohmann::json(write_model(model));
  };
  std::vector<nlohmann::json> models;
  for (const auto& fields : drawn_models()) {
    nlohmann::json whole = {{"layers", 2}, {"hidden", 64}, {"heads", 8}, {"vocab", 128}, {"positions", 64}};
    whole.update(fields);
    models.push_back(with_parts(whole));
  }
  for (const auto& model : models) gather(model, "", values);
  // A part that some models do not have is drawn by that.
  for (auto& [path, seen] : values)
    for (const auto& model : models)
      if (!model.contains(nlohmann::json::json_pointer("/" + std::regex_replace(path, std::regex("\\."), "/"))))
        seen.insert("absent");
  for (const auto& [path, seen] : values) {
    INFO(path);
    CHECK((seen.size() > 1) != fixed.contains(path));
  }
}
