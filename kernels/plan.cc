#include "kernels/plan.h"

#include <algorithm>

#include "kernels/tiny/tiny.h"
#include "kernels/tsqr/tsqr.h"
#include "kernels/work.h"
#include "kernels/wy/wy.h"

namespace factord::kernels {
namespace {

// Up to this many rows what is left of a matrix is one panel, if it fits: its registers hold all of
// it.
constexpr int WholeRows(Dtype dtype) { return dtype == Dtype::kF32 ? 192 : 128; }
// Up to this many rows panels are a whole block wide; above, narrower ones let several blocks share
// a multiprocessor.
constexpr int WideRows(Dtype dtype) { return dtype == Dtype::kF32 ? 384 : 256; }
constexpr int kNarrowPanel = 32;

// The panel at column j; `rest`: columns that still need reflectors.
Panel PanelAt(Dtype dtype, int j, int rows, int rest) {
  if (rows <= WholeRows(dtype)) {
    if (const int vec = BlockPanelVec(dtype, rows, rest)) return {j, rest, PanelKind::kBlock, vec};
  }
  const int nb = std::min(rest, rows <= WideRows(dtype) ? kMaxBlock : kNarrowPanel);
  if (const int vec = BlockPanelVec(dtype, rows, nb)) return {j, nb, PanelKind::kBlock, vec};
  if (GridPanelFits(dtype, rows, nb)) return {j, nb, PanelKind::kGrid, 0};
  return {j, nb, PanelKind::kSimple, 0};
}

}  // namespace

Plan PlanQr(const Problem& problem, Dtype dtype, const DeviceLimits& limits) {
  Plan plan;
  plan.problem = problem;
  plan.dtype = dtype;
  plan.limits = limits;
  if (IsTiny(problem)) {
    plan.tiny = true;
    return plan;
  }
  if (IsTsqr(problem)) {
    plan.tsqr = true;
    return plan;
  }
  const int k = RoundUp(problem.k(), kColumnUnit);
  for (int j = 0; j < k;) {
    Block block;
    block.j = j;
    block.first_panel = static_cast<int>(plan.panels.size());
    do {  // its first panel may be wider than a block; the others end where it does
      const int rest = block.nb == 0 ? k - j : std::min(k - j, kMaxBlock - block.nb);
      const Panel panel = PanelAt(dtype, j, problem.m - j, rest);
      plan.panels.push_back(panel);
      block.panel_by_panel |= panel.kind == PanelKind::kGrid || panel.kind == PanelKind::kSimple;
      block.nb += panel.nb;
      ++block.panels;
      j += panel.nb;
    } while (block.nb < kMaxBlock && j < k);
    plan.blocks.push_back(block);
  }
  return plan;
}

std::string_view Plan::path() const {
  if (tiny) return "gpu-tiny";
  if (tsqr) return "gpu-tsqr";
  const auto has = [this](PanelKind kind) {
    return std::any_of(panels.begin(), panels.end(),
                       [kind](const Panel& panel) { return panel.kind == kind; });
  };
  if (has(PanelKind::kSimple)) return "gpu-simple";
  if (has(PanelKind::kGrid)) return "gpu-grid";
  return panels.size() <= 1 ? "gpu-block" : "gpu-blocked";
}

}  // namespace factord::kernels
