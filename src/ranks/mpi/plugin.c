/* The engine on a library of MPI. This file is compiled once by the compiler of each library into a
 * plugin that Accrue opens only under a launcher, so neither library nor program depend on MPI.
 *
 * All is point to point. A message larger than a piece travels in pieces of the same tag, at most
 * AC_TRANSFER_PIECES at once. Pieces are so small that libraries send them without asking first:
 * over TCP, Open MPI's answer to such a question waits in one stream with the large message that
 * goes the other way, so of two ranks that send to each other one would wait for the other, and a
 * link would carry half of what it can. MPI keeps the order of messages of a pair and a tag; here a
 * transfer waits until all pieces of an earlier one of the same pair, tag and direction are with
 * MPI. A receive first looks for its message (MPI_Improbe), because only so it learns what another
 * size was.
 *
 * MPI ends the process if it cannot begin; after that its errors are returned. */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include <mpi.h>

#include "ranks/engine.h"

enum { NOTICE_TAG = 2 * AC_TRANSPORT_TAGS };
enum { NOTICES = 16 };      /* under way at once */
enum { STARTED = 1 };       /* ac_transfer.engine: also true of a message without bytes */
enum { BUSY_ROUNDS = 200 }; /* without sleep */
enum { PIECE = 60000 };     /* bytes; Open MPI asks first from 64 KiB on, with its own header */
#define SHORTEST_SLEEP 2e-5 /* seconds */
#define LONGEST_SLEEP 5e-4

typedef struct mpi_engine {
  ac_engine engine;
  ac_mpi_host host;
  MPI_Comm comm;
  ac_notice notices[NOTICES];
  MPI_Request notice_requests[NOTICES];
  ac_status broken;
} mpi_engine;

static mpi_engine *mpi_of(ac_engine *engine) {
  return (mpi_engine *)engine;
}

static ac_status fail_by_mpi(ac_engine *engine, int error, const char *what, int peer) {
  char text[MPI_MAX_ERROR_STRING + 1] = "";
  int length = 0;
  MPI_Error_string(error, text, &length);
  text[strcspn(text, "\n")] = 0;
  snprintf(engine->why, sizeof engine->why, "%s: %s rank %d failed: %.300s", engine->name, what,
           peer, text);
  return AC_ERROR_IO;
}

/* ---- pieces, in the slots of a transfer ------------------------------------------------------ */

/* A request of MPI is a number or a pointer; a slot keeps its bits. A free one has
 * MPI_REQUEST_NULL. */

static MPI_Request request_of(const ac_transfer *t, int slot) {
  MPI_Request request;
  memcpy(&request, &t->pieces[slot], sizeof request);
  return request;
}

static void keep_request(ac_transfer *t, int slot, MPI_Request request) {
  _Static_assert(sizeof request <= sizeof t->pieces[0], "a request fits a slot");
  memcpy(&t->pieces[slot], &request, sizeof request);
}

static uint64_t piece_at(const ac_engine *engine, const ac_transfer *t, uint64_t offset) {
  const uint64_t left = t->size - offset;
  return left < engine->piece ? left : engine->piece;
}

static bool all_begun(const ac_transfer *t) {
  return (t->engine & STARTED) && t->begun == t->size;
}

static bool same_way(const ac_transfer *a, const ac_transfer *b) {
  return a->peer == b->peer && a->tag == b->tag && a->sends == b->sends;
}

static ac_status begin(ac_engine *engine, ac_transfer *transfer) {
  for (int slot = 0; slot < AC_TRANSFER_PIECES; slot++)
    keep_request(transfer, slot, MPI_REQUEST_NULL);
  for (ac_transfer *t = engine->first; t != transfer; t = t->next) {
    if (!same_way(t, transfer) || t->follower || all_begun(t)) continue;
    t->follower = transfer;
    transfer->follows = 1;
  }
  return AC_OK;
}

