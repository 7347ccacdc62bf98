#include "text/steps.h"

#include "text/room.h"

void ac_steps_free(ac_steps *steps) {
  for (size_t i = 0; i < steps->count; i++) {
    free(steps->list[i].text);
    ac_pattern_free(steps->list[i].pattern);
    ac_charsmap_free(&steps->list[i].charsmap);
    ac_sentences_free(steps->list[i].sentences);
  }
  free(steps->list);
  *steps = (ac_steps){0};
}

/* The part of the given text that bytes [begin, end), which are not none, come from. */
static ac_origin origin_of(const ac_text *text, size_t begin, size_t end) {
  return (ac_origin){ac_text_origin(text, begin).begin, ac_text_origin(text, end - 1).end};
}

/* ---- steps that change characters ------------------------------------------------------------ */

/* What a step does to the bytes [at, *end) of a text, which it chooses; it appends what they
 * become. */
typedef ac_status change(const ac_step *step, ac_text *to, const ac_text *from, size_t at,
                         size_t stop, size_t *end);

static ac_status keep(ac_text *to, const ac_text *from, size_t at, size_t end) {
  return ac_text_append_from(to, from, at, end);
}

/* A cluster: a character, and those after it that a normal form may join to it. */
static ac_status change_form(const ac_step *step, ac_text *to, const ac_text *from, size_t at,
                             size_t stop, size_t *end) {
  size_t length, characters = 1;
  const uint32_t first = ac_utf8_get(from->bytes + at, &length);
  for (*end = at + length; *end < stop; *end += length, characters++)
    if (ac_begins_cluster(ac_utf8_get(from->bytes + *end, &length), step->form)) break;
  if (characters == 1 && ac_is_normal(first, step->form)) return keep(to, from, at, *end);
  char *form;
  AC_TRY(ac_normalise(&form, &length, from->bytes + at, *end - at, step->form));
  const bool same = length == *end - at && !memcmp(form, from->bytes + at, length);
  const ac_status status =
      same ? keep(to, from, at, *end) : ac_text_append(to, form, length, origin_of(from, at, *end));
  free(form);
  return status;
}

static ac_status put_character(ac_text *to, const ac_text *from, size_t at, size_t end,
                               uint32_t character) {
  char bytes[4];
  return ac_text_append(to, bytes, ac_utf8_put(bytes, character), origin_of(from, at, end));
}

static ac_status change_case(const ac_step *step, ac_text *to, const ac_text *from, size_t at,
                             size_t stop, size_t *end) {
  size_t length;
  const uint32_t upper = ac_utf8_get(from->bytes + at, &length), lower = ac_lower(upper);
  (void)step, (void)stop;
  *end = at + length;
  if (upper == 0x130) /* the only one that becomes two: i and a dot above */
    return ac_text_append(to, "i\xcc\x87", 3, origin_of(from, at, *end));
  return lower == upper ? keep(to, from, at, *end) : put_character(to, from, at, *end, lower);
}

static ac_status drop_marks(const ac_step *step, ac_text *to, const ac_text *from, size_t at,
                            size_t stop, size_t *end) {
  size_t length;
  const uint32_t c = ac_utf8_get(from->bytes + at, &length);
  (void)stop;
  *end = at + length;
  return ac_is_mark(c, step->spacing_too) ? AC_OK : keep(to, from, at, *end);
}

static ac_status clean(const ac_step *step, ac_text *to, const ac_text *from, size_t at,
                       size_t stop, size_t *end) {
  size_t length;
  const uint32_t c = ac_utf8_get(from->bytes + at, &length);
  (void)step, (void)stop;
  *end = at + length;
  if (!c || c == 0xfffd || ac_is_control(c)) return AC_OK;
  return ac_is_space(c) ? put_character(to, from, at, *end, ' ') : keep(to, from, at, *end);
}

