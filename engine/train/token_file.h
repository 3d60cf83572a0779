// Tokens in a file, mapped into memory: opening costs nothing however large the file is, and ranks of one
// host share its pages. Values are not checked here; the size and the header are.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace mbench::train {

// A regular file mapped read-only; it must not shrink while it is. Missing, unreadable, not a regular file or
// empty is bad_input naming it.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const unsigned char* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  const unsigned char* data_ = nullptr;
  std::size_t size_ = 0;
};

enum class TokenFormat { bytes, u16, u32 };  // little-endian

class TokenFile {
 public:
  // text: every byte is a token.
  static TokenFile open_text(const std::string& path);
  // One of the formats that data.h lists; one that contradicts itself is bad_input naming the file.
  static TokenFile open_tokens(const std::string& path);

  const std::string& path() const { return path_; }
  TokenFormat format() const { return format_; }
  bool has_header() const { return has_header_; }
  std::int64_t size() const { return size_; }  // tokens
  std::int64_t operator[](std::int64_t i) const;

 private:
  explicit TokenFile(const std::string& path) : path_(path), file_(std::make_unique<MappedFile>(path)) {}
  std::string path_;
  std::unique_ptr<MappedFile> file_;
  const unsigned char* first_ = nullptr;  // of the first token
  TokenFormat format_ = TokenFormat::bytes;
  bool has_header_ = false;
  std::int64_t size_ = 0;
};

}  // namespace mbench::train
