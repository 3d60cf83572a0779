#include "explain/trace.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <optional>

#include "engine/base/embedded.h"
#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "explain/trace_events.h"

namespace mbench::explain_files {
const EmbeddedFiles& files();
}

namespace mbench::explain {
namespace {

constexpr std::size_t kMostSpans = 20'000'000;  // of device work that are kept; a step of a large model has 10'000

// What a kernel is: a part, or communication whose group is not known.
constexpr int kUnknownGroup = kTimeParts, kIdle = kTimeParts + 1, kKinds = kTimeParts + 2;

struct Rule {
  int kind;
  std::vector<std::string> words;
};

struct Names {
  std::map<std::string, std::string> categories;
  std::vector<Rule> kernels, groups, collectives;
};

int kind_named(const std::string& name) {
  if (name == "communication") return kUnknownGroup;
  for (int i = 0; i < kTimeParts; ++i)
    if (mbench::name_of(static_cast<TimePart>(i)) == name) return i;
  fail(ErrorKind::internal, "kernels.json", "no such part, got \"{}\"", name);
}

const Names& names() {
  static const Names all = [] {
    const nlohmann::ordered_json file = parse_json(explain_files::files().at("kernels"), "kernels.json");
    Names read;
    for (const auto& [category, what] : file.at("categories").items()) read.categories[category] = what;
    const auto rules = [&](const char* key) {
      std::vector<Rule> list;
      for (const auto& row : file.at(key))
        list.push_back({kind_named(row.at("part")), row.at("words").get<std::vector<std::string>>()});
      return list;
    };
    read.kernels = rules("kernels"), read.groups = rules("groups"), read.collectives = rules("collectives");
    return read;
  }();
  return all;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Whether the word stands in the text; one of three letters and less as a word of its own: "ep" is not in "depth".
bool has_word(const std::string& text, const std::string& word) {
  const auto letter = [&](std::size_t at) {
    return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at]));
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if (word.size() > 3 || ((at == 0 || !letter(at - 1)) && !letter(at + word.size()))) return true;
  return false;
}

std::optional<int> by_words(const std::vector<Rule>& rules, const std::string& text) {
  for (const Rule& rule : rules)
    for (const std::string& word : rule.words)
      if (has_word(text, word)) return rule.kind;
  return std::nullopt;
}

int communication_kind(const TraceEvent& event, const std::string& name) {
  if (const auto kind = by_words(names().groups, lower(event.group))) return *kind;
  if (const auto kind = by_words(names().collectives, name + " " + lower(event.collective))) return *kind;
  return kUnknownGroup;
}

// Nothing of an event that is no work of a device.
std::optional<int> kind_of(const TraceEvent& event) {
  const auto category = names().categories.find(event.category);
  if (category == names().categories.end() || event.phase != "X") return std::nullopt;
  const std::string name = lower(event.name);
  if (category->second == "copies") return static_cast<int>(TimePart::copies);
  if (category->second == "communication") return communication_kind(event, name);
  const int kind = by_words(names().kernels, name).value_or(static_cast<int>(TimePart::elementwise));
  return kind == kUnknownGroup ? communication_kind(event, name) : kind;
}

struct Span {
  double begin, end;  // us
  std::uint8_t kind;
};

struct Device {
  std::vector<Span> spans;
  double busy = 0;
};

struct Trace {
  std::map<std::string, Device> devices;
  std::map<std::string, std::pair<double, double>>
      steps;  // ProfilerStep#N: where its marks begin and end, those of the device where it has some
  bool device_marks = false;
};

void add_mark(Trace& trace, const TraceEvent& event) {
  const bool of_device = event.category == "gpu_user_annotation";
  if (of_device && !trace.device_marks) trace.steps.clear(), trace.device_marks = true;
  if (of_device != trace.device_marks) return;
  const double end = event.begin_us + event.duration_us;
  const auto [at, is_new] = trace.steps.try_emplace(event.name, event.begin_us, end);
  if (!is_new) at->second = {std::min(at->second.first, event.begin_us), std::max(at->second.second, end)};
}

Trace read(std::istream& in, const std::string& file) {
  Trace trace;
  std::size_t count = 0;
  each_event(in, file, [&](const TraceEvent& event) {
    if (event.phase == "X" && event.name.starts_with("ProfilerStep#") && event.category.ends_with("user_annotation"))
      add_mark(trace, event);
    const auto kind = kind_of(event);
    if (!kind || !(event.duration_us > 0)) return;
    if (++count > kMostSpans)
      fail(ErrorKind::bad_input, file, "has more than {} kernels and copies, need a trace of a few steps", kMostSpans);
    Device& device = trace.devices[event.process];
    device.spans.push_back({event.begin_us, event.begin_us + event.duration_us, static_cast<std::uint8_t>(*kind)});
    device.busy += event.duration_us;
  });
  return trace;
}

// At any moment one kind: of those that run, what computes before copies before communication; idle where none does.
std::array<double, kKinds> sweep(const std::vector<Span>& spans, double begin, double end) {
  std::vector<std::pair<double, int>> bounds;  // at, kind + 1 where one begins, -(kind + 1) where it ends
  for (const Span& span : spans) {
    const double from = std::max(span.begin, begin), to = std::min(span.end, end);
    if (from >= to) continue;
    bounds.emplace_back(from, span.kind + 1);
    bounds.emplace_back(to, -(span.kind + 1));
  }
  std::sort(bounds.begin(), bounds.end());
  std::array<double, kKinds> us{};
  std::array<int, kKinds> open{};
  double at = begin;
  const auto now = [&] {
    for (int kind = 0; kind < kIdle; ++kind)
      if (open[static_cast<std::size_t>(kind)] > 0) return kind;
    return kIdle;
  };
  for (const auto& [next, change] : bounds) {
    us[static_cast<std::size_t>(now())] += next - at;
    at = next;
    open[static_cast<std::size_t>(std::abs(change) - 1)] += change > 0 ? 1 : -1;
  }
  us[static_cast<std::size_t>(now())] += std::max(0.0, end - at);
  return us;
}

std::vector<PartGroup> groups_of(const std::array<double, kKinds>& us, double steps, bool stages) {
  std::vector<PartGroup> groups;
  const bool unknown = us[kUnknownGroup] > 0;
  PartGroup waits{{TimePart::host, TimePart::bubble}, us[kIdle]}, exchanged{{}, us[kUnknownGroup]};
  for (int i = 0; i < kTimeParts; ++i) {
    const auto part = static_cast<TimePart>(i);
    if (part == TimePart::host || part == TimePart::bubble) continue;
    const double own = us[static_cast<std::size_t>(i)];
    const bool communication = part >= TimePart::communication_tp;
    if (part == TimePart::communication_pp && stages && !unknown) {
      waits.parts.push_back(part), waits.ms += own;
    } else if (communication && unknown) {
      exchanged.parts.push_back(part), exchanged.ms += own;
    } else {
      groups.push_back({{part}, own});
    }
  }
  if (unknown) groups.push_back(exchanged);
  groups.push_back(waits);
  for (PartGroup& group : groups) group.ms /= 1000 * steps;
  return groups;
}

}  // namespace

