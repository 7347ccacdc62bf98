/* Shapes of models that have a name, as published or as the benchmarks measure them. A preset is
 * one line of the table in presets.c. */
#ifndef TOOLS_MODELS_PRESETS_H
#define TOOLS_MODELS_PRESETS_H

#include "models/gpt.h"
#include "models/image_net.h"

typedef struct model_preset {
  const char *name;
  const char *kind;   /* "gpt", "mlp", "resnet" or another of images */
  gpt_config gpt;     /* of gpt. A vocabulary of 256 is that of bytes */
  image_net net;      /* of the others: the images, their classes and, but for mlp, their shape */
  const char *hidden; /* of mlp: "300,100" */
} model_preset;

enum { PRESET_BYTE_VOCAB = 256 };

extern const model_preset model_presets[];
extern const int model_preset_count;

/* NULL: there is none. */
const model_preset *model_preset_find(const char *name);

#endif
