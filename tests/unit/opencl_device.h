/* Opens an OpenCL device in a test. Without a device the test is skipped, unless there must be one.
 */
#ifndef TESTS_UNIT_OPENCL_DEVICE_H
#define TESTS_UNIT_OPENCL_DEVICE_H

#include "check.h"

#include <stdlib.h>

static inline ac_device *open_opencl(const char *name) {
  ac_device *device;
  if (ac_device_open(&device, &(ac_device_desc){.name = name}) == AC_OK) return device;
  if (getenv("ACCRUE_TEST_OPENCL")) fail_msg("%s", ac_last_error());
  skip();
  return NULL;
}

#endif
