// As whose program a step runs (framework/framework.h), how attention is computed, and what of a step is recorded once and replayed.
#include <map>
#include <utility>

#include "engine/framework/framework.h"
#include "engine/point/fields.h"
#include "strategies/routing.h"
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

constexpr Way kNotCaptured = one_of("capture", "false");

bool router_scales_in_fp16(const Point& p) {
  const RoutingSpec& routing = p.model.parts().routing;
  return p.model.experts > 0 && p.precision == Precision::fp16 && (routing.balance_loss > 0 || routing.z_loss > 0);
}

// With static room a framework's GEMMs find the rows of experts on the device. The engine's take them from the host.
MaybeFault why_no_rows_on_device(const Point& p, std::string_view parts) {
  if (p.expert_rank_capacity == 0 || !reads_rows(p)) return std::nullopt;
  return not_built_in({kNotCaptured, one_of("device", "sim:")}, "capture {} with expert_rank_capacity {} on {}", parts,
                      p.expert_rank_capacity, p.device);
}

// A replayed step does what the recorded one did: nothing in it may follow what the host reads of the device.
MaybeFault why_not_captured(const Point& p) {
  if (auto why = why_no_rows_on_device(p, "true")) return why;
  if (reads_rows(p))
    return infeasible({one_of("router", "balanced|capacity:1"), kNotCaptured},
                      "capture true with router {}, whose experts have as many rows as the host reads", str(p.router));
  if (router_scales_in_fp16(p))
    return infeasible({one_of("precision", "bf16"), kNotCaptured},
                      "capture true with the router's losses in fp16, whose scale the host decides");
  if (p.offload != Offload::none)
    return infeasible({one_of("offload", "none"), kNotCaptured},
                      "capture true with offload {}, whose step is the host's", name_of(p.offload));
  if (p.replicas == Replicas::single_process)
    return infeasible({one_of("replicas", "ranks"), kNotCaptured},
                      "capture true with replicas single_process, whose threads meet within a step");
  if (p.optimizer != OptimizerKind::adamw)
    return not_built_in({one_of("optimizer", "adamw"), kNotCaptured}, "capture true with optimizer {}",
                        name_of(p.optimizer));
  return std::nullopt;
}

// Experts whose rows the host decides, within a part: Megatron-Core captures experts only where each has as many rows as its capacity.
MaybeFault why_no_experts_within(const Point& p, std::string_view parts) {
  if (p.model.experts == 0 || p.router.routing == Routing::capacity) return std::nullopt;
  if (auto why = why_no_rows_on_device(p, parts)) return why;
  if (reads_rows(p) || (framework_of(p.framework)->keeps.reads_expert_rows && p.expert_rank_capacity == 0))
    return infeasible({one_of("router", "capacity:1"), kNotCaptured},
                      "capture {} with router {}, whose experts have as many rows as the host reads", parts,
                      str(p.router));
  return std::nullopt;
}

// What Megatron-Core's scopes refuse (--cuda-graph-modules), and what replays of parts cannot be.
MaybeFault why_not_parts(const Point& p) {
  const CapturedParts parts = p.capture.parts;
  const std::string name = name_of(parts);
  const bool layer = parts.has(CapturedPart::layer), moe = parts.has(CapturedPart::moe),
             router = parts.has(CapturedPart::moe_router), mlp = parts.has(CapturedPart::mlp);
  if ((moe || router) && p.model.experts == 0)
    return infeasible({kNotCaptured, one_of("capture", "attention|mlp")}, "capture {} of {} without experts", name,
                      p.model.name);
  if (mlp && !has_dense(p.model))
    return infeasible({kNotCaptured, one_of("capture", "attention")}, "capture {} of {} without dense layers", name,
                      p.model.name);
  if (layer || moe)
    if (auto why = why_no_experts_within(p, name)) return why;
  if ((layer || moe || router) && router_scales_in_fp16(p))
    return infeasible({one_of("precision", "bf16"), kNotCaptured},
                      "capture {} with the router's losses in fp16, whose scale the host decides", name);
  if (p.recompute.regions.has(Region::layer))
    return infeasible({one_of("recompute", "none|selective"), kNotCaptured},
                      "capture {} with recompute full, which runs parts of layers outside of their graphs", name);
  if (p.recompute.regions.has(Region::moe) && router)
    return infeasible({one_of("recompute", "-moe+moe_act"), kNotCaptured},
                      "capture {} with recompute moe, which runs the router again outside of its graph", name);
  if (p.overlap_moe && (layer || moe || mlp))
    return infeasible({one_of("overlap_moe", "false"), kNotCaptured},
                      "capture {} with overlap_moe true, whose micro batches take turns within it", name);
  if (p.replicas == Replicas::single_process)
    return infeasible({one_of("replicas", "ranks"), kNotCaptured},
                      "capture {} with replicas single_process, whose threads meet within a step", name);
  const ModelParts& model = p.model.parts();
  if (!layer && model.branches != Branches::sequential)
    return not_built_in({kNotCaptured, one_of("capture", "layer"), one_of("model.branches", "sequential")},
                        "capture {} of branches that run in parallel", name);
  if (router && p.model.any_layer([](const ModelParts& l) { return l.norm_place == NormPlace::post; }))
    return not_built_in({kNotCaptured, one_of("model.norm_place", "pre")}, "capture {} with norm_place post", name);
  // A replay needs the memory of its recording, which follows the rows of all experts before it.
  if (reads_rows(p) && !p.simulated())
    return not_built_in({one_of("router", "balanced|capacity:1"), kNotCaptured, one_of("device", "sim:")},
                        "capture {} with router {} on {}", name, str(p.router), p.device);
  return std::nullopt;
}

