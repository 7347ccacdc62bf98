/* Documents as tokens, and which of them make which samples. */
#ifndef AC_CHAT_CHAT_H
#define AC_CHAT_CHAT_H

#include <accrue/chat.h>

/* The highest bit of a token tells whether it is learned. */
#define AC_CHAT_LEARNED 0x80000000u

typedef struct ac_chat_entry {
  uint64_t begin; /* its first token */
  uint64_t hash;
  int64_t line;
  uint32_t count; /* tokens */
  uint32_t file;
  bool conversation, validates, used;
} ac_chat_entry;

/* Consecutive tokens of a document that are in one sample: `length` positions predict as many
 * tokens, so it has one token more. */
typedef struct ac_chat_piece_of {
  uint64_t begin;
  int64_t document;
  int32_t length;
  bool validates;
} ac_chat_piece_of;

/* Pieces by samples: sample s has pieces first[s] to first[s + 1] - 1. */
typedef struct ac_chat_samples {
  ac_chat_piece_of *pieces;
  int64_t *first;
  int64_t piece_count, count;
} ac_chat_samples;

struct ac_chat {
  ac_chat_desc desc; /* its texts are NULL */
  int64_t vocabulary;
  uint32_t *tokens; /* of all documents */
  size_t token_count, token_capacity;
  ac_chat_entry *entries;
  size_t entry_count, entry_capacity;
  char **files;
  size_t file_count, file_capacity;
  ac_chat_samples sides[2]; /* training, validation */
  ac_chat_info info;
};

/* Fills `sides` and what `info` says of them. */
ac_status ac_chat_divide(ac_chat *chat);

#endif
