# The wheel of a build that is there already (MFU_PREBUILT: its folder): nothing is compiled. For the tests; `pip wheel .` builds all.
include(${CMAKE_CURRENT_LIST_DIR}/package.cmake)
mfu_install_wheel(${MFU_PREBUILT})
