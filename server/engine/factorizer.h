// Factorizer: runs one batch on one backend. The only virtual seam of the server.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "server/core/batch.h"

namespace factord {

class Factorizer {
 public:
  virtual ~Factorizer() = default;

  // Computes every output of every job of the batch, and sets each job's `failures`,
  // `times.pack/compute/unpack`, `backend` and `path`. Reads inputs, writes outputs, nothing else;
  // blocks until all are written. A matrix that can't be factorized is a failure of that matrix,
  // never an error here. An error means that nothing of the batch may be used, and that running it
  // again elsewhere is safe. Called by one thread at a time.
  virtual absl::Status Run(Batch& batch) = 0;

  // False once Run can't succeed any more: its device is lost. Called by any thread.
  virtual bool healthy() const { return true; }

  // The algorithm that Run would use, by shape and options alone: static storage, e.g. "lapack". A
  // metric label.
  virtual std::string_view PathOf(const Spec& spec) const = 0;
};

}  // namespace factord
