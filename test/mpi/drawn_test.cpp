// Layouts drawn from a seed, each trained for three steps on the ranks that it asks for: its losses and gradient norms are the serial
// run's, and the memory of every rank in the steady state is that of the simulated machine, under any framework, that of the forecast
// and that of the outline which a search looks at, byte for byte. How to draw more: CONTRIBUTING.md.
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "engine/point/fields.h"
#include "engine/point/point_builder.h"
#include "engine/point/tolerance.h"
#include "engine/sim/machine/machine.h"
#include "test/catch.h"
#include "test/graphs.h"
#include "test/mpi/compare_layouts.h"
#include "test/mpi/drawn_fields.h"
#include "test/mpi/layout_run.h"
#include "test/mpi/random_layouts.h"

using namespace mbench;
using namespace mbench::sim;
using namespace mbench::test;

namespace {

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
  // A label is one for each sample: a loss is a mean of a few numbers, where one of words is of hundreds. 7.1e-4 were seen in bf16 and 9.3e-3
  // in NVFP4, of two samples; in f32 none is larger than with words.
  if (precision != Precision::f32 && point.model.labels > 0) share.loss *= 5;
  const bool made_in_fp16 = precision == Precision::fp16 &&
                            mbench::framework_of(point.framework)->keeps.weight_gradients == WeightGradients::apart;
  for (std::size_t i = 0; i < mine.steps; ++i) {
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

std::string framework_of(std::size_t number, const Point& point) {
  static const char* const names[] = {"mbench", "megatron-core", "megatron-2022", "torchtitan", "internevo-2023"};
  const std::string name = names[number % std::size(names)];
  // The first FlashAttention, on which InternEvo runs, is no kernel of this machine's file: it is drawn where attention is op by op.
  const bool one_op =
      point.attention == AttentionKind::flash || mbench::framework_of(point.framework)->keeps.fused_attention;
  return name == "internevo-2023" && one_op ? "mbench" : name;
}

}  // namespace

TEST_CASE("layouts drawn from a seed train as the serial run does, in the memory that was forecast") {
  std::size_t candidates = 0;
  const std::vector<Layout> layouts = random_layouts(drawn().seed, drawn().count, &candidates);
  Seen seen;
  Comparison comparison;
  comparison.framework = framework_of;
  comparison.training = [&](const Layout& layout, const Trained& serial, const Trained& mine) -> std::string {
    if (decided_by_layout(layout.point) != decided_by_layout(serial_point_of(layout))) return "";
    return wrong_training(layout.point, serial, mine, seen);
  };
  const std::string wrong = wrong_layouts(layouts, comparison);
  seen.join();
  if (first_rank()) seen.print(candidates);
  CHECK(seen.overflowed * 10 <= seen.layouts[static_cast<std::size_t>(Precision::fp16)]);  // 1 of 34 seen
  INFO("of seed " << drawn().seed << "\n" << wrong);
  CHECK(wrong.empty());
}

namespace {

// A drawn option of a framework that former specs had no word for: "framework.NAME".
bool is_option(const std::string& key) {
  return key.starts_with(kFrameworkField);
}

}  // namespace

TEST_CASE("every field of a spec is drawn, or is named with the reason why it is not") {
  std::set<std::string> named;
  for (const std::string& key : drawn_first()) CHECK(named.insert(key).second);
  for (const DrawnField& field : drawn_fields())
    CHECK(named.insert(is_option(field.key) ? field.key.substr(kFrameworkField.size()) : field.key).second);
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

// Of 3,000 layouts, of which each rank draws its part from a seed of its own.
TEST_CASE("every value that a field may have is drawn") {
  std::map<std::string, std::set<nlohmann::json>> drawn_here;
  for (const Layout& layout : random_layouts(static_cast<std::uint64_t>(rank_of_job()) + 1, 3000 / kRanks)) {
    nlohmann::json fields = point_in_words(layout.point);
    fields["family"] = layout.point.model.family;
    for (const DrawnField& field : drawn_fields())
      if (is_option(field.key)) fields[field.key] = point_field(layout.point, field.key);
    for (const auto& [key, value] : fields.items()) drawn_here[key].insert(value);
  }
  std::istringstream of_all(joined(nlohmann::json(drawn_here).dump() + "\n"));
  if (!first_rank()) return;
  std::map<std::string, std::vector<nlohmann::json>> left;
  for (const DrawnField& field : drawn_fields()) left[field.key] = field.values;
  for (const auto& model : drawn_models()) left["family"].push_back(model.at("family"));
  for (std::string line; std::getline(of_all, line);) {
    const nlohmann::json of_rank = nlohmann::json::parse(line);
    for (auto& [key, values] : left)
      for (const auto& value : of_rank.at(key)) std::erase(values, value);
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
