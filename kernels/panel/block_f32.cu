#include "kernels/panel/block.h"

namespace factord::kernels {

template <>
cudaError_t FactorPanelBlock(const Work<float>& a, int j, int nb, int vec,
                             const WorkVectors<float>& tau, cudaStream_t stream) {
  return FactorPanelInRegisters<float>({a, j, nb, tau, 1}, vec, stream);
}
template <>
cudaError_t FactorPanelCluster(const Work<float>& a, int j, int nb, int vec,
                               const WorkVectors<float>& tau, cudaStream_t stream) {
  return FactorPanelInRegisters<float>({a, j, nb, tau, 2}, vec, stream);
}

}  // namespace factord::kernels
