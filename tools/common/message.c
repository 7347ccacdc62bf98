#include "common/message.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_silent;
static _Thread_local bool thread_is_silent;

bool message_silence(bool silent) {
  const bool was = is_silent;
  is_silent = silent;
  return was;
}

void message_silence_thread(bool silent) {
  thread_is_silent = silent;
}

/* ---- text that others chose ------------------------------------------------------------------ */

/* The length of the UTF-8 sequence that begins here (0: there is none), and its code point.
 * *incomplete: it may become one with more bytes. */
static size_t decode(const unsigned char *text, size_t size, unsigned *point, bool *incomplete) {
  const unsigned first = text[0];
  const size_t length = first < 0x80             ? 1
                        : first - 0xc2 < 0x1e    ? 2
                        : (first & 0xf0) == 0xe0 ? 3
                        : first - 0xf0 < 5       ? 4
                                                 : 0;
  static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
  *incomplete = false;
  *point = length == 1 ? first : first & (0x7fu >> length);
  for (size_t i = 1; i < length; i++) {
    if (i == size) *incomplete = true;
    if (i == size || (text[i] & 0xc0) != 0x80) return 0;
    *point = *point << 6 | (text[i] & 0x3fu);
  }
  const bool surrogate = *point >= 0xd800 && *point < 0xe000;
  return length && (surrogate || *point < least[length] || *point > 0x10ffff) ? 0 : length;
}

/* Characters that a terminal obeys instead of showing them: control characters, also ESC and the
 * 8-bit ones, and characters that change the direction of text. */
static bool is_obeyed(unsigned point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x61c || point == 0x200e ||
         point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
         (point >= 0x2066 && point <= 0x2069);
}

size_t message_put_some(FILE *stream, const char *text, size_t size, bool lines) {
  size_t at = 0;
  while (at < size) {
    const unsigned char *next = (const unsigned char *)text + at;
    unsigned point;
    bool incomplete;
    const size_t length = decode(next, size - at, &point, &incomplete);
    const bool laid_out = lines && (*next == '\n' || *next == '\t');
    if (incomplete) break;
    if (length && (laid_out || !is_obeyed(point))) fwrite(next, 1, length, stream);
    for (size_t i = 0; !length ? i < 1 : is_obeyed(point) && !laid_out && i < length; i++)
      fprintf(stream, "\\x%02x", (unsigned)next[i]);
    at += length ? length : 1;
  }
  return at;
}

/* An incomplete character at the end will not be completed. */
static void put_all(FILE *stream, const char *text, size_t size) {
  for (size_t at = message_put_some(stream, text, size, false); at < size; at++)
    fprintf(stream, "\\x%02x", (unsigned)(unsigned char)text[at]);
}

static void put(FILE *stream, const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *text = length < 0 ? NULL : malloc((size_t)length + 1);
  const size_t end = strlen(format);
  const bool line = end && format[end - 1] == '\n';
  if (text) {
    vsnprintf(text, (size_t)length + 1, format, arguments);
    put_all(stream, text, (size_t)length - line);
  } else fputs("out of memory", stream);
  if (line) fputc('\n', stream);
  free(text);
}

void message_put(FILE *stream, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  put(stream, format, arguments);
  va_end(arguments);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* `where` may be NULL. In one piece, so that the lines of several processes do not mix. */
static void write_line(const char *prefix, const char *where, const char *format,
                       va_list arguments) {
  if (is_silent || thread_is_silent) return;
  char *line = NULL;
  size_t size = 0;
  FILE *whole = open_memstream(&line, &size);
  FILE *stream = whole ? whole : stderr;
  fputs(prefix, stream);
  if (where) message_put(stream, "%s: ", where);
  put(stream, format, arguments);
  fputc('\n', stream);
  if (whole && fclose(whole) == 0) fwrite(line, 1, size, stderr);
  free(line);
}

static _Thread_local const char *place; /* NULL: the command line */

const char *message_where(const char *where) {
  const char *before = place;
  place = where;
  return before;
}

static _Thread_local char last[1024];

const char *message_last(void) {
  return last;
}

static void keep_last(const char *format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  vsnprintf(last, sizeof last, format, again);
  va_end(again);
}

/* What went wrong, and where that was said to be. */
static void write_failure(const char *format, va_list arguments) {
  keep_last(format, arguments);
  write_line("accrue: ", place, format, arguments);
}

int fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_failure(format, arguments);
  va_end(arguments);
  return STATUS_FAILED;
}

int fail_usage(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  write_failure(format, arguments);
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
  write_line("", NULL, format, arguments);
  va_end(arguments);
}
