/* Chat templates against Jinja: tests/vectors/chat/templates.json has conversations and what the
 * templates of published models make of them. An argument names another such file, also with the
 * templates' own texts. Then the tokens of rendered texts, and which texts are recognised. */
#include "support/files.h"

#include <accrue/chat.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

static test_path vectors;

static const char *const kinds[] = {"gpt2", "llama2", "gemma", "mistral", "qwen", "smollm"};
enum { KINDS = sizeof kinds / sizeof *kinds, MOST = 16 };
static ac_tokenizer *tokenizers[KINDS];

static int prepare(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; k++) {
    test_path path;
    snprintf(path.text, sizeof path.text, "%s/tokenizers/%s.json", ACCRUE_TEST_VECTORS, kinds[k]);
    assert_ok(ac_tokenizer_open(&tokenizers[k], path.text));
  }
  return 0;
}

static int finish(void **state) {
  (void)state;
  for (int k = 0; k < KINDS; k++) ac_tokenizer_free(tokenizers[k]);
  return 0;
}

/* ---- against the reference ------------------------------------------------------------------- */

static size_t read_messages(const json_t *one, ac_chat_message *messages) {
  const json_t *list = json_object_get(one, "messages"), *message;
  size_t i;
  assert_true(json_array_size(list) <= MOST);
  json_array_foreach(list, i, message)
    messages[i] =
        (ac_chat_message){.role = json_string_value(json_object_get(message, "role")),
                          .content = json_string_value(json_object_get(message, "content"))};
  return json_array_size(list);
}

static void check_spans(const json_t *one, const ac_chat_text *text) {
  const json_t *expected = json_object_get(one, "learned");
  size_t at = 0, found = 0;
  for (size_t i = 0; i < text->span_count; i++) {
    assert_int_equal(text->spans[i].begin, at);
    assert_true(text->spans[i].end > at);
    at = text->spans[i].end;
  }
  assert_int_equal(at, text->bytes);
  for (size_t i = 0; expected && i < text->span_count; i++) {
    if (!text->spans[i].learned) continue;
    size_t end = i; /* contents and what ends them follow each other */
    while (end + 1 < text->span_count && text->spans[end + 1].learned) end++;
    const json_t *pair = json_array_get(expected, found++);
    if (json_integer_value(json_array_get(pair, 0)) != (json_int_t)text->spans[i].begin ||
        json_integer_value(json_array_get(pair, 1)) != (json_int_t)text->spans[end].end)
      fail_msg("learned is [%zu, %zu), not [%lld, %lld), of %s", text->spans[i].begin,
               text->spans[end].end, json_integer_value(json_array_get(pair, 0)),
               json_integer_value(json_array_get(pair, 1)), text->text);
    i = end;
  }
  if (expected) assert_int_equal(found, json_array_size(expected));
}

/* The tokens are those of the whole text: messages have no names of special tokens. */
static void check_tokens(const ac_chat_text *text) {
  for (int k = 0; k < KINDS; k++) {
    ac_encoding whole, parts;
    bool *learned;
    assert_ok(ac_tokenizer_encode(tokenizers[k], text->text, text->bytes, NULL, &whole));
    assert_ok(ac_chat_encode(tokenizers[k], text, &parts, &learned));
    assert_int_equal(parts.count, whole.count);
    assert_memory_equal(parts.ids, whole.ids, whole.count * sizeof *whole.ids);
    free(learned);
    ac_encoding_free(&whole);
    ac_encoding_free(&parts);
  }
}

static void check_case(const ac_chat_template *chat_template, const json_t *of, const json_t *one) {
  const ac_chat_render_desc desc = {.generation_prompt =
                                        json_is_true(json_object_get(one, "prompt")),
                                    .begin = json_string_value(json_object_get(of, "begin")),
                                    .end = json_string_value(json_object_get(of, "end"))};
  const char *expected = json_string_value(json_object_get(one, "text"));
  ac_chat_message messages[MOST];
  ac_chat_text text;
  const size_t count = read_messages(one, messages);
  if (!expected) {
    assert_refused(ac_chat_render(chat_template, messages, count, &desc, &text), AC_ERROR_FORMAT,
                   "");
    return;
  }
  assert_ok(ac_chat_render(chat_template, messages, count, &desc, &text));
  if (strcmp(text.text, expected))
    fail_msg("%s renders\n%s\nnot\n%s", ac_chat_template_name(chat_template), text.text, expected);
  assert_int_equal(text.bytes, strlen(expected));
  check_spans(one, &text);
  check_tokens(&text);
  ac_chat_text_free(&text);
}

static void texts_are_those_of_jinja(void **state) {
  (void)state;
  json_error_t error;
  json_t *list = json_load_file(vectors.text, 0, &error), *of, *one;
  size_t t, i, rendered = 0;
  assert_true(json_array_size(list) > 20);
  json_array_foreach(list, t, of) {
    const char *name = json_string_value(json_object_get(of, "name"));
    const json_t *jinja = json_object_get(of, "jinja");
    const ac_chat_template *chat_template, *recognised;
    assert_ok(ac_chat_template_find(&chat_template, name));
    if (jinja) {
      assert_ok(ac_chat_template_recognise(&recognised, json_string_value(jinja)));
      assert_string_equal(ac_chat_template_name(recognised), name);
    }
    json_array_foreach(json_object_get(of, "cases"), i, one) {
      check_case(chat_template, of, one);
      rendered += json_object_get(one, "text") != NULL;
    }
  }
  assert_true(rendered > 80);
  if (rendered > 1000) printf("%zu templates, %zu conversations\n", t, rendered);
  json_decref(list);
}

/* ---- templates that are recognised ----------------------------------------------------------- */

