# mfu_expect(KIND NAME) lists a program that the tests run. All calls together make BUILD/tests.txt, also for programs
# that this build leaves out. tests/run.py reads it: a listed program that does not exist is a failure, and a program
# that is not listed is not run.
# The kinds are unit, probe, replay, fuzz, example and mpi, each with its path in the build folder, and missing, with
# the name of what was not found.
function(mfu_expect kind name)
  set_property(GLOBAL APPEND_STRING PROPERTY MFU_EXPECTED "${kind} ${name}\n")
endfunction()

function(mfu_write_expected)
  get_property(expected GLOBAL PROPERTY MFU_EXPECTED)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/tests.txt CONTENT "${expected}" @ONLY)
endfunction()
