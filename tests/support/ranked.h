/* One fit on several ranks of this process, each in a thread of its own. */
#ifndef AC_TESTS_RANKED_H
#define AC_TESTS_RANKED_H

#include "check.h"

enum { RANKED_MOST = 8, RANKED_WINDOWS = 64 };

typedef struct ranked_case {
  ac_graph *(*graph)(void);
  ac_plan_desc plan;
  ac_trainer_desc trainer;
  ac_fit_desc fit;               /* without data */
  ac_callback_dataset_desc data; /* its user is the rank (ranked_rank), if it has none */
  int64_t validation;            /* samples of a validation with the same function; 0: none */
  const char *load, *save;       /* states before and after the fit; NULL: none */
  ac_ranks_threads_desc ranks;
  void (*vary)(ac_plan_desc *plan); /* the plan of the last rank; NULL: as all */
  const char *device;               /* NULL: cpu */
  int stop_after;                   /* windows, after which rank 0 alone says so; 0: it does not */
  ac_status (*before)(ac_trainer *trainer); /* on each rank, before the fit; NULL: nothing */
  ac_status (*after)(ac_trainer *trainer);  /* and after it */
} ranked_case;

/* What has come of it on one rank. */
typedef struct ranked {
  int rank, ranks;
  ac_status status;
  char sentence[1024];
  ac_fit_result result;
  int windows, epochs;
  int stop_after; /* of this rank */
  ac_update update[RANKED_WINDOWS];
  int64_t samples[RANKED_WINDOWS];
  float *parameters; /* one after another */
  size_t parameter_count;
  uint64_t planned, peak, optimizer_bytes;
  ac_noise_scale noise;
} ranked;

/* Runs the case; `all` receives what each rank has. */
void ranked_run(const ranked_case *c, int ranks, ranked *all);
void ranked_free(ranked *all, int ranks);
/* All ranks have succeeded, and have the same bits of parameters, updates and results. */
void ranked_check_same(const ranked *all, int ranks);
/* The rank that reads a sample in this thread. */
int ranked_rank(void);

#endif
