# Makes a wheel of a build that exists already (MFU_PREBUILT is its folder), without compiling anything. The tests use
# it; `pip wheel .` builds everything.
include(${CMAKE_CURRENT_LIST_DIR}/package.cmake)
mfu_install_wheel(${MFU_PREBUILT})
