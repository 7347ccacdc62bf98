/* The messages of a tokenizer.model, in protocol buffers' encoding: fields, each a tag (number << 3
 * | kind) and a value. All numbers and lengths are checked against what is left, nothing is copied,
 * and messages are nested no deeper than the format has it.
 *
 *   model       1: token, again and again   2: training   3: normalizer   5: denormalizer
 *   token       1: text   2: score, a float   3: kind
 *   training    3: model (1 Unigram, 2 BPE, 3 words, 4 characters)   24: spaces end words
 *               35: bytes for unknown characters   46, 47: names of begin and end
 *   normalizer  2: table of characters   3: a space before a text   4: removes spaces
 *               5: spaces become marks */
#include "text/sentencepiece.h"
#include "core/little_endian.h"

#include "text/room.h"

typedef struct reader {
  const unsigned char *at, *end;
} reader;

enum { VARINT, WIDE, BYTES, NARROW = 5 };

typedef struct field {
  uint64_t number;
  uint64_t value; /* VARINT, NARROW */
  reader bytes;   /* BYTES */
  int kind;
} field;

enum { UNIGRAM = 1, BPE };

static ac_status damaged(void) {
  return ac_fail(AC_ERROR_FORMAT, "this is not a model of SentencePiece, or a damaged one");
}

static ac_status take_varint(reader *r, uint64_t *value) {
  *value = 0;
  for (int shift = 0; shift < 64 && r->at < r->end; shift += 7) {
    const unsigned char byte = *r->at++;
    *value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return AC_OK;
  }
  return damaged();
}

static ac_status take_fixed(reader *r, size_t bytes, uint64_t *value) {
  if ((size_t)(r->end - r->at) < bytes) return damaged();
  *value = ac_little_endian(r->at, bytes);
  r->at += bytes;
  return AC_OK;
}

static ac_status take_field(reader *r, field *f) {
  uint64_t tag, length;
  *f = (field){0};
  AC_TRY(take_varint(r, &tag));
  f->number = tag >> 3;
  f->kind = (int)(tag & 7);
  switch (f->kind) {
  case VARINT:
    return take_varint(r, &f->value);
  case WIDE:
    return take_fixed(r, 8, &f->value);
  case NARROW:
    return take_fixed(r, 4, &f->value);
  case BYTES:
    AC_TRY(take_varint(r, &length));
    if (length > (uint64_t)(r->end - r->at)) return damaged();
    f->bytes = (reader){r->at, r->at + length};
    r->at += length;
    return AC_OK;
  default:
    return damaged();
  }
}

static bool is(const field *f, uint64_t number, int kind) {
  return f->number == number && f->kind == kind;
}

static size_t length_of(const field *f) {
  return (size_t)(f->bytes.end - f->bytes.at);
}

static ac_status read_token(ac_sentencepiece *to, reader r) {
  ac_sentencepiece_token token = {.text = "", .kind = AC_TOKEN_NORMAL};
  field f;
  while (r.at < r.end) {
    AC_TRY(take_field(&r, &f));
    if (is(&f, 1, BYTES)) {
      token.text = (const char *)f.bytes.at;
      token.bytes = length_of(&f);
    } else if (is(&f, 2, NARROW)) {
      const uint32_t bits = (uint32_t)f.value;
      memcpy(&token.score, &bits, sizeof token.score);
    } else if (is(&f, 3, VARINT)) {
      if (f.value < AC_TOKEN_NORMAL || f.value > AC_TOKEN_BYTE)
        return ac_fail(AC_ERROR_UNSUPPORTED, "token %zu is of an unknown kind", to->count);
      token.kind = (ac_token_kind)f.value;
    }
  }
  AC_TRY(AC_ROOM(to->tokens, to->capacity, to->count + 1));
  to->tokens[to->count++] = token;
  return AC_OK;
}

static ac_status read_training(ac_sentencepiece *to, reader r, uint64_t *model) {
  field f;
  while (r.at < r.end) {
    AC_TRY(take_field(&r, &f));
    if (is(&f, 3, VARINT)) *model = f.value;
    if (is(&f, 24, VARINT)) to->after = f.value != 0;
    if (is(&f, 35, VARINT)) to->byte_fallback = f.value != 0;
    if (is(&f, 46, BYTES)) {
      to->begin = (const char *)f.bytes.at;
      to->begin_bytes = length_of(&f);
    }
    if (is(&f, 47, BYTES)) {
      to->end = (const char *)f.bytes.at;
      to->end_bytes = length_of(&f);
    }
  }
  return AC_OK;
}

static ac_status read_normalizer(ac_sentencepiece *to, reader r) {
  field f;
  while (r.at < r.end) {
    AC_TRY(take_field(&r, &f));
    if (is(&f, 2, BYTES)) {
      to->charsmap = length_of(&f) ? f.bytes.at : NULL;
      to->charsmap_bytes = length_of(&f);
    }
    if (is(&f, 3, VARINT)) to->prefix = f.value != 0;
    if (is(&f, 4, VARINT)) to->squeeze = f.value != 0;
    if (is(&f, 5, VARINT)) to->escape = f.value != 0;
  }
  return AC_OK;
}

/* What a text becomes after decoding: this library has no such step. */
static ac_status check_denormalizer(reader r) {
  field f;
  while (r.at < r.end) {
    AC_TRY(take_field(&r, &f));
    if (is(&f, 2, BYTES) && length_of(&f))
      return ac_fail(AC_ERROR_UNSUPPORTED, "the model has a denormalizer");
  }
  return AC_OK;
}

static ac_status read_model(ac_sentencepiece *to, reader r, uint64_t *model) {
  field f;
  while (r.at < r.end) {
    AC_TRY(take_field(&r, &f));
    if (f.kind != BYTES) continue;
    if (f.number == 1) AC_TRY(read_token(to, f.bytes));
    if (f.number == 2) AC_TRY(read_training(to, f.bytes, model));
    if (f.number == 3) AC_TRY(read_normalizer(to, f.bytes));
    if (f.number == 5) AC_TRY(check_denormalizer(f.bytes));
  }
  return AC_OK;
}

ac_status ac_sentencepiece_read(ac_sentencepiece *to, const void *data, size_t bytes) {
  uint64_t model = UNIGRAM;
  *to = (ac_sentencepiece){.prefix = true, .squeeze = true, .escape = true};
  const unsigned char *at = data;
  AC_TRY(read_model(to, (reader){at, at + bytes}, &model));
  if (model != UNIGRAM && model != BPE)
    return ac_fail(AC_ERROR_UNSUPPORTED, "this library has no SentencePiece model of %s",
                   model == 3   ? "words"
                   : model == 4 ? "characters"
                                : "an unknown kind");
  to->bpe = model == BPE;
  return AC_OK;
}
