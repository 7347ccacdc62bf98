/* A LoRA as a GGUF file: for each layer NAME.lora_a [rank, in] and NAME.lora_b [out, rank], where
 * NAME is that of the layer's weight in a GGUF file of the model. Rows of B are in the order of
 * those of the weight. */
#include "export/export.h"

#include "core/error.h"
#include "core/quote.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writing {
  const ac_model *model;
  const ac_export_adapter *adapters;
  ac_export_tensor *layers; /* [count]: the weights */
  ac_gguf_tensor *tensors;  /* [2 count]: A and B of each */
  char (*names)[AC_PART_NAME + 8];
} writing;

static ac_status give(void *user, int index, int64_t first, int64_t count, void *data) {
  const writing *w = user;
  const ac_export_adapter *adapter = &w->adapters[index / 2];
  const ac_export_tensor *t = &w->layers[index / 2];
  if (index % 2 == 0 || !ac_export_is_permuted(w->model, t)) {
    memcpy(data, (index % 2 ? adapter->b : adapter->a) + first, (size_t)count * sizeof(float));
    return AC_OK;
  }
  for (int64_t i = 0; i < count; i++) {
    const int64_t row = (first + i) / adapter->rank, column = (first + i) % adapter->rank;
    ((float *)data)[i] = adapter->b[ac_export_permuted_row(w->model, row) * adapter->rank + column];
  }
  return AC_OK;
}

/* The weight of the layer, and its sizes as [out, in]. */
static ac_status find_layer(writing *w, int index, int64_t *out, int64_t *in) {
  const ac_export_adapter *adapter = &w->adapters[index];
  ac_export_tensor *t = &w->layers[index];
  char name[AC_PART_NAME + 16];
  if (!adapter->name || !adapter->a || !adapter->b || adapter->rank < 1)
    return ac_fail(AC_ERROR_ARGUMENT, "adapter %d has no name, no rank, or no numbers", index);
  snprintf(name, sizeof name, "%s.weight", adapter->name);
  if (!ac_export_find(w->model, name, t) || t->rank != 2)
    return ac_fail(AC_ERROR_ARGUMENT, "%s has no layer %s for an adapter", w->model->path,
                   ac_quote(adapter->name).text);
  const bool in_out = w->model->config.family->in_out;
  *out = t->shape[in_out ? 1 : 0];
  *in = t->shape[in_out ? 0 : 1];
  return AC_OK;
}

static ac_status describe(writing *w, int index) {
  int64_t out = 0, in = 0;
  static const char *const suffixes[] = {".lora_a", ".lora_b"};
  AC_TRY(find_layer(w, index, &out, &in));
  const int64_t rank = w->adapters[index].rank;
  for (int half = 0; half < 2; half++) {
    ac_gguf_tensor *to = &w->tensors[2 * index + half];
    char *name = w->names[2 * index + half];
    snprintf(name, sizeof *w->names, "%s%s", w->layers[index].gguf, suffixes[half]);
    *to = (ac_gguf_tensor){.name = name, .type = AC_GGML_F32, .rank = 2};
    to->shape[0] = half ? out : rank;
    to->shape[1] = half ? rank : in;
  }
  return AC_OK;
}

static ac_status write_all(writing *w, const char *path, double alpha, int count) {
  ac_values values = {.count = 0};
  for (int i = 0; i < count; i++) AC_TRY(describe(w, i));
  ac_values_add_text(&values, "general.type", "adapter");
  ac_values_add_text(&values, "general.architecture",
                     ac_export_architecture(w->model->config.family));
  ac_values_add_text(&values, "adapter.type", "lora");
  ac_values_add_f32(&values, "adapter.lora.alpha", alpha);
  const ac_status status =
      values.failed
          ? ac_fail(AC_ERROR_MEMORY, "%s: no memory for metadata", path)
          : ac_gguf_write(path, w->tensors, 2 * count, values.list, values.count, give, w);
  ac_values_free(&values);
  return status;
}

ac_status ac_adapter_export_gguf(const ac_model *model, const char *path, double alpha,
                                 const ac_export_adapter *adapters, int count) {
  AC_REQUIRE(model, path);
  if (count > 0) AC_REQUIRE(adapters);
  if (count < 1) return ac_fail(AC_ERROR_ARGUMENT, "%s: there are no adapters to write", path);
  if (!ac_export_architecture(model->config.family))
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "%s: this library does not write adapters of the family %s as GGUF files",
                   model->path, model->config.family->name);
  writing w = {.model = model,
               .adapters = adapters,
               .layers = calloc((size_t)count, sizeof *w.layers),
               .tensors = calloc(2 * (size_t)count, sizeof *w.tensors),
               .names = calloc(2 * (size_t)count, sizeof *w.names)};
  const ac_status status = w.layers && w.tensors && w.names
                               ? write_all(&w, path, alpha, count)
                               : ac_fail(AC_ERROR_MEMORY, "%s: no memory for adapters", path);
  free(w.layers);
  free(w.tensors);
  free(w.names);
  return status;
}
