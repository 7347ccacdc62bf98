/* The public functions: which engine connects the ranks of this run. */
#include "ranks/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/platform/processors.h"
#include "ranks/engine.h"
#include "ranks/launcher.h"
#include "ranks/mpi.h"
#include "ranks/threads.h"

#define TIMEOUT 60.0 /* seconds, unless the caller gives them */

struct ac_ranks {
  ac_transport *transport;
  ac_log_callback log;
  void *log_user;
};

ac_transport *ac_ranks_transport(ac_ranks *ranks) {
  const ac_kept_error kept = ac_error_keep();
  ac_transport_take_back(ranks->transport);
  ac_error_restore(&kept);
  return ranks->transport;
}

static ac_status check_timeout(double timeout) {
  if (timeout >= 0 && timeout < 1e9) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "the timeout of ranks must be positive, in seconds; it is %g",
                 timeout);
}

/* Also frees the engine if it fails. */
static ac_status make(ac_ranks **ranks, ac_engine *engine, double timeout) {
  ac_transport *transport = NULL;
  AC_TRY(ac_transport_create(&transport, engine, timeout > 0 ? timeout : TIMEOUT));
  ac_ranks *made = calloc(1, sizeof *made);
  if (!made) {
    ac_transport_close(transport);
    return ac_fail(AC_ERROR_MEMORY, "no memory for a rank");
  }
  made->transport = transport;
  *ranks = made;
  return AC_OK;
}

/* ---- ranks of other processes ---------------------------------------------------------------- */

static ac_status choose_engine(const char **name, const char *given, const ac_launcher *launcher) {
  *name = given;
  if (given && strcmp(given, "alone") && strcmp(given, "openmpi") && strcmp(given, "mpich"))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "there is no engine \"%s\" for ranks; there are alone, openmpi and mpich",
                   given);
  if (given && !strcmp(given, "alone")) return AC_OK;
  if (!given && (launcher->kind == AC_LAUNCHER_NONE || launcher->size == 1)) *name = "alone";
  if (!given && *name) return AC_OK;
  if (!given) *name = ac_launcher_engine(launcher);
  return ac_launcher_check(launcher, *name ? *name : "");
}

static ac_status open_engine(ac_engine **engine, const char *given, double timeout) {
  const ac_launcher launcher = ac_launcher_find(getenv);
  const char *name;
  AC_TRY(choose_engine(&name, given, &launcher));
  if (!strcmp(name, "alone")) return ac_threads_create(engine, 1, &(ac_ranks_threads_desc){0});
  AC_TRY(ac_mpi_open(engine, name, timeout));
  ac_engine *opened = *engine;
  ac_status status = ac_launcher_compare(&launcher, opened->name, opened->rank, opened->size);
  if (status != AC_OK) opened->functions->close(opened, opened->size == 1);
  return status;
}

/* Told once for each machine. */
static void warn_of_binding(const ac_ranks *ranks) {
  const ac_engine *engine = ac_transport_engine(ranks->transport);
  char line[256];
  if (ranks->log && engine->local_rank == 0 &&
      ac_launcher_binds(ac_processors_of_parent(), ac_processor_count(), engine->processors,
                        engine->local_size, line, sizeof line))
    ranks->log(ranks->log_user, AC_LOG_WARNING, line);
}

ac_status ac_ranks_open(ac_ranks **ranks, const ac_ranks_desc *desc) {
  AC_CREATES(ranks);
  const ac_ranks_desc d = AC_DESCRIBED(ac_ranks_desc, desc);
  AC_TRY(check_timeout(d.timeout));
  ac_engine *engine;
  AC_TRY(open_engine(&engine, d.engine, d.timeout > 0 ? d.timeout : TIMEOUT));
  ac_ranks *made = NULL;
  AC_TRY(make(&made, engine, d.timeout));
  made->log = d.log;
  made->log_user = d.log_user;
  warn_of_binding(made);
  *ranks = made;
  return AC_OK;
}

int ac_ranks_launched(int *rank) {
  const ac_launcher launcher = ac_launcher_find(getenv);
  const bool alone = launcher.kind == AC_LAUNCHER_NONE;
  if (rank) *rank = alone ? 0 : launcher.rank;
  return alone ? 1 : launcher.size > 0 ? launcher.size : 0;
}

/* ---- ranks of this process ------------------------------------------------------------------- */

