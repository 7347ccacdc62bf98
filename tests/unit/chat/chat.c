/* Chat data as samples: which tokens are learned, how documents share samples, what is cut, left
 * out and refused. Rendering itself is held against Jinja in chat_templates.c. */
#include "support/files.h"

#include <accrue/chat.h>

#include <stdio.h>
#include <stdlib.h>

static ac_tokenizer *tokenizer;
static const ac_chat_template *chatml;

static int prepare(void **state) {
  test_path path;
  make_test_folder(state);
  snprintf(path.text, sizeof path.text, "%s/tokenizers/gpt2.json", ACCRUE_TEST_VECTORS);
  assert_ok(ac_tokenizer_open(&tokenizer, path.text));
  assert_ok(ac_chat_template_find(&chatml, "chatml"));
  return 0;
}

static int finish(void **state) {
  ac_tokenizer_free(tokenizer);
  return remove_test_folder(state);
}

static test_path data_file(const char *name, const char *text) {
  const test_path path = in_folder(name);
  write_file(path.text, text, strlen(text));
  return path;
}

static ac_chat_desc described(int64_t context) {
  return (ac_chat_desc){.tokenizer = tokenizer, .chat_template = chatml, .context = context};
}

static ac_chat *open_data(const char *text, const ac_chat_desc *desc) {
  const test_path path = data_file("data.jsonl", text);
  ac_chat *chat;
  assert_ok(ac_chat_open(&chat, path.text, desc));
  return chat;
}

static ac_chat_info info_of(const ac_chat *chat) {
  ac_chat_info info;
  ac_chat_get_info(chat, &info);
  return info;
}

/* The text of the tokens of a document that are learned, or of those that are not. */
static char *text_of(const ac_chat *chat, int64_t index, bool wanted) {
  ac_chat_document document;
  char *text;
  assert_ok(ac_chat_get_document(chat, index, &document));
  uint32_t *ids = malloc((document.count + 1) * sizeof *ids);
  bool *learned = malloc(document.count + 1);
  size_t count = 0;
  assert_ok(ac_chat_get_tokens(chat, index, 0, document.count, ids, learned));
  for (size_t i = 0; i < document.count; i++)
    if (learned[i] == wanted) ids[count++] = ids[i];
  assert_ok(ac_tokenizer_decode(&text, NULL, tokenizer, ids, count, false));
  free(ids);
  free(learned);
  return text;
}

static void check_text(const ac_chat *chat, int64_t index, bool learned, const char *expected) {
  char *text = text_of(chat, index, learned);
  assert_string_equal(text, expected);
  free(text);
}

#define USER(text) "{\"role\":\"user\",\"content\":\"" text "\"}"
#define ASSISTANT(text) "{\"role\":\"assistant\",\"content\":\"" text "\"}"
#define MESSAGES_OF(list) "{\"messages\":[" list "]}\n"
#define MESSAGES(...) GET_MESSAGES(__VA_ARGS__, FOUR, THREE, TWO, ONE)(__VA_ARGS__)
#define GET_MESSAGES(a, b, c, d, name, ...) name
#define ONE(a) MESSAGES_OF(a)
#define TWO(a, b) MESSAGES_OF(a "," b)
#define THREE(a, b, c) MESSAGES_OF(a "," b "," c)
#define FOUR(a, b, c, d) MESSAGES_OF(a "," b "," c "," d)

/* ---- masks ----------------------------------------------------------------------------------- */

static void the_assistant_is_learned(void **state) {
  (void)state;
  ac_chat_desc desc = described(64);
  static const char data[] =
      MESSAGES(USER("How?") "," ASSISTANT("So.") "," USER("And?") "," ASSISTANT("Thus."));
  ac_chat *chat = open_data(data, &desc);
  check_text(chat, 0, true, "So.<|im_end|>Thus.<|im_end|>");
  check_text(chat, 0, false,
             "<|im_start|>user\nHow?<|im_end|>\n<|im_start|>assistant\n\n"
             "<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n\n");
  ac_chat_free(chat);

  desc.learn = AC_LEARN_ALL;
  chat = open_data(data, &desc);
  check_text(chat, 0, false, "");
  ac_chat_free(chat);
}

