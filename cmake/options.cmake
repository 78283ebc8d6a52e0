# Warnings and sanitizers, the same for every target.
add_compile_options(-Wall -Wextra -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
                    $<$<COMPILE_LANGUAGE:CXX>:-Woverloaded-virtual> -Wconversion
                    -Wno-sign-conversion $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
if(CMAKE_UNITY_BUILD)  # this check takes an included source for a header
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>)
endif()
if(MFU_SANITIZE)
  add_compile_options(-fsanitize=${MFU_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MFU_SANITIZE})
endif()
if(MFU_FUZZ)
  add_compile_definitions(MFU_FUZZED)
  add_compile_options(-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all)
  add_link_options(-fsanitize=address,undefined)
endif()
