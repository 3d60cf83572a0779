// Documents that are packed into a sequence, one behind the other: attention sees none but a query's own. Data only.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace mbench {

class Documents {
 public:
  // `ends`: where each document ends, in order; the last ends where the sequence does. No document is empty.
  explicit Documents(std::vector<std::int64_t> ends) : ends_(std::move(ends)) {}

  std::int64_t seq() const { return ends_.back(); }
  std::int64_t count() const { return static_cast<std::int64_t>(ends_.size()); }
  // The document that has a position, and its positions [first, end).
  std::int64_t at(std::int64_t position) const {
    return std::upper_bound(ends_.begin(), ends_.end(), position) - ends_.begin();
  }
  std::int64_t first(std::int64_t document) const {
    return document == 0 ? 0 : ends_[static_cast<std::size_t>(document - 1)];
  }
  std::int64_t end(std::int64_t document) const { return ends_[static_cast<std::size_t>(document)]; }
  // The first position of the document that has this one, and the first behind it.
  std::int64_t first_of(std::int64_t position) const { return first(at(position)); }
  std::int64_t end_of(std::int64_t position) const { return end(at(position)); }

  // Positions of the longest document.
  std::int64_t longest() const {
    std::int64_t most = 0;
    for (std::int64_t d = 0; d < count(); ++d) most = std::max(most, end(d) - first(d));
    return most;
  }

  bool operator==(const Documents&) const = default;

 private:
  std::vector<std::int64_t> ends_;
};

// Null where a sequence is one document.
using DocumentsOrNone = std::shared_ptr<const Documents>;

// The same documents of a sequence, or the one that it is, each cut where a chunk of so many positions of the sequence ends. 0: uncut.
inline DocumentsOrNone in_chunks(const DocumentsOrNone& all, std::int64_t seq, std::int64_t chunk) {
  if (chunk == 0 || chunk >= seq) return all;
  std::vector<std::int64_t> ends = {seq};
  for (std::int64_t d = 0; all && d < all->count(); ++d) ends.push_back(all->end(d));
  for (std::int64_t end = chunk; end < seq; end += chunk) ends.push_back(end);
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  return std::make_shared<const Documents>(std::move(ends));
}

}  // namespace mbench
