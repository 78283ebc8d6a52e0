# The libraries of a wheel. They come from the root of an old Debian (MFU_PACKAGE_SYSROOT) and are linked statically.
# Only ISA-L is a shared library there, so it travels in the wheel. Libraries that are only headers come from this
# machine, through the folder MFU_PACKAGE_HEADERS.
find_package(Threads REQUIRED)
set(folder ${MFU_PACKAGE_SYSROOT}/usr/lib/${MFU_PACKAGE_TRIPLET})
function(mfu_package_library name)
  add_library(${name} INTERFACE IMPORTED GLOBAL)
  target_link_libraries(${name} INTERFACE ${ARGN})
endfunction()
mfu_package_library(fmt::fmt)
target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
target_include_directories(fmt::fmt SYSTEM INTERFACE ${MFU_PACKAGE_HEADERS})
mfu_package_library(CLI11::CLI11 fmt::fmt)
mfu_package_library(yaml-cpp ${folder}/libyaml-cpp.a)
mfu_package_library(PkgConfig::HWLOC ${folder}/libhwloc.a m)
mfu_package_library(PkgConfig::ZSTD ${folder}/libzstd.a)
mfu_package_library(PkgConfig::ISAL ${folder}/libisal.so)
if(MFU_TESTS)  # ./test --arm64: Debian has GoogleTest's sources
  set(INSTALL_GTEST OFF)
  add_subdirectory(/usr/src/googletest googletest EXCLUDE_FROM_ALL)
endif()
