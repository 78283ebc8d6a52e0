# The library that people link: all stages in one archive.
add_library(mfu STATIC)
add_library(mfu::mfu ALIAS mfu)
foreach(stage ${MFU_STAGES})
  target_sources(mfu PRIVATE $<TARGET_OBJECTS:${stage}>)
endforeach()
target_include_directories(mfu PUBLIC
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(mfu PUBLIC cxx_std_20)
target_link_libraries(mfu PUBLIC fmt::fmt Threads::Threads
  PRIVATE $<BUILD_INTERFACE:yaml-cpp> $<BUILD_INTERFACE:PkgConfig::HWLOC>
          $<BUILD_INTERFACE:PkgConfig::ISAL> $<BUILD_INTERFACE:PkgConfig::ZSTD> ${CMAKE_DL_LIBS}
  INTERFACE $<INSTALL_INTERFACE:yaml-cpp> $<INSTALL_INTERFACE:PkgConfig::HWLOC>
            $<INSTALL_INTERFACE:PkgConfig::ISAL> $<INSTALL_INTERFACE:PkgConfig::ZSTD>)
