/* PEFT's adapter_config.json. Keys that say how an adapter began, or what made it, are left alone;
 * one that changes what the adapter computes and is not null, false or empty is refused by its
 * name, as is any key that is not known.
 *
 * Patterns are Python's regular expressions, matched by PCRE2, which reads what such files have in
 * the same way; matching is bounded. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "adapter/config.h"

#include "core/platform/files.h"
#include "core/platform/numbers.h"
#include "core/quote.h"
#include "core/utf8.h"

#include <math.h>
#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILE = 16 << 20, MOST_PATTERNS = 4096 };

struct ac_lora_patterns {
  const char *key;    /* in the file */
  pcre2_code **codes; /* [count]; NULL: not compiled yet */
  size_t count;
  pcre2_match_data *data;
  pcre2_match_context *context;
};

static void free_patterns(ac_lora_patterns *p) {
  for (size_t i = 0; p && i < p->count; i++) pcre2_code_free(p->codes[i]);
  if (!p) return;
  pcre2_match_context_free(p->context);
  pcre2_match_data_free(p->data);
  free(p->codes);
  free(p);
}

static ac_status make_patterns(ac_lora_patterns **patterns, const char *key, size_t count) {
  enum { STEPS = 100000, KIBIBYTES = 4096 };
  ac_lora_patterns *p = *patterns = calloc(1, sizeof *p);
  if (p && (p->codes = calloc(count + 1, sizeof *p->codes))) {
    p->key = key;
    p->count = count;
    p->data = pcre2_match_data_create(1, NULL);
    p->context = pcre2_match_context_create(NULL);
  }
  if (!p || !p->data || !p->context) return ac_fail(AC_ERROR_MEMORY, "no memory for a pattern");
  pcre2_set_match_limit(p->context, STEPS);
  pcre2_set_heap_limit(p->context, KIBIBYTES);
  return AC_OK;
}

/* The value of these does not matter here. */
static const char *const ignored[] = {"auto_mapping",
                                      "base_model_name_or_path",
                                      "exclude_modules",
                                      "fan_in_fan_out",
                                      "inference_mode",
                                      "layers_pattern",
                                      "layers_to_transform",
                                      "lora_alpha",
                                      "lora_dropout",
                                      "megatron_core",
                                      "peft_type",
                                      "peft_version",
                                      "qalora_group_size",
                                      "r",
                                      "rank_pattern",
                                      "alpha_pattern",
                                      "revision",
                                      "runtime_config",
                                      "target_modules",
                                      "task_type",
                                      "use_dora",
                                      "use_rslora",
                                      "ensure_weight_tying"};

static bool is_ignored(const char *key) {
  for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
    if (!strcmp(key, ignored[i])) return true;
  return false;
}

/* null, false, "", [], {}: it asks for nothing. */
static bool asks_nothing(const json_t *value) {
  return json_is_null(value) || json_is_false(value) ||
         (json_is_string(value) && !json_string_length(value)) ||
         (json_is_array(value) && !json_array_size(value)) ||
         (json_is_object(value) && !json_object_size(value));
}

/* How A and B began; PiSSA and others also change the base, which the file does not have. */
static bool is_plain_beginning(const json_t *value) {
  const char *text = json_string_value(value);
  return json_is_boolean(value) || json_is_null(value) ||
         (text &&
          (!strcmp(text, "gaussian") || !strcmp(text, "orthogonal") || !strcmp(text, "eva")));
}

static ac_status check_key(const char *key, const json_t *value) {
  const char *text = json_string_value(value);
  const bool known = !strcmp(key, "init_lora_weights") ? is_plain_beginning(value)
                     : !strcmp(key, "bias")            ? text && !strcmp(text, "none")
                     : !strcmp(key, "eva_config")      ? true
                                                       : is_ignored(key) || asks_nothing(value);
  if (known) return AC_OK;
  char *shown = text ? NULL : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
  const ac_quoted what = ac_quote(text ? text : shown ? shown : "");
  free(shown);
  return ac_fail(AC_ERROR_UNSUPPORTED, "%s is %s, which this library does not have",
                 ac_quote(key).text, what.text);
}

