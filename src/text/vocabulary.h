/* Tokens by id, and ids by the bytes of a token: of equal tokens, that of the one put last. Some
 * tokens have a table of their own, so that a model does not find them in a text: added ones, and
 * in a vocabulary for bytes those that are written with characters that are for none. Ids may have
 * holes of any size: memory grows with the tokens there are. */
#ifndef AC_TEXT_VOCABULARY_H
#define AC_TEXT_VOCABULARY_H

#include "text/trie.h"

typedef struct ac_vocabulary_entry {
  size_t at;
  uint32_t length, id;
  bool special, apart;
} ac_vocabulary_entry;

typedef struct ac_vocabulary {
  char *bytes; /* each token's, with a 0 after it */
  size_t byte_count, byte_capacity;
  ac_vocabulary_entry *entries; /* [entry_count], in the order in which they were put */
  size_t entry_count, capacity;
  size_t count;    /* the largest id + 1 */
  uint64_t *table; /* hash << 32 | place + 1, by bytes, open addressing; 0: free. Both tables of
                      tokens are in it */
  uint32_t *by_id; /* place + 1, by id, of those that have another place than their id; NULL: there
                      are none */
  size_t slots;    /* of each */
} ac_vocabulary;

enum { AC_MAX_VOCABULARY = 1 << 24 };

ac_status ac_vocabulary_put(ac_vocabulary *vocabulary, uint32_t id, const char *bytes, size_t count,
                            bool apart);
/* AC_NO_TOKEN: there is none. */
uint32_t ac_vocabulary_find(const ac_vocabulary *vocabulary, const char *bytes, size_t count,
                            bool apart);
/* NULL: no token has this id. */
ac_vocabulary_entry *ac_vocabulary_entry_of(const ac_vocabulary *vocabulary, uint32_t id);
const char *ac_vocabulary_token(const ac_vocabulary *vocabulary, uint32_t id, size_t *count);
bool ac_vocabulary_is_special(const ac_vocabulary *vocabulary, uint32_t id);
void ac_vocabulary_free(ac_vocabulary *vocabulary);

#endif
