#include "text/pattern.h"

#include "text/room.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct ac_pattern {
  pcre2_code *code;
  pcre2_match_data *match;
  pcre2_match_context *context;
  pcre2_jit_stack *stack;
  bool compiled; /* to machine code */
};

/* White_Space; PCRE2's own \s also has U+180E. */
#define SPACES "\\t-\\r\\x{85}\\p{Z}"
/* Alphabetic, marks, decimal numbers, connectors and joiners. */
#define WORDS                                                                                      \
  "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}" \
  "\\x{1f170}-\\x{1f189}\\x{200c}\\x{200d}"

/* Text that grows. */
typedef struct builder {
  char *text;
  size_t count, capacity;
} builder;

static ac_status put(builder *to, const char *text, size_t count) {
  AC_TRY(AC_ROOM(to->text, to->capacity, to->count + count + 1));
  memcpy(to->text + to->count, text, count);
  to->count += count;
  to->text[to->count] = 0;
  return AC_OK;
}

static ac_status put_text(builder *to, const char *text) {
  return put(to, text, strlen(text));
}

/* A backslash and the character after it, within a class or not. */
static ac_status put_escape(builder *to, char escaped, bool in_class) {
  const char pair[] = {'\\', escaped, 0};
  const char *set = escaped == 's' || escaped == 'S' ? SPACES : WORDS;
  if (strchr("hHRXKQEGNv", escaped))
    return ac_fail(AC_ERROR_UNSUPPORTED, "the pattern has %s, which this library does not know",
                   pair);
  if (!strchr("sSwW", escaped)) return put_text(to, pair);
  const bool negated = escaped == 'S' || escaped == 'W';
  if (in_class && negated)
    return ac_fail(AC_ERROR_UNSUPPORTED, "the pattern has %s within brackets", pair);
  if (in_class) return put_text(to, set);
  AC_TRY(put_text(to, negated ? "[^" : "["));
  AC_TRY(put_text(to, set));
  return put_text(to, "]");
}

/* A repetition {...} that Oniguruma reads in another way: {,2} is one, {1,2}+ repeats it once more,
 * and {2}? makes it optional. */
static ac_status check_braces(const char *at) {
  const size_t digits = strspn(at + 1, "0123456789"), all = strspn(at + 1, "0123456789,");
  const char *end = at + 1 + all;
  if (*end != '}' || !all) return AC_OK; /* characters */
  if (!digits || end[1] == '+' || (end[1] == '?' && digits == all))
    return ac_fail(AC_ERROR_UNSUPPORTED, "the pattern has %.*s, which this library does not know",
                   (int)(end + (digits ? 2 : 1) - at), at);
  return AC_OK;
}

/* (?m) and (?s) mean other things in Oniguruma. */
static ac_status check_flags(const char *at) {
  const size_t flags = at[1] == '?' ? strspn(at + 2, "imsx-") : 0;
  const char *end = at + 2 + flags;
  if (!flags || (*end != ':' && *end != ')')) return AC_OK;
  for (const char *flag = at + 2; flag < end; flag++)
    if (*flag == 'm' || *flag == 's')
      return ac_fail(AC_ERROR_UNSUPPORTED, "the pattern has the option %c", *flag);
  return AC_OK;
}

static ac_status spell_out(builder *to, const char *text) {
  bool in_class = false;
  for (const char *at = text; *at; at++) {
    if (*at == '\\' && at[1]) {
      AC_TRY(put_escape(to, *++at, in_class));
      const char *end = at[1] == '{' && strchr("pPxo", *at) ? strchr(at, '}') : NULL;
      if (end) AC_TRY(put(to, at + 1, (size_t)(end - at))); /* \p{L} */
      if (end) at = end;
      continue;
    }
    if (in_class && *at == '&' && at[1] == '&')
      return ac_fail(AC_ERROR_UNSUPPORTED, "the pattern has && within brackets");
    if (in_class && *at == '[' && at[1] != ':') /* a set within the set */
      return ac_fail(AC_ERROR_UNSUPPORTED, "the pattern has brackets within brackets");
    if (in_class && !strncmp(at, "[:punct:]", 9))
      return ac_fail(AC_ERROR_UNSUPPORTED, "the pattern has [:punct:]");
    if (!in_class && *at == '{') AC_TRY(check_braces(at));
    if (!in_class && *at == '(') AC_TRY(check_flags(at));
    AC_TRY(put(to, at, 1));
    if (!in_class && *at == '[') {
      in_class = true;
      if (at[1] == '^') AC_TRY(put(to, ++at, 1));
      if (at[1] == ']') AC_TRY(put(to, ++at, 1)); /* the first one is a character */
    } else if (in_class && *at == '[') {          /* [:alpha:] */
      const char *end = strstr(at, ":]");
      if (end) AC_TRY(put(to, at + 1, (size_t)(end + 1 - at)));
      if (end) at = end + 1;
    } else if (*at == ']') in_class = false;
  }
  return AC_OK;
}

