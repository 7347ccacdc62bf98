/* The parameters of a model on their way to a file. */
#include "export/export.h"

#include "core/error.h"
#include "core/quote.h"
#include "io/opened.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "model.layers.3.self_attn.q_proj.weight" is the weight of part Q of layer 3. */
static bool parse_name(const ac_family *family, const char *name, ac_export_tensor *t) {
  const char *rest = name;
  char *end;
  long long layer = -1;
  const size_t block = strlen(family->block);
  if (!strncmp(name, family->block, block)) {
    layer = strtoll(name + block, &end, 10);
    if (end == name + block || *end != '.') return false;
    rest = end + 1;
  }
  for (int p = 0; p < AC_PARTS; p++) {
    const char *own = family->parts[p];
    const size_t length = own ? strlen(own) : 0;
    if (!own || (p >= AC_PART_FIRST_OF_BLOCK) != (layer >= 0)) continue;
    if (strncmp(rest, own, length) != 0 || rest[length] != '.') continue;
    t->weight = !strcmp(rest + length, ".weight");
    if (!t->weight && strcmp(rest + length, ".bias") != 0) continue;
    t->part = (ac_model_part)p;
    if (layer < 0)
      snprintf(t->gguf, sizeof t->gguf, "%s%s", ac_gguf_part_name(t->part), rest + length);
    else
      snprintf(t->gguf, sizeof t->gguf, "blk.%lld.%s%s", layer, ac_gguf_part_name(t->part),
               rest + length);
    return true;
  }
  return false;
}

static int find_in_file(const ac_model *model, const char *name) {
  const char *prefix = model->config.family->optional_prefix;
  const size_t length = prefix ? strlen(prefix) : 0;
  int found = ac_model_file_find(model->weights, name);
  if (found < 0 && length && !strncmp(name, prefix, length))
    found = ac_model_file_find(model->weights, name + length);
  return found;
}

static bool take(const ac_model *model, const ac_tensor_info *info, ac_export_tensor *t) {
  *t = (ac_export_tensor){.index = find_in_file(model, info->name), .rank = info->rank};
  snprintf(t->name, sizeof t->name, "%s", info->name);
  memcpy(t->shape, info->shape, sizeof info->shape);
  return parse_name(model->config.family, info->name, t);
}

static ac_status take_checked(ac_model *model, const ac_export_desc *desc, int index,
                              ac_export_tensor *t) {
  ac_tensor_info info;
  AC_TRY(ac_graph_parameter(model->graph, index, &info));
  if (!take(model, &info, t))
    return ac_fail(AC_ERROR_STATE, "%s: the family %s has no part %s", model->path,
                   model->config.family->name, ac_quote(info.name).text);
  t->changed = desc->read && (!desc->changed || desc->changed(desc->user, info.name));
  if (t->index >= 0 || t->changed) return AC_OK;
  return ac_fail(AC_ERROR_STATE, "%s: the model has no weights, and nothing else gives %s",
                 model->path, ac_quote(info.name).text);
}

ac_status ac_export_tensors(ac_export_tensor **tensors, int *count, ac_model *model,
                            const ac_export_desc *desc) {
  *count = ac_graph_parameter_count(model->graph);
  *tensors = calloc((size_t)*count + 1, sizeof **tensors);
  if (!*tensors) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its tensors", model->path);
  for (int i = 0; i < *count; i++) {
    const ac_status status = take_checked(model, desc, i, &(*tensors)[i]);
    if (status == AC_OK) continue;
    free(*tensors);
    *tensors = NULL;
    return status;
  }
  return AC_OK;
}

bool ac_export_find(const ac_model *model, const char *name, ac_export_tensor *tensor) {
  ac_tensor_info info;
  for (int i = 0; i < ac_graph_parameter_count(model->graph); i++)
    if (ac_graph_parameter(model->graph, i, &info) == AC_OK && !strcmp(info.name, name))
      return take(model, &info, tensor);
  return false;
}

bool ac_export_is_permuted(const ac_model *model, const ac_export_tensor *tensor) {
  const char *architecture = ac_export_architecture(model->config.family);
  return (tensor->part == AC_PART_Q || tensor->part == AC_PART_K) && architecture &&
         !strcmp(architecture, "llama");
}

int64_t ac_export_permuted_row(const ac_model *model, int64_t row) {
  const int64_t size = model->config.head_size, place = row % size;
  return row - place + place % 2 * (size / 2) + place / 2;
}

ac_status ac_export_read(ac_model *model, const ac_export_desc *desc,
                         const ac_export_tensor *tensor, int64_t first, int64_t count,
                         float *data) {
  if (!tensor->changed)
    return ac_model_file_read(model->weights, tensor->index, first, count, data);
  const ac_status status = desc->read(desc->user, tensor->name, first, count, data);
  if (ac_is_status(status)) return status;
  return ac_fail(AC_ERROR_IO, "%s: what gives %s returned %d, which is not a status", model->path,
                 ac_quote(tensor->name).text, (int)status);
}

int64_t ac_export_elements(const ac_export_tensor *tensor) {
  int64_t elements = 1;
  for (int d = 0; d < tensor->rank; d++) elements *= tensor->shape[d];
  return elements;
}
