/* A backend opened on one piece of hardware, with the account of what was allocated from it. */
#ifndef AC_BACKEND_DEVICE_H
#define AC_BACKEND_DEVICE_H

#include "backend/backend.h"

struct ac_device {
  const ac_backend *backend;
  void *state;
  ac_device_info info;
  uint64_t allocated, peak; /* bytes in chunks */
  uint64_t host_allocated, host_peak;
  ac_log_callback log;
  void *log_user;
  /* A slot for whoever plans for the device: freed with it. NULL: empty. */
  void *attached;
  void (*free_attached)(void *attached);
};

/* Through these so that the account is right. */
ac_status ac_device_allocate(ac_device *device, uint64_t bytes, void **chunk);
void ac_device_release(ac_device *device, void *chunk, uint64_t bytes);
/* Allocates host memory, for a device with memory of its own. */
ac_status ac_device_allocate_host(ac_device *device, uint64_t bytes, ac_host_memory *memory);
void ac_device_release_host(ac_device *device, ac_host_memory *memory);

void ac_device_log(const ac_device *device, ac_log_level level, const char *format, ...);

/* Tells a waiting user about work that may take long on a device that compiles kernels: "opencl:0:
 * preparing 44 ops..." when it begins; "opencl:0: preparing 44 ops took 3.2 s", or "failed after",
 * when it ends. Waits do not lie within each other. */
typedef struct ac_wait {
  const ac_device *device;
  double began;
  char what[64];
} ac_wait;
ac_wait ac_wait_begin(const ac_device *device, const char *format, ...);
/* Returns the status of what was done. */
ac_status ac_wait_end(const ac_wait *wait, ac_status status);

#endif
