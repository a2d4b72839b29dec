# kernels.c as a freestanding code image (x86-64 only): what codegen/llvm makes, without a code generator.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(image ${CMAKE_CURRENT_BINARY_DIR}/test-kernels.elf)
  set(no_calls -fno-tree-loop-distribute-patterns) # no memset for a loop
  if(CMAKE_C_COMPILER_ID MATCHES Clang)
    set(no_calls "") # -fno-builtin is enough
  endif()
  add_custom_command(OUTPUT ${image}
    COMMAND ${CMAKE_C_COMPILER} -std=c17 -O2 -ffreestanding -fPIC -fvisibility=hidden -fno-stack-protector -fno-builtin
            -fno-asynchronous-unwind-tables ${no_calls} -c ${folder}/kernels/kernels.c -o ${image}.o
    COMMAND ${CMAKE_LINKER} -static -e 0 -z max-page-size=4096 -z noexecstack -T ${folder}/kernels/image.ld ${image}.o -o ${image}
    DEPENDS ${folder}/kernels/kernels.c ${folder}/kernels/image.ld VERBATIM)
  target_sources(test-${name} PRIVATE ${image})
  target_compile_definitions(test-${name} PRIVATE KERNELS_IMAGE="${image}")
endif()

# A program on libweft-rt alone.
add_executable(test-alone ${folder}/alone/alone.c)
target_link_libraries(test-alone PRIVATE weft-rt)
add_custom_command(TARGET test-alone POST_BUILD COMMAND ${CMAKE_STRIP} -o $<TARGET_FILE:test-alone>.stripped $<TARGET_FILE:test-alone>)
add_dependencies(test-${name} test-alone)
target_compile_definitions(test-${name} PRIVATE ALONE_PROGRAM="$<TARGET_FILE:test-alone>")
