/* The forms of data that people have, each recognised by its keys. Messages are collected in a
 * list, and rendered by the template. */
#include "chat/record.h"

#include "core/error.h"
#include "core/quote.h"
#include "text/room.h"

#include <stdio.h>

/* Messages of one object. Texts that are not in the object itself are `owned`. */
typedef struct messages {
  ac_chat_message *list;
  size_t count, capacity;
  char **owned;
  size_t owned_count, owned_capacity;
} messages;

static void free_messages(messages *m) {
  for (size_t i = 0; i < m->owned_count; i++) free(m->owned[i]);
  free(m->owned);
  free(m->list);
}

/* ---- values ---------------------------------------------------------------------------------- */

/* What many data have in the place of a value that is missing. */
static bool is_empty(const json_t *value) {
  if (!value || json_is_null(value) || json_is_false(value)) return true;
  if (json_is_string(value))
    return !json_string_length(value) || !strcmp(json_string_value(value), "[]");
  return (json_is_array(value) && !json_array_size(value)) ||
         (json_is_object(value) && !json_object_size(value));
}

static ac_status text_of(const json_t *object, const char *key, const char **text) {
  const json_t *value = json_object_get(object, key);
  *text = "";
  if (!json_is_string(value)) return ac_fail(AC_ERROR_FORMAT, "\"%s\" is not a text", key);
  *text = json_string_value(value);
  return AC_OK;
}

/* A new text of two, with `between` between them. */
static ac_status join(messages *m, const char *a, const char *between, const char *b,
                      const char **joined) {
  const size_t bytes = strlen(a) + strlen(between) + strlen(b) + 1;
  AC_TRY(AC_ROOM(m->owned, m->owned_capacity, m->owned_count + 1));
  char *text = malloc(bytes);
  if (!text) return ac_fail(AC_ERROR_MEMORY, "chat: no memory for %zu bytes", bytes);
  m->owned[m->owned_count++] = text;
  snprintf(text, bytes, "%s%s%s", a, between, b);
  *joined = text;
  return AC_OK;
}

/* ---- messages -------------------------------------------------------------------------------- */

static ac_status add(messages *m, const char *role, const char *content, ac_chat_turn turn) {
  AC_TRY(AC_ROOM(m->list, m->capacity, m->count + 1));
  m->list[m->count++] = (ac_chat_message){role, content, turn};
  return AC_OK;
}

/* A list of parts, each {"type": "text", "text": ...}, as one text. */
static ac_status join_parts(messages *m, const json_t *parts, const char **content) {
  size_t bytes = 1, i, used = 0;
  const json_t *part;
  json_array_foreach(parts, i, part) {
    const json_t *text = json_object_get(part, "text"), *type = json_object_get(part, "type");
    if (type && (!json_is_string(type) || strcmp(json_string_value(type), "text")))
      return ac_fail(AC_ERROR_UNSUPPORTED, "a part of the content has the type %s, not text",
                     ac_quote(json_is_string(type) ? json_string_value(type) : "?").text);
    if (!json_is_string(text)) return ac_fail(AC_ERROR_FORMAT, "a part of the content has no text");
    bytes += json_string_length(text);
  }
  AC_TRY(AC_ROOM(m->owned, m->owned_capacity, m->owned_count + 1));
  char *whole = malloc(bytes);
  if (!whole) return ac_fail(AC_ERROR_MEMORY, "chat: no memory for %zu bytes", bytes);
  m->owned[m->owned_count++] = whole;
  json_array_foreach(parts, i, part) {
    const json_t *text = json_object_get(part, "text");
    memcpy(whole + used, json_string_value(text), json_string_length(text));
    used += json_string_length(text);
  }
  whole[used] = 0;
  *content = whole;
  return AC_OK;
}

/* `weight` 0 or 1, `train` true or false: each as data have them. */
static ac_status read_turn(const json_t *message, ac_chat_turn *turn) {
  static const char *const keys[] = {"weight", "train"};
  *turn = AC_TURN_DEFAULT;
  for (size_t k = 0; k < 2; k++) {
    const json_t *value = json_object_get(message, keys[k]);
    if (!value || json_is_null(value)) continue;
    const double number = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
    if ((!json_is_boolean(value) && !json_is_number(value)) || (number != 0 && number != 1))
      return ac_fail(AC_ERROR_FORMAT, "\"%s\" is neither 0 nor 1", keys[k]);
    *turn = number == 1 ? AC_TURN_LEARNED : AC_TURN_NOT_LEARNED;
  }
  return AC_OK;
}

static ac_status refuse_more(const json_t *object, const char *const *keys, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!is_empty(json_object_get(object, keys[i])))
      return ac_fail(AC_ERROR_UNSUPPORTED, "it has \"%s\", which no template here renders",
                     keys[i]);
  return AC_OK;
}

