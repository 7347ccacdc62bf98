/* The adapter of a run, layer by layer: what it adds to the weights of its base. */
#ifndef TOOLS_PROGRAM_EXPORT_ADAPTER_H
#define TOOLS_PROGRAM_EXPORT_ADAPTER_H

#include "program/llm_kind.h"

/* A layer's matrices, and the factor of their product. */
typedef struct export_layer {
  char name[256]; /* of the layer: the weight's without ".weight" */
  int64_t rank, in, out;
  float *a, *b;      /* [rank, in] and [out, rank] */
  float *magnitudes; /* [out] of DoRA; NULL: none */
  double scale;
} export_layer;

typedef struct export_layers {
  export_layer *list;
  int count;
  float *row; /* of a weight, while it is merged */
} export_layers;

/* Reads all layers of the adapter that is open. A status of message.h. */
int export_layers_read(export_layers *layers, const llm_model *model);
void export_layers_free(export_layers *layers);

/* The layer of the weight with this name; NULL: it has no adapter. */
const export_layer *export_layers_find(const export_layers *layers, const char *name);

/* Adds `sign` times scale B A to elements [first, first + count) of the layer's weight, which is
 * [out, in], or [in, out] if `in_out`. */
void export_layer_add(const export_layer *layer, bool in_out, int64_t first, int64_t count,
                      float sign, float *data);

#endif
