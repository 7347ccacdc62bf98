/* What the parts of `accrue sample` share. */
#ifndef TOOLS_PROGRAM_SAMPLE_H
#define TOOLS_PROGRAM_SAMPLE_H

#include "common/options.h"

#include <accrue/accrue.h>

typedef struct sample_flags {
  const char *model, *adapter, *prompt, *system, *chat_template, *device;
  option_list stops;
  int64_t bytes, tokens, context, seed, threads, top_k;
  double temperature, top_p, min_p, repetition_penalty;
  uint64_t memory;
  int base, precision;
  bool chat, json;
} sample_flags;

/* ---- output: sample_output.c ----------------------------------------------------------------- */

/* Text on its way to stdout. It ends before the first of `stops`. A pipe or a file gets the bytes
 * as they are. A terminal gets only characters that it shows: it must not obey what a model happens
 * to write. */
typedef struct sample_output {
  option_list stops;
  bool terminal;
  char *held; /* what may be the beginning of a stop, or of a character */
  size_t held_bytes, room;
  bool stopped;
} sample_output;

void sample_output_begin(sample_output *o, const option_list *stops);
/* A status of message.h. */
int sample_output_put(sample_output *o, const char *text, size_t bytes);
/* Writes what is held, unless it was stopped; then `o` may begin anew. */
int sample_output_end(sample_output *o);
void sample_output_free(sample_output *o);
/* Ends a text before the first stop in it. */
void sample_output_cut(const option_list *stops, char *text);

/* Tokens of an answer as text, each as soon as its characters are whole. */
typedef struct sample_decoder {
  const ac_tokenizer *tokenizer;
  size_t before, first; /* tokens: the text of [before, first) is known to all that follow */
} sample_decoder;

/* The text that tokens [0, count) have in addition to what was given before; `last`: also what is
 * only the beginning of a character. *text is to be freed. A status of message.h. */
int sample_decoder_next(sample_decoder *d, const uint32_t *tokens, size_t count, bool last,
                        char **text, size_t *bytes);

/* ---- language models: sample_language_model.c, sample_chat.c --------------------------------- */

typedef struct sample_model {
  const sample_flags *flags;
  char base[4096], adapter[4096];
  ac_device *device;
  ac_model *model;
  ac_model_info info;
  ac_tokenizer *tokenizer;
  ac_adapter *lora; /* NULL: none */
  ac_generator *generator;
  sample_output output;
  int64_t read, written; /* tokens of all prompts, and of all answers */
  double read_seconds, written_seconds;
  const char *ended; /* why the last answer has ended */
} sample_model;

/* A model with a tokenizer continues a prompt, or chats. */
int sample_language_model(const sample_flags *flags);

/* Makes the generator for a text of so many tokens. */
int sample_open_generator(sample_model *m, int64_t context);
/* Makes `tokens` the text and writes what follows it. *answer receives the text of the answer, to
 * be freed; NULL: nobody asks. */
int sample_answer(sample_model *m, const uint32_t *tokens, size_t count, char **answer);

int sample_chat(sample_model *m);

#endif
