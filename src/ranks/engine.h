/* What moves messages under a transport. An engine knows neither timeouts nor barriers: transport.c
 * makes them of this table. src/ranks/mpi/plugin.c, which is not linked with the library, includes
 * only this header: so an engine says what went wrong in `why`, and the transport passes it on. */
#ifndef AC_RANKS_ENGINE_H
#define AC_RANKS_ENGINE_H

#include "ranks/transport.h"

typedef struct ac_engine ac_engine;

/* Questions of a rank that has waited for long, and their answers. */
typedef enum ac_notice_kind {
  AC_NOTICE_ASK,   /* are you there? */
  AC_NOTICE_BUSY,  /* I am, and not waiting */
  AC_NOTICE_WAITS, /* I wait for rank `peer` */
} ac_notice_kind;
typedef struct ac_notice {
  int32_t kind, peer;
} ac_notice;

enum { AC_ENGINE_WHY = 512, AC_ENGINE_NAME = 64 };

typedef struct ac_engine_functions {
  /* A transfer with peer, tag, sends, bytes and size set, which is the last of the list. */
  ac_status (*begin)(ac_engine *engine, ac_transfer *transfer);
  /* Lets all of the list go on; never waits. Removes those that are done (ac_engine_remove). */
  ac_status (*advance)(ac_engine *engine);
  /* Between two calls of advance without a result: until something may have changed, at most until
   * this time of the engine's clock. `idle`: how often in a row nothing had changed. */
  void (*rest)(ac_engine *engine, double until, int idle);
  double (*clock)(ac_engine *engine); /* seconds */
  /* May lose a notice; a question is repeated. */
  void (*notify)(ac_engine *engine, int to, const ac_notice *notice);
  bool (*notified)(ac_engine *engine, int *from, ac_notice *notice);
  /* This rank computes for so long: a simulation lets its time pass. May be NULL. */
  ac_status (*work)(ac_engine *engine, double seconds);
  /* A call has failed: nothing of the list is touched any more, and its memory may go. May be NULL:
   * then the process is about to end. */
  void (*cancel)(ac_engine *engine);
  /* Ends the run for all ranks; may not return. */
  void (*end_all)(ac_engine *engine, const char *why);
  /* Frees the engine. `in_order`: nothing has failed, and nothing is under way. */
  void (*close)(ac_engine *engine, bool in_order);
} ac_engine_functions;

struct ac_engine {
  const ac_engine_functions *functions;
  int rank, size;
  int local_rank, local_size; /* among the ranks of this machine */
  double processors;          /* its share of those that it may use, with ranks that also may */
  char name[AC_ENGINE_NAME];
  char why[AC_ENGINE_WHY];   /* of a call that failed: a sentence */
  ac_transfer *first, *last; /* begun and not done, in this order */
  uint64_t piece;            /* most bytes of a message; larger ones are moved in pieces */
  bool simulated;            /* its clock is not the world's */
  bool closes_together;      /* all ranks have to come to a barrier before `close` */
  bool sleeps;               /* `rest` always does: this rank's processors compute meanwhile */
};

/* The transfer is done. */
static inline void ac_engine_remove(ac_engine *engine, ac_transfer *transfer) {
  ac_transfer *before = NULL;
  for (ac_transfer *t = engine->first; t != transfer; t = t->next) before = t;
  if (before) before->next = transfer->next;
  else engine->first = transfer->next;
  if (engine->last == transfer) engine->last = before;
  transfer->next = NULL;
  transfer->pending = 0;
}

/* Makes a transport of an engine, which then belongs to it, also if this fails. `timeout` in
 * seconds. */
ac_status ac_transport_create(ac_transport **transport, ac_engine *engine, double timeout);

ac_engine *ac_transport_engine(const ac_transport *transport);

/* What a plugin for a library of MPI is. It exports one function, AC_MPI_PLUGIN_SYMBOL. */
enum { AC_MPI_PLUGIN_VERSION = 3, AC_PROCESSOR_WORDS = 16 };
#define AC_MPI_PLUGIN_SYMBOL "ac_mpi_plugin_open"
typedef struct ac_mpi_host {
  int version; /* AC_MPI_PLUGIN_VERSION */
  double (*clock)(void);
  void (*sleep)(double seconds);
  void *(*allocate)(size_t bytes); /* zeroed */
  void (*release)(void *memory);
  uint64_t processors[AC_PROCESSOR_WORDS]; /* that this rank may use: core/platform/processors.h */
} ac_mpi_host;
/* Begins MPI, which waits for all ranks. `why` has AC_ENGINE_WHY bytes. */
typedef ac_status (*ac_mpi_plugin_open_function)(ac_engine **engine, const ac_mpi_host *host,
                                                 char *why);

#endif
