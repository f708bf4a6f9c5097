// The wire, with a raw socket as the client.
#include "server/http/http_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace factord {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class HttpServerTest : public ::testing::Test {
 protected:
  void Start(HttpServer::Handler handler) {
    auto listener = Listener::Open("127.0.0.1:0");
    ASSERT_TRUE(listener.ok()) << listener.status();
    auto started = HttpServer::Start(*std::move(listener), std::move(handler));
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
  }

  int Connect() {
    int port = 0;
    const std::string& address = server_->address();
    EXPECT_TRUE(absl::SimpleAtoi(address.substr(address.rfind(':') + 1), &port));
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int connection = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(connection, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    return connection;
  }

  // All that comes back until the server closes.
  std::string Ask(const std::string& request) {
    const int connection = Connect();
    EXPECT_EQ(send(connection, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    std::string reply;
    char piece[4096];
    for (ssize_t got; (got = recv(connection, piece, sizeof(piece), 0)) > 0;) {
      reply.append(piece, static_cast<std::size_t>(got));
    }
    close(connection);
    return reply;
  }

  std::string Get(const std::string& target, const std::string& headers = "") {
    return Ask("GET " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + headers +
               "\r\n");
  }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, DecodesPathAndArguments) {
  Start([](const HttpRequest& request) {
    std::string body = request.path;
    for (const auto& [name, value] : request.arguments) body += "|" + name + "=" + value;
    return HttpResponse{.body = body};
  });
  EXPECT_THAT(Get("/a%20b?x=1&y=%2B&z&x=2"), HasSubstr("\r\n\r\n/a b|x=2|y=+|z="));
}

TEST_F(HttpServerTest, TellsBrowsersToLoadNothingFromElsewhere) {
  Start([](const HttpRequest&) { return HttpResponse{.status = 503, .body = "no\n"}; });
  const std::string reply = Get("/");
  EXPECT_THAT(reply, StartsWith("HTTP/1.1 503 "));
  EXPECT_THAT(reply, HasSubstr("Content-Security-Policy: default-src 'self'"));
  EXPECT_THAT(reply, HasSubstr("X-Content-Type-Options: nosniff"));
  EXPECT_THAT(reply, HasSubstr("Cache-Control: no-store"));
}

TEST_F(HttpServerTest, CompressesLargeRepliesForThoseWhoAsk) {
  Start([](const HttpRequest& request) {
    return HttpResponse{.body = std::string(request.path == "/large" ? 100'000 : 10, 'x')};
  });
  const std::string packed = Get("/large", "Accept-Encoding: gzip\r\n");
  EXPECT_THAT(packed, HasSubstr("Content-Encoding: gzip"));
  EXPECT_LT(packed.size(), 2000);
  EXPECT_THAT(Get("/large"), Not(HasSubstr("Content-Encoding")));
  EXPECT_THAT(Get("/small", "Accept-Encoding: gzip\r\n"), Not(HasSubstr("Content-Encoding")));
}

TEST_F(HttpServerTest, OnlyGetAndHeadReachTheHandler) {
  std::string body = "body";
  Start([&](const HttpRequest&) { return HttpResponse{.body = body}; });
  const std::string close = "Host: x\r\nConnection: close\r\n";
  const std::string post = Ask("POST / HTTP/1.1\r\n" + close + "Content-Length: 5\r\n\r\nhello");
  EXPECT_THAT(post, StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(post, HasSubstr("Allow: GET, HEAD"));
  EXPECT_THAT(Ask("DELETE / HTTP/1.1\r\n" + close + "\r\n"), StartsWith("HTTP/1.1 405 "));
  const std::string head = Ask("HEAD / HTTP/1.1\r\n" + close + "\r\n");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(head, HasSubstr("Content-Length: 4"));
  EXPECT_THAT(head, Not(HasSubstr("\r\n\r\nbody")));
}

TEST_F(HttpServerTest, NeitherIdleNorHalfRequestsHoldUpOthersOrTheEnd) {
  Start([](const HttpRequest&) { return HttpResponse{.body = "here"}; });
  std::vector<int> idle;
  for (int i = 0; i < 40; ++i) idle.push_back(Connect());
  for (int connection : idle) EXPECT_EQ(send(connection, "GET /", 5, MSG_NOSIGNAL), 5);
  EXPECT_THAT(Get("/"), HasSubstr("here"));
  server_.reset();  // a wait for them would be longer than the test may take
  for (int connection : idle) close(connection);
}

TEST_F(HttpServerTest, GarbageIsRefused) {
  Start([](const HttpRequest&) { return HttpResponse{.body = "here"}; });
  EXPECT_THAT(Ask("\x16\x03\x01 nonsense\r\n\r\n"), Not(HasSubstr("here")));
  EXPECT_THAT(Get("/" + std::string(200'000, 'a')), Not(HasSubstr("here")));
  EXPECT_THAT(Get("/"), HasSubstr("here"));
}

}  // namespace
}  // namespace factord
