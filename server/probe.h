// Probe: `factord --probe=ADDRESS`, a health client for containers that have nothing but factord.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace factord {

struct ProbeOptions {
  // HOST:PORT or unix:PATH.
  std::string address;
  // PEM files. With any of them TLS is spoken, but for a unix address. The server's certificate is
  // checked against tls_ca only: without it a server that answers is healthy, whoever it is, as for
  // the probes of Kubernetes. The pair is shown to a server that asks for one, so that the server's
  // own flags serve its probe.
  std::string tls_ca = {};
  std::string tls_cert = {};
  std::string tls_key = {};
};

// Asks grpc.health.v1 for the server as a whole. OK, and a line on stdout, only where it is
// SERVING. INVALID_ARGUMENT where the options make no sense; else UNAVAILABLE says what came
// instead.
absl::Status Probe(const ProbeOptions& options);

}  // namespace factord
