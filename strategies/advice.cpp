#include "strategies/advice.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>

#include "engine/base/error.h"
#include "engine/point/bundles.h"
#include "engine/point/point_builder.h"
#include "strategies/stages.h"

namespace mbench::strategies {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kMostChanges = 16;
constexpr int kMostNumbers = 4096;         // that are tried of one field
constexpr std::size_t kMostPoints = 2048;  // that are tried for one way
constexpr std::string_view kOfModel = "model.";

void set_of_model(Point& point, const std::string& key, const json& value) {
  json model = write_model(point.model);
  if (model.is_string()) model = {{"preset", model}};
  model[key] = value;
  const std::string name = point.model.name;
  point.model = read_model(model, "advice");
  point.model.name = name;
}

void set(Point& point, const Change& change) {
  if (change.field.starts_with(kOfModel))
    return set_of_model(point, change.field.substr(kOfModel.size()), change.value);
  if (change.field == "device")
    point.device = change.value;
  else
    set_point_field(point, change.field, change.value, "advice");
  if (change.field != "strategy") return;
  for (const Bundle& bundle : bundles())
    if (change.value == bundle.name)
      for (const auto& [key, value] : bundle.fields.items()) set_point_field(point, key, value, "advice");
}

bool edits(std::string_view values) {
  return !values.empty() && (values.front() == '+' || values.front() == '-');
}

// The regions of `now` without those behind a "-" and with those behind a "+".
std::string edited(const Recompute& now, std::string_view edits) {
  std::vector<std::string> regions;
  const std::string text = now == Recompute::none ? "" : now == Recompute::selective ? "core_attention" : name_of(now);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    regions.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  while (!edits.empty()) {
    const std::size_t end = std::min(edits.find_first_of("+-", 1), edits.size());
    const std::string region(edits.substr(1, end - 1));
    std::erase(regions, region);
    if (edits.front() == '+') regions.push_back(region);
    edits.remove_prefix(end);
  }
  return regions.empty() ? "none" : fmt::format("{}", fmt::join(regions, "+"));
}

json layout_of(const Point& point, std::string_view value) {
  return value == kEvenLayout ? even_text(point) : std::string();
}

json value_of(std::string_view text) {
  if (text == "true" || text == "false") return text == "true";
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos)
    return std::stoll(std::string(text));
  return std::string(text);
}

std::vector<json> named_values(const Point& point, const Way& way) {
  std::vector<json> values;
  for (std::string_view left = way.values; !left.empty();) {
    const std::size_t end = std::min(left.find('|'), left.size());
    const std::string_view text = left.substr(0, end);
    values.push_back(edits(text)                      ? json(edited(point.recompute, text))
                     : way.field == "pipeline_layout" ? layout_of(point, text)
                                                      : value_of(text));
    left.remove_prefix(std::min(end + 1, left.size()));
  }
  return values;
}

// Numbers of a way, nearest to `now` first, until `take`, which is told whether one is above `now`, has had enough: it returns
// false for a side that it wants no more of.
void each_number(const Way& way, std::int64_t now, const std::function<bool(std::int64_t, bool above)>& take) {
  const std::int64_t step = way.multiple_of, high = way.divides == 0 ? way.high : std::min(way.high, way.divides);
  std::int64_t below = std::min(now - 1, high), above = std::max(now + 1, way.low);
  below -= (below % step + step) % step;
  above += (step - above % step) % step;
  bool down = true, up = true;
  const auto fits = [&](std::int64_t n) { return way.divides == 0 || way.divides % n == 0; };
  for (int tried = 0; tried < kMostNumbers;) {
    down = down && below >= way.low, up = up && above <= high;
    if (!down && !up) return;
    if (down && (!up || now - below <= above - now)) {
      if (fits(below)) ++tried, down = take(below, false);
      below -= step;
    } else {
      if (fits(above)) ++tried, up = take(above, true);
      above += step;
    }
  }
}

// The number that a field has; of a model's no strategy asks for more than one value.
std::int64_t number_in(const Point& point, std::string_view field) {
  if (field.starts_with(kOfModel)) return 0;
  return point_to_json(point).at(std::string(field)).get<std::int64_t>();
}

// A point on the way to one that can be.
struct Step {
  Point point;
  Remedy changes;
  MaybeFault fault;  // the first
  std::size_t faults = 0;
};

