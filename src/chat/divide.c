/* From documents to samples: long ones are cut or divided, each goes to its side, and those of a
 * side are packed. */
#include "chat/chat.h"

#include "chat/pack.h"
#include "core/integers.h"
#include "text/room.h"

#include <math.h>

typedef struct piece_list {
  ac_chat_piece_of *list;
  size_t count, capacity;
} piece_list;

static bool has_learned(const ac_chat *chat, uint64_t begin, int32_t length) {
  for (int32_t i = 1; i <= length; i++)
    if (chat->tokens[begin + (uint64_t)i] & AC_CHAT_LEARNED) return true;
  return false;
}

static ac_status add_piece(const ac_chat *chat, piece_list *pieces, int64_t document,
                           uint64_t begin, int64_t length) {
  AC_TRY(AC_ROOM(pieces->list, pieces->capacity, pieces->count + 1));
  pieces->list[pieces->count++] =
      (ac_chat_piece_of){begin, document, (int32_t)length, chat->entries[document].validates};
  return AC_OK;
}

/* ---- lengths --------------------------------------------------------------------------------- */

/* Counts documents that are left out because nothing is learned of this one. Perhaps what would be
 * learned is cut off. */
static void leave_out(ac_chat *chat, const ac_chat_entry *entry, int64_t documents) {
  const int64_t whole = (int64_t)entry->count - 1;
  const bool too_long =
      whole > chat->desc.context && has_learned(chat, entry->begin, (int32_t)whole);
  *(too_long ? &chat->info.dropped : &chat->info.unlearned) += documents;
}

/* A conversation. */
static ac_status cut(ac_chat *chat, piece_list *pieces, int64_t document) {
  ac_chat_entry *entry = &chat->entries[document];
  const int64_t whole = (int64_t)entry->count - 1, length = ac_smaller(whole, chat->desc.context);
  if (whole > length && chat->desc.long_documents == AC_LONG_DROP) {
    chat->info.dropped++;
    return AC_OK;
  }
  if (length < 1 || !has_learned(chat, entry->begin, (int32_t)length)) {
    leave_out(chat, entry, 1);
    return AC_OK;
  }
  chat->info.cut += whole > length;
  chat->info.cut_tokens += whole - length;
  entry->used = true;
  return add_piece(chat, pieces, document, entry->begin, length);
}

/* A text. Its pieces share a token: the last target of one is the first token of the next. */
static ac_status divide(ac_chat *chat, piece_list *pieces, int64_t document) {
  ac_chat_entry *entry = &chat->entries[document];
  const int64_t whole = (int64_t)entry->count - 1, context = chat->desc.context;
  if (whole < 1) {
    chat->info.unlearned++;
    return AC_OK;
  }
  chat->info.divided += whole > context;
  entry->used = true;
  for (int64_t at = 0; at < whole; at += context)
    AC_TRY(add_piece(chat, pieces, document, entry->begin + (uint64_t)at,
                     ac_smaller(context, whole - at)));
  return AC_OK;
}

/* A chosen and a rejected document: both are used, or neither. */
static ac_status take_pair(ac_chat *chat, piece_list *pieces, int64_t chosen) {
  const ac_chat_entry *pair = &chat->entries[chosen];
  const int64_t context = chat->desc.context, longest = ac_larger(pair[0].count, pair[1].count) - 1;
  if (longest > context && chat->desc.long_documents == AC_LONG_DROP) {
    chat->info.dropped += 2;
    return AC_OK;
  }
  for (int i = 0; i < 2; i++) {
    const int64_t length = ac_smaller((int64_t)pair[i].count - 1, context);
    if (length >= 1 && has_learned(chat, pair[i].begin, (int32_t)length)) continue;
    leave_out(chat, &pair[i], 2);
    return AC_OK;
  }
  AC_TRY(cut(chat, pieces, chosen));
  return cut(chat, pieces, chosen + 1);
}

