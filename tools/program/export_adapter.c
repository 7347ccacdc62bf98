#include "program/export_adapter.h"

#include "common/message.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "base_model.model.";

/* Copies NAME of "base_model.model.NAME.lora_A.weight"; false: it has another ending. */
static bool name_of_layer(char name[256], const char *tensor, const char *ending) {
  const char *begin =
      strncmp(tensor, prefix, sizeof prefix - 1) ? tensor : tensor + sizeof prefix - 1;
  const size_t length = strlen(begin), tail = strlen(ending);
  if (length <= tail || length - tail >= 256 || strcmp(begin + length - tail, ending) != 0)
    return false;
  snprintf(name, 256, "%.*s", (int)(length - tail), begin);
  return true;
}

static int read_matrix(ac_model_file *file, int index, float **data) {
  const ac_model_tensor *t = ac_model_file_tensor(file, index);
  int64_t count = 1;
  for (int d = 0; d < t->rank; d++) count *= t->shape[d];
  *data = malloc((size_t)count * sizeof **data + 1);
  if (!*data) return fail("out of memory");
  return ac_model_file_read(file, index, 0, count, *data) == AC_OK ? STATUS_CONTINUE
                                                                   : fail_library();
}

static int find_partner(ac_model_file *file, const char *name, const char *ending) {
  char other[256];
  for (int i = 0; i < ac_model_file_tensor_count(file); i++)
    if (name_of_layer(other, ac_model_file_tensor(file, i)->name, ending) && !strcmp(other, name))
      return i;
  return -1;
}

/* The factor of a layer's product. */
static double scale_of(const ac_lora_desc *desc, const char *name, int64_t rank) {
  double alpha = desc->alpha > 0 ? desc->alpha : 2 * (double)rank;
  for (int i = 0; i < desc->module_count; i++)
    if (!strcmp(desc->modules[i].name, name) && desc->modules[i].alpha > 0)
      alpha = desc->modules[i].alpha;
  return alpha / (desc->rank_stabilised ? sqrt((double)rank) : (double)rank);
}

static int read_layer(export_layer *layer, ac_model_file *file, int index,
                      const ac_lora_desc *desc) {
  const ac_model_tensor *a = ac_model_file_tensor(file, index);
  const int partner = find_partner(file, layer->name, ".lora_B.weight");
  const ac_model_tensor *b = ac_model_file_tensor(file, partner);
  if (!b || a->rank != 2 || b->rank != 2 || a->shape[0] != b->shape[1])
    return fail("the adapter of %s is not two matrices that fit", layer->name);
  layer->rank = a->shape[0];
  layer->in = a->shape[1];
  layer->out = b->shape[0];
  layer->scale = scale_of(desc, layer->name, layer->rank);
  const int status = read_matrix(file, index, &layer->a);
  return status == STATUS_CONTINUE ? read_matrix(file, partner, &layer->b) : status;
}

static int read_layers(export_layers *layers, ac_model_file *file, const ac_lora_desc *desc) {
  const int tensors = ac_model_file_tensor_count(file);
  int status = STATUS_CONTINUE;
  layers->list = calloc((size_t)tensors + 1, sizeof *layers->list);
  if (!layers->list) return fail("out of memory");
  for (int i = 0; i < tensors && status == STATUS_CONTINUE; i++) {
    export_layer *layer = &layers->list[layers->count];
    if (!name_of_layer(layer->name, ac_model_file_tensor(file, i)->name, ".lora_A.weight"))
      continue;
    layers->count++;
    status = read_layer(layer, file, i, desc);
  }
  return status;
}

int export_layers_read(export_layers *layers, const char *folder, const ac_lora_desc *desc) {
  char path[4096];
  ac_model_file *file;
  *layers = (export_layers){.list = NULL};
  if (snprintf(path, sizeof path, "%s/adapter_model.safetensors", folder) >= (int)sizeof path)
    return fail("%s is too long a path", folder);
  if (ac_model_file_open(&file, path) != AC_OK) return fail_library();
  const int status = read_layers(layers, file, desc);
  ac_model_file_close(file);
  return status;
}

void export_layers_free(export_layers *layers) {
  for (int i = 0; i < layers->count; i++) {
    free(layers->list[i].a);
    free(layers->list[i].b);
  }
  free(layers->list);
  *layers = (export_layers){.list = NULL};
}
