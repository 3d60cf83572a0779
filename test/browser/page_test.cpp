// The page of a report in a real browser: headless Chromium opens it; nothing may stand on its console, no
// request may leave it, and its tables must sort. Returns 77, "skipped", where there is no Chromium.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "engine/base/json_reader.h"
#include "engine/process/process.h"
#include "reports/page/html.h"
#include "test/reports/sample.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::process;
using namespace mbench::reports;
namespace fs = std::filesystem;

namespace {

constexpr int kSkipped = 77;

struct Seen {
  std::string dom;                    // as it is after the page's scripts
  std::vector<std::string> console;   // lines
  std::vector<std::string> requests;  // that the page made, to anywhere but itself
};

std::string find_browser() {
  for (const char* name : {"chromium", "chromium-browser", "google-chrome", "chrome"}) {
    ProcessRequest request;
    request.argv = {name, "--version"};
    request.timeout_s = 60;
    const auto end = run_process(request);
    if (end.how == ProcessEnd::How::exited && end.code == 0) return name;
  }
  return "";
}

// Once more with a fresh profile if the browser itself does not come up.
Seen open_page(const std::string& browser, const fs::path& folder, const std::string& html) {
  const fs::path page = folder / "page.html", log = folder / "browser.log", network = folder / "network.json";
  std::ofstream(page) << html;
  Seen seen;
  for (int attempt = 0; attempt < 2 && seen.dom.empty(); ++attempt) {
    ProcessRequest request;
    request.argv = {browser,
                    "--headless=new",
                    "--disable-gpu",
                    "--no-first-run",
                    "--disable-dev-shm-usage",
                    "--user-data-dir=" + (folder / fmt::format("profile{}", attempt)).string(),
                    "--enable-logging=stderr",
                    "--log-net-log=" + network.string(),
                    "--virtual-time-budget=5000",
                    "--window-size=1400,900",
                    "--dump-dom"};
    if (::geteuid() == 0) request.argv.push_back("--no-sandbox");  // Chromium refuses to run as root with it
    request.argv.push_back("file://" + page.string());
    request.log = log.string();
    request.timeout_s = 120;
    seen.dom.clear();
    request.on_line = [&](std::string_view line) {
      seen.dom += std::string(line) + "\n";
      return true;
    };
    run_process(request);
  }
  std::ifstream lines(log);
  for (std::string line; std::getline(lines, line);)
    if (line.find(":CONSOLE") != std::string::npos) seen.console.push_back(line);
  std::ifstream events(network);
  for (std::string line; std::getline(events, line);)
    if (line.find("site=file://") != std::string::npos && line.find("\"url\":\"http") != std::string::npos)
      seen.requests.push_back(line);
  return seen;
}

// A page that also tells, in elements of its own, what happens when a reader clicks.
std::string with_clicks(std::string html) {
  const std::string probe = R"(<script>
    const table = document.querySelector('table.sorts');
    const column = (n) => [...table.tBodies[0].rows].map((r) => r.cells[n].textContent).join(';');
    const told = [];
    const tell = (id, text) => {
      told.push([id, String(text)]);
      const p = document.createElement('p');
      p.id = id;
      p.textContent = text;
      document.body.append(p);
    };
    const button = table.tHead.rows[0].cells[1].querySelector('button');
    tell('before', column(0));
    button.click();
    tell('up', column(1));
    button.click();
    tell('down', column(1));
    tell('sort', table.tHead.rows[0].cells[1].getAttribute('aria-sort'));
    document.getElementById('theme').click();
    document.getElementById('theme').click();
    tell('theme', document.documentElement.dataset.theme + ' ' + getComputedStyle(document.body).backgroundColor);
    const every = document.querySelector('table[data-pairs]');
    const visible = (t) => [...t.tBodies[0].rows].filter((r) => !r.hidden).length;
    const filter = document.querySelectorAll('.filter input');
    tell('rows', visible(every));
    const search = [...filter].at(-1);
    search.value = 'SEQ  512 full';
    search.dispatchEvent(new Event('input'));
    tell('filtered', visible(every) + ', ' + search.closest('.tools').querySelector('output').textContent);
    search.value = '';
    search.dispatchEvent(new Event('input'));
    tell('unfiltered', visible(every));
    const boxes = every.querySelectorAll('input[type=checkbox]');
    const pair = document.querySelector('.pair');
    boxes[0].click();
    tell('one', pair.hidden);
    boxes[1].click();
    const cell = (name, n) => [...pair.querySelectorAll('tbody tr')]
      .find((r) => r.cells[0].textContent === name)?.cells[n].textContent;
    tell('two', pair.hidden + ' ' + [1, 2, 3].map((n) => cell('Time (ms)', n)).join(' | '));
    boxes[2].click();  // in place of the oldest
    tell('three', [...boxes].map((b) => +b.checked).slice(0, 4).join('') + ' ' + cell('Time (ms)', 1));
    pair.querySelector('button').click();
    tell('closed', pair.hidden + ' ' + [...boxes].some((b) => b.checked));
    tell('tips', document.querySelectorAll('svg .tip title').length > 0);
    tell('nameless', [...document.querySelectorAll('input, button')]
      .filter((e) => !(e.ariaLabel || e.textContent || e.labels?.length)).length);
    tell('wide', document.documentElement.scrollWidth <= innerWidth);
    tell('width', innerWidth);
    if (parent !== window) parent.postMessage(told, '*');
  </script>)";
  html.insert(html.rfind("</body>"), probe);
  return html;
}

