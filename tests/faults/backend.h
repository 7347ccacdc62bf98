/* A backend around the one of an open device, which fails on demand. One at a time. */
#ifndef TESTS_FAULTS_BACKEND_H
#define TESTS_FAULTS_BACKEND_H

#include "backend/device.h"

/* From now on the device's calls are counted. */
void faulty_backend_wrap(ac_device *device);

/* Counts anew; the k-th call fails from now on, with AC_ERROR_DEVICE or, for allocations,
 * AC_ERROR_MEMORY; 0: none does. */
void faulty_backend_fail(long k);
/* Counts anew; of what ops yield from now on, the k-th run's first floats begin with a NaN. */
void faulty_backend_spoil(long k);
void faulty_backend_pause(bool paused); /* neither fails nor counts */
long faulty_backend_calls(void);        /* of all, or of ops that yield floats */

#endif
