/* Tokens to text: the text of each token, and then the steps of the file. Each makes new texts of
 * the texts there are. At the end they are joined, and what is not UTF-8 becomes U+FFFD. */
#include "text/tokenizer.h"

#include "core/quote.h"
#include "text/room.h"

void ac_decoder_free(ac_decoder *decoder) {
  for (size_t i = 0; i < decoder->count; i++) {
    free(decoder->list[i].from);
    free(decoder->list[i].to);
  }
  free(decoder->list);
  *decoder = (ac_decoder){0};
}

/* ---- reading --------------------------------------------------------------------------------- */

static ac_status copy_text(char **to, const char *text) {
  *to = malloc(strlen(text) + 1);
  if (!*to) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a decoder");
  strcpy(*to, text);
  return AC_OK;
}

ac_status ac_decoder_add(ac_decoder *decoder, ac_decode_kind kind, const char *from, const char *to,
                         ac_decode_step **step) {
  AC_TRY(AC_ROOM(decoder->list, decoder->capacity, decoder->count + 1));
  ac_decode_step *made = &decoder->list[decoder->count++];
  *made = (ac_decode_step){.kind = kind};
  if (step) *step = made;
  if (from) AC_TRY(copy_text(&made->from, from));
  return to ? copy_text(&made->to, to) : AC_OK;
}

static ac_status add(ac_decoder *decoder, ac_decode_kind kind, const char *from, const char *to) {
  return ac_decoder_add(decoder, kind, from, to, NULL);
}

static ac_status add_strip(ac_decoder *decoder, const json_t *json) {
  const char *text = ac_json_text(json, "content");
  AC_TRY(add(decoder, AC_DECODE_STRIP, text ? text : " ", NULL));
  ac_decode_step *step = &decoder->list[decoder->count - 1];
  step->start = (int)json_integer_value(json_object_get(json, "start"));
  step->stop = (int)json_integer_value(json_object_get(json, "stop"));
  return AC_OK;
}

static ac_status add_metaspace(ac_decoder *decoder, const json_t *json) {
  const char *mark = ac_json_text(json, "replacement"),
             *scheme = ac_json_text(json, "prepend_scheme");
  if (mark && !*mark) return ac_fail(AC_ERROR_FORMAT, "decoder: Metaspace has no replacement");
  AC_TRY(add(decoder, AC_DECODE_METASPACE, mark ? mark : "\xe2\x96\x81", " "));
  decoder->list[decoder->count - 1].flag =
      scheme ? strcmp(scheme, "never") != 0 : ac_json_bool(json, "add_prefix_space", true);
  return AC_OK;
}

static ac_status add_wordpiece(ac_decoder *decoder, const json_t *json) {
  const char *prefix = ac_json_text(json, "prefix");
  AC_TRY(add(decoder, AC_DECODE_WORDPIECE, prefix ? prefix : "##", NULL));
  decoder->list[decoder->count - 1].flag = ac_json_bool(json, "cleanup", true);
  return AC_OK;
}

static ac_status add_replace(ac_decoder *decoder, const json_t *json) {
  const char *from = ac_json_text(json_object_get(json, "pattern"), "String"),
             *to = ac_json_text(json, "content");
  if (!from || !*from || !to)
    return ac_fail(AC_ERROR_UNSUPPORTED, "decoder: Replace has a pattern that is not a text");
  return add(decoder, AC_DECODE_REPLACE, from, to);
}

static ac_status add_suffix(ac_decoder *decoder, const json_t *json) {
  const char *suffix = ac_json_text(json, "suffix");
  if (suffix && !*suffix) return ac_fail(AC_ERROR_FORMAT, "decoder: BPEDecoder has no suffix");
  return add(decoder, AC_DECODE_SUFFIX, suffix ? suffix : "</w>", NULL);
}

static ac_status read_decoder(ac_decoder *decoder, const json_t *json) {
  const char *type = ac_json_text(json, "type");
  if (!type) return ac_fail(AC_ERROR_FORMAT, "decoder: it has no type");
  if (!strcmp(type, "ByteLevel") || !strcmp(type, "Fuse"))
    return add(decoder, AC_DECODE_FUSE, NULL, NULL);
  if (!strcmp(type, "ByteFallback")) return add(decoder, AC_DECODE_BYTES, NULL, NULL);
  if (!strcmp(type, "Replace")) return add_replace(decoder, json);
  if (!strcmp(type, "Strip")) return add_strip(decoder, json);
  if (!strcmp(type, "Metaspace")) return add_metaspace(decoder, json);
  if (!strcmp(type, "WordPiece")) return add_wordpiece(decoder, json);
  if (!strcmp(type, "BPEDecoder")) return add_suffix(decoder, json);
  if (strcmp(type, "Sequence"))
    return ac_fail(AC_ERROR_UNSUPPORTED, "decoder: this library has no step %s",
                   ac_quote(type).text);
  const json_t *list = json_object_get(json, "decoders"), *one;
  size_t i;
  json_array_foreach(list, i, one) AC_TRY(read_decoder(decoder, one));
  return AC_OK;
}

