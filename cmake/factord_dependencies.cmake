# Everything factord needs from outside, found here and nowhere else. Versions: Debian 12's, or newer.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(Python3 REQUIRED COMPONENTS Interpreter)
find_package(absl REQUIRED)               # 20220623
find_package(Protobuf 3.21 REQUIRED)
find_package(gRPC 1.51 CONFIG REQUIRED)
find_package(spdlog 1.10 REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)  # 1.0
find_package(nlohmann_json 3.11 REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
find_package(ZLIB 1.2 REQUIRED)
if(FACTORD_BUILD_TESTS)
  find_package(GTest 1.12 REQUIRED)
endif()
if(FACTORD_BUILD_BENCH)
  find_package(benchmark 1.7 REQUIRED)
endif()

# GNU libmicrohttpd has no CMake file. 0.9.75
find_path(MICROHTTPD_INCLUDE_DIR microhttpd.h REQUIRED)
find_library(MICROHTTPD_LIBRARY microhttpd REQUIRED)
add_library(factord_microhttpd INTERFACE)
add_library(factord::microhttpd ALIAS factord_microhttpd)
target_include_directories(factord_microhttpd SYSTEM INTERFACE ${MICROHTTPD_INCLUDE_DIR})
target_link_libraries(factord_microhttpd INTERFACE ${MICROHTTPD_LIBRARY})

# LAPACK: OpenBLAS's pthread build with its own copy of LAPACK. Its serial build answers concurrent callers with wrong
# numbers, so the library is named, not found by whatever alternative the system points at. Another LAPACK:
# -DFACTORD_LAPACK_LIBRARIES=...
find_path(LAPACKE_INCLUDE_DIR lapacke.h REQUIRED)
if(NOT FACTORD_LAPACK_LIBRARIES)
  find_library(LAPACKE_LIBRARY lapacke REQUIRED)
  find_library(OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-pthread NO_CACHE REQUIRED)
  set(FACTORD_LAPACK_LIBRARIES ${LAPACKE_LIBRARY} ${OPENBLAS_LIBRARY})
endif()
add_library(factord_lapack INTERFACE)
add_library(factord::lapack ALIAS factord_lapack)
target_include_directories(factord_lapack SYSTEM INTERFACE ${LAPACKE_INCLUDE_DIR})
target_link_libraries(factord_lapack INTERFACE ${FACTORD_LAPACK_LIBRARIES})
