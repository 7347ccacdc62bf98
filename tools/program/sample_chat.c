/* `accrue sample --chat`: a conversation, a line for each message of the user. Each turn renders
 * the whole conversation; of its tokens only those that are new are read (ac_generator_set_text).
 */
#include "program/sample.h"
#include "common/message.h"
#include "program/language_model.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CONTEXT = 4096, NAME = 256 };

typedef struct chat {
  sample_model *model;
  const ac_chat_template *chat_template;
  ac_chat_render_desc desc;
  char begin[NAME], end[NAME];
  ac_chat_message *messages; /* contents are the chat's own */
  size_t count, room;
  int64_t context;
  bool asks; /* somebody types */
} chat;

/* ---- messages -------------------------------------------------------------------------------- */

/* Takes over the content. */
static int add(chat *c, const char *role, char *content) {
  if (c->count == c->room) {
    const size_t room = c->room ? 2 * c->room : 16;
    ac_chat_message *grown = realloc(c->messages, room * sizeof *grown);
    if (!grown) {
      free(content);
      return fail("out of memory");
    }
    c->messages = grown;
    c->room = room;
  }
  c->messages[c->count++] = (ac_chat_message){.role = role, .content = content};
  return STATUS_CONTINUE;
}

static int add_copy(chat *c, const char *role, const char *content) {
  char *copy = strdup(content);
  return copy ? add(c, role, copy) : fail("out of memory");
}

static size_t systems(const chat *c) {
  return c->count && !strcmp(c->messages[0].role, "system") ? 1 : 0;
}

/* Forgets `count` messages from number `first` on. */
static void forget(chat *c, size_t first, size_t count) {
  if (!count) return; /* there may be no messages at all */
  for (size_t i = first; i < first + count; i++) free((char *)c->messages[i].content);
  c->count -= count;
  memmove(c->messages + first, c->messages + first + count,
          (c->count - first) * sizeof *c->messages);
}

/* ---- preparing ------------------------------------------------------------------------------- */

static int find_template(chat *c) {
  const sample_model *m = c->model;
  const char *jinja = ac_model_chat_template(m->model);
  if (m->flags->chat_template) {
    const ac_status found = ac_chat_template_find(&c->chat_template, m->flags->chat_template);
    return found == AC_OK ? STATUS_CONTINUE : fail_setup(found);
  }
  if (!jinja)
    return fail("%s has no chat template; name one with --template, or continue a --prompt without "
                "--chat",
                m->base);
  if (ac_chat_template_recognise(&c->chat_template, jinja) == AC_OK) return STATUS_CONTINUE;
  return fail("%s: %s; name one with --template", m->base, ac_last_error());
}

static int prepare(chat *c) {
  sample_model *m = c->model;
  const ac_model_info *info = &m->info;
  const int status = find_template(c);
  if (status != STATUS_CONTINUE) return status;
  c->asks = isatty(STDIN_FILENO);
  c->desc.generation_prompt = true;
  c->desc.begin = language_model_token(m->tokenizer, info->begin, c->begin, NAME);
  c->desc.end =
      language_model_token(m->tokenizer, info->end_count ? info->ends[0] : -1, c->end, NAME);
  c->context = m->flags->context           ? m->flags->context
               : info->positions < CONTEXT ? info->positions
                                           : CONTEXT;
  if (m->flags->system) {
    const int added = add_copy(c, "system", m->flags->system);
    if (added != STATUS_CONTINUE) return added;
  }
  return sample_open_generator(m, c->context);
}

/* ---- turns ----------------------------------------------------------------------------------- */

static int encode(const chat *c, ac_encoding *tokens) {
  ac_chat_text text;
  *tokens = (ac_encoding){0};
  ac_status status = ac_chat_render(c->chat_template, c->messages, c->count, &c->desc, &text);
  if (status == AC_OK) status = ac_chat_encode(c->model->tokenizer, &text, tokens, NULL);
  ac_chat_text_free(&text);
  return status == AC_OK ? STATUS_CONTINUE : fail_library();
}

/* The tokens of the conversation with room for an answer after them. While there is none, the
 * oldest question and its answer are forgotten. */
static int encode_what_fits(chat *c, ac_encoding *tokens) {
  size_t forgotten = 0;
  for (;;) {
    const int status = encode(c, tokens);
    if (status != STATUS_CONTINUE) return status;
    const int64_t left = c->context - (int64_t)tokens->count;
    const size_t first = systems(c);
    if (left > 0 && (left >= c->model->flags->tokens || left > c->context / 4)) break;
    if (c->count < first + 3) {
      if (left > 0) break;
      const long long count = (long long)tokens->count;
      ac_encoding_free(tokens);
      return fail("the message has %lld tokens with all around it, and the context is %" PRId64,
                  count, c->context);
    }
    ac_encoding_free(tokens);
    forget(c, first, 2);
    forgotten += 2;
  }
  if (forgotten) say("(the oldest %zu messages do not fit into the context any more)", forgotten);
  return STATUS_CONTINUE;
}

static int answer(chat *c, const char *question) {
  ac_encoding tokens;
  char *text = NULL;
  int status = add_copy(c, "user", question);
  if (status == STATUS_CONTINUE) status = encode_what_fits(c, &tokens);
  if (status != STATUS_CONTINUE) return status;
  status = sample_answer(c->model, tokens.ids, tokens.count, &text);
  ac_encoding_free(&tokens);
  if (status == STATUS_CONTINUE && !c->model->output.terminal) {
    putchar('\n');
    if (fflush(stdout) != 0) status = fail("cannot write the sample: %s", strerror(errno));
  }
  if (status == STATUS_CONTINUE) return add(c, "assistant", text);
  free(text);
  return status;
}

/* A line without its end; NULL: there are no more. */
static char *next_line(const chat *c) {
  char *line = NULL;
  size_t room = 0;
  if (c->asks) fputs("> ", stderr);
  ssize_t length = getline(&line, &room, stdin);
  if (length < 0) {
    free(line);
    return NULL;
  }
  while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r')) line[--length] = 0;
  return line;
}

/* *ends becomes true if the line ends the chat. */
static int take_line(chat *c, const char *line, bool *ends) {
  *ends = !strcmp(line, "/quit");
  if (*ends || !*line) return STATUS_CONTINUE;
  if (!strcmp(line, "/reset")) {
    forget(c, systems(c), c->count - systems(c));
    return STATUS_CONTINUE;
  }
  if (*line == '/' && c->asks) {
    say("/reset begins anew, /quit ends; any other line is a message");
    if (!strchr(line, ' ')) return STATUS_CONTINUE;
  }
  return answer(c, line);
}

static int converse(chat *c) {
  bool ends = false;
  int status = STATUS_CONTINUE;
  if (*c->model->flags->prompt) status = answer(c, c->model->flags->prompt);
  if (*c->model->flags->prompt && !c->asks) return status;
  if (c->asks) say("a line is a message; /reset begins anew, /quit ends");
  while (status == STATUS_CONTINUE && !ends) {
    char *line = next_line(c);
    if (!line) break;
    status = take_line(c, line, &ends);
    free(line);
  }
  return status;
}

int sample_chat(sample_model *m) {
  chat c = {.model = m};
  int status = prepare(&c);
  if (status == STATUS_CONTINUE) status = converse(&c);
  forget(&c, 0, c.count);
  free(c.messages);
  return status;
}
