#include "engine/point/document_lengths.h"

#include <charconv>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/philox.h"
#include "engine/base/text.h"

namespace mbench {
namespace {

constexpr std::int64_t kLongest = 16777216;
constexpr std::string_view kDrawn = "geometric:";

std::int64_t read_length(std::string_view text, const std::string& all, const std::string& where) {
  std::int64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  if (error != std::errc() || end != text.data() + text.size() || length < 1 || length > kLongest)
    fail(ErrorKind::bad_input, where,
         "no lengths of documents, got \"{}\", need \"none\", tokens of 1 to {} such as 1024, several as "
         "\"1024+3072\", or a mean as \"geometric:1024\"",
         all, kLongest);
  return length;
}

}  // namespace

DocumentLengths read_document_lengths(const std::string& text, const std::string& where) {
  DocumentLengths all;
  if (text == "none") return all;
  std::string_view rest = text;
  if (rest.starts_with(kDrawn)) {
    all.mean = read_length(rest.substr(kDrawn.size()), text, where);
    return all;
  }
  for (bool more = true; more;) {
    const std::size_t plus = rest.find('+');
    more = plus != std::string_view::npos;
    all.lengths.push_back(read_length(rest.substr(0, plus), text, where));
    if (more) rest.remove_prefix(plus + 1);
  }
  return all;
}

std::string str(const DocumentLengths& all) {
  if (all.mean > 0) return fmt::format("{}{}", kDrawn, all.mean);
  return all.lengths.empty() ? "none" : fmt::format("{}", fmt::join(all.lengths, "+"));
}

DocumentsOrNone documents_of(const DocumentLengths& all, std::int64_t seq, std::uint64_t seed) {
  if (!all.on()) return nullptr;
  const RngKey key{seed, fnv1a("data.documents"), 0};
  const double shrink = all.mean > 1 ? std::log1p(-1 / static_cast<double>(all.mean)) : 0;
  const auto length = [&](std::size_t i) {
    if (all.mean == 0) return all.lengths[i % all.lengths.size()];
    if (all.mean == 1) return std::int64_t{1};
    const double u = (static_cast<double>(Philox::word(key, i)) + 1) / 4294967296.0;
    return 1 + static_cast<std::int64_t>(std::log(u) / shrink);
  };
  std::vector<std::int64_t> ends;
  for (std::int64_t end = 0; end < seq;) {
    end = std::min(seq, end + length(ends.size()));
    ends.push_back(end);
  }
  if (ends.size() == 1) return nullptr;
  return std::make_shared<const Documents>(std::move(ends));
}

}  // namespace mbench
