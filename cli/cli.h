// The commands of mbench: each lives in one file of this folder with its own options and help text, and main
// only assembles them. A command adds its subcommand to the app; the subcommand's callback does the work and
// leaves the exit code in `exit`. It throws Error for what the user must mend; main prints it and picks the
// code.
#pragma once
#include <CLI/CLI.hpp>

#include "engine/base/error.h"

namespace mbench::cli {

struct Exit {
  static constexpr int kDone = 0;
  static constexpr int kRegression = 1;  // compare found one
  static constexpr int kBadInput = 2;    // bad usage or bad input
  static constexpr int kFailed = 3;      // some point crashed, hung or gave a wrong loss
  int code = kDone;
};

// What an Error that reaches main makes the program return.
int exit_code_of(ErrorKind kind);

// Writes what was measured to a file. If that fails, prints the reason, prints the text to standard output unless it is `printed`
// already, and returns false.
bool write_or_print(const std::string& path, const std::string& text, bool printed = false);

void add_sweep(CLI::App& app, Exit& exit);       // sweep.cpp
void add_run(CLI::App& app, Exit& exit);         // run.cpp
void add_hosts(CLI::App& app, Exit& exit);       // hosts.cpp
void add_check(CLI::App& app, Exit& exit);       // check.cpp
void add_accept(CLI::App& app, Exit& exit);      // accept.cpp
void add_plan(CLI::App& app, Exit& exit);        // plan.cpp
void add_search(CLI::App& app, Exit& exit);      // search.cpp
void add_devices(CLI::App& app, Exit& exit);     // devices.cpp
void add_calibrate(CLI::App& app, Exit& exit);   // calibrate.cpp
void add_report(CLI::App& app, Exit& exit);      // report.cpp
void add_compare(CLI::App& app, Exit& exit);     // compare.cpp
void add_baseline(CLI::App& app, Exit& exit);    // baseline.cpp
void add_trend(CLI::App& app, Exit& exit);       // trend.cpp
void add_documents(CLI::App& app, Exit& exit);   // documents.cpp
void add_help(CLI::App& app, Exit& exit);        // help.cpp
void add_import(CLI::App& app, Exit& exit);      // import.cpp
void add_export(CLI::App& app, Exit& exit);      // export.cpp
void add_cost(CLI::App& app, Exit& exit);        // cost.cpp
void add_import_log(CLI::App& app, Exit& exit);  // import_log.cpp
void add_explain(CLI::App& app, Exit& exit);     // explain.cpp

}  // namespace mbench::cli
