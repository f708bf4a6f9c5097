// HttpServer: GET over HTTP/1.1, for people, probes and Prometheus. Knows nothing of factord.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/http/listener.h"

namespace factord {

struct HttpRequest {
  std::string path = {};  // decoded, without the query
  std::map<std::string, std::string> arguments =
      {};  // of the query, decoded; the last of a name counts
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body = {};
};

// One thread waits for all connections: one that is idle or slow holds up no other, and stopping
// waits for none. GET and HEAD reach the handler, anything else is answered with 405. Replies are
// compressed for those who accept gzip, and never cached; browsers are told to load nothing from
// elsewhere.
class HttpServer {
 public:
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  // Serves from now on. The handler runs on the server's thread, and should be quick.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(Listener listener, Handler handler);

  // At once: what is being sent is cut off.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const std::string& address() const { return address_; }

 private:
  struct Daemon;
  HttpServer(std::string address, Handler handler);

  const std::string address_;
  const Handler handler_;
  std::unique_ptr<Daemon> daemon_;  // last: it uses all of the above
};

}  // namespace factord
