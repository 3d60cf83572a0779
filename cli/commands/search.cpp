// mbench search: the best layouts of a model on a simulated machine, and why the others are not.
#include "search/search.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "api/free_layout.h"
#include "api/prepare_search.h"
#include "api/trainer_flags.h"
#include "cli/cli.h"
#include "cli/environment.h"
#include "cli/find_spec.h"
#include "cli/measure.h"
#include "cli/out_folder.h"
#include "cli/search_report.h"
#include "cli/seconds.h"
#include "cli/sensitivity.h"
#include "engine/base/atomic_file.h"
#include "engine/base/folder_lock.h"
#include "engine/base/text.h"
#include "engine/point/result_file.h"
#include "engine/process/process.h"
#include "reports/plots/gnuplot.h"
#include "reports/plots/report_plots.h"
#include "reports/tables/report.h"
#include "sweeps/spec/found_layouts.h"
#include "sweeps/spec/spec.h"

namespace mbench::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSearchAbout =
    "Finds the best layouts of SPEC on a simulated machine: which TP, PP, CP, EP, ZeRO, micro batch, recompute and "
    "schedule.\n"
    "Fields of SPEC that are \"any\", a list, or named in \"search\" are free. Values that "
    "SPEC's\n"
    "framework cannot run are not tried.\n"
    "Of a trainer's script, YAML or TOML the whole layout is free; --set keeps a part of it, and the file's own is "
    "compared.\n"
    "Layouts that cannot be, that do not fit and that cannot be better than those found are counted with the reason.";

constexpr const char* kSearchFooter =
    "Objectives: time (of a step, the default), memory (of the fullest rank), tokens_per_device (a second, layouts "
    "may\n"
    "leave devices idle), devices (the fewest that reach --rate). Ctrl-C keeps the best so far (exit code 3).\n"
    "\n"
    "Examples:\n"
    "  mbench search search/llama-3-70b-64 --on sim:64xH100-SXM5-80GB\n"
    "  mbench search search/llama-3-8b-8 --on sim:8xH100-SXM5-80GB --why tp=8,pp=1\n"
    "  mbench search search/llama-3-8b-8 --on sim:8xH100-SXM5-80GB --set machine.node.p2p_gbps=600";

struct SearchCommandOptions {
  search::SpaceOptions space;
  formats::ImportOptions trainer;  // how a trainer's file is read
  std::string out, objective = "time", why, memory_margin;
  double rate = 0, front_within = 1.5;
  int best = 10, threads = 0, measure = 0;
  bool confirm = false, quiet = false, no_front = false, sensitivities = false;
};

constexpr const char* kLimit = "usable_memory_mib";  // in the environment of a search's results, and of no others

// "64 of 900 meshes, 12345 layouts, 600 simulated, best 8.96 s", on one line of the terminal, or nothing.
class Line {
 public:
  explicit Line(bool on) : on_(on && ::isatty(STDERR_FILENO)) {}
  void draw(const std::string& text) {
    if (!on_) return;
    fmt::print(stderr, "\r\x1b[K{}", text);
    std::fflush(stderr);
    drawn_ = true;
  }
  void clear() {
    if (drawn_) fmt::print(stderr, "\r\x1b[K");
    drawn_ = false;
  }

 private:
  bool on_, drawn_ = false;
};

// How many of the best layouts a simulation cannot tell from the best: their intervals meet.
std::string ties_of(const search::SearchEnd& end, const sim::Machine& machine) {
  std::vector<TimeInterval> all;
  for (const search::Tried& t : end.best) {
    PointResult r = t.result;
    api::add_interval(r, machine);
    if (r.iteration_ms_interval) all.push_back(*r.iteration_ms_interval);
  }
  if (all.size() < 2) return "";
  const auto fastest = std::min_element(all.begin(), all.end(),
                                        [](const TimeInterval& a, const TimeInterval& b) { return a.high < b.high; });
  const auto ties =
      std::count_if(all.begin(), all.end(), [&](const TimeInterval& i) { return i.low <= fastest->high; });
  if (ties < 2) return "";
  return fmt::format(
      "\n{0} of these {1} are a tie by simulation: they differ by less than published steps of {2} ({3} rows) differ "
      "from theirs. `--measure {1}` runs them where the devices are.\n",
      ties, all.size(), fastest->about, fastest->rows);
}

