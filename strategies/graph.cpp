// As whose program a step runs (framework/framework.h), how attention is computed, and whether steps are recorded once and replayed.
#include <map>
#include <utility>

#include "engine/framework/framework.h"
#include "engine/point/fields.h"
#include "strategies/routing.h"
#include "strategies/strategies.h"

namespace mbench::strategies {
namespace {

constexpr Way kNotCaptured = one_of("capture", "false");

// A replayed step does what the recorded one did: nothing in it may follow what the host reads of the device.
MaybeFault why_not_captured(const Point& p) {
  const bool experts = p.model.experts > 0;
  if (reads_rows(p))
    return infeasible({one_of("router", "balanced|capacity:1"), kNotCaptured},
                      "capture true with router {}, whose experts have as many rows as the host reads", str(p.router));
  const RoutingSpec& routing = p.model.parts().routing;
  if (experts && p.precision == Precision::fp16 && (routing.balance_loss > 0 || routing.z_loss > 0))
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

MaybeFault why_not_that_loss(const Point& p, const Keeps& keeps) {
  if (keeps.logits_gradient != LogitsGradient::gradients_in_16_bits) return std::nullopt;
  if (p.precision == Precision::f32 || p.precision == Precision::tf32)
    return infeasible({one_of("framework.cross_entropy_fusion", "torch"), one_of("precision", "bf16|fp16")},
                      "cross_entropy_fusion torch_16bit with precision {}, whose logits have 32 bits",
                      name_of(p.precision));
  // PyTorch's own wants whole rows; DTensor's loss_parallel, of split ones, computes in f32.
  if (p.tp > 1 && p.vocab_parallel)
    return not_built_in(
        {exactly("tp", 1), one_of("vocab_parallel", "false"), one_of("framework.cross_entropy_fusion", "torch")},
        "cross_entropy_fusion torch_16bit with tp {}", p.tp);
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
  if (p.capture.parts.any()) return not_built_in({kNotCaptured}, "capture {}", name_of(p.capture));
  const auto framework = framework_of(p.framework);
  if (auto why = why_not_chosen(p, *framework)) return why;
  if (auto why = why_not_that_loss(p, framework->keeps)) return why;
  return why_only_simulated(p, *framework);
}

void write(const Point& p, Plan& plan) {
  plan.framework = framework_of(p.framework);
  plan.attention = p.attention;
  plan.capture = p.capture.step;
  plan.captured = p.capture.parts;
}

}  // namespace

Strategy graph() {
  return {"graph", {"framework", "attention", "capture"}, refuse, nullptr, write};
}

}  // namespace mbench::strategies
