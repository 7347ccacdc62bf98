/* A model as a GGUF file. What the caller has not changed, and is stored as it will be, is copied
 * as bytes. All else is read as Hugging Face has it, arranged as llama.cpp has it
 * (src/io/arranged.c is the reverse), and rounded by the writer. Nothing but a piece is held, or a
 * matrix that has to be transposed. */
#include "export/export.h"

#include "core/error.h"
#include "core/quote.h"
#include "io/opened.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct writing {
  ac_model *model;
  const ac_export_desc *desc;
  ac_export_tensor *from;
  ac_gguf_tensor *to;
  int count;
  float *frequencies; /* divisors of Llama 3's rotary positions; NULL: there are none */
  float *matrix;      /* that is being transposed, in the order of the file */
  int held;           /* its tensor; -1: none */
} writing;

/* ---- how a tensor is stored ------------------------------------------------------------------ */

static bool is_transposed(const writing *w, const ac_export_tensor *t) {
  return w->model->config.family->in_out && t->rank == 2 && t->part >= AC_PART_FIRST_OF_BLOCK &&
         t->part < AC_PARTS;
}

/* ggml's number of the storage of a tensor in the model's file. */
static ac_ggml_type type_in_file(const ac_tensor_entry *entry) {
  static const ac_ggml_type blocks[] = {AC_GGML_Q4_0, AC_GGML_Q4_1, AC_GGML_Q5_0, AC_GGML_Q5_1,
                                        AC_GGML_Q8_0, AC_GGML_Q4_K, AC_GGML_Q5_K, AC_GGML_Q6_K};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
    if (entry->storage == AC_STORED_BLOCKS && ac_block_format_of(blocks[i]) == entry->blocks)
      return blocks[i];
  return entry->storage == AC_STORED_F16    ? AC_GGML_F16
         : entry->storage == AC_STORED_BF16 ? AC_GGML_BF16
                                            : AC_GGML_F32;
}

static const ac_tensor_entry *entry_of(const writing *w, const ac_export_tensor *t) {
  return t->index < 0 ? NULL : &w->model->weights->entries[t->index];
}

/* As the file has it, or the nearest to that into which floats are rounded here. */
static ac_ggml_type type_as_it_is(const writing *w, const ac_export_tensor *t, bool matrix) {
  const ac_tensor_entry *entry = entry_of(w, t);
  const bool gguf = !w->model->folder;
  if (!entry || (!gguf && !matrix)) return AC_GGML_F32;
  const ac_ggml_type type = type_in_file(entry);
  const ac_block_format *blocks = ac_block_format_of((uint32_t)type);
  return blocks && !blocks->encode && t->changed ? AC_GGML_Q8_0 : type;
}

static ac_ggml_type type_of(const writing *w, const ac_export_tensor *t, int64_t row) {
  const bool matrix = t->rank == 2 && t->part != AC_PART_POSITIONS;
  const ac_export_storage storage = w->desc->storage;
  if (storage == AC_EXPORT_AS_IT_IS) return type_as_it_is(w, t, matrix);
  if (!matrix || storage == AC_EXPORT_F32) return AC_GGML_F32;
  if (storage == AC_EXPORT_BF16) return AC_GGML_BF16;
  if (storage == AC_EXPORT_F16 || row % 32) return AC_GGML_F16;
  const bool end = t->part == AC_PART_EMBEDDING || t->part == AC_PART_HEAD;
  return storage == AC_EXPORT_Q4_0 && !end ? AC_GGML_Q4_0 : AC_GGML_Q8_0;
}

/* Bytes of the file are those that will be written. */
static bool is_copied(const writing *w, const ac_export_tensor *t, ac_ggml_type type) {
  const ac_tensor_entry *entry = entry_of(w, t);
  if (w->model->folder || t->changed || !entry) return false;
  return type_in_file(entry) == type && entry->storage != AC_STORED_F64;
}

