#include "server/flags.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/flags/reflection.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/core/errors.h"
#include "server/core/status_macros.h"

namespace {
const factord::Options kDefaults;
}

ABSL_FLAG(std::vector<std::string>, listen, kDefaults.listen,
          "Where to serve, separated by commas: HOST:PORT (port 0: any free one) or unix:PATH.");
ABSL_FLAG(
    std::string, metrics_listen, kDefaults.metrics_listen,
    "Where metrics (/metrics), probes (/livez, /readyz) and the status page (/) are: HOST:PORT. "
    "Empty: nowhere.");
ABSL_FLAG(std::vector<std::string>, warmup_shapes, kDefaults.warmup_shapes,
          "Run once before health says SERVING, separated by commas: BATCHxMxN or BATCHxMxN:TYPE, "
          "where TYPE is f32 (if not said), f64, c64 or c128. Empty: none.");
ABSL_FLAG(bool, reflection, kDefaults.reflection,
          "Answer gRPC server reflection: what services there are.");
ABSL_FLAG(
    std::string, tls_cert, kDefaults.tls_cert,
    "PEM file with the server's certificate, then its chain. With it: TLS on all addresses but "
    "unix ones. Read anew when it changes, as are all files here.");
ABSL_FLAG(std::string, tls_key, kDefaults.tls_key, "PEM file with the certificate's private key.");
ABSL_FLAG(std::string, tls_client_ca, kDefaults.tls_client_ca,
          "PEM file with the CAs whose certificates clients must show. Empty: they show none.");
ABSL_FLAG(
    std::string, auth_token_file, kDefaults.auth_token_file,
    "File with a bearer token on each line, TOKEN or NAME:TOKEN; calls must bring one of them. "
    "Empty: they need none.");
ABSL_FLAG(
    std::string, probe, "",
    "Ask the server at this address for its health instead of serving; exits with 0 if it is "
    "SERVING, with 1 if not. With --tls_cert and --tls_key as the server's where it has TLS.");
ABSL_FLAG(
    std::string, tls_ca, "",
    "PEM file with the CAs that the server's certificate is checked against. Empty: it is not "
    "checked.");
ABSL_FLAG(int, cpu_threads, kDefaults.cpu_threads,
          "Threads that factorize. 0: one for each core this process may use (cgroup-aware).");
ABSL_FLAG(std::string, cpu_engine, kDefaults.cpu_engine,
          "What factorizes on the CPU: simd (our kernels) or lapack (OpenBLAS).");
ABSL_FLAG(std::string, backend, kDefaults.backend,
          "Where requests run that do not say so: auto (by predicted time), cpu or gpu.");
ABSL_FLAG(std::string, gpu, kDefaults.gpu,
          "auto: the GPUs that are there; off: none; required: no start without one.");
ABSL_FLAG(std::vector<std::string>, gpu_devices, kDefaults.gpu_devices,
          "Numbers of the GPUs to use, as CUDA counts, separated by commas. Empty: all.");
ABSL_FLAG(int, gpu_lanes, kDefaults.gpu_lanes, "Batches at once on one GPU.");
ABSL_FLAG(std::int64_t, gpu_memory_bytes, kDefaults.gpu_memory_bytes,
          "Device memory of one lane. 0: an eighth of the device's.");
ABSL_FLAG(std::int64_t, gpu_pinned_bytes, kDefaults.gpu_pinned_bytes,
          "Page-locked host memory of one lane.");
ABSL_FLAG(
    std::int64_t, gpu_min_flops, kDefaults.gpu_min_flops,
    "Tensors with at least this much work go to the GPU, others do not. 0: by predicted time.");
ABSL_FLAG(std::string, routing_table, kDefaults.routing_table,
          "What `factord tune` wrote. Empty: the built-in table that fits best.");
ABSL_FLAG(std::int64_t, max_message_bytes, kDefaults.max_message_bytes,
          "Largest gRPC message, either way.");
