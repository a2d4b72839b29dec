# cmake --install: libraries, headers, the command, pkg-config files (weft.pc, weft-rt.pc) and a CMake package with the
# targets weft::weft and weft::weft-rt. Nothing in the files names the prefix, so an installed tree can be moved.
# tests/install checks all of it.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/weft)

install(TARGETS weft-rt weft EXPORT weft-targets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

install(EXPORT weft-targets NAMESPACE weft:: DESTINATION ${package_folder})
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/weft-config.cmake.in ${CMAKE_BINARY_DIR}/weft-config.cmake
  INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/weft-config.cmake ${CMAKE_BINARY_DIR}/weft-config-version.cmake DESTINATION ${package_folder})

# A static library carries no list of what it needs, so its .pc file names that in Libs; a shared one in Libs.private.
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
function(weft_pkg_config name description libraries requires)
  set(pc_libs_private "${libraries}")
  set(pc_requires_private "${requires}")
  set(pc_libs "")
  set(pc_requires "")
  if(NOT BUILD_SHARED_LIBS)
    set(pc_libs " ${libraries}")
    set(pc_requires "${requires}")
  endif()
  set(pc_name ${name})
  set(pc_description "${description}")
  configure_file(${CMAKE_SOURCE_DIR}/cmake/weft.pc.in ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()
set(runtime_libraries "-lpthread -lm -ldl")
set(compiler_libraries "${runtime_libraries}")
set(compiler_requires "")
if(WEFT_HAVE_LLVM)
  string(PREPEND compiler_libraries "${LLVM_LIBRARY} ")
endif()
if(WEFT_HAVE_SPIRV)
  string(PREPEND compiler_libraries "${SPIRV_TOOLS_LIBRARY} -lstdc++ ")
endif()
if(WEFT_HAVE_ONNX)
  set(compiler_requires "libprotobuf-c")
endif()
if(WEFT_HAVE_ARCHIVE) # not in Requires: --static would ask for all that a static libarchive needs, which few have
  list(JOIN ARCHIVE_LDFLAGS " " archive_libraries)
  string(PREPEND compiler_libraries "${archive_libraries} ")
endif()
weft_pkg_config(weft-rt "Weft: loads and runs compiled models" "${runtime_libraries}" "")
weft_pkg_config(weft "Weft: graph compiler and runtime for machine learning; holds all of weft-rt" "${compiler_libraries}" "${compiler_requires}")
