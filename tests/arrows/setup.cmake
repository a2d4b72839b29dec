# Pages printed from tables are current.
find_package(Python3 COMPONENTS Interpreter)
if(Python3_FOUND)
  add_test(NAME kernel-ops-page COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/kernel_ops.py --check)
endif()
