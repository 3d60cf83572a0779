// Lengths of the documents that are packed into a sequence: the spec's field `document_lengths`.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "engine/base/documents.h"

namespace mbench {

struct DocumentLengths {
  std::vector<std::int64_t> lengths;  // repeated until a sequence is full; empty: a sequence is one document
  std::int64_t mean = 0;              // of lengths that are drawn; 0: none are
  bool operator==(const DocumentLengths&) const = default;

  bool on() const { return !lengths.empty() || mean > 0; }
};

// "none", "1024", "1024+3072" or "geometric:1024". bad_input at `where` for anything else.
DocumentLengths read_document_lengths(const std::string& text, const std::string& where);
std::string str(const DocumentLengths& lengths);

// The documents of a sequence of that length, the last one cut where it ends. Null where there is one only. A drawn length is 1 +
// ln(u) / ln(1 - 1 / mean), rounded down. Of document i, u is (word(i) + 1) / 2^32, by Philox with the seed and the site
// "data.documents".
DocumentsOrNone documents_of(const DocumentLengths& lengths, std::int64_t seq, std::uint64_t seed);

}  // namespace mbench
