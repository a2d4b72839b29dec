# Minutes on SwiftShader when the machine is shared: with `ctest -C Full` only, as in scripts/test.sh.
add_test(NAME ${name}-browser CONFIGURATIONS Full COMMAND test-${name} browser)
set_tests_properties(${name}-browser PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
