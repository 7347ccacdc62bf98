#include "common/progress.h"

#include "common/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

double progress_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* "812 tokens/s, 40 s left", from what the clock on the wall says, evaluations included. */
static void write_rate(const progress *p, int64_t step) {
  double elapsed = progress_clock() - p->began;
  if (step <= p->first || elapsed <= 0) return;
  fprintf(stderr, "  %s %ss/s",
          text_count((int64_t)(p->samples * p->units_per_sample / elapsed)).text, p->unit);
  if (p->steps > step)
    fprintf(stderr, "  %s left",
            text_time(elapsed / (double)(step - p->first) * (double)(p->steps - step)).text);
}

static void write_loss(const progress *p, int64_t step) {
  fprintf(stderr, "%" PRId64 "/%" PRId64, step, p->steps);
  if (p->updated) fprintf(stderr, "  loss %.4f", p->loss);
  if (p->skipped) fprintf(stderr, "  %" PRId64 " skipped", p->skipped);
}

static void draw_bar(progress *p, int64_t step) {
  enum { WIDTH = 24 };
  char bar[WIDTH + 1];
  int filled = p->steps > 0 ? (int)(WIDTH * step / p->steps) : 0;
  for (int i = 0; i < WIDTH; i++) bar[i] = i < filled ? '#' : '.';
  bar[WIDTH] = 0;
  fprintf(stderr, "\r\033[K%s ", bar);
  write_loss(p, step);
  write_rate(p, step);
  fflush(stderr);
}

void progress_begin(progress *p, int64_t steps, const char *unit, int64_t units_per_sample) {
  double now = progress_clock();
  *p = (progress){.terminal = isatty(STDERR_FILENO),
                  .steps = steps,
                  .unit = unit,
                  .units_per_sample = (double)units_per_sample,
                  .began = now};
  progress_show(p, 0); /* the first window may take long: drivers compile in it */
}

void progress_clear(progress *p) {
  if (p->terminal && p->drawn > 0) fputs("\r\033[K", stderr);
  p->drawn = 0;
}

void progress_show(progress *p, int64_t step) {
  if (!p->terminal) return;
  draw_bar(p, step);
  p->drawn = progress_clock();
}

/* The loss of a window that was skipped may not even be a number. */
static void note_loss(progress *p, const ac_update *update) {
  if (update->skipped) p->skipped++;
  else if (p->updated) p->loss += 0.05 * (update->loss - p->loss);
  else p->loss = update->loss, p->updated = true;
}

static void step_done(progress *p, const ac_fit_event *event) {
  note_loss(p, &event->update);
  if (event->replayed) return;
  if (!p->first) {
    p->first = event->step;
    p->began = progress_clock();
  } else {
    p->samples += (double)event->samples;
  }
  if (p->terminal) {
    double now = progress_clock();
    if (now - p->drawn < 0.1 && event->step < p->steps) return;
    draw_bar(p, event->step);
    p->drawn = now;
  } else if (p->steps >= 10 && event->step % (p->steps / 10) == 0) {
    fputs("step ", stderr);
    write_loss(p, event->step);
    write_rate(p, event->step);
    fputc('\n', stderr);
  }
}

void progress_fit(progress *p, const ac_fit_event *event) {
  if (event->kind == AC_FIT_STEP) {
    step_done(p, event);
    return;
  }
  if (event->kind == AC_FIT_TRAINED) return;
  progress_clear(p);
  fprintf(stderr, "step %" PRId64 "/%" PRId64 "  validation loss %.4f", event->step, p->steps,
          event->evaluation.loss);
  if (event->evaluation.accuracy > 0)
    fprintf(stderr, "  accuracy %.2f %%", 100 * event->evaluation.accuracy);
  fputc('\n', stderr);
}
