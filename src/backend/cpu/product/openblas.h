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
 * OpenBLAS with cblas_sgemm. */
bool ac_openblas_open(ac_openblas *library);

#endif