std::optional<Step> next_step(const Step& from, std::string_view field, const json& value) {
  Step to{from.point, from.changes, {}, 0};
  std::erase_if(to.changes, [&](const Change& c) { return c.field == field; });
  to.changes.push_back({std::string(field), value});
  try {
    set(to.point, to.changes.back());
  } catch (const Error&) {
    return std::nullopt;
  }
  if (to.point == from.point) return std::nullopt;
  for (const Strategy& s : all_strategies()) {
    if (!s.why_not) continue;
    MaybeFault fault = s.why_not(to.point);
    if (!fault) continue;
    ++to.faults;
    if (!to.fault || (to.fault->outcome == Outcome::unsupported && fault->outcome == Outcome::infeasible))
      to.fault = std::move(fault);
  }
  return to;
}

// The steps of a way that can be; numbers the nearest alone.
std::vector<Step> accepted(const Step& from, const Way& way) {
  std::vector<Step> steps;
  const auto take = [&](const json& value) {
    auto step = next_step(from, way.field, value);
    if (!step || step->faults > 0) return false;
    steps.push_back(std::move(*step));
    return true;
  };
  if (!way.values.empty())
    for (const json& value : named_values(from.point, way)) take(value);
  else
    each_number(way, number_in(from.point, way.field), [&](std::int64_t n, bool) { return !take(n); });
  const auto number = [](const Step& s) { return s.changes.back().value.get<std::int64_t>(); };
  if (way.values.empty() && steps.size() == 2 && number(steps[1]) < number(steps[0])) std::swap(steps[0], steps[1]);
  return steps;
}

// The steps of a way from which to go on: of numbers those with the fewest faults, and the lowest, which often switches something off.
std::vector<Step> openings(const Step& from, const Way& way) {
  constexpr int kLooked = 32;
  constexpr std::size_t kKept = 4;
  std::vector<Step> steps;
  const auto take = [&](const json& value) {
    if (auto step = next_step(from, way.field, value)) steps.push_back(std::move(*step));
  };
  if (!way.values.empty()) {
    for (const json& value : named_values(from.point, way)) take(value);
    return steps;
  }
  int looked = 0;
  each_number(way, number_in(from.point, way.field), [&](std::int64_t n, bool) {
    take(n);
    return ++looked < kLooked;
  });
  std::stable_sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.faults < b.faults; });
  if (steps.size() > kKept) steps.resize(kKept);
  take(way.low);
  return steps;
}

// Without changes that others made needless: one that goes may free another that was looked at before.
Remedy needed(const Point& point, Remedy remedy) {
  for (bool again = true; again;) {
    again = false;
    for (std::size_t i = 0; i < remedy.size() && remedy.size() > 1;) {
      Remedy fewer = remedy;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
      const auto other = with(point, fewer);
      if (other && can_be(*other))
        remedy = std::move(fewer), again = true;
      else
        ++i;
    }
  }
  return remedy;
}

// The fewest changes, at most so many, that begin with this way; empty if none were found. The search goes on where changes made,
// each counted so often, and faults left, each counted four times, are fewest. A strategy may have faults behind its first, so this
// bounds nothing, and only tells where to look.
Remedy completed(const Step& from, const Way& first, std::size_t most, std::size_t counted) {
  struct Open {
    std::size_t cost, order;
    Step step;
  };
  const auto later = [](const Open& a, const Open& b) {
    return std::tuple(a.cost, b.step.changes.size(), a.order) > std::tuple(b.cost, a.step.changes.size(), b.order);
  };
  std::priority_queue<Open, std::vector<Open>, decltype(later)> open(later);
  std::size_t points = 0;
  const auto go = [&](const Step& step, const Way& way) {
    // No field goes round; regions may each be changed.
    const auto done = [&](const Change& c) { return c.field == way.field; };
    if (!edits(way.values) && std::ranges::any_of(step.changes, done)) return;
    for (Step& next : openings(step, way)) {
      const std::size_t cost = counted * next.changes.size() + 4 * next.faults;
      open.push({cost, points++, std::move(next)});
    }
  };
  go(from, first);
  while (!open.empty() && points < kMostPoints) {
    const Step step = open.top().step;
    open.pop();
    if (step.faults == 0) return needed(from.point, step.changes);
    if (step.changes.size() >= most) continue;
    for (const Way& way : step.fault->ways) go(step, way);
  }
  return {};
}

