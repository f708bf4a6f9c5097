// Endpoints: what is served on the metrics port. docs/operations.md lists it.
#pragma once

#include <memory>

#include "server/http/http_server.h"
#include "server/http/sampler.h"
#include "server/http/status_page.h"
#include "server/metrics/metrics.h"

namespace factord {

// Thread-safe. `metrics`, and what the source points to, outlive it.
class Endpoints {
 public:
  Endpoints(StatusSource source, const Metrics& metrics);

  HttpResponse Answer(const HttpRequest& request) const;

 private:
  HttpResponse Scrape() const;
  HttpResponse Ready() const;
  HttpResponse Status() const;
  HttpResponse Plan(const HttpRequest& request) const;

  const StatusSource source_;
  const Metrics& metrics_;
  const Sampler sampler_;
};

}  // namespace factord
