// RoutingTable: how long batches took on the CPU and on the GPU, and what that says about others.
//
// As text, one row a line, after header lines; `#` starts a comment:
//
//   device: NVIDIA H200       # what the GPU column was measured on; "none": there was no GPU
//   cpu: AMD EPYC 9654
//   threads: 16               # of the CPU engine
//   cpu_engine: simd          # or lapack, which a table without this line means
//   driver: 580.65.06         # optional, as are cuda and date
//   cuda: 13.0
//   date: 2026-12-01
//   source: measured          # by `factord tune`; "estimated": by anything else
//   # op dtype outputs m n batch cpu_us gpu_us
//   factorize f32 q 64 64 512 5210 402
//   factorize f32 factors 64 64 512 3120 -
//
// op: factorize, form_q, apply_q (n columns, from the left), solve (one right-hand side). outputs:
// "q" where Q is among them, else "factors". Times in microseconds of one batch, transfers
// included; "-": not measured.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/core/spec.h"

namespace factord {

struct RoutingHeader {
  std::string device = "none";
  std::string cpu = {};
  int threads = 1;
  std::string cpu_engine = "lapack";
  std::string driver = {}, cuda = {}, date = {};
  bool measured = true;  // source
  bool operator==(const RoutingHeader&) const = default;
};

struct RoutingRow {
  Op op = Op::kFactorize;
  DType dtype = DType::kF32;
  bool with_q = false;
  std::int64_t m = 1, n = 1, batch = 1;
  double cpu_us = 0;
  double gpu_us = 0;  // 0: not measured
  bool operator==(const RoutingRow&) const = default;
};

// What a row measures, and the row's class of any spec: its op, dtype and with_q.
Spec SpecOf(const RoutingRow& row);
bool WithQ(const Spec& spec);

// A value.
class RoutingTable {
 public:
  RoutingTable(RoutingHeader header, std::vector<RoutingRow> rows);

  // INVALID_ARGUMENT: "NAME:LINE: FIELD: what is wrong".
  static absl::StatusOr<RoutingTable> Parse(absl::string_view text, absl::string_view name);
  // Parse's inverse, but for comments and the digits of times.
  std::string ToText() const;

  const RoutingHeader& header() const { return header_; }
  const std::vector<RoutingRow>& rows() const { return rows_; }

  // How long `count` matrices take, interpolated between the rows of the same operation, type and
  // outputs that are nearest in size, aspect and count. Nothing where there are none. A pure
  // function. REQUIRES: m, n and count are at least 1.
  std::optional<absl::Duration> Predict(const Spec& spec, std::int64_t count,
                                        Backend backend) const;

 private:
  struct Point {
    std::array<double, 3> at;             // size, aspect, count: see routing_table.cc
    std::array<double, 2> log_us_a_unit;  // by Backend; NaN: not measured
  };
  static std::size_t ClassOf(Op op, DType dtype, bool with_q);

  RoutingHeader header_;
  std::vector<RoutingRow> rows_;
  std::array<std::vector<Point>, kOps * kDTypes * 2> points_;  // by class
};

}  // namespace factord
