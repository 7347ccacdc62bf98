/* What `accrue tokenize` shows. */
#ifndef TOOLS_PROGRAM_TOKENIZE_H
#define TOOLS_PROGRAM_TOKENIZE_H

#include <accrue/accrue.h>

typedef struct tokenize {
  const char *model, *data, *template_name, *out;
  int64_t context, show;
  int learn;
  double held_out;
  bool no_pack, drop_long, preferences, json;

  ac_tokenizer *tokenizer;
  ac_chat_source source;
  const ac_chat_template *chat_template; /* NULL: there is none */
  ac_chat *chat;
  ac_chat_info info;
  int64_t written; /* tokens in `out` */
} tokenize;

/* Each returns an exit status. */
int tokenize_put(const tokenize *t);
int tokenize_put_json(const tokenize *t);

#endif