/* The next piece is with MPI. */
static void count_begun(ac_transfer *t, int slot, MPI_Request request, uint64_t piece) {
  keep_request(t, slot, request);
  t->begun += piece;
  t->engine |= STARTED;
  if (!all_begun(t) || !t->follower) return;
  t->follower->follows = 0;
  t->follower = NULL;
}

static ac_status send_piece(ac_engine *engine, ac_transfer *t, int slot) {
  const uint64_t piece = piece_at(engine, t, t->begun);
  MPI_Request request;
  int error = MPI_Isend((char *)t->bytes + t->begun, (int)piece, MPI_BYTE, t->peer, (int)t->tag,
                        mpi_of(engine)->comm, &request);
  if (error != MPI_SUCCESS) return fail_by_mpi(engine, error, "a message to", t->peer);
  count_begun(t, slot, request, piece);
  return AC_OK;
}

static ac_status fail_by_size(ac_engine *engine, const ac_transfer *t, uint64_t expected,
                              uint64_t sent) {
  const bool pieces = t->size > engine->piece;
  snprintf(engine->why, sizeof engine->why,
           "rank %d expects %llu bytes from rank %d with tag %u, which has sent %llu%s",
           engine->rank, (unsigned long long)t->size, t->peer, t->tag,
           (unsigned long long)(t->begun + sent),
           sent == engine->piece || (pieces && sent > expected) ? " or more" : "");
  return AC_ERROR_FORMAT;
}

/* `found`: its message has come. */
static ac_status receive_piece(ac_engine *engine, ac_transfer *t, int slot, int *found) {
  const uint64_t piece = piece_at(engine, t, t->begun);
  MPI_Message message;
  MPI_Status status;
  MPI_Request request;
  int error = MPI_Improbe(t->peer, (int)t->tag, mpi_of(engine)->comm, found, &message, &status);
  if (error != MPI_SUCCESS) return fail_by_mpi(engine, error, "a message from", t->peer);
  if (!*found) return AC_OK;
  int sent = 0;
  MPI_Get_count(&status, MPI_BYTE, &sent);
  if ((uint64_t)sent != piece) return fail_by_size(engine, t, piece, (uint64_t)sent);
  error = MPI_Imrecv((char *)t->bytes + t->begun, (int)piece, MPI_BYTE, &message, &request);
  if (error != MPI_SUCCESS) return fail_by_mpi(engine, error, "a message from", t->peer);
  count_begun(t, slot, request, piece);
  return AC_OK;
}

/* One step of a slot: a piece ends, or the next one begins. */
static ac_status advance_slot(ac_engine *engine, ac_transfer *t, int slot, bool *busy) {
  MPI_Request request = request_of(t, slot);
  if (request != MPI_REQUEST_NULL) {
    int ended;
    int error = MPI_Test(&request, &ended, MPI_STATUS_IGNORE);
    if (error != MPI_SUCCESS) return fail_by_mpi(engine, error, "a message of", t->peer);
    keep_request(t, slot, request);
    *busy |= !ended;
    if (!ended) return AC_OK;
    t->since = mpi_of(engine)->host.clock();
  }
  if (t->follows || all_begun(t)) return AC_OK;
  int found = 1;
  ac_status status =
      t->sends ? send_piece(engine, t, slot) : receive_piece(engine, t, slot, &found);
  *busy |= found;
  return status;
}

static ac_status advance(ac_engine *engine) {
  mpi_engine *mpi = mpi_of(engine);
  for (ac_transfer *t = engine->first, *next; t && mpi->broken == AC_OK; t = next) {
    next = t->next;
    bool busy = false;
    for (int slot = 0; slot < AC_TRANSFER_PIECES && mpi->broken == AC_OK; slot++) {
      if (slot && (t->follows || (t->begun == 0 && !(t->engine & STARTED)))) break;
      mpi->broken = advance_slot(engine, t, slot, &busy);
    }
    if (mpi->broken == AC_OK && !busy && all_begun(t)) ac_engine_remove(engine, t);
  }
  return mpi->broken;
}

