/* The matrices of an adapter, layer by layer, for files that have no other form of it. */
#ifndef TOOLS_PROGRAM_EXPORT_ADAPTER_H
#define TOOLS_PROGRAM_EXPORT_ADAPTER_H

#include <accrue/accrue.h>

typedef struct export_layer {
  char name[256]; /* of the layer: that of its weight without ".weight" */
  int64_t rank, in, out;
  float *a, *b; /* [rank, in] and [out, rank] */
  double scale;
} export_layer;

typedef struct export_layers {
  export_layer *list;
  int count;
} export_layers;

/* Reads all layers of the adapter in a folder, which `desc` describes. A status of message.h. */
int export_layers_read(export_layers *layers, const char *folder, const ac_lora_desc *desc);
void export_layers_free(export_layers *layers);

#endif
