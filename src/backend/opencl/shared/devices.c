/* Which OpenCL devices there are. The order is that of the platforms and of each platform's
 * devices, GPUs before all others; devices without a compiler, or of the other byte order, are left
 * out. */
#include "backend/opencl/shared/opencl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/platform/memory.h"
#include "core/platform/threads.h"

enum { MAX_PLATFORMS = 16, MAX_DEVICES = 64 };

typedef struct entry {
  cl_platform_id platform;
  cl_device_id device;
} entry;

static bool usable(cl_device_id device) {
  cl_bool available = CL_FALSE, compiler = CL_FALSE, little = CL_FALSE;
  clGetDeviceInfo(device, CL_DEVICE_AVAILABLE, sizeof available, &available, NULL);
  clGetDeviceInfo(device, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler, NULL);
  clGetDeviceInfo(device, CL_DEVICE_ENDIAN_LITTLE, sizeof little, &little, NULL);
  return available && compiler && little;
}

static bool is_gpu(cl_device_id device) {
  cl_device_type type = 0;
  clGetDeviceInfo(device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
  return type & CL_DEVICE_TYPE_GPU;
}

static int list_all(entry list[MAX_DEVICES]) {
  cl_platform_id platforms[MAX_PLATFORMS];
  cl_uint platform_count = 0;
  int count = 0;
  if (clGetPlatformIDs(MAX_PLATFORMS, platforms, &platform_count) != CL_SUCCESS) return 0;
  if (platform_count > MAX_PLATFORMS) platform_count = MAX_PLATFORMS;
  for (int gpus = 1; gpus >= 0; gpus--)
    for (cl_uint p = 0; p < platform_count; p++) {
      cl_device_id devices[MAX_DEVICES];
      cl_uint device_count = 0;
      if (clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices, &device_count) !=
          CL_SUCCESS)
        continue;
      if (device_count > MAX_DEVICES) device_count = MAX_DEVICES;
      for (cl_uint d = 0; d < device_count && count < MAX_DEVICES; d++)
        if (usable(devices[d]) && is_gpu(devices[d]) == gpus)
          list[count++] = (entry){platforms[p], devices[d]};
    }
  return count;
}

static struct {
  ac_once made;
  ac_monitor *lock;
} listing;

static void make_lock(void) {
  listing.lock = ac_monitor_create();
}

/* One thread at a time: PoCL makes its devices when it is first asked, and is not ready for another
 * that asks meanwhile. */
static int list_devices(entry list[MAX_DEVICES]) {
  ac_call_once(&listing.made, make_lock);
  if (!listing.lock) return 0; /* there is no memory for anything else either */
  ac_monitor_lock(listing.lock);
  const int count = list_all(list);
  ac_monitor_unlock(listing.lock);
  return count;
}

int ac_cl_device_count(void) {
  entry list[MAX_DEVICES];
  return list_devices(list);
}

/* What is left out of a platform's devices, as a sentence; false: nothing is. */
static bool explain_platform(cl_platform_id platform, char *text, size_t size) {
  char name[64] = "";
  cl_device_id devices[MAX_DEVICES];
  cl_uint count = 0;
  clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
  const cl_int error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, MAX_DEVICES, devices, &count);
  if (error != CL_SUCCESS || !count) {
    const char *why = ac_cl_error_name(error);
    /* PoCL has no devices where it cannot write its cache, and says nothing else. */
    snprintf(text, size, "%s offers no device (%s)%s", name, why ? why : "unknown error",
             strstr(name, "Portable Computing") || strstr(name, "PoCL")
                 ? ", as where its cache folder (POCL_CACHE_DIR) cannot be written to"
                 : "");
    return true;
  }
  if (count > MAX_DEVICES) count = MAX_DEVICES;
  for (cl_uint d = 0; d < count; d++)
    if (usable(devices[d])) return false;
  snprintf(text, size, "the devices of %s have no compiler, or another byte order", name);
  return true;
}

