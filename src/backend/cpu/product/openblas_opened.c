/* OpenBLAS as a shared library, opened at run time: it must not be loaded before
 * OPENBLAS_CORETYPE is set, as it would be if it was linked. */
#include "backend/cpu/product/openblas.h"
#include "core/platform/libraries.h"

#include <stdio.h>

static const char name[] = "libopenblas.so.0";

bool ac_openblas_is_loaded(void) {
  return ac_library_is_open(name);
}

bool ac_openblas_open(ac_openblas *library, char *why, size_t size) {
  void *handle = ac_library_open(name, why, size);
  if (!handle) handle = ac_library_open("libopenblas.so", NULL, 0);
  if (!handle) return false;
  *(void **)&library->config = ac_library_symbol(handle, "openblas_get_config");
  *(void **)&library->core = ac_library_symbol(handle, "openblas_get_corename");
  *(void **)&library->parallel = ac_library_symbol(handle, "openblas_get_parallel");
  *(void **)&library->set_threads = ac_library_symbol(handle, "openblas_set_num_threads");
  *(void **)&library->sgemm = ac_library_symbol(handle, "cblas_sgemm");
  *(void **)&library->take_buffer = ac_library_symbol(handle, "blas_memory_alloc");
  *(void **)&library->return_buffer = ac_library_symbol(handle, "blas_memory_free");
  if (!library->sgemm) snprintf(why, size, "%s has no cblas_sgemm", name);
  return library->sgemm != NULL;
}
