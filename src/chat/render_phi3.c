/* Phi-3: each message is
 *
 *     <|ROLE|>
 *     CONTENT<|end|>
 *
 * and after the last one, unless an answer is asked for, comes <|endoftext|>. Phi-3.5 leaves an
 * empty system message out. Phi-3-small begins with <s>. The first templates of Phi-3-mini and
 * Phi-3-medium leave system messages out, which is refused here, ask for an answer after each turn
 * of the user, and put nothing after the last message. */
#include "chat/template.h"

static void put_turn(ac_chat_writer *w, const ac_chat_message *m) {
  ac_chat_turn_begin(w, m);
  ac_chat_put(w, AC_PIECE_HEAD, "<|");
  ac_chat_put(w, AC_PIECE_HEAD, m->role);
  ac_chat_put(w, AC_PIECE_HEAD, "|>\n");
  ac_chat_put(w, AC_PIECE_CONTENT, m->content);
  ac_chat_put(w, AC_PIECE_TURN_END, "<|end|>");
  ac_chat_put(w, AC_PIECE_HEAD, "\n");
}

static ac_status put_first(ac_chat_writer *w) {
  if (w->chat_template->variant == AC_PHI3_MINI_FIRST) ac_chat_put(w, AC_PIECE_HEAD, w->desc.begin);
  for (size_t i = 0; i < w->count; i++) {
    const ac_chat_message *m = &w->messages[i];
    if (ac_chat_is(m, "system")) return ac_chat_refuse_role(w, i, "which is left out by");
    if (ac_chat_is(m, "user")) {
      put_turn(w, m);
      ac_chat_put(w, AC_PIECE_HEAD, "<|assistant|>\n");
      continue;
    }
    ac_chat_turn_begin(w, m);
    ac_chat_put(w, AC_PIECE_CONTENT, m->content);
    ac_chat_put(w, AC_PIECE_TURN_END, "<|end|>");
    ac_chat_put(w, AC_PIECE_HEAD, "\n");
  }
  return AC_OK;
}

ac_status ac_chat_render_phi3(ac_chat_writer *w) {
  const int variant = w->chat_template->variant;
  if (variant == AC_PHI3_MINI_FIRST || variant == AC_PHI3_MEDIUM_FIRST) return put_first(w);
  if (variant == AC_PHI3_SMALL) ac_chat_put(w, AC_PIECE_HEAD, w->desc.begin);
  for (size_t i = 0; i < w->count; i++) {
    const ac_chat_message *m = &w->messages[i];
    if (variant == AC_PHI35 && ac_chat_is(m, "system") && !*m->content) continue;
    put_turn(w, m);
  }
  ac_chat_turn_begin(w, NULL);
  ac_chat_put(w, AC_PIECE_HEAD, w->desc.generation_prompt ? "<|assistant|>\n" : w->desc.end);
  return AC_OK;
}
