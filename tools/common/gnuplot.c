#include "common/gnuplot.h"

#include "common/message.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* gnuplot reads a path between single quotes, where a quote is written twice. */
static void put_path(FILE *pipe, const char *path) {
  fputc('\'', pipe);
  for (; *path; path++) {
    if (*path == '\'') fputc('\'', pipe);
    fputc(*path, pipe);
  }
  fputc('\'', pipe);
}

int gnuplot_open(gnuplot *g, const char *path, int width, int height) {
  if (!replacement_open(&g->file, path)) return fail("cannot write %s: %s", path, strerror(errno));
  signal(SIGPIPE, SIG_IGN);
  g->pipe = popen("gnuplot 2>/dev/null", "w");
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

int gnuplot_close(gnuplot *g, bool good) {
  bool drawn = pclose(g->pipe) == 0;
  if (good && drawn) {
    if (replacement_commit(&g->file)) return STATUS_CONTINUE;
    return fail("cannot write %s: %s", g->file.path, strerror(errno));
  }
  replacement_abandon(&g->file);
  return good ? fail_to_draw(g->file.path) : STATUS_CONTINUE;
}

/* NULL, with the reason in errno, where it cannot be read. */
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
  const bool drawn = pclose(g->pipe) == 0;
  *svg = drawn ? read_text(g->file.temporary) : NULL;
  replacement_abandon(&g->file);
  return *svg ? STATUS_CONTINUE : fail_to_draw(g->file.path);
}
