// Experts in scripts of Megatron-LM.
#include "formats/megatron/megatron.h"
#include "test/catch.h"
#include "test/formats/megatron_scripts.h"

using Catch::Contains;
using namespace mbench;
using namespace mbench::formats;
using namespace mbench::test;

TEST_CASE("Megatron: experts") {
  const Point p =
      point_of(kArguments +
               "--num-experts 8 --moe-router-topk 4 --moe-ffn-hidden-size 32 --moe-shared-expert-intermediate-size 64 "
               "--moe-layer-freq '([0]*1+[1]*3)' --moe-grouped-gemm\n"
               "--moe-router-score-function sigmoid --moe-router-enable-expert-bias --moe-router-num-groups 4 "
               "--moe-router-group-topk 2 --moe-token-dispatcher-type alltoall\n"
               "--moe-router-topk-scaling-factor 2.5 --moe-aux-loss-coeff 1e-4 --moe-router-load-balancing-type "
               "seq_aux_loss --moe-router-force-load-balancing --moe-apply-probs-on-input");
  CHECK(p.model.experts == 8);
  CHECK(p.model.active_experts == 4);
  CHECK(p.model.expert_ffn == 32);
  CHECK(p.model.shared_experts == 2);
  CHECK(p.model.dense_layers == 1);
  const RoutingSpec& routing = p.model.parts().routing;
  CHECK(routing.score == RouterScore::sigmoid);
  CHECK(routing.groups == 4);
  CHECK(routing.chosen_groups == 2);
  CHECK(routing.group_score == GroupScore::best_two);
  CHECK(routing.scale == 2.5);
  CHECK(routing.weighted == Weighted::input);
  CHECK(routing.correction_speed == 0.001);
  CHECK(routing.balance_loss == 1e-4);
  CHECK(str(p.router) == "balanced");
  CHECK(p.ep_communication == EpCommunication::all_to_all);
  CHECK(framework_part(p.framework, "grouped_experts") == true);
}

TEST_CASE("Megatron: permutation of tokens is fused where the script says so") {
  for (const std::string flag : {"", " --moe-permute-fusion"}) {
    const Point p = point_of(kArguments + "--num-experts 8 --moe-ffn-hidden-size 32" + flag);
    CHECK(framework_part(p.framework, "permute_fusion") == !flag.empty());
    CHECK((write_megatron(p).find("--moe-permute-fusion") != std::string::npos) == !flag.empty());
  }
  CHECK(point_of(kArguments).framework.options.count("permute_fusion") == 0);  // without experts it says nothing
}

TEST_CASE("Megatron: shared experts are overlapped where the script says so") {
  for (const std::string flag : {"", " --moe-shared-expert-overlap"}) {
    const Point p = point_of(kArguments +
                             "--num-experts 8 --moe-ffn-hidden-size 32 --moe-shared-expert-intermediate-size 64 "
                             "--moe-token-dispatcher-type alltoall" +
                             flag);
    CHECK(framework_part(p.framework, "shared_expert_overlap") == !flag.empty());
    CHECK((write_megatron(p).find("--moe-shared-expert-overlap") != std::string::npos) == !flag.empty());
  }
}

TEST_CASE("Megatron: experts' exchange overlapped goes out and comes back") {
  const std::string experts = kArguments + "--num-experts 8 --moe-ffn-hidden-size 32 --moe-grouped-gemm ";
  const Point plain = point_of(experts);
  CHECK(!plain.overlap_moe);
  CHECK(!plain.delay_wgrad);
  const Point p = point_of(experts + "--overlap-moe-expert-parallel-comm --delay-wgrad-compute");
  CHECK(p.overlap_moe);
  CHECK(p.delay_wgrad);
  const std::string again = write_megatron(p);
  CHECK_THAT(again, Contains("--overlap-moe-expert-parallel-comm") && Contains("--delay-wgrad-compute"));
  Point split = plain;
  split.pp = 2, split.schedule = ScheduleKind::zb_h1;
  CHECK_THROWS_WITH(write_megatron(split), Contains("zb-h1"));
}

TEST_CASE("Megatron: static room for experts and pages go out and come back") {
  const std::string room = kArguments +
                           "--num-experts 8 --moe-ffn-hidden-size 32 --moe-grouped-gemm --moe-token-dispatcher-type "
                           "flex --moe-expert-rank-capacity-factor 1.5 ",
                    hybrid = room + "--moe-flex-dispatcher-backend hybridep ";
  CHECK(point_of(hybrid).expert_rank_capacity == 1.5);
  CHECK(point_of(hybrid).paged_stash == 0);
  CHECK(point_of(hybrid + "--moe-paged-stash").paged_stash == 1.1);  // Megatron's default
  const Point p = point_of(hybrid + "--moe-paged-stash --moe-paged-stash-buffer-size-factor-cuda 1.25");
  CHECK(p.paged_stash == 1.25);
  const std::string script = write_megatron(p);
  CHECK_THAT(script, Contains("--moe-flex-dispatcher-backend hybridep") &&
                         Contains("--moe-expert-rank-capacity-factor 1.5") && Contains("--moe-paged-stash") &&
                         Contains("--moe-paged-stash-buffer-size-factor-cuda 1.25"));
  CHECK_THAT(error_of(room + "--moe-flex-dispatcher-backend deepep").what(), Contains("static room without HybridEP"));
  CHECK(p.paged_stash_host == 0);
  const Point host = point_of(hybrid + "--moe-paged-stash --moe-paged-stash-buffer-size-factor-cpu 0.5");
  CHECK(host.paged_stash_host == 0.5);
  CHECK_THAT(write_megatron(host), Contains("--moe-paged-stash-buffer-size-factor-cpu 0.5"));
  CHECK_THAT(error_of(hybrid + "--moe-paged-stash --moe-paged-stash-buffer-size-factor-cpu -1").what(),
             Contains("pages for the rows that came at first"));
}

TEST_CASE("Megatron: GPT-OSS's biases and activation go out and come back") {
  const std::string gate = " --quick-geglu --glu-linear-offset 1.0 --activation-func-clamp-value 7.0";
  const Point p = point_of(kArguments + "--num-experts 8 --moe-router-topk 4 --moe-ffn-hidden-size 32" + gate);
  CHECK(p.model.parts().activation == Activation::clamped_swiglu);
  Biases all = true;
  all.router = true;
  CHECK(p.model.parts().bias == all);
  CHECK(point_of(kArguments + "--num-experts 8 --moe-router-topk 4 --disable-bias-linear").model.parts().bias == false);
  CHECK_THAT(error_of(kArguments + "--quick-geglu").what(), Contains("--glu-linear-offset 1"));
  const std::string script = write_megatron(p);
  CHECK_THAT(script, Contains("--quick-geglu"));
  CHECK_THAT(script, !Contains("--disable-bias-linear"));
}
