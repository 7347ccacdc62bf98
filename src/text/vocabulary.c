#include "text/vocabulary.h"

#include "text/room.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static bool is_token(const ac_vocabulary *v, uint32_t place, const char *bytes, size_t count,
                     bool apart) {
  const ac_vocabulary_entry *entry = &v->entries[place];
  return entry->apart == apart && entry->length == count &&
         !memcmp(v->bytes + entry->at, bytes, count);
}

/* The slot of the token, or the free one where it would be. The upper half of a slot is that of the
 * hash, so that few other tokens are looked at. */
static size_t slot_of(const ac_vocabulary *v, const char *bytes, size_t count, bool apart,
                      uint32_t *tag) {
  const uint64_t hash = XXH3_64bits(bytes, count);
  size_t slot = hash & (v->slots - 1);
  *tag = (uint32_t)(hash >> 32);
  for (; v->table[slot]; slot = (slot + 1) & (v->slots - 1))
    if ((uint32_t)(v->table[slot] >> 32) == *tag &&
        is_token(v, (uint32_t)v->table[slot] - 1, bytes, count, apart))
      break;
  return slot;
}

static uint64_t slot_for(uint32_t tag, uint32_t place) {
  return (uint64_t)tag << 32 | (place + 1);
}

static size_t id_slot_of(const ac_vocabulary *v, uint32_t id) {
  size_t slot = (size_t)((id * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (v->slots - 1);
  while (v->by_id[slot] && v->entries[v->by_id[slot] - 1].id != id)
    slot = (slot + 1) & (v->slots - 1);
  return slot;
}

static ac_status refuse_memory(size_t slots) {
  return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for %zu tokens", slots / 2);
}

/* Puts the entry at this place into the table of ids, if it has to be there. */
static ac_status list_id(ac_vocabulary *v, uint32_t place) {
  const uint32_t id = v->entries[place].id;
  if (id == place) return AC_OK;
  if (!v->by_id) v->by_id = calloc(v->slots, sizeof *v->by_id);
  if (!v->by_id) return refuse_memory(v->slots);
  v->by_id[id_slot_of(v, id)] = place + 1;
  return AC_OK;
}

/* Room in the tables for one more entry. */
static ac_status make_slots(ac_vocabulary *v) {
  if (2 * (v->entry_count + 1) <= v->slots) return AC_OK;
  const size_t slots = v->slots ? 2 * v->slots : 1024;
  uint32_t tag;
  free(v->table);
  free(v->by_id);
  v->by_id = NULL;
  v->slots = slots;
  v->table = calloc(slots, sizeof *v->table);
  if (!v->table) return refuse_memory(slots);
  for (uint32_t place = 0; place < v->entry_count; place++) {
    const ac_vocabulary_entry *entry = &v->entries[place];
    const size_t slot = slot_of(v, v->bytes + entry->at, entry->length, entry->apart, &tag);
    v->table[slot] = slot_for(tag, place);
    AC_TRY(list_id(v, place));
  }
  return AC_OK;
}

ac_status ac_vocabulary_put(ac_vocabulary *v, uint32_t id, const char *bytes, size_t count,
                            bool apart) {
  if (id >= AC_MAX_VOCABULARY)
    return ac_fail(AC_ERROR_FORMAT, "id %lu of a token is above %d", (unsigned long)id,
                   AC_MAX_VOCABULARY - 1);
  if (ac_vocabulary_entry_of(v, id))
    return ac_fail(AC_ERROR_FORMAT, "two tokens have the id %lu", (unsigned long)id);
  AC_TRY(AC_ROOM(v->entries, v->capacity, v->entry_count + 1));
  AC_TRY(make_slots(v));
  AC_TRY(AC_ROOM(v->bytes, v->byte_capacity, v->byte_count + count + 1));
  uint32_t tag;
  const size_t slot = slot_of(v, bytes, count, apart, &tag);
  const uint32_t place = (uint32_t)v->entry_count;
  memcpy(v->bytes + v->byte_count, bytes, count);
  v->bytes[v->byte_count + count] = 0;
  v->entries[place] = (ac_vocabulary_entry){v->byte_count, (uint32_t)count, id, false, apart};
  v->entry_count++;
  v->byte_count += count + 1;
  if (v->count <= id) v->count = (size_t)id + 1;
  v->table[slot] = slot_for(tag, place);
  return list_id(v, place);
}

uint32_t ac_vocabulary_find(const ac_vocabulary *v, const char *bytes, size_t count, bool apart) {
  if (!v->slots) return AC_NO_TOKEN;
  uint32_t tag;
  const uint32_t place = (uint32_t)v->table[slot_of(v, bytes, count, apart, &tag)];
  return place ? v->entries[place - 1].id : AC_NO_TOKEN;
}

ac_vocabulary_entry *ac_vocabulary_entry_of(const ac_vocabulary *v, uint32_t id) {
  if (id < v->entry_count && v->entries[id].id == id) return &v->entries[id];
  const uint32_t place = v->by_id ? v->by_id[id_slot_of(v, id)] : 0;
  return place ? &v->entries[place - 1] : NULL;
}

const char *ac_vocabulary_token(const ac_vocabulary *v, uint32_t id, size_t *count) {
  const ac_vocabulary_entry *entry = ac_vocabulary_entry_of(v, id);
  *count = entry ? entry->length : 0;
  return entry ? v->bytes + entry->at : NULL;
}

bool ac_vocabulary_is_special(const ac_vocabulary *v, uint32_t id) {
  const ac_vocabulary_entry *entry = ac_vocabulary_entry_of(v, id);
  return entry && entry->special;
}

void ac_vocabulary_free(ac_vocabulary *v) {
  free(v->bytes);
  free(v->entries);
  free(v->table);
  free(v->by_id);
  *v = (ac_vocabulary){0};
}
