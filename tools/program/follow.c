#include "program/follow.h"

#include "common/message.h"
#include "common/option_record.h"
#include "program/fingerprint.h"
#include "program/good_state.h"
#include "program/stop.h"

#include <accrue/ranks.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A path of so many bytes follows; 0: none does. */
typedef struct message {
  int64_t order, number, path_bytes;
} message;

/* ---- opening and closing --------------------------------------------------------------------- */

static void log_warning(void *user, ac_log_level level, const char *text) {
  (void)user;
  if (level <= AC_LOG_WARNING) say("%s", text);
}

double ranks_timeout(int argc, char **argv) {
  const char *text = options_value("rank-timeout", argc, argv);
  const double seconds = text ? strtod(text, NULL) : 0;
  return seconds > 0 && isfinite(seconds) ? seconds : 0;
}

/* No rank has another to speak to. Rank 0 says at once what keeps all of them; one that the
 * launcher does not end thereupon has failed by itself. */
static int fail_alone(void) {
  const struct timespec wait = {.tv_sec = 3};
  int rank;
  if (ac_ranks_launched(&rank) < 2 || rank < 1) return fail_library();
  nanosleep(&wait, NULL);
  return fail("rank %d: %s", rank, ac_last_error());
}

int ranks_open(int argc, char **argv, ac_ranks **ranks) {
  const ac_ranks_desc desc = {.timeout = ranks_timeout(argc, argv), .log = log_warning};
  *ranks = NULL;
  if (ac_ranks_open(ranks, &desc) != AC_OK) return fail_alone();
  if (ac_ranks_size(*ranks) > 1) {
    if (ranks_lead(*ranks)) return STATUS_CONTINUE;
    message_silence(true);
    if (freopen("/dev/null", "w", stdout)) return STATUS_CONTINUE;
    return ranks_close(*ranks, fail("cannot open /dev/null: %s", strerror(errno)));
  }
  ac_ranks_close(*ranks);
  *ranks = NULL;
  return STATUS_CONTINUE;
}

/* Returns whether nobody has ended this rank. It answers meanwhile, because MPICH on rank 0 waits
 * for that before it ends the others. */
static bool outlives_lead(ac_ranks *ranks) {
  enum { WAITS = 50 };
  const struct timespec wait = {.tv_nsec = 100000000};
  for (int i = 0; i < WAITS && !stop_signal(); i++) {
    ac_ranks_begin_absence(ranks);
    nanosleep(&wait, NULL);
    ac_ranks_end_absence(ranks);
  }
  return !stop_signal();
}

/* Rank 0 has written its sentence. Where all fail for one reason, it ends the others while they
 * still wait; one that fails by itself says why. */
int ranks_close(ac_ranks *ranks, int status) {
  if (!ranks) return status;
  if (status != STATUS_DONE) {
    fflush(stdout);
    if (!ranks_lead(ranks)) {
      char why[1024];
      snprintf(why, sizeof why, "%s", message_last());
      message_silence(!outlives_lead(ranks));
      fail("rank %d: %s", ac_ranks_rank(ranks), why);
    }
    ac_ranks_abort(ranks, NULL);
  }
  ac_ranks_close(ranks);
  return status;
}

/* ---- meeting --------------------------------------------------------------------------------- */

/* A flag of each rank's own. */
static bool may_differ(const char *name) {
  static const char names[] =
      "device threads memory loader-threads read-ahead quiet json rank-timeout";
  return options_listed(name, names);
}

enum { FACT_BYTES = 160, NAME_BYTES = 40 };

typedef struct fact_text {
  char name[NAME_BYTES], value[FACT_BYTES];
} fact_text;

/* One fact for each flag. */
static int list_flags(const setup *s, ac_ranks_fact *facts, fact_text *texts) {
  int count = 0;
  for (int i = 0; i < s->options.count; i++) {
    const option *row = &s->options.rows[i];
    if (row->ignored || may_differ(row->name)) continue;
    snprintf(texts[count].name, NAME_BYTES, "--%s", row->name);
    options_value_text(row, texts[count].value, FACT_BYTES);
    facts[count] = (ac_ranks_fact){texts[count].name, texts[count].value};
    count++;
  }
  return count;
}

/* What keeps another rank from beginning, as the ranks have compared it: `it is "ready" on rank 0
 * and "WHY" on rank N`, perhaps with more after it. */
static int fail_for_other(void) {
  static const char before[] = "\"ready\" on rank 0 and \"", between[] = "\" on rank ";
  char text[1024], *end = NULL;
  snprintf(text, sizeof text, "%s", ac_last_error());
  char *why = strstr(text, before);
  if (why) why += strlen(before);
  for (char *at = why; at && (at = strstr(at, between)); at++) end = at;
  if (!end) return fail_library();
  *end = 0;
  return fail("rank %ld cannot begin: %s", strtol(end + strlen(between), NULL, 10), why);
}

