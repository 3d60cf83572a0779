// mbench compare NEW --baseline OLD: did anything get slower, larger or wrong.
#include "reports/gate/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>

#include "cli/check_files.h"
#include "cli/cli.h"
#include "cli/compare_memory.h"
#include "engine/base/text.h"
#include "engine/point/fields.h"
#include "engine/point/result_file.h"
#include "reports/baselines/baseline_store.h"
#include "reports/gate/budget.h"
#include "reports/gate/compare_report.h"
#include "sweeps/spec/spec.h"

namespace mbench::cli {
namespace {

struct CompareArguments {
  std::string result, baseline, revision, against = "newest", format = "md";
  std::vector<std::string> thresholds, metrics, fail_on, again, old_again, budgets, allow_different;
  std::vector<std::string> memory;  // A and B
  MemoryComparison memories;
};

bool is_stored_folder(const std::string& baseline) {
  std::error_code none;
  const std::string file = sweeps::results_file(baseline);
  return file != baseline && !std::filesystem::exists(file, none);
}

// NEW and what it is compared with: a result, as a file or the folder of its sweep, or a folder of stored baselines. Two
// large files are read at once.
std::pair<ResultFile, ResultFile> read_both(const CompareArguments& args, const reports::CompareOptions& options) {
  const std::string new_file = sweeps::results_file(args.result);
  const std::string old_file = sweeps::results_file(args.baseline);
  if (std::error_code none; !std::filesystem::exists(args.baseline, none))
    fail(ErrorKind::bad_input, args.baseline,
         "is not there, need a result, the folder of a sweep, or a folder of baselines (mbench baseline add {} --dir "
         "{})",
         args.result, args.baseline);
  if (is_stored_folder(args.baseline)) {
    ResultFile now = read_result_file(new_file);
    const reports::Choice choice{reports::stand_named(args.against, "--against"), args.revision,
                                 options.allow_different};
    ResultFile baseline = reports::choose_baseline(args.baseline, now, !options.needs_same_machine(), choice).results;
    return {std::move(now), std::move(baseline)};
  }
  for (const auto& [option, given] :
       {std::pair("--at", !args.revision.empty()), std::pair("--against", args.against != "newest"),
        std::pair("--budget", !args.budgets.empty())})
    if (given)
      fail(ErrorKind::bad_input, option, "chooses from a folder of baselines, got the result {}, need such a folder",
           args.baseline);
  auto now = std::async(std::launch::async, [&] { return read_result_file(new_file); });
  ResultFile baseline = read_result_file(old_file);
  return {now.get(), std::move(baseline)};
}

std::vector<ResultFile> read_all(const std::vector<std::string>& paths) {
  std::vector<ResultFile> files;
  for (const std::string& path : paths) files.push_back(read_result_file(sweeps::results_file(path)));
  return files;
}

// Holds NEW against the pinned entry of each point too, or its oldest.
void hold_budget(reports::Comparison& comparison, const CompareArguments& args, const ResultFile& now,
                 const reports::Budget& budget) {
  reports::CompareOptions options = reports::budget_options(budget);
  options.allow_different = args.allow_different;
  const reports::Chosen anchor = reports::choose_baseline(args.baseline, now, !options.needs_same_machine(),
                                                          {reports::Stand::pinned_or_oldest, "", args.allow_different});
  reports::add_budget(comparison, reports::compare_results(now, anchor.results, options), budget, anchor.origins);
}

// The commands that make NEW what later results are held against.
std::vector<std::string> how_to_accept(const CompareArguments& args, const reports::CompareOptions& options) {
  const auto quoted = [](const std::string& path) {
    std::string out = "'";
    for (const char c : path) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    const bool plain =
        path.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%") ==
        std::string::npos;
    return plain ? path : out + "'";
  };
  if (!is_stored_folder(args.baseline)) return {fmt::format("mbench compare LATER --baseline {}", quoted(args.result))};
  std::string metrics;
  if (!options.needs_same_machine()) metrics = options.has("loss") ? " --metric memory,loss" : " --metric memory";
  std::vector<std::string> commands = {
      fmt::format("mbench baseline add {} --dir {}{}", quoted(args.result), quoted(args.baseline), metrics)};
  if (args.against == "pinned" || !args.budgets.empty())
    commands.push_back(fmt::format("mbench baseline pin --dir {}", quoted(args.baseline)));
  return commands;
}

// Fields that make two runs incomparable whatever is asked for are none of them.
void check_allowed(const std::vector<std::string>& fields) {
  for (const std::string& field : fields) {
    const auto& keys = point_keys();
    if (std::find(keys.begin(), keys.end(), field) == keys.end())
      fail(ErrorKind::bad_input, "--allow-different", "unknown field, got \"{}\", {}", field,
           nearest_choice(field, keys));
    if (field == "model" || field == "precision" || field == "device" || field == "strategy")
      fail(ErrorKind::bad_input, "--allow-different",
           "got {}, need a field in which two runs of one model, precision and device may differ, such as env", field);
  }
}

constexpr const char* kCompareFooter =
    "Time, by the ratio of mean steps and the ratio of medians, each with its 99 % interval and a test:\n"
    "  same       both intervals exclude a change as large as the threshold\n"
    "  slower     an interval excludes no change, and holds the threshold or lies beyond it; its test agrees "
    "(p < 0.01\n"
    "             after Holm's correction for the number of points), the change that it estimates is at least 2/3 "
    "of\n"
    "             the threshold, and the other interval does not contradict. faster: likewise\n"
    "  ambiguous  an interval holds both no change and the threshold, slow steps are too few to know a stall from\n"
    "             spikes, a side has fewer than 5 samples, or they drift too much. No regression; the row says "
    "about\n"
    "             how many samples decide\n"
    "Slow steps are named: \"every 4th step at 3.0x\". One spike in a run is no regression.\n"
    "So a step that became 5 % slower is found with --threshold time=5%, given samples: 30 do for 2 % of "
    "noise.\n"
    "Memory is compared to the byte; a loss that changed, or a point that was ok and failed, is a regression.\n"
    "Not comparable: other hardware, device, model, precision or FLOP formula; a simulation with a "
    "measurement.\n"
    "Exit codes: 0 no regression; 1 regression, or a verdict of --fail-on; 2 bad usage, or nothing can be "
    "compared.";

void print_memory(CompareArguments args) {
  if (!args.result.empty() || !args.baseline.empty())
    fail(ErrorKind::bad_input, "--memory", "compares A with B, got {} too, need neither NEW nor --baseline",
         args.result.empty() ? "--baseline" : "NEW");
  args.memories.from = args.memory[0], args.memories.to = args.memory[1], args.memories.format = args.format;
  const std::string out = compare_memory(args.memories);
  std::fwrite(out.data(), 1, out.size(), stdout);
}

void check_sides(const CompareArguments& args) {
  if (args.result.empty()) fail(ErrorKind::bad_input, "NEW", "nothing to judge, need a result file or --memory A B");
  if (args.baseline.empty())
    fail(ErrorKind::bad_input, "--baseline", "nothing to judge {} by, need a result or a folder of baselines",
         args.result);
  for (const auto& [option, given] :
       {std::pair("--filter", !args.memories.filter.empty()), std::pair("--set", !args.memories.set.empty())})
    if (given) fail(ErrorKind::bad_input, option, "is of --memory A B, got NEW {}", args.result);
}

// Prints the comparison; whether it fails.
bool compare(const CompareArguments& args) {
  check_sides(args);
  reports::CompareOptions options;
  for (const std::string& text : args.thresholds) reports::set_threshold(options.thresholds, text);
  reports::check_metrics(args.metrics);
  if (!args.metrics.empty()) options.metrics = args.metrics;
  for (const std::string& name : args.fail_on) options.fail_on.push_back(reports::verdict_named(name, "--fail-on"));
  check_allowed(args.allow_different);
  options.allow_different = args.allow_different;
  reports::Budget budget;
  for (const std::string& text : args.budgets) reports::set_budget(budget, text);
  reports::stand_named(args.against, "--against");
  reports::check_comparison_format(args.format);  // before the files are read
  if (!args.old_again.empty() && args.old_again.size() != args.again.size())
    fail(ErrorKind::bad_input, "--confirm-baseline",
         "each is held against a further measurement, got {}, need {} as of --confirm", args.old_again.size(),
         args.again.size());
  if (is_check_file(args.result))
    return compare_checks(args.result, args.baseline, options.thresholds.time, args.format);
  const auto [now, baseline] = read_both(args, options);
  const std::vector<ResultFile> again = read_all(args.again), old_again = read_all(args.old_again);
  std::vector<reports::Round> rounds;
  for (std::size_t i = 0; i < again.size(); ++i)
    rounds.push_back({&again[i], old_again.empty() ? &baseline : &old_again[i]});
  // Turns are of two sweeps that ran at the same time, which the first of OLD and a further one of NEW did not.
  const bool paired = old_again.size() == again.size();
  reports::Comparison comparison =
      reports::compare_results(now, baseline, options, paired ? rounds : std::vector<reports::Round>());
  for (const reports::Round& round : rounds)
    comparison = confirmed(std::move(comparison), reports::compare_results(*round.now, *round.baseline, options));
  if (!budget.empty()) hold_budget(comparison, args, now, budget);
  comparison.accept = how_to_accept(args, options);
  const std::string out = reports::render_comparison(comparison, args.format);
  std::fwrite(out.data(), 1, out.size(), stdout);
  return comparison.fails();
}

}  // namespace

void add_compare(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand("compare", "Compare results with a baseline; exit 1 on a regression");
  auto args = std::make_shared<CompareArguments>();
  command->add_option(
      "NEW", args->result,
      "Result file to judge, or the folder of its sweep; or a check file of mbench check; needs --baseline");
  command->add_option("--baseline", args->baseline,
                      "Result file to judge it by, or the folder of its sweep, or a folder of stored baselines: the "
                      "newest of this machine");
  command->add_option("--at", args->revision, "Of stored baselines those of this revision, not the newest");
  command
      ->add_option("--against", args->against,
                   "Which entry of stored baselines: newest, oldest, pinned (mbench baseline pin) or best, the one "
                   "with the least mean step")
      ->capture_default_str();
  command
      ->add_option("--budget", args->budgets,
                   "What all changes since the pinned entry of stored baselines, or else the oldest, may cost "
                   "together: time=5%, memory=1%; "
                   "may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--threshold", args->thresholds,
                   "The smallest change to be found: time=5%, memory=1%, loss=0.1%, energy=5%; may be repeated. "
                   "Default: time=5%, memory=0% (to the byte), loss by precision, energy=5%")
      ->allow_extra_args(false);
  command
      ->add_option("--metric", args->metrics,
                   "Compare only this: time, memory, loss or energy; may be repeated. Memory and loss compare across "
                   "CPUs. Default: all but energy")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--fail-on", args->fail_on,
                   "Exit 1 on this verdict too: ambiguous, missing, \"not comparable\", ...; may be repeated")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--allow-different", args->allow_different,
                   "Compare points that differ in this field as one: env, to try an environment variable on the same "
                   "layout; may be repeated")
      ->type_name("FIELD")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option(
          "--confirm", args->again,
          "A second measurement of NEW: slower is only what is slower there too. For shared machines; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--confirm-baseline", args->old_again,
          "A second measurement of OLD, to hold the one of --confirm against; default OLD itself. As many as of "
          "--confirm, in their order. Where sweeps took turns, all measurements are weighed together")
      ->allow_extra_args(false);
  command
      ->add_option(
          "--memory", args->memory,
          "Instead of NEW: two runs A and B, specs or results. Prints which tensors at the peak came, went and "
          "grew from A to B; md or json")
      ->type_name("A B")
      ->expected(2);
  command
      ->add_option("--filter", args->memories.filter,
                   "Of --memory: field=value that the point of A and of B has; may be repeated")
      ->allow_extra_args(false);
  command
      ->add_option("--set", args->memories.set,
                   "Of --memory: field=value that B has, so that one spec may be A and B; may be repeated")
      ->allow_extra_args(false);
  command->add_option("--on", args->memories.on, "Of --memory: the device of specs; default cpu")->type_name("DEVICE");
  command->add_option("--format", args->format, "md (for a pull request), json or junit")->capture_default_str();
  command->footer(kCompareFooter);
  command->callback([args, &exit] {
    if (!args->memory.empty()) return print_memory(*args);
    if (compare(*args)) exit.code = Exit::kRegression;
  });
}

}  // namespace mbench::cli