// The names of frameworks that have the choice, joined by "|".
std::string_view having(const ChosenOption& chosen) {
  static const std::map<std::pair<std::string_view, std::string_view>, std::string> all = [] {
    std::map<std::pair<std::string_view, std::string_view>, std::string> names;
    for (const FrameworkFile& file : builtin_frameworks())
      for (const FrameworkOption& option : all_framework_options())
        if (const FrameworkOption* own = file.option(option.name))
          for (const FrameworkChoice& choice : option.choices)
            if (own->find(choice.name)) {
              std::string& text = names[{option.name, choice.name}];
              text += (text.empty() ? "" : "|") + file.name();
            }
    return names;
  }();
  return all.at({chosen.option, chosen.value});
}

// "framework.rope_fusion", by the option's name; the text lives as long as the program.
std::string_view field_of(std::string_view option) {
  static const std::map<std::string_view, std::string> all = [] {
    std::map<std::string_view, std::string> fields;
    for (const FrameworkOption& each : all_framework_options())
      fields.emplace(each.name, std::string(kFrameworkField) + each.name);
    return fields;
  }();
  return all.at(option);
}

MaybeFault why_not_chosen(const Point& p, const Framework& framework) {
  if (framework.unknown.empty()) return std::nullopt;
  const ChosenOption& chosen = framework.unknown.front();
  return infeasible({one_of("framework.preset", having(chosen)), one_of(field_of(chosen.option), chosen.otherwise)},
                    "{} {} with framework {}", chosen.option, chosen.value, p.framework.preset);
}

// Logits of some positions at a time need all columns of the table, and what is left of them is only the weight's gradient.
MaybeFault why_not_in_chunks(const Point& p) {
  const Way whole = one_of("framework.cross_entropy_fusion", "te|torch");
  if (p.tp > 1) return not_built_in({exactly("tp", 1), whole}, "cross_entropy_fusion liger with tp {}", p.tp);
  if (p.replicas == Replicas::single_process)
    return infeasible({one_of("replicas", "ranks"), whole},
                      "cross_entropy_fusion liger with replicas single_process, whose first replica has all logits");
  const HeadSpec head = head_of(p.model, p.model.vocab);
  if (!head.logits)
    return infeasible({exactly("model.labels", 0), whole},
                      "cross_entropy_fusion liger with {} labels, and no logits of words", p.model.labels);
  if (head.transform || head.logits->bias)
    return not_built_in({whole}, "cross_entropy_fusion liger with {}, whose logits have a bias or a layer before them",
                        p.model.name);
  if (p.defer_embedding_wgrad)
    return infeasible({one_of("defer_embedding_wgrad", "false"), whole},
                      "cross_entropy_fusion liger with defer_embedding_wgrad true: it is made in forward");
  return std::nullopt;
}

