// What the pipeline refuses and offers of the lengths of its stages and the order of micro batches.
#include <map>
#include <nlohmann/json.hpp>

#include "strategies/strategies.h"
#include "sweeps/spec/options.h"
#include "test/catch.h"

using namespace mbench;
using nlohmann::json;

namespace {

Point point_of(const char* text) {
  return point_from_json(json::parse(text), "p: $");
}

}  // namespace

TEST_CASE("stages of other lengths at the ends come out even, or the nearest that do are told") {
  const auto why = [](auto change) {
    Point p =
        point_of(R"({"model": {"preset": "gpt-bytes-tiny", "layers": 12}, "seq": 64, "global_batch": 8, "pp": 4})");
    change(p);
    const auto refusal = strategies::why_not(p);
    if (refusal) CHECK(refusal->outcome == Outcome::infeasible);
    return refusal ? refusal->reason : "";
  };
  const auto stages = [&](std::int64_t pp, std::int64_t first, std::int64_t last, std::int64_t chunks = 1) {
    return why([&](Point& p) {
      p.pp = pp, p.first_stage_layers = first, p.last_stage_layers = last, p.virtual_stages = chunks;
      if (chunks > 1) p.schedule = ScheduleKind::interleaved;
    });
  };
  CHECK(stages(4, 2, 2) == "");
  CHECK(stages(4, 3, 0) == "");
  CHECK(stages(4, 0, 6) == "");
  CHECK(stages(2, 11, 0) == "");
  CHECK(stages(2, 7, 5) == "");
  CHECK(stages(2, 8, 4, 4) == "");
  CHECK(stages(4, 2, 0) ==
        "first_stage_layers 2 of 12 layers with pp 4 leave 10 to 3 stages, which have as many each, need "
        "first_stage_layers 0 or 3");
  CHECK(stages(4, 4, 0) ==
        "first_stage_layers 4 of 12 layers with pp 4 leave 8 to 3 stages, which have as many each, need "
        "first_stage_layers 3 or 6");
  CHECK(stages(4, 0, 12) ==
        "last_stage_layers 12 of 12 layers with pp 4 leave 0 to 3 stages, which have as many each, need "
        "last_stage_layers 9");
  CHECK(stages(4, 2, 3) ==
        "first_stage_layers 2 and last_stage_layers 3 of 12 layers with pp 4 leave 7 to 2 stages, which have as many "
        "each, need "
        "first_stage_layers 1 or 3, or last_stage_layers 2 or 4");
  CHECK(stages(2, 7, 6) ==
        "first_stage_layers 7 and last_stage_layers 6 of 12 layers with pp 2 leave -1 to 0 stages, which have as many "
        "each, need "
        "first_stage_layers 6 or last_stage_layers 5");
  CHECK(stages(2, 7, 0, 2) ==
        "first_stage_layers 7 of 12 layers with pp 2: virtual_stages 2 does not divide the 7 layers of stage 0, need "
        "first_stage_layers 6 or 8");
  CHECK(stages(4, 0, 3, 2) ==
        "last_stage_layers 3 of 12 layers with pp 4: virtual_stages 2 does not divide the 3 layers of stage 0, need "
        "last_stage_layers 6");
  CHECK(stages(1, 12, 0) ==
        "first_stage_layers 12 with pp 1, need first_stage_layers 0, or pp 2 and first_stage_layers 11");
  // What is recomputed is of chunks as they are.
  const auto recomputed = [&](std::int64_t layers) {
    return why([&](Point& p) { p.first_stage_layers = 6, p.recompute = Recompute::full, p.recompute_layers = layers; });
  };
  CHECK(recomputed(6) == "");
  CHECK(recomputed(7) == "recompute_layers 7 of chunks with at most 6 layers, need recompute_layers 6");
}

