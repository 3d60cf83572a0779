#include "engine/nn/context.h"

#include "engine/base/text.h"

namespace mbench {

RngKey rng_key(const Context& context, std::uint32_t site) {
  return {context.point().seed, site, static_cast<std::uint32_t>(context.step)};
}

std::uint32_t site_of(const std::string& name) {
  return static_cast<std::uint32_t>(fnv1a(name));
}

}  // namespace mbench
