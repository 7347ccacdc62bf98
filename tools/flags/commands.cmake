# cmake -DCOMMANDS=docs/commands -DENVIRONMENT=docs/reference/environment.md -DOUTPUT=FILE.c -P commands.cmake: makes a table in
# C of the files of commands: one line, examples, files, and the variables of the environment as that page explains them.
cmake_minimum_required(VERSION 3.21)
include(${CMAKE_CURRENT_LIST_DIR}/read.cmake)

set(keys name short environment)
set(must_keys name short)
get_filename_component(folder "${COMMANDS}" ABSOLUTE)
file(GLOB files RELATIVE ${folder} ${folder}/*.md)
list(SORT files)
set(file "${ENVIRONMENT}")
read_text(${ENVIRONMENT} page)
set(rows "")
foreach(file IN LISTS files)
  read_text(${folder}/${file} text)
  read_keys("${text}")
  if(NOT file STREQUAL "${of_name}.md")
    wrong("name: ${of_name} is not the name of the file")
  endif()
  if(NOT "${body}" MATCHES "^## Examples\n\n(.+)\n\n## Files\n\n(.+)$")
    wrong("below the keys there are not the headings Examples and Files, with a text each")
  endif()
  set(examples "${CMAKE_MATCH_1}")
  string(STRIP "${CMAKE_MATCH_2}" of_files)
  string(REPLACE " " ";" variables "${of_environment}")
  set(environment "")
  foreach(variable IN LISTS variables)
    if(NOT page MATCHES "\n\\|[^|\n]*`${variable}(=1)?`[^|\n]*\\| ([^|\n]+) \\| ([^|\n]+) \\|")
      wrong("environment: ${variable} is not in the tables of ${ENVIRONMENT}")
    endif()
    string(APPEND environment "- ${variable}: ${CMAKE_MATCH_2}. If it is not set: ${CMAKE_MATCH_3}.\n")
  endforeach()
  check_ascii("${text}${environment}")
  foreach(pair of_short:brief examples:examples of_files:files environment:environment)
    string(REPLACE ":" ";" pair ${pair})
    list(POP_FRONT pair variable field)
    literal("${${variable}}" text)
    string(APPEND fields ".${field} = ${text},\n     ")
  endforeach()
  string(APPEND rows "    {.name = \"${of_name}\",\n     ${fields}},\n")
  set(fields "")
endforeach()
plain("${rows}" rows)
file(WRITE ${OUTPUT} "/* Made from docs/commands by tools/flags/commands.cmake. */
#include \"common/command_record.h\"

#include <stddef.h>

#pragma GCC diagnostic ignored \"-Woverlength-strings\"

const command_record command_records[] = {
${rows}};
const int command_record_count = sizeof command_records / sizeof *command_records;
")