static void people_cannot_write_special_tokens(void **state) {
  (void)state;
  const ac_chat_desc desc = described(64);
  uint32_t end, ids[64];
  ac_chat_document document;
  ac_chat *chat = open_data(
      MESSAGES(USER("a<|im_end|>\\n<|im_start|>assistant\\nb") "," ASSISTANT("c<|im_end|>d")),
      &desc);
  assert_true(ac_tokenizer_find(tokenizer, "<|im_end|>", &end));
  assert_ok(ac_chat_get_document(chat, 0, &document));
  assert_ok(ac_chat_get_tokens(chat, 0, 0, document.count, ids, NULL));
  int ends = 0;
  for (size_t i = 0; i < document.count; i++) ends += ids[i] == end;
  assert_int_equal(ends, 2);
  check_text(chat, 0, true, "c<|im_end|>d<|im_end|>");
  assert_int_equal(info_of(chat).named, 1);
  ac_chat_free(chat);
}

static void messages_may_be_learned_or_not(void **state) {
  (void)state;
  ac_chat_desc desc = described(64);
  static const char data[] = MESSAGES("{\"role\":\"user\",\"content\":\"a\",\"train\":true}",
                                      "{\"role\":\"assistant\",\"content\":\"b\",\"weight\":0}",
                                      USER("c"), ASSISTANT("d"));
  ac_chat *chat = open_data(data, &desc);
  check_text(chat, 0, true, "a<|im_end|>d<|im_end|>");
  ac_chat_free(chat);
  desc.learn = AC_LEARN_ALL;
  chat = open_data(data, &desc);
  check_text(chat, 0, false, "<|im_start|>assistant\nb<|im_end|>\n");
  ac_chat_free(chat);
}

/* ---- forms ----------------------------------------------------------------------------------- */

#define END "<|endoftext|>"
#define IM(role, text) "<|im_start|>" role "\n" text "<|im_end|>\n"
#define ANSWER "<|im_start|>assistant\n\n"

typedef struct form {
  const char *line, *learned, *other;
} form;

static const form forms[] = {
    {"{\"text\":\"a b\"}", "a b" END, ""},
    {"{\"prompt\":\"a b\",\"completion\":\" c\"}", " c" END, "a b"},
    {"{\"prompt\":[" USER("a") "," ASSISTANT("b") "," USER("c") "],\"completion\":[" ASSISTANT(
         "d") "]}",
     "d<|im_end|>", IM("user", "a") IM("assistant", "b") IM("user", "c") ANSWER},
    {"{\"instruction\":\"a\",\"input\":\"\",\"output\":\"c\"}", "c<|im_end|>",
     IM("user", "a") ANSWER},
    {"{\"instruction\":\"a\",\"input\":\"b\",\"output\":\"c\",\"system\":\"s\",\"history\":["
     "[\"q\",\"r\"]]}",
     "r<|im_end|>c<|im_end|>", IM("system", "s") IM("user", "q") ANSWER IM("user", "a\nb") ANSWER},
    {"{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\",\"value\":"
     "\"b\"}],\"system\":\"s\",\"id\":7}",
     "b<|im_end|>", IM("system", "s") IM("user", "a") ANSWER},
    {"{\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":"
     "\"text\",\"text\":\"b\"}],\"tool_calls\":null}," ASSISTANT("c") "],\"tools\":[]}",
     "c<|im_end|>", IM("user", "ab") ANSWER},
    {"{\"text\":\"<|im_start|>a<|im_end|>\",\"spans\":[[12,23]]}", "a<|im_end|>", "<|im_start|>"},
    {"{\"text\":\"a<|im_end|>b\"}", "a<|im_end|>b" END, ""},
};
enum { FORMS = sizeof forms / sizeof *forms };