static ac_status make_pieces(ac_chat *chat, piece_list *pieces) {
  if (chat->desc.preferences) {
    for (size_t i = 0; i < chat->entry_count; i += 2) AC_TRY(take_pair(chat, pieces, (int64_t)i));
    return AC_OK;
  }
  for (size_t i = 0; i < chat->entry_count; i++)
    AC_TRY(chat->entries[i].conversation ? cut(chat, pieces, (int64_t)i)
                                         : divide(chat, pieces, (int64_t)i));
  return AC_OK;
}

/* ---- sides ----------------------------------------------------------------------------------- */

/* In [0, 1), from all bits of the hash (the finaliser of SplitMix64). */
static double place_of(uint64_t hash) {
  hash = (hash ^ hash >> 30) * 0xBF58476D1CE4E5B9u;
  hash = (hash ^ hash >> 27) * 0x94D049BB133111EBu;
  return (double)((hash ^ hash >> 31) >> 11) * 0x1p-53;
}

/* Documents that are used, by their places. False if all are equal, which are as one document. */
static bool choose_documents(ac_chat *chat, size_t used) {
  ac_chat_entry *least = NULL, *most = NULL;
  size_t chosen = 0;
  for (size_t i = 0; i < chat->entry_count; i++) {
    ac_chat_entry *entry = &chat->entries[i];
    if (!entry->used) continue;
    entry->validates = place_of(entry->hash) < chat->desc.validation;
    chosen += entry->validates;
    if (!least || place_of(entry->hash) < place_of(least->hash)) least = entry;
    if (!most || place_of(entry->hash) > place_of(most->hash)) most = entry;
  }
  if (least->hash == most->hash) {
    for (size_t i = 0; i < chat->entry_count; i++) chat->entries[i].validates = false;
    return false;
  }
  /* And what is equal to it: the other one of a pair. */
  for (size_t i = 0; i < chat->entry_count; i++) {
    ac_chat_entry *entry = &chat->entries[i];
    if (!chosen && entry->used && entry->hash == least->hash) entry->validates = true;
    if (chosen == used && entry->hash == most->hash) entry->validates = false;
  }
  return true;
}

static ac_status choose(ac_chat *chat, piece_list *pieces) {
  size_t used = 0;
  for (size_t i = 0; i < chat->entry_count; i++) used += chat->entries[i].used;
  if (!(chat->desc.validation > 0)) return AC_OK;
  if (used > (chat->desc.preferences ? 2 : 1) && choose_documents(chat, used)) {
    for (size_t i = 0; i < pieces->count; i++)
      pieces->list[i].validates = chat->entries[pieces->list[i].document].validates;
    return AC_OK;
  }
  if (pieces->count < 2 || chat->desc.preferences)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "a share is to validate, but there is only one document, or pair, or all are "
                   "equal, and it fits in one sample of %lld tokens",
                   (long long)chat->desc.context);
  int64_t end = (int64_t)ceil((double)pieces->count * chat->desc.validation);
  end = ac_smaller(end, (int64_t)pieces->count - 1);
  for (int64_t i = 0; i < end; i++) pieces->list[pieces->count - 1 - (size_t)i].validates = true;
  return AC_OK;
}

/* ---- samples --------------------------------------------------------------------------------- */

static void count_side(const ac_chat *chat, const ac_chat_samples *side, ac_chat_side *info) {
  int64_t positions = 0;
  info->samples = side->count;
  for (int64_t i = 0; i < side->piece_count; i++) {
    const ac_chat_piece_of *piece = &side->pieces[i];
    positions += piece->length;
    for (int32_t t = 1; t <= piece->length; t++)
      info->learned += (chat->tokens[piece->begin + (uint64_t)t] & AC_CHAT_LEARNED) != 0;
  }
  info->tokens = positions;
  const int64_t rows = chat->desc.preferences ? 2 : 1;
  info->padding = side->count * rows * chat->desc.context - positions;
}

