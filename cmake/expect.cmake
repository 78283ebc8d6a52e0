# mfu_expect(KIND NAME): a program that the tests run, whether or not this build could have it. Together they are BUILD/tests.txt, from
# which tests/run.py knows what must be there: a program that is not is a failure, and what else lies in the folders is not run.
# Kinds: unit, probe, replay, fuzz, example, mpi, each with its path in the build folder; missing, with what was not found.
function(mfu_expect kind name)
  set_property(GLOBAL APPEND_STRING PROPERTY MFU_EXPECTED "${kind} ${name}\n")
endfunction()

function(mfu_write_expected)
  get_property(expected GLOBAL PROPERTY MFU_EXPECTED)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/tests.txt CONTENT "${expected}" @ONLY)
endfunction()
