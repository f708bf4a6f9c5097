#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/factorctl/commands.h"
#include "client/factorctl/flags.h"
#include "client/factorctl/json.h"
#include "client/factorctl/report.h"
#include "client/factorctl/server_flags.h"
#include "client/factord_client.h"

namespace factord::client {
namespace {

absl::Duration Uptime(const v1::GetServerInfoResponse& info) {
  return absl::Seconds(info.uptime().seconds()) + absl::Nanoseconds(info.uptime().nanos());
}

const char* Health(bool healthy) { return healthy ? "healthy" : "NOT healthy"; }

void PrintText(const v1::GetServerInfoResponse& info, std::ostream& out) {
  out << "factord " << info.version() << ", up " << ShortDuration(Uptime(info)) << "\n";
  for (const v1::BackendInfo& backend : info.backends()) {
    out << "backend " << BackendName(backend.backend()) << ": " << backend.name() << ", "
        << backend.library() << ", " << backend.threads() << " threads, " << backend.lanes()
        << " lanes, " << Health(backend.healthy())
        << (backend.driver().empty() ? "" : absl::StrCat(", driver ", backend.driver())) << "\n";
    for (const v1::Device& device : backend.devices()) {
      out << "  " << device.name() << ": " << device.model() << ", " << device.memory_bytes()
          << " bytes, " << device.lanes() << " lanes, " << Health(device.healthy()) << "\n";
    }
  }
  if (info.backends_size() > 1) {
    out << "routing: " << RouteLabelName(info.routing()) << " (" << info.routing_table() << ")\n";
  }
  out << "largest message: " << info.max_message_bytes() << " bytes\n"
      << "largest matrix: " << info.max_matrix_elements() << " elements\n"
      << "tensors in one request: " << info.max_tensors() << "\n"
      << "memory: " << info.memory_in_flight_bytes() << " of " << info.memory_budget_bytes()
      << " bytes in flight\n"
      << "rpcs: " << absl::StrJoin(info.rpcs(), ", ") << "\n";
}

void PrintJson(const v1::GetServerInfoResponse& info, std::ostream& out) {
  JsonWriter json;
  json.BeginObject();
  json.Key("version").String(info.version());
  json.Key("uptime_seconds").Double(absl::ToDoubleSeconds(Uptime(info)));
  json.Key("backends").BeginArray();
  for (const v1::BackendInfo& backend : info.backends()) {
    json.BeginObject();
    json.Key("backend").String(BackendName(backend.backend()));
    json.Key("name").String(backend.name());
    json.Key("library").String(backend.library());
    json.Key("threads").Int(backend.threads());
    json.Key("lanes").Int(backend.lanes());
    json.Key("healthy").Bool(backend.healthy());
    json.Key("driver").String(backend.driver());
    json.Key("devices").BeginArray();
    for (const v1::Device& device : backend.devices()) {
      json.BeginObject();
      json.Key("name").String(device.name());
      json.Key("model").String(device.model());
      json.Key("memory_bytes").Int(device.memory_bytes());
      json.Key("lanes").Int(device.lanes());
      json.Key("healthy").Bool(device.healthy());
      json.EndObject();
    }
    json.EndArray();
    json.EndObject();
  }
  json.EndArray();
  json.Key("routing").String(RouteLabelName(info.routing()));
  json.Key("routing_table").String(info.routing_table());
  json.Key("max_message_bytes").Int(info.max_message_bytes());
  json.Key("max_matrix_elements").Int(info.max_matrix_elements());
  json.Key("max_tensors").Int(info.max_tensors());
  json.Key("memory_budget_bytes").Int(info.memory_budget_bytes());
  json.Key("memory_in_flight_bytes").Int(info.memory_in_flight_bytes());
  json.Key("rpcs").BeginArray();
  for (const std::string& rpc : info.rpcs()) json.String(rpc);
  json.EndArray();
  json.EndObject();
  out << json.Take();
}

}  // namespace

absl::Status RunInfo(const std::vector<std::string>& words, Terminal* terminal) {
  ServerFlags server;
  FlagSet flags("info", "", "Prints the server's version, backends and limits.");
  server.Register(&flags);
  const absl::StatusOr<std::vector<std::string>> rest = flags.Parse(words);
  if (!rest.ok()) return rest.status();
  if (flags.HelpWanted()) {
    terminal->out << flags.Help();
    return absl::OkStatus();
  }
  if (!rest->empty())
    return UsageError(absl::StrCat("expected no arguments, not '", (*rest)[0], "'"));
  absl::StatusOr<std::unique_ptr<Client>> client = server.Connect();
  if (!client.ok()) return client.status();
  const absl::StatusOr<v1::GetServerInfoResponse> info = (*client)->GetServerInfo();
  if (!info.ok()) return info.status();
  if (server.json) {
    PrintJson(*info, terminal->out);
  } else {
    PrintText(*info, terminal->out);
  }
  return absl::OkStatus();
}

}  // namespace factord::client
