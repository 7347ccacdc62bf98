#include "text/pre_tokenizers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ------------------------------------------------------------------------------- */

/* Steps are lines, so that one text has all of them. */
#define GPT2 "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define WORDS_WITH(numbers)                                             \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define END_OF_WORD "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
#define CASES_WITH(end, numbers)                                                             \
  "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" end "|[^\\r\\n\\p{L}\\p{N}]?" UPPER "+" LOWER \
  "*" end "|" numbers "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define DEEPSEEK                                                                          \
  "\\p{N}{1,3}\n"                                                                         \
  "[\xe4\xb8\x80-\xe9\xbe\xa5\xe3\x81\x80-\xe3\x82\x9f\xe3\x82\xa0-\xe3\x83\xbf]+\n"      \
  "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|"                                \
  "[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|" \
  "\\s+(?!\\S)|\\s+"

/* Of several with the same steps the first one is that which a tokenizer.json gets. */
static const ac_pre_tokenizer table[] = {
    {.name = "gpt-2", .steps = "", .words = true},
    {.name = "smollm", .steps = "D", .words = true},
    {.name = "llama-bpe", .steps = WORDS_WITH("\\p{N}{1,3}"), .whole_words = true, .begins = true},
    {.name = "dbrx", .steps = WORDS_WITH("\\p{N}{1,3}")},
    {.name = "qwen2", .steps = WORDS_WITH("\\p{N}"), .composed = true},
    {.name = "tekken", .steps = CASES_WITH("", "\\p{N}"), .whole_words = true, .begins = true},
    {.name = "gpt-4o", .steps = CASES_WITH(END_OF_WORD, "\\p{N}{1,3}")},
    {.name = "deepseek-v3", .steps = DEEPSEEK},
    {.name = "starcoder", .steps = "D", .words = true},
    {.name = "refact", .steps = "D", .words = true},
    {.name = "command-r", .steps = "D", .words = true},
    {.name = "codeshell", .steps = "D", .words = true},
    {.name = "exaone", .steps = "D", .words = true},
    {.name = "mpt", .steps = "", .words = true},
    {.name = "olmo", .steps = "", .words = true},
    {.name = "jais", .steps = "", .words = true},
    {.name = "phi-2", .steps = "", .words = true},
    {.name = "llama3", .steps = WORDS_WITH("\\p{N}{1,3}"), .whole_words = true, .begins = true},
    {.name = "llama-v3", .steps = WORDS_WITH("\\p{N}{1,3}"), .whole_words = true, .begins = true},
    {.name = "smaug-bpe", .steps = WORDS_WITH("\\p{N}{1,3}")},
    {.name = "stablelm2", .steps = WORDS_WITH("\\p{N}")},
    {.name = "deepseek-r1-qwen", .steps = WORDS_WITH("\\p{N}")},
    {.name = "megrez", .steps = WORDS_WITH("\\p{N}")},
};
enum { PRE_TOKENIZERS = sizeof table / sizeof *table };

const ac_pre_tokenizer *ac_pre_tokenizer_named(const char *name) {
  for (int i = 0; i < PRE_TOKENIZERS; i++)
    if (!strcmp(table[i].name, name)) return &table[i];
  return NULL;
}

/* ---- from tokenizer.json --------------------------------------------------------------------- */

/* Steps as the table has them, while they are gathered. */
typedef struct gathered {
  char steps[4096];
  size_t length;
  bool words, bytes, unknown;
} gathered;

static void add_step(gathered *g, const char *step) {
  const int written = snprintf(g->steps + g->length, sizeof g->steps - g->length, "%s%s",
                               g->length ? "\n" : "", step);
  if (written < 0 || (size_t)written >= sizeof g->steps - g->length) g->unknown = true;
  else g->length += (size_t)written;
}

static const char *text_of(const json_t *object, const char *key) {
  const char *text = json_string_value(json_object_get(object, key));
  return text ? text : "";
}

/* What matches is a piece, and so is what lies between. Patterns that match everything may remove
 * what lies between, which is nothing. */
static void add_split(gathered *g, const json_t *step) {
  const char *regex = text_of(json_object_get(step, "pattern"), "Regex"),
             *behaviour = text_of(step, "behavior");
  const bool inverted = json_is_true(json_object_get(step, "invert"));
  const bool isolated = !strcmp(behaviour, "Isolated") && !inverted;
  const bool removed = !strcmp(behaviour, "Removed") && inverted;
  if (!*regex || strchr(regex, '\n') || (!isolated && !removed)) g->unknown = true;
  else if (!strcmp(regex, GPT2) && !g->words) g->words = true;
  else add_step(g, regex);
}

static void add_one(gathered *g, const json_t *step) {
  const char *type = text_of(step, "type");
  if (g->bytes) g->unknown = true; /* what follows the bytes would see other characters */
  if (!strcmp(type, "Split") && !g->words) add_split(g, step);
  else if (!strcmp(type, "Digits") && json_is_true(json_object_get(step, "individual_digits")))
    add_step(g, "D");
  else if (!strcmp(type, "ByteLevel") && !json_is_true(json_object_get(step, "add_prefix_space"))) {
    g->bytes = true;
    g->words |= !json_is_false(json_object_get(step, "use_regex"));
  } else g->unknown = true;
}

const ac_pre_tokenizer *ac_pre_tokenizer_of(const json_t *steps, bool whole_words) {
  gathered g = {.length = 0};
  const json_t *list = json_object_get(steps, "pretokenizers");
  const size_t count = json_array_size(list);
  if (strcmp(text_of(steps, "type"), "Sequence") != 0) add_one(&g, steps);
  for (size_t i = 0; i < count; i++) add_one(&g, json_array_get(list, i));
  if (g.unknown || !g.bytes) return NULL;
  for (int i = 0; i < PRE_TOKENIZERS; i++)
    if (!strcmp(table[i].steps, g.steps) && table[i].words == g.words &&
        table[i].whole_words == whole_words)
      return &table[i];
  return NULL;
}

/* ---- to tokenizer.json ----------------------------------------------------------------------- */

static json_t *step_json(const char *step, size_t length) {
  if (length == 1 && *step == 'D')
    return json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1);
  return json_pack("{s:s, s:{s:s%}, s:s, s:b}", "type", "Split", "pattern", "Regex", step, length,
                   "behavior", "Isolated", "invert", 0);
}

json_t *ac_pre_tokenizer_json(const ac_pre_tokenizer *pre) {
  json_t *list = json_array();
  bool whole = list != NULL;
  for (const char *step = pre->steps; *step;) {
    const size_t length = strcspn(step, "\n");
    whole &= json_array_append_new(list, step_json(step, length)) == 0;
    step += length + (step[length] != 0);
  }
  whole &= json_array_append_new(list, json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel",
                                                 "add_prefix_space", 0, "trim_offsets", 1,
                                                 "use_regex", pre->words)) == 0;
  json_t *made = whole ? json_pack("{s:s, s:O}", "type", "Sequence", "pretokenizers", list) : NULL;
  json_decref(list);
  return made;
}
