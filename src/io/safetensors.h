/* What the reader and the writer of safetensors files share. A file is
 *
 *   8 bytes         N, little-endian
 *   N bytes         a JSON object, padded with spaces:
 *                   {"__metadata__": {KEY: TEXT, ...},
 *                    NAME: {"dtype": "F32", "shape": [2, 3], "data_offsets": [BEGIN, END]}, ...}
 *   the rest        the tensors' elements, little-endian, row-major, without holes;
 *                   offsets count from here */
#ifndef AC_IO_SAFETENSORS_H
#define AC_IO_SAFETENSORS_H

#include <accrue/model_file.h>

#include "core/quote.h"

#define AC_SAFETENSORS_METADATA "__metadata__"

enum {
  AC_SAFETENSORS_MAX_HEADER = 100000000, /* bytes; the format's own limit */
  AC_SAFETENSORS_MAX_RANK = 8
};

/* Elements of `size` bytes from the machine's order to the file's, or back, in place. */
void ac_swap_to_little_endian(void *data, size_t count, size_t size);

/* What ac_model_file_write_by does in addition to ac_model_file_write. */
typedef struct ac_write_rules {
  bool checksums; /* of all that is written (checksum.h) */
  /* For each tensor: all its floats must be finite. NULL: no tensor is checked. At the first value
   * that is not finite, writing fails with AC_ERROR_NOT_FINITE, and what was at the path stays. */
  const bool *finite;
} ac_write_rules;
ac_status ac_model_file_write_by(const ac_write_rules *rules, const char *path,
                                 const ac_model_tensor *tensors, int tensor_count,
                                 const ac_metadata *metadata, int metadata_count,
                                 ac_model_source source, void *user);

/* The first of these values, of f32, f16 or bf16 in the machine's order, that is not finite; -1:
 * none, or of another dtype. */
int64_t ac_first_not_finite(ac_dtype dtype, const void *data, int64_t count);

/* Reads the whole file. Fails with AC_ERROR_FORMAT where it has no checksums, does not come to
 * them, or holds a tensor that ac_model_file_read_stored cannot read: in f64, or of a dtype that is
 * not listed. */
ac_status ac_model_file_verify(ac_model_file *file);

/* The path that the file was opened by. */
const char *ac_model_file_path(const ac_model_file *file);

/* The dtype that the file names for a tensor, also for one that is not listed; NULL: none. */
const char *ac_model_file_dtype(const ac_model_file *file, const char *name);

/* Elements [first, first + count) of a tensor of any dtype, as they are stored. */
ac_status ac_model_file_read_stored(ac_model_file *file, int index, int64_t first, int64_t count,
                                    void *data);

#endif
