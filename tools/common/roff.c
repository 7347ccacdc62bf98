#include "common/roff.h"

#include <stdbool.h>

/* roff may turn a plain `-` into a hyphen and a quote into a curly one, and then they cannot be
 * copied to a command line. A choice of many words may break after each word. */
void roff_put_character(FILE *out, char c) {
  switch (c) {
  case '\\':
    fputs("\\e", out);
    break;
  case '-':
    fputs("\\-", out);
    break;
  case '\'':
    fputs("\\(aq", out);
    break;
  case '"':
    fputs("\\(dq", out);
    break;
  case '`':
    fputs("\\(ga", out);
    break;
  case '^':
    fputs("\\(ha", out);
    break;
  case '~':
    fputs("\\(ti", out);
    break;
  case '|':
    fputs("|\\:", out);
    break;
  default:
    fputc(c, out);
  }
}

/* At the beginning of a line a point would be a command of roff. Line breaks in the text only
 * belong to the source; the page fills its lines itself. */
void roff_put(FILE *out, const char *text) {
  bool begins = true;
  for (; *text; text++) {
    if (begins && (*text == '.' || *text == '\'')) fputs("\\&", out);
    roff_put_character(out, *text);
    begins = *text == '\n';
  }
}

void roff_put_font(FILE *out, char font, const char *text) {
  fprintf(out, "\\f%c", font);
  roff_put(out, text);
  fputs("\\fR", out);
}