static const char *name_of(const char *jinja) {
  const ac_chat_template *found;
  if (ac_chat_template_recognise(&found, jinja) == AC_OK) return ac_chat_template_name(found);
  assert_contains(ac_last_error(), "none that this library renders");
  assert_null(found);
  return "(none)";
}

/* ChatML, in the ways in which it is written. */
static void only_what_renders_the_same_is_recognised(void **state) {
  (void)state;
  static const char *const same[] = {
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
      "message['content'] "
      "+ '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|im_start|>assistant\\n' }}{% endif %}",
      "{%- for message in messages -%}\n    {{- \"<|im_start|>\" + message.role + \"\\n\" + "
      "message.content + \"<|im_end|>\" + \"\n\" -}}\n{%- endfor -%}\n{%- "
      "if\tadd_generation_prompt "
      "-%}\n  {# the answer #}\n  {{- '<|im_start|>assistant\\n' -}}\n{%- endif -%}\n",
  };
  static const char *const other[] = {
      /* a new line that stays, another text, another condition, blanks in a text, a cut one */
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
      "message['content'] "
      "+ '<|im_end|>' + '\\n'}}\n{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|im_start|>assistant\\n' }}{% endif %}",
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
      "message['content'] "
      "+ '<|im_end|>'}}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|im_start|>assistant\\n' }}{% endif %}",
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
      "message['content'] "
      "| trim + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|im_start|>assistant\\n' }}{% endif %}",
      "{% for message in messages %}{{'<|im_start|> ' + message['role'] + '\\n' + "
      "message['content'] "
      "+ '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|im_start|>assistant\\n' }}{% endif %}",
      "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n'",
      "{% for message in messages %}{{'<|im_start|>",
      "{% for message in messages[1:] %}{{'<|im_start|>' + message['role'] + '\\n' + "
      "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|im_start|>assistant\\n' }}{% endif %}",
      "",
      "{",
      "{%",
      "{#",
      "{{ '",
      "{{ '\\",
      "{{ a['",
      "{{ a['b",
      "{{ a['b']",
      "-%}"};
  assert_string_equal(name_of(same[0]), "chatml");
  assert_string_equal(name_of(same[1]), "chatml");
  for (size_t i = 0; i < sizeof other / sizeof *other; i++)
    assert_string_equal(name_of(other[i]), "(none)");
}

static void templates_are_found_by_name(void **state) {
  (void)state;
  const ac_chat_template *found;
  assert_true(ac_chat_template_count() > 20);
  for (int i = 0; i < ac_chat_template_count(); i++) {
    assert_ok(ac_chat_template_find(&found, ac_chat_template_name(ac_chat_template_at(i))));
    assert_ptr_equal(found, ac_chat_template_at(i));
  }
  assert_null(ac_chat_template_at(-1));
  assert_null(ac_chat_template_at(ac_chat_template_count()));
  assert_refused(ac_chat_template_find(&found, "chat ml"), AC_ERROR_ARGUMENT, "chatml, ");
  assert_contains(ac_last_error(), "zephyr");
}

static void dates_and_special_names(void **state) {
  (void)state;
  const ac_chat_template *dated;
  const ac_chat_message messages[] = {{"user", "hi", AC_TURN_DEFAULT}};
  ac_chat_text text;
  assert_ok(ac_chat_template_find(&dated, "llama3.1"));
  assert_ok(ac_chat_render(dated, messages, 1, NULL, &text));
  assert_contains(text.text, "Today Date: 26 Jul 2024\n\n<|eot_id|>");
  ac_chat_text_free(&text);
  assert_ok(
      ac_chat_render(dated, messages, 1, &(ac_chat_render_desc){.date = "01 Jan 2030"}, &text));
  assert_contains(text.text, "Today Date: 01 Jan 2030\n\n<|eot_id|>");
  ac_chat_text_free(&text);
  assert_refused(ac_chat_render(dated, messages, 0, NULL, &text), AC_ERROR_FORMAT, "no messages");
  assert_null(text.text);
}

/* Spans of a caller's own. */
static void spans_must_cover_the_text(void **state) {
  (void)state;
  ac_chat_span spans[] = {{0, 3, false, false}, {3, 11, true, true}};
  char bytes[] = "ab <|im_end";
  ac_chat_text text = {bytes, 11, spans, 2};
  ac_encoding encoding;
  bool *learned;
  assert_ok(ac_chat_encode(tokenizers[0], &text, &encoding, &learned));
  assert_false(learned[0]);
  assert_true(learned[encoding.count - 1]);
  free(learned);
  ac_encoding_free(&encoding);
  spans[1].begin = 4;
  assert_refused(ac_chat_encode(tokenizers[0], &text, &encoding, &learned), AC_ERROR_ARGUMENT,
                 "cover");
  spans[1] = (ac_chat_span){3, 12, true, true};
  assert_refused(ac_chat_encode(tokenizers[0], &text, &encoding, NULL), AC_ERROR_ARGUMENT, "cover");
  text.span_count = 1;
  assert_refused(ac_chat_encode(tokenizers[0], &text, &encoding, NULL), AC_ERROR_ARGUMENT, "cover");
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_are_those_of_jinja),
      cmocka_unit_test(only_what_renders_the_same_is_recognised),
      cmocka_unit_test(templates_are_found_by_name),
      cmocka_unit_test(dates_and_special_names),
      cmocka_unit_test(spans_must_cover_the_text),
  };
  snprintf(vectors.text, sizeof vectors.text, "%s/chat/templates.json", ACCRUE_TEST_VECTORS);
  if (argc > 1) snprintf(vectors.text, sizeof vectors.text, "%s", argv[1]);
  return cmocka_run_group_tests(tests, prepare, finish);
}
