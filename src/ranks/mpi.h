/* Opens the plugin for a library of MPI: "openmpi" or "mpich". */
#ifndef AC_RANKS_MPI_H
#define AC_RANKS_MPI_H

#include "ranks/engine.h"

/* Waits for all ranks. AC_ERROR_UNSUPPORTED: this build or this machine lacks the library; the
 * sentence says which package has it. */
ac_status ac_mpi_open(ac_engine **engine, const char *library);

#endif