static ac_status set_apart(const ac_step *step, ac_text *to, const ac_text *from, size_t at,
                           size_t stop, size_t *end) {
  size_t length;
  const uint32_t c = ac_utf8_get(from->bytes + at, &length);
  (void)step, (void)stop;
  *end = at + length;
  if (!ac_is_ideograph(c)) return keep(to, from, at, *end);
  AC_TRY(put_character(to, from, at, *end, ' '));
  AC_TRY(keep(to, from, at, *end));
  return put_character(to, from, at, *end, ' ');
}

/* A short grapheme that the table has as a whole, else its characters one by one. */
static ac_status change_by_table(const ac_step *step, ac_text *to, const ac_text *from, size_t at,
                                 size_t stop, size_t *end) {
  enum { SHORT = 6 };
  const char *bytes = from->bytes + at;
  const size_t grapheme = ac_grapheme_length(bytes, stop - at);
  *end = at + grapheme;
  const char *whole = grapheme < SHORT ? ac_charsmap_find(&step->charsmap, bytes, grapheme) : NULL;
  if (whole) return ac_text_append(to, whole, strlen(whole), origin_of(from, at, *end));
  for (size_t i = at, next; i < *end; i = next) {
    next = i + ac_utf8_length(from->bytes[i]);
    const char *part = ac_charsmap_find(&step->charsmap, from->bytes + i, next - i);
    if (part) AC_TRY(ac_text_append(to, part, strlen(part), origin_of(from, i, next)));
    else AC_TRY(keep(to, from, i, next));
  }
  return AC_OK;
}

/* ---- steps that change pieces ---------------------------------------------------------------- */

static ac_status strip(const ac_step *step, ac_text *to, const ac_text *from, ac_piece piece) {
  size_t begin = piece.begin, end = piece.end, length;
  while (step->left && begin < end && ac_is_space(ac_utf8_get(from->bytes + begin, &length)))
    begin += length;
  while (step->right && end > begin) {
    size_t last = end - 1;
    while (last > begin && ((unsigned char)from->bytes[last] & 0xc0) == 0x80) last--;
    if (!ac_is_space(ac_utf8_get(from->bytes + last, &length))) break;
    end = last;
  }
  return keep(to, from, begin, end);
}

static ac_status replace(const ac_step *step, ac_text *to, const ac_text *from, ac_piece piece) {
  const char *bytes = from->bytes + piece.begin;
  const size_t count = piece.end - piece.begin, length = strlen(step->text);
  for (size_t at = 0, begin, end; at < count; at = end) {
    AC_TRY(ac_pattern_find(step->pattern, bytes, count, at, &begin, &end));
    AC_TRY(keep(to, from, piece.begin + at, piece.begin + begin));
    if (begin == end) break;
    AC_TRY(ac_text_append(to, step->text, length,
                          origin_of(from, piece.begin + begin, piece.begin + end)));
  }
  return AC_OK;
}

static bool is_prepended(const ac_step *step, const ac_text *from, ac_piece piece) {
  const char *bytes = from->bytes + piece.begin;
  const size_t count = piece.end - piece.begin, length = strlen(step->text);
  if (step->first && ac_text_origin(from, piece.begin).begin != 0) return false;
  if (!step->unless_there) return true;
  return count < length || memcmp(bytes, step->text, length) != 0;
}

static ac_status prepend(const ac_step *step, ac_text *to, const ac_text *from, ac_piece piece) {
  const uint32_t begin = ac_text_origin(from, piece.begin).begin;
  if (is_prepended(step, from, piece))
    AC_TRY(ac_text_append(to, step->text, strlen(step->text), (ac_origin){begin, begin}));
  return keep(to, from, piece.begin, piece.end);
}

static ac_status change_all(change *one, const ac_step *step, ac_text *to, const ac_text *from,
                            ac_piece piece) {
  for (size_t at = piece.begin, end; at < piece.end; at = end)
    AC_TRY(one(step, to, from, at, piece.end, &end));
  return AC_OK;
}

