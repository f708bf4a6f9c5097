# What factord_kernels is made of: compiled once for the GPU (kernels/CMakeLists.txt) and once for the emulator
# (tests/kernels/CMakeLists.txt).
set(FACTORD_KERNEL_SOURCES
  gels/gels.cu
  pack.cu
  panel/block_f32.cu panel/block_f64.cu panel/fits.cc panel/grid.cu panel/simple.cu
  plan.cc
  qr.cu
  tiny/is_tiny.cc tiny/tiny_f32.cu tiny/tiny_f64.cu
  tsqr/cholesky_f32.cu tsqr/cholesky_f64.cu tsqr/tsqr.cc tsqr/tsqr_f32.cu tsqr/tsqr_f64.cu
  workspace.cc
  wy/larfb.cu wy/larft.cu)
set(FACTORD_KERNEL_HEADERS
  gels/gels.h
  householder.h
  pack.h
  panel/block.h panel/block_sizes.h panel/grid_exchange.h panel/leaf.h panel/panel.h
  plan.h
  problem.h
  qr.h
  simt/launch.h simt/ptx.h simt/qualifiers.h simt/sums.h
  tiny/group.h tiny/member.h tiny/run.h tiny/thread.h tiny/tiny.h
  tsqr/block_qr.h tsqr/cholesky.h tsqr/cholesky_kernel.h tsqr/member.h tsqr/precondition.h tsqr/row_qr.h tsqr/run.h tsqr/simple.h
  tsqr/stream.h tsqr/thread.h tsqr/tsqr.h tsqr/workspace.h
  work.h
  workspace.h
  wy/chunk.h wy/fragment.h wy/wy.h)
list(TRANSFORM FACTORD_KERNEL_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(TRANSFORM FACTORD_KERNEL_HEADERS PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
