/* Mistral: turns of the user are between [INST] and [/INST], and an answer ends with </s>. Blanks
 * around them changed with each tokenizer:
 *
 *     v0.1      <s>[INST] USER [/INST]ASSISTANT</s> [INST] ...
 *     v0.2      <s>[INST] USER [/INST]ASSISTANT</s>[INST] ...
 *     v1        <s> [INST] USER [/INST] ASSISTANT</s> [INST] ...
 *     v3        <s>[INST] USER[/INST] ASSISTANT</s>[INST] ...
 *     tekken    <s>[INST]USER[/INST]ASSISTANT</s>[INST]...
 *
 * The first two have no system message. v1 puts it before the first turn of the user; v3 before the
 * last message, if that is the user's, and else leaves it out, which is refused here. */
#include "chat/template.h"

typedef struct marks {
  const char *begin, *user_end, *answer, *after;
  bool trims; /* answers */
} marks;

static const marks of_variant[] = {
    [AC_MISTRAL_01] = {"[INST] ", " [/INST]", "", " ", false},
    [AC_MISTRAL_02] = {"[INST] ", " [/INST]", "", "", false},
    [AC_MISTRAL_V1] = {" [INST] ", " [/INST]", " ", "", false},
    [AC_MISTRAL_V3] = {"[INST] ", "[/INST]", " ", "", true},
    [AC_MISTRAL_TEKKEN] = {"[INST]", "[/INST]", "", "", false},
};

/* The message that the system message is put before. */
static ac_status find_place(const ac_chat_writer *w, bool system, size_t *place) {
  const int variant = w->chat_template->variant;
  *place = SIZE_MAX;
  if (!system) return AC_OK;
  if (variant == AC_MISTRAL_01 || variant == AC_MISTRAL_02)
    return ac_chat_refuse_role(w, 0, "which is not one of those (user, assistant) of");
  *place = variant == AC_MISTRAL_V1 ? 1 : w->count - 1;
  if (ac_chat_is(&w->messages[*place], "user")) return AC_OK;
  return ac_chat_refuse_role(w, 0,
                             "which is left out of a conversation that ends with an answer by");
}

static void put_user(ac_chat_writer *w, const marks *k, const ac_chat_message *m, bool system) {
  ac_chat_turn_begin(w, m);
  ac_chat_put(w, AC_PIECE_HEAD, k->begin);
  if (system) {
    ac_chat_turn_begin(w, w->messages);
    ac_chat_put(w, AC_PIECE_CONTENT, w->messages[0].content);
    ac_chat_put(w, AC_PIECE_HEAD, "\n\n");
  }
  ac_chat_turn_begin(w, m);
  ac_chat_put(w, AC_PIECE_CONTENT, m->content);
  ac_chat_put(w, AC_PIECE_TURN_END, k->user_end);
}

static void put_answer(ac_chat_writer *w, const marks *k, const ac_chat_message *m) {
  ac_chat_turn_begin(w, m);
  ac_chat_put(w, AC_PIECE_HEAD, k->answer);
  if (k->trims) ac_chat_put_trimmed(w, AC_PIECE_CONTENT, m->content);
  else ac_chat_put(w, AC_PIECE_CONTENT, m->content);
  ac_chat_put(w, AC_PIECE_TURN_END, w->desc.end);
  ac_chat_put(w, AC_PIECE_HEAD, k->after);
}

ac_status ac_chat_render_mistral(ac_chat_writer *w) {
  const marks *k = &of_variant[w->chat_template->variant];
  const size_t first = ac_chat_is(w->messages, "system");
  size_t place;
  AC_TRY(ac_chat_check_turns(w, first));
  AC_TRY(find_place(w, first, &place));
  ac_chat_put(w, AC_PIECE_HEAD, w->desc.begin);
  for (size_t i = first; i < w->count; i++) {
    if (ac_chat_is(&w->messages[i], "user")) put_user(w, k, &w->messages[i], i == place);
    else put_answer(w, k, &w->messages[i]);
  }
  return AC_OK;
}
