#include "cli/search_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/base/json_reader.h"
#include "engine/base/text.h"
#include "engine/point/model_changes.h"
#include "engine/point/point_builder.h"
#include "engine/point/result_file.h"
#include "reports/tables/report.h"
#include "strategies/strategies.h"
#include "sweeps/spec/options.h"

namespace mbench::cli {
namespace {

using search::SearchEnd;
using search::Tried;

double ms_of(const Tried& t) {
  return t.result.iteration_ms->mean;
}

// "8.96 s", "74.2 ms"
std::string time_text(double ms) {
  return ms >= 1000 ? fmt::format("{:.4g} s", ms / 1000) : fmt::format("{:.4g} ms", ms);
}
std::string memory_text(double mib) {
  return format_bytes(static_cast<std::uint64_t>(std::max(0.0, mib) * 1048576));
}
// "4.2 % slower"
std::string relative(double ms, double best_ms) {
  const double percent = (ms / best_ms - 1) * 100;
  return fmt::format("{:.1f} % {}", std::abs(percent), percent < 0 ? "faster" : "slower");
}

std::string counted(std::size_t n, const char* what) {
  return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
}

// Tables of these layouts alone.
std::string tables_of(const ResultFile& file, const std::vector<Tried>& layouts, search::Objective objective) {
  ResultFile part{file.spec, file.environment, {}};
  for (const Tried& t : layouts) part.points.push_back(t.result);
  reports::ReportOptions options;
  options.tables = {"layouts", "layout-time"};
  if (objective == search::Objective::tokens_per_joule) options.tables.insert(options.tables.begin(), "energy");
  return reports::render_report(part, options);
}

// Each the fastest of all layouts that take no more memory.
std::string front_text(const search::Space& space, const std::vector<Tried>& front) {
  std::string text = "| Time | Slower | Memory | Saved | Layout |\n| ---: | -----: | -----: | ----: | ------ |\n";
  const Tried& first = front.front();
  for (const Tried& t : front) {
    text += fmt::format("| {} | {:.1f} % | {} | {:.1f} % | {} |\n", time_text(ms_of(t)),
                        (ms_of(t) / ms_of(first) - 1) * 100, memory_text(t.needed_mib),
                        (1 - t.needed_mib / first.needed_mib) * 100, search::label_of(space, t.point));
  }
  return text;
}

std::string reasons_text(const search::Space& space, const SearchEnd& end) {
  std::string text;
  std::vector<std::pair<std::string, search::TooLarge>> large(end.too_large.begin(), end.too_large.end());
  std::stable_sort(large.begin(), large.end(),
                   [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  for (const auto& [reason, all] : large)
    text += fmt::format("- {} not fit: {}; the least of them takes {} of {} ({})\n",
                        counted(all.count, "layout") + (all.count == 1 ? " does" : " do"), reason,
                        memory_text(all.needed_mib), memory_text(end.limit_mib), search::label_of(space, all.example));
  for (const auto& [kind, all] : end.refused)
    text += fmt::format("- {} cannot be: {} ({})\n", counted(all.count, "layout"), all.example, all.layout);
  if (end.too_slow > 0)
    text += fmt::format("- {} too slow for the rate\n",
                        counted(end.too_slow, "layout") + (end.too_slow == 1 ? " is" : " are"));
  return text;
}

// What was decided for many layouts at once.
std::string not_looked_at(const search::SearchOptions& options, const SearchEnd& end) {
  std::string text;
  if (const std::size_t meshes = end.meshes - end.meshes_opened; meshes > 0 && !end.interrupted)
    text += fmt::format(
        "- {}: by its lower bound no layout on one is among the best{}{}\n",
        meshes == 1 ? "1 mesh" : fmt::format("{} meshes", meshes), options.rate > 0 ? " and reaches the rate" : "",
        options.front ? fmt::format(", or takes less than {:g} times the fastest's time", options.front_within) : "");
  if (end.larger_micro_batches > 0)
    text += fmt::format("- {}: each takes over 1.5 times the memory with a smaller micro batch\n",
                        counted(end.larger_micro_batches, "layout"));
  if (end.undercut > 0)
    text += fmt::format(
        "- {}: another that fits is faster than any on their mesh can be, and takes less memory than they do at "
        "least\n",
        counted(end.undercut, "layout"));
  return text.empty() ? text : "Not looked at:\n\n" + text + "\n";
}

// Who names no framework is told which one it was.
std::string assumed_framework(const search::Space& space) {
  for (const auto& [key, value] : space.file.items())
    if (key.starts_with("framework") || key == "graph") return "";
  return "No framework was named, so these are layouts of mbench's own engine. To search those that yours can run: "
         "--set framework=megatron-core (or torchtitan).\n\n";
}

// What an interrupted search has not seen.
std::string interruption(const SearchEnd& end) {
  if (!end.interrupted) return "";
  const std::size_t meshes = end.meshes - end.meshes_opened;
  return fmt::format("Interrupted: {} not decided, and {} not opened. A better layout may be among them.\n\n",
                     end.undecided == 1 ? "1 layout is" : fmt::format("{} layouts are", end.undecided),
                     meshes == 1 ? "1 mesh is" : fmt::format("{} meshes are", meshes));
}

// Why there is none that can be.
std::string none_can_be(const search::Space& space, const search::SearchTarget& place,
                        const search::SearchOptions& options, const SearchEnd& end) {
  if (end.meshes > 0 && options.rate > 0 && end.refused.empty())
    return fmt::format("No layout reaches the rate: by their lower bounds none on {} does.\n\n",
                       end.meshes == 1 ? "1 mesh" : fmt::format("{} meshes", end.meshes));
  if (end.meshes > 0 || !end.refused.empty()) return "No layout can be.\n\n";
  std::string given;
  for (const std::string& field : space.given)
    if (search::is_axis(field))
      given += fmt::format("{}{} {}", given.empty() ? "" : ", ", field,
                           word_of(nlohmann::json(point_field(space.base, field))));
  return fmt::format("No layout can be: no mesh{} has {} ranks.\n\n", given.empty() ? "" : " with " + given,
                     place.devices);
}

// "Best by time: **tp=2 pp=1**, 12.92 s, 55.85 GiB of 73.30 GiB a rank", and what it gave up for memory.
std::string best_text(const search::Space& space, const search::SearchOptions& options, const SearchEnd& end,
                      const api::MemoryMargin& margin) {
  const Tried& best = end.best.front();
  std::string text =
      fmt::format("Best {}by {}: **{}**, {}, {} of {} a rank", end.interrupted ? "of those simulated, " : "",
                  name_of(options.objective), search::label_of(space, best.point), time_text(ms_of(best)),
                  memory_text(best.needed_mib), memory_text(end.limit_mib));
  if (!margin.about.empty())
    text += fmt::format(" ({} are left as a margin: {}; --memory-margin changes it)", memory_text(margin.mib),
                        margin.about);
  text += ".\n\n";
  const Tried& fastest = *std::min_element(end.best.begin(), end.best.end(),
                                           [](const Tried& a, const Tried& b) { return ms_of(a) < ms_of(b); });
  if (options.objective == search::Objective::time && ms_of(fastest) < ms_of(best))
    text += fmt::format(
        "{} takes {:.2f} % less time and {} more memory: as fast, for a simulation, so that more memory left "
        "decides.\n\n",
        search::label_of(space, fastest.point), (1 - ms_of(fastest) / ms_of(best)) * 100,
        memory_text(fastest.needed_mib - best.needed_mib));
  return text;
}

}  // namespace

nlohmann::ordered_json search_record(const search::Space& space, const search::SearchOptions& options,
                                     const SearchEnd& end, const api::MemoryMargin& margin) {
  // Text without marks, line by line.
  const auto lines_of = [](const std::string& text) {
    nlohmann::ordered_json lines = nlohmann::ordered_json::array();
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) {
      for (std::size_t at = 0; (at = line.find("**", at)) != std::string::npos;) line.erase(at, 2);
      if (line.starts_with("- ")) line.erase(0, 2);
      if (!line.empty() && !line.ends_with(":")) lines.push_back(line);
    }
    return lines;
  };
  nlohmann::ordered_json record;
  record["answer"] =
      end.best.empty()
          ? lines_of(end.interrupted ? "Interrupted before any was simulated that fits." : "No layout fits.")
          : lines_of(interruption(end) + best_text(space, options, end, margin) + assumed_framework(space));
  record["counted"] = fmt::format("{} that can be: {} simulated, {} ruled out by a lower bound{}.",
                                  counted(end.layouts, "layout"), end.simulated, end.by_lower_bound,
                                  end.undecided > 0 ? fmt::format(", {} not decided", end.undecided) : "");
  record["left_out"] = lines_of(not_looked_at(options, end) + reasons_text(space, end));
  record["front"] = nlohmann::ordered_json::array();
  for (const Tried& t : end.front)
    record["front"].push_back({{"layout", search::label_of(space, t.point)},
                               {"id", t.result.id},
                               {"iteration_ms", ms_of(t)},
                               {"needed_mib", t.needed_mib}});
  return record;
}

std::string describe_search(const search::Space& space, const search::SearchTarget& place,
                            const search::SearchOptions& options, const SearchEnd& end, const ResultFile& file,
                            const api::MemoryMargin& margin) {
  std::string text = fmt::format("# {}: {} on {} x {}, simulated\n\n", space.name, label_of(space.base.model),
                                 place.devices, place.machine.name);
  text += fmt::format(
      "{} that can be, on {} of {}; {} simulated, {} of them block by block, {} ruled out by a lower bound{}, in "
      "{}.\n\n",
      counted(end.layouts, "layout"), end.meshes_opened,
      end.meshes == 1 ? "1 mesh" : fmt::format("{} meshes", end.meshes), end.simulated, end.placed, end.by_lower_bound,
      end.undecided > 0 ? fmt::format(", {} not decided", end.undecided) : "", format_duration(end.total_seconds));
  text += interruption(end);
  text += assumed_framework(space);
  text += not_looked_at(options, end);
  if (end.best.empty()) {
    text += end.interrupted     ? "Interrupted before any was simulated that fits.\n\n"
            : end.layouts == 0  ? none_can_be(space, place, options, end)
            : end.too_slow == 0 ? "No layout fits.\n\n"
                                : "No layout that fits reaches the rate.\n\n";
    return text + reasons_text(space, end);
  }
  text += best_text(space, options, end, margin);
  text += tables_of(file, end.best, options.objective);
  if (end.larger)
    text += fmt::format(
        "\nThe next better needs more memory: {}, {} ({}), would take {} a rank, {} more than there may be.\n",
        search::label_of(space, end.larger->point), time_text(ms_of(*end.larger)),
        relative(ms_of(*end.larger), ms_of(end.best.front())), memory_text(end.larger->needed_mib),
        memory_text(end.larger->needed_mib - end.limit_mib));
  if (end.front.size() > 1) {
    text += fmt::format(
        "\n## Time against memory\n\nEach is the fastest of all layouts that take no more memory, up to {:g} times the "
        "fastest's time.\n\n",
        options.front_within);
    text += front_text(space, end.front);
  }
  const std::string reasons = reasons_text(space, end);
  return reasons.empty() ? text : fmt::format("{}\n## Left out\n\n{}", text, reasons);
}

std::optional<reports::Plot> front_plot(const search::Space& space, const SearchEnd& end) {
  if (end.front.size() < 2) return std::nullopt;
  reports::Plot plot;
  plot.name = "front";
  plot.title = "Time against memory";
  plot.heading = fmt::format("{} on {}", label_of(space.base.model), space.base.device);
  const bool small = end.front.front().needed_mib < 4096;
  plot.x_label = fmt::format("Memory that the allocator of the fullest rank holds ({})", small ? "MiB" : "GiB");
  plot.y_label = "Time of a step (ms)";
  plot.note = "Each layout on the line is the fastest of all that take no more memory.";
  plot.simulated = true;
  reports::PlotSeries front{"fastest in so much memory", {}};
  for (auto t = end.front.rbegin(); t != end.front.rend(); ++t)
    front.points.push_back({t->needed_mib / (small ? 1 : 1024), ms_of(*t)});
  plot.series.push_back(front);
  return plot;
}

void check_layout(const search::Space& space, const std::string& layout) {
  Point asked = space.base;
  for (const std::string& part : sweeps::split_fields(layout)) {
    const sweeps::Assignment a = sweeps::parse_assignment(part, "--why");
    search::set_field(asked, a.fields[0], nlohmann::json(a.value), "--why " + a.text);
  }
}

std::string explain_layout(const search::Space& space, const search::SearchTarget& place,
                           const search::SearchOptions& options, const SearchEnd& end, const std::string& layout) {
  std::vector<sweeps::Assignment> wanted;
  for (const std::string& part : sweeps::split_fields(layout))
    wanted.push_back(sweeps::parse_assignment(part, "--why"));
  std::string text = fmt::format("## Why not {}\n\n", layout);
  // The best of those layouts, by a search of its own: the fields that are named have one value.
  Point asked = end.best.empty() ? space.base : end.best.front().point;
  search::Space such = space;
  bool of_space = true;
  for (const sweeps::Assignment& a : wanted) {
    const std::string where = "--why " + a.text, &field = a.fields[0];
    const nlohmann::json value(a.value);
    search::set_field(asked, field, value, where);
    if (space.is_free(field)) {
      const auto& values = space.values(field);
      of_space = of_space && (values.empty() || std::find(values.begin(), values.end(), value) != values.end());
      such.free[field] = {value};
      such.more.erase(field);
    } else {
      Point other = space.base;
      search::set_field(other, field, value, where);
      of_space = of_space && other == space.base;
    }
  }
  search::SearchOptions how = options;
  how.best = 1;
  how.front = false;
  how.rate = 0;
  const SearchEnd found = of_space ? search::search(such, place, how) : SearchEnd();
  if (found.interrupted) return text + "Interrupted.\n";
  if (found.layouts == 0 && !found.refused.empty()) {
    text += "None of these layouts can be:\n\n";
    for (const auto& [kind, all] : found.refused)
      text += fmt::format("- {} ({}){}\n", all.example, all.layout,
                          all.count > 1 ? fmt::format(", and {} more for the like", all.count - 1) : "");
    return text;
  }
  const search::Bounds bounds(place.machine);
  const search::CloseBounds close(place.machine, bounds);
  std::optional<Tried> nearest;  // where none fits, what takes least
  if (!found.best.empty()) {
    nearest = found.best.front();
  } else {
    const search::TooLarge* least = nullptr;
    for (const auto& [reason, all] : found.too_large)
      if (!least || all.needed_mib < least->needed_mib) least = &all;
    if (least) nearest = search::try_layout(least->example, place, bounds, close);
  }
  if (!nearest) {
    const auto refusal = strategies::why_not(asked);
    if (refusal) return text + fmt::format("It cannot be: {}.\n", refusal->reason);
    fail(ErrorKind::bad_input, "--why " + layout, "no layout of the space, need fields that are free and {} devices",
         place.devices);
  }
  const Tried& t = *nearest;
  if (found.layouts > 1)
    text += fmt::format("{} layouts are such; {} is {}.\n\n", found.layouts,
                        t.fits ? "the best of them" : "none of them fits, and what takes least",
                        search::label_of(space, t.point));
  if (end.best.empty()) return text;
  const Tried& best = end.best.front();
  if (t.result.id == best.result.id) return text + "It is the best.\n";
  if (!t.fits)
    text += fmt::format("It does not fit: rank {} takes {} of {}, {} too much; most of it is {}.\n\n", t.fullest_rank,
                        memory_text(t.needed_mib), memory_text(end.limit_mib),
                        memory_text(t.needed_mib - end.limit_mib), [&] {
                          const auto& mib = t.result.memory_anatomy_mib->mib;
                          return name_of(static_cast<Category>(std::max_element(mib.begin(), mib.end()) - mib.begin()));
                        }());
  text += fmt::format("It takes {}, {} than {}.\n\n", time_text(ms_of(t)), relative(ms_of(t), ms_of(best)),
                      search::label_of(space, best.point));
  text += "| Part of the step | This (ms) | The best (ms) | Difference (ms) |\n| --- | ---: | ---: | ---: |\n";
  std::vector<int> parts;
  for (int i = 0; i < kTimeParts; ++i) parts.push_back(i);
  const auto at = [](const Tried& x, int part) { return x.result.time_anatomy_ms->ms[static_cast<std::size_t>(part)]; };
  std::stable_sort(parts.begin(), parts.end(),
                   [&](int a, int b) { return std::abs(at(t, a) - at(best, a)) > std::abs(at(t, b) - at(best, b)); });
  for (const int part : parts)
    if (at(t, part) > 0 || at(best, part) > 0)
      text += fmt::format("| {} | {:.1f} | {:.1f} | {:+.1f} |\n", name_of(static_cast<TimePart>(part)), at(t, part),
                          at(best, part), at(t, part) - at(best, part));
  return text;
}

}  // namespace mbench::cli
