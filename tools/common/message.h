/* What the program says when something is wrong, and the exit statuses scripts rely on. */
#ifndef TOOLS_COMMON_MESSAGE_H
#define TOOLS_COMMON_MESSAGE_H

#include <accrue/base.h>
#include <stdbool.h>

enum {
  STATUS_CONTINUE = -1, /* of a preparing function: nothing to exit for */
  STATUS_DONE = 0,
  STATUS_FAILED = 1, /* while running: data, devices, memory, files */
  STATUS_USAGE = 2   /* the command line itself is wrong */
};

/* Each writes "accrue: SENTENCE" to stderr and returns the status to exit with. */
#if defined(__GNUC__)
#define MESSAGE_FORMAT __attribute__((format(printf, 1, 2)))
#else
#define MESSAGE_FORMAT
#endif
int fail(const char *format, ...) MESSAGE_FORMAT;
int fail_usage(const char *format, ...) MESSAGE_FORMAT;
int fail_library(void); /* the library's last error */
/* The same where flags are brought to the library, before anything runs: what it refuses as an
 * argument, by its ac_status, is wrong usage. */
int fail_setup(ac_status status);

/* Whether these write nothing, for what is only tried. Returns what it was. */
bool message_silence(bool silent);

/* Writes a line to stderr that is no error. */
void say(const char *format, ...) MESSAGE_FORMAT;

#endif
