#include "report/curves.h"

#include "common/gnuplot.h"
#include "common/message.h"
#include "report/html.h"
#include "report/picture.h"

#include <math.h>
#include <stdlib.h>

/* ---- what is drawn --------------------------------------------------------------------------- */

typedef enum scale { LINEAR, FALLING, POWERS_OF_TWO } scale; /* falling: logarithmic if asked for */

typedef enum source { STEPS, EVALUATIONS, AVERAGES } source;

typedef struct quantity {
  const char *title, *unit;
  history_value value;
  source source;
  bool smooth; /* also smoothed */
  scale scale;
  double factor;
} quantity;

static const quantity quantities[] = {
    {"Training loss", "nats", HISTORY_LOSS, STEPS, true, FALLING, 1},
    {"Validation loss", "nats", HISTORY_LOSS, EVALUATIONS, false, FALLING, 1},
    {"Validation loss of averaged weights", "nats", HISTORY_LOSS, AVERAGES, false, FALLING, 1},
    {"Validation accuracy", "%", HISTORY_ACCURACY, EVALUATIONS, false, LINEAR, 100},
    {"Validation mean IoU", "%", HISTORY_MEAN_IOU, EVALUATIONS, false, LINEAR, 100},
    {"Gradient norm", "before clipping", HISTORY_GRAD_NORM, STEPS, true, FALLING, 1},
    {"Learning rate", "", HISTORY_LR, STEPS, false, LINEAR, 1},
    {"Effective batch", "samples", HISTORY_BATCH, STEPS, false, LINEAR, 1},
    {"Loss scale", "", HISTORY_LOSS_SCALE, STEPS, false, POWERS_OF_TWO, 1},
    {"Throughput", "samples a second", HISTORY_RATE, STEPS, true, LINEAR, 1},
};

enum { QUANTITIES = sizeof quantities / sizeof *quantities };

typedef struct drawing {
  const curves *curves;
  const quantity *quantity;
  bool log;
  double last_step; /* of all runs, evaluations included */
} drawing;

static const history_series *series_of(const drawing *d, size_t run) {
  const history *h = &d->curves->runs[run];
  return d->quantity->source == STEPS         ? &h->steps
         : d->quantity->source == EVALUATIONS ? &h->evaluations
                                              : &h->averages;
}

/* NAN if there is no value, or none on this scale. */
static double value_at(const drawing *d, const history_series *s, size_t index) {
  const double x = s->points[index].values[d->quantity->value] * d->quantity->factor;
  return d->log && !(x > 0) ? NAN : x;
}

/* How many values there are to draw, and their range. */
typedef struct range {
  size_t count;
  double least, most;
} range;

static range range_of(const drawing *d, size_t run) {
  const history_series *s = series_of(d, run);
  range r = {0, INFINITY, -INFINITY};
  for (size_t i = 0; i < s->count; i++) {
    const double x = value_at(d, s, i);
    if (isnan(x)) continue;
    r.count++;
    r.least = fmin(r.least, x);
    r.most = fmax(r.most, x);
  }
  return r;
}

/* Batches by a schedule, or grown ones; otherwise only the last windows of epochs are smaller. */
static bool has_batches(const history *h) {
  return json_is_string(json_object_get(json_object_get(h->record, "flags"), "batch"));
}

