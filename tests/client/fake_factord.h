#ifndef FACTORD_TESTS_CLIENT_FAKE_FACTORD_H_
#define FACTORD_TESTS_CLIENT_FAKE_FACTORD_H_

#include <memory>
#include <string>

#include "google/rpc/status.pb.h"

namespace factord::client {

// A factord server in this process, on a port of its own: correct results by the plainest
// Householder QR, and what else a test asks for. Every RunReport and every answer about the server
// is fixed. Thread-safe.
class FakeFactord {
 public:
  FakeFactord();
  ~FakeFactord();

  std::string target() const;

  // The next `times` calls end so, streamed ones in their Done right after the Start.
  void FailNext(const google::rpc::Status& status, int times);
  // Streamed replies lose their last chunk, those of ReduceRows their result.
  void LoseLastChunk();
  // Unary Factorize replies have the dims of R's rows and columns the wrong way round, those of
  // ReduceRows say 0 rows.
  void SwapDimsOfR();

  int unary_calls() const;
  int stream_calls() const;
  int received_chunks() const;
  // The last call's `factord-client` metadata; empty if it had none.
  std::string client_name() const;

 private:
  class Service;
  struct Server;
  std::unique_ptr<Service> service_;
  std::unique_ptr<Server> server_;
};

}  // namespace factord::client

#endif  // FACTORD_TESTS_CLIENT_FAKE_FACTORD_H_
