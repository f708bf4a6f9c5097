#include "server/security/tls_files.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"
#include "spdlog/spdlog.h"

namespace factord {
namespace {

template <auto kFree>
struct Freed {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>>;

absl::Status Fault(const FileText& file, absl::string_view problem) {
  return InvalidField(file.file.flag, absl::StrCat(file.file.path, " ", problem));
}

// In OpenSSL's words, of its oldest error, which is the cause; and forgets them all.
std::string Reason() {
  const unsigned long error = ERR_peek_error();
  const char* const reason = error == 0 ? nullptr : ERR_reason_error_string(error);
  std::string text = reason == nullptr ? "no reason given" : reason;
  ERR_clear_error();
  return text;
}

Bio Reader(const FileText& file) {
  return Bio(BIO_new_mem_buf(file.text.data(), static_cast<int>(file.text.size())));
}

absl::StatusOr<std::vector<Certificate>> ReadCertificates(const FileText& file) {
  ERR_clear_error();
  const Bio reader = Reader(file);
  std::vector<Certificate> certificates;
  while (Certificate next{PEM_read_bio_X509(reader.get(), nullptr, nullptr, nullptr)}) {
    certificates.push_back(std::move(next));
  }
  const bool at_the_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string reason = Reason();
  if (!at_the_end) return Fault(file, absl::StrCat("holds a damaged certificate: ", reason));
  if (certificates.empty()) return Fault(file, "holds no certificate in PEM");
  return certificates;
}

absl::StatusOr<Key> ReadKey(const FileText& file) {
  ERR_clear_error();
  // Nobody is there to type a password.
  const auto no_password = [](char*, int, int, void*) { return -1; };
  Key key(PEM_read_bio_PrivateKey(Reader(file).get(), nullptr, no_password, nullptr));
  if (key == nullptr) {
    return Fault(file, absl::StrCat("holds no unencrypted private key in PEM: ", Reason()));
  }
  return key;
}

// What a handshake would need of them; OpenSSL has its own ideas, of keys that are too short for
// one.
absl::Status CheckPair(const FileText& certificate_file, X509* certificate,
                       const FileText& key_file, EVP_PKEY* key) {
  if (X509_check_private_key(certificate, key) != 1) {
    ERR_clear_error();
    return Fault(key_file,
                 absl::StrCat("is not the key of the certificate in ", certificate_file.file.path));
  }
  const Context context(SSL_CTX_new(TLS_server_method()));
  if (SSL_CTX_use_certificate(context.get(), certificate) != 1 ||
      SSL_CTX_use_PrivateKey(context.get(), key) != 1) {
    return Fault(certificate_file,
                 absl::StrCat("holds a certificate that can not be used: ", Reason()));
  }
  return absl::OkStatus();
}

// A server with such a certificate still serves those who do not look, its probe for one.
void WarnIfExpired(const FileText& file, const X509* certificate) {
  if (X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
    spdlog::warn("{}: the certificate in {} has expired", file.file.flag, file.file.path);
  }
}

// Certificate, key, then the clients' CA, where there is one.
absl::StatusOr<TlsPems> Parse(const std::vector<FileText>& files) {
  const FileText& certificate = files[0];
  const FileText& key = files[1];
  ASSIGN_OR_RETURN(const std::vector<Certificate> chain, ReadCertificates(certificate));
  ASSIGN_OR_RETURN(const Key private_key, ReadKey(key));
  RETURN_IF_ERROR(CheckPair(certificate, chain.front().get(), key, private_key.get()));
  TlsPems pems{.certificate = certificate.text, .key = key.text, .client_ca = ""};
  if (files.size() > 2) {
    RETURN_IF_ERROR(ReadCertificates(files[2]).status());
    pems.client_ca = files[2].text;
  }
  WarnIfExpired(certificate, chain.front().get());
  return pems;
}

}  // namespace

absl::StatusOr<std::shared_ptr<TlsFiles>> OpenTlsFiles(const std::string& certificate_path,
                                                       const std::string& key_path,
                                                       const std::string& client_ca_path) {
  std::vector<FlagFile> files = {{.flag = "tls_cert", .path = certificate_path},
                                 {.flag = "tls_key", .path = key_path}};
  if (!client_ca_path.empty()) files.push_back({.flag = "tls_client_ca", .path = client_ca_path});
  return TlsFiles::Open(std::move(files), Parse);
}

}  // namespace factord
