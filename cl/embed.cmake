# Writes OUTPUT, a C file with the bytes of each file in KERNELS and the table that src/backend/opencl/sources.h
# declares. Called as: cmake "-DKERNELS=a.cl;b.cl" -DOUTPUT=file.c -P embed.cmake
set(arrays "")
set(table "")
set(count 0)
foreach(file IN LISTS KERNELS)
  get_filename_component(name "${file}" NAME_WE)
  file(READ "${file}" hex HEX)
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