TEST_CASE("a layout has as many stages, layers and depths as the point, or what would do is told") {
  const auto why = [](auto change) {
    Point p =
        point_of(R"({"model": {"preset": "gpt-bytes-tiny", "layers": 12}, "seq": 64, "global_batch": 8, "pp": 4})");
    change(p);
    const auto refusal = strategies::why_not(p);
    if (refusal) CHECK(refusal->outcome == Outcome::infeasible);
    return refusal ? refusal->reason : "";
  };
  const auto cut = [&](const char* text, std::int64_t chunks = 1, std::int64_t depths = 0, std::int64_t first = 0) {
    return why([&](Point& p) {
      p.pipeline_layout = text, p.virtual_stages = chunks, p.model.mtp_layers = depths, p.first_stage_layers = first;
      if (chunks > 1) p.schedule = ScheduleKind::interleaved;
    });
  };
  CHECK(cut("Et*12|||L") == "");
  CHECK(cut("E|t*5|t*5|ttL") == "");
  CHECK(cut("Ett|tt|tt|tt|tt|tt||L", 2) == "");
  CHECK(cut("Et*6|t*5|t|m*2L", 1, 2) == "");
  CHECK(cut("Et*6|t*5|tm|L", 1, 1) == "");
  CHECK(cut("Ett|tt|tt|tt|tt|tt|m|L", 2, 1) == "");
  CHECK(cut("Et*6|t*5|tL") ==
        "pipeline_layout has 3 stages for pp 4, need pp 3, or pipeline_layout Ett|t*4|t*3|t*3L or \"\"");
  CHECK(cut("Et*6|t*6|||||L", 1) ==
        "pipeline_layout has 7 stages for pp 4, need pp 7, or pipeline_layout Ett|t*4|t*3|t*3L or \"\"");
  CHECK(cut("Ett|tt|tt|tt|tt|tt||L") ==
        "pipeline_layout has 8 stages for pp 4, need pp 8, pipeline_layout Ett|t*4|t*3|t*3L or \"\", or virtual_stages "
        "2 and schedule interleaved");
  CHECK(cut("Et*6|t*5||L") ==
        "pipeline_layout has 11 layers of the model's 12, need layers 11, or pipeline_layout Ett|t*4|t*3|t*3L or \"\"");
  CHECK(cut("Et*6|t*6||mL") ==
        "pipeline_layout has 1 depths of the model's mtp_layers 0, need mtp_layers 1, or pipeline_layout "
        "Ett|t*4|t*3|t*3L or \"\"");
  CHECK_THAT(cut("Et*6|t*6||L", 1, 1), Catch::Contains("pipeline_layout has 0 depths of the model's mtp_layers 1, need "
                                                       "pipeline_layout Ett|t*4|t*4|ttmL or \"\", or mtp_layers 0"));
  CHECK_THAT(cut("Et*12|||m||||L", 2, 1),
             Catch::Contains(
                 "multi-token prediction in chunk 0 of the 2 of stage 3, and not in the last, need pipeline_layout"));
  CHECK(cut("Et*6|t*6||L", 1, 0, 3) ==
        "first_stage_layers 3 with a pipeline_layout, need first_stage_layers 0 or pipeline_layout \"\"");
  // What is recomputed is of chunks as they are.
  const auto recomputed = [&](std::int64_t layers) {
    return why([&](Point& p) {
      p.pipeline_layout = "Et*7|t*5||L", p.recompute = Recompute::full, p.recompute_layers = layers;
    });
  };
  CHECK(recomputed(7) == "");
  CHECK(recomputed(8) == "recompute_layers 8 of chunks with at most 7 layers, need recompute_layers 7");
  // Stages that are not said come out even, or a layout that does is told beside the nearest numbers.
  const auto even = [&](std::int64_t layers, std::int64_t pp, std::int64_t chunks = 1) {
    return why([&](Point& p) {
      p.model.layers = layers, p.pp = pp, p.virtual_stages = chunks, p.global_batch = pp;
      if (chunks > 1) p.schedule = ScheduleKind::interleaved;
    });
  };
  CHECK(even(40, 14) == "");
  CHECK(
      even(40, 15) ==
      "pp 15 does not divide the 40 layers, need pp 14 or 20, or pipeline_layout Et|(t*3|)*4tt|(t*3|)*4tt|(t*3|)*3ttL");
  CHECK_THAT(even(61, 8, 4), Catch::Contains("pp 8 x virtual_stages 4 does not divide the 61 layers") &&
                                 Catch::Contains("pipeline_layout E|(tt|)*30tL"));
}

TEST_CASE("groups of micro batches have one for each stage, in the last group too") {
  const auto why = [](std::int64_t group, std::int64_t micro_batches, std::int64_t pp = 4, bool interleaved = true) {
    Point p = point_of(R"({"model": {"preset": "gpt-bytes-tiny", "layers": 16}, "seq": 64})");
    p.pp = pp, p.global_batch = micro_batches, p.micro_batch_group = group;
    if (interleaved) p.schedule = ScheduleKind::interleaved, p.virtual_stages = 2;
    const auto refusal = strategies::why_not(p);
    if (refusal) CHECK(refusal->outcome == Outcome::infeasible);
    return refusal ? refusal->reason : "";
  };
  CHECK(why(5, 5) == "");
  CHECK(why(4, 8) == "");
  CHECK(why(6, 16) == "");
  CHECK(why(0, 5) ==
        "schedule interleaved needs the 5 micro batches to be a multiple of pp 4, need global_batch 4 or 8, or "
        "micro_batch_group 5");
  CHECK(why(3, 8) == "micro_batch_group 3 with pp 4, need micro_batch_group 0 or 4");
  CHECK(why(9, 8) == "micro_batch_group 9 of 8 micro batches, need micro_batch_group 8");
  CHECK(why(5, 8) ==
        "micro_batch_group 5 leaves 3 of 8 micro batches to the last group, fewer than pp 4, need micro_batch_group 4 "
        "or 8");
  CHECK(why(4, 7) ==
        "micro_batch_group 4 leaves 3 of 7 micro batches to the last group, fewer than pp 4, need micro_batch_group 7");
  CHECK(why(5, 3) == "micro_batch_group 5 of 3 micro batches with pp 4, need global_batch 5");
  CHECK(
      why(5, 5, 4, false) ==
      "micro_batch_group 5 with schedule 1f1b, need micro_batch_group 0, or schedule interleaved and virtual_stages 2");
}

