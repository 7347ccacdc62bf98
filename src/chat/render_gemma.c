/* Gemma: each message is
 *
 *     <start_of_turn>ROLE
 *     CONTENT<end_of_turn>
 *
 * after <bos>, with "model" for the assistant, and trimmed. Gemma 1 and 2 have no system message;
 * Gemma 3 puts it before the first turn of the user. */
#include "chat/template.h"

static void put_head(ac_chat_writer *w, const char *role) {
  ac_chat_put(w, AC_PIECE_HEAD, "<start_of_turn>");
  ac_chat_put(w, AC_PIECE_HEAD, role);
  ac_chat_put(w, AC_PIECE_HEAD, "\n");
}

ac_status ac_chat_render_gemma(ac_chat_writer *w) {
  const size_t first = ac_chat_is(w->messages, "system");
  if (first && w->chat_template->variant == AC_GEMMA_1)
    return ac_chat_refuse_role(w, 0, "which is not one of those (user, assistant) of");
  AC_TRY(ac_chat_check_turns(w, first));
  ac_chat_put(w, AC_PIECE_HEAD, w->desc.begin);
  for (size_t i = first; i < w->count; i++) {
    const ac_chat_message *m = &w->messages[i];
    ac_chat_turn_begin(w, m);
    put_head(w, ac_chat_is(m, "user") ? "user" : "model");
    if (i == first && first) {
      ac_chat_turn_begin(w, w->messages);
      ac_chat_put(w, AC_PIECE_CONTENT, w->messages[0].content);
      ac_chat_put(w, AC_PIECE_HEAD, "\n\n");
      ac_chat_turn_begin(w, m);
    }
    ac_chat_put_trimmed(w, AC_PIECE_CONTENT, m->content);
    ac_chat_put(w, AC_PIECE_TURN_END, "<end_of_turn>");
    ac_chat_put(w, AC_PIECE_HEAD, "\n");
  }
  ac_chat_turn_begin(w, NULL);
  if (w->desc.generation_prompt) put_head(w, "model");
  return AC_OK;
}