static ac_status read_number(const json_t *json, const char *key, double least, double *number) {
  const json_t *value = json_object_get(json, key);
  if (!value || json_is_null(value)) return AC_OK;
  if (!json_is_number(value) || !(json_number_value(value) >= least) ||
      !isfinite(json_number_value(value)))
    return ac_fail(AC_ERROR_FORMAT, "\"%s\" is not a number of at least %g", key, least);
  *number = json_number_value(value);
  return AC_OK;
}

static ac_status read_flag(const json_t *json, const char *key, bool *flag) {
  const json_t *value = json_object_get(json, key);
  if (value && !json_is_boolean(value) && !json_is_null(value))
    return ac_fail(AC_ERROR_FORMAT, "\"%s\" is neither true nor false", key);
  *flag = json_is_true(value);
  return AC_OK;
}

/* rank_pattern or alpha_pattern: numbers by pattern. */
static ac_status read_patterns(const json_t *json, const char *key, const json_t **patterns) {
  const char *pattern;
  json_t *all = json_object_get(json, key), *value;
  *patterns = NULL;
  if (!all || json_is_null(all)) return AC_OK;
  if (!json_is_object(all)) return ac_fail(AC_ERROR_FORMAT, "\"%s\" is not an object", key);
  json_object_foreach(all, pattern, value)
    if (!json_is_number(value) || !(json_number_value(value) > 0))
      return ac_fail(AC_ERROR_FORMAT, "\"%s\": %s has no positive number", key,
                     ac_quote(pattern).text);
  *patterns = all;
  return AC_OK;
}

static ac_status read_targets(ac_lora_config *c) {
  const json_t *targets = json_object_get(c->json, "target_modules"), *one;
  size_t i;
  if (json_is_string(targets)) {
    c->targets = targets;
    return make_patterns(&c->target_pattern, "target_modules", 1);
  }
  if (!json_is_array(targets))
    return ac_fail(AC_ERROR_FORMAT, "\"target_modules\" is neither a list nor a pattern");
  if (json_array_size(targets) > MOST_PATTERNS)
    return ac_fail(AC_ERROR_UNSUPPORTED, "\"target_modules\" has more than %d names",
                   MOST_PATTERNS);
  json_array_foreach(targets, i, one)
    if (!json_is_string(one))
      return ac_fail(AC_ERROR_FORMAT, "\"target_modules\" has an element that is not a name");
  c->targets = targets;
  return AC_OK;
}

static ac_status read_all(ac_lora_config *c) {
  const char *key, *type = json_string_value(json_object_get(c->json, "peft_type"));
  json_t *value;
  double rank = 8;
  if (!type) return ac_fail(AC_ERROR_FORMAT, "it lacks \"peft_type\"");
  if (strcmp(type, "LORA") != 0)
    return ac_fail(AC_ERROR_UNSUPPORTED, "\"peft_type\" is %s; only \"LORA\" is known",
                   ac_quote(type).text);
  json_object_foreach(c->json, key, value) AC_TRY(check_key(key, value));
  c->alpha = 8; /* PEFT's defaults */
  AC_TRY(read_number(c->json, "r", 1, &rank));
  AC_TRY(read_number(c->json, "lora_alpha", 0, &c->alpha));
  AC_TRY(read_number(c->json, "lora_dropout", 0, &c->dropout));
  if (rank != floor(rank) || rank > INT32_MAX)
    return ac_fail(AC_ERROR_FORMAT, "\"r\" is not a whole number");
  if (!(c->alpha > 0)) return ac_fail(AC_ERROR_FORMAT, "\"lora_alpha\" is 0");
  if (!(c->dropout < 1)) return ac_fail(AC_ERROR_FORMAT, "\"lora_dropout\" is not below 1");
  c->rank = (int64_t)rank;
  AC_TRY(read_flag(c->json, "use_rslora", &c->rank_stabilised));
  AC_TRY(read_flag(c->json, "use_dora", &c->dora));
  AC_TRY(read_patterns(c->json, "rank_pattern", &c->ranks));
  AC_TRY(read_patterns(c->json, "alpha_pattern", &c->alphas));
  if (json_object_size(c->ranks) > MOST_PATTERNS || json_object_size(c->alphas) > MOST_PATTERNS)
    return ac_fail(AC_ERROR_UNSUPPORTED, "\"rank_pattern\" or \"alpha_pattern\" has more than %d",
                   MOST_PATTERNS);
  AC_TRY(make_patterns(&c->rank_patterns, "rank_pattern", json_object_size(c->ranks)));
  AC_TRY(make_patterns(&c->alpha_patterns, "alpha_pattern", json_object_size(c->alphas)));
  const char *base = json_string_value(json_object_get(c->json, "base_model_name_or_path"));
  c->base = base ? base : "";
  return read_targets(c);
}

