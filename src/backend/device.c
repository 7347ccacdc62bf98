#include "backend/device.h"

#include "backend/environment.h"
#include "core/error.h"
#include "core/platform/clock.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ac_backend *const backends[] = {
#define AC_BACKEND_ENTRY(name) &ac_backend_##name,
    AC_BACKEND_LIST(AC_BACKEND_ENTRY)
#undef AC_BACKEND_ENTRY
};

enum { BACKEND_COUNT = sizeof backends / sizeof *backends };

/* ---- listing --------------------------------------------------------------------------------- */

static ac_status describe_whole(const ac_backend *backend, int index, ac_device_info *info) {
  AC_TRY(backend->describe(index, info));
  return backend->examine ? backend->examine(index, info) : AC_OK;
}

ac_status ac_device_list(ac_device_info *list, int capacity, int *count) {
  AC_REQUIRE(count);
  if (capacity < 0 || (capacity > 0 && !list))
    return ac_fail(AC_ERROR_ARGUMENT, "ac_device_list: there is no list of %d devices", capacity);
  *count = 0;
  for (int b = 0; b < BACKEND_COUNT; b++) {
    if (backends[b]->computes_nothing) continue;
    int devices = backends[b]->count();
    for (int i = 0; i < devices; i++, (*count)++)
      if (list && *count < capacity) AC_TRY(describe_whole(backends[b], i, &list[*count]));
  }
  return AC_OK;
}

/* "cpu (AMD EPYC), opencl:0 (gfx1100)", for the sentence about an unknown device. */
static void list_names(char *text, size_t size) {
  size_t used = 0;
  text[0] = 0;
  for (int b = 0; b < BACKEND_COUNT; b++) {
    int devices = backends[b]->computes_nothing ? 0 : backends[b]->count();
    for (int i = 0; i < devices && used < size; i++) {
      ac_device_info info;
      if (backends[b]->describe(i, &info) != AC_OK) continue;
      used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", used ? ", " : "", info.id,
                               info.name);
    }
  }
}

/* ---- choosing -------------------------------------------------------------------------------- */

typedef struct choice {
  const ac_backend *backend;
  int index;
} choice;

/* A device that cannot be described is left out, which is not a failure of the caller's. */
static bool describes(const ac_backend *backend, int index, ac_device_info *info) {
  const ac_kept_error kept = ac_error_keep();
  const bool described = backend->describe(index, info) == AC_OK;
  if (!described) ac_error_restore(&kept);
  return described;
}

/* Upper and lower case are the same. */
static bool begins(const char *text, const char *with, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (tolower((unsigned char)text[i]) != tolower((unsigned char)with[i])) return false;
    else if (!text[i]) break;
  return true;
}

static const ac_backend *find_backend(const char *name, size_t length) {
  for (int b = 0; b < BACKEND_COUNT; b++)
    if (strlen(backends[b]->name) == length && begins(name, backends[b]->name, length))
      return backends[b];
  return NULL;
}

static bool contains(const char *text, const char *part) {
  size_t length = strlen(part);
  for (; *text; text++)
    if (begins(text, part, length)) return true;
  return false;
}

/* A GPU before the CPU, but the CPU before others on a CPU, which are slower than our own kernels.
 */
static choice choose_automatically(void) {
  for (int b = 1; b < BACKEND_COUNT; b++) {
    int devices = backends[b]->computes_nothing ? 0 : backends[b]->count();
    for (int i = 0; i < devices; i++) {
      ac_device_info info;
      if (describes(backends[b], i, &info) && info.gpu) return (choice){backends[b], i};
    }
  }
  return (choice){backends[0], 0};
}

static bool choose(choice *chosen, const char *name) {
  if (!name || !*name || begins(name, "auto", sizeof "auto")) {
    *chosen = choose_automatically();
    return true;
  }
  const char *colon = strchr(name, ':');
  const ac_backend *backend = find_backend(name, colon ? (size_t)(colon - name) : strlen(name));
  if (!backend) return false;
  int devices = backend->count();
  if (!colon) {
    *chosen = (choice){backend, 0};
    return devices > 0;
  }
  const char *which = colon + 1;
  char *end;
  long index = strtol(which, &end, 10);
  if (*which && !*end) {
    *chosen = (choice){backend, (int)index};
    return index >= 0 && index < devices;
  }
  for (int i = 0; i < devices && *which; i++) {
    ac_device_info info;
    if (describes(backend, i, &info) && contains(info.name, which)) {
      *chosen = (choice){backend, i};
      return true;
    }
  }
  return false;
}

/* ---- opening --------------------------------------------------------------------------------- */

