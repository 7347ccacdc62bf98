#include "program/llm_choices.h"

#include "common/message.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* ---- reading --------------------------------------------------------------------------------- */

static size_t read_piece(void *buffer, size_t size, void *file) {
  const int read = gzread(file, buffer, (unsigned)size);
  return read < 0 ? (size_t)-1 : (size_t)read;
}

bool llm_choices_are_in(const char *path) {
  const gzFile file = gzopen(path, "rb");
  json_t *first = file ? json_load_callback(read_piece, file, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
  const bool are = json_object_get(first, "choices");
  json_decref(first);
  if (file) gzclose(file);
  return are;
}

/* The next line of a file, plain or gzip, in a buffer that grows. */
typedef struct line_reader {
  gzFile file;
  const char *path;
  int64_t line; /* its number, from 1 on */
  char *text;
  size_t room;
} line_reader;

static int make_room(line_reader *r) {
  enum { FIRST = 4096, MOST = 1 << 26 };
  const size_t room = r->room ? 2 * r->room : FIRST;
  if (room > MOST)
    return fail("%s: line %" PRId64 " has more than %zu bytes", r->path, r->line, r->room);
  char *text = realloc(r->text, room);
  if (!text) return fail("out of memory");
  r->text = text;
  r->room = room;
  return STATUS_CONTINUE;
}

/* STATUS_DONE after the last line. */
static int read_line(line_reader *r) {
  size_t length = 0;
  int byte;
  r->line++;
  do {
    if (length + 1 >= r->room) {
      const int status = make_room(r);
      if (status != STATUS_CONTINUE) return status;
    }
    byte = gzgetc(r->file);
    if (!byte) return fail("%s: line %" PRId64 " has a zero byte", r->path, r->line);
    if (byte > 0) r->text[length++] = (char)byte;
  } while (byte > 0 && byte != '\n');
  r->text[length] = 0;
  int error;
  const char *why = gzerror(r->file, &error);
  if (error != Z_OK && error != Z_STREAM_END)
    return fail("cannot read %s: %s", r->path, error == Z_ERRNO ? strerror(errno) : why);
  return length ? STATUS_CONTINUE : STATUS_DONE;
}

static llm_choice *add(llm_choices *c) {
  if (c->count == c->capacity) {
    const int64_t capacity = c->capacity ? 2 * c->capacity : 256;
    llm_choice *grown = realloc(c->list, (size_t)capacity * sizeof *grown);
    if (!grown) return NULL;
    c->list = grown;
    c->capacity = capacity;
  }
  c->list[c->count] = (llm_choice){0};
  return &c->list[c->count++];
}

/* The tokens of the whole text, so that the answer is what training would see. Tokens that end
 * after the question are the answer's. */
static int encode(llm_choices *c, const char *question, const char *answer, ac_tokenizer *tokenizer,
                  int32_t begin, bool right) {
  const size_t before = strlen(question), size = before + strlen(answer) + 2;
  char *text = malloc(size);
  llm_choice *choice = add(c);
  ac_encoding e = {0};
  if (!text || !choice) {
    free(text);
    return fail("out of memory");
  }
  snprintf(text, size, "%s %s", question, answer);
  const ac_encode_desc plain = {.plain = true};
  const ac_status status = ac_tokenizer_encode(tokenizer, text, size - 1, &plain, &e);
  free(text);
  if (status != AC_OK) return fail_library();
  *choice = (llm_choice){.tokens = malloc((e.count + 1) * sizeof(int32_t)),
                         .bytes = (int64_t)strlen(answer),
                         .question = c->questions,
                         .right = right};
  if (choice->tokens && begin >= 0) choice->tokens[choice->count++] = begin;
  for (size_t i = 0; choice->tokens && i < e.count; i++) {
    if (e.end[i] <= before) choice->first = choice->count + 1;
    choice->tokens[choice->count++] = (int32_t)e.ids[i];
  }
  ac_encoding_free(&e);
  if (!choice->first) choice->first = 1;
  if (choice->count - 1 > c->context) c->context = choice->count - 1;
  return choice->tokens ? STATUS_CONTINUE : fail("out of memory");
}

/* The place of the right answer; -1: there is none. */
static int64_t find_right(const json_t *answer, const json_t *texts, const json_t *labels) {
  const size_t count = json_array_size(texts);
  if (json_is_integer(answer)) {
    const json_int_t place = json_integer_value(answer);
    return place >= 0 && place < (json_int_t)count ? (int64_t)place : -1;
  }
  const char *text = json_string_value(answer);
  for (size_t i = 0; text && i < count; i++) {
    const char *label = json_string_value(json_array_get(labels, i));
    if (label && !strcmp(label, text)) return (int64_t)i;
  }
  for (size_t i = 0; text && i < count; i++)
    if (!strcmp(json_string_value(json_array_get(texts, i)), text)) return (int64_t)i;
  const int64_t letter = text && text[0] && !text[1] ? text[0] - 'A' : -1;
  return letter >= 0 && letter < (int64_t)count ? letter : -1;
}

static bool are_texts(const json_t *list) {
  const json_t *one;
  size_t i;
  json_array_foreach(list, i, one)
    if (!json_is_string(one) || !json_string_length(one)) return false;
  return json_array_size(list) >= 2;
}

static int add_question(llm_choices *c, const json_t *object, ac_tokenizer *tokenizer,
                        int32_t begin, const char *where) {
  const json_t *choices = json_object_get(object, "choices"), *labels = NULL,
               *answer = json_object_get(object, "answer");
  const char *question = json_string_value(json_object_get(object, "question"));
  if (json_is_object(choices)) {
    labels = json_object_get(choices, "label");
    choices = json_object_get(choices, "text");
  }
  if (!answer) answer = json_object_get(object, "answerKey");
  if (!question || !*question) return fail("%s: question must be a text", where);
  if (!are_texts(choices)) return fail("%s: choices must be two or more texts", where);
  const int64_t right = find_right(answer, choices, labels);
  if (right < 0)
    return fail("%s: answer must be the place of a choice from 0 on, its letter, or its text",
                where);
  int status = STATUS_CONTINUE;
  for (size_t i = 0; i < json_array_size(choices) && status == STATUS_CONTINUE; i++)
    status = encode(c, question, json_string_value(json_array_get(choices, i)), tokenizer, begin,
                    (int64_t)i == right);
  c->questions++;
  return status;
}

static int add_line(llm_choices *choices, const char *line, ac_tokenizer *tokenizer, int32_t begin,
                    const char *where) {
  json_error_t error;
  if (!line[strspn(line, " \t\r\n")]) return STATUS_CONTINUE;
  json_t *object = json_loads(line, JSON_REJECT_DUPLICATES, &error);
  const int status = json_is_object(object) ? add_question(choices, object, tokenizer, begin, where)
                                            : fail("%s: this is not an object of JSON", where);
  json_decref(object);
  return status;
}

int llm_choices_open(llm_choices *choices, const char *path, ac_tokenizer *tokenizer,
                     int32_t begin) {
  char where[4200];
  line_reader r = {.file = gzopen(path, "rb"), .path = path};
  int status = r.file ? STATUS_CONTINUE : fail("cannot read %s: %s", path, strerror(errno));
  while (status == STATUS_CONTINUE) {
    status = read_line(&r);
    snprintf(where, sizeof where, "%s: line %" PRId64, path, r.line);
    if (status == STATUS_CONTINUE) status = add_line(choices, r.text, tokenizer, begin, where);
  }
  free(r.text);
  if (r.file) gzclose(r.file);
  return status == STATUS_DONE ? STATUS_CONTINUE : status;
}

void llm_choices_free(llm_choices *choices) {
  for (int64_t i = 0; i < choices->count; i++) free(choices->list[i].tokens);
  free(choices->list);
  *choices = (llm_choices){0};
}

/* ---- samples --------------------------------------------------------------------------------- */

enum { TOKENS, TARGETS, WEIGHTS, SEGMENTS, POSITIONS };

static ac_status read_choice(void *user, const ac_sample_key *key, void *const *fields) {
  const llm_choices *c = user;
  const llm_choice *choice = &c->list[key->index];
  for (int64_t i = 0; i < c->context; i++) {
    const bool there = i + 1 < choice->count;
    ((int32_t *)fields[TOKENS])[i] = there ? choice->tokens[i] : 0;
    ((int32_t *)fields[TARGETS])[i] = there ? choice->tokens[i + 1] : 0;
    ((float *)fields[WEIGHTS])[i] = there && i + 1 >= choice->first;
    ((int32_t *)fields[SEGMENTS])[i] = there ? 0 : -1;
    ((int32_t *)fields[POSITIONS])[i] = there ? (int32_t)i : 0;
  }
  return AC_OK;
}

ac_status llm_choices_dataset(ac_dataset **dataset, llm_choices *choices) {
  const int64_t T = choices->context;
  const ac_callback_dataset_desc desc = {.count = choices->count,
                                         .field_count = 5,
                                         .fields = {[TOKENS] = {"tokens", AC_I32, T},
                                                    [TARGETS] = {"targets", AC_I32, T},
                                                    [WEIGHTS] = {"weights", AC_F32, T},
                                                    [SEGMENTS] = {"segments", AC_I32, T},
                                                    [POSITIONS] = {"positions", AC_I32, T}},
                                         .read = read_choice,
                                         .concurrent = true,
                                         .user = choices};
  return ac_dataset_from_callback(dataset, &desc);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* Of one question: the likeliest answer so far, by log-likelihood and by that of each byte. */
typedef struct likeliest {
  double plain, by_bytes;
  bool plain_right, by_bytes_right;
} likeliest;

static void look_at(likeliest *best, const llm_choice *choice, double likelihood) {
  const double by_bytes = likelihood / (double)choice->bytes;
  if (likelihood > best->plain) best->plain = likelihood, best->plain_right = choice->right;
  if (by_bytes > best->by_bytes) best->by_bytes = by_bytes, best->by_bytes_right = choice->right;
}

ac_status llm_choices_evaluate(const llm_choices *choices, ac_session *session, ac_dataset *dataset,
                               ac_stop_callback stop, void *user, ac_evaluation *result,
                               double *plain) {
  static const likeliest none = {-INFINITY, -INFINITY, false, false};
  likeliest best = none;
  double sum = 0, weight = 0, right = 0, plain_right = 0;
  for (int64_t i = 0; i < choices->count; i++) {
    const llm_choice *choice = &choices->list[i];
    ac_evaluation one;
    ac_dataset *sample;
    bool stopped;
    ac_status status = ac_dataset_slice(&sample, dataset, i, i + 1);
    if (status != AC_OK) return status;
    status = ac_session_evaluate_until(session, sample, 0, stop, user, &one, &stopped);
    ac_dataset_free(sample);
    if (status != AC_OK) return status;
    look_at(&best, choice, -one.loss * one.weight);
    if (choice->right) sum += one.loss * one.weight, weight += one.weight;
    if (i + 1 < choices->count && choices->list[i + 1].question == choice->question) continue;
    right += best.by_bytes_right;
    plain_right += best.plain_right;
    best = none;
  }
  *plain = plain_right / choices->questions;
  *result = (ac_evaluation){
      .loss = sum / weight, .weight = weight, .accuracy = right / choices->questions};
  return AC_OK;
}
