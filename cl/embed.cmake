# Writes OUTPUT, a C file with the text of each file in KERNELS and the table that src/backend/opencl/sources.h declares.
# In place of #include "NAME" stands that file of the same folder, once in a text.
# Called as: cmake "-DKERNELS=a.cl;b.cl" -DOUTPUT=file.c -P embed.cmake
cmake_policy(VERSION 3.25)

# Appends a file to `text`.
function(append_file file)
  get_filename_component(folder "${file}" DIRECTORY)
  file(READ "${file}" rest)
  while(rest MATCHES "#include \"([^\"]+)\"\r?\n")
    set(line "${CMAKE_MATCH_0}")
    set(included "${folder}/${CMAKE_MATCH_1}")
    string(FIND "${rest}" "${line}" begin)
    string(SUBSTRING "${rest}" 0 ${begin} before)
    string(APPEND text "${before}")
    if(NOT included IN_LIST seen)
      list(APPEND seen "${included}")
      append_file("${included}")
    endif()
    string(LENGTH "${line}" length)
    math(EXPR end "${begin} + ${length}")
    string(SUBSTRING "${rest}" ${end} -1 rest)
  endwhile()
  set(text "${text}${rest}" PARENT_SCOPE)
  set(seen "${seen}" PARENT_SCOPE)
endfunction()

set(arrays "")
set(table "")
set(count 0)
foreach(file IN LISTS KERNELS)
  get_filename_component(name "${file}" NAME_WE)
  set(text "")
  set(seen "")
  append_file("${file}")
  string(HEX "${text}" hex)
  string(LENGTH "${hex}" digits)
  math(EXPR length "${digits} / 2")
  # Thirty-two bytes a line; compilers limit the length of a line, not of an array.
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REPEAT "....." 32 line)
  string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
  string(APPEND arrays "static const unsigned char source_${name}[] = {\n${bytes}};\n\n")
  string(APPEND table "    {\"${name}\", source_${name}, ${length}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE "${OUTPUT}" "/* Generated from cl/ by cl/embed.cmake. */
#include \"backend/opencl/sources.h\"

${arrays}const ac_cl_source ac_cl_sources[] = {
${table}};
const int ac_cl_source_count = ${count};
")