static ac_status describe(const writing *w, const ac_export_tensor *t, ac_gguf_tensor *to) {
  if (t->rank < 1 || t->rank > 4)
    return ac_fail(AC_ERROR_UNSUPPORTED, "%s: %s has %d dimensions, a GGUF file 1 to 4",
                   w->model->path, ac_quote(t->name).text, t->rank);
  *to = (ac_gguf_tensor){.name = t->gguf, .rank = t->rank};
  for (int d = 0; d < t->rank; d++)
    to->shape[d] = t->shape[is_transposed(w, t) ? t->rank - 1 - d : d];
  to->type = type_of(w, t, to->shape[to->rank - 1]);
  to->stored = is_copied(w, t, to->type);
  return AC_OK;
}

/* ---- elements -------------------------------------------------------------------------------- */

/* In bytes of the file. Its tensors are whole blocks. */
static ac_status copy(const writing *w, const ac_export_tensor *t, int64_t first, int64_t count,
                      void *data) {
  const ac_tensor_entry *entry = entry_of(w, t);
  const int64_t elements = ac_export_elements(t), bytes = entry->end - entry->begin;
  const int64_t size = entry->blocks ? entry->blocks->elements : 1;
  const int64_t each = bytes / (elements / size);
  return ac_read_bytes(w->model->weights, entry, first / size * each, count / size * each, data);
}

static ac_status read_permuted(const writing *w, const ac_export_tensor *t, int64_t first,
                               int64_t count, float *data) {
  const int64_t columns = ac_export_elements(t) / t->shape[0];
  for (int64_t done = 0; done < count;) {
    const int64_t row = (first + done) / columns, column = (first + done) % columns;
    const int64_t piece = count - done < columns - column ? count - done : columns - column;
    const int64_t from = ac_export_permuted_row(w->model, row);
    AC_TRY(ac_export_read(w->model, w->desc, t, from * columns + column, piece, data + done));
    done += piece;
  }
  return AC_OK;
}

static ac_status hold_transposed(writing *w, int index) {
  enum { ROWS = 64 };
  const ac_export_tensor *t = &w->from[index];
  const int64_t rows = t->shape[0], columns = t->shape[1];
  free(w->matrix);
  w->held = -1;
  w->matrix = malloc((size_t)(rows * columns) * sizeof *w->matrix);
  float *piece = malloc((size_t)(ROWS * columns) * sizeof *piece);
  ac_status status = w->matrix && piece
                         ? AC_OK
                         : ac_fail(AC_ERROR_MEMORY, "%s: no memory for a matrix", w->model->path);
  for (int64_t first = 0; first < rows && status == AC_OK; first += ROWS) {
    const int64_t count = rows - first < ROWS ? rows - first : ROWS;
    status = ac_export_read(w->model, w->desc, t, first * columns, count * columns, piece);
    for (int64_t r = 0; r < count && status == AC_OK; r++)
      for (int64_t c = 0; c < columns; c++)
        w->matrix[c * rows + first + r] = piece[r * columns + c];
  }
  free(piece);
  if (status == AC_OK) w->held = index;
  return status;
}

static ac_status give(void *user, int index, int64_t first, int64_t count, void *data) {
  writing *w = user;
  if (index == w->count) { /* the one after the model's own */
    memcpy(data, w->frequencies + first, (size_t)count * sizeof *w->frequencies);
    return AC_OK;
  }
  const ac_export_tensor *t = &w->from[index];
  if (w->to[index].stored) return copy(w, t, first, count, data);
  if (is_transposed(w, t)) {
    if (w->held != index) AC_TRY(hold_transposed(w, index));
    memcpy(data, w->matrix + first, (size_t)count * sizeof *w->matrix);
    return AC_OK;
  }
  AC_TRY(ac_export_is_permuted(w->model, t)
             ? read_permuted(w, t, first, count, data)
             : ac_export_read(w->model, w->desc, t, first, count, data));
  const bool plus_one = w->model->config.family->norm == AC_MODEL_NORM_RMS_PLUS_ONE && t->weight &&
                        t->part < AC_PARTS && ac_part_is_norm(t->part);
  for (int64_t i = 0; plus_one && i < count; i++) ((float *)data)[i] += 1;
  return AC_OK;
}

