# vmap of random graphs against one element at a time.
add_test(NAME batch-fuzz COMMAND weft-command fuzz --batches --count 300)
set_tests_properties(batch-fuzz PROPERTIES TIMEOUT 600)