// The front, and the anatomy of the best, in the folder "plots"; the markdown that shows them.
std::string draw(const search::Space& space, const search::SearchEnd& end, const ResultFile& file,
                 const std::string& out, process::Interrupt& interrupt) {
  ResultFile best{file.spec, file.environment, {}};
  for (const search::Tried& t : end.best) best.points.push_back(t.result);
  std::vector<reports::Plot> plots;
  if (auto front = front_plot(space, end)) plots.push_back(std::move(*front));
  for (reports::Plot& plot : reports::report_plots(best, {}).plots)
    if (plot.name.starts_with("time-anatomy")) plots.push_back(std::move(plot));
  if (plots.empty()) return "";
  reports::PlotFiles files;
  try {
    files = reports::write_plots(plots, (fs::path(out) / "plots").string(), "gnuplot", &interrupt);
  } catch (const Error& e) {  // a search without them is none the worse
    std::cerr << printable(e.what()) << "\n";
  }
  for (const std::string& note : files.notes) std::cerr << note << "\n";
  std::string text;
  for (const reports::Plot& plot : plots)
    if (const std::string name = plot.name + ".svg";
        std::find(files.names.begin(), files.names.end(), name) != files.names.end())
      text += fmt::format("![{}](plots/{})\n\n", plot.title, name);
  return text.empty() ? text : "\n## Plots\n\n" + text;
}

// Makes the folder and takes its lock, before anything is simulated. What an earlier search left there is replaced, what was
// measured is not.
FolderLock take_folder(const std::string& out) {
  std::error_code failed;
  fs::create_directories(out, failed);
  if (failed)
    fail(ErrorKind::bad_input, "--out", "cannot be made: {}, got \"{}\", need a folder that can be written",
         failed.message(), out);
  const std::string results = (fs::path(out) / "results.json").string();
  std::optional<FolderLock> lock = FolderLock::try_for(out);
  if (!lock) fail(ErrorKind::bad_input, out, "another search or sweep is running there, need another --out");
  check_writable(results);
  if (fs::exists(results) && fs::file_size(results, failed) > 0 &&
      !read_result_file(results).environment.contains(kLimit))
    fail(ErrorKind::bad_input, out, "holds the results of a sweep, need another --out");
  return std::move(*lock);
}

// A recording makes and frees some MiB of small blocks, over and over: none of it goes back to the system between two.
void keep_freed_memory() {
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that is taken
}

// Whether it could be; if not, why is said.
bool is_written(const fs::path& file, const std::function<void(const std::string&)>& write) {
  try {
    write(file.string());
    return true;
  } catch (const Error& e) {
    fmt::print(stderr, "mbench: {}\n", printable(e.what()));
    return false;
  }
}

// What was found, with where it was looked for.
ResultFile found_file(const api::PreparedSearch& prepared, const search::SearchOptions& how,
                      const search::SearchEnd& end) {
  const search::Space& space = prepared.space;
  const sim::Machine& machine = prepared.place.machine;
  const Framework& framework = *framework_of(space.base.framework);
  ResultFile file = api::result_file_of(space, end, machine);
  file.environment = describe_environment(space.base.device);
  file.environment["spec_file"] = space.path;
  file.environment["machine"] = machine.description;
  file.environment["devices_per_node"] = machine.node.devices;
  file.environment["device_memory_mib"] = machine.device.memory_bytes >> 20;
  file.environment[kLimit] = end.limit_mib + prepared.margin.mib;
  file.environment["memory_margin"] = prepared.margin.about.empty() ? "none" : prepared.margin.about;
  file.environment["framework"] = fmt::format("{} ({})", framework.name, framework.description);
  file.environment["search"] = search_record(space, how, end, prepared.margin);
  file.environment["started"] = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  return file;
}

// How the trainer is given the best layout, where it is one that an export is for.
std::string flags_text(const search::SearchEnd& end, const std::string& out) {
  if (end.best.empty()) return "";
  const Point& best = end.best.front().point;
  bool whole = false;
  const std::string flags = api::trainer_flags(best, &whole);
  if (flags.empty()) return "";
  if (!whole) return "\n" + flags;
  return "\n" + flags +
         fmt::format("\nThe whole of it: `mbench export {} --layout 1 --to {}`.\n", out,
                     best.framework.preset == "torchtitan" ? "torchtitan" : "megatron");
}

bool is_confirmed(const search::Space& space, const search::SearchTarget& place, const search::SearchOptions& how,
                  const search::SearchEnd& end, Line& line) {
  const search::Confirmed confirmed = search::confirm(space, place, how, end);
  line.clear();
  for (const std::string& what : confirmed.wrong) fmt::print("confirm: {}\n", what);
  fmt::print("\nConfirmed: {} layouts simulated in full, {} against what was found.\n", confirmed.layouts,
             confirmed.wrong.size());
  return confirmed.wrong.empty();
}

