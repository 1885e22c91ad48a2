//===- Sha256.cpp - the hash that names a source file ---------------------===//

#include "frontends/Formats/Sha256.h"

#include <memory>
#include <openssl/evp.h>

namespace encast {

std::string sha256Hex(const uint8_t *bytes, size_t size) {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(
      EVP_MD_CTX_new(), EVP_MD_CTX_free);
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (!context || !EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) ||
      !EVP_DigestUpdate(context.get(), bytes, size) ||
      !EVP_DigestFinal_ex(context.get(), digest, &length))
    return "";
  static const char digits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned i = 0; i < length; ++i) {
    hex += digits[digest[i] >> 4];
    hex += digits[digest[i] & 15];
  }
  return hex;
}

} // namespace encast
