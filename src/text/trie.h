/* A trie of byte strings, each with a number: all strings that a text begins with, from the
 * shortest to the longest, in time of the longest. The children of a node lie side by side, sorted
 * by their bytes; those of the root are found by a table. */
#ifndef AC_TEXT_TRIE_H
#define AC_TEXT_TRIE_H

#include "core/error.h"

#include <stdint.h>

#define AC_NO_TOKEN UINT32_MAX

typedef struct ac_trie_node {
  uint32_t children; /* the first one */
  uint32_t value;    /* AC_NO_TOKEN: no string ends here */
  uint16_t count;    /* of children */
  uint8_t byte;
} ac_trie_node;

typedef struct ac_trie {
  ac_trie_node *nodes; /* NULL: no strings */
  size_t count, capacity;
  uint32_t root[256]; /* 0: no such child */
} ac_trie;

typedef struct ac_trie_string {
  const char *bytes;
  size_t count;
  uint32_t value;
} ac_trie_string;

/* Sorts the strings. Of equal ones, the one with the smallest value is kept. Empty ones are left
 * out. */
ac_status ac_trie_build(ac_trie *trie, ac_trie_string *strings, size_t count);
void ac_trie_free(ac_trie *trie);

/* The child of a node, 0 if there is none. Node 0 is the root. */
static inline uint32_t ac_trie_child(const ac_trie *trie, uint32_t node, uint8_t byte) {
  if (!node) return trie->root[byte];
  const ac_trie_node *parent = &trie->nodes[node];
  uint32_t low = parent->children, high = low + parent->count;
  while (high - low > 4) {
    const uint32_t middle = low + (high - low) / 2;
    if (trie->nodes[middle].byte <= byte) low = middle;
    else high = middle;
  }
  for (; low < high; low++)
    if (trie->nodes[low].byte == byte) return low;
  return 0;
}

/* The value of the longest string that the text begins with, and its length; AC_NO_TOKEN: none. */
uint32_t ac_trie_longest(const ac_trie *trie, const char *text, size_t count, size_t *length);

#endif
