# A case for each kind of kernel always; all of them, a minute or two on SwiftShader, with `ctest -C Full` only.
add_test(NAME ${name}-builders COMMAND test-${name} builders)
add_test(NAME ${name}-browser CONFIGURATIONS Full COMMAND test-${name} browser)
set_tests_properties(${name}-builders ${name}-browser PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
add_test(NAME ${name}-page-size COMMAND sh ${CMAKE_SOURCE_DIR}/tests/webgpu/page_size.sh)
# Natively, where the Python package wgpu is installed (scripts/python.sh): every op against the interpreter, as far as
# the time goes.
file(GLOB WGPU_NATIVE ${CMAKE_SOURCE_DIR}/.venv/lib/python3*/site-packages/wgpu/resources)
add_test(NAME selftest-${name} COMMAND weft-command selftest webgpu --seconds 60)
set_tests_properties(selftest-${name} PROPERTIES TIMEOUT 600 ENVIRONMENT "LD_LIBRARY_PATH=${WGPU_NATIVE}:$ENV{LD_LIBRARY_PATH}"
  SKIP_REGULAR_EXPRESSION "wgpu-native not found;WebGPU shows no adapter")