// What the layout of a trainer's own file would take, beside the best one: the file's other settings and --set of no layout hold.
std::string own_layout_text(const search::SpaceOptions& options, const api::FreedLayout& own,
                            const search::SearchTarget& place, const search::SearchEnd& end,
                            api::PointSimulator& simulator) {
  const std::string begin = fmt::format("\nAs {} has it ({}), ", options.path, fmt::join(own.was, " "));
  try {
    sweeps::SpecOptions spec;
    spec.path = options.path;
    spec.json = own.spec_as_was;
    spec.device = options.device;
    for (const std::string& set : options.set)
      if (!api::is_freeing(set)) spec.set.push_back(set);
    const Point point = sweeps::read_spec(spec).points.at(0).point;
    if (const int devices = sim::parse_simulated(options.device, "--on").count; point.world() != devices)
      return begin + fmt::format("it is of {} devices, not of {}.\n", point.world(), devices);
    simulator.check(point);
    const search::Tried tried = search::simulated(point, place, true);
    if (!tried.result.iteration_ms)
      return begin + fmt::format("it is {}: {}\n", name_of(tried.result.outcome), tried.result.reason);
    const double ms = tried.result.iteration_ms->mean, best_ms = end.best.front().result.iteration_ms->mean;
    std::string text = fmt::format("a step takes {:.4g} s, {:.1f} % {} than the best", ms / 1000,
                                   std::abs(ms / best_ms - 1) * 100, ms < best_ms ? "less" : "more");
    const auto of_bytes = [](double mib) { return format_bytes(static_cast<std::uint64_t>(mib * 1048576)); };
    if (!tried.fits)
      text += fmt::format(". It takes {} a rank, more than the {} that a layout may take", of_bytes(tried.needed_mib),
                          of_bytes(end.limit_mib));
    return begin + text + ".\n";
  } catch (const Error& e) {
    return begin + fmt::format("it cannot be: {}\n", e.what());
  }
}

// The options that the library's search has too.
search::SearchOptions search_options(const SearchCommandOptions& options, process::Interrupt& interrupt, Line& line) {
  search::SearchOptions how;
  how.objective = search::read_objective(options.objective, "--objective");
  how.rate = options.rate;
  how.best = static_cast<std::size_t>(options.best);
  how.front = !options.no_front;
  how.front_within = options.front_within;
  how.threads =
      options.threads > 0 ? options.threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  how.interrupted = [&interrupt] { return interrupt.pending(); };
  how.progress = [&line](const search::SearchOptions::Progress& p) {
    line.draw(fmt::format("{} of {} meshes, {} layouts, {} decided, {} simulated{}", p.decided_meshes, p.meshes,
                          p.layouts, p.decided, p.simulated,
                          p.best_ms ? fmt::format(", best {:.4g} ms", *p.best_ms) : ""));
  };
  return how;
}

int run(SearchCommandOptions options) {
  options.space.device = device_asked(options.space.device);
  options.space.path = find_spec(options.space.path);
  bool of_trainer = false;
  options.space.json = imported_spec(options.space.path, options.trainer, options.space.device, &of_trainer);
  const std::optional<api::FreedLayout> own =
      api::free_fields(options.space.json, options.space.path, options.space.set, of_trainer);
  if (own && !own->was.empty())
    fmt::print(stderr, "{}: its layout is free here ({}); --set {} keeps a part of it\n", printable(options.space.path),
               printable(fmt::format("{}", fmt::join(own->was, " "))), printable(own->was.front()));
  api::PointSimulator simulator;
  const search::Objective objective = search::read_objective(options.objective, "--objective");
  if (objective == search::Objective::devices && options.rate <= 0)
    fail(ErrorKind::bad_input, "--objective", "devices needs a rate to reach, need --rate TOKENS_PER_S");
  sim::Recordings recordings;
  const api::PreparedSearch prepared = api::prepare_search(options.space, options.memory_margin, simulator, recordings);
  const search::Space& space = prepared.space;
  const search::SearchTarget& place = prepared.place;
  if (!options.why.empty()) check_layout(space, options.why);
  search::check_objective(objective, place.machine, "--objective");
  const std::string out = options.out.empty() ? take_free_folder(space.name + "-search") : options.out;
  const FolderLock lock = take_folder(out);
  process::Interrupt& interrupt = *new process::Interrupt;  // to the end of the process, as a sweep's
  std::signal(SIGPIPE, SIG_IGN);
  Line line(!options.quiet);
  const search::SearchOptions how = search_options(options, interrupt, line);
  keep_freed_memory();
  const search::SearchEnd end = search::search(space, place, how);
  line.clear();

  const ResultFile file = found_file(prepared, how, end);
  std::string text = describe_search(space, place, how, end, file, prepared.margin) + ties_of(end, place.machine);
  if (own && !own->was.empty() && !end.best.empty())
    text += own_layout_text(options.space, *own, place, end, simulator);
  text += flags_text(end, out);
  // What was found is kept before anything is drawn: a disk that is nearly full has room for the one, and not for both.
  bool written =
      is_written(fs::path(out) / "results.json", [&](const std::string& path) { write_result_file(path, file); });
  const auto write_text = [&](const std::string& all) {
    written =
        is_written(fs::path(out) / "results.md", [&](const std::string& path) { write_file_atomically(path, all); }) &&
        written;
  };
  write_text(text);
  text += draw(space, end, file, out, interrupt);
  if (options.sensitivities && !end.best.empty())
    text += "\n## What 10 % more of each figure of the machine gives the best\n\n" +
            sensitivities(end.best.front().point, simulator, how.interrupted);
  std::optional<Error> unexplained;
  if (!options.why.empty()) try {
      text += "\n" + explain_layout(space, place, how, end, options.why);
    } catch (const Error& e) {
      unexplained = e;  // said once what was found is kept
    }
  std::cout << text << std::flush;
  if (written) write_text(text);
  if (unexplained) throw *unexplained;
  bool good = !end.interrupted;
  if (options.confirm && good) good = is_confirmed(space, place, how, end, line) && !interrupt.pending();
  if (options.measure > 0 && !interrupt.pending()) {
    const MeasuredLayouts measured =
        measure_best(space, end, static_cast<std::size_t>(options.measure), (fs::path(out) / "measured").string(),
                     place.machine.immediate, options.quiet, interrupt);
    std::cout << "\n" << measured.text << std::flush;
    write_text(text + "\n" + measured.text);
    good = good && measured.good;
  }
  if (end.interrupted)
    fmt::print(stderr, "Interrupted: these are the best of what was simulated.\n");
  else if (interrupt.pending())
    fmt::print(stderr, "Interrupted: the search is whole, what was asked for after it is not.\n");
  if (written) fmt::print(stderr, "results: {}\n", (fs::path(out) / "results.json").string());
  return good && written && !interrupt.pending() ? Exit::kDone : Exit::kFailed;
}

}  // namespace

