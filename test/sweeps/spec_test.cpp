#include "sweeps/spec/spec.h"

#include "test/sweeps/fixture.h"

using namespace mbench;
using namespace mbench::sweeps;
using namespace sweeps_test;
using Catch::Contains;

namespace {

Spec read(const Folder& folder, const std::string& text, std::vector<std::string> set = {},
          std::vector<std::string> filter = {}) {
  const std::string path = folder / "s.json";
  put(path, text);
  SpecOptions options;
  options.path = path;
  options.set = std::move(set);
  options.filter = std::move(filter);
  return read_spec(options);
}

std::vector<std::string> labels(const Spec& spec) {
  std::vector<std::string> out;
  for (const SpecPoint& p : spec.points) out.push_back(p.label);
  return out;
}

using Labels = std::vector<std::string>;

constexpr const char* kZip = R"({"name": "z", "model": "gpt2-345m", "global_batch": 16,
  "sweep": {"tp,pp": [[4, 2], [8, 1]], "seq": [512, 1024], "strategy": ["baseline", "full"]}})";

}  // namespace

TEST_CASE("a spec crosses its entries in the order written and zips joined keys") {
  const Folder folder;
  const Spec spec = read(folder, kZip);
  CHECK(spec.name == "z");
  REQUIRE(spec.points.size() == 8);
  CHECK(spec.points[0].label == "tp=4 pp=2 seq=512 strategy=baseline");
  CHECK(spec.points[1].label == "tp=4 pp=2 seq=512 strategy=full");
  CHECK(spec.points[2].label == "tp=4 pp=2 seq=1024 strategy=baseline");
  CHECK(spec.points[4].label == "tp=8 pp=1 seq=512 strategy=baseline");
  CHECK(spec.points[7].point.recompute == Recompute::full);
  CHECK(spec.points[7].point.global_batch == 16);
  CHECK(spec.points[7].id == point_id(spec.points[7].point));
  CHECK(spec.all_ids.size() == 8);

  // The order of the file, not of the alphabet.
  CHECK(labels(read(folder, R"({"model": "gpt-bytes-tiny", "sweep": {"seq": [32, 64], "dp": [1, 2]}})")) ==
        Labels{"seq=32 dp=1", "seq=32 dp=2", "seq=64 dp=1", "seq=64 dp=2"});
}

TEST_CASE("a spec without a sweep is one point, named after its file") {
  const Folder folder;
  const Spec spec = read(folder, R"({"model": "gpt-bytes-tiny", "tables": [{"rows": "seq"}]})");
  CHECK(spec.points.size() == 1);
  CHECK(spec.points[0].label == "gpt-bytes-tiny");
  CHECK(spec.name == "s");
  CHECK(spec.json.contains("tables"));
}

TEST_CASE("--set replaces fields wherever they stand") {
  const Folder folder;
  CHECK(read(folder, kZip, {"global_batch=32"}).points[0].point.global_batch == 32);
  CHECK(read(folder, kZip, {"precision=bf16"}).points[0].point.precision == Precision::bf16);
  CHECK(read(folder, kZip, {"memory_limit=2GiB"}).points[0].point.memory_limit == 2ull << 30);
  CHECK(read(folder, kZip, {"env={\"A\": \"1\"}"}).points[0].point.env.at("A") == "1");
  CHECK(
      read(folder, kZip, {"model={\"preset\": \"gpt2-345m\", \"positions\": 2048}"}).points[0].point.model.positions ==
      2048);
  // A swept key becomes fixed.
  const Spec seq = read(folder, kZip, {"seq=256"});
  CHECK(seq.points.size() == 4);
  CHECK(seq.points[0].point.seq == 256);
  CHECK_FALSE(seq.json.at("sweep").contains("seq"));
  // A zipped one leaves its zip; what is then there twice stands once.
  const Spec tp = read(folder, kZip, {"tp=2", "seq=512", "strategy=full"});
  CHECK(labels(tp) == Labels{"pp=2", "pp=1"});
  CHECK(tp.points[0].point.tp == 2);
  CHECK(read(folder, R"({"model": "gpt-bytes-tiny", "sweep": {"tp,pp": [[1, 2], [2, 2]]}})", {"tp=1"}).points.size() ==
        1);
  // An array sweeps, at the same place if it was swept there already.
  CHECK(labels(read(folder, kZip, {"seq=[64]", "tp,pp=[[1,1],[2,1]]", "strategy=full"})) ==
        Labels{"tp=1 pp=1 seq=64", "tp=2 pp=1 seq=64"});
  CHECK(labels(read(folder, R"({"model": "gpt-bytes-tiny"})", {"dp=[1,2]"})) == Labels{"dp=1", "dp=2"});
  // A list of lists of parts is one layout.
  const auto layouts = [&](const char* value) {
    return read(folder, R"({"model": "gpt-bytes-tiny", "pp": 2})", {fmt::format("pipeline_layout={}", value)});
  };
  CHECK(layouts(R"([["embedding", "decoder"], ["loss"]])").points.at(0).point.pipeline_layout == "Et|L");
  CHECK(layouts("Et|tL").points.at(0).point.pipeline_layout == "Et|tL");
  CHECK(layouts(R"(["Et|tL", [["E", "t", "t"], ["L"]]])").points.at(1).point.pipeline_layout == "Ett|L");
}

