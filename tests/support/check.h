/* cmocka with its prerequisites, and the assertions that most tests share. */
#ifndef AC_TESTS_CHECK_H
#define AC_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include <accrue/accrue.h>

/* Fails with the library's own sentence. */
#define assert_ok(expression)                                                                 \
  do {                                                                                        \
    ac_status assert_ok_status = (expression);                                                \
    if (assert_ok_status != AC_OK)                                                            \
      fail_msg("%s: %s: %s", #expression, ac_status_name(assert_ok_status), ac_last_error()); \
  } while (0)

/* The call fails with this status, and one line that contains `text`. */
#define assert_refused(expression, status, text) \
  do {                                           \
    assert_int_equal(expression, status);        \
    assert_contains(ac_last_error(), text);      \
    assert_null(strchr(ac_last_error(), '\n'));  \
  } while (0)

#define assert_contains(sentence, text)                                                      \
  do {                                                                                       \
    if (!strstr(sentence, text)) fail_msg("\"%s\" does not contain \"%s\"", sentence, text); \
  } while (0)

#define SHAPE(...) AC_SHAPE(__VA_ARGS__)
/* A matrix of zeros, which a test then writes. */
#define ZEROS (&(ac_parameter_desc){.init = {.kind = AC_INIT_ZERO}})

#endif