void add_search(CLI::App& app, Exit& exit) {
  auto options = std::make_shared<SearchCommandOptions>();
  CLI::App* command = app.add_subcommand("search", kSearchAbout);
  command->footer(kSearchFooter);
  command
      ->add_option("SPEC", options->space.path,
                   "A spec with free fields: a JSON file, or the name of one that comes with mbench")
      ->required();
  command->add_option("--on", options->space.device, "The machine and how many of its devices: sim:<N>x<MACHINE>")
      ->type_name("DEVICE")
      ->required();
  add_import_options(*command, options->trainer);
  command
      ->add_option("--set", options->space.set,
                   "Give a field another value, \"any\", or a list of values to try. May be repeated")
      ->type_name("FIELD=VALUE")
      ->take_all()
      ->expected(1)
      ->allow_extra_args(false);
  command
      ->add_option("--objective", options->objective,
                   "What is best: time, memory, tokens_per_device, tokens_per_joule or devices")
      ->type_name("NAME");
  command->add_option("--rate", options->rate, "Only layouts that train so many tokens a second")
      ->type_name("TOKENS_PER_S")
      ->check(number_between(0, 1e18));
  command->add_option("--best", options->best, "How many layouts are printed; default 10")
      ->type_name("K")
      ->check(CLI::Range(1, 1000));
  command->add_option("--why", options->why, "Why a layout is not the best: its fields, such as tp=8,pp=2")
      ->type_name("LAYOUT");
  command
      ->add_option("--measure", options->measure,
                   "Train the best K for real on this machine, and print whether they come in the same order")
      ->type_name("K")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--memory-margin", options->memory_margin,
                   "What a layout must leave free of the memory that the allocator could have: 5%, 4GiB, 0; default "
                   "the share in the framework's file, none with a memory_limit")
      ->type_name("SHARE|BYTES");
  command->add_flag("--sensitivities", options->sensitivities,
                    "What 10 % more of each figure of the machine's file gives the best layout");
  command->add_flag("--confirm", options->confirm,
                    "Simulate what lower bounds decided, too, and check that none of it is better than what was found");
  CLI::Option* no_front = command->add_flag("--no-front", options->no_front, "Leave out the front of time and memory");
  command
      ->add_option("--front-within", options->front_within,
                   "How many times the fastest's time a layout of the front takes at most; default 1.5")
      ->type_name("RATIO")
      ->check(number_between(1, 1e6))
      ->excludes(no_front);
  command->add_option("--threads", options->threads, "How many layouts are simulated at once; default all cores")
      ->check(CLI::Range(1, 1024));
  command->add_option("--out", options->out, "Folder of the results; default out/<name>-search-<date>-<time>")
      ->type_name("DIR");
  command->add_flag("--quiet", options->quiet, "No progress");
  command->callback([options, &exit] { exit.code = run(*options); });
}

}  // namespace mbench::cli
