#include "text/trie.h"

#include "text/room.h"

static int by_bytes(const void *a, const void *b) {
  const ac_trie_string *one = a, *other = b;
  const size_t shorter = one->count < other->count ? one->count : other->count;
  const int order = memcmp(one->bytes, other->bytes, shorter);
  if (order) return order;
  if (one->count != other->count) return one->count < other->count ? -1 : 1;
  return (one->value > other->value) - (one->value < other->value);
}

/* The strings of a node: [first, end) of the sorted ones share `depth` bytes. */
typedef struct span {
  size_t first, end, depth;
} span;

/* Adds the children of a node, and says which strings each has. */
static ac_status add_children(ac_trie *trie, span **spans, size_t *capacity, uint32_t node,
                              const ac_trie_string *strings) {
  span own = (*spans)[node];
  while (own.first < own.end && strings[own.first].count == own.depth) {
    if (trie->nodes[node].value == AC_NO_TOKEN && node)
      trie->nodes[node].value = strings[own.first].value;
    own.first++;
  }
  trie->nodes[node].children = (uint32_t)trie->count;
  while (own.first < own.end) {
    const uint8_t byte = (uint8_t)strings[own.first].bytes[own.depth];
    size_t end = own.first + 1;
    while (end < own.end && (uint8_t)strings[end].bytes[own.depth] == byte) end++;
    AC_TRY(AC_ROOM(trie->nodes, trie->capacity, trie->count + 1));
    AC_TRY(AC_ROOM(*spans, *capacity, trie->count + 1));
    if (!node) trie->root[byte] = (uint32_t)trie->count;
    (*spans)[trie->count] = (span){own.first, end, own.depth + 1};
    trie->nodes[trie->count++] = (ac_trie_node){.byte = byte, .value = AC_NO_TOKEN};
    trie->nodes[node].count++;
    own.first = end;
  }
  return AC_OK;
}

ac_status ac_trie_build(ac_trie *trie, ac_trie_string *strings, size_t count) {
  span *spans = NULL;
  size_t capacity = 0;
  *trie = (ac_trie){0};
  if (!count) return AC_OK;
  qsort(strings, count, sizeof *strings, by_bytes);
  ac_status status = AC_ROOM(trie->nodes, trie->capacity, 1);
  if (status == AC_OK) status = AC_ROOM(spans, capacity, 1);
  if (status == AC_OK) {
    trie->nodes[trie->count++] = (ac_trie_node){.value = AC_NO_TOKEN};
    spans[0] = (span){0, count, 0};
  }
  for (uint32_t node = 0; status == AC_OK && node < trie->count; node++)
    status = add_children(trie, &spans, &capacity, node, strings);
  free(spans);
  if (status != AC_OK) ac_trie_free(trie);
  return status;
}

void ac_trie_free(ac_trie *trie) {
  free(trie->nodes);
  *trie = (ac_trie){0};
}

uint32_t ac_trie_longest(const ac_trie *trie, const char *text, size_t count, size_t *length) {
  uint32_t found = AC_NO_TOKEN, node = 0;
  for (size_t i = 0; i < count; i++) {
    node = ac_trie_child(trie, node, (uint8_t)text[i]);
    if (!node) break;
    if (trie->nodes[node].value == AC_NO_TOKEN) continue;
    found = trie->nodes[node].value;
    *length = i + 1;
  }
  return found;
}
