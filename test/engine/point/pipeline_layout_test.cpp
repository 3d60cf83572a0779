// The grammar of layouts cut by hand, and what no model's layout is.
#include "engine/point/pipeline_layout.h"

#include "engine/point/point.h"
#include "test/catch.h"

using namespace mbench;
using nlohmann::json;

namespace {

PipelineLayout parse(const std::string& text) {
  return parse_pipeline_layout(text, "p: $.pipeline_layout");
}

// [layers], and E, m and L where they are.
std::string shown(const PipelineLayout& layout) {
  std::string text;
  for (const StageParts& s : layout)
    text += fmt::format("[{}{}{}{}]", s.embedding ? "E" : "", s.layers,
                        s.depths > 0 ? fmt::format("m{}", s.depths) : "", s.loss ? "L" : "");
  return text;
}

std::string refusal(const json& value) {
  try {
    pipeline_layout_values().read(value, "p");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::bad_input);
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a layout's letters stand for parts, and what is repeated is written out") {
  CHECK(shown(parse("Ettt|tt|mL")) == "[E3][2][0m1L]");
  CHECK(shown(parse("Et*3|(tt|)*3,m|L")) == "[E3][2][2][2][0m1][0L]");
  CHECK(shown(parse("E|t,t|,|tL")) == "[E0][2][0][1L]");
  CHECK(shown(parse("(E)*1(t|t)*2L")) == "[E1][2][1L]");
  CHECK(shown(parse("Et*2(|t*3)*2|L")) == "[E2][3][3][0L]");
  CHECK(shown(parse("Et|*2tL")) == "[E1][0][1L]");    // as Megatron-Core's pattern for x*n has it
  CHECK(shown(parse("Et*0|t*2,1L")) == "[E0][21L]");  // commas go first
  const PipelineLayout published = parse("Et*3|(tt|)*29,m|L");
  CHECK(published.size() == 32);
  CHECK(layers_of(published) == 61);
  CHECK(depths_of(published) == 1);
}

TEST_CASE("a layout is one text, however it was written") {
  const auto text = [](const json& value) { return pipeline_layout_values().read(value, "p"); };
  for (const char* same : {"Et*3|(tt|)*29m|L", "EL", "Ettt|tt|tt|tL", "E|(|)*5L", "E|t|t|mmmL", "Et*70|t*3L"}) {
    const PipelineLayout layout = parse(same);
    CHECK(parse(str(layout)) == layout);
    CHECK(text(text(same)) == text(same));
  }
  CHECK(text("Ettt|tt|tt|tt|tt,m|L") == "Et*3|(tt|)*3ttm|L");
  CHECK(text("Ett|(ttt|)*12ttL") == "Ett|(t*3|)*12ttL");
  CHECK(text("") == "");
  CHECK(text(json::parse(R"([["embedding", "decoder"], [], [" Decoder ", "decoder", "mtp"], ["loss"]])")) ==
        "Et||ttm|L");
  CHECK(text(json::parse(R"([["E", "t"], ["t", "m", "L"]])")) == "Et|tmL");
  // A point keeps that text, so that two spellings are one point.
  const auto point = [](const char* layout) {
    return point_from_json(
        {{"model", "gpt-bytes-tiny"}, {"seq", 64}, {"global_batch", 4}, {"pp", 3}, {"pipeline_layout", layout}},
        "p: $");
  };
  CHECK(point("Et*1,|t|(t)*2L") == point("Et|t|ttL"));
  CHECK(point_to_json(point("Et*1|t|ttL")).at("pipeline_layout") == "Et|t|ttL");
}

TEST_CASE("what is no layout is refused by what is wrong with it") {
  using Catch::Contains;
  CHECK_THAT(refusal("Et tL"), Contains("no such letter as \" \""));
  CHECK_THAT(refusal("E\xc3\xa9|L"), Contains("no such letter"));
  CHECK_THAT(refusal("Ex|L"), Contains("no such letter as \"x\"") && Contains("need E, t, m, L"));
  CHECK_THAT(refusal("E(tt|L"), Contains("a ( that does not close"));
  CHECK_THAT(refusal("Ett)*2|L"), Contains("a ) that opens nowhere"));
  CHECK_THAT(refusal("E((t|)*2)*2L"), Contains("a ( within another"));
  CHECK_THAT(refusal("E(tt)|L"), Contains("parentheses that repeat nothing"));
  CHECK_THAT(refusal("E()*3L"), Contains("parentheses that repeat nothing"));
  CHECK_THAT(refusal("Et*|L"), Contains("no number behind a *"));
  CHECK_THAT(refusal("Et*2*3L"), Contains("no such letter as \"*\""));
  CHECK_THAT(refusal("*3EL"), Contains("no such letter as \"*\""));
  CHECK_THAT(refusal("tE|L"), Contains("E behind another part"));
  CHECK_THAT(refusal("|EtL"), Contains("a first stage without embedding"));
  CHECK_THAT(refusal("Et|EtL"), Contains("an embedding behind the first stage"));
  CHECK_THAT(refusal("Et|L|"), Contains("a loss before the last stage"));
  CHECK_THAT(refusal("Et|t"), Contains("a last stage without loss"));
  CHECK_THAT(refusal("Et|LL"), Contains("a part behind L"));
  CHECK_THAT(refusal("Em|tL"), Contains("a layer behind multi-token prediction"));
  CHECK_THAT(refusal("Etmt|L"), Contains("t behind m"));
  CHECK_THAT(refusal("Etm|mL"), Contains("multi-token prediction on two stages"));
  CHECK_THAT(refusal(3), Contains("need a text or a list of lists"));
  CHECK_THAT(refusal(json::parse(R"(["Et", "L"])")), Contains("p[0]") && Contains("need a list of embedding"));
  CHECK_THAT(refusal(json::parse(R"([["embedding", "encoder"], ["loss"]])")),
             Contains("p[0][1]") && Contains("no such part, got \"encoder\""));
  CHECK_THAT(refusal(json::array()), Contains("no stages"));
}

TEST_CASE("a layout that is made to be long is refused before it is written out") {
  using Catch::Contains;
  for (const char* text : {"Et*999999999999999999999999|L", "E(t*60000)*60000|L", "E(tttt|)*4000000000L", "E|*65537L",
                           "E(t|)*65536t*65536L"})
    CHECK_THAT(refusal(text), Contains("too long") && Contains("at most 65536"));
  CHECK(refusal("E(t|)*30000L") == "");
  CHECK_THAT(refusal(std::string(200000, '(')), Contains("a ( within another"));
  CHECK_THAT(refusal("E" + std::string(200000, 't') + "L"), Contains("too long"));
  CHECK_THAT(refusal(json::array_t(70000, json::array())), Contains("too long"));
}

TEST_CASE("layers are spread evenly with the ends as a layer each") {
  CHECK(str(even_layout(40, 0, 14)) == "Ett|(t*3|)*12ttL");
  CHECK(str(even_layout(61, 1, 32)) == "Et|(tt|)*30mL");
  CHECK(str(even_layout(4, 0, 1)) == "Et*4L");
  CHECK(str(even_layout(2, 0, 4)) == "E|t|t|L");
  CHECK(str(even_layout(1, 0, 5)) == "E|||t|L");
  for (std::int64_t layers = 1; layers < 20; ++layers)
    for (std::int64_t stages = 1; stages < 24; ++stages)
      for (std::int64_t depths = 0; depths < 3; ++depths) {
        const PipelineLayout layout = even_layout(layers, depths, stages);
        CHECK(layers_of(layout) == layers);
        CHECK(depths_of(layout) == depths);
        CHECK(parse(str(layout)) == layout);
      }
}
