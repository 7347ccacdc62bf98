#include "common/message.h"

#include <stdarg.h>
#include <stdio.h>

static bool is_silent;

bool message_silence(bool silent) {
  const bool was = is_silent;
  is_silent = silent;
  return was;
}

static void write_line(const char *prefix, const char *format, va_list arguments) {
  if (is_silent) return;
  fputs(prefix, stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
}

int fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_line("accrue: ", format, arguments);
  va_end(arguments);
  return STATUS_FAILED;
}

int fail_usage(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_line("accrue: ", format, arguments);
  va_end(arguments);
  return STATUS_USAGE;
}

int fail_library(void) {
  return fail("%s", ac_last_error());
}

int fail_setup(ac_status status) {
  return status == AC_ERROR_ARGUMENT ? fail_usage("%s", ac_last_error()) : fail_library();
}

void say(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_line("", format, arguments);
  va_end(arguments);
}
