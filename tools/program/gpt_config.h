/* GPT-2's configuration in files: read from a model file's metadata, or from its tensors and the
 * config.json that transformers keeps with it; written as metadata and as config.json. */
#ifndef TOOLS_PROGRAM_GPT_CONFIG_H
#define TOOLS_PROGRAM_GPT_CONFIG_H

#include "models/gpt.h"
#include "program/model_kind.h"

/* The most that flags and files may say. */
enum {
  GPT_MOST_LAYERS = 1000,
  GPT_MOST_HEADS = 65536,
  GPT_MOST_WIDTH = 1 << 20,
  GPT_MOST_CONTEXT = 1 << 24,
  GPT_MOST_VOCAB = 16777216
};
/* The tokens that begin and end a text. Training does not use them, but readers of the model need
 * them; -1: the model has none. */
typedef struct gpt_ends {
  int64_t bos, eos;
} gpt_ends;

/* From the file's metadata, or the config.json next to it. */
gpt_ends gpt_config_read_ends(const ac_model_file *file, const char *path);

/* A status of message.h. `heads` 0: neither the metadata nor a config.json tells. */
int gpt_config_read(gpt_config *config, const ac_model_file *file, const char *path);

void gpt_config_describe(const gpt_config *config, const gpt_ends *ends, model_metadata *metadata);
char *gpt_config_json(const gpt_config *config,
                      const gpt_ends *ends); /* caller frees; NULL: no memory */

#endif