static double clock_of(ac_engine *engine) {
  return mpi_of(engine)->host.clock();
}

/* MPI itself would spin. Sleeps leave the processor to the threads that compute. */
static void rest(ac_engine *engine, double until, int idle) {
  const int rounds = engine->sleeps ? idle : idle - BUSY_ROUNDS;
  if (rounds < 0) return;
  const mpi_engine *mpi = mpi_of(engine);
  double sleep = SHORTEST_SLEEP * (double)(1 + rounds / 8);
  if (sleep > LONGEST_SLEEP) sleep = LONGEST_SLEEP;
  const double left = until - mpi->host.clock();
  mpi->host.sleep(sleep < left ? sleep : left);
}

/* ---- notices --------------------------------------------------------------------------------- */

static void notify(ac_engine *engine, int to, const ac_notice *notice) {
  mpi_engine *mpi = mpi_of(engine);
  for (int slot = 0; slot < NOTICES; slot++) {
    int ended = 1;
    if (MPI_Test(&mpi->notice_requests[slot], &ended, MPI_STATUS_IGNORE) != MPI_SUCCESS || !ended)
      continue;
    mpi->notices[slot] = *notice;
    (void)MPI_Isend(&mpi->notices[slot], (int)sizeof *notice, MPI_BYTE, to, NOTICE_TAG, mpi->comm,
                    &mpi->notice_requests[slot]);
    return;
  }
}

