/* Transports over any engine: what waits, and finds out which rank is silent.
 *
 * A rank that waits calls the engine's `advance` and `rest` in turn. After half of the timeout
 * without progress it asks the rank that it waits for, and asks again several times: a rank that
 * waits or tests answers. "Busy" starts the timeout anew. "I wait for rank 2" leads the question on
 * to rank 2, so what is named in the end is the rank that has not answered, not one that suffers as
 * well. */
#include "ranks/transport.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/error.h"
#include "ranks/deputy.h"
#include "ranks/engine.h"

enum { BARRIER_TAG = AC_TRANSPORT_TAGS }; /* one for each round; notices are after them */
enum { QUESTIONS = 4 };                   /* within half of the timeout */
enum { SIGNS_OF_LIFE = 64 };              /* within a timeout */

/* Whom a waiting rank suspects. */
typedef struct suspicion {
  double last;  /* when what it waits for last got on, or was said to be on its way */
  double asked; /* when it last asked */
  int suspect;  /* whom it asks: the awaited rank, or one that this one waits for */
  int links;    /* from the awaited rank to the suspect */
  bool circle;  /* they wait for this rank itself */
} suspicion;

/* Tests of one transfer in a row. */
typedef struct tests {
  const ac_transfer *awaited; /* NULL: none */
  double last;                /* when it was tested last */
  suspicion suspicion;
} tests;

struct ac_transport {
  ac_engine *engine;
  double timeout;
  ac_status failed; /* AC_OK: not yet */
  char sentence[AC_SENTENCE_BYTES];
  ac_transport_counts counts;
  int waits_for; /* -1: for none */
  tests tested;
  double shown; /* when it last showed life */
  ac_deputy deputy;
  void (*take_back)(void *user); /* NULL: it is not lent */
  void *lent_to;
  ac_transfer *all; /* one for each rank; rank 0 alone has them */
};

ac_status ac_transport_create(ac_transport **transport, ac_engine *engine, double timeout) {
  *transport = NULL;
  ac_transport *made = calloc(1, sizeof *made);
  if (!made) {
    engine->functions->close(engine, false);
    return ac_fail(AC_ERROR_MEMORY, "no memory for a transport");
  }
  *made = (ac_transport){.engine = engine, .timeout = timeout, .waits_for = -1};
  if (!engine->rank) made->all = calloc((size_t)engine->size, sizeof *made->all);
  if (!engine->rank && !made->all) {
    const int size = engine->size;
    ac_transport_close(made); /* and the engine */
    return ac_fail(AC_ERROR_MEMORY, "no memory for %d messages", size);
  }
  *transport = made;
  return AC_OK;
}

ac_engine *ac_transport_engine(const ac_transport *t) {
  return t->engine;
}

int ac_transport_rank(const ac_transport *t) {
  return t->engine->rank;
}

int ac_transport_size(const ac_transport *t) {
  return t->engine->size;
}

double ac_transport_timeout(const ac_transport *t) {
  return t->timeout;
}

ac_transport_counts ac_transport_count(const ac_transport *t) {
  return t->counts;
}

static ac_status fail(ac_transport *t, ac_status status) {
  t->failed = status;
  snprintf(t->sentence, sizeof t->sentence, "%s", ac_last_error());
  if (t->engine->functions->cancel) t->engine->functions->cancel(t->engine);
  return status;
}

static ac_status fail_by_engine(ac_transport *t, ac_status status) {
  return fail(t, ac_fail(status, "%s", t->engine->why));
}

static ac_status failed_before(const ac_transport *t) {
  return ac_fail(t->failed, "%s", t->sentence);
}

/* ---- transfers ------------------------------------------------------------------------------- */

static ac_status start(ac_transport *t, int peer, uint32_t tag, void *bytes, uint64_t size,
                       bool sends, ac_transfer *transfer) {
  ac_engine *engine = t->engine;
  *transfer = (ac_transfer){
      .bytes = bytes,
      .size = size,
      .peer = peer,
      .tag = tag,
      .sends = sends,
      .pending = 1,
      .since = engine->functions->clock(engine),
  };
  if (sends && peer != engine->rank) {
    t->counts.messages++;
    t->counts.bytes += size;
  }
  if (engine->last) engine->last->next = transfer;
  else engine->first = transfer;
  engine->last = transfer;
  ac_status status = engine->functions->begin(engine, transfer);
  return status == AC_OK ? AC_OK : fail_by_engine(t, status);
}

