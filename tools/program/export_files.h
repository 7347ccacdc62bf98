/* What `accrue export` writes: files under a name that is not theirs yet, and the proof that they
 * are the model that was trained. */
#ifndef TOOLS_PROGRAM_EXPORT_FILES_H
#define TOOLS_PROGRAM_EXPORT_FILES_H

#include "program/export_adapter.h"
#include "program/export_proof.h"
#include "program/language_model.h"

enum { EXPORT_FOLDER, EXPORT_ADAPTER, EXPORT_GGUF, EXPORT_GGUF_ADAPTER };

typedef struct exporter {
  /* Flags. */
  const char *path, *data, *out, *device;
  int to, storage; /* EXPORT_..., ac_export_storage */
  bool merge, overwrite, json;
  int64_t threads;
  /* What is exported. */
  language_model_path found;
  ac_model *base;
  ac_model_info info;
  ac_adapter *adapter; /* NULL: none */
  ac_lora_desc lora;
  ac_device *open_device;
  /* The blocks in which the base was kept while the adapter was trained, and their name: what it
   * is merged into. NONE and NULL: the base is as its file has it. */
  ac_blocks blocks;
  const char *blocks_name;
  proof_text text;
  bool of_run;                        /* it is of the run's data */
  bool validates;                     /* and did not train */
  char compared_on[MODEL_PATH_BYTES]; /* of these data */
  proof_model trained;                /* the base with its adapter */
  float *logits;                      /* of that */
  float *row;                         /* of a weight, while it is merged */
  int64_t row_room;                   /* floats of it */
  /* What comes of it. */
  char temporary[MODEL_PATH_BYTES + 32];
  uint64_t bytes;
  proof_difference total; /* from the trained model */
  double merging;         /* the largest difference that merging in floats makes */
  double beyond;          /* and that the file makes beyond its rounding */
  double allowed;         /* of both of these */
} exporter;

/* All of these: a status of message.h. */
/* Whether --out is free. */
int export_check_out(const exporter *e);
/* Writes everything under the temporary name. After a failure there is nothing. */
int export_write(exporter *e);
/* Reads it back and compares. */
int export_prove(exporter *e);
/* Gives it its name. */
int export_keep(exporter *e);
void export_remove(const exporter *e);

/* export_samples.c: takes the tokens of validation samples of the run that is exported, if there is
 * a record of it and its data are there. */
int export_take_samples(exporter *e);

/* export_merge.c: a parameter of the trained model with its adapter added, for ac_export_desc. */
ac_status export_read_merged(void *user, const char *name, int64_t first, int64_t count,
                             float *data);
bool export_is_changed(void *user, const char *name);

#endif
