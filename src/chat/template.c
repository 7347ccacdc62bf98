/* The list of templates, and what renders one of them. */
#include "chat/template.h"

#include "core/quote.h"
#include "text/room.h"

#include <stdio.h>

#define CHATML ac_chat_render_chatml, "", "<|im_end|>"
#define SMOLLM3 ac_chat_render_smollm3, "", "<|im_end|>", NULL
#define MISTRAL ac_chat_render_mistral, "<s>", "</s>", NULL
#define PHI3 ac_chat_render_phi3, "<s>", "<|endoftext|>", NULL

static const ac_chat_template list[] = {
    {"chatml", CHATML, NULL, 0},
    {"chatml-qwen1.5", CHATML, "You are a helpful assistant", 0},
    {"chatml-qwen2", CHATML, "You are a helpful assistant.", 0},
    {"chatml-qwen2.5", CHATML,
     "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.", 0},
    {"chatml-smollm2", CHATML,
     "You are a helpful AI assistant named SmolLM, trained by Hugging Face", 0},
    {"qwen3", ac_chat_render_qwen3, "", "<|im_end|>", NULL, 0},
    {"smollm3", SMOLLM3, AC_SMOLLM3_DATED},
    {"smollm3-undated", SMOLLM3, AC_SMOLLM3_UNDATED},
    {"llama2", ac_chat_render_llama2, "<s>", "</s>", NULL, 0},
    {"llama3", ac_chat_render_llama3, "<|begin_of_text|>", "<|eot_id|>", NULL, AC_LLAMA3_PLAIN},
    {"llama3.1", ac_chat_render_llama3, "<|begin_of_text|>", "<|eot_id|>", NULL, AC_LLAMA3_DATED},
    {"mistral-v0.1", MISTRAL, AC_MISTRAL_01},
    {"mistral-v0.2", MISTRAL, AC_MISTRAL_02},
    {"mistral-v1", MISTRAL, AC_MISTRAL_V1},
    {"mistral-v3", MISTRAL, AC_MISTRAL_V3},
    {"mistral-v3-tekken", MISTRAL, AC_MISTRAL_TEKKEN},
    {"gemma", ac_chat_render_gemma, "<bos>", "<eos>", NULL, AC_GEMMA_1},
    {"gemma3", ac_chat_render_gemma, "<bos>", "<eos>", NULL, AC_GEMMA_3},
    {"phi3", PHI3, AC_PHI3},
    {"phi3.5", PHI3, AC_PHI35},
    {"phi3-small", PHI3, AC_PHI3_SMALL},
    {"phi3-mini-first", PHI3, AC_PHI3_MINI_FIRST},
    {"phi3-medium-first", PHI3, AC_PHI3_MEDIUM_FIRST},
    {"zephyr", ac_chat_render_zephyr, "<s>", "</s>", NULL, 0},
};

enum { TEMPLATES = sizeof list / sizeof *list };

int ac_chat_template_count(void) {
  return TEMPLATES;
}

const ac_chat_template *ac_chat_template_at(int index) {
  return index >= 0 && index < TEMPLATES ? &list[index] : NULL;
}

const char *ac_chat_template_name(const ac_chat_template *chat_template) {
  return chat_template ? chat_template->name : NULL;
}

