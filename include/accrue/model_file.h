/* Model files in the safetensors format: weights by name, configuration as string metadata. A file
 * is written beside its target, synced and renamed over it, so the old one survives any failure. */
#ifndef ACCRUE_MODEL_FILE_H
#define ACCRUE_MODEL_FILE_H

#include <accrue/base.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ac_model_tensor {
  const char *name;
  ac_dtype dtype;
  int rank;
  int64_t shape[8];
} ac_model_tensor;

typedef struct ac_metadata {
  const char *key, *value;
} ac_metadata;

/* ---- writing --------------------------------------------------------------------------------- */

/* Copies tensor `index`'s elements [first, first + count) to `data`: a writer pulls its data in
 * pieces, so no second copy of the model is needed. */
typedef ac_status (*ac_model_source)(void *user, int index, int64_t first, int64_t count,
                                     void *data);

/* Writes the tensors in the given order. Names are unique UTF-8; a shape may be empty (rank 0: one
 * element) or hold zeros. On any failure (a disk that fills, a source that fails: its status is
 * returned) what was at `path` is untouched and nothing else is left behind. A symbolic link there
 * is followed; a folder, a pipe, a socket or a device is refused with AC_ERROR_IO. */
AC_API ac_status ac_model_file_write(const char *path, const ac_model_tensor *tensors,
                                     int tensor_count, const ac_metadata *metadata,
                                     int metadata_count, ac_model_source source, void *user);

/* ---- reading --------------------------------------------------------------------------------- */

typedef struct ac_model_file ac_model_file;

/* Reads and checks the whole header: lengths, dtypes, shapes against byte counts, offsets in range,
 * without holes or overlaps, no duplicate names. Fails with AC_ERROR_FORMAT and what is wrong; a
 * file of another format is called by its name, and a pipe is refused. Tensors of dtypes that
 * Accrue has no use for (int64 masks, say) or does not know, and those of more than 8 dimensions,
 * are checked as far as that goes and skipped; f64 is listed and read as f32. The tensors come in
 * the order of their data. */
AC_API ac_status ac_model_file_open(ac_model_file **file, const char *path);
AC_API void ac_model_file_close(ac_model_file *file);

AC_API int ac_model_file_tensor_count(const ac_model_file *file);
AC_API const ac_model_tensor *ac_model_file_tensor(const ac_model_file *file, int index);
AC_API int ac_model_file_find(const ac_model_file *file, const char *name); /* -1: not there */
AC_API const char *ac_model_file_metadata(const ac_model_file *file, const char *key); /* or NULL */

/* Elements [first, first + count) of a float tensor, converted to f32. */
AC_API ac_status ac_model_file_read(ac_model_file *file, int index, int64_t first, int64_t count,
                                    float *data);

#ifdef __cplusplus
}
#endif
#endif
