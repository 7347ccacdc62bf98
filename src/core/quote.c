#include "core/quote.h"

#include <stdio.h>

ac_quoted ac_quote(const char *name) {
  ac_quoted quoted;
  snprintf(quoted.text, sizeof quoted.text, "\"%.96s\"", name);
  for (char *c = quoted.text; *c; c++)
    if ((unsigned char)*c < 32 || *c == 127) *c = '?';
  return quoted;
}
