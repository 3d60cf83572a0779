#include "cli/logged_run.h"

#include <fstream>
#include <iostream>

#include "cli/find_spec.h"
#include "engine/base/error.h"

namespace mbench::cli {
namespace {

formats::Log read(const std::string& path, const std::string& trainer) {
  if (path == "-") return formats::read_log(std::cin, "standard input", trainer);
  std::ifstream in(path, std::ios::binary);
  if (!in) fail(ErrorKind::bad_input, path, "cannot be read");
  return formats::read_log(in, path, trainer);
}

}  // namespace

LoggedRun read_logged_run(const std::string& path, sweeps::SpecOptions spec, const std::string& trainer,
                          const formats::LogOptions& how) {
  const std::string name = path == "-" ? "standard input" : path;
  const formats::Log log = read(path, trainer);
  if (spec.path.empty()) {
    spec.json = formats::spec_of(log, name);
    spec.path = name;
  } else {
    find_and_import(spec);
  }
  const sweeps::Spec read = sweeps::read_spec(spec);
  if (read.points.size() != 1)
    fail(ErrorKind::bad_input, spec.path,
         "a log is of one run, got a spec of {} points, need one: --set field=value or --filter field=value",
         read.points.size());
  return {formats::result_of(log, read.points.front().point, name, how), read.json, log.notes};
}

}  // namespace mbench::cli
