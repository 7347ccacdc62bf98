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

static int read_layer(export_layer *layer, const llm_model *model, int index) {
  ac_model_file *file = model->adapter;
  const ac_lora_desc *lora = &model->lora;
  const ac_model_tensor *a = ac_model_file_tensor(file, index);
  const int partner = find_partner(file, layer->name, ".lora_B.weight");
  const ac_model_tensor *b = ac_model_file_tensor(file, partner);
  if (!b || a->rank != 2 || b->rank != 2 || a->shape[0] != b->shape[1])
    return fail("%s: the adapter of %s is not two matrices that fit", model->found.adapter,
                layer->name);
  layer->rank = a->shape[0];
  layer->in = a->shape[1];
  layer->out = b->shape[0];
  const double rank = (double)layer->rank, alpha = lora->alpha > 0 ? lora->alpha : 2 * rank;
  layer->scale = alpha / (lora->rank_stabilised ? sqrt(rank) : rank);
  int status = read_matrix(file, index, &layer->a);
  if (status == STATUS_CONTINUE) status = read_matrix(file, partner, &layer->b);
  return status;
}

int export_layers_read(export_layers *layers, const llm_model *model) {
  const int tensors = ac_model_file_tensor_count(model->adapter);
  int status = STATUS_CONTINUE;
  *layers = (export_layers){.list = calloc((size_t)tensors + 1, sizeof *layers->list)};
  if (!layers->list) return fail("out of memory");
  for (int i = 0; i < tensors && status == STATUS_CONTINUE; i++) {
    export_layer *layer = &layers->list[layers->count];
    if (!name_of_layer(layer->name, ac_model_file_tensor(model->adapter, i)->name,
                       ".lora_A.weight"))
      continue;
    layers->count++;
    status = read_layer(layer, model, i);
  }
  if (status == STATUS_CONTINUE && !layers->count)
    status = fail("%s holds no adapter", model->found.adapter);
  return status;
}

void export_layers_free(export_layers *layers) {
  for (int i = 0; i < layers->count; i++) {
    free(layers->list[i].a);
    free(layers->list[i].b);
    free(layers->list[i].magnitudes);
  }
  free(layers->list);
  free(layers->row);
  *layers = (export_layers){.list = NULL};
}

const export_layer *export_layers_find(const export_layers *layers, const char *name) {
  for (int i = 0; i < layers->count; i++) {
    const size_t length = strlen(layers->list[i].name);
    if (!strncmp(layers->list[i].name, name, length) && !strcmp(name + length, ".weight"))
      return &layers->list[i];
  }
  return NULL;
}

/* Part [begin, end) of row `row` of scale B A. */
static void add_to_row(const export_layer *l, int64_t row, int64_t begin, int64_t end, float sign,
                       float *data) {
  for (int64_t k = 0; k < l->rank; k++) {
    const float factor = sign * (float)(l->scale * (double)l->b[row * l->rank + k]);
    const float *a = l->a + k * l->in;
    for (int64_t i = begin; i < end; i++) data[i - begin] += factor * a[i];
  }
}

/* The same of a weight that is [in, out]: a row is of one input. */
static void add_to_column(const export_layer *l, int64_t row, int64_t begin, int64_t end,
                          float sign, float *data) {
  for (int64_t o = begin; o < end; o++) {
    double sum = 0;
    for (int64_t k = 0; k < l->rank; k++)
      sum += (double)l->b[o * l->rank + k] * (double)l->a[k * l->in + row];
    data[o - begin] += sign * (float)(l->scale * sum);
  }
}

void export_layer_add(const export_layer *layer, bool in_out, int64_t first, int64_t count,
                      float sign, float *data) {
  const int64_t columns = in_out ? layer->out : layer->in;
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / columns, begin = (first + done) % columns;
    const int64_t part = count - done < columns - begin ? count - done : columns - begin;
    (in_out ? add_to_column : add_to_row)(layer, row, begin, begin + part, sign, data + done);
    done += part;
  }
}
