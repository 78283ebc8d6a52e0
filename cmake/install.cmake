# What cmake --install copies. find_package(mfu) then finds mfu::mfu; tests/consumer checks that.
include(CMakePackageConfigHelpers)
install(TARGETS mfu EXPORT mfuTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS mfu_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/mfu DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT mfuTargets NAMESPACE mfu:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mfu)
configure_package_config_file(cmake/mfuConfig.cmake.in ${PROJECT_BINARY_DIR}/mfuConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mfu)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/mfuConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/mfuConfig.cmake ${PROJECT_BINARY_DIR}/mfuConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/mfu)

# The folder that `mfu run` puts on PYTHONPATH, and the observer that it loads. apps/mfu/launch.cc finds them from
# PREFIX/bin/mfu.
include(python/package.cmake)
mfu_install_package(${CMAKE_INSTALL_DATADIR}/mfu/python/mfu Unspecified ${CMAKE_BINARY_DIR})
