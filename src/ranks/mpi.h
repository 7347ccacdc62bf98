/* Opens the plugin for a library of MPI: "openmpi" or "mpich". */
#ifndef AC_RANKS_MPI_H
#define AC_RANKS_MPI_H

#include "ranks/engine.h"

/* Waits for all ranks. If they have not all come within the timeout, in seconds, it ends the
 * process with a sentence and status 1: MPI gives no other way out. AC_ERROR_UNSUPPORTED: this
 * build or this machine lacks the library; the sentence says which package has it. */
ac_status ac_mpi_open(ac_engine **engine, const char *library, double timeout);

#endif