static ac_status begin(ac_transport *t, int peer, uint32_t tag, void *bytes, uint64_t size,
                       bool sends, ac_transfer *transfer) {
  ac_deputy_hold(&t->deputy);
  const ac_status status = start(t, peer, tag, bytes, size, sends, transfer);
  ac_deputy_let_go(&t->deputy);
  return status;
}

/* A deputy may find a failure at any time. */
static ac_status check_failed(ac_transport *t) {
  ac_deputy_hold(&t->deputy);
  const ac_status status = t->failed == AC_OK ? AC_OK : failed_before(t);
  ac_deputy_let_go(&t->deputy);
  return status;
}

static ac_status check(ac_transport *t, int peer, uint32_t tag) {
  AC_TRY(check_failed(t));
  if (peer < 0 || peer >= t->engine->size)
    return ac_fail(AC_ERROR_ARGUMENT, "there is no rank %d among %d", peer, t->engine->size);
  if (tag >= AC_TRANSPORT_TAGS)
    return ac_fail(AC_ERROR_ARGUMENT, "a tag must be below %d; it is %u", AC_TRANSPORT_TAGS, tag);
  return AC_OK;
}

ac_status ac_transport_begin_send(ac_transport *t, int to, uint32_t tag, const void *bytes,
                                  uint64_t size, ac_transfer *transfer) {
  AC_TRY(check(t, to, tag));
  /* An engine only reads what it sends. */
  return begin(t, to, tag, (void *)(uintptr_t)bytes, size, true, transfer);
}

ac_status ac_transport_begin_receive(ac_transport *t, int from, uint32_t tag, void *bytes,
                                     uint64_t size, ac_transfer *transfer) {
  AC_TRY(check(t, from, tag));
  return begin(t, from, tag, bytes, size, false, transfer);
}

