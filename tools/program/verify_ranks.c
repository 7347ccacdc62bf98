#include "program/verify_ranks.h"

#include "common/device_choice.h"
#include "common/message.h"
#include "common/waiting.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static struct {
  void (*change)(ac_plan_desc *desc);
  int rank, count;
} asked;

static void change_rank(ac_plan_desc *desc) {
  asked.change(desc);
  desc->rank = asked.rank;
  desc->ranks = asked.count;
}

/* Ranks share the processors. */
static int threads_of(const setup *s, int count) {
  if (s->flags.threads) return (int)s->flags.threads;
  const int all = (int)ac_device_get_info(s->device)->compute_units;
  return all >= 2 * count ? all / count : 1;
}

int verify_ranks_open(verify_ranks *v, const setup *s, int count,
                      void (*change)(ac_plan_desc *desc)) {
  const ac_device_desc desc = {
      .name = device_choose(s->flags.device), .threads = threads_of(s, count), .log = waiting_log};
  *v = (verify_ranks){.setup = s, .count = count};
  for (int r = 0; r < count; r++) {
    if (ac_device_open(&v->devices[r], &desc) != AC_OK) return fail_library();
    setup of_rank = *s;
    of_rank.device = v->devices[r];
    asked.change = change;
    asked.rank = r;
    asked.count = count;
    const int status = setup_plan(&of_rank, change_rank, &v->plans[r]);
    if (status != STATUS_CONTINUE) return status;
  }
  return STATUS_CONTINUE;
}

void verify_ranks_close(verify_ranks *v) {
  for (int r = 0; r < v->count; r++) {
    ac_plan_free(v->plans[r]);
    ac_device_close(v->devices[r]);
  }
}

/* ---- one rank -------------------------------------------------------------------------------- */

typedef struct all_ranks {
  const verify_ranks *verify;
  const verify_steps *steps;
  pthread_mutex_t setup; /* models are opened once, and load one trainer after another */
  /* Of the first rank that failed by itself. */
  ac_status result;
  char sentence[1024];
} all_ranks;

typedef struct one_rank {
  all_ranks *all;
  ac_ranks *ranks;
  ac_trainer *trainer;
  int64_t window;
  ac_status decided;
} one_rank;

static void decide(void *user, ac_trainer *trainer, ac_decision *decision) {
  one_rank *r = user;
  const verify_steps *steps = r->all->steps;
  if (!decision->finite) return;
  r->decided = steps->decide(steps->user, trainer, r->window, ac_ranks_rank(r->ranks) == 0);
}

/* As one rank's: again while a lower loss scale may help. */
static ac_status run_window(one_rank *r, ac_update *update) {
  const verify_steps *steps = r->all->steps;
  const int64_t batch = r->all->verify->setup->flags.batch;
  const int rank = ac_ranks_rank(r->ranks), size = ac_ranks_size(r->ranks);
  /* The first batch % size ranks have one sample more. */
  const int64_t least = batch / size, more = batch % size, share = least + (rank < more),
                first = rank * least + (rank < more ? rank : more);
  do {
    ac_status status = ac_trainer_begin_share(r->trainer, first);
    if (status == AC_OK && share) status = steps->feed(steps->user, r->trainer, first, share);
    if (status == AC_OK) status = ac_trainer_update(r->trainer, update);
    if (status == AC_OK) status = r->decided;
    if (status != AC_OK) return status;
  } while (update->skipped && !update->stuck && update->weight != 0);
  return update->skipped ? AC_ERROR_NOT_FINITE : AC_OK;
}

static ac_status run_windows(one_rank *r) {
  const verify_steps *steps = r->all->steps;
  const bool leads = ac_ranks_rank(r->ranks) == 0;
  ac_status status = AC_OK;
  for (r->window = 0; r->window < steps->windows && status == AC_OK; r->window++) {
    ac_update update;
    if (leads) status = steps->read(steps->user, r->window);
    if (status == AC_OK) status = ac_ranks_barrier(r->ranks);
    if (status == AC_OK) status = steps->begin(steps->user, r->trainer, r->window);
    if (status == AC_OK) status = run_window(r, &update);
    if (status == AC_OK && leads) status = steps->end(steps->user, r->trainer, r->window, &update);
  }
  return status;
}

/* Messages that a model's files are worth are one rank's. */
static ac_status load(one_rank *r) {
  const setup *s = r->all->verify->setup;
  pthread_mutex_lock(&r->all->setup);
  const int status = setup_load(s, r->trainer) == STATUS_CONTINUE &&
                     setup_load_init(s, r->trainer) == STATUS_CONTINUE;
  pthread_mutex_unlock(&r->all->setup);
  return status ? AC_OK : AC_ERROR_IO;
}

static bool run_rank(void *user, ac_ranks *ranks) {
  one_rank r = {.all = user, .ranks = ranks};
  all_ranks *all = r.all;
  ac_trainer_desc desc = all->verify->setup->trainer;
  desc.ranks = ranks;
  desc.decide = decide;
  desc.user = &r;
  ac_status status = ac_trainer_create(&r.trainer, all->verify->plans[ac_ranks_rank(ranks)], &desc);
  if (status == AC_OK) status = load(&r);
  if (status == AC_OK) status = run_windows(&r);
  if (status == AC_OK) status = ac_ranks_barrier(ranks);
  pthread_mutex_lock(&all->setup);
  /* What the others fail with then is only that this one has. */
  if (status != AC_OK && (all->result == AC_OK || all->result == AC_ERROR_STOPPED)) {
    all->result = status;
    snprintf(all->sentence, sizeof all->sentence, "%s", ac_last_error());
  }
  pthread_mutex_unlock(&all->setup);
  ac_trainer_free(r.trainer);
  return status == AC_OK;
}

int verify_ranks_run(const verify_ranks *v, const verify_steps *steps, ac_status *result) {
  all_ranks all = {.verify = v, .steps = steps, .setup = PTHREAD_MUTEX_INITIALIZER};
  const int status = rank_threads_run(v->count, v->setup->flags.rank_timeout, run_rank, &all);
  *result = all.result;
  if (status != STATUS_CONTINUE || all.result == AC_OK || all.result == AC_ERROR_NOT_FINITE)
    return status;
  return fail("%s", all.sentence);
}