/* What ShareGPT and its kin call the roles; others stay as they are. */
static const char *role_named(const char *name) {
  static const char *const names[][2] = {{"human", "user"},        {"gpt", "assistant"},
                                         {"chatgpt", "assistant"}, {"bing", "assistant"},
                                         {"bard", "assistant"},    {"model", "assistant"}};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (!strcmp(names[i][0], name)) return names[i][1];
  return name;
}

static ac_status read_message(messages *m, const json_t *message) {
  static const char *const more[] = {"tool_calls", "function_call", "reasoning_content",
                                     "thinking"};
  if (!json_is_object(message)) return ac_fail(AC_ERROR_FORMAT, "it is not an object");
  const bool share = !json_object_get(message, "role") && json_object_get(message, "from");
  const json_t *role = json_object_get(message, share ? "from" : "role");
  const json_t *value = json_object_get(message, share ? "value" : "content");
  const char *content = json_string_value(value);
  ac_chat_turn turn;
  AC_TRY(refuse_more(message, more, sizeof more / sizeof *more));
  if (!json_is_string(role))
    return ac_fail(AC_ERROR_FORMAT, "it has no \"role\" (nor \"from\") that is a text");
  if (json_is_array(value)) AC_TRY(join_parts(m, value, &content));
  if (!content)
    return ac_fail(AC_ERROR_FORMAT, "it has no \"%s\" that is a text", share ? "value" : "content");
  AC_TRY(read_turn(message, &turn));
  const char *name = json_string_value(role);
  return add(m, share ? role_named(name) : name, content, turn);
}

static ac_status read_messages(messages *m, const json_t *list) {
  size_t i;
  const json_t *message;
  if (!json_is_array(list)) return ac_fail(AC_ERROR_FORMAT, "its messages are not a list");
  json_array_foreach(list, i, message) {
    const ac_status status = read_message(m, message);
    if (status != AC_OK) return ac_fail_prefix(status, "message %zu", i + 1);
  }
  return AC_OK;
}

static ac_status read_system(messages *m, const json_t *json) {
  const json_t *system = json_object_get(json, "system");
  if (is_empty(system)) return AC_OK;
  if (!json_is_string(system)) return ac_fail(AC_ERROR_FORMAT, "\"system\" is not a text");
  return add(m, "system", json_string_value(system), AC_TURN_DEFAULT);
}

/* ---- Alpaca ---------------------------------------------------------------------------------- */

/* Pairs of a question and its answer. */
static ac_status read_history(messages *m, const json_t *history) {
  size_t i;
  const json_t *pair;
  if (is_empty(history)) return AC_OK;
  json_array_foreach(history, i, pair) {
    const char *question = json_string_value(json_array_get(pair, 0));
    const char *answer = json_string_value(json_array_get(pair, 1));
    if (!question || !answer)
      return ac_fail(AC_ERROR_FORMAT, "\"history\" is not a list of pairs of texts");
    AC_TRY(add(m, "user", question, AC_TURN_DEFAULT));
    AC_TRY(add(m, "assistant", answer, AC_TURN_DEFAULT));
  }
  return AC_OK;
}

static ac_status read_alpaca(messages *m, const json_t *json) {
  const char *instruction, *input = "", *output;
  AC_TRY(text_of(json, "instruction", &instruction));
  AC_TRY(text_of(json, "output", &output));
  if (!is_empty(json_object_get(json, "input"))) AC_TRY(text_of(json, "input", &input));
  if (*input) AC_TRY(join(m, instruction, "\n", input, &instruction));
  AC_TRY(read_system(m, json));
  AC_TRY(read_history(m, json_object_get(json, "history")));
  AC_TRY(add(m, "user", instruction, AC_TURN_DEFAULT));
  return add(m, "assistant", output, AC_TURN_DEFAULT);
}

/* ---- prompt and completion ------------------------------------------------------------------- */

/* The messages so far are a prompt: they are not learned. */
static void end_prompt(messages *m) {
  for (size_t i = 0; i < m->count; i++)
    if (m->list[i].turn == AC_TURN_DEFAULT) m->list[i].turn = AC_TURN_NOT_LEARNED;
}

static ac_status read_prompt_messages(messages *m, const json_t *json, bool all) {
  AC_TRY(read_messages(m, json_object_get(json, "prompt")));
  if (!all) end_prompt(m);
  return read_messages(m, json_object_get(json, "completion"));
}

/* ---- texts ----------------------------------------------------------------------------------- */

