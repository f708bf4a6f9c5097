// Server: everything, built in order and torn down in reverse.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/options.h"

namespace factord {

// Create, then Drain (or destroy, which drains without grace). Not thread-safe.
class Server {
 public:
  // Listening when it returns; and SERVING, unless shapes are to be run first. An error says in a
  // sentence what is in the way, e.g. a port that is taken.
  static absl::StatusOr<std::unique_ptr<Server>> Create(const Options& options);
  ~Server();

  // "127.0.0.1:50051", "unix:/run/factord.sock": with the ports that were chosen.
  const std::vector<std::string>& addresses() const;
  // "127.0.0.1:9464", or empty.
  const std::string& metrics_address() const;

  // Health first, then refuse, then finish what was accepted, for up to options.grace_period. True
  // where all was finished in that time; else work still runs, and destroying the server waits for
  // it. Idempotent.
  bool Drain();

  // A shape of options.warmup_shapes is being run. It can't be stopped: destroying the server waits
  // for it.
  bool warming_up() const;

  // Opens the trace file anew: it may have been moved away. Thread-safe.
  void ReopenFiles();

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace factord
