/* Zephyr, and TinyLlama: each message is
 *
 *     <|ROLE|>
 *     CONTENT</s> */
#include "chat/template.h"

static void put_head(ac_chat_writer *w, const char *role) {
  ac_chat_put(w, AC_PIECE_HEAD, "<|");
  ac_chat_put(w, AC_PIECE_HEAD, role);
  ac_chat_put(w, AC_PIECE_HEAD, "|>\n");
}

ac_status ac_chat_render_zephyr(ac_chat_writer *w) {
  for (size_t i = 0; i < w->count; i++) {
    const ac_chat_message *m = &w->messages[i];
    ac_chat_turn_begin(w, m);
    put_head(w, m->role);
    ac_chat_put(w, AC_PIECE_CONTENT, m->content);
    ac_chat_put(w, AC_PIECE_TURN_END, w->desc.end);
    ac_chat_put(w, AC_PIECE_HEAD, "\n");
  }
  ac_chat_turn_begin(w, NULL);
  if (w->desc.generation_prompt) put_head(w, "assistant");
  return AC_OK;
}
