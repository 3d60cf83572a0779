// A machine of your own: the file of the nearest one, with other figures. Saved, it can stand wherever a machine's name does.
#include <mbench/mbench.h>

#include <cstdio>
#include <fstream>

namespace {

// In a real program use a JSON library; docs/guide/add-a-machine.md has one, and says which figures to take from where.
std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos) throw mbench::Error(mbench::ErrorKind::bad_input, "H100-SXM5-80GB", "has no " + from);
  return text.replace(at, from.size(), to);
}

double step_ms(const std::string& machine, const mbench::Spec& spec) {
  return *mbench::Simulator("8x" + machine).simulate(spec).metric("iteration_ms");
}

}  // namespace

int main() try {
  std::string file = mbench::machine_json("H100-SXM5-80GB");
  file = with(file, "\"name\": \"H100-SXM5-80GB\"", "\"name\": \"my-h100\"");
  std::ofstream("my-h100.json") << file;

  const mbench::Spec spec =
      mbench::parse_spec(R"({"model": "gpt2-345m", "tp": 8, "seq": 1024, "global_batch": 16, "precision": "bf16"})");
  std::printf("as the built-in:                      %.3f ms\n", step_ms("H100-SXM5-80GB", spec));
  std::printf("from the file:                        %.3f ms\n", step_ms("./my-h100.json", spec));
  mbench::Simulator changed("8x./my-h100.json", {.figures = {{"device.memory_gbps", 1600}}});
  std::printf("with half of its memory's bandwidth:  %.3f ms\n", *changed.simulate(spec).metric("iteration_ms"));
  return 0;
} catch (const mbench::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 2;
}
