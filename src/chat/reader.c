#include "chat/reader.h"

#include "core/error.h"
#include "core/quote.h"
#include "data/byte_file.h"
#include "text/room.h"

enum { BLOCK = 1 << 16 };

typedef enum form { UNKNOWN, LINES, ARRAY } form;

struct ac_chat_reader {
  ac_byte_file *file;
  form form;
  int64_t line; /* or item */
  char *buffer;
  size_t count, capacity, next; /* next: what was not taken yet */
  bool ended;                   /* nothing follows what is in the buffer */
  bool closed;                  /* the array has ended */
};

ac_status ac_chat_reader_open(ac_chat_reader **reader, const char *path) {
  *reader = NULL;
  ac_chat_reader *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "%s: no memory to read it", path);
  const ac_status status = ac_byte_file_open(&made->file, path, AC_UNZIP);
  if (status == AC_OK) *reader = made;
  else ac_chat_reader_close(made);
  return status;
}

void ac_chat_reader_close(ac_chat_reader *r) {
  if (!r) return;
  ac_byte_file_close(r->file);
  free(r->buffer);
  free(r);
}

int64_t ac_chat_reader_line(const ac_chat_reader *r) {
  return r->line;
}

const char *ac_chat_reader_unit(const ac_chat_reader *r) {
  return r->form == ARRAY ? "item" : "line";
}

