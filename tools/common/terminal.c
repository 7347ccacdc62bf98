#include "common/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool terminal_redraws(int descriptor) {
  const char *kind = getenv("TERM");
  return isatty(descriptor) && kind && *kind && strcmp(kind, "dumb") != 0;
}

int terminal_columns(int descriptor) {
  struct winsize size;
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

/* A third of a narrow line; none if no text would fit next to it. */
static int bar_width(int columns) {
  const int width = columns / 3 < TERMINAL_BAR ? columns / 3 : TERMINAL_BAR;
  return width < 8 ? 0 : width;
}

void terminal_draw(long long done, long long all, const char *text) {
  const int columns = terminal_columns(STDERR_FILENO) - 1; /* the last one would wrap */
  const int width = all > 0 ? bar_width(columns) : 0;
  char bar[TERMINAL_BAR + 2] = "";
  for (int i = 0; i < width; i++)
    bar[i] = (double)i < (double)width * (double)done / (double)all ? '#' : '.';
  if (width) bar[width] = ' ', bar[width + 1] = 0;
  const int used = width ? width + 1 : 0;
  fprintf(stderr, "\r\033[K%s%.*s", bar, columns > used ? columns - used : 0, text);
  fflush(stderr);
}

void terminal_erase(void) {
  fputs("\r\033[K", stderr);
}