// What a named strategy bundles is changed with the name, to that of another one or to none.
Remedy spelled(const Point& point, Remedy remedy) {
  const std::vector<std::string>& keys = bundled_keys();
  const auto has = [&](const std::string& key) {
    return std::ranges::any_of(remedy, [&](const Change& c) { return c.field == key; });
  };
  if (point.strategy.empty() || std::ranges::none_of(keys, has)) return remedy;
  const ordered_json then = point_to_json(*with(point, remedy)), defaults = point_to_json(Point());
  for (const Bundle& bundle : bundles())
    if (std::ranges::all_of(keys, [&](const std::string& key) { return bundle.fields.at(key) == then.at(key); })) {
      remedy.push_back({"strategy", bundle.name});
      return remedy;
    }
  for (const std::string& key : keys)
    if (!has(key) && then.at(key) != defaults.at(key)) remedy.push_back({key, json(then.at(key))});
  remedy.push_back({"strategy", ""});
  return remedy;
}

std::string in_words(const json& value) {
  return value.is_string() && value != "" ? value.get<std::string>() : value.dump();
}

std::string in_words(const Change& change) {
  const std::string_view field = change.field;
  return fmt::format("{} {}", field.starts_with(kOfModel) ? field.substr(kOfModel.size()) : field,
                     in_words(change.value));
}

// "a, b or c"; with more than words in them "a, b, or c".
std::string any_of(const std::vector<std::string>& all, std::string_view last) {
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i > 0) text += i + 1 < all.size() ? std::string_view(", ") : last;
    text += all[i];
  }
  return text;
}

}  // namespace

std::optional<Point> with(const Point& point, const Remedy& remedy) {
  Point other = point;
  try {
    for (const Change& change : remedy) set(other, change);
  } catch (const Error&) {
    return std::nullopt;
  }
  return other;
}

std::vector<Remedy> remedies(const Point& point, const Fault& fault) {
  const Step from{point, {}, fault, 1};
  std::vector<Remedy> found;
  std::vector<Way> rest;
  for (const Way& way : fault.ways) {
    const std::vector<Step> steps = accepted(from, way);
    for (const Step& step : steps)
      if (std::ranges::find(found, step.changes) == found.end()) found.push_back(step.changes);
    if (steps.empty()) rest.push_back(way);
  }
  // One change more than the fewest is worth it where it is the one that somebody wants.
  std::size_t most = found.empty() ? kMostChanges : 2;
  for (const Way& way : rest) {
    Remedy remedy = completed(from, way, most, 4);
    for (const std::size_t counted : {1, 0})  // where many are needed, the fewest are too far off
      if (remedy.empty() && found.empty()) remedy = completed(from, way, most, counted);
    const auto same = [&](const Remedy& other) {
      return std::ranges::is_permutation(remedy, other, {}, &Change::field, &Change::field);
    };
    if (remedy.empty() || std::ranges::any_of(found, same)) continue;
    most = std::min(most, remedy.size() + 1);
    const Change& only = remedy.front();
    if (remedy.size() == 1 && only.value.is_number_integer() && only.field != "zero" &&
        !only.field.starts_with(kOfModel)) {
      // Another field than the way's, of which a nearer value may do.
      const auto [low, high] = std::minmax({number_in(point, only.field), only.value.get<std::int64_t>()});
      for (const Step& step : accepted(from, within(only.field, low, high))) found.push_back(step.changes);
    } else {
      found.push_back(std::move(remedy));
    }
  }
  std::erase_if(found, [&](const Remedy& r) { return r.size() > most; });
  const auto by_changes = [&] { std::ranges::stable_sort(found, {}, &Remedy::size); };
  by_changes();
  if (!found.empty() && found.front().size() > 2) found.resize(1);  // the others end as it does
  for (Remedy& remedy : found) remedy = spelled(point, std::move(remedy));
  by_changes();
  return found;
}

std::string explain(const Point& point, const Fault& fault) {
  std::vector<std::string> all;
  bool plain = true;
  const std::vector<Remedy> found = remedies(point, fault);
  for (std::size_t i = 0; i < found.size();) {
    std::vector<std::string> words;
    std::size_t same = i + 1;
    if (found[i].size() == 1) {
      words.push_back(in_words(found[i].front()));
      for (; same < found.size() && found[same].size() == 1 && found[same].front().field == found[i].front().field;
           ++same)
        words.push_back(in_words(found[same].front().value));
      all.push_back(any_of(words, " or "));
    } else {
      for (const Change& change : found[i]) words.push_back(in_words(change));
      all.push_back(fmt::format("{}", fmt::join(words, " and ")));
    }
    plain = plain && words.size() == 1;
    i = same;
  }
  if (all.empty()) return fmt::format("{}, need several fields changed: which ones was not found", fault.what);
  return fmt::format("{}, need {}", fault.what, any_of(all, plain ? " or " : ", or "));
}

}  // namespace mbench::strategies