// The page in a frame of that width, since no window of Chromium's is narrower than 500. What the page tells stands in the outer one.
std::string framed(const std::string& html, int width) {
  std::string text = nlohmann::json(html).dump();
  for (std::size_t at = 0; (at = text.find("</", at)) != std::string::npos; at += 3) text.replace(at, 2, "<\\/");
  return fmt::format(
      "<!doctype html><meta charset=utf-8><link rel=icon href=\"data:,\"><body><iframe "
      "style=\"width:{}px;height:900px;border:0\">"
      "</iframe><script>addEventListener('message', (e) => {{ for (const [id, text] of e.data) {{"
      "const p = document.createElement('p'); p.id = id; p.textContent = text; document.body.append(p); }} }});"
      "document.querySelector('iframe').srcdoc = {};</script>",
      width, text);
}

std::string reported(const std::string& dom, const std::string& id) {
  const std::string begin = "<p id=\"" + id + "\">";
  const std::size_t at = dom.find(begin);
  if (at == std::string::npos) return "(nothing)";
  return dom.substr(at + begin.size(), dom.find("</p>", at) - at - begin.size());
}

int failures = 0;

void expect(bool ok, const std::string& what, const std::string& got) {
  if (ok) return;
  ++failures;
  fmt::print("FAILED: {}\n  got: {}\n", what, got);
}

std::string joined(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += line + "\n";
  return out;
}

// `width`: of the window, in CSS pixels.
void check_page(const std::string& browser, const fs::path& folder, int width) {
  ResultFile file = sample::strategies();
  file.spec["name"] = "page \"quoted\" <b>|</b> Gr\u00f6\u00dfe";
  const HtmlReport report = html_report({{"results.json", file}}, {});
  const std::string page = with_clicks(report.text);
  const Seen seen = open_page(browser, folder, width < 500 ? framed(page, width) : page);
  expect(reported(seen.dom, "width") == std::to_string(width), "the page is as wide as its window",
         reported(seen.dom, "width"));
  expect(seen.dom.find("Gr\u00f6\u00dfe") != std::string::npos, "the page is shown", seen.dom.substr(0, 300));
  expect(seen.console.empty(), "nothing on the console", joined(seen.console));
  expect(seen.requests.empty(), "no request leaves the page", joined(seen.requests));
  expect(reported(seen.dom, "before") ==
             "Baseline;Sequence Parallel;Selective Recompute;Sequence Parallel + Selective Recompute;Full "
             "Recompute",
         "rows stand as in the table", reported(seen.dom, "before"));
  expect(reported(seen.dom, "up") == "288 \u00b1 1;336 \u00b1 1;340 \u00b1 1;392 \u00b1 1;412 \u00b1 1",
         "a click sorts", reported(seen.dom, "up"));
  expect(reported(seen.dom, "down") == "412 \u00b1 1;392 \u00b1 1;340 \u00b1 1;336 \u00b1 1;288 \u00b1 1",
         "a second click turns it round", reported(seen.dom, "down"));
  expect(reported(seen.dom, "sort") == "descending", "the header says so", reported(seen.dom, "sort"));
  expect(reported(seen.dom, "theme") == "dark rgb(21, 24, 27)", "the button makes it dark",
         reported(seen.dom, "theme"));
  expect(reported(seen.dom, "rows") == "20", "every point has a row", reported(seen.dom, "rows"));
  expect(reported(seen.dom, "filtered") == "2, 2 of 20 rows", "words leave the rows that have them all",
         reported(seen.dom, "filtered"));
  expect(reported(seen.dom, "unfiltered") == "20", "no words leave all rows", reported(seen.dom, "unfiltered"));
  expect(reported(seen.dom, "one") == "true", "one point has nothing beside it", reported(seen.dom, "one"));
  expect(reported(seen.dom, "two") == "false 288.0 +/- 1.4 | 340.0 +/- 1.4 | +18.1 %", "two points stand side by side",
         reported(seen.dom, "two"));
  expect(reported(seen.dom, "three") == "0110 340.0 +/- 1.4", "a third takes the place of the first",
         reported(seen.dom, "three"));
  expect(reported(seen.dom, "closed") == "true false", "closing takes the ticks away", reported(seen.dom, "closed"));
  expect(report.notes.size() > 0 || reported(seen.dom, "tips") == "true", "points of plots have tooltips",
         reported(seen.dom, "tips"));
  expect(reported(seen.dom, "nameless") == "0", "every control has a name", reported(seen.dom, "nameless"));
  expect(reported(seen.dom, "wide") == "true", "the page itself does not scroll sideways", reported(seen.dom, "wide"));
}

// What the checks are worth: a page that does ask for something and does write to the console is caught.
void check_the_check(const std::string& browser, const fs::path& folder) {
  const Seen seen =
      open_page(browser, folder,
                "<!doctype html><title>x</title><body>Gr\u00f6\u00dfe<img src=\"http://127.0.0.1:9/x.png\">"
                "<script>console.error('on purpose')</script>");
  expect(!seen.console.empty(), "a line on the console is seen", "none");
  expect(!seen.requests.empty(), "a request is seen", "none");
}

}  // namespace

int main() {
  const std::string browser = find_browser();
  if (browser.empty()) {
    fmt::print("Skipped: there is no chromium on this machine (Debian: apt install chromium)\n");
    return kSkipped;
  }
  const test::TemporaryFolder folder;
  for (const int width : {1400, 390}) check_page(browser, folder.path, width);
  check_the_check(browser, folder.path);
  if (failures == 0) fmt::print("The page is sound in {}\n", browser);
  return failures ? 1 : 0;
}
