/* Samples with equal room are a list; a tree of bits tells which lists have something. Its lowest
 * level has a bit for each room in [0, context], each higher one a bit for 64 bits below. */
#include "chat/pack.h"

#include "core/error.h"

#include <stdlib.h>
#include <string.h>

enum { LEVELS = 5 }; /* of 6 bits: rooms up to 2^30 */

typedef struct rooms {
  uint64_t *bits[LEVELS];
  int64_t *first; /* [context + 1]: a sample with this room; -1: none */
  int64_t *next;  /* [samples]: another one */
} rooms;

static void free_rooms(rooms *r) {
  for (int l = 0; l < LEVELS; l++) free(r->bits[l]);
  free(r->first);
  free(r->next);
}

static ac_status make_rooms(rooms *r, int64_t context, int64_t count) {
  size_t words = (size_t)context + 1;
  *r = (rooms){.first = malloc(((size_t)context + 1) * sizeof *r->first),
               .next = malloc((size_t)count * sizeof *r->next)};
  bool made = r->first && r->next;
  for (int l = 0; l < LEVELS; l++) {
    words = words / 64 + 1;
    made = (r->bits[l] = calloc(words, sizeof *r->bits[l])) && made;
  }
  if (!made) {
    free_rooms(r);
    return ac_fail(AC_ERROR_MEMORY, "chat: no memory to pack %lld documents", (long long)count);
  }
  for (int64_t i = 0; i <= context; i++) r->first[i] = -1;
  return AC_OK;
}

static void put(rooms *r, int64_t room, int64_t sample) {
  r->next[sample] = r->first[room];
  r->first[room] = sample;
  for (int l = 0; l < LEVELS; l++, room >>= 6) r->bits[l][room >> 6] |= (uint64_t)1 << (room & 63);
}

static int64_t take(rooms *r, int64_t room) {
  const int64_t sample = r->first[room];
  r->first[room] = r->next[sample];
  if (r->first[room] >= 0) return sample;
  for (int l = 0; l < LEVELS; l++, room >>= 6)
    if (r->bits[l][room >> 6] &= ~((uint64_t)1 << (room & 63))) break;
  return sample;
}

/* The least room of `least` or more that a sample has, or -1. */
static int64_t find(const rooms *r, int64_t least, int64_t context) {
  int64_t at = least;
  for (int l = 0; l < LEVELS; l++, at = (at >> 6) + 1) {
    if (at > context >> 6 * l) return -1;
    const uint64_t word = r->bits[l][at >> 6] >> (at & 63);
    if (!word) continue;
    at += __builtin_ctzll(word);
    for (; l; l--) at = at << 6 | __builtin_ctzll(r->bits[l - 1][at]);
    return at;
  }
  return -1;
}

typedef struct entry {
  int64_t index;
  int32_t length;
} entry;

static int by_decreasing_length(const void *a, const void *b) {
  const entry *x = a, *y = b;
  if (x->length != y->length) return x->length < y->length ? 1 : -1;
  return (x->index > y->index) - (x->index < y->index);
}

/* In the order of the first length in each. `number` has room for all samples. */
static void renumber(int64_t *sample_of, int64_t count, int64_t *number, int64_t samples) {
  int64_t next = 0;
  for (int64_t s = 0; s < samples; s++) number[s] = -1;
  for (int64_t i = 0; i < count; i++) {
    if (number[sample_of[i]] < 0) number[sample_of[i]] = next++;
    sample_of[i] = number[sample_of[i]];
  }
}

ac_status ac_chat_pack(const int32_t *lengths, int64_t count, int64_t context, int64_t *sample_of,
                       int64_t *samples) {
  rooms r;
  *samples = 0;
  if (!count) return AC_OK;
  entry *order = malloc((size_t)count * sizeof *order);
  if (!order) return ac_fail(AC_ERROR_MEMORY, "chat: no memory to pack documents");
  const ac_status status = make_rooms(&r, context, count);
  if (status != AC_OK) {
    free(order);
    return status;
  }
  for (int64_t i = 0; i < count; i++) order[i] = (entry){i, lengths[i]};
  qsort(order, (size_t)count, sizeof *order, by_decreasing_length);
  for (int64_t i = 0; i < count; i++) {
    const int64_t length = order[i].length, room = find(&r, length, context);
    const int64_t sample = room < 0 ? (*samples)++ : take(&r, room);
    put(&r, (room < 0 ? context : room) - length, sample);
    sample_of[order[i].index] = sample;
  }
  renumber(sample_of, count, r.next, *samples);
  free_rooms(&r);
  free(order);
  return AC_OK;
}