static ac_status add_text(ac_chat_text *to, size_t *capacity, const char *text, bool content,
                          bool learned) {
  const size_t bytes = strlen(text);
  char *grown = realloc(to->text, to->bytes + bytes + 1);
  if (!grown) return ac_fail(AC_ERROR_MEMORY, "chat: no memory for %zu bytes", bytes);
  to->text = grown;
  memcpy(to->text + to->bytes, text, bytes + 1);
  if (bytes) {
    AC_TRY(AC_ROOM(to->spans, *capacity, to->span_count + 1));
    to->spans[to->span_count++] = (ac_chat_span){to->bytes, to->bytes + bytes, content, learned};
  }
  to->bytes += bytes;
  return AC_OK;
}

static ac_status read_prompt_texts(ac_chat_text *to, const json_t *json, const char *key,
                                   bool all) {
  const char *prompt = "", *completion;
  size_t capacity = 0;
  if (json_object_get(json, "prompt")) AC_TRY(text_of(json, "prompt", &prompt));
  AC_TRY(text_of(json, key, &completion));
  AC_TRY(add_text(to, &capacity, prompt, true, all));
  return add_text(to, &capacity, completion, true, true);
}

/* Learned spans [begin, end) in bytes; the text between them is not learned. */
static ac_status read_rendered(ac_chat_text *to, const char *text, const json_t *spans) {
  const size_t bytes = strlen(text);
  size_t capacity = 0, at = 0, i;
  const json_t *span;
  AC_TRY(add_text(to, &capacity, text, false, false));
  to->span_count = 0;
  json_array_foreach(spans, i, span) {
    const json_int_t begin =
        json_is_integer(json_array_get(span, 0)) ? json_integer_value(json_array_get(span, 0)) : -1;
    const json_int_t end = json_integer_value(json_array_get(span, 1));
    if (json_array_size(span) != 2 || begin < (json_int_t)at || end <= begin ||
        end > (json_int_t)bytes)
      return ac_fail(AC_ERROR_FORMAT,
                     "span %zu is not [begin, end) in the text's %zu bytes, after those before it",
                     i + 1, bytes);
    AC_TRY(AC_ROOM(to->spans, capacity, to->span_count + 3));
    if ((size_t)begin > at)
      to->spans[to->span_count++] = (ac_chat_span){at, (size_t)begin, false, false};
    at = (size_t)end;
    to->spans[to->span_count++] = (ac_chat_span){(size_t)begin, at, false, true};
  }
  if (at < bytes) {
    AC_TRY(AC_ROOM(to->spans, capacity, to->span_count + 1));
    to->spans[to->span_count++] = (ac_chat_span){at, bytes, false, false};
  }
  return AC_OK;
}

/* ---- forms ----------------------------------------------------------------------------------- */

/* "a", "b" and so on, for a sentence. */
static ac_status refuse_keys(const json_t *json) {
  char keys[400] = "";
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)json, key, value) {
    const size_t used = strlen(keys);
    if (used > sizeof keys - 120) break;
    snprintf(keys + used, sizeof keys - used, "%s%s", used ? ", " : "", ac_quote(key).text);
  }
  if (json_object_get(json, "chosen") && json_object_get(json, "rejected"))
    return ac_fail(AC_ERROR_FORMAT,
                   "an object with the keys %s is a pair of answers, which is "
                   "learned as a preference (DPO), not as a text",
                   keys);
  return ac_fail(AC_ERROR_FORMAT,
                 "an object with the keys %s has none of the known forms (messages, conversations, "
                 "prompt and completion, instruction and output, text)",
                 *keys ? keys : "(none)");
}

/* Collects the messages of a conversation; *is_one: whether it is one at all. */
static ac_status read_conversation(messages *m, const json_t *json, bool all, bool *is_one) {
  static const char *const more[] = {"tools", "functions"};
  const json_t *list = json_object_get(json, "messages");
  if (!list) list = json_object_get(json, "conversations");
  *is_one = true;
  if (list) {
    AC_TRY(refuse_more(json, more, 2));
    AC_TRY(read_system(m, json));
    return read_messages(m, list);
  }
  if (json_is_array(json_object_get(json, "prompt")) && json_object_get(json, "completion"))
    return read_prompt_messages(m, json, all);
  if (json_object_get(json, "instruction") && json_object_get(json, "output"))
    return read_alpaca(m, json);
  *is_one = false;
  return AC_OK;
}

static ac_status read_other(ac_chat_record *record, const json_t *json, bool all) {
  const json_t *spans = json_object_get(json, "spans");
  const char *text;
  if (json_object_get(json, "prompt") && json_object_get(json, "completion")) {
    record->conversation = true;
    return read_prompt_texts(&record->text, json, "completion", all);
  }
  if (!json_object_get(json, "text")) return refuse_keys(json);
  AC_TRY(text_of(json, "text", &text));
  if (!spans) {
    size_t capacity = 0;
    return add_text(&record->text, &capacity, text, true, true);
  }
  record->conversation = record->whole = true;
  if (!json_is_array(spans)) return ac_fail(AC_ERROR_FORMAT, "\"spans\" is not a list");
  return read_rendered(&record->text, text, spans);
}

