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
  ac_chat_render_desc desc; /* no text is NULL */
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
/* As str.strip() of Python's leaves it, which is `trim` in Jinja. */
void ac_chat_put_trimmed(ac_chat_writer *writer, ac_chat_piece piece, const char *text);

static inline bool ac_chat_is(const ac_chat_message *message, const char *role) {
  return !strcmp(message->role, role);
}

/* A role that the template does not have, in message `index`. */
ac_status ac_chat_refuse_role(const ac_chat_writer *writer, size_t index, const char *why);

ac_status ac_chat_render_chatml(ac_chat_writer *writer);

#endif