/* ---- which tensors --------------------------------------------------------------------------- */

/* Llama 3's scaling: what each frequency is divided by. */
static ac_status make_frequencies(writing *w) {
  const ac_model_config *c = &w->model->config;
  const int64_t count = c->rope.dimensions / 2;
  const double positions = (double)c->rope.original_positions, low = c->rope.low_freq_factor,
               high = c->rope.high_freq_factor;
  w->frequencies = malloc((size_t)(count + 1) * sizeof *w->frequencies);
  if (!w->frequencies)
    return ac_fail(AC_ERROR_MEMORY, "%s: no memory for frequencies", w->model->path);
  for (int64_t i = 0; i < count; i++) {
    const double length =
        6.283185307179586 * pow(c->rope.base, 2.0 * (double)i / (double)c->rope.dimensions);
    const double smooth = (positions / length - low) / (high - low);
    const double share = smooth < 0 ? 0 : smooth > 1 ? 1 : smooth;
    w->frequencies[i] = (float)(1 / ((1 - share) / c->rope.factor + share));
  }
  w->to[w->count] = (ac_gguf_tensor){
      .name = "rope_freqs.weight", .type = AC_GGML_F32, .rank = 1, .shape = {count}};
  return AC_OK;
}

/* A tensor that only the file has is taken over. */
static bool is_extra(const writing *w, int index) {
  const ac_tensor_entry *entry = &w->model->weights->entries[index];
  if (entry->storage == AC_STORED_OTHER || entry->storage == AC_STORED_F64) return false;
  for (int i = 0; i < w->count; i++)
    if (w->from[i].index == index) return false;
  return true;
}

static ac_status add_extras(writing *w) {
  const int most = w->count + ac_model_file_tensor_count(w->model->weights);
  ac_export_tensor *all = realloc(w->from, ((size_t)most + 1) * sizeof *all);
  if (!all) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its tensors", w->model->path);
  w->from = all;
  for (int i = 0; i < ac_model_file_tensor_count(w->model->weights); i++) {
    const ac_model_tensor *tensor = ac_model_file_tensor(w->model->weights, i);
    if (strcmp(tensor->name, "rope_freqs.weight") != 0 || !is_extra(w, i)) continue;
    ac_export_tensor *t = &all[w->count++];
    *t = (ac_export_tensor){.part = AC_PARTS, .index = i, .rank = tensor->rank};
    memcpy(t->shape, tensor->shape, sizeof t->shape);
    snprintf(t->name, sizeof t->name, "%s", tensor->name);
    snprintf(t->gguf, sizeof t->gguf, "%s", tensor->name);
  }
  return AC_OK;
}

static int by_index(const void *a, const void *b) {
  const ac_export_tensor *x = a, *y = b;
  return (x->index > y->index) - (x->index < y->index);
}

static ac_status describe_all(writing *w, int *count) {
  AC_TRY(ac_export_tensors(&w->from, &w->count, w->model, w->desc));
  if (!w->model->folder) {
    AC_TRY(add_extras(w));
    qsort(w->from, (size_t)w->count, sizeof *w->from, by_index); /* as in that file */
  }
  w->to = calloc((size_t)w->count + 1, sizeof *w->to);
  if (!w->to) return ac_fail(AC_ERROR_MEMORY, "%s: no memory for its tensors", w->model->path);
  for (int i = 0; i < w->count; i++) AC_TRY(describe(w, &w->from[i], &w->to[i]));
  *count = w->count;
  if (w->model->folder && w->model->config.rope.scaling == AC_ROPE_LLAMA3) {
    AC_TRY(make_frequencies(w));
    *count += 1;
  }
  return AC_OK;
}

/* ---- metadata -------------------------------------------------------------------------------- */

