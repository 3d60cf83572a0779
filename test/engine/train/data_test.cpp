// Samples against those that numpy drew from the documented formulas, files of every format, and every file
// that must be refused.
#include "engine/train/data.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/text.h"
#include "test/catch.h"
#include "test/support/temporary_folder.h"

using namespace mbench;
using namespace mbench::train;

namespace {

using Bytes = std::vector<unsigned char>;

// A folder that goes away with the test.
struct Folder : test::TemporaryFolder {
  std::string write(const std::string& name, const Bytes& bytes) const {
    std::ofstream out(path / name, std::ios::binary);
    out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    out.close();
    REQUIRE(out);
    return (path / name).string();
  }
};

Bytes little_endian(const std::vector<std::uint64_t>& values, int width) {
  Bytes bytes;
  for (const std::uint64_t v : values)
    for (int i = 0; i < width; ++i) bytes.push_back(static_cast<unsigned char>(v >> (8 * i)));
  return bytes;
}

// An llm.c file that claims `count` tokens.
Bytes with_header(std::uint64_t magic, std::uint64_t version, std::uint64_t count, const Bytes& tokens) {
  std::vector<std::uint64_t> header(256, 0);
  header[0] = magic, header[1] = version, header[2] = count;
  Bytes bytes = little_endian(header, 4);
  bytes.insert(bytes.end(), tokens.begin(), tokens.end());
  return bytes;
}

// Token i of the test files is 3 i + 5, so that a sample tells where it began.
std::vector<std::uint64_t> ramp(std::uint64_t n) {
  std::vector<std::uint64_t> values(n);
  for (std::uint64_t i = 0; i < n; ++i) values[i] = 3 * i + 5;
  return values;
}

void check_ramp(const std::string& data, std::int64_t n, std::int64_t vocab) {
  CAPTURE(data);
  const std::int64_t seq = 4;
  const std::uint64_t seed = 21;
  const auto source = open_data(data, vocab, seq, seed);
  std::int64_t lowest = n, highest = -1;
  for (std::int64_t step = 0; step < 40; ++step)
    for (std::int64_t sample = 0; sample < 4; ++sample) {
      std::vector<std::int64_t> out(seq + 1);
      source->fill(step, sample, seq, out.data());
      const RngKey key{seed, fnv1a("data.start"), static_cast<std::uint32_t>(step)};
      const auto word = std::uint64_t{Philox::word(key, static_cast<std::uint64_t>(sample))};
      const auto start = static_cast<std::int64_t>((word * static_cast<std::uint64_t>(n - seq)) >> 32);
      for (std::int64_t p = 0; p <= seq; ++p) REQUIRE(out[p] == 3 * (start + p) + 5);
      lowest = std::min(lowest, start);
      highest = std::max(highest, start);
    }
  CHECK(lowest == 0);  // every start from the first to the last possible one occurs
  CHECK(highest == n - seq - 1);
}

std::string refusal(const std::string& data, std::int64_t vocab = 256, std::int64_t seq = 4) {
  try {
    const auto source = open_data(data, vocab, seq, 1);
    std::vector<std::int64_t> out(static_cast<std::size_t>(seq) + 1);
    for (std::int64_t step = 0; step < 50; ++step) source->fill(step, 0, seq, out.data());
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "accepted";
}

template <class T>
std::vector<std::int64_t> by_sample(const std::vector<T>& by_position, std::int64_t batch, std::int64_t seq) {
  std::vector<std::int64_t> out;
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t p = 0; p < seq; ++p)
      out.push_back(static_cast<std::int64_t>(by_position[static_cast<std::size_t>(p * batch + b)]));
  return out;
}

}  // namespace

TEST_CASE("synthetic batches are those of the documented formulas") {
  std::ifstream in(MBENCH_SOURCE_DIR "/test/fixtures/draws.json");
  const auto file = nlohmann::json::parse(in);
  REQUIRE(file.at("samples").size() == 6);
  for (const auto& c : file.at("samples")) {
    CAPTURE(c.dump());
    ModelSpec model;
    model.family = c.at("family") == "bert" ? "bert" : "gpt";
    model.vocab = c.at("vocab");
    model.labels = c.at("label_count");
    const bool words = model.labels == 0;
    const std::int64_t seq = c.at("seq"), batch = c.at("batch");
    const std::uint64_t seed = c.at("seed");
    const auto source = open_data("synthetic", model.vocab, seq, seed);
    const HostBatch got = make_batch(*source, model, seed, c.at("step"), c.at("first_sample"), batch, seq);
    using Ids = std::vector<std::int64_t>;
    CHECK(by_sample(got.tokens, batch, seq) == c.at("tokens").get<Ids>());
    CHECK(got.labels.empty() != words);
    CHECK(got.weights.empty() != words);
    const Ids weights = c.value("weights", Ids());
    if (words) {
      CHECK(by_sample(got.labels, batch, seq) == c.at("labels").get<Ids>());
      CHECK(by_sample(got.weights, batch, seq) == weights);
    }
    CHECK(got.weight_sum == static_cast<double>(std::count(weights.begin(), weights.end(), 1)));
    Ids positions;
    for (std::int64_t i = 0; i < batch * seq; ++i) positions.push_back(i % seq);
    CHECK(by_sample(got.positions, batch, seq) == positions);
    if (model.family == "bert") {
      CHECK(by_sample(got.token_types, batch, seq) == c.at("token_types").get<Ids>());
      CHECK(Ids(got.keep.begin(), got.keep.end()) == c.at("keep").get<Ids>());
    } else {
      CHECK(got.token_types.empty());
      CHECK(got.keep.empty());
    }
    CHECK(got.classes == c.value("classes", Ids()));
  }
}