MaybeFault why_not_that_loss(const Point& p, const Keeps& keeps) {
  if (keeps.chunked_loss) return why_not_in_chunks(p);
  if (keeps.logits_gradient != LogitsGradient::gradients_in_16_bits) return std::nullopt;
  if (p.precision == Precision::f32 || p.precision == Precision::tf32)
    return infeasible({one_of("framework.cross_entropy_fusion", "torch"), one_of("precision", "bf16|fp16")},
                      "cross_entropy_fusion torch_16bit with precision {}, whose logits have 32 bits",
                      name_of(p.precision));
  // PyTorch's own wants whole rows; DTensor's loss_parallel, of split ones, computes in f32.
  if (p.tp > 1 && p.vocab_parallel && p.model.labels == 0)
    return not_built_in(
        {exactly("tp", 1), one_of("vocab_parallel", "false"), one_of("framework.cross_entropy_fusion", "torch")},
        "cross_entropy_fusion torch_16bit with tp {}", p.tp);
  return std::nullopt;
}

// What Megatron-Core refuses with --moe-shared-expert-overlap, whose shared experts run within the dispatcher; and the norm that it would
// have to run again outside of the router's graph.
MaybeFault why_not_in_parts(const Point& p, const Keeps& keeps) {
  if (keeps.shared_experts != SharedExperts::in_parts || p.model.shared_experts == 0) return std::nullopt;
  const Way in_turn = one_of("framework.shared_expert_overlap", "false");
  if (p.overlap_moe)
    return infeasible({in_turn, one_of("overlap_moe", "false")}, "shared_expert_overlap true with overlap_moe");
  if (p.ep_communication == EpCommunication::all_gather)
    return infeasible({in_turn, one_of("ep_communication", "all_to_all|flex")},
                      "shared_expert_overlap true with ep_communication all_gather, which sends no tokens to experts");
  if (p.model.moe_latent > 0)
    return infeasible({in_turn}, "shared_expert_overlap true with moe_latent {}, a width that shared experts have not",
                      p.model.moe_latent);
  if (p.capture.parts.has(CapturedPart::moe_router) && p.recompute.regions.has(Region::norm))
    return infeasible({in_turn, kNotCaptured},
                      "shared_expert_overlap true with recompute norm and capture {}: shared experts read the norm "
                      "outside of its graph",
                      name_of(p.capture.parts));
  return std::nullopt;
}

// A real device runs the engine's kernels, whatever the framework's would be.
MaybeFault why_only_simulated(const Point& p, const Framework& framework) {
  if (framework.simulated.empty() || p.simulated()) return std::nullopt;
  const ChosenOption& chosen = framework.simulated.front();
  return not_built_in({one_of(field_of(chosen.option), chosen.otherwise), one_of("device", "sim:")}, "{} {} on {}",
                      chosen.option, chosen.value, p.device);
}

MaybeFault refuse(const Point& p) {
  if (p.capture.step)
    if (auto why = why_not_captured(p)) return why;
  if (p.capture.parts.any())
    if (auto why = why_not_parts(p)) return why;
  const auto framework = framework_of(p.framework);
  if (auto why = why_not_chosen(p, *framework)) return why;
  if (auto why = why_not_that_loss(p, framework->keeps)) return why;
  if (auto why = why_not_in_parts(p, framework->keeps)) return why;
  return why_only_simulated(p, *framework);
}

// Graphs of parts, the most of a layer last. Only for searches that ask: where the device is ahead of the host they change nothing.
std::vector<Choice> choices(const Point& p, std::int64_t) {
  std::vector<nlohmann::json> values = {false};
  const bool experts = p.model.experts > 0, dense = has_dense(p.model);
  std::vector<std::string> parts = {"attention"};
  if (dense) parts.push_back("attention+mlp");
  const std::string before = dense ? "attention+mlp" : "attention";
  if (experts) parts.push_back(before + "+moe_router");
  if (experts && p.ep_communication == EpCommunication::all_to_all)
    parts.push_back(before + "+moe_router+moe_preprocess");
  parts.push_back("layer");
  for (const std::string& name : parts) {
    Point captured = p;
    captured.capture = read_capture(name, "choices");
    if (!p.offload_activations.any() && !why_not_parts(captured)) values.push_back(name);
  }
  return {{"capture", std::move(values), true}};
}

void write(const Point& p, Plan& plan) {
  plan.framework = framework_of(p.framework);
  plan.attention = p.attention;
  plan.capture = p.capture.step;
  plan.captured = p.capture.parts;
}

}  // namespace

Strategy graph() {
  return {"graph", {"framework", "attention", "capture"}, refuse, choices, write};
}

}  // namespace mbench::strategies
