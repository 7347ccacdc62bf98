# What the tests of this folder tell the sanitizers; called once all are added.
# - A leak of PoCL is not ours, see leaks.supp.
# - The address sanitizer must not watch __tls_get_addr: where a thread's variables happen to lie 16 bytes into a page, it
#   takes the bytes before them for a header of an old glibc, and its search for leaks then reads at a wild address. What
#   these variables point to it finds all the same, through what the dynamic linker allocated.
# - LLVM, in PoCL, gives a thread another stack for signals, and the address sanitizer would give that back as its own when
#   the thread ends: so it uses none itself.
# - OpenCL devices are PoCL's alone: other vendors' drivers may be opened in ways that the address sanitizer ends a program
#   for, as Intel's is, which comes with its compiler.
function(accrue_set_sanitizer_options)
  get_property(tests DIRECTORY PROPERTY TESTS)
  set_property(TEST ${tests} APPEND PROPERTY ENVIRONMENT
               LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/tests/leaks.supp ASAN_OPTIONS=intercept_tls_get_addr=0:use_sigaltstack=0)
  if(ACCRUE_SANITIZE AND EXISTS /etc/OpenCL/vendors/pocl.icd)
    set_property(TEST ${tests} APPEND PROPERTY ENVIRONMENT OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd)
  endif()
endfunction()
