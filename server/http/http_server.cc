#include "server/http/http_server.h"

#include <microhttpd.h>

#include <cstring>
#include <utility>

#include "absl/strings/string_view.h"
#include "server/http/gzip.h"

namespace factord {
namespace {

constexpr unsigned kMaxConnections = 256;
constexpr unsigned kIdleSeconds = 30;
// Smaller replies gain nothing.
constexpr std::size_t kCompressFrom = 1024;

constexpr char kPolicy[] =
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

using Response = std::unique_ptr<MHD_Response, decltype(&MHD_destroy_response)>;

Response ResponseOf(absl::string_view body, const std::string& content_type) {
  Response response(MHD_create_response_from_buffer(body.size(), const_cast<char*>(body.data()),
                                                    MHD_RESPMEM_MUST_COPY),
                    &MHD_destroy_response);
  const std::pair<const char*, const char*> headers[] = {
      {MHD_HTTP_HEADER_CONTENT_TYPE, content_type.c_str()},
      {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
      {"Content-Security-Policy", kPolicy},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"}};
  for (const auto& [name, value] : headers) MHD_add_response_header(response.get(), name, value);
  return response;
}

MHD_Result RefuseMethod(MHD_Connection* connection) {
  const Response response =
      ResponseOf("Only GET and HEAD are served here.\n", "text/plain; charset=utf-8");
  MHD_add_response_header(response.get(), MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  return MHD_queue_response(connection, MHD_HTTP_METHOD_NOT_ALLOWED, response.get());
}

MHD_Result AddArgument(void* arguments, MHD_ValueKind, const char* name, std::size_t name_size,
                       const char* value, std::size_t value_size) {
  (*static_cast<std::map<std::string, std::string>*>(arguments))[std::string(name, name_size)] =
      value == nullptr ? "" : std::string(value, value_size);
  return MHD_YES;
}

MHD_Result Reply(MHD_Connection* connection, const HttpResponse& reply) {
  const char* accepts =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT_ENCODING);
  const bool compress =
      reply.body.size() >= kCompressFrom && accepts != nullptr && AcceptsGzip(accepts);
  const Response response =
      ResponseOf(compress ? Gzip(reply.body) : reply.body, reply.content_type);
  if (compress) MHD_add_response_header(response.get(), MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
  MHD_add_response_header(response.get(), MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING);
  return MHD_queue_response(connection, static_cast<unsigned>(reply.status), response.get());
}

MHD_Result Handle(void* handler, MHD_Connection* connection, const char* path, const char* method,
                  const char*, const char*, std::size_t*, void**) {
  if (std::strcmp(method, MHD_HTTP_METHOD_GET) != 0 &&
      std::strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
    return RefuseMethod(connection);
  }
  HttpRequest request{.path = path, .arguments = {}};
  MHD_get_connection_values_n(connection, MHD_GET_ARGUMENT_KIND, &AddArgument, &request.arguments);
  return Reply(connection, (*static_cast<const HttpServer::Handler*>(handler))(request));
}

}  // namespace

struct HttpServer::Daemon {
  ~Daemon() { MHD_stop_daemon(daemon); }
  MHD_Daemon* daemon;
};

HttpServer::HttpServer(std::string address, Handler handler)
    : address_(std::move(address)), handler_(std::move(handler)) {}

HttpServer::~HttpServer() = default;

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(Listener listener, Handler handler) {
  std::unique_ptr<HttpServer> server(new HttpServer(listener.address(), std::move(handler)));
  const int socket = listener.Release();  // the daemon closes it, also where it does not start
  MHD_Daemon* daemon =
      MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_USE_ITC, 0, nullptr, nullptr, &Handle,
                       const_cast<Handler*>(&server->handler_), MHD_OPTION_LISTEN_SOCKET, socket,
                       MHD_OPTION_CONNECTION_LIMIT, kMaxConnections, MHD_OPTION_CONNECTION_TIMEOUT,
                       kIdleSeconds, MHD_OPTION_END);
  if (daemon == nullptr) return absl::UnavailableError("the HTTP server does not start");
  server->daemon_.reset(new Daemon{daemon});
  return server;
}

}  // namespace factord
