/* `accrue tokenize`: shows chat data as a model's tokenizer and template make tokens of them, and
 * which of these are learned. It reads no weights. */
#include "program/commands.h"
#include "program/language_model.h"
#include "program/tokenize.h"
#include "common/flag_rules.h"
#include "common/message.h"
#include "common/options.h"
#include "common/replacement.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int parse(tokenize *t, int argc, char **argv) {
  options o = {.command = "tokenize",
               .summary = "Shows the tokens of chat data, and which of them are learned."};
  const option data[] = {
      FLAG("model", OPTION_TEXT, &t->model),
      FLAG("data", OPTION_TEXT, &t->data),
      FLAG("context", OPTION_INTEGER, &t->context),
      FLAG("template", OPTION_TEXT, &t->template_name),
      FLAG("learn", OPTION_CHOICE, &t->learn),
      FLAG("no-pack", OPTION_SWITCH, &t->no_pack),
      FLAG("drop-long", OPTION_SWITCH, &t->drop_long),
      FLAG("held-out", OPTION_REAL, &t->held_out),
      FLAG("preferences", OPTION_SWITCH, &t->preferences),
  };
  const option output[] = {
      FLAG("show", OPTION_INTEGER, &t->show),
      FLAG("out", OPTION_TEXT, &t->out),
      FLAG("json", OPTION_SWITCH, &t->json),
  };
  OPTIONS_ADD(&o, data);
  OPTIONS_ADD(&o, output);
  int status = options_parse(&o, argc, argv);
  if (status == STATUS_CONTINUE) status = flag_rules_check(&o);
  if (status != STATUS_CONTINUE) return status;
  if (!t->model) return fail_usage("--model is missing: a folder with a tokenizer, or a GGUF file");
  if (!t->data) return fail_usage("--data is missing: a JSONL file, a text, or a folder of either");
  return STATUS_CONTINUE;
}

/* The template that --template names, or that of the model's files. A model without one can still
 * have texts as data. */
static int find_template(tokenize *t) {
  if (t->template_name)
    return ac_chat_template_find(&t->chat_template, t->template_name) == AC_OK
               ? STATUS_CONTINUE
               : fail_setup(AC_ERROR_ARGUMENT);
  if (!t->source.chat_template ||
      ac_chat_template_recognise(&t->chat_template, t->source.chat_template) == AC_OK)
    return STATUS_CONTINUE;
  return fail("%s: %s; name one with --template, or give data that are rendered already (text and "
              "spans)",
              t->model, ac_last_error());
}

/* An adapter has no tokenizer of its own: that of its base counts. */
static int open_tokenizer(tokenize *t) {
  language_model_path found = {.base = ""};
  const char *path = t->model;
  if (language_model_is(path)) {
    const int status = language_model_find("model", path, &found);
    if (status != STATUS_CONTINUE) return status;
    path = found.base;
  }
  if (ac_tokenizer_open(&t->tokenizer, path) != AC_OK) return fail_library();
  if (ac_chat_source_read(&t->source, path) != AC_OK) return fail_library();
  return find_template(t);
}

static int open_data(tokenize *t) {
  const ac_chat_desc desc = {
      .tokenizer = t->tokenizer,
      .chat_template = t->chat_template,
      .context = t->context,
      .learn = (ac_chat_learn)t->learn,
      .no_packing = t->no_pack,
      .long_documents = t->drop_long ? AC_LONG_DROP : AC_LONG_CUT,
      .validation = t->held_out,
      .begin = t->source.begin,
      .end = t->source.end,
      .preferences = t->preferences,
  };
  if (ac_chat_open(&t->chat, t->data, &desc) != AC_OK) return fail_library();
  ac_chat_get_info(t->chat, &t->info);
  return STATUS_CONTINUE;
}

/* ---- a file of tokens ------------------------------------------------------------------------ */

