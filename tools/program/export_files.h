/* What `accrue export` writes: files under a name that is not theirs yet, and the proof that they
 * are the model that was trained. */
#ifndef TOOLS_PROGRAM_EXPORT_FILES_H
#define TOOLS_PROGRAM_EXPORT_FILES_H

#include "program/export_adapter.h"
#include "program/export_proof.h"

#include <accrue/export.h>

enum { EXPORT_FOLDER, EXPORT_ADAPTER, EXPORT_GGUF, EXPORT_GGUF_ADAPTER };

typedef struct exporter {
  /* Flags. */
  const char *data, *out, *device;
  int to, storage; /* EXPORT_..., ac_export_storage */
  bool merge, overwrite, json;
  int64_t threads;
  /* What is exported. */
  llm_model model;
  export_layers layers;
  ac_device *open_device;
  proof_text text;
  proof_model trained; /* its base with its adapter */
  float *logits;       /* of that */
  /* What comes of it. */
  char temporary[MODEL_PATH_BYTES + 32];
  uint64_t bytes;
  proof_difference total, rounded;
  double allowed;
} exporter;

/* All of these: a status of message.h. */
/* Whether --out is free. */
int export_check_out(const exporter *e);
/* Writes everything under the temporary name. After a failure there is nothing. */
int export_write(exporter *e);
/* Reads it back and compares. */
int export_prove_whole(exporter *e);
int export_prove_adapter(exporter *e);
/* Gives it its name. */
int export_keep(exporter *e);
void export_remove(const exporter *e);

#endif