static ac_status fail_at(const ac_chat_reader *r, const char *what) {
  return ac_fail(AC_ERROR_FORMAT, "%s: %s %lld: %s", ac_byte_file_path(r->file),
                 ac_chat_reader_unit(r), (long long)r->line, what);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

/* Reads on. What was taken makes place. */
static ac_status more(ac_chat_reader *r) {
  size_t got;
  if (r->next) memmove(r->buffer, r->buffer + r->next, r->count - r->next);
  r->count -= r->next;
  r->next = 0;
  if (r->count > AC_CHAT_MOST_BYTES) return fail_at(r, "it has more than 64 MiB");
  AC_TRY(AC_ROOM(r->buffer, r->capacity, r->count + BLOCK));
  AC_TRY(ac_byte_file_read(r->file, r->buffer + r->count, r->capacity - r->count, &got));
  r->ended = got < r->capacity - r->count;
  r->count += got;
  return AC_OK;
}

static bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Goes to the first byte that is not blank; *byte: that, or -1 at the end. */
static ac_status skip_blanks(ac_chat_reader *r, int *byte) {
  for (;;) {
    while (r->next < r->count && is_blank(r->buffer[r->next])) r->next++;
    *byte = r->next < r->count ? (unsigned char)r->buffer[r->next] : -1;
    if (*byte >= 0 || r->ended) return AC_OK;
    AC_TRY(more(r));
  }
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* The next line, without its end; *bytes is past the line. */
static ac_status take_line(ac_chat_reader *r, const char **line, size_t *bytes) {
  size_t seen = 0;
  for (;;) {
    const char *from = r->buffer + r->next + seen;
    const char *end =
        r->count > r->next + seen ? memchr(from, '\n', r->count - r->next - seen) : NULL;
    if (!end && !r->ended) {
      seen = r->count - r->next;
      AC_TRY(more(r));
      continue;
    }
    *line = r->buffer + r->next;
    *bytes = end ? (size_t)(end - *line) : r->count - r->next;
    r->next += *bytes + (end != NULL);
    return AC_OK;
  }
}

static ac_status next_line(ac_chat_reader *r, const char **object, size_t *bytes) {
  do {
    if (r->next == r->count && r->ended) {
      *bytes = 0;
      return AC_OK;
    }
    r->line++;
    AC_TRY(take_line(r, object, bytes));
    while (*bytes && is_blank((*object)[*bytes - 1])) --*bytes;
    for (; *bytes && is_blank(**object); --*bytes) ++*object;
  } while (!*bytes);
  return AC_OK;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* The length of the object that begins there: as far as its brackets go. What is between them is
 * the parser's. */
static ac_status object_length(ac_chat_reader *r, size_t *bytes) {
  int64_t depth = 0;
  bool quoted = false, escaped = false;
  for (size_t at = 0;; at++) {
    while (r->next + at >= r->count) {
      if (r->ended) return fail_at(r, "the file ends within it");
      AC_TRY(more(r));
    }
    if (at == AC_CHAT_MOST_BYTES) return fail_at(r, "it has more than 64 MiB");
    const char c = r->buffer[r->next + at];
    if (escaped) escaped = false;
    else if (quoted) escaped = c == '\\', quoted = c != '"';
    else if (c == '"') quoted = true;
    else if (c == '{' || c == '[') depth++;
    else if ((c == '}' || c == ']') && !--depth) {
      *bytes = at + 1;
      return AC_OK;
    }
  }
}

static ac_status next_item(ac_chat_reader *r, const char **object, size_t *bytes) {
  int byte;
  *bytes = 0;
  AC_TRY(skip_blanks(r, &byte));
  if (r->closed) return byte < 0 ? AC_OK : fail_at(r, "something follows the end of the array");
  if (byte == ',' && r->line) {
    r->next++;
    AC_TRY(skip_blanks(r, &byte));
    r->line++;
  } else if (byte == ']') {
    r->next++;
    r->closed = true;
    return next_item(r, object, bytes);
  } else if (r->line++) {
    return fail_at(r, "no comma is before it");
  }
  if (byte != '{') return fail_at(r, "it is not an object");
  AC_TRY(object_length(r, bytes));
  *object = r->buffer + r->next;
  r->next += *bytes;
  return AC_OK;
}

/* ---- objects --------------------------------------------------------------------------------- */

/* At the beginning of a file. */
static ac_status find_form(ac_chat_reader *r) {
  int byte;
  while (r->count < 3 && !r->ended) AC_TRY(more(r));
  if (r->count >= 3 && !memcmp(r->buffer, "\xef\xbb\xbf", 3)) r->next = 3;
  size_t at = r->next;
  /* Lines are counted from the file's beginning, so blanks of lines are not taken here. */
  while (at < r->count && is_blank(r->buffer[at])) at++;
  r->form = LINES;
  if (at == r->count && !r->ended) return AC_OK;
  byte = at < r->count ? r->buffer[at] : -1;
  if (byte != '[') return AC_OK;
  r->form = ARRAY;
  r->next = at + 1;
  return AC_OK;
}

ac_status ac_chat_reader_next(ac_chat_reader *r, json_t **json) {
  const char *object = NULL;
  size_t bytes;
  json_error_t error;
  *json = NULL;
  if (r->form == UNKNOWN) AC_TRY(find_form(r));
  AC_TRY(r->form == ARRAY ? next_item(r, &object, &bytes) : next_line(r, &object, &bytes));
  if (!bytes) return AC_OK;
  if (bytes > AC_CHAT_MOST_BYTES) return fail_at(r, "it has more than 64 MiB");
  *json = json_loadb(object, bytes, JSON_REJECT_DUPLICATES, &error);
  return *json ? AC_OK : fail_at(r, ac_quote(error.text).text);
}

ac_status ac_chat_reader_is_json(const char *path, bool *is_json) {
  ac_byte_file *file;
  char start[4096];
  size_t got, at = 0;
  AC_TRY(ac_byte_file_open(&file, path, AC_UNZIP));
  const ac_status status = ac_byte_file_read(file, start, sizeof start, &got);
  ac_byte_file_close(file);
  AC_TRY(status);
  if (got >= 3 && !memcmp(start, "\xef\xbb\xbf", 3)) at = 3;
  while (at < got && is_blank(start[at])) at++;
  *is_json = at < got && (start[at] == '{' || start[at] == '[');
  return AC_OK;
}
