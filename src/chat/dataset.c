/* Documents as a dataset: a sample is laid out when it is read. */
#include "chat/chat.h"
#include "data/dataset.h"

#include "core/error.h"

#include <stdlib.h>
#include <string.h>

typedef struct reading {
  const ac_chat *chat;
  const ac_chat_samples *side;
} reading;

/* The blocks of a sample. */
typedef struct sample {
  int32_t *tokens, *targets;
  float *weights;
  int32_t *segments, *positions; /* NULL: there are none */
} sample;

static void lay(const sample *to, int64_t at, const uint32_t *from, int32_t length,
                int32_t segment) {
  for (int32_t i = 0; i < length; i++) {
    to->tokens[at + i] = (int32_t)(from[i] & ~AC_CHAT_LEARNED);
    to->targets[at + i] = (int32_t)(from[i + 1] & ~AC_CHAT_LEARNED);
    to->weights[at + i] = from[i + 1] & AC_CHAT_LEARNED ? 1 : 0;
    if (to->segments) to->segments[at + i] = segment;
    if (to->positions) to->positions[at + i] = i;
  }
}

static void pad(const sample *to, int64_t at, int64_t context) {
  for (; at < context; at++) {
    to->tokens[at] = to->targets[at] = 0;
    to->weights[at] = 0;
    if (to->segments) to->segments[at] = -1;
    if (to->positions) to->positions[at] = 0;
  }
}

static ac_status read_sample(void *user, const ac_sample_key *key, void *const *fields) {
  const reading *r = user;
  const sample to = {fields[0], fields[1], fields[2], fields[3], fields[4]};
  const int64_t first = r->side->first[key->index], end = r->side->first[key->index + 1];
  int64_t at = 0;
  for (int64_t i = first; i < end; i++) {
    const ac_chat_piece_of *piece = &r->side->pieces[i];
    lay(&to, at, r->chat->tokens + piece->begin, piece->length, (int32_t)(i - first));
    at += piece->length;
  }
  pad(&to, at, r->chat->desc.context);
  return AC_OK;
}

static ac_status read_pair(void *user, const ac_sample_key *key, void *const *fields) {
  const reading *r = user;
  for (int i = 0; i < 2; i++) {
    const sample to = {
        .tokens = fields[3 * i], .targets = fields[3 * i + 1], .weights = fields[3 * i + 2]};
    const ac_chat_piece_of *piece = &r->side->pieces[r->side->first[key->index] + i];
    lay(&to, 0, r->chat->tokens + piece->begin, piece->length, 0);
    pad(&to, piece->length, r->chat->desc.context);
  }
  return AC_OK;
}

static ac_callback_dataset_desc describe(const ac_chat *chat) {
  const int64_t context = chat->desc.context;
  if (chat->desc.preferences)
    return (ac_callback_dataset_desc){.field_count = 6,
                                      .fields = {{"chosen_tokens", AC_I32, context},
                                                 {"chosen_targets", AC_I32, context},
                                                 {"chosen_weights", AC_F32, context},
                                                 {"rejected_tokens", AC_I32, context},
                                                 {"rejected_targets", AC_I32, context},
                                                 {"rejected_weights", AC_F32, context}},
                                      .read = read_pair};
  return (ac_callback_dataset_desc){.field_count = 5,
                                    .fields = {{"tokens", AC_I32, context},
                                               {"targets", AC_I32, context},
                                               {"weights", AC_F32, context},
                                               {"segments", AC_I32, context},
                                               {"positions", AC_I32, context}},
                                    .read = read_sample};
}

ac_status ac_dataset_from_chat(ac_dataset **dataset, const ac_chat *chat, bool validation) {
  AC_CREATES(dataset);
  AC_REQUIRE(chat);
  const ac_chat_samples *side = &chat->sides[validation];
  ac_callback_dataset_desc desc = describe(chat);
  if (!side->count)
    return ac_fail(AC_ERROR_ARGUMENT, "chat: no document %s", validation ? "validates" : "trains");
  reading *made = malloc(sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "chat: no memory for a description");
  *made = (reading){chat, side};
  desc.count = side->count;
  desc.close = free;
  desc.user = made;
  const ac_status status = ac_dataset_create(dataset, &desc, chat->vocabulary);
  if (status != AC_OK) free(made);
  return status;
}
