/* What writers of models share: lists of typed GGUF metadata, rows of a model in the order of
 * llama.cpp, and the names of parts there. */
#ifndef AC_EXPORT_EXPORT_H
#define AC_EXPORT_EXPORT_H

#include <accrue/export.h>
#include <accrue/gguf.h>

#include "model/model.h"

/* ---- metadata that are being made ------------------------------------------------------------ */

/* A list of values, with all that they point to. */
typedef struct ac_values {
  ac_gguf_value *list;
  int count, capacity;
  void **owned;
  size_t owned_count, owned_capacity;
  bool failed; /* there was no memory; later additions do nothing */
} ac_values;

void ac_values_free(ac_values *values);
/* `size` bytes that live as long as the list; NULL: no memory, which is remembered. */
void *ac_values_room(ac_values *values, size_t size);
/* A copy of a text that lives as long as the list. */
const char *ac_values_text(ac_values *values, const char *text);
/* Adds a value, or puts it in the place of one with this key; keys and elements are copied, texts
 * are not. */
void ac_values_add(ac_values *values, const char *key, ac_gguf_type type, bool array, int64_t count,
                   const void *data);
void ac_values_add_text(ac_values *values, const char *key, const char *text);
void ac_values_add_u32(ac_values *values, const char *key, int64_t value);
void ac_values_add_f32(ac_values *values, const char *key, double value);
void ac_values_add_bool(ac_values *values, const char *key, bool value);

/* ---- from a configuration -------------------------------------------------------------------- */

/* llama.cpp's name of a family; NULL: it has none. */
const char *ac_export_architecture(const ac_family *family);
/* ARCHITECTURE.block_count and so on. Fails where llama.cpp's form cannot say what the model is. */
ac_status ac_export_config_values(ac_values *values, const ac_model_config *config);
/* Its begin and ends as a generation_config.json. */
ac_status ac_export_generation_json(json_t **json, const ac_model_config *config);
/* The configuration as a config.json. */
ac_status ac_export_config_json(json_t **json, const ac_model_config *config, ac_dtype dtype);

/* ---- tokenizers ------------------------------------------------------------------------------ */

/* The values of tokenizer.ggml.* for the files in the model's folder. */
ac_status ac_export_tokenizer_values(ac_values *values, ac_model *model);

/* ---- files of a folder ----------------------------------------------------------------------- */

/* FOLDER/NAME; free() frees it. */
ac_status ac_export_path(char **path, const char *folder, const char *name);
/* *json is NULL if there is no such file in the folder. */
ac_status ac_export_read_json(json_t **json, const char *folder, const char *name);

/* ---- tensors --------------------------------------------------------------------------------- */

/* A tensor on its way to a file. */
typedef struct ac_export_tensor {
  char name[AC_PART_NAME + 16]; /* Hugging Face's */
  char gguf[AC_PART_NAME];
  ac_model_part part; /* AC_PARTS: of none, in a GGUF file alone */
  bool weight;        /* not a bias */
  int index;          /* in the model's weights */
  int rank;           /* as Hugging Face has it */
  int64_t shape[8];
  bool changed; /* the caller's function gives its elements */
} ac_export_tensor;

/* All parameters, in the order of the graph; free() frees them. */
ac_status ac_export_tensors(ac_export_tensor **tensors, int *count, ac_model *model,
                            const ac_export_desc *desc);
/* The parameter of this name; false: the model has none. */
bool ac_export_find(const ac_model *model, const char *name, ac_export_tensor *tensor);
/* Whether llama.cpp has the rows of its heads in another order, and the row of Hugging Face's that
 * is its row `row`: row r of a head is row (r % 2) D / 2 + r / 2. */
bool ac_export_is_permuted(const ac_model *model, const ac_export_tensor *tensor);
int64_t ac_export_permuted_row(const ac_model *model, int64_t row);
/* Elements [first, first + count) as Hugging Face has them. */
ac_status ac_export_read(ac_model *model, const ac_export_desc *desc,
                         const ac_export_tensor *tensor, int64_t first, int64_t count, float *data);
int64_t ac_export_elements(const ac_export_tensor *tensor);

#endif
