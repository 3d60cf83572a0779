// Lengths of documents as a field of a point, and what a sequence is packed with.
#include "engine/point/document_lengths.h"

#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/point/point.h"
#include "test/catch.h"

using namespace mbench;
using Catch::Contains;

namespace {

std::vector<std::int64_t> packed(const std::string& text, std::int64_t seq, std::uint64_t seed = 1234) {
  const DocumentsOrNone documents = documents_of(read_document_lengths(text, "test"), seq, seed);
  std::vector<std::int64_t> lengths;
  for (std::int64_t d = 0; documents && d < documents->count(); ++d)
    lengths.push_back(documents->end(d) - documents->first(d));
  return lengths;
}

}  // namespace

TEST_CASE("document_lengths: a text says them, and is written as it was read") {
  for (const char* text : {"none", "1024", "1024+3072", "7+7+1", "geometric:512"}) {
    INFO(text);
    CHECK(str(read_document_lengths(text, "test")) == text);
  }
  const auto of = [](const char* value) {
    return point_from_json(nlohmann::json{{"model", "gpt2-124m"}, {"document_lengths", nlohmann::json::parse(value)}},
                           "p.json: $");
  };
  CHECK(of("128").document_lengths == read_document_lengths("128", "test"));
  CHECK(point_id(of("128")) == point_id(of(R"("128")")));
  CHECK(point_id(of("128")) != point_id(of(R"("none")")));
  for (const char* bad :
       {"0", "-3", "1.5", "true", R"("")", R"("+")", R"("12+")", R"("12+0")", R"("12,3")", R"("geometric:")",
        R"("geometric:0")", R"("geometric:9+4")", R"("normal:9")", "99999999999"}) {
    INFO(bad);
    CHECK_THROWS_WITH(of(bad), Contains("$.document_lengths"));
  }
}

TEST_CASE("document_lengths: they repeat until a sequence is full, and the last is cut") {
  using Lengths = std::vector<std::int64_t>;
  CHECK(packed("4", 12) == Lengths{4, 4, 4});
  CHECK(packed("5", 12) == Lengths{5, 5, 2});
  CHECK(packed("7+2", 20) == Lengths{7, 2, 7, 2, 2});
  CHECK(packed("none", 12).empty());
  CHECK(packed("12", 12).empty());
  CHECK(packed("13+1", 12).empty());
}

TEST_CASE("document_lengths: drawn ones have their mean, fill the sequence, and follow the seed alone") {
  for (const std::int64_t mean : {1, 2, 30, 1000}) {
    const std::int64_t seq = mean * 20000;
    const auto lengths = packed(fmt::format("geometric:{}", mean), seq);
    std::int64_t sum = 0;
    for (const std::int64_t length : lengths) {
      REQUIRE(length >= 1);
      sum += length;
    }
    CHECK(sum == seq);
    // A geometric distribution's deviation is less than its mean: four of them.
    CHECK(static_cast<double>(seq) / static_cast<double>(lengths.size()) ==
          Approx(mean).epsilon(4 / std::sqrt(20000.0)));
  }
  CHECK(packed("geometric:9", 500) == packed("geometric:9", 500));
  CHECK(packed("geometric:9", 500) != packed("geometric:9", 500, 7));
  // A longer sequence begins as a shorter one.
  const auto shorter = packed("geometric:9", 500), longer = packed("geometric:9", 5000);
  CHECK(std::equal(shorter.begin(), shorter.end() - 1, longer.begin()));
}

TEST_CASE("documents are cut where chunks of the sequence end") {
  const DocumentsOrNone all = std::make_shared<const Documents>(std::vector<std::int64_t>{4, 5, 10});
  CHECK(*in_chunks(all, 10, 4) == Documents({4, 5, 8, 10}));
  CHECK(*in_chunks(all, 10, 5) == Documents({4, 5, 10}));
  CHECK(*in_chunks(nullptr, 10, 4) == Documents({4, 8, 10}));
  for (const std::int64_t none : {0, 10, 11}) {
    CHECK(in_chunks(all, 10, none) == all);
    CHECK(in_chunks(nullptr, 10, none) == nullptr);
  }
}

TEST_CASE("documents say where the one of a position begins and ends") {
  const Documents documents({4, 5, 10});
  CHECK(documents.seq() == 10);
  CHECK(documents.count() == 3);
  for (std::int64_t p = 0; p < 10; ++p) {
    CHECK(documents.first_of(p) == (p < 4 ? 0 : p < 5 ? 4 : 5));
    CHECK(documents.end_of(p) == (p < 4 ? 4 : p < 5 ? 5 : 10));
  }
}
