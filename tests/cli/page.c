/* page FILE: whether a page that accrue report wrote is whole: every tag is closed in its turn,
 * every attribute is in quotes and in its tag once, text is UTF-8 with the entities of XML, ids
 * differ, and ids that are referred to exist. And whether it is self-contained: no scripts, nothing
 * fetched. */
#include <ctype.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 64, NAMES = 4096, NAME = 64 };

typedef struct names {
  char list[NAMES][NAME];
  int count;
} names;

static const char *text, *at;
static names ids, references, attributes;
static char open_tags[DEPTH][NAME];
static int depth;

static void die(const char *format, ...) {
  int line = 1;
  for (const char *c = text; c < at; c++) line += *c == '\n';
  fprintf(stderr, "line %d: ", line);
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  exit(1);
}

static bool has(const names *n, const char *name) {
  for (int i = 0; i < n->count; i++)
    if (!strcmp(n->list[i], name)) return true;
  return false;
}

static void add(names *n, const char *name) {
  const size_t length = strlen(name);
  if (n->count == NAMES || length >= NAME) die("too many names, or one too long");
  memcpy(n->list[n->count++], name, length + 1);
}

static bool starts(const char *word) {
  return !strncmp(at, word, strlen(word));
}

static void take_name(char name[NAME]) {
  size_t length = 0;
  while (isalnum((unsigned char)*at) || *at == '-' || *at == ':' || *at == '_') {
    if (length + 1 == NAME) die("a name is too long");
    name[length++] = *at++;
  }
  name[length] = 0;
  if (!length) die("a name is missing before %.10s", at);
}

static void take_spaces(void) {
  while (isspace((unsigned char)*at)) at++;
}

/* ---- text ------------------------------------------------------------------------------------ */

static void take_entity(void) {
  static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (starts(known[i])) {
      at += strlen(known[i]);
      return;
    }
  die("an ampersand that begins no entity");
}

static void take_character(void) {
  const unsigned char first = (unsigned char)*at;
  const int more = first < 0x80                    ? 0
                   : first >= 0xc2 && first < 0xe0 ? 1
                   : (first >> 4) == 0x0e          ? 2
                   : first >= 0xf0 && first < 0xf5 ? 3
                                                   : -1;
  if (more < 0 || (first < 0x20 && !isspace(first)) || first == 0x7f) die("byte %02x", first);
  for (int i = 1; i <= more; i++)
    if (((unsigned char)at[i] & 0xc0) != 0x80) die("no UTF-8");
  at += 1 + more;
}

static void take_text(void) {
  if (depth) {
    if (!strcmp(open_tags[depth - 1], "style") && (starts("url(") || starts("@"))) die("%.9s", at);
  } else if (!isspace((unsigned char)*at)) die("text outside of all tags");
  if (*at == '&') take_entity();
  else take_character();
}

/* ---- tags ------------------------------------------------------------------------------------ */

static void check_attribute(const char *name, const char *value) {
  const size_t length = strlen(name);
  if (has(&attributes, name)) die("%s is twice in a tag", name);
  add(&attributes, name);
  if (!strcmp(name, "id")) {
    if (has(&ids, value)) die("two elements have the id %s", value);
    add(&ids, value);
  }
  if (length >= 4 && !strcmp(name + length - 4, "href")) {
    if (*value != '#') die("a reference to %s", value);
    add(&references, value + 1);
  }
  static const char within[] = "data:image/png;base64,iVBORw0KGgo";
  if (!strcmp(name, "src") && strncmp(value, within, sizeof within - 1) != 0)
    die("a reference to %.40s", value);
  if (!strncmp(name, "on", 2)) die("an attribute %s", name);
  const char *url = strstr(value, "url(");
  if (url && url[4] != '#') die("a reference: %s", url);
}

static void take_attribute(void) {
  char name[NAME], value[65536];
  take_name(name);
  take_spaces();
  if (*at++ != '=') die("%s has no value", name);
  take_spaces();
  const char quote = *at++;
  if (quote != '"' && quote != '\'') die("%s has a value without quotes", name);
  const char *begin = at;
  while (*at != quote) {
    if (!*at || *at == '<') die("the value of %s does not end", name);
    if (*at == '&') take_entity();
    else take_character();
  }
  snprintf(value, sizeof value, "%.*s", (int)(at - begin), begin);
  at++;
  check_attribute(name, value);
}

static void open_tag(void) {
  static const char *const foreign[] = {"script", "link", "iframe", "object",
                                        "embed",  "base", "form",   "image"};
  char name[NAME];
  take_name(name);
  for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
    if (!strcmp(name, foreign[i])) die("a tag %s", name);
  attributes.count = 0;
  for (take_spaces(); *at != '>' && !starts("/>"); take_spaces()) take_attribute();
  if (*at == '/') {
    at += 2;
    return;
  }
  at++;
  if (depth == DEPTH) die("tags lie too deep");
  strcpy(open_tags[depth++], name);
}

static void close_tag(void) {
  char name[NAME];
  take_name(name);
  take_spaces();
  if (*at++ != '>') die("the end tag %s does not end", name);
  if (!depth || strcmp(open_tags[--depth], name) != 0) die("%s ends where it has not begun", name);
}

static void take_tag(void) {
  at++;
  if (*at == '/') {
    at++;
    close_tag();
  } else open_tag();
}

static char *read_all(const char *path) {
  FILE *file = fopen(path, "r");
  char *all = NULL;
  size_t room = 0;
  if (!file || getdelim(&all, &room, 0, file) < 0) {
    perror(path);
    exit(1);
  }
  if (fgetc(file) != EOF) {
    fprintf(stderr, "a zero byte\n");
    exit(1);
  }
  fclose(file);
  return all;
}

int main(int argc, char **argv) {
  static const char doctype[] = "<!DOCTYPE html>\n";
  if (argc != 2) return 2;
  char *all = read_all(argv[1]);
  text = at = all;
  if (!starts(doctype)) die("no doctype");
  for (at += sizeof doctype - 1; *at;) {
    if (*at == '<') take_tag();
    else take_text();
  }
  if (depth) die("%s does not end", open_tags[depth - 1]);
  for (int i = 0; i < references.count; i++)
    if (!has(&ids, references.list[i])) die("nothing has the id %s", references.list[i]);
  free(all);
  return 0;
}
