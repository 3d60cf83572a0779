#include "search/space.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "engine/base/json_reader.h"
#include "engine/point/abilities.h"
#include "engine/point/fields.h"
#include "engine/point/pipeline_layout.h"
#include "engine/point/point_builder.h"
#include "strategies/advice.h"
#include "strategies/stages.h"
#include "sweeps/spec/options.h"

namespace mbench::search {

// A field, or several that are offered together, with the strategy that offers it.
struct Offered {
  const strategies::Strategy* strategy;
  std::string joined;
  std::vector<std::string> fields;
  bool by_name = false;  // free only where the spec names one of them
};

namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using strategies::Choice;
using strategies::Strategy;

// Axes first, outer ones after those inside: each leaves fewer devices to the next. dp, which takes what is left, is last.
const std::vector<std::string> kAxisFields = {"tp", "pp", "cp", "dp"};

// Whether a mesh leaves the field open: what a sample costs at least on it does not depend on it (mesh_bounds.h).
bool within_mesh(const std::string& field) {
  const PointField* about = find_field(field);
  return field == "micro_batch" ||
         (about && about->kind == FieldKind::layout && about->bears_on.within(kAddedWithinMesh));
}

// Every choice that strategies offer for a point of this model, axes first.
std::vector<Offered> slots_of(const Point& base) {
  std::vector<Offered> axes(kAxisFields.size()), others;
  for (const Strategy& s : strategies::all_strategies()) {
    if (!s.choices) continue;
    for (const Choice& choice : s.choices(base, base.world())) {
      const auto axis = std::find(kAxisFields.begin(), kAxisFields.end(), choice.field);
      const Offered slot{&s, choice.field, sweeps::split_fields(choice.field), choice.by_name};
      if (axis == kAxisFields.end())
        others.push_back(slot);
      else
        axes[static_cast<std::size_t>(axis - kAxisFields.begin())] = slot;
    }
  }
  std::erase_if(axes, [](const Offered& slot) { return slot.fields.empty(); });
  axes.insert(axes.end(), others.begin(), others.end());
  return axes;
}

std::vector<std::string> offered_fields(const Point& base) {
  std::vector<std::string> names;
  for (const Offered& slot : slots_of(base)) names.insert(names.end(), slot.fields.begin(), slot.fields.end());
  return names;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

class Reader {
 public:
  explicit Reader(const SpaceOptions& options) : options_(options) {
    space_.path = options.path;
    space_.file = options.json ? *options.json : parse_json(read_text_file(options.path), options.path);
    top_ = options.path + ": $";
    if (!space_.file.is_object()) fail(ErrorKind::bad_input, top_, "wrong type, need the object of a spec");
    // Of the run that the spec describes, not of the layouts that are looked for.
    for (const char* key : {"published", "gates"}) space_.file.erase(key);
    for (const std::string& text : options.set) set(text);
  }

  Space read() {
    space_.name = std::filesystem::path(options_.path).stem().string();
    PointBuilder builder;
    for (const auto& [key, value] : space_.file.items()) {
      const std::string where = top_ + "." + key;
      if (key == "search" || key == "tables") continue;
      if (key == "$schema") {
        read_string(json(value), where);  // for editors: its text means nothing here
      } else if (key == "name") {
        space_.name = read_string(json(value), where);
      } else if (key == "sweep") {
        fail(ErrorKind::bad_input, where, "a search takes no sweep, need a list of values in the field itself");
      } else if (key == "device") {
        fail(ErrorKind::bad_input, where, "the device is no field of a spec, need --on");
      } else if (value == "any") {
        free(key, {}, where);
      } else if (value.is_array() && !(key == "pipeline_layout" && is_layout_list(value))) {
        if (value.empty()) fail(ErrorKind::bad_input, where, "got [], need at least one value, or \"any\"");
        std::vector<json> values;
        for (std::size_t i = 0; i < value.size(); ++i) {
          if (value[i] == "any") continue;
          PointBuilder().set(key, json(value[i]), fmt::format("{}[{}]", where, i));  // each is refused where it stands
          values.emplace_back(value[i]);
        }
        const bool joins = values.size() < value.size();
        free(key, joins ? std::vector<json>() : values, where);
        if (joins) space_.more[key] = values;
      } else {
        builder.set(key, json(value), where);
        space_.given.push_back(field_of(key));
      }
    }
    builder.set("device", options_.device, "--on");
    read_search();
    space_.base = builder.finish(top_);
    check_offered();
    return std::move(space_);
  }

 private:
  // A value, "any" or a list in the place of what stands there.
  void set(const std::string& text) {
    const sweeps::Assignment a = sweeps::parse_assignment(text, "--set");
    if (a.fields.size() > 1)
      fail(ErrorKind::bad_input, "--set " + text, "several fields, need one assignment for each");
    space_.file[a.fields[0]] = a.value;
    if (const auto found = space_.file.find("search"); found != space_.file.end() && found->is_array())
      found->erase(std::remove(found->begin(), found->end(), ordered_json(a.fields[0])), found->end());
  }

  void free(const std::string& field, std::vector<json> values, const std::string& where) {
    if (!find_field(field))
      fail(ErrorKind::bad_input, where, "unknown key, got \"{}\", {}", field, nearest_choice(field, point_keys()));
    if (!space_.free.emplace(field, std::move(values)).second)
      fail(ErrorKind::bad_input, where, "\"{}\" is free already, need it in one place", field);
  }

  void read_search() {
    const auto found = space_.file.find("search");
    if (found == space_.file.end()) return;
    const std::string where = top_ + ".search";
    if (*found == "all") {
      space_.all = true;
      return;
    }
    if (!found->is_array())
      fail(ErrorKind::bad_input, where, "wrong type, got {}, need an array of fields or \"all\"",
           short_json(json(*found)));
    for (std::size_t i = 0; i < found->size(); ++i) {
      const std::string path = fmt::format("{}[{}]", where, i);
      const std::string field = read_string(json((*found)[i]), path);
      if (contains(space_.given, field))
        fail(ErrorKind::bad_input, path, "\"{}\" is given at {}.{}, need it in one place", field, top_, field);
      free(field, {}, path);
    }
  }

  // A free field without values of its own is one that some strategy offers values of.
  void check_offered() {
    const std::vector<std::string> offered = offered_fields(space_.base);
    for (const auto& [field, values] : space_.free)
      if (values.empty() && !contains(offered, field))
        fail(ErrorKind::bad_input, top_, "no strategy offers values of \"{}\" for {}, need a list of them, {}", field,
             space_.base.model.name, nearest_choice(field, offered));
    for (const Offered& slot : slots_of(space_.base))
      for (const std::string& field : slot.fields)
        if (slot.fields.size() > 1 && space_.more.contains(field))
          fail(ErrorKind::bad_input, top_ + "." + field,
               "\"any\" and values for a field that is offered with others ({}), need \"any\" or a list",
               fmt::join(slot.fields, ", "));
    if (space_.free.empty() && !space_.all)
      fail(ErrorKind::bad_input, top_, "no field is free, need \"search\": [fields], or a field that is \"any\"");
  }

  const SpaceOptions& options_;
  Space space_;
  std::string top_;
};

// A fault with its numbers as #, so that faults of one kind are one.
std::string kind_of(const std::string& fault) {
  std::string kind;
  for (const char c : fault) {
    if (c < '0' || c > '9')
      kind += c;
    else if (kind.empty() || kind.back() != '#')
      kind += '#';
  }
  return kind;
}

}  // namespace

bool Space::is_free(const std::string& field) const {
  if (free.contains(field)) return true;
  const bool is_given = contains(given, field);
  return !is_given && (all || field == "dp");
}

const std::vector<nlohmann::json>& Space::values(const std::string& field) const {
  static const std::vector<json> none;
  const auto found = free.find(field);
  return found == free.end() ? none : found->second;
}

bool is_axis(const std::string& field) {
  return contains(kAxisFields, field);
}

Space read_space(const SpaceOptions& options) {
  return Reader(options).read();
}

class Layouts::Walk {
 public:
  Walk(const Space& space, std::int64_t devices, bool fill)
      : space_(space), base_(space.base), devices_(devices), fill_(fill) {
    for (const Offered& slot : slots_of(space.base)) {
      const bool wanted = std::any_of(slot.fields.begin(), slot.fields.end(), [&](const auto& f) {
        return slot.by_name ? space.free.contains(f) : space.is_free(f);
      });
      if (wanted) slots_.push_back(slot);
      // Any number of stages has a layout, which is chosen behind it.
      if (wanted && contains(slot.fields, "pipeline_layout")) base_.pipeline_layout = strategies::kEvenLayout;
    }
    // Lists of fields that strategies offer no values for.
    for (const auto& entry : space.free) {
      const std::string& field =
          entry.first;  // by a name of its own: Clang 16 with OpenMP captures no structured binding
      const bool has_slot =
          std::any_of(slots_.begin(), slots_.end(), [&](const Offered& s) { return contains(s.fields, field); });
      if (!entry.second.empty() && !has_slot) slots_.push_back({nullptr, field, {field}});
    }
    const auto last = std::stable_partition(slots_.begin(), slots_.end(), [](const Offered& slot) {
      return !std::all_of(slot.fields.begin(), slot.fields.end(), [](const auto& f) { return within_mesh(f); });
    });
    meshes_ = static_cast<std::size_t>(last - slots_.begin());
    // What larger micro batches can be, smaller ones can: the others are chosen for the smallest.
    const auto micro_batch = std::find_if(slots_.begin(), slots_.end(), [](const Offered& s) {
      return s.fields == std::vector<std::string>{"micro_batch"};
    });
    if (micro_batch == slots_.end()) return;
    micro_batch_ = *micro_batch;
    slots_.erase(micro_batch);
  }

