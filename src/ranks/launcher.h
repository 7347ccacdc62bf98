/* What started this process, by the environment variables that it set. */
#ifndef AC_RANKS_LAUNCHER_H
#define AC_RANKS_LAUNCHER_H

#include <accrue/base.h>

typedef enum ac_launcher_kind {
  AC_LAUNCHER_NONE,
  AC_LAUNCHER_OPEN_MPI, /* mpirun of Open MPI */
  AC_LAUNCHER_MPICH,    /* mpirun of MPICH, and what else speaks PMI-1 or PMI-2 */
  AC_LAUNCHER_PMIX,     /* srun --mpi=pmix, and others that speak PMIx */
  AC_LAUNCHER_SLURM     /* srun without any of these: ranks cannot find each other */
} ac_launcher_kind;

typedef struct ac_launcher {
  ac_launcher_kind kind;
  int rank, size; /* -1: it does not say */
} ac_launcher;

/* `variable` is getenv, but in tests. */
ac_launcher ac_launcher_find(char *(*variable)(const char *name));

/* "mpirun of Open MPI". */
const char *ac_launcher_name(const ac_launcher *launcher);
/* "openmpi" or "mpich"; NULL: none, also if the ranks cannot find each other. */
const char *ac_launcher_engine(const ac_launcher *launcher);

/* Why a process that this launcher started cannot be one of `size` ranks that this engine sees:
 * AC_ERROR_STATE with a sentence. */
ac_status ac_launcher_compare(const ac_launcher *launcher, const char *engine, int rank, int size);
/* Whether the launcher, which may use `all` processors, has bound its `local_size` ranks to so few
 * that at most half of these are used; then `line` says so. This rank may use `own`; `share` is
 * what is left of them if ranks that may use the same ones divide them. */
bool ac_launcher_binds(int all, int own, double share, int local_size, char *line, size_t size);
/* Why this engine is not the one that the launcher needs. */
ac_status ac_launcher_check(const ac_launcher *launcher, const char *engine);

#endif
