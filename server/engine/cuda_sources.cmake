# What factord_gpus is made of: compiled for CUDA (server/engine/CMakeLists.txt) and for the emulator
# (tests/server/engine/CMakeLists.txt).
set(FACTORD_CUDA_ENGINE_SOURCES
  cuda_factorizer.cc cuda_gpus.cc cuda_slot.cc cuda_status.cc part.cc)
set(FACTORD_CUDA_ENGINE_HEADERS
  cuda_factorizer.h cuda_resources.h cuda_slot.h cuda_status.h nvtx.h part.h)
list(TRANSFORM FACTORD_CUDA_ENGINE_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(TRANSFORM FACTORD_CUDA_ENGINE_HEADERS PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
