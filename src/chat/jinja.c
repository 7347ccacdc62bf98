/* Follows the lexer of Jinja 3.1 (lexer.py): what is between tags is data, from which blanks are
 * removed by rules that depend on the tags around it. A tag is then written again as its tokens,
 * each in one form. */
#include "chat/jinja.h"

#include "core/error.h"
#include "core/hash.h"
#include "text/room.h"

/* Marks in the normalised text, which no template has. */
enum { DATA = 1, TAG = 2, QUOTE = 3 };

typedef struct lexer {
  const char *at; /* what was not read yet; ends with a 0 */
  char *out;
  size_t count, capacity;
  bool in_data;     /* the last thing written is data */
  bool line_starts; /* the tag before ended with a new line that was removed */
} lexer;

static bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         (unsigned char)c >= 0x80;
}

static ac_status put(lexer *x, const char *bytes, size_t count) {
  AC_TRY(AC_ROOM(x->out, x->capacity, x->count + count));
  memcpy(x->out + x->count, bytes, count);
  x->count += count;
  return AC_OK;
}

static ac_status put_one(lexer *x, char c) {
  return put(x, &c, 1);
}

/* ---- data ------------------------------------------------------------------------------------ */

/* From there to the next tag, or to the end. */
static size_t data_length(const char *at) {
  size_t length = 0;
  while (at[length] && !(at[length] == '{' && at[length + 1] && strchr("%{#", at[length + 1])))
    length++;
  return length;
}

/* Without the blanks that the tag at its end removes. */
static size_t stripped(const lexer *x, size_t length) {
  const char *tag = x->at + length;
  size_t kept = length;
  if (!*tag) return length;
  if (tag[2] == '-') {
    while (kept && is_blank(x->at[kept - 1])) kept--;
    return kept;
  }
  if (tag[1] == '{' || tag[2] == '+') return length;
  while (kept && is_blank(x->at[kept - 1]) && x->at[kept - 1] != '\n') kept--;
  if (kept ? x->at[kept - 1] == '\n' : x->line_starts) return kept;
  return length;
}

static ac_status take_data(lexer *x) {
  const size_t length = data_length(x->at), kept = stripped(x, length);
  if (kept) {
    if (!x->in_data) AC_TRY(put_one(x, DATA));
    AC_TRY(put(x, x->at, kept));
    x->in_data = true;
  }
  x->at += length;
  return AC_OK;
}

/* ---- tags ------------------------------------------------------------------------------------ */

/* What follows a backslash in a text; the next character is taken as well. */
static ac_status take_escape(lexer *x) {
  const char c = *++x->at;
  if (c == 'n') return put_one(x, '\n');
  if (c != '\'' && c != '"') AC_TRY(put_one(x, '\\'));
  return put_one(x, c);
}

/* A text in quotes, which are left out. */
static ac_status take_text(lexer *x) {
  const char quote = *x->at++;
  AC_TRY(put_one(x, QUOTE));
  for (; *x->at && *x->at != quote; x->at++)
    AC_TRY(*x->at == '\\' && x->at[1] ? take_escape(x) : put_one(x, *x->at));
  if (*x->at) x->at++;
  return put_one(x, QUOTE);
}

/* ['name'] after a value is .name; the length of what it is in the template, or 0. */
static size_t member_length(const lexer *x, const char **name, size_t *bytes) {
  static const char *const methods[] = {"items", "keys",   "values", "get",        "pop",
                                        "copy",  "update", "clear",  "setdefault", "popitem"};
  const char *at = x->at + 1;
  const char before = x->count ? x->out[x->count - 1] : 0;
  if (!is_word(before) && before != ']' && before != ')') return 0;
  while (is_blank(*at)) at++;
  const char quote = *at++;
  if (quote != '\'' && quote != '"') return 0;
  for (*name = at; is_word(*at); at++) continue;
  *bytes = (size_t)(at - *name);
  if (!*bytes || (**name >= '0' && **name <= '9') || *at++ != quote) return 0;
  while (is_blank(*at)) at++;
  if (*at++ != ']') return 0;
  for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
    if (strlen(methods[i]) == *bytes && !memcmp(methods[i], *name, *bytes)) return 0;
  return (size_t)(at - x->at);
}

static ac_status take_token(lexer *x) {
  const char *name;
  size_t bytes;
  if (*x->at == '\'' || *x->at == '"') return take_text(x);
  if (*x->at == '[') {
    const size_t length = member_length(x, &name, &bytes);
    x->at += length;
    if (length) {
      AC_TRY(put_one(x, '.'));
      return put(x, name, bytes);
    }
  }
  if (!is_word(*x->at)) return put_one(x, *x->at++);
  if (x->count && is_word(x->out[x->count - 1])) AC_TRY(put_one(x, ' '));
  for (; is_word(*x->at); x->at++) AC_TRY(put_one(x, *x->at));
  return AC_OK;
}

/* What follows the tag's end: blanks that it removes. */
static void end_tag(lexer *x, bool strips, bool is_value) {
  const char *begin = x->at;
  if (strips)
    while (is_blank(*x->at)) x->at++;
  else if (!is_value && *x->at == '\n') x->at++;
  x->line_starts = x->at > begin && x->at[-1] == '\n';
}

static void skip_comment(lexer *x) {
  const char *end = strstr(x->at, "#}");
  const bool strips = end && end > x->at && end[-1] == '-';
  x->at = end ? end + 2 : x->at + strlen(x->at);
  end_tag(x, strips, false);
}

/* The length of the tag's end, if it is there. */
static size_t closes(const char *at, char kind) {
  const size_t sign = *at == '-' || *at == '+';
  const char close = kind == '{' ? '}' : kind;
  return at[sign] == close && at[sign + 1] == '}' ? sign + 2 : 0;
}

static ac_status take_tag(lexer *x) {
  const char kind = x->at[1];
  size_t length;
  x->at += 2;
  if (kind == '#') {
    skip_comment(x);
    return AC_OK;
  }
  if (*x->at == '-' || *x->at == '+') x->at++;
  x->in_data = false;
  AC_TRY(put_one(x, TAG));
  AC_TRY(put_one(x, kind));
  while (*x->at && !(length = closes(x->at, kind))) {
    if (is_blank(*x->at)) x->at++;
    else AC_TRY(take_token(x));
  }
  if (!*x->at) return AC_OK;
  const bool strips = *x->at == '-';
  x->at += length;
  end_tag(x, strips, kind == '{');
  return AC_OK;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static ac_status normalise(lexer *x) {
  while (*x->at) {
    AC_TRY(take_data(x));
    if (*x->at) AC_TRY(take_tag(x));
  }
  return AC_OK;
}

/* New lines as \n, and without the last one, which Jinja removes. free() frees it. */
static char *copy_lines(const char *jinja) {
  char *text = malloc(strlen(jinja) + 1);
  size_t count = 0;
  if (!text) return NULL;
  for (; *jinja; jinja++) {
    if (*jinja == '\r' && jinja[1] == '\n') continue;
    text[count++] = *jinja == '\r' ? '\n' : *jinja;
  }
  if (count && text[count - 1] == '\n') count--;
  text[count] = 0;
  return text;
}

ac_status ac_chat_jinja_hash(uint64_t *hash, const char *jinja) {
  char *text = copy_lines(jinja);
  if (!text) return ac_fail(AC_ERROR_MEMORY, "chat: no memory for a template");
  lexer x = {.at = text, .line_starts = true};
  const ac_status status = normalise(&x);
  if (status == AC_OK) *hash = ac_hash(AC_HASH_BEGIN, x.out, x.count);
  free(x.out);
  free(text);
  return status;
}