  // Calls `found` with each point in which the slots from `level` to `end` have a value; it and this return false to stop.
  template <class Found>
  bool each(const Point& point, std::size_t level, std::size_t end, const Found& found) const {
    if (point.world() > devices_) return true;
    if (level == end) return found(point);
    const Offered& slot = slots_[level];
    for (const std::vector<json>& setting : settings_of(slot, point)) {
      Point next = point;
      for (std::size_t i = 0; i < setting.size(); ++i) set_field(next, slot.fields[i], setting[i], "search");
      if (!each(next, level + 1, end, found)) return false;
    }
    return true;
  }

  void each_mesh(const std::function<bool(const Point&)>& found) const { each(base_, 0, meshes_, found); }

  bool each_family(const Point& mesh, const Family& found) const {
    return each(mesh, meshes_, slots_.size(),
                [&](const Point& point) { return found(point, micro_batches_of(point)); });
  }

 private:
  bool filled() const { return fill_ && space_.is_free("dp") && space_.values("dp").empty(); }

  // A value for each field of the slot.
  std::vector<std::vector<json>> settings_of(const Offered& slot, const Point& point) const {
    std::vector<std::vector<json>> settings;
    if (slot.fields.size() == 1) {
      const std::string& field = slot.fields[0];
      if (const auto& own = space_.values(field); !own.empty()) {
        for (const json& value : own) settings.push_back({value});
        return settings;
      }
      if (field == "dp" && filled()) {
        const std::int64_t others = point.world() / point.dp;
        if (devices_ % others == 0) settings.push_back({devices_ / others});
        return settings;
      }
      if (const auto more = space_.more.find(field); more != space_.more.end())
        for (const json& value : more->second) settings.push_back({value});
    }
    const std::size_t joined = settings.size();
    bool foreign = false;  // whether values are offered that the framework has not
    const std::vector<Choice> choices = slot.strategy->choices(point, devices_ * point.dp / point.world());
    for (const Choice& choice : choices) {
      if (choice.field != slot.joined) continue;
      if (slot.by_name && lists(slot)) return crossed(slot, choice);
      for (const json& value : choice.values) {
        std::vector<json> setting;
        if (slot.fields.size() == 1)
          setting = {value};
        else
          setting.assign(value.begin(), value.end());
        const auto listed = settings.begin() + static_cast<std::ptrdiff_t>(joined);
        if (std::find(settings.begin(), listed, setting) != listed) continue;
        if (!allowed(slot, setting)) continue;
        if (in_framework(slot, setting, point))
          settings.push_back(std::move(setting));
        else
          foreign = true;
      }
    }
    // What the point has where the framework has that, and nothing of what is offered.
    if (settings.empty() && foreign && in_framework(slot, values_at(slot, point), point))
      settings = {values_at(slot, point)};
    if (settings.empty()) settings = as_given(slot, point);
    return settings;
  }