ABSL_FLAG(std::int64_t, max_tensors, kDefaults.max_tensors, "Most tensors in one request.");
ABSL_FLAG(
    std::int64_t, memory_budget_bytes, kDefaults.memory_budget_bytes,
    "Inputs and results of all requests in flight. 0: half of the memory this process may use.");
ABSL_FLAG(int, max_concurrent_streams, kDefaults.max_concurrent_streams,
          "Most RPCs at once on one connection; more wait in the client.");
ABSL_FLAG(std::int64_t, max_queued_jobs, kDefaults.max_queued_jobs,
          "Most jobs waiting for a lane; beyond it requests are refused with UNAVAILABLE.");
ABSL_FLAG(std::int64_t, max_batch_matrices, kDefaults.max_batch_matrices,
          "Most matrices in one batch.");
ABSL_FLAG(std::int64_t, max_batch_bytes, kDefaults.max_batch_bytes,
          "Inputs and results of one batch.");
ABSL_FLAG(absl::Duration, max_batch_cost, kDefaults.max_batch_cost,
          "Predicted time of one batch: how long others may wait for a lane.");
ABSL_FLAG(absl::Duration, max_batch_delay, kDefaults.max_batch_delay,
          "How long a batch may wait for company though a lane is idle. 0 (recommended): never.");
ABSL_FLAG(absl::Duration, low_priority_ageing, kDefaults.low_priority_ageing,
          "How long low-priority work waits before it counts as normal.");
ABSL_FLAG(std::int64_t, chunk_bytes, kDefaults.chunk_bytes,
          "Size of one chunk of a streamed result.");
ABSL_FLAG(absl::Duration, upload_timeout, kDefaults.upload_timeout,
          "Longest gap between two chunks of an upload.");
ABSL_FLAG(absl::Duration, stall_timeout, kDefaults.stall_timeout,
          "Longest a client may leave a streamed result unread.");
ABSL_FLAG(absl::Duration, drain_delay, kDefaults.drain_delay,
          "After SIGTERM: how long health says NOT_SERVING while requests are still taken.");
ABSL_FLAG(absl::Duration, grace_period, kDefaults.grace_period,
          "After that: how long accepted requests get to finish.");
ABSL_FLAG(double, tune_seconds, 180, "About how long to measure.");
ABSL_FLAG(std::string, output, "", "Where to write the routing table. Empty: stdout.");
ABSL_FLAG(std::string, log_format, kDefaults.log_format,
          "How log lines on stderr look: human, or json (one object a line).");
ABSL_FLAG(std::string, log_level, kDefaults.log_level,
          "Least severe of what is logged. SIGUSR1: one level more, SIGUSR2: one less.");
ABSL_FLAG(std::string, trace_file, kDefaults.trace_file,
          "Where the spans of sampled requests are appended, as OTLP/JSON lines; SIGHUP opens it "
          "anew. Empty: nowhere.");
ABSL_FLAG(double, trace_sample_ratio, kDefaults.trace_sample_ratio,
          "Part of the requests without a traceparent that is sampled, 0 to 1.");
ABSL_FLAG(std::string, flagfile, "",
          "More flags, one on each line; lines that start with # are left out.");

