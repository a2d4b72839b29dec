# Kernels are simulated as in tests/cuda.
target_sources(test-epilogues PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/cuda/harness.c)