void ac_cl_device_explain(char *text, size_t size) {
  cl_platform_id platforms[MAX_PLATFORMS];
  cl_uint count = 0;
  size_t used = 0;
  snprintf(text, size, "no OpenCL driver is installed");
  ac_call_once(&listing.made, make_lock);
  if (!listing.lock) return;
  ac_monitor_lock(listing.lock);
  if (clGetPlatformIDs(MAX_PLATFORMS, platforms, &count) == CL_SUCCESS && count) text[0] = 0;
  for (cl_uint p = 0; p < count && p < MAX_PLATFORMS; p++) {
    char sentence[256];
    if (!explain_platform(platforms[p], sentence, sizeof sentence) || used >= size) continue;
    used += (size_t)snprintf(text + used, size - used, "%s%s", used ? "; " : "", sentence);
  }
  ac_monitor_unlock(listing.lock);
}

ac_status ac_cl_device_at(int index, cl_platform_id *platform, cl_device_id *device) {
  entry list[MAX_DEVICES];
  int count = list_devices(list);
  if (index < 0 || index >= count)
    return ac_fail(AC_ERROR_DEVICE, "opencl: there is no device %d; %d found", index, count);
  *platform = list[index].platform;
  *device = list[index].device;
  return AC_OK;
}

/* Integrated GPUs and CPUs use the host's. ACCRUE_OWN_MEMORY says otherwise, for tests. */
static bool has_own_memory(cl_device_id device) {
  const char *choice = getenv("ACCRUE_OWN_MEMORY");
  cl_bool shared = CL_TRUE;
  if (choice && *choice) return strcmp(choice, "0") != 0;
  clGetDeviceInfo(device, CL_DEVICE_HOST_UNIFIED_MEMORY, sizeof shared, &shared, NULL);
  return !shared;
}

/* A device's text without the blanks that some drivers pad it with. */
static void device_text(cl_device_id device, cl_device_info what, char *text, size_t size) {
  char raw[512] = "";
  if (clGetDeviceInfo(device, what, sizeof raw - 1, raw, NULL) != CL_SUCCESS) raw[0] = 0;
  snprintf(text, size, "%.*s", (int)size - 1, raw + strspn(raw, " "));
  for (size_t end = strlen(text); end && text[end - 1] == ' ';) text[--end] = 0;
}

bool ac_cl_has_extension(cl_device_id device, const char *name) {
  size_t length = 0;
  if (clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, 0, NULL, &length) != CL_SUCCESS) return false;
  char *names = calloc(1, length + 1);
  const bool has =
      names && clGetDeviceInfo(device, CL_DEVICE_EXTENSIONS, length, names, NULL) == CL_SUCCESS &&
      strstr(names, name) != NULL;
  free(names);
  return has;
}

/* A device's memory; if it uses the host's, at most what this process may have. */
static uint64_t memory_of(uint64_t memory, const ac_device_info *info) {
  const uint64_t host = info->own_memory ? 0 : ac_physical_memory();
  return host && host < memory ? host : memory;
}

ac_status ac_cl_device_describe(int index, ac_device_info *info) {
  cl_platform_id platform = NULL;
  cl_device_id device = NULL;
  AC_TRY(ac_cl_device_at(index, &platform, &device));
  memset(info, 0, sizeof *info);
  snprintf(info->id, sizeof info->id, "opencl:%d", index);
  snprintf(info->backend, sizeof info->backend, "opencl");
  device_text(device, CL_DEVICE_NAME, info->name, sizeof info->name);
  char platform_name[64] = "", driver[48];
  clGetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof platform_name - 1, platform_name, NULL);
  device_text(device, CL_DRIVER_VERSION, driver, sizeof driver);
  snprintf(info->driver, sizeof info->driver, "%s, %s", platform_name, driver);

  cl_ulong memory = 0, allocation = 0;
  cl_uint bits = 0, units = 0;
  clGetDeviceInfo(device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, NULL);
  clGetDeviceInfo(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof allocation, &allocation, NULL);
  clGetDeviceInfo(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN, sizeof bits, &bits, NULL);
  clGetDeviceInfo(device, CL_DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL);
  info->gpu = is_gpu(device);
  info->own_memory = has_own_memory(device);
  info->memory_bytes = memory_of(memory, info);
  info->max_allocation = allocation;
  info->alignment = bits / 8 > 64 ? bits / 8 : 64;
  info->compute_units = units;
  snprintf(info->bf16_products, sizeof info->bf16_products, "as floats");
  info->half_arithmetic = ac_cl_has_extension(device, "cl_khr_fp16");
  return AC_OK;
}
