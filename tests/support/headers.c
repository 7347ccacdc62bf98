#include "headers.h"

int declared_count;

declared declarations[MOST_DECLARED];

/* Copies without comments and with single spaces. */
static char *read_header(const char *name) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", AC_TEST_HEADERS, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  enum { MOST = 1 << 17 };
  char *from = calloc(1, MOST), *text = calloc(1, MOST);
  assert_true(fread(from, 1, MOST, file) < MOST - 1);
  fclose(file);
  size_t used = 0;
  for (const char *c = from; *c; c++) {
    if (!strncmp(c, "/*", 2)) c = strstr(c, "*/") + 1;
    else if (!isspace((unsigned char)*c)) text[used++] = *c;
    else if (used && text[used - 1] != ' ') text[used++] = ' ';
  }
  free(from);
  return text;
}

static void take_declaration(const char *text, size_t length) {
  assert_true(declared_count < MOST_DECLARED);
  declared *d = &declarations[declared_count++];
  const char *open = memchr(text, '(', length), *name = open, *end = text + length - 1;
  assert_non_null(open);
  assert_true(*end == ')');
  while (isalnum((unsigned char)name[-1]) || name[-1] == '_') name--;
  snprintf(d->name, sizeof d->name, "%.*s", (int)(open - name), name);
  snprintf(d->result, sizeof d->result, "%.*s", (int)(name - text), text);
  for (const char *at = open + 1; at < end; d->count++) {
    size_t size = strcspn(at, ",)");
    assert_true(d->count < MOST_PARAMETERS && size < sizeof *d->parameter);
    snprintf(d->parameter[d->count], sizeof *d->parameter, "%.*s", (int)size, at);
    at += size + 1;
    at += *at == ' ';
  }
  if (d->count == 1 && !strcmp(d->parameter[0], "void")) d->count = 0;
}

void read_declarations(void) {
  char *all = read_header("accrue.h");
  declared_count = 0;
  for (const char *at = all; (at = strstr(at, "#include <accrue/")); at++) {
    char name[64];
    assert_int_equal(sscanf(at, "#include <accrue/%63[^>]>", name), 1);
    char *text = read_header(name);
    const char *next = text;
    while ((next = strstr(next, "AC_API "))) {
      next += strlen("AC_API ");
      if (*next == '_' || *next == '#') continue; /* where it is defined */
      take_declaration(next, strcspn(next, ";"));
    }
    free(text);
  }
  free(all);
  assert_true(declared_count > 100);
}