int ranks_meet(const setup *s, int status) {
  static _Thread_local ac_ranks_fact facts[OPTION_ROWS + 2];
  static _Thread_local fact_text texts[OPTION_ROWS];
  ac_ranks *ranks = s->words.ranks;
  char data[17] = "";
  if (!ranks) return status;
  if (status == STATUS_CONTINUE) status = fingerprint(&s->data, s->flags.rank, data);
  const bool ready = status == STATUS_CONTINUE;
  facts[0] = (ac_ranks_fact){"how they begin", ready ? "ready" : message_last()};
  if (ac_ranks_agree(ranks, facts, 1) != AC_OK) return ready ? fail_for_other() : status;
  if (!ready) return status;
  facts[0] = (ac_ranks_fact){"the version of Accrue", ac_version()};
  facts[1] = (ac_ranks_fact){"the data", data};
  const int count = 2 + list_flags(s, facts + 2, texts);
  return ac_ranks_agree(ranks, facts, count) == AC_OK ? STATUS_CONTINUE : fail_library();
}

/* ---- orders ---------------------------------------------------------------------------------- */

int ranks_order(ac_ranks *ranks, rank_order order, const char *path, int64_t number) {
  if (!ranks) return STATUS_CONTINUE;
  char sent[RUN_PATH_BYTES] = "";
  if (path) snprintf(sent, sizeof sent, "%s", path);
  message m = {order, number, path ? (int64_t)strlen(sent) + 1 : 0};
  ac_status status = ac_ranks_tell(ranks, &m, sizeof m);
  if (status == AC_OK && path) status = ac_ranks_tell(ranks, sent, (uint64_t)m.path_bytes);
  return status == AC_OK ? STATUS_CONTINUE : fail_library();
}

static ac_status hear(ac_ranks *ranks, message *m, char path[RUN_PATH_BYTES]) {
  ac_status status = ac_ranks_tell(ranks, m, sizeof *m);
  if (status == AC_OK && m->path_bytes)
    status = ac_ranks_tell(ranks, path, (uint64_t)m->path_bytes);
  return status;
}

static bool on_stop(void *user) {
  (void)user;
  return stop_signal() != 0;
}

static ac_status average(const run *r, int64_t samples) {
  ac_evaluation evaluation;
  bool stopped;
  ac_status status = ac_trainer_use_average(r->trainer, true);
  if (status != AC_OK) return status;
  status = ac_trainer_evaluate_until(r->trainer, r->setup.data.validation, samples, on_stop, NULL,
                                     &evaluation, &stopped);
  const ac_status back = ac_trainer_use_average(r->trainer, false);
  return status == AC_OK ? back : status;
}

static ac_status obey_one(run *r, const message *m, const char *path) {
  switch (m->order) {
  case ORDER_INIT:
    return setup_take_init(&r->setup, r->trainer);
  case ORDER_LOAD:
    return ac_trainer_load_state(r->trainer, path);
  case ORDER_SAVE: /* rank 0 says what could not be saved, and goes on */
    ac_trainer_save_state(r->trainer, path, NULL, 0);
    return AC_OK;
  default:
    return average(r, m->number);
  }
}

/* Until rank 0 says to go on. */
static int obey(run *r) {
  message m;
  char path[RUN_PATH_BYTES];
  for (;;) {
    if (hear(r->setup.words.ranks, &m, path) != AC_OK) return fail_library();
    if (m.order == ORDER_GO_ON) return STATUS_CONTINUE;
    if (obey_one(r, &m, path) != AC_OK) return fail_library();
  }
}

static bool on_event(void *user, const ac_fit_event *event) {
  run *r = user;
  (void)event;
  r->save_status = obey(r);
  return r->save_status == STATUS_CONTINUE;
}

static void decide(void *user, ac_trainer *trainer, ac_decision *decision) {
  (void)user, (void)trainer, (void)decision;
}

int training_follow(run *r) {
  setup *s = &r->setup;
  if (s->flags.histograms) s->trainer.decide = decide;
  watch_describe(&s->flags.watch, &s->trainer);
  if (ac_trainer_create(&r->trainer, s->plan, &s->trainer) != AC_OK) return fail_library();
  int status = setup_load(s, r->trainer);
  if (status == STATUS_CONTINUE) status = obey(r);
  if (status != STATUS_CONTINUE) return status;
  stop_watch();
  snprintf(r->folder.path, sizeof r->folder.path, "%s", s->flags.out);
  char good[RUN_PATH_BYTES];
  run_folder_path(&r->folder, GOOD_STATE, good);
  const ac_fit_desc desc = training_fit_desc(r, good, on_event, on_stop);
  if (ac_fit(r->trainer, &desc, &r->result) != AC_OK) return fail_library();
  return r->save_status == STATUS_CONTINUE || r->save_status == STATUS_DONE ? obey(r)
                                                                            : r->save_status;
}
