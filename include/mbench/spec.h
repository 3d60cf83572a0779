// Specs: which model is trained, in which layout. docs/reference/fields.md lists the fields, docs/spec.md how a sweep crosses them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "error.h"
#include "export.h"

namespace mbench {

struct SpecOptions {
  std::vector<std::string> set;  // "field=value" for every point, as `mbench sweep --set`: {"tp=8", "model.layers=32"}
  std::vector<std::string> filter;  // "field=value": only the points with that value
  // That run it, for a trainer's file that leaves a degree to them, as torchtitan's data_parallel_shard_degree = -1; 0: not known.
  std::int64_t devices = 0;
};

/// The points of a spec, in the order of their expansion. A value: copies share what they hold.
class MBENCH_EXPORT Spec {
 public:
  /// How many points there are; one where nothing is swept. Below, `point` is less than this; out of range throws bad_input.
  std::size_t size() const;
  std::string name() const;
  /// The spec's JSON, with the options' values in it.
  std::string json() const;
  /// What identifies a point in stored results, on a real machine.
  std::string id(std::size_t point = 0) const;
  /// Its swept fields, "tp=2 pp=1 seq=128"; the model's name where none is swept.
  std::string label(std::size_t point = 0) const;
  /// What was assumed or left out where the file was a trainer's, a line each; empty for a spec.
  std::vector<std::string> notes() const;
  /// All fields of a point, as a JSON object.
  std::string point_json(std::size_t point = 0) const;

  struct State;
  explicit Spec(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  const State& state() const { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};

/// Reads a spec, a result file, or the folder of a sweep or search. Also reads trainers' own files: the config.json of a Hugging Face
/// model, a script or YAML of Megatron-LM, a TOML of torchtitan. Throws Error (bad_input) with file and JSON path.
MBENCH_EXPORT Spec load_spec(const std::string& path, const SpecOptions& options = {});
/// The same for a spec's text. Relative file names in it are resolved against the current folder.
MBENCH_EXPORT Spec parse_spec(const std::string& json, const SpecOptions& options = {});

/// What came of reading trainers' files: the spec, and a note for each setting that was assumed or has no meaning for time and memory.
struct Imported {
  std::string json;  // a spec
  std::vector<std::string> notes;
};
/// Merges trainers' files (a model's config and a run's). A later file overrides those before it. Throws unsupported and names every
/// key that mbench does not model. `without`: keys to leave out.
MBENCH_EXPORT Imported import_files(const std::vector<std::string>& paths,
                                    const std::vector<std::string>& without = {});
/// The trainer's settings that run a point. `trainer`: megatron, megatron-bridge, torchtitan, hf or deepspeed. Throws unsupported and
/// names every field that the trainer cannot express.
MBENCH_EXPORT std::string export_point(const Spec& spec, const std::string& trainer, std::size_t point = 0);

}  // namespace mbench
