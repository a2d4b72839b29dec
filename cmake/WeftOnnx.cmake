# frontend/onnx: the ONNX importer on protobuf-c. Defines WEFT_HAVE_ONNX.
set(WEFT_HAVE_ONNX OFF)
if(NOT WEFT_ONNX STREQUAL OFF)
  pkg_check_modules(PROTOBUF_C IMPORTED_TARGET libprotobuf-c)
  find_program(PROTOC_C NAMES protoc-c)
  if(PROTOBUF_C_FOUND AND PROTOC_C AND EXISTS ${CMAKE_SOURCE_DIR}/frontend/onnx/onnx.proto)
    set(generated ${CMAKE_BINARY_DIR}/generated)
    file(MAKE_DIRECTORY ${generated})
    add_custom_command(OUTPUT ${generated}/onnx.pb-c.c ${generated}/onnx.pb-c.h
      COMMAND ${PROTOC_C} --proto_path=${CMAKE_SOURCE_DIR}/frontend/onnx --c_out=${generated} onnx.proto
      DEPENDS ${CMAKE_SOURCE_DIR}/frontend/onnx/onnx.proto)
    file(GLOB onnx_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/frontend/onnx/*.c)
    target_sources(weft_frontend PRIVATE ${onnx_sources} ${generated}/onnx.pb-c.c ${generated}/onnx.pb-c.h)
    set_source_files_properties(${generated}/onnx.pb-c.c PROPERTIES COMPILE_OPTIONS "-w")
    target_include_directories(weft_frontend SYSTEM PRIVATE ${generated} ${PROTOBUF_C_INCLUDE_DIRS})
    list(APPEND WEFT_PRIVATE_LIBRARIES PkgConfig::PROTOBUF_C)
    set(WEFT_ONNX_INCLUDE ${generated} ${PROTOBUF_C_INCLUDE_DIRS}) # for the conformance driver, which reads test tensors
    add_compile_definitions(WEFT_HAVE_ONNX=1)
    set(WEFT_HAVE_ONNX ON)
  elseif(WEFT_ONNX STREQUAL ON)
    message(FATAL_ERROR "WEFT_ONNX=ON but protobuf-c was not found: apt-get install libprotobuf-c-dev protobuf-c-compiler")
  endif()
endif()
message(STATUS "ONNX importer: ${WEFT_HAVE_ONNX}")
