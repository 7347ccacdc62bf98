#include "devices.h"

#include <stdlib.h>

ac_device *open_device(const char *name) {
  ac_device *device;
  assert_ok(ac_device_open(&device, &(ac_device_desc){.name = name, .threads = 2}));
  return device;
}

static ac_device *opened(ac_status status, ac_device *device) {
  if (status == AC_OK) return device;
  if (getenv("ACCRUE_TEST_OPENCL")) fail_msg("%s", ac_last_error());
  skip();
  return NULL;
}

ac_device *open_opencl_with(const char *products) {
  ac_device *device = NULL;
  if (products) setenv("ACCRUE_PRODUCTS", products, 1);
  else unsetenv("ACCRUE_PRODUCTS");
  const ac_status status = ac_device_open(&device, &(ac_device_desc){.name = "opencl"});
  unsetenv("ACCRUE_PRODUCTS");
  return opened(status, device);
}

ac_device *open_opencl(const char *name) {
  ac_device *device = NULL;
  const ac_status status = ac_device_open(&device, &(ac_device_desc){.name = name});
  return opened(status, device);
}

enum { MOST_DEVICES = 8 };

static int list_devices(ac_device_info *list) {
  int count;
  assert_ok(ac_device_list(list, MOST_DEVICES, &count));
  assert_true(count >= (getenv("ACCRUE_TEST_OPENCL") ? 2 : 1));
  return count < MOST_DEVICES ? count : MOST_DEVICES;
}

void on_every_device(void (*check)(const char *device)) {
  ac_device_info list[MOST_DEVICES];
  const int count = list_devices(list);
  for (int i = 0; i < count; i++) check(list[i].id);
}

const ac_precision halves[2] = {AC_PRECISION_F16, AC_PRECISION_BF16};

void everywhere(void (*check)(const char *device, ac_precision precision)) {
  ac_device_info list[MOST_DEVICES];
  const int count = list_devices(list);
  for (int i = 0; i < count; i++)
    for (int k = 0; k < 2; k++) check(list[i].id, halves[k]);
}
