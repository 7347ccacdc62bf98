/* Which launcher started a process, by its variables, and what ranks are told that cannot find each
 * other. */
#include "support/check.h"

#include <stdlib.h>

#include "ranks/launcher.h"

static const char *const *settings;

static char *variable(const char *name) {
  for (const char *const *s = settings; *s; s++) {
    const size_t length = strlen(name);
    if (!strncmp(*s, name, length) && (*s)[length] == '=')
      return (char *)(uintptr_t)*s + length + 1;
  }
  return NULL;
}

#define FIND(...) (settings = (const char *const[]){__VA_ARGS__, NULL}, ac_launcher_find(variable))

static void check_found(ac_launcher found, ac_launcher_kind kind, int rank, int size) {
  assert_int_equal(found.kind, kind);
  assert_int_equal(found.rank, rank);
  assert_int_equal(found.size, size);
}

static void each_is_found_by_its_variables(void **state) {
  (void)state;
  check_found(FIND("HOME=/root"), AC_LAUNCHER_NONE, -1, -1);
  check_found(FIND("OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "PMIX_RANK=1"),
              AC_LAUNCHER_OPEN_MPI, 1, 4);
  check_found(FIND("PMI_RANK=0", "PMI_SIZE=2", "PMI_FD=6"), AC_LAUNCHER_MPICH, 0, 2);
  check_found(FIND("PMIX_RANK=3", "SLURM_PROCID=3", "SLURM_STEP_NUM_TASKS=8"), AC_LAUNCHER_PMIX, 3,
              8);
  check_found(FIND("PMIX_RANK=3"), AC_LAUNCHER_PMIX, 3, -1);
  check_found(FIND("SLURM_PROCID=3", "SLURM_STEP_NUM_TASKS=8"), AC_LAUNCHER_SLURM, 3, 8);
}

/* mpirun in a job of Slurm is mpirun; a batch script of 8 tasks is one process; so is a step of one
 * task; and what is not a number is of no launcher. */
static void others_variables_do_not_deceive(void **state) {
  (void)state;
  check_found(
      FIND("SLURM_PROCID=0", "SLURM_NTASKS=8", "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=8"),
      AC_LAUNCHER_OPEN_MPI, 2, 8);
  check_found(FIND("SLURM_PROCID=0", "SLURM_NTASKS=8"), AC_LAUNCHER_NONE, -1, -1);
  check_found(FIND("SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1"), AC_LAUNCHER_NONE, -1, -1);
  check_found(FIND("PMI_RANK=", "PMI_SIZE=2"), AC_LAUNCHER_NONE, -1, -1);
  check_found(FIND("PMI_RANK=-1", "PMI_SIZE=2"), AC_LAUNCHER_NONE, -1, -1);
}

static void the_library_must_be_the_launchers(void **state) {
  (void)state;
  const ac_launcher none = {AC_LAUNCHER_NONE, -1, -1}, open_mpi = {AC_LAUNCHER_OPEN_MPI, 0, 2},
                    mpich = {AC_LAUNCHER_MPICH, 0, 2}, pmix = {AC_LAUNCHER_PMIX, 0, 2},
                    slurm = {AC_LAUNCHER_SLURM, 0, 2};
  assert_string_equal(ac_launcher_engine(&open_mpi), "openmpi");
  assert_string_equal(ac_launcher_engine(&mpich), "mpich");
  assert_ok(ac_launcher_check(&open_mpi, "openmpi"));
  assert_ok(ac_launcher_check(&mpich, "mpich"));
  assert_ok(ac_launcher_check(&pmix, "openmpi"));
  assert_ok(ac_launcher_check(&pmix, "mpich"));
  assert_ok(ac_launcher_check(&none, "alone"));
  assert_refused(ac_launcher_check(&open_mpi, "mpich"), AC_ERROR_STATE,
                 "started by mpirun of Open MPI, which cannot connect ranks of MPICH");
  assert_refused(ac_launcher_check(&mpich, "openmpi"), AC_ERROR_STATE,
                 "started by mpirun of MPICH, which cannot connect ranks of Open MPI");
  assert_refused(ac_launcher_check(&none, "openmpi"), AC_ERROR_STATE,
                 "Open MPI needs its launcher");
  assert_refused(ac_launcher_check(&slurm, ""), AC_ERROR_UNSUPPORTED,
                 "srun started 2 tasks that cannot find each other");
}

static void ranks_that_are_alone_by_mistake_are_told(void **state) {
  (void)state;
  const ac_launcher launcher = {AC_LAUNCHER_OPEN_MPI, 2, 4}, unsure = {AC_LAUNCHER_PMIX, 1, -1};
  assert_ok(ac_launcher_compare(&launcher, "Open MPI 4.1.4", 2, 4));
  assert_ok(ac_launcher_compare(&unsure, "Open MPI 4.1.4", 1, 4));
  assert_refused(ac_launcher_compare(&launcher, "MPICH 4.0.2", 0, 1), AC_ERROR_STATE,
                 "mpirun of Open MPI started 4 ranks, but MPICH 4.0.2 sees this one alone");
  assert_refused(ac_launcher_compare(&launcher, "MPICH 4.0.2", 1, 4), AC_ERROR_STATE,
                 "says that this is rank 2 of 4, and MPICH 4.0.2 that it is rank 1 of 4");
  assert_refused(ac_launcher_compare(&unsure, "Open MPI 4.1.4", 0, 1), AC_ERROR_STATE,
                 "sees this one alone");
}

static void bound_ranks_are_told(void **state) {
  (void)state;
  char line[256];
  assert_true(ac_launcher_binds(16, 1, 1, 2, line, sizeof line));
  assert_contains(line,
                  "bound each rank to 1 of 16 processors; after mpirun --bind-to none each of "
                  "the 2 ranks of this machine uses 8");
  assert_true(ac_launcher_binds(16, 1, 0.25, 4, line, sizeof line)); /* all to the same one */
  assert_false(ac_launcher_binds(16, 8, 8, 2, line, sizeof line));   /* a half each */
  assert_false(ac_launcher_binds(16, 16, 8, 2, line, sizeof line));  /* not bound */
  assert_false(ac_launcher_binds(2, 1, 1, 2, line, sizeof line));
  assert_false(ac_launcher_binds(16, 1, 1, 1, line, sizeof line)); /* one rank: it is asked so */
  assert_false(ac_launcher_binds(0, 1, 1, 2, line, sizeof line));  /* unknown */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_is_found_by_its_variables),
      cmocka_unit_test(others_variables_do_not_deceive),
      cmocka_unit_test(the_library_must_be_the_launchers),
      cmocka_unit_test(ranks_that_are_alone_by_mistake_are_told),
      cmocka_unit_test(bound_ranks_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
