/* POSIX, and what only Linux tells of processors. */
#define _GNU_SOURCE /* sched_getaffinity, syscall */
#include "core/platform/processors.h"

#include <ctype.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef __linux__
#include <sys/syscall.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#include <sys/prctl.h>
#endif
#endif

bool ac_processor_name(char *name, size_t size) {
  FILE *file = fopen("/proc/cpuinfo", "re");
  char line[256];
  bool found = false;
  while (file && !found && fgets(line, sizeof line, file)) {
    char *value = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !value) continue;
    do value++;
    while (isspace((unsigned char)*value));
    value[strcspn(value, "\n")] = 0;
    if (!*value) break;
    snprintf(name, size, "%s", value);
    found = true;
  }
  if (file) fclose(file);
  return found;
}

int ac_processor_count(void) {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? (int)count : 1;
}

bool ac_processors(uint64_t *words, int count) {
  for (int i = 0; i < count; i++) words[i] = 0;
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return false;
  for (int p = 0; p < CPU_SETSIZE && p < 64 * count; p++)
    if (CPU_ISSET(p, &set)) words[p / 64] |= UINT64_C(1) << p % 64;
  return true;
#else
  return false;
#endif
}

int ac_processors_of_parent(void) {
#ifdef __linux__
  cpu_set_t set;
  if (sched_getaffinity(getppid(), sizeof set, &set) == 0) return CPU_COUNT(&set);
#endif
  return 0;
}

uint64_t ac_cache_bytes(void) {
#ifdef _SC_LEVEL3_CACHE_SIZE
  long third = sysconf(_SC_LEVEL3_CACHE_SIZE), second = sysconf(_SC_LEVEL2_CACHE_SIZE);
  long bytes = third > 0 ? third : second;
  return bytes > 0 ? (uint64_t)bytes : 0;
#else
  return 0;
#endif
}

/* ---- instructions -----------------------------------------------------------------------------
 *
 * Headers may be older than the system: numbers that they may lack are those of Linux. */

enum { BF16_PRODUCTS = 1 << 14 };                          /* HWCAP2_BF16 */
enum { REQUEST_PERMISSION = 0x1023, STATE_OF_TILES = 18 }; /* ARCH_REQ_XCOMP_PERM */

int ac_scalable_vector_bits(void) {
#if defined(__aarch64__) && defined(__linux__)
  int length = getauxval(AT_HWCAP) & HWCAP_SVE ? prctl(PR_SVE_GET_VL) : 0;
  return length > 0 ? 8 * (length & PR_SVE_VL_LEN_MASK) : 0;
#else
  return 0;
#endif
}

bool ac_has_bfmmla(void) {
#if defined(__aarch64__) && defined(__linux__)
  return getauxval(AT_HWCAP2) & BF16_PRODUCTS;
#else
  return false;
#endif
}

/* Documentation/arch/x86/xstate. */
bool ac_take_tiles(void) {
#if defined(__x86_64__) && defined(__linux__)
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, STATE_OF_TILES) == 0;
#else
  return false;
#endif
}