static ac_status rewrite(const ac_step *step, ac_text *to, const ac_text *from, ac_piece piece) {
  switch (step->kind) {
  case AC_STEP_NORMAL_FORM:
    return change_all(change_form, step, to, from, piece);
  case AC_STEP_LOWERCASE:
    return change_all(change_case, step, to, from, piece);
  case AC_STEP_NO_MARKS:
    return change_all(drop_marks, step, to, from, piece);
  case AC_STEP_CLEAN:
    return change_all(clean, step, to, from, piece);
  case AC_STEP_APART:
    return change_all(set_apart, step, to, from, piece);
  case AC_STEP_CHARSMAP:
    return change_all(change_by_table, step, to, from, piece);
  case AC_STEP_SENTENCES:
    return ac_sentences_run(step->sentences, to, from, piece);
  case AC_STEP_STRIP:
    return strip(step, to, from, piece);
  case AC_STEP_REPLACE:
    return replace(step, to, from, piece);
  default:
    return prepend(step, to, from, piece);
  }
}

static ac_status rewrite_pieces(const ac_step *step, ac_work *work) {
  AC_TRY(ac_text_clear(&work->other));
  work->others.count = 0;
  for (size_t i = 0; i < work->pieces.count; i++) {
    const size_t begin = work->other.count;
    AC_TRY(rewrite(step, &work->other, &work->text, work->pieces.list[i]));
    AC_TRY(ac_pieces_add(&work->others, begin, work->other.count));
  }
  ac_work_swap_texts(work);
  ac_work_swap_pieces(work);
  return AC_OK;
}

/* ---- split ----------------------------------------------------------------------------------- */

/* Parts of a piece in their order, each a match or what is between matches; they become pieces. */
typedef struct splitter {
  const ac_step *step;
  ac_pieces *to;
  size_t begin, end; /* of what is not added yet; equal: nothing is */
  bool matched;      /* the last part was a match */
} splitter;

static ac_status flush(splitter *s, size_t at) {
  AC_TRY(ac_pieces_add(s->to, s->begin, s->end));
  s->begin = s->end = at;
  return AC_OK;
}

static ac_status take_part(splitter *s, size_t begin, size_t end, bool match) {
  bool joins = false;
  if (begin == end) return AC_OK;
  switch (s->step->behaviour) {
  case AC_SPLIT_CONTIGUOUS:
    joins = match == s->matched;
    break;
  case AC_SPLIT_WITH_PREVIOUS:
    joins = match && !s->matched;
    break;
  case AC_SPLIT_WITH_NEXT:
    joins = !match && s->matched;
    break;
  default:
    break;
  }
  if (!joins) AC_TRY(flush(s, begin));
  s->end = end;
  if (match && s->step->behaviour == AC_SPLIT_REMOVED) s->begin = end;
  s->matched = match;
  return AC_OK;
}

static ac_status split_piece(const ac_step *step, ac_pieces *to, const ac_text *text,
                             ac_piece piece) {
  const char *bytes = text->bytes + piece.begin;
  const size_t count = piece.end - piece.begin, base = piece.begin;
  splitter s = {step, to, base, base, false};
  for (size_t at = 0, begin, end; at < count; at = end) {
    AC_TRY(ac_pattern_find(step->pattern, bytes, count, at, &begin, &end));
    AC_TRY(take_part(&s, base + at, base + begin, step->invert));
    AC_TRY(take_part(&s, base + begin, base + end, !step->invert));
    if (begin == end) break;
  }
  return flush(&s, piece.end);
}

static ac_status split_pieces(const ac_step *step, ac_work *work) {
  work->others.count = 0;
  for (size_t i = 0; i < work->pieces.count; i++)
    AC_TRY(split_piece(step, &work->others, &work->text, work->pieces.list[i]));
  ac_work_swap_pieces(work);
  return AC_OK;
}

ac_status ac_steps_run(const ac_steps *steps, ac_work *work) {
  for (size_t i = 0; i < steps->count; i++) {
    const ac_step *step = &steps->list[i];
    AC_TRY(step->kind == AC_STEP_SPLIT ? split_pieces(step, work) : rewrite_pieces(step, work));
  }
  return AC_OK;
}
