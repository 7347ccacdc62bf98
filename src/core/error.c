#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char sentence[AC_SENTENCE_BYTES];

const char *ac_last_error(void) {
  return sentence;
}

ac_kept_error ac_error_keep(void) {
  ac_kept_error kept;
  memcpy(kept.sentence, sentence, sizeof sentence);
  return kept;
}

void ac_error_restore(const ac_kept_error *kept) {
  memcpy(sentence, kept->sentence, sizeof sentence);
}

ac_status ac_fail(ac_status status, const char *format, ...) {
  /* Formatted aside, because an argument may be the old sentence. */
  char text[AC_SENTENCE_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  memcpy(sentence, text, sizeof sentence);
  return status;
}

ac_status ac_fail_prefix(ac_status status, const char *format, ...) {
  char prefix[256], old[AC_SENTENCE_BYTES];
  va_list args;
  va_start(args, format);
  vsnprintf(prefix, sizeof prefix, format, args);
  va_end(args);
  memcpy(old, sentence, sizeof old);
  size_t used = strlen(prefix), rest = sizeof sentence - used - 3;
  memcpy(sentence, prefix, used);
  memcpy(sentence + used, ": ", 2);
  memcpy(sentence + used + 2, old, rest);
  sentence[sizeof sentence - 1] = 0;
  return status;
}

/* `names` as written: "graph, device". */
bool ac_given(const char *function, const char *names, const void *const *pointers, size_t count) {
  for (size_t i = 0; i < count; i++, names += strcspn(names, ","), names += strspn(names, ", ")) {
    if (pointers[i]) continue;
    ac_fail(AC_ERROR_ARGUMENT, "%s: %.*s is NULL", function, (int)strcspn(names, ","), names);
    return false;
  }
  return true;
}

bool ac_is_status(ac_status status) {
  switch (status) {
#define AC_STATUS_CASE(name, value, text) \
  case AC_##name:                         \
    return true;
    AC_STATUS_LIST(AC_STATUS_CASE)
#undef AC_STATUS_CASE
  }
  return false;
}

const char *ac_status_name(ac_status status) {
  switch (status) {
#define AC_STATUS_NAME(name, value, text) \
  case AC_##name:                         \
    return "AC_" #name;
    AC_STATUS_LIST(AC_STATUS_NAME)
#undef AC_STATUS_NAME
  }
  return "AC_UNKNOWN";
}

const char *ac_status_text(ac_status status) {
  switch (status) {
#define AC_STATUS_TEXT(name, value, text) \
  case AC_##name:                         \
    return text;
    AC_STATUS_LIST(AC_STATUS_TEXT)
#undef AC_STATUS_TEXT
  }
  return "unknown status";
}

static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};

char *ac_format_bytes(char *text, size_t size, uint64_t bytes) {
  double value = (double)bytes;
  int unit = 0;
  while (value >= 1024 && unit < 4) value /= 1024, unit++;
  snprintf(text, size, unit ? "%.1f %s" : "%.0f %s", value, bytes == 1 ? "byte" : units[unit]);
  return text;
}

char *ac_format_bytes_needed(char *text, size_t size, uint64_t bytes) {
  int unit = 0;
  while (unit < 4 && bytes >> 10 * (unit + 1)) unit++;
  if (!unit) return ac_format_bytes(text, size, bytes);
  const uint64_t one = UINT64_C(1) << 10 * unit, rest = (bytes % one * 10 + one - 1) / one;
  const uint64_t tenths = bytes / one * 10 + rest;
  snprintf(text, size, "%llu.%llu %s", (unsigned long long)(tenths / 10),
           (unsigned long long)(tenths % 10), units[unit]);
  return text;
}