ac_status ac_decoder_read(ac_decoder *decoder, const json_t *json) {
  decoder->spaces = !json || json_is_null(json);
  return decoder->spaces ? AC_OK : read_decoder(decoder, json);
}

/* ---- texts ----------------------------------------------------------------------------------- */

typedef struct texts {
  char *bytes;
  size_t byte_count, byte_capacity;
  size_t *ends; /* [count]: of each text */
  size_t count, capacity;
} texts;

static ac_status put(texts *to, const char *bytes, size_t count) {
  AC_TRY(AC_ROOM(to->bytes, to->byte_capacity, to->byte_count + count + 1));
  memcpy(to->bytes + to->byte_count, bytes, count);
  to->byte_count += count;
  return AC_OK;
}

static ac_status end_text(texts *to) {
  AC_TRY(AC_ROOM(to->ends, to->capacity, to->count + 1));
  to->ends[to->count++] = to->byte_count;
  return AC_OK;
}

static void clear(texts *to) {
  to->byte_count = to->count = 0;
}

static const char *text_at(const texts *from, size_t i, size_t *count) {
  const size_t begin = i ? from->ends[i - 1] : 0;
  *count = from->ends[i] - begin;
  return from->bytes + begin;
}

static bool begins_with(const char *text, size_t count, const char *prefix, size_t length) {
  return count >= length && !memcmp(text, prefix, length);
}

