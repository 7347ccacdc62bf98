#include "text/vocabulary.h"

#include "text/room.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static bool is_token(const ac_vocabulary *v, uint32_t id, const char *bytes, size_t count,
                     bool apart) {
  const ac_vocabulary_entry *entry = &v->entries[id];
  return entry->apart == apart && entry->length == count &&
         !memcmp(v->bytes + entry->at, bytes, count);
}

/* The slot of the token, or the free one where it would be. */
static size_t slot_of(const ac_vocabulary *v, const char *bytes, size_t count, bool apart) {
  size_t slot = XXH3_64bits(bytes, count) & (v->slots - 1);
  while (v->table[slot] && !is_token(v, v->table[slot] - 1, bytes, count, apart))
    slot = (slot + 1) & (v->slots - 1);
  return slot;
}

static ac_status make_slots(ac_vocabulary *v) {
  if (2 * (v->used + 1) <= v->slots) return AC_OK;
  const size_t slots = v->slots ? 2 * v->slots : 1024;
  uint32_t *table = calloc(slots, sizeof *table), *old = v->table;
  if (!table) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for %zu tokens", slots / 2);
  const size_t before = v->slots;
  v->table = table;
  v->slots = slots;
  for (size_t i = 0; i < before; i++) {
    if (!old[i]) continue;
    const ac_vocabulary_entry *entry = &v->entries[old[i] - 1];
    table[slot_of(v, v->bytes + entry->at, entry->length, entry->apart)] = old[i];
  }
  free(old);
  return AC_OK;
}

static ac_status make_entries(ac_vocabulary *v, uint32_t id) {
  AC_TRY(AC_ROOM(v->entries, v->capacity, (size_t)id + 1));
  for (; v->count <= id; v->count++) v->entries[v->count] = (ac_vocabulary_entry){0};
  return AC_OK;
}

ac_status ac_vocabulary_put(ac_vocabulary *v, uint32_t id, const char *bytes, size_t count,
                            bool apart) {
  if (id >= AC_MAX_VOCABULARY)
    return ac_fail(AC_ERROR_FORMAT, "id %lu of a token is above %d", (unsigned long)id,
                   AC_MAX_VOCABULARY - 1);
  AC_TRY(make_entries(v, id));
  AC_TRY(make_slots(v));
  AC_TRY(AC_ROOM(v->bytes, v->byte_capacity, v->byte_count + count + 1));
  const size_t slot = slot_of(v, bytes, count, apart);
  if (v->entries[id].there)
    return ac_fail(AC_ERROR_FORMAT, "two tokens have the id %lu", (unsigned long)id);
  memcpy(v->bytes + v->byte_count, bytes, count);
  v->bytes[v->byte_count + count] = 0;
  v->entries[id] = (ac_vocabulary_entry){v->byte_count, (uint32_t)count, true, false, apart};
  v->byte_count += count + 1;
  if (!v->table[slot]) v->used++;
  v->table[slot] = id + 1;
  return AC_OK;
}

uint32_t ac_vocabulary_find(const ac_vocabulary *v, const char *bytes, size_t count, bool apart) {
  if (!v->slots) return AC_NO_TOKEN;
  return v->table[slot_of(v, bytes, count, apart)] - 1; /* a free slot: AC_NO_TOKEN */
}

const char *ac_vocabulary_token(const ac_vocabulary *v, uint32_t id, size_t *count) {
  *count = 0;
  if (id >= v->count || !v->entries[id].there) return NULL;
  *count = v->entries[id].length;
  return v->bytes + v->entries[id].at;
}

bool ac_vocabulary_is_special(const ac_vocabulary *v, uint32_t id) {
  return id < v->count && v->entries[id].special;
}

void ac_vocabulary_free(ac_vocabulary *v) {
  free(v->bytes);
  free(v->entries);
  free(v->table);
  *v = (ac_vocabulary){0};
}
