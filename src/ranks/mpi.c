/* A plugin lies in the folder `accrue` next to the library, or in that of the prefix if the program
 * has the library within it. */
#include "ranks/mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/platform/clock.h"
#include "core/platform/libraries.h"
#include "core/platform/process.h"
#include "core/platform/processors.h"
#include "core/platform/threads.h"

#ifndef AC_LIBRARY_FOLDER
#define AC_LIBRARY_FOLDER "lib" /* within the prefix */
#endif

enum { PATH_BYTES = 4096 };

static void *allocate(size_t bytes) {
  return calloc(1, bytes);
}

static const char *title(const char *library) {
  return strcmp(library, "mpich") ? "Open MPI" : "MPICH";
}

/* A part of its path may be a file, not a folder. */
static bool can_be_read(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file) fclose(file);
  return file != NULL;
}

/* False: there is none. */
static bool find_plugin(char path[PATH_BYTES], const char *library) {
  static const char *const folders[] = {"accrue", "../" AC_LIBRARY_FOLDER "/accrue", "../accrue"};
  const char *given = getenv("ACCRUE_MPI_PLUGIN");
  if (given && *given) return snprintf(path, PATH_BYTES, "%s", given) < PATH_BYTES;
  char folder[PATH_BYTES - 128];
  if (!ac_library_folder(folder, sizeof folder)) return false;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    const int length =
        snprintf(path, PATH_BYTES, "%s/%s/libaccrue-mpi-%s.so", folder, folders[i], library);
    if (length < PATH_BYTES && can_be_read(path)) return true;
  }
  return false;
}

/* ---- the beginning of MPI ---------------------------------------------------------------------
 */

/* MPI_Init waits for all ranks, without end if one of them has ended before. Nothing but the end of
 * the process gets out of it. */

typedef struct watchdog {
  ac_monitor *monitor;
  double until;
  bool begun;
} watchdog;

static void watch(void *user) {
  watchdog *w = user;
  ac_monitor_lock(w->monitor);
  for (double left = w->until - ac_clock(); !w->begun; left = w->until - ac_clock()) {
    if (left <= 0)
      ac_process_end(
          "error: not all ranks have begun within the timeout: one has ended before, or its "
          "machine cannot be reached\n");
    ac_monitor_wait_for(w->monitor, left);
  }
  ac_monitor_unlock(w->monitor);
}

static ac_status begin_watched(ac_mpi_plugin_open_function begin, ac_engine **engine,
                               const ac_mpi_host *host, double timeout, char *why) {
  watchdog w = {.monitor = ac_monitor_create(), .until = ac_clock() + timeout};
  ac_thread *thread;
  if (!w.monitor) return ac_fail(AC_ERROR_MEMORY, "no memory for a lock");
  ac_status status = ac_thread_start(&thread, watch, &w);
  if (status == AC_OK) {
    status = begin(engine, host, why);
    ac_monitor_lock(w.monitor);
    w.begun = true;
    ac_monitor_wake(w.monitor);
    ac_monitor_unlock(w.monitor);
    ac_thread_join(thread);
    if (status != AC_OK) (void)ac_fail(status, "%s", why);
  }
  ac_monitor_free(w.monitor);
  return status;
}

ac_status ac_mpi_open(ac_engine **engine, const char *library, double timeout) {
  *engine = NULL;
  char path[PATH_BYTES], why[AC_ENGINE_WHY] = "";
  if (!find_plugin(path, library))
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "this build has no plugin libaccrue-mpi-%s.so for %s; it is built where "
                   "mpicc.%s is installed",
                   library, title(library), library);
  void *plugin = ac_library_open(path, why, sizeof why);
  if (!plugin)
    return ac_fail(AC_ERROR_UNSUPPORTED, "cannot open the plugin for %s; is %s installed? %s",
                   title(library), title(library), why);
  void *symbol = ac_library_symbol(plugin, AC_MPI_PLUGIN_SYMBOL);
  ac_mpi_plugin_open_function begin;
  if (!symbol) return ac_fail(AC_ERROR_UNSUPPORTED, "%s is not a plugin of Accrue", path);
  memcpy(&begin, &symbol, sizeof begin);
  ac_mpi_host host = {.version = AC_MPI_PLUGIN_VERSION,
                      .clock = ac_clock,
                      .sleep = ac_sleep,
                      .allocate = allocate,
                      .release = free};
  if (!ac_processors(host.processors, AC_PROCESSOR_WORDS)) host.processors[0] = 1;
  return begin_watched(begin, engine, &host, timeout, why);
}
