// Plan: which kernels factor a shape. A pure function of the problem, the type and the device's
// limits; the kernels obey it.
//
// A plan's panel widths and everything else that decides a result's bits follow from the problem's
// shape class, never from the batch. What the batch decides (one block a matrix or a cluster of
// two) gives equal bits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "kernels/panel/panel.h"
#include "kernels/problem.h"

namespace factord::kernels {

struct DeviceLimits {
  int multiprocessors = 132;
  std::size_t shared_bytes = 227 << 10;  // of one block, opted in
};

// Columns j ... j + nb - 1, factored by one launch; both are multiples of kColumnUnit.
struct Panel {
  int j = 0, nb = 0;
  PanelKind kind = PanelKind::kSimple;
  int vec = 0;  // kBlock, kCluster: columns a warp
  bool operator==(const Panel&) const = default;
};

// Panels whose columns the rest of the matrix waits for: their T, in pieces of at most kMaxBlock
// columns, then one update of all columns to the right. A block of several panels is at most
// kMaxBlock wide and is updated panel by panel inside. Where panels are tall and so matrices few,
// the narrow updates inside would take as long as wide ones: there each panel updates everything
// right of it.
struct Block {
  int j = 0, nb = 0;  // j: a multiple of kMaxBlock
  int first_panel = 0, panels = 0;
  bool panel_by_panel = false;
  bool operator==(const Block&) const = default;
};

struct Plan {
  Problem problem;
  Dtype dtype = Dtype::kF32;
  DeviceLimits limits;
  bool tiny = false;          // one launch does all; no panels
  bool tsqr = false;          // tall, skinny, R alone (tsqr.h); no panels
  std::vector<Panel> panels;  // cover the k columns (rounded up) that have reflectors, in order
  std::vector<Block> blocks;  // likewise

  // For people and metrics: "gpu-tiny", "gpu-block" (one panel), "gpu-blocked", "gpu-grid",
  // "gpu-simple", "gpu-tsqr".
  std::string_view path() const;
};

// m, n, p >= 0 as the Problem says.
Plan PlanQr(const Problem& problem, Dtype dtype, const DeviceLimits& limits);

// Device memory that RunQr needs for `count` matrices of at most m x n (and p); grows with each
// argument. 256-byte aligned.
std::size_t WorkspaceBytes(const Plan& plan, int m, int n, int p, std::int64_t count);

}  // namespace factord::kernels
