#include "formats/logs/reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/error.h"

namespace mbench::formats {
namespace {

constexpr double kWorldLimit = 1e9;  // ranks of a job are fewer

// A label at which a record begins: the one behind which a number stands.
std::size_t find_record(std::string_view text, std::string_view label, std::size_t from) {
  for (std::size_t at = text.find(label, from); at != std::string_view::npos; at = text.find(label, at + 1)) {
    std::size_t next = at + label.size();
    while (next < text.size() && (text[next] == ' ' || text[next] == ':' || text[next] == '=')) ++next;
    if (next < text.size() && text[next] >= '0' && text[next] <= '9') return at;
  }
  return std::string_view::npos;
}

// The slower of two ranks' times of one step: the step is over when the last is done.
double slower(double a, double b, Pace unit) {
  return unit == Pace::ms ? std::max(a, b) : std::min(a, b);
}

void raise(std::vector<LoggedMemory>& memory, const char* kind, std::int64_t rank, double mib) {
  for (LoggedMemory& each : memory)
    if (each.kind == kind && each.rank == rank) {
      each.mib = std::max(each.mib, mib);
      return;
    }
  memory.push_back({kind, rank, mib});
}

}  // namespace

bool LogReader::read_figures(const LogRow& row, std::string_view text, bool whole, Record& record) const {
  for (const NamedFigure& figure : row.figures) {
    double number = 0;
    if (!number_behind(text, figure.label, whole, number)) continue;
    record.figures[figure.figure] = number * figure.scale;
    if (figure.figure == Figure::pace) record.unit = figure.pace;
  }
  return !record.figures.empty();
}

void LogReader::read_records(const LogRow& row, const Line& line) {
  std::size_t at = find_record(line.text, row.begins, 0);
  if (at == std::string_view::npos) ++cut_;
  while (at != std::string_view::npos) {
    const std::size_t next = find_record(line.text, row.begins, at + row.begins.size());
    const std::string_view text = line.text.substr(at, next == std::string_view::npos ? next : next - at);
    // A record that another one cuts short ends within a number, too.
    Record record;
    const bool any = read_figures(row, text, next == std::string_view::npos ? line.whole : false, record);
    at = next;
    if (row.kind == LineKind::step &&
        (!record.figures.contains(Figure::step) || !record.figures.contains(Figure::pace))) {
      ++cut_;
      continue;
    }
    if (!any) continue;
    if (const auto found = record.figures.find(Figure::global_batch); found != record.figures.end())
      if (const auto samples = count_of(found->second, 1)) log_.global_batch = samples;
    if (const auto found = record.figures.find(Figure::world); found != record.figures.end())
      if (const auto ranks = count_of(found->second, 1, kWorldLimit)) log_.world = ranks;
    add_memory(record, line.rank);
    if (row.kind == LineKind::step) add_step(record, line.rank);
  }
}

void LogReader::add_memory(const Record& record, int rank) {
  if (const auto said = record.figures.find(Figure::rank); said != record.figures.end())
    rank = static_cast<int>(count_of(said->second, 0, kWorldLimit).value_or(rank));
  const auto of = [&](Figure figure, const char* kind) {
    if (const auto found = record.figures.find(figure);
        found != record.figures.end() && std::isfinite(found->second) && found->second >= 0)
      raise(log_.memory, kind, std::max(rank, 0), found->second);
  };
  of(Figure::max_allocated, "max_allocated");
  of(Figure::max_reserved, "max_reserved");
}

void LogReader::start_again(std::int64_t step, int rank) {
  ++restarts_;
  std::erase_if(log_.steps, [&](const LoggedStep& each) { return each.step >= step; });
  std::erase_if(last_, [&](const auto& other) { return other.first != rank; });
  pending_ = Aside::none;
  restarted_ = true;
}

void LogReader::add_step(const Record& record, int rank) {
  const auto figure = [&](Figure wanted) {
    const auto found = record.figures.find(wanted);
    return found == record.figures.end() ? std::optional<double>() : found->second;
  };
  const double pace = *figure(Figure::pace);
  const auto at_step = count_of(*figure(Figure::step));
  if (!at_step || !std::isfinite(pace) || pace <= 0) {
    ++cut_;
    return;
  }
  LoggedStep step{*at_step, pace, record.unit, Aside::none, false, figure(Figure::loss), figure(Figure::gradient_norm)};
  if (step.loss == -1) step.loss.reset();  // what torchtitan prints on stages that do not have it
  if (const auto last = last_.find(rank); last != last_.end() && step.step < last->second) start_again(step.step, rank);
  last_[rank] = step.step;
  const auto at = std::lower_bound(log_.steps.begin(), log_.steps.end(), step,
                                   [](const LoggedStep& a, const LoggedStep& b) { return a.step < b.step; });
  if (at != log_.steps.end() && at->step == step.step) {
    if (at->unit == step.unit) at->pace = slower(at->pace, step.pace, step.unit);
    if (!at->loss) at->loss = step.loss;
    if (!at->gradient_norm) at->gradient_norm = step.gradient_norm;
    return;
  }
  step.aside = std::exchange(pending_, Aside::none);
  if (log_.steps.size() >= kMostSteps) fail(ErrorKind::bad_input, "log", "has more than {} steps", kMostSteps);
  step.first = log_.steps.empty() || restarted_;
  restarted_ = false;
  log_.steps.insert(at, step);
}

// "  num_layers ...................................... 24"
void LogReader::add_argument(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(' '), dots = text.find(" ....");
  const std::size_t value = text.find_first_not_of('.', dots + 1);
  if (begin >= dots || value == std::string_view::npos || text[value] != ' ' || log_.arguments.size() >= kMostArguments)
    return;
  const std::string_view name = text.substr(begin, dots - begin);
  if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string_view::npos) return;
  log_.arguments.emplace_back(name, text.substr(value + 1));
}

void LogReader::read(const Line& line) {
  for (const LogRow& row : table_.rows) {
    if (line.text.find(row.has) == std::string_view::npos) continue;
    if (!row.unless.empty() && line.text.find(row.unless) != std::string_view::npos) continue;
    if (row.kind == LineKind::evaluation || row.kind == LineKind::checkpoint) {
      pending_ = row.kind == LineKind::evaluation ? Aside::evaluation : Aside::checkpoint;
    } else if (row.kind == LineKind::argument) {
      add_argument(line.text);
    } else if (row.kind == LineKind::device) {
      const std::size_t begin = line.text.find(row.from),
                        end = begin == std::string_view::npos ? begin : line.text.find(row.to, begin + row.from.size());
      if (end != std::string_view::npos && log_.device.empty())
        log_.device = line.text.substr(begin + row.from.size(), end - begin - row.from.size());
    } else {
      read_records(row, line);
    }
    return;
  }
}

Log LogReader::take() {
  log_.program = table_.program;
  log_.of_windows = !table_.each_step;
  if (cut_ > 0)
    log_.notes.push_back(fmt::format(
        "{} records without a step or its time were left out: lines cut short, or written into each other", cut_));
  if (restarts_ > 0)
    log_.notes.push_back(
        fmt::format("the run starts again {} times: steps that were done twice are those of the last time", restarts_));
  return std::move(log_);
}

}  // namespace mbench::formats
