#include "victims.h"

const shape_of_model both = {.norm = true, .two = true};

const ac_plan_desc split = {.batch = BATCH,
                            .micro_batch = 2,
                            .batch_norm = AC_BATCH_NORM_MICRO,
                            .loss_means = AC_LOSS_MEANS_PER_SAMPLE};

const ac_trainer_desc trained = {.seed = 3, .schedule = {.lr = 0.02}};

run begin_run(const shape_of_model *m, const ac_plan_desc *plan, const ac_trainer_desc *desc,
              int first, int done) {
  run r = start_model("cpu", m, plan, desc);
  assert_ok(feed_samples(&r, first, BATCH));
  assert_ok(ac_trainer_update(r.trainer, NULL));
  if (done) assert_ok(feed_samples(&r, 6, done));
  return r;
}

test_path save_run(run *r, const char *name) {
  const test_path path = in_folder(name);
  assert_ok(ac_trainer_save_state(r->trainer, path.text, NULL, 0));
  return path;
}

test_path good_state(void) {
  const ac_trainer_desc desc = {.seed = 8, .schedule = {.lr = 0.05}};
  run r = begin_run(&both, &split, &desc, 0, 2);
  const test_path path = save_run(&r, "good");
  end_run(&r);
  return path;
}

/* ---- trainers that must stay as they are ----------------------------------------------------- */

void end_window(const run *r) {
  ac_progress progress;
  assert_ok(ac_trainer_get_progress(r->trainer, &progress));
  const int left = BATCH - (int)progress.window_samples;
  if (left) assert_ok(feed_samples(r, 1, left));
  assert_ok(ac_trainer_update(r->trainer, NULL));
}

victim make_victim(const shape_of_model *m, const ac_plan_desc *plan, const ac_trainer_desc *desc,
                   int done) {
  victim v = {.r = begin_run(m, plan, desc, 3, done)};
  end_window(&v.r);
  v.after = look_at(&v.r);
  end_run(&v.r);
  v.r = begin_run(m, plan, desc, 3, done);
  v.before = look_at(&v.r);
  return v;
}

void assert_untouched(const victim *v, const char *where) {
  const snapshot now = look_at(&v->r);
  assert_same(where, &v->before, &now);
}

void free_victim(victim *v) {
  end_window(&v->r);
  const snapshot now = look_at(&v->r);
  assert_same("what was refused has changed the window", &v->after, &now);
  end_run(&v->r);
}