/* Puts the text with every `from`, which is not empty, in it replaced. */
static ac_status put_replaced(texts *out, const char *text, size_t count, const char *from,
                              const char *to) {
  const size_t length = strlen(from), by = strlen(to);
  size_t done = 0;
  for (size_t at = 0; at + length <= count;) {
    if (memcmp(text + at, from, length)) {
      at++;
      continue;
    }
    AC_TRY(put(out, text + done, at - done));
    AC_TRY(put(out, to, by));
    done = at += length;
  }
  return put(out, text + done, count - done);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The byte that a text <0x0A> is for, or -1. */
static int byte_of(const char *text, size_t count) {
  static const char digits[] = "0123456789ABCDEF";
  if (count != 6 || memcmp(text, "<0x", 3) || text[5] != '>') return -1;
  const char *high = memchr(digits, text[3], 16), *low = memchr(digits, text[4], 16);
  return high && low ? (int)((high - digits) << 4 | (low - digits)) : -1;
}

/* Bytes in a row that are UTF-8 become one text; others become U+FFFD, each. With the flag, those
 * that are not UTF-8 stay, as all is made UTF-8 at the end. */
static ac_status join_bytes(const ac_decode_step *step, texts *out, const texts *in) {
  for (size_t i = 0, count; i < in->count;) {
    const size_t first = out->byte_count;
    const char *text = text_at(in, i, &count);
    if (byte_of(text, count) < 0) {
      AC_TRY(put(out, text, count));
      AC_TRY(end_text(out));
      i++;
      continue;
    }
    size_t bytes = 0, wrong;
    for (int byte; i < in->count && (byte = byte_of(text, count)) >= 0; bytes++) {
      const char single = (char)byte;
      AC_TRY(put(out, &single, 1));
      if (++i < in->count) text = text_at(in, i, &count);
    }
    if (!step->flag && ac_utf8_valid(out->bytes + first, bytes, &wrong) < bytes) {
      out->byte_count = first;
      for (size_t b = 0; b < bytes; b++) AC_TRY(put(out, AC_REPLACEMENT, 3));
    }
    AC_TRY(end_text(out));
  }
  return AC_OK;
}

static ac_status strip(const ac_decode_step *step, texts *out, const char *text, size_t count) {
  const size_t length = strlen(step->from);
  for (int i = 0; i < step->start && length && begins_with(text, count, step->from, length); i++) {
    text += length;
    count -= length;
  }
  for (int i = 0; i < step->stop && length && count >= length &&
                  !memcmp(text + count - length, step->from, length);
       i++)
    count -= length;
  return put(out, text, count);
}

/* As the `tokenizers` library tidies up English. */
static ac_status tidy(texts *out, const char *text, size_t count) {
  static const char *const pairs[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                         {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                         {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                         {" 've", "'ve"}, {" 're", "'re"}};
  texts rooms[2] = {{0}};
  ac_status status = put(&rooms[0], text, count);
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs && status == AC_OK; i++) {
    texts *from = &rooms[i % 2], *to = &rooms[(i + 1) % 2];
    clear(to);
    status = put_replaced(to, from->bytes, from->byte_count, pairs[i][0], pairs[i][1]);
  }
  const texts *last = &rooms[(sizeof pairs / sizeof *pairs) % 2];
  if (status == AC_OK) status = put(out, last->bytes, last->byte_count);
  free(rooms[0].bytes);
  free(rooms[1].bytes);
  return status;
}

static ac_status join_wordpiece(const ac_decode_step *step, texts *out, size_t i, const char *text,
                                size_t count) {
  const size_t length = strlen(step->from);
  texts whole = {0};
  const bool continues = i && begins_with(text, count, step->from, length);
  ac_status status = i && !continues ? put(&whole, " ", 1) : AC_OK;
  const size_t skipped = continues ? length : 0;
  if (status == AC_OK) status = put(&whole, text + skipped, count - skipped);
  if (status == AC_OK)
    status = step->flag ? tidy(out, whole.bytes, whole.byte_count)
                        : put(out, whole.bytes, whole.byte_count);
  free(whole.bytes);
  return status;
}

/* The end of a word becomes a space, but for the last token. */
static ac_status join_suffix(const ac_decode_step *step, texts *out, const texts *in, size_t i) {
  size_t count;
  const char *text = text_at(in, i, &count);
  return put_replaced(out, text, count, step->from, i + 1 == in->count ? "" : " ");
}

static ac_status apply_to(const ac_decode_step *step, texts *out, const texts *in, size_t i) {
  size_t count;
  const char *text = text_at(in, i, &count);
  switch (step->kind) {
  case AC_DECODE_REPLACE:
    return put_replaced(out, text, count, step->from, step->to);
  case AC_DECODE_STRIP:
    return strip(step, out, text, count);
  case AC_DECODE_WORDPIECE:
    return join_wordpiece(step, out, i, text, count);
  case AC_DECODE_SUFFIX:
    return join_suffix(step, out, in, i);
  case AC_DECODE_METASPACE:
    return put_replaced(out, text, count, step->from, !i && step->flag ? "" : " ");
  default:
    return put(out, text, count);
  }
}

static ac_status apply(const ac_decode_step *step, texts *out, const texts *in) {
  clear(out);
  if (step->kind == AC_DECODE_BYTES) return join_bytes(step, out, in);
  for (size_t i = 0; i < in->count; i++) {
    AC_TRY(apply_to(step, out, in, i));
    if (step->kind != AC_DECODE_FUSE || i + 1 == in->count) AC_TRY(end_text(out));
  }
  return AC_OK;
}

/* ---- decode ---------------------------------------------------------------------------------- */

static ac_status put_tokens(const ac_tokenizer *t, texts *to, const uint32_t *ids, size_t count,
                            bool skip_special) {
  const ac_vocabulary *v = &t->model.vocabulary;
  for (size_t i = 0; i < count; i++) {
    size_t length;
    const char *bytes = ac_vocabulary_token(v, ids[i], &length);
    if (!bytes)
      return ac_fail(AC_ERROR_ARGUMENT, "tokenizer: no token has the id %lu",
                     (unsigned long)ids[i]);
    if (skip_special && ac_vocabulary_is_special(v, ids[i])) continue;
    if (t->decoder.spaces && to->count) AC_TRY(put(to, " ", 1));
    AC_TRY(put(to, bytes, length));
    AC_TRY(end_text(to));
  }
  return AC_OK;
}

/* The texts, joined, as UTF-8. */
static ac_status finish(texts *out, const texts *in) {
  clear(out);
  for (size_t at = 0, wrong, valid; at < in->byte_count; at += valid + wrong) {
    valid = ac_utf8_valid(in->bytes + at, in->byte_count - at, &wrong);
    AC_TRY(put(out, in->bytes + at, valid));
    if (wrong) AC_TRY(put(out, AC_REPLACEMENT, 3));
  }
  AC_TRY(AC_ROOM(out->bytes, out->byte_capacity, out->byte_count + 1));
  out->bytes[out->byte_count] = 0;
  return AC_OK;
}

static void free_texts(texts *t) {
  free(t->bytes);
  free(t->ends);
}

ac_status ac_tokenizer_decode(char **text, size_t *bytes, const ac_tokenizer *tokenizer,
                              const uint32_t *ids, size_t count, bool skip_special) {
  AC_CREATES(text);
  AC_REQUIRE(tokenizer);
  if (count) AC_REQUIRE(ids);
  texts rooms[2] = {{0}};
  int now = 0;
  ac_status status = put_tokens(tokenizer, &rooms[0], ids, count, skip_special);
  for (size_t i = 0; i < tokenizer->decoder.count && status == AC_OK; i++, now = !now)
    status = apply(&tokenizer->decoder.list[i], &rooms[!now], &rooms[now]);
  if (status == AC_OK) status = finish(&rooms[!now], &rooms[now]);
  if (status == AC_OK) {
    *text = rooms[!now].bytes;
    rooms[!now].bytes = NULL;
    if (bytes) *bytes = rooms[!now].byte_count;
  }
  free_texts(&rooms[0]);
  free_texts(&rooms[1]);
  return status;
}