ac_status ac_lora_config_read(ac_lora_config *config, const char *path) {
  FILE *stream;
  json_error_t error;
  *config = (ac_lora_config){.json = NULL};
  AC_TRY(ac_file_open(&stream, path, false));
  if (ac_file_bytes(stream) > MOST_FILE) {
    fclose(stream);
    return ac_fail(AC_ERROR_FORMAT, "%s has more than %d bytes", path, MOST_FILE);
  }
  const ac_plain_numbers numbers = ac_plain_numbers_begin();
  config->json = json_loadf(stream, JSON_REJECT_DUPLICATES, &error);
  ac_plain_numbers_end(&numbers);
  fclose(stream);
  if (!config->json)
    return ac_fail(AC_ERROR_FORMAT, "%s: line %d: %s", path, error.line, ac_quote(error.text).text);
  ac_status status = json_is_object(config->json)
                         ? read_all(config)
                         : ac_fail(AC_ERROR_FORMAT, "this is not the description of an adapter");
  if (status == AC_OK) return AC_OK;
  ac_lora_config_free(config);
  return ac_fail_prefix(status, "%s", path);
}

void ac_lora_config_free(ac_lora_config *config) {
  free_patterns(config->target_pattern);
  free_patterns(config->rank_patterns);
  free_patterns(config->alpha_patterns);
  json_decref(config->json);
  *config = (ac_lora_config){.json = NULL};
}

/* ---- what it says of a layer ----------------------------------------------------------------- */

/* The pattern at `place`, between `before` and `after`; compiled already if a name was compared
 * with it before. */
static ac_status compile(ac_lora_patterns *p, const char *before, const char *pattern,
                         const char *after, size_t place) {
  char text[4096];
  int error = 0;
  size_t offset = 0;
  if (p->codes[place]) return AC_OK;
  const int length = snprintf(text, sizeof text, "%s%s%s", before, pattern, after);
  if (length < 0 || (size_t)length >= sizeof text)
    return ac_fail(AC_ERROR_FORMAT, "\"%s\" has a pattern of more than 4000 bytes", p->key);
  p->codes[place] =
      pcre2_compile((PCRE2_SPTR)text, PCRE2_ZERO_TERMINATED,
                    PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_UTF, &error, &offset, NULL);
  if (p->codes[place]) return AC_OK;
  PCRE2_UCHAR message[120];
  if (error == PCRE2_ERROR_HEAP_FAILED) return ac_fail(AC_ERROR_MEMORY, "no memory for a pattern");
  pcre2_get_error_message(error, message, sizeof message);
  return ac_fail(AC_ERROR_FORMAT, "\"%s\": the pattern %s cannot be used: %s", p->key,
                 ac_quote(pattern).text, (const char *)message);
}

