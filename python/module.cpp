// The module mbench._core: the public face, class for class. What Python adds (dicts, DataFrames) is in python/mbench.
#include <mbench/mbench.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace nb = nanobind;
using namespace nb::literals;

namespace {

const char* name_of(mbench::ErrorKind kind) {
  switch (kind) {
    case mbench::ErrorKind::bad_input:
      return "bad_input";
    case mbench::ErrorKind::out_of_memory:
      return "out_of_memory";
    case mbench::ErrorKind::infeasible:
      return "infeasible";
    case mbench::ErrorKind::unsupported:
      return "unsupported";
    case mbench::ErrorKind::launch_failed:
      return "launch_failed";
    case mbench::ErrorKind::timed_out:
      return "timed_out";
    case mbench::ErrorKind::wrong:
      return "wrong";
    case mbench::ErrorKind::internal:
      return "internal";
  }
  return "internal";
}

// Whether Python wants to end what runs: a signal (Ctrl-C) whose handler raised. The exception stands until the call returns.
bool signalled() {
  const nb::gil_scoped_acquire gil;
  return PyErr_CheckSignals() != 0;
}

// Work without Python's lock, so that other threads go on. What a handler raised is thrown once it has ended.
template <class Work>
auto without_lock(const Work& work) {
  auto result = [&] {
    const nb::gil_scoped_release released;
    return work();
  }();
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return result;
}

using Progress = std::function<void(const mbench::SearchOptions::Progress&)>;

// A callback of Python's that raises ends the search.
mbench::SearchResult search(mbench::Simulator& simulator, const std::string& spec, mbench::SearchOptions options,
                            const std::optional<Progress>& progress) {
  bool raised = false;
  if (progress)
    options.progress = [&](const mbench::SearchOptions::Progress& p) {
      const nb::gil_scoped_acquire gil;
      if (raised) return;
      try {
        (*progress)(p);
      } catch (nb::python_error& e) {
        e.restore();
        raised = true;
      }
    };
  options.interrupted = [&] { return raised || signalled(); };
  return without_lock([&] { return simulator.search(spec, options); });
}

void bind_spec(nb::module_& m) {
  nb::class_<mbench::Spec>(m, "Spec", "The points of a spec, in the order of their expansion.")
      .def("__len__", &mbench::Spec::size)
      .def_prop_ro("name", &mbench::Spec::name)
      .def_prop_ro("json", &mbench::Spec::json, "The spec's JSON, with the values of `set` in it.")
      .def_prop_ro("notes", &mbench::Spec::notes, "What was assumed or left out where the file was a trainer's.")
      .def("id", &mbench::Spec::id, "point"_a = 0)
      .def("label", &mbench::Spec::label, "point"_a = 0, "The swept fields of a point: \"tp=2 pp=1\".")
      .def("point_json", &mbench::Spec::point_json, "point"_a = 0);
  m.def(
      "load_spec",
      [](const std::string& path, std::vector<std::string> set, std::vector<std::string> filter, std::int64_t devices) {
        return mbench::load_spec(path, {std::move(set), std::move(filter), devices});
      },
      "path"_a, "set"_a = std::vector<std::string>(), "filter"_a = std::vector<std::string>(), "devices"_a = 0);
  m.def(
      "parse_spec",
      [](const std::string& json, std::vector<std::string> set, std::vector<std::string> filter) {
        return mbench::parse_spec(json, {std::move(set), std::move(filter)});
      },
      "json"_a, "set"_a = std::vector<std::string>(), "filter"_a = std::vector<std::string>());
  m.def(
      "import_files",
      [](const std::vector<std::string>& paths, const std::vector<std::string>& without) {
        mbench::Imported imported = mbench::import_files(paths, without);
        return std::pair(imported.json, imported.notes);
      },
      "paths"_a, "without"_a = std::vector<std::string>());
  m.def("export_point", &mbench::export_point, "spec"_a, "trainer"_a, "point"_a = 0);
}

void bind_plan(nb::module_& m) {
  nb::class_<mbench::StageMemory>(m, "StageMemory", "What each rank of a pipeline stage allocates at its peak, in MiB.")
      .def_ro("first_rank", &mbench::StageMemory::first_rank)
      .def_ro("ranks", &mbench::StageMemory::ranks)
      .def_ro("total_mib", &mbench::StageMemory::total_mib)
      .def_ro("by_category_mib", &mbench::StageMemory::by_category_mib)
      .def_ro("reserved_mib", &mbench::StageMemory::reserved_mib);
  nb::class_<mbench::StageLayers>(m, "StageLayers", "Layers of one pipeline stage.")
      .def_ro("stage", &mbench::StageLayers::stage)
      .def_ro("first_layer", &mbench::StageLayers::first_layer)
      .def_ro("layers", &mbench::StageLayers::layers)
      .def_ro("embedding", &mbench::StageLayers::embedding)
      .def_ro("head", &mbench::StageLayers::head);
  nb::class_<mbench::WeightPlacement>(m, "WeightPlacement", "A weight, and how it is spread over the mesh.")
      .def_ro("name", &mbench::WeightPlacement::name)
      .def_ro("shape", &mbench::WeightPlacement::shape)
      .def_ro("role", &mbench::WeightPlacement::role)
      .def_ro("placement", &mbench::WeightPlacement::placement);
  nb::class_<mbench::StepPlan>(m, "StepPlan", "How a point is laid out on its devices.")
      .def_ro("id", &mbench::StepPlan::id)
      .def_ro("devices", &mbench::StepPlan::devices)
      .def_ro("parameters", &mbench::StepPlan::parameters)
      .def_ro("vocab", &mbench::StepPlan::vocab)
      .def_ro("micro_batches", &mbench::StepPlan::micro_batches)
      .def_ro("stages", &mbench::StepPlan::stages)
      .def_ro("weights", &mbench::StepPlan::weights)
      .def_ro("memory", &mbench::StepPlan::memory);
  m.def(
      "make_plan",
      [](const mbench::Spec& spec, std::size_t point) {
        return without_lock([&] { return mbench::make_plan(spec, point); });
      },
      "spec"_a, "point"_a = 0);
}

void bind_result(nb::module_& m) {
  nb::class_<mbench::Expected>(m, "Expected", "Where a real step is to be expected, in ms.")
      .def_ro("low_ms", &mbench::Expected::low_ms)
      .def_ro("high_ms", &mbench::Expected::high_ms)
      .def_ro("rows", &mbench::Expected::rows)
      .def_ro("about", &mbench::Expected::about);
  nb::class_<mbench::Result>(m, "Result", "What came of a simulated step.")
      .def_prop_ro("id", &mbench::Result::id)
      .def_prop_ro("label", &mbench::Result::label)
      .def_prop_ro("outcome", &mbench::Result::outcome, "ok, oom, infeasible or unsupported.")
      .def_prop_ro("ok", &mbench::Result::ok)
      .def_prop_ro("reason", &mbench::Result::reason)
      .def_prop_ro("time_ms", &mbench::Result::time_ms, "Milliseconds of the step by what they were spent on.")
      .def_prop_ro("memory_mib", &mbench::Result::memory_mib, "MiB at the moment of the peak, by category.")
      .def_prop_ro("expected", &mbench::Result::expected)
      .def_prop_ro("json", &mbench::Result::json, "The row as it stands in results.json.")
      .def("metric", &mbench::Result::metric, "name"_a,
           "A metric by its name in results.json; None where it is unknown.");
  m.def(
      "tables",
      [](const mbench::Spec& spec, const std::vector<mbench::Result>& rows, std::string format,
         std::vector<std::string> tables, std::vector<std::string> columns) {
        return mbench::tables(spec, rows, {std::move(format), std::move(tables), std::move(columns)});
      },
      "spec"_a, "rows"_a, "format"_a = "md", "tables"_a = std::vector<std::string>(),
      "columns"_a = std::vector<std::string>());
  m.def("write_results", &mbench::write_results, "path"_a, "spec"_a, "rows"_a);
}

void bind_simulator(nb::module_& m) {
  nb::class_<mbench::Estimate>(m, "Estimate", "Time and memory of a step, without where blocks lie in memory.")
      .def_ro("step_ms", &mbench::Estimate::step_ms)
      .def_ro("peak_memory_mib", &mbench::Estimate::peak_memory_mib)
      .def_ro("fullest_rank", &mbench::Estimate::fullest_rank);
  nb::class_<mbench::SearchOptions::Progress>(m, "SearchProgress")
      .def_ro("meshes", &mbench::SearchOptions::Progress::meshes)
      .def_ro("decided_meshes", &mbench::SearchOptions::Progress::decided_meshes)
      .def_ro("layouts", &mbench::SearchOptions::Progress::layouts)
      .def_ro("decided", &mbench::SearchOptions::Progress::decided)
      .def_ro("simulated", &mbench::SearchOptions::Progress::simulated)
      .def_ro("best_ms", &mbench::SearchOptions::Progress::best_ms);
  nb::class_<mbench::SearchResult>(m, "SearchResult", "The best layouts, and why the others are not among them.")
      .def_ro("best", &mbench::SearchResult::best)
      .def_ro("front", &mbench::SearchResult::front)
      .def_ro("refused", &mbench::SearchResult::refused)
      .def_ro("too_large", &mbench::SearchResult::too_large)
      .def_ro("layouts", &mbench::SearchResult::layouts)
      .def_ro("simulated", &mbench::SearchResult::simulated)
      .def_ro("by_lower_bound", &mbench::SearchResult::by_lower_bound)
      .def_ro("seconds", &mbench::SearchResult::seconds)
      .def_ro("interrupted", &mbench::SearchResult::interrupted);
  nb::class_<mbench::Simulator>(m, "Simulator", "Steps on one machine of any size, without it.")
      .def(
          "__init__",
          [](mbench::Simulator* self, const std::string& machine, std::string framework,
             std::map<std::string, double> figures) {
            new (self) mbench::Simulator(machine, {std::move(framework), std::move(figures)});
          },
          "machine"_a, "framework"_a = "", "figures"_a = std::map<std::string, double>())
      .def_prop_ro("machine", &mbench::Simulator::machine)
      .def_prop_ro("devices", &mbench::Simulator::devices)
      .def(
          "simulate",
          [](mbench::Simulator& self, const mbench::Spec& spec, std::size_t point) {
            return without_lock([&] { return self.simulate(spec, point); });
          },
          "spec"_a, "point"_a = 0)
      .def(
          "simulate_all",
          [](mbench::Simulator& self, const mbench::Spec& spec) {
            return without_lock([&] { return self.simulate_all(spec, signalled); });
          },
          "spec"_a)
      .def(
          "estimate",
          [](mbench::Simulator& self, const mbench::Spec& spec, std::size_t point) {
            return without_lock([&] { return self.estimate(spec, point); });
          },
          "spec"_a, "point"_a = 0)
      .def(
          "what_if",
          [](mbench::Simulator& self, const std::map<std::string, double>& figures, const mbench::Spec& spec,
             std::size_t point) { return without_lock([&] { return self.what_if(figures, spec, point); }); },
          "figures"_a, "spec"_a, "point"_a = 0)
      .def(
          "search",
          [](mbench::Simulator& self, const std::string& spec, std::string objective, double rate, std::size_t best,
             bool front, int threads, std::string memory_margin, std::vector<std::string> set,
             const std::optional<Progress>& progress) {
            mbench::SearchOptions options;
            options.objective = std::move(objective);
            options.rate = rate;
            options.best = best;
            options.front = front;
            options.threads = threads;
            options.memory_margin = std::move(memory_margin);
            options.set = std::move(set);
            return search(self, spec, std::move(options), progress);
          },
          "spec"_a, "objective"_a = "time", "rate"_a = 0.0, "best"_a = 10, "front"_a = true, "threads"_a = 1,
          "memory_margin"_a = "", "set"_a = std::vector<std::string>(), "progress"_a.none() = nb::none(),
          "`spec`: a file, or its JSON where it begins with \"{\".");
  m.def("machines", &mbench::machines);
  m.def("frameworks", &mbench::frameworks);
  m.def("models", &mbench::models);
  m.def("machine_json", &mbench::machine_json, "name"_a);
  m.def("version", &mbench::version);
}

}  // namespace

NB_MODULE(_core, m) {
  m.doc() = "What a training step of a transformer costs on a machine, simulated.";
  static nb::handle error = PyErr_NewException("mbench.Error", PyExc_RuntimeError, nullptr);
  m.attr("Error") = error;
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void*) {
        try {
          std::rethrow_exception(thrown);
        } catch (const mbench::Error& e) {
          nb::object value = error(e.what());
          nb::setattr(value, "kind", nb::str(name_of(e.kind())));
          PyErr_SetObject(error.ptr(), value.ptr());
        }
      },
      nullptr);
  bind_spec(m);
  bind_plan(m);
  bind_result(m);
  bind_simulator(m);
}
