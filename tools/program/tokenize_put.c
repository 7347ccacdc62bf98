/* Data as `accrue tokenize` shows them: some documents, with what is learned marked, then counts
 * and lengths. On a terminal what is learned has a colour, elsewhere it is between [[ and ]]. */
#include "program/tokenize.h"

#include "common/json_text.h"
#include "common/message.h"
#include "common/terminal.h"
#include "common/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_SHOWN = 2048 }; /* tokens of a document */

/* ---- documents ------------------------------------------------------------------------------- */

static void put_text(const char *text, size_t bytes) {
  const size_t written = message_put_some(stdout, text, bytes, true);
  for (size_t i = written; i < bytes; i++) message_put(stdout, "%c", text[i]);
}

/* The tokens up to each place where learned begins or ends are decoded together: alone a part might
 * lose blanks, or half of a character. */
static bool put_runs(const tokenize *t, const uint32_t *ids, const bool *learned, size_t count) {
  const bool colours = terminal_redraws(STDOUT_FILENO);
  size_t done = 0;
  for (size_t begin = 0, end; begin < count; begin = end) {
    char *text;
    size_t bytes;
    for (end = begin; end < count && learned[end] == learned[begin]; end++) continue;
    if (ac_tokenizer_decode(&text, &bytes, t->tokenizer, ids, end, false) != AC_OK) return false;
    if (done > bytes) done = bytes;
    if (learned[begin]) fputs(colours ? "\033[32m" : "[[", stdout);
    put_text(text + done, bytes - done);
    if (learned[begin]) fputs(colours ? "\033[0m" : "]]", stdout);
    done = bytes;
    free(text);
  }
  return true;
}

static bool put_document(const tokenize *t, int64_t index) {
  ac_chat_document document;
  uint32_t ids[MOST_SHOWN];
  bool learned[MOST_SHOWN];
  if (ac_chat_get_document(t->chat, index, &document) != AC_OK) return false;
  const size_t count = document.count < MOST_SHOWN ? document.count : MOST_SHOWN;
  if (ac_chat_get_tokens(t->chat, index, 0, count, ids, learned) != AC_OK) return false;
  message_put(stdout, "%s", document.file);
  if (document.line) printf(", line %" PRId64, document.line);
  printf(", %s tokens%s\n", text_count((int64_t)document.count).text,
         !document.used                                                      ? ", left out"
         : document.conversation && (int64_t)document.count - 1 > t->context ? ", cut"
         : document.validates                                                ? ", validates"
                                                                             : "");
  if (!put_runs(t, ids, learned, count)) return false;
  puts(count < document.count ? "...\n" : "\n");
  return true;
}

/* ---- counts ---------------------------------------------------------------------------------- */

static void put_count(const char *name, int64_t count, const char *more) {
  printf("  %-20s %12s%s\n", name, text_count(count).text, more);
}

/* What would be lost or changed without a word. */
static void put_losses(const ac_chat_info *info) {
  if (info->unlearned) put_count("nothing learned", info->unlearned, "  left out");
  if (info->dropped) put_count("too long", info->dropped, "  left out");
  if (info->cut) {
    char more[64];
    snprintf(more, sizeof more, "  by %s tokens", text_count(info->cut_tokens).text);
    put_count("cut", info->cut, more);
  }
  if (info->divided) put_count("texts divided", info->divided, "");
  if (info->named) put_count("with special names", info->named, "  which stay text");
  if (info->replaced) put_count("bytes not UTF-8", info->replaced, "  read as U+FFFD");
  if (info->files_skipped) put_count("files left out", info->files_skipped, "  by their names");
}

static void put_side(const char *name, const ac_chat_side *side) {
  if (!side->documents && !side->samples) return;
  printf("  %-11s %12s %9s %13s %13s %13s\n", name, text_count(side->documents).text,
         text_count(side->samples).text, text_count(side->tokens).text,
         text_count(side->learned).text, text_count(side->padding).text);
}

static void put_lengths(const ac_chat_info *info) {
  int first = AC_CHAT_LENGTHS, last = 0;
  int64_t most = 1;
  for (int i = 0; i < AC_CHAT_LENGTHS; i++) {
    if (!info->lengths[i]) continue;
    if (first > i) first = i;
    last = i;
    if (info->lengths[i] > most) most = info->lengths[i];
  }
  puts("\nlengths in tokens");
  for (int i = first; i <= last; i++) {
    const int bar = (int)(info->lengths[i] * TERMINAL_BAR / most);
    char range[32];
    snprintf(range, sizeof range, "%" PRId64 " to %" PRId64, (int64_t)1 << i,
             ((int64_t)2 << i) - 1);
    printf("  %-20s %12s%s%.*s\n", range, text_count(info->lengths[i]).text, bar ? "  " : "", bar,
           "########################");
  }
}

int tokenize_put(const tokenize *t) {
  const ac_chat_info *info = &t->info;
  for (int64_t i = 0; i < t->show && i < info->documents; i++)
    if (!put_document(t, i)) return fail_library();
  printf("template %s, context %" PRId64 "\n",
         t->chat_template ? ac_chat_template_name(t->chat_template) : "(none)", t->context);
  put_count("documents", info->documents, "");
  put_losses(info);
  printf("\n  %-11s %12s %9s %13s %13s %13s\n", "", "documents", "samples", "tokens", "learned",
         "padding");
  put_side("train", &info->train);
  put_side("validate", &info->validation);
  put_lengths(info);
  if (t->out) {
    putchar('\n');
    message_put(stdout, "%s", t->out);
    printf(": %s tokens, each a little-endian uint32\n", text_count(t->written).text);
  }
  return fflush(stdout) ? fail("cannot write the result") : STATUS_DONE;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static json_t *side_json(const ac_chat_side *side) {
  return json_pack("{s:I, s:I, s:I, s:I, s:I}", "documents", (json_int_t)side->documents, "samples",
                   (json_int_t)side->samples, "tokens", (json_int_t)side->tokens, "learned",
                   (json_int_t)side->learned, "padding", (json_int_t)side->padding);
}

static json_t *lengths_json(const ac_chat_info *info) {
  json_t *list = json_array();
  for (int i = 0; i < AC_CHAT_LENGTHS; i++)
    if (info->lengths[i])
      json_array_append_new(list, json_pack("{s:I, s:I}", "from", (json_int_t)1 << i, "documents",
                                            (json_int_t)info->lengths[i]));
  return list;
}

int tokenize_put_json(const tokenize *t) {
  const ac_chat_info *i = &t->info;
  json_t *json = json_pack(
      "{s:s?, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}",
      "template", t->chat_template ? ac_chat_template_name(t->chat_template) : NULL, "context",
      (json_int_t)t->context, "files", (json_int_t)i->files, "files_skipped",
      (json_int_t)i->files_skipped, "documents", (json_int_t)i->documents, "unlearned",
      (json_int_t)i->unlearned, "dropped", (json_int_t)i->dropped, "cut", (json_int_t)i->cut,
      "cut_tokens", (json_int_t)i->cut_tokens, "divided", (json_int_t)i->divided, "longest",
      (json_int_t)i->longest, "named", (json_int_t)i->named, "replaced", (json_int_t)i->replaced,
      "lengths", lengths_json(i), "train", side_json(&i->train), "validation",
      side_json(&i->validation));
  const bool whole = json && json_text_put(json, JSON_INDENT(2), stdout);
  json_decref(json);
  return whole ? STATUS_DONE : fail("cannot write the result");
}
