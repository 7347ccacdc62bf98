# The target docs: the reference of the C API as HTML, in docs/html of the build folder. The pages in docs/reference/api
# come from the same comments; tools/api_reference.py writes them.
find_program(DOXYGEN doxygen)
if(DOXYGEN)
  set(DOXYGEN_OUTPUT ${PROJECT_BINARY_DIR}/docs)
  set(DOXYGEN_HTML YES)
  set(DOXYGEN_XML NO)
  set(DOXYGEN_BRIEF YES)
  configure_file(docs/reference/api/Doxyfile.in docs/Doxyfile @ONLY)
  add_custom_target(docs COMMAND ${DOXYGEN} ${PROJECT_BINARY_DIR}/docs/Doxyfile
    COMMENT "Writing ${DOXYGEN_OUTPUT}/html/index.html" VERBATIM)
endif()