TEST_CASE("a sample does not depend on the micro batch it comes in") {
  for (const std::string family : {"gpt", "bert"}) {
    ModelSpec model;
    model.family = family;
    model.vocab = 300;
    const std::int64_t seq = 10;
    const auto source = open_data("synthetic", model.vocab, seq, 5);
    const HostBatch whole = make_batch(*source, model, 5, 2, 3, 4, seq);
    const auto tokens = by_sample(whole.tokens, 4, seq), labels = by_sample(whole.labels, 4, seq);
    for (std::int64_t b = 0; b < 4; ++b) {
      const HostBatch one = make_batch(*source, model, 5, 2, 3 + b, 1, seq);
      CHECK(std::equal(one.tokens.begin(), one.tokens.end(), tokens.begin() + b * seq));
      CHECK(std::equal(one.labels.begin(), one.labels.end(), labels.begin() + b * seq));
    }
    const HostBatch next = make_batch(*source, model, 5, 3, 3, 4, seq);
    CHECK(next.labels != whole.labels);
  }
}

TEST_CASE("positions restart in each document, and nothing else of a batch changes") {
  ModelSpec model;
  model.family = "gpt";
  model.vocab = 300;
  const std::int64_t seq = 10;
  const auto source = open_data("synthetic", model.vocab, seq, 5);
  const HostBatch whole = make_batch(*source, model, 5, 2, 3, 2, seq);
  const Documents documents({4, 5, 10});
  const HostBatch packed = make_batch(*source, model, 5, 2, 3, 2, seq, &documents);
  const std::vector<std::int64_t> positions = {0, 1, 2, 3, 0, 0, 1, 2, 3, 4};
  for (std::int64_t b = 0; b < 2; ++b) {
    const auto all = by_sample(packed.positions, 2, seq);
    CHECK(std::equal(positions.begin(), positions.end(), all.begin() + b * seq));
  }
  CHECK(packed.tokens == whole.tokens);
  CHECK(packed.labels == whole.labels);
  CHECK(packed.weights == whole.weights);
}

TEST_CASE("every BERT sample has a word to predict, and none in its padding") {
  ModelSpec model;
  model.family = "bert";
  model.vocab = 61;
  for (std::int64_t seq = 4; seq < 12; ++seq) {
    const auto source = open_data("synthetic", model.vocab, seq, 77);
    for (std::int64_t g = 0; g < 50; ++g) {
      const HostBatch batch = make_batch(*source, model, 77, 0, g, 1, seq);
      CHECK(batch.weight_sum >= 1);
      for (std::size_t p = 0; p < static_cast<std::size_t>(seq); ++p)
        if (!batch.keep[p]) CHECK(batch.weights[p] == 0);
    }
  }
  const auto source = open_data("synthetic", model.vocab, 3, 77);
  CHECK_THROWS_WITH(make_batch(*source, model, 77, 0, 0, 1, 3), Catch::Contains("[seq]") && Catch::Contains("need 4"));
}

TEST_CASE("token files of every format give their tokens") {
  const Folder folder;
  const auto values = ramp(20);
  check_ramp("tokens:" + folder.write("raw.bin", little_endian(values, 2)), 20, 256);
  check_ramp("tokens:" + folder.write("raw.u32", little_endian(values, 4)), 20, 256);
  check_ramp("tokens:" + folder.write("raw.uint32", little_endian(values, 4)), 20, 100000);
  check_ramp("tokens:" + folder.write("a.bin", with_header(20240520, 1, 20, little_endian(values, 2))), 20, 256);
  check_ramp("tokens:" + folder.write("b.bin", with_header(20240801, 7, 20, little_endian(values, 4))), 20, 256);
  check_ramp("text:" + folder.write("c.txt", little_endian(values, 1)), 20, 256);
}

