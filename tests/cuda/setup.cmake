# NVRTC and the simulator take half of the time each: two entries, so that two cores share them.
add_test(NAME cuda-compile COMMAND test-${name})
set_tests_properties(cuda-compile PROPERTIES ENVIRONMENT CK_INCLUDE_TAGS=nvrtc TIMEOUT 900 COST 200)
set_tests_properties(${name} PROPERTIES ENVIRONMENT CK_EXCLUDE_TAGS=nvrtc COST 200) # the longest start first
