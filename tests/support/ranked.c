#include "ranked.h"

#include "backend/device.h"
#include "core/platform/threads.h"
#include "trainers.h"

#include <stdio.h>
#include <stdlib.h>

static _Thread_local int this_rank;

int ranked_rank(void) {
  return this_rank;
}

typedef struct job {
  const ranked_case *c;
  ac_ranks *ranks;
  ranked *out;
  /* What the rank has made. */
  ac_graph *graph;
  ac_device *device;
  ac_plan *plan;
  ac_trainer *trainer;
  ac_dataset *train, *validation;
} job;

static bool on_event(void *user, const ac_fit_event *event) {
  ranked *out = user;
  out->epochs += event->kind == AC_FIT_EPOCH;
  if (event->kind != AC_FIT_STEP || out->windows == RANKED_WINDOWS) return true;
  out->samples[out->windows] = event->samples;
  out->update[out->windows++] = event->update;
  return out->windows != out->stop_after;
}

static ac_status keep_parameters(job *j) {
  ranked *out = j->out;
  for (int i = 0; i < ac_trainer_parameter_count(j->trainer); i++) {
    ac_tensor_info info;
    ac_status status = ac_trainer_parameter_info(j->trainer, i, &info);
    int64_t count = 1;
    for (int d = 0; d < info.rank; d++) count *= info.shape[d];
    out->parameters = realloc(out->parameters, (out->parameter_count + (size_t)count) * 4);
    if (status == AC_OK)
      status =
          ac_trainer_get_parameter(j->trainer, i, 0, count, out->parameters + out->parameter_count);
    if (status != AC_OK) return status;
    out->parameter_count += (size_t)count;
  }
  return AC_OK;
}

static ac_status train(job *j) {
  const ranked_case *c = j->c;
  ac_plan_desc plan = c->plan;
  ac_trainer_desc trainer = c->trainer;
  ac_fit_desc fit = c->fit;
  const ac_device_desc device = {.name = c->device ? c->device : "cpu",
                                 .threads = c->device ? 0 : 1};
  ac_status status = ac_device_open(&j->device, &device);
  plan.ranks = ac_ranks_size(j->ranks);
  plan.rank = ac_ranks_rank(j->ranks);
  trainer.ranks = j->ranks;
  if (c->vary && plan.rank == plan.ranks - 1) c->vary(&plan);
  if (status == AC_OK) status = ac_plan_create(&j->plan, j->graph, j->device, &plan);
  if (status == AC_OK) status = ac_trainer_create(&j->trainer, j->plan, &trainer);
  ac_callback_dataset_desc data = c->data;
  if (status == AC_OK) status = ac_dataset_from_callback(&j->train, &data);
  data.count = c->validation;
  if (status == AC_OK && c->validation) status = ac_dataset_from_callback(&j->validation, &data);
  fit.train = j->train;
  fit.validation = j->validation;
  fit.callback = on_event;
  fit.user = j->out;
  if (status == AC_OK && c->load) status = ac_trainer_load_state(j->trainer, c->load);
  if (status == AC_OK && c->before) status = c->before(j->trainer);
  if (status == AC_OK) status = ac_fit(j->trainer, &fit, &j->out->result);
  if (status == AC_OK && c->after) status = c->after(j->trainer);
  if (status == AC_OK) status = keep_parameters(j);
  if (status == AC_OK && c->save) status = ac_trainer_save_state(j->trainer, c->save, NULL, 0);
  if (status == AC_OK && trainer.noise_every)
    status = ac_trainer_noise_scale(j->trainer, &j->out->noise);
  return status;
}

static void run_rank(void *user) {
  job *j = user;
  this_rank = j->out->rank;
  j->out->status = train(j);
  if (j->out->status == AC_OK) j->out->status = ac_ranks_barrier(j->ranks);
  if (j->out->status != AC_OK) {
    snprintf(j->out->sentence, sizeof j->out->sentence, "%s", ac_last_error());
    ac_ranks_abort(j->ranks, j->out->sentence);
  }
  if (j->plan) j->out->planned = ac_plan_get_info(j->plan)->bytes.total;
  if (j->plan) j->out->optimizer_bytes = ac_plan_get_info(j->plan)->bytes.optimizer;
  if (j->device) j->out->peak = ac_device_peak_bytes(j->device);
  ac_dataset_free(j->train);
  ac_dataset_free(j->validation);
  ac_trainer_free(j->trainer);
  ac_plan_free(j->plan);
  ac_device_close(j->device);
  ac_ranks_close(j->ranks); /* simulated time passes while all that are left wait */
}

void ranked_run(const ranked_case *c, int ranks, ranked *all) {
  job jobs[RANKED_MOST];
  ac_thread *threads[RANKED_MOST];
  ac_ranks *list[RANKED_MOST];
  assert_true(ranks <= RANKED_MOST);
  assert_ok(ac_ranks_create_threads(list, ranks, &c->ranks));
  memset(all, 0, (size_t)ranks * sizeof *all);
  for (int r = 0; r < ranks; r++) {
    all[r].rank = r;
    all[r].ranks = ranks;
    all[r].stop_after = r ? 0 : c->stop_after;
    jobs[r] = (job){.c = c, .ranks = list[r], .out = &all[r], .graph = c->graph()};
    assert_ok(ac_thread_start(&threads[r], run_rank, &jobs[r]));
  }
  for (int r = 0; r < ranks; r++) ac_thread_join(threads[r]);
  for (int r = 0; r < ranks; r++) ac_graph_free(jobs[r].graph);
}

void ranked_free(ranked *all, int ranks) {
  for (int r = 0; r < ranks; r++) free(all[r].parameters);
}

void ranked_check_same(const ranked *all, int ranks) {
  for (int r = 0; r < ranks; r++)
    if (all[r].status != AC_OK)
      fail_msg("rank %d of %d: %s: %s", r, ranks, ac_status_name(all[r].status), all[r].sentence);
  for (int r = 1; r < ranks; r++) {
    assert_int_equal(all[r].parameter_count, all[0].parameter_count);
    assert_memory_equal(all[r].parameters, all[0].parameters, 4 * all[0].parameter_count);
    assert_int_equal(all[r].windows, all[0].windows);
    for (int i = 0; i < all[0].windows; i++) {
      assert_memory_equal(&all[r].update[i].loss, &all[0].update[i].loss, sizeof(double));
      assert_memory_equal(&all[r].update[i].grad_norm, &all[0].update[i].grad_norm, sizeof(double));
      assert_int_equal(all[r].update[i].skipped, all[0].update[i].skipped);
      assert_int_equal(all[r].samples[i], all[0].samples[i]);
    }
    assert_int_equal(all[r].result.steps, all[0].result.steps);
    assert_int_equal(all[r].result.skipped, all[0].result.skipped);
    assert_memory_equal(&all[r].result.final.loss, &all[0].result.final.loss, sizeof(double));
  }
}