TEST_CASE("--filter keeps the points with a value, however it is written") {
  const Folder folder;
  CHECK(labels(read(folder, kZip, {}, {"tp=8", "seq=512"})) ==
        Labels{"tp=8 pp=1 seq=512 strategy=baseline", "tp=8 pp=1 seq=512 strategy=full"});
  CHECK(read(folder, kZip, {}, {"seq=512", "seq=1024"}).points.size() == 8);
  CHECK(read(folder, kZip, {}, {"strategy=full"}).points.size() == 4);
  CHECK(read(folder, kZip, {}, {"recompute=full"}).points.size() == 4);
  CHECK(read(folder, kZip, {}, {"model=gpt2-345m"}).points.size() == 8);
  CHECK(read(folder, kZip, {"memory_limit=2147483648"}, {"memory_limit=2GiB"}).points.size() == 8);
  const Spec one = read(folder, kZip, {}, {"tp=8", "seq=512", "strategy=full"});
  CHECK(one.points.size() == 1);
  CHECK(one.all_ids.size() == 8);
  CHECK_THAT(message_of([&] { read(folder, kZip, {}, {"tp=3"}); }),
             Contains("[--filter] none of the 8 points is left"));
  CHECK_THAT(message_of([&] { read(folder, kZip, {}, {"tpp=3"}); }),
             Contains("[--filter tpp=3] unknown field") && Contains("did you mean \"tp\"?"));
  CHECK_THAT(message_of([&] { read(folder, kZip, {}, {"tp"}); }), Contains("need field=value"));
  CHECK_THAT(message_of([&] { read(folder, kZip, {}, {"tp=x"}); }), Contains("[--filter tp=x] wrong type"));
}

TEST_CASE("what is wrong with a spec is said with its path") {
  const Folder folder;
  const auto refusal = [&](const std::string& text) { return message_of([&] { read(folder, text); }); };
  const auto swept = [&](const std::string& sweep) {
    return refusal(R"({"model": "gpt-bytes-tiny", "sweep": )" + sweep + "}");
  };
  CHECK_THAT(refusal(""), Contains("s.json] the file is empty"));
  CHECK_THAT(refusal("{\"model\": "), Contains("cut short: the file ends at byte 10"));
  CHECK_THAT(refusal("[]"), Contains("s.json: $] wrong type"));
  CHECK_THAT(refusal("{}"), Contains("s.json: $] \"model\" is missing"));
  CHECK_THAT(refusal(R"({"model": "gpt-bytes-tiny", "swep": {}})"),
             Contains("s.json: $.swep] unknown key") && Contains("did you mean \"sweep\"?"));
  CHECK_THAT(refusal(R"({"model": "gpt-bytes-tiny", "tp": 1, "tp": 2})"),
             Contains("s.json: $] the key \"tp\" stands twice"));
  CHECK_THAT(swept(R"({"tp": [1], "tp": [2]})"), Contains("s.json: $.sweep] the key \"tp\" stands twice"));
  CHECK_THAT(refusal(R"({"model": "gpt-bytes-tiny", "device": "cpu"})"),
             Contains("$.device]") && Contains("need --on"));
  CHECK_THAT(refusal(R"({"model": "gpt-bytes-tiny", "name": "a/b"})"), Contains("$.name]"));
  CHECK_THAT(refusal(R"({"model": "gpt-bytes-tiny", "name": 3})"), Contains("$.name] wrong type, got 3"));
  CHECK_THAT(swept("[1]"), Contains("$.sweep] wrong type, got [1]"));
  CHECK_THAT(swept(R"({"tp": 2})"), Contains("$.sweep.tp] got 2, need an array"));
  CHECK_THAT(swept(R"({"tp": []})"), Contains("$.sweep.tp] got [], need an array of at least one value"));
  CHECK_THAT(swept(R"({"tp": [1, "x"]})"), Contains("$.sweep.tp[1]] wrong type, got \"x\""));
  CHECK_THAT(swept(R"({"tpx": [1]})"), Contains("$.sweep.tpx] unknown key"));
  CHECK_THAT(swept(R"({"name": ["a"]})"), Contains("$.sweep.name] unknown key"));
  CHECK_THAT(swept(R"({"tp,pp": [[1, 2], [1]]})"),
             Contains("$.sweep.tp,pp[1]] got [1], need an array of 2 values for tp,pp"));
  CHECK_THAT(swept(R"({"tp,pp": [[1, 0]]})"), Contains("$.sweep.tp,pp[0][1]] out of range, got 0"));
  CHECK_THAT(swept(R"({"tp,": [[1, 2]]})"), Contains("$.sweep.tp,] unknown key, got \"\""));
  CHECK_THAT(swept(R"({"tp": [1], "tp,pp": [[1, 2]]})"), Contains("$.sweep.tp,pp] \"tp\" stands at"));
  CHECK_THAT(refusal(R"({"model": "gpt-bytes-tiny", "tp": 1, "sweep": {"tp": [1]}})"),
             Contains("$.sweep.tp] \"tp\" stands at") && Contains("$.tp too"));
  CHECK_THAT(swept(R"({"tp": [1, 2, 1]})"), Contains("two points are the same, got tp=1 and tp=1"));
  CHECK_THAT(swept(R"({"strategy": ["full"], "recompute": ["full", "none"]})"),
             Contains("$.sweep.recompute[1]] contradicts the strategy \"full\""));
  CHECK_THAT(message_of([&] { read_spec({folder / "none.json", {}, {}, "cpu"}); }), Contains("cannot be read"));
  CHECK_THAT(message_of([&] { read(folder, kZip, {"tp"}); }), Contains("[--set tp] no assignment"));
  CHECK_THAT(message_of([&] { read(folder, kZip, {"tp=x"}); }), Contains("$.tp] wrong type, got \"x\""));
  CHECK_THAT(message_of([&] { read(folder, kZip, {"device=cuda"}); }), Contains("need --on"));
  std::string many("[1");
  for (int i = 2; i <= 400; ++i) many.append(",").append(std::to_string(i));
  CHECK_THAT(swept(R"({"seed": )" + many + R"(], "seq": )" + many + "]}"), Contains("more than 100000 points"));
}