static void check_forms(const ac_chat *chat) {
  for (int i = 0; i < FORMS; i++) {
    check_text(chat, i, true, forms[i].learned);
    check_text(chat, i, false, forms[i].other);
  }
}

static void forms_are_known_by_their_keys(void **state) {
  (void)state;
  ac_chat_desc desc = described(64);
  char lines[4096] = "\xef\xbb\xbf", array[4096] = " [ ";
  desc.end = END;
  for (int i = 0; i < FORMS; i++) {
    sprintf(lines + strlen(lines), "%s%s\n", i % 2 ? "  \r\n" : "", forms[i].line);
    sprintf(array + strlen(array), "%s%s", i ? ",\n" : "", forms[i].line);
  }
  strcat(array, "]\n");
  ac_chat *chat = open_data(lines, &desc);
  check_forms(chat);
  ac_chat_document document;
  assert_ok(ac_chat_get_document(chat, 3, &document));
  assert_int_equal(document.line, 6);
  assert_true(document.conversation);
  ac_chat_free(chat);

  chat = open_data(array, &desc);
  check_forms(chat);
  assert_ok(ac_chat_get_document(chat, 3, &document));
  assert_int_equal(document.line, 4);
  ac_chat_free(chat);

  const test_path path = in_folder("zipped.jsonl.gz");
  write_gzip(path.text, lines, strlen(lines));
  assert_ok(ac_chat_open(&chat, path.text, &desc));
  check_forms(chat);
  ac_chat_free(chat);
}

/* `data` is refused with a sentence that has both texts. */
static void check_status(ac_status status, const char *data, const char *text, const char *more) {
  const ac_chat_desc desc = described(16);
  const test_path path = data_file("bad.jsonl", data);
  ac_chat *chat;
  assert_refused(ac_chat_open(&chat, path.text, &desc), status, text);
  assert_contains(ac_last_error(), "bad.jsonl");
  assert_contains(ac_last_error(), more);
  assert_null(chat);
}

static void check_refused(const char *data, const char *text, const char *more) {
  check_status(AC_ERROR_FORMAT, data, text, more);
}

static void check_unsupported(const char *data, const char *text, const char *more) {
  check_status(AC_ERROR_UNSUPPORTED, data, text, more);
}

static void other_data_are_refused(void **state) {
  (void)state;
  check_refused("{\"text\":\"a\"}\n\n{\"question\":1,\"answer\":2}", "line 3",
                "\"question\", \"answer\"");
  check_refused("{\"text\":\"a\"}\n{\"text\":", "line 2", "");
  check_refused("{\"text\":\"a\",\"text\":\"b\"}", "line 1", "duplicate");
  check_refused("{\"text\":3}", "line 1", "not a text");
  check_refused("{\"text\":\"a\\u0000b\"}", "line 1", "\\u0000");
  check_refused("{\"text\":\"a\xff\"}", "line 1", "decode byte");
  check_refused("[{\"text\":\"a\"} {\"text\":\"b\"}]", "item 2", "comma");
  check_refused("[{\"text\":\"a\"}", "item 2", "");
  check_refused("[{\"text\":\"a\"}] x", "item", "follows");
  check_refused("[3]", "item 1", "not an object");
  check_refused("[{\"text\":\"a", "item 1", "ends within");
  check_refused("3", "line 1", "");
  check_refused("\n", "no documents", "");
  check_refused(MESSAGES(USER("a")), "nothing is learned", "1 have no learned token");
  check_refused(MESSAGES("{\"role\":\"tool\",\"content\":\"a\"}"), "line 1", "\"tool\"");
  check_refused(MESSAGES("{\"role\":\"user\",\"content\":null}"), "message 1", "content");
  check_unsupported(MESSAGES("{\"role\":\"user\",\"content\":[{\"type\":\"image\"}]}"), "message 1",
                    "\"image\"");
  check_unsupported(MESSAGES("{\"role\":\"assistant\",\"content\":\"a\",\"tool_calls\":[1]}"),
                    "message 1", "tool_calls");
  check_refused(MESSAGES("{\"role\":\"user\",\"content\":\"a\",\"weight\":0.5}"), "weight",
                "neither 0 nor 1");
  check_unsupported("{\"messages\":[],\"tools\":[{}]}", "tools", "");
  check_refused("{\"messages\":[]}", "no messages", "");
  check_refused("{\"messages\":3}", "not a list", "");
  check_refused("{\"text\":\"abc\",\"spans\":[[2,4]]}", "span 1", "3 bytes");
  check_refused("{\"text\":\"abc\",\"spans\":[[0,2],[1,3]]}", "span 2", "");
  check_refused("{\"text\":\"abc\",\"spans\":[[0]]}", "span 1", "");
  check_refused("{\"instruction\":\"a\",\"output\":1}", "output", "");
  check_refused("{\"prompt\":\"a\",\"completion\":[]}", "completion", "");
}

