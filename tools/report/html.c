#include "report/html.h"

#include <stdbool.h>
#include <stdint.h>

/* The length of the UTF-8 character that begins here, and the character; 0: there is none. */
static int decode(const unsigned char *s, uint32_t *character) {
  static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const int length = *s < 0x80           ? 1
                     : (*s >> 5) == 0x06 ? 2
                     : (*s >> 4) == 0x0e ? 3
                     : (*s >> 3) == 0x1e ? 4
                                         : 0;
  if (!length) return 0;
  *character = length == 1 ? *s : *s & (0xffu >> (length + 1));
  for (int i = 1; i < length; i++) {
    if ((s[i] & 0xc0) != 0x80) return 0;
    *character = *character << 6 | (s[i] & 0x3f);
  }
  return *character >= least[length] ? length : 0;
}

/* As XML has it. */
static bool is_allowed(uint32_t c) {
  if (c < 0x20) return c == '\t' || c == '\n';
  if (c >= 0x7f && c < 0xa0) return false;
  return (c < 0xd800 || c > 0xdfff) && c != 0xfffe && c != 0xffff && c <= 0x10ffff;
}

static const char *entity(uint32_t c) {
  switch (c) {
  case '&':
    return "&amp;";
  case '<':
    return "&lt;";
  case '>':
    return "&gt;";
  case '"':
    return "&quot;";
  case '\'':
    return "&#39;";
  }
  return NULL;
}

void html_text(FILE *page, const char *text) {
  const unsigned char *s = (const unsigned char *)text;
  while (*s) {
    uint32_t character = 0;
    const int length = decode(s, &character);
    const char *name = entity(character);
    if (!length || !is_allowed(character)) fputs("\xef\xbf\xbd", page);
    else if (name) fputs(name, page);
    else fwrite(s, 1, (size_t)length, page);
    s += length ? length : 1;
  }
}

void html_name(FILE *page, const char *name) {
  fputs("<bdi>", page);
  html_text(page, name);
  fputs("</bdi>", page);
}
