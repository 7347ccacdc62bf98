#include "program/plan_cache.h"

#include "common/json_text.h"
#include "common/option_record.h"

#include <stdlib.h>
#include <string.h>

/* A flag that a plan may depend on belongs to the key. */
static bool is_of_key(const flag_record *r) {
  return !r->plan_free;
}

ac_device *plan_cache_device(const plan_cache *c, const char *name, int64_t threads) {
  const bool same = c->device && c->threads == threads && !strcmp(c->device_name, name);
  return same ? c->device : NULL;
}

bool plan_cache_add_device(plan_cache *c, ac_device *device, const char *name, int64_t threads) {
  if (c->device || !(c->device_name = strdup(name))) return false;
  c->device = device;
  c->threads = threads;
  return true;
}

/* The values of flags, and which of them were given. */
static char *key_of(const options *o) {
  json_t *record = json_object();
  char *key = options_record(o, is_of_key, record)
                  ? json_text(record, JSON_COMPACT | JSON_SORT_KEYS)
                  : NULL;
  json_decref(record);
  return key;
}

ac_plan *plan_cache_find(const plan_cache *c, const options *o) {
  ac_plan *found = NULL;
  char *key = key_of(o);
  for (int i = 0; key && i < c->count && !found; i++)
    if (!strcmp(c->entries[i].key, key)) found = c->entries[i].plan;
  free(key);
  return found;
}

bool plan_cache_add(plan_cache *c, const options *o, ac_plan *plan) {
  char *key = key_of(o);
  plan_cache_entry *grown =
      key ? realloc(c->entries, (size_t)(c->count + 1) * sizeof *grown) : NULL;
  if (!grown) {
    free(key);
    return false;
  }
  c->entries = grown;
  grown[c->count++] = (plan_cache_entry){key, plan};
  return true;
}

void plan_cache_free(plan_cache *c) {
  for (int i = 0; i < c->count; i++) {
    ac_plan_free(c->entries[i].plan);
    free(c->entries[i].key);
  }
  free(c->entries);
  free(c->device_name);
  ac_device_close(c->device);
  *c = (plan_cache){0};
}