/* Whether before, PATTERN and after match the whole name. */
static ac_status matches(ac_lora_patterns *p, const char *before, const char *pattern,
                         const char *after, size_t place, const char *name, bool *matched) {
  *matched = false;
  AC_TRY(compile(p, before, pattern, after, place));
  const int result =
      pcre2_match(p->codes[place], (PCRE2_SPTR)name, strlen(name), 0, 0, p->data, p->context);
  *matched = result >= 0;
  if (result >= 0 || result == PCRE2_ERROR_NOMATCH) return AC_OK;
  if (result == PCRE2_ERROR_NOMEMORY) return ac_fail(AC_ERROR_MEMORY, "no memory for a pattern");
  return ac_fail(AC_ERROR_FORMAT, "\"%s\": the pattern %s takes too many steps", p->key,
                 ac_quote(pattern).text);
}

static bool is_end(const char *word, const char *name) {
  const size_t all = strlen(name), part = strlen(word);
  return part < all && !strcmp(name + all - part, word) && name[all - part - 1] == '.';
}

static ac_status find_target(const ac_lora_config *c, const char *name, bool *target) {
  const json_t *one;
  size_t i;
  const char *pattern = json_string_value(c->targets);
  *target = false;
  if (pattern && !strcmp(pattern, "all-linear")) {
    *target = true;
    return AC_OK;
  }
  if (pattern) return matches(c->target_pattern, "", pattern, "", 0, name, target);
  json_array_foreach(c->targets, i, one)
    *target |= !strcmp(json_string_value(one), name) || is_end(json_string_value(one), name);
  return AC_OK;
}

/* The first pattern that matches decides. */
static ac_status find_number(ac_lora_patterns *compiled, const json_t *patterns, const char *name,
                             double *number) {
  const char *pattern;
  json_t *value;
  size_t place = 0;
  bool matched = false;
  json_object_foreach((json_t *)(uintptr_t)patterns, pattern, value) {
    AC_TRY(matches(compiled, "(?:.*\\.)?(?:", pattern, ")", place++, name, &matched));
    if (!matched) continue;
    *number = json_number_value(value);
    return AC_OK;
  }
  return AC_OK;
}