namespace factord {
namespace {

constexpr absl::string_view kUsage =
    "factord: batched matrix factorization as a service.\n\n"
    "Usage: factord [flags]         serves until SIGTERM or SIGINT\n"
    "       factord tune [flags]    measures this machine's routing table\n"
    "       factord --probe=ADDRESS says whether the server there is up\n\n"
    "Flags: --name=value or --name value; durations are written 500ms, 2s, 1m.\n";
constexpr size_t kColumns = 80;

const FlagRow* RowOf(absl::string_view name) {
  for (const FlagGroup& group : FlagGroups()) {
    for (const FlagRow& row : group.flags) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

std::vector<absl::string_view> ChoicesOf(const FlagRow& row) {
  if (!absl::StrContains(row.value, '|')) return {};
  return absl::StrSplit(row.value, '|');
}

std::string Expected(const absl::CommandLineFlag& flag) {
  if (flag.IsOfType<bool>()) return "true or false";
  if (flag.IsOfType<absl::Duration>()) return "a duration such as 500ms, 2s or 1m";
  if (flag.IsOfType<double>()) return "a number";
  if (flag.IsOfType<int>()) {
    return absl::StrCat("a whole number up to ", std::numeric_limits<int>::max());
  }
  return "a whole number";  // strings take everything
}

absl::Status Set(const FlagRow& row, absl::CommandLineFlag& flag, absl::string_view value) {
  const std::vector<absl::string_view> choices = ChoicesOf(row);
  if (!choices.empty() && std::find(choices.begin(), choices.end(), value) == choices.end()) {
    return InvalidField(row.name, absl::StrCat("is \"", value, "\"; must be one of ",
                                               absl::StrJoin(choices, ", ")));
  }
  std::string error;
  if (flag.ParseFrom(value, &error)) return absl::OkStatus();
  return InvalidField(row.name, absl::StrCat("is \"", value, "\"; must be ", Expected(flag)));
}

absl::StatusOr<std::vector<std::string>> LinesOfFlagFile(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    absl::StripAsciiWhitespace(&line);
    if (!line.empty() && line.front() != '#') lines.push_back(line);
  }
  if (!file.eof()) return InvalidField("flagfile", absl::StrCat("cannot read ", path));
  return lines;
}

// Reads one list of arguments; a flag file is one more, in the place where it is named.
class Reader {
 public:
  absl::Status Read(const std::vector<std::string>& arguments) {
    for (size_t i = 0; i < arguments.size() && !line_.help && !line_.version; ++i) {
      const absl::string_view argument = arguments[i];
      if (argument == "--") {
        line_.words.insert(line_.words.end(), arguments.begin() + i + 1, arguments.end());
        break;
      }
      if (argument.size() < 2 || argument.front() != '-') {
        line_.words.push_back(arguments[i]);
      } else if (argument == "--help" || argument == "-help" || argument == "-h") {
        line_.help = true;
      } else if (argument == "--version" || argument == "-version") {
        line_.version = true;
      } else {
        RETURN_IF_ERROR(ReadFlag(arguments, &i));
      }
    }
    return absl::OkStatus();
  }

  CommandLine Take() { return std::move(line_); }

 private:
  // The one at *i, which moves on where the value is an argument of its own.
  absl::Status ReadFlag(const std::vector<std::string>& arguments, size_t* i) {
    absl::string_view argument = arguments[*i];
    argument.remove_prefix(absl::StartsWith(argument, "--") ? 2 : 1);
    const size_t equals = argument.find('=');
    const std::string name = absl::StrReplaceAll(argument.substr(0, equals), {{"-", "_"}});
    const FlagRow* row = RowOf(name);
    const bool negated = row == nullptr && absl::StartsWith(name, "no");
    if (negated) row = RowOf(absl::string_view(name).substr(2));
    absl::CommandLineFlag* flag = row != nullptr ? absl::FindCommandLineFlag(row->name) : nullptr;
    if (flag == nullptr || (negated && !(flag->IsOfType<bool>() && equals == argument.npos))) {
      return absl::InvalidArgumentError(
          absl::StrCat("there is no flag --", name, "; factord --help lists them"));
    }
    std::string value = negated ? "false" : "true";
    if (equals != argument.npos) {
      value = std::string(argument.substr(equals + 1));
    } else if (!flag->IsOfType<bool>()) {
      if (++*i == arguments.size()) {
        return InvalidField(row->name, absl::StrCat("needs a value: ", row->value));
      }
      value = arguments[*i];
    }
    RETURN_IF_ERROR(Set(*row, *flag, value));
    return row->name == "flagfile" ? ReadFile(value) : absl::OkStatus();
  }

  absl::Status ReadFile(const std::string& path) {
    if (std::exchange(in_file_, true)) return InvalidField("flagfile", "is in a flag file");
    ASSIGN_OR_RETURN(const std::vector<std::string> lines, LinesOfFlagFile(path));
    RETURN_IF_ERROR(Read(lines));
    in_file_ = false;
    return absl::OkStatus();
  }

  CommandLine line_;
  bool in_file_ = false;
};

// 67108864 (64 MiB).
std::string WithUnit(const std::string& bytes) {
  std::int64_t count = 0;
  if (!absl::SimpleAtoi(bytes, &count) || count == 0) return bytes;
  size_t unit = 0;
  constexpr absl::string_view kUnits[] = {"bytes", "KiB", "MiB", "GiB"};
  while (unit < 3 && count % 1024 == 0) count /= 1024, ++unit;
  return unit == 0 ? bytes : absl::StrCat(bytes, " (", count, " ", kUnits[unit], ")");
}

std::string DefaultOf(const FlagRow& row, const absl::CommandLineFlag& flag) {
  const std::string value = flag.DefaultValue();
  if (value.empty()) return "none";
  return row.value == "BYTES" ? WithUnit(value) : value;
}

// In lines of kColumns, indented.
std::string Wrapped(absl::string_view text) {
  std::string lines;
  size_t column = kColumns;
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    if (column + 1 + word.size() > kColumns) {
      absl::StrAppend(&lines, lines.empty() ? "" : "\n", "     ");
      column = 5;
    }
    absl::StrAppend(&lines, " ", word);
    column += 1 + word.size();
  }
  return absl::StrCat(lines, "\n");
}

}  // namespace

const std::vector<FlagGroup>& FlagGroups() {
  static const auto& groups = *new std::vector<FlagGroup>{
      {"Serving",
       {{"listen", "ADDRESS,..."},
        {"metrics_listen", "ADDRESS"},
        {"warmup_shapes", "SHAPE,..."},
        {"flagfile", "FILE"}}},
      {"Security",
       {{"tls_cert", "FILE"},
        {"tls_key", "FILE"},
        {"tls_client_ca", "FILE"},
        {"auth_token_file", "FILE"},
        {"reflection", ""}}},
      {"Engines and routing",
       {{"cpu_threads", "THREADS"},
        {"cpu_engine", "simd|lapack"},
        {"backend", "auto|cpu|gpu"},
        {"gpu", "auto|off|required"},
        {"gpu_devices", "NUMBER,..."},
        {"gpu_lanes", "LANES"},
        {"gpu_memory_bytes", "BYTES"},
        {"gpu_pinned_bytes", "BYTES"},
        {"gpu_min_flops", "FLOPS"},
        {"routing_table", "FILE"}}},
      {"Limits",
       {{"max_message_bytes", "BYTES"},
        {"max_tensors", "TENSORS"},
        {"memory_budget_bytes", "BYTES"},
        {"max_concurrent_streams", "RPCS"},
        {"max_queued_jobs", "JOBS"}}},
      {"Batching",
       {{"max_batch_matrices", "MATRICES"},
        {"max_batch_bytes", "BYTES"},
        {"max_batch_cost", "DURATION"},
        {"max_batch_delay", "DURATION"},
        {"low_priority_ageing", "DURATION"}}},
      {"Streams",
       {{"chunk_bytes", "BYTES"}, {"upload_timeout", "DURATION"}, {"stall_timeout", "DURATION"}}},
      {"Stopping", {{"drain_delay", "DURATION"}, {"grace_period", "DURATION"}}},
      {"Logs and traces",
       {{"log_format", "human|json"},
        {"log_level", "trace|debug|info|warning|error|off"},
        {"trace_file", "FILE"},
        {"trace_sample_ratio", "RATIO"}}},
      {"factord --probe", {{"probe", "ADDRESS"}, {"tls_ca", "FILE"}}},
      {"factord tune", {{"tune_seconds", "SECONDS"}, {"output", "FILE"}}},
  };
  return groups;
}

absl::StatusOr<CommandLine> ReadCommandLine(const std::vector<std::string>& arguments) {
  Reader reader;
  RETURN_IF_ERROR(reader.Read(arguments));
  return reader.Take();
}

Options OptionsFromFlags() {
  Options options;
  options.listen = absl::GetFlag(FLAGS_listen);
  options.metrics_listen = absl::GetFlag(FLAGS_metrics_listen);
  options.warmup_shapes = absl::GetFlag(FLAGS_warmup_shapes);
  options.reflection = absl::GetFlag(FLAGS_reflection);
  options.tls_cert = absl::GetFlag(FLAGS_tls_cert);
  options.tls_key = absl::GetFlag(FLAGS_tls_key);
  options.tls_client_ca = absl::GetFlag(FLAGS_tls_client_ca);
  options.auth_token_file = absl::GetFlag(FLAGS_auth_token_file);
  options.cpu_threads = absl::GetFlag(FLAGS_cpu_threads);
  options.cpu_engine = absl::GetFlag(FLAGS_cpu_engine);
  options.backend = absl::GetFlag(FLAGS_backend);
  options.gpu = absl::GetFlag(FLAGS_gpu);
  options.gpu_devices = absl::GetFlag(FLAGS_gpu_devices);
  options.gpu_lanes = absl::GetFlag(FLAGS_gpu_lanes);
  options.gpu_memory_bytes = absl::GetFlag(FLAGS_gpu_memory_bytes);
  options.gpu_pinned_bytes = absl::GetFlag(FLAGS_gpu_pinned_bytes);
  options.gpu_min_flops = absl::GetFlag(FLAGS_gpu_min_flops);
  options.routing_table = absl::GetFlag(FLAGS_routing_table);
  options.max_message_bytes = absl::GetFlag(FLAGS_max_message_bytes);
  options.max_tensors = absl::GetFlag(FLAGS_max_tensors);
  options.memory_budget_bytes = absl::GetFlag(FLAGS_memory_budget_bytes);
  options.max_concurrent_streams = absl::GetFlag(FLAGS_max_concurrent_streams);
  options.max_queued_jobs = absl::GetFlag(FLAGS_max_queued_jobs);
  options.max_batch_matrices = absl::GetFlag(FLAGS_max_batch_matrices);
  options.max_batch_bytes = absl::GetFlag(FLAGS_max_batch_bytes);
  options.max_batch_cost = absl::GetFlag(FLAGS_max_batch_cost);
  options.max_batch_delay = absl::GetFlag(FLAGS_max_batch_delay);
  options.low_priority_ageing = absl::GetFlag(FLAGS_low_priority_ageing);
  options.chunk_bytes = absl::GetFlag(FLAGS_chunk_bytes);
  options.upload_timeout = absl::GetFlag(FLAGS_upload_timeout);
  options.stall_timeout = absl::GetFlag(FLAGS_stall_timeout);
  options.drain_delay = absl::GetFlag(FLAGS_drain_delay);
  options.grace_period = absl::GetFlag(FLAGS_grace_period);
  options.log_format = absl::GetFlag(FLAGS_log_format);
  options.log_level = absl::GetFlag(FLAGS_log_level);
  options.trace_file = absl::GetFlag(FLAGS_trace_file);
  options.trace_sample_ratio = absl::GetFlag(FLAGS_trace_sample_ratio);
  return options;
}

std::string HelpText() {
  std::string text(kUsage);
  for (const FlagGroup& group : FlagGroups()) {
    absl::StrAppend(&text, "\n", group.title, ":\n");
    for (const FlagRow& row : group.flags) {
      const absl::CommandLineFlag& flag = *absl::FindCommandLineFlag(row.name);
      absl::StrAppend(&text, "  --", row.name, row.value.empty() ? "" : "=", row.value, "\n",
                      Wrapped(absl::StrCat(flag.Help(), " Default: ", DefaultOf(row, flag), ".")));
    }
  }
  absl::StrAppend(
      &text, "\nHelp:\n  --help\n      Prints this.\n  --version\n      Prints the version.\n");
  return text;
}

}  // namespace factord
