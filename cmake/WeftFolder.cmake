# weft_folder(name USES folder...): all .c files below the folder as the object library weft_<name>.
# Code that needs an optional package lives in a subfolder named after it; cmake/WeftLlvm.cmake, WeftOnnx.cmake, WeftSpirv.cmake, WeftVulkan.cmake and WeftArchive.cmake add it.
function(weft_folder name)
  cmake_parse_arguments(folder "" "" "USES" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${name}/*.c)
  list(FILTER sources EXCLUDE REGEX "^${CMAKE_SOURCE_DIR}/${name}/(.*/)?(llvm|onnx|spirv|vulkan|archive)/")
  if(NOT sources)
    file(WRITE ${CMAKE_BINARY_DIR}/empty/${name}.c "extern int weft_empty_${name};\nint weft_empty_${name};\n")
    set(sources ${CMAKE_BINARY_DIR}/empty/${name}.c)
  endif()
  add_library(weft_${name} OBJECT ${sources})
  target_include_directories(weft_${name} PRIVATE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
endfunction()
