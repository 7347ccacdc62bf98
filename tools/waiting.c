#include "waiting.h"

#include "progress.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Seconds before a wait is worth a word, and between two lines where there is no terminal. */
static const double first_bar = 0.3, first_line = 1, next_line = 10;

static struct {
  bool waiting;
  double began, said; /* clock readings; said 0: nothing yet */
  int done, all;      /* of the latest line that counts */
} state;

static void draw(const char *line) {
  enum { WIDTH = 24, COLUMNS = 79 };
  int room = COLUMNS;
  fputs("\r\033[K", stderr);
  if (state.all > 0) {
    char bar[WIDTH + 1];
    for (int i = 0; i < WIDTH; i++) bar[i] = i < WIDTH * state.done / state.all ? '#' : '.';
    bar[WIDTH] = 0;
    fprintf(stderr, "%s ", bar);
    room -= WIDTH + 1;
  }
  /* Whatever is written next overwrites it. */
  fprintf(stderr, "%.*s\r", room, line);
  fflush(stderr);
}

static void go_on(const char *line, bool terminal, double now) {
  int done, all;
  const char *counts = strrchr(line, '(');
  if (!state.waiting) {
    state.waiting = true;
    state.began = now;
    state.said = 0;
    state.all = 0;
  }
  if (counts && sscanf(counts, "(%d of %d)", &done, &all) == 2 && done <= all) {
    state.done = done;
    state.all = all;
  }
  const double waited = now - state.began;
  if (terminal && waited >= first_bar) draw(line);
  else if (!terminal && (state.said > 0 ? now - state.said >= next_line : waited >= first_line))
    fprintf(stderr, "%s\n", line);
  else return;
  state.said = now;
}

/* Short waits leave nothing behind. */
static void end(const char *line, bool terminal, double now) {
  const bool was_long = state.waiting && now - state.began >= first_line;
  if (terminal && state.waiting && state.said > 0) fputs("\r\033[K", stderr);
  if (was_long) fprintf(stderr, "%s\n", line);
  state.waiting = false;
}

void waiting_log(void *user, ac_log_level level, const char *line) {
  static const char ongoing[] = "...";
  (void)user;
  const bool terminal = isatty(STDERR_FILENO);
  const size_t length = strlen(line), dots = sizeof ongoing - 1;
  if (level == AC_LOG_DEBUG) return;
  if (length >= dots && !strcmp(line + length - dots, ongoing))
    go_on(line, terminal, progress_clock());
  else end(line, terminal, progress_clock());
}
