/* What is used of OpenBLAS, and where it comes from: openblas_opened.c opens the shared library,
 * openblas_linked.c takes the one that a self-contained program is linked with. */
#ifndef AC_BACKEND_CPU_PRODUCT_OPENBLAS_H
#define AC_BACKEND_CPU_PRODUCT_OPENBLAS_H

#include "backend/cpu/product/blas.h"

/* What a build of OpenBLAS lacks is NULL. */
typedef struct ac_openblas {
  char *(*config)(void);
  char *(*core)(void);
  int (*parallel)(void);
  void (*set_threads)(int);
  ac_sgemm *sgemm;
  void *(*take_buffer)(int);
  void (*return_buffer)(void *);
} ac_openblas;

/* Has OpenBLAS choose its kernels, by OPENBLAS_CORETYPE if that is set. False if there is no
 * OpenBLAS with cblas_sgemm; `why` then has the reason. */
bool ac_openblas_open(ac_openblas *library, char *why, size_t size);

/* Whether the process has OpenBLAS already, so that opening it takes no memory. */
bool ac_openblas_is_loaded(void);

/* Address space for OpenBLAS on so many threads: a buffer and a stack for each. Where there is none
 * for a buffer, OpenBLAS tries again for ever, so it is asked for before. */
uint64_t ac_openblas_bytes(int threads);
/* And for its code. */
enum { AC_OPENBLAS_CODE = 64 << 20 };

#endif