static const ac_transfer *first_pending(const ac_transfer *list, int count) {
  for (int i = 0; i < count; i++)
    if (list[i].pending) return &list[i];
  return NULL;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static void suspect_first(suspicion *s, double now, int peer) {
  *s = (suspicion){.last = now, .asked = now, .suspect = peer};
}

/* Answers questions, and learns from answers; `s` is NULL if this rank waits for none. */
static void read_notices(ac_transport *t, suspicion *s, int awaited) {
  ac_engine *engine = t->engine;
  const ac_engine_functions *f = engine->functions;
  int from;
  ac_notice notice;
  while (f->notified(engine, &from, &notice)) {
    if (notice.kind == AC_NOTICE_ASK) {
      const ac_notice answer = {t->waits_for < 0 ? AC_NOTICE_BUSY : AC_NOTICE_WAITS, t->waits_for};
      f->notify(engine, from, &answer);
    } else if (!s || from != s->suspect) {
      continue; /* an answer to an earlier question */
    } else if (notice.kind == AC_NOTICE_BUSY) {
      suspect_first(s, f->clock(engine), awaited);
    } else if (notice.peer == engine->rank || s->links == engine->size) {
      s->circle = true;
    } else if (notice.peer >= 0 && notice.peer < engine->size) {
      s->suspect = notice.peer;
      s->links++;
      s->asked = 0; /* at once */
    }
  }
}

static ac_status fail_of_silence(ac_transport *t, const suspicion *s, const ac_transfer *awaited) {
  char what[160], bytes[32];
  const int rank = t->engine->rank, peer = awaited->peer;
  ac_format_bytes(bytes, sizeof bytes, awaited->size);
  if (awaited->tag >= BARRIER_TAG) snprintf(what, sizeof what, "rank %d waits for it", rank);
  else if (awaited->sends)
    snprintf(what, sizeof what, "rank %d waits until it takes a message of %s, tag %u", rank, bytes,
             awaited->tag);
  else
    snprintf(what, sizeof what, "rank %d waits for its message of %s, tag %u", rank, bytes,
             awaited->tag);
  ac_status status;
  if (s->circle)
    status = ac_fail(AC_ERROR_IO, "rank %d has sent nothing for %g s, and waits itself: %s", peer,
                     t->timeout, what);
  else if (s->suspect == peer)
    status = ac_fail(AC_ERROR_IO, "rank %d is silent for %g s: %s", peer, t->timeout, what);
  else
    status = ac_fail(AC_ERROR_IO,
                     "rank %d is silent for %g s; rank %d waits for rank %d, which waits for it",
                     s->suspect, t->timeout, rank, peer);
  return fail(t, status);
}

/* Looks after a wait that does not get on; `until` becomes the time to look again. */
static ac_status watch(ac_transport *t, suspicion *s, const ac_transfer *awaited, double *until) {
  ac_engine *engine = t->engine;
  const double now = engine->functions->clock(engine);
  if (awaited->since > s->last) suspect_first(s, awaited->since, awaited->peer);
  read_notices(t, s, awaited->peer);
  const double ends = s->last + t->timeout;
  if (now >= ends) return fail_of_silence(t, s, awaited);
  const double pause = 0.5 * t->timeout / QUESTIONS;
  *until = ends;
  if (awaited->peer == engine->rank) return AC_OK;
  double next = fmax(s->last + 0.5 * t->timeout, s->asked + pause);
  if (now >= next) {
    if (s->asked != 0) { /* else it has just learned whom to ask next */
      s->suspect = awaited->peer;
      s->links = 0;
      s->circle = false;
    }
    engine->functions->notify(engine, s->suspect, &(ac_notice){AC_NOTICE_ASK, engine->rank});
    s->asked = now;
    next = now + pause;
  }
  *until = fmin(next, ends);
  return AC_OK;
}

static ac_status advance(ac_transport *t) {
  ac_status status = t->engine->functions->advance(t->engine);
  return status == AC_OK ? AC_OK : fail_by_engine(t, status);
}

static ac_status wait_for(ac_transport *t, ac_transfer *list, int count) {
  if (t->failed != AC_OK) return failed_before(t);
  ac_engine *engine = t->engine;
  const double begun = engine->functions->clock(engine);
  const ac_transfer *awaited = NULL;
  suspicion s = {0};
  double since = 0, until = 0;
  for (int idle = 0;; idle++) {
    AC_TRY(advance(t));
    const ac_transfer *pending = first_pending(list, count);
    if (!pending) break;
    if (pending != awaited || pending->since > since) idle = 0;
    if (pending != awaited) suspect_first(&s, engine->functions->clock(engine), pending->peer);
    awaited = pending;
    since = pending->since;
    t->waits_for = awaited->peer;
    AC_TRY(watch(t, &s, awaited, &until));
    engine->functions->rest(engine, until, idle);
  }
  t->waits_for = -1;
  t->counts.waited += engine->functions->clock(engine) - begun;
  return AC_OK;
}

ac_status ac_transport_wait(ac_transport *t, ac_transfer *list, int count) {
  ac_deputy_hold(&t->deputy);
  const ac_status status = wait_for(t, list, count);
  ac_deputy_let_go(&t->deputy);
  return status;
}

/* As in a wait, but a rank that tests is not waiting: it answers that it is busy. Time in which it
 * did not test counts for none. */
static ac_status watch_tests(ac_transport *t, const ac_transfer *awaited) {
  tests *tested = &t->tested;
  const double now = t->engine->functions->clock(t->engine);
  if (awaited != tested->awaited) suspect_first(&tested->suspicion, now, awaited->peer);
  else if (now - tested->last > 0.5 * t->timeout / QUESTIONS)
    tested->suspicion.last += now - tested->last;
  tested->awaited = awaited;
  tested->last = now;
  double until;
  return watch(t, &tested->suspicion, awaited, &until);
}

static ac_status test(ac_transport *t, ac_transfer *list, int count, bool *done) {
  *done = false;
  if (t->failed != AC_OK) return failed_before(t);
  ac_engine *engine = t->engine;
  AC_TRY(advance(t));
  if (first_pending(list, count) && engine->simulated) {
    const double now = engine->functions->clock(engine);
    engine->functions->rest(engine, now + t->timeout / 64, 0); /* else no time would pass */
    AC_TRY(advance(t));
  }
  const ac_transfer *awaited = first_pending(list, count);
  if (awaited) return watch_tests(t, awaited);
  t->tested.awaited = NULL;
  read_notices(t, NULL, -1);
  *done = true;
  return AC_OK;
}

ac_status ac_transport_test(ac_transport *t, ac_transfer *list, int count, bool *done) {
  ac_deputy_hold(&t->deputy);
  const ac_status status = test(t, list, count, done);
  ac_deputy_let_go(&t->deputy);
  return status;
}

ac_status ac_transport_show_life(ac_transport *t) {
  bool done;
  ac_engine *engine = t->engine;
  AC_TRY(check_failed(t));
  if (t->deputy.lock) return AC_OK; /* it does that */
  const double now = engine->functions->clock(engine);
  if (!engine->simulated && !engine->first && now - t->shown < t->timeout / SIGNS_OF_LIFE)
    return AC_OK;
  t->shown = now;
  return test(t, NULL, 0, &done);
}

/* The deputy's, with its lock. What fails is found by the next call. */
static void answer(void *transport) {
  ac_transport *t = transport;
  bool done;
  if (t->failed == AC_OK) (void)test(t, NULL, 0, &done);
}

void ac_transport_begin_absence(ac_transport *t) {
  if (t->engine->simulated || t->engine->size < 2) return;
  ac_deputy_begin(&t->deputy, t->timeout, answer, t);
}

void ac_transport_end_absence(ac_transport *t) {
  ac_deputy_end(&t->deputy);
}

ac_status ac_transport_send(ac_transport *t, int to, uint32_t tag, const void *bytes,
                            uint64_t size) {
  ac_transfer transfer;
  AC_TRY(ac_transport_begin_send(t, to, tag, bytes, size, &transfer));
  return ac_transport_wait(t, &transfer, 1);
}

ac_status ac_transport_receive(ac_transport *t, int from, uint32_t tag, void *bytes,
                               uint64_t size) {
  ac_transfer transfer;
  AC_TRY(ac_transport_begin_receive(t, from, tag, bytes, size, &transfer));
  return ac_transport_wait(t, &transfer, 1);
}

ac_status ac_transport_tell(ac_transport *t, uint32_t tag, void *bytes, uint64_t size) {
  const int ranks = t->engine->size;
  if (t->engine->rank) return ac_transport_receive(t, 0, tag, bytes, size);
  for (int r = 1; r < ranks; r++)
    AC_TRY(ac_transport_begin_send(t, r, tag, bytes, size, &t->all[r]));
  return ranks > 1 ? ac_transport_wait(t, t->all, ranks) : AC_OK;
}

/* In round k each rank hears of 2^k ranks more: a barrier of log2(size) rounds. */
ac_status ac_transport_barrier(ac_transport *t) {
  AC_TRY(check_failed(t));
  const int rank = t->engine->rank, size = t->engine->size;
  uint32_t tag = BARRIER_TAG;
  for (int distance = 1; distance < size; distance *= 2, tag++) {
    ac_transfer both[2];
    AC_TRY(begin(t, (rank + size - distance) % size, tag, NULL, 0, false, &both[0]));
    AC_TRY(begin(t, (rank + distance) % size, tag, NULL, 0, true, &both[1]));
    AC_TRY(ac_transport_wait(t, both, 2));
  }
  return AC_OK;
}

ac_status ac_transport_work(ac_transport *t, double seconds) {
  if (t->failed != AC_OK) return failed_before(t);
  if (!t->engine->functions->work) return AC_OK;
  ac_status status = t->engine->functions->work(t->engine, seconds);
  return status == AC_OK ? AC_OK : fail_by_engine(t, status);
}

void ac_transport_give_up(ac_transport *t) {
  const ac_kept_error kept = ac_error_keep();
  ac_deputy_hold(&t->deputy);
  if (t->failed == AC_OK && t->engine->first)
    (void)fail(t, ac_fail(AC_ERROR_STATE, "messages were under way when a trainer was freed"));
  ac_deputy_let_go(&t->deputy);
  ac_error_restore(&kept);
}

void ac_transport_lend(ac_transport *t, void (*take_back)(void *user), void *user) {
  t->take_back = take_back;
  t->lent_to = user;
}

void ac_transport_take_back(ac_transport *t) {
  if (t->take_back) t->take_back(t->lent_to);
}

/* ---- the end --------------------------------------------------------------------------------- */

void ac_transport_abort(ac_transport *t, const char *why) {
  while (t->deputy.depth) ac_deputy_end(&t->deputy);
  t->engine->functions->end_all(t->engine, why);
  if (t->failed != AC_OK) return;
  const ac_kept_error kept = ac_error_keep();
  (void)fail(t, ac_fail(AC_ERROR_STOPPED, "%s", why));
  ac_error_restore(&kept);
}

void ac_transport_close(ac_transport *t) {
  if (!t) return;
  while (t->deputy.depth) ac_deputy_end(&t->deputy);
  t->engine->functions->close(t->engine, t->failed == AC_OK && !t->engine->first);
  free(t->all);
  free(t);
}
