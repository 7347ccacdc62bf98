#include "common/gnuplot.h"

#include "common/message.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* Text between double quotes may have any byte as three octal digits. Characters without meaning
 * for gnuplot stay readable. All others are written so: quotes, backslashes, backquotes, which
 * would run a command, and line breaks, which would begin one. */
void gnuplot_quote(FILE *pipe, const char *text) {
  static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              " _-.,:;/+=()[]<>";
  fputc('"', pipe);
  for (; *text; text++) {
    if (strchr(plain, *text)) fputc(*text, pipe);
    else fprintf(pipe, "\\%03o", (unsigned)(unsigned char)*text);
  }
  fputc('"', pipe);
}

/* gnuplot does not take a name that begins with ~ or | for a file. */
static void put_path(FILE *pipe, const char *path) {
  char whole[REPLACEMENT_PATH + 2];
  snprintf(whole, sizeof whole, "%s%s", *path == '/' ? "" : "./", path);
  gnuplot_quote(pipe, whole);
}

/* -d: the pictures do not depend on what is in ~/.gnuplot. */
int gnuplot_open(gnuplot *g, const char *path, int width, int height) {
  if (!replacement_open(&g->file, path)) return fail("cannot write %s: %s", path, strerror(errno));
  signal(SIGPIPE, SIG_IGN);
  g->pipe = popen("gnuplot -d 2>/dev/null", "w");
  if (!g->pipe) {
    replacement_abandon(&g->file);
    return fail("cannot start gnuplot: %s", strerror(errno));
  }
  fprintf(g->pipe, "set terminal svg size %d,%d background 'white'\nset output ", width, height);
  put_path(g->pipe, g->file.temporary);
  fputc('\n', g->pipe);
  return STATUS_CONTINUE;
}

static int fail_to_draw(const char *path) {
  return fail("gnuplot did not draw %s; is gnuplot (Debian: gnuplot-nox) installed?", path);
}

int gnuplot_check(const char *path) {
  gnuplot g;
  int status = gnuplot_open(&g, path, 100, 100);
  if (status != STATUS_CONTINUE) return status;
  bool works = pclose(g.pipe) == 0;
  replacement_abandon(&g.file);
  return works ? STATUS_CONTINUE : fail_to_draw(path);
}

/* Draws. False: the picture is not complete, whatever gnuplot's exit status says. */
static bool is_drawn(gnuplot *g) {
  static const char end[] = "</svg>";
  char last[64] = "";
  if (pclose(g->pipe) != 0) return false;
  FILE *file = fopen(g->file.temporary, "rb");
  if (!file) return false;
  if (fseek(file, -(long)sizeof last + 1, SEEK_END) == 0)
    last[fread(last, 1, sizeof last - 1, file)] = 0;
  fclose(file);
  return strstr(last, end) != NULL;
}

int gnuplot_close(gnuplot *g, bool good) {
  bool drawn = is_drawn(g);
  if (good && drawn) {
    if (replacement_commit(&g->file)) return STATUS_CONTINUE;
    return fail("cannot write %s: %s", g->file.path, strerror(errno));
  }
  replacement_abandon(&g->file);
  return good ? fail_to_draw(g->file.path) : STATUS_CONTINUE;
}

/* NULL, with the reason in errno, if it cannot be read. */
static char *read_text(const char *path) {
  FILE *file = fopen(path, "r");
  if (!file) return NULL;
  char *text = NULL;
  size_t room = 0;
  const ssize_t length = getdelim(&text, &room, 0, file);
  fclose(file);
  if (length >= 0) return text;
  free(text);
  return NULL;
}

int gnuplot_take(gnuplot *g, char **svg) {
  const bool drawn = is_drawn(g);
  *svg = drawn ? read_text(g->file.temporary) : NULL;
  replacement_abandon(&g->file);
  return *svg ? STATUS_CONTINUE : fail_to_draw(g->file.path);
}
