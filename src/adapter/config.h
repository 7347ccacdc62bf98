/* adapter_config.json, PEFT's description of an adapter: read and written. */
#ifndef AC_ADAPTER_CONFIG_H
#define AC_ADAPTER_CONFIG_H

#include <accrue/adapter.h>
#include <jansson.h>

#include "adapter/targets.h"
#include "core/error.h"

/* Patterns of a file, each compiled when the first name is compared with it (config.c). */
typedef struct ac_lora_patterns ac_lora_patterns;

/* What a file says. All texts belong to `json`. */
typedef struct ac_lora_config {
  json_t *json;
  int64_t rank;
  double alpha, dropout;
  bool rank_stabilised, dora;
  const char *base;                       /* "" : it names none */
  const json_t *targets, *ranks, *alphas; /* target_modules, rank_pattern, alpha_pattern; or NULL */
  ac_lora_patterns *target_pattern, *rank_patterns, *alpha_patterns; /* of these; NULL: none */
} ac_lora_config;

/* Reads the file at `path`. What changes results and is not known here is refused by its key. */
ac_status ac_lora_config_read(ac_lora_config *config, const char *path);
void ac_lora_config_free(ac_lora_config *config);

/* What a file says of one layer: whether it is a target, and its rank and alpha. */
typedef struct ac_lora_said {
  bool target;
  int64_t rank;
  double alpha;
} ac_lora_said;
ac_status ac_lora_config_of(const ac_lora_config *config, const char *name, ac_lora_said *said);

/* The layers of an adapter, and all others, for the file that is written. */
typedef struct ac_lora_written {
  const char *const *names;
  const ac_lora_choice *choices; /* by name; rank 0: it has no adapter */
  int count;
  bool in_out; /* weights are stored as [in, out] */
} ac_lora_written;
/* Free the text. */
ac_status ac_lora_config_write(char **text, const ac_lora_desc *desc, const char *base,
                               const ac_lora_written *layers);

#endif
