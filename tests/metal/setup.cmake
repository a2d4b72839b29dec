# The fake Metal that the driver finds through LD_LIBRARY_PATH under the names of Apple's libraries.
find_program(CLANGXX clang++-19)
add_library(weft-fake-metal SHARED ${folder}/fake/objects.c ${folder}/fake/device.c ${folder}/fake/library.c ${folder}/fake/threads.c)
target_include_directories(weft-fake-metal PRIVATE ${CMAKE_SOURCE_DIR})
target_compile_options(weft-fake-metal PRIVATE -fvisibility=default -Wno-missing-prototypes -Wno-pedantic -Wno-cast-function-type)
target_compile_definitions(weft-fake-metal PRIVATE FAKE_CLANGXX="${CLANGXX}" FAKE_SHIM="${folder}/shim")
target_link_libraries(weft-fake-metal PRIVATE ${CMAKE_DL_LIBS} Threads::Threads)
set(fake_metal ${CMAKE_CURRENT_BINARY_DIR}/fakes/metal)
set_target_properties(weft-fake-metal PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME Metal LIBRARY_OUTPUT_DIRECTORY ${fake_metal})
add_custom_command(TARGET weft-fake-metal POST_BUILD COMMAND ${CMAKE_COMMAND} -E create_symlink Metal ${fake_metal}/libobjc.A.dylib)
target_compile_definitions(test-${name} PRIVATE FAKE_METAL="${fake_metal}" FAKE_CLANGXX="${CLANGXX}")
add_dependencies(test-${name} weft-fake-metal)
set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
# One artifact on every device, with the cards in software that other folders build, and wgpu-native where it is installed.
file(GLOB wgpu ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/wgpu/resources)
add_test(NAME artifact-all-targets COMMAND test-${name})
set_tests_properties(artifact-all-targets PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77 ENVIRONMENT
  "CK_RUN_CASE=artifact;WEFT_CACHE=;WEFT_TEST_DEVICES=cuda,$<$<BOOL:${WEFT_HAVE_LLVM}>:amdgcn>;WEFT_FAKE_HIP_ARCH=gfx1100;LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/hip:${CMAKE_BINARY_DIR}/tests/ptx:${wgpu}:$ENV{LD_LIBRARY_PATH}")
# Every op on the fake device against the interpreter: first variants first, as far as the time goes; all of them in Full.
if(CLANGXX)
  add_test(NAME selftest-${name} COMMAND weft-command selftest metal --seconds 40)
  add_test(NAME selftest-${name}-all CONFIGURATIONS Full COMMAND weft-command selftest metal)
  set_tests_properties(selftest-${name} selftest-${name}-all PROPERTIES TIMEOUT 3600 ENVIRONMENT LD_LIBRARY_PATH=${fake_metal})
endif()
