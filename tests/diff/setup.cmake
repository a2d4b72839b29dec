# Derivatives of random graphs: forward against reverse mode, compiled and interpreted.
if(WEFT_HAVE_LLVM)
  add_test(NAME diff-fuzz COMMAND weft-command fuzz --gradients --count 80)
  set_tests_properties(diff-fuzz PROPERTIES TIMEOUT 600)
endif()