ac_status ac_lora_config_of(const ac_lora_config *config, const char *name, ac_lora_said *said) {
  double rank = (double)config->rank;
  *said = (ac_lora_said){.alpha = config->alpha};
  AC_TRY(find_target(config, name, &said->target));
  if (config->ranks) AC_TRY(find_number(config->rank_patterns, config->ranks, name, &rank));
  if (config->alphas)
    AC_TRY(find_number(config->alpha_patterns, config->alphas, name, &said->alpha));
  if (!(rank >= 1) || rank > INT32_MAX || rank != floor(rank))
    return ac_fail(AC_ERROR_FORMAT, "\"rank_pattern\": %s has no whole number",
                   ac_quote(name).text);
  said->rank = (int64_t)rank;
  return AC_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char *last_part(const char *name) {
  const char *dot = strrchr(name, '.');
  return dot ? dot + 1 : name;
}

/* Whether all layers with this last part have an adapter. */
static bool names_all(const ac_lora_written *layers, const char *part) {
  for (int i = 0; i < layers->count; i++)
    if (!layers->choices[i].rank && !strcmp(last_part(layers->names[i]), part)) return false;
  return true;
}

static bool has_text(const json_t *list, const char *text) {
  const json_t *one;
  size_t i;
  json_array_foreach(list, i, one)
    if (!strcmp(json_string_value(one), text)) return true;
  return false;
}

/* Ends of names where these are enough, else whole names. */
static json_t *targets_of(const ac_lora_written *layers) {
  json_t *list = json_array();
  for (int i = 0; i < layers->count && list; i++) {
    const char *name = layers->names[i], *part = last_part(name);
    if (!layers->choices[i].rank) continue;
    const char *text = names_all(layers, part) ? part : name;
    if (has_text(list, text) || !json_array_append_new(list, json_string(text))) continue;
    json_decref(list);
    return NULL;
  }
  return list;
}

/* The name as a pattern that matches it alone. */
static void put_literal(char *pattern, size_t size, const char *name) {
  size_t used = 0;
  for (; *name && used + 3 < size; name++) {
    if (strchr("\\^$.|?*+()[]{}", *name)) pattern[used++] = '\\';
    pattern[used++] = *name;
  }
  pattern[used] = 0;
}

/* Numbers that differ from the common ones. */
static json_t *exceptions(const ac_lora_written *layers, int64_t rank, double alpha, bool ranks) {
  json_t *object = json_object();
  for (int i = 0; i < layers->count && object; i++) {
    const ac_lora_choice *c = &layers->choices[i];
    char pattern[2 * AC_MAX_NAME + 8];
    if (!c->rank || (ranks ? c->rank == rank : c->alpha == alpha)) continue;
    put_literal(pattern, sizeof pattern, layers->names[i]);
    if (!json_object_set_new(object, pattern, ranks ? json_integer(c->rank) : json_real(c->alpha)))
      continue;
    json_decref(object);
    return NULL;
  }
  return object;
}

ac_status ac_lora_config_write(char **text, const ac_lora_desc *desc, const char *base,
                               const ac_lora_written *layers) {
  *text = NULL;
  const ac_lora_choice *first = NULL;
  for (int i = 0; i < layers->count && !first; i++)
    if (layers->choices[i].rank) first = &layers->choices[i];
  if (!first) return ac_fail(AC_ERROR_ARGUMENT, "adapter: no parameter belongs to an adapter");
  const int64_t rank = desc->rank ? desc->rank : first->rank;
  const double alpha = desc->alpha > 0 ? desc->alpha : first->alpha;
  const bool whole = alpha == floor(alpha) && alpha < 1e9;
  json_t *json = json_object();
  int failed = 0;
  failed |= json_object_set_new(json, "peft_type", json_string("LORA"));
  failed |=
      json_object_set_new(json, "base_model_name_or_path",
                          base && *base && ac_is_utf8(base) ? json_string(base) : json_null());
  failed |= json_object_set_new(json, "task_type", json_string("CAUSAL_LM"));
  failed |= json_object_set_new(json, "inference_mode", json_true());
  failed |= json_object_set_new(json, "r", json_integer(rank));
  failed |= json_object_set_new(json, "lora_alpha",
                                whole ? json_integer((json_int_t)alpha) : json_real(alpha));
  failed |= json_object_set_new(json, "lora_dropout", json_real(desc->dropout));
  failed |= json_object_set_new(json, "use_rslora", json_boolean(desc->rank_stabilised));
  failed |= json_object_set_new(json, "use_dora", json_boolean(desc->dora));
  failed |= json_object_set_new(json, "bias", json_string("none"));
  failed |= json_object_set_new(json, "fan_in_fan_out", json_boolean(layers->in_out));
  failed |= json_object_set_new(json, "target_modules", targets_of(layers));
  failed |= json_object_set_new(json, "rank_pattern", exceptions(layers, rank, alpha, true));
  failed |= json_object_set_new(json, "alpha_pattern", exceptions(layers, rank, alpha, false));
  failed |= json_object_set_new(json, "modules_to_save", json_null());
  const ac_plain_numbers numbers = ac_plain_numbers_begin();
  const size_t size = failed ? 0 : json_dumpb(json, NULL, 0, JSON_INDENT(2));
  if (size && (*text = malloc(size + 1)))
    (*text)[json_dumpb(json, *text, size, JSON_INDENT(2))] = 0;
  ac_plain_numbers_end(&numbers);
  json_decref(json);
  return *text ? AC_OK : ac_fail(AC_ERROR_MEMORY, "adapter: no memory for its description");
}