MeasuredParts read_trace(std::istream& in, const std::string& file, const TraceOptions& options) {
  const Trace trace = read(in, file);
  const auto busiest = std::max_element(trace.devices.begin(), trace.devices.end(),
                                        [](const auto& a, const auto& b) { return a.second.busy < b.second.busy; });
  if (busiest == trace.devices.end())
    fail(ErrorKind::bad_input, file,
         "no kernel of a device is in it, need a trace of torch.profiler with ProfilerActivity.CUDA, or one of mbench "
         "--trace");
  const std::vector<Span>& spans = busiest->second.spans;
  double begin = spans.front().begin, end = spans.front().end, steps = 1;
  for (const Span& span : spans) begin = std::min(begin, span.begin), end = std::max(end, span.end);
  if (!trace.steps.empty()) {
    begin = trace.steps.begin()->second.first, end = trace.steps.begin()->second.second;
    for (const auto& [name, bounds] : trace.steps)
      begin = std::min(begin, bounds.first), end = std::max(end, bounds.second);
    steps = static_cast<double>(trace.steps.size());
  }
  if (options.steps > 0) steps = options.steps;
  MeasuredParts measured;
  measured.source = steps == 1 ? fmt::format("a step of {}", file) : fmt::format("{} steps of {}", steps, file);
  measured.groups = groups_of(sweep(spans, begin, end), steps, options.stages);
  for (const PartGroup& group : measured.groups) measured.step_ms += group.ms;
  return measured;
}

}  // namespace mbench::explain