static ac_status find(choice *chosen, const char *name) {
  AC_TRY(ac_environment_check());
  if (choose(chosen, name)) return AC_OK;
  char names[512], why[512] = "";
  list_names(names, sizeof names);
  const ac_backend *backend = find_backend(name, strcspn(name, ":"));
  if (backend && backend->explain) backend->explain(why, sizeof why);
  return ac_fail(AC_ERROR_DEVICE, "no device \"%s\"; there is: %s%s%s", name, names,
                 *why ? "; " : "", why);
}

ac_status ac_device_find(ac_device_info *info, const char *name) {
  choice chosen;
  AC_REQUIRE(info);
  AC_TRY(find(&chosen, name));
  return chosen.backend->describe(chosen.index, info);
}

ac_status ac_device_open(ac_device **device, const ac_device_desc *desc) {
  static const ac_device_desc defaults = {0};
  AC_CREATES(device);
  if (!desc) desc = &defaults;
  if (desc->threads < 0)
    return ac_fail(AC_ERROR_ARGUMENT, "the number of threads must not be negative; it is %d",
                   desc->threads);
  if (desc->allocator && (!desc->allocator->allocate || !desc->allocator->release))
    return ac_fail(
        AC_ERROR_ARGUMENT,
        "ac_device_open: the allocator's functions allocate and release are both needed");
  choice chosen;
  AC_TRY(find(&chosen, desc->name));
  ac_device *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "no memory for a device");
  made->backend = chosen.backend;
  made->log = desc->log;
  made->log_user = desc->log_user;
  ac_status status = chosen.backend->open(&made->state, chosen.index, desc, &made->info);
  if (status != AC_OK) {
    free(made);
    return status;
  }
  ac_device_log(made, AC_LOG_DEBUG, "opened %s: %s, %s", made->info.id, made->info.name,
                made->info.driver);
  *device = made;
  return AC_OK;
}

void ac_device_close(ac_device *device) {
  if (!device) return;
  device->backend->close(device->state);
  if (device->attached) device->free_attached(device->attached);
  free(device);
}

const ac_device_info *ac_device_get_info(const ac_device *device) {
  return device ? &device->info : NULL;
}

/* ---- the account ----------------------------------------------------------------------------- */

ac_status ac_device_allocate(ac_device *device, uint64_t bytes, void **chunk) {
  AC_TRY(device->backend->allocate(device->state, bytes, chunk));
  device->allocated += bytes;
  if (device->allocated > device->peak) device->peak = device->allocated;
  return AC_OK;
}

void ac_device_release(ac_device *device, void *chunk, uint64_t bytes) {
  if (!chunk) return;
  device->backend->release(device->state, chunk, bytes);
  device->allocated -= bytes;
}

ac_status ac_device_allocate_host(ac_device *device, uint64_t bytes, ac_host_memory *memory) {
  AC_TRY(device->backend->allocate_host(device->state, bytes, memory));
  device->host_allocated += bytes;
  if (device->host_allocated > device->host_peak) device->host_peak = device->host_allocated;
  return AC_OK;
}

void ac_device_release_host(ac_device *device, ac_host_memory *memory) {
  if (!memory->data) return;
  device->host_allocated -= memory->bytes;
  device->backend->release_host(device->state, memory);
  *memory = (ac_host_memory){0};
}

uint64_t ac_device_allocated_bytes(const ac_device *device) {
  return device ? device->allocated : 0;
}
uint64_t ac_device_peak_bytes(const ac_device *device) {
  return device ? device->peak : 0;
}
void ac_device_reset_peak(ac_device *device) {
  if (!device) return;
  device->peak = device->allocated;
  device->host_peak = device->host_allocated;
}
uint64_t ac_device_host_allocated_bytes(const ac_device *device) {
  return device ? device->host_allocated : 0;
}
uint64_t ac_device_host_peak_bytes(const ac_device *device) {
  return device ? device->host_peak : 0;
}
uint64_t ac_device_object_count(const ac_device *device) {
  return !device ? 0 : device->backend->objects(device->state);
}

void ac_device_log(const ac_device *device, ac_log_level level, const char *format, ...) {
  if (!device->log) return;
  char line[512];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  device->log(device->log_user, level, line);
}

ac_wait ac_wait_begin(const ac_device *device, const char *format, ...) {
  ac_wait wait = {.device = device, .began = ac_clock()};
  va_list args;
  va_start(args, format);
  vsnprintf(wait.what, sizeof wait.what, format, args);
  va_end(args);
  if (device->backend->compiles)
    ac_device_log(device, AC_LOG_INFO, "%s: %s...", device->info.id, wait.what);
  return wait;
}

ac_status ac_wait_end(const ac_wait *wait, ac_status status) {
  const ac_device *device = wait->device;
  if (device->backend->compiles)
    ac_device_log(device, AC_LOG_INFO, "%s: %s %s %.1f s", device->info.id, wait->what,
                  status == AC_OK ? "took" : "failed after", ac_clock() - wait->began);
  return status;
}
