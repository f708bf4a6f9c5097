# What `cmake --install build/PRESET --prefix P` puts under P. Components: runtime (the programs, their man pages, papers) and
# development (the C++ client library: find_package(factord), factord::client; and the API).
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(TARGETS factord factorctl RUNTIME COMPONENT runtime)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT runtime)
install(DIRECTORY proto/factord proto/google DESTINATION ${CMAKE_INSTALL_DATADIR}/factord/proto COMPONENT development
  FILES_MATCHING PATTERN *.proto)

# Dashboard, rules and alerts.
install(DIRECTORY deploy/grafana deploy/prometheus DESTINATION ${CMAKE_INSTALL_DATADIR}/factord COMPONENT runtime
  FILES_MATCHING PATTERN *.json PATTERN *.yml PATTERN tests EXCLUDE)

# Manual pages are what --help says, so they are made from the programs.
set(pages)
foreach(program factord factorctl)
  add_custom_command(OUTPUT man/${program}.1 DEPENDS ${program} ${CMAKE_CURRENT_LIST_DIR}/man_page.py
    COMMAND Python3::Interpreter ${CMAKE_CURRENT_LIST_DIR}/man_page.py $<TARGET_FILE:${program}> man/${program}.1)
  list(APPEND pages ${CMAKE_CURRENT_BINARY_DIR}/man/${program}.1)
endforeach()
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/man)
if(FACTORD_SANITIZER)
  add_custom_target(man DEPENDS ${pages})
else()
  add_custom_target(man ALL DEPENDS ${pages})
endif()
install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT runtime)

# The library is static: C++ interfaces over Abseil's types are no ABI to keep.
install(TARGETS factord_client factord_proto ARCHIVE COMPONENT development)

# Its headers are "factord/client/x.h" outside, where "client/x.h" could be anyone's. Those that users see, and what they include.
foreach(header factord_client.h grpc_status.h retry.h row_reducer.h tensor.h tls_credentials.h)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS client/${header})
  file(READ client/${header} text)
  string(REPLACE "#include \"client/" "#include \"factord/client/" text "${text}")
  file(CONFIGURE OUTPUT include/factord/client/${header} CONTENT "${text}" @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/include/factord/client/${header}
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/factord/client COMPONENT development)
endforeach()
# Generated ones include each other by the proto files' own paths, from a folder of their own: google/rpc is in other packages too.
set(FACTORD_PROTO_INCLUDE_DIR ${CMAKE_INSTALL_INCLUDEDIR}/factord/proto)
foreach(header factord/v1/factord.pb.h factord/v1/factord.grpc.pb.h google/rpc/status.pb.h)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${CMAKE_BINARY_DIR}/proto/gen/${header} DESTINATION ${FACTORD_PROTO_INCLUDE_DIR}/${folder}
    COMPONENT development)
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/factord)
get_target_property(FACTORD_CLIENT_LIBRARIES factord_client INTERFACE_LINK_LIBRARIES)
get_target_property(FACTORD_PROTO_LIBRARIES factord_proto INTERFACE_LINK_LIBRARIES)
configure_package_config_file(cmake/factord-config.cmake.in factord-config.cmake INSTALL_DESTINATION ${package_dir}
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR FACTORD_PROTO_INCLUDE_DIR)
# Before 1.0 a minor version may change interfaces.
write_basic_package_version_file(factord-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/factord-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/factord-config-version.cmake
  DESTINATION ${package_dir} COMPONENT development)
