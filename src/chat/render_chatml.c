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
