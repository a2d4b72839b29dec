# A case for each kind of kernel always; all of them, a minute or two on SwiftShader, with `ctest -C Full` only.
add_test(NAME ${name}-builders COMMAND test-${name} builders)
add_test(NAME ${name}-browser CONFIGURATIONS Full COMMAND test-${name} browser)
set_tests_properties(${name}-builders ${name}-browser PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
