#include "server/http/gzip.h"

#include <zlib.h>

#include <cstdlib>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace factord {
namespace {

constexpr int kLevel = 1;             // metrics are so repetitive that more gains little
constexpr int kWindowBits = 15 + 16;  // + 16: gzip's header
constexpr int kMemoryLevel = 8;       // zlib's default

double WeightOf(const std::vector<absl::string_view>& parts) {
  double weight = 1;
  for (absl::string_view part : parts) {
    part = absl::StripAsciiWhitespace(part);
    if (absl::ConsumePrefix(&part, "q=") && !absl::SimpleAtod(part, &weight)) return 0;
  }
  return weight;
}

}  // namespace

std::string Gzip(absl::string_view plain) {
  z_stream stream = {};
  // Fails only for lack of memory, as operator new would.
  if (deflateInit2(&stream, kLevel, Z_DEFLATED, kWindowBits, kMemoryLevel, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    std::abort();
  }
  std::string packed(deflateBound(&stream, plain.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

bool AcceptsGzip(absl::string_view accept_encoding) {
  for (absl::string_view choice : absl::StrSplit(accept_encoding, ',')) {
    const std::vector<absl::string_view> parts = absl::StrSplit(choice, ';');
    const absl::string_view name = absl::StripAsciiWhitespace(parts.front());
    if (absl::EqualsIgnoreCase(name, "gzip") || name == "*") return WeightOf(parts) > 0;
  }
  return false;
}

}  // namespace factord