  // For fields that are offered together, where the spec gives some and no offer agrees: their values at the point. zero 1 of one rank
  // is never offered. Strategies decide whether the values are possible.
  std::vector<std::vector<json>> as_given(const Offered& slot, const Point& point) const {
    if (std::none_of(slot.fields.begin(), slot.fields.end(), [&](const auto& f) { return contains(space_.given, f); }))
      return {};
    if (lists(slot)) return {};
    return {values_at(slot, point)};
  }

  static std::vector<json> values_at(const Offered& slot, const Point& point) {
    std::vector<json> values;
    for (const std::string& field : slot.fields) values.push_back(json(point_field(point, field)));
    return values;
  }

  // Whether the spec lists values of one of the fields.
  bool lists(const Offered& slot) const {
    return std::any_of(slot.fields.begin(), slot.fields.end(),
                       [&](const auto& f) { return !space_.values(f).empty(); });
  }

  // All combinations of the values that the spec lists. A field without a list has its given value, else the offered ones.
  std::vector<std::vector<json>> crossed(const Offered& slot, const Choice& offered) const {
    std::vector<std::vector<json>> settings{{}};
    for (std::size_t i = 0; i < slot.fields.size(); ++i) {
      const std::string& field = slot.fields[i];
      std::set<json> values(space_.values(field).begin(), space_.values(field).end());
      if (values.empty() && contains(space_.given, field)) values.insert(json(point_field(space_.base, field)));
      if (values.empty())
        for (const json& value : offered.values) values.insert(value.at(i));
      std::vector<std::vector<json>> longer;
      for (const std::vector<json>& setting : settings)
        for (const json& value : values) {
          longer.push_back(setting);
          longer.back().push_back(value);
        }
      settings = std::move(longer);
    }
    return settings;
  }