ac_status ac_chat_template_find(const ac_chat_template **chat_template, const char *name) {
  char names[512] = "";
  AC_CREATES(chat_template);
  AC_REQUIRE(name);
  for (int i = 0; i < TEMPLATES; i++) {
    const size_t used = strlen(names);
    if (!strcmp(list[i].name, name)) {
      *chat_template = &list[i];
      return AC_OK;
    }
    snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", list[i].name);
  }
  return ac_fail(AC_ERROR_ARGUMENT, "there is no chat template %s; there are %s",
                 ac_quote(name).text, names);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Bytes that differ in neither are one span. */
static ac_status add_span(ac_chat_text *to, size_t *capacity, size_t bytes, bool content,
                          bool learned) {
  ac_chat_span *last = to->span_count ? &to->spans[to->span_count - 1] : NULL;
  if (last && last->content == content && last->learned == learned) {
    last->end += bytes;
    return AC_OK;
  }
  AC_TRY(AC_ROOM(to->spans, *capacity, to->span_count + 1));
  to->spans[to->span_count++] = (ac_chat_span){to->bytes, to->bytes + bytes, content, learned};
  return AC_OK;
}

static bool is_learned(const ac_chat_writer *w, ac_chat_piece piece) {
  if (w->turn == AC_TURN_NOT_LEARNED) return false;
  return w->desc.learn == AC_LEARN_ALL || (w->turn == AC_TURN_LEARNED && piece != AC_PIECE_HEAD);
}

static ac_status put(ac_chat_writer *w, ac_chat_piece piece, const char *text, size_t bytes) {
  ac_chat_text *to = w->to;
  if (bytes > INT32_MAX - to->bytes)
    return ac_fail(AC_ERROR_FORMAT, "the conversation has more than 2^31 - 1 bytes");
  AC_TRY(AC_ROOM(to->text, w->capacity, to->bytes + bytes + 1));
  AC_TRY(add_span(to, &w->span_capacity, bytes, piece == AC_PIECE_CONTENT, is_learned(w, piece)));
  memcpy(to->text + to->bytes, text, bytes);
  to->bytes += bytes;
  to->text[to->bytes] = 0;
  return AC_OK;
}

void ac_chat_put_bytes(ac_chat_writer *w, ac_chat_piece piece, const char *text, size_t bytes) {
  if (w->status == AC_OK && bytes) w->status = put(w, piece, text, bytes);
}

void ac_chat_put(ac_chat_writer *w, ac_chat_piece piece, const char *text) {
  ac_chat_put_bytes(w, piece, text, strlen(text));
}

void ac_chat_turn_begin(ac_chat_writer *w, const ac_chat_message *message) {
  w->turn = message ? message->turn : AC_TURN_DEFAULT;
  if (message && w->turn == AC_TURN_DEFAULT && ac_chat_is(message, "assistant"))
    w->turn = AC_TURN_LEARNED;
}

/* The length of a blank at the beginning of a text, as str.isspace() of Python's has it; 0: none.
 */
static size_t blank_at(const char *text, size_t bytes) {
  const unsigned char *b = (const unsigned char *)text;
  if (!bytes) return 0;
  if ((b[0] >= 9 && b[0] <= 13) || (b[0] >= 0x1c && b[0] <= 0x20)) return 1;
  if (bytes >= 2 && b[0] == 0xc2 && (b[1] == 0x85 || b[1] == 0xa0)) return 2;
  if (bytes < 3) return 0;
  const uint32_t three = (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
  const bool is = three == 0xe19a80 || (three >= 0xe28080 && three <= 0xe2808a) ||
                  three == 0xe280a8 || three == 0xe280a9 || three == 0xe280af ||
                  three == 0xe2819f || three == 0xe38080;
  return is ? 3 : 0;
}

/* And at its end. */
static size_t blank_before(const char *text, size_t bytes) {
  for (size_t length = 1; length <= 3 && length <= bytes; length++)
    if (blank_at(text + bytes - length, length) == length) return length;
  return 0;
}

bool ac_chat_is_blank(const char *text) {
  size_t bytes = strlen(text), blank;
  for (; (blank = blank_at(text, bytes)); bytes -= blank) text += blank;
  return !bytes;
}

static size_t trimmed_after(const char *text) {
  size_t bytes = strlen(text), blank;
  while ((blank = blank_before(text, bytes))) bytes -= blank;
  return bytes;
}

void ac_chat_trim_after(char *text) {
  text[trimmed_after(text)] = 0;
}

void ac_chat_put_trimmed_after(ac_chat_writer *w, ac_chat_piece piece, const char *text) {
  ac_chat_put_bytes(w, piece, text, trimmed_after(text));
}

void ac_chat_put_trimmed(ac_chat_writer *w, ac_chat_piece piece, const char *text) {
  size_t bytes = strlen(text), blank;
  for (; (blank = blank_at(text, bytes)); bytes -= blank) text += blank;
  ac_chat_put_trimmed_after(w, piece, text);
}

/* ---- rendering ------------------------------------------------------------------------------- */

ac_status ac_chat_refuse_role(const ac_chat_writer *w, size_t index, const char *why) {
  return ac_fail(AC_ERROR_FORMAT, "message %zu has the role %s, %s the chat template %s", index + 1,
                 ac_quote(w->messages[index].role).text, why, w->chat_template->name);
}

ac_status ac_chat_check_turns(const ac_chat_writer *w, size_t first) {
  if (first == w->count)
    return ac_fail(AC_ERROR_FORMAT, "the conversation has a system message alone");
  for (size_t i = first; i < w->count; i++) {
    const bool user = (i - first) % 2 == 0;
    if (!ac_chat_is(&w->messages[i], user ? "user" : "assistant"))
      return ac_chat_refuse_role(w, i,
                                 user ? "where a turn of the user is expected by"
                                      : "where a turn of the assistant is expected by");
  }
  return AC_OK;
}

static ac_status check_messages(const ac_chat_writer *w) {
  if (!w->count) return ac_fail(AC_ERROR_FORMAT, "the conversation has no messages");
  for (size_t i = 0; i < w->count; i++) {
    const ac_chat_message *m = &w->messages[i];
    if (!m->role || !m->content)
      return ac_fail(AC_ERROR_ARGUMENT, "chat: the role or content of message %zu is NULL", i + 1);
    if (!ac_chat_is(m, "system") && !ac_chat_is(m, "user") && !ac_chat_is(m, "assistant"))
      return ac_chat_refuse_role(w, i, "which is not one of those (system, user, assistant) of");
  }
  return AC_OK;
}

void ac_chat_text_free(ac_chat_text *text) {
  if (!text) return;
  free(text->text);
  free(text->spans);
  *text = (ac_chat_text){0};
}

ac_status ac_chat_render(const ac_chat_template *chat_template, const ac_chat_message *messages,
                         size_t count, const ac_chat_render_desc *desc, ac_chat_text *text) {
  AC_REQUIRE(text);
  *text = (ac_chat_text){0};
  AC_REQUIRE(chat_template);
  if (count) AC_REQUIRE(messages);
  ac_chat_writer w = {.chat_template = chat_template,
                      .messages = messages,
                      .count = count,
                      .desc = AC_DESCRIBED(ac_chat_render_desc, desc),
                      .to = text};
  if (!w.desc.begin) w.desc.begin = chat_template->begin;
  if (!w.desc.end) w.desc.end = chat_template->end;
  ac_status status = check_messages(&w);
  if (status == AC_OK) status = chat_template->render(&w);
  if (status == AC_OK) status = w.status;
  if (status != AC_OK) ac_chat_text_free(text);
  return status;
}
