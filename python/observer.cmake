# The observer in the wheel: its sources, from which it is built for any torch (mfu/_observer/build.py), and, where this build has one,
# the library for the torch it was built with.
set(observer ${CMAKE_CURRENT_LIST_DIR}/..)
install(FILES ${CMAKE_CURRENT_LIST_DIR}/_openmfu_start.py ${CMAKE_CURRENT_LIST_DIR}/openmfu_start.pth DESTINATION . COMPONENT python)
install(DIRECTORY ${observer}/include/mfu DESTINATION mfu/_observer/source/include COMPONENT python)
foreach(folder torch ops record base)
  install(DIRECTORY ${observer}/src/${folder} DESTINATION mfu/_observer/source/src COMPONENT python
    FILES_MATCHING PATTERN "*.h" PATTERN "*.cc" PATTERN "*_test.cc" EXCLUDE PATTERN "probe.cc" EXCLUDE)
endforeach()
if(TARGET mfu_torch)
  install(FILES $<TARGET_FILE:mfu_torch> $<TARGET_FILE:mfu_shims> ${CMAKE_BINARY_DIR}/torch/libmfu_torch.torch
    DESTINATION mfu/_observer/lib/built COMPONENT python)
endif()
