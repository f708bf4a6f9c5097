// What the benchmarks that hold kernels against peers share: their flags and the JSON that a
// report.py reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace factord::bench {

// The rest of an argument that begins with the flag: "x" of "--only=x".
std::optional<std::string> ValueOf(std::string_view argument, std::string_view flag);

// As JSON: four digits, null where not finite; a string in quotes.
std::string Number(double x);
std::string Quoted(std::string_view text);

std::string Today();  // "2026-11-30", UTC

// Facts by name, then the rows, each a JSON object. Ends the process where the file can't be
// written.
using Facts = std::vector<std::pair<std::string, std::string>>;
void WriteResults(const std::string& path, const Facts& facts,
                  const std::vector<std::string>& rows);

}  // namespace factord::bench
