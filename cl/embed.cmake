# Writes OUTPUT, a C file with the text of each file in KERNELS, of all that they include, and the table that
# src/backend/opencl/shared/sources.h declares. Includes are lines #include "PATH" from this folder; only guards and comments
# may come before them. A text is without them, and a kernel file's parts are all that it includes, once each, and
# then its own.
# Called as: cmake "-DKERNELS=a.cl;b.cl" -DOUTPUT=file.c -P embed.cmake
cmake_policy(VERSION 3.21)

set(texts "")
set(embedded "")

# Appends to `parts` what a file includes, and the file; to `texts` what is not there yet.
function(add_file file)
  file(RELATIVE_PATH path ${CMAKE_CURRENT_LIST_DIR} "${file}")
  string(MAKE_C_IDENTIFIER "${path}" identifier)
  file(READ "${file}" text)
  while(text MATCHES "#include \"([^\"]+)\"\r?\n")
    string(REPLACE "${CMAKE_MATCH_0}" "" text "${text}")
    add_file("${CMAKE_CURRENT_LIST_DIR}/${CMAKE_MATCH_1}")
  endwhile()
  if(NOT identifier IN_LIST parts)
    list(APPEND parts ${identifier})
  endif()
  if(NOT identifier IN_LIST embedded)
    list(APPEND embedded ${identifier})
    string(HEX "${text}" hex)
    # Thirty-two bytes a line; compilers limit the length of a line, not of an array.
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REPEAT "....." 32 line)
    string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
    string(APPEND texts "static const unsigned char bytes_${identifier}[] = {\n${bytes}};\n"
      "static const ac_cl_text ${identifier} = {bytes_${identifier}, sizeof bytes_${identifier}};\n\n")
  endif()
  set(parts "${parts}" PARENT_SCOPE)
  set(texts "${texts}" PARENT_SCOPE)
  set(embedded "${embedded}" PARENT_SCOPE)
endfunction()

set(table "")
set(count 0)
foreach(file IN LISTS KERNELS)
  get_filename_component(name "${file}" NAME_WE)
  set(parts "")
  add_file("${file}")
  list(LENGTH parts part_count)
  list(TRANSFORM parts PREPEND "&")
  list(JOIN parts ", " listed)
  string(APPEND texts "_Static_assert(${part_count} <= AC_CL_MAX_PARTS, \"${name} includes too many files\");\n")
  string(APPEND table "    {\"${name}\", {${listed}}, ${part_count}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE "${OUTPUT}" "/* Generated from cl/ by cl/embed.cmake. */
#include \"backend/opencl/shared/sources.h\"

${texts}const ac_cl_source ac_cl_sources[] = {
${table}};
const int ac_cl_source_count = ${count};
")