static ac_status compile(ac_pattern *made, const char *text, size_t count, uint32_t options) {
  int error;
  PCRE2_SIZE offset;
  made->code = pcre2_compile((PCRE2_SPTR)text, count, options, &error, &offset, NULL);
  if (!made->code && error == PCRE2_ERROR_HEAP_FAILED)
    return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a pattern");
  if (!made->code) {
    PCRE2_UCHAR message[128];
    pcre2_get_error_message(error, message, sizeof message);
    return ac_fail(AC_ERROR_FORMAT, "the pattern is wrong at byte %zu: %s", (size_t)offset,
                   (char *)message);
  }
  uint32_t empty = 0;
  pcre2_pattern_info(made->code, PCRE2_INFO_MATCHEMPTY, &empty);
  if (empty) return ac_fail(AC_ERROR_UNSUPPORTED, "the pattern matches where there is nothing");
  made->match = pcre2_match_data_create(1, NULL);
  made->context = pcre2_match_context_create(NULL);
  if (!made->match || !made->context)
    return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a pattern");
  made->compiled = pcre2_jit_compile(made->code, PCRE2_JIT_COMPLETE) == 0;
  made->stack = made->compiled ? pcre2_jit_stack_create(32 << 10, 64 << 20, NULL) : NULL;
  if (made->stack) pcre2_jit_stack_assign(made->context, NULL, made->stack);
  return AC_OK;
}

ac_status ac_pattern_make(ac_pattern **pattern, const char *text, bool literal) {
  builder spelled = {0};
  ac_status status = literal ? put_text(&spelled, text) : spell_out(&spelled, text);
  ac_pattern *made = status == AC_OK ? calloc(1, sizeof *made) : NULL;
  if (status == AC_OK && !made)
    status = ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a pattern");
  const uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_NO_UTF_CHECK | PCRE2_MULTILINE;
  const uint32_t kind = literal ? PCRE2_LITERAL | PCRE2_UTF | PCRE2_NO_UTF_CHECK : options;
  if (status == AC_OK) status = compile(made, spelled.text, spelled.count, kind);
  free(spelled.text);
  if (status != AC_OK) {
    ac_pattern_free(made);
    return status;
  }
  *pattern = made;
  return AC_OK;
}

void ac_pattern_free(ac_pattern *pattern) {
  if (!pattern) return;
  pcre2_jit_stack_free(pattern->stack);
  pcre2_match_context_free(pattern->context);
  pcre2_match_data_free(pattern->match);
  pcre2_code_free(pattern->code);
  free(pattern);
}

ac_status ac_pattern_find(ac_pattern *p, const char *text, size_t count, size_t from, size_t *begin,
                          size_t *end) {
  const uint32_t options = PCRE2_NO_UTF_CHECK;
  const PCRE2_SPTR subject = (PCRE2_SPTR)text;
  int found = p->compiled
                  ? pcre2_jit_match(p->code, subject, count, from, options, p->match, p->context)
                  : pcre2_match(p->code, subject, count, from, options, p->match, p->context);
  *begin = *end = count;
  if (found == PCRE2_ERROR_NOMATCH) return AC_OK;
  if (found < 0)
    return ac_fail(AC_ERROR_MEMORY, "tokenizer: matching a pattern failed (PCRE2 says %d)", found);
  const PCRE2_SIZE *bounds = pcre2_get_ovector_pointer(p->match);
  *begin = bounds[0];
  *end = bounds[1];
  return AC_OK;
}
