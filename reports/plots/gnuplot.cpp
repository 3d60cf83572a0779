#include "reports/plots/gnuplot.h"

#include <fmt/ranges.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "engine/base/atomic_file.h"
#include "engine/base/error.h"
#include "engine/point/outcome.h"
#include "engine/process/process.h"
#include "reports/plots/plot_script.h"

namespace mbench::reports {
namespace {

namespace fs = std::filesystem;

constexpr double kTimeoutSeconds = 120;

struct Ran {
  std::string out, trouble;  // trouble: empty if all went well
};

std::string first_complaint(const std::string& text) {
  // gnuplot quotes the line, puts a caret below, and then says what is wrong as "line 3: ...". Warnings look alike: gnuplot 6 begins
  // with one where the locale is C.
  std::string first;
  for (std::size_t at = text.find("line "); at != std::string::npos; at = text.find("line ", at + 1)) {
    const std::string line = text.substr(at, std::min(text.find('\n', at), text.size()) - at);
    if (line.find(": warning: ") == std::string::npos) return line;
    if (first.empty()) first = line;
  }
  if (first.empty()) first = text.substr(0, text.find('\n'));
  return first.empty() ? "it said nothing" : first;
}

Ran run_gnuplot(const std::string& program, const std::string& script, const std::string& folder,
                process::Interrupt* interrupt = nullptr) {
  process::ProcessRequest request;
  request.argv = {program, "-d", "-"};  // without start-up files, the script from stdin
  request.input = script;
  request.folder = folder;
  request.timeout_s = kTimeoutSeconds;
  request.keep_output = true;
  request.interrupt = interrupt;
  process::ProcessEnd end = process::run_process(request);
  using How = process::ProcessEnd::How;
  if (end.how == How::not_started && end.code == ENOENT)
    return {"", fmt::format("No plots: there is no {} on this machine; install it (Debian and Ubuntu: apt "
                            "install gnuplot-nox) and draw again.",
                            program)};
  if (end.how == How::not_started)
    return {"", fmt::format("No plots: {} cannot be started: {}.", program, std::strerror(end.code))};
  Ran ran{std::move(end.output), ""};
  if (end.how == How::interrupted)
    ran.trouble = "Plots are missing: interrupted.";
  else if (end.how != How::exited)
    ran.trouble = fmt::format("Plots are missing: {} was killed or took too long.", program);
  else if (end.code != 0)
    ran.trouble = fmt::format("Plots are missing: {} ended with {}: {}", program, end.code,
                              first_complaint(fmt::format("{}", fmt::join(end.tail, "\n"))));
  return ran;
}

std::vector<std::string> split_documents(std::string_view text) {
  constexpr std::string_view end = "</svg>";
  std::vector<std::string> documents;
  for (std::size_t at = 0;;) {
    const std::size_t close = text.find(end, at);
    if (close == std::string_view::npos) return documents;
    std::size_t begin = at;
    while (begin < close && (text[begin] == '\n' || text[begin] == '\r')) ++begin;
    documents.emplace_back(text.substr(begin, close + end.size() - begin));
    at = close + end.size();
  }
}

Drawing draw(const std::vector<Plot>& plots, PlotTarget target, const std::string& program,
             process::Interrupt* interrupt = nullptr) {
  Drawing drawing;
  if (plots.empty()) return drawing;
  std::string script;
  for (const Plot& plot : plots) script += plot_script(plot, target, "");
  Ran ran = run_gnuplot(program, script, "", interrupt);
  if (!ran.trouble.empty()) drawing.notes.push_back(std::move(ran.trouble));
  drawing.svg = split_documents(ran.out);
  if (drawing.svg.size() != plots.size()) {
    if (drawing.notes.empty())
      drawing.notes.push_back(
          fmt::format("Plots are missing: {} drew {} of {}.", program, drawing.svg.size(), plots.size()));
    drawing.svg.clear();
  }
  return drawing;
}

}  // namespace

Drawing draw_inline(const std::vector<Plot>& plots, const std::string& program) {
  return draw(plots, PlotTarget::inline_svg, program);
}

void draw_file(const Plot& plot, const std::string& file, const std::string& where, const std::string& program) {
  const std::map<std::string, PlotTarget> kinds = {
      {".svg", PlotTarget::svg}, {".png", PlotTarget::png}, {".pdf", PlotTarget::pdf}};
  const auto kind = kinds.find(fs::path(file).extension().string());
  if (kind == kinds.end())
    fail(ErrorKind::bad_input, where,
         "no such kind of picture, got \"{}\", need a file that ends in .svg, .png or .pdf", file);
  // Through this process, which sees what cannot be written: gnuplot ends well on a full disk.
  const Ran ran = run_gnuplot(program, plot_script(plot, kind->second, ""), "");
  if (!ran.trouble.empty() || ran.out.empty())
    fail(ErrorKind::bad_input, where, "{} could not be drawn, need gnuplot. {}", file,
         ran.trouble.empty() ? program + " drew nothing." : ran.trouble);
  write_file_atomically(file, ran.out);
}

namespace {

// Whether all of a PNG is there: its last chunk is.
bool is_whole_png(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  constexpr std::string_view end = "IEND\xAE\x42\x60\x82";
  std::string last(end.size(), '\0');
  return in.seekg(-static_cast<std::streamoff>(end.size()), std::ios::end) &&
         in.read(last.data(), static_cast<std::streamsize>(last.size())) && last == end;
}

}  // namespace

PlotFiles write_plots(const std::vector<Plot>& plots, const std::string& folder, const std::string& program,
                      process::Interrupt* interrupt) {
  PlotFiles files;
  if (plots.empty()) return files;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(ErrorKind::bad_input, folder, "the folder cannot be made: {}", error.message());
  Drawing drawing = draw(plots, PlotTarget::svg, program, interrupt);
  files.notes = std::move(drawing.notes);
  if (drawing.svg.empty()) return files;
  std::string script;
  for (std::size_t i = 0; i < plots.size(); ++i) {
    const std::string name = plots[i].name + ".svg";
    write_file_atomically((fs::path(folder) / name).string(), drawing.svg[i] + "\n");
    script += plot_script(plots[i], PlotTarget::png, plots[i].name + ".png");
  }
  const Ran ran = run_gnuplot(program, script, folder, interrupt);
  if (!ran.trouble.empty()) files.notes.push_back(ran.trouble);
  if (ran.trouble.empty())
    for (const Plot& plot : plots)
      if (const fs::path png = fs::path(folder) / (plot.name + ".png"); !is_whole_png(png)) {
        fs::remove(png, error);
        files.notes.push_back(fmt::format("A plot is missing: {} could not be written.", png.string()));
      }
  for (const Plot& plot : plots)
    for (const char* extension : {".svg", ".png"})
      if (fs::exists(fs::path(folder) / (plot.name + extension), error)) files.names.push_back(plot.name + extension);
  return files;
}

}  // namespace mbench::reports
