#include "include/mbench/spec.h"

#include <filesystem>

#include "api/state.h"
#include "engine/base/error.h"
#include "engine/base/json_reader.h"
#include "formats/formats.h"

namespace mbench {
namespace {

Spec read(sweeps::SpecOptions options, std::vector<std::string> notes) {
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

std::optional<api::TrainerSpec> api::trainer_spec(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return std::nullopt;  // the reader of specs says what it is
  if (formats::recognise(read_text_file(path), path) == formats::Format::spec) return std::nullopt;
  formats::Imported imported = formats::import_files({path});
  return TrainerSpec{std::move(imported.spec), std::move(imported.notes)};
}

Spec load_spec(const std::string& path, const SpecOptions& options) {
  sweeps::SpecOptions how{path, options.set, options.filter};
  std::optional<api::TrainerSpec> trainer = api::trainer_spec(path);
  if (trainer) how.json = std::move(trainer->json);
  return read(std::move(how), trainer ? std::move(trainer->notes) : std::vector<std::string>());
}

Spec parse_spec(const std::string& json, const SpecOptions& options) {
  sweeps::SpecOptions how{"spec", options.set, options.filter};
  how.json = parse_json(json, "spec");
  return read(std::move(how), {});
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
