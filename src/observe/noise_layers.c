#include "observe/noise_layers.h"

#include "core/error.h"

#include <math.h>
#include <string.h>

static size_t tables(const ac_watch_setup *setup) {
  const size_t parameters = (size_t)setup->plan->graph->parameter_count;
  return setup->desc->noise_layers ? parameters * sizeof(ac_noise_layer) : 0;
}

static ac_status begin(void *record, const ac_watch_setup *setup) {
  ac_noise_layers *layers = record;
  layers->parameters = setup->plan->graph->parameter_count;
  layers->rows = setup->desc->noise_layers ? layers->parameters : 0;
  if (!setup->desc->noise_layers || setup->desc->noise_every) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT,
                 "trainer: the noise of each parameter's gradient (noise_layers) is measured with "
                 "that of all: also give noise_every");
}

/* ---- a window -------------------------------------------------------------------------------- */

static void leave(ac_noise_layers *layers) {
  layers->begun = false;
  for (int i = 0; i < layers->rows; i++) layers->of[i].first_squares = 0;
}

/* The noise of all is measured before. */
static bool is_measured(const void *record, const ac_window_view *view) {
  return ((const ac_noise_layers *)record)->rows && AC_WATCHED(view->run, noise)->first_samples;
}

static void first(void *record, const ac_window_view *view) {
  ac_noise_layers *layers = record;
  bool finite = true;
  for (int i = 0; i < layers->rows; i++) {
    ac_noise_layer *layer = &layers->of[i];
    if (ac_view_trains(view, i))
      layer->first_squares = ac_view_squares(view, i) / (view->weight * view->weight);
    finite &= isfinite(layer->first_squares) != 0;
  }
  layers->begun = true;
  if (!finite) leave(layers);
}

static void after(void *record, const ac_window_view *view, ac_update *update) {
  ac_noise_layers *layers = record;
  const ac_noise *noise = AC_WATCHED(view->run, noise);
  (void)update;
  if (!layers->begun || !noise->counted) return;
  layers->count++;
  for (int i = 0; i < layers->rows; i++)
    if (ac_view_trains(view, i))
      ac_noise_add(&layers->of[i].averages, ac_noise_first_mean(noise, layers->of[i].first_squares),
                   ac_view_squares(view, i) / (view->weight * view->weight),
                   ac_noise_first(noise, view), (double)view->run->samples);
}

static void rest(void *record) {
  ((ac_noise_layers *)record)->rows = 0;
}

/* ---- states ---------------------------------------------------------------------------------- */

static bool is_kept(const void *record) {
  return ((const ac_noise_layers *)record)->rows;
}

static void anew(void *record) {
  ac_noise_layers *layers = record;
  layers->count = 0;
  layers->begun = false;
  memset(layers->of, 0, (size_t)layers->rows * sizeof *layers->of);
}

#define MEMBER(member, kind_) \
  { .kind = kind_, .offset = offsetof(ac_noise_layer, member), .before = ' ' }
static const ac_state_rows rows = {
    .of = {MEMBER(first_squares, AC_SQUARE), MEMBER(averages.g, AC_FINITE),
           MEMBER(averages.s, AC_FINITE), MEMBER(averages.gg, AC_SQUARE),
           MEMBER(averages.gs, AC_FINITE), MEMBER(averages.ss, AC_SQUARE)},
    .begin = offsetof(ac_noise_layers, of),
    .stride = sizeof(ac_noise_layer),
    .count = {.kind = AC_SMALL, .offset = offsetof(ac_noise_layers, parameters)},
    .room = {.kind = AC_SMALL, .offset = offsetof(ac_noise_layers, rows)}};

static const ac_state_field fields[] = {
    {.key = "accrue.state.noise.layers",
     .head = {{AC_COUNT, offsetof(ac_noise_layers, count), AC_MOST_COUNT, 0},
              {AC_FLAG, offsetof(ac_noise_layers, begun), 1, ' '}},
     .rows = &rows},
    {0}};

const ac_watcher ac_watcher_noise_layers = {
    .record = {.fields = fields, .of_model = true, .is_kept = is_kept, .anew = anew},
    .bytes = sizeof(ac_noise_layers),
    .tables = tables,
    .sums = {{.number = {.kind = AC_FLAG, .offset = offsetof(ac_noise_layers, begun)}},
             {.number = {.kind = AC_REAL,
                         .offset = offsetof(ac_noise_layers, of) +
                                   offsetof(ac_noise_layer, first_squares)},
              .times = {.kind = AC_SMALL, .offset = offsetof(ac_noise_layers, rows)},
              .stride = sizeof(ac_noise_layer)}},
    .begin = begin,
    .wants_first = is_measured,
    .first = first,
    .after = after,
    .rest = rest};
