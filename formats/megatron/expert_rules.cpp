#include "formats/megatron/expert_rules.h"

#include "engine/base/json_reader.h"

namespace mbench::formats {
namespace {

constexpr std::pair<const char*, const char*> kDispatchers[] = {
    {"allgather", "all_gather"}, {"alltoall", "all_to_all"}, {"flex", "flex"}, {"alltoall_seq", "all_to_all"}};
constexpr std::pair<const char*, const char*> kRings[] = {
    {"p2p", "ring"}, {"a2a", "all_to_all"}, {"allgather", "all_gather"}, {"all_gather", "all_gather"}};

// Static room for the rows of experts, and pages for what they keep.
void read_expert_room(Reading& r, const json& backend) {
  const json capacity = r.value("--moe-expert-rank-capacity-factor");
  const bool stash = r.flag("--moe-paged-stash");
  const json pages = r.value("--moe-paged-stash-page-size", 64),
             size = r.value("--moe-paged-stash-buffer-size-factor-cuda", 1.1),
             on_host = r.value("--moe-paged-stash-buffer-size-factor-cpu", 0);
  if (capacity.is_null()) return;
  if (backend != "hybridep" && backend != "ncclep")
    r.lack("--moe-expert-rank-capacity-factor", "static room without HybridEP or NCCL EP");
  r.set("expert_rank_capacity", r.number("--moe-expert-rank-capacity-factor"));
  if (!stash) return;
  if (pages != 64) r.lack("--moe-paged-stash-page-size", "pages of another size");
  if (size <= 0) r.lack("--moe-paged-stash-buffer-size-factor-cuda", "pages for the rows that came at first");
  if (on_host < 0) r.lack("--moe-paged-stash-buffer-size-factor-cpu", "pages for the rows that came at first");
  r.set("paged_stash", size);
  if (on_host > 0) r.set("paged_stash_host", on_host);
}
void write_expert_room(Writing& w) {
  if (w.number("expert_rank_capacity") == 0) return;
  w.put("--moe-flex-dispatcher-backend", "hybridep");
  w.put("--use-transformer-engine-op-fuser", true);
  w.put("--moe-expert-rank-capacity-factor", w.at("expert_rank_capacity"));
  if (w.number("paged_stash") == 0) return;
  w.put("--moe-paged-stash", true);
  w.put("--moe-paged-stash-buffer-size-factor-cuda", w.at("paged_stash"));
  if (w.number("paged_stash_host") > 0) w.put("--moe-paged-stash-buffer-size-factor-cpu", w.at("paged_stash_host"));
}

// Ranks of experts and how tokens reach them; and how the ranks of a sequence meet.
void read_expert_ranks(Reading& r) {
  const json ring = r.value("--cp-comm-type", "p2p");
  for (const auto& [theirs, ours] : kRings)
    if (ring == theirs) r.set("cp_communication", ours);
  if (!r.get("cp_communication")) r.lack("--cp-comm-type", "another way");
  const json ep = r.value("--expert-model-parallel-size", 1), etp = r.value("--expert-tensor-parallel-size"),
             how = r.value("--moe-token-dispatcher-type", "allgather"),
             capacity = r.value("--moe-expert-capacity-factor");
  const json backend = r.value("--moe-flex-dispatcher-backend");
  const bool experimental = r.flag("--enable-experimental"), permute = r.flag("--moe-permute-fusion");
  const bool grouped = r.flag("--moe-grouped-gemm"), forced = r.flag("--moe-router-force-load-balancing");
  r.value("--moe-enable-deepep");
  if (!r.get("model.experts")) return;
  r.set("ep", ep);
  r.set("etp", etp.is_null() ? json(0) : etp);
  for (const auto& [theirs, ours] : kDispatchers)
    if (how == theirs) r.set("ep_communication", ours);
  if (!r.get("ep_communication")) r.lack("--moe-token-dispatcher-type", "another dispatcher");
  if (!capacity.is_null() && forced)
    r.lack("--moe-expert-capacity-factor", "a capacity where the load is forced to be even");
  else if (!capacity.is_null() && capacity != -1)
    r.set("router", fmt::format("capacity:{}", r.number("--moe-expert-capacity-factor")));
  else
    r.set("router", forced ? "balanced" : "learned");
  r.set("framework.grouped_experts", grouped);
  // The kernels of HybridEP and NCCL EP permute themselves, and have no map of indices.
  const bool permutes = r.get("ep_communication") == "flex" && (backend == "hybridep" || backend == "ncclep");
  r.set("framework.permute_fusion", permutes || permute);
  if (r.get("ep_communication") == "flex") r.set("framework.index_map_fusion", permutes || (experimental && permute));
  read_expert_room(r, backend);
}
void write_expert_ranks(Writing& w) {
  const json ring = w.at("cp_communication");
  if (w.number("cp") > 1)
    for (const auto& [theirs, ours] : kRings)
      if (ring == ours) {
        w.put("--cp-comm-type", theirs);
        break;
      }
  if (w.at("model.experts").is_null()) return;
  w.put("--expert-model-parallel-size", w.at("ep"));
  if (w.number("etp") > 0) w.put("--expert-tensor-parallel-size", w.at("etp"));
  for (const auto& [theirs, ours] : kDispatchers)
    if (w.at("ep_communication") == ours) {
      w.put("--moe-token-dispatcher-type", theirs);
      break;
    }
  if (w.at("framework.grouped_experts") == true) w.put("--moe-grouped-gemm", true);
  if (w.at("framework.permute_fusion") == true) w.put("--moe-permute-fusion", true);
  write_expert_room(w);
  if (w.at("ep_communication") == "flex" && w.at("framework.index_map_fusion") == true) {
    w.put("--enable-experimental", true);
    w.put("--moe-permute-fusion", true);
  }
  const std::string router = w.at("router").get<std::string>();
  if (router == "balanced") w.put("--moe-router-force-load-balancing", true);
  if (!router.starts_with("capacity:")) return;
  w.put("--moe-expert-capacity-factor", std::stod(router.substr(9)));
  w.put("--moe-pad-expert-input-to-capacity", true);
}

}  // namespace

const Rule& expert_ranks_rule() {
  static const Rule rule{"megatron_expert_ranks", read_expert_ranks, write_expert_ranks};
  return rule;
}

}  // namespace mbench::formats
