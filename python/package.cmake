# What an installed package mfu contains. There is one list for the wheel, for cmake --install and for the build tree.
set(MFU_PACKAGE_SOURCES __init__.py __main__.py _answers.py _background.py _count.py _errors.py _engines.py _explain.py _explain_steps.py _formula.py _hardware.py _load.py _manners.py _masks.py
  _modules.py _monitor.py _need.py _observe.py _phases.py _ranks.py _selftest.py _settings.py _step.py _wandb.py callbacks.py compat.py py.typed)
set(MFU_PACKAGE_FOLDERS _inject _observer)
set(MFU_PACKAGE_ROOT ${CMAKE_CURRENT_LIST_DIR})

# mfu_install_package(DESTINATION COMPONENT BUILT) installs the package into DESTINATION. BUILT is the folder of the
# build from which it takes libraries. The component of the wheel is installed only if it is named, not by a plain cmake
# --install.
function(mfu_install_package destination component built)
  if(component STREQUAL "python")
    set(component python EXCLUDE_FROM_ALL)
  endif()
  set(tree ${MFU_PACKAGE_ROOT}/..)
  list(TRANSFORM MFU_PACKAGE_SOURCES PREPEND ${MFU_PACKAGE_ROOT}/mfu/ OUTPUT_VARIABLE sources)
  install(FILES ${sources} DESTINATION ${destination} COMPONENT ${component})
  foreach(folder ${MFU_PACKAGE_FOLDERS})
    install(DIRECTORY ${MFU_PACKAGE_ROOT}/mfu/${folder} DESTINATION ${destination} COMPONENT ${component}
      PATTERN __pycache__ EXCLUDE PATTERN "*.pyc" EXCLUDE)
  endforeach()
  # The observer's sources, from which mfu/_observer/build.py builds it for any torch.
  install(DIRECTORY ${tree}/include/mfu DESTINATION ${destination}/_observer/source/include COMPONENT ${component})
  foreach(folder torch ops record base)
    install(DIRECTORY ${tree}/src/${folder} DESTINATION ${destination}/_observer/source/src COMPONENT ${component}
      FILES_MATCHING PATTERN "*.h" PATTERN "*.cc" PATTERN "*_test.cc" EXCLUDE PATTERN "probe.cc" EXCLUDE)
  endforeach()
  # The native module, and, if this build has one, the observer for the torch that it was built with.
  install(DIRECTORY ${built}/python/mfu/ DESTINATION ${destination} COMPONENT ${component}
    FILES_MATCHING PATTERN "_core.*" PATTERN "bin" EXCLUDE PATTERN "_inject" EXCLUDE PATTERN "_observer" EXCLUDE)
  install(DIRECTORY ${built}/torch/ DESTINATION ${destination}/_observer/lib/built COMPONENT ${component}
    OPTIONAL FILES_MATCHING PATTERN "libmfu_*.so" PATTERN "libmfu_torch.torch")
  # For ./package: the observers for other versions of torch, and the shared libraries that travel with the package.
  if(MFU_PACKAGE_OBSERVERS)
    install(DIRECTORY ${MFU_PACKAGE_OBSERVERS}/ DESTINATION ${destination}/_observer/lib COMPONENT ${component}
      FILES_MATCHING PATTERN "libmfu_*.so" PATTERN "libmfu_torch.torch")
  endif()
  install(FILES ${MFU_PACKAGE_BUNDLED} DESTINATION ${destination}/lib COMPONENT ${component})
endfunction()

# mfu_install_wheel(BUILT) installs what a wheel contains. The command is inside the package. Python's start reads the
# .pth file next to the package.
function(mfu_install_wheel built)
  mfu_install_package(mfu python ${built})
  install(PROGRAMS ${built}/mfu DESTINATION mfu/bin COMPONENT python EXCLUDE_FROM_ALL)
  install(FILES ${MFU_PACKAGE_ROOT}/_openmfu_start.py ${MFU_PACKAGE_ROOT}/openmfu_start.pth DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
endfunction()
