/* The schema of policy files agrees with their parser: it has each rule, and both judge good, bad
 * and borderline values alike. This test knows the part of JSON Schema that the schema uses. */
#include "common/message.h" /* before cmocka, which has a macro `fail` */
#include "program/policy.h"

#include "support/check.h"

#include <jansson.h>
#include <math.h>
#include <regex.h>
#include <unistd.h>

static json_t *schema;

/* ---- a validator ----------------------------------------------------------------------------- */

static bool has_type(const json_t *value, const char *type) {
  if (!strcmp(type, "object")) return json_is_object(value);
  if (!strcmp(type, "array")) return json_is_array(value);
  if (!strcmp(type, "string")) return json_is_string(value);
  if (!strcmp(type, "boolean")) return json_is_boolean(value);
  if (!strcmp(type, "number")) return json_is_number(value);
  assert_string_equal(type, "integer");
  const double number = json_number_value(value);
  return json_is_number(value) && number == floor(number);
}

/* 1.0 is 1. */
static bool are_equal(const json_t *a, const json_t *b) {
  if (json_is_number(a) && json_is_number(b)) return json_number_value(a) == json_number_value(b);
  return json_equal(a, b);
}

static bool matches(const char *pattern, const char *text) {
  regex_t regex;
  assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
  const bool good = regexec(&regex, text, 0, NULL, 0) == 0;
  regfree(&regex);
  return good;
}

static bool is_valid(const json_t *rule, const json_t *value);

static bool is_any(const json_t *rules, const json_t *value) {
  size_t i;
  json_t *rule;
  json_array_foreach(rules, i, rule)
    if (is_valid(rule, value)) return true;
  return false;
}

static bool has_items(const json_t *rule, const json_t *value) {
  size_t i;
  json_t *item;
  json_array_foreach(value, i, item)
    if (!is_valid(rule, item)) return false;
  return true;
}

static bool has_properties(const json_t *rules, const json_t *value) {
  const char *name;
  json_t *own;
  json_object_foreach((json_t *)value, name, own) {
    const json_t *rule = json_object_get(rules, name);
    if (!rule || !is_valid(rule, own)) return false;
  }
  return true;
}

static bool has_all(const json_t *names, const json_t *value) {
  size_t i;
  json_t *name;
  json_array_foreach(names, i, name)
    if (!json_object_get(value, json_string_value(name))) return false;
  return true;
}

static bool obeys(const char *key, const json_t *says, const json_t *value) {
  const double number = json_number_value(value), limit = json_number_value(says);
  if (!strcmp(key, "type")) return has_type(value, json_string_value(says));
  if (!strcmp(key, "const")) return are_equal(says, value);
  if (!strcmp(key, "minimum")) return number >= limit;
  if (!strcmp(key, "exclusiveMinimum")) return number > limit;
  if (!strcmp(key, "pattern")) return matches(json_string_value(says), json_string_value(value));
  if (!strcmp(key, "minItems")) return (double)json_array_size(value) >= limit;
  if (!strcmp(key, "maxItems")) return (double)json_array_size(value) <= limit;
  if (!strcmp(key, "items")) return has_items(says, value);
  if (!strcmp(key, "anyOf")) return is_any(says, value);
  if (!strcmp(key, "properties")) return has_properties(says, value);
  if (!strcmp(key, "required")) return has_all(says, value);
  if (!strcmp(key, "additionalProperties")) return json_is_false(says);
  if (!strcmp(key, "$ref")) {
    assert_string_equal(json_string_value(says), "#/$defs/size");
    return is_valid(json_object_get(json_object_get(schema, "$defs"), "size"), value);
  }
  const bool tells = !strcmp(key, "description") || !strcmp(key, "title") ||
                     !strcmp(key, "$schema") || !strcmp(key, "$defs");
  if (!tells) fail_msg("the schema has the unknown word %s", key);
  return true;
}

/* Its type comes first, as other words are of values of that type. */
static bool is_valid(const json_t *rule, const json_t *value) {
  const char *key;
  json_t *says;
  const json_t *type = json_object_get(rule, "type");
  if (type && !has_type(value, json_string_value(type))) return false;
  json_object_foreach((json_t *)rule, key, says)
    if (!obeys(key, says, value)) return false;
  return true;
}

/* ---- both ------------------------------------------------------------------------------------ */

static bool parser_takes(const char *text) {
  static char path[] = "/tmp/accrue-policy-XXXXXX";
  static int file = -1;
  policy p;
  if (file < 0) file = mkstemp(path);
  assert_true(file >= 0 && ftruncate(file, 0) == 0);
  assert_int_equal(pwrite(file, text, strlen(text), 0), (int)strlen(text));
  const int status = policy_read(&p, path);
  return status == STATUS_CONTINUE;
}

static void both_say(const char *text) {
  json_t *value = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
  assert_non_null(value);
  const bool valid = is_valid(schema, value), taken = parser_takes(text);
  json_decref(value);
  if (valid != taken)
    fail_msg("%s: the schema says %s, the parser %s", text, valid ? "yes" : "no",
             taken ? "yes" : "no");
}

static const char *const values[] = {
    "1",
    "0",
    "-1",
    "1.5",
    "2.0",
    "-2e0",
    "1e-9",
    "9007199254740993",
    "true",
    "false",
    "null",
    "{}",
    "\"\"",
    "\"1\"",
    "\"0\"",
    "\"64MiB\"",
    "\"1.5GiB\"",
    "\"0.5KiB\"",
    "\".5MiB\"",
    "\"64MB\"",
    "\"64 MiB\"",
    "\"B\"",
    "\"10B\"",
    "\"0B\"",
    "\"0.0GiB\"",
    "\"1..5GiB\"",
    "\"-1B\"",
    "\"1e3\"",
    "[]",
    "[1]",
    "[1, -2, 0]",
    "[1.5]",
    "[2.0]",
    "[\"1\"]",
    "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
    "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
    "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
    "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]"};

static void both_think_the_same(void **state) {
  (void)state;
  char text[512];
  const json_t *properties = json_object_get(schema, "properties");
  assert_int_equal(json_object_size(properties), POLICY_RULES + 2); /* version, $schema */
  for (int rule = 0; rule < POLICY_RULES; rule++) {
    const char *name = policy_rule_name((policy_rule)rule);
    if (!json_object_get(properties, name)) fail_msg("the schema lacks the rule %s", name);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
      snprintf(text, sizeof text, "{\"version\": 1, \"%s\": %s}", name, values[i]);
      both_say(text);
    }
  }
  both_say("{}");
  both_say("[]");
  both_say("{\"version\": 2}");
  both_say("{\"version\": \"1\"}");
  both_say("{\"version\": 1}");
  both_say("{\"max_lr\": 1}");
  both_say("{\"version\": 1, \"max_rate\": 1}");
  both_say("{\"version\": 1.0}");
  both_say("{\"version\": 1, \"$schema\": \"policy.schema.json\"}");
  both_say("{\"version\": 1, \"$schema\": 5}");
}

static int open_schema(void **state) {
  (void)state;
  schema = json_load_file(ACCRUE_POLICY_SCHEMA, JSON_REJECT_DUPLICATES, NULL);
  return schema ? 0 : 1;
}

static int close_schema(void **state) {
  (void)state;
  json_decref(schema);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(both_think_the_same)};
  return cmocka_run_group_tests(tests, open_schema, close_schema);
}