static bool write_tokens(tokenize *t, FILE *stream) {
  enum { PIECE = 4096 };
  uint32_t ids[PIECE];
  unsigned char bytes[4 * PIECE];
  for (int64_t i = 0; i < t->info.documents; i++) {
    ac_chat_document document;
    if (ac_chat_get_document(t->chat, i, &document) != AC_OK) return false;
    for (size_t at = 0; at < document.count; at += PIECE) {
      const size_t count = document.count - at < PIECE ? document.count - at : PIECE;
      if (ac_chat_get_tokens(t->chat, i, at, count, ids, NULL) != AC_OK) return false;
      for (size_t k = 0; k < 4 * count; k++) bytes[k] = (unsigned char)(ids[k / 4] >> k % 4 * 8);
      if (fwrite(bytes, 4, count, stream) != count) return false;
    }
    t->written += (int64_t)document.count;
  }
  return true;
}

/* Which tokens are learned is not in such a file, so it has texts alone. */
static int check_texts(const tokenize *t) {
  for (int64_t i = 0; i < t->info.documents; i++) {
    ac_chat_document document;
    if (ac_chat_get_document(t->chat, i, &document) != AC_OK) return fail_library();
    if (document.conversation)
      return fail("%s: line %lld is not a text: a file of tokens has no place for what is learned; "
                  "train on %s itself",
                  document.file, (long long)document.line, t->data);
  }
  return STATUS_CONTINUE;
}

/* Whether a file has nothing but tokens of this tokenizer, as one that was written before. */
static bool holds_tokens(const tokenize *t, FILE *stream) {
  unsigned char bytes[4];
  const uint32_t vocabulary = ac_tokenizer_vocabulary(t->tokenizer);
  size_t got;
  while ((got = fread(bytes, 1, 4, stream)) == 4)
    if (((uint32_t)bytes[3] << 24 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[1] << 8 |
         bytes[0]) >= vocabulary)
      return false;
  return !got;
}

/* An output never replaces a file of another kind. */
static int check_out(const tokenize *t) {
  struct stat found;
  if (stat(t->out, &found) != 0 || !S_ISREG(found.st_mode)) return STATUS_CONTINUE;
  FILE *stream = fopen(t->out, "rb");
  if (!stream) return STATUS_CONTINUE; /* writing says why */
  const bool tokens = holds_tokens(t, stream);
  fclose(stream);
  if (tokens) return STATUS_CONTINUE;
  return fail_usage("--out %s: it is not a file of tokens, so it is not replaced", t->out);
}

static int write_out(tokenize *t) {
  replacement file;
  int status = check_texts(t);
  if (status == STATUS_CONTINUE) status = check_out(t);
  if (status != STATUS_CONTINUE) return status;
  if (!replacement_open(&file, t->out)) return fail("cannot write %s: %s", t->out, strerror(errno));
  FILE *stream = fopen(file.temporary, "wb");
  bool whole = stream && write_tokens(t, stream);
  if (stream) whole = fclose(stream) == 0 && whole;
  if (whole) whole = replacement_commit(&file);
  else replacement_abandon(&file);
  return whole ? STATUS_CONTINUE : fail("cannot write %s: %s", t->out, strerror(errno));
}

/* ---- the command ----------------------------------------------------------------------------- */

int tokenize_main(int argc, char **argv) {
  tokenize t = {.context = 1024, .show = 2};
  int status = parse(&t, argc, argv);
  if (status == STATUS_CONTINUE) status = open_tokenizer(&t);
  if (status == STATUS_CONTINUE) status = open_data(&t);
  if (status == STATUS_CONTINUE && t.out) status = write_out(&t);
  if (status == STATUS_CONTINUE) status = t.json ? tokenize_put_json(&t) : tokenize_put(&t);
  ac_chat_free(t.chat);
  ac_chat_source_free(&t.source);
  ac_tokenizer_free(t.tokenizer);
  return status;
}
