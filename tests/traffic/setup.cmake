# The cases and the way to simulate them are those of tests/cuda.
target_sources(test-traffic PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/cuda/cases.c ${CMAKE_CURRENT_SOURCE_DIR}/cuda/harness.c)
