#include "server/security/digest.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

namespace factord {

Digest DigestOf(absl::string_view text) {
  Digest digest;
  static_assert(sizeof(digest) == SHA256_DIGEST_LENGTH);
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data());
  return digest;
}

bool EqualInConstantTime(const Digest& a, const Digest& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace factord
