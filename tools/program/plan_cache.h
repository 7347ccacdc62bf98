/* A device and its plans, for several runs in one process: runs share a plan if they differ only in
 * what a plan does not depend on. */
#ifndef TOOLS_PROGRAM_PLAN_CACHE_H
#define TOOLS_PROGRAM_PLAN_CACHE_H

#include "common/options.h"

#include <accrue/accrue.h>

typedef struct plan_cache_entry {
  char *key;
  ac_plan *plan;
} plan_cache_entry;

typedef struct plan_cache {
  ac_device *device;
  char *device_name; /* the flags that it was opened with */
  int64_t threads;
  plan_cache_entry *entries;
  int count;
} plan_cache;

/* The device of these flags; NULL: the cache has none of them. */
ac_device *plan_cache_device(const plan_cache *c, const char *name, int64_t threads);
/* Takes ownership of the device, if the cache has none. False: it has one, or there is no memory.
 */
bool plan_cache_add_device(plan_cache *c, ac_device *device, const char *name, int64_t threads);

/* The plan for runs with these flags, on the cache's device; NULL: there is none yet. */
ac_plan *plan_cache_find(const plan_cache *c, const options *o);
/* Takes ownership of the plan. False: there is no memory. */
bool plan_cache_add(plan_cache *c, const options *o, ac_plan *plan);

void plan_cache_free(plan_cache *c);

#endif