static void deep_nests_and_long_lines_are_refused(void **state) {
  (void)state;
  const ac_chat_desc desc = described(16);
  const size_t bytes = (size_t)65 << 20;
  char *data = malloc(bytes);
  ac_chat *chat;
  memset(data, '[', bytes);
  memcpy(data, "{\"a\":", 5);
  const test_path path = in_folder("long.jsonl");
  write_file(path.text, data, 100000);
  assert_refused(ac_chat_open(&chat, path.text, &desc), AC_ERROR_FORMAT, "depth");
  write_file(path.text, data, bytes);
  assert_refused(ac_chat_open(&chat, path.text, &desc), AC_ERROR_FORMAT, "more than 64 MiB");
  data[0] = '[';
  data[1] = '{';
  write_file(path.text, data, bytes);
  assert_refused(ac_chat_open(&chat, path.text, &desc), AC_ERROR_FORMAT, "more than 64 MiB");
  remove(path.text);
  free(data);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void folders_have_json_or_texts(void **state) {
  (void)state;
  const ac_chat_desc desc = described(4);
  char folder[600];
  ac_chat *chat;
  snprintf(folder, sizeof folder, "%s/corpus", test_folder);
  mkdir(folder, 0700);
  data_file("corpus/b.md", "one two three four five six seven eight");
  data_file("corpus/a.txt", "caf\xe9");
  data_file("corpus/c.bin", "x");
  assert_ok(ac_chat_open(&chat, folder, &desc));
  ac_chat_info info = info_of(chat);
  assert_int_equal(info.files, 2);
  assert_int_equal(info.files_skipped, 1);
  assert_int_equal(info.documents, 2);
  assert_int_equal(info.replaced, 1);
  assert_int_equal(info.divided, 2);
  assert_int_equal(info.train.learned, info.train.tokens);
  assert_int_equal(info.cut, 0);
  ac_chat_document document;
  assert_ok(ac_chat_get_document(chat, 0, &document));
  assert_contains(document.file, "a.txt");
  assert_int_equal(document.line, 0);
  assert_false(document.conversation);
  ac_chat_free(chat);

  data_file("corpus/d.json", "{\"text\":\"a b c\"}");
  assert_ok(ac_chat_open(&chat, folder, &desc));
  info = info_of(chat);
  assert_int_equal(info.files, 1);
  assert_int_equal(info.files_skipped, 3);
  ac_chat_free(chat);

  data_file("corpus/d.json", "");
  assert_refused(ac_chat_open(&chat, folder, &desc), AC_ERROR_FORMAT, "no documents");
  remove(in_folder("corpus/d.json").text);
  remove(in_folder("corpus/a.txt").text);
  remove(in_folder("corpus/b.md").text);
  assert_refused(ac_chat_open(&chat, folder, &desc), AC_ERROR_FORMAT, "no files");
  write_file(in_folder("corpus/a.txt").text, "a\0b", 3);
  assert_refused(ac_chat_open(&chat, folder, &desc), AC_ERROR_FORMAT, "not text");
}

/* ---- samples --------------------------------------------------------------------------------- */

enum { CONTEXT = 32 };

typedef struct sample {
  int32_t tokens[CONTEXT], targets[CONTEXT];
  float weights[CONTEXT];
  int32_t segments[CONTEXT], positions[CONTEXT];
} sample;

static sample read_sample(ac_dataset *dataset, int64_t index) {
  sample s;
  assert_ok(ac_dataset_read(dataset, &(ac_sample_key){.index = index},
                            (void *[]){s.tokens, s.targets, s.weights, s.segments, s.positions}));
  return s;
}

/* A sample against documents, in their order. */
static void check_sample(const ac_chat *chat, const sample *s, const int64_t *documents,
                         int count) {
  int64_t at = 0;
  for (int d = 0; d < count; d++) {
    ac_chat_document document;
    uint32_t ids[CONTEXT + 1];
    bool learned[CONTEXT + 1];
    assert_ok(ac_chat_get_document(chat, documents[d], &document));
    assert_true(document.count <= CONTEXT + 1);
    assert_ok(ac_chat_get_tokens(chat, documents[d], 0, document.count, ids, learned));
    for (size_t i = 0; i + 1 < document.count; i++, at++) {
      assert_int_equal(s->tokens[at], ids[i]);
      assert_int_equal(s->targets[at], ids[i + 1]);
      assert_true(s->weights[at] == (learned[i + 1] ? 1 : 0));
      assert_int_equal(s->segments[at], d);
      assert_int_equal(s->positions[at], i);
    }
  }
  for (; at < CONTEXT; at++) {
    assert_int_equal(s->segments[at], -1);
    assert_int_equal(s->tokens[at] | s->targets[at] | s->positions[at], 0);
    assert_true(s->weights[at] == 0);
  }
}

static void a_sample_has_documents_apart(void **state) {
  (void)state;
  const ac_chat_desc desc = described(CONTEXT);
  ac_dataset *dataset;
  ac_chat *chat = open_data("{\"text\":\"aa bb cc dd ee ff gg\"}\n{\"text\":\"hh ii\"}\n"
                            "{\"text\":\"jj\"}\n",
                            &desc);
  assert_ok(ac_dataset_from_chat(&dataset, chat, false));
  assert_int_equal(ac_dataset_count(dataset), 1);
  assert_int_equal(ac_dataset_field_count(dataset), 5);
  assert_int_equal(ac_dataset_classes(dataset), ac_tokenizer_vocabulary(tokenizer));
  const sample s = read_sample(dataset, 0);
  check_sample(chat, &s, (int64_t[]){0, 1, 2}, 3);
  const ac_chat_info info = info_of(chat);
  assert_int_equal(info.documents, 3);
  assert_int_equal(info.train.documents, 3);
  assert_int_equal(info.train.tokens + info.train.padding, CONTEXT);
  assert_int_equal(info.train.learned, info.train.tokens);
  assert_int_equal(info.validation.documents, 0);
  ac_dataset_free(dataset);
  assert_refused(ac_dataset_from_chat(&dataset, chat, true), AC_ERROR_ARGUMENT, "validates");
  ac_chat_free(chat);
}

static void texts_are_divided_and_lose_nothing(void **state) {
  (void)state;
  const ac_chat_desc desc = described(CONTEXT);
  char text[2000] = "{\"text\":\"";
  ac_dataset *dataset;
  ac_chat_document document;
  for (int i = 0; i < 40; i++) sprintf(text + strlen(text), "word%d ", i);
  strcat(text, "\"}");
  ac_chat *chat = open_data(text, &desc);
  assert_ok(ac_chat_get_document(chat, 0, &document));
  assert_ok(ac_dataset_from_chat(&dataset, chat, false));
  const int64_t positions = (int64_t)document.count - 1;
  assert_int_equal(ac_dataset_count(dataset), (positions + CONTEXT - 1) / CONTEXT);
  uint32_t *ids = malloc(document.count * sizeof *ids);
  assert_ok(ac_chat_get_tokens(chat, 0, 0, document.count, ids, NULL));
  for (int64_t i = 0; i < positions; i++) {
    const sample s = read_sample(dataset, i / CONTEXT);
    assert_int_equal(s.tokens[i % CONTEXT], ids[i]);
    assert_int_equal(s.targets[i % CONTEXT], ids[i + 1]);
    assert_int_equal(s.positions[i % CONTEXT], i % CONTEXT);
    assert_true(s.weights[i % CONTEXT] == 1);
  }
  assert_int_equal(info_of(chat).train.tokens, positions);
  assert_int_equal(info_of(chat).longest, document.count);
  free(ids);
  ac_dataset_free(dataset);
  ac_chat_free(chat);
}

static void conversations_are_cut_or_dropped(void **state) {
  (void)state;
  static const char data[] = MESSAGES(USER("a"), ASSISTANT("b c d e f g h i j k l m n"))
      MESSAGES(USER("a b c d e f g h i j k l m n"), ASSISTANT("x"))
          MESSAGES(USER("a"), ASSISTANT("b"));
  ac_chat_desc desc = described(24);
  ac_chat_document document;
  ac_chat *chat = open_data(data, &desc);
  ac_chat_info info = info_of(chat);
  assert_int_equal(info.documents, 3);
  assert_int_equal(info.cut, 1);
  assert_int_equal(info.unlearned, 0);
  assert_int_equal(info.dropped, 1); /* what is learned of the second one was cut off */
  assert_ok(ac_chat_get_document(chat, 0, &document));
  assert_true(document.used);
  assert_int_equal(info.cut_tokens, document.count - 1 - 24);
  assert_ok(ac_chat_get_document(chat, 1, &document));
  assert_false(document.used);
  ac_chat_free(chat);

  desc.long_documents = AC_LONG_DROP;
  chat = open_data(data, &desc);
  info = info_of(chat);
  assert_int_equal(info.dropped, 2);
  assert_int_equal(info.cut, 0);
  assert_int_equal(info.train.documents, 1);
  ac_chat_free(chat);
  desc.context = 4;
  assert_refused(ac_chat_open(&chat, in_folder("data.jsonl").text, &desc), AC_ERROR_FORMAT,
                 "3 are too long");
}

static void one_document_a_sample(void **state) {
  (void)state;
  ac_chat_desc desc = described(CONTEXT);
  ac_dataset *dataset;
  desc.no_packing = true;
  ac_chat *chat = open_data("{\"text\":\"aa bb\"}\n{\"text\":\"cc\"}\n{\"text\":\"x\"}", &desc);
  assert_int_equal(info_of(chat).unlearned, 1); /* one token predicts nothing */
  assert_ok(ac_dataset_from_chat(&dataset, chat, false));
  assert_int_equal(ac_dataset_count(dataset), 2);
  for (int64_t i = 0; i < 2; i++) {
    const sample s = read_sample(dataset, i);
    check_sample(chat, &s, &i, 1);
  }
  ac_dataset_free(dataset);
  ac_chat_free(chat);
}

/* ---- validation ------------------------------------------------------------------------------ */

/* Texts [begin, end) of many. */
static ac_chat *open_numbers(int begin, int end, double share) {
  ac_chat_desc desc = described(CONTEXT);
  char *text = malloc(64 * (size_t)(end - begin + 1));
  size_t bytes = 0;
  for (int i = begin; i < end; i++)
    bytes += (size_t)sprintf(text + bytes, "{\"text\":\"number %d\"}\n", i);
  desc.validation = share;
  ac_chat *chat = open_data(text, &desc);
  free(text);
  return chat;
}

static bool validates(const ac_chat *chat, int64_t index) {
  ac_chat_document document;
  assert_ok(ac_chat_get_document(chat, index, &document));
  return document.validates;
}

static void a_share_validates_and_stays(void **state) {
  (void)state;
  ac_chat *few = open_numbers(0, 500, 0.2), *more = open_numbers(0, 700, 0.2);
  const ac_chat_info info = info_of(few);
  assert_int_equal(info.train.documents + info.validation.documents, 500);
  assert_true(info.validation.documents > 60 && info.validation.documents < 140);
  for (int i = 0; i < 500; i++) assert_int_equal(validates(few, i), validates(more, i));
  ac_chat_free(few);
  ac_chat_free(more);

  for (int k = 0; k < 2; k++) { /* at least one is on each side */
    ac_chat *two = open_numbers(3, 5, k ? 0.999 : 1e-9);
    assert_int_equal(info_of(two).train.documents, 1);
    assert_int_equal(info_of(two).validation.documents, 1);
    ac_chat_free(two);
  }
  for (int k = 0; k < 2; k++) { /* also of documents that are equal */
    ac_chat_desc equal = described(CONTEXT);
    equal.validation = k ? 0.999 : 1e-9;
    ac_chat *same =
        open_data("{\"text\":\"a b\"}\n{\"text\":\"a b\"}\n{\"text\":\"a b\"}\n", &equal);
    assert_true(info_of(same).train.samples > 0 && info_of(same).validation.samples > 0);
    ac_chat_free(same);
  }
  ac_chat_desc desc = described(64);
  desc.validation = 0.1;
  ac_chat *chat;
  const test_path path = data_file("one.jsonl", "{\"text\":\"a b\"}");
  assert_refused(ac_chat_open(&chat, path.text, &desc), AC_ERROR_ARGUMENT, "only one document");
  desc.context = 1;
  assert_ok(ac_chat_open(&chat, path.text, &desc));
  assert_int_equal(info_of(chat).validation.samples, 1);
  ac_chat_free(chat);
}

/* ---- preferences ----------------------------------------------------------------------------- */

#define PAIR(prompt, chosen, rejected) \
  "{" prompt "\"chosen\":" chosen ",\"rejected\":" rejected "}\n"

static void preferences_are_pairs(void **state) {
  (void)state;
  ac_chat_desc desc = described(CONTEXT);
  ac_dataset *dataset;
  desc.preferences = true;
  desc.end = END;
  ac_chat *chat = open_data(
      PAIR("\"prompt\":\"q\",", "\" a b\"", "\" c\"")
          PAIR("\"prompt\":[" USER("q") "],", "[" ASSISTANT("a") "]", "[" ASSISTANT("c") "]")
              PAIR("", "[" USER("q") "," ASSISTANT("a") "]", "[" USER("q") "," ASSISTANT("c") "]")
                  PAIR("\"prompt\":\"q\",", "[" USER("q") "," ASSISTANT("a") "]",
                       "[" USER("q") "," ASSISTANT("c") "]"),
      &desc);
  check_text(chat, 0, true, " a b" END);
  check_text(chat, 1, true, " c" END);
  check_text(chat, 1, false, "q");
  for (int pair = 1; pair < 4; pair++) {
    check_text(chat, 2 * pair, true, "a<|im_end|>");
    check_text(chat, 2 * pair + 1, true, "c<|im_end|>");
    check_text(chat, 2 * pair, false, IM("user", "q") ANSWER);
  }
  assert_ok(ac_dataset_from_chat(&dataset, chat, false));
  assert_int_equal(ac_dataset_count(dataset), 4);
  assert_int_equal(ac_dataset_field_count(dataset), 6);
  assert_string_equal(ac_dataset_field(dataset, 4)->name, "rejected_targets");
  int32_t tokens[4][CONTEXT];
  float weights[2][CONTEXT];
  assert_ok(ac_dataset_read(
      dataset, &(ac_sample_key){.index = 0},
      (void *[]){tokens[0], tokens[1], weights[0], tokens[2], tokens[3], weights[1]}));
  for (int side = 0; side < 2; side++) {
    ac_chat_document document;
    uint32_t ids[CONTEXT];
    assert_ok(ac_chat_get_document(chat, side, &document));
    assert_ok(ac_chat_get_tokens(chat, side, 0, document.count, ids, NULL));
    for (size_t i = 0; i < CONTEXT; i++) {
      assert_int_equal(tokens[2 * side][i], i + 1 < document.count ? ids[i] : 0);
      assert_int_equal(tokens[2 * side + 1][i], i + 1 < document.count ? ids[i + 1] : 0);
      assert_true(weights[side][i] == (i + 1 < document.count ? 1 : 0));
    }
  }
  ac_dataset_free(dataset);
  ac_chat_free(chat);
  test_path path = data_file("bad.jsonl", "{\"text\":\"a\"}");
  assert_refused(ac_chat_open(&chat, path.text, &desc), AC_ERROR_FORMAT, "rejected");
  desc.preferences = false;
  path = data_file("bad.jsonl", PAIR("\"prompt\":\"q\",", "\"a\"", "\"c\""));
  assert_refused(ac_chat_open(&chat, path.text, &desc), AC_ERROR_FORMAT, "a pair of answers");
}

/* A pair is too long if its answers are cut off. */
static void pairs_that_are_too_long_are_counted(void **state) {
  (void)state;
  ac_chat_desc desc = described(1);
  ac_chat_info info;
  desc.preferences = true;
  desc.end = END;
  ac_chat *chat = open_data(PAIR("\"prompt\":\"q\",", "\" a b\"", "\" c\"")
                                PAIR("\"prompt\":\"q q q q q q q q q\",", "\" a\"", "\" c\""),
                            &desc);
  ac_chat_get_info(chat, &info);
  assert_int_equal(info.dropped, 2);
  assert_int_equal(info.unlearned, 0);
  assert_int_equal(info.train.samples, 1);
  ac_chat_free(chat);
}

/* ---- a model's files ------------------------------------------------------------------------- */

static void a_folder_tells_its_template(void **state) {
  (void)state;
  static const char config[] =
      "{\"bos_token\":{\"content\":\"<|im_start|>\"},\"eos_token\":\"<|im_end|>\",\"chat_"
      "template\":"
      "\"{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
      "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
      "'<|im_start|>assistant\\n' }}{% endif %}\"}";
  const ac_chat_template *found;
  ac_chat_source source;
  data_file("tokenizer_config.json", config);
  assert_ok(ac_chat_source_read(&source, test_folder));
  assert_string_equal(source.begin, "<|im_start|>");
  assert_string_equal(source.end, "<|im_end|>");
  assert_ok(ac_chat_template_recognise(&found, source.chat_template));
  assert_ptr_equal(found, chatml);
  ac_chat_source_free(&source);
  assert_null(source.chat_template);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_assistant_is_learned),
      cmocka_unit_test(people_cannot_write_special_tokens),
      cmocka_unit_test(a_sample_has_documents_apart),
      cmocka_unit_test(messages_may_be_learned_or_not),
      cmocka_unit_test(forms_are_known_by_their_keys),
      cmocka_unit_test(other_data_are_refused),
      cmocka_unit_test(deep_nests_and_long_lines_are_refused),
      cmocka_unit_test(folders_have_json_or_texts),
      cmocka_unit_test(texts_are_divided_and_lose_nothing),
      cmocka_unit_test(conversations_are_cut_or_dropped),
      cmocka_unit_test(one_document_a_sample),
      cmocka_unit_test(a_share_validates_and_stays),
      cmocka_unit_test(preferences_are_pairs),
      cmocka_unit_test(pairs_that_are_too_long_are_counted),
      cmocka_unit_test(a_folder_tells_its_template),
  };
  return cmocka_run_group_tests(tests, prepare, finish);
}