static ac_status render(ac_chat_record *record, const messages *m,
                        const ac_chat_template *chat_template, const ac_chat_render_desc *desc) {
  record->conversation = record->whole = true;
  if (!chat_template)
    return ac_fail(AC_ERROR_ARGUMENT, "it is a conversation, for which there is no chat template");
  return ac_chat_render(chat_template, m->list, m->count, desc, &record->text);
}

ac_status ac_chat_record_read(ac_chat_record *record, const json_t *json,
                              const ac_chat_template *chat_template,
                              const ac_chat_render_desc *desc) {
  messages m = {0};
  bool conversation;
  *record = (ac_chat_record){0};
  if (!json_is_object(json)) return ac_fail(AC_ERROR_FORMAT, "it is not an object");
  const bool all = desc->learn == AC_LEARN_ALL;
  ac_status status = read_conversation(&m, json, all, &conversation);
  if (status == AC_OK && conversation) status = render(record, &m, chat_template, desc);
  else if (status == AC_OK) status = read_other(record, json, all);
  free_messages(&m);
  if (status != AC_OK) ac_chat_text_free(&record->text);
  return status;
}

/* ---- preferences ----------------------------------------------------------------------------- */

static bool same_message(const json_t *a, const json_t *b) {
  return json_equal(json_object_get(a, "role"), json_object_get(b, "role")) &&
         json_equal(json_object_get(a, "content"), json_object_get(b, "content"));
}

/* A prompt that is a text is a message of the user, which some data have in the answers as well. */
static ac_status read_prompt_text(messages *m, const json_t *prompt, const json_t *answers) {
  const json_t *first = json_object_get(json_array_get(answers, 0), "content");
  if (!json_is_string(prompt))
    return ac_fail(AC_ERROR_FORMAT, "\"prompt\" is not a text or a list");
  if (json_equal(first, prompt)) return AC_OK;
  return add(m, "user", json_string_value(prompt), AC_TURN_DEFAULT);
}

/* The conversation with one of two lists of answers. What both begin with is a prompt as well. */
static ac_status read_answers(messages *m, const json_t *json, const json_t *answers,
                              const json_t *others) {
  const json_t *prompt = json_object_get(json, "prompt");
  size_t shared = 0;
  if (json_is_array(prompt)) AC_TRY(read_messages(m, prompt));
  else if (prompt) AC_TRY(read_prompt_text(m, prompt, answers));
  const size_t before = m->count;
  AC_TRY(read_messages(m, answers));
  while (shared < json_array_size(answers) && shared < json_array_size(others) &&
         same_message(json_array_get(answers, shared), json_array_get(others, shared)))
    shared++;
  const size_t count = m->count;
  m->count = before + shared;
  end_prompt(m);
  m->count = count;
  return AC_OK;
}

static ac_status read_side(ac_chat_record *record, const json_t *json, const char *key,
                           const char *other, const ac_chat_template *chat_template,
                           const ac_chat_render_desc *desc) {
  const json_t *answers = json_object_get(json, key), *others = json_object_get(json, other);
  messages m = {0};
  record->conversation = true;
  if (!json_is_array(answers)) return read_prompt_texts(&record->text, json, key, false);
  ac_status status = read_answers(&m, json, answers, others);
  if (status == AC_OK) status = render(record, &m, chat_template, desc);
  free_messages(&m);
  return status == AC_OK ? AC_OK : ac_fail_prefix(status, "%s", key);
}

ac_status ac_chat_record_read_pair(ac_chat_record records[2], const json_t *json,
                                   const ac_chat_template *chat_template,
                                   const ac_chat_render_desc *desc) {
  const char *const keys[] = {"chosen", "rejected"};
  ac_chat_render_desc answers = *desc;
  answers.learn = AC_LEARN_ASSISTANT;
  records[0] = records[1] = (ac_chat_record){0};
  if (!json_is_object(json)) return ac_fail(AC_ERROR_FORMAT, "it is not an object");
  if (!json_object_get(json, "chosen") || !json_object_get(json, "rejected"))
    return ac_fail(AC_ERROR_FORMAT, "it has no \"chosen\" and \"rejected\", as preferences do");
  ac_status status = AC_OK;
  for (int i = 0; i < 2 && status == AC_OK; i++)
    status = read_side(&records[i], json, keys[i], keys[!i], chat_template, &answers);
  for (int i = 0; i < 2 && status != AC_OK; i++) ac_chat_text_free(&records[i].text);
  return status;
}
