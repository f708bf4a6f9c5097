#include "client/npy_header.h"

#include <algorithm>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace factord::client {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);

// Reads the header's text: a Python dict literal with the three keys, in any order.
class DictParser {
 public:
  DictParser(absl::string_view file, absl::string_view contents, size_t begin, size_t end)
      : file_(file), contents_(contents), position_(begin), end_(end) {}

  absl::Status Parse(NpyHeader* header) {
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    if (!Take('{')) return Expected("'{'");
    while (!Take('}')) {
      std::string key;
      if (!TakeString(&key)) return Expected("a quoted key");
      if (!Take(':')) return Expected("':'");
      if (key == "descr") {
        has_descr = TakeString(&header->descr);
        if (!has_descr) return Expected("a simple type such as '<f8'; records are not matrices");
      } else if (key == "fortran_order") {
        has_order = TakeBool(&header->fortran_order);
        if (!has_order) return Expected("True or False");
      } else if (key == "shape") {
        has_shape = TakeShape(&header->shape);
        if (!has_shape) return Expected("a tuple of sizes");
      } else {
        return Expected(absl::StrCat("descr, fortran_order or shape before this, not '", key, "'"));
      }
      if (!Take(',') && Peek() != '}') return Expected("',' or '}'");
    }
    if (!has_descr || !has_order || !has_shape) {
      return Expected("a header with descr, fortran_order and shape");
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Expected(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(file_, ": byte ", position_, ": expected ", what));
  }

  char Peek() {
    while (position_ < end_ && absl::ascii_isspace(contents_[position_])) ++position_;
    return position_ < end_ ? contents_[position_] : '\0';
  }

  bool Take(char wanted) {
    if (Peek() != wanted) return false;
    ++position_;
    return true;
  }

  bool TakeWord(absl::string_view word) {
    Peek();
    if (contents_.substr(position_, std::min(word.size(), end_ - position_)) != word) return false;
    position_ += word.size();
    return true;
  }

  bool TakeString(std::string* value) {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t close = contents_.find(quote, position_ + 1);
    if (close == absl::string_view::npos || close >= end_) return false;
    *value = std::string(contents_.substr(position_ + 1, close - position_ - 1));
    position_ = close + 1;
    return true;
  }

  bool TakeBool(bool* value) {
    *value = TakeWord("True");
    return *value || TakeWord("False");
  }

  bool TakeSize(int64_t* value) {
    if (!absl::ascii_isdigit(Peek())) return false;
    *value = 0;
    for (; position_ < end_ && absl::ascii_isdigit(contents_[position_]); ++position_) {
      const int64_t digit = contents_[position_] - '0';
      if (*value > (std::numeric_limits<int64_t>::max() - digit) / 10) return false;
      *value = *value * 10 + digit;
    }
    Take('L');  // Python 2 wrote long integers so
    return true;
  }

  bool TakeShape(std::vector<int64_t>* shape) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      if (!TakeSize(&shape->emplace_back())) return false;
      if (!Take(',') && Peek() != ')') return false;
    }
    return true;
  }

  const absl::string_view file_;
  const absl::string_view contents_;
  size_t position_;
  const size_t end_;
};

size_t LittleEndian(absl::string_view bytes) {
  size_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

absl::StatusOr<NpyHeader> ParseNpyHeader(absl::string_view file, absl::string_view contents) {
  if (contents.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": byte 0: expected \\x93NUMPY, an .npy file's first bytes"));
  }
  // The magic string, two bytes of version, then the header's length in two bytes (version 1) or
  // four.
  const int major = contents.size() > 6 ? static_cast<unsigned char>(contents[6]) : 0;
  if (major < 1 || major > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": byte 6: expected version 1, 2 or 3, not ", major));
  }
  const size_t length_bytes = major == 1 ? 2 : 4;
  const size_t begin = 8 + length_bytes;
  const size_t length =
      contents.size() < begin ? 0 : LittleEndian(contents.substr(8, length_bytes));
  if (contents.size() < begin || length > contents.size() - begin) {
    return absl::InvalidArgumentError(absl::StrCat(file, ": byte 8: expected a header of ", length,
                                                   " bytes, but the file ends at ",
                                                   contents.size()));
  }
  NpyHeader header;
  header.data_offset = static_cast<int64_t>(begin + length);
  const absl::Status status = DictParser(file, contents, begin, begin + length).Parse(&header);
  if (!status.ok()) return status;
  return header;
}

}  // namespace factord::client
