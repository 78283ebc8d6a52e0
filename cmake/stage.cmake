# mfu_stage(NAME SOURCES... [TESTS ...]): one folder of src/ is one target. All stages together are the library mfu::mfu
# (cmake/library.cmake). The tests of a stage are in the same folder.
set(MFU_STAGES "" CACHE INTERNAL "")
function(mfu_stage name)
  cmake_parse_arguments(ARG "" "" "SOURCES;TESTS;LIBRARIES" ${ARGN})
  add_library(mfu_${name} OBJECT ${ARG_SOURCES})
  target_include_directories(mfu_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(mfu_${name} PUBLIC fmt::fmt PRIVATE ${ARG_LIBRARIES})
  set(MFU_STAGES ${MFU_STAGES} mfu_${name} CACHE INTERNAL "")
  if(MFU_TESTS AND ARG_TESTS)
    mfu_expect(unit unit/mfu_${name}_test)
  endif()
  if(MFU_UNIT_TESTS AND ARG_TESTS)
    add_executable(mfu_${name}_test ${ARG_TESTS})
    target_include_directories(mfu_${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/src)
    target_compile_definitions(mfu_${name}_test PRIVATE
      MFU_SOURCE_DIR="${PROJECT_SOURCE_DIR}" MFU_SHARED_DIR="${PROJECT_SOURCE_DIR}/../shared")
    target_compile_options(mfu_${name}_test PRIVATE $<$<CONFIG:Release>:-O1>)  # it is the library that is tested as users have it
    target_link_libraries(mfu_${name}_test PRIVATE mfu GTest::gtest_main ${ARG_LIBRARIES})
    set_target_properties(mfu_${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/unit)
    add_test(NAME ${name} COMMAND mfu_${name}_test)
  endif()
endfunction()
