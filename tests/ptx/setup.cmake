# The interpreter is a library; on top of it a libcuda.so.1, found before others through LD_LIBRARY_PATH, or served to a test that
# has loaded it. Sums must not be fused on their own.
file(GLOB interpreter_sources CONFIGURE_DEPENDS ${folder}/interpreter/*.c)
add_library(weft-ptx-interpreter STATIC ${interpreter_sources})
target_include_directories(weft-ptx-interpreter PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
target_compile_options(weft-ptx-interpreter PRIVATE -O2 -ffp-contract=off -Wno-pedantic)
set_target_properties(weft-ptx-interpreter PROPERTIES POSITION_INDEPENDENT_CODE ON)
add_library(weft-fake-cuda SHARED ${folder}/library/cuda.c ${folder}/library/graph.c)
set_target_properties(weft-fake-cuda PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/ptx)
target_include_directories(weft-fake-cuda PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
target_compile_options(weft-fake-cuda PRIVATE -Wno-missing-prototypes -Wno-pedantic)
target_link_libraries(weft-fake-cuda PRIVATE weft-ptx-interpreter weft-rt)
target_link_options(weft-fake-cuda PRIVATE LINKER:--exclude-libs,ALL)
add_dependencies(test-${name} weft-fake-cuda)
target_sources(test-${name} PRIVATE cuda/cases.c cuda/harness.c)
target_link_libraries(test-${name} PRIVATE weft-ptx-interpreter)
target_compile_definitions(test-${name} PRIVATE WEFT_FAKE_CUDA="$<TARGET_FILE:weft-fake-cuda>")
# Every op through NVRTC and the CUDA driver: as far as the time goes; all of them with `ctest -C Full`.
add_test(NAME emulated-cuda COMMAND weft-command selftest cuda --seconds 15 --jobs 1)
add_test(NAME emulated-cuda-all CONFIGURATIONS Full COMMAND weft-command selftest cuda --jobs 2)
foreach(graph products convolution attention_tokens)
  add_test(NAME ${graph}-cuda COMMAND weft-command bisect ${CMAKE_SOURCE_DIR}/tests/hip/graphs/${graph}.wir --target cuda)
  list(APPEND graph_tests ${graph}-cuda)
endforeach()
# The list of faults of tests/faults, seen by that card.
add_test(NAME faults-cuda COMMAND test-faults cuda)
set_tests_properties(emulated-cuda emulated-cuda-all faults-cuda ${graph_tests} PROPERTIES
  ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/ptx:$ENV{LD_LIBRARY_PATH};WEFT_CACHE="
  SKIP_REGULAR_EXPRESSION "run-time compiler not found")
set_tests_properties(emulated-cuda PROPERTIES TIMEOUT 300)
set_tests_properties(faults-cuda PROPERTIES TIMEOUT 900)
set_tests_properties(emulated-cuda-all PROPERTIES TIMEOUT 28800)
