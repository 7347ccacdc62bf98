/* What the program says when something is wrong, and the exit statuses scripts rely on.
 *
 * Names in files, paths and labels come from others. Before they reach a terminal, what it would
 * obey instead of showing it (control characters, and those that turn the direction of text)
 * becomes \xNN, byte by byte, as does what is not UTF-8. All functions here do that. */
#ifndef TOOLS_COMMON_MESSAGE_H
#define TOOLS_COMMON_MESSAGE_H

#include <accrue/base.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
  STATUS_CONTINUE = -1, /* of a preparing function: nothing to exit for */
  STATUS_DONE = 0,
  STATUS_FAILED = 1, /* while running: data, devices, memory, files */
  STATUS_USAGE = 2   /* the command line itself is wrong */
};

/* Each writes "accrue: SENTENCE" to stderr and returns the status to exit with. */
#if defined(__GNUC__)
#define MESSAGE_FORMAT __attribute__((format(printf, 1, 2)))
#define MESSAGE_PUT_FORMAT __attribute__((format(printf, 2, 3)))
#else
#define MESSAGE_FORMAT
#define MESSAGE_PUT_FORMAT
#endif
int fail(const char *format, ...) MESSAGE_FORMAT;
int fail_usage(const char *format, ...) MESSAGE_FORMAT;
int fail_library(void); /* the library's last error */
/* The same where flags are brought to the library, before anything runs: what it refuses as an
 * argument, by its ac_status, is wrong usage. */
int fail_setup(ac_status status);

/* Where the values come from that are checked next: "FILE: KEY", which then comes before each
 * sentence. NULL: from the command line. Returns what it was. */
const char *message_where(const char *where);

/* Whether these write nothing, for what is only tried. Returns what it was. */
bool message_silence(bool silent);

/* Writes a line to stderr that is not an error. */
void say(const char *format, ...) MESSAGE_FORMAT;

/* As fprintf, for tables and results with names that others chose. The only line break that is
 * written as one is that at the end of the format. */
void message_put(FILE *stream, const char *format, ...) MESSAGE_PUT_FORMAT;

/* Writes whole characters of the text; `lines`: line breaks and tabs as they are. Returns how many
 * bytes are written: what is left begins a character that may become whole with more bytes. */
size_t message_put_some(FILE *stream, const char *text, size_t size, bool lines);

#endif
