/* Parameters of an instance: reading, writing, model files. All of it passes
 * through a bounded buffer, so no second copy of a model is ever held. */
#include "core/blocks.h"
#include "core/error.h"
#include "core/half.h"
#include "core/integers.h"
#include "core/platform/patterns.h"
#include "io/safetensors.h"
#include "run/instance.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16 }; /* elements moved at once */

static const ac_tensor *parameter_tensor(const ac_instance *instance, int index) {
  const ac_graph *graph = instance->plan->graph;
  return ac_tensor_at(graph, graph->parameters[index]);
}

int ac_instance_find_parameter(const ac_instance *instance, const char *name) {
  for (int i = 0; i < instance->plan->graph->parameter_count; i++)
    if (!strcmp(parameter_tensor(instance, i)->name, name)) return i;
  return -1;
}

ac_status ac_instance_check_range(const ac_instance *instance, int index, int64_t first,
                                  int64_t count) {
  int parameters = instance->plan->graph->parameter_count;
  if (index < 0 || index >= parameters)
    return ac_fail(AC_ERROR_ARGUMENT, "parameter %d of %d", index, parameters);
  const ac_tensor *tensor = parameter_tensor(instance, index);
  int64_t elements = ac_shape_count(&tensor->shape);
  if (first < 0 || count < 0 || first > elements || count > elements - first)
    return ac_fail(AC_ERROR_ARGUMENT,
                   "parameter \"%s\" has %lld elements; asked for %lld from %lld", tensor->name,
                   (long long)elements, (long long)count, (long long)first);
  return AC_OK;
}

/* Marks zeros as a device does: the sign of a zero tells whether the value was zero before. */
static void mark_zeros(uint16_t *half, const float *data, int64_t count) {
  for (int64_t i = 0; i < count; i++)
    if (!(half[i] & 0x7fffu)) half[i] = data[i] == 0 ? 0 : 0x8000;
}

/* What is stored in 16 bits passes through a small buffer on its way. */
static ac_status write_halves(const ac_instance *instance, int tensor, int64_t first, int64_t count,
                              const float *data) {
  uint16_t half[4096];
  const int64_t most = sizeof half / sizeof *half;
  ac_dtype dtype = ac_tensor_at(instance->plan->graph, tensor)->dtype;
  for (int64_t done = 0; done < count; done += most) {
    int64_t piece = count - done < most ? count - done : most;
    ac_floats_write(half, dtype, data + done, piece);
    if (dtype == AC_F16 && instance->run.mark_flushed) mark_zeros(half, data + done, piece);
    AC_TRY(instance->device->backend->upload(instance->device->state, instance->persistent[tensor],
                                             (uint64_t)(first + done) * sizeof *half, half,
                                             (uint64_t)piece * sizeof *half));
  }
  return AC_OK;
}

