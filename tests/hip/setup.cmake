# A libamdhip64 that runs kernels in the emulator of tests/amdgcn. Its name is the first that the driver asks for, so that a
# test which has loaded it is served with it, and so is every program with its folder in LD_LIBRARY_PATH.
if(WEFT_HAVE_LLVM)
  file(GLOB fake_sources CONFIGURE_DEPENDS ${folder}/library/*.c)
  add_library(weft-fake-hip SHARED ${fake_sources})
  set_target_properties(weft-fake-hip PROPERTIES OUTPUT_NAME amdhip64 SUFFIX .so.7
                                                 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/hip)
  target_include_directories(weft-fake-hip PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
  target_compile_options(weft-fake-hip PRIVATE -Wno-missing-prototypes)
  target_link_libraries(weft-fake-hip PRIVATE weft-amdgcn-emulator weft-rt ${LLVM_LIBRARY})
  target_link_options(weft-fake-hip PRIVATE LINKER:--exclude-libs,ALL)
  add_dependencies(test-hip weft-fake-hip)
  target_compile_definitions(test-hip PRIVATE WEFT_FAKE_HIP="$<TARGET_FILE:weft-fake-hip>")
  file(GLOB graphs CONFIGURE_DEPENDS ${folder}/graphs/*.wir)
  foreach(graph ${graphs}) # what matrix units are for, group by group against the interpreter
    get_filename_component(graph_name ${graph} NAME_WE)
    foreach(arch gfx942 gfx1100 gfx1200)
      add_test(NAME ${graph_name}-${arch} COMMAND weft-command bisect ${graph} --target amdgcn)
      set_tests_properties(${graph_name}-${arch} PROPERTIES TIMEOUT 300
        ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/hip;WEFT_CACHE=;WEFT_FAKE_HIP_ARCH=${arch}")
    endforeach()
  endforeach()
  foreach(arch gfx942 gfx1100) # training, random graphs against the interpreter
    add_test(NAME train-${arch} COMMAND sh ${folder}/train.sh ${CMAKE_BINARY_DIR} ${arch})
    set_tests_properties(train-${arch} PROPERTIES TIMEOUT 600)
    add_test(NAME fuzz-${arch} COMMAND weft-command fuzz --count 20 --seed 500 --device amdgcn)
    set_tests_properties(fuzz-${arch} PROPERTIES TIMEOUT 600
      ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/hip;WEFT_CACHE=;WEFT_FAKE_HIP_ARCH=${arch}")
  endforeach()
endif()
# A libhiprtc that compiles with clang++-19. HIP C needs no LLVM in Weft: this part is built without it, too.
find_program(CLANG_HIP clang++-19)
if(CLANG_HIP)
  add_library(weft-fake-hiprtc SHARED ${folder}/rtc/hiprtc.c)
  set_target_properties(weft-fake-hiprtc PROPERTIES OUTPUT_NAME hiprtc SUFFIX .so.6
                                                    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/hip)
  target_include_directories(weft-fake-hiprtc PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
  target_compile_options(weft-fake-hiprtc PRIVATE -Wno-missing-prototypes)
  target_link_libraries(weft-fake-hiprtc PRIVATE weft-rt)
  target_link_options(weft-fake-hiprtc PRIVATE LINKER:--exclude-libs,ALL)
  add_dependencies(test-hip weft-fake-hiprtc)
  target_compile_definitions(test-hip PRIVATE WEFT_FAKE_HIPRTC_FOLDER="${CMAKE_BINARY_DIR}/tests/hip")
  if(WEFT_HAVE_LLVM) # ops in HIP C, on the emulated card
    foreach(arch gfx942 gfx1100)
      add_test(NAME hiprtc-${arch} COMMAND weft-command selftest amdgcn --seconds 20 --jobs 1)
      add_test(NAME hiprtc-${arch}-all CONFIGURATIONS Full COMMAND weft-command selftest amdgcn --jobs 2)
      set_tests_properties(hiprtc-${arch} hiprtc-${arch}-all PROPERTIES ENVIRONMENT
        "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/hip;WEFT_CACHE=;WEFT_AMDGCN_COMPILER=hiprtc;WEFT_FAKE_HIP_ARCH=${arch}")
      set_tests_properties(hiprtc-${arch} PROPERTIES TIMEOUT 300)
      set_tests_properties(hiprtc-${arch}-all PROPERTIES TIMEOUT 14400)
    endforeach()
    add_test(NAME without-llvm CONFIGURATIONS Full COMMAND sh ${folder}/without_llvm.sh ${CMAKE_BINARY_DIR} 60)
    set_tests_properties(without-llvm PROPERTIES TIMEOUT 1800)
  endif()
endif()
add_dependencies(test-hip weft-hiprtc)
target_compile_definitions(test-hip PRIVATE WEFT_HIPRTC_PROGRAM="$<TARGET_FILE:weft-hiprtc>")
