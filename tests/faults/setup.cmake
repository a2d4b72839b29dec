# Metal's device is the fake of tests/metal.
target_compile_definitions(test-${name} PRIVATE FAKE_METAL="${CMAKE_CURRENT_BINARY_DIR}/fakes/metal")
target_sources(test-${name} PRIVATE webgpu/browser.c)
add_dependencies(test-${name} weft-fake-metal)
# A browser is slower: some places a fault, one minute on SwiftShader.
add_test(NAME ${name}-chromium COMMAND test-${name} chromium)
set_tests_properties(${name}-chromium PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