/* Models that have no accuracy report none or 0. A loss scale that never changes is not drawn. */
static bool is_shown(const drawing *d) {
  for (size_t run = 0; run < d->curves->count; run++) {
    const range r = range_of(d, run);
    const bool shown = d->quantity->value == HISTORY_ACCURACY     ? r.most > 0
                       : d->quantity->value == HISTORY_LOSS_SCALE ? r.most > r.least
                       : d->quantity->value == HISTORY_BATCH ? has_batches(&d->curves->runs[run])
                                                             : true;
    if (r.count && shown) return true;
  }
  return false;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static const char *colour(size_t run) {
  static const char *const colours[] = {"4c72b0", "c44e52", "3f8f55", "8172b3",
                                        "c96a24", "7a5f4f", "c25fa5", "6b6b6b"};
  return colours[run % (sizeof colours / sizeof *colours)];
}

/* "": a whole line. When all colours are used, the next runs have other dashes. */
static const char *dashes(size_t run) {
  static const char *const all[] = {"", "9,4", "2,3", "12,3,2,3", "5,2"};
  return all[run % (sizeof all / sizeof *all)];
}

void curves_key(FILE *page, size_t run) {
  fprintf(page,
          "<svg class=\"key\" viewBox=\"0 0 44 10\" aria-hidden=\"true\"><path d=\"M0 5H44\" "
          "stroke=\"#%s\" stroke-width=\"3\" stroke-dasharray=\"%s\"/></svg>",
          colour(run), *dashes(run) ? dashes(run) : "none");
}

/* ---- data ------------------------------------------------------------------------------------ */

/* The number of values that a picture has room for. A longer series is cut into so many parts: the
 * picture shows the least and the greatest value of each part, and smooths the means of the parts.
 */
enum { PARTS = 300 };

typedef struct part {
  size_t first, last;
  size_t least, most, count; /* the places of these values; how many there are */
  double sum;
} part;

static part part_of(const drawing *d, const history_series *s, size_t begin, size_t end) {
  part p = {.first = begin, .last = end - 1, .least = begin, .most = begin};
  for (size_t i = begin; i < end; i++) {
    const double x = value_at(d, s, i);
    if (isnan(x)) continue;
    if (!p.count || x < value_at(d, s, p.least)) p.least = i;
    if (!p.count || x > value_at(d, s, p.most)) p.most = i;
    p.sum += x;
    p.count++;
  }
  return p;
}

/* A run that is shorter than others has its share of the width. */
static size_t count_parts(const drawing *d, const history_series *s) {
  const double share = s->count ? s->points[s->count - 1].step / d->last_step : 0;
  const size_t most = (size_t)fmin(PARTS, fmax(20, PARTS * share));
  return s->count < most ? s->count : most;
}

/* The series is short enough for a line through all values; otherwise a band from least to greatest
 * is drawn. */
static bool is_line(const drawing *d, const history_series *s) {
  return s->count == count_parts(d, s) || !d->quantity->smooth;
}

/* Numbers on the axis stay short. */
static double step_factor(const drawing *d) {
  return d->last_step > 20000 ? 1e-3 : 1;
}

static void put_value(FILE *pipe, const drawing *d, const history_series *s, size_t index) {
  fprintf(pipe, "%.9g %.9g\n", s->points[index].step * step_factor(d), value_at(d, s, index));
}

static double middle(const drawing *d, const history_series *s, const part *p) {
  return (s->points[p->first].step + s->points[p->last].step) / 2 * step_factor(d);
}

static void put_extremes(FILE *pipe, const drawing *d, const history_series *s, const part *p) {
  const size_t first = p->least < p->most ? p->least : p->most;
  if (!is_line(d, s)) {
    fprintf(pipe, "%.9g %.9g %.9g\n", middle(d, s, p), value_at(d, s, p->least),
            value_at(d, s, p->most));
    return;
  }
  put_value(pipe, d, s, first);
  if (p->least != p->most) put_value(pipe, d, s, p->least + p->most - first);
}

/* A smoothed curve ends in its last point, which may be one small batch: it gets the mean of a few.
 */
static void calm_end(part *all, size_t parts) {
  part *last = &all[parts - 1];
  for (size_t i = parts - 1, seen = 0; i-- > 0 && seen < parts / 20; seen++) {
    last->sum += all[i].sum;
    last->count += all[i].count;
  }
}

static void put_mean(FILE *pipe, const drawing *d, const history_series *s, const part *p) {
  fprintf(pipe, "%.9g %.9g\n", middle(d, s, p), p->count ? p->sum / (double)p->count : NAN);
}

/* The blocks $rawN and $meanN. A missing value is NaN there, and the line has a gap. The means pass
 * over gaps that are shorter than what smoothing sees at once. */
static void put_blocks(FILE *pipe, const drawing *d, size_t run) {
  const history_series *s = series_of(d, run);
  const size_t parts = count_parts(d, s);
  part all[PARTS];
  fprintf(pipe, "$raw%zu << EOD\n", run);
  for (size_t i = 0; i < parts; i++) {
    all[i] = part_of(d, s, i * s->count / parts, (i + 1) * s->count / parts);
    put_extremes(pipe, d, s, &all[i]);
  }
  if (parts) calm_end(all, parts);
  fprintf(pipe, "EOD\n$mean%zu << EOD\n", run);
  for (size_t i = 0, empty = 0; i < parts; i++) {
    empty = all[i].count ? 0 : empty + 1;
    if (all[i].count || empty == parts / 25 + 1) put_mean(pipe, d, s, &all[i]);
  }
  fprintf(pipe, "EOD\n");
}

/* ---- a picture ------------------------------------------------------------------------------- */

/* Few enough for a mark each. */
static bool has_marks(const history_series *s) {
  return s->count <= 40;
}

/* Between few values there is nothing to smooth. */
static bool is_smoothed(const drawing *d, size_t run) {
  return d->quantity->smooth && range_of(d, run).count > 4;
}

static void put_line(FILE *pipe, size_t run) {
  if (*dashes(run)) fprintf(pipe, " lw 2 dt (%s)", dashes(run));
  else fprintf(pipe, " lw 2 dt 1");
}

static void put_raw(FILE *pipe, const drawing *d, size_t run) {
  const history_series *s = series_of(d, run);
  const bool pale = is_smoothed(d, run);
  if (!is_line(d, s)) {
    fprintf(pipe,
            "$raw%zu using 1:2:3 with filledcurves fs transparent solid 0.35 noborder lc rgb '#%s'",
            run, colour(run));
    return;
  }
  fprintf(pipe, "$raw%zu using 1:2 with %s lc rgb '#%s%s'", run,
          has_marks(s) ? "linespoints pt 7 ps 0.3" : "lines", pale ? "a0" : "", colour(run));
  if (pale) fprintf(pipe, " lw 1 dt 1");
  else put_line(pipe, run);
}

static void put_smoothed(FILE *pipe, size_t run) {
  fprintf(pipe, "$mean%zu using 1:2 smooth bezier with lines lc rgb '#%s'", run, colour(run));
  put_line(pipe, run);
}

/* Within a few decades, powers of ten alone would be too few numbers on the axis. */
static void put_log_axis(FILE *pipe, const drawing *d) {
  double least = INFINITY, most = 0;
  for (size_t run = 0; run < d->curves->count; run++) {
    const range r = range_of(d, run);
    least = fmin(least, r.least);
    most = fmax(most, r.most);
  }
  fprintf(pipe, "set logscale y\n");
  const double first = floor(log10(least)), last = ceil(log10(most));
  for (double decade = first; last - first <= 3 && decade < last; decade++)
    fprintf(pipe, "set ytics add (2e%.0f, 5e%.0f)\n", decade, decade);
}

static void put_axes(FILE *pipe, const drawing *d) {
  fprintf(pipe,
          "set termoption font 'sans-serif,14'\nset termoption noenhanced\nset key off\n"
          "set border 3 lc rgb '#555555'\nset tics nomirror scale 0.5\nset samples 250\n"
          "set grid lc rgb '#dddddd' dt 1\nset format '%%.6g'\nset tmargin 0.7\n"
          "set xlabel '%s' offset 0, 0.4\nset xrange [0:%.9g]\n",
          step_factor(d) < 1 ? "step, in thousands" : "step", d->last_step * step_factor(d));
  if (d->quantity->scale == POWERS_OF_TWO) fputs("set logscale y 2\nset format y '2^%L'\n", pipe);
  else if (d->log) put_log_axis(pipe, d);
}

/* The smoothed curves lie above all others. */
static void put_plot(FILE *pipe, const drawing *d) {
  const char *before = "plot ";
  for (size_t run = 0; run < d->curves->count; run++)
    if (range_of(d, run).count) put_blocks(pipe, d, run);
  for (size_t run = 0; run < d->curves->count; run++) {
    if (!range_of(d, run).count) continue;
    fputs(before, pipe);
    put_raw(pipe, d, run);
    before = ", ";
  }
  for (size_t run = 0; run < d->curves->count; run++) {
    if (!is_smoothed(d, run)) continue;
    fputs(before, pipe);
    put_smoothed(pipe, run);
  }
  fputc('\n', pipe);
}

static void put_legend(FILE *page, const drawing *d) {
  bool smoothed = false;
  fputs("<figcaption>", page);
  for (size_t run = 0; run < d->curves->count; run++) {
    if (!range_of(d, run).count) continue;
    smoothed = smoothed || is_smoothed(d, run);
    fputs("<span class=\"entry\">", page);
    curves_key(page, run);
    html_name(page, d->curves->runs[run].name);
    fputs("</span> ", page);
  }
  if (smoothed) fputs("<span class=\"entry\">Pale: as measured. Strong: smoothed.</span>", page);
  fputs("</figcaption></figure>\n", page);
}

enum { WIDTH = 480, HEIGHT = 300 };

static int draw(curves *c, const drawing *d, FILE *page) {
  gnuplot g;
  char *svg = NULL;
  int status = gnuplot_open(&g, c->path, WIDTH, HEIGHT);
  if (status != STATUS_CONTINUE) return status;
  put_axes(g.pipe, d);
  put_plot(g.pipe, d);
  status = gnuplot_take(&g, &svg);
  if (status == STATUS_CONTINUE) {
    const quantity *q = d->quantity;
    const bool told = d->log && q->scale == FALLING;
    fprintf(page, "<figure><h3>%s <small>%s%s</small></h3>", q->title, q->unit,
            told ? ", logarithmic" : "");
    picture_embed(page, svg, &(picture){q->title, ++c->pictures, WIDTH, HEIGHT});
    put_legend(page, d);
  }
  free(svg);
  return status;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static double last_step(const curves *c) {
  double last = 0;
  for (size_t run = 0; run < c->count; run++) {
    const history *h = &c->runs[run];
    const history_series *all[] = {&h->steps, &h->evaluations, &h->averages};
    for (int i = 0; i < 3; i++)
      if (all[i]->count) last = fmax(last, all[i]->points[all[i]->count - 1].step);
  }
  return last;
}

int curves_write(curves *c, FILE *page) {
  const double last = last_step(c);
  int status = STATUS_CONTINUE;
  for (int i = 0; i < QUANTITIES && status == STATUS_CONTINUE; i++) {
    const quantity *q = &quantities[i];
    const bool log = q->scale == POWERS_OF_TWO || (q->scale == FALLING && c->log);
    const drawing d = {c, q, log, last};
    if (is_shown(&d)) status = draw(c, &d, page);
  }
  return status;
}