ac_status ac_instance_write_floats(const ac_instance *instance, int tensor, int64_t first,
                                   int64_t count, const float *data) {
  if (ac_tensor_at(instance->plan->graph, tensor)->dtype != AC_F32)
    return write_halves(instance, tensor, first, count, data);
  return instance->device->backend->upload(instance->device->state, instance->persistent[tensor],
                                           (uint64_t)first * sizeof *data, data,
                                           (uint64_t)count * sizeof *data);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* The tensor that holds a parameter in blocks; NULL: it is not in blocks. */
static const ac_tensor *blocks_of(const ac_instance *instance, int index) {
  const ac_plan *plan = instance->plan;
  const int working = plan->problem.parameters[index].working;
  const ac_tensor *kept = working < 0 ? NULL : ac_tensor_at(plan->graph, working);
  return kept && kept->blocks ? kept : NULL;
}

enum {
  MOST_ELEMENTS = 4096
}; /* of blocks that pass through a buffer: whole blocks of any format */

/* Whole blocks that a range begins in, as many as pass at once. */
typedef struct touched {
  int64_t first, count; /* elements */
  uint64_t at, bytes;
} touched;

static touched touch(ac_blocks blocks, int64_t first, int64_t count) {
  const ac_block_format *format = ac_blocks_format(blocks);
  const int64_t size = format->elements, begin = first / size,
                end = ac_ceil_div(first + count, size), most = MOST_ELEMENTS / size,
                number = ac_smaller(end - begin, most);
  return (touched){begin * size, number * size, (uint64_t)(begin * format->bytes),
                   (uint64_t)(number * format->bytes)};
}

static ac_status read_blocks(const ac_instance *instance, const ac_tensor *kept, int64_t first,
                             int64_t count, float *data) {
  unsigned char stored[MOST_ELEMENTS * 2];
  float values[MOST_ELEMENTS];
  for (int64_t done = 0; done < count;) {
    const touched t = touch(kept->blocks, first + done, count - done);
    const int64_t skipped = first + done - t.first,
                  piece = ac_smaller(t.count - skipped, count - done);
    AC_TRY(instance->device->backend->download(
        instance->device->state, instance->persistent[kept->id], t.at, stored, t.bytes));
    ac_blocks_decode(kept->blocks, stored, t.count, values);
    memcpy(data + done, values + skipped, (size_t)piece * sizeof *data);
    done += piece;
  }
  return AC_OK;
}

/* Blocks that the range has in part are rounded anew with the elements that they have. */
static ac_status write_blocks(const ac_instance *instance, const ac_tensor *kept, int64_t first,
                              int64_t count, const float *data) {
  unsigned char stored[MOST_ELEMENTS * 2];
  float values[MOST_ELEMENTS];
  for (int64_t done = 0; done < count;) {
    const touched t = touch(kept->blocks, first + done, count - done);
    const int64_t skipped = first + done - t.first,
                  piece = ac_smaller(t.count - skipped, count - done);
    if (piece < t.count) AC_TRY(read_blocks(instance, kept, t.first, t.count, values));
    memcpy(values + skipped, data + done, (size_t)piece * sizeof *data);
    ac_blocks_encode(kept->blocks, values, t.count, stored);
    AC_TRY(instance->device->backend->upload(
        instance->device->state, instance->persistent[kept->id], t.at, stored, t.bytes));
    done += piece;
  }
  return AC_OK;
}

/* ---- floats ---------------------------------------------------------------------------------- */

ac_status ac_instance_put_parameter(const ac_instance *instance, int index, int64_t first,
                                    int64_t count, const float *data) {
  if (count == 0) return AC_OK; /* there may be no data to point to */
  instance = ac_shared_owner(instance, &index);
  const ac_parameter_tensors *memory = &instance->plan->problem.parameters[index];
  const ac_tensor *kept = blocks_of(instance, index);
  if (kept) return write_blocks(instance, kept, first, count, data);
  if (instance->persistent[memory->tensor])
    AC_TRY(ac_instance_write_floats(instance, memory->tensor, first, count, data));
  if (memory->working < 0 || !instance->persistent[memory->working]) return AC_OK;
  return ac_instance_write_floats(instance, memory->working, first, count, data);
}

ac_status ac_instance_write_parameter(const ac_instance *instance, int index, int64_t first,
                                      int64_t count, const float *data) {
  AC_TRY(ac_instance_settle(instance));
  return ac_instance_put_parameter(instance, index, first, count, data);
}

/* In place. */
static void read_integers(float *data, int64_t count) {
  for (int64_t i = 0; i < count; i++) {
    int32_t n;
    memcpy(&n, data + i, sizeof n);
    data[i] = (float)n;
  }
}

/* 16-bit elements come into the second half of the room for floats, and are converted from the
 * first on: none is overwritten before it is read. */
ac_status ac_instance_read_floats(const ac_instance *instance, const void *handle, ac_dtype dtype,
                                  int64_t first, int64_t count, float *data) {
  if (count == 0) return AC_OK; /* there may be no data to point to */
  size_t size = ac_dtype_bytes(dtype);
  char *from = (char *)data + (size_t)count * (sizeof *data - size);
  AC_TRY(instance->device->backend->download(instance->device->state, handle,
                                             (uint64_t)first * size, from, (uint64_t)count * size));
  if (dtype == AC_I32) read_integers(data, count);
  else if (dtype != AC_F32) ac_floats_read(data, from, dtype, count);
  return AC_OK;
}

ac_status ac_instance_take_parameter(const ac_instance *instance, int index, int64_t first,
                                     int64_t count, float *data) {
  instance = ac_shared_owner(instance, &index);
  const ac_parameter_tensors *memory = &instance->plan->problem.parameters[index];
  const ac_tensor *kept = blocks_of(instance, index);
  if (kept) return read_blocks(instance, kept, first, count, data);
  int tensor = instance->persistent[memory->tensor] ? memory->tensor : memory->working;
  return ac_instance_read_floats(instance, instance->persistent[tensor],
                                 ac_tensor_at(instance->plan->graph, tensor)->dtype, first, count,
                                 data);
}

ac_status ac_instance_read_parameter(const ac_instance *instance, int index, int64_t first,
                                     int64_t count, float *data) {
  AC_TRY(ac_instance_settle(instance));
  return ac_instance_take_parameter(instance, index, first, count, data);
}

/* ---- model files ----------------------------------------------------------------------------- */

static int find_in_file(const ac_model_file *file, const char *name, const char *prefix) {
  int found = ac_model_file_find(file, name);
  size_t length = prefix ? strlen(prefix) : 0;
  if (found < 0 && length && !strncmp(name, prefix, length))
    found = ac_model_file_find(file, name + length);
  return found;
}

static ac_status check_in_file(const ac_model_file *file, int found, const ac_tensor *tensor,
                               const char *path) {
  if (found < 0) {
    const char *dtype = ac_model_file_dtype(file, tensor->name);
    if (!dtype) return ac_fail(AC_ERROR_FORMAT, "%s holds no tensor \"%s\"", path, tensor->name);
    return ac_fail(AC_ERROR_FORMAT, "%s: tensor \"%s\" cannot be read: its dtype is %s", path,
                   tensor->name, ac_quote(dtype).text);
  }
  const ac_model_tensor *there = ac_model_file_tensor(file, found);
  bool same = there->rank == tensor->shape.rank &&
              (there->dtype == AC_F32 || there->dtype == AC_F16 || there->dtype == AC_BF16);
  const bool more = same && tensor->desc.first_rows && there->shape[0] > tensor->shape.dim[0];
  for (int i = more; same && i < there->rank; i++) same = there->shape[i] == tensor->shape.dim[i];
  if (same) return AC_OK;
  char text[AC_SHAPE_TEXT];
  return ac_fail(AC_ERROR_FORMAT, "%s: tensor \"%s\" is not a float tensor of shape %s", path,
                 tensor->name, ac_shape_text(text, &tensor->shape));
}

/* Whether a list of patterns takes a name: one of them matches it, or there are none but those with
 * a `!`, and none of these does. */
static bool takes_name(const char *patterns, const char *name) {
  char pattern[AC_PATTERN_BYTES];
  bool taken = false, any = false;
  while (ac_pattern_next(&patterns, pattern)) {
    const bool out = pattern[0] == '!';
    const bool matches = ac_pattern_matches(pattern + out, name);
    if (out && matches) return false;
    any |= !out;
    taken |= !out && matches;
  }
  return taken || !any;
}

/* The parameters that a file is to hold; free `index`. */
typedef struct part {
  ac_instance *instance;
  int *index, count;
} part;

static ac_status take_part(part *p, ac_instance *instance, const char *pattern) {
  const int parameters = instance->plan->graph->parameter_count;
  *p = (part){.instance = instance, .index = malloc(((size_t)parameters + 1) * sizeof *p->index)};
  if (!p->index) return ac_fail(AC_ERROR_MEMORY, "no memory for a list of parameters");
  for (int i = 0; i < parameters; i++)
    if (!pattern || takes_name(pattern, parameter_tensor(instance, i)->name))
      p->index[p->count++] = i;
  if (p->count || !pattern) return AC_OK;
  free(p->index);
  return ac_fail(AC_ERROR_ARGUMENT, "no parameter's name matches \"%s\"", pattern);
}

/* Blocks of the same format go from the file as they are. */
static ac_status copy_blocks(const part *p, int index, ac_model_file *file, int found,
                             float *buffer) {
  const int64_t elements = ac_shape_count(&parameter_tensor(p->instance, index)->shape);
  const ac_instance *instance = ac_shared_owner(p->instance, &index);
  const ac_tensor *kept = blocks_of(instance, index);
  for (int64_t first = 0; first < elements; first += PIECE) {
    const int64_t count = ac_smaller(elements - first, PIECE);
    AC_TRY(ac_model_file_read_blocks(file, found, first, count, buffer));
    AC_TRY(instance->device->backend->upload(instance->device->state,
                                             instance->persistent[kept->id],
                                             (uint64_t)ac_blocks_bytes(kept->blocks, first), buffer,
                                             (uint64_t)ac_blocks_bytes(kept->blocks, count)));
  }
  return AC_OK;
}

static ac_status load_parameter(const part *p, int index, ac_model_file *file, int found,
                                float *buffer) {
  const int64_t elements = ac_shape_count(&parameter_tensor(p->instance, index)->shape);
  const ac_blocks blocks = parameter_tensor(p->instance, index)->desc.blocks;
  if (blocks && ac_model_file_blocks(file, found) == blocks)
    return copy_blocks(p, index, file, found, buffer);
  for (int64_t first = 0; first < elements; first += PIECE) {
    const int64_t count = elements - first < PIECE ? elements - first : PIECE;
    AC_TRY(ac_model_file_read(file, found, first, count, buffer));
    AC_TRY(ac_instance_write_parameter(p->instance, index, first, count, buffer));
  }
  return AC_OK;
}

static const char loaded_in_part[] = "a model was loaded in part only; load one again, or a state";

ac_status ac_instance_check_usable(const ac_instance *instance, const char *who) {
  if (!instance->unusable) return AC_OK;
  return ac_fail(AC_ERROR_STATE, "%s: %s", who, instance->unusable);
}

/* Once the first parameter may have changed. All of them make up for an earlier failure. */
static ac_status load_parameters(const part *p, ac_model_file *file, const char *prefix,
                                 float *buffer) {
  ac_instance *instance = p->instance;
  AC_TRY(ac_instance_settle(instance));
  const bool all = p->count == instance->plan->graph->parameter_count;
  ac_status status = AC_OK;
  for (int i = 0; i < p->count && status == AC_OK; i++) {
    const char *name = parameter_tensor(instance, p->index[i])->name;
    status = load_parameter(p, p->index[i], file, find_in_file(file, name, prefix), buffer);
  }
  if (status != AC_OK && !instance->unusable) instance->unusable = loaded_in_part;
  if (status == AC_OK && all && instance->unusable == loaded_in_part) instance->unusable = NULL;
  return status;
}

/* Everything is checked before the first parameter changes. */
static ac_status load_part(const part *p, ac_model_file *file, const char *path,
                           const char *prefix) {
  for (int i = 0; i < p->count; i++) {
    const ac_tensor *tensor = parameter_tensor(p->instance, p->index[i]);
    AC_TRY(check_in_file(file, find_in_file(file, tensor->name, prefix), tensor, path));
  }
  float *buffer = malloc(PIECE * sizeof *buffer);
  ac_status status = buffer ? load_parameters(p, file, prefix, buffer)
                            : ac_fail(AC_ERROR_MEMORY, "no memory to load %s", path);
  free(buffer);
  return status;
}

ac_status ac_graph_check_file(const ac_graph *graph, const ac_model_file *file,
                              const char *prefix) {
  for (int i = 0; i < graph->parameter_count; i++) {
    const ac_tensor *tensor = ac_tensor_at(graph, graph->parameters[i]);
    AC_TRY(check_in_file(file, find_in_file(file, tensor->name, prefix), tensor,
                         ac_model_file_path(file)));
  }
  return AC_OK;
}

ac_status ac_instance_load_from(ac_instance *instance, ac_model_file *file, const char *prefix,
                                bool (*takes)(void *user, const char *name), void *user) {
  part p;
  AC_TRY(take_part(&p, instance, NULL));
  int kept = 0;
  for (int i = 0; i < p.count; i++)
    if (takes(user, parameter_tensor(instance, p.index[i])->name)) p.index[kept++] = p.index[i];
  p.count = kept;
  const ac_status status = load_part(&p, file, ac_model_file_path(file), prefix);
  free(p.index);
  return status;
}

ac_status ac_instance_load(ac_instance *instance, const char *path, const char *pattern,
                           const char *prefix) {
  part p;
  AC_TRY(take_part(&p, instance, pattern));
  ac_model_file *file;
  ac_status status = ac_model_file_open(&file, path);
  if (status == AC_OK) {
    status = load_part(&p, file, path, prefix);
    ac_model_file_close(file);
  }
  free(p.index);
  return status;
}

ac_status ac_instance_check_finite(ac_instance *instance, const char *who) {
  float piece[8192];
  const int64_t most = sizeof piece / sizeof *piece;
  if (instance->device->backend->computes_nothing) return AC_OK;
  for (int i = 0; i < instance->plan->graph->parameter_count; i++) {
    const ac_tensor *tensor = parameter_tensor(instance, i);
    const int64_t all = ac_shape_count(&tensor->shape);
    for (int64_t first = 0; first < all; first += most) {
      const int64_t count = all - first < most ? all - first : most;
      AC_TRY(ac_instance_read_parameter(instance, i, first, count, piece));
      const int64_t bad = ac_first_not_finite(AC_F32, piece, count);
      if (bad >= 0)
        return ac_fail(AC_ERROR_NOT_FINITE, "%s: element %lld of parameter %s is not finite", who,
                       (long long)(first + bad), tensor->name);
    }
  }
  return AC_OK;
}

static ac_status read_parameter(void *user, int index, int64_t first, int64_t count, void *data) {
  const part *p = user;
  return ac_instance_read_parameter(p->instance, p->index[index], first, count, data);
}

ac_status ac_instance_save(ac_instance *instance, const char *path, const char *pattern,
                           const ac_metadata *metadata, int metadata_count) {
  part p;
  AC_TRY(take_part(&p, instance, pattern));
  ac_model_tensor *tensors = calloc((size_t)p.count + 1, sizeof *tensors);
  bool *finite = calloc((size_t)p.count + 1, sizeof *finite);
  const ac_write_rules rules = {.finite = finite};
  for (int i = 0; tensors && finite && i < p.count; i++) {
    const ac_tensor *tensor = parameter_tensor(instance, p.index[i]);
    finite[i] = !instance->device->backend->computes_nothing;
    tensors[i] = (ac_model_tensor){tensor->name, AC_F32, tensor->shape.rank, {0}};
    for (int k = 0; k < tensor->shape.rank; k++) tensors[i].shape[k] = tensor->shape.dim[k];
  }
  ac_status status = tensors && finite
                         ? ac_model_file_write_by(&rules, path, tensors, p.count, metadata,
                                                  metadata_count, read_parameter, &p)
                         : ac_fail(AC_ERROR_MEMORY, "no memory to save %s", path);
  free(tensors);
  free(finite);
  free(p.index);
  return status;
}

/* ---- elements of cells ----------------------------------------------------------------------- */

ac_status ac_instance_read_elements(const ac_instance *instance, const ac_cell *cell, int64_t first,
                                    int64_t count, void *data) {
  const uint64_t size = ac_dtype_bytes(cell->dtype);
  return ac_instance_read_cell(instance, cell, (uint64_t)first * size, data,
                               (uint64_t)count * size);
}

ac_status ac_instance_write_elements(ac_instance *instance, const ac_cell *cell, int64_t first,
                                     int64_t count, const void *data) {
  if (cell->role == AC_ROLE_PARAMETER && cell->dtype == AC_F32)
    return ac_instance_write_parameter(instance, cell->owner, first, count, data);
  if (cell->role == AC_ROLE_WORKING && cell->space == AC_SPACE_SHARED)
    return ac_shared_write_copy(instance, cell, first, count, data);
  const uint64_t size = ac_dtype_bytes(cell->dtype);
  return ac_instance_write_cell(instance, cell, (uint64_t)first * size, data,
                                (uint64_t)count * size);
}
