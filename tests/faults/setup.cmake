# Metal's device is the fake of tests/metal.
target_compile_definitions(test-${name} PRIVATE FAKE_METAL="${CMAKE_CURRENT_BINARY_DIR}/fakes/metal" FAKE_VULKAN="${CMAKE_CURRENT_BINARY_DIR}/fakes/vulkan")
target_sources(test-${name} PRIVATE webgpu/browser.c)
add_dependencies(test-${name} weft-fake-metal)
# A browser is slower: some places a fault, one minute on SwiftShader.
add_test(NAME ${name}-chromium COMMAND test-${name} chromium)
set_tests_properties(${name}-chromium PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 900)
# A Vulkan loader that lets things go wrong, in front of the real one.
find_library(VULKAN_LOADER NAMES libvulkan.so.1 vulkan)
if(WEFT_HAVE_VULKAN AND VULKAN_LOADER)
  add_library(weft-fake-vulkan SHARED ${folder}/fake/vulkan.c)
  target_include_directories(weft-fake-vulkan SYSTEM PRIVATE ${VULKAN_INCLUDE})
  target_compile_options(weft-fake-vulkan PRIVATE -fvisibility=default -Wno-missing-prototypes)
  target_compile_definitions(weft-fake-vulkan PRIVATE REAL_VULKAN="${VULKAN_LOADER}")
  target_link_libraries(weft-fake-vulkan PRIVATE ${CMAKE_DL_LIBS})
  set_target_properties(weft-fake-vulkan PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME libvulkan.so.1
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/fakes/vulkan)
  add_dependencies(test-${name} weft-fake-vulkan)
endif()
