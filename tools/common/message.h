/* The program's messages when something is wrong, and the exit statuses that scripts rely on.
 *
 * Names in files, paths and labels come from others. Before they reach a terminal, bytes that it
 * would obey instead of showing (control characters, and characters that change the direction of
 * text) become \xNN, as do bytes that are not UTF-8. All functions here do that. */
#ifndef TOOLS_COMMON_MESSAGE_H
#define TOOLS_COMMON_MESSAGE_H

#include <accrue/base.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum {
  STATUS_CONTINUE = -1, /* of a function that prepares: no reason to exit */
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
/* The same while flags are given to the library, before anything runs: if its ac_status says that
 * an argument is refused, that is wrong usage. */
int fail_setup(ac_status status);

/* Says where the next values to check are from: "FILE: KEY". Failures then begin with it. NULL: the
 * command line. Returns the text before. */
const char *message_where(const char *where);

/* With true these functions write nothing, for attempts. Returns the value before. */
bool message_silence(bool silent);

/* The same for all that this thread says, whatever others do. */
void message_silence_thread(bool silent);

/* The last sentence of such a failure of this thread, also while nothing is written; "": there was
 * none. */
const char *message_last(void);

/* Writes a line to stderr that is not an error. */
void say(const char *format, ...) MESSAGE_FORMAT;

/* As fprintf, for tables and results with names that others chose. Only the line break at the end
 * of the format is written as a line break. */
void message_put(FILE *stream, const char *format, ...) MESSAGE_PUT_FORMAT;

/* Writes whole characters of the text; `lines`: line breaks and tabs unchanged. Returns how many
 * bytes were written: the rest is the beginning of a character that may be completed by more bytes.
 */
size_t message_put_some(FILE *stream, const char *text, size_t size, bool lines);

#endif
