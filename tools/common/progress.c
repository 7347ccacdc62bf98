#include "common/progress.h"

#include "common/accuracy.h"
#include "common/terminal.h"
#include "common/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double progress_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

enum { LINE = 256 };

/* "812 tokens/s, 40 s left", from what the clock on the wall says, evaluations included. */
static void add_rate(const progress *p, int64_t step, char line[LINE]) {
  const double elapsed = progress_clock() - p->began;
  size_t used = strlen(line);
  if (step <= p->first || elapsed <= 0) return;
  snprintf(line + used, LINE - used, "  %s %ss/s",
           text_count((int64_t)(p->samples * p->units_per_sample / elapsed)).text, p->unit);
  used = strlen(line);
  if (p->steps > step)
    snprintf(line + used, LINE - used, "  %s left",
             text_time(elapsed / (double)(step - p->first) * (double)(p->steps - step)).text);
}

static void write_line(const progress *p, int64_t step, char line[LINE]) {
  int used = snprintf(line, LINE, "%" PRId64 "/%" PRId64, step, p->steps);
  if (p->updated)
    used += snprintf(line + used, LINE - (size_t)used, "  loss %s", text_fixed(p->loss, 4).text);
  if (p->skipped) snprintf(line + used, LINE - (size_t)used, "  %" PRId64 " skipped", p->skipped);
  add_rate(p, step, line);
}

static void draw_bar(progress *p, int64_t step) {
  char line[LINE];
  write_line(p, step, line);
  terminal_draw(step, p->steps, line);
  p->drawn = progress_clock();
}

void progress_begin(progress *p, int64_t steps, const char *unit, int64_t units_per_sample,
                    bool quiet) {
  double now = progress_clock();
  *p = (progress){.terminal = terminal_redraws(STDERR_FILENO),
                  .quiet = quiet,
                  .told = now,
                  .steps = steps,
                  .unit = unit,
                  .units_per_sample = (double)units_per_sample,
                  .began = now};
  progress_show(p, 0); /* the first window may take long: drivers compile in it */
}

void progress_clear(progress *p) {
  if (p->terminal && p->drawn > 0) terminal_erase();
  p->drawn = 0;
}

void progress_show(progress *p, int64_t step) {
  if (p->terminal && !p->quiet) draw_bar(p, step);
}

void progress_evaluation(progress *p, int64_t done, int64_t all) {
  enum { LINES_APART = 10 }; /* seconds, where there is no terminal */
  const double now = progress_clock();
  char line[LINE];
  if (p->quiet || all <= 0 || now - p->told < (p->terminal ? 0.1 : LINES_APART)) return;
  p->told = now;
  if (done > all) done = all;
  snprintf(line, LINE, "validating %" PRId64 "/%" PRId64, done, all);
  if (p->terminal) terminal_draw(done, all, line), p->drawn = now;
  else fprintf(stderr, "%s\n", line);
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
    if (progress_clock() - p->drawn < 0.1 && event->step < p->steps) return;
    draw_bar(p, event->step);
  } else if (p->steps >= 10 && event->step % (p->steps / 10) == 0) {
    char line[LINE];
    write_line(p, event->step, line);
    fprintf(stderr, "step %s\n", line);
  }
}

void progress_fit(progress *p, const ac_fit_event *event) {
  if (p->quiet) return;
  if (event->kind == AC_FIT_STEP) {
    step_done(p, event);
    return;
  }
  if (event->kind == AC_FIT_TRAINED) return;
  progress_clear(p);
  const double iou = mean_iou_of(&event->evaluation);
  fprintf(stderr, "step %" PRId64 "/%" PRId64 "  validation loss %s  accuracy %s %%", event->step,
          p->steps, text_fixed(event->evaluation.loss, 4).text,
          text_fixed(100 * accuracy_of(&event->evaluation), 2).text);
  if (!isnan(iou)) fprintf(stderr, "  mean IoU %s %%", text_fixed(100 * iou, 2).text);
  fputc('\n', stderr);
}
