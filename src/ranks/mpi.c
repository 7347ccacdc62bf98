/* A plugin lies in the folder `accrue` next to the library, or in that of the prefix if the program
 * has the library within it. */
#include "ranks/mpi.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/platform/clock.h"
#include "core/platform/files.h"
#include "core/platform/libraries.h"
#include "core/platform/processors.h"

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
    if (length < PATH_BYTES && ac_is_there(path)) return true;
  }
  return false;
}

ac_status ac_mpi_open(ac_engine **engine, const char *library) {
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
  ac_status status = begin(engine, &host, why);
  return status == AC_OK ? AC_OK : ac_fail(status, "%s", why);
}
