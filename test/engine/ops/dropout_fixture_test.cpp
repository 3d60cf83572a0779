// Draws against numpy's: Philox words, initial weights, and dropout whose mask is a function of the global
// element.
#include "test/engine/ops/fixture.h"

using namespace mbench;
using fixture::Bench;
using fixture::cases;

TEST_CASE("Philox words agree with numpy's") {
  const auto file = fixture::load("draws.json");
  REQUIRE(file.at("words").size() == 4);  // the last with a site above 32 bits
  for (const auto& c : file.at("words")) {
    const auto elements = c.at("elements").get<std::vector<std::uint64_t>>();
    const auto words = c.at("words").get<std::vector<std::uint32_t>>();
    REQUIRE(elements.size() == words.size());
    for (std::size_t i = 0; i < words.size(); ++i) CHECK(Philox::word(fixture::key_of(c), elements[i]) == words[i]);
  }
  // Random123's known answer for a zero counter and key.
  CHECK(Philox::block({}, 0) == std::array<std::uint32_t, 4>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
}

TEST_CASE("initial weights agree with numpy's, whole and in shards") {
  Bench bench;
  const auto file = fixture::load("draws.json");
  REQUIRE(!file.at("normals").empty());
  for (const auto& c : file.at("normals")) {
    CAPTURE(c.at("name"));
    const auto& x = c.at("x");
    const std::int64_t rows = x.at("shape").at(0), cols = x.at("shape").at(1);
    const RngKey key{c.at("seed"), c.at("site"), 0};
    const float stddev = c.at("stddev");
    const Tensor whole = bench.filled({rows, cols}, Bench::kJunk);
    bench.run(ops::RandomNormal{whole, stddev, key, cols});
    bench.check("whole", whole, x, 1e-7);

    const auto all = bench.values<float>(whole);
    const std::int64_t row0 = 1, col0 = 3, r = rows - 1, n = cols - 4;  // no multiple of a Philox block
    const Tensor shard = bench.filled({r, n}, Bench::kJunk);
    bench.run(ops::RandomNormal{shard, stddev, key, cols, row0, col0});
    const auto part = bench.values<float>(shard);
    for (std::int64_t i = 0; i < r; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        CHECK(part[static_cast<std::size_t>(i * n + j)] == all[static_cast<std::size_t>((row0 + i) * cols + col0 + j)]);
  }
}

TEST_CASE("bias_dropout_add and its gradients agree with PyTorch") {
  Bench bench;
  for (const auto& c : cases("bias_dropout_add")) {
    CAPTURE(c.at("name"));
    const Tensor x = bench.f32(c.at("x")), bias = bench.f32(c.at("bias")), residual = bench.f32(c.at("residual"));
    const Tensor dy = bench.f32(c.at("dy"));
    const ops::DropoutSpec dropout{c.at("p"), fixture::key_of(c)};
    const ops::HiddenMap map{c.at("global_seq"), c.at("seq0"), c.at("sample0")};
    const Tensor y = bench.like(x), mask = bench.flags(x.shape());
    bench.run(ops::BiasDropoutAdd{x, bias, residual, y, mask, dropout, map});
    bench.check("y", y, c.at("y"));
    if (dropout.p > 0) bench.check_flags("mask", mask, c.at("kept"));
    bench.run(ops::BiasDropoutAdd{x, bias, residual, y, {}, dropout, map});
    bench.check("y without a stored mask", y, c.at("y"));

    const Tensor dx = bench.like(x), dbias = bench.like(bias, 0);
    bench.run(ops::DropoutGrad{dy, dx, {}, dropout, map});
    bench.check("dx, drawn again", dx, c.at("dx"));
    bench.run(ops::BiasGrad{dx, dbias});
    bench.check("dbias", dbias, c.at("dbias"));
    if (dropout.p > 0) {
      const Tensor again = bench.like(x);
      bench.run(ops::DropoutGrad{dy, again, mask, dropout, map});
      bench.check("dx by the mask", again, c.at("dx"));
    }
    bench.run(ops::Dropout{x, x, {}, dropout, map});
    bench.check("plain dropout in place", x, c.at("dropped"));
  }
}
