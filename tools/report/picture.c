#include "report/picture.h"

#include <string.h>

/* The length of the text before an id or a reference to one; 0: there is none here. */
static size_t before_id(const char *at) {
  static const char *const introductions[] = {" id='", " id=\"", "href='#", "href=\"#", "url(#"};
  for (size_t i = 0; i < sizeof introductions / sizeof *introductions; i++) {
    const size_t length = strlen(introductions[i]);
    if (!strncmp(at, introductions[i], length)) return length;
  }
  return 0;
}

/* The end of an element that a browser would show as a hint over a curve, without any information.
 */
static const char *after_title(const char *at) {
  static const char end[] = "</title>";
  if (strncmp(at, "<title>", 7)) return NULL;
  const char *found = strstr(at, end);
  return found ? found + sizeof end - 1 : NULL;
}

/* Leaves out what only a separate file needs: all before the first tag, and this tag, which has a
 * fixed size. */
static const char *inside(const char *svg) {
  const char *tag = strstr(svg, "<svg");
  const char *end = tag ? strchr(tag, '>') : NULL;
  return end ? end + 1 : "</svg>";
}

void picture_embed(FILE *page, const char *svg, const picture *p) {
  fprintf(page,
          "<svg class=\"curves\" viewBox=\"0 0 %d %d\" xmlns=\"http://www.w3.org/2000/svg\" "
          "xmlns:xlink=\"http://www.w3.org/1999/xlink\" role=\"img\" aria-label=\"%s\">",
          p->width, p->height, p->label);
  for (const char *at = inside(svg); *at;) {
    const char *end = after_title(at);
    const size_t length = before_id(at);
    if (end) at = end;
    else if (length) {
      fprintf(page, "%.*sp%d-", (int)length, at, p->number);
      at += length;
    } else fputc(*at++, page);
  }
}
