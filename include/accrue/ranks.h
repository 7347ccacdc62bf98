/** @file
 * Ranks: several processes, or several threads of one process, that train one model together. A
 * launcher such as mpirun or srun starts the same program once for each rank. */
#ifndef ACCRUE_RANKS_H
#define ACCRUE_RANKS_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One rank, and its connection to the others. One thread at a time uses it. */
typedef struct ac_ranks ac_ranks;

/** How to open ranks. */
typedef struct ac_ranks_desc {
  /** Seconds that a rank waits for another one before it fails and names the silent rank. 0: 60. */
  double timeout;
  /** "alone": one rank, whatever started this process. "openmpi" or "mpich": this library of MPI.
   * NULL: what the launcher of this process needs, or "alone" without a launcher. */
  const char *engine;
  /** Receives warnings, such as that the launcher has bound this rank to one processor. NULL: none
   * does. */
  ac_log_callback log;
  void *log_user; /**< Passed to `log`. */
} ac_ranks_desc;

/** Opens the rank of this process. Under the launchers mpirun, mpiexec and srun it waits until all
 * ranks have called it. A process can do this once if a launcher started it. If the ranks have not
 * all come within the timeout, the process ends with status 1 and a sentence, because a library of
 * MPI gives no other way out. So open ranks before anything that may fail on one machine only.
 *
 * AC_ERROR_UNSUPPORTED: the launcher needs a library of MPI that is missing, or not the one given.
 * AC_ERROR_STATE: the launcher started more ranks than the library of MPI sees, or this process had
 * opened its rank before. */
AC_API ac_status ac_ranks_open(ac_ranks **ranks, const ac_ranks_desc *desc);

/** How many processes the launcher of this one, such as mpirun or srun, has started as ranks: 1
 * without a launcher, 0 if it does not say. `rank` (may be NULL) receives which of them this
 * process is, 0 without a launcher. It opens nothing: a program asks before work that it cannot
 * share out, which else each process would do as a whole. */
AC_API int ac_ranks_launched(int *rank);

/** Which rank this is, from 0 on. */
AC_API int ac_ranks_rank(const ac_ranks *ranks);
/** How many ranks there are. */
AC_API int ac_ranks_size(const ac_ranks *ranks);
/** Which of the ranks on this machine this is, from 0 on. */
AC_API int ac_ranks_local_rank(const ac_ranks *ranks);
/** How many of the ranks are on this machine. */
AC_API int ac_ranks_local_size(const ac_ranks *ranks);
/** How the ranks are connected: "alone", "threads", or the library of MPI, such as "Open
 * MPI 4.1.4".
 */
AC_API const char *ac_ranks_engine(const ac_ranks *ranks);
/** How many threads this rank should compute with so that the ranks of this machine share its
 * processors: those that the launcher bound it to, or an equal share. */
AC_API int ac_ranks_threads(const ac_ranks *ranks);

/** Something that all ranks must have in common. */
typedef struct ac_ranks_fact {
  const char *name;  /**< What it is, such as "the model" or "the batch". */
  const char *value; /**< Any text. */
} ac_ranks_fact;

/** Compares facts of all ranks; all must call it. AC_ERROR_STATE on all ranks if a fact differs,
 * with a sentence that names it, both values and a rank that has each. */
AC_API ac_status ac_ranks_agree(ac_ranks *ranks, const ac_ranks_fact *facts, int count);

/** Makes bytes of rank 0 those of all ranks; all must call it, with the same size. */
AC_API ac_status ac_ranks_tell(ac_ranks *ranks, void *bytes, uint64_t size);

/** How fast messages between ranks are. */
typedef struct ac_network {
  double bandwidth; /**< Bytes per second that a rank can send while it receives as many. */
  double latency;   /**< Seconds until a short message arrives. */
} ac_network;

/** Measures the network between the ranks; all must call it, and all get the same. The bandwidth is
 * that of the slowest rank while all send and receive. It takes about a second, on a slow network
 * longer. AC_ERROR_STATE with one rank. */
AC_API ac_status ac_ranks_measure(ac_ranks *ranks, ac_network *network);

/** Waits until all ranks have called it. AC_ERROR_IO if one does not come within the timeout; the
 * sentence names it. */
AC_API ac_status ac_ranks_barrier(ac_ranks *ranks);

/** Until ac_ranks_end_absence another thread answers the others in the place of this rank, so that
 * they do not take it for dead: for work without the ranks that may take longer than the timeout,
 * such as copying a large file. What saves models and states does it by itself. Calls in between
 * work as always, and pairs may be nested. After 30 timeouts nobody answers any more. */
AC_API void ac_ranks_begin_absence(ac_ranks *ranks);
/** The end of what ac_ranks_begin_absence began; all that began has to end before
 * ac_ranks_close. */
AC_API void ac_ranks_end_absence(ac_ranks *ranks);

/** Ends the run for all ranks because this one cannot go on. `why` is one sentence, or NULL. With
 * MPI the processes of all ranks end with status 1 and this call does not return. Calls of ranks of
 * the same process fail with `why`. */
AC_API void ac_ranks_abort(ac_ranks *ranks, const char *why);

/** Closes a rank that has finished in order. With MPI it waits until all ranks do. A rank that
 * failed has to call ac_ranks_abort before. */
AC_API void ac_ranks_close(ac_ranks *ranks);

/* ---- may still change ------------------------------------------------------------------------ */

#ifndef AC_STABLE_ONLY

/** How ranks within one process behave. All zeros: messages arrive at once, nothing fails. */
typedef struct ac_ranks_threads_desc {
  /** As in ac_ranks_desc. */
  double timeout;
  /** Not 0: messages take a simulated time, drawn by this seed. Time in waits is then simulated as
   * well: it passes only while all ranks wait, so a timeout takes no time. The same seed repeats
   * the same run. */
  uint64_t seed;
  /** Simulated seconds that a message is on its way, on average; it varies at random, and messages
   * between different pairs or with different tags overtake each other. 0: 1e-4. Needs `seed`. */
  double latency;
  /** Simulated bytes per second that a rank can send, and receive. 0: no limit. Needs `seed`. */
  double bandwidth;
  /** Rank `killed_rank` fails when it begins its `killed_at`-th message, counted from 1, and never
   * answers again. `killed_at` 0: none. Needs `seed`. */
  int killed_rank;
  int64_t killed_at; /**< See `killed_rank`. */
  /** Rank `stalled_rank` sleeps for `stalled_seconds` of simulated time before its `stalled_at`-th
   * message, counted from 1. `stalled_at` 0: none. Needs `seed`. */
  int stalled_rank;
  int64_t stalled_at;     /**< See `stalled_rank`. */
  double stalled_seconds; /**< See `stalled_rank`. */
  /** The `lost_at`-th message that rank `lost_rank` sends never arrives, and none that follows it
   * between the same pair. `lost_at` 0: none. Needs `seed`. */
  int lost_rank;
  int64_t lost_at; /**< See `lost_rank`. */
  /** Every message takes the latency, no longer and no shorter: to compare times with a
   * calculation. Needs `seed`. */
  bool steady;
} ac_ranks_threads_desc;

/** Makes `count` ranks of this process, for several devices of one machine and for tests: list[r]
 * is rank r. Each must be used by a thread of its own. Close each one. */
AC_API ac_status ac_ranks_create_threads(ac_ranks **list, int count,
                                         const ac_ranks_threads_desc *desc);

#endif

#ifdef __cplusplus
}
#endif
#endif
