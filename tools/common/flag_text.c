#include "common/flag_text.h"

#include "common/roff.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef enum block_kind { PARAGRAPH, ITEM, CODE, NOTHING } block_kind;

/* ---- blocks ---------------------------------------------------------------------------------- */

static const char *line_end(const char *line) {
  return line + strcspn(line, "\n");
}

static const char *line_after(const char *line) {
  const char *end = line_end(line);
  return *end ? end + 1 : end;
}

static bool is_blank(const char *line) {
  return line + strspn(line, " ") == line_end(line);
}

static block_kind kind_of(const char *line) {
  if (!*line || is_blank(line)) return NOTHING;
  if (!strncmp(line, "```", 3) || !strncmp(line, "    ", 4)) return CODE;
  return strncmp(line, "- ", 2) ? PARAGRAPH : ITEM;
}

/* "[words](address)" at `text`; where the words end, or NULL. */
static const char *end_of_link(const char *text, const char *end) {
  const char *close = memchr(text, ']', (size_t)(end - text));
  return close && close + 1 < end && close[1] == '(' ? close : NULL;
}

/* The page of a link out of docs/flags or docs/commands, from the root of the source. Nothing for a
 * link within the folder, as its words name a flag or a command. */
static void add_address(FILE *out, const char *address, const char *end) {
  const char *mark = memchr(address, '#', (size_t)(end - address));
  if (mark) end = mark;
  if (end - address > 3 && !memcmp(address, "../", 3))
    fprintf(out, " (docs/%.*s)", (int)(end - address) - 3, address + 3);
}

/* Prose of one line without its marks, and one blank for a line break. */
static void add_prose(FILE *out, const char *text, const char *end) {
  bool code = false;
  while (text < end) {
    const char *close = *text == '[' && !code ? end_of_link(text, end) : NULL;
    if (close) {
      const char *rest = memchr(close, ')', (size_t)(end - close));
      add_prose(out, text + 1, close);
      add_address(out, close + 2, rest ? rest : end);
      text = rest ? rest + 1 : end;
    } else if (*text == '`') code = !code, text++;
    else if (!code && text[0] == '*' && text + 1 < end && text[1] == '*') text += 2;
    else if (*text == '\n') {
      fputc(' ', out);
      text += 1 + strspn(text + 1, " ");
    } else fputc(*text++, out);
  }
}

static const char *add_code(FILE *out, const char *at) {
  const bool fenced = *at == '`';
  if (fenced) at = line_after(at);
  while (*at && (fenced ? strncmp(at, "```", 3) != 0 : kind_of(at) == CODE || is_blank(at))) {
    const char *line = fenced || is_blank(at) ? at : at + 4;
    const char *next = line_after(at);
    if (!fenced && is_blank(at) && kind_of(next) != CODE) break;
    fprintf(out, "%.*s\n", (int)(line_end(line) - line), line);
    at = next;
  }
  return fenced && *at ? line_after(at) : at;
}

/* The next block and what follows it; NULL at the end or for want of memory. Free the text. */
static char *next_block(const char **at, block_kind *kind) {
  char *text = NULL;
  size_t size;
  while (**at && is_blank(*at)) *at = line_after(*at);
  *kind = kind_of(*at);
  FILE *out = *kind == NOTHING ? NULL : open_memstream(&text, &size);
  if (!out) return NULL;
  if (*kind == CODE) *at = add_code(out, *at);
  else {
    const char *begin = *kind == ITEM ? *at + 2 : *at, *end = line_after(*at);
    while (kind_of(end) == PARAGRAPH) end = line_after(end);
    *at = end;
    while (end > begin && end[-1] == '\n') end--;
    add_prose(out, begin, end);
  }
  if (fclose(out) == 0) return text;
  free(text);
  return NULL;
}

/* ---- terminals ------------------------------------------------------------------------------- */

void flag_text_wrap(FILE *out, const char *text, int at, int indent, int width) {
  bool first = true;
  for (text += strspn(text, " \n"); *text; text += strspn(text, " \n")) {
    const int length = (int)strcspn(text, " \n");
    const bool breaks = !first && at + 1 + length > width;
    if (breaks) fprintf(out, "\n%*s", at = indent, "");
    else if (!first) fputc(' ', out), at++;
    fprintf(out, "%.*s", length, text);
    at += length;
    text += length;
    first = false;
  }
  fputc('\n', out);
}

void flag_text_put(FILE *out, const char *text, int indent, int width) {
  block_kind kind, before = NOTHING;
  for (char *block; (block = next_block(&text, &kind)); free(block), before = kind) {
    if (before != NOTHING && !(before == ITEM && kind == ITEM)) fputc('\n', out);
    if (kind == CODE) {
      for (const char *line = block; *line; line = line_after(line))
        fprintf(out, "%*s%.*s\n", is_blank(line) ? 0 : indent + 4, "", (int)(line_end(line) - line),
                line);
      continue;
    }
    fprintf(out, "%*s%s", indent, "", kind == ITEM ? "- " : "");
    const int begin = indent + (kind == ITEM ? 2 : 0);
    flag_text_wrap(out, block, begin, begin, width);
  }
}

/* ---- pages of the manual --------------------------------------------------------------------- */

void flag_text_put_roff(FILE *out, const char *text, const char *next) {
  block_kind kind, before = NOTHING;
  for (char *block; (block = next_block(&text, &kind)); free(block), before = kind) {
    if (kind == PARAGRAPH && before != NOTHING) fprintf(out, "%s\n", next);
    if (kind == ITEM) fputs(".RS\n.IP \\(bu 2\n", out);
    if (kind == CODE) fputs(strcmp(next, ".PP") ? ".RS\n.nf\n" : ".PP\n.RS\n.nf\n", out);
    roff_put(out, block);
    if (kind != CODE) fputc('\n', out);
    if (kind == CODE) fputs(".fi\n", out);
    if (kind != PARAGRAPH) fputs(".RE\n", out);
  }
}
