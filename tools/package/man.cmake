# Pages of the manual and scripts for completion: the program writes them itself, so they say what its --help says. Where it cannot run, which is
# a cross build without an emulator, there are none.
set(man_pages "")
set(bash_completion "")
set(zsh_completion "")
if(CMAKE_CROSSCOMPILING AND NOT CMAKE_CROSSCOMPILING_EMULATOR)
  message(STATUS "Accrue: no manual pages and no completion, as the program that writes them cannot run here")
  return()
endif()

set(man_commands devices report sample export tokenize show init bench completion)
foreach(what gemm ops step all memory)
  list(APPEND man_commands "bench ${what}")
endforeach()
foreach(verb train eval plan lr-find pilot verify)
  list(APPEND man_commands ${verb})
  foreach(model gpt llm mlp resnet mobilenet efficientnet vit convnext unet)
    list(APPEND man_commands "${verb} ${model}")
  endforeach()
endforeach()
list(APPEND man_commands predict)
foreach(model mlp resnet mobilenet efficientnet vit convnext unet)
  list(APPEND man_commands "predict ${model}")
endforeach()
set(man_folder ${CMAKE_CURRENT_BINARY_DIR}/man1)
set(man_pages ${man_folder}/accrue.1)
foreach(command ${man_commands})
  string(REPLACE " " "-" page ${command})
  list(APPEND man_pages ${man_folder}/accrue-${page}.1)
endforeach()

set(bash_completion ${CMAKE_CURRENT_BINARY_DIR}/completion/accrue)
set(zsh_completion ${CMAKE_CURRENT_BINARY_DIR}/completion/_accrue)

add_custom_command(OUTPUT ${man_pages} ${bash_completion} ${zsh_completion}
  COMMAND ${CMAKE_COMMAND} "-DPROGRAM=${CMAKE_CROSSCOMPILING_EMULATOR};$<TARGET_FILE:accrue_program>"
          "-DCOMMANDS=${man_commands}" -DFOLDER=${man_folder} -DBASH=${bash_completion} -DZSH=${zsh_completion} -P ${CMAKE_CURRENT_LIST_DIR}/write_man.cmake
  DEPENDS accrue_program ${CMAKE_CURRENT_LIST_DIR}/write_man.cmake VERBATIM)
add_custom_target(accrue_man ALL DEPENDS ${man_pages} ${bash_completion} ${zsh_completion})
