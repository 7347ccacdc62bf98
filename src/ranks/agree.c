/* What ranks must have in common. Rank 0 gets the facts of all others, one rank after another,
 * compares each with its own, and tells all what differs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "ranks/ranks.h"

/* Names and values, each with a zero at its end. */
typedef struct text {
  char *bytes;
  uint64_t size;
} text;

enum { MOST_FACTS_BYTES = 1 << 28 };

static ac_status write_facts(text *facts, const ac_ranks_fact *list, int count) {
  size_t size = 0;
  for (int i = 0; i < count; i++) {
    if (!list[i].name || !list[i].value)
      return ac_fail(AC_ERROR_ARGUMENT, "fact %d of ranks has no name or no value", i);
    size += strlen(list[i].name) + strlen(list[i].value) + 2;
  }
  if (size > MOST_FACTS_BYTES)
    return ac_fail(AC_ERROR_ARGUMENT, "facts of ranks may have 256 MiB, not %zu bytes", size);
  char *at = facts->bytes = malloc(size + 1);
  if (!at) return ac_fail(AC_ERROR_MEMORY, "no memory for facts of ranks");
  for (int i = 0; i < count; i++) {
    const char *const both[] = {list[i].name, list[i].value};
    for (int k = 0; k < 2; k++) {
      const size_t length = strlen(both[k]) + 1;
      memcpy(at, both[k], length);
      at += length;
    }
  }
  facts->size = size;
  return AC_OK;
}

static ac_status send_text(ac_transport *t, int to, const text *sent) {
  AC_TRY(ac_transport_send(t, to, AC_TAG_OF_FACTS, &sent->size, sizeof sent->size));
  return ac_transport_send(t, to, AC_TAG_OF_FACTS, sent->bytes, sent->size);
}

/* The caller frees its bytes. */
static ac_status receive_text(ac_transport *t, int from, text *received) {
  *received = (text){0};
  AC_TRY(ac_transport_receive(t, from, AC_TAG_OF_FACTS, &received->size, sizeof received->size));
  if (received->size > MOST_FACTS_BYTES)
    return ac_fail(AC_ERROR_FORMAT, "rank %d has sent facts that are too long", from);
  received->bytes = calloc(1, received->size + 1);
  if (!received->bytes) return ac_fail(AC_ERROR_MEMORY, "no memory for facts of rank %d", from);
  return ac_transport_receive(t, from, AC_TAG_OF_FACTS, received->bytes, received->size);
}

static const char *next_text(const text *all, const char *at) {
  return at + strlen(at) + 1 < all->bytes + all->size ? at + strlen(at) + 1 : "";
}

/* The first fact that differs, and how many do. Both lists have names of the same code, so they are
 * in the same order; where they are not, the version differs. */
static void compare(const text *own, const text *other, int rank, char *sentence, size_t size) {
  const char *a = own->size ? own->bytes : "", *b = other->size ? other->bytes : "";
  int differ = 0;
  while (*a || *b) {
    const char *name = a, *other_name = b;
    if (strcmp(name, other_name)) {
      if (!differ++)
        snprintf(sentence, size,
                 "rank 0 compares \"%.80s\" where rank %d compares \"%.80s\": "
                 "their programs differ",
                 name, rank, other_name);
      break;
    }
    a = next_text(own, name);
    b = next_text(other, other_name);
    if (strcmp(a, b) && !differ++)
      snprintf(sentence, size,
               "ranks must agree on %.80s: it is \"%.200s\" on rank 0 and \"%.200s\" "
               "on rank %d",
               name, a, b, rank);
    a = next_text(own, a);
    b = next_text(other, b);
  }
  const size_t used = strlen(sentence);
  if (differ > 1)
    snprintf(sentence + used, size - used, " (%d other fact%s as well)", differ - 1,
             differ > 2 ? "s differ" : " differs");
}

static ac_status judge(ac_transport *t, const text *own, char *sentence, size_t size) {
  for (int rank = 1; rank < ac_transport_size(t); rank++) {
    text other;
    ac_status status = receive_text(t, rank, &other);
    if (status == AC_OK && !*sentence) compare(own, &other, rank, sentence, size);
    free(other.bytes);
    if (status != AC_OK) return status;
  }
  return AC_OK;
}

/* The size first: another version may have room for another one. */
static ac_status tell_sentence(ac_transport *t, char *sentence, uint64_t room) {
  uint64_t size = strlen(sentence) + 1;
  AC_TRY(ac_transport_tell(t, AC_TAG_OF_FACTS, &size, sizeof size));
  if (size > room) return ac_fail(AC_ERROR_FORMAT, "rank 0 has sent a sentence that is too long");
  return ac_transport_tell(t, AC_TAG_OF_FACTS, sentence, size);
}

ac_status ac_ranks_agree(ac_ranks *ranks, const ac_ranks_fact *facts, int count) {
  AC_REQUIRE(ranks);
  if (count < 0) return ac_fail(AC_ERROR_ARGUMENT, "there cannot be %d facts", count);
  if (count) AC_REQUIRE(facts);
  ac_transport *t = ac_ranks_transport(ranks);
  char sentence[AC_SENTENCE_BYTES] = "";
  text own = {0};
  ac_status status = write_facts(&own, facts, count);
  if (status == AC_OK)
    status = ac_transport_rank(t) == 0 ? judge(t, &own, sentence, sizeof sentence)
                                       : send_text(t, 0, &own);
  if (status == AC_OK) status = tell_sentence(t, sentence, sizeof sentence);
  free(own.bytes);
  if (status != AC_OK) return status;
  return *sentence ? ac_fail(AC_ERROR_STATE, "%s", sentence) : AC_OK;
}
