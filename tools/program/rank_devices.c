#include "program/rank_devices.h"

#include "common/message.h"
#include "common/option_record.h"
#include "program/follow.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

/* ---- names ----------------------------------------------------------------------------------- */

static bool is_device(const char *name) {
  static const char *const known[] = {"cpu", "opencl", "auto"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    const size_t length = strlen(known[i]);
    if (!strncmp(name, known[i], length) && (!name[length] || name[length] == ':')) return true;
  }
  return false;
}

/* Splits the text; 0: some part is not a device. */
static int split(rank_devices *d) {
  int count = 0;
  for (char *at = d->text; at;) {
    char *comma = strchr(at, ',');
    if (comma) *comma = 0;
    if (!is_device(at)) return 0;
    if (count == MOST_RANK_THREADS) return count + 1;
    d->names[count++] = at;
    at = comma ? comma + 1 : NULL;
  }
  return count;
}

int rank_devices_find(rank_devices *d, int argc, char **argv) {
  const char *text = options_value("device", argc, argv);
  *d = (rank_devices){.count = 1};
  if (!text || !strchr(text, ',')) return STATUS_CONTINUE;
  if (strlen(text) >= sizeof d->text) return fail_usage("--device has too long a list of names");
  strcpy(d->text, text);
  const int count = split(d);
  if (count > MOST_RANK_THREADS)
    return fail_usage("--device names more than %d devices", MOST_RANK_THREADS);
  if (count) d->count = count;
  return STATUS_CONTINUE;
}

int rank_devices_count(const char *text) {
  rank_devices d;
  if (strlen(text) >= sizeof d.text) return 1;
  strcpy(d.text, text);
  const int count = split(&d);
  return count ? count : 1;
}

/* ---- training -------------------------------------------------------------------------------- */

typedef struct job {
  const rank_devices *devices;
  int argc;
  char **argv;
  train_summary *summary;
  shared_tokens tokens;
  int status; /* of rank 0 */
  pthread_mutex_t lock;
  pthread_cond_t ended;
  bool has_ended; /* rank 0 */
} job;

static void lead_ends(job *j, int status) {
  pthread_mutex_lock(&j->lock);
  j->status = status;
  j->has_ended = true;
  pthread_cond_broadcast(&j->ended);
  pthread_mutex_unlock(&j->lock);
}

/* Where all fail for one reason, rank 0 says it and leaves what it has; one that fails by itself
 * ends the others. */
static void wait_for_lead(job *j) {
  enum { WAIT_SECONDS = 2 };
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += WAIT_SECONDS;
  pthread_mutex_lock(&j->lock);
  while (!j->has_ended && pthread_cond_timedwait(&j->ended, &j->lock, &until) == 0) continue;
  pthread_mutex_unlock(&j->lock);
}

/* What another rank has failed with rank 0 says. */
static bool train_one(void *user, ac_ranks *ranks) {
  job *j = user;
  const int rank = ac_ranks_rank(ranks);
  train_summary summary = {0};
  const train_wish wish = {.ranks = ranks, .device = j->devices->names[rank], .tokens = &j->tokens};
  message_silence_thread(rank > 0);
  const int status = train_run(j->argc, j->argv, &wish, rank ? &summary : j->summary);
  if (!rank) lead_ends(j, status);
  else if (status != STATUS_DONE) wait_for_lead(j);
  if (status != STATUS_DONE) ac_ranks_abort(ranks, message_last());
  return status == STATUS_DONE;
}

int rank_devices_train(const rank_devices *devices, int argc, char **argv, train_summary *summary) {
  job j = {.devices = devices,
           .argc = argc,
           .argv = argv,
           .summary = summary,
           .status = STATUS_FAILED,
           .lock = PTHREAD_MUTEX_INITIALIZER,
           .ended = PTHREAD_COND_INITIALIZER};
  const int status = rank_threads_run(devices->count, ranks_timeout(argc, argv), train_one, &j);
  shared_tokens_close(&j.tokens);
  return status == STATUS_CONTINUE ? j.status : status;
}
