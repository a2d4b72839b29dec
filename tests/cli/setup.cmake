# The built command is what is tested.
target_compile_definitions(test-${name} PRIVATE WEFT_COMMAND="$<TARGET_FILE:weft-command>")
add_dependencies(test-${name} weft-command)

# Vendor libraries as they are where something is missing: found before the real ones through LD_LIBRARY_PATH.
foreach(fake "old-driver;empty.c;libcuda.so.1" "no-card;driver.c;libcuda.so.1" "old-nvrtc;empty.c;libnvrtc.so.13")
  list(GET fake 0 case)
  list(GET fake 1 source)
  list(GET fake 2 file)
  add_library(weft-fake-${case} SHARED ${folder}/fakes/${source})
  target_include_directories(weft-fake-${case} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
  target_compile_options(weft-fake-${case} PRIVATE -fvisibility=default -Wno-missing-prototypes)
  set_target_properties(weft-fake-${case} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME ${file}
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fakes/${case})
  add_dependencies(test-${name} weft-fake-${case})
endforeach()
target_compile_definitions(test-${name} PRIVATE FAKE_LIBRARIES="${CMAKE_CURRENT_BINARY_DIR}/fakes")
