#include "bench/result_file.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>

namespace factord::bench {

std::optional<std::string> ValueOf(std::string_view argument, std::string_view flag) {
  if (argument.substr(0, flag.size()) != flag) return std::nullopt;
  return std::string(argument.substr(flag.size()));
}

std::string Number(double x) {
  if (!std::isfinite(x)) return "null";
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", x);
  return text;
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "\"";
}

std::string Today() {
  const std::time_t now = std::time(nullptr);
  char text[16];
  std::strftime(text, sizeof(text), "%Y-%m-%d", std::gmtime(&now));
  return text;
}

void WriteResults(const std::string& path, const Facts& facts,
                  const std::vector<std::string>& rows) {
  std::ofstream file(path);
  file << "{";
  for (const auto& [key, value] : facts) file << Quoted(key) << ": " << Quoted(value) << ",\n";
  file << "\"rows\": [";
  const char* separator = "\n";
  for (const std::string& row : rows) {
    file << separator << row;
    separator = ",\n";
  }
  file << "\n]}\n";
  if (!file.flush()) {
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    std::exit(EXIT_FAILURE);
  }
}

}  // namespace factord::bench
