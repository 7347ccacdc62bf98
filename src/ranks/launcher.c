/* Launchers set variables of their own for each rank. srun sets those of Slurm as well as those of
 * the protocol that it was asked for, and mpirun within a job of Slurm sees Slurm's: so the most
 * special come first. A shell within a job has SLURM_NTASKS as well, but only srun sets
 * SLURM_STEP_NUM_TASKS, and SLURM_PROCID is 0 in a batch script. */
#include "ranks/launcher.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"

typedef struct row {
  ac_launcher_kind kind;
  const char *name, *engine;
  const char *rank, *size; /* variables; `rank` must be set */
} row;

static const row rows[] = {
    {AC_LAUNCHER_OPEN_MPI, "mpirun of Open MPI", "openmpi", "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE"},
    {AC_LAUNCHER_MPICH, "mpirun of MPICH", "mpich", "PMI_RANK", "PMI_SIZE"},
    {AC_LAUNCHER_PMIX, "a launcher with PMIx", "openmpi", "PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
    {AC_LAUNCHER_SLURM, "srun", NULL, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
};

static const row *row_of(ac_launcher_kind kind) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (rows[i].kind == kind) return &rows[i];
  return NULL;
}

/* -1: not a whole number. */
static int number(const char *text) {
  if (!text || !*text || strlen(text) > 9 || text[strspn(text, "0123456789")]) return -1;
  return atoi(text);
}

ac_launcher ac_launcher_find(char *(*variable)(const char *name)) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const int rank = number(variable(rows[i].rank)), size = number(variable(rows[i].size));
    if (rank < 0) continue;
    /* One task of Slurm is one rank, whatever else is there. */
    if (rows[i].kind == AC_LAUNCHER_SLURM && size <= 1) continue;
    return (ac_launcher){rows[i].kind, rank, size};
  }
  return (ac_launcher){AC_LAUNCHER_NONE, -1, -1};
}

const char *ac_launcher_name(const ac_launcher *launcher) {
  const row *r = row_of(launcher->kind);
  return r ? r->name : "no launcher";
}

const char *ac_launcher_engine(const ac_launcher *launcher) {
  const row *r = row_of(launcher->kind);
  return r ? r->engine : NULL;
}

ac_status ac_launcher_check(const ac_launcher *launcher, const char *engine) {
  if (launcher->kind == AC_LAUNCHER_SLURM)
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "srun started %d tasks that cannot find each other; start them with "
                   "srun --mpi=pmix and Open MPI, or with mpirun",
                   launcher->size);
  if (!strcmp(engine, "alone")) return AC_OK;
  if (launcher->kind == AC_LAUNCHER_NONE)
    return ac_fail(AC_ERROR_STATE,
                   "%s needs its launcher: start this program with mpirun or mpiexec",
                   strcmp(engine, "mpich") ? "Open MPI" : "MPICH");
  const bool pmix = launcher->kind == AC_LAUNCHER_PMIX;
  if (pmix || !strcmp(engine, ac_launcher_engine(launcher))) return AC_OK;
  return ac_fail(AC_ERROR_STATE, "this process was started by %s, which cannot connect ranks of %s",
                 ac_launcher_name(launcher), strcmp(engine, "mpich") ? "Open MPI" : "MPICH");
}

ac_status ac_launcher_compare(const ac_launcher *launcher, const char *engine, int rank, int size) {
  const bool size_differs = launcher->size >= 0 && launcher->size != size;
  if (!size_differs && (launcher->rank < 0 || launcher->rank == rank)) return AC_OK;
  char count[16] = "several";
  if (launcher->size >= 0) snprintf(count, sizeof count, "%d", launcher->size);
  if (size == 1)
    return ac_fail(
        AC_ERROR_STATE,
        "%s started %s ranks, but %s sees this one alone: launcher and library are not of "
        "the same MPI",
        ac_launcher_name(launcher), count, engine);
  return ac_fail(
      AC_ERROR_STATE,
      "%s says that this is rank %d of %d, and %s that it is rank %d of %d: launcher and "
      "library are not of the same MPI",
      ac_launcher_name(launcher), launcher->rank, launcher->size, engine, rank, size);
}

bool ac_launcher_binds(int all, int own, double share, int local_size, char *line, size_t size) {
  if (local_size < 2 || own >= all || 2 * share * local_size > all) return false;
  const int part = all / local_size > 1 ? all / local_size : 1;
  snprintf(
      line, size,
      "the launcher has bound each rank to %d of %d processors; after mpirun --bind-to none each "
      "of the %d ranks of this machine uses %d",
      own, all, local_size, part);
  return true;
}
