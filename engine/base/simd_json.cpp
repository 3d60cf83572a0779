#include "engine/base/simd_json.h"

#include "engine/base/json_reader.h"

namespace mbench {
namespace {

using simdjson::dom::element_type;

bool plain(std::string_view text) {
  return text.find('\0') == std::string_view::npos;
}

template <class Json>
bool convert(simdjson::dom::element value, Json& out) {
  switch (value.type()) {
    case element_type::OBJECT: {
      out = Json::object();
      auto& members = out.template get_ref<typename Json::object_t&>();
      for (const auto [key, member] : simdjson::dom::object(value)) {
        const auto [it, fresh] = members.emplace(std::string(key), Json());
        if (!fresh || members.size() > kMostKeys || !plain(key) || !convert(member, it->second)) return false;
      }
      return true;
    }
    case element_type::ARRAY: {
      out = Json::array();
      auto& items = out.template get_ref<typename Json::array_t&>();
      for (const simdjson::dom::element item : simdjson::dom::array(value))
        if (!convert(item, items.emplace_back())) return false;
      return true;
    }
    case element_type::STRING:
      out = std::string(std::string_view(value));
      return plain(value);
    case element_type::INT64: {
      // nlohmann reads what has no sign as unsigned.
      const std::int64_t number = value;
      if (number >= 0)
        out = static_cast<std::uint64_t>(number);
      else
        out = number;
      return true;
    }
    case element_type::UINT64:
      out = std::uint64_t(value);
      return true;
    case element_type::DOUBLE:
      out = double(value);
      return true;
    case element_type::BOOL:
      out = bool(value);
      return true;
    case element_type::NULL_VALUE:
      out = nullptr;
      return true;
  }
  return false;
}

}  // namespace

bool from_simdjson(simdjson::dom::element value, nlohmann::json& out) {
  return convert(value, out);
}

bool from_simdjson(simdjson::dom::element value, nlohmann::ordered_json& out) {
  return convert(value, out);
}

}  // namespace mbench
