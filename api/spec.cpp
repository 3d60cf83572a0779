#include "include/mbench/spec.h"

#include "api/state.h"
#include "engine/base/error.h"
#include "engine/base/json_reader.h"

namespace mbench {
namespace {

// `imported` has the spec where it is not read from the file itself.
Spec read(sweeps::SpecOptions options, std::optional<formats::Imported> imported) {
  std::vector<std::string> notes;
  if (imported) {
    options.json = std::move(imported->spec);
    notes = std::move(imported->notes);
  }
  Spec::State state{sweeps::read_spec(options), std::move(notes)};
  return Spec(std::make_shared<const Spec::State>(std::move(state)));
}

}  // namespace

const sweeps::SpecPoint& Spec::State::at(std::size_t point) const {
  if (point >= spec.points.size())
    fail(ErrorKind::bad_input, spec.name, "has no point {}, need less than {}", point, spec.points.size());
  return spec.points[point];
}

std::size_t Spec::size() const {
  return state_->spec.points.size();
}
std::string Spec::name() const {
  return state_->spec.name;
}
std::string Spec::json() const {
  return dump_json(state_->spec.json);
}
std::vector<std::string> Spec::notes() const {
  return state_->notes;
}
std::string Spec::id(std::size_t point) const {
  return state_->at(point).id;
}
std::string Spec::label(std::size_t point) const {
  return state_->at(point).label;
}
std::string Spec::point_json(std::size_t point) const {
  return dump_json(point_to_json(state_->at(point).point));
}

Spec load_spec(const std::string& path, const SpecOptions& options) {
  formats::ImportOptions how;
  how.devices = options.devices;
  return read({path, options.set, options.filter}, formats::spec_of_file(path, how));
}

Spec parse_spec(const std::string& json, const SpecOptions& options) {
  return read({"spec", options.set, options.filter}, api::spec_of_text(json));
}

formats::Imported api::spec_of_text(const std::string& json) {
  if (std::optional<formats::Imported> imported = formats::with_model_of_config(json, "spec")) return *imported;
  return {parse_json(json, "spec"), {}};
}

Imported import_files(const std::vector<std::string>& paths, const std::vector<std::string>& without) {
  formats::ImportOptions options;
  options.without = without;
  const formats::Imported imported = formats::import_files(paths, options);
  return {dump_json(imported.spec), imported.notes};
}

std::string export_point(const Spec& spec, const std::string& trainer, std::size_t point) {
  return formats::export_point(spec.state().at(point).point, formats::read_target(trainer, "trainer"));
}

}  // namespace mbench