TEST_CASE("data is looked for in the current folder and then beside the spec, and the point keeps its name") {
  const Folder folder;
  put(folder / "words.txt", "some words");
  const Spec spec = read(folder, R"({"model": "gpt-bytes-tiny", "data": "text:words.txt"})");
  CHECK(spec.points[0].point.data == "text:words.txt");
  CHECK(spec.points[0].data == "text:" + (folder / "words.txt"));
  CHECK_THAT(
      message_of([&] { read(folder, R"({"model": "gpt-bytes-tiny", "sweep": {"data": ["synthetic", "text:x"]}})"); }),
      Contains("$.sweep.data[1]] no such data file, got \"x\""));
}

TEST_CASE("the configurations that come with mbench can be expanded") {
  const auto count = [](const std::string& name) {
    SpecOptions options;
    options.path = std::string(MBENCH_SOURCE_DIR "/configs/") + name;
    const Spec spec = read_spec(options);
    return spec.points.size();
  };
  CHECK(count("quickstart.json") == 10);
  CHECK(count("quickstart-pipeline.json") == 10);
  CHECK(count("gpt345m.json") == 40);
  CHECK(count("bert345m.json") == 40);
}

TEST_CASE("the folder of a sweep stands for the spec in its results.json") {
  const Folder folder;
  fs::create_directory(folder.path / "out");
  put(folder / "out/results.json",
      std::string(R"({"schema": "mbench.results/1", "environment": {}, "points": [], "spec": )") + kZip + "}");
  SpecOptions options;
  options.path = folder / "out";
  CHECK(read_spec(options).points.size() == 8);
  fs::create_directory(folder.path / "empty");
  options.path = folder / "empty";
  CHECK_THAT(message_of([&] { read_spec(options); }), Contains("empty/results.json] cannot be read"));
}

TEST_CASE("sizes of the model are fields of their own: set together, swept, filtered") {
  const Folder folder;
  constexpr const char* kSpec = R"({"model": "gpt2-345m", "seq": 512})";
  const Spec set = read(folder, kSpec, {"model.heads=8", "model.kv_heads=2"});
  CHECK(set.points[0].point.model.heads == 8);
  CHECK(set.points[0].point.model.kv_heads == 2);
  CHECK(set.points[0].label == "gpt2-345m (heads 8, kv_heads 2)");
  // The same point as the object that says it.
  CHECK(set.points[0].id ==
        read(folder, R"({"model": {"preset": "gpt2-345m", "heads": 8, "kv_heads": 2}, "seq": 512})").points[0].id);
  CHECK(read(folder, kSpec, {"model.hidden=512"}).points[0].point.model.ffn == 2048);
  CHECK(read(folder, kSpec, {"model.layers=24"}).points[0].label == "gpt2-345m");  // as it was
  CHECK(read(folder, kSpec, {"model.positions=4096"}).points[0].label == "gpt2-345m");
  const Spec swept = read(folder, kSpec, {"model.layers=[2,4]"});
  CHECK(labels(swept) == Labels{"model.layers=2", "model.layers=4"});
  CHECK(labels(read(folder, kSpec, {"model.layers=[2,4]"}, {"model.layers=4"})) == Labels{"model.layers=4"});
  // Of several models, each.
  CHECK(read(folder, R"({"sweep": {"model": ["gpt2-345m", "gpt2-124m"]}})", {"model.layers=3"})
            .points[1]
            .point.model.layers == 3);
  CHECK_THAT(message_of([&] { read(folder, kSpec, {"model.kv_heads=7"}); }), Contains("s.json: $.model.kv_heads"));
  CHECK_THAT(message_of([&] { read(folder, kSpec, {"model.layer=7"}); }), Contains("layer") && Contains("layers"));
  CHECK_THAT(message_of([&] { read(folder, kSpec, {"model.preset=llama-2-7b"}); }),
             Contains("need the whole of \"model\""));
}