/* llama.cpp's number for what most of the file is stored as. */
static void add_file_type(ac_values *values, const writing *w) {
  static const struct {
    ac_ggml_type type;
    int number;
  } numbers[] = {{AC_GGML_F32, 0},  {AC_GGML_F16, 1},  {AC_GGML_BF16, 32},
                 {AC_GGML_Q8_0, 7}, {AC_GGML_Q4_0, 2}, {AC_GGML_Q4_1, 3}};
  int64_t most = -1;
  int number = 0;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    int64_t elements = 0;
    for (int k = 0; k < w->count; k++)
      if (w->to[k].type == numbers[i].type) elements += ac_export_elements(&w->from[k]);
    if (elements > most) most = elements, number = numbers[i].number;
  }
  ac_values_add_u32(values, "general.file_type", number);
  ac_values_add_u32(values, "general.quantization_version", 2);
}

/* The folder's own name, as general.name. */
static void add_name(ac_values *values, const ac_model *model) {
  char name[256];
  size_t end = strlen(model->folder);
  while (end > 1 && model->folder[end - 1] == '/') end--;
  size_t begin = end;
  while (begin > 0 && model->folder[begin - 1] != '/') begin--;
  snprintf(name, sizeof name, "%.*s", (int)(end - begin), model->folder + begin);
  if (*name && strcmp(name, ".") != 0 && strcmp(name, "..") != 0)
    ac_values_add_text(values, "general.name", name);
}

static ac_status carry_values(ac_values *values, const ac_gguf_metadata *metadata) {
  for (int i = 0; i < ac_gguf_metadata_count(metadata); i++) {
    const ac_gguf_value *value = ac_gguf_metadata_at(metadata, i);
    ac_values_add(values, value->key, value->type, value->array, value->count, value->data);
  }
  return AC_OK;
}

static ac_status make_values(ac_values *values, const writing *w,
                             const ac_gguf_metadata *metadata) {
  if (metadata) {
    AC_TRY(carry_values(values, metadata));
    if (w->desc->storage != AC_EXPORT_AS_IT_IS) add_file_type(values, w);
  } else {
    AC_TRY(ac_export_config_values(values, &w->model->config));
    add_name(values, w->model);
    add_file_type(values, w);
    AC_TRY(ac_export_tokenizer_values(values, w->model));
  }
  if (!values->failed) return AC_OK;
  return ac_fail(AC_ERROR_MEMORY, "%s: no memory for metadata", w->model->path);
}

static ac_status write_all(writing *w, const char *path) {
  ac_values values = {.count = 0};
  ac_gguf_metadata *metadata = NULL;
  int count = 0;
  ac_status status = describe_all(w, &count);
  if (status == AC_OK && !w->model->folder)
    status = ac_gguf_metadata_open(&metadata, w->model->path);
  if (status == AC_OK) status = make_values(&values, w, metadata);
  if (status == AC_OK)
    status = ac_gguf_write(path, w->to, count, values.list, values.count, give, w);
  ac_values_free(&values);
  ac_gguf_metadata_close(metadata);
  return status;
}

ac_status ac_model_export_gguf(ac_model *model, const char *path, const ac_export_desc *desc) {
  AC_REQUIRE(model, path);
  const ac_export_desc d = AC_DESCRIBED(ac_export_desc, desc);
  if ((unsigned)d.storage > AC_EXPORT_Q4_0)
    return ac_fail(AC_ERROR_ARGUMENT, "ac_model_export_gguf: unknown storage %d", (int)d.storage);
  if (!ac_export_architecture(model->config.family))
    return ac_fail(AC_ERROR_UNSUPPORTED,
                   "%s: this library does not write models of the family %s as GGUF files",
                   model->path, model->config.family->name);
  writing w = {.model = model, .desc = &d, .held = -1};
  const ac_status status = write_all(&w, path);
  free(w.from);
  free(w.to);
  free(w.frequencies);
  free(w.matrix);
  return status;
}
