target_sources(test-${name} PRIVATE cuda/cases.c cuda/harness.c)
# On a card in software too, where there is the run-time compiler.
if(TARGET weft-fake-cuda OR EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/ptx)
  add_test(NAME invariance-cuda COMMAND test-invariance cuda)
  set_tests_properties(invariance-cuda PROPERTIES TIMEOUT 900 ENVIRONMENT "LD_LIBRARY_PATH=${CMAKE_BINARY_DIR}/tests/ptx:$ENV{LD_LIBRARY_PATH};WEFT_CACHE=")
endif()
