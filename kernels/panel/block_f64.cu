#include "kernels/panel/block.h"

namespace factord::kernels {

template <>
cudaError_t FactorPanelBlock(const Work<double>& a, int j, int nb, int vec,
                             const WorkVectors<double>& tau, cudaStream_t stream) {
  return FactorPanelInRegisters<double>({a, j, nb, tau, 1}, vec, stream);
}
template <>
cudaError_t FactorPanelCluster(const Work<double>& a, int j, int nb, int vec,
                               const WorkVectors<double>& tau, cudaStream_t stream) {
  return FactorPanelInRegisters<double>({a, j, nb, tau, 2}, vec, stream);
}

}  // namespace factord::kernels
