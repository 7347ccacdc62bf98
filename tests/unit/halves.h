/* Checks of 16-bit storage, on every device and with either type. */
#ifndef AC_TESTS_HALVES_H
#define AC_TESTS_HALVES_H

#include "models.h"

#include "backend/device.h"

#include <stdlib.h>

static const ac_precision halves[] = {AC_PRECISION_F16, AC_PRECISION_BF16};

/* Runs a check on the CPU and on each OpenCL device, with either 16-bit type. */
static inline void everywhere(void (*check)(const char *device, ac_precision precision)) {
  ac_device_info list[8];
  int count;
  assert_ok(ac_device_list(list, 8, &count));
  bool opencl = false;
  for (int i = 0; i < count && i < 8; i++) opencl |= !strcmp(list[i].backend, "opencl");
  if (getenv("ACCRUE_TEST_OPENCL")) assert_true(opencl);
  for (int i = 0; i < count && i < 8; i++)
    for (int k = 0; k < 2; k++) check(list[i].id, halves[k]);
}

static inline ac_device *open_device(const char *name) {
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = name, .threads = 2}));
  return device;
}

#endif
