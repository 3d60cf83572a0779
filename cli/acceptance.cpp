#include "cli/acceptance.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/html_grid.h"
#include "engine/base/text.h"
#include "engine/point/result.h"
#include "health/signature.h"
#include "reports/page/html.h"
#include "reports/page/html_text.h"
#include "reports/records/flags.h"
#include "reports/records/soak_findings.h"
#include "reports/records/stragglers.h"

namespace mbench::cli {
namespace {

using nlohmann::ordered_json;
using reports::escape_html;

constexpr std::size_t kWorst = 5;

std::string ms_text(double ms) {
  return ms >= 1000 ? fmt::format("{:.4g} s", ms / 1000) : fmt::format("{:.4g} ms", ms);
}
// A share of what is done in a time, as the figure shows it: a rate is below its reference, a time is longer.
std::string difference_text(double share, bool rate) {
  const double by = rate ? -share : 1 / (1 - share) - 1;
  return fmt::format("{:.1f} % {}", 100 * std::abs(by),
                     rate     ? by > 0 ? "above" : "below"
                     : by > 0 ? "longer"
                              : "shorter");
}
std::string number_of(double value, const std::string& unit, double as_of) {
  return fmt::format("{:.4g}", value * health::printed_as(unit, as_of).factor);
}

// What made all steps of a point longer, such as another program on its cores; empty: nothing is known.
std::string disturbed_text(const AcceptedStep& s) {
  std::string text;
  for (const std::string& what : reports::what_disturbed(s.measured)) text += (text.empty() ? "" : "; ") + what;
  return text;
}

// The findings of one check: worse than peers by one tolerance, than the machine's file by the other.
std::vector<std::string> findings_of(const health::Health& check, const Acceptance& a) {
  std::vector<std::string> texts;
  for (const health::Finding& f : health::judge(check, a.peers))
    if (f.kind != health::Finding::Kind::below) texts.push_back(f.text);
  for (const health::Finding& f : health::judge(check, a.data_sheet))
    if (f.kind == health::Finding::Kind::below) texts.push_back(f.text);
  for (std::string& fault : health::faults_of(check)) texts.push_back(std::move(fault));
  return texts;
}

void compare_check(const health::Health& check, const char* when, const Acceptance& a, std::vector<Compared>& all) {
  for (const health::Figure& f : check.figures) {
    if (!f.judged) continue;
    const auto peers = health::peers_of(check, f);
    for (std::size_t i = 0; i < f.of.size(); ++i) {
      const health::RankFigure& m = f.of[i];
      const auto add = [&](const std::optional<double>& reference, const std::string& whose, double allowed) {
        if (!reference || !(*reference > 0) || !(m.value > 0)) return;
        all.push_back({fmt::format("{}: {}, {}", health::ranks_text(check, m.ranks), health::label_of(f), when),
                       number_of(m.value, f.unit, *reference) + " " + health::printed_as(f.unit, *reference).unit,
                       number_of(*reference, f.unit, *reference) + " " + whose,
                       health::shortfall(f, m.value, *reference), allowed, f.rate});
      };
      add(peers[i], "of its peers", a.peers);
      if (!m.estimated) add(m.expected, "by " + a.machine, a.data_sheet);
    }
  }
}

std::optional<double> step_share(const AcceptedStep& s) {
  if (!s.simulated || !s.simulated->iteration_ms || !s.measured.iteration_ms) return std::nullopt;
  return 1 - s.simulated->iteration_ms->mean / s.measured.iteration_ms->mean;
}

std::string step_verdict(const AcceptedStep& s, const Acceptance& a) {
  if (s.measured.outcome != Outcome::ok) return std::string(name_of(s.measured.outcome));
  const auto share = step_share(s);
  return !share ? "not simulated" : *share > a.data_sheet ? "FAIL" : "ok";
}

std::string steps_html(const Acceptance& a) {
  Rows rows;
  for (const AcceptedStep& s : a.steps) {
    const auto share = step_share(s);
    const auto& measured = s.measured.iteration_ms;
    const auto simulated = s.simulated ? s.simulated->iteration_ms : std::nullopt;
    rows.push_back({s.label, step_verdict(s, a), measured ? ms_text(measured->mean) : "n/a",
                    measured ? fmt::format("{:.1f} %", 100 * measured->stddev / measured->mean) : "n/a",
                    simulated ? ms_text(simulated->mean) : "n/a", share ? difference_text(*share, false) : "n/a",
                    s.measured.energy_joules ? fmt::format("{:.4g} J", *s.measured.energy_joules) : "n/a",
                    disturbed_text(s)});
  }
  return html_grid({"Point", "Verdict", "Measured step", "Spread", "Simulated step", "Measured against it", "Energy",
                    "Disturbed by"},
                   rows);
}

std::string soak_html(const Acceptance& a) {
  Rows rows;
  for (const AcceptedStep& s : a.steps) {
    if (!s.measured.soak) continue;
    const std::string found = reports::soak_text(*s.measured.soak);
    rows.push_back({s.label, fmt::format("{:.0f} s", s.measured.soak->seconds), std::to_string(s.measured.soak->steps),
                    std::to_string(s.measured.soak->windows.size()), found.empty() ? "nothing" : found});
  }
  if (rows.empty()) return "";
  return "<section><h2>Soak</h2>\n" + html_grid({"Point", "Trained for", "Steps", "Windows", "What stood out"}, rows) +
         "</section>\n";
}

std::string figures_html(const Acceptance& a) {
  Rows rows;
  for (std::size_t f = 0; f < a.before.figures.size(); ++f) {
    const health::Figure& figure = a.before.figures[f];
    if (!figure.judged || figure.of.empty()) continue;
    const double as_of = figure.of.front().value;
    const auto extremes = [&](const health::Figure& g) {
      const auto [least, most] = std::minmax_element(
          g.of.begin(), g.of.end(),
          [](const health::RankFigure& x, const health::RankFigure& y) { return x.value < y.value; });
      const std::string first = number_of(least->value, g.unit, as_of);
      return g.of.size() == 1 ? first : first + " to " + number_of(most->value, g.unit, as_of);
    };
    const auto& expected = figure.of.front().expected;
    const bool again = f < a.after.figures.size() && !a.after.figures[f].of.empty();
    rows.push_back({health::label_of(figure), health::printed_as(figure.unit, as_of).unit,
                    std::to_string(figure.of.size()), extremes(figure), again ? extremes(a.after.figures[f]) : "n/a",
                    expected ? number_of(*expected, figure.unit, as_of) +
                                   (figure.of.front().estimated ? " (estimate, judges nothing)" : "")
                             : "n/a"});
  }
  return html_grid({"Figure", "Unit", "Ranks or groups", "Before training", "After it", "By " + a.machine}, rows);
}

std::string hosts_html(const Acceptance& a) {
  Rows hosts, devices;
  for (const Host& h : a.before.hosts)
    hosts.push_back({h.name, h.cpu, std::to_string(h.cores), format_bytes(h.memory_bytes),
                     std::to_string(h.gpus.size()), h.driver.empty() ? "n/a" : h.driver, h.mpi});
  std::string out = html_grid({"Host", "CPU", "Cores", "Memory", "GPUs", "Driver", "MPI"}, hosts);
  for (const std::string& line : differences_of(a.before.hosts))
    out += "<p class=gap>Not alike: " + escape_html(line) + "</p>\n";
  const auto said = [](const std::optional<std::int64_t>& n) { return n ? std::to_string(*n) : std::string("n/a"); };
  const std::vector<DeviceSignature>& now = a.after.signatures.empty() ? a.before.signatures : a.after.signatures;
  for (std::size_t rank = 0; rank < now.size(); ++rank) {
    const DeviceSignature& s = now[rank];
    if (s == DeviceSignature()) continue;
    std::string xids;
    for (const health::Health* check : {&a.before, &a.after})
      if (rank < check->signatures.size())
        for (const std::int64_t xid : check->signatures[rank].xids)
          xids += (xids.empty() ? "" : ", ") + std::to_string(xid);
    devices.push_back({health::ranks_text(a.before, {static_cast<int>(rank)}), s.serial.empty() ? "n/a" : s.serial,
                       s.vbios.empty() ? "n/a" : s.vbios, said(s.ecc_corrected) + " / " + said(s.ecc_uncorrected),
                       said(s.remapped_rows), fmt::format("gen {} x{}", said(s.pcie_generation), said(s.pcie_width)),
                       said(s.nvlinks), said(s.nvlink_errors), xids.empty() ? "none" : xids});
  }
  if (!devices.empty())
    out += html_grid({"Device", "Serial", "VBIOS", "ECC corrected / not", "Remapped rows", "PCIe", "NVLinks",
                      "NVLink errors", "Xids in the checks"},
                     devices);
  else
    out += "<p class=small>No GPU, or no NVML: ECC, remapped rows, PCIe, NVLink and Xids are unknown.</p>\n";
  return out;
}

std::string facts_html(const Acceptance& a) {
  std::string out = "<dl class=facts>\n";
  const auto fact = [&](const char* term, const std::string& text) {
    out += fmt::format("<dt>{}</dt><dd>{}</dd>\n", term, escape_html(text));
  };
  fact("Spec", a.spec);
  fact("Expected", a.machine);
  fact("Ranks", fmt::format("{} on {} host{} ({})", a.ranks, a.before.hosts.size(),
                            a.before.hosts.size() == 1 ? "" : "s", a.before.device));
  fact("Tolerance", fmt::format("{:.4g} % of peers, {:.4g} % of {} and its simulation", a.peers * 100,
                                a.data_sheet * 100, a.machine));
  fact("Checks", fmt::format("before and after training, {} repeat{} each; an outlier is out in two of three", a.repeat,
                             a.repeat == 1 ? "" : "s"));
  fact("Soak", a.soak.empty() ? "none: the steps of the spec" : a.soak + " for each point");
  fact("Started", a.started);
  return out + "</dl>\n";
}

}  // namespace

std::vector<Compared> compared(const Acceptance& a) {
  std::vector<Compared> all;
  compare_check(a.before, "before training", a, all);
  compare_check(a.after, "after training", a, all);
  for (const AcceptedStep& s : a.steps)
    if (const auto share = step_share(s))
      all.push_back({"step of " + s.label, ms_text(s.measured.iteration_ms->mean),
                     ms_text(s.simulated->iteration_ms->mean) + " simulated", *share, a.data_sheet, false});
  std::stable_sort(all.begin(), all.end(),
                   [](const Compared& x, const Compared& y) { return x.share / x.allowed > y.share / y.allowed; });
  return all;
}

std::vector<std::string> reasons_to_fail(const Acceptance& a) {
  std::vector<std::string> reasons = findings_of(a.before, a);
  std::set<std::string> said(reasons.begin(), reasons.end());
  for (const std::string& text : findings_of(a.after, a))
    if (!said.contains(text)) reasons.push_back("after training: " + text);
  if (a.steps.empty()) reasons.push_back("no point was trained");
  for (const std::string& gate : a.gates) reasons.push_back("gate: " + gate);
  for (const AcceptedStep& s : a.steps) {
    if (s.measured.outcome != Outcome::ok) {
      // What no machine of that kind can hold is no fault of this one.
      if (s.simulated && s.simulated->outcome == s.measured.outcome) continue;
      reasons.push_back(fmt::format("{}: {}{}", s.label, name_of(s.measured.outcome),
                                    s.measured.reason.empty() ? "" : ", " + s.measured.reason));
      continue;
    }
    if (const auto share = step_share(s); share && *share > a.data_sheet) {
      const std::string disturbed = disturbed_text(s);
      reasons.push_back(fmt::format("{}: a step takes {}, {} than the {} simulated on {}{}", s.label,
                                    ms_text(s.measured.iteration_ms->mean), difference_text(*share, false),
                                    ms_text(s.simulated->iteration_ms->mean), a.machine,
                                    disturbed.empty() ? "" : " (" + disturbed + ")"));
    }
    if (const std::string straggler = reports::straggler_text(s.measured); !straggler.empty())
      reasons.push_back(s.label + ": " + straggler);
    if (!s.measured.device_faults.empty())
      reasons.push_back(s.label + ": the devices reported " + s.measured.device_faults);
    if (s.measured.soak)
      if (const std::string soak = reports::soak_text(*s.measured.soak); !soak.empty())
        reasons.push_back(s.label + ": " + soak);
  }
  return reasons;
}

ordered_json acceptance_to_json(const Acceptance& a) {
  const std::vector<std::string> reasons = reasons_to_fail(a);
  ordered_json worst = ordered_json::array(), steps = ordered_json::array();
  const std::vector<Compared> all = compared(a);
  for (std::size_t i = 0; i < std::min(kWorst, all.size()); ++i)
    worst.push_back({{"what", all[i].what},
                     {"measured", all[i].measured},
                     {"reference", all[i].reference},
                     {"worse_by", all[i].share},
                     {"allowed", all[i].allowed}});
  for (const AcceptedStep& s : a.steps) {
    const auto ms = [](const auto& r) { return r ? ordered_json(r->mean) : ordered_json(nullptr); };
    steps.push_back({{"label", s.label},
                     {"id", s.measured.id},
                     {"outcome", name_of(s.measured.outcome)},
                     {"measured_ms", ms(s.measured.iteration_ms)},
                     {"simulated_ms", s.simulated ? ms(s.simulated->iteration_ms) : ordered_json(nullptr)},
                     {"verdict", step_verdict(s, a)},
                     {"disturbed_by", reports::what_disturbed(s.measured)}});
  }
  return {{"schema", "mbench.accept/1"},
          {"verdict", reasons.empty() ? "PASS" : "FAIL"},
          {"reasons", reasons},
          {"worst", worst},
          {"steps", steps},
          {"spec", a.spec},
          {"machine", a.machine},
          {"tolerance", {{"peers", a.peers}, {"data_sheet", a.data_sheet}}},
          {"ranks", a.ranks},
          {"repeat", a.repeat},
          {"soak", a.soak.empty() ? ordered_json(nullptr) : ordered_json(a.soak)},
          {"started", a.started}};
}

std::string acceptance_page(const Acceptance& a) {
  const std::vector<std::string> reasons = reasons_to_fail(a);
  std::string body = "<section class=answer>\n";
  if (reasons.empty()) {
    body += "<p><strong>PASS</strong>: nothing is worse than was allowed.</p>\n";
  } else {
    body += fmt::format("<p class=gap><strong>FAIL</strong>: {} reason{}.</p>\n<ul>\n", reasons.size(),
                        reasons.size() == 1 ? "" : "s");
    for (const std::string& reason : reasons) body += "<li>" + escape_html(reason) + "</li>\n";
    body += "</ul>\n";
  }
  body += "</section>\n<section><h2>The worst five</h2>\n";
  Rows worst;
  const std::vector<Compared> all = compared(a);
  for (std::size_t i = 0; i < std::min(kWorst, all.size()); ++i)
    worst.push_back({all[i].what, all[i].failed() ? "FAIL" : "ok", all[i].measured, all[i].reference,
                     difference_text(all[i].share, all[i].rate), difference_text(all[i].allowed, all[i].rate)});
  body += html_grid({"What", "Verdict", "Measured", "Against", "It is", "Allowed"}, worst) + "</section>\n";
  body += "<section><h2>Steps</h2>\n" + steps_html(a) +
          fmt::format(
              "<p class=small>Simulated on {}. A step fails whose rate is {:.4g} % below the simulated one: {}.</p>"
              "</section>\n",
              escape_html(a.machine), a.data_sheet * 100, difference_text(a.data_sheet, false));
  body += soak_html(a);
  body +=
      "<section><h2>Devices and links</h2>\n" + figures_html(a) +
      "<p class=small>Medians of repeats, the least and the most of all ranks or groups. Collectives at the largest "
      "size.</p></section>\n";
  body += "<section><h2>Hosts</h2>\n" + hosts_html(a) + "</section>\n";
  body += "<section><h2>What was measured</h2>\n" + facts_html(a) + "</section>\n";
  return reports::html_document(fmt::format("Acceptance of {}: {}", a.machine, reasons.empty() ? "PASS" : "FAIL"),
                                body);
}

}  // namespace mbench::cli
