# The three kinds of target factord has. Every one is C++20 with warnings as errors; includes are relative to the root.
include(GoogleTest)

get_filename_component(FACTORD_ROOT "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)

# What the tests run with where a sanitizer is built in: one variable, since gtest_discover_tests takes no list of them.
# Memory that is not there is an answer, as it is without a sanitizer, not the end.
set(FACTORD_SANITIZER)
set(FACTORD_SANITIZER_ENVIRONMENT)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=(address|thread)")
  set(FACTORD_SANITIZER ${CMAKE_MATCH_1})
  if(FACTORD_SANITIZER STREQUAL thread)
    set(FACTORD_SANITIZER_ENVIRONMENT
      TSAN_OPTIONS=suppressions=${FACTORD_ROOT}/tests/support/tsan.supp:halt_on_error=1:allocator_may_return_null=1)
  else()
    set(FACTORD_SANITIZER_ENVIRONMENT ASAN_OPTIONS=allocator_may_return_null=1)
  endif()
endif()

function(_factord_compile target scope)
  target_compile_features(${target} ${scope} cxx_std_20)
  target_include_directories(${target} ${scope} ${FACTORD_ROOT})
  if(scope STREQUAL PUBLIC)
    target_compile_options(${target} PRIVATE "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Werror>"
      $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety -Wno-unused-command-line-argument>)
    if(FACTORD_SANITIZER STREQUAL thread)
      # ThreadSanitizer does not know fences, and absl::GetFlag has one inline. Flags are set before there are threads.
      target_compile_options(${target} PRIVATE -Wno-tsan)
    endif()
  endif()
endfunction()

# factord_library(NAME x SOURCES ... HEADERS ... DEPS ...): static library factord_x, alias factord::x.
# HEADERS is a file set, so that CMAKE_VERIFY_INTERFACE_HEADER_SETS compiles each header alone.
function(factord_library)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;HEADERS;DEPS" ${ARGN})
  set(target factord_${arg_NAME})
  if(arg_SOURCES)
    set(scope PUBLIC)
    add_library(${target} STATIC ${arg_SOURCES})
  else()
    set(scope INTERFACE)
    add_library(${target} INTERFACE)
  endif()
  add_library(factord::${arg_NAME} ALIAS ${target})
  _factord_compile(${target} ${scope})
  target_sources(${target} ${scope} FILE_SET HEADERS BASE_DIRS ${FACTORD_ROOT} FILES ${arg_HEADERS})
  target_link_libraries(${target} ${scope} ${arg_DEPS})
endfunction()

# factord_executable(NAME x SOURCES ... DEPS ...): the binary x.
function(factord_executable)
  cmake_parse_arguments(arg "" "NAME" "SOURCES;DEPS" ${ARGN})
  add_executable(${arg_NAME} ${arg_SOURCES})
  _factord_compile(${arg_NAME} PUBLIC)
  target_link_libraries(${arg_NAME} PRIVATE ${arg_DEPS})
  if(FACTORD_SANITIZER STREQUAL thread)
    target_link_libraries(${arg_NAME} PRIVATE factord_tsan)
  endif()
endfunction()

# factord_test(NAME x_test SOURCES ... DEPS ... [SLOW filter | ONLY filter] [PREFIX p]): a GoogleTest binary; each of its tests is
# a CTest, its name after the prefix. Those that match the GoogleTest filter SLOW are labelled slow: they are not run again with
# sanitizers. Those that do not match ONLY are no CTests.
function(factord_test)
  cmake_parse_arguments(arg "" "NAME;SLOW;ONLY;PREFIX" "SOURCES;DEPS" ${ARGN})
  factord_executable(NAME ${arg_NAME} SOURCES ${arg_SOURCES} DEPS ${arg_DEPS} GTest::gmock GTest::gtest_main)
  set(properties TIMEOUT 300)
  if(FACTORD_SANITIZER)
    set(properties TIMEOUT 900 ENVIRONMENT ${FACTORD_SANITIZER_ENVIRONMENT})
  endif()
  set(options DISCOVERY_TIMEOUT 60)
  if(arg_PREFIX)
    list(APPEND options TEST_PREFIX ${arg_PREFIX})
  endif()
  set(others)
  if(arg_ONLY)
    set(others TEST_FILTER "${arg_ONLY}")
  elseif(arg_SLOW)
    gtest_discover_tests(${arg_NAME} ${options} PROPERTIES ${properties} LABELS slow
      TEST_FILTER "${arg_SLOW}" TEST_LIST ${arg_NAME}_slow)
    set(others TEST_FILTER "-${arg_SLOW}")
  endif()
  gtest_discover_tests(${arg_NAME} ${options} PROPERTIES ${properties} ${others})
endfunction()
