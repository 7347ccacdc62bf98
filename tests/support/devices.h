/* The devices that tests run on: the CPU, and each OpenCL device. If ACCRUE_TEST_OPENCL says that
 * an OpenCL implementation must be installed, tests fail without one. */
#ifndef AC_TESTS_DEVICES_H
#define AC_TESTS_DEVICES_H

#include "check.h"

#include "backend/device.h"

ac_device *open_device(const char *name);
/* Skip the test if there is no OpenCL device. The second opens it with ACCRUE_PRODUCTS. */
ac_device *open_opencl(const char *name);
ac_device *open_opencl_with(const char *products);

/* Runs a check on every device. */
void on_every_device(void (*check)(const char *device));

#define ON_EVERY_DEVICE(check)                   \
  static void check##_everywhere(void **state) { \
    (void)state;                                 \
    on_every_device(check);                      \
  }

/* The types of 16 bits, and a check on every device with each. */
extern const ac_precision halves[2];
void everywhere(void (*check)(const char *device, ac_precision precision));

#endif
