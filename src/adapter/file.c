/* Adapters in files, as PEFT has them: a folder with adapter_config.json and
 * adapter_model.safetensors. Its tensors are "base_model.model." and the names of the
 * parameters. Only magnitudes differ: the file has them whole, a trainer their changes. */
#include "adapter/config.h"

#include "core/integers.h"
#include "core/platform/atomic_file.h"
#include "core/quote.h"
#include "io/safetensors.h"
#include "ops/linear/adapted.h"
#include "window/trainer.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH = 4096, PIECE = 1 << 14, MOST_LAYERS = 8192 };
static const char prefix[] = "base_model.model.";
static const char magnitude_in_file[] = "lora_magnitude_vector";

/* The parts of an adapter of one layer. */
enum { PART_A, PART_B, PART_MAGNITUDE, PARTS };
static const char *const parts[PARTS] = {AC_LORA_A, AC_LORA_B, AC_LORA_MAGNITUDE};
static const char *const parts_in_file[PARTS] = {AC_LORA_A, AC_LORA_B, magnitude_in_file};

/* One layer of an open adapter. */
typedef struct module {
  char *name;
  int tensor[PARTS]; /* in the file; -1: none */
  int64_t in, out;
  ac_lora_choice choice;
} module;

struct ac_adapter {
  ac_lora_config config;
  ac_lora_desc desc;
  ac_lora_module *described; /* the desc's modules */
  ac_model_file *file;
  char *path; /* of the file */
  module *modules;
  int *by_name; /* places of modules, in the order of their names */
  int count;
  /* Of the layer that was merged last. */
  int held; /* -1: none */
  float *values[PARTS];
};

