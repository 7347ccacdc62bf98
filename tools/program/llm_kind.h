/* What `accrue train llm` knows of its model. */
#ifndef TOOLS_PROGRAM_LLM_KIND_H
#define TOOLS_PROGRAM_LLM_KIND_H

#include "program/language_model.h"
#include "program/llm_choices.h"
#include "program/model_kind.h"

#include <accrue/adapter.h>
#include <accrue/chat.h>
#include <accrue/model.h>

typedef enum llm_base { BASE_FILE, BASE_F32, BASE_BF16, BASE_BLOCKS } llm_base;
typedef enum llm_objective { OBJECTIVE_NEXT_TOKEN, OBJECTIVE_DPO } llm_objective;

typedef struct llm_model {
  /* Flags. */
  const char *path, *data, *targets, *chat_template;
  const char *adapter; /* to begin with; NULL: none, or the model's own */
  int64_t context;     /* 0: not given */
  int64_t rank;        /* 0: all weights are trained */
  double alpha;        /* 0: twice the rank */
  double dropout, held_out;
  bool rslora, dora, no_pack, drop_long;
  int base, learn;
  int objective;
  double beta, label_smoothing; /* of preferences */
  /* What they come to. */
  language_model_path found;
  ac_model *model;
  ac_model_info info;
  char fingerprint[17];
  ac_lora_desc lora;
  ac_dpo_desc dpo;
  ac_adapter *saved;   /* an adapter to begin with, or to be evaluated; NULL: none */
  ac_chat *chat;       /* NULL: there are no data, or choices */
  llm_choices choices; /* to be evaluated; none: there are no questions */
  bool evaluates;      /* nothing is trained */
  bool weights_in_16_bits;
} llm_model;

/* llm_files.c: what a run writes. */
model_files llm_files(const void *self);
ac_status llm_save(const void *self, ac_trainer *trainer, const char *path,
                   const ac_metadata *metadata, int metadata_count);
char *llm_config_json(const void *self, const ac_trainer *trainer);
void llm_carry(const void *self, const struct run_folder *folder, bool replace);

/* llm_data.c: opens what is learned. A status of message.h. */
int llm_open_data(llm_model *model, train_data *data);

#endif