static bool notified(ac_engine *engine, int *from, ac_notice *notice) {
  mpi_engine *mpi = mpi_of(engine);
  int found = 0;
  MPI_Status status;
  if (MPI_Iprobe(MPI_ANY_SOURCE, NOTICE_TAG, mpi->comm, &found, &status) != MPI_SUCCESS || !found)
    return false;
  *from = status.MPI_SOURCE;
  return MPI_Recv(notice, (int)sizeof *notice, MPI_BYTE, *from, NOTICE_TAG, mpi->comm,
                  MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

static void end_all(ac_engine *engine, const char *why) {
  (void)why;
  MPI_Abort(mpi_of(engine)->comm, 1);
}

static void close_engine(ac_engine *engine, bool in_order) {
  mpi_engine *mpi = mpi_of(engine);
  if (!in_order) end_all(engine, "");
  int from;
  ac_notice notice;
  while (notified(engine, &from, &notice)) continue;
  for (int slot = 0; slot < NOTICES; slot++)
    if (mpi->notice_requests[slot] != MPI_REQUEST_NULL)
      MPI_Request_free(&mpi->notice_requests[slot]);
  MPI_Comm_free(&mpi->comm);
  MPI_Finalize();
  mpi->host.release(mpi);
}

static const ac_engine_functions functions = {
    .begin = begin,
    .advance = advance,
    .rest = rest,
    .clock = clock_of,
    .notify = notify,
    .notified = notified,
    .end_all = end_all,
    .close = close_engine,
};

/* "Open MPI v4.1.4, package: ..." or "MPICH Version:\t4.0.2\n..." becomes a name and a number. */
static void name_library(char *name, size_t size) {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(text, &length);
  const size_t label = strcspn(text, "0123456789");
  const int number = (int)strspn(text + label, "0123456789.");
#ifdef OPEN_MPI
  snprintf(name, size, "Open MPI %.*s", number, text + label);
#else
  snprintf(name, size, "MPICH %.*s", number, text + label);
#endif
}

/* The ranks of this machine, and how many of them may use each processor that this rank may. */
static int share_processors(mpi_engine *mpi) {
  ac_engine *engine = &mpi->engine;
  MPI_Comm local;
  int users[64 * AC_PROCESSOR_WORDS] = {0};
  for (int p = 0; p < 64 * AC_PROCESSOR_WORDS; p++)
    users[p] = mpi->host.processors[p / 64] >> p % 64 & 1;
  int error =
      MPI_Comm_split_type(mpi->comm, MPI_COMM_TYPE_SHARED, engine->rank, MPI_INFO_NULL, &local);
  if (error != MPI_SUCCESS) return error;
  MPI_Comm_rank(local, &engine->local_rank);
  MPI_Comm_size(local, &engine->local_size);
  error = MPI_Allreduce(MPI_IN_PLACE, users, 64 * AC_PROCESSOR_WORDS, MPI_INT, MPI_SUM, local);
  MPI_Comm_free(&local);
  for (int p = 0; p < 64 * AC_PROCESSOR_WORDS; p++)
    if (mpi->host.processors[p / 64] >> p % 64 & 1) engine->processors += 1.0 / users[p];
  return error;
}

static ac_status fail_to_open(mpi_engine *mpi, int error, char *why) {
  ac_status status = fail_by_mpi(&mpi->engine, error, "the connection of", mpi->engine.rank);
  snprintf(why, AC_ENGINE_WHY, "%s", mpi->engine.why);
  return status;
}

/* Tags of all kinds must be possible, and one thread after another may call. */
static ac_status open_comm(mpi_engine *mpi, int provided, char *why) {
  int *largest, found;
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  ac_engine *engine = &mpi->engine;
  int error = MPI_Comm_dup(MPI_COMM_WORLD, &mpi->comm);
  if (error != MPI_SUCCESS) return fail_to_open(mpi, error, why);
  MPI_Comm_set_errhandler(mpi->comm, MPI_ERRORS_RETURN);
  MPI_Comm_rank(mpi->comm, &engine->rank);
  MPI_Comm_size(mpi->comm, &engine->size);
  error = share_processors(mpi);
  if (error != MPI_SUCCESS) return fail_to_open(mpi, error, why);
  MPI_Comm_get_attr(mpi->comm, MPI_TAG_UB, &largest, &found);
  if (!found || *largest < NOTICE_TAG || provided < MPI_THREAD_SERIALIZED) {
    snprintf(why, AC_ENGINE_WHY, "%s was built without %s", engine->name,
             provided < MPI_THREAD_SERIALIZED ? "support of threads" : "tags as large as needed");
    return AC_ERROR_UNSUPPORTED;
  }
  return AC_OK;
}

__attribute__((visibility("default"))) ac_status
ac_mpi_plugin_open(ac_engine **engine, const ac_mpi_host *host, char *why);

ac_status ac_mpi_plugin_open(ac_engine **engine, const ac_mpi_host *host, char *why) {
  *engine = NULL;
  if (host->version != AC_MPI_PLUGIN_VERSION) {
    snprintf(why, AC_ENGINE_WHY, "the plugin is of another version of Accrue");
    return AC_ERROR_UNSUPPORTED;
  }
  int begun = 0, ended = 0, provided = 0;
  MPI_Finalized(&ended);
  MPI_Initialized(&begun);
  if (begun || ended) {
    snprintf(why, AC_ENGINE_WHY, "this process has begun MPI before");
    return AC_ERROR_STATE;
  }
  mpi_engine *mpi = host->allocate(sizeof *mpi);
  if (!mpi) {
    snprintf(why, AC_ENGINE_WHY, "no memory for a connection");
    return AC_ERROR_MEMORY;
  }
  mpi->host = *host;
  mpi->engine.functions = &functions;
  mpi->engine.piece = PIECE;
  mpi->engine.closes_together = true;
  for (int slot = 0; slot < NOTICES; slot++) mpi->notice_requests[slot] = MPI_REQUEST_NULL;
  name_library(mpi->engine.name, sizeof mpi->engine.name);
  MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
  ac_status status = open_comm(mpi, provided, why);
  if (status != AC_OK) {
    host->release(mpi); /* MPI stays as it is: the process is about to fail */
    return status;
  }
  *engine = &mpi->engine;
  return AC_OK;
}
