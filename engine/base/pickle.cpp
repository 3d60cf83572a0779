#include "engine/base/pickle.h"

#include <bit>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

namespace mbench {
namespace {

using nlohmann::json;

// Opcodes of Python's pickletools.
constexpr char kProto = '\x80', kStop = '.', kNone = 'N', kTrue = '\x88', kFalse = '\x89', kInt4 = 'J', kLong1 = '\x8a',
               kFloat = 'G', kUnicode = 'X', kDict = '}', kList = ']', kMark = '(', kSetItems = 'u', kAppends = 'e';

void little_endian(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

void integer(std::string& out, std::uint64_t value, bool negative) {
  const auto as_signed = static_cast<std::int64_t>(value);
  if (negative ? as_signed >= std::numeric_limits<std::int32_t>::min()
               : value <= std::numeric_limits<std::int32_t>::max()) {
    out += kInt4;
    return little_endian(out, value, 4);
  }
  // Nine bytes, so that the highest bit of an unsigned number is no sign.
  out += kLong1;
  out += '\x09';
  little_endian(out, value, 8);
  out += negative ? '\xff' : '\x00';
}

void text(std::string& out, const std::string& value) {
  out += kUnicode;
  little_endian(out, value.size(), 4);
  out += value;
}

void write(std::string& out, const json& value) {
  switch (value.type()) {
    case json::value_t::object:
      out += kDict;
      out += kMark;
      for (const auto& [key, item] : value.items()) text(out, key), write(out, item);
      out += kSetItems;
      break;
    case json::value_t::array:
      out += kList;
      out += kMark;
      for (const json& item : value) write(out, item);
      out += kAppends;
      break;
    case json::value_t::string:
      text(out, value.get_ref<const std::string&>());
      break;
    case json::value_t::boolean:
      out += value.get<bool>() ? kTrue : kFalse;
      break;
    case json::value_t::number_integer:
      integer(out, static_cast<std::uint64_t>(value.get<std::int64_t>()), value.get<std::int64_t>() < 0);
      break;
    case json::value_t::number_unsigned:
      integer(out, value.get<std::uint64_t>(), false);
      break;
    case json::value_t::number_float: {
      const auto bits = std::bit_cast<std::uint64_t>(value.get<double>());
      out += kFloat;
      for (int i = 7; i >= 0; --i) out += static_cast<char>(bits >> (8 * i) & 0xff);
      break;
    }
    case json::value_t::null:
    case json::value_t::binary:
    case json::value_t::discarded:
      out += kNone;
  }
}

}  // namespace

std::string to_pickle(const json& value) {
  std::string out;
  out += kProto;
  out += '\x02';
  write(out, value);
  out += kStop;
  return out;
}

}  // namespace mbench