/* The layer's name if `name` is that of the part; "" if it is not. */
static void layer_of(const char *name, const char *part, char layer[AC_MAX_NAME + 1]) {
  const size_t all = strlen(name), end = strlen(part);
  layer[0] = 0;
  if (all <= end + 1 || all - end - 1 > AC_MAX_NAME || name[all - end - 1] != '.' ||
      strcmp(name + all - end, part) != 0)
    return;
  memcpy(layer, name, all - end - 1);
  layer[all - end - 1] = 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* How many layers have names before this one; *found: the layer itself, or NULL. */
static int place_of(const ac_adapter *a, const char *name, module **found) {
  int first = 0, end = a->count;
  *found = NULL;
  while (first < end) {
    const int middle = first + (end - first) / 2;
    module *m = &a->modules[a->by_name[middle]];
    const int order = strcmp(m->name, name);
    if (!order) *found = m;
    if (order < 0) first = middle + 1;
    else end = middle;
  }
  return first;
}

static module *find_module(const ac_adapter *a, const char *name) {
  module *found;
  place_of(a, name, &found);
  return found;
}

static ac_status add_module(ac_adapter *a, const char *name, int place) {
  if (a->count == MOST_LAYERS)
    return ac_fail(AC_ERROR_UNSUPPORTED, "it has more than %d layers", MOST_LAYERS);
  const size_t count = (size_t)a->count;
  module *more = realloc(a->modules, (count + 1) * sizeof *more);
  if (more) a->modules = more;
  int *order = realloc(a->by_name, (count + 1) * sizeof *order);
  if (order) a->by_name = order;
  char *copy = more && order ? strdup(name) : NULL;
  if (!copy) return ac_fail(AC_ERROR_MEMORY, "no memory for an adapter");
  memmove(order + place + 1, order + place, (size_t)(a->count - place) * sizeof *order);
  order[place] = a->count;
  more[a->count++] = (module){.name = copy, .tensor = {-1, -1, -1}};
  return AC_OK;
}

/* A tensor as a part of a layer. */
static ac_status take_tensor(ac_adapter *a, int index) {
  const ac_model_tensor *tensor = ac_model_file_tensor(a->file, index);
  char layer[AC_MAX_NAME + 1];
  const bool named = !strncmp(tensor->name, prefix, sizeof prefix - 1);
  for (int part = 0; part < PARTS && named; part++) {
    layer_of(tensor->name + sizeof prefix - 1, parts_in_file[part], layer);
    if (!*layer) continue;
    if (part == PART_MAGNITUDE && !a->config.dora) break;
    if (tensor->rank != (part == PART_MAGNITUDE ? 1 : 2))
      return ac_fail(AC_ERROR_FORMAT, "tensor %s has %d dimensions", ac_quote(tensor->name).text,
                     tensor->rank);
    module *m;
    const int place = place_of(a, layer, &m);
    if (!m) AC_TRY(add_module(a, layer, place));
    a->modules[a->by_name[place]].tensor[part] = index;
    return AC_OK;
  }
  return ac_fail(AC_ERROR_UNSUPPORTED, "tensor %s is not a part of an adapter of this kind",
                 ac_quote(tensor->name).text);
}

/* Checks that a layer has its parts, that they fit each other, and what the description says. */
static ac_status finish_module(ac_adapter *a, module *m) {
  const ac_quoted quoted = ac_quote(m->name);
  const char *name = quoted.text;
  ac_lora_said said;
  for (int part = 0; part < (a->config.dora ? PARTS : PART_MAGNITUDE); part++)
    if (m->tensor[part] < 0)
      return ac_fail(AC_ERROR_FORMAT, "layer %s lacks its %s", name, parts_in_file[part]);
  const int64_t *down = ac_model_file_tensor(a->file, m->tensor[PART_A])->shape,
                *up = ac_model_file_tensor(a->file, m->tensor[PART_B])->shape;
  m->in = down[1], m->out = up[0];
  if (down[0] != up[1] || m->in < 1 || m->out < 1 || down[0] < 1)
    return ac_fail(AC_ERROR_FORMAT, "layer %s: A is [%lld, %lld] and B is [%lld, %lld]", name,
                   (long long)down[0], (long long)down[1], (long long)up[0], (long long)up[1]);
  if (m->tensor[PART_MAGNITUDE] >= 0 &&
      ac_model_file_tensor(a->file, m->tensor[PART_MAGNITUDE])->shape[0] != m->out)
    return ac_fail(AC_ERROR_FORMAT, "layer %s has magnitudes of another size", name);
  AC_TRY(ac_lora_config_of(&a->config, m->name, &said));
  if (!said.target)
    return ac_fail(AC_ERROR_FORMAT, "layer %s is none of the \"target_modules\"", name);
  if (said.rank != down[0])
    return ac_fail(AC_ERROR_FORMAT, "layer %s has rank %lld, but its description says %lld", name,
                   (long long)down[0], (long long)said.rank);
  const double rank = (double)said.rank;
  m->choice = (ac_lora_choice){said.rank, said.alpha,
                               said.alpha / (a->config.rank_stabilised ? sqrt(rank) : rank)};
  return AC_OK;
}

static ac_status read_modules(ac_adapter *a) {
  const int tensors = ac_model_file_tensor_count(a->file);
  if (!tensors) return ac_fail(AC_ERROR_FORMAT, "it has no tensor");
  for (int i = 0; i < tensors; i++) AC_TRY(take_tensor(a, i));
  for (int i = 0; i < a->count; i++) AC_TRY(finish_module(a, &a->modules[i]));
  a->described = calloc((size_t)(unsigned)a->count + 1, sizeof *a->described);
  if (!a->described) return ac_fail(AC_ERROR_MEMORY, "no memory for an adapter");
  for (int i = 0; i < a->count; i++)
    a->described[i] =
        (ac_lora_module){a->modules[i].name, a->modules[i].choice.rank, a->modules[i].choice.alpha};
  a->desc = (ac_lora_desc){.rank = a->config.rank,
                           .alpha = a->config.alpha,
                           .dropout = a->config.dropout,
                           .rank_stabilised = a->config.rank_stabilised,
                           .dora = a->config.dora,
                           .targets = "",
                           .modules = a->described,
                           .module_count = a->count};
  return AC_OK;
}

static ac_status join(char path[PATH], const char *folder, const char *name) {
  const int length = snprintf(path, PATH, "%s/%s", folder, name);
  if (length >= 0 && length < PATH) return AC_OK;
  return ac_fail(AC_ERROR_ARGUMENT, "a path has more than %d bytes", PATH - 1);
}

static ac_status open_folder(ac_adapter *a, const char *folder) {
  char path[PATH];
  AC_TRY(join(path, folder, "adapter_config.json"));
  AC_TRY(ac_lora_config_read(&a->config, path));
  AC_TRY(join(path, folder, "adapter_model.safetensors"));
  a->path = strdup(path);
  if (!a->path) return ac_fail(AC_ERROR_MEMORY, "no memory for an adapter");
  AC_TRY(ac_model_file_open(&a->file, path));
  const ac_status status = read_modules(a);
  return status == AC_OK ? AC_OK : ac_fail_prefix(status, "%s", path);
}

ac_status ac_adapter_open(ac_adapter **adapter, const char *folder) {
  AC_CREATES(adapter);
  AC_REQUIRE(folder);
  ac_adapter *made = calloc(1, sizeof *made);
  if (!made) return ac_fail(AC_ERROR_MEMORY, "no memory for an adapter");
  made->held = -1;
  const ac_status status = open_folder(made, folder);
  if (status != AC_OK) {
    ac_adapter_close(made);
    return status;
  }
  *adapter = made;
  return AC_OK;
}

void ac_adapter_close(ac_adapter *adapter) {
  if (!adapter) return;
  for (int i = 0; i < adapter->count; i++) free(adapter->modules[i].name);
  for (int part = 0; part < PARTS; part++) free(adapter->values[part]);
  free(adapter->modules);
  free(adapter->by_name);
  free(adapter->described);
  free(adapter->path);
  ac_model_file_close(adapter->file);
  ac_lora_config_free(&adapter->config);
  free(adapter);
}

const ac_lora_desc *ac_adapter_desc(const ac_adapter *adapter) {
  return adapter ? &adapter->desc : NULL;
}

const char *ac_adapter_base(const ac_adapter *adapter) {
  return adapter ? adapter->config.base : "";
}

/* The parameter of this part of a layer; -1: none. */
static int find_part(const ac_instance *instance, const char *layer, int part) {
  char name[AC_MAX_NAME + 32];
  snprintf(name, sizeof name, "%s.%s", layer, parts[part]);
  return ac_instance_find_parameter(instance, name);
}

/* ---- norms of the rows of a weight ----------------------------------------------------------- */

/* Whether it is stored as [in, out]. */
static bool is_in_out(const ac_tensor *weight) {
  return weight->matrix == AC_MATRIX_IN_OUT;
}

/* |W| of each output, of the weight of a layer; `squares` has room for `out`. */
static ac_status row_norms(const ac_instance *instance, const char *layer, int64_t out,
                           double *squares) {
  float piece[1024];
  const ac_graph *graph = instance->plan->graph;
  const int up = find_part(instance, layer, PART_B);
  const ac_tensor *weight = up < 0 ? NULL : ac_linear_adapted_weight(graph, graph->parameters[up]);
  const int index =
      weight && weight->name ? ac_instance_find_parameter(instance, weight->name) : -1;
  if (index < 0 || weight->shape.rank != 2 || weight->shape.dim[is_in_out(weight)] != out)
    return ac_fail(AC_ERROR_ARGUMENT, "adapter: there is no weight of layer \"%s\" in the graph",
                   layer);
  const int64_t elements = ac_shape_count(&weight->shape), columns = weight->shape.dim[1];
  memset(squares, 0, (size_t)out * sizeof *squares);
  for (int64_t first = 0; first < elements; first += 1024) {
    const int64_t count = ac_smaller(1024, elements - first);
    AC_TRY(ac_instance_read_parameter(instance, index, first, count, piece));
    for (int64_t i = 0; i < count; i++) {
      const int64_t at = is_in_out(weight) ? (first + i) % columns : (first + i) / columns;
      squares[at] += (double)piece[i] * (double)piece[i];
    }
  }
  for (int64_t o = 0; o < out; o++) squares[o] = sqrt(squares[o]);
  return AC_OK;
}

/* ---- loading --------------------------------------------------------------------------------- */

static ac_status check_part(const ac_adapter *a, const ac_instance *instance, const module *m,
                            int part) {
  const int index = find_part(instance, m->name, part);
  const ac_graph *graph = instance->plan->graph;
  if (index < 0)
    return ac_fail(AC_ERROR_FORMAT, "%s: layer %s has no adapter of this kind in the graph",
                   a->path, ac_quote(m->name).text);
  const ac_shape *shape = &ac_tensor_at(graph, graph->parameters[index])->shape;
  const ac_model_tensor *there = ac_model_file_tensor(a->file, m->tensor[part]);
  bool same = shape->rank == there->rank;
  for (int i = 0; same && i < there->rank; i++) same = shape->dim[i] == there->shape[i];
  if (same) return AC_OK;
  char text[AC_SHAPE_TEXT];
  return ac_fail(AC_ERROR_FORMAT, "%s: tensor %s does not have the shape %s of the graph", a->path,
                 ac_quote(there->name).text, ac_shape_text(text, shape));
}

/* Both have the same layers. */
static ac_status check_all(const ac_adapter *a, const ac_instance *instance) {
  const ac_graph *graph = instance->plan->graph;
  char layer[AC_MAX_NAME + 1];
  for (int i = 0; i < a->count; i++)
    for (int part = 0; part < PARTS; part++)
      if (a->modules[i].tensor[part] >= 0) AC_TRY(check_part(a, instance, &a->modules[i], part));
  for (int i = 0; i < graph->parameter_count; i++)
    for (int part = 0; part < PARTS; part++) {
      layer_of(ac_tensor_at(graph, graph->parameters[i])->name, parts[part], layer);
      const module *m = *layer ? find_module(a, layer) : NULL;
      if (*layer && (!m || m->tensor[part] < 0))
        return ac_fail(AC_ERROR_FORMAT, "%s: it has no %s of layer \"%s\"", a->path,
                       parts_in_file[part], layer);
    }
  return AC_OK;
}

static ac_status load_part(const ac_adapter *a, const ac_instance *instance, const module *m,
                           int part, const double *norms, float *piece) {
  const int index = find_part(instance, m->name, part), tensor = m->tensor[part];
  const ac_model_tensor *there = ac_model_file_tensor(a->file, tensor);
  int64_t elements = there->shape[0];
  if (there->rank == 2) elements *= there->shape[1];
  for (int64_t first = 0; first < elements; first += PIECE) {
    const int64_t count = ac_smaller(PIECE, elements - first);
    AC_TRY(ac_model_file_read(a->file, tensor, first, count, piece));
    for (int64_t i = 0; norms && i < count; i++)
      piece[i] = (float)((double)piece[i] - norms[first + i]);
    AC_TRY(ac_instance_write_parameter(instance, index, first, count, piece));
  }
  return AC_OK;
}

static ac_status load_module(const ac_adapter *a, const ac_instance *instance, const module *m,
                             double *norms, float *piece) {
  AC_TRY(load_part(a, instance, m, PART_A, NULL, piece));
  AC_TRY(load_part(a, instance, m, PART_B, NULL, piece));
  if (m->tensor[PART_MAGNITUDE] < 0) return AC_OK;
  AC_TRY(row_norms(instance, m->name, m->out, norms));
  return load_part(a, instance, m, PART_MAGNITUDE, norms, piece);
}

static ac_status load(const ac_adapter *a, const ac_instance *instance) {
  int64_t most = 1;
  AC_TRY(check_all(a, instance));
  for (int i = 0; i < a->count; i++) most = ac_larger(most, a->modules[i].out);
  float *piece = malloc(PIECE * sizeof *piece);
  double *norms = malloc((size_t)most * sizeof *norms);
  ac_status status =
      piece && norms ? AC_OK : ac_fail(AC_ERROR_MEMORY, "no memory to load %s", a->path);
  for (int i = 0; i < a->count && status == AC_OK; i++)
    status = load_module(a, instance, &a->modules[i], norms, piece);
  free(norms);
  free(piece);
  return status;
}

ac_status ac_adapter_load(const ac_adapter *adapter, ac_trainer *trainer) {
  AC_REQUIRE(adapter, trainer);
  AC_TRY(ac_trainer_check_writable(trainer));
  return load(adapter, &trainer->instance);
}

ac_status ac_adapter_load_session(const ac_adapter *adapter, ac_session *session) {
  ac_instance *instance;
  AC_REQUIRE(adapter, session);
  AC_TRY(ac_session_instance(session, &instance));
  return load(adapter, instance);
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* The parameters of adapters of a trainer, as tensors of a file. */
typedef struct saved {
  ac_instance *instance;
  ac_model_tensor *tensors;
  int *parameter; /* by tensor */
  char (*names)[AC_MAX_NAME + 64];
  bool *finite;
  int count;
  /* Norms of the layer that was last asked for its magnitudes. */
  int held; /* tensor; -1: none */
  double *norms;
} saved;

static ac_status list_saved(saved *s, ac_instance *instance) {
  const ac_graph *graph = instance->plan->graph;
  const size_t room = (size_t)graph->parameter_count + 1;
  char layer[AC_MAX_NAME + 1];
  int64_t most = 1;
  *s = (saved){.instance = instance,
               .tensors = calloc(room, sizeof *s->tensors),
               .parameter = calloc(room, sizeof *s->parameter),
               .names = calloc(room, sizeof *s->names),
               .finite = calloc(room, sizeof *s->finite),
               .held = -1};
  if (!s->tensors || !s->parameter || !s->names || !s->finite)
    return ac_fail(AC_ERROR_MEMORY, "no memory to save an adapter");
  for (int i = 0; i < graph->parameter_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, graph->parameters[i]);
    for (int part = 0; part < PARTS; part++) {
      layer_of(tensor->name, parts[part], layer);
      if (!*layer) continue;
      const int at = s->count++;
      snprintf(s->names[at], sizeof *s->names, "%s%s.%s", prefix, layer, parts_in_file[part]);
      s->parameter[at] = i;
      s->finite[at] = !instance->device->backend->computes_nothing;
      s->tensors[at] = (ac_model_tensor){s->names[at], AC_F32, tensor->shape.rank, {0}};
      for (int k = 0; k < tensor->shape.rank; k++) s->tensors[at].shape[k] = tensor->shape.dim[k];
      if (part == PART_MAGNITUDE) most = ac_larger(most, tensor->shape.dim[0]);
    }
  }
  if (!s->count) return ac_fail(AC_ERROR_ARGUMENT, "adapter: no parameter belongs to an adapter");
  s->norms = calloc((size_t)most, sizeof *s->norms);
  return s->norms ? AC_OK : ac_fail(AC_ERROR_MEMORY, "no memory to save an adapter");
}

static void free_saved(saved *s) {
  free(s->tensors);
  free(s->parameter);
  free(s->names);
  free(s->finite);
  free(s->norms);
}

static ac_status read_saved(void *user, int index, int64_t first, int64_t count, void *data) {
  saved *s = user;
  char layer[AC_MAX_NAME + 1];
  float *values = data;
  AC_TRY(ac_instance_read_parameter(s->instance, s->parameter[index], first, count, values));
  layer_of(s->names[index] + sizeof prefix - 1, magnitude_in_file, layer);
  if (!*layer) return AC_OK;
  if (s->held != index) AC_TRY(row_norms(s->instance, layer, s->tensors[index].shape[0], s->norms));
  s->held = index;
  for (int64_t i = 0; i < count; i++) values[i] = (float)((double)values[i] + s->norms[first + i]);
  return AC_OK;
}

ac_status ac_adapter_save_weights(ac_trainer *trainer, const char *path,
                                  const ac_metadata *metadata, int metadata_count) {
  AC_REQUIRE(trainer, path);
  if (metadata_count > 0) AC_REQUIRE(metadata);
  AC_TRY(ac_instance_check_usable(&trainer->instance, "trainer"));
  saved s;
  ac_status status = list_saved(&s, &trainer->instance);
  const ac_write_rules rules = {.finite = s.finite};
  if (status == AC_OK)
    status = ac_model_file_write_by(&rules, path, s.tensors, s.count, metadata, metadata_count,
                                    read_saved, &s);
  free_saved(&s);
  return status;
}

/* ---- describing ------------------------------------------------------------------------------ */

/* All layers that a graph multiplies by, and the rank that each adapter has. */
typedef struct described {
  const char **names;
  ac_lora_choice *choices;
  char (*texts)[AC_MAX_NAME + 1];
  ac_lora_written written;
} described;

/* A layer with an adapter, by the name of its A. */
static ac_status describe_layer(described *d, const ac_instance *instance, const ac_tensor *down,
                                const ac_lora_desc *desc) {
  const ac_graph *graph = instance->plan->graph;
  const int at = d->written.count;
  const char *name = d->texts[at];
  layer_of(down->name, parts[PART_A], d->texts[at]);
  d->choices[at] = ac_lora_choose(desc, name);
  if (d->choices[at].rank != down->shape.dim[0])
    return ac_fail(AC_ERROR_ARGUMENT,
                   "adapter: layer \"%s\" has rank %lld, but the description says %lld", name,
                   (long long)down->shape.dim[0], (long long)d->choices[at].rank);
  if (desc->dora != (find_part(instance, name, PART_MAGNITUDE) >= 0))
    return ac_fail(AC_ERROR_ARGUMENT,
                   "adapter: layer \"%s\" is%s one of DoRA, other than the description says", name,
                   desc->dora ? " not" : "");
  const int up = find_part(instance, name, PART_B);
  const ac_tensor *weight = up < 0 ? NULL : ac_linear_adapted_weight(graph, graph->parameters[up]);
  d->written.in_out |= weight && is_in_out(weight);
  d->written.count++;
  return AC_OK;
}

/* Whether the parameter is the matrix of a layer without an adapter; its name then is added. */
static void describe_other(described *d, const ac_instance *instance, const ac_tensor *weight) {
  char *name = d->texts[d->written.count];
  if (weight->matrix == AC_NO_MATRIX || weight->shape.rank != 2) return;
  layer_of(weight->name, "weight", name);
  const char *end = strrchr(name, '.');
  const bool is_part = end && (!strcmp(end, ".lora_A") || !strcmp(end, ".lora_B"));
  if (*name && !is_part && find_part(instance, name, PART_A) < 0) d->written.count++;
}

static ac_status describe(described *d, const ac_instance *instance, const ac_lora_desc *desc) {
  const ac_graph *graph = instance->plan->graph;
  const size_t room = (size_t)graph->parameter_count + 1;
  char layer[AC_MAX_NAME + 1];
  *d = (described){calloc(room, sizeof *d->names),
                   calloc(room, sizeof *d->choices),
                   calloc(room, sizeof *d->texts),
                   {.in_out = false}};
  if (!d->names || !d->choices || !d->texts)
    return ac_fail(AC_ERROR_MEMORY, "no memory to describe an adapter");
  for (int i = 0; i < graph->parameter_count; i++) {
    const ac_tensor *parameter = ac_tensor_at(graph, graph->parameters[i]);
    layer_of(parameter->name, parts[PART_A], layer);
    if (*layer) AC_TRY(describe_layer(d, instance, parameter, desc));
    else describe_other(d, instance, parameter);
  }
  for (int i = 0; i < d->written.count; i++) d->names[i] = d->texts[i];
  d->written.names = d->names, d->written.choices = d->choices;
  return AC_OK;
}

ac_status ac_adapter_config(char **json, const ac_trainer *trainer, const ac_lora_desc *desc,
                            const char *base) {
  AC_CREATES(json);
  AC_REQUIRE(trainer);
  const ac_lora_desc said = AC_DESCRIBED(ac_lora_desc, desc);
  const char *fault = ac_lora_fault(&said);
  if (fault) return ac_fail(AC_ERROR_ARGUMENT, "adapter: %s", fault);
  described d;
  char *text = NULL;
  ac_status status = describe(&d, &trainer->instance, &said);
  if (status == AC_OK) status = ac_lora_config_write(&text, &said, base, &d.written);
  free(d.names);
  free(d.choices);
  free(d.texts);
  if (status == AC_OK) *json = text;
  return status;
}

static ac_status write_text(const char *path, const char *text) {
  ac_atomic_file file;
  AC_TRY(ac_atomic_open(&file, path));
  ac_status status = ac_atomic_write(&file, text, strlen(text));
  if (status == AC_OK) status = ac_atomic_write(&file, "\n", 1);
  if (status == AC_OK) return ac_atomic_commit(&file);
  ac_atomic_abandon(&file);
  return status;
}

ac_status ac_adapter_save(ac_trainer *trainer, const char *folder, const ac_lora_desc *desc,
                          const char *base) {
  char path[PATH], *text;
  AC_REQUIRE(trainer, folder);
  AC_TRY(ac_adapter_config(&text, trainer, desc, base));
  static const ac_metadata metadata = {"format", "pt"};
  ac_status status = join(path, folder, "adapter_model.safetensors");
  if (status == AC_OK) status = ac_adapter_save_weights(trainer, path, &metadata, 1);
  if (status == AC_OK) status = join(path, folder, "adapter_config.json");
  if (status == AC_OK) status = write_text(path, text);
  free(text);
  return status;
}

/* ---- merging --------------------------------------------------------------------------------- */

/* Brings the values of a layer to memory. */
static ac_status hold(ac_adapter *a, int index) {
  const module *m = &a->modules[index];
  if (a->held == index) return AC_OK;
  a->held = -1;
  for (int part = 0; part < PARTS; part++) {
    free(a->values[part]);
    a->values[part] = NULL;
    if (m->tensor[part] < 0) continue;
    const ac_model_tensor *tensor = ac_model_file_tensor(a->file, m->tensor[part]);
    const int64_t count = tensor->shape[0] * (tensor->rank == 2 ? tensor->shape[1] : 1);
    a->values[part] = malloc((size_t)count * sizeof(float));
    if (!a->values[part]) return ac_fail(AC_ERROR_MEMORY, "no memory to merge %s", a->path);
    AC_TRY(ac_model_file_read(a->file, m->tensor[part], 0, count, a->values[part]));
  }
  a->held = index;
  return AC_OK;
}

/* Row o of W [out, in] becomes that of V = W + scale B A or, of DoRA, of m V / |V|. */
static void merge_row(const ac_adapter *a, const module *m, int64_t o, float *row) {
  const float *down = a->values[PART_A], *up = a->values[PART_B] + o * m->choice.rank;
  double squares = 0;
  for (int64_t i = 0; i < m->in; i++) {
    double sum = 0;
    for (int64_t r = 0; r < m->choice.rank; r++) sum += (double)up[r] * (double)down[r * m->in + i];
    const double v = (double)row[i] + m->choice.scale * sum;
    squares += v * v;
    row[i] = (float)v;
  }
  if (!a->values[PART_MAGNITUDE] || squares == 0) return;
  const double factor = (double)a->values[PART_MAGNITUDE][o] / sqrt(squares);
  for (int64_t i = 0; i < m->in; i++) row[i] = (float)(factor * (double)row[i]);
}

/* Row i of W [in, out]. */
static void merge_input(const ac_adapter *a, const module *m, int64_t i, float *row) {
  const float *down = a->values[PART_A], *up = a->values[PART_B];
  for (int64_t o = 0; o < m->out; o++) {
    double sum = 0;
    for (int64_t r = 0; r < m->choice.rank; r++)
      sum += (double)up[o * m->choice.rank + r] * (double)down[r * m->in + i];
    row[o] = (float)((double)row[o] + m->choice.scale * sum);
  }
}

ac_status ac_adapter_merge(ac_adapter *adapter, const char *weight, ac_layout layout, int64_t first,
                           int64_t count, int64_t columns, float *rows) {
  char layer[AC_MAX_NAME + 1];
  AC_REQUIRE(adapter, weight);
  if (count > 0) AC_REQUIRE(rows);
  layer_of(weight, "weight", layer);
  const module *m = *layer ? find_module(adapter, layer) : NULL;
  if (!m) return AC_OK;
  const bool in_out = layout == AC_IN_OUT;
  const int64_t all = in_out ? m->in : m->out;
  if (columns != (in_out ? m->out : m->in) || first < 0 || count < 0 || first > all ||
      count > all - first)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "%s: rows %lld to %lld of %lld columns are not of layer \"%s\", which has %lld "
                   "inputs and %lld outputs",
                   adapter->path, (long long)first, (long long)(first + count), (long long)columns,
                   layer, (long long)m->in, (long long)m->out);
  if (in_out && m->tensor[PART_MAGNITUDE] >= 0)
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "%s: DoRA of layer \"%s\" cannot be merged, as its weight is stored by inputs",
                   adapter->path, layer);
  AC_TRY(hold(adapter, (int)(m - adapter->modules)));
  for (int64_t k = 0; k < count; k++) {
    if (in_out) merge_input(adapter, m, first + k, rows + k * columns);
    else merge_row(adapter, m, first + k, rows + k * columns);
  }
  return AC_OK;
}
