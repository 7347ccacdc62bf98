/* A chat template: how it renders a conversation. Each family of templates has a file of its own,
 * render_NAME.c, with one function for all its variants. What a family writes goes to a writer,
 * which keeps for each byte whether it is from a message, and whether it is learned. */
#ifndef AC_CHAT_TEMPLATE_H
#define AC_CHAT_TEMPLATE_H

#include <accrue/chat.h>

#include "core/error.h"

#include <string.h>

typedef struct ac_chat_writer ac_chat_writer;

struct ac_chat_template {
  const char *name;
  ac_status (*render)(ac_chat_writer *writer);
  const char *begin, *end; /* texts of tokens, unless the model's files tell others; "": none */
  const char *system;      /* the system message where there is none; NULL: none is written */
  int variant;             /* an enum of the family */
};

struct ac_chat_writer {
  const ac_chat_template *chat_template;
  const ac_chat_message *messages;
  size_t count;
  ac_chat_render_desc desc; /* no text but the date is NULL */
  ac_chat_text *to;
  size_t capacity, span_capacity;
  ac_chat_turn turn; /* of the message that is being written */
  ac_status status;  /* of what was written; later writes do nothing */
};

/* Pieces of a text: written by the template; written by it as a part of the turn that is learned,
 * such as the token that ends it; a message. The first two keep names of special tokens. */
typedef enum ac_chat_piece { AC_PIECE_HEAD, AC_PIECE_TURN_END, AC_PIECE_CONTENT } ac_chat_piece;

/* Begins a message: what follows is learned, or not, as it says. NULL: none. */
void ac_chat_turn_begin(ac_chat_writer *writer, const ac_chat_message *message);
void ac_chat_put(ac_chat_writer *writer, ac_chat_piece piece, const char *text);
void ac_chat_put_bytes(ac_chat_writer *writer, ac_chat_piece piece, const char *text, size_t bytes);
/* As str.strip() of Python, which is `trim` in Jinja, and str.rstrip() leave it. */
void ac_chat_put_trimmed(ac_chat_writer *writer, ac_chat_piece piece, const char *text);
void ac_chat_put_trimmed_after(ac_chat_writer *writer, ac_chat_piece piece, const char *text);

void ac_chat_trim_after(char *text);     /* as str.rstrip() */
bool ac_chat_is_blank(const char *text); /* nothing is left of it */

static inline bool ac_chat_is(const ac_chat_message *message, const char *role) {
  return !strcmp(message->role, role);
}

/* Fails about the role of message `index`: "message 2 has the role "user", WHY the chat template
 * NAME". */
ac_status ac_chat_refuse_role(const ac_chat_writer *writer, size_t index, const char *why);

/* Whether messages from `first` on are of the user and the assistant by turns. */
ac_status ac_chat_check_turns(const ac_chat_writer *writer, size_t first);

ac_status ac_chat_render_chatml(ac_chat_writer *writer);
ac_status ac_chat_render_qwen3(ac_chat_writer *writer);
ac_status ac_chat_render_smollm3(ac_chat_writer *writer);
ac_status ac_chat_render_llama2(ac_chat_writer *writer);
ac_status ac_chat_render_llama3(ac_chat_writer *writer);
ac_status ac_chat_render_mistral(ac_chat_writer *writer);
ac_status ac_chat_render_gemma(ac_chat_writer *writer);
ac_status ac_chat_render_phi3(ac_chat_writer *writer);
ac_status ac_chat_render_zephyr(ac_chat_writer *writer);

/* Variants of a family. */
typedef enum ac_chat_llama3 { AC_LLAMA3_PLAIN, AC_LLAMA3_DATED } ac_chat_llama3;
typedef enum ac_chat_mistral {
  AC_MISTRAL_01,    /* the first of Mistral-7B-Instruct-v0.1, without a system message */
  AC_MISTRAL_02,    /* and of v0.2 */
  AC_MISTRAL_V1,    /* for the tokenizer v1 */
  AC_MISTRAL_V3,    /* v3 */
  AC_MISTRAL_TEKKEN /* v3 of Mistral-Nemo */
} ac_chat_mistral;
typedef enum ac_chat_smollm3 {
  AC_SMOLLM3_DATED,
  AC_SMOLLM3_UNDATED /* of Unsloth, which ends the system message */
} ac_chat_smollm3;
typedef enum ac_chat_gemma { AC_GEMMA_1, AC_GEMMA_3 } ac_chat_gemma;
typedef enum ac_chat_phi3 {
  AC_PHI3,
  AC_PHI35,
  AC_PHI3_SMALL,
  AC_PHI3_MINI_FIRST, /* of April 2024, without a system message */
  AC_PHI3_MEDIUM_FIRST
} ac_chat_phi3;

#endif
