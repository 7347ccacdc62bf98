/* A watcher that is not in the library: it remembers the least loss, and halves the gradient of
 * windows with more. */
#include "observe/list.h"

#include <math.h>

typedef struct ac_least {
  int64_t windows; /* that were finite */
  double loss;
  double asked; /* what the window in progress was first measured with */
  bool rests;
} ac_least;

static bool is_asked(const ac_watch_setup *setup, const ac_fit_desc *fit) {
  (void)setup;
  return !fit; /* by the trainer, always */
}

static bool wants_first(const void *record, const ac_window_view *view) {
  (void)view;
  return !((const ac_least *)record)->rests;
}

static void first(void *record, const ac_window_view *view) {
  ((ac_least *)record)->asked += view->norm;
}

static void judge(const void *record, const ac_window_view *view, ac_proposal *proposal) {
  const ac_least *least = record;
  if (!least->rests && least->asked > 0 && view->loss > least->loss) proposal->factor *= 0.5;
}

static void after(void *record, const ac_window_view *view, ac_update *update) {
  ac_least *least = record;
  if (!update->finite_loss) return;
  least->windows++;
  least->loss = fmin(least->loss, view->loss);
}

static void rest(void *record) {
  ((ac_least *)record)->rests = true;
}

static void anew(void *record) {
  ((ac_least *)record)->windows = 0;
  ((ac_least *)record)->loss = (double)INFINITY;
}

static bool is_kept(const void *record) {
  return ((const ac_least *)record)->windows > 0;
}

static const ac_state_field fields[] = {
    AC_STATE_FIELD("least.windows", AC_COUNT, ac_least, windows, AC_MOST_COUNT),
    AC_STATE_FIELD("least.loss", AC_FINITE, ac_least, loss, 0),
    {0}};

const ac_watcher ac_watcher_least = {
    .record = {.fields = fields, .is_kept = is_kept, .anew = anew},
    .bytes = sizeof(ac_least),
    .sums = {{.number = {.kind = AC_REAL, .offset = offsetof(ac_least, asked)}}},
    .needs = AC_NEEDS_SKIP,
    .is_asked = is_asked,
    .lacking = "trainer: the least loss says too late to halve gradients that are %s",
    .wants_first = wants_first,
    .first = first,
    .judge = judge,
    .after = after,
    .rest = rest};