TEST_CASE("tokens of all widths are read whole") {
  const Folder folder;
  std::vector<std::int64_t> out(3);
  open_data("tokens:" + folder.write("a.bin", little_endian({65535, 256, 1}, 2)), 65536, 2, 1)
      ->fill(0, 0, 2, out.data());
  CHECK(out == std::vector<std::int64_t>{65535, 256, 1});
  open_data("tokens:" + folder.write("a.u32", little_endian({0x01020304, 70000, 0}, 4)), 1 << 30, 2, 1)
      ->fill(0, 0, 2, out.data());
  CHECK(out == std::vector<std::int64_t>{0x01020304, 70000, 0});
  open_data("text:" + folder.write("a.txt", {255, 0, 10}), 256, 2, 1)->fill(0, 0, 2, out.data());
  CHECK(out == std::vector<std::int64_t>{255, 0, 10});
}

TEST_CASE("data files that cannot be trained on are refused by name") {
  const Folder folder;
  using Catch::Contains;
  const std::string missing = (folder.path / "missing.txt").string();
  CHECK_THAT(refusal("text:" + missing), Contains("[" + missing + "]") && Contains("No such file"));
  CHECK_THAT(refusal("tokens:" + missing), Contains("[" + missing + "]") && Contains("No such file"));
  CHECK_THAT(refusal("text:" + folder.path.string()), Contains("a directory") && Contains("a regular file"));
  CHECK_THAT(refusal("text:/dev/null"), Contains("[/dev/null]") && Contains("a regular file"));
  CHECK_THAT(refusal("text:"), Contains("no file named"));

  const std::string empty = folder.write("empty.bin", {});
  CHECK_THAT(refusal("text:" + empty), Contains(empty) && Contains("empty"));
  CHECK_THAT(refusal("tokens:" + empty), Contains(empty) && Contains("empty"));

  const std::string brief = folder.write("brief", {1, 0, 2, 0, 3, 0, 4, 0});  // 8 bytes, 4 raw tokens
  CHECK_THAT(refusal("tokens:" + brief), Contains(brief) && Contains("got 4 tokens, need at least 5"));
  CHECK(refusal("text:" + brief) == "accepted");
  CHECK_THAT(refusal("text:" + brief, 256, 8), Contains("got 8 tokens, need at least 9"));
  CHECK(refusal("text:" + brief, 256, 7) == "accepted");

  const std::string odd = folder.write("odd.bin", Bytes(21, 1));
  CHECK_THAT(refusal("tokens:" + odd, 300), Contains(odd) && Contains("odd size, got 21 bytes"));
  CHECK_THAT(refusal("tokens:" + folder.write("odd.u32", Bytes(22, 0))),
             Contains("got 22 bytes, need a multiple of 4"));

  const std::string foreign = folder.write("foreign.bin", little_endian({1, 2, 99, 4, 5}, 2));
  CHECK_THAT(refusal("tokens:" + foreign, 99), Contains(foreign) && Contains("token 2") && Contains("got 99"));
  CHECK(refusal("tokens:" + foreign, 100) == "accepted");
  CHECK_THAT(refusal("text:" + folder.write("high.txt", {1, 2, 3, 200, 5}), 128),
             Contains("got 200, need less than 128"));
  CHECK_THAT(refusal("tokens:" + foreign, 65537), Contains("65537") && Contains("uint32"));
}

TEST_CASE("a header that disagrees with its file is refused") {
  const Folder folder;
  using Catch::Contains;
  const Bytes tokens = little_endian(ramp(20), 2), wide = little_endian(ramp(20), 4);
  const auto refused = [&](const Bytes& bytes) { return refusal("tokens:" + folder.write("h.bin", bytes)); };
  CHECK(refused(with_header(20240520, 1, 20, tokens)) == "accepted");
  CHECK_THAT(refused(with_header(20240520, 1, 21, tokens)), Contains("cut short") && Contains("21 tokens"));
  CHECK_THAT(refused(with_header(20240520, 1, 19, tokens)), Contains("more bytes") && Contains("19 tokens"));
  CHECK_THAT(refused(with_header(20240801, 7, 20, tokens)), Contains("cut short"));
  CHECK_THAT(refused(with_header(20240801, 7, 4000000000u, wide)), Contains("cut short"));
  CHECK_THAT(refused(with_header(20240520, 7, 20, tokens)), Contains("version") && Contains("got 7, need 1"));
  CHECK_THAT(refused(with_header(20240801, 1, 20, wide)), Contains("version") && Contains("got 1, need 7"));
  CHECK_THAT(refused(with_header(20240520, 1, 0, {})), Contains("0 tokens"));
  Bytes head = with_header(20240520, 1, 20, tokens);
  head.resize(500);
  CHECK_THAT(refused(head), Contains("inside its header"));
}

TEST_CASE("an unknown source names the nearest one") {
  CHECK_THAT(refusal("sinthetic"), Catch::Contains("did you mean \"synthetic\""));
  CHECK_THAT(refusal("token:x.bin"), Catch::Contains("tokens:FILE"));
  CHECK_THAT(refusal("text"), Catch::Contains("text:FILE"));
}
