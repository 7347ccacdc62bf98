# Writes OUTPUT, a C file with the files of the folder TEMPLATE, as tools/program/init.h declares them.
# Called as: cmake -DTEMPLATE=folder -DOUTPUT=file.c -P embed_template.cmake
cmake_policy(VERSION 3.21)

set(texts "")
set(table "")
set(count 0)
file(GLOB paths LIST_DIRECTORIES false "${TEMPLATE}/*" "${TEMPLATE}/.gitignore")
list(REMOVE_DUPLICATES paths)
list(SORT paths)
foreach(path IN LISTS paths)
  get_filename_component(name "${path}" NAME)
  file(READ "${path}" hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(REPEAT "....." 16 line)
  string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
  string(APPEND texts "static const unsigned char file_${count}[] = {\n${bytes}};\n\n")
  string(APPEND table "    {\"${name}\", file_${count}, sizeof file_${count}},\n")
  math(EXPR count "${count} + 1")
endforeach()
file(WRITE "${OUTPUT}" "/* Generated from examples/template by tools/program/embed_template.cmake. */
#include \"program/init.h\"

${texts}const project_file project_files[] = {
${table}};
const int project_file_count = ${count};
")
