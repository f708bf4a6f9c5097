#include "server/http/endpoints.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"
#include "prometheus/text_serializer.h"
#include "server/http/page_files.h"
#include "server/http/plan_query.h"

namespace factord {
namespace {

constexpr char kJson[] = "application/json";

HttpResponse NotFound() {
  return {.status = 404,
          .body =
              "Nothing is here. There are /, /status.json, /explain.json, /metrics, /livez and "
              "/readyz.\n"};
}

HttpResponse JsonError(const absl::Status& status) {
  const nlohmann::json error = {{"error", std::string(status.message())}};
  return {.status = 400,
          .content_type = kJson,
          .body = error.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

}  // namespace

Endpoints::Endpoints(StatusSource source, const Metrics& metrics)
    : source_(std::move(source)), metrics_(metrics), sampler_(metrics) {}

HttpResponse Endpoints::Answer(const HttpRequest& request) const {
  if (request.path == "/metrics") return Scrape();
  if (request.path == "/livez") return {.body = "alive\n"};
  if (request.path == "/readyz") return Ready();
  if (request.path == "/status.json") return Status();
  if (request.path == "/explain.json") return Plan(request);
  const auto files = PageFiles();
  const auto file = std::find_if(files.begin(), files.end(), [&](const PageFile& candidate) {
    return candidate.path == request.path;
  });
  if (file == files.end()) return NotFound();
  return {.content_type = std::string(file->content_type), .body = std::string(file->text)};
}

HttpResponse Endpoints::Scrape() const {
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, metrics_.registry()->Collect());
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = text.str()};
}

HttpResponse Endpoints::Ready() const {
  if (const auto reason = source_.not_ready()) {
    return {.status = 503, .body = absl::StrCat(*reason, "\n")};
  }
  return {.body = "ready\n"};
}

HttpResponse Endpoints::Status() const {
  HttpResponse response{.content_type = kJson};
  sampler_.Read([&](const History& history) {
    response.body = StatusJson(source_, metrics_.Snapshot(), history, absl::Now());
  });
  return response;
}

HttpResponse Endpoints::Plan(const HttpRequest& request) const {
  const auto answer = AnswerPlanQuery(request.arguments, source_.context);
  if (!answer.ok()) return JsonError(answer.status());
  HttpResponse response{.content_type = kJson};
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  if (!google::protobuf::util::MessageToJsonString(*answer, &response.body, options).ok()) {
    return {.status = 500, .body = "the answer can not be written as JSON\n"};
  }
  return response;
}

}  // namespace factord
