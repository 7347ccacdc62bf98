#include "text/work.h"

#include "text/room.h"

static ac_status text_room(ac_text *text, size_t more, bool origins) {
  if (text->count + more > INT32_MAX)
    return ac_fail(AC_ERROR_ARGUMENT, "tokenizer: a text has more than 2^31 - 1 bytes");
  AC_TRY(AC_ROOM(text->bytes, text->capacity, text->count + more + 1));
  return origins ? AC_ROOM(text->origins, text->origin_capacity, text->count + more + 1) : AC_OK;
}

ac_status ac_text_begin(ac_text *text, const char *bytes, size_t count, uint32_t base) {
  text->count = 0;
  free(text->origins);
  text->origins = NULL;
  text->origin_capacity = 0;
  text->base = base;
  AC_TRY(text_room(text, count, false));
  if (count) memcpy(text->bytes, bytes, count);
  text->count = count;
  return AC_OK;
}

ac_status ac_text_clear(ac_text *text) {
  text->count = 0;
  return text_room(text, 0, true);
}

ac_status ac_text_append(ac_text *text, const char *bytes, size_t count, ac_origin origin) {
  AC_TRY(text_room(text, count, true));
  memcpy(text->bytes + text->count, bytes, count);
  for (size_t i = 0; i < count; i++) text->origins[text->count + i] = origin;
  text->count += count;
  return AC_OK;
}

ac_status ac_text_append_from(ac_text *text, const ac_text *from, size_t begin, size_t end) {
  AC_TRY(text_room(text, end - begin, true));
  memcpy(text->bytes + text->count, from->bytes + begin, end - begin);
  for (size_t i = begin; i < end; i++) text->origins[text->count++] = ac_text_origin(from, i);
  return AC_OK;
}

ac_status ac_pieces_add(ac_pieces *pieces, size_t begin, size_t end) {
  if (begin == end) return AC_OK;
  AC_TRY(AC_ROOM(pieces->list, pieces->capacity, pieces->count + 1));
  pieces->list[pieces->count++] = (ac_piece){(uint32_t)begin, (uint32_t)end};
  return AC_OK;
}

void ac_work_swap_texts(ac_work *work) {
  const ac_text text = work->text;
  work->text = work->other;
  work->other = text;
}

void ac_work_swap_pieces(ac_work *work) {
  const ac_pieces pieces = work->pieces;
  work->pieces = work->others;
  work->others = pieces;
}

void ac_work_free(ac_work *work) {
  free(work->text.bytes);
  free(work->text.origins);
  free(work->other.bytes);
  free(work->other.origins);
  free(work->pieces.list);
  free(work->others.list);
  *work = (ac_work){0};
}
