# Programs that need nothing but libc, for machines where nothing can be installed: the library is linked with
# archives of all libraries that it needs, and opens OpenCL's loader at run time if there is one. If the archives are
# found, the tests link such a program; with ACCRUE_STATIC=ON all programs are linked so.

execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=libgomp.a OUTPUT_VARIABLE libgomp
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
get_filename_component(compiler_folder "${libgomp}" DIRECTORY)

# In the order in which they need each other.
set(archives "")
set(archives_missing "")
set(names openblas jansson pcre2-8 utf8proc ${picture_names} z gomp)
if(have_clblast)
  list(PREPEND names clblast stdc++)
endif()
if(have_tensorboard)
  list(PREPEND names protobuf-c)
endif()
foreach(name ${names})
  find_library(ACCRUE_LIB${name}_A lib${name}.a HINTS ${compiler_folder} PATH_SUFFIXES openblas-openmp)
  mark_as_advanced(ACCRUE_LIB${name}_A)
  if(ACCRUE_LIB${name}_A)
    list(APPEND archives ${ACCRUE_LIB${name}_A})
  else()
    list(APPEND archives_missing lib${name}.a)
  endif()
endforeach()
if(NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
  list(APPEND archives_missing "GCC, for its OpenMP runtime")
endif()
if(ACCRUE_STATIC AND archives_missing)
  message(FATAL_ERROR "ACCRUE_STATIC=ON, but without ${archives_missing}")
endif()
if(archives_missing)
  message(STATUS "Accrue: no self-contained programs without ${archives_missing}")
  return()
endif()

add_library(accrue_linked OBJECT ${openblas_linked} ${opencl_loader})
target_include_directories(accrue_linked PRIVATE ${CBLAS_INCLUDE_DIR})
target_link_libraries(accrue_linked PRIVATE accrue_internal)
add_library(accrue_selfcontained STATIC EXCLUDE_FROM_ALL ${library_objects} $<TARGET_OBJECTS:accrue_linked>)
target_include_directories(accrue_selfcontained PUBLIC include)
# Drivers bring libraries of their own, which are to find their own symbols and not ours.
target_link_libraries(accrue_selfcontained PUBLIC ${archives} -static-libgcc -Wl,--exclude-libs,ALL
                      Threads::Threads ${CMAKE_DL_LIBS} m)