TEST_CASE("lengths of stages and groups that are offered can be, and are near those that there are without") {
  // How many values of each field the pipeline offers, each of which can be.
  const auto choices_of = [](const Point& p) {
    std::map<std::string, std::size_t> count;
    for (const strategies::Choice& choice : strategies::pipeline().choices(p, 8)) {
      const std::vector<std::string> together = sweeps::split_fields(choice.field);
      CHECK(choice.by_name == (together.front() == "micro_batch_group" || together.front() == "first_stage_layers" ||
                               together.front() == "pipeline_layout"));
      count[choice.field] = choice.values.size();
      for (const json& value : choice.values) {
        json fields = json(point_to_json(p));
        for (std::size_t i = 0; i < together.size(); ++i)
          fields[together[i]] = together.size() == 1 ? value : value.at(i);
        INFO(choice.field << " " << value.dump());
        CHECK_FALSE(strategies::why_not(point_from_json(fields, "p: $")));
      }
    }
    return count;
  };
  Point stages = point_of(R"({"model": "gpt2-345m", "seq": 1024, "global_batch": 24, "dp": 2, "pp": 4,
    "schedule": "interleaved", "virtual_stages": 2})");  // 24 layers in 4 stages of 2 chunks, 12 micro batches
  const std::map<std::string, std::size_t> more = choices_of(stages);
  CHECK(more.at("micro_batch_group") == 3);                     // 4, 8 and all 12
  CHECK(more.at("first_stage_layers,last_stage_layers") == 1);  // 4 8 8 4 is more than two layers apart
  stages.schedule = ScheduleKind::one_f_one_b, stages.virtual_stages = 1;
  CHECK(choices_of(stages).at("first_stage_layers,last_stage_layers") == 2);  // as they are, 5 7 7 5
  stages.pp = 2;
  CHECK(choices_of(stages).at("first_stage_layers,last_stage_layers") == 5);  // 10 to 14 in the first
}

TEST_CASE("the gradient of the logits' weight is deferred where a last stage has whole gradients of its own") {
  const auto why = [](const char* fields) {
    json p = json::parse(R"({"model": "gpt-bytes-tiny", "seq": 64, "global_batch": 8})");
    p.merge_patch(json::parse(fields));
    const auto refusal = strategies::why_not(point_from_json(p, "p: $"));
    return refusal ? refusal->reason : "";
  };
  CHECK(why(R"({"pp": 2, "defer_embedding_wgrad": true})") == "");
  CHECK(why(R"({"pp": 2, "defer_embedding_wgrad": true, "wgrad_deferral_limit": 99, "dp": 2, "zero": 1})") == "");
  CHECK(why(R"({"wgrad_deferral_limit": 2})") ==
        "wgrad_deferral_limit 2 with defer_embedding_wgrad false, need wgrad_deferral_limit 0, or "
        "defer_embedding_wgrad true and pp 2");
  CHECK(why(R"({"defer_embedding_wgrad": true})") ==
        "defer_embedding_wgrad true with pp 1, need pp 2 or defer_embedding_wgrad false");
  CHECK(
      why(R"({"pp": 2, "defer_embedding_wgrad": true, "graph": "megatron_core", "gradient_accumulation_fusion": false})") ==
      "defer_embedding_wgrad true with gradient_accumulation_fusion false, need framework.gradient_accumulation_fusion "
      "true or "
      "defer_embedding_wgrad false");
  CHECK(why(R"({"pp": 2, "dp": 2, "defer_embedding_wgrad": true, "zero": 2})")
            .find("need zero 0, 1 or oss, or defer_embedding_wgrad false") != std::string::npos);
  CHECK(why(R"({"pp": 2, "defer_embedding_wgrad": true, "precision": "bf16", "offload": "optimizer"})")
            .find("need offload none or defer_embedding_wgrad false") != std::string::npos);
  CHECK(why(R"({"pp": 2, "defer_embedding_wgrad": true, "model": {"preset": "gpt-bytes-tiny", "mtp_layers": 1}})")
            .find("defer_embedding_wgrad with mtp_layers 1") != std::string::npos);
}
