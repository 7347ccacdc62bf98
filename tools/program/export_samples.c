/* The tokens on which `accrue export` compares logits if no text is given: answers of the documents
 * with which the run was validated. */
#include "program/export_files.h"

#include "common/json_file.h"
#include "common/message.h"

#include <accrue/chat.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a run's record says of its data. */
typedef struct recorded {
  json_t *root;
  const json_t *flags;
  const char *data;
} recorded;

static const char *text_of(const recorded *r, const char *key) {
  return json_string_value(json_object_get(r->flags, key));
}

static bool is_set(const recorded *r, const char *key) {
  return json_is_true(json_object_get(r->flags, key));
}

/* False: there is no record, or its data are gone. */
static bool read_record(recorded *r, const exporter *e) {
  char path[MODEL_PATH_BYTES + 16];
  json_error_t error;
  snprintf(path, sizeof path, "%s/run.json", *e->found.adapter ? e->found.adapter : e->found.base);
  if (access(path, R_OK) != 0) return false;
  r->root = json_file_load(path, 0, &error);
  r->flags = json_object_get(r->root, "flags");
  const char *model = json_string_value(json_object_get(r->root, "model"));
  r->data = text_of(r, "data");
  if (!r->data || !model || strcmp(model, "llm") != 0) return false;
  if (access(r->data, R_OK) == 0) return true;
  say("the run's data, %s, cannot be read; logits are compared on a text that is built in",
      r->data);
  return false;
}

/* The template that the run used; NULL: none is known. */
static const ac_chat_template *template_of(const recorded *r, const ac_model *model) {
  const ac_chat_template *found = NULL;
  const char *name = text_of(r, "template"), *jinja = ac_model_chat_template(model);
  if (name) return ac_chat_template_find(&found, name) == AC_OK ? found : NULL;
  return jinja && ac_chat_template_recognise(&found, jinja) == AC_OK ? found : NULL;
}

/* As the run had them: what validates is chosen by tokens. */
static bool open_data(ac_chat **chat, const recorded *r, const exporter *e) {
  char begin[256], end[256];
  ac_tokenizer *tokenizer;
  const ac_model_info *info = &e->info;
  const int64_t most = info->positions;
  const json_t *held_out = json_object_get(r->flags, "held-out");
  const json_int_t context = json_integer_value(json_object_get(r->flags, "context"));
  const char *objective = text_of(r, "objective"), *learn = text_of(r, "learn");
  if (ac_model_tokenizer(e->base, &tokenizer) != AC_OK) return false;
  const ac_chat_desc desc = {
      .tokenizer = tokenizer,
      .chat_template = template_of(r, e->base),
      .context = context > 0   ? context
                 : most < 1024 ? most
                               : 1024,
      .learn = learn && !strcmp(learn, "all") ? AC_LEARN_ALL : AC_LEARN_ASSISTANT,
      .long_documents = is_set(r, "drop-long") ? AC_LONG_DROP : AC_LONG_CUT,
      .validation = text_of(r, "fold")         ? 0
                    : json_is_number(held_out) ? json_number_value(held_out)
                                               : 0.05,
      .begin = language_model_token(tokenizer, info->begin, begin, sizeof begin),
      .end = language_model_token(tokenizer, info->end_count ? info->ends[0] : -1, end, sizeof end),
      .preferences = objective && !strcmp(objective, "dpo")};
  return ac_chat_open(chat, r->data, &desc) == AC_OK;
}

/* A window of a document with the beginning of its first answer; false: it is too short. */
static bool take_window(const ac_chat *chat, int64_t index, size_t count, int64_t context,
                        int32_t *tokens) {
  enum { BEFORE = 8 };
  const size_t length = (size_t)context;
  uint32_t *ids = malloc((count + 1) * sizeof *ids);
  bool *learned = malloc(count + 1);
  bool good = ids && learned && count >= length &&
              ac_chat_get_tokens(chat, index, 0, count, ids, learned) == AC_OK;
  size_t first = 0;
  while (good && first < count && !learned[first]) first++;
  first = first > BEFORE ? first - BEFORE : 0;
  if (good && first > count - length) first = count - length;
  for (size_t i = 0; good && i < length; i++) tokens[i] = (int32_t)ids[first + i];
  free(ids);
  free(learned);
  return good;
}

/* Documents that validate; of data without any, all. */
static void take_documents(exporter *e, const ac_chat *chat) {
  ac_chat_info info;
  ac_chat_document document;
  int64_t taken = 0;
  ac_chat_get_info(chat, &info);
  const bool all = !info.validation.documents;
  for (int64_t i = 0; i < info.documents && taken < e->text.samples; i++)
    if (ac_chat_get_document(chat, i, &document) == AC_OK && document.used &&
        (all || document.validates) &&
        take_window(chat, i, document.count, e->text.context,
                    e->text.tokens + taken * e->text.context))
      taken++;
  if (!taken) return;
  e->text.samples = taken;
  e->of_run = true;
  e->validates = !all;
}

int export_take_samples(exporter *e) {
  recorded r = {.root = NULL};
  ac_chat *chat = NULL;
  int status = STATUS_CONTINUE;
  if (read_record(&r, e)) {
    if (!open_data(&chat, &r, e))
      say("%s; logits are compared on a text that is built in", ac_last_error());
    else status = proof_text_make_room(&e->text, e->base);
  }
  if (chat && status == STATUS_CONTINUE) take_documents(e, chat);
  if (chat && !e->of_run) proof_text_free(&e->text);
  if (e->of_run) snprintf(e->compared_on, sizeof e->compared_on, "%s", r.data);
  ac_chat_free(chat);
  json_decref(r.root);
  return status;
}
