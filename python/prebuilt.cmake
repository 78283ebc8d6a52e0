# The wheel of a build that is there already (MFU_PREBUILT: its folder): nothing is compiled. For the tests; `pip wheel .` builds all.
install(DIRECTORY ${MFU_PREBUILT}/python/mfu/ DESTINATION mfu COMPONENT python FILES_MATCHING PATTERN "_core.*"
  PATTERN "bin" EXCLUDE PATTERN "_inject" EXCLUDE PATTERN "_observer" EXCLUDE)
install(PROGRAMS ${MFU_PREBUILT}/mfu DESTINATION mfu/bin COMPONENT python)
include(${CMAKE_CURRENT_LIST_DIR}/observer.cmake)
if(EXISTS ${MFU_PREBUILT}/torch/libmfu_torch.so)
  install(DIRECTORY ${MFU_PREBUILT}/torch/ DESTINATION mfu/_observer/lib/built COMPONENT python)
endif()
