// mbench baseline add|list|show|rm: results kept in a folder to compare later ones with.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "cli/check_files.h"
#include "cli/cli.h"
#include "engine/point/result.h"
#include "reports/baselines/baseline_store.h"
#include "reports/baselines/trend.h"
#include "reports/records/flags.h"
#include "reports/tables/markdown.h"
#include "sweeps/spec/spec.h"

namespace mbench::cli {
namespace {

struct BaselineArguments {
  std::string folder = "baselines";
  std::vector<std::string> results;
  std::string machine, point, metric;
  std::string revision, before;
  reports::AddOptions add;
};

void print(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
}

// Before anything is written: the level of a starved run would hide every regression after it.
void refuse_disturbed(const std::vector<ResultFile>& results) {
  std::vector<std::string> disturbed;
  for (const ResultFile& result : results)
    for (std::string& point : reports::disturbed_points(result)) disturbed.push_back(std::move(point));
  if (disturbed.empty()) return;
  fail(ErrorKind::bad_input, "baseline add",
       "{} not of an undisturbed machine, got {}{}, need a run that has its cores, --metric memory,loss to store what "
       "has no noise, or --force",
       disturbed.size() == 1 ? "a time is" : fmt::format("{} times are", disturbed.size()), disturbed.front(),
       disturbed.size() == 1 ? "" : ", ...");
}

void add(const BaselineArguments& args) {
  if (const auto checks = std::count_if(args.results.begin(), args.results.end(), is_check_file); checks > 0) {
    if (checks != static_cast<std::ptrdiff_t>(args.results.size()))
      fail(ErrorKind::bad_input, "baseline add", "got {} checks among {} files, need only checks or only results",
           checks, args.results.size());
    print(add_checks(args.results, args.folder) + "\n");
    return;
  }
  reports::AddOptions options = args.add;
  if (!args.metric.empty() && args.metric != "memory" && args.metric != "memory,loss")
    fail(ErrorKind::bad_input, "--metric",
         "got \"{}\", need memory, memory,loss, or none to keep all that was measured", args.metric);
  options.memory_only = !args.metric.empty();
  options.with_losses = args.metric == "memory,loss";
  std::vector<ResultFile> results;  // all are read before anything is written
  for (const std::string& path : args.results) results.push_back(read_result_file(sweeps::results_file(path)));
  if (!options.force && !options.memory_only) refuse_disturbed(results);
  for (const ResultFile& result : results) {
    const reports::Added added = reports::add_baselines(args.folder, result, options);
    for (const std::string& path : added.written) print(path + "\n");
    if (added.unchanged > 0)
      print(fmt::format("{} {} there already\n", added.unchanged,
                        added.unchanged == 1 ? "entry stood" : "entries stood"));
    for (const std::string& point : added.refused)
      fmt::print(stderr, "mbench: [baseline add] not stored, a failure is no baseline: {}\n", point);
  }
}

std::vector<reports::StoredBaseline> selected(const BaselineArguments& args) {
  auto stored = reports::select_baselines(reports::read_baselines(args.folder), args.machine, args.point);
  if (stored.empty())
    fail(ErrorKind::bad_input, args.folder, "no stored point{}{}",
         args.point.empty() ? "" : fmt::format(" whose id begins with \"{}\"", args.point),
         args.machine.empty() ? "" : fmt::format(" on a machine named \"{}\"", args.machine));
  return stored;
}

std::string median_text(const reports::BaselineEntry& entry) {
  return entry.result.iteration_ms ? fmt::format("{:.2f}", entry.result.iteration_ms->median) : "n/a";
}
std::string mean_text(const reports::BaselineEntry& entry) {
  return entry.result.iteration_ms ? fmt::format("{:.2f}", entry.result.iteration_ms->mean) : "n/a";
}
std::string memory_text(const reports::BaselineEntry& entry) {
  return entry.result.peak_memory_mib ? fmt::format("{:.2f}", *entry.result.peak_memory_mib) : "n/a";
}

// "starved, throttled": what disturbed it, each by its first word.
std::string flags_text(const reports::BaselineEntry& entry) {
  std::string text;
  for (const std::string& flag : reports::what_disturbed(entry.result))
    text += (text.empty() ? "" : ", ") + flag.substr(0, flag.find(':'));
  return text;
}

void list(const BaselineArguments& args) {
  const auto stored = selected(args);
  const auto labels = labels_of(stored);
  reports::Section section;
  section.columns = {{"Id", "id", false},
                     {"Point", "point", false},
                     {"Entries", "entries", true},
                     {"Newest", "date", false},
                     {"Revision", "revision", false},
                     {"Mean (ms)", "mean", true},
                     {"Median (ms)", "median", true},
                     {"Peak memory (MiB)", "memory", true}};
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const reports::BaselineEntry& newest = stored[i].file.newest();
    section.rows.push_back({{stored[i].file.id, {}},
                            {labels[i], {}},
                            {std::to_string(stored[i].file.history.size()), {}},
                            {newest.date, {}},
                            {newest.revision, {}},
                            {mean_text(newest), {}},
                            {median_text(newest), {}},
                            {memory_text(newest), {}}});
    if (i + 1 < stored.size() && stored[i + 1].machine == stored[i].machine) continue;
    print(
        fmt::format("## {}\n\n{}\n", reports::escape_markdown(stored[i].machine), reports::grid_to_markdown(section)));
    section.rows.clear();
  }
}

void show(const BaselineArguments& args) {
  const auto stored = selected(args);
  for (const reports::StoredBaseline& s : stored) {
    print(fmt::format("## {}\n\n- Machine: {}\n- Point: {}\n\n", s.path,
                      reports::escape_markdown(s.file.machine.dump()),
                      reports::escape_markdown(point_to_json(s.file.newest().result.point).dump())));
    reports::Section section;
    section.columns = {{"Date", "date", false},         {"Revision", "revision", false},
                       {"Sweep", "sweep", false},       {"Outcome", "outcome", false},
                       {"Samples", "samples", true},    {"Mean (ms)", "mean", true},
                       {"Median (ms)", "median", true}, {"Peak memory (MiB)", "memory", true},
                       {"Flags", "flags", false},       {"Software", "environment", false}};
    for (const reports::BaselineEntry& entry : s.file.history) {
      std::string software;
      for (const auto& [key, value] : entry.environment.items())
        if (key == "mpi" || key == "blas" || key == "compiler" || key == "driver" || key == "nccl" || key == "cuda")
          software += fmt::format("{}{} {}", software.empty() ? "" : ", ", key,
                                  value.is_string() ? value.get<std::string>() : value.dump());
      const auto samples = entry.result.iteration_ms ? entry.result.iteration_ms->samples.size() : 0;
      section.rows.push_back({{entry.date, {}},
                              {entry.revision + (entry.pinned ? ", pinned" : ""), {}},
                              {entry.sweep, {}},
                              {std::string(name_of(entry.result.outcome)), {}},
                              {std::to_string(samples), {}},
                              {mean_text(entry), {}},
                              {median_text(entry), {}},
                              {memory_text(entry), {}},
                              {flags_text(entry), {}},
                              {software, {}}});
    }
    print(reports::grid_to_markdown(section) + "\n");
  }
}

void remove(const BaselineArguments& args) {
  if (args.machine.empty() && args.point.empty() && args.revision.empty() && args.before.empty())
    fail(ErrorKind::bad_input, "baseline rm",
         "what to remove is not said, need --machine, --point, --revision or --before");
  const std::size_t removed = reports::remove_entries(selected(args), [&](const reports::BaselineEntry& entry) {
    // What is pinned goes only by its name, or with its whole file.
    if (entry.pinned && args.revision.empty() && !args.before.empty()) return false;
    return (args.revision.empty() || entry.revision.starts_with(args.revision)) &&
           (args.before.empty() || entry.date < args.before);
  });
  if (removed == 0)
    fail(ErrorKind::bad_input, args.folder, "no entry of that revision or date, need one that is listed");
  print(fmt::format("{} {} removed\n", removed, removed == 1 ? "entry" : "entries"));
}

void pin(const BaselineArguments& args) {
  const auto pinned = reports::pin_entries(selected(args), args.revision);
  if (pinned.empty())
    fail(ErrorKind::bad_input, args.folder,
         "no entry of revision \"{}\", need one that is listed (mbench baseline show)", args.revision);
  for (const std::string& path : pinned) print(path + "\n");
}

void unpin(const BaselineArguments& args) {
  for (const std::string& path : reports::unpin_entries(selected(args))) print(path + "\n");
}

CLI::App* with_folder(CLI::App* command, const std::shared_ptr<BaselineArguments>& args) {
  command->add_option("--dir", args->folder, "Folder of the baselines")->capture_default_str();
  return command;
}

CLI::App* with_selection(CLI::App* command, const std::shared_ptr<BaselineArguments>& args) {
  with_folder(command, args);
  command->add_option("--machine", args->machine, "Only machines whose name holds this text");
  command->add_option("--point", args->point, "Only points whose id begins with this text");
  return command;
}

}  // namespace

