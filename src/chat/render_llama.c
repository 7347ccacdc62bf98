/* Llama 2:
 *
 *     <s>[INST] <<SYS>>
 *     SYSTEM
 *     <</SYS>>
 *
 *     USER [/INST] ASSISTANT </s><s>[INST] USER [/INST]
 *
 * Its marks are plain text, so a message can have them. Llama 3:
 *
 *     <|begin_of_text|><|start_header_id|>ROLE<|end_header_id|>
 *
 *     CONTENT<|eot_id|>
 *
 * Llama 3.1 and later always have a system message, which begins with two dates. All of them trim
 * messages. */
#include "chat/template.h"

/* The template trims the system message and the first turn as one text. */
static void put_system(ac_chat_writer *w, bool alone) {
  ac_chat_turn_begin(w, w->messages);
  ac_chat_put(w, AC_PIECE_HEAD, "<<SYS>>\n");
  ac_chat_put(w, AC_PIECE_CONTENT, w->messages[0].content);
  ac_chat_put(w, AC_PIECE_HEAD, alone ? "\n<</SYS>>" : "\n<</SYS>>\n\n");
}

static void put_user(ac_chat_writer *w, const ac_chat_message *m, bool system) {
  ac_chat_turn_begin(w, m);
  ac_chat_put(w, AC_PIECE_HEAD, w->desc.begin);
  ac_chat_put(w, AC_PIECE_HEAD, "[INST] ");
  if (system) put_system(w, ac_chat_is_blank(m->content));
  ac_chat_turn_begin(w, m);
  if (system && !ac_chat_is_blank(m->content))
    ac_chat_put_trimmed_after(w, AC_PIECE_CONTENT, m->content);
  else ac_chat_put_trimmed(w, AC_PIECE_CONTENT, m->content);
  ac_chat_put(w, AC_PIECE_TURN_END, " [/INST]");
}

static void put_answer(ac_chat_writer *w, const ac_chat_message *m) {
  ac_chat_turn_begin(w, m);
  ac_chat_put(w, AC_PIECE_HEAD, " ");
  ac_chat_put_trimmed(w, AC_PIECE_CONTENT, m->content);
  ac_chat_put(w, AC_PIECE_TURN_END, " ");
  ac_chat_put(w, AC_PIECE_TURN_END, w->desc.end);
}

ac_status ac_chat_render_llama2(ac_chat_writer *w) {
  const size_t first = ac_chat_is(w->messages, "system");
  AC_TRY(ac_chat_check_turns(w, first));
  for (size_t i = first; i < w->count; i++) {
    if (ac_chat_is(&w->messages[i], "user")) put_user(w, &w->messages[i], i == 1 && first);
    else put_answer(w, &w->messages[i]);
  }
  return AC_OK;
}

/* ---- Llama 3 --------------------------------------------------------------------------------- */

static void put_head(ac_chat_writer *w, const char *role) {
  ac_chat_put(w, AC_PIECE_HEAD, "<|start_header_id|>");
  ac_chat_put(w, AC_PIECE_HEAD, role);
  ac_chat_put(w, AC_PIECE_HEAD, "<|end_header_id|>\n\n");
}

static void put_dates(ac_chat_writer *w) {
  ac_chat_put(w, AC_PIECE_HEAD, "Cutting Knowledge Date: December 2023\nToday Date: ");
  ac_chat_put(w, AC_PIECE_HEAD, w->desc.date ? w->desc.date : "26 Jul 2024");
  ac_chat_put(w, AC_PIECE_HEAD, "\n\n");
}

ac_status ac_chat_render_llama3(ac_chat_writer *w) {
  const bool dated = w->chat_template->variant == AC_LLAMA3_DATED;
  ac_chat_put(w, AC_PIECE_HEAD, w->desc.begin);
  if (dated && !ac_chat_is(w->messages, "system")) {
    put_head(w, "system");
    put_dates(w);
    ac_chat_put(w, AC_PIECE_HEAD, "<|eot_id|>");
  }
  for (size_t i = 0; i < w->count; i++) {
    const ac_chat_message *m = &w->messages[i];
    ac_chat_turn_begin(w, m);
    put_head(w, m->role);
    if (dated && !i && ac_chat_is(m, "system")) put_dates(w);
    ac_chat_put_trimmed(w, AC_PIECE_CONTENT, m->content);
    ac_chat_put(w, AC_PIECE_TURN_END, "<|eot_id|>");
  }
  ac_chat_turn_begin(w, NULL);
  if (w->desc.generation_prompt) put_head(w, "assistant");
  return AC_OK;
}
