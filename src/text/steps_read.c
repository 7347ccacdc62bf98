/* Steps of a tokenizer.json. A row for each type that the format has: what it becomes, or nothing,
 * and then it is refused by its name. */
#include "text/steps.h"

#include "core/quote.h"
#include "text/room.h"

const char *ac_json_text(const json_t *object, const char *key) {
  const json_t *value = json_object_get(object, key);
  const char *text = json_string_value(value);
  return text && strlen(text) == json_string_length(value) ? text : NULL;
}

bool ac_json_bool(const json_t *object, const char *key, bool otherwise) {
  const json_t *value = json_object_get(object, key);
  return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static ac_status add(ac_steps *steps, ac_step_kind kind, ac_step **step) {
  AC_TRY(AC_ROOM(steps->list, steps->capacity, steps->count + 1));
  *step = &steps->list[steps->count++];
  **step = (ac_step){.kind = kind};
  return AC_OK;
}

static ac_status set_text(ac_step *step, const char *text) {
  step->text = malloc(strlen(text) + 1);
  if (!step->text) return ac_fail(AC_ERROR_MEMORY, "tokenizer: no memory for a step");
  strcpy(step->text, text);
  return AC_OK;
}

static ac_status add_split(ac_steps *steps, const char *pattern, bool literal,
                           ac_split_behaviour behaviour) {
  ac_step *step;
  AC_TRY(add(steps, AC_STEP_SPLIT, &step));
  step->behaviour = behaviour;
  return ac_pattern_make(&step->pattern, pattern, literal);
}

static ac_status add_prepend(ac_steps *steps, const char *text, bool unless_there, bool first) {
  ac_step *step;
  AC_TRY(add(steps, AC_STEP_PREPEND, &step));
  step->unless_there = unless_there;
  step->first = first;
  return set_text(step, text);
}

static ac_status add_replace(ac_steps *steps, const char *pattern, bool literal, const char *by) {
  ac_step *step;
  AC_TRY(add(steps, AC_STEP_REPLACE, &step));
  AC_TRY(ac_pattern_make(&step->pattern, pattern, literal));
  return set_text(step, by);
}

/* {"Regex": TEXT} or {"String": TEXT} */
static ac_status pattern_of(const json_t *json, const char **text, bool *literal) {
  const json_t *pattern = json_object_get(json, "pattern");
  *text = ac_json_text(pattern, "Regex");
  *literal = !*text;
  if (*literal) *text = ac_json_text(pattern, "String");
  return *text && **text ? AC_OK : ac_fail(AC_ERROR_FORMAT, "it has no pattern");
}

static ac_status behaviour_of(const json_t *json, ac_split_behaviour *behaviour) {
  static const char *const names[] = {"Removed", "Isolated", "Contiguous", "MergedWithPrevious",
                                      "MergedWithNext"};
  const char *name = ac_json_text(json, "behavior");
  for (int i = 0; name && i < 5; i++)
    if (!strcmp(names[i], name)) {
      *behaviour = (ac_split_behaviour)i;
      return AC_OK;
    }
  return ac_fail(AC_ERROR_UNSUPPORTED, "its behavior is %s", ac_quote(name ? name : "").text);
}

/* ---- one function a type --------------------------------------------------------------------- */

typedef ac_status read_step(ac_steps *steps, const json_t *json);

static ac_status read_sequence(ac_steps *steps, const json_t *json) {
  const json_t *list = json_object_get(json, "normalizers"), *one;
  size_t i;
  if (!list) list = json_object_get(json, "pretokenizers");
  if (!json_is_array(list)) return ac_fail(AC_ERROR_FORMAT, "a Sequence has no list");
  json_array_foreach(list, i, one) AC_TRY(ac_steps_read(steps, one));
  return AC_OK;
}

static ac_status read_form(ac_steps *steps, const json_t *json) {
  static const char *const names[] = {"NFC", "NFD", "NFKC", "NFKD"};
  ac_step *step;
  AC_TRY(add(steps, AC_STEP_NORMAL_FORM, &step));
  for (int i = 0; i < 4; i++)
    if (!strcmp(names[i], ac_json_text(json, "type"))) step->form = (ac_normal_form)i;
  return AC_OK;
}

static ac_status read_lowercase(ac_steps *steps, const json_t *json) {
  ac_step *step;
  (void)json;
  return add(steps, AC_STEP_LOWERCASE, &step);
}

static ac_status read_strip_accents(ac_steps *steps, const json_t *json) {
  ac_step *step;
  (void)json;
  AC_TRY(add(steps, AC_STEP_NO_MARKS, &step));
  step->spacing_too = true;
  return AC_OK;
}

static ac_status read_strip(ac_steps *steps, const json_t *json) {
  ac_step *step;
  AC_TRY(add(steps, AC_STEP_STRIP, &step));
  step->left = ac_json_bool(json, "strip_left", true);
  step->right = ac_json_bool(json, "strip_right", true);
  return AC_OK;
}

static ac_status read_replace(ac_steps *steps, const json_t *json) {
  const char *text, *by = ac_json_text(json, "content");
  bool literal;
  AC_TRY(pattern_of(json, &text, &literal));
  if (!by) return ac_fail(AC_ERROR_FORMAT, "it has no content");
  return add_replace(steps, text, literal, by);
}

static ac_status read_prepend(ac_steps *steps, const json_t *json) {
  const char *text = ac_json_text(json, "prepend");
  return text ? add_prepend(steps, text, false, false)
              : ac_fail(AC_ERROR_FORMAT, "it has no text to prepend");
}

static ac_status read_bert_normalizer(ac_steps *steps, const json_t *json) {
  ac_step *step;
  const bool lowercase = ac_json_bool(json, "lowercase", true);
  if (ac_json_bool(json, "clean_text", true)) AC_TRY(add(steps, AC_STEP_CLEAN, &step));
  if (ac_json_bool(json, "handle_chinese_chars", true)) AC_TRY(add(steps, AC_STEP_APART, &step));
  if (ac_json_bool(json, "strip_accents", lowercase)) {
    AC_TRY(add(steps, AC_STEP_NORMAL_FORM, &step));
    step->form = AC_NFD;
    AC_TRY(add(steps, AC_STEP_NO_MARKS, &step));
  }
  return lowercase ? add(steps, AC_STEP_LOWERCASE, &step) : AC_OK;
}

static ac_status read_charsmap(ac_steps *steps, const json_t *json) {
  const char *text = ac_json_text(json, "precompiled_charsmap");
  ac_step *step;
  if (!text) return ac_fail(AC_ERROR_FORMAT, "it has no precompiled_charsmap");
  AC_TRY(add(steps, AC_STEP_CHARSMAP, &step));
  return ac_charsmap_read(&step->charsmap, text);
}

/* `bytes` is set at the end: what comes after this step would see characters for bytes. */
static ac_status read_byte_level(ac_steps *steps, const json_t *json) {
  /* As a normalizer it has no members, and does nothing but write bytes as characters. */
  const bool cuts = json_object_get(json, "add_prefix_space") != NULL;
  if (cuts && ac_json_bool(json, "add_prefix_space", true))
    AC_TRY(add_prepend(steps, " ", true, false));
  if (cuts && ac_json_bool(json, "use_regex", true))
    AC_TRY(add_split(
        steps, "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        false, AC_SPLIT_ISOLATED));
  steps->bytes = true;
  return AC_OK;
}

static ac_status read_split(ac_steps *steps, const json_t *json) {
  const char *text;
  bool literal;
  ac_split_behaviour behaviour = AC_SPLIT_REMOVED;
  AC_TRY(pattern_of(json, &text, &literal));
  AC_TRY(behaviour_of(json, &behaviour));
  AC_TRY(add_split(steps, text, literal, behaviour));
  steps->list[steps->count - 1].invert = ac_json_bool(json, "invert", false);
  return AC_OK;
}

static ac_status read_digits(ac_steps *steps, const json_t *json) {
  return ac_json_bool(json, "individual_digits", false)
             ? add_split(steps, "\\p{N}", false, AC_SPLIT_ISOLATED)
             : add_split(steps, "\\p{N}+", false, AC_SPLIT_ISOLATED);
}

/* ASCII's punctuation, and what Unicode calls so. */
#define PUNCTUATION "[!-/:-@\\[-`{-~\\p{P}]"

static ac_status read_punctuation(ac_steps *steps, const json_t *json) {
  ac_split_behaviour behaviour = AC_SPLIT_ISOLATED;
  if (json_object_get(json, "behavior")) AC_TRY(behaviour_of(json, &behaviour));
  return add_split(steps, PUNCTUATION, false, behaviour);
}

static ac_status read_whitespace(ac_steps *steps, const json_t *json) {
  (void)json;
  AC_TRY(add_split(steps, "\\w+|[^\\w\\s]+", false, AC_SPLIT_REMOVED));
  steps->list[steps->count - 1].invert = true;
  return AC_OK;
}

static ac_status read_whitespace_split(ac_steps *steps, const json_t *json) {
  (void)json;
  return add_split(steps, "\\s", false, AC_SPLIT_REMOVED);
}

static ac_status read_bert_split(ac_steps *steps, const json_t *json) {
  AC_TRY(read_whitespace_split(steps, json));
  return add_split(steps, PUNCTUATION, false, AC_SPLIT_ISOLATED);
}

static ac_status read_delimiter(ac_steps *steps, const json_t *json) {
  const char *text = ac_json_text(json, "delimiter");
  return text && *text ? add_split(steps, text, true, AC_SPLIT_REMOVED)
                       : ac_fail(AC_ERROR_FORMAT, "it has no delimiter");
}

static ac_status read_metaspace(ac_steps *steps, const json_t *json) {
  const char *mark = ac_json_text(json, "replacement"),
             *scheme = ac_json_text(json, "prepend_scheme");
  if (!mark) mark = "\xe2\x96\x81";
  if (!scheme) scheme = ac_json_bool(json, "add_prefix_space", true) ? "always" : "never";
  if (strcmp(scheme, "always") && strcmp(scheme, "first") && strcmp(scheme, "never"))
    return ac_fail(AC_ERROR_UNSUPPORTED, "its prepend_scheme is %s", ac_quote(scheme).text);
  AC_TRY(add_replace(steps, " ", true, mark));
  if (strcmp(scheme, "never")) AC_TRY(add_prepend(steps, mark, true, !strcmp(scheme, "first")));
  return ac_json_bool(json, "split", true) ? add_split(steps, mark, true, AC_SPLIT_WITH_NEXT)
                                           : AC_OK;
}

static const struct {
  const char *type;
  read_step *read;
} readers[] = {
    {"Sequence", read_sequence},
    {"NFC", read_form},
    {"NFD", read_form},
    {"NFKC", read_form},
    {"NFKD", read_form},
    {"Lowercase", read_lowercase},
    {"StripAccents", read_strip_accents},
    {"Strip", read_strip},
    {"Replace", read_replace},
    {"Prepend", read_prepend},
    {"BertNormalizer", read_bert_normalizer},
    {"Precompiled", read_charsmap},
    {"ByteLevel", read_byte_level},
    {"Split", read_split},
    {"Digits", read_digits},
    {"Punctuation", read_punctuation},
    {"Whitespace", read_whitespace},
    {"WhitespaceSplit", read_whitespace_split},
    {"BertPreTokenizer", read_bert_split},
    {"CharDelimiterSplit", read_delimiter},
    {"Metaspace", read_metaspace},
};

ac_status ac_steps_read(ac_steps *steps, const json_t *json) {
  if (!json || json_is_null(json)) return AC_OK;
  const char *type = ac_json_text(json, "type");
  if (!type) return ac_fail(AC_ERROR_FORMAT, "a step has no type");
  for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
    if (strcmp(readers[i].type, type)) continue;
    if (steps->bytes)
      return ac_fail(AC_ERROR_UNSUPPORTED, "this library has no step %s after ByteLevel", type);
    const ac_status status = readers[i].read(steps, json);
    if (status == AC_OK || readers[i].read == read_sequence) return status;
    return ac_fail_prefix(status, "%s", type);
  }
  return ac_fail(AC_ERROR_UNSUPPORTED, "this library has no step %s", ac_quote(type).text);
}