  // Some of the fields that are offered together may be given, or have lists of their own.
  bool allowed(const Offered& slot, const std::vector<json>& setting) const {
    for (std::size_t i = 0; i < setting.size(); ++i) {
      const std::string& field = slot.fields[i];
      if (const auto& own = space_.values(field); !own.empty()) {
        if (std::find(own.begin(), own.end(), setting[i]) == own.end()) return false;
      } else if (contains(space_.given, field)) {
        Point other = space_.base;
        set_field(other, field, setting[i], "search");
        if (!(other == space_.base)) return false;
      }
    }
    return true;
  }

  // Whether the framework has those values that the spec does not name itself.
  bool in_framework(const Offered& slot, const std::vector<json>& setting, const Point& point) const {
    for (std::size_t i = 0; i < setting.size(); ++i) {
      const std::string& field = slot.fields[i];
      if (field == "sequence_parallel" && point.tp == 1) continue;  // says nothing there
      if (!has(space_.can, field, setting[i]) && space_.values(field).empty() && !contains(space_.given, field))
        return false;
    }
    return true;
  }

  std::vector<std::int64_t> micro_batches_of(const Point& point) const {
    if (!micro_batch_) return {point.micro_batch};
    std::vector<std::int64_t> all;
    Point p = point;
    for (const std::vector<json>& setting : settings_of(*micro_batch_, point)) {
      set_field(p, "micro_batch", setting[0], "search");
      all.push_back(p.micro_batch);
    }
    std::sort(all.begin(), all.end());
    return all;
  }

  const Space& space_;
  Point base_;
  std::int64_t devices_;
  bool fill_;
  std::vector<Offered> slots_;
  std::size_t meshes_ = 0;  // slots before this one make a mesh
  std::optional<Offered> micro_batch_;
};

Layouts::Layouts(const Space& space, std::int64_t devices, bool fill) : walk_(new Walk(space, devices, fill)) {}
Layouts::~Layouts() = default;

void Layouts::each_mesh(const std::function<bool(const Point&)>& found) const {
  walk_->each_mesh(found);
}

bool Layouts::each_family(const Point& mesh, const Family& found) const {
  return walk_->each_family(mesh, found);
}

bool can_be(const Space& space, const Point& point, std::map<std::string, Refused>& refused) {
  const auto fault = strategies::first_fault(point);
  if (!fault) return true;
  Refused& kind = refused[kind_of(fault->what)];
  if (kind.count++ == 0) kind.example = strategies::explain(point, *fault), kind.layout = label_of(space, point);
  return false;
}

void refuse(const Space& space, const Point& point, const std::string& reason,
            std::map<std::string, Refused>& refused) {
  Refused& kind = refused[kind_of(reason)];
  if (kind.count++ == 0) kind.example = reason, kind.layout = label_of(space, point);
}

void each_layout(const Space& space, std::int64_t devices, bool fill, std::map<std::string, Refused>& refused,
                 const std::function<bool(const Point&)>& found) {
  const Layouts layouts(space, devices, fill);
  layouts.each_mesh([&](const Point& mesh) {
    return layouts.each_family(mesh, [&](const Point& point, const std::vector<std::int64_t>& micro_batches) {
      Point p = point;
      for (const std::int64_t samples : micro_batches) {
        p.micro_batch = samples;
        if (can_be(space, p, refused) && !found(p)) return false;
      }
      return true;
    });
  });
}

std::string label_of(const Space& space, const Point& point) {
  const Point plain;
  const ordered_json fields = point_to_json(point), defaults = point_to_json(plain);
  const std::vector<std::string> offered = space.all ? offered_fields(space.base) : std::vector<std::string>();
  std::string label;
  for (const std::string& field : point_keys()) {
    const bool mine =
        space.free.contains(field) || field == "dp" ||
        (!contains(space.given, field) && (contains(offered, field) || fields.at(field) != defaults.at(field)));
    if (!mine || field == "device" || field == "model") continue;
    const bool axis = contains(kAxisFields, field);
    if (fields.at(field) == defaults.at(field) && !axis && field != "micro_batch" && field != "zero" &&
        field != "recompute")
      continue;
    if (axis && field != "tp" && field != "pp" && field != "dp" && fields.at(field) == 1) continue;
    const ordered_json value = field == "framework" ? ordered_json(name_of(point.framework)) : fields.at(field);
    label += fmt::format("{}{}={}", label.empty() ? "" : " ", field,
                         value.is_string() ? value.get<std::string>() : value.dump());
  }
  return label;
}

void set_field(Point& point, const std::string& field, const json& value, const std::string& where) {
  set_point_field(point, field, value, where);
}

}  // namespace mbench::search
