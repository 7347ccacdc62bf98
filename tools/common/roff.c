#include "common/roff.h"

#include <stdbool.h>

/* A plain `-` may become a hyphen, a quote a curly one, and neither can then be copied to a command
 * line. A choice of many words may break after each. */
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

/* At the beginning of a line a point would be a request. A line break in the text is one of the
 * source, and the page flows over it. */
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
