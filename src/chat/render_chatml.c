/* ChatML: each message is
 *
 *     <|im_start|>ROLE
 *     CONTENT<|im_end|>
 *
 * Variants have a system message of their own, where the first message is not one. */
#include "chat/template.h"

static void put_turn(ac_chat_writer *w, const char *role, const char *content) {
  ac_chat_put(w, AC_PIECE_HEAD, "<|im_start|>");
  ac_chat_put(w, AC_PIECE_HEAD, role);
  ac_chat_put(w, AC_PIECE_HEAD, "\n");
  ac_chat_put(w, AC_PIECE_CONTENT, content);
  ac_chat_put(w, AC_PIECE_TURN_END, "<|im_end|>");
  ac_chat_put(w, AC_PIECE_HEAD, "\n");
}

/* ---- Qwen3 ----------------------------------------------------------------------------------- */

/* A part of a text. */
typedef struct part {
  const char *text;
  size_t bytes;
} part;

static part without_lines_before(part p) {
  for (; p.bytes && *p.text == '\n'; p.bytes--) p.text++;
  return p;
}

static part without_lines_after(part p) {
  while (p.bytes && p.text[p.bytes - 1] == '\n') p.bytes--;
  return p;
}

/* What comes before the first `mark`, or all. */
static part before_first(part p, const char *mark) {
  const char *at = strstr(p.text, mark);
  if (at && at + strlen(mark) <= p.text + p.bytes) p.bytes = (size_t)(at - p.text);
  return p;
}

/* What comes after the last `mark`, or all. */
static part after_last(part p, const char *mark) {
  const size_t length = strlen(mark);
  for (size_t at = p.bytes; at-- > 0;)
    if (p.bytes - at >= length && !memcmp(p.text + at, mark, length))
      return (part){p.text + at + length, p.bytes - at - length};
  return p;
}

/* An answer with thoughts in it: they are kept in the last turn alone. */
static void put_answer(ac_chat_writer *w, const char *content, bool after_query, bool last) {
  part answer = {content, strlen(content)}, thoughts = {"", 0};
  if (strstr(content, "</think>")) {
    thoughts = without_lines_after(before_first(answer, "</think>"));
    thoughts = without_lines_before(after_last(thoughts, "<think>"));
    answer = without_lines_before(after_last(answer, "</think>"));
  }
  ac_chat_put(w, AC_PIECE_HEAD, "<|im_start|>assistant\n");
  if (after_query && (last || thoughts.bytes)) {
    thoughts = without_lines_after(without_lines_before(thoughts));
    answer = without_lines_before(answer);
    /* A model that does not think is given these marks. One that does writes them. */
    const ac_chat_piece marks = thoughts.bytes ? AC_PIECE_TURN_END : AC_PIECE_HEAD;
    ac_chat_put(w, marks, "<think>\n");
    ac_chat_put_bytes(w, AC_PIECE_CONTENT, thoughts.text, thoughts.bytes);
    ac_chat_put(w, marks, "\n</think>\n\n");
  }
  ac_chat_put_bytes(w, AC_PIECE_CONTENT, answer.text, answer.bytes);
  ac_chat_put(w, AC_PIECE_TURN_END, "<|im_end|>");
  ac_chat_put(w, AC_PIECE_HEAD, "\n");
}

static bool is_tool_response(const char *content) {
  static const char begin[] = "<tool_response>", end[] = "</tool_response>";
  const size_t bytes = strlen(content);
  return bytes >= sizeof end - 1 && !strncmp(content, begin, sizeof begin - 1) &&
         !strcmp(content + bytes - (sizeof end - 1), end);
}

/* The last message that is a question. */
static size_t last_query(const ac_chat_writer *w) {
  for (size_t i = w->count; i-- > 0;)
    if (ac_chat_is(&w->messages[i], "user") && !is_tool_response(w->messages[i].content)) return i;
  return w->count - 1;
}

ac_status ac_chat_render_qwen3(ac_chat_writer *w) {
  const size_t query = last_query(w);
  for (size_t i = 0; i < w->count; i++) {
    const ac_chat_message *m = &w->messages[i];
    ac_chat_turn_begin(w, m);
    if (ac_chat_is(m, "assistant")) put_answer(w, m->content, i > query, i + 1 == w->count);
    else put_turn(w, m->role, m->content);
  }
  ac_chat_turn_begin(w, NULL);
  if (w->desc.generation_prompt) ac_chat_put(w, AC_PIECE_HEAD, "<|im_start|>assistant\n");
  return AC_OK;
}

/* ---- all others ------------------------------------------------------------------------------ */

ac_status ac_chat_render_chatml(ac_chat_writer *w) {
  const char *system = w->chat_template->system;
  if (system && !ac_chat_is(w->messages, "system")) {
    ac_chat_put(w, AC_PIECE_HEAD, "<|im_start|>system\n");
    ac_chat_put(w, AC_PIECE_HEAD, system);
    ac_chat_put(w, AC_PIECE_HEAD, "<|im_end|>\n");
  }
  for (size_t i = 0; i < w->count; i++) {
    ac_chat_turn_begin(w, &w->messages[i]);
    put_turn(w, w->messages[i].role, w->messages[i].content);
  }
  ac_chat_turn_begin(w, NULL);
  if (w->desc.generation_prompt) ac_chat_put(w, AC_PIECE_HEAD, "<|im_start|>assistant\n");
  return AC_OK;
}
