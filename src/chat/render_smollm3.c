/* SmolLM3: a system message that the template begins with,
 *
 *     <|im_start|>system
 *     ## Metadata
 *     ... a date, the mode, the instructions of the first message if it is a system message ...
 *
 * and turns as in ChatML. Words of that message are commands: "/think" and "/no_think" choose the
 * mode, in which answers begin with empty thoughts or not, and "/system_override" leaves out what
 * is not the message's own. The published template ends that system message only with tools. */
#include "chat/template.h"

#include <stdlib.h>

static const char thinks[] =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face. Your role as an "
    "assistant involves thoroughly exploring questions through a systematic thinking process "
    "before providing the final precise and accurate solutions. This requires engaging in a "
    "comprehensive cycle of analysis, summarizing, exploration, reassessment, reflection, "
    "backtracking, and iteration to develop well-considered thinking process. Please structure "
    "your response into two main sections: Thought and Solution using the specified format: "
    "<think> Thought section </think> Solution section. In the Thought section, detail your "
    "reasoning process in steps. Each step should include detailed considerations such as "
    "analysing questions, summarizing relevant findings, brainstorming new ideas, verifying the "
    "accuracy of the current steps, refining any errors, and revisiting previous steps. In the "
    "Solution section, based on various attempts, explorations, and reflections from the Thought "
    "section, systematically present the final solution that you deem correct. The Solution "
    "section should be logical, accurate, and concise and detail necessary steps needed to reach "
    "the conclusion.\n\n";
static const char answers[] =
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face.\n\n";

static const char no_thoughts[] = "<think>\n\n</think>\n";

/* Removes a word wherever it is. */
static void remove_word(char *text, const char *word) {
  const size_t length = strlen(word);
  char *to = text;
  const char *from = text, *at;
  while ((at = strstr(from, word))) {
    memmove(to, from, (size_t)(at - from));
    to += at - from;
    from = at + length;
  }
  memmove(to, from, strlen(from) + 1);
}

/* What is left of the system message. */
static void put_instructions(ac_chat_writer *w, const char *system, const char *command,
                             const char *others, const char *end) {
  char *own = system ? strdup(system) : NULL;
  if (system && !own && w->status == AC_OK)
    w->status = ac_fail(AC_ERROR_MEMORY, "no memory to render a conversation");
  if (own) {
    remove_word(own, "/no_think");
    remove_word(own, "/think");
    ac_chat_trim_after(own);
    if (command) remove_word(own, command);
  }
  if (own && *own) {
    ac_chat_put_trimmed_after(w, AC_PIECE_CONTENT, own);
    ac_chat_put(w, AC_PIECE_HEAD, end);
  } else ac_chat_put(w, AC_PIECE_HEAD, others);
  free(own);
}

static void put_system(ac_chat_writer *w, const char *system, bool thinking) {
  static const char override[] = "/system_override";
  const bool dated = w->chat_template->variant == AC_SMOLLM3_DATED;
  ac_chat_put(w, AC_PIECE_HEAD, "<|im_start|>system\n");
  if (dated && system && strstr(system, override)) {
    put_instructions(w, system, override, "", "");
    ac_chat_put(w, AC_PIECE_HEAD, "<|im_end|>\n");
    return;
  }
  ac_chat_put(w, AC_PIECE_HEAD, "## Metadata\n\nKnowledge Cutoff Date: June 2025\n");
  if (dated) {
    ac_chat_put(w, AC_PIECE_HEAD, "Today Date: ");
    ac_chat_put(w, AC_PIECE_HEAD, w->desc.date ? w->desc.date : "26 July 2024");
    ac_chat_put(w, AC_PIECE_HEAD, "\n");
  }
  ac_chat_put(w, AC_PIECE_HEAD, "Reasoning Mode: ");
  ac_chat_put(w, AC_PIECE_HEAD, thinking ? "/think" : "/no_think");
  ac_chat_put(w, AC_PIECE_HEAD, "\n\n## Custom Instructions\n\n");
  put_instructions(w, system, NULL, thinking ? thinks : answers, "\n\n");
  if (!dated) ac_chat_put(w, AC_PIECE_HEAD, "<|im_end|>\n");
}

/* A model that thinks writes the marks of its thoughts itself, as tokens of their own. */
static void put_thoughts(ac_chat_writer *w, const char **answer) {
  static const char begin[] = "<think>", end[] = "</think>";
  const char *to = strncmp(*answer, begin, sizeof begin - 1) ? NULL : strstr(*answer, end);
  if (!to) return;
  const char *from = *answer + sizeof begin - 1;
  ac_chat_put(w, AC_PIECE_TURN_END, begin);
  ac_chat_put_bytes(w, AC_PIECE_CONTENT, from, (size_t)(to - from));
  ac_chat_put(w, AC_PIECE_TURN_END, end);
  *answer = to + sizeof end - 1;
}

static void put_turn(ac_chat_writer *w, const ac_chat_message *m, bool thinking) {
  const bool answer = ac_chat_is(m, "assistant");
  const char *content = m->content;
  ac_chat_put(w, AC_PIECE_HEAD, "<|im_start|>");
  ac_chat_put(w, AC_PIECE_HEAD, m->role);
  ac_chat_put(w, AC_PIECE_HEAD, "\n");
  if (answer && !thinking) ac_chat_put(w, AC_PIECE_HEAD, no_thoughts);
  if (answer) content += strspn(content, "\n");
  if (answer && thinking) put_thoughts(w, &content);
  ac_chat_put(w, AC_PIECE_CONTENT, content);
  ac_chat_put(w, AC_PIECE_TURN_END, "<|im_end|>");
  ac_chat_put(w, AC_PIECE_HEAD, "\n");
}

ac_status ac_chat_render_smollm3(ac_chat_writer *w) {
  const char *system = ac_chat_is(w->messages, "system") ? w->messages->content : NULL;
  const bool thinking = !system || !strstr(system, "/no_think");
  put_system(w, system, thinking);
  for (size_t i = system != NULL; i < w->count; i++) {
    if (ac_chat_is(&w->messages[i], "system"))
      return ac_chat_refuse_role(w, i, "which only the first message may have in");
    ac_chat_turn_begin(w, &w->messages[i]);
    put_turn(w, &w->messages[i], thinking);
  }
  ac_chat_turn_begin(w, NULL);
  if (!w->desc.generation_prompt) return AC_OK;
  ac_chat_put(w, AC_PIECE_HEAD, "<|im_start|>assistant\n");
  if (!thinking) ac_chat_put(w, AC_PIECE_HEAD, no_thoughts);
  return AC_OK;
}