/* Puts pieces into the order of their samples, and keeps the order within each. */
static void order(ac_chat_samples *side, const ac_chat_piece_of *pieces, int64_t *sample_of) {
  for (int64_t s = 0; s <= side->count; s++) side->first[s] = 0;
  for (int64_t i = 0; i < side->piece_count; i++) side->first[sample_of[i]]++;
  for (int64_t s = 0, sum = 0; s <= side->count; s++) {
    const int64_t own = side->first[s];
    side->first[s] = sum;
    sum += own;
  }
  for (int64_t i = 0; i < side->piece_count; i++)
    side->pieces[side->first[sample_of[i]]++] = pieces[i];
  for (int64_t s = side->count; s > 0; s--) side->first[s] = side->first[s - 1];
  side->first[0] = 0;
}

static ac_status pack(ac_chat *chat, ac_chat_samples *side, const ac_chat_piece_of *pieces) {
  const int64_t count = side->piece_count;
  int32_t *lengths = malloc(((size_t)count + 1) * sizeof *lengths);
  int64_t *sample_of = malloc(((size_t)count + 1) * sizeof *sample_of);
  side->first = malloc(((size_t)count + 1) * sizeof *side->first);
  side->pieces = malloc(((size_t)count + 1) * sizeof *side->pieces);
  ac_status status = AC_OK;
  if (!lengths || !sample_of || !side->first || !side->pieces)
    status = ac_fail(AC_ERROR_MEMORY, "no memory for %lld documents", (long long)count);
  const int64_t together = chat->desc.preferences ? 2 : 1;
  for (int64_t i = 0; i < count && status == AC_OK; i++) {
    lengths[i] = pieces[i].length;
    sample_of[i] = i / together;
  }
  side->count = count / together;
  if (status == AC_OK && !chat->desc.no_packing && !chat->desc.preferences)
    status = ac_chat_pack(lengths, count, chat->desc.context, sample_of, &side->count);
  if (status == AC_OK) order(side, pieces, sample_of);
  free(lengths);
  free(sample_of);
  return status;
}

/* Training pieces come first. */
static int64_t part(ac_chat_piece_of *to, const piece_list *pieces) {
  int64_t count = 0, training;
  for (size_t i = 0; i < pieces->count; i++)
    if (!pieces->list[i].validates) to[count++] = pieces->list[i];
  training = count;
  for (size_t i = 0; i < pieces->count; i++)
    if (pieces->list[i].validates) to[count++] = pieces->list[i];
  return training;
}

static ac_status make_sides(ac_chat *chat, const piece_list *pieces) {
  ac_chat_piece_of *parted = malloc((pieces->count + 1) * sizeof *parted);
  if (!parted) return ac_fail(AC_ERROR_MEMORY, "no memory for %zu documents", pieces->count);
  const int64_t training = part(parted, pieces);
  chat->sides[0].piece_count = training;
  chat->sides[1].piece_count = (int64_t)pieces->count - training;
  ac_status status = pack(chat, &chat->sides[0], parted);
  if (status == AC_OK) status = pack(chat, &chat->sides[1], parted + training);
  free(parted);
  return status;
}

static void count_documents(ac_chat *chat) {
  for (size_t i = 0; i < chat->entry_count; i++) {
    const ac_chat_entry *entry = &chat->entries[i];
    if (entry->used && !entry->validates) chat->info.train.documents++;
    if (entry->used && entry->validates) chat->info.validation.documents++;
  }
  count_side(chat, &chat->sides[0], &chat->info.train);
  count_side(chat, &chat->sides[1], &chat->info.validation);
}

ac_status ac_chat_divide(ac_chat *chat) {
  piece_list pieces = {0};
  ac_status status = make_pieces(chat, &pieces);
  if (status == AC_OK && !pieces.count)
    status = ac_fail(AC_ERROR_FORMAT,
                     "nothing is learned: of %lld documents %lld have no learned token, and %lld "
                     "are too long",
                     (long long)chat->info.documents, (long long)chat->info.unlearned,
                     (long long)chat->info.dropped);
  if (status == AC_OK) status = choose(chat, &pieces);
  if (status == AC_OK) status = make_sides(chat, &pieces);
  if (status == AC_OK) count_documents(chat);
  free(pieces.list);
  return status;
}