static ac_status check_simulation(const ac_ranks_threads_desc *d, int count) {
  const bool asks = d->latency != 0 || d->bandwidth != 0 || d->killed_at || d->stalled_at ||
                    d->lost_at || d->steady;
  if (asks && !d->seed)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "ranks are simulated only with a seed; give one that is not 0");
  if (!(d->latency >= 0 && d->latency < 1e9 && d->bandwidth >= 0 && d->stalled_seconds >= 0 &&
        d->stalled_seconds < 1e9))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "latency, bandwidth and seconds of simulated ranks must not be negative");
  if (d->killed_at < 0 || d->stalled_at < 0 || d->lost_at < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "messages of ranks are counted from 1");
  const int named[] = {d->killed_rank, d->stalled_rank, d->lost_rank};
  for (int i = 0; i < 3; i++)
    if (named[i] < 0 || named[i] >= count)
      return ac_fail(AC_ERROR_ARGUMENT, "there is no rank %d among %d", named[i], count);
  return AC_OK;
}

ac_status ac_ranks_create_threads(ac_ranks **list, int count, const ac_ranks_threads_desc *desc) {
  AC_REQUIRE(list);
  const ac_ranks_threads_desc d = AC_DESCRIBED(ac_ranks_threads_desc, desc);
  if (count < 1 || count > 65536)
    return ac_fail(AC_ERROR_ARGUMENT, "there must be 1 to 65536 ranks, not %d", count);
  for (int r = 0; r < count; r++) list[r] = NULL;
  AC_TRY(check_timeout(d.timeout));
  AC_TRY(check_simulation(&d, count));
  ac_engine **engines = calloc((size_t)count, sizeof *engines);
  if (!engines) return ac_fail(AC_ERROR_MEMORY, "no memory for %d ranks", count);
  ac_status status = ac_threads_create(engines, count, &d);
  /* Each engine has to be closed, also after one has failed. */
  for (int r = 0; r < count && engines[r]; r++)
    if (status == AC_OK) status = make(&list[r], engines[r], d.timeout);
    else engines[r]->functions->close(engines[r], false);
  free(engines);
  for (int r = 0; r < count && status != AC_OK; r++) {
    ac_ranks_close(list[r]);
    list[r] = NULL;
  }
  return status;
}

/* ---- both ------------------------------------------------------------------------------------ */

int ac_ranks_rank(const ac_ranks *ranks) {
  return ranks ? ac_transport_rank(ranks->transport) : 0;
}

int ac_ranks_size(const ac_ranks *ranks) {
  return ranks ? ac_transport_size(ranks->transport) : 0;
}

int ac_ranks_local_rank(const ac_ranks *ranks) {
  return ranks ? ac_transport_engine(ranks->transport)->local_rank : 0;
}

int ac_ranks_local_size(const ac_ranks *ranks) {
  return ranks ? ac_transport_engine(ranks->transport)->local_size : 0;
}

const char *ac_ranks_engine(const ac_ranks *ranks) {
  return ranks ? ac_transport_engine(ranks->transport)->name : "";
}

int ac_ranks_threads(const ac_ranks *ranks) {
  if (!ranks) return 0;
  const double share = ac_transport_engine(ranks->transport)->processors;
  return share >= 2 ? (int)(share + 1e-6) : 1;
}

ac_status ac_ranks_barrier(ac_ranks *ranks) {
  AC_REQUIRE(ranks);
  return ac_transport_barrier(ac_ranks_transport(ranks));
}

void ac_ranks_begin_absence(ac_ranks *ranks) {
  if (ranks) ac_transport_begin_absence(ac_ranks_transport(ranks));
}

void ac_ranks_end_absence(ac_ranks *ranks) {
  if (ranks) ac_transport_end_absence(ac_ranks_transport(ranks));
}

void ac_ranks_abort(ac_ranks *ranks, const char *why) {
  if (ranks) ac_transport_abort(ac_ranks_transport(ranks), why && *why ? why : "it cannot go on");
}

void ac_ranks_close(ac_ranks *ranks) {
  if (!ranks) return;
  const ac_kept_error kept = ac_error_keep();
  if (ac_transport_engine(ac_ranks_transport(ranks))->closes_together &&
      ac_transport_barrier(ranks->transport) != AC_OK && ranks->log)
    ranks->log(ranks->log_user, AC_LOG_WARNING, ac_last_error());
  ac_transport_close(ranks->transport);
  ac_error_restore(&kept);
  free(ranks);
}