void add_baseline(CLI::App& app, Exit&) {
  CLI::App* command =
      app.add_subcommand("baseline", "Keep results in a folder, made for git, to compare later ones with");
  command->require_subcommand(1);
  command->footer(
      "A point has one file, <folder>/<machine>/<id>.json, with a history of entries: date, git revision, "
      "software,\n"
      "peak memory, losses and every sample. Keys are sorted, so a new entry is a diff of a few lines.\n"
      "Examples:\n"
      "  mbench baseline add out/gpt345m-DATE-TIME --dir baselines\n"
      "  mbench compare new/results.json --baseline baselines\n"
      "  mbench baseline pin --revision v1.0        # what --against pinned and --budget hold later results against\n"
      "  mbench baseline list; mbench baseline show --point 9896; mbench baseline rm --before 2026-01-01\n"
      "Exit codes: 0 done; 2 bad usage, or a file that cannot be read or written.");
  auto args = std::make_shared<BaselineArguments>();

  CLI::App* adding = with_folder(command->add_subcommand("add", "Add an entry for every point of a result file"), args);
  adding->add_option("RESULT", args->results, "Result files, as written by mbench sweep, or the folders of sweeps")
      ->required();
  adding->add_option(
      "--metric", args->metric,
      "memory, or memory,loss: keep only these, for any machine with the same kind of device. Default: all");
  adding->add_flag("--force", args->add.force,
                   "Store times of a starved or throttled run too. Its entry keeps what it is flagged by");
  adding->add_option("--revision", args->add.revision,
                     "Revision of what was measured; default: mbench's own, from the result");
  adding->add_option("--date", args->add.date, "When it was measured; default: from the result");
  adding
      ->add_option("--keep", args->add.keep,
                   "Keep at most so many entries of each point, the newest, and the pinned one; 0: all")
      ->capture_default_str();
  adding->callback([args] { add(*args); });

  CLI::App* listing = with_selection(command->add_subcommand("list", "The stored points of each machine"), args);
  listing->callback([args] { list(*args); });
  CLI::App* showing = with_selection(command->add_subcommand("show", "Stored points with their history"), args);
  showing->callback([args] { show(*args); });
  CLI::App* pinning = with_selection(
      command->add_subcommand(
          "pin", "Pin an entry of each point, in place of the one that was, for compare --against pinned and --budget"),
      args);
  pinning->add_option("--revision", args->revision,
                      "The newest entry whose revision begins with this text; default: the newest");
  pinning->callback([args] { pin(*args); });
  CLI::App* unpinning = with_selection(command->add_subcommand("unpin", "Pin no entry"), args);
  unpinning->callback([args] { unpin(*args); });
  CLI::App* removing =
      with_selection(command->add_subcommand("rm", "Remove entries, and files that have none left"), args);
  removing->add_option("--revision", args->revision, "Only entries whose revision begins with this text");
  removing->add_option("--before", args->before, "Only entries older than this date, and not pinned");
  removing->callback([args] { remove(*args); });
}

}  // namespace mbench::cli
